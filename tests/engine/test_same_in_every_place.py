"""One script in process, in tasks, and with workers that join: equal results, dead letters, records, and explanations."""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import eddyline
from tests.on_workers import through_tasks

pytestmark = pytest.mark.thorough

START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
MINUTE = datetime.timedelta(minutes=1)
TIME = pa.timestamp("us", "UTC")
PLACES = ("in process", "in tasks", "workers join")
QUERIES = {
    "cheap": "SELECT sym, price FROM trades WHERE price < 2",
    "in error": "SELECT sym FROM trades WHERE 10 / size > 3",
    "met": "SELECT t.sym, t.price, n.score FROM trades t JOIN news n "
    "ON t.sym = n.sym AND t.ts BETWEEN n.ts AND n.ts + INTERVAL 10 MINUTES WHERE t.price > 1",
    "met in error": "SELECT t.sym AS s, n.score FROM trades t JOIN recent(news, 3) n ON t.sym = n.sym "
    "WHERE 12 / (t.size + n.score - 4) > 1",
    "dear": "SELECT t.sym, n.score FROM trades t JOIN recent(news, 2) n ON t.sym = n.sym "
    "WHERE even(t.size) = 1 AND even(n.score) = 1 AND odd_sum(t.size, n.score) = 1",
    "dear in error": "SELECT t.sym, n.score AS n FROM trades t JOIN recent(news, 2) n ON t.sym = n.sym "
    "WHERE not_three(t.size) = 1 AND odd_sum(t.size, n.score) = 1",
    "keyed in error": "SELECT t.sym FROM trades t JOIN recent(news, 2) n ON 100 / t.size = n.score",
}


@eddyline.udf(returns="INT")
def even(value: int) -> int:
    return 1 - value % 2


@eddyline.udf(returns="INT")
def odd_sum(one: int, other: int) -> int:
    return (one + other + 1) % 2


@eddyline.udf(returns="INT")
def not_three(value: int) -> int:
    assert value != 3, "three"
    return 1


def opened(folder: Path, place: str, **options: Any) -> eddyline.Engine:
    engine = eddyline.open(folder / place, **options)
    engine.stream(
        "trades",
        pa.schema([("sym", pa.string()), ("price", pa.float64()), ("size", pa.int64()), ("ts", TIME)]),
        time="ts",
    )
    engine.stream("news", pa.schema([("sym", pa.string()), ("score", pa.int64()), ("ts", TIME)]), time="ts")
    for name, text in QUERIES.items():
        engine.query(text, name=name)
    if place != PLACES[0]:
        through_tasks(engine, n_pieces=2, join_from_rows=1 if place == PLACES[2] else 1_000_000)
    return engine


def live(engine: eddyline.Engine, n_rounds: int = 25) -> None:
    rng = random.Random(3)
    for number in range(n_rounds):
        now = START + number * MINUTE
        trades = [
            {
                "sym": rng.choice("ABC"),
                "price": rng.random() * 10,
                "size": rng.randrange(4),
                "ts": now - rng.choice([0, 0, 0, 5]) * MINUTE,
            }
            for _ in range(rng.randint(1, 6))
        ]
        news = [
            {"sym": rng.choice("AB"), "score": rng.randint(0, 9), "ts": now} for _ in range(rng.randint(1, 3))
        ]
        engine.push({"trades": trades, "news": news})


def results(engine: eddyline.Engine) -> Any:
    return {
        query.name: sorted((found.arrivals, *found.values()) for found in query.latest(10_000))
        for query in engine.queries()
    }


def letters(engine: eddyline.Engine) -> Any:
    return sorted(
        (each.round_number, each.stream, str(each.row), each.error, each.message, each.query or "")
        for each in engine.dead_letters()
    )


def records(engine: eddyline.Engine) -> Any:
    return [
        (
            record.round_number,
            record.n_rows,
            record.n_results,
            record.n_dead,
            record.n_late,
            sorted(
                (each.stage, each.stream.lower(), each.n_rows, each.n_matches)
                for each in record.stages
                if each.n_rows
            ),
        )
        for record in engine.rounds.records.last(100)
    ]


def joins(engine: eddyline.Engine) -> Any:
    counts = engine.counters().joins
    return counts.n_drivers, counts.n_matches, counts.n_combinations


def filters(engine: eddyline.Engine) -> Any:
    """Rows that met expensive filters, by stream; sampled calls differ by place."""
    return [(each["stream"], each["n_rows"]) for each in engine.explain_filters(bound=False).streams]


ASKED: dict[str, Callable[[eddyline.Engine], Any]] = {
    "results": results,
    "dead letters": letters,
    "records": records,
    "joins": joins,
    "filters": filters,
}


@pytest.fixture(
    scope="module", params=[{}, {"strict": True}, {"routing": "fixed"}], ids=["auto", "strict", "fixed"]
)
def places(request, tmp_path_factory):
    folder, found = tmp_path_factory.mktemp("places"), {}
    for place in PLACES:
        with opened(folder, place, results_per_query=10_000, **request.param) as engine:
            live(engine)
            found[place] = {asked: answer(engine) for asked, answer in ASKED.items()}
    return found


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("place", PLACES[1:])
def test_what_comes_of_a_script_is_the_same_in_every_place(places, place, asked):
    assert places[PLACES[0]][asked]
    assert places[place][asked] == places[PLACES[0]][asked]
