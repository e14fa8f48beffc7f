"""Event-time conditions of a join: how far the times of its inputs can be apart.

A comparison that is linear in the times of two inputs, such as `a.ts < b.ts + INTERVAL 10 MINUTES`, bounds their difference from
above or below. Bounds over a chain of inputs add up, so the tightest ones are shortest paths. Where time is an instant and the
session's zone changes its clocks, a day is not always a day: such a condition bounds the difference loosely, never too tightly.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from fractions import Fraction
from typing import Any

import pyarrow as pa

from eddyline.durations import DAY_US
from eddyline.expressions import FLIPPED, NeedsLiteral, call, cast, fold
from eddyline.model import Call, Clause, Column, Expression, Literal, Slot, joined_name
from eddyline.sql.normalisation import atom
from eddyline.types import BIGINT, INTERVAL, MONTHS, TIMESTAMP, TIMESTAMP_NTZ, is_integer

Reach = tuple[tuple[int | None, ...], ...]  # reach[i][j]: the time of j exceeds that of i by at most this

TimeKind = tuple[pa.DataType, Fraction, bool]  # type, unit in microseconds, whether it is the column itself

_MICROSECOND = timedelta(microseconds=1)
_SHORTEST_MONTH_DAYS, _LONGEST_MONTH_DAYS = 28, 31
_ZONE_US = 2 * DAY_US  # two offsets of one zone differ by less
_LARGEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class TimeBound:
    """The time of input `to` exceeds that of input `origin` by at most `most_us`."""

    origin: int
    to: int
    most_us: int


@dataclass(frozen=True, slots=True)
class TimeDifference:
    """A comparison as `time(left) - time(right) operator c`, with c from `low` to `high`, and left < right.

    It counts in units of `unit_us` microseconds, as the columns do; `is_plain` if it is one of the columns themselves.
    """

    left: int
    right: int
    operator: str
    low: int
    high: int
    unit_us: Fraction = Fraction(1)
    is_plain: bool = True

    @property
    def is_exact(self) -> bool:
        return self.low == self.high

    @property
    def bounds(self) -> tuple[TimeBound, ...]:
        """What it says of how far the two are apart."""
        strict = 1 if self.operator in ("<", ">") else 0
        above = TimeBound(self.right, self.left, math.ceil((self.high - strict) * self.unit_us))
        below = TimeBound(self.left, self.right, math.ceil((-self.low - strict) * self.unit_us))
        return {"=": (above, below), "<": (above,), "<=": (above,)}.get(self.operator, (below,))


@dataclass(frozen=True, slots=True)
class _Linear:
    """A sum of times, each with a factor, and an amount from `low` to `high`."""

    factors: Mapping[int, int]
    low: int = 0
    high: int = 0
    slots: tuple[int, ...] = ()  # constants in it, taken as 0
    kinds: frozenset[TimeKind] = frozenset()  # what its times are

    def plus(self, other: _Linear, sign: int) -> _Linear:
        factors = dict(self.factors)
        for place, factor in other.factors.items():
            factors[place] = factors.get(place, 0) + sign * factor
        low, high = (other.low, other.high) if sign > 0 else (-other.high, -other.low)
        nonzero_factors = {place: factor for place, factor in factors.items() if factor}
        slots, kinds = self.slots + other.slots, self.kinds | other.kinds
        return _Linear(nonzero_factors, self.low + low, self.high + high, slots, kinds)

    def loosened(self, by: int) -> _Linear:
        return replace(self, low=self.low - by, high=self.high + by)


class EventTimes:
    """The times of a join's inputs, and what conditions over its rows say of them."""

    def __init__(
        self,
        times: Sequence[tuple[str, pa.DataType] | None],
        *,
        has_fixed_zone: bool,
        parameters: frozenset[int] = frozenset(),
        units_us: Sequence[Fraction] = (),
        expressions: Mapping[Expression, int] | None = None,
    ) -> None:
        """`times` has the name and type of each input's time; `parameters` are slots that cannot become literals.

        `units_us` says what times that are numbers count, microseconds if it does not; `expressions` are times as SQL computes
        them from the columns of inputs, by place.
        """
        self._units_us = units_us or [Fraction(1)] * len(times)
        self._expressions = expressions or {}
        self._columns = [
            None if time is None else Column(time[1], joined_name(at, time[0]))
            for at, time in enumerate(times)
        ]
        self._places = {
            column: at
            for at, column in enumerate(self._columns)
            if column is not None and (is_integer(column.type) or column.type in (TIMESTAMP, TIMESTAMP_NTZ))
        }
        self._has_fixed_zone = has_fixed_zone
        self._parameters = parameters

    def difference(self, clause: Clause) -> TimeDifference | None:
        """What a clause says of two inputs' times, if it is one comparison that is linear in them.

        Raises NeedsLiteral for a constant in it, because how long rows are kept depends on its value.
        """
        condition = clause.atoms[0].condition
        if len(clause.atoms) > 1 or not isinstance(condition, Call) or condition.function not in FLIPPED:
            return None
        left, right = (self._linear(argument) for argument in condition.arguments)
        if condition.function == "!=" or left is None or right is None:
            return None
        whole = left.plus(right, -1)
        if sorted(whole.factors.values()) != [-1, 1] or len(whole.kinds) > 1:
            return None
        ((_, unit_us, is_plain),) = whole.kinds
        if whole.slots:
            raise NeedsLiteral(*whole.slots)
        a, b = sorted(whole.factors)
        if whole.factors[a] == 1:
            return TimeDifference(a, b, condition.function, -whole.high, -whole.low, unit_us, is_plain)
        return TimeDifference(a, b, FLIPPED[condition.function], whole.low, whole.high, unit_us, is_plain)

    def rewritten(self, clause: Clause, difference: TimeDifference) -> Clause:
        """The same clause as a comparison of one attribute, the difference of two times, with a constant, where that is exact."""
        first, second = self._columns[difference.left], self._columns[difference.right]
        assert first is not None, difference
        assert second is not None, difference
        if not difference.is_exact or not difference.is_plain or abs(difference.low) > _LARGEST:
            return clause
        constant: Literal
        if first.type == TIMESTAMP_NTZ or (first.type == TIMESTAMP and self._has_fixed_zone):
            constant = Literal(INTERVAL, timedelta(microseconds=difference.low))
        else:
            constant = Literal(BIGINT, difference.low)
        apart = self._apart(first, second, constant.type)
        span = clause.atoms[0].condition.span
        return replace(clause, atoms=(atom(call(difference.operator, [apart, constant], span=span)),))

    def _apart(self, first: Column, second: Column, t: pa.DataType) -> Expression:
        if t == INTERVAL:
            return call("-", [first, second])
        if (
            first.type == TIMESTAMP
        ):  # the difference of two instants is what wall clocks show, that of these is not
            return call("-", [call("unix_micros", [first]), call("unix_micros", [second])])
        return call("-", [cast(first, BIGINT), cast(second, BIGINT)])

    def _time(self, place: int, t: pa.DataType, *, is_plain: bool) -> _Linear:
        unit_us = self._units_us[place] if is_integer(t) else Fraction(1)
        kind = (BIGINT if is_integer(t) else t, unit_us, is_plain)
        return _Linear({place: 1}, kinds=frozenset([kind]))

    def _linear(self, e: Expression) -> _Linear | None:
        if isinstance(e, Column):
            place = self._places.get(e)
            return None if place is None else self._time(place, e.type, is_plain=True)
        if e in self._expressions:
            return self._time(self._expressions[e], e.type, is_plain=False)
        if isinstance(e, Literal):
            return _amount(e.type, e.value)
        if isinstance(e, Slot):
            known = is_integer(e.type) and e.index not in self._parameters
            return _Linear({}, slots=(e.index,)) if known else None
        if not isinstance(e, Call):
            return None
        if e.function == "cast" and is_integer(e.type) and is_integer(e.arguments[0].type):
            return self._linear(e.arguments[0])
        parts = [self._linear(argument) for argument in e.arguments]
        known_parts = [part for part in parts if part is not None]
        if len(known_parts) < len(parts):
            return None
        if e.function == "negate":
            return _Linear({}).plus(known_parts[0], -1)
        if e.function not in ("+", "-") or len(parts) != 2:
            return None
        left, right = known_parts
        found = left.plus(right, 1 if e.function == "+" else -1)
        return found if self._is_exact(e) else found.loosened(_ZONE_US)

    def _is_exact(self, e: Call) -> bool:
        """Whether this sum or difference is one of microseconds, whatever the session's zone is."""
        first, second = e.arguments
        if first.type != TIMESTAMP or self._has_fixed_zone:
            return True
        if second.type != INTERVAL:
            return False
        step = fold(second)
        return isinstance(step, Literal) and step.value is not None and abs(_us(step.value)) < DAY_US


