"""What follows from the windows that are read: edges of slices, what is open, what closes."""

from __future__ import annotations

import pyarrow as pa

from eddyline.aggregates.read_windows import ReadWindows, WindowColumns
from eddyline.aggregates.structure import Reader
from eddyline.model import AggregateCall, Aggregation, TimeWindow


def columns(*windows: tuple[int, int, int]) -> WindowColumns:
    return WindowColumns([TimeWindow(*window) for window in windows])


def read(*windows: tuple[int, int, int]) -> ReadWindows:
    call = AggregateCall("count", (), (), pa.int64())
    readers = [
        Reader(Aggregation(f"w{k}", "rows", ("k",), window=TimeWindow(*window)), (call,), (1,))
        for k, window in enumerate(windows)
    ]
    return ReadWindows(readers, reads_table=False)


def test_windows_whose_size_is_a_multiple_of_the_slide_have_one_row_of_edges():
    assert columns((10, 5, 0)).edges() == [(5, 0)]
    assert columns((10, 5, 2)).edges() == [(5, 2)]


def test_windows_that_end_between_starts_have_two():
    assert columns((10, 3, 0)).edges() == [(3, 0), (3, 1)]


def test_edges_that_lie_on_others_are_left_out():
    assert columns((60, 60, 0), (5, 5, 0), (6, 6, 0), (30, 10, 0)).edges() == [(5, 0), (6, 0)]
    assert columns((5, 5, 0), (10, 10, 1)).edges() == [(5, 0), (10, 1)]


def test_the_first_open_window_is_the_earliest_of_all():
    assert columns((10, 5, 0)).first_open(20) == 15  # [10, 20) is closed
    assert columns((10, 5, 0), (40, 20, 0)).first_open(20) == 0
    assert columns((10, 5, 0)).first_open(-3) == -10  # before 1970


def test_windows_close_where_one_ends_behind_the_last_watermark():
    windows = read((10, 5, 0), (60, 60, 0), (7, 7, 3))
    closing = windows.closing(closed_us=20, watermark_us=29)
    assert [(window.size_us, last) for (window, _), last in closing] == [(10, 25), (7, 24)]
    assert windows.closing(closed_us=25, watermark_us=29) == []
