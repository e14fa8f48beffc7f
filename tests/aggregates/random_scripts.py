"""Random scripts of aggregates in the form of the vectors, each from a seed: what they expect is for a judge to say.

Seeds are drawn by Hypothesis; a script that fails is made small by `smallest`, which leaves out rows, steps and queries. A
query that DuckDB can answer over whole rows has a `judge`: the parts of its text in DuckDB's words.
"""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import Phase
from hypothesis import strategies as st

from tests.aggregates.random_texts import (
    ABSENCES,
    AGGREGATES,
    CONDITIONS,
    EXTREME,
    FINAL,
    FRAMES,
    GAPS,
    HAVINGS,
    JOINS,
    JOINS_OF_STREAMS,
    JOINS_OF_TABLES,
    KEYS,
    LAGS,
    NESTED,
    NESTED_OVER_TABLES,
    OVERS,
    PARTITIONS,
    TEMPORALS,
    VALUES,
    VIEWS,
    WINDOWS,
    Text,
)
from tests.aggregates.written_values import written_instant

SEEDS = st.integers(0, 2**32)
ONCE = (Phase.explicit, Phase.generate)  # a script that fails is made small here, not by other seeds
START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
BEFORE_1970 = datetime.datetime(1969, 12, 31, 23, 55, tzinfo=datetime.UTC)
COLUMNS = "k STRING, v BIGINT, x DOUBLE, d DECIMAL(6,2), b BOOLEAN, ts TIMESTAMP"
TABLE = f"CREATE TABLE t (id INT PRIMARY KEY, {COLUMNS}, gone BOOLEAN) TBLPROPERTIES (delete='gone')"
Query = dict[str, Any]
Script = dict[str, Any]


