"""Random views over views, joined again with what they are made of: inner, left, anti and semi joins, in every place.

Every relation has the columns k, x and ts, so any of them can stand anywhere: diamonds (a view and its own base) and self-joins
come up by themselves. The oracle (tests/oracles/views.py) makes all rows one by one.
"""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import eddyline
from tests.on_workers import through_tasks
from tests.oracles.views import Change, History, Query, RoundEnd, Row, Values, n_rows, rows_of

pytestmark = pytest.mark.thorough

START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
PLACES = ("in process", "in tasks", "workers join")
LATENESS_S = 3
STREAMS, TABLE = ("a", "b"), "q"
MOST_ROWS = (
    8  # of streams that a row is made of: a join takes no more inputs, and the oracle no longer products
)
N_ROUNDS = 18


class Views:
    """A random list of views, each over streams and views before it, as text and for the oracle."""

    def __init__(self, rng: random.Random, n_views: int) -> None:
        self.rng = rng
        self.texts: dict[str, str] = {}
        self.queries: dict[str, Query] = {}
        self._n_rows = dict.fromkeys(
            STREAMS, 1
        )  # of streams and tables, that a row of each relation is made of
        self._timed = set(STREAMS)  # views over outer joins have no time, and are joined with tables alone
        self.kinds: dict[str, str] = {}
        makers = [self._selection, self._pair, self._pair, self._pair, self._of_table, self._of_table]
        while len(self.texts) < n_views:
            rng.choice(makers)(f"v{len(self.texts)}")

    def _add(self, name: str, kind: str, text: str, query: Query) -> None:
        self.texts[name], self.queries[name], self.kinds[name] = text, query, kind
        self._n_rows[name] = n_rows(name, self.queries)
        if query.kind in ("inner", "semi") and query.inputs[0] in self._timed:
            self._timed.add(name)

    def _relation(self, most: int, *, is_timed: bool = False) -> str:
        """Rather a new view than an old one or a stream."""
        known = [
            name for name, n in self._n_rows.items() if n <= most and (name in self._timed or not is_timed)
        ]
        return known[-1 - int(len(known) * self.rng.random() ** 2)]

    def _selection(self, name: str) -> None:
        below, odd = self._relation(MOST_ROWS), self.rng.randint(2, 4)
        self._add(
            name,
            "selection",
            f"SELECT k, x + 1 AS x, ts FROM {below} WHERE abs(x) % {odd} > 0",
            Query(
                (below,),
                lambda row: abs(row["x"]) % odd > 0,
                lambda row: {"k": row["k"], "x": row["x"] + 1, "ts": row["ts"]},
                time="ts",
                behind_s=(0,),
            ),
        )

    def _pair(self, name: str) -> None:
        """A join of two relations, of which one is often made of the other, or is the same."""
        rng, kind = self.rng, self.rng.choice(["inner", "left", "anti"])
        left = self._relation(MOST_ROWS - 1, is_timed=True)
        most = MOST_ROWS - self._n_rows[left]
        right = left if rng.random() < 0.3 else self._relation(most, is_timed=True)
        if self._n_rows[left] + self._n_rows[right] > MOST_ROWS:
            return
        low = rng.randint(-3, 2)
        high, odd = low + rng.randint(0, 4), rng.randint(1, 3)
        near = f"r.ts BETWEEN {_shifted('l.ts', low)} AND {_shifted('l.ts', high)}"
        on = f"l.k = r.k AND {near} AND abs(l.x + r.x) % {odd + 1} < {odd}"

        def keeps(one: Values, other: Values) -> bool:
            is_near = one["ts"] + low <= other["ts"] <= one["ts"] + high
            return one["k"] == other["k"] and is_near and abs(one["x"] + other["x"]) % (odd + 1) < odd

        sources = f"FROM {left} l {'LEFT ANTI' if kind == 'anti' else kind.upper()} JOIN {right} r ON {on}"
        if kind == "anti" and rng.random() < 0.5:
            sources = f"FROM {left} l WHERE NOT EXISTS (SELECT 1 FROM {right} r WHERE {on})"
        shown, shows = _shown("r.x", kind)
        self._add(
            name,
            kind,
            f"SELECT {shown} {sources}",
            Query(
                (left, right), keeps, shows, time="ts", kind=kind, reach_s=high, behind_s=(0, high)
            ),
        )  # fmt: skip

    def _of_table(self, name: str) -> None:
        """A join with the table, whose rows a row finds as they are when it comes."""
        rng, kind = self.rng, self.rng.choice(["inner", "left", "anti", "semi"])
        left, least = self._relation(MOST_ROWS - 1), rng.randint(0, 6)
        on = f"l.k = q.k AND q.n > {least}"
        words = {"left": "LEFT", "anti": "LEFT ANTI", "semi": "LEFT SEMI", "inner": ""}[kind]
        sources = f"FROM {left} l {words} JOIN q ON {on}"
        if kind == "semi":
            sources = rng.choice(
                [
                    sources,
                    f"FROM {left} l WHERE EXISTS (SELECT 1 FROM q WHERE {on})",
                    f"FROM {left} l WHERE l.k IN (SELECT k FROM q WHERE n > {least})",
                ]
            )
        shown, shows = _shown("q.n", kind)
        self._add(
            name,
            f"{kind} of a table",
            f"SELECT {shown} {sources}",
            Query(
                (left, TABLE),
                lambda row, found: row["k"] == found["k"] and found["n"] > least,
                shows,
                time="ts",
                kind=kind,
                behind_s=(0,),
            ),
        )


