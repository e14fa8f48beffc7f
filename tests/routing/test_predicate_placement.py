"""Expensive conditions on an input of a join are asked on the cheaper side of the probe, and follow what changes."""

from __future__ import annotations

import random

import pytest

from eddyline.routing import AFTER, BEFORE, InputWork, PlacementFigures, PredicatePlacement
from eddyline.routing.predicate_placement import HALF_LIFE_ROWS, LOOK_EVERY, LOOK_ROWS, LOOK_SHARE


def figures(**other: float) -> PlacementFigures:
    known = {"udf_s": 10.0, "probe_s": 1.0, "combination_s": 0.5, "pass_rate": 0.5, "match_rate": 0.2}
    return PlacementFigures(**{**known, "fanout": 3.0, "passed_fanout": 3.0, **other})


def test_asking_first_saves_the_probes_of_rows_that_are_dropped():
    assert figures().before_s == 10 + 0.5 * (1 + 3 * 0.5)


def test_asking_last_saves_the_calls_on_rows_without_partners():
    assert figures().after_s == 1 + 3 * 0.5 + 0.2 * 10


def test_what_is_not_remembered_is_asked_for_every_combination():
    assert figures(is_remembered=False).after_s == 1 + 3 * 0.5 + 3 * 10


class Source:
    """Rows of an input: which of them pass the conditions and which find partners, drawn; and what either side would do."""

    def __init__(
        self, udf_s: float, *, probe_s: float = 1.0, pass_rate: float = 0.5, fanout: int = 1
    ) -> None:
        self.udf_s, self.probe_s, self.pass_rate, self.fanout = udf_s, probe_s, pass_rate, fanout
        self.placement = PredicatePlacement()
        self.rng = random.Random(7)
        self.spent_s = {BEFORE: 0.0, AFTER: 0.0, "chosen": 0.0}
        self.sides: list[str] = []

    def run(
        self, hit: float, n_rows: int, rows_a_round: int = 100, hit_of_dropped: float | None = None
    ) -> None:
        for _ in range(n_rows // rows_a_round):
            passes = [self.rng.random() < self.pass_rate for _ in range(rows_a_round)]
            rates = [hit if passed or hit_of_dropped is None else hit_of_dropped for passed in passes]
            matches = [self.rng.random() < rate for rate in rates]
            self._round(passes, matches)

    def _round(self, passes: list[bool], matches: list[bool]) -> None:
        side, n, n_passed, n_matched = self.placement.side, len(passes), sum(passes), sum(matches)
        n_both = sum(a and b for a, b in zip(passes, matches, strict=True))
        costs = {
            BEFORE: n * self.udf_s + n_passed * self.probe_s + n_both * self.fanout * 0.1,
            AFTER: n * self.probe_s + n_matched * (self.udf_s + self.fanout * 0.1),
        }
        for name, spent_s in costs.items():
            self.spent_s[name] += spent_s
        self.spent_s["chosen"] += costs[side]
        self.sides.append(side)
        if side == BEFORE:
            work = InputWork(n, n_passed, n_both, self.fanout * n_both, 0, n * self.udf_s)
        else:
            work = InputWork(n, n, n_matched, self.fanout * n_matched, n_matched)
        self.placement.observe(work, probe_s=self.probe_s, combination_s=0.1)
        self.placement.check()


@pytest.mark.parametrize(
    ("udf_s", "hit", "pass_rate", "side"),
    [
        (20.0, 0.05, 0.5, AFTER),
        (20.0, 0.6, 0.5, AFTER),  # more than half of the rows are asked, and it still pays
        (20.0, 1.0, 0.5, BEFORE),
        (0.2, 0.6, 0.05, BEFORE),  # a cheap condition that drops most rows saves their probes
        (0.2, 0.05, 0.99, AFTER),
    ],
)
def test_the_cheaper_side_is_found_and_kept(udf_s, hit, pass_rate, side):
    source = Source(udf_s, pass_rate=pass_rate)
    source.run(hit, 60_000)
    assert source.placement.incumbent == side
    assert source.placement.n_moves == (side == AFTER)
    assert source.spent_s["chosen"] <= 1.1 * min(source.spent_s[BEFORE], source.spent_s[AFTER])


@pytest.mark.parametrize("rows_a_round", [20, 100, 2_000])
def test_a_hit_rate_that_flips_is_followed(rows_a_round):
    source = Source(20.0)
    best_s = 0.0
    for hit in (1.0, 0.05, 0.6, 1.0, 0.05):
        before = dict(source.spent_s)
        source.run(hit, 60_000, rows_a_round)
        best_s += min(source.spent_s[side] - before[side] for side in (BEFORE, AFTER))
    assert source.spent_s["chosen"] <= 1.1 * best_s


def test_after_a_flip_the_side_changes_within_a_few_half_lives():
    source = Source(20.0)
    source.run(1.0, 20_000)
    assert source.placement.incumbent == BEFORE
    source.run(0.05, 3 * HALF_LIFE_ROWS)
    assert source.placement.incumbent == AFTER


def test_rows_that_are_dropped_are_looked_at_too():
    """Those that pass all have partners, those that are dropped have none: only a look shows that few rows need to be asked."""
    source = Source(20.0, pass_rate=0.1)
    source.run(1.0, 2 * LOOK_EVERY * LOOK_ROWS, hit_of_dropped=0.0)
    assert source.placement.n_looks >= 1
    assert source.placement.incumbent == AFTER


def test_looks_take_a_small_share_of_the_rows_and_of_the_seconds():
    source = Source(20.0, pass_rate=0.5)
    source.run(1.0, 200_000)
    n_looked = sum(side == AFTER for side in source.sides) * 100
    assert 0 < n_looked <= 200_000 / LOOK_EVERY * 2
    assert source.spent_s["chosen"] <= (1 + LOOK_SHARE) * source.spent_s[BEFORE]


def test_the_dearer_a_look_is_the_rarer_it_comes():
    cheap, dear = Source(20.0), Source(2_000.0)
    for source in (cheap, dear):
        source.run(0.05, 100_000)
    assert dear.placement.incumbent == cheap.placement.incumbent == AFTER
    assert dear.placement.n_looks <= cheap.placement.n_looks
    assert dear.spent_s["chosen"] <= 1.1 * dear.spent_s[AFTER]


def test_two_sides_that_cost_about_the_same_do_not_alternate():
    source = Source(2.0, pass_rate=0.5)  # 2 + 0.5 against 1 + 0.75 * 2, and combinations
    source.run(0.75, 200_000)
    assert source.placement.n_moves <= 1


def test_nothing_moves_before_enough_rows_came():
    placement = PredicatePlacement()
    for _ in range(4):
        assert placement.observe(InputWork(100, 50, 0, 0, 0, 2_000.0), probe_s=1, combination_s=1) is None
    moved = placement.observe(InputWork(100, 50, 0, 0, 0, 2_000.0), probe_s=1, combination_s=1)
    assert moved is not None
    assert (moved.side, moved.figures.udf_s, moved.figures.match_rate) == (AFTER, 20.0, 0.0)


def test_rows_without_partners_that_are_asked_too_count():
    """On the left of an outer join a row is asked whether it has a partner or not."""
    placement = PredicatePlacement(asks_every_row=True)
    for _ in range(20):
        placement.observe(InputWork(100, 50, 0, 0, 0, 2_000.0), probe_s=1, combination_s=1)
    assert placement.incumbent == BEFORE


def test_rows_that_are_found_by_later_rows_of_other_inputs_count():
    """They had no partner when they came, and are all asked in the end."""
    placement = PredicatePlacement()
    for _ in range(10):
        placement.observe(InputWork(100, 50, 0, 0, 0, 2_000.0), probe_s=1, combination_s=1)
    assert placement.incumbent == AFTER
    moves = []
    for _ in range(50):
        placement.observe(InputWork(100, 100, 0, 0, 0), probe_s=1, combination_s=1)
        moves.append(placement.observe(InputWork(1, 1, 0, 1_000, 100), probe_s=1, combination_s=1))
        if placement.side == BEFORE:
            break
    assert moves[-1] is not None
    assert moves[-1].figures.match_rate > 0.8
