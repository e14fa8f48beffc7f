"""No hint leads into a dead end: what a refusal proposes, written out for the refused text, registers and gives results."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

import eddyline
from eddyline.errors import EddylineError, NotBuiltError

DECLARED = """
    CREATE TABLE trades (id INT, sym STRING, price DOUBLE, qty INT, tags ARRAY<STRING>, ts TIMESTAMP)
      TBLPROPERTIES (time = 'ts', lateness = '5 seconds');
    CREATE TABLE news (sym STRING, head STRING, ts TIMESTAMP) TBLPROPERTIES (time = 'ts');
    CREATE TABLE quotes (sym STRING PRIMARY KEY, bid DOUBLE, ts TIMESTAMP) TBLPROPERTIES (time = 'ts');
    CREATE TABLE marks (sym STRING PRIMARY KEY, mark INT)
"""
NEAR = "n.ts BETWEEN t.ts AND t.ts + INTERVAL 10 MINUTES"
# a text that is refused, what its hint says, and that way in full
WAYS: list[tuple[str, str, list[str]]] = [
    ("SELECT sym FROM trades UNION SELECT sym FROM news", "UNION ALL",
     ["SELECT sym FROM trades UNION ALL SELECT sym FROM news"]),
    ("SELECT sym FROM quotes UNION ALL SELECT sym FROM news", "one query for each kind",
     ["SELECT sym FROM quotes", "SELECT sym FROM news"]),
    ("SELECT sym FROM trades UNION ALL SELECT price FROM trades", "CAST(… AS STRING)",
     ["SELECT sym FROM trades UNION ALL SELECT CAST(price AS STRING) FROM trades"]),
    ("SELECT sym FROM trades UNION ALL SELECT sym, qty FROM trades", "NULL can stand for one that a part does not have",
     ["SELECT sym, NULL AS qty FROM trades UNION ALL SELECT sym, qty FROM trades"]),
    ("SELECT sym FROM trades WHERE qty > 1 INTERSECT SELECT sym FROM trades WHERE price > 1", "with AND",
     ["SELECT sym FROM trades WHERE qty > 1 AND price > 1"]),
    ("SELECT sym FROM trades EXCEPT SELECT sym FROM news", "LEFT ANTI JOIN",
     ["SELECT sym FROM trades WHERE qty > 1 AND NOT price > 1",
      f"SELECT t.sym FROM trades t LEFT ANTI JOIN news n ON t.sym = n.sym AND {NEAR}"]),
    ("SELECT sym FROM trades LATERAL VIEW explode(tags) t AS tag", "exists(tags, t -> t = 'a')",
     ["SELECT sym FROM trades WHERE exists(tags, t -> t = 'a')"]),
    ("SELECT explode(tags) AS tag FROM trades", "exists(tags, t -> t = 'a')",
     ["SELECT sym, filter(tags, t -> t = 'a') AS found FROM trades WHERE exists(tags, t -> t = 'a')"]),
    ("SELECT sym FROM trades TABLESAMPLE (10 PERCENT)", "crc32(CAST(id AS STRING)) % 100 < 10",
     ["SELECT sym FROM trades WHERE crc32(CAST(id AS STRING)) % 100 < 10"]),
    ("SELECT * FROM trades UNPIVOT (v FOR n IN (price, qty))", "one query for each column",
     ["SELECT sym, 'price' AS n, price AS v FROM trades", "SELECT sym, 'qty' AS n, qty AS v FROM trades"]),
    ("SELECT sym FROM trades WHERE sym NOT IN (SELECT sym FROM news)", "NOT EXISTS (SELECT 1 FROM b WHERE b.y = a.x)",
     [f"SELECT sym FROM trades t WHERE NOT EXISTS (SELECT 1 FROM news n WHERE n.sym = t.sym AND {NEAR})",
      "SELECT sym FROM trades WHERE sym NOT IN (SELECT sym FROM quotes)"]),
    ("SELECT sym FROM trades t WHERE NOT EXISTS (SELECT 1 FROM news n WHERE n.sym = t.sym)", "recent(news, 100)",
     [f"SELECT t.sym FROM trades t WHERE NOT EXISTS (SELECT 1 FROM news n WHERE t.sym = n.sym AND {NEAR})",
      "SELECT t.sym FROM trades t WHERE NOT EXISTS (SELECT 1 FROM recent(news, 100) n WHERE t.sym = n.sym)"]),
    ("SELECT sym FROM trades WHERE price > (SELECT bid FROM quotes)", "Join the query in FROM and name its column",
     ["SELECT t.sym FROM trades t JOIN (SELECT sym, bid FROM quotes) q ON t.sym = q.sym WHERE t.price > q.bid",
      "SELECT sym FROM trades t WHERE EXISTS (SELECT 1 FROM quotes q WHERE q.sym = t.sym AND t.price > q.bid)"]),
    ("SELECT sym FROM trades t WHERE qty > 1 OR EXISTS (SELECT 1 FROM quotes q WHERE q.sym = t.sym)",
     "For OR, register one query for each part",
     ["SELECT sym FROM trades WHERE qty > 1",
      "SELECT sym FROM trades t WHERE EXISTS (SELECT 1 FROM quotes q WHERE q.sym = t.sym)"]),
    ("SELECT sym FROM recent(trades, 10)", "Name the stream alone", ["SELECT sym FROM trades"]),
    ("SELECT * REPLACE (1 AS qty) FROM trades", "* EXCEPT", ["SELECT * EXCEPT (qty), 1 AS qty FROM trades"]),
    ("SELECT sym FROM trades WHERE (sym, qty) IN (('A', 1))", "one by one",
     ["SELECT sym FROM trades WHERE sym = 'A' AND qty = 1"]),
    ("SELECT t.sym FROM trades t FULL JOIN news n ON t.sym = n.sym", "Register two queries",
     [f"SELECT t.sym, n.head FROM trades t LEFT JOIN news n ON t.sym = n.sym AND {NEAR}",
      f"SELECT n.head FROM news n LEFT ANTI JOIN trades t ON t.sym = n.sym AND {NEAR}"]),
    ("SELECT t.sym FROM trades t NATURAL JOIN quotes q", "USING", ["SELECT sym FROM trades t JOIN quotes q USING (sym)"]),
    ("SELECT t.sym FROM trades t JOIN news n ON t.sym = n.sym", "recent(news, 100)",
     ["SELECT t.sym FROM trades t JOIN news n ON t.sym = n.sym AND t.ts BETWEEN n.ts AND n.ts + INTERVAL 10 MINUTES",
      "SELECT t.sym FROM trades t JOIN recent(news, 100) n ON t.sym = n.sym",
      "SELECT t.sym FROM trades t JOIN quotes n ON t.sym = n.sym"]),
    ("SELECT t.sym FROM trades t LEFT JOIN news n ON t.sym = n.sym", "recent(news, 100)",
     ["SELECT t.sym FROM trades t LEFT JOIN news n ON t.sym = n.sym AND t.ts BETWEEN n.ts AND n.ts + INTERVAL 10 MINUTES",
      "SELECT t.sym FROM trades t LEFT JOIN recent(news, 100) n ON t.sym = n.sym",
      "SELECT t.sym FROM trades t LEFT JOIN quotes n ON t.sym = n.sym"]),
    ("SELECT t.sym FROM news n RIGHT JOIN trades t ON t.sym = n.sym", "recent(news, 100)",
     ["SELECT t.sym FROM recent(news, 100) n RIGHT JOIN trades t ON t.sym = n.sym"]),
    ("SELECT t.sym FROM trades t LEFT SEMI JOIN recent(news, 9) n ON t.sym = n.sym", "Or write JOIN",
     ["SELECT t.sym FROM trades t JOIN recent(news, 9) n ON t.sym = n.sym",
      "SELECT t.sym FROM trades t LEFT SEMI JOIN quotes q ON t.sym = q.sym"]),
    ("SELECT DISTINCT sym FROM trades", "Declare a key for trades", ["SELECT DISTINCT sym FROM quotes"]),
    ("SELECT q.sym FROM quotes q LEFT JOIN news n ON q.sym = n.sym", "FROM news … LEFT JOIN quotes",
     ["SELECT q.sym FROM news n LEFT JOIN quotes q ON q.sym = n.sym"]),
    ("SELECT t.sym FROM trades t ASOF JOIN marks m ON t.sym = m.sym", "or write JOIN",
     ["SELECT t.sym FROM trades t JOIN marks m ON t.sym = m.sym",
      "SELECT t.sym FROM trades t ASOF JOIN quotes q ON t.sym = q.sym"]),
    ("SELECT t.sym FROM trades t JOIN recent(quotes, 5) q ON t.sym = q.sym", "Write quotes alone",
     ["SELECT t.sym FROM trades t JOIN quotes q ON t.sym = q.sym"]),
    ("SELECT sym, * FROM trades", "* EXCEPT", ["SELECT sym, * EXCEPT (sym) FROM trades"]),
    ("SELECT NULL AS x FROM trades", "CAST(NULL AS STRING)", ["SELECT CAST(NULL AS STRING) AS x FROM trades"]),
    ("SELECT sym FROM trades WHERE sym > 5", "CAST(… AS INT)", ["SELECT sym FROM trades WHERE CAST(sym AS INT) > 5"]),
    ("SELECT sym FROM trades WHERE ts > sym", "CAST(… AS TIMESTAMP)",
     ["SELECT sym FROM trades WHERE ts > CAST(sym AS TIMESTAMP)"]),
    ("SELECT sym FROM trades WHERE ts > 'yesterday'", "'2024-02-29 13:45:00'",
     ["SELECT sym FROM trades WHERE ts > '2024-02-29 13:45:00'"]),
    ("SELECT sym FROM trades WHERE ts > ts - INTERVAL 1 MONTH 2 DAYS", "one after the other",
     ["SELECT sym FROM trades WHERE ts > ts - INTERVAL 1 MONTH - INTERVAL 2 DAYS"]),
    ("SELECT sym FROM trades WHERE qty IN (1, 'a')", "the same way", ["SELECT sym FROM trades WHERE qty IN (1, 2)"]),
    ("SELECT limit 5 AS x FROM trades", "`limit`", []),
    ("SELECT sym FROM trades WHERE tags.x = 1", "payload:field", ["SELECT sym FROM trades WHERE sym:field = 'a'"]),
]  # fmt: skip


@pytest.fixture(scope="module")
def engine() -> Any:
    with eddyline.open() as made:
        made.sql(DECLARED)
        yield made


@pytest.mark.parametrize(("text", "said", "ways"), WAYS, ids=[text for text, _, _ in WAYS])
def test_what_a_hint_proposes_can_be_registered(engine, text: str, said: str, ways: list[str]) -> None:
    with pytest.raises(EddylineError) as refused:
        engine.query(text)
    assert said in (refused.value.hint or ""), refused.value
    for way in ways:
        engine.query(way).drop()


@pytest.mark.parametrize("name", ["collect_list", "median", "corr", "mode"])
def test_aggregates_that_are_not_built_are_refused_by_name_with_the_way_over_spark(engine, name: str) -> None:
    with pytest.raises(NotBuiltError) as refused:
        engine.query(f"SELECT {name}(qty) AS x FROM trades")
    assert refused.value.problem == f"the aggregate {name} is not built in this version"
    assert "running.feed" in (refused.value.hint or "")


def test_an_alert_with_per_and_cooldown_tells_of_each_once() -> None:
    with eddyline.open() as engine:
        engine.sql(DECLARED)
        with pytest.raises(EddylineError) as refused:
            engine.query("SELECT DISTINCT sym FROM trades")
        assert "per = 'sym' and cooldown = '1 hour'" in (refused.value.hint or "")
        assert "write GROUP BY sym with keep = '30 days'" in (refused.value.hint or "")
        groups = engine.query("SELECT sym FROM trades GROUP BY sym", keep="30 days")
        engine.query("SELECT sym FROM trades", name="seen", per="sym", cooldown="1 hour")
        now = datetime.datetime.now(datetime.UTC)
        engine.push("trades", [(n, sym, 1.0, 1, [], now) for n, sym in enumerate("AABAB")])
        assert [message.key for message in engine.messages()] == [{"sym": "A"}, {"sym": "B"}]
        assert sorted(row["sym"] for row in groups.latest(10)) == ["A", "B"]


def test_the_way_out_of_distinct_names_the_columns_of_the_text() -> None:
    with eddyline.open() as engine:
        engine.sql(DECLARED)
        with pytest.raises(EddylineError) as refused:
            engine.query("SELECT DISTINCT qty, upper(sym) AS s, 1 AS one FROM trades")
        hint = refused.value.hint or ""
        assert "write GROUP BY qty, s with keep = '30 days'" in hint
        assert "per = 'qty'" in hint
        engine.query("SELECT qty, upper(sym) AS s, 1 AS one FROM trades GROUP BY qty, s", keep="30 days")


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (
            "SELECT sym, count(*) AS n FROM trades WHERE N > 3 GROUP BY sym",
            "N is computed of groups, after WHERE: a condition on it belongs in HAVING.",
        ),
        (
            "SELECT sym, lag(qty) OVER (PARTITION BY sym ORDER BY ts) AS n FROM trades WHERE n > 3",
            "n is computed of the rows of a frame, after WHERE: a condition on it belongs in QUALIFY.",
        ),
        ("SELECT sym, cont(*) AS n FROM trades GROUP BY sym", "Did you mean count?"),
    ],
)
def test_a_text_with_aggregates_that_nearly_works_says_what_does(text: str, hint: str) -> None:
    with eddyline.open() as engine:
        engine.sql(DECLARED)
        with pytest.raises(EddylineError) as refused:
            engine.query(text)
        assert refused.value.hint == hint


def test_a_column_that_has_the_name_of_an_aggregate_can_stand_in_where() -> None:
    with eddyline.open() as engine:
        engine.sql(DECLARED)
        query = engine.query(
            "SELECT sym, count(*) AS qty FROM trades WHERE qty > 3 GROUP BY sym", keep="30 days"
        )
        now = datetime.datetime.now(datetime.UTC)
        engine.push("trades", [(n, "A", 1.0, qty, [], now) for n, qty in enumerate((3, 4))])
        assert query.latest(1) == [{"sym": "A", "qty": 1}]


def test_a_function_of_one_s_own_may_be_random() -> None:
    with eddyline.open() as engine:
        engine.sql(DECLARED)
        with pytest.raises(EddylineError) as refused:
            engine.query("SELECT rand() AS r FROM trades")
        assert "deterministic=False" in (refused.value.hint or "")

        @eddyline.udf(returns="double", scalar=True, deterministic=False)
        def chance(n: int) -> float:
            return 0.5

        query = engine.query("SELECT chance(qty) AS r FROM trades")
        engine.push("trades", [(1, "A", 1.0, 1, [], datetime.datetime.now(datetime.UTC))])
        assert query.results() == [{"r": 0.5}]
