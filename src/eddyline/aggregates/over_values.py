"""Values of calls over the frames of rows, from what rings have in their columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.aggregates.accumulators import Value, exact_sum
from eddyline.aggregates.folds import Folds
from eddyline.aggregates.frames import EpochFrames
from eddyline.aggregates.keys import Keys
from eddyline.aggregates.over_lanes import (
    VARIANCES,
    Floats,
    Lane,
    LaneCondition,
    Layout,
    condition_of,
    double_lane,
    is_double,
    lanes_of,
    limb_lanes,
    number_lane,
    taken,
    truth_lane,
    unusual_lanes,
    value_lane,
    winner_lane,
)
from eddyline.aggregates.rows import Ints
from eddyline.aggregates.sums import DoubleSum, ExactSum
from eddyline.kernels import FINITE, MINUS_INFINITE, NOT_A_NUMBER, NOTHING, PLUS_INFINITE
from eddyline.model import OVERFLOW, AggregateCall, OverFrame

UNBOUNDED = OverFrame()
_LOW_HALF = 0xFFFFFFFF
_NOISE = 2.0**-96  # of a sum of squares: what is less is rounding


def frame_of(call: AggregateCall) -> OverFrame:
    """All unbounded frames are one."""
    return UNBOUNDED if call.frame is None or call.frame.preceding is None else call.frame


def needs_folds(layout: Layout) -> bool:
    """Whether some call has an unbounded frame."""
    return any(c.function != "lag" and frame_of(c) == UNBOUNDED for c in layout.calls.values())


@dataclass(slots=True)
class FrameValues:
    """Values of calls for the rows of a round that the queries of an epoch see."""

    layout: Layout
    frames: EpochFrames
    epoch: int
    folds: Folds | None  # None: no call has an unbounded frame
    numbers: Mapping[Lane, Keys]
    _totals: dict[tuple[Lane, OverFrame], Ints] = field(default_factory=dict)
    _sums: dict[tuple[Lane, OverFrame], tuple[Floats, Floats]] = field(default_factory=dict)
    _places: dict[tuple[Lane, OverFrame], Ints] = field(default_factory=dict)
    _back: dict[int, Ints] = field(default_factory=dict)

    def columns(self, calls: Iterable[AggregateCall]) -> dict[str, pa.Array]:
        """Values by the name of calls, with OVERFLOW columns."""
        self._aggregate()
        columns = {}
        for call in calls:
            value, is_overflow = self._value(call)
            columns[call.name] = value
            if call.can_overflow:
                columns[call.name + OVERFLOW] = pa.array(is_overflow)
        return columns

    # ------------------------------------------------------------------------------------------- what frames hold

    def _aggregate(self) -> None:
        """Every column over all frames that some call needs it for."""
        by_lane: dict[Lane, dict[OverFrame, None]] = {}
        back: dict[int, None] = {}
        for call in self.layout.calls.values():
            if call.function == "lag":
                back[call.n_back] = None
                continue
            for lane in lanes_of(call):
                by_lane.setdefault(lane, {})[frame_of(call)] = None
        for n, found in zip(back, self.frames.back(list(back)) if back else (), strict=True):
            self._back[n] = found
        distinct = list(dict.fromkeys(frame for frames in by_lane.values() for frame in frames))
        lows = dict(zip(distinct, self.frames.lows(distinct), strict=True))
        for lane, wanted in by_lane.items():
            self._aggregate_lane(lane, list(wanted), np.array([lows[frame] for frame in wanted]))

    def _aggregate_lane(self, lane: Lane, frames: list[OverFrame], lows: Ints) -> None:
        keys = [(lane, frame) for frame in frames]
        if lane.is_prefix:
            self._totals.update(zip(keys, self.frames.totals(lane, lows), strict=True))
        elif lane.kind == "double":
            self._sums.update(zip(keys, zip(*self.frames.sums(lane, lows), strict=True), strict=True))
        elif lane.kind == "winner":
            lows = self.frames.lows(frames, has_pinned=True)
            self._places.update(zip(keys, self.frames.winners(lane, lows), strict=True))
        if self.folds is not None and UNBOUNDED in frames:
            self._add_folded(lane, self.folds)

    def _add_folded(self, lane: Lane, folds: Folds) -> None:
        ints, floats = folds.seen(self.epoch, self.frames.ring)
        if lane.is_prefix:
            self._totals[lane, UNBOUNDED] = self._totals[lane, UNBOUNDED] + ints[:, self.layout.ints[lane]]
        elif lane.kind == "double":
            high, low = self._sums[lane, UNBOUNDED]
            at = self.layout.floats[lane]
            with np.errstate(over="ignore", invalid="ignore"):
                total, rest = exact_sum(high, floats[:, at + 1])
                self._sums[lane, UNBOUNDED] = exact_sum(total, rest + low + floats[:, at + 2])

    # ------------------------------------------------------------------------------------------- values

    def _value(self, call: AggregateCall) -> Value:
        if call.function == "lag":
            return self._lagged(call), None
        frame = frame_of(call)
        n = self._totals[Lane("count", (), condition_of(call)), frame]
        if call.is_distinct:
            return pa.array(self._n_distinct(call, frame)), None
        if call.function in ("count", "count_if"):
            return pa.array(n), None
        if call.function in ("bool_and", "bool_or"):
            n_true = self._totals[truth_lane(call), frame]
            return pa.array(n_true == n if call.function == "bool_and" else n_true > 0, mask=n == 0), None
        if call.function in VARIANCES:
            return self._variance(call, frame, n), None
        if is_double(call):
            return self._double_sum(call, frame, n)
        if call.function in ("sum", "avg"):
            return self._exact_sum(call, frame, n)
        return self._at(call, self._places[winner_lane(call), frame]), None

    def _at(self, call: AggregateCall, places: Ints) -> pa.Array:
        """The values of the first argument in rows at these places, NULL at NOTHING."""
        name, t = call.arguments[0], call.types[0]
        lane = value_lane(name, t)
        is_there = self.frames.is_counted(Lane("count", (), LaneCondition((name,))), places)
        return taken(self.frames.taken(lane, places), is_there, t, self.numbers.get(lane))

    def _lagged(self, call: AggregateCall) -> pa.Array:
        places = self._back[call.n_back]
        values = self._at(call, places)
        if call.default is None or not (places == NOTHING).any():
            return values
        both = pa.concat_arrays([values, pa.array([call.default], call.types[0])])
        return both.take(pa.array(np.where(places == NOTHING, len(values), np.arange(len(values)))))

    def _n_distinct(self, call: AggregateCall, frame: OverFrame) -> Ints:
        number = number_lane(call)
        count = Lane("count", (), condition_of(call))
        lows = self.frames.lows([frame], has_pinned=True)
        return self.frames.n_distinct(number, count, lows, self.numbers[number].table.n_numbers)[0]

    def _exact_sum(self, call: AggregateCall, frame: OverFrame, n: Ints) -> Value:
        state = ExactSum(call)
        state.arrays = {"sum": _limbs([self._totals[lane, frame] for lane in limb_lanes(call)]), "n": n}
        return state.value(call, np.arange(len(n)))

    def _double_sum(self, call: AggregateCall, frame: OverFrame, n: Ints) -> Value:
        state = DoubleSum(call)
        sums, counts = np.zeros((len(n), 4)), np.zeros((len(n), 4), np.int64)
        sums[:, 0], sums[:, 1] = self._sums[double_lane(call), frame]
        unusual = [self._totals[lane, frame] for lane in unusual_lanes(call)]
        for column, found in zip((NOT_A_NUMBER, PLUS_INFINITE, MINUS_INFINITE), unusual, strict=True):
            counts[:, column] = found
        counts[:, FINITE] = n - sum(unusual)
        state.arrays = {"sum": sums, "n": counts}
        return state.value(call, np.arange(len(n)))

    def _variance(self, call: AggregateCall, frame: OverFrame, n: Ints) -> pa.Array:
        unusual = sum(self._totals[lane, frame] for lane in unusual_lanes(call))
        squares = _squared_distances(
            self._sums[double_lane(call), frame], self._sums[double_lane(call, is_square=True), frame], n
        )
        freedom = n - 1 if call.function.endswith("_samp") else n
        variance = squares / np.maximum(freedom, 1)
        variance[unusual > 0] = np.nan
        values = np.sqrt(variance) if call.function.startswith("stddev") else variance
        return pa.array(values, mask=freedom <= 0)


def _limbs(parts: list[Ints]) -> npt.NDArray[np.uint64]:
    """Sums of 32 bits each, the lowest first and the last with a sign, as limbs of 64 bits."""
    carry, halves = np.zeros_like(parts[0]), []
    for part in parts[:-1]:
        total = part + carry
        halves.append(total & _LOW_HALF)
        carry = total >> 32
    top = parts[-1] + carry
    halves.append(top & _LOW_HALF)
    limbs = [low | high << 32 for low, high in zip(halves[::2], halves[1::2], strict=True)]
    return np.stack([*limbs, top >> 32], axis=1).view(np.uint64)


def _squared_distances(sums: tuple[Floats, Floats], squares: tuple[Floats, Floats], n: Ints) -> Floats:
    """The sum of squared distances from the mean: that of squares less the square of the sum by n, in double-doubles."""
    count = np.maximum(n, 1).astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        (square, square_rest), (total, total_rest) = squares, sums
        product, product_rest = _product(total, total)
        product_rest = product_rest + 2.0 * total * total_rest
        mean = product / count
        back, back_rest = _product(mean, count)
        mean_rest = ((product - back) - back_rest + product_rest) / count
        distance = (square - mean) + (square_rest - mean_rest)
    distance[np.abs(distance) <= _NOISE * np.abs(square)] = 0.0
    return np.maximum(distance, 0.0)


def _product(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """The product, and exactly what rounding took from it (Dekker)."""
    product = a * b
    a_wide, b_wide = 134217729.0 * a, 134217729.0 * b
    a_high, b_high = a_wide - (a_wide - a), b_wide - (b_wide - b)
    a_low, b_low = a - a_high, b - b_high
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
