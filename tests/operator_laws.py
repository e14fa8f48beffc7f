"""Laws of operators, over a script: declarations, queries, and rows in the order in which they arrive.

Each law lives a script in two ways and compares what came of it. `results` has every change that a query was given, `folded`
what remains of them, which has to be the same under every cut into rounds.

Rows of a script are never late and all rounds have one now(): what is late depends on the cut, and so does what now() decides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import eddyline
from tests.on_workers import RunTasks, elsewhere, through_tasks

PLACES = ("in process", "in tasks", "workers join")
Row = Mapping[str, Any]
Rows = dict[str, list[Row]]  # of a round, by stream
Change = tuple[int, tuple[int, ...], str, tuple[Any, ...]]  # round, arrival numbers, what changed, values


class RoundFailure(Exception):
    """A round that did all its work and then did not commit."""


@dataclass(frozen=True)
class Script:
    declarations: str
    queries: Mapping[str, str]  # views before the queries that read them
    rows: Sequence[tuple[str, Row]]

    tables: frozenset[str]  # the streams with a key

    def rounds(self, *sizes: int) -> list[Rows]:
        """The rows in rounds of these sizes, again and again, each of tables or of streams alone: tasks have no rows of tables.

        One ends early where a stream would come a second time: the order of arrival is then that of the streams.
        """

        def ends(rows: Sequence[tuple[str, Row]], stream: str) -> bool:
            last = rows[-1][0]
            comes_again = last != stream and any(stream == each for each, _ in rows)
            return comes_again or (last in self.tables) != (stream in self.tables)

        return [_by_stream(rows) for rows in _slices(self.rows, sizes, ends)]

    def numbered_rounds(self, *sizes: int) -> list[Rows]:
        """The same, of any size: each row brings its number. Workers are given no such rows."""
        numbered = [(stream, {**row, "_arrival": n}) for n, (stream, row) in enumerate(self.rows, 1)]
        return [_by_stream(rows) for rows in _slices(numbered, sizes, lambda rows, stream: False)]


@dataclass(frozen=True)
class Outcome:
    """What an engine gave, and what it has stored at the end."""

    results: dict[str, list[Change]]
    dead: list[tuple[int, str, str]]  # arrival number, query, error
    n_stored: dict[str, int]  # rows of windows and tables, by relation

    def folded(self) -> dict[str, Counter[tuple[Any, ...]]]:
        return {name: folded(changes) for name, changes in self.results.items()}

    def of(self, names: Sequence[str]) -> Outcome:
        return replace(self, results={name: self.results[name] for name in names})


def folded(changes: Sequence[Change]) -> Counter[tuple[Any, ...]]:
    """What remains of changes: rows, and how often each is there."""
    found: Counter[tuple[Any, ...]] = Counter()
    for _, _, change, values in changes:
        found[values] += -1 if change in ("delete", "update_preimage") else 1
    return Counter({values: n for values, n in found.items() if n})


class Life:
    """A script in an engine with a home, in one of the places."""

    def __init__(self, script: Script, home: Path, place: str = PLACES[0], run: RunTasks = elsewhere) -> None:
        self._script, self._home, self._place, self._run = script, home, place, run
        self.engine = self._opened()
        self.engine.sql(script.declarations)

    def _opened(self) -> eddyline.Engine:
        engine = eddyline.open(self._home, results_per_query=1_000_000, clock=lambda: 1_767_225_600_000_000)
        if self._place != PLACES[0]:
            from_rows = 1 if self._place == PLACES[2] else 1_000_000
            through_tasks(engine, self._run, n_pieces=2, join_from_rows=from_rows)
        return engine

    def register(self, names: Sequence[str] | None = None) -> None:
        for name in self._script.queries if names is None else names:
            self.engine.query(self._script.queries[name], name=name)

    def push(self, rows: Rows) -> None:
        self.engine.push(rows)
        self.engine.rounds.flow.joins.check()
        for table in self.engine.rounds.flow.joins.stage.tables.values():
            table.check()

    def fail(self, rows: Rows) -> None:
        def stop(step: str) -> None:
            if step == "4 commit":
                raise RoundFailure

        self.engine.rounds.at_step = stop
        try:
            self.engine.push(rows)
        except RoundFailure:
            return
        finally:
            self.engine.rounds.at_step = lambda step: None
        raise AssertionError("the round has committed")

    def reopen(self) -> None:
        self.engine.close()
        self.engine = self._opened()

    def outcome(self) -> Outcome:
        flow, queries = self.engine.rounds.flow, self.engine.queries(per_page=1_000_000)
        results = {
            query.name: sorted(
                ((r.round_number, r.arrivals, r.change, tuple(r.values())) for r in query.latest(1_000_000)),
                key=repr,
            )
            for query in queries
        }
        dead = sorted((d.arrival or 0, d.query or "", d.error) for d in self.engine.dead_letters())
        n_stored = {name: stem.n_rows for name, stem in flow.joins.stage.stems.items()}
        n_stored |= {name: len(table.current()) for name, table in flow.joins.stage.tables.items()}
        return Outcome(results, dead, n_stored)

    def end(self) -> Outcome:
        found = self.outcome()
        self.engine.close()
        return found


def lived(
    script: Script,
    home: Path,
    rounds: Sequence[Rows],
    place: str = PLACES[0],
    before: Callable[[Life, int], None] = lambda life, number: None,
    run: RunTasks = elsewhere,
) -> Outcome:
    """A script from its first round to its last; `before` is called before each."""
    life = Life(script, home, place, run)
    life.register()
    for number, rows in enumerate(rounds):
        before(life, number)
        life.push(rows)
    return life.end()


# --------------------------------------------------------------------------------------------- the laws


def every_place_gives_the_same(
    script: Script, home: Path, rounds: Sequence[Rows], place: str, one: Outcome
) -> None:
    """What the shares of all tasks and workers give together is what one place gives, and so is what is stored."""
    same(lived(script, home, rounds, place), one)


def a_restart_changes_nothing(
    script: Script, home: Path, rounds: Sequence[Rows], place: str, one: Outcome
) -> None:
    """Closed and opened again before every third round; purging may come earlier then."""

    def reopen(life: Life, number: int) -> None:
        if number % 3 == 1:
            life.reopen()

    found = lived(script, home, rounds, place, reopen)
    same(replace(found, n_stored=one.n_stored), one)


def a_round_that_failed_leaves_nothing(
    script: Script, home: Path, rounds: Sequence[Rows], place: str, one: Outcome
) -> None:
    """Every other round is tried and fails, alternately with its own rows, which then come again, and with those of the next."""

    def fail(life: Life, number: int) -> None:
        if number % 2:
            life.fail(rounds[min(number + number // 2 % 2, len(rounds) - 1)])

    same(lived(script, home, rounds, place, fail), one)


def a_task_that_is_run_twice_counts_once(
    script: Script, home: Path, rounds: Sequence[Rows], place: str, one: Outcome
) -> None:
    """As speculative execution does: all attempts write, the result of one of them is brought back."""
    n_jobs = 0

    def run_twice(tasks: Sequence[Any]) -> list[Any]:
        nonlocal n_jobs
        n_jobs += 1
        first, second = elsewhere(tasks), elsewhere(tasks)
        return [(first, second)[number % 2][number] for number in range(len(tasks))]

    same(lived(script, home, rounds, place, run=run_twice), one)
    assert n_jobs >= sum(not script.tables.intersection(rows) for rows in rounds)


def a_cut_changes_nothing_that_remains(
    script: Script, home: Path, rounds: Sequence[Rows], place: str, one: Outcome, names: Sequence[str]
) -> None:
    """Other rounds of the same rows; `names` are the queries of which this is true."""
    found, expected = lived(script, home, rounds, place).of(names).folded(), one.of(names).folded()
    assert found == expected, _differing(found, expected)


def what_all_rows_left_folds_to_nothing(
    script: Script, home: Path, rounds: Sequence[Rows], deletes: Rows, names: Sequence[str]
) -> None:
    """Of queries over tables alone, when every row of the tables is deleted."""
    life = Life(script, home)
    life.register()
    for rows in rounds:
        life.push(rows)
    life.push(deletes)
    found = life.end()
    assert {name: found.n_stored[name] for name in deletes} == dict.fromkeys(deletes, 0)
    assert all(found.results[name] for name in names), "a query had no rows that could leave"
    remaining = found.of(names).folded()
    assert remaining == {name: Counter() for name in names}, remaining


def a_late_reader_gets_what_is_there_and_what_comes(
    script: Script,
    home: Path,
    rounds: Sequence[Rows],
    at: int,
    late: Mapping[str, bool],
    one: Outcome,
    *,
    is_reopened: bool,
) -> None:
    """Queries that come before round `at`, each with whether it is over tables alone.

    Of tables they end with what a query from the beginning has. Of streams they get what the view finds from then on.
    """
    life = Life(script, home)
    life.register([name for name in script.queries if name not in late])
    for number, rows in enumerate(rounds):
        if number == at:
            life.register(list(late))
            if is_reopened:
                life.reopen()
        life.push(rows)
    found = life.end()
    for name, is_of_tables in late.items():
        if is_of_tables:
            assert folded(found.results[name]) == folded(one.results[name]), name
        else:
            expected = [change for change in one.results[name] if change[0] > at]
            assert found.results[name] == sorted(expected, key=repr), name


def alone_is_as_together(script: Script, home: Path, rounds: Sequence[Rows], name: str, one: Outcome) -> None:
    """A query with nothing but the views it reads."""
    needed = {name}
    for each in reversed(script.queries):
        if any(f" {each} " in f"{script.queries[reader]} " for reader in needed):
            needed.add(each)
    queries = {each: text for each, text in script.queries.items() if each in needed}
    found = lived(replace(script, queries=queries), home, rounds)
    assert found.results[name] == one.results[name]


def same(found: Outcome, expected: Outcome) -> None:
    assert found.results == expected.results, _differing(found.results, expected.results)
    assert found.dead == expected.dead
    assert found.n_stored == expected.n_stored


def _differing(found: Mapping[str, Any], expected: Mapping[str, Any]) -> str:
    """What is too much and what is missing, by query."""
    lines = []
    for name in expected:
        if found[name] != expected[name]:
            extra = [each for each in found[name] if each not in expected[name]]
            missing = [each for each in expected[name] if each not in found[name]]
            lines.append(f"{name}: too much {extra[:5]}, missing {missing[:5]}")
    return "\n".join(lines)


# --------------------------------------------------------------------------------------------- cutting


def _slices(
    rows: Sequence[tuple[str, Row]],
    sizes: Sequence[int],
    ends: Callable[[Sequence[tuple[str, Row]], str], bool],
) -> Iterator[list[tuple[str, Row]]]:
    """Rows in slices of these sizes; `ends` says whether one ends before a row of this stream."""
    some: list[tuple[str, Row]] = []
    n_slices = 0
    for stream, row in rows:
        if some and (len(some) >= sizes[n_slices % len(sizes)] or ends(some, stream)):
            yield some
            some, n_slices = [], n_slices + 1
        some.append((stream, row))
    if some:
        yield some


def _by_stream(rows: Sequence[tuple[str, Row]]) -> Rows:
    found: Rows = {}
    for stream, row in rows:
        found.setdefault(stream, []).append(row)
    return found
