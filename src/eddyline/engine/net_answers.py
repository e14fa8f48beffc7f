"""Which changes of an answer are results of a query: those where what it sees differs, and an error only when it begins.

Of an entry that was there and is there, a query has both images if its condition holds of both. Where the columns it selects are
equal in them, nothing has changed for it. A pair of entry and query that is in error and was before is no new dead letter.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.aggregates import are_distinct
from eddyline.batch import PartMatches, QueryIds, TupleBatch, projected_columns
from eddyline.engine.join_visibility import is_in, narrowed, pair_numbers
from eddyline.filters import DeadPairs, FilterOutput
from eddyline.model import Column, Segment

Mask = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]


def net_of(output: FilterOutput, preimages: Numbers | None) -> FilterOutput:
    """The changes that are results; the row after each of `preimages` takes its place."""
    images = np.empty(0, np.int64) if preimages is None else preimages
    output = _with_new_errors(output, images)
    if not len(images) or not output.n_matches:
        return output
    unchanged = np.sort(np.concatenate([_unchanged_hits(output, images), *_unchanged_parts(output, images)]))
    if not len(unchanged):
        return output
    place_of = _places(len(output.batch), images)
    return narrowed(output, lambda rows, ids: ~is_in(pair_numbers(place_of[rows], ids), unchanged))


def _with_new_errors(output: FilterOutput, images: Numbers) -> FilterOutput:
    """Without errors of rows that leave, and of rows that take the place of one that was in error, too."""
    dead = output.dead_pairs
    if not len(dead.rows):
        return output
    place_of = _places(len(output.batch), images)
    is_after = output.batch.sign[dead.rows] > 0
    numbers = pair_numbers(place_of[dead.rows], dead.query_ids)
    before = np.sort(numbers[~is_after & (place_of[dead.rows] >= 0)])
    kept = np.flatnonzero(is_after & ~is_in(numbers, before))
    failures = tuple(dead.failures[at] for at in kept.tolist())
    return FilterOutput(
        output.batch,
        output.plan,
        output.hits,
        output.parts,
        DeadPairs(dead.rows[kept], dead.query_ids[kept], failures),
    )


def _places(n_rows: int, images: Numbers) -> Numbers:
    """By row: the first image of the update it belongs to, -1 if to none."""
    place_of = np.full(n_rows, -1, np.int64)
    place_of[images] = place_of[images + 1] = images
    return place_of


def _unchanged_hits(output: FilterOutput, images: Numbers) -> Numbers:
    """The updates, with their query, that change nothing a query selects, where that is columns as they are."""
    if not output.hits:
        return np.empty(0, np.int64)
    differs = _Differences(output.batch, images)
    by_columns: dict[frozenset[str], list[Segment]] = {}
    for segment in output.plan.segments:
        by_columns.setdefault(projected_columns([segment.shape]), []).append(segment)
    found = [np.empty(0, np.int64)]
    offsets, ids = output.pairs()
    rows = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    for columns, segments in by_columns.items():
        same = images[~differs.in_any(columns)]
        if len(same):
            mine = np.isin(rows, same) & _are_of(segments, ids)
            both = np.isin(rows, same + 1) & _are_of(segments, ids)
            left = pair_numbers(rows[mine], ids[mine])
            found.append(np.intersect1d(left, pair_numbers(rows[both] - 1, ids[both])))
    of_parts = [np.empty(0, np.int64), *(pair_numbers(part.rows, part.query_ids) for part in output.parts)]
    return np.setdiff1d(np.concatenate(found), np.concatenate(of_parts))


def _are_of(segments: list[Segment], ids: QueryIds) -> Mask:
    return np.isin(ids, np.concatenate([segment.ids for segment in segments]))


def _unchanged_parts(output: FilterOutput, images: Numbers) -> list[Numbers]:
    """The same where what a query selects was computed."""
    differs = _Differences(output.batch, images)
    place_of = _places(len(output.batch), images)
    return [_unchanged_part(part, place_of, differs) for part in output.parts]


def _unchanged_part(part: PartMatches, place_of: Numbers, differs: _Differences) -> Numbers:
    numbers = pair_numbers(place_of[part.rows], part.query_ids)
    pairs = np.flatnonzero(place_of[part.rows] >= 0)
    pairs = pairs[np.lexsort((part.rows[pairs], numbers[pairs]))]
    first = np.flatnonzero(numbers[pairs][:-1] == numbers[pairs][1:])
    before, after = pairs[first], pairs[first + 1]
    images = place_of[part.rows[before]]
    is_same = np.ones(len(before), dtype=bool)
    for projected in part.segment.shape.projection:
        expression = projected.expression
        if isinstance(expression, Column):
            is_same &= ~differs.at(expression.name, images)
        elif expression in part.computed_values:
            values = part.computed_values[expression]
            is_same &= ~are_distinct(values.take(pa.array(before)), values.take(pa.array(after)))
    return numbers[before[is_same]]


class _Differences:
    """In which columns both images of updates differ."""

    def __init__(self, batch: TupleBatch, images: Numbers) -> None:
        self._rows = batch.rows
        self._images = images
        self._known: dict[str, Mask] = {}

    def of(self, column: str) -> Mask:
        """By update."""
        if column not in self._known:
            values = self._rows.column(column)
            before, after = values.take(pa.array(self._images)), values.take(pa.array(self._images + 1))
            self._known[column] = are_distinct(before, after)
        return self._known[column]

    def at(self, column: str, images: Numbers) -> Mask:
        """Of some of the updates."""
        return self.of(column)[np.searchsorted(self._images, images)]

    def in_any(self, columns: frozenset[str]) -> Mask:
        found = np.zeros(len(self._images), dtype=bool)
        for column in columns:
            found |= self.of(column)
        return found