def _amount(t: pa.DataType, value: Any) -> _Linear | None:
    if value is None:
        return None
    if is_integer(t):
        return _Linear({}, value, value)
    if t == INTERVAL:
        return _Linear({}, _us(value), _us(value))
    if t == MONTHS:
        ends = [value[0] * days * DAY_US for days in (_SHORTEST_MONTH_DAYS, _LONGEST_MONTH_DAYS)]
        return _Linear({}, min(ends), max(ends))
    return None


def _us(value: Any) -> int:
    return value // _MICROSECOND if isinstance(value, timedelta) else int(value)


# ------------------------------------------------------------------------------------------------ shortest paths


def reach_of(n_inputs: int, bounds: Iterable[TimeBound]) -> Reach | None:
    """The tightest bound between any two inputs, or None if no times fulfil all bounds."""
    most: list[list[int | None]] = [[None] * n_inputs for _ in range(n_inputs)]
    for place in range(n_inputs):
        most[place][place] = 0
    for bound in bounds:
        known = most[bound.origin][bound.to]
        if known is None or bound.most_us < known:
            most[bound.origin][bound.to] = bound.most_us
    for via in range(n_inputs):
        for i in range(n_inputs):
            first = most[i][via]
            if first is None:
                continue
            for j in range(n_inputs):
                second, known = most[via][j], most[i][j]
                if second is not None and (known is None or first + second < known):
                    most[i][j] = first + second
    if any((most[place][place] or 0) < 0 for place in range(n_inputs)):
        return None
    return tuple(tuple(row) for row in most)
