"""How derived rows are put in order, and how the rows that look for partners are cut into shares."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import eddyline
from eddyline.batch import ListHits, TupleBatch
from eddyline.engine.branches import BranchRows
from eddyline.engine.dataflow import Arrivals
from eddyline.engine.derived_order import OF_ARRIVALS, DerivedOrder, batches_of, group_of, is_provisional
from eddyline.engine.join_shares import share_bounds
from eddyline.engine.round_output import RoundOutput
from eddyline.filters import FilterOutput
from eddyline.joins import JoinPlan
from eddyline.model import DeadLetter, StreamPlan
from eddyline.operators import FIRST_PROVISIONAL, DerivedNumbers, Share, arrived_rows


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


def test_results_of_further_branches_over_rows_that_arrived_come_first_by_row_then_by_branch() -> None:
    order, given = DerivedOrder(), DerivedNumbers(100)
    joined = derived(given, [(1, 3)])
    order.add("joined", 0, joined, is_for_workers=True)
    of = {}
    for name, branch, rows in (("b", 1, [7, 8]), ("a", 2, [3, 5]), ("a", 1, [5])):
        made = BranchRows(branch, given.take(len(rows)), np.array(rows)[:, None])
        of.update(
            ((row, branch), number) for row, number in zip(rows, made.provisional.tolist(), strict=True)
        )
        order.add_branch(OF_ARRIVALS, name, made)
    found = order.numbered(100)
    by_provisional = dict(zip(found.provisional.tolist(), found.numbers.tolist(), strict=True))
    in_order = sorted(of, key=lambda result: by_provisional[of[result]])
    assert in_order == [(3, 2), (5, 1), (5, 2), (7, 1), (8, 1)]
    assert numbers_of(order, [joined]) == [[105]]


def test_a_branch_over_derived_rows_follows_them_where_the_latest_row_is_the_same() -> None:
    order, given = DerivedOrder(), DerivedNumbers(100)
    output = derived(given, [(1, 4), (2, 4), (1, 6)])
    made = BranchRows(1, given.take(2), np.array([(2, 4), (1, 6)]))
    order.add_branch(group_of(0, is_for_workers=True), "joined", made)
    order.add("joined", 0, output, is_for_workers=True)
    found = order.numbered(100)
    assert found.numbers[np.searchsorted(found.provisional, made.provisional)].tolist() == [102, 104]
    assert numbers_of(order, [output]) == [[100, 101, 103]]


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


# --------------------------------------------------------------------------------------------- shares of workers


@pytest.fixture(scope="module")
def join_plan():
    with eddyline.open() as engine:
        engine.sql("CREATE TABLE trades (sym STRING); CREATE TABLE news (sym STRING)")
        engine.query("SELECT t.sym FROM recent(trades, 5) t JOIN recent(news, 5) n ON t.sym = n.sym")
        planned = engine.rounds.flow.plan(engine.rounds.progress)
    assert planned is not None
    return planned.joins.plan


def shares(plan: JoinPlan, n: int, work: dict[str, float], **wanted: dict[int, bool]) -> list[list[int]]:
    """Of the rows of streams, given by arrival number and whether joins want them: those that each of `n` shares has."""
    (signature,) = plan.signatures
    arrivals, masks = Arrivals(wanted={}), {}
    for stream, rows in wanted.items():
        columns = pa.RecordBatch.from_arrays([pa.nulls(len(rows), pa.string())], names=["sym"])
        numbers, sign = np.array(list(rows)), np.ones(len(rows), np.int8)
        batch = TupleBatch(stream, columns, numbers, sign, np.zeros(len(rows), dtype=bool))
        arrivals.rows[stream] = arrived_rows(batch, None, 0)
        (place,) = signature.signature.places(stream)
        masks[signature.name, place] = np.array(list(rows.values()))
    arrivals.wanted = masks
    places = {(signature.name, signature.signature.places(name)[0]): each for name, each in work.items()}
    bounds = share_bounds(plan, frozenset([signature.name]), arrivals, places, n)
    found: list[list[int]] = []
    for each in bounds:
        share = Share(each)
        mine = [
            rows.batch.arrival[share.of(masks[who], rows.batch.arrival)].tolist()
            for who, rows in zip(masks, arrivals.rows.values(), strict=True)
        ]
        found.append(sorted(number for numbers in mine for number in numbers))
    return found


@pytest.mark.parametrize(
    ("n", "work", "expected"),
    [
        (1, {}, [[1, 2, 3, 4, 5, 6]]),
        (2, {}, [[1, 2, 3], [4, 5, 6]]),
        (3, {}, [[1, 2], [3, 4], [5, 6]]),
        # a row of news costs four times one of trades: 1 1 1 | 4 4 4
        (3, {"news": 4.0}, [[1, 2, 3, 4], [5], [6]]),
        (8, {}, [[1], [2], [3], [4], [5], [6], [], []]),
    ],
)
def test_shares_are_rows_that_follow_each_other_and_cost_about_the_same(join_plan, n, work, expected):
    found = shares(join_plan, n, work, trades={1: True, 2: True, 3: True}, news={4: True, 5: True, 6: True})
    assert sorted(found, key=lambda share: share or [99]) == expected
    assert [number for share in found for number in share] == [1, 2, 3, 4, 5, 6]


def test_a_share_runs_over_all_streams_and_rows_that_joins_do_not_want_cost_nothing(join_plan):
    found = shares(join_plan, 2, {}, trades={1: True, 3: False, 4: False, 7: True}, news={2: True, 9: True})
    assert found == [[1, 2], [7, 9]]


def test_without_rows_all_shares_are_empty(join_plan):
    assert shares(join_plan, 3, {}, trades={}, news={}) == [[], [], []]
