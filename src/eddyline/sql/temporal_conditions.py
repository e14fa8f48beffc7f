"""Comparisons of a time with now(), brought into one form: time operator now() + shift.

Such a comparison holds for a span of now() that is known as soon as the time is:

    e >  now() - d    until e + d           e <= now() + c    from e - c
    e >= now() - d    until e + d + 1 µs    e <  now() + c    from e - c + 1 µs

Intervals are elapsed time here: a day is 24 hours whatever clocks do, so that a row never comes back that has left.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from eddyline.durations import DAY_US
from eddyline.errors import Span, UnsupportedError
from eddyline.expressions import FLIPPED, call, fold
from eddyline.model import NOW, Call, Column, Expression, Literal, TemporalBound
from eddyline.sql.subqueries import condition_parts
from eddyline.types import BIGINT, INTERVAL, MONTHS, TIMESTAMP, type_name

_OPPOSITE = {"=": "!=", "!=": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_CLOCKS = ("now", "current_date", "localtimestamp")
_MICROSECOND = timedelta(microseconds=1)
_HINT = "Write a comparison such as ts > now() - INTERVAL 10 MINUTES, beside AND."


@dataclass(frozen=True, slots=True)
class TimeComparison:
    """time operator now() + shift_us."""

    time: Expression
    operator: str
    shift_us: int
    span: Span | None

    def bound(self, column: str) -> TemporalBound:
        """The span of now() in which it holds, for a column that has the time."""
        after = -self.shift_us  # now() when both sides are equal
        leave = {">": after, ">=": after + 1, "=": after + 1}.get(self.operator)
        enter = {"<": after + 1, "<=": after, "=": after}.get(self.operator)
        return TemporalBound(column, leave, enter)

    def condition(self, now: Expression) -> Expression:
        """The same as a comparison of the time with this now(), and an interval."""
        return call(self.operator, [self.time, _shifted(now, self.shift_us)], span=self.span)


def _shifted(now: Expression, shift_us: int) -> Expression:
    if abs(shift_us) < DAY_US:  # less than a day is elapsed time in SQL, too
        amount = Literal(INTERVAL, timedelta(microseconds=abs(shift_us)))
        return now if not shift_us else call("-" if shift_us < 0 else "+", [now, amount])
    micros = call("+", [call("unix_micros", [now]), Literal(BIGINT, shift_us)])
    return call("timestamp_micros", [micros])


def _shift_of(e: Call) -> int | None:
    """By how much now() is shifted in the form that `_shifted_now` gives it for a day or more."""
    if e.function != "timestamp_micros" or not asks_for_time(e):
        return None
    micros = e.arguments[0]
    shift = micros.arguments[1] if isinstance(micros, Call) and micros.function == "+" else None
    return int(shift.value) if isinstance(shift, Literal) else None


def asks_for_time(e: Expression | None) -> bool:
    """Whether now() or the like is in it."""
    return e is not None and any(_is_clock(n) for n in e.walk())


def _is_clock(e: Expression) -> bool:
    return _is_now(e) or (isinstance(e, Call) and e.function in _CLOCKS)


def _is_now(e: Expression) -> bool:
    """now(), or the column that it is in HAVING."""
    return e.name == NOW if isinstance(e, Column) else isinstance(e, Call) and e.function == "now"


def split_where(where: Expression | None) -> tuple[list[Expression], list[TimeComparison]]:
    """The conditions of WHERE without now(), and those that compare a time with it."""
    plain: list[Expression] = []
    comparisons: list[TimeComparison] = []
    for part in condition_parts(where):
        if asks_for_time(part):
            comparisons.append(comparison_with_now(part, "below an aggregate"))
        else:
            plain.append(part)
    return plain, comparisons


def comparison_with_now(e: Expression, where: str) -> TimeComparison:
    """The comparison that a condition with now() is. Refuses all else."""
    is_negated = isinstance(e, Call) and e.function == "not"
    condition = e.arguments[0] if isinstance(e, Call) and is_negated else e
    if not isinstance(condition, Call) or condition.function not in FLIPPED:
        raise _refusal(f"now() can only be compared with a time {where}, beside AND", e)
    operator = _OPPOSITE[condition.function] if is_negated else condition.function
    if operator == "!=":
        raise _refusal(f"now() cannot be compared with {operator} {where}", e)
    found = _Sum(e)
    left, right = map(fold, condition.arguments)
    found.add(left, 1)
    found.add(right, -1)
    time, factor = found.only_time()
    if factor > 0:
        return TimeComparison(time, operator, -found.shift_us, e.span)
    return TimeComparison(time, FLIPPED[operator], found.shift_us, e.span)


class _Sum:
    """Times and intervals that are added and subtracted: now() once, and what is no sum of its own."""

    def __init__(self, whole: Expression) -> None:
        self._whole = whole
        self._n_now = 0
        self._terms: dict[Expression, int] = {}
        self.shift_us = 0

    def add(self, e: Expression, sign: int) -> None:
        """Add a side of the comparison, or a part of one."""
        if isinstance(e, Literal) and e.type == INTERVAL and e.value is not None:
            self.shift_us += sign * _us(e.value)
        elif _is_now(e):
            self._n_now += sign
        elif isinstance(e, Call) and (shift_us := _shift_of(e)) is not None:
            self._n_now += sign
            self.shift_us += sign * shift_us
        elif isinstance(e, Call) and e.function in ("+", "-") and e.type in (TIMESTAMP, INTERVAL):
            first, second = e.arguments
            self.add(first, sign)
            self.add(second, sign if e.function == "+" else -sign)
        elif e.type == MONTHS:
            raise _refusal("now() cannot be shifted by months, which are not equally long", self._whole)
        elif asks_for_time(e) or e.type not in (TIMESTAMP, INTERVAL):
            raise _refusal(f"now() is compared with {type_name(e.type)}, not with a TIMESTAMP", self._whole)
        else:
            self._terms[e] = self._terms.get(e, 0) + sign

    def only_time(self) -> tuple[Expression, int]:
        """The time that is compared with now(), and its sign, which is opposite to that of now()."""
        terms = [(term, factor) for term, factor in self._terms.items() if factor]
        if len(terms) != 1 or terms[0][0].type != TIMESTAMP or {self._n_now, terms[0][1]} != {-1, 1}:
            raise _refusal("now() must be compared with one TIMESTAMP, and once", self._whole)
        return terms[0]


def _us(value: Any) -> int:
    return value // _MICROSECOND if isinstance(value, timedelta) else int(value)


def _refusal(problem: str, e: Expression) -> UnsupportedError:
    return UnsupportedError(
        problem,
        span=e.span,
        detail="It must be known of each row when time alone changes the answer.",
        hint=_HINT,
    )
