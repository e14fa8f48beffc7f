-- Four analysts, each with questions of their own about the same posts.

-- anna: complaints, by language
CREATE VIEW complaints_de TBLPROPERTIES (owner = 'anna') AS
  SELECT id, shop, text FROM posts WHERE stars <= 2 AND language(text) = 'de' AND text RLIKE '(?i)kaputt|defekt|geld zurück';
CREATE VIEW complaints_fr TBLPROPERTIES (owner = 'anna') AS
  SELECT id, shop, text FROM posts WHERE stars <= 2 AND language(text) = 'fr' AND text RLIKE '(?i)cassé|défectueux|rembours';
CREATE VIEW complaints_es TBLPROPERTIES (owner = 'anna') AS
  SELECT id, shop, text FROM posts WHERE stars <= 2 AND language(text) = 'es' AND text RLIKE '(?i)roto|defectuoso|reembolso';
CREATE VIEW complaints_en TBLPROPERTIES (owner = 'anna') AS
  SELECT id, shop, text FROM posts WHERE stars <= 2 AND language(text) = 'en' AND text RLIKE '(?i)broken|faulty|refund';

-- ben: who should answer what
CREATE VIEW to_answer_de TBLPROPERTIES (owner = 'ben') AS
  SELECT id, text FROM posts WHERE text RLIKE '[?]' AND language(text) = 'de';
CREATE VIEW to_answer_fr TBLPROPERTIES (owner = 'ben') AS
  SELECT id, text FROM posts WHERE text RLIKE '[?]' AND language(text) = 'fr';
CREATE VIEW to_answer_it TBLPROPERTIES (owner = 'ben') AS
  SELECT id, text FROM posts WHERE text RLIKE '[?]' AND language(text) = 'it';
CREATE VIEW nobody_knows TBLPROPERTIES (owner = 'ben') AS
  SELECT id, text FROM posts WHERE language(text) NOT IN ('de', 'fr', 'es', 'en', 'it', 'nl', 'pt') AND text RLIKE '[?]';

-- carla: praise worth printing
CREATE VIEW praise_de TBLPROPERTIES (owner = 'carla') AS
  SELECT id, shop, text FROM posts WHERE stars = 5 AND language(text) = 'de' AND certainty(text) > 0.9;
CREATE VIEW praise_en TBLPROPERTIES (owner = 'carla') AS
  SELECT id, shop, text FROM posts WHERE stars = 5 AND language(text) = 'en' AND certainty(text) > 0.9;
CREATE VIEW praise_nl TBLPROPERTIES (owner = 'carla') AS
  SELECT id, shop, text FROM posts WHERE stars = 5 AND language(text) = 'nl' AND certainty(text) > 0.9;

-- dirk: what the model is unsure of
CREATE VIEW unsure TBLPROPERTIES (owner = 'dirk') AS
  SELECT id, language(text) AS guess, text FROM posts WHERE certainty(text) < 0.6;
CREATE VIEW unsure_links TBLPROPERTIES (owner = 'dirk') AS
  SELECT id, language(text) AS guess, text FROM posts WHERE certainty(text) < 0.9 AND text RLIKE 'https?://';
CREATE VIEW short_praise TBLPROPERTIES (owner = 'dirk') AS
  SELECT id, text FROM posts WHERE stars >= 4 AND length(text) < 25 AND certainty(text) < 0.9;
