"""Joins of rows that were read and filtered in tasks give what they give in one process."""

from __future__ import annotations

import datetime
import random
from pathlib import Path

import pyarrow as pa
import pytest

import eddyline
from tests.on_workers import through_tasks

START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
TIME = pa.timestamp("us", "UTC")
QUERIES = {
    "timed": "SELECT t.sym, t.price, n.score FROM trades t JOIN news n "
    "ON t.sym = n.sym AND t.ts BETWEEN n.ts AND n.ts + INTERVAL 10 MINUTES WHERE t.price > 5 AND n.score < 8",
    "counted": "SELECT t.sym, n.score FROM recent(trades, 2) t JOIN recent(news, 3) n ON t.sym = n.sym",
    "own": "SELECT a.price AS low, b.price AS high FROM recent(trades, 5) a JOIN recent(trades, 4) b "
    "ON a.sym = b.sym WHERE a.price < b.price",
    "driven": "SELECT t.sym, n.score FROM trades t JOIN recent(news, 2) n ON t.sym = n.sym",
    "alone": "SELECT t.sym, t.price FROM trades t LEFT ANTI JOIN news n "
    "ON t.sym = n.sym AND n.ts BETWEEN t.ts AND t.ts + INTERVAL 2 MINUTES",
    "known": "SELECT t.sym, t.price, c.country FROM trades t JOIN companies c ON t.sym = c.sym",
    "cheap": "SELECT sym, price FROM trades WHERE price < 2",
}


def declared(engine: eddyline.Engine) -> eddyline.Engine:
    engine.stream(
        "trades", pa.schema([("sym", pa.string()), ("price", pa.float64()), ("ts", TIME)]), time="ts"
    )
    engine.stream("news", pa.schema([("sym", pa.string()), ("score", pa.int64()), ("ts", TIME)]), time="ts")
    engine.stream("companies", "sym STRING, country STRING", key="sym")
    for name, text in QUERIES.items():
        engine.query(text, name=name)
    return engine


def lived(engine: eddyline.Engine, n_rounds: int = 40) -> dict[str, list[tuple]]:
    rng = random.Random(5)
    engine.push("companies", [{"sym": "A", "country": "NL"}, {"sym": "B", "country": "SE"}])
    for number in range(n_rounds):
        now = START + datetime.timedelta(minutes=number)
        if number == 20:
            engine.get("counted").drop()
            engine.query(QUERIES["counted"], name="counted again")
        trades = [
            {
                "sym": rng.choice("ABC"),
                "price": rng.random() * 10,
                "ts": now - rng.choice([0, 0, 0, 5]) * MINUTE,
            }
            for _ in range(rng.randint(0, 7))
        ]
        news = [
            {"sym": rng.choice("AB"), "score": rng.randint(0, 9), "ts": now} for _ in range(rng.randint(0, 3))
        ]
        engine.push({name: rows for name, rows in (("trades", trades), ("news", news)) if rows})
    names = [query.name for query in engine.queries()]
    return {
        name: sorted((result.arrivals, *result.values()) for result in engine.get(name).latest(10_000))
        for name in names
    }


MINUTE = datetime.timedelta(minutes=1)


@pytest.mark.thorough
@pytest.mark.parametrize("n_pieces", [1, 3])
@pytest.mark.parametrize("join_from_rows", [1, 50_000], ids=["joined in tasks", "joined here"])
def test_joins_find_the_same_in_tasks_as_here(tmp_path: Path, n_pieces: int, join_from_rows: int) -> None:
    limits = {"results_per_query": 10_000}
    with declared(eddyline.open(None, **limits)) as here:
        expected = lived(here)
    with declared(eddyline.open(tmp_path / "home", **limits)) as engine:
        through_tasks(engine, n_pieces=n_pieces, join_from_rows=join_from_rows)
        found = lived(engine)
        held = {name: facts["rows"] for name, facts in engine.joins().items()}
    assert all(expected.values())
    assert found == expected
    assert held["trades"] < 200
