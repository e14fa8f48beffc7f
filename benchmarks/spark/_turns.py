"""Turns of contenders on one session: seconds on the clock, CPU seconds of all processes, and equal numbers of matches."""

from __future__ import annotations

import gc
import statistics
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.harness import Benchmark, wall
from benchmarks.spark._processes import cpu_of_tree

Counts = npt.NDArray[np.int64]  # matches by number of the rule


def _nothing() -> None:
    """Not every contender has to be made ready."""


@dataclass(frozen=True)
class Contender:
    """Who answers, and what is done around its turn without being counted."""

    run: Callable[[], Any]
    n_matches: Callable[[Any], int] = int  # of what it returns; not counted
    by_rule: Callable[[], Counts] | None = None  # once before everything, to compare by
    ready: Callable[[], Any] = _nothing
    done: Callable[[], Any] = _nothing


@dataclass
class Turns:
    """What a contender took in each of its turns."""

    wall_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)

    @property
    def median_s(self) -> float:
        return statistics.median(self.wall_s)

    @property
    def median_cpu_s(self) -> float:
        return statistics.median(self.cpu_s)

    @property
    def spread(self) -> float:
        """Slowest minus fastest, as a share of the median: how much to trust it."""
        return (max(self.wall_s) - min(self.wall_s)) / self.median_s


def taken_turns(
    bench: Benchmark,
    contenders: Mapping[str, Contender],
    *,
    repetitions: int,
    n_rows: int,
    **described: Any,
) -> dict[str, Turns]:
    """Run all contenders in turn, A B A B …, after one turn each that does not count; a row of the table for each. A quick run
    has one turn in all.

    Asserts that all find as many matches of each rule, once, and as many in all in every turn.
    """
    n_matches = _compared(contenders)
    found = {name: Turns() for name in contenders}
    for repetition in range(0 if bench.is_quick else -1, 1 if bench.is_quick else repetitions):
        for name, contender in contenders.items():
            with _its_turn(contender):
                gc.collect()
                cpu, began = cpu_of_tree(), wall()
                result = contender.run()
                took, cpu = wall() - began, cpu_of_tree() - cpu
                n = contender.n_matches(result)
            assert n == n_matches, f"{name} found {n:,} matches, not {n_matches:,}"
            if repetition >= 0:
                found[name].wall_s.append(took)
                found[name].cpu_s.append(cpu)
    for name, turns in found.items():
        bench.row(
            **described,
            who=name,
            rows=n_rows,
            matches=n_matches,
            rows_per_s=n_rows / turns.median_s,
            wall_s=turns.median_s,
            cpu_s=turns.median_cpu_s,
            spread=turns.spread,
        )
    return found


def _compared(contenders: Mapping[str, Contender]) -> int:
    """How many matches there are; asserts that whoever says how many each rule has says the same."""
    first: tuple[str, Counts] | None = None
    for name, contender in contenders.items():
        if contender.by_rule is not None:
            with _its_turn(contender):
                counts = contender.by_rule()
            if first is None:
                first = name, counts
            differ = np.flatnonzero(first[1] != counts)
            assert not len(differ), (
                f"{first[0]} and {name} differ in {len(differ)} rules, the first of them {differ[0]}: "
                f"{first[1][differ[0]]} and {counts[differ[0]]} matches"
            )
    assert first is not None, "nobody says how many matches there are"
    return int(first[1].sum())


@contextmanager
def _its_turn(contender: Contender) -> Iterator[None]:
    try:
        contender.ready()
        yield
    finally:
        contender.done()
