"""Pieces of sessions: rows of a group and an epoch that lie together, and how pieces join to longer ones.

Pieces that are at most `gap` apart, touching ones too, are one. Sessions of a gap are runs of pieces that were cut at a smaller
gap, so that one list of pieces serves all gaps, and the pieces of several epochs serve the queries of the oldest of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from eddyline.aggregates.rows import Ints, Mask

UNCHANGED = -1  # for the piece's number among those that the round changes


@dataclass(frozen=True, slots=True)
class Pieces:
    """Pieces by group, epoch and start; all of them in one order, ascending."""

    group: Ints
    epoch: Ints
    start: Ints
    last: Ints  # the time of the last row
    slot: Ints  # where its state is kept
    changed: Ints  # its number among those the running round changes, or UNCHANGED

    def __len__(self) -> int:
        return len(self.group)

    def take(self, places: Ints | Mask) -> Pieces:
        return Pieces(*(getattr(self, field.name)[places] for field in fields(self)))


def joined_pieces(parts: Sequence[Pieces]) -> Pieces:
    """All pieces of some parts, sorted."""
    pieces = Pieces(*(np.concatenate([getattr(p, field.name) for p in parts]) for field in fields(Pieces)))
    if _is_one(pieces.epoch):
        return pieces.take(np.argsort(ordered_codes(pieces.group, pieces.start), kind="stable"))
    return pieces.take(np.lexsort((pieces.start, pieces.epoch, pieces.group)))


def _is_one(epoch: Ints) -> bool:
    return not len(epoch) or bool((epoch == epoch[0]).all())


def ordered_codes(major: Ints, minor: Ints) -> Ints:
    """Numbers that are ordered as pairs of a number that is not negative and another one; equal pairs have the same."""
    if not len(major):
        return np.empty(0, np.int64)
    low, n_minor = int(minor.min()), int(minor.max()) - int(minor.min()) + 1
    if (int(major.max()) + 1) * n_minor < 1 << 63:
        return major * n_minor + (minor - low)
    order = np.lexsort((minor, major))
    codes = np.empty(len(major), np.int64)
    codes[order] = segments(major[order], minor[order])
    return codes


def chained(segment: Ints, start: Ints, last: Ints, gap: int) -> Ints:
    """The number of the chain of each interval, ascending: intervals of a segment at most `gap` apart are in one.

    Segments are dense numbers, ascending, and starts ascend in each.
    """
    if not len(start):
        return np.empty(0, np.int64)
    code = ordered_codes(segment, last)
    is_latest = code == np.maximum.accumulate(code)  # later segments are above
    latest = last[np.maximum.accumulate(np.where(is_latest, np.arange(len(last)), 0))]
    begins = np.ones(len(start), dtype=bool)
    begins[1:] = (segment[1:] != segment[:-1]) | (start[1:] - latest[:-1] > gap)
    return np.cumsum(begins) - 1


def segments(*columns: Ints) -> Ints:
    """Dense numbers, ascending, of rows that are sorted by some columns: equal rows have the same."""
    begins = np.zeros(len(columns[0]), dtype=bool)
    for column in columns:
        begins[1:] |= column[1:] != column[:-1]
    return np.cumsum(begins)


def firsts(number: Ints) -> Ints:
    """Where each of some numbers, dense and ascending, begins."""
    begins = np.ones(len(number), dtype=bool)
    begins[1:] = number[1:] != number[:-1]
    return np.flatnonzero(begins)


@dataclass(frozen=True, slots=True)
class SessionList:
    """Sessions as the queries of an epoch with one gap see them, by group and start."""

    group: Ints
    start: Ints
    end: Ints
    pieces: Pieces  # of these sessions, in their order
    number: Ints  # by piece: its session

    def __len__(self) -> int:
        return len(self.group)

    def take(self, wanted: Mask) -> SessionList:
        """Some of them alone."""
        mine = wanted[self.number]
        number = (np.cumsum(wanted) - 1)[self.number[mine]]
        return SessionList(
            self.group[wanted], self.start[wanted], self.end[wanted], self.pieces.take(mine), number
        )

    def holds(self, marked: Mask) -> Mask:
        """Sessions that hold a piece that is marked."""
        held = np.zeros(len(self), dtype=bool)
        held[self.number[marked]] = True
        return held


def sessions_of(pieces: Pieces, epoch: int, gap: int) -> SessionList:
    """The sessions that these pieces are, for a gap that is not smaller than that at which they were cut."""
    is_visible = pieces.epoch >= epoch
    pieces = pieces if is_visible.all() else pieces.take(is_visible)
    if not _is_one(pieces.epoch):
        pieces = pieces.take(np.argsort(ordered_codes(pieces.group, pieces.start), kind="stable"))
    number = chained(segments(pieces.group), pieces.start, pieces.last, gap)
    first = firsts(number)
    last = np.maximum.reduceat(pieces.last, first) if len(first) else pieces.last
    return SessionList(pieces.group[first], pieces.start[first], last + gap, pieces, number)
