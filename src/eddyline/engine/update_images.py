"""Updates as queries see them: a row that leaves and the one that takes its place are one update for a query with both.

For a query with only one of them, it is a row that left or one that appeared. A row has one sign, so one that is an image of an
update for some queries and not for others is there twice. The identity of SELECT DISTINCT is the values: it has no updates.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from eddyline.batch import POSTIMAGE, PREIMAGE, BitmapHits, ListHits, PartMatches, QueryIds, TupleBatch
from eddyline.engine.join_visibility import pair_numbers
from eddyline.filters import DeadPairs, FilterOutput
from eddyline.hit_matches import Hits

Mask = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]


def with_images(output: FilterOutput, preimages: Numbers) -> FilterOutput:
    """The matches with both images where a query has both. The row after each of `preimages` takes its place."""
    if not len(preimages):
        return output
    place_of = np.full(
        len(output.batch), -1, np.int64
    )  # by row: of the first image of the update it belongs to
    place_of[preimages] = place_of[preimages + 1] = preimages
    return _with_images(output, preimages, place_of)


def with_images_in(output: FilterOutput, group: Numbers) -> FilterOutput:
    """The same where a row that leaves and one that appears have a group, given by row, and a query has at most one of each."""
    assert not output.hits, "the matches of counted results are parts"
    return _with_images(output, np.empty(0, np.int64), group)


def _with_images(output: FilterOutput, preimages: Numbers, place_of: Numbers) -> FilterOutput:
    """`place_of` says of each row which update it may belong to, -1: to none."""
    if not output.n_matches:
        return output
    n_rows = len(output.batch)
    updates = [_updates(hits, preimages, place_of) for hits in output.hits]
    part_rows = [np.empty(0, np.int64), *(part.rows for part in output.parts)]
    is_apart = [np.full(len(part), part.segment.shape.is_distinct) for part in output.parts]
    part_ids = [np.empty(0, np.int32), *(part.query_ids for part in output.parts)]
    of_parts = _updated_pairs(np.concatenate(part_rows), np.concatenate(part_ids), place_of)
    of_parts &= ~np.concatenate([np.empty(0, dtype=bool), *is_apart])
    n_updates = np.zeros(n_rows, np.int64)
    for hits, update in zip(output.hits, updates, strict=True):
        n_updates += _counts(hits, update, preimages)
    n_updates += np.bincount(np.concatenate(part_rows)[of_parts], minlength=n_rows)
    if not n_updates.any():
        return output
    rows = _Rows(n_updates > 0, (n_updates > 0) & (n_updates < np.diff(output.offsets)))
    batch = rows.batch(output.batch)
    ends = np.cumsum([len(part) for part in output.parts])[:-1]
    parts = [
        _moved_part(part, update, rows, batch)
        for part, update in zip(output.parts, np.split(of_parts, ends), strict=bool(output.parts))
    ]
    dead = output.dead_pairs
    return FilterOutput(
        batch,
        output.plan,
        tuple(
            _moved_hits(hits, update, rows, preimages)
            for hits, update in zip(output.hits, updates, strict=True)
        ),
        tuple(parts),
        DeadPairs(rows.place[dead.rows], dead.query_ids, dead.failures),
    )


def images_in(batch: TupleBatch, source: TupleBatch, preimages: Numbers) -> Numbers:
    """Which of the rows of a view are preimages, where both images in the batch it is made of are rows of the view."""
    is_preimage = np.zeros(len(source), dtype=bool)
    is_preimage[preimages] = True
    rows = np.searchsorted(source.arrival, batch.arrival)
    return np.flatnonzero(is_preimage[rows[:-1]] & (np.diff(rows) == 1))


def grouped_images_in(batch: TupleBatch, source: TupleBatch, group: Numbers) -> Numbers:
    """The same where rows of one group in the batch below are images of one another."""
    of = group[np.searchsorted(source.arrival, batch.arrival)]
    return np.flatnonzero((of[:-1] == of[1:]) & (batch.sign[:-1] < 0) & (batch.sign[1:] > 0))


@dataclass(frozen=True)
class _Rows:
    """Where rows are, once those that are needed twice are: first the row itself, then the image."""

    is_image: Mask
    is_twice: Mask

    @property
    def source(self) -> Numbers:
        return np.repeat(np.arange(len(self.is_twice)), 1 + self.is_twice)

    @property
    def place(self) -> Numbers:
        return np.arange(len(self.is_twice)) + np.cumsum(self.is_twice) - self.is_twice

    def batch(self, batch: TupleBatch) -> TupleBatch:
        found = batch.take(self.source) if self.is_twice.any() else batch
        images = (self.place + self.is_twice)[self.is_image]
        sign = found.sign.copy()
        sign[images] = np.where(sign[images] > 0, POSTIMAGE, PREIMAGE)
        return replace(found, sign=sign)

    def moved(self, rows: Numbers, is_update: Mask) -> Numbers:
        """Where the rows of pairs are."""
        return self.place[rows] + (is_update & self.is_twice[rows])


def _updated_pairs(rows: Numbers, ids: QueryIds, place_of: Numbers) -> Mask:
    """Which pairs of row and query have the other image, too."""
    places = place_of[rows]
    pairs = np.flatnonzero(places >= 0)
    numbers = pair_numbers(places[pairs], ids[pairs])
    _, inverse, counts = np.unique(numbers, return_inverse=True, return_counts=True)
    found = np.zeros(len(rows), dtype=bool)
    found[pairs] = counts[inverse] == 2
    return found


def _updates(hits: Hits, preimages: Numbers, place_of: Numbers) -> Mask | Words:
    """Which hits are images: of a list by pair, of a bitmap the lanes of each update."""
    if isinstance(hits, ListHits):
        return _updated_pairs(hits.rows, hits.ids, place_of)
    return hits.words[preimages] & hits.words[preimages + 1]


def _counts(hits: Hits, update: Mask | Words, preimages: Numbers) -> Numbers:
    """How many images each row is."""
    n_rows = len(hits.counts)
    if isinstance(hits, ListHits):
        return np.bincount(hits.rows[update.astype(bool)], minlength=n_rows)
    found = np.zeros(n_rows, np.int64)
    found[preimages] = found[preimages + 1] = np.bitwise_count(update).sum(axis=1)
    return found


def _moved_hits(hits: Hits, update: Mask | Words, rows: _Rows, preimages: Numbers) -> Hits:
    if isinstance(hits, ListHits):
        moved = rows.moved(hits.rows, update.astype(bool))
        order = np.argsort(moved, kind="stable")
        n_rows = len(rows.source)
        return ListHits(np.searchsorted(moved[order], np.arange(n_rows + 1)), hits.ids[order])
    if not rows.is_twice.any():
        return hits
    words = hits.words[rows.source]
    for image in (preimages, preimages + 1):
        is_twice = rows.is_twice[image]
        places = rows.place[image[is_twice]]
        words[places] &= ~update[is_twice]
        words[places + 1] = update[is_twice]
    return BitmapHits(words, hits.ids, np.bitwise_count(words).sum(axis=1, dtype=np.int32))


def _moved_part(part: PartMatches, update: Mask, rows: _Rows, batch: TupleBatch) -> PartMatches:
    return replace(part, batch=batch, rows=rows.moved(part.rows, update))
