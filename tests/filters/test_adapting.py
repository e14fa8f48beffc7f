"""Orders of filters follow the data on a busy machine, whatever the size of a push. What calls take is made up, not measured."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow.compute as pc
import pytest

import eddyline
from eddyline.filters import stage as stage_module
from eddyline.functions.declarations import DECLARED
from eddyline.routing import Router

PASSING = (0.05, 0.2, 0.4, 0.6, 0.8, 0.9)  # of each function; after the flip the other way round
OPTIMUM = 1 + 0.05 + 0.05 * 0.2 + 0.05 * 0.2 * 0.4 + 0.05 * 0.2 * 0.4 * 0.6 * (1 + 0.8)
CALL_S, ROW_S = 2.6e-4, 2e-6


class BusyMachine:
    """Six functions of 2 us a row, and a clock that only they advance: one call in six takes five times as long, or longer."""

    def __init__(self, routing: str, seed: int) -> None:
        self.now_s, self.n_calls = 0.0, 0
        self._rng = np.random.default_rng(seed)
        for k in range(len(PASSING)):
            self._declare(k)
        self.engine = eddyline.open(seed=seed, routing=routing, results_per_query=1)
        self.engine.stream("s", ", ".join(f"c{k} DOUBLE" for k in range(len(PASSING))))
        condition = " AND ".join(f"busy{k}(c{k})" for k in range(len(PASSING)))
        self.engine.query(f"SELECT * FROM s WHERE {condition}")
        self.push(1, PASSING)  # the stage is there with the first row
        ((_, stage),) = self.engine.rounds.stages()
        stage._clock = lambda: self.now_s
        self.router = stage.router

    def _declare(self, k: int) -> None:
        @eddyline.udf(returns="boolean", name=f"busy{k}", version="1")
        def busy(value):
            slow = 5 * (1 + self._rng.pareto(2)) if self._rng.random() < 1 / 6 else 1.0
            self.now_s += (CALL_S + ROW_S * len(value)) * self._rng.lognormal(0, 0.2) * slow
            self.n_calls += len(value)
            return pc.less(value, 1.0)

    def push(self, n_rows: int, passing: tuple[float, ...]) -> int:
        """How many evaluations a push of so many rows took."""
        before = self.n_calls
        self.engine.push("s", {f"c{k}": self._rng.random(n_rows) / rate for k, rate in enumerate(passing)})
        return self.n_calls - before


@pytest.fixture(autouse=True)
def functions() -> Iterator[None]:
    before = dict(DECLARED)
    yield
    DECLARED.clear()
    DECLARED.update(before)


def evaluations_after_the_flip(routing: str, per_push: int, n_half: int, from_row: int, seed: int) -> float:
    """For a row, by the least possible, from so many rows after the flip on."""
    machine = BusyMachine(routing, seed)
    for _ in range(n_half // per_push):
        machine.push(per_push, PASSING)
    taken = [machine.push(per_push, PASSING[::-1]) for _ in range(n_half // per_push)]
    counted = taken[from_row // per_push :]
    return sum(counted) / (len(counted) * per_push) / OPTIMUM


@pytest.mark.parametrize("routing", ["auto", "a_greedy"])
@pytest.mark.parametrize(
    ("per_push", "n_half"),
    [
        pytest.param(5, 8_000, marks=pytest.mark.slow),
        pytest.param(20, 12_000, marks=pytest.mark.slow),
        pytest.param(50, 12_000, marks=pytest.mark.thorough),
    ],
)
def test_small_pushes_have_the_best_order_again_within_5000_rows(routing, per_push, n_half):
    assert evaluations_after_the_flip(routing, per_push, n_half, 5_000, seed=3) <= 1.15


@pytest.mark.thorough
@pytest.mark.parametrize("routing", ["auto", "a_greedy", "shared_greedy"])
@pytest.mark.parametrize(("per_push", "n_half"), [(2_000, 100_000), (100_000, 100_000)])
def test_large_pushes_adapt_inside(routing, per_push, n_half):
    assert evaluations_after_the_flip(routing, per_push, n_half, 0, seed=3) <= 1.15


def test_a_push_of_many_rows_finds_the_best_order_inside():
    machine = BusyMachine("auto", seed=1)
    assert machine.push(100_000, PASSING[::-1]) / 100_000 <= 1.15 * OPTIMUM


def rows_learned_from(router: Router, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by the rows of each record the router learns from."""
    n_rows, learn = [], router.learn

    def counted_learn(record, *arguments, **options):
        n_rows.append(record.n_rows)
        return learn(record, *arguments, **options)

    monkeypatch.setattr(router, "learn", counted_learn)
    return n_rows


def test_pushes_that_say_nothing_new_are_learned_from_together_and_one_that_does_at_once(monkeypatch):
    machine = BusyMachine("auto", seed=1)
    for _ in range(100):
        machine.push(2_000, PASSING)
    learned_rows, router = rows_learned_from(machine.router, monkeypatch), machine.router
    for _ in range(40):
        machine.push(2_000, PASSING)
    assert 1 <= len(learned_rows) <= 10
    machine.push(2_000, PASSING[::-1])
    assert learned_rows[-1] == 2_000, "alone: with those before it the change would be less clear"
    assert router.history[-1].kind == "drifted"
    assert router.is_learning


def test_small_pushes_are_learned_from_before_a_thousand_rows_have_come(monkeypatch):
    machine = BusyMachine("auto", seed=1)
    for _ in range(200):
        machine.push(20, PASSING)
    learned_rows = rows_learned_from(machine.router, monkeypatch)
    for _ in range(200):
        machine.push(20, PASSING)
    assert max(learned_rows) <= 32 * 20
    assert sum(learned_rows) >= 200 * 20 - 2 * 32 * 20, "no more than the last ones wait"


@pytest.mark.parametrize("routing", ["auto", "a_greedy", "shared_greedy", "fixed"])
def test_results_and_dead_letters_do_not_depend_on_slices(routing, monkeypatch):
    @eddyline.udf(returns="boolean", name="odd", version="1")
    def odd(n: int) -> bool:
        if n % 7 == 0:
            raise ValueError(f"{n} is divisible by seven")
        return n % 2 == 1

    @eddyline.udf(returns="boolean", name="small", version="1")
    def small(n: int) -> bool:
        return n % 10 < 5

    def told(least: int, most: int) -> tuple[list[int], list[tuple[int, str]]]:
        monkeypatch.setattr(stage_module, "LEAST_SLICE", least)
        monkeypatch.setattr(stage_module, "MOST_SLICE", most)
        engine = eddyline.open(routing=routing, results_per_query=10_000)
        engine.stream("s", "n INT")
        both = engine.query("SELECT n FROM s WHERE odd(n) AND small(n)")
        engine.query("SELECT n FROM s WHERE small(n) AND n > 10")
        engine.push("s", {"n": list(range(3000))})
        dead = [(each.row["n"], each.error) for each in engine.dead_letters()]
        return [row["n"] for row in both.latest(10_000)], dead

    whole = told(1 << 20, 1 << 20)
    assert told(64, 256) == whole
    assert told(16, 500) == whole
    assert len(whole[0]) > 500
    assert len(whole[1]) > 100
