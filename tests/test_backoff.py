"""Pauses double while something fails, up to a bound, and start small again once it works."""

from __future__ import annotations

import pytest

from eddyline.backoff import Backoff


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def backoff(clock) -> Backoff:
    return Backoff(0.5, 3.0, clock=clock)


def test_nothing_waits_before_the_first_failure(backoff):
    assert (backoff.is_paused, backoff.wait_s) == (False, 0.0)


def test_pauses_double_up_to_the_longest(backoff):
    assert [backoff.pause() for _ in range(5)] == [0.5, 1.0, 2.0, 3.0, 3.0]


def test_a_pause_ends_when_its_time_is_over(backoff, clock):
    backoff.pause()
    assert (backoff.is_paused, backoff.wait_s) == (True, 0.5)
    clock.now += 0.25
    assert (backoff.is_paused, backoff.wait_s) == (True, 0.25)
    clock.now += 0.25
    assert (backoff.is_paused, backoff.wait_s) == (False, 0.0)
    clock.now += 10.0
    assert backoff.wait_s == 0.0


def test_a_longer_pause_that_was_asked_for_is_kept_but_not_doubled(backoff):
    assert backoff.pause(at_least_s=20.0) == 20.0
    assert backoff.wait_s == 20.0
    assert backoff.pause(at_least_s=0.1) == 1.0


def test_pauses_start_small_again_after_a_success_and_one_that_lasts_goes_on(backoff):
    backoff.pause()
    backoff.pause()
    backoff.reset()
    assert backoff.wait_s == 1.0
    assert backoff.pause() == 0.5


def test_a_pause_that_is_ended_early_does_not_shorten_the_next(backoff):
    backoff.pause()
    backoff.end_pause()
    assert (backoff.is_paused, backoff.wait_s) == (False, 0.0)
    assert backoff.pause() == 1.0
