"""OVER against its definition: frames of every kind over random rounds."""

from __future__ import annotations

import pytest

from eddyline.model import OverFrame
from tests.aggregates.over_cases import OverLife, lag, over
from tests.aggregates.seeds import seeds
from tests.aggregates.state_cases import call

NEAR, FAR = OverFrame("range", 4), OverFrame("range", 11)
ROWS, ALL = OverFrame("rows", 3), OverFrame()
SUMS = [
    call("count"),
    call("count", "long", "text"),
    call("count", filter="c"),
    call("count_if", "c"),
    call("sum", "long"),
    call("avg", "long", filter="c"),
    call("sum", "wide"),
    call("avg", "decimal"),
    call("sum", "double"),
    call("avg", "double", filter="c"),
    call("bool_and", "c"),
    call("bool_or", "c", filter="c"),
    call("var_samp", "int"),
    call("stddev_pop", "double"),
]
WINNERS = [
    call("min", "long"),
    call("max", "double", filter="c"),
    call("min", "text"),
    call("max", "wide"),
    call("min", "date"),
    call("max", "c"),
    call("min_by", "text", "double"),
    call("max_by", "struct", "bytes"),
    call("max_by", "decimal", "float", filter="c"),
    call("first", "long"),
    call("first", "text", filter="c"),
    call("last", "wide", ignores_nulls=True),
    call("last", "time", filter="c"),
]
DISTINCT = [
    call("count", "long", is_distinct=True),
    call("count", "double", is_distinct=True, filter="c"),
    call("count", "text", "c", is_distinct=True),
]
EVERY = [*SUMS, *WINNERS, *DISTINCT]
BOUNDED = [over(of, (NEAR, FAR, ROWS)[index % 3]) for index, of in enumerate([*EVERY, *EVERY[:20]])]
UNBOUNDED = [over(of, ALL) for of in EVERY]
LAGS = [lag("long", 1), lag("text", 2, "none"), lag("double", 0), lag("wide", 1), lag("struct", 5)]
KINDS = {
    "bounded": BOUNDED,
    "unbounded": UNBOUNDED,
    "lag": LAGS,
    "mixed": [*BOUNDED[::4], *UNBOUNDED[::3], *LAGS[:2]],
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", seeds(2))
def test_values_are_those_of_the_frame_by_definition(kind, seed):
    life = OverLife(seed, tuple(KINDS[kind]))
    for n, disorder in ((1, 0), (7, 8), (0, 0), (12, 3), (6, 0), (9, 8)):
        life.round(n, disorder)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", seeds(2))
def test_rows_that_have_left_are_missed_by_no_frame(kind, seed):
    life = OverLife(seed, tuple(KINDS[kind]), lateness=2, keys=2)
    for n in (6, 5, 4, 6, 3, 8):
        life.round(n, disorder=3)
        life.time += life.random.choice([0, 2, 9])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", seeds(2))
def test_queries_see_rows_from_their_first_version_on(kind, seed):
    life = OverLife(seed, tuple(KINDS[kind]), keys=2)
    for n in (5, 6, 4, 7, 5, 6):
        life.round(n)
        if life.random.random() < 0.6:
            life.open_epoch()
        if life.random.random() < 0.4:
            life.close_epoch()


@pytest.mark.parametrize("kind", ["unbounded", "mixed"])
@pytest.mark.parametrize("from_whole", [False, True])
def test_a_restart_changes_no_value(kind, from_whole):
    life = OverLife(5, tuple(KINDS[kind]), lateness=3, keys=3)
    for n in (5, 6, 4, 6):
        life.round(n)
        life.restart(from_whole=from_whole)
        if life.random.random() < 0.5:
            life.open_epoch()
        life.time += life.random.choice([0, 6])


@pytest.mark.parametrize("kind", KINDS)
def test_a_round_that_is_rolled_back_leaves_nothing(kind):
    life = OverLife(7, tuple(KINDS[kind]), keys=3)
    for n in (5, 6, 4):
        life.round(n)
        life.round(8, rolls_back=True)
    life.restart(from_whole=False)
    life.round(6)


@pytest.mark.parametrize("kind", ["unbounded", "mixed"])
@pytest.mark.parametrize("is_restarted", [False, True])
def test_calls_that_come_later_begin_with_their_queries(kind, is_restarted):
    life = OverLife(11, (over(call("count"), NEAR),), keys=2)
    for share in (0, 1):
        life.round(8)
        life.open_epoch(*KINDS[kind][share::2])
        if is_restarted:
            life.restart(from_whole=False)
        life.round(6)
    life.close_epoch()
    life.round(9)


def test_a_restart_right_after_the_oldest_queries_left_keeps_winners():
    life = OverLife(9, tuple(UNBOUNDED[-10:]), lateness=1, keys=1)
    life.round(6)
    life.open_epoch()
    life.round(8)
    life.epochs.remove(life.epochs[0])
    life.build()
    life.restart(from_whole=False)
    for _ in range(3):
        life.time += 10
        life.round(5)
        life.restart(from_whole=False)
