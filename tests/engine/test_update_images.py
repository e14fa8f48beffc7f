"""Changes of tables as queries get them: insert, delete, and both images of an update."""

from __future__ import annotations

import numpy as np
import pytest

import eddyline


@pytest.fixture(params=["memory", "home"])
def engine(request, tmp_path):
    with eddyline.open(tmp_path / "home" if request.param == "home" else None) as made:
        made.stream("quotes", "sym STRING, bid INT", key="sym")
        made.stream("names", "sym STRING, name STRING", key="sym")
        yield made


def changes(query) -> list[tuple]:
    return [(result.change, *result.values()) for result in query.results()]


def test_a_row_that_keeps_matching_is_an_update_and_one_that_does_not_is_not(engine):
    low = engine.query("SELECT sym, bid FROM quotes WHERE bid < 50")
    high = engine.query("SELECT sym, bid FROM quotes WHERE bid >= 20")
    engine.push("quotes", [("A", 10)])
    engine.push("quotes", [("A", 30)])
    engine.push("quotes", [("A", 60)])
    engine.push("quotes", [{"sym": "A", "_change_type": "delete"}])
    assert changes(low) == [
        ("insert", "A", 10),
        ("update_preimage", "A", 10),
        ("update_postimage", "A", 30),
        ("delete", "A", 30),
    ]
    assert changes(high) == [
        ("insert", "A", 30),
        ("update_preimage", "A", 30),
        ("update_postimage", "A", 60),
        ("delete", "A", 60),
    ]


def test_a_round_tells_the_net_changes_of_a_key(engine):
    everything = engine.query("SELECT sym, bid FROM quotes")
    engine.push("quotes", [("A", 1), ("A", 2)])
    engine.push("quotes", [("A", 3), ("B", 7), ("A", 4)])
    engine.push("quotes", [("A", 5), ("A", 4)])
    assert changes(everything) == [
        ("insert", "A", 2),
        ("insert", "B", 7),
        ("update_preimage", "A", 2),
        ("update_postimage", "A", 4),
    ]


def test_a_join_of_tables_has_the_identity_of_its_inputs(engine):
    both = engine.query(
        "SELECT q.sym, q.bid, n.name FROM quotes q JOIN names n ON q.sym = n.sym WHERE q.bid < 50"
    )
    engine.push({"quotes": [("A", 1)], "names": [("A", "ann")]})
    engine.push({"quotes": [("A", 2)], "names": [("A", "amy")]})
    engine.push("quotes", [("A", 90)])
    assert changes(both) == [
        ("insert", "A", 1, "ann"),
        ("update_preimage", "A", 1, "ann"),
        ("update_postimage", "A", 2, "amy"),
        ("delete", "A", 2, "amy"),
    ]


def test_a_join_of_a_table_with_itself_is_one_update(engine):
    pairs = engine.query("SELECT a.bid AS x, b.bid AS y FROM quotes a JOIN quotes b ON a.sym = b.sym")
    engine.push("quotes", [("A", 1)])
    engine.push("quotes", [("A", 2)])
    assert changes(pairs) == [
        ("insert", 1, 1),
        ("update_preimage", 1, 1),
        ("update_postimage", 2, 2),
    ]


def test_readers_of_a_view_over_a_table_get_images_of_their_own(engine):
    engine.query("SELECT sym, bid FROM quotes WHERE bid < 50", name="low")
    small = engine.query("SELECT sym, bid FROM low WHERE bid < 20")
    engine.push("quotes", [("A", 10)])
    engine.push("quotes", [("A", 15)])
    engine.push("quotes", [("A", 30)])
    assert changes(small) == [
        ("insert", "A", 10),
        ("update_preimage", "A", 10),
        ("update_postimage", "A", 15),
        ("delete", "A", 15),
    ]


def test_many_queries_agree_with_one_by_one(engine):
    random = np.random.default_rng(7)
    limits = [(int(low), int(low) + 40) for low in random.integers(0, 80, 300)]
    queries = [engine.query(f"SELECT sym, bid FROM quotes WHERE bid BETWEEN {a} AND {b}") for a, b in limits]
    table: dict[str, int] = {}
    expected: list[list[tuple]] = [[] for _ in limits]
    for _ in range(6):
        new = {sym: int(random.integers(0, 120)) for sym in "ABCDE"}
        engine.push("quotes", list(new.items()))
        for sym, bid in new.items():
            old = table.get(sym)
            for (low, high), mine in zip(limits, expected, strict=True):
                was, now = old is not None and low <= old <= high, low <= bid <= high
                if old != bid:
                    image = was and now
                    mine += [("update_preimage" if image else "delete", sym, old)] * was
                    mine += [("update_postimage" if image else "insert", sym, bid)] * now
            table[sym] = bid
    assert [changes(query) for query in queries] == expected