@dataclass
class Maker:
    """Draws the parts of one script."""

    rng: random.Random
    features: Collection[str]
    can_fail: bool  # whether values may be beyond their types, and divisors 0
    has_late: bool  # whether rows may come after the watermark has passed them
    is_timed: bool  # queries with now() and keep, over one stream
    has_table: bool
    has_stream: bool
    has_second: bool = False  # another stream, with the columns of the first
    n_queries: int = 0
    live: dict[str, Query] = field(default_factory=dict)

    def one(self, choices: Sequence[Any]) -> Any:
        return self.rng.choice(choices)

    def chance(self, percent: int) -> bool:
        return self.rng.randrange(100) < percent

    # ----------------------------------------------------------------------------------------- queries

    def query(self) -> Query:
        """One more query of a form that is allowed."""
        views = [view for view in VIEWS if view in self.live]
        query = self._reader(self.one(views)) if views and self.chance(35) else self.one(self._forms())()
        if "name" not in query:
            self.n_queries += 1
            query["name"] = f"q{self.n_queries}"
        return query

    def _forms(self) -> list[Callable[[], Query]]:
        """What makes a query of each form that is allowed, the likelier ones several times."""
        over_table = {"tables"} if not self.has_stream else set()
        found: list[tuple[int, Callable[[], Query], set[str]]] = [(1, self._selection, set())]
        if self.is_timed:
            found.append((3, self._temporal, {"temporal", "running", *over_table}))
            found.append((3, self._absence, {"absence", "running", *over_table}))
        if self.has_table:
            found.append((2, lambda: self._grouped("t"), {"running", "tables"}))
            found.append((1, lambda: self._windowed("t"), {"windows", "tables"}))
            found.append((3, self._join, set()))
            found.append((1, lambda: self._nested(NESTED_OVER_TABLES), {"nested", "running", "tables"}))
        if self.has_second:
            found.append((6, self._join_of_streams, set()))
        if self.has_stream:
            found += [
                (3 * self.is_timed, self._kept, {"keep", "running"}),
                (2, lambda: self._grouped("s"), {"running"}),
                (2, lambda: self._windowed("s"), {"windows"}),
                (2, lambda: self._windowed("s", is_final=True), {"windows", "final"}),
                (1, self._sessions, {"sessions"}),
                (1, lambda: self._sessions(is_final=True), {"sessions", "final"}),
                (2, self._over, {"over"}),
                (3, self._view, set()),
                (3, lambda: self._nested(NESTED), {"nested", "running"}),
            ]
        return [form for n, form, needs in found if needs <= set(self.features) for _ in range(n)]

    def _selection(self) -> Query:
        source = "s" if self.has_stream else "t"
        return {"sql": f"SELECT k, v, x FROM {source} WHERE {self.one(CONDITIONS)}"}

    def _grouped(
        self, source: str, *, where: str = "", having: str = "", keys: Any = None, form: str = "groups"
    ) -> Query:
        """A query with GROUP BY, without a window."""
        keys = self.one((*KEYS, ())) if keys is None else keys
        return self._text(source, keys, [], where, having, {"form": form})

    def _windowed(self, source: str, *, is_final: bool = False) -> Query:
        spec = self.one(WINDOWS)
        words = ", ".join(f"'{word}'" for word in spec)
        columns = ["window.start AS ws", "window.end AS we"]
        query = self._text(
            source,
            self.one((*KEYS, ())),
            columns,
            "",
            "",
            {"form": "windows", "spec": spec},
            f"window(ts, {words})",
        )
        return self._final(query) if is_final else query

    def _sessions(self, *, is_final: bool = False) -> Query:
        gap = self.one(GAPS)
        columns = ["session_window.start AS ws", "session_window.end AS we"]
        judge = {"form": "sessions", "spec": (gap,)}
        query = self._text(
            "s", self.one((("k",), ("k", "b"), ())), columns, "", "", judge, f"session_window(ts, '{gap}')"
        )
        return self._final(query) if is_final else query

    def _final(self, query: Query) -> Query:
        return {**query, "properties": FINAL}

    def _text(
        self, source: str, keys: Sequence[str], columns: Sequence[str], where: str, having: str, judge: Mapping[str, Any],
        window: str = "",
    ) -> Query:  # fmt: skip
        """The text of a query with groups, and for DuckDB its parts."""
        names = [key if key.isidentifier() else f"g{at}" for at, key in enumerate(keys)]
        aggregates = self.rng.choices(list(AGGREGATES), k=self.rng.randint(1, 3))
        condition = " AND ".join(
            f"({part})" for part in (where, self.one(CONDITIONS) if self.chance(40) else "") if part
        )
        having = having or (self.one(HAVINGS) if self.chance(40) else "")
        failing = self._failing(source, where, window) if self.can_fail and self.chance(30) else ""
        values = [
            f"{text} AS f{at}" for at, text in enumerate([*aggregates, *([failing] if failing else [])])
        ]
        if self.can_fail and self.chance(15) and not where:
            having = f"count(*) >= 2 AND 10 / sum({self.one(('v', 'x'))}) >= 1"
        shown_keys = [
            key if key == name else f"{key} AS {name}" for key, name in zip(keys, names, strict=True)
        ]
        sql = f"SELECT {', '.join([*shown_keys, *columns, *values])} FROM {source}"
        sql += f" WHERE {condition}" if condition else ""
        groups = [*keys, *([window] if window else [])]
        sql += f" GROUP BY {', '.join(groups)}" if groups else ""
        sql += f" HAVING {having}" if having else ""
        words = [AGGREGATES[text] for text in aggregates]
        if self.can_fail or None in words:
            return {"sql": sql}
        parts = {"source": source, "keys": list(keys), "values": words, "where": condition, "having": having}
        return {"sql": sql, "judge": {**parts, **judge}}

    def _failing(self, source: str, where: str, window: str) -> str:
        """A value that fails for some rows or groups. Where late rows take no part, only one of groups."""
        of_groups = ["10 / sum(v)", "10 / count(v)", "10 / max(x)"]
        return self.one(
            of_groups if source == "t" or where or window else [*of_groups, "sum(100 / v)", "max(v + 1)"]
        )

    def _temporal(self) -> Query:
        where = self.one(TEMPORALS).format(n=self.one((1, 2, 4)))
        return self._grouped(
            "s" if self.has_stream else "t", where=where, keys=self.one((("k",), ("k", "b"), ()))
        )

    def _absence(self) -> Query:
        having = self.one(ABSENCES).format(n=self.one((1, 2, 4)))
        return self._grouped("s" if self.has_stream else "t", having=having, keys=self.one((("k",), ("b",))))

    def _kept(self) -> Query:
        having = self.one(ABSENCES).format(n=2) if "absence" in self.features and self.chance(30) else ""
        query = self._grouped("s", having=having, keys=self.one((("k",), ("k", "b"))))
        return {"sql": query["sql"], "properties": {"keep": self.one(("2 minutes", "5 minutes"))}}

    def _over(self) -> Query:
        calls = self.rng.choices((*OVERS, *LAGS), k=self.rng.randint(1, 3))
        frames = ["" if call in LAGS else self.one(list(FRAMES)) for call in calls]
        partition, where = self.one(PARTITIONS), self.one(CONDITIONS) if self.chance(30) else ""
        by = f"PARTITION BY {', '.join(partition)} " if partition else ""
        fails = [self.can_fail and call in ("count(*)", "sum(v)") and self.chance(20) for call in calls]
        values = [
            f"{'10 / ' if fail else ''}{call} OVER ({by}ORDER BY ts{frame}) AS o{at}"
            for at, (call, frame, fail) in enumerate(zip(calls, frames, fails, strict=True))
        ]
        conditions = ["o0 IS NOT NULL", "v > 1 OR o0 IS NULL"] + ["o0 >= 2"] * (
            calls[0] in ("count(*)", "sum(v)")
        )
        qualify = self.one(conditions) if self.chance(40) else ""
        sql = f"SELECT k, v, ts, {', '.join(values)} FROM s" + (f" WHERE {where}" if where else "")
        sql += f" QUALIFY {qualify}" if qualify else ""
        if self.can_fail:
            return {"sql": sql}
        words = [(OVERS | LAGS)[call] for call in calls]
        judge = {
            "form": "over",
            "source": "s",
            "keys": partition,
            "values": words,
            "where": where,
            "having": qualify,
        }
        return {"sql": sql, "judge": judge | {"frames": [FRAMES[frame] for frame in frames]}}

    def _join(self) -> Query:
        texts = JOINS if self.has_stream and self.chance(80) else JOINS_OF_TABLES
        return self._query_of(
            self.one([t for t in self._allowed(texts) if "joins" in self.features or not t.needs])
        )

    def _join_of_streams(self) -> Query:
        texts = self._allowed(JOINS_OF_STREAMS)
        return self._query_of(self.one([t for t in texts if "joins" in self.features or not t.needs]))

    def _nested(self, texts: Sequence[Text]) -> Query:
        return self._query_of(self.one(self._allowed(texts)))

    def _view(self) -> Query:
        """A view, or if it is there a query that reads it."""
        can_read = "views" in self.features
        allowed = [
            v
            for v, (text, _) in VIEWS.items()
            if text in self._allowed([text]) and (can_read or not text.needs)
        ]
        view = self.one(allowed)
        return self._reader(view) if view in self.live else {"name": view, **self._query_of(VIEWS[view][0])}

    def _reader(self, view: str) -> Query:
        can_read = "views" in self.features
        return self._query_of(self.one([t for t in self._allowed(VIEWS[view][1]) if can_read or not t.needs]))

    def _allowed(self, texts: Sequence[Text]) -> list[Text]:
        """Those that need no more than the features, and now() only where it may be."""
        found = [text for text in texts if text.needs <= set(self.features)]
        return [text for text in found if self.is_timed or "now()" not in text.sql]

    def _query_of(self, text: Text) -> Query:
        found = {"sql": text.sql.format(n=self.one((1, 2, 3)))}
        return {**found, "properties": text.properties} if text.properties else found

    # ----------------------------------------------------------------------------------------- rows

    def row(self, now: datetime.datetime, arrival: int) -> list[Any]:
        values = [self.one(pool) for pool in VALUES.values()]
        if self.can_fail and self.chance(10):
            values[1] = self.one(EXTREME)
        return [arrival, *values, self.time(now)]

    def time(self, now: datetime.datetime) -> str | None:
        """Around the time of the round, on a grid so that edges are met; sometimes late, sometimes none."""
        if self.chance(5):
            return None
        late = self.one((0, 0, 0, 0, 30, 60, 90, 240 if self.has_late else 120))
        time = now + datetime.timedelta(seconds=self.one((-30, -10, 0, 0, 10, 30)) - late)
        return written_instant(time + datetime.timedelta(microseconds=self.one((0, 0, 0, 1, -1))))


