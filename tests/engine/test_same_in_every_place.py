"""One script in process, in tasks, and with workers that join: equal results, dead letters, records, and explanations.

Derived rows have the same numbers, and results the same order, in each of them, under each routing policy, and through a restart.
"""

from __future__ import annotations

import datetime
import itertools
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import eddyline
from eddyline.model import FIRST_DERIVED
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
# of these, every combination of rows is made by each of its inputs at times, and one row makes many; workers join the first five
CROSSED = {
    "both ways": "SELECT t.price, n.score FROM recent(trades, 6) t JOIN recent(news, 6) n ON t.sym = n.sym",
    "with itself": "SELECT a.price AS a, b.price AS b FROM recent(trades, 5) a JOIN recent(trades, 5) b "
    "ON a.sym = b.sym WHERE a.size < b.size",
    "of three": "SELECT t.price, n.score, m.score AS more FROM recent(trades, 4) t "
    "JOIN recent(news, 5) n ON t.sym = n.sym JOIN recent(news, 3) m ON t.sym = m.sym WHERE n.score > 1",
    "of three in error": "SELECT t.price FROM recent(trades, 4) t JOIN recent(news, 5) n ON t.sym = n.sym "
    "JOIN recent(news, 3) m ON t.sym = m.sym WHERE 1 / (t.size + n.score - m.score) > 0",
    "quoted": "SELECT t.price, q.bid FROM trades t JOIN quotes q ON t.sym = q.sym AND t.price < q.bid",
    "viewed": "SELECT t.sym, t.price, t.ts, n.score FROM trades t JOIN news n "
    "ON lower(t.sym) = lower(n.sym) AND t.size < n.score AND t.ts BETWEEN n.ts AND n.ts + INTERVAL 2 MINUTES",
    "of a view": "SELECT sym, score FROM viewed WHERE score > 3",
    "joined view": "SELECT v.price, n.score FROM viewed v JOIN news n "
    "ON v.sym = n.sym AND v.ts BETWEEN n.ts AND n.ts + INTERVAL 3 MINUTES",
    "unquoted": "SELECT t.sym, t.price, q.bid FROM trades t LEFT JOIN quotes q ON t.sym = q.sym AND t.price < q.bid",
    "bids": "SELECT sym, bid FROM quotes WHERE bid > 2",
    "unmatched": "SELECT t.sym, t.price, n.score FROM trades t LEFT JOIN news n "
    "ON t.sym = n.sym AND t.ts BETWEEN n.ts AND n.ts + INTERVAL 2 MINUTES",
}
# of these, a row is a result of several parts; parts are over streams, tables, views, and joins, of which workers take on some
UNIONS = {
    "of streams": "SELECT sym, price FROM trades WHERE price > 2 UNION ALL SELECT sym, score FROM news "
    "UNION ALL SELECT sym, -price FROM trades WHERE size < 3 UNION ALL SELECT sym, -score FROM news WHERE score > 1",
    "from a join": "SELECT t.price AS p, n.score FROM recent(trades, 6) t JOIN recent(news, 6) n ON t.sym = n.sym "
    "UNION ALL SELECT price, size FROM trades WHERE size > 1 "
    "UNION ALL SELECT t.price + 100, n.score FROM recent(trades, 6) t JOIN recent(news, 6) n ON t.sym = n.sym WHERE n.score > 2",
    "in error": "SELECT price AS p FROM trades WHERE 10 / size > 3 UNION ALL SELECT 12 / score FROM news "
    "UNION ALL SELECT t.price FROM recent(trades, 4) t JOIN recent(news, 5) n ON t.sym = n.sym WHERE 1 / (t.size - n.score) < 1",
    "united": "SELECT sym, price AS v, ts FROM trades WHERE size > 0 UNION ALL SELECT sym, score, ts FROM news "
    "UNION ALL SELECT sym, -price, ts FROM trades UNION ALL SELECT t.sym, n.score + 100, t.ts FROM trades t JOIN news n "
    "ON t.sym = n.sym AND t.size < n.score AND t.ts BETWEEN n.ts AND n.ts + INTERVAL 2 MINUTES",
    "of a union": "SELECT sym, v FROM united WHERE v < 50",
    "above it": "SELECT sym, v FROM `of a union` WHERE v > -5",
    "twice of a union": "SELECT v FROM united WHERE v > 0 UNION ALL SELECT v FROM united WHERE v < 5 "
    "UNION ALL SELECT v FROM `above it` UNION ALL SELECT v FROM `above it`",
    "joined union": "SELECT u.v, n.score FROM united u JOIN news n "
    "ON u.sym = n.sym AND u.ts BETWEEN n.ts AND n.ts + INTERVAL 1 MINUTE UNION ALL SELECT v, 0 FROM united",
    "alone": "SELECT t.sym, n.score FROM trades t LEFT JOIN news n "
    "ON t.sym = n.sym AND t.ts BETWEEN n.ts AND n.ts + INTERVAL 2 MINUTES UNION ALL SELECT sym, size FROM trades "
    "UNION ALL SELECT t.sym, n.score FROM trades t LEFT JOIN news n "
    "ON t.sym = n.sym AND t.ts BETWEEN n.ts AND n.ts + INTERVAL 2 MINUTES",
    "of tables": "SELECT sym, bid FROM quotes WHERE bid > 2 UNION ALL SELECT DISTINCT 'x', bid FROM quotes "
    "UNION ALL SELECT sym, -bid FROM quotes WHERE bid < 8",
    "of a table union": "SELECT bid FROM `of tables` WHERE bid <> 5 UNION ALL SELECT bid + 1 FROM `of tables`",
}
# views over tables, joined; rows of a set name no rows, so several results of one row differ in their values alone
TABLE_VIEWS = {
    "bids": "SELECT sym, bid FROM quotes WHERE bid > 2",
    "levels": "SELECT DISTINCT bid % 5 AS level FROM quotes",
    "pairs": "SELECT q.sym, q.bid, o.bid AS other FROM quotes q JOIN quotes o ON q.bid > o.bid",
    "either": "SELECT sym, bid FROM bids UNION ALL SELECT 'x', level FROM levels",
    "met": "SELECT t.price, b.bid FROM trades t JOIN bids b ON t.sym = b.sym",
    "met levels": "SELECT t.price, n.level FROM trades t JOIN levels n ON t.size <= n.level",
    "met pairs": "SELECT t.price, p.bid, p.other FROM trades t JOIN pairs p ON t.sym = p.sym",
    "met either": "SELECT t.price, e.bid FROM trades t JOIN either e ON e.bid > t.size",
    "of tables": "SELECT q.sym, n.level FROM quotes q JOIN levels n ON q.bid <= n.level",
    "of levels": "SELECT n.level, m.level AS other FROM levels n JOIN levels m ON n.level <= m.level",
    "of views": "SELECT e.bid, p.other FROM either e JOIN pairs p ON e.bid = p.bid",
    "found": "SELECT n.level FROM levels n WHERE EXISTS (SELECT 1 FROM bids b WHERE b.bid > n.level)",
}
# of some classes tasks hand on what rows come to, of others the rows, or rows of a view
AGGREGATES = {
    "groups": "SELECT sym, count(*) AS n, sum(size) AS total, first(price) AS opened, max_by(size, ts) AS newest, "
    "count(DISTINCT size) AS sizes FROM trades GROUP BY sym HAVING count(*) > 1",
    "of them": "SELECT sym, min(price) AS low FROM trades GROUP BY sym",
    "by minute": "SELECT sym, window.start AS at, count(*) AS n, last(size) AS size FROM trades "
    "GROUP BY sym, window(ts, '4 minutes', '1 minute')",
    "by another": "SELECT sym, window.start AS at, bool_or(size > 2) AS any FROM trades GROUP BY sym, window(ts, '3 minutes')",
    "in error": "SELECT sym, sum(12 / size) AS s FROM trades WHERE price > 2 GROUP BY sym",
    "all": "SELECT count(*) AS n, max(score) AS best FROM news",
    "visits": "SELECT sym, session_window.start AS at, count(*) AS n FROM trades GROUP BY sym, session_window(ts, '90 seconds')",
    "over": "SELECT sym, price, count(*) OVER (PARTITION BY sym ORDER BY ts ROWS BETWEEN 3 PRECEDING AND CURRENT ROW) AS n "
    "FROM trades WHERE size > 0 QUALIFY n > 1",
    "recent": "SELECT sym, count(*) AS n FROM news WHERE ts > now() - INTERVAL 3 MINUTES GROUP BY sym",
    "cheap": "SELECT sym, size, ts FROM trades WHERE price < 5",
    "of a view": "SELECT sym, sum(size) AS total FROM cheap GROUP BY sym",
    "above": "SELECT sym, n FROM groups WHERE n > 5",
}

