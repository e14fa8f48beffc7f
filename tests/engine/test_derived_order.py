"""How derived rows are put in order, and how the rows that look for partners are cut into shares."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from eddyline.batch import ListHits, TupleBatch
from eddyline.engine.derived_order import DerivedOrder, batches_of, is_provisional
from eddyline.engine.round_output import RoundOutput
from eddyline.filters import FilterOutput
from eddyline.model import DeadLetter, StreamPlan
from eddyline.operators import FIRST_PROVISIONAL, DerivedNumbers, Share


def derived(
    numbers: DerivedNumbers, components: list[tuple[int, ...]], taken: list[int] | None = None
) -> FilterOutput:
    """Rows of these components, of which a query takes some; None: all."""
    n = len(components)
    rows = pa.RecordBatch.from_arrays([pa.nulls(n)], names=["_"])
    is_taken = np.ones(n, dtype=bool)
    if taken is not None:
        is_taken = np.isin(np.arange(n), taken)
    lineage = np.array(components, np.int64)
    batch = TupleBatch("joined", rows, numbers.take(n), np.ones(n, np.int8), np.zeros(n, dtype=bool), lineage)
    offsets = np.concatenate(([0], np.cumsum(is_taken)))
    hits = ListHits(offsets, np.ones(int(is_taken.sum()), np.int32))
    return FilterOutput(batch, StreamPlan("joined", 1, ()), (hits,))


def numbers_of(order: DerivedOrder, outputs: list[FilterOutput]) -> list[list[int]]:
    found = order.numbered(100)
    for output in outputs:
        found.renumber(batches_of(output))
    return [output.batch.arrival.tolist() for output in outputs]


def test_rows_of_several_relations_are_numbered_by_their_latest_component() -> None:
    order, given = DerivedOrder(), DerivedNumbers(100)
    outputs = [derived(given, [(1, 4), (2, 6)]), derived(given, [(3, 4), (5, 3), (1, 7)])]
    for name, output in zip("ba", outputs, strict=True):
        order.add(name, 0, output, is_for_workers=True)
    # latest: b 4, 6 and a 4, 5, 7; a comes before b where these are equal
    assert numbers_of(order, outputs) == [[101, 103], [100, 102, 104]]


def test_what_workers_may_derive_comes_first_and_what_the_end_of_the_round_decides_last() -> None:
    order, given = DerivedOrder(), DerivedNumbers(100)
    outputs = [derived(given, [(1,), (9,)]), derived(given, [(2,)]), derived(given, [(5,)])]
    order.add("table", 1, outputs[0], is_for_workers=False)
    order.add("outer", 0, outputs[1], is_for_workers=False)
    order.add("inner", 0, outputs[2], is_for_workers=True)
    assert numbers_of(order, outputs) == [[102, 103], [101], [100]]


def test_a_row_that_no_query_takes_has_no_number_and_takes_none() -> None:
    order, given = DerivedOrder(), DerivedNumbers(100)
    outputs = [derived(given, [(1,), (2,), (3,)], taken=[0, 2]), derived(given, [(4,)], taken=[])]
    for output in outputs:
        order.add("joined", 0, output, is_for_workers=True)
    assert len(order.numbered(100)) == 2
    assert numbers_of(order, outputs) == [[100, 0, 101], [0]]


def test_dead_letters_have_the_numbers_of_their_rows() -> None:
    order, given, output = DerivedOrder(), DerivedNumbers(100), RoundOutput()
    found = [derived(given, [(8,)]), derived(given, [(7,)])]
    for each in found:
        order.add("joined", 0, each, is_for_workers=True)
    for arrival in (None, 5, FIRST_PROVISIONAL, FIRST_PROVISIONAL + 1):
        output.add_letters([DeadLetter(1, "joined", {}, "ERROR", "why", 1, arrival=arrival)])
    order.numbered(100).renumber_letters(output)
    assert [letter.arrival for letter in output.letters] == [None, 5, 101, 100]


def test_rows_of_streams_are_not_renumbered() -> None:
    given = DerivedNumbers(100)
    batch = derived(given, [(8,)]).batch
    assert is_provisional(batch)
    DerivedOrder().numbered(100).renumber([batch])
    assert not is_provisional(batch)
    batch.arrival[:] = 7
    DerivedOrder().numbered(100).renumber([batch])
    assert batch.arrival.tolist() == [7]


@pytest.mark.parametrize(
    ("arrivals", "expected"), [((0, 4), [0]), ((4, 9), [2]), ((9, 10), []), (None, [0, 2])]
)
def test_a_share_has_the_wanted_rows_of_a_range_of_arrival_numbers(
    arrivals: tuple[int, int] | None, expected: list[int]
) -> None:
    mask, arrival = np.array([True, False, True]), np.array([3, 4, 8])
    assert np.flatnonzero(Share(arrivals).of(mask, arrival)).tolist() == expected
