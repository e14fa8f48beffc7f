"""What passes between the stages that run filters and the router that orders them: routings to the stages, walk records back.

Both name filters by key, so that they may be in different processes.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from eddyline.routing.learner import Learner
from eddyline.routing.policy import BoolMatrix, FloatVector, bits

IntVector = npt.NDArray[np.int64]
Kind = TypeVar("Kind", bound=np.generic)


@dataclass(frozen=True)
class Routing:
    """How to run filters until another one comes. Filters and classes it does not know of run last, in the order they came."""

    keys: tuple[str, ...]
    classes: tuple[frozenset[int], ...]
    policy: Learner
    generation: int  # decisions of the policy stay the same within one
    rate: float  # share of rows to be sampled
    samples_all: bool = True  # every filter is evaluated on a sampled row; else what the policy asks for


@dataclass(frozen=True)
class WalkRecord:
    """What was measured while one batch, or several, went through the filters. Vectors are by filter, in the order of `keys`."""

    keys: tuple[str, ...]
    cores: tuple[str, ...]  # filters with the same one share their dear part
    declared_s: tuple[float, ...]
    classes: tuple[frozenset[int], ...]
    n_rows: int  # on which some class was open
    n_pairs: IntVector  # by class: (row, query) pairs that were open
    n_open: FloatVector  # by class: rows on which it was open, about
    asked_rows: IntVector  # rows the filter ran on because some class needed it
    passed_rows: IntVector  # of those; an error passes
    compared_rows: IntVector  # rows by which a change of it is detected: all it was asked about, or those it was first on
    compared_passed_rows: IntVector
    n_calls: IntVector  # in which it was asked about rows on which its core was not known
    seconds: FloatVector
    follow_rows: IntVector  # of `asked`: rows on which its core was known
    follow_seconds: FloatVector
    extra: IntVector  # rows it ran on only to be sampled
    extra_s: float
    overhead_s: float  # of choosing and bookkeeping
    is_tree: bool
    places: tuple[Hashable, ...]  # what decides which rows each filter is compared by
    dropped_mask: BoolMatrix  # of sampled rows
    known_mask: BoolMatrix
    open_classes: tuple[int, ...]  # of sampled rows: classes that were open at first, as bits

    @property
    def n_sampled(self) -> int:
        return len(self.dropped_mask)


def combined_record(parts: Sequence[WalkRecord]) -> WalkRecord:
    """The records of several batches, or workers, as one."""
    first = parts[0]
    if len(parts) == 1:
        return first
    if all(part.keys == first.keys and part.classes == first.classes for part in parts):
        first_cores = dict(zip(first.keys, first.cores, strict=True))
        first_declared = dict(zip(first.keys, first.declared_s, strict=True))
        return _summed_record(parts, first.keys, first.classes, first_cores, first_declared)
    keys = tuple(dict.fromkeys(key for part in parts for key in part.keys))
    classes: dict[frozenset[int], None] = {}
    cores: dict[str, str] = {}
    declared: dict[str, float] = {}
    for part in parts:
        mine = [keys.index(key) for key in part.keys]
        classes |= dict.fromkeys(frozenset(mine[k] for k in each) for each in part.classes)
        cores |= zip(part.keys, part.cores, strict=True)
        declared |= zip(part.keys, part.declared_s, strict=True)
    numbered = tuple(classes)
    return _summed_record(
        [renumbered_record(part, keys, numbered) for part in parts], keys, numbered, cores, declared
    )


def renumbered_record(part: WalkRecord, keys: Sequence[str], classes: Sequence[frozenset[int]]) -> WalkRecord:
    """The same with filters and classes as they are numbered in larger lists."""
    place_of = {key: number for number, key in enumerate(keys)}
    number_of = {filters: number for number, filters in enumerate(classes)}
    filters = np.array([place_of[key] for key in part.keys], np.int64)
    of_class = np.array(
        [number_of[frozenset(int(filters[k]) for k in each)] for each in part.classes], np.int64
    )
    n = len(keys)

    cores, declared = list(keys), [0.0] * n
    places: list[Hashable] = [None] * n
    for number, place in enumerate(filters.tolist()):
        cores[place] = part.cores[number]
        declared[place] = part.declared_s[number]
        places[place] = part.places[number]
    return WalkRecord(
        keys=tuple(keys),
        cores=tuple(cores),
        declared_s=tuple(declared),
        classes=tuple(classes),
        n_rows=part.n_rows,
        n_pairs=_spread(part.n_pairs, len(classes), of_class),
        n_open=_spread(part.n_open, len(classes), of_class),
        asked_rows=_spread(part.asked_rows, n, filters),
        passed_rows=_spread(part.passed_rows, n, filters),
        compared_rows=_spread(part.compared_rows, n, filters),
        compared_passed_rows=_spread(part.compared_passed_rows, n, filters),
        n_calls=_spread(part.n_calls, n, filters),
        seconds=_spread(part.seconds, n, filters),
        follow_rows=_spread(part.follow_rows, n, filters),
        follow_seconds=_spread(part.follow_seconds, n, filters),
        extra=_spread(part.extra, n, filters),
        extra_s=part.extra_s,
        overhead_s=part.overhead_s,
        is_tree=part.is_tree,
        places=tuple(places),
        dropped_mask=_spread(part.dropped_mask, n, filters),
        known_mask=_spread(part.known_mask, n, filters),
        open_classes=tuple(moved_bits(still_open, of_class.tolist()) for still_open in part.open_classes),
    )


def priced_record(record: WalkRecord, overhead_s: float) -> WalkRecord:
    """The same as if each filter had taken what its function declares, nothing where its core was known, and choosing
    `overhead_s` on a row."""
    declared_s = np.array(record.declared_s)
    return replace(
        record,
        seconds=(record.asked_rows - record.follow_rows) * declared_s,
        follow_seconds=np.zeros(len(declared_s)),
        extra_s=float(record.extra @ declared_s),
        overhead_s=record.n_rows * overhead_s,
    )


def moved_bits(of: int, to: Sequence[int | None]) -> int:
    """A set in which member k has become `to[k]`, or is gone if that is None."""
    places = (to[k] for k in bits(of))
    return sum(1 << place for place in places if place is not None)


def _spread(vector: npt.NDArray[Kind], length: int, at: IntVector) -> npt.NDArray[Kind]:
    """A longer vector, or matrix of longer rows, with these values at some places and zeros elsewhere."""
    wide = np.zeros((*vector.shape[:-1], length), vector.dtype)
    wide[..., at] = vector
    return wide


def _summed_record(
    parts: Sequence[WalkRecord],
    keys: tuple[str, ...],
    classes: tuple[frozenset[int], ...],
    cores: dict[str, str],
    declared: dict[str, float],
) -> WalkRecord:
    return WalkRecord(
        keys=keys,
        cores=tuple(cores[key] for key in keys),
        declared_s=tuple(declared[key] for key in keys),
        classes=classes,
        n_rows=sum(part.n_rows for part in parts),
        n_pairs=np.sum([part.n_pairs for part in parts], axis=0),
        n_open=np.sum([part.n_open for part in parts], axis=0),
        asked_rows=np.sum([part.asked_rows for part in parts], axis=0),
        passed_rows=np.sum([part.passed_rows for part in parts], axis=0),
        compared_rows=np.sum([part.compared_rows for part in parts], axis=0),
        compared_passed_rows=np.sum([part.compared_passed_rows for part in parts], axis=0),
        n_calls=np.sum([part.n_calls for part in parts], axis=0),
        seconds=np.sum([part.seconds for part in parts], axis=0),
        follow_rows=np.sum([part.follow_rows for part in parts], axis=0),
        follow_seconds=np.sum([part.follow_seconds for part in parts], axis=0),
        extra=np.sum([part.extra for part in parts], axis=0),
        extra_s=sum(part.extra_s for part in parts),
        overhead_s=sum(part.overhead_s for part in parts),
        is_tree=any(part.is_tree for part in parts),
        places=tuple(
            next((part.places[k] for part in parts if part.places[k] is not None), None)
            for k in range(len(keys))
        ),
        dropped_mask=np.concatenate([part.dropped_mask for part in parts]),
        known_mask=np.concatenate([part.known_mask for part in parts]),
        open_classes=tuple(bits for part in parts for bits in part.open_classes),
    )