def _shown(other: str, kind: str) -> tuple[str, Callable[..., Values]]:
    """What a join shows, of both inputs or of the left one alone."""
    if kind in ("anti", "semi"):
        return "l.k, l.x, l.ts", lambda one, found: dict(one)
    column = other.rpartition(".")[2]

    def shows(one: Values, found: Values | None) -> Values:
        return {"k": one["k"], "x": one["x"] - (100 if found is None else found[column]), "ts": one["ts"]}

    return f"l.k, l.x - coalesce({other}, 100) AS x, l.ts", shows


def _shifted(time: str, seconds: int) -> str:
    return f"{time} {'+' if seconds >= 0 else '-'} INTERVAL {abs(seconds)} SECONDS"


class Life:
    """Random rounds, the same for an engine and for the oracle."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.history = History({name: [] for name in STREAMS}, {TABLE: []})
        self.watermarks: dict[str, int] = {}
        self.clock = 0

    def rows(self) -> dict[str, list[Any]]:
        """The next round: rows of streams, or changes of the table, or both."""
        rng = self.rng
        self.clock += rng.randint(0, 3)
        rows: dict[str, list[Any]] = {
            name: [
                (rng.randint(1, 2), rng.randint(0, 9), max(0, self.clock - rng.choice([0, 0, 1, 1, 2, 3, 8])))
                for _ in range(rng.choice([0, 1, 2, 3]))
            ]
            for name in STREAMS
        }
        if rng.random() < 0.3:
            rows[TABLE] = [
                (rng.randint(1, 4), rng.randint(1, 2), rng.choice([None, *range(9)]))
                for _ in range(rng.randint(1, 3))
            ]
            if rng.random() < 0.5:
                rows = {TABLE: rows[TABLE]}
        return rows

    def take(self, rows: dict[str, list[Any]], first: int, version: int) -> None:
        """What arrived, numbered by stream; late is what lies behind the watermark before the round."""
        for name, new in rows.items():
            before = self.watermarks.get(name)
            for key, *values in new:
                if name == TABLE:
                    k, n = values
                    found = None if n is None else {"k": k, "n": n}
                    self.history.tables[TABLE].append(Change(key, found, first))
                else:
                    x, ts = values
                    is_late = before is not None and ts < before
                    row = Row({"k": key, "x": x, "ts": ts}, (first,), ts, is_late, version, first)
                    self.history.streams[name].append(row)
                    self.watermarks[name] = max(ts - LATENESS_S, self.watermarks.get(name, ts - LATENESS_S))
                first += 1
        self.history.rounds.append(RoundEnd(version, first - 1, dict(self.watermarks)))


def opened(folder: Path, place: str) -> eddyline.Engine:
    engine = eddyline.open(folder / place, results_per_query=100_000)
    if not engine.streams():
        for name in STREAMS:
            engine.sql(
                f"CREATE TABLE {name} (k INT, x INT, ts TIMESTAMP) "
                f"TBLPROPERTIES (time='ts', lateness='{LATENESS_S} seconds')"
            )
        engine.sql("CREATE TABLE q (id INT PRIMARY KEY, k INT, n INT)")
    if place != PLACES[0]:
        through_tasks(engine, n_pieces=2, join_from_rows=1 if place == PLACES[2] else 1_000_000)
    return engine


def push(engine: eddyline.Engine, rows: dict[str, list[Any]]) -> None:
    def as_pushed(name: str, row: Any) -> dict[str, Any]:
        if name != TABLE:
            return {"k": row[0], "x": row[1], "ts": START + datetime.timedelta(seconds=row[2])}
        change = "delete" if row[2] is None else "insert"
        return {"id": row[0], "k": row[1], "n": row[2], "_change_type": change}

    engine.push({name: [as_pushed(name, row) for row in new] for name, new in rows.items()})


def found(engine: eddyline.Engine, name: str) -> list[Any]:
    return sorted(
        (result.arrivals, result["k"], result["x"], int((result["ts"] - START).total_seconds()))
        for result in engine.get(name).latest(100_000)
    )


def expected(life: Life, views: Views, name: str, versions: dict[str, int]) -> list[Any]:
    rows = rows_of(name, life.history, views.queries, versions)
    return sorted((row.arrivals, row.values["k"], row.values["x"], row.values["ts"]) for row in rows)


def lived(folder: Path, place: str, seed: int) -> tuple[Life, Views, dict[str, int], dict[str, list[Any]]]:
    """A life in one place: views come late, too, and the home is opened again in the middle."""
    rng = random.Random(seed)
    views, life, versions = Views(rng, n_views=9), Life(rng), dict[str, int]()
    waiting = list(views.texts)
    engine = opened(folder, place)
    for number in range(N_ROUNDS):
        while waiting and (rng.random() < 0.7 or number == N_ROUNDS // 2):
            name = waiting.pop(0)
            engine.query(views.texts[name], name=name)
            versions[name] = engine.version
        if number == N_ROUNDS // 2:
            engine.close()
            engine = opened(folder, place)
        rows = life.rows()
        first = engine.rounds.last_arrival + 1
        push(engine, rows)
        life.take(rows, first, engine.version)
    with engine:
        return life, views, versions, {name: found(engine, name) for name in views.texts}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("seed", range(6))
def test_random_joins_of_views_are_what_their_rows_one_by_one_make_them(tmp_path, place, seed):
    life, views, versions, results = lived(tmp_path, place, seed)
    for name, text in views.texts.items():
        assert results[name] == expected(life, views, name, versions), (name, text)


def test_the_random_joins_have_results_of_every_kind(tmp_path):
    n_results: dict[str, int] = {}
    for seed in range(6):
        life, views, versions, _ = lived(tmp_path / str(seed), PLACES[0], seed)
        for name, kind in views.kinds.items():
            n_results[kind] = n_results.get(kind, 0) + len(expected(life, views, name, versions))
    tables = {f"{kind} of a table" for kind in ("inner", "left", "anti", "semi")}
    assert n_results.keys() == {"selection", "inner", "left", "anti"} | tables
    assert min(n_results.values()) > 10, n_results