def script(
    seed: int,
    features: Collection[str],
    *,
    can_fail: bool = True,
    has_late: bool = True,
    max_rounds: int = 10,
) -> Script:
    """A script that needs no more than these features: streams, queries and steps."""
    rng = random.Random(seed)
    is_timed = bool({"temporal", "absence", "keep"} & set(features)) and rng.random() < 0.4
    kinds = rng.choice(["s", "s", "t"] if is_timed else ["s", "s", "s", "t", "st", "st", "sr"])
    maker = Maker(rng, features, can_fail, has_late, is_timed, "t" in kinds, "s" in kinds, "r" in kinds)
    lateness = rng.choice(("0 seconds", "1 minute", "3 minutes")) if has_late else "10 minutes"
    s, r = (f"CREATE TABLE {n} ({COLUMNS}) TBLPROPERTIES (time='ts', lateness='{lateness}')" for n in "sr")
    queries = []
    for _ in range(rng.randint(1, 4)):
        queries.append(maker.query())
        maker.live[queries[-1]["name"]] = queries[-1]
    steps = _steps(maker, rng.randint(3, max_rounds))
    streams = [s] * maker.has_stream + [r] * maker.has_second + [TABLE] * maker.has_table
    return {"name": f"random {seed}", "streams": streams, "queries": queries, "steps": steps}


