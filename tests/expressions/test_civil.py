"""The calendar, judged by the standard library."""

from __future__ import annotations

import datetime

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from eddyline.expressions.civil import add_months, civil_from_days, days_from_civil, days_in_month, is_date

EPOCH = datetime.date(1970, 1, 1)


@given(st.lists(st.dates(), min_size=1))
def test_days_and_dates_convert_both_ways(dates):
    days = np.array([(d - EPOCH).days for d in dates])
    year, month, day = civil_from_days(days)
    assert [datetime.date(*ymd) for ymd in zip(year, month, day, strict=True)] == dates
    assert days_from_civil(year, month, day).tolist() == days.tolist()


def test_years_outside_the_standard_library_count_on():
    assert int(days_from_civil(10000, 1, 1)) == (datetime.date(9999, 12, 31) - EPOCH).days + 1
    assert int(days_from_civil(0, 12, 31)) == (datetime.date(1, 1, 1) - EPOCH).days - 1
    assert [int(part) for part in civil_from_days(int(days_from_civil(-4, 2, 29)))] == [-4, 2, 29]


def test_february_has_29_days_every_fourth_year_but_not_every_hundredth():
    assert days_in_month([2024, 2023, 1900, 2000], [2, 2, 2, 2]).tolist() == [29, 28, 28, 29]
    assert is_date([2024, 2023, 2024, 2024], [2, 2, 13, 0], [29, 29, 1, 1]).tolist() == [
        True,
        False,
        False,
        False,
    ]


def test_a_month_later_is_the_last_day_where_the_month_is_shorter():
    january = int(days_from_civil(2024, 1, 31))
    assert [int(part) for part in civil_from_days(add_months(january, 1))] == [2024, 2, 29]
    assert [int(part) for part in civil_from_days(add_months(january, -11))] == [2023, 2, 28]