# aggregates over joins, of which workers would take on some if nothing were aggregated; rows of one input meet many of another
JOINED_AGGREGATES = {
    "groups": "SELECT sym, count(*) AS n, sum(size) AS total, last(price) AS newest FROM trades GROUP BY sym",
    "of a window": "SELECT t.sym, count(*) AS n, sum(n.score) AS total, first(t.size) AS oldest FROM trades t JOIN news n "
    "ON t.sym = n.sym AND t.ts BETWEEN n.ts AND n.ts + INTERVAL 2 MINUTES GROUP BY t.sym",
    "of counts": "SELECT n.score, count(*) AS n, last(t.size) AS newest FROM recent(trades, 6) t JOIN recent(news, 6) n "
    "ON t.sym = n.sym GROUP BY n.score",
    "of a table": "SELECT q.bid, count(*) AS n, max(t.ts) AS seen FROM trades t JOIN quotes q ON t.sym = q.sym GROUP BY q.bid",
    "in windows": "SELECT window.start AS s, count(*) AS n, count(q.bid) AS m FROM trades t "
    "LEFT JOIN quotes q ON t.sym = q.sym GROUP BY window(t.ts, '2 minutes')",
    "over rows": "SELECT t.size, q.bid, count(*) OVER (PARTITION BY q.sym ORDER BY t.ts) AS n FROM trades t "
    "JOIN quotes q ON t.sym = q.sym QUALIFY n > 2",
    "counted": "SELECT sym, count(*) AS n FROM trades WHERE size > 0 GROUP BY sym",
    "of a view": "SELECT sym, n FROM counted WHERE n % 3 > 0",
    "of tables": "SELECT q.bid % 3 AS level, count(*) AS n FROM quotes q JOIN quotes o ON q.bid > o.bid GROUP BY q.bid % 3",
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


def opened(
    folder: Path | None, place: str, queries: dict[str, str] | None = None, **options: Any
) -> eddyline.Engine:
    engine = eddyline.open(None if folder is None else folder / place, **options)
    engine.stream(
        "trades",
        pa.schema([("sym", pa.string()), ("price", pa.float64()), ("size", pa.int64()), ("ts", TIME)]),
        time="ts",
    )
    engine.stream("news", pa.schema([("sym", pa.string()), ("score", pa.int64()), ("ts", TIME)]), time="ts")
    if queries is not None:
        engine.stream("quotes", pa.schema([("sym", pa.string()), ("bid", pa.int64())]), key="sym")
    for name, text in (queries or QUERIES).items():
        engine.query(text, name=name)
    return placed(engine, place)


def placed(engine: eddyline.Engine, place: str) -> eddyline.Engine:
    """Have the rows of an engine worked on in this place."""
    if place != PLACES[0]:
        through_tasks(engine, n_pieces=2, join_from_rows=1 if place == PLACES[2] else 1_000_000)
    return engine


def live(engine: eddyline.Engine) -> None:
    for rows in rounds():
        engine.push(rows)


def rounds(n_rounds: int = 25) -> Iterator[dict[str, list[dict[str, Any]]]]:
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
        yield {"trades": trades, "news": news}


def results(engine: eddyline.Engine) -> Any:
    return {
        query.name: sorted((found.arrivals, *found.values()) for found in query.latest(10_000))
        for query in engine.queries()
    }


def numbers(engine: eddyline.Engine) -> Any:
    """All results in the order in which they are read, with the numbers of their rows, and the numbers of dead letters."""
    found = {
        query.name: [
            (each.round_number, each.arrival, each.arrivals, tuple(each.values()))
            for each in query.latest(10_000)
        ]
        for query in engine.queries()
    }
    dead = [(each.query or "", each.arrival or 0, str(each.row)) for each in engine.dead_letters()]
    return found, sorted(dead)


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
    "numbers": numbers,
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


def aggregates(engine: eddyline.Engine) -> Any:
    """What is kept for each query, but for its bytes: columns grow in steps."""
    found = {query.name: query.explain().as_dict()["aggregates"] for query in engine.queries()}
    for each in (each for facts in found.values() for each in facts):
        for part in (each, *each["structures"]):
            del part["nbytes"]
    return found


@pytest.fixture(scope="module")
def aggregated(tmp_path_factory):
    """Rounds at the times of their rows, with a restart in the middle; by place."""
    folder, found = tmp_path_factory.mktemp("aggregated"), {}
    for place in PLACES:
        now = [0]
        options = {"results_per_query": 10_000, "clock": lambda now=now: now[0]}
        script, half = list(rounds()), 12
        with opened(folder, place, AGGREGATES, **options) as engine:
            for number, rows in enumerate(script[:half]):
                now[0] = int((START + number * MINUTE).timestamp()) * 1_000_000
                engine.push(rows)
        with placed(eddyline.open(folder / place, **options), place) as engine:
            for number, rows in enumerate(script[half:], half):
                now[0] = int((START + number * MINUTE).timestamp()) * 1_000_000
                engine.push(rows)
            asked = {name: ASKED[name] for name in ("results", "numbers", "dead letters", "records")}
            asked["aggregates"] = aggregates
            found[place] = {name: answer(engine) for name, answer in asked.items()}
    return found


@pytest.mark.parametrize("asked", ["results", "numbers", "dead letters", "records", "aggregates"])
@pytest.mark.parametrize("place", PLACES[1:])
def test_aggregates_are_the_same_in_every_place(aggregated, place, asked):
    assert aggregated[PLACES[0]][asked]
    assert aggregated[place][asked] == aggregated[PLACES[0]][asked]


def test_every_aggregate_has_results_and_some_have_letters(aggregated):
    found = aggregated[PLACES[0]]
    assert all(found["results"].values()), found["results"]
    assert {each[-1] for each in found["dead letters"]} == {"in error"}
    why = {name: facts[0]["why_rows"] for name, facts in found["aggregates"].items() if facts}
    assert {name for name, reason in why.items() if reason is None} == {
        "groups", "of them", "by minute", "by another", "in error", "all", "visits"
    }  # fmt: skip
    assert why["over"] == "OVER needs each of them"
    assert why["recent"] == "each of them leaves by itself"
    assert why["of a view"] == "they are made of rows that tasks hand on"


# --------------------------------------------------------------------------------------------- numbers and order


def lived_numbers(
    folder: Path, place: str, queries: dict[str, str] = CROSSED, *, restarts: bool, **options: Any
) -> Any:
    """The numbers that a life of queries comes to; with a restart in its middle, if so."""
    script = [*with_quotes(rounds())]
    half = len(script) // 2
    with opened(folder, place, queries, results_per_query=10_000, **options) as engine:
        for rows in script[:half]:
            engine.push(rows)
        if not restarts:
            for rows in script[half:]:
                engine.push(rows)
            return numbers(engine)
    with placed(eddyline.open(folder / place, results_per_query=10_000, **options), place) as engine:
        for rows in script[half:]:
            engine.push(rows)
        return numbers(engine)


def with_quotes(script: Iterator[dict[str, list[Any]]]) -> Iterator[dict[str, list[Any]]]:
    """A round of changes of the table before every other round."""
    for number, rows in enumerate(script):
        if number % 2 == 0:
            yield {
                "quotes": [{"sym": "ABC"[(number + k) % 3], "bid": (number + 4 * k) % 10} for k in range(3)]
            }
        yield rows


@pytest.fixture(scope="module")
def plain_numbers(tmp_path_factory):
    """In process, with inputs probed in the order of the text, and without a restart."""
    return lived_numbers(tmp_path_factory.mktemp("plain"), PLACES[0], restarts=False, routing="fixed")


@pytest.mark.parametrize(
    ("place", "routing", "seed", "restarts"),
    [
        ("in process", "random", 1, True),
        ("in tasks", "tickets", 2, True),
        ("in tasks", "auto", 3, False),
        ("workers join", "fixed", 0, False),
        ("workers join", "random", 4, True),
        ("workers join", "tickets", 5, True),
    ],
)
def test_derived_rows_have_the_same_numbers_in_every_place(
    tmp_path, plain_numbers, place, routing, seed, restarts
):
    found, dead = lived_numbers(tmp_path, place, restarts=restarts, routing=routing, seed=seed)
    expected, expected_dead = plain_numbers
    assert all(len(each) > 20 for each in expected.values()), {
        name: len(each) for name, each in expected.items()
    }
    assert found == expected
    assert [each for each in expected_dead if each[0] == "of three in error"]
    assert dead == expected_dead


@pytest.fixture(scope="module")
def plain_view_numbers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plain")
    return lived_numbers(folder, PLACES[0], TABLE_VIEWS, restarts=False, routing="fixed")


@pytest.mark.parametrize(
    ("place", "seed", "restarts"),
    [("in process", 1, True), ("in tasks", 2, True), ("workers join", 3, False)],
)
def test_results_of_joins_with_views_over_tables_have_the_same_numbers_in_every_place(
    tmp_path, plain_view_numbers, place, seed, restarts
):
    found, _ = lived_numbers(tmp_path, place, TABLE_VIEWS, restarts=restarts, routing="random", seed=seed)
    expected, _ = plain_view_numbers
    assert all(len(each) > 20 for each in expected.values()), {
        name: len(each) for name, each in expected.items()
    }
    assert found == expected


@pytest.fixture(scope="module")
def plain_aggregate_numbers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plain")
    return lived_numbers(folder, PLACES[0], JOINED_AGGREGATES, restarts=False, routing="fixed")


@pytest.mark.parametrize(
    ("place", "seed", "restarts"),
    [("in process", 1, True), ("in tasks", 2, True), ("workers join", 3, False), ("workers join", 4, True)],
)
def test_results_of_aggregates_over_joins_have_the_same_numbers_in_every_place(
    tmp_path, plain_aggregate_numbers, place, seed, restarts
):
    found, _ = lived_numbers(
        tmp_path, place, JOINED_AGGREGATES, restarts=restarts, routing="random", seed=seed
    )
    expected, _ = plain_aggregate_numbers
    assert all(len(each) > 20 for each in expected.values()), {
        name: len(each) for name, each in expected.items()
    }
    assert found == expected


@pytest.fixture(scope="module")
def plain_union_numbers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plain")
    return lived_numbers(folder, PLACES[0], UNIONS, restarts=False, routing="fixed")


@pytest.mark.parametrize(
    ("place", "seed", "restarts"),
    [("in process", 1, True), ("in tasks", 2, False), ("workers join", 3, False), ("workers join", 4, True)],
)
def test_results_of_unions_have_the_same_numbers_in_every_place(
    tmp_path, plain_union_numbers, place, seed, restarts
):
    found, dead = lived_numbers(tmp_path, place, UNIONS, restarts=restarts, routing="random", seed=seed)
    expected, expected_dead = plain_union_numbers
    assert all(len(each) > 20 for each in expected.values()), {
        name: len(each) for name, each in expected.items()
    }
    assert found == expected
    assert len({arrival >= FIRST_DERIVED for name, arrival, _ in expected_dead if name == "in error"}) == 2
    assert [each[:2] for each in dead] == [
        each[:2] for each in expected_dead
    ]  # a restart writes times as text


def test_results_of_unions_have_the_same_numbers_however_tasks_cut_rows(tmp_path, plain_union_numbers):
    with opened(tmp_path, PLACES[0], UNIONS, results_per_query=10_000) as engine:
        # a task has several references
        through_tasks(engine, n_pieces=5, most_tasks=2, join_from_rows=1, rows_at_once=2)
        for rows in with_quotes(rounds()):
            engine.push(rows)
        assert numbers(engine)[0] == plain_union_numbers[0]


def test_results_of_a_query_are_read_in_the_order_of_their_numbers(plain_numbers, plain_union_numbers):
    for found, _ in (plain_numbers, plain_union_numbers):
        for results_of_query in found.values():
            places = [(round_number, arrival) for round_number, arrival, *_ in results_of_query]
            assert places == sorted(set(places))


def test_results_of_further_parts_over_streams_are_numbered_first_by_row_and_part(plain_union_numbers):
    found, _ = plain_union_numbers
    parts = ("of streams", "from a join")
    rows = [(number, *each[:2], name) for name in parts for number, *each in found[name]]
    for _, of_round in itertools.groupby(sorted(rows), key=lambda row: row[0]):
        derived = [(arrivals, name) for _, arrival, arrivals, name in of_round if arrival >= FIRST_DERIVED]
        latest = [(len(arrivals) > 1, max(arrivals)) for arrivals, _ in derived]
        assert latest == sorted(latest)


@pytest.mark.parametrize("names", [("both ways", "with itself", "of three"), ("viewed", "joined view")])
def test_what_a_round_derives_is_numbered_by_its_latest_row(plain_numbers, names):
    found, _ = plain_numbers
    by_number = {
        arrival: (round_number, max(arrivals))
        for name in names
        for round_number, arrival, arrivals, _ in found[name]
    }
    in_order = [by_number[number] for number in sorted(by_number)]
    assert in_order == sorted(in_order)


# --------------------------------------------------------------------------------------------- cuts into rounds

ONE_BY_ONE, AT_ONCE = (1,), (10_000,)


def one_stream_of_rows(n_rounds: int = 12) -> list[tuple[str, dict[str, Any]]]:
    """Rows of both streams in their order of arrival, none of them late."""
    found: list[tuple[str, dict[str, Any]]] = []
    for number, rows in enumerate(rounds(n_rounds)):
        mixed = [(stream, row | {"ts": START + number * MINUTE}) for stream in rows for row in rows[stream]]
        random.Random(number).shuffle(mixed)
        found += mixed
    return [(stream, row | {"_arrival": at}) for at, (stream, row) in enumerate(found, 1)]


def cut(rows: list[Any], sizes: tuple[int, ...]) -> Iterator[dict[str, list[dict[str, Any]]]]:
    """Rounds of so many rows, over and over."""
    at = 0
    for size in itertools.cycle(sizes):
        if at >= len(rows):
            return
        found: dict[str, list[dict[str, Any]]] = {}
        for stream, row in rows[at : at + size]:
            found.setdefault(stream, []).append(row)
        yield found
        at += size


def order_of_results(
    sizes: tuple[int, ...], queries: dict[str, str] = CROSSED | {"met": QUERIES["met"]}
) -> dict[str, list[Any]]:
    decided_later = ("unmatched", "alone", "of a table union")
    queries = {
        name: text for name, text in queries.items() if "quotes" not in text and name not in decided_later
    }
    with opened(None, PLACES[0], queries, results_per_query=100_000) as engine:
        for rows in cut(one_stream_of_rows(), sizes):
            engine.push(rows)
        return {query.name: [each.arrivals for each in query.latest(100_000)] for query in engine.queries()}


@pytest.fixture(scope="module")
def one_by_one():
    return order_of_results(ONE_BY_ONE)


@pytest.mark.parametrize("sizes", [AT_ONCE, (7,), (1, 9, 2, 30)], ids=str)
def test_results_have_one_order_however_rows_are_cut_into_rounds(one_by_one, sizes):
    assert all(one_by_one.values())
    assert order_of_results(sizes) == one_by_one


@pytest.mark.parametrize("sizes", [AT_ONCE, (1, 9, 2, 30)], ids=str)
def test_unions_have_the_same_results_however_rows_are_cut_into_rounds(sizes):
    """Within a round, results of the first part come first; so their order is that of the cut."""
    expected, found = (order_of_results(each, UNIONS) for each in (ONE_BY_ONE, sizes))
    assert all(len(each) > 20 for each in expected.values())
    assert {name: sorted(each) for name, each in found.items()} == {
        name: sorted(each) for name, each in expected.items()
    }
