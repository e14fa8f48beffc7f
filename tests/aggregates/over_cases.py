"""Lives of a class of OVER: random rounds with ties, disorder, late rows and rows without time, and what they must give."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.aggregates import ClassRows, OverRows, Reader, RoundTime
from eddyline.model import NO_TIME, OVERFLOW, AggregateCall, Aggregation, OverFrame
from tests.aggregates.state_cases import COLUMNS, assert_value, plain
from tests.oracles.aggregate_functions import OVERFLOWS, Row
from tests.oracles.over import TakenRow, frame_of, lagged

AGGREGATION = Aggregation("over", "rows", ("k0", "k1"), is_over=True)
KEYS = {
    "k0": (pa.float64(), [None, 0.0, -0.0, math.nan, 1.5]),
    "k1": (pa.string(), [None, "a"]),
}
ALL_COLUMNS = KEYS | COLUMNS


def over(of: AggregateCall, frame: OverFrame) -> AggregateCall:
    return replace(of, frame=frame)


def lag(name: str, n_back: int, default: Any = None) -> AggregateCall:
    t = COLUMNS[name][0]
    return AggregateCall("lag", (name,), (t,), t, n_back=n_back, default=default)


def rows_batch(lines: Sequence[dict[str, Any]]) -> pa.RecordBatch:
    arrays = [pa.array([line[name] for line in lines], t) for name, (t, _) in ALL_COLUMNS.items()]
    return pa.RecordBatch.from_arrays(arrays, names=list(ALL_COLUMNS))


@dataclass
class OverLife:
    """An OverRows, and all that it was given."""

    seed: int
    calls: tuple[AggregateCall, ...]
    lateness: int = 6
    keys: int = 4  # distinct partitions, at most
    over: OverRows = field(default_factory=OverRows)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.epochs = [1]
        self.since = {of.name: 1 for of in self.calls}  # the first epoch with queries that need a call
        self.taken: list[TakenRow] = []
        self.saved: list[pa.RecordBatch] = []
        self.watermark: int | None = None
        self.time = self.g = 0
        self.partitions = [
            {name: self.random.choice(values) for name, (_, values) in KEYS.items()} for _ in range(self.keys)
        ]
        self.build()

    def build(self) -> None:
        self.over.build([Reader(AGGREGATION, self.calls, tuple(self.epochs))])
        self.over.check()

    # ------------------------------------------------------------------------------------------- rounds

    def lines(self, n: int, disorder: int) -> list[tuple[dict[str, Any], int]]:
        """Random rows with their times."""
        lines = []
        for _ in range(n):
            self.time += self.random.choice([0, 0, 1, 3])
            ts = self.time - self.random.randint(0, disorder)
            if self.random.random() < 0.05:
                ts = NO_TIME
            values = {name: self.random.choice([None, *values]) for name, (_, values) in COLUMNS.items()}
            values["double"] = self.random.choice([None, 0.1, -2.25, 1e16, -1e300, math.nan, math.inf, 0.5])
            lines.append((self.random.choice(self.partitions) | values, ts))
        return lines

    def round(self, n: int, disorder: int = 8, *, rolls_back: bool = False) -> None:
        """A round whose values are compared, and which then commits, or does not."""
        lines = self.lines(n, disorder)
        times = [ts for _, ts in lines]
        is_late = [self.watermark is not None and NO_TIME != ts < self.watermark for ts in times]
        largest = max((ts for ts in times if ts != NO_TIME), default=None)
        after = self.watermark
        if largest is not None:
            after = largest - self.lateness if after is None else max(after, largest - self.lateness)
        epoch = max(self.epochs)
        rows = ClassRows(
            rows_batch([line for line, _ in lines]),
            np.array(times, np.int64),
            self.g + np.arange(n),
            np.ones(n, np.int8),
            np.array(is_late, dtype=bool),
            np.full(n, epoch),
        )
        new = {
            index: TakenRow(Row(line, ts, self.g + index), (line["k0"], line["k1"]), epoch)
            for index, ((line, ts), late) in enumerate(zip(lines, is_late, strict=True))
            if not late and ts != NO_TIME
        }
        found = list(self.over.push(rows, RoundTime(0, self.watermark, after)))
        self.compare(found, new)
        saved = self.over.save()
        if rolls_back:
            self.over.rollback()
        else:
            self.over.commit()
            self.saved += [saved] if saved is not None else []
            self.taken += new.values()
            self.watermark, self.g = after, self.g + n
        self.over.check()

    def compare(self, found: Sequence[Any], new: dict[int, TakenRow]) -> None:
        assert [values.epoch for _, values in found] == (self.epochs if new else [])
        everything = self.taken + list(new.values())
        for aggregation, values in found:
            assert aggregation == AGGREGATION
            assert values.rows.tolist() == list(new)
            for of in self.calls:
                if values.epoch < self.since[of.name]:
                    continue  # no query of this epoch reads it
                column = values.columns.column(of.name)
                assert column.type == of.type
                overflow = [False] * len(new)
                if of.can_overflow:
                    overflow = values.columns.column(of.name + OVERFLOW).to_pylist()
                for value, is_overflow, row in zip(column.to_pylist(), overflow, new.values(), strict=True):
                    assert not is_overflow or value is None
                    self.compare_value(of, OVERFLOWS if is_overflow else value, row, everything, values.epoch)

    def compare_value(
        self, of: AggregateCall, value: Any, row: TakenRow, everything: list[TakenRow], epoch: int
    ) -> None:
        if of.function == "lag":
            expected = lagged(row, everything, epoch, of)
            assert plain(value) == plain(expected), f"{of.name}: {value} instead of {expected}"
        else:
            rows = frame_of(row, everything, epoch, of.frame or OverFrame())
            assert_value(of, value, [r for r in rows if of.filter is None or r.values[of.filter] is True])

    # ------------------------------------------------------------------------------------------- versions, restarts

    def open_epoch(self, *more: AggregateCall) -> None:
        """Queries join, and some of them may need more calls."""
        self.epochs.append(max(self.epochs) + self.random.randint(1, 3))
        self.calls += more
        self.since |= {of.name: self.epochs[-1] for of in more}
        self.build()

    def close_epoch(self) -> None:
        if len(self.epochs) > 1:
            self.epochs.remove(self.random.choice(self.epochs[:-1]))
            self.build()

    def restart(self, *, from_whole: bool) -> None:
        """Go on with what was saved."""
        if from_whole:
            whole = self.over.whole()
            self.saved = [] if whole is None else [whole]
        self.over = OverRows()
        self.build()
        self.over.load(self.saved)
        self.over.check()
