"""Query, generation and arrival number identify a result for the life of a home, also where a join or a table made its row."""

from __future__ import annotations

from pathlib import Path

import pytest

import eddyline
from eddyline import Engine
from eddyline.errors import SchemaError
from eddyline.model import FIRST_DERIVED
from tests.engine.join_lives import Life
from tests.engine.test_joins_in_tasks import declared, lived
from tests.on_workers import through_tasks

STREAMS = """
    CREATE TABLE trades (sym STRING, price DOUBLE);
    CREATE TABLE news (sym STRING, score INT);
    CREATE TABLE quotes (sym STRING PRIMARY KEY, bid DOUBLE);
"""
RECENT = "SELECT t.price, n.score FROM recent(trades, 5) t JOIN recent(news, 5) n ON t.sym = n.sym"
LATEST = "SELECT t.price, q.bid FROM trades t JOIN quotes q ON t.sym = q.sym"
BIDS = "SELECT sym, bid FROM quotes WHERE bid > 1"


def identities(engine: Engine) -> list[tuple[int, int, int]]:
    """(query, generation, arrival) of every result that is kept."""
    results = [result for query in engine.queries() for result in query.latest(100_000)]
    return [(result.query_id, result.generation, result.arrival) for result in results]


def pushed(life: Life) -> None:
    life.push(trades=[("a", 1.0), ("b", 2.0)], quotes=[("a", 3.0), ("b", 1.5)])
    life.push(news=[("a", 7), ("b", 8)])
    life.push(quotes=[("a", 4.0)])  # a change of a table is two rows
    life.push(trades=[("a", 5.0)], news=[("a", 9)])


@pytest.mark.parametrize("has_home", [False, True], ids=["in memory", "with a home"])
def test_no_two_results_of_joins_and_tables_have_one_identity(tmp_path: Path, has_home: bool) -> None:
    life = Life(STREAMS, tmp_path / "home" if has_home else None)
    for name, text in (("recent", RECENT), ("latest", LATEST), ("bids", BIDS)):
        life.query(text, name)
    for _ in range(3):
        pushed(life)
        if has_home:
            life.reopen()
    found = identities(life.engine)
    assert len(found) > 30
    assert len(set(found)) == len(found)
    assert min(arrival for _, _, arrival in found) == FIRST_DERIVED


def test_a_round_that_does_not_commit_takes_no_numbers(tmp_path: Path) -> None:
    lives = [Life(STREAMS, tmp_path / "never failed"), Life(STREAMS, tmp_path / "failed")]
    for life in lives:
        life.query(RECENT, "recent")
        life.push(news=[("a", 7), ("a", 8)])
        life.push(trades=[("a", 1.0)])
    lives[1].fail(trades=[("a", 2.0), ("a", 3.0)])
    lives[1].reopen()
    for life in lives:
        life.push(trades=[("a", 4.0)])
    assert identities(lives[0].engine) == identities(lives[1].engine)


@pytest.mark.thorough
@pytest.mark.parametrize("join_from_rows", [1, 50_000], ids=["joined in tasks", "joined here"])
def test_numbers_that_tasks_give_are_those_of_no_other_result(tmp_path: Path, join_from_rows: int) -> None:
    with declared(eddyline.open(tmp_path / "home", results_per_query=10_000)) as engine:
        through_tasks(engine, join_from_rows=join_from_rows)
        lived(engine)
        found = identities(engine)
        number = engine.receipt(engine.get("timed").latest(1)[0])["arrival"]
    with eddyline.open(tmp_path / "home", results_per_query=10_000) as engine:
        assert identities(engine) == found
        assert engine.get("timed").latest(1)[0].arrival == number
        lived(through_tasks(engine, join_from_rows=join_from_rows), 10)
        found = identities(engine)
    assert len(found) > 100
    assert len(set(found)) == len(found)


def test_letters_of_joins_in_tasks_name_their_query_also_after_reopening(tmp_path: Path) -> None:
    text = "SELECT t.sym FROM recent(trades, 5) t JOIN recent(news, 5) n ON t.sym = n.sym WHERE 1 / (n.score - 7) > 0"
    life = Life(STREAMS, tmp_path / "home")
    life.query(text, "divided")
    through_tasks(life.engine, join_from_rows=1)
    life.push(news=[("a", 7)])
    life.push(trades=[("a", 1.0), ("a", 2.0)])
    letters = life.engine.dead_letters()
    life.reopen()
    kept = life.engine.dead_letters()
    assert [(letter.query, letter.arrival) for letter in letters] == [
        ("divided", FIRST_DERIVED),
        ("divided", FIRST_DERIVED + 1),
    ]
    assert [(each.query, each.arrival) for each in kept] == [(each.query, each.arrival) for each in letters]


def test_a_row_does_not_bring_a_number_that_is_kept_for_joins() -> None:
    with eddyline.open() as engine:
        engine.stream("trades", "sym STRING")
        engine.push("trades", [{"sym": "a", "_arrival": (1 << 52) - 1}])
        with pytest.raises(SchemaError, match=r"_arrival 4503599627370496 is too large"):
            engine.push("trades", [{"sym": "a", "_arrival": 1 << 52}])
