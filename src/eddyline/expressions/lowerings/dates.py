"""Days: their parts, days and months between and after them. Of a timestamp, its day in the session's time zone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.expressions import civil
from eddyline.expressions.buffers import Mask, arrow, operands
from eddyline.expressions.frame import Evaluation, Frame, RowError, merge_errors
from eddyline.expressions.function import function
from eddyline.expressions.lowerings.formats import DAYS, MONTHS
from eddyline.expressions.lowerings.parameters import day, exactly, integer, takes, text
from eddyline.expressions.lowerings.rowwise import rowwise
from eddyline.model import Call, Literal
from eddyline.types import DATE, INT, STRING

_OUT_OF_BOUNDS = "DATETIME_FIELD_OUT_OF_BOUNDS.WITHOUT_SUGGESTION"

# ------------------------------------------------------------------------------------------ parts of a day


def _register_part(*names: str, compute: Callable[[Any], Any], summary: str) -> None:
    @function(
        *names,
        typing=takes(day, result=INT),
        arguments=1,
        signature=f"{names[0]}(date)",
        summary=summary,
    )
    def lowering(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
        (days,), known = operands(arguments, frame)
        parts = np.broadcast_to(compute(days.astype(np.int64)), frame.n_rows)
        return Evaluation(arrow(parts.astype(np.int32), known, INT))


def _day_of_year(days: Any) -> Any:
    year, _, _ = civil.civil_from_days(days)
    return days - civil.days_from_civil(year, 1, 1) + 1


def _iso_week(days: Any) -> Any:
    """The week of the year of its Thursday; 1970-01-01 was a Thursday."""
    thursday = days - (days + 3) % 7 + 3
    return (_day_of_year(thursday) - 1) // 7 + 1


_register_part("year", compute=lambda days: civil.civil_from_days(days)[0], summary="The year.")
_register_part("month", compute=lambda days: civil.civil_from_days(days)[1], summary="The month, 1 to 12.")
_register_part(
    "day",
    "dayofmonth",
    compute=lambda days: civil.civil_from_days(days)[2],
    summary="The day of the month, 1 to 31.",
)
_register_part(
    "dayofweek", compute=lambda days: (days + 4) % 7 + 1, summary="1 for Sunday to 7 for Saturday."
)
_register_part("weekday", compute=lambda days: (days + 3) % 7, summary="0 for Monday to 6 for Sunday.")
_register_part("dayofyear", compute=_day_of_year, summary="The day of the year, 1 to 366.")
_register_part(
    "weekofyear", compute=_iso_week, summary="The week, 1 to 53; week 1 has the year's first Thursday."
)
_register_part(
    "quarter",
    compute=lambda days: (civil.civil_from_days(days)[1] + 2) // 3,
    summary="The quarter of the year, 1 to 4.",
)


def _register_name(name: str, names: Sequence[str], index: Callable[[Any], Any], summary: str) -> None:
    short = [one[:3] for one in names]

    @function(name, typing=takes(day, result=STRING), arguments=1, signature=f"{name}(date)", summary=summary)
    def lowering(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
        (days,), known = operands(arguments, frame)
        at = np.broadcast_to(index(days.astype(np.int64)), frame.n_rows)
        return Evaluation(pa.array(short).take(arrow(at.astype(np.int32), known, INT)))


_register_name("dayname", DAYS, lambda days: (days + 3) % 7, "Mon to Sun.")
_register_name("monthname", MONTHS, lambda days: civil.civil_from_days(days)[1] - 1, "Jan to Dec.")


# ------------------------------------------------------------------------------------------ moving


def _register_move(*names: str, sign: int, summary: str) -> None:
    @function(
        *names,
        typing=takes(day, exactly(INT), result=DATE),
        arguments=2,
        signature=f"{names[0]}(date, days)",
        summary=summary,
    )
    def lowering(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
        (days, n), known = operands(arguments, frame)
        with np.errstate(over="ignore"):  # beyond five million years it starts over, as in Spark
            moved = days + np.int32(sign) * n
        return Evaluation(arrow(np.broadcast_to(moved, frame.n_rows), known, DATE))


_register_move("date_add", "dateadd", sign=1, summary="So many days later.")
_register_move("date_sub", sign=-1, summary="So many days earlier.")


@function(
    "datediff",
    "date_diff",
    typing=takes(day, day, result=INT),
    arguments=2,
    signature="datediff(end, start)",
    summary="The days from start to end.",
)
def _datediff(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    (end, start), known = operands(arguments, frame)
    with np.errstate(over="ignore"):
        return Evaluation(arrow(np.broadcast_to(end - start, frame.n_rows), known, INT))


@function(
    "add_months",
    typing=takes(day, integer, result=DATE),
    arguments=2,
    signature="add_months(date, months)",
    summary="The same day so many months later, or the last day of that month if it is shorter.",
)
def _add_months(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    (days, months), known = operands(arguments, frame)
    moved = np.broadcast_to(civil.add_months(days, months), frame.n_rows)
    return _as_dates(moved, known, frame)


def _as_dates(days: Any, known: Mask | None, frame: Frame) -> Evaluation:
    is_beyond = days != days.astype(np.int32)
    if known is not None:
        is_beyond = is_beyond & known
    errors = frame.fail(is_beyond, "ARITHMETIC_OVERFLOW", "the date is out of the range of DATE")
    if errors is not None:
        known = errors == 0 if known is None else known & (errors == 0)
    return Evaluation(arrow(days.astype(np.int32), known, DATE), errors)


@function(
    "last_day",
    typing=takes(day, result=DATE),
    arguments=1,
    signature="last_day(date)",
    summary="The last day of the month.",
)
def _last_day(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    (days,), known = operands(arguments, frame)
    year, month, day_of_month = civil.civil_from_days(days)
    last = days + civil.days_in_month(year, month) - day_of_month
    return Evaluation(arrow(np.broadcast_to(last, frame.n_rows).astype(np.int32), known, DATE))


@function(
    "next_day",
    typing=takes(day, text, result=DATE),
    arguments=2,
    signature="next_day(date, weekday)",
    summary="The first such day of the week after the date; weekdays are MO, MON or MONDAY.",
)
def _next_day(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    weekdays = rowwise(_weekday, arguments[1:], frame, INT)
    (days, weekday), known = operands([arguments[0], weekdays], frame)
    errors = weekdays.errors
    if errors is not None:
        errors = np.where(frame.array(arguments[0]).is_valid(), errors, np.int32(0))
    ahead = days + 1 + (weekday - (days + 4)) % 7  # 1970-01-01 was a Thursday: day 3 from Monday
    values = arrow(np.broadcast_to(ahead, frame.n_rows).astype(np.int32), known, DATE)
    return Evaluation(values, errors)


def _weekday(name: str) -> int:
    names = {name.upper()[:n]: k for k, name in enumerate(DAYS) for n in (2, 3, len(name))}
    if name.upper() not in names:
        raise RowError("ILLEGAL_DAY_OF_WEEK", f"{name!r} is no day of the week")
    return names[name.upper()]


# ------------------------------------------------------------------------------------------ cutting off


UNITS = {
    **dict.fromkeys(["YEAR", "YYYY", "YY"], "YEAR"),
    "QUARTER": "QUARTER",
    **dict.fromkeys(["MONTH", "MON", "MM"], "MONTH"),
    "WEEK": "WEEK",
}


def first_day(days: Any, unit: str) -> Any:
    """The first day of the year, quarter, month or week (from Monday) of each day."""
    if unit == "WEEK":
        return days - (days + 3) % 7
    year, month, _ = civil.civil_from_days(days)
    if unit == "YEAR":
        month = np.ones_like(month)
    elif unit == "QUARTER":
        month = (month - 1) // 3 * 3 + 1
    return civil.days_from_civil(year, month, 1)


def unit_of(expression: Call, index: int, units: dict[str, str]) -> str | None:
    """The unit a constant argument names, in any case; None for NULL and for what is no unit."""
    literal = expression.arguments[index]
    assert isinstance(literal, Literal), "a unit is a constant"
    return None if literal.value is None else units.get(literal.value.upper())


@function(
    "trunc",
    typing=takes(day, text, result=DATE),
    arguments=2,
    constants=(1,),
    signature="trunc(date, unit)",
    summary="The first day of the YEAR, QUARTER, MONTH or WEEK; NULL for any other unit.",
)
def _trunc(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    unit = unit_of(expression, 1, UNITS)
    if unit is None:
        return Evaluation(pa.scalar(None, DATE))
    (days,), known = operands(arguments[:1], frame)
    first = np.broadcast_to(first_day(days.astype(np.int64), unit), frame.n_rows)
    return Evaluation(arrow(first.astype(np.int32), known, DATE))


# ------------------------------------------------------------------------------------------ from and to numbers


@function(
    "make_date",
    typing=takes(integer, integer, integer, result=DATE),
    arguments=3,
    signature="make_date(year, month, day)",
    summary="The date; an error if there is no such day.",
)
def _make_date(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    (year, month, day_of_month), known = operands(arguments, frame)
    year, month, day_of_month = np.broadcast_arrays(year, month, day_of_month, np.empty(frame.n_rows))[:3]
    bad = ~civil.is_date(year, month, day_of_month)
    if known is not None:
        bad &= known
    errors = frame.fail(bad, _OUT_OF_BOUNDS, "there is no such day")
    if errors is not None:
        known = errors == 0 if known is None else known & (errors == 0)
    safe = [np.where(bad, 1, part) for part in (year, month, day_of_month)]
    dates = _as_dates(civil.days_from_civil(*safe), known, frame)
    return Evaluation(dates.values, merge_errors(errors, dates.errors))


@function(
    "unix_date",
    typing=takes(exactly(DATE), result=INT),
    arguments=1,
    signature="unix_date(date)",
    summary="The days since 1970-01-01.",
)
def _unix_date(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    return Evaluation(frame.array(arguments[0]).view(INT))


@function(
    "date_from_unix_date",
    typing=takes(integer, result=DATE),
    arguments=1,
    signature="date_from_unix_date(days)",
    summary="The date so many days after 1970-01-01.",
)
def _date_from_unix_date(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    return Evaluation(frame.array(arguments[0]).view(DATE))
