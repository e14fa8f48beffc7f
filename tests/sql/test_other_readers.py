"""Rule files are ordinary Spark SQL: another reader of that dialect finds the same clauses in them."""

from __future__ import annotations

import pytest

from eddyline.sql import parse_statements

sqlglot = pytest.importorskip("sqlglot")

RULES = """
CREATE TABLE trades (sym STRING, sector STRING, price DOUBLE, ts TIMESTAMP) USING kafka OPTIONS (subscribe 'trades')
  TBLPROPERTIES (format='json', time='ts', lateness='5 seconds');
CREATE OR REPLACE VIEW cheap TBLPROPERTIES (per='sym', cooldown='5 minutes', deliver='ops') AS
  SELECT sym, price FROM trades WHERE sector = 'TECH' AND price < 10;
SELECT t.*, q.bid FROM trades t JOIN quotes q ON t.sym = q.sym WHERE t.price < q.bid;
SELECT device, max(ts) AS seen FROM readings GROUP BY device HAVING max(ts) < now() - INTERVAL 10 MINUTES;
SELECT payload:a.b AS c FROM raw WHERE payload:kind = 'x' AND id IN (1, 2, 3);
ALTER VIEW cheap AS SELECT sym FROM trades;
DROP VIEW IF EXISTS cheap
"""


def test_another_reader_finds_the_same_statements() -> None:
    ours = [type(s).__name__ for s in parse_statements(RULES)]
    theirs = [type(s).__name__ for s in sqlglot.parse(RULES, read="databricks")]
    assert ours == ["CreateStream", "CreateView", "Select", "Select", "Select", "AlterView", "Drop"]
    assert theirs == ["Create", "Create", "Select", "Select", "Select", "Alter", "Drop"]
