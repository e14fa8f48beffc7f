"""What OVER does for a row does not depend on how long frames are and how many queries there are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from eddyline.aggregates import ClassRows, OverRows, Reader, RoundTime
from eddyline.model import AggregateCall, Aggregation, OverFrame

BY_CARD = Aggregation("velocity", "rows", ("card",), is_over=True)
SECOND = 1_000_000


def count(frame: OverFrame) -> AggregateCall:
    return AggregateCall("count", (), (), pa.int64(), frame=frame)


def total(frame: OverFrame) -> AggregateCall:
    return AggregateCall("sum", ("amount",), (pa.int64(),), pa.int64(), frame=frame)


def last_seconds(n: int) -> OverFrame:
    return OverFrame("range", n * SECOND)


def rows_of(cards: Sequence[int], seconds: Sequence[float], arrival: int, epoch: int = 1) -> ClassRows:
    n = len(cards)
    columns = pa.RecordBatch.from_arrays(
        [pa.array(cards, pa.int64()), pa.array(np.arange(n))], names=["card", "amount"]
    )
    times = (np.array(seconds) * SECOND).astype(np.int64)
    ones = np.ones(n, np.int8)
    return ClassRows(columns, times, arrival + np.arange(n), ones, np.zeros(n, dtype=bool), np.full(n, epoch))


def pushed(
    over: OverRows,
    cards: Sequence[int],
    seconds: Sequence[float],
    arrival: int,
    watermark_s: int | None = None,
) -> list[Any]:
    """The columns of a round, which commits."""
    watermark = None if watermark_s is None else watermark_s * SECOND
    found = list(over.push(rows_of(cards, seconds, arrival), RoundTime(0, None, watermark)))
    over.commit()
    over.check()
    return [values.columns for _, values in found]


def velocity(*calls: AggregateCall, epochs: tuple[int, ...] = (1,)) -> OverRows:
    over = OverRows()
    over.build([Reader(BY_CARD, calls, epochs)])
    return over


@pytest.mark.parametrize("n_frames", [1, 100])
def test_rows_in_order_are_appended_and_rarely_moved(n_frames):
    over = velocity(*[make(last_seconds(60 * (k + 1))) for k in range(n_frames) for make in (count, total)])
    cards = np.tile(np.arange(10), 50)
    for round_ in range(8):
        pushed(over, cards, round_ + np.arange(500) / 1000, 500 * round_)
    work = over.snapshot()
    assert work["rows"] == 4000  # each stands in one ring, whatever the number of frames
    assert work["rows apart"] == 0
    assert work["rows moved"] <= 2 * 4000


def test_only_rows_of_partitions_with_disorder_take_the_second_way():
    over = velocity(count(last_seconds(60)))
    pushed(over, [1, 2, 3], [10, 10, 10], 0)
    (columns,) = pushed(over, [1, 2, 3, 2, 3], [11, 9, 12, 11, 12], 3)
    assert columns.column(0).to_pylist() == [2, 1, 2, 3, 3]
    assert over.snapshot()["rows apart"] == 2
    pushed(over, [1, 2, 3], [12, 12, 12], 8)
    assert over.snapshot()["rows apart"] == 2  # once it is sorted, a ring is as good as any other


def test_rows_that_no_frame_can_hold_leave_and_partitions_with_them():
    over = velocity(count(last_seconds(10)))
    pushed(over, [1, 2, 3], [0, 5, 20], 0, watermark_s=12)
    assert (over.snapshot()["rows"], over.snapshot()["partitions"]) == (2, 2)
    pushed(over, [], [], 3, watermark_s=31)
    assert (over.snapshot()["rows"], over.snapshot()["partitions"]) == (0, 0)


def test_of_rows_frames_the_newest_stay_below_the_watermark():
    over = velocity(count(OverFrame("rows", 2)))
    pushed(over, [1, 1, 1, 1, 1, 2], [1, 2, 3, 4, 9, 1], 0, watermark_s=5)
    assert over.snapshot()["rows"] == 4  # 3, 4 and 9 of the first card, and the only one of the second


def test_an_unbounded_frame_keeps_sums_and_no_rows():
    over = velocity(count(OverFrame()), total(OverFrame()))
    pushed(over, [1] * 5, [1, 2, 3, 4, 5], 0, watermark_s=5)
    assert over.snapshot()["rows"] == 1
    (columns,) = pushed(over, [1], [6], 5, watermark_s=6)
    assert [column.to_pylist() for column in columns.columns[:2]] == [[6], [10]]


def test_memory_stays_flat_while_rows_come_and_go():
    over = velocity(count(last_seconds(5)), total(last_seconds(5)))
    sizes = []
    for round_ in range(60):
        pushed(over, np.arange(200), round_ + np.arange(200) / 200, 200 * round_, watermark_s=round_)
        sizes.append(over.nbytes)
    assert max(sizes[30:]) <= max(sizes[:30])
    assert over.snapshot()["rows"] <= 200 * 7


def test_a_new_query_moves_no_state():
    over = velocity(count(last_seconds(60)))
    pushed(over, np.arange(100), np.zeros(100), 0)
    moved = over.snapshot()["rows moved"]
    over.build([Reader(BY_CARD, (count(last_seconds(60)),), tuple(range(1, 50)))])
    assert over.snapshot()["rows moved"] == moved


def test_without_readers_nothing_stays():
    over = velocity(count(OverFrame()), total(last_seconds(3)))
    pushed(over, [1, 2], [1, 2], 0)
    over.build([])
    assert over.snapshot() | {"bytes": 0} == OverRows().snapshot() | {
        "bytes": 0,
        "rows moved": 0,
        "rows apart": 0,
    }
    assert list(over.push(rows_of([1], [3], 2), RoundTime(0, None, None))) == []
