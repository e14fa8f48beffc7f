-- Rules are ordinary Spark DDL: a view is a standing query.

CREATE OR REPLACE VIEW cheap_tech AS
  SELECT sym, price FROM trades WHERE sector = 'TECH' AND price < 2;

CREATE OR REPLACE VIEW block_trade TBLPROPERTIES (owner = 'desk') AS
  SELECT sym, venue, qty, price * qty AS worth FROM trades WHERE qty > 19900;

CREATE OR REPLACE VIEW no_venue AS
  SELECT sym, ts FROM trades WHERE venue IS NULL AND sector IN ('BANK', 'FUEL');