def _steps(maker: Maker, n_rounds: int) -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = []
    now = event_time = START
    if not maker.is_timed and maker.chance(20):
        event_time = BEFORE_1970
    arrival = 0
    for _ in range(n_rounds):
        passed = datetime.timedelta(seconds=maker.one((0, 30, 60, 60, 120, 240)))
        now, event_time = now + passed, event_time + passed
        has_new = _churn(maker, steps)
        if maker.chance(25) or (has_new and ((maker.has_stream and maker.has_table) or maker.has_second)):
            steps.append({"tick": written_instant(now)})
            continue
        pushed: dict[str, list[Any]] = {}
        there = (("s", maker.has_stream), ("r", maker.has_second), ("t", maker.has_table))
        for name in [n for n, is_there in there if is_there]:
            rows = []
            for _ in range(maker.one((0, 1, 2, 3, 4, 6, 10))):
                arrival += maker.one((1, 1, 1, 2, 7))
                row = maker.row(event_time, arrival)
                rows.append(
                    row
                    if name != "t"
                    else [row[0], maker.one((1, 2, 3, 4, 5)), *row[1:], maker.one((False, None, True))]
                )
            pushed[name] = rows
        steps.append({"push": pushed, "now": written_instant(now)})
    return steps


def _churn(maker: Maker, steps: list[dict[str, Any]]) -> bool:
    """Perhaps drop a query that none reads, perhaps add one; whether one was added."""
    read = {view for view in VIEWS for query in maker.live.values() if f"FROM {view}" in query["sql"]}
    free = [name for name in maker.live if name not in read]
    if free and maker.chance(12):
        gone = maker.one(free)
        steps.append({"drop": gone})
        again = maker.live.pop(gone)
        if maker.chance(30):
            steps.append({"add": again})
            maker.live[gone] = again
            return True
    if not maker.chance(25):
        return False
    query = maker.query()
    maker.live[query["name"]] = query
    steps.append({"add": query})
    return True


# --------------------------------------------------------------------------------------------- smaller scripts


def smallest(script: Script, fails: Callable[[Script], bool]) -> Script:
    """A script that still fails, and no longer does if any row, step or query is left out."""
    while True:
        smaller = next((each for each in _without_one(script) if _is_sound(each) and fails(each)), None)
        if smaller is None:
            return script
        script = smaller


def _without_one(script: Script) -> Iterator[Script]:
    for part in ("steps", "queries"):
        for at in range(len(script[part])):
            yield {**script, part: [*script[part][:at], *script[part][at + 1 :]]}
    for at, step in enumerate(script["steps"]):
        for stream, rows in step.get("push", {}).items():
            for i in range(len(rows)):
                push = {**step["push"], stream: [*rows[:i], *rows[i + 1 :]]}
                yield {
                    **script,
                    "steps": [*script["steps"][:at], {**step, "push": push}, *script["steps"][at + 1 :]],
                }


def _is_sound(script: Script) -> bool:
    """Whether every query that is dropped or read is there."""
    live = {query["name"] for query in script["queries"]}
    for query in script["queries"]:
        if any(view in query["sql"].split() and view not in live for view in VIEWS):
            return False
    for step in script["steps"]:
        if "drop" in step and step["drop"] not in live:
            return False
        live.discard(step.get("drop", ""))
        if "add" in step:
            if any(view in step["add"]["sql"].split() and view not in live for view in VIEWS):
                return False
            live.add(step["add"]["name"])
    return True
