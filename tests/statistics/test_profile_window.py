"""The window of sampled rows: what it holds and what it says."""

from __future__ import annotations

import numpy as np
import pytest

from eddyline.statistics import ProfileWindow


def bits(*rows: str) -> np.ndarray:
    return np.array([[bit == "1" for bit in row] for row in rows])


def test_the_last_rows_are_kept_the_oldest_first():
    window = ProfileWindow(2, most=3)
    window.append(bits("10", "01"), bits("11", "11"), (1, 2))
    window.append(bits("00", "11"), bits("11", "11"), (3, 4))
    window.check()
    rows = window.rows()
    assert rows.dropped_mask.tolist() == bits("01", "00", "11").tolist()
    assert rows.open_classes == (2, 3, 4)
    assert (len(window), window.n_appended, window.n_dropped) == (3, 4, 2)


def test_selectivities_count_only_rows_on_which_a_filter_is_known():
    window = ProfileWindow(3)
    window.append(bits("100", "100", "000", "010"), bits("110", "110", "110", "110"), (1,) * 4)
    #  passes + 1 by rows + 2: two of four, three of four, nothing known
    assert window.selectivities().tolist() == pytest.approx([3 / 6, 4 / 6, 1 / 2])


def test_no_selectivity_is_zero_or_one():
    window = ProfileWindow(2, most=5000)
    window.append(np.tile(bits("10"), (5000, 1)), np.ones((5000, 2), bool), (1,) * 5000)
    assert window.selectivities().tolist() == [0.001, 0.999]


def test_what_is_not_known_is_not_dropped():
    window = ProfileWindow(2)
    window.append(bits("11"), bits("10"), (1,))
    window.check()
    assert window.rows().dropped_mask.tolist() == [[True, False]]


def test_old_rows_are_forgotten_and_the_last_ones_may_stay():
    window = ProfileWindow(1)
    window.append(bits("1", "0", "1"), bits("1", "1", "1"), (1, 2, 3))
    window.forget(but_last=1)
    assert window.rows().open_classes == (3,)
    window.forget()
    window.check()
    assert len(window) == 0
    assert window.selectivities().tolist() == [0.5]
