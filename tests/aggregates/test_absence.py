"""Groups that fall silent, against all comparisons of all groups asked again in every round."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa

from eddyline.aggregates.absence import Absences, instants_of
from eddyline.model import NO_TIME

# comparisons of A with now() and d, and how long after A each changes
HOLDS = {
    "A > now() - d": lambda value, now, d: value > now - d,
    "A >= now() - d": lambda value, now, d: value >= now - d,
    "A < now() - d": lambda value, now, d: value < now - d,
    "A <= now() - d": lambda value, now, d: value <= now - d,
}
ONE_LATER = ("A >= now() - d", "A < now() - d")
Comparison = tuple[str, str, int]


def distances(comparisons: list[Comparison]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for call, words, d in comparisons:
        found.setdefault(call, []).append(d + (words in ONE_LATER))
    return found


class SlowAbsences:
    """Every comparison of every group."""

    def __init__(self, comparisons: list[Comparison]) -> None:
        self.comparisons = comparisons
        self.values: dict[int, dict[str, int]] = {}

    def truths(self, entry: int, now: int) -> list[bool]:
        values = self.values[entry]
        return [HOLDS[words](values[call], now, d) for call, words, d in self.comparisons if call in values]

    def flips(self, before: int, now: int) -> list[int]:
        return [each for each in sorted(self.values) if self.truths(each, before) != self.truths(each, now)]

    def deadline(self, now: int, horizon: int) -> int | None:
        return next((later for later in range(now + 1, horizon) if self.flips(now, later)), None)


def move(absences: Absences, slow: SlowAbsences, entries: list[int], rng: random.Random, now: int) -> None:
    columns: dict[str, list[int]] = {name: [] for name in absences.names}
    for entry in entries:
        has_left = rng.random() < 0.2
        values = {name: now - rng.randrange(-3, 12) for name in absences.names}
        known = {} if has_left else {name: each for name, each in values.items() if rng.random() < 0.9}
        slow.values[entry] = known
        for name in columns:
            columns[name].append(known.get(name, NO_TIME))
    absences.moved(
        np.array(entries, np.int64), {name: np.array(each, np.int64) for name, each in columns.items()}
    )


def test_groups_flip_when_a_comparison_changes_and_deadlines_are_never_late():
    for seed in range(12):
        rng = random.Random(seed)
        words = list(HOLDS)
        comparisons = [
            (rng.choice(["max", "min"]), rng.choice(words), rng.randrange(-3, 10))
            for _ in range(rng.randrange(1, 6))
        ]
        absences, slow = Absences(), SlowAbsences(comparisons)
        absences.build(distances(comparisons))
        now = 100
        for _ in range(60):
            before, now = now, now + rng.choice([0, 1, 1, 2, 7])
            is_rolled_back = rng.random() < 0.2
            values = dict(slow.values)
            if rng.random() < 0.7:
                move(absences, slow, rng.sample(range(20), rng.randrange(0, 6)), rng, now)
            assert absences.flips(before, now).tolist() == slow.flips(before, now), (seed, now)
            if is_rolled_back:
                absences.rollback()
                slow.values, now = values, before
            else:
                absences.commit()
            absences.check()
            deadline, true = absences.next_deadline(now), slow.deadline(now, now + 40)
            assert true is None or (deadline is not None and now < deadline <= true), (seed, deadline, true)
            if deadline is not None:
                n_visited = absences.n_visited
                assert not len(absences.flips(now, deadline - 1))
                assert absences.n_visited == n_visited
                absences.rollback()


def test_a_silence_begins_after_its_interval_and_ends_with_the_next_value():
    absences = Absences()
    assert absences.build({"#max(ts)": [10 + 1]}) == {"#max(ts)"}  # max(ts) < now() - 10
    absences.moved(np.array([0, 1]), {"#max(ts)": np.array([100, 105])})
    absences.commit()
    assert absences.next_deadline(100) == 111
    assert absences.flips(100, 110).tolist() == []
    assert absences.flips(110, 111).tolist() == [0]
    absences.moved(np.array([0]), {"#max(ts)": np.array([111])})
    assert absences.flips(111, 116).tolist() == [1]
    assert absences.next_deadline(116) == 122


def test_a_round_that_is_rolled_back_flips_again():
    absences = Absences()
    absences.build({"#max(ts)": [10]})
    absences.moved(np.array([4]), {"#max(ts)": np.array([100])})
    absences.commit()
    assert absences.flips(100, 120).tolist() == [4]
    assert absences.next_deadline(120) is None
    absences.rollback()
    assert absences.next_deadline(100) == 110
    assert absences.flips(100, 115).tolist() == [4]


def test_a_comparison_that_joins_finds_the_groups_that_stand():
    absences = Absences()
    absences.build({"#max(ts)": [10]})
    absences.moved(np.array([0, 1]), {"#max(ts)": np.array([100, 200])})
    absences.commit()
    assert absences.build({"#max(ts)": [10, 500], "#min(ts)": [3]}) == {"#min(ts)"}
    absences.moved(np.array([0]), {"#max(ts)": np.array([100]), "#min(ts)": np.array([595])})
    assert absences.flips(590, 600).tolist() == [0]
    absences.left(np.array([0]))
    assert absences.flips(600, 900).tolist() == [1]


def test_a_tick_visits_the_groups_that_flip_among_many():
    n_devices, n_silent, every = 40_000, 400, 60
    rng = np.random.default_rng(5)
    absences = Absences()
    absences.build({"#max(ts)": [300 + 6 * k for k in range(100)]})
    last = rng.integers(0, every, n_devices)
    absences.moved(np.arange(n_devices), {"#max(ts)": last})
    absences.commit()
    silent = rng.choice(n_devices, n_silent, replace=False)
    talking = np.setdiff1d(np.arange(n_devices), silent)
    flipped = 0
    for now in range(every, 1020, 10):
        due = talking[(now - last[talking]) >= every]
        last[due] = now
        absences.moved(due, {"#max(ts)": last[due]})
        flips = absences.flips(now - 10, now)
        flipped += len(flips)
        assert np.isin(flips, silent).all()
        absences.commit()
        assert absences.n_visited == flipped
    assert flipped > n_silent  # each of them passes one distance after the other
    assert absences.nbytes <= 60 * n_devices
    absences.check()


def test_timestamps_become_microseconds_and_null_no_time():
    values = pa.array([1, None], pa.timestamp("us", "UTC"))
    assert instants_of(values).tolist() == [1, NO_TIME]
