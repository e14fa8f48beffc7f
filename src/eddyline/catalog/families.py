"""Families: all live queries of one shape, kept as columns of constants.

A family is a short list of immutable segments, newest last, merged in tiers as it grows, so that adding one query to a million
touches few rows. Taking one out clears a bit in a copy of its segment's mask.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.model import Segment, Shape

MERGE_FACTOR = (
    4  # a segment is merged with the one before it when that one is less than this many times larger
)


class QueryFamily:
    """The growing and shrinking set of queries of one shape."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self._segments: list[Segment] = []
        self._pending: list[tuple[int, Sequence[Any]]] = []

    def __len__(self) -> int:
        return len(self._pending) + sum(s.n_live for s in self._segments)

    def add(self, query_id: int, constants: Sequence[Any]) -> None:
        self._pending.append((query_id, constants))

    def add_many(self, ids: npt.NDArray[np.int32], slots: Sequence[pa.Array]) -> None:
        self._seal()
        columns = tuple(c.combine_chunks() if isinstance(c, pa.ChunkedArray) else c for c in slots)
        self._append(Segment(self.shape, ids, columns, np.ones(len(ids), dtype=bool)))

    def remove(self, ids: Iterable[int]) -> None:
        """Take queries out: their bits are cleared, and a segment mostly of cleared ones is rewritten."""
        self._seal()
        removed_ids = np.fromiter(ids, np.int32)
        remaining_segments: list[Segment] = []
        for segment in self._segments:
            positions = np.searchsorted(segment.ids, removed_ids)
            inside = positions < len(segment)
            positions = positions[inside][segment.ids[positions[inside]] == removed_ids[inside]]
            if len(positions):
                mask = segment.is_live.copy()
                mask[positions] = False
                segment = replace(segment, is_live=mask)
            if segment.n_live * 2 < len(segment):
                segment = _live_only(segment)
            if len(segment):
                remaining_segments.append(segment)
        self._segments = remaining_segments

    def constants(self, query_id: int) -> tuple[pa.Scalar, ...]:
        """The values of a query's slots."""
        self._seal()
        for segment in self._segments:
            at = segment.position(query_id)
            if at is not None and segment.is_live[at]:
                return tuple(column[at] for column in segment.slots)
        raise KeyError(query_id)

    def ids(self) -> list[int]:
        """All queries in it."""
        return [query_id for s in self.segments() for query_id in s.ids[s.is_live].tolist()]

    def segments(self) -> tuple[Segment, ...]:
        self._seal()
        return tuple(self._segments)

    def _seal(self) -> None:
        """Turn what was added one by one into a segment."""
        if not self._pending:
            return
        self._pending.sort(key=lambda entry: entry[0])
        ids = np.fromiter((query_id for query_id, _ in self._pending), np.int32, len(self._pending))
        slots = tuple(
            pa.array([constants[slot.index] for _, constants in self._pending], slot.type)
            for slot in self.shape.slots
        )
        self._pending = []
        self._append(Segment(self.shape, ids, slots, np.ones(len(ids), dtype=bool)))

    def _append(self, segment: Segment) -> None:
        while self._segments and len(self._segments[-1]) < MERGE_FACTOR * len(segment):
            segment = _merged_segment(self._segments.pop(), segment)
        self._segments.append(segment)


def _live_only(segment: Segment) -> Segment:
    """The segment without queries that were taken out."""
    if segment.is_live.all():
        return segment
    keep = np.flatnonzero(segment.is_live)
    return Segment(
        segment.shape,
        segment.ids[keep],
        tuple(column.take(pa.array(keep)) for column in segment.slots),
        np.ones(len(keep), dtype=bool),
    )


def _merged_segment(older: Segment, newer: Segment) -> Segment:
    """Both in one, ids ascending. A query that was taken out of one and came back in the other is there once."""
    older, newer = _live_only(older), _live_only(newer)
    ids = np.concatenate([older.ids, newer.ids])
    slots = tuple(pa.concat_arrays([a, b]) for a, b in zip(older.slots, newer.slots, strict=True))
    if len(older) and len(newer) and older.ids[-1] > newer.ids[0]:
        order = np.argsort(ids, kind="stable")
        ids = ids[order]
        slots = tuple(column.take(pa.array(order)) for column in slots)
    return Segment(older.shape, ids, slots, np.ones(len(ids), dtype=bool))
