"""Lives a case through an engine, and through the twin that judges it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import eddyline
from tests.joins.made_joins import Case, Step
from tests.laws import check
from tests.oracles.joins import Found, JoinQuery, Twin, comparable

Results = list[dict[str, Found]]  # round by round, the results of each running query that has any


def expected(case: Case) -> Results:
    """The results that the twin finds."""
    twin, rounds = Twin(case.streams), []
    for step in case.steps:
        found = twin_results(twin, step)
        if found is not None:
            rounds.append({name: results for name, results in found.items() if results})
    return rounds


def twin_results(twin: Twin, step: Step) -> dict[str, Found] | None:
    """One step of the twin; of a round, the results of each query."""
    if step.kind in ("add", "replace"):
        assert step.query is not None
        twin.add(step.name, step.query)
    elif step.kind != "round":
        getattr(twin, step.kind)(step.name)
    else:
        rows: dict[str, list[Any]] = {}
        for stream, arrival, row in step.rows:
            rows.setdefault(stream, []).append((arrival, row))
        return twin.push(rows, step.now_us)
    return None


class Lived:
    """A case in an engine, step by step. `open_engine` is used like eddyline.open."""

    def __init__(
        self,
        case: Case,
        *,
        numbers_rows: bool = True,
        open_engine: Callable[..., eddyline.Engine] = eddyline.open,
        **options: Any,
    ) -> None:
        self._now_us = 0
        self.engine = open_engine(results_per_query=1_000_000, clock=lambda: self._now_us, **options)
        self._is_keyed = {declared.name: bool(declared.key) for declared in case.streams}
        self._numbers_rows = numbers_rows
        self._handles: dict[str, eddyline.Query] = {}  # a handle reads on where it stopped
        self._running: dict[str, JoinQuery] = {}
        self._paused: dict[str, JoinQuery] = {}
        for declared in case.streams:
            self.engine.sql(declared.text())

    def do(self, step: Step) -> dict[str, Found] | None:
        """One step; of a round, the results of each query."""
        if step.kind == "add":
            assert step.query is not None
            self._handles[step.name] = self.engine.query(step.query.text(), name=step.name)
            self._running[step.name] = step.query
        elif step.kind == "replace":
            assert step.query is not None
            self._handles[step.name].replace(step.query.text())
            self._running[step.name] = step.query
        elif step.kind == "drop":
            self._handles.pop(step.name).drop()
            self._running.pop(step.name, None)
            self._paused.pop(step.name, None)
        elif step.kind == "pause":
            self._handles[step.name].pause()
            self._paused[step.name] = self._running.pop(step.name)
        elif step.kind == "resume":
            self._handles[step.name].resume()
            self._running[step.name] = self._paused.pop(step.name)
        else:
            return self._round(step)
        return None

    def _round(self, step: Step) -> dict[str, Found]:
        self._now_us = max(self._now_us, step.now_us)
        rows: dict[str, list[dict[str, Any]]] = {}
        for stream, arrival, row in step.rows:
            number = {"_arrival": arrival} if self._numbers_rows else {}
            rows.setdefault(stream, []).append({**row, **number})
        if rows:
            self.engine.push(rows)
        else:
            self.engine.tick()
        check(self.engine)
        return {name: self._results(name, query) for name, query in self._running.items()}

    def _results(self, name: str, query: JoinQuery) -> Found:
        found: Found = Counter()
        is_of_tables = all(self._is_keyed[source.stream] for source in query.sources)
        for result in self._handles[name].results():
            assert is_of_tables or result.change == "insert", result.change
            numbers = getattr(result, "arrivals", None) or (result.arrival,)
            arrivals = tuple(
                0 if self._is_keyed[source.stream] else number
                for source, number in zip(query.sources, numbers, strict=True)
            )
            has_left = result.change in ("delete", "update_preimage")
            found[arrivals, comparable(tuple(result.values()))] += -1 if has_left else 1
        return Counter({row: n for row, n in found.items() if n})


def lived(case: Case, **options: Any) -> Results:
    """The results that an engine finds."""
    life = Lived(case, **options)
    rounds = []
    with life.engine:
        for step in case.steps:
            found = life.do(step)
            if found is not None:
                rounds.append({name: results for name, results in found.items() if results})
    return rounds


def together(rounds: Results) -> dict[str, Found]:
    """The results of each query in all rounds together."""
    total: dict[str, Found] = {}
    for found in rounds:
        for name, results in found.items():
            total.setdefault(name, Counter()).update(results)
    return total
