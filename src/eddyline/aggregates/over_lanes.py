"""The columns that rings have for some calls of OVER, and what a row puts into them.

Calls share columns: sum and avg of one column over a hundred frames read the same two. A column is named for what it holds, so
that rows which were saved find theirs again.

    count       1 where all columns of `needed` have a value and all of `true` are true          prefix
    limb        32 bits of an integer or decimal, the upper ones with the sign                   prefix
    unusual     1 where a double is NaN, or infinite with one sign                               prefix
    word        an integer in the order of the values, from which the value can be computed
    number      of a value, or of several, in a table of distinct ones
    rank        of the value with this number among the rings that a round touches
    winner      node over `count` and a column to compare                                        node
    double      a finite number, 0.0 where there is none; two columns of its node behind it      floats
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline import types
from eddyline.aggregates.accumulators import decimal_limbs, decimals, doubles, integers, masked
from eddyline.aggregates.keys import Keys
from eddyline.aggregates.rows import Ints, Mask
from eddyline.aggregates.values import has_words, order_words, ranks, values_of_words
from eddyline.kernels import COUNT, EARLIEST, GREATEST, LATEST, LEAST, NOTHING, RING_COLUMNS
from eddyline.model import AggregateCall

Floats = npt.NDArray[np.float64]
_LOW_HALF = 0xFFFFFFFF
_NAN, _PLUS, _MINUS = 0, 1, 2  # parts of `unusual`
VARIANCES = ("var_pop", "var_samp", "stddev_pop", "stddev_samp")
_MODES = {
    "min": LEAST, "max": GREATEST, "min_by": LEAST, "max_by": GREATEST, "first": EARLIEST, "last": LATEST,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class LaneCondition:
    """Which rows count."""

    needed: tuple[str, ...] = ()  # columns that are not NULL
    true: tuple[str, ...] = ()  # BOOLEAN columns

    def __str__(self) -> str:
        return f"{','.join(self.needed)}|{','.join(self.true)}"


EVERY_ROW = LaneCondition()


@dataclass(frozen=True, slots=True)
class Lane:
    """A column of rings."""

    kind: str
    columns: tuple[str, ...] = ()
    condition: LaneCondition = EVERY_ROW
    part: int = 0  # which limb, which unusual number, what wins, whether doubles are squared

    @property
    def is_prefix(self) -> bool:
        return self.kind in ("count", "limb", "unusual")

    @property
    def is_stored(self) -> bool:
        """Whether rows bring it; nodes and ranks are computed from others."""
        return self.kind not in ("winner", "rank")

    @property
    def name(self) -> str:
        return f"{self.kind}:{','.join(self.columns)}:{self.condition}:{self.part}"


def condition_of(call: AggregateCall) -> LaneCondition:
    """Which rows a call takes."""
    true = () if call.filter is None else (call.filter,)
    if call.function == "count_if":
        return LaneCondition((), tuple(sorted({*true, *call.arguments})))
    if call.function in ("first", "last"):
        return LaneCondition(call.arguments if call.ignores_nulls else (), true)
    if call.function in ("min_by", "max_by"):
        return LaneCondition(call.arguments[1:], true)
    return LaneCondition(tuple(sorted(set(call.arguments))), true)


def is_fixed(t: pa.DataType) -> bool:
    """Whether one integer says which value it is, and in which order."""
    return has_words(t) and not types.is_wide_decimal(t)


def value_lane(name: str, t: pa.DataType) -> Lane:
    return Lane("word" if is_fixed(t) else "number", (name,))


def limb_lanes(call: AggregateCall) -> list[Lane]:
    """The lowest first."""
    n_limbs = 4 if types.is_wide_decimal(call.types[0]) else 2
    return [Lane("limb", call.arguments, condition_of(call), k) for k in range(n_limbs)]


def unusual_lanes(call: AggregateCall) -> list[Lane]:
    return [Lane("unusual", call.arguments, condition_of(call), part) for part in (_NAN, _PLUS, _MINUS)]


def double_lane(call: AggregateCall, *, is_square: bool = False) -> Lane:
    return Lane("double", call.arguments, condition_of(call), int(is_square))


def winner_lane(call: AggregateCall) -> Lane:
    return Lane("winner", call.arguments[-1:], condition_of(call), _MODES[call.function])


def number_lane(call: AggregateCall) -> Lane:
    """The number of all arguments of a call with DISTINCT together."""
    return Lane("number", tuple(sorted(set(call.arguments))))


def truth_lane(call: AggregateCall) -> Lane:
    """Counts where the argument of bool_and or bool_or is true."""
    true = () if call.filter is None else (call.filter,)
    return Lane("count", (), LaneCondition((), tuple(sorted({*true, *call.arguments}))))


def is_double(call: AggregateCall) -> bool:
    return call.function in VARIANCES or (
        call.function in ("sum", "avg") and types.is_floating(call.types[0])
    )


def lanes_of(call: AggregateCall) -> list[Lane]:
    """Columns that a call reads, those it aggregates and those it takes values from."""
    count = Lane("count", (), condition_of(call))
    if call.is_distinct:
        return [count, number_lane(call)]
    if call.function in ("count", "count_if"):
        return [count]
    if call.function in ("bool_and", "bool_or"):
        return [count, truth_lane(call)]
    if is_double(call):
        squares = [double_lane(call, is_square=True)] if call.function in VARIANCES else []
        return [count, *unusual_lanes(call), double_lane(call), *squares]
    if call.function in ("sum", "avg"):
        return [count, *limb_lanes(call)]
    value = value_lane(call.arguments[0], call.types[0])
    has_value = Lane("count", (), LaneCondition(call.arguments[:1]))
    if call.function == "lag":
        return [value, has_value]
    winner = winner_lane(call)
    keys = [] if call.function in ("first", "last") else key_lanes(call.arguments[-1], call.types[-1])
    return [count, value, has_value, *keys, winner]


def key_lanes(name: str, t: pa.DataType) -> list[Lane]:
    """What is compared, last, and what it is computed from."""
    value = value_lane(name, t)
    return [value] if is_fixed(t) else [value, Lane("rank", (name,))]


@dataclass(slots=True)
class RowColumns:
    """What rows put into the columns of rings."""

    ints: Ints
    floats: Floats


class Layout:
    """Where the columns of rings are."""

    def __init__(self, calls: Iterable[AggregateCall]) -> None:
        self.calls = {call.name: call for call in calls}
        self.argument_types = {
            name: t
            for call in self.calls.values()
            for name, t in zip(call.arguments, call.types, strict=True)
        }
        lanes = dict.fromkeys(lane for call in self.calls.values() for lane in lanes_of(call))
        every = Lane("count")
        self.ints = {every: COUNT}
        self.floats: dict[Lane, int] = {}
        for lane in lanes:
            if lane.kind == "double":
                self.floats[lane] = 3 * len(self.floats)
            else:
                self.ints.setdefault(lane, RING_COLUMNS + len(self.ints) - 1)
        self.n_ints, self.n_floats = RING_COLUMNS + len(self.ints) - 1, 3 * len(self.floats)
        self.is_prefix = np.zeros(self.n_ints, dtype=bool)
        self.is_prefix[[at for lane, at in self.ints.items() if lane.is_prefix]] = True
        self.sums = np.array([(at, lane.part) for lane, at in self.floats.items()], np.int64).reshape(-1, 2)
        self.winner_lanes = [lane for lane in self.ints if lane.kind == "winner"]
        winners = [self._winner(lane) for lane in self.winner_lanes]
        self.winners = np.array(winners, np.int64).reshape(-1, 4)

    def _winner(self, lane: Lane) -> tuple[int, int, int, int]:
        key = COUNT
        if lane.part in (LEAST, GREATEST):
            key = self.ints[key_lanes(lane.columns[0], self.argument_types[lane.columns[0]])[-1]]
        return self.ints[lane], key, self.ints[Lane("count", (), lane.condition)], lane.part

    @property
    def columns(self) -> tuple[dict[Lane, int], dict[Lane, int]]:
        """Where columns are: what rings and layouts with the same columns have in common."""
        return self.ints, self.floats

    @property
    def ranks(self) -> list[tuple[Lane, Lane]]:
        """Columns of numbers whose values are compared by rank, with those of their ranks."""
        return [(Lane("number", lane.columns), lane) for lane in self.ints if lane.kind == "rank"]

    @property
    def numbered(self) -> list[Lane]:
        return [lane for lane in self.ints if lane.kind == "number"]

    @property
    def stored(self) -> list[Lane]:
        """Columns that rows bring, without those that every ring has."""
        return [lane for lane in (*self.ints, *self.floats) if lane.is_stored and lane != Lane("count")]


@dataclass(slots=True)
class ColumnReader:
    """What rows have in the columns of a layout."""

    layout: Layout
    numbers: dict[Lane, Keys]
    _conditions: dict[LaneCondition, Mask] = field(default_factory=dict)

    def read(self, rows: pa.RecordBatch) -> RowColumns:
        """All but arrival numbers and epochs, nodes and ranks."""
        self._conditions = {}
        n = rows.num_rows
        read = RowColumns(np.zeros((n, self.layout.n_ints), np.int64), np.zeros((n, self.layout.n_floats)))
        read.ints[:, COUNT] = 1
        for lane in self.layout.stored:
            if lane.kind == "double":
                read.floats[:, self.layout.floats[lane]] = self._doubles(lane, rows)
            else:
                read.ints[:, self.layout.ints[lane]] = self._ints(lane, rows)
        return read

    def _ints(self, lane: Lane, rows: pa.RecordBatch) -> Ints | Mask:
        if lane.kind == "count":
            return self._mask(lane.condition, rows)
        if lane.kind == "number":
            return self.numbers[lane].number(rows.select(list(lane.columns)))
        column = rows.column(lane.columns[0])
        if lane.kind == "word":
            return words(column)
        mask = self._mask(lane.condition, rows)
        if lane.kind == "limb":
            return np.where(mask, _limb(column, lane.part), 0)
        x = doubles(column)
        return mask & (np.isnan(x), x == np.inf, x == -np.inf)[lane.part]

    def _doubles(self, lane: Lane, rows: pa.RecordBatch) -> Floats:
        x = doubles(rows.column(lane.columns[0]))
        return np.where(self._mask(lane.condition, rows) & np.isfinite(x), x, 0.0)

    def _mask(self, condition: LaneCondition, rows: pa.RecordBatch) -> Mask:
        known = self._conditions.get(condition)
        if known is None:
            known = np.ones(rows.num_rows, dtype=bool)
            for name in condition.true:
                known &= np.asarray(rows.column(name).fill_null(False))
            for name in condition.needed:
                if rows.column(name).null_count:
                    known &= np.asarray(rows.column(name).is_valid())
            self._conditions[condition] = known
        return known


def _limb(column: pa.Array, part: int) -> Ints:
    """32 bits of exact numbers, the last ones with the sign; anything where there is no value."""
    if types.is_decimal(column.type):
        halves = decimal_limbs(column).view(np.int64)
        word = halves[:, part // 2]
        is_last = part == (3 if types.is_wide_decimal(column.type) else 1)
    else:
        word, is_last = integers(column.fill_null(0)), part == 1
    return word >> 32 if is_last else word >> 32 * (part % 2) & _LOW_HALF


def words(column: pa.Array) -> Ints:
    """Integers in the order of values, 0 where there is none."""
    if types.is_decimal(column.type):
        found = decimal_limbs(column)[:, 0].view(np.int64).copy()
    else:
        zero = pa.scalar(0, pa.int64()).cast(column.type) if not pa.types.is_date(column.type) else None
        filled = column.fill_null(zero) if zero is not None else column.cast(pa.int32()).fill_null(0)
        found = order_words(filled)[:, 0].copy()
    if column.null_count:
        found[np.asarray(column.is_null())] = 0
    return found


def values_of(found: Ints, t: pa.DataType) -> pa.Array:
    """The inverse of `words`."""
    if types.is_decimal(t):
        return decimals(np.stack([found, found >> 63], axis=1).view(np.uint64), t)
    return values_of_words(found.reshape(-1, 1), t)


def number_ranks(numbers: Ints, table: Keys) -> Ints:
    """The rank of the value of each number, 0 where it is NULL."""
    distinct, index = np.unique(numbers, return_inverse=True)
    values = table.columns(distinct).column(0)
    found = np.zeros(len(values), np.int64)
    found[np.asarray(values.is_valid()).astype(bool)] = ranks(values.drop_null())
    return found[index]


def number_of_null(table: Keys) -> int:
    """The number of a row without values."""
    nulls = pa.RecordBatch.from_arrays(
        [pa.nulls(1, field.type) for field in table.schema], schema=table.schema
    )
    number = int(table.number(nulls)[0])
    table.commit()
    return number


def taken(found: Ints, is_there: Mask, t: pa.DataType, numbers: Keys | None) -> pa.Array:
    """Values by word or number, NULL where they are not."""
    if numbers is None:
        return masked(values_of(found, t), is_there)
    places = np.flatnonzero(is_there)
    values = numbers.columns(found[places]).column(0)
    index = np.full(len(found), NOTHING)
    index[places] = np.arange(len(places))
    return values.take(pa.array(index, mask=~is_there))


def empty_numbers(layout: Layout) -> dict[Lane, Keys]:
    """Tables of distinct values for the columns that need them."""
    return {
        lane: Keys(pa.schema([(name, layout.argument_types[name]) for name in lane.columns]))
        for lane in layout.numbered
    }
