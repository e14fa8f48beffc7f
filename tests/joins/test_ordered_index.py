"""Rows found by ranges, against a list of rows that is gone through."""

from __future__ import annotations

import operator
import random

import numpy as np

from eddyline.joins.key_index import PresentRows
from eddyline.joins.keys import Codes
from eddyline.joins.ordered_index import Bound, OrderedIndex

COMPARED = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


def codes(*values: int | None) -> Codes:
    is_null = np.array([value is None for value in values])
    numbers = np.array([0 if value is None else value for value in values], np.int64)
    return Codes(numbers, is_null if is_null.any() else None, is_exact=True)


def found(
    index: OrderedIndex, bounds: list[tuple[str, Codes]], present: PresentRows
) -> list[tuple[int, int]]:
    ranges = index.find([Bound(operator, values) for operator, values in bounds])
    probes, rows = ranges.rows(0, len(bounds[0][1]), present)
    return list(zip(probes.tolist(), rows.tolist(), strict=True))


def test_a_range_has_its_ends_only_if_they_are_asked_for():
    index = OrderedIndex()
    index.insert(codes(10, 30, 20, 20), 0)
    everything = PresentRows(0)
    assert found(index, [("<", codes(20))], everything) == [(0, 0)]
    assert found(index, [("<=", codes(20))], everything) == [(0, 0), (0, 2), (0, 3)]
    assert found(index, [(">", codes(20))], everything) == [(0, 1)]
    assert found(index, [(">=", codes(20))], everything) == [(0, 1), (0, 2), (0, 3)]
    assert found(index, [(">", codes(10)), ("<", codes(30))], everything) == [(0, 2), (0, 3)]
    assert found(index, [(">", codes(30)), ("<", codes(10))], everything) == []


def test_null_is_in_no_range_and_has_none():
    index = OrderedIndex()
    index.insert(codes(None, 1, None), 0)
    assert found(index, [("<", codes(5, None))], PresentRows(0)) == [(0, 1)]


def test_rows_of_a_round_that_failed_are_found_no_more():
    index = OrderedIndex()
    index.insert(codes(1, 2), 0)
    index.tidy(PresentRows(0))
    index.insert(codes(3), 2)
    index.insert(codes(4), 3)
    index.undo(2)
    assert found(index, [(">", codes(0))], PresentRows(0)) == [(0, 0), (0, 1)]


def test_many_small_inserts_end_in_few_runs():
    index = OrderedIndex()
    for row in range(1000):
        index.insert(codes(row % 7), row)
        index.tidy(PresentRows(0))
    assert index.n_runs <= 6


def test_whatever_comes_and_goes_the_index_finds_what_a_list_finds():
    rng = random.Random(11)
    index, rows, first, end = OrderedIndex(), {}, 0, 0
    for _ in range(300):
        values = [rng.choice([None, *range(20)]) for _ in range(rng.randrange(6))]
        index.insert(codes(*values) if values else Codes(np.empty(0, np.int64), None, is_exact=True), end)
        if rng.random() < 0.2:
            index.undo(end)
        else:
            rows |= {end + k: value for k, value in enumerate(values)}
            end += len(values)
            index.tidy(PresentRows(first))
        if rng.random() < 0.3 and first < end:
            first += rng.randrange(end - first + 1)
            rows = {row: value for row, value in rows.items() if row >= first}
            index.tidy(PresentRows(first))
        index.check()
        asked = [rng.choice([None, *range(20)]) for _ in range(3)]
        tests = rng.sample(list(COMPARED), 2)
        assert found(index, [(test, codes(*asked)) for test in tests], PresentRows(first)) == [
            (probe, row - first)
            for probe, bound in enumerate(asked)
            for row, value in rows.items()
            if bound is not None and value is not None and all(COMPARED[t](value, bound) for t in tests)
        ]
