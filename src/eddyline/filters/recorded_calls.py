"""What functions that are not deterministic gave on (row, query) pairs, while the pairs are being decided.

Such a function is called once for a pair and place in the text, also where the place belongs to several conditions: BETWEEN is
two of them. What it gave goes with the pairs that match, and is stored with their round, so that a proof need not call it again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.batch import Positions
from eddyline.expressions import CallResult, ErrorCodes, Frame
from eddyline.model import Segment, UserCall


class _Piece(NamedTuple):
    """What a call gave on some pairs, `keys` ascending."""

    keys: npt.NDArray[np.int64]
    values: pa.Array
    errors: ErrorCodes


class RecordedCalls:
    """What calls gave in one batch, as far as it is still held."""

    def __init__(self) -> None:
        self.n = 0  # values that are kept
        self._pieces: dict[tuple[Segment, UserCall], list[_Piece]] = {}

    def fill(
        self, frame: Frame, calls: Iterable[UserCall], segment: Segment, rows: Positions, positions: Positions
    ) -> None:
        """Give a frame over these pairs the known results of the calls, so that it does not make them again."""
        for call in calls:
            called = self._known_values(call, segment, rows, positions)
            if called is not None:
                frame.call_results[call] = called

    def learn(
        self, frame: Frame, calls: Iterable[UserCall], segment: Segment, rows: Positions, positions: Positions
    ) -> None:
        """Keep what the calls gave on those pairs of the frame on which they were made and nothing was known."""
        for call in dict.fromkeys(calls):
            called = frame.call_results.get(call)
            if called is None:
                continue
            before = self._known_values(call, segment, rows, positions)
            new = np.flatnonzero(called.rows if before is None else called.rows & ~before.rows)
            if len(new):
                keys = _keys(segment, rows[new], positions[new])
                order = np.argsort(keys)
                new_results = called.take(new[order])
                piece = _Piece(keys[order], new_results.values, new_results.errors)
                self._pieces.setdefault((segment, call), []).append(piece)
                self.n += len(new)

    def values(self, call: UserCall, segment: Segment, rows: Positions, positions: Positions) -> pa.Array:
        """What the call gave on each pair; NULL where it failed or was not made."""
        called = self._known_values(call, segment, rows, positions)
        return pa.nulls(len(rows), call.type) if called is None else called.values

    def forget(self) -> None:
        """Start anew: all pairs so far are decided."""
        self._pieces.clear()
        self.n = 0

    def _known_values(
        self, call: UserCall, segment: Segment, rows: Positions, positions: Positions
    ) -> CallResult | None:
        """What is known of the call on these pairs; None if nothing is."""
        pieces = self._pieces.get((segment, call))
        if not pieces or not len(rows):
            return None
        keys = _keys(segment, rows, positions)
        low, high = keys.min(), keys.max()
        places = np.full(len(keys), -1, np.int64)
        found: list[_Piece] = []
        n = 0
        for piece in pieces:
            if piece.keys[-1] < low or piece.keys[0] > high:
                continue
            at = np.searchsorted(piece.keys, keys)
            at[at == len(piece.keys)] = 0
            here = piece.keys[at] == keys
            places[here] = n + at[here]
            found.append(piece)
            n += len(piece.keys)
        is_known = places >= 0
        if not is_known.any():
            return None
        values = pa.concat_arrays([piece.values for piece in found])
        errors = np.concatenate([piece.errors for piece in found])
        return CallResult(
            is_known,
            values.take(pa.array(places, mask=~is_known)),
            np.where(is_known, errors[places], 0).astype(np.int32),
        )


def _keys(segment: Segment, rows: Positions, positions: Positions) -> npt.NDArray[np.int64]:
    return rows.astype(np.int64) * len(segment) + positions
