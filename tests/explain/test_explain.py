"""Explain: how a query is answered, and what it shares."""

from __future__ import annotations

import pytest

import eddyline


@pytest.fixture
def engine():
    engine = eddyline.open()
    engine.stream("trades", "sym STRING, price DOUBLE, n INT")
    return engine


def served(query) -> list[tuple[str, str]]:
    return [(c["served_by"], c["text"]) for c in query.explain().as_dict()["conditions"]]


def test_an_explanation_names_the_conditions_as_written_and_what_serves_them(engine):
    query = engine.query(
        "SELECT sym, price * 2 AS twice FROM trades\nWHERE sym = 'A' AND price < 10 AND n IN (1, 2) AND sym IS NOT NULL "
        "AND price * n > 5 AND sym LIKE 'A%'",
        name="cheap",
    )
    assert served(query) == [
        ("index", "sym = 'A'"),
        ("index", "price < 10"),
        ("index", "n IN (1, 2)"),
        ("index", "sym IS NOT NULL"),
        ("index", "price * n > 5"),
        ("residual", "sym LIKE 'A%'"),
    ]
    assert str(query.explain()).startswith(
        "cheap: running since version 2, generation 1\n  SELECT sym, price * 2 AS twice"
    )
    assert "  stream     trades\n  shape      shared by 1 query\n" in str(query.explain())
    assert "  gives      sym STRING, twice DOUBLE\n" in str(query.explain())


def test_a_query_without_conditions_says_so(engine):
    text = str(engine.query("SELECT sym FROM trades").explain())
    assert "  filters    none: every row matches" in text
    assert "  warning    this query matches every row" in text


def test_conditions_of_a_template_show_the_values_of_the_query(engine):
    many = engine.query_many(
        "SELECT sym FROM trades WHERE sym = :sym AND price < :limit",
        params={"sym": ["A", "B"], "limit": [1.5, 2.5]},
    )
    texts = [text for _, text in served(many[1])]
    assert texts == ["sym = 'B'", "price < 2.5"]
    assert many[1].explain().as_dict()["n_sharing"] == 2
    assert "  shape      shared by 2 queries\n" in str(many[0].explain())


def test_functions_are_named_with_their_version_and_counts(engine):
    @eddyline.udf(returns="double", name="scored", version="v3")
    def scored(price: float) -> float:
        return 1 / price

    query = engine.query("SELECT sym FROM trades WHERE scored(price) > 0.5")
    engine.push("trades", [("A", 1.0, 1), ("B", 0.0, 1)])
    assert [kind for kind, _ in served(query)] == ["function"]
    (facts,) = query.explain().as_dict()["functions"]
    assert (facts["name"], facts["version"], facts["n_failed"]) == ("scored", "v3", 1)
    assert "  calls      scored version v3: " in str(query.explain())
    assert "  dead       1 rows could not be decided: see dead_letters()" in str(query.explain())


def test_a_text_can_be_explained_without_registering_it(engine):
    explained = engine.explain("SELECT sym FROM trades WHERE price < :limit", params={"limit": 7.5})
    assert str(explained).startswith("(not registered): paused since version 1")
    assert explained.as_dict()["conditions"] == [
        {
            "text": "price < 7.5",
            "served_by": "index",
            "structure": None,
            "columns": ["price"],
            "filter": None,
        }
    ]
    assert engine.n_queries == 0


def test_facts_and_text_tell_the_same(engine):
    query = engine.query("SELECT sym FROM trades WHERE n > 1", name="q")
    engine.push("trades", [("A", 1.0, n) for n in range(5)])
    facts = query.explain().as_dict()
    assert (facts["n_results"], facts["n_kept"], facts["n_dropped"], facts["n_dead"]) == (3, 3, 0, 0)
    assert (facts["state"], facts["stream"], facts["version"]) == ("running", "trades", 2)
    assert "results    3 so far, all can be read" in str(query.explain())
    query.pause()
    assert str(query.explain()).startswith("q: paused since version 3")


def test_a_notebook_shows_the_same_text(engine):
    html = engine.query("SELECT sym FROM trades WHERE n < 1").explain()._repr_html_()
    assert html.startswith("<pre>q1: running")
    assert "n &lt; 1" in html


def test_a_query_says_which_structure_serves_it_once_rows_have_come(engine):
    engine.query_many(
        "SELECT sym FROM trades WHERE sym = :sym AND price < :limit",
        params={"sym": [f"S{k}" for k in range(1000)], "limit": [float(k) for k in range(1000)]},
    )
    query = engine.query("SELECT sym FROM trades WHERE sym = 'S7' AND n != 3")
    assert query.explain().as_dict()["index"] is None
    engine.push("trades", {"sym": ["S7", "S8"], "price": [5.0, 5.0], "n": [1, 3]})
    facts = query.explain().as_dict()
    assert (facts["index"]["kind"], facts["index"]["where"]) == ("bitset blocks", "the base")
    assert [c["structure"] for c in facts["conditions"]] == ["bitset blocks", "bitset blocks"]
    first = engine.get(1).explain()
    assert first.as_dict()["index"]["n_queries"] == 1000
    assert [c["structure"] for c in first.as_dict()["conditions"]] == [
        "key lists: names the queries of a row",
        "key lists",
    ]
    assert "  served by  key lists on sym, price, 1,000 queries in the base, " in str(first)


def test_the_whole_index_can_be_explained(engine):
    assert str(engine.explain_index()).startswith("no stream has an index in this process: ")
    engine.query("SELECT sym FROM trades WHERE price < 10")
    engine.push("trades", {"sym": ["A"], "price": [5.0], "n": [1]})
    (facts,) = engine.explain_index().as_dict()["streams"]
    assert (facts["stream"], facts["n_queries"], facts["n_parts"], facts["rebuilding"]) == (
        "trades",
        1,
        1,
        False,
    )
    shown = str(engine.explain_index())
    assert shown.startswith("trades: 1 query as of version 2, ")
    assert "\n  bitset blocks on price, 1 query in the base, " in shown
    assert "1 rows, 1 pairs named by the index, 0 looked at one by one, 1 matches, 0 dead" in shown


def test_a_paused_query_that_alone_reads_a_view_is_explained():
    engine = eddyline.open()
    engine.stream("s", "k INT")
    engine.query("SELECT k FROM s", name="v")

    @eddyline.udf(returns="boolean", scalar=True)
    def is_odd(k: int) -> bool:
        return k % 2 == 1

    reader = engine.query("SELECT k FROM v WHERE k > 1 AND is_odd(k)")
    reader.pause()
    facts = reader.explain().as_dict()
    assert (facts["state"], facts["stream"], facts["n_sharing"]) == ("paused", "v", 0)
