"""OVER by definition: every row that took part is kept, and each frame is picked out of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from eddyline.model import AggregateCall, OverFrame
from tests.oracles.aggregate_functions import Row, identity


@dataclass(frozen=True)
class TakenRow:
    """A row that took part."""

    row: Row
    partition: tuple[Any, ...]
    epoch: int


def before(r: TakenRow, rows: Sequence[TakenRow], epoch: int) -> list[Row]:
    """Rows of r's partition that a query of an epoch sees, came no later and are not behind it, by (ts, g); r is the last."""
    mine = tuple(map(identity, r.partition))
    seen = [
        x.row
        for x in rows
        if x.epoch >= epoch
        and tuple(map(identity, x.partition)) == mine
        and x.row.g <= r.row.g
        and (x.row.ts, x.row.g) <= (r.row.ts, r.row.g)
    ]
    return sorted(seen, key=lambda row: (row.ts, row.g))


def frame_of(r: TakenRow, rows: Sequence[TakenRow], epoch: int, frame: OverFrame) -> list[Row]:
    """The rows of a frame."""
    ordered = before(r, rows, epoch)
    if frame.preceding is None:
        return ordered
    if frame.unit == "rows":
        return ordered[-1 - frame.preceding :]
    return [row for row in ordered if r.row.ts - frame.preceding <= row.ts]


def lagged(r: TakenRow, rows: Sequence[TakenRow], epoch: int, call: AggregateCall) -> Any:
    """What lag gives."""
    ordered = before(r, rows, epoch)
    if call.n_back >= len(ordered):
        return call.default
    return ordered[-1 - call.n_back].values[call.arguments[0]]
