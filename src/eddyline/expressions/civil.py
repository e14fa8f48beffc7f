"""The proleptic Gregorian calendar over whole columns: years, months and days to days since 1970-01-01, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Int64Vector = npt.NDArray[np.int64]

_EPOCH_DAYS = 719_468  # from 0000-03-01, where the years of the arithmetic below begin, to 1970-01-01
ERA_DAYS = 146_097  # 400 years


def days_from_civil(year: Any, month: Any, day: Any) -> Int64Vector:
    """Days since 1970-01-01 of valid dates. The year runs from March here, so that the leap day comes last."""
    y = np.asarray(year, np.int64) - (np.asarray(month) <= 2)
    era = np.floor_divide(y, 400)
    year_of_era = y - era * 400
    day_of_year = (153 * ((np.asarray(month, np.int64) + 9) % 12) + 2) // 5 + np.asarray(day, np.int64) - 1
    day_of_era = year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year
    return np.asarray(era * ERA_DAYS + day_of_era - _EPOCH_DAYS)


def civil_from_days(days: Any) -> tuple[Int64Vector, Int64Vector, Int64Vector]:
    """Year, month and day of days since 1970-01-01."""
    z = np.asarray(days, np.int64) + _EPOCH_DAYS
    era = np.floor_divide(z, ERA_DAYS)
    day_of_era = z - era * ERA_DAYS
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36524 - day_of_era // 146096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month_from_march = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * month_from_march + 2) // 5 + 1
    month = np.where(month_from_march < 10, month_from_march + 3, month_from_march - 9)
    return year_of_era + era * 400 + (month <= 2), month, day


def days_in_month(year: Any, month: Any) -> Int64Vector:
    """How many days the month has."""
    y, m = np.asarray(year, np.int64), np.asarray(month, np.int64)
    is_leap = (y % 4 == 0) & ((y % 100 != 0) | (y % 400 == 0))
    return np.where(m == 2, 28 + is_leap, 30 + ((m + (m > 7)) % 2))


def is_date(year: Any, month: Any, day: Any) -> npt.NDArray[np.bool_]:
    """Whether there is such a day."""
    m, d = np.asarray(month), np.asarray(day)
    return (m >= 1) & (m <= 12) & (d >= 1) & (d <= days_in_month(year, np.clip(m, 1, 12)))


def add_months(days: Any, months: Any) -> Int64Vector:
    """The same day some months later, or the last day of that month if it is shorter."""
    year, month, day = civil_from_days(days)
    total = year * 12 + month - 1 + np.asarray(months, np.int64)
    year, month = np.floor_divide(total, 12), total % 12 + 1
    return days_from_civil(year, month, np.minimum(day, days_in_month(year, month)))
