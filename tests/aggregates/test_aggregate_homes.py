"""Aggregates of a home go on where they were: the worked examples, with the home opened again after every step."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import eddyline
from tests.aggregates.scripts import VECTORS, Case, ScriptRun, is_built, script_differences
from tests.on_workers import through_tasks

pytestmark = [pytest.mark.vectors, pytest.mark.thorough]

NAMED = [case for case in VECTORS["cases"] if is_built(case) and not case["name"].startswith("random")]
RANDOM = [case for case in VECTORS["cases"] if is_built(case) and case["name"].startswith("random")]


class RestartedRun(ScriptRun):
    """A script over a home that is closed and opened again after every step."""

    def __init__(self, case: Case, home: Path) -> None:
        self._home = home
        self._n_told: dict[str, int] = {}
        super().__init__(case, lambda **options: eddyline.open(home, **options))

    def _step(self, step: Case) -> bool:
        self.engine.close()
        self.engine = eddyline.open(self._home, clock=lambda: self._now_us)
        self._queries = {name: self.engine.get(name) for name in self._queries}
        is_round = super()._step(step)
        self._n_told = {name: n for name, n in self._n_told.items() if name in self._queries}
        return is_round

    def _told(self) -> Iterator[tuple[str, list[Any]]]:
        for name, changes in super()._told():
            n_before = self._n_told.get(name, 0)
            self._n_told[name] = len(changes)
            if changes[n_before:]:
                yield name, changes[n_before:]


def differences_after_restarts(case: Case, home: Path) -> list[str]:
    return script_differences(case, run=RestartedRun(case, home))


@pytest.mark.parametrize("case", NAMED, ids=lambda case: case["name"])
def test_a_home_that_is_opened_again_after_every_step_tells_the_same(case, tmp_path):
    assert differences_after_restarts(case, tmp_path / "home") == []


@pytest.mark.parametrize("case", RANDOM, ids=lambda case: case["name"])
def test_random_scripts_with_restarts_tell_the_same(case, tmp_path):
    assert differences_after_restarts(case, tmp_path / "home") == []


@pytest.mark.parametrize("case", NAMED, ids=lambda case: case["name"])
def test_rows_that_tasks_find_are_aggregated_to_the_same(case, tmp_path):
    run = ScriptRun(
        case,
        lambda **options: through_tasks(eddyline.open(tmp_path / "home", **options), keeps_numbers=False),
    )
    assert script_differences(case, run=run) == []
