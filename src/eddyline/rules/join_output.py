"""How many results a join would give for each new row, by the latest rows of its streams: a warning before it is too late.

Rows of a stream that a new row of another one meets = pairs of the last rows of both with equal keys, for each row of the one,
times what the window of the other holds, over how many rows of it were looked at. What a query says of one input alone is taken
into account, further conditions on both are not: it is an estimate, and reported only where the number is large.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.engine import RoundEngine, event_times
from eddyline.expressions import Frame, evaluate
from eddyline.joins import can_drive
from eddyline.model import Shape
from eddyline.sql import input_words

MANY = 100  # results for a row, from which on it is reported
SAMPLE = 1_000  # of the last rows of a stream
LEAST = 50  # of them, below which nothing is reported

Numbers = npt.NDArray[np.int64]


def output_warnings(rounds: RoundEngine, shape: Shape, constants: Sequence[Any]) -> Iterator[str]:
    """One line if a new row of some input would have very many results, as far as that is known. The lock is held."""
    if shape.join is None or any(rounds.catalog.find_stream(name) is None for name in shape.relations):
        return
    samples = [_Sample(rounds, shape, place, constants) for place in range(len(shape.inputs))]
    found: list[
        tuple[float, int, int]
    ] = []  # results, of the rows of which input, and where most of them come from
    for driver in range(len(shape.inputs)):
        if can_drive(shape.join.signature, driver):
            others = [place for place in range(len(shape.inputs)) if place != driver]
            partners = {place: _partners(rounds, shape, samples, driver, place) for place in others}
            known = {place: n for place, n in partners.items() if n is not None}
            if len(known) == len(others):
                most = max(known, key=known.__getitem__)
                found.append((float(np.prod(list(known.values()))), driver, most))
    n_results, driver, most = max(found, default=(0.0, 0, 0))
    if n_results > MANY:
        row, other = (input_words(shape.inputs[place]) for place in (driver, most))
        yield (
            f"about {_rounded(n_results):,} results for each row of {row}: did you mean the latest row of {other}? "
            "Declare a key, or narrow its window"
        )


def _rounded(n: float) -> int:
    """1,234 as 1,200."""
    step = 10 ** max(0, len(str(int(n))) - 2)
    return int(round(n / step) * step)


class _Sample:
    """The last rows of an input that its own conditions let through."""

    def __init__(self, rounds: RoundEngine, shape: Shape, place: int, constants: Sequence[Any]) -> None:
        assert shape.join is not None, shape.key
        self.stream = rounds.catalog.stream(shape.inputs[place].stream)
        recent = rounds.recent.get(self.stream.name.lower())
        schema = self.stream.schema
        rows = (
            pa.RecordBatch.from_pylist([], schema=schema) if recent is None else recent.last(SAMPLE, schema)
        )
        self.n_seen = rows.num_rows
        times = event_times(self.stream, rows, rounds.time_zone) if rows.num_rows else None
        self.span_us = 0
        if times is not None and times.null_count < len(times):
            known = np.asarray(times.drop_null().to_numpy(zero_copy_only=False)).astype(np.int64)
            self.span_us = int(known.max() - known.min())
        scalars = [
            value if isinstance(value, pa.Scalar) else pa.scalar(value, slot.type)
            for value, slot in zip(constants, shape.slots, strict=True)
        ]
        columns = {("", name): column for name, column in zip(rows.schema.names, rows.columns, strict=True)}
        self._frame = Frame(rows.num_rows, columns, scalars, rounds.context())
        self._passes = np.ones(rows.num_rows, dtype=bool)
        for clause in shape.join.local[place].clauses:
            truths = [self._frame.array(evaluate(atom.condition, self._frame)) for atom in clause.atoms]
            self._passes &= np.logical_or.reduce(
                [np.asarray(each.fill_null(False)).astype(bool) for each in truths]
            )

    def keys(self, shape: Shape, place: int, other: int) -> Counter[Any]:
        """How often each key by which the input meets another is there; NULL meets nothing."""
        assert shape.join is not None, shape.key
        keys = [key for key in shape.join.signature.keys if {key.left, key.right} == {place, other}]
        if not keys:
            return Counter({(): int(self._passes.sum())})
        rows = pa.array(np.flatnonzero(self._passes))
        values = [
            self._frame.array(evaluate(key.side(place), self._frame)).take(rows).to_pylist() for key in keys
        ]
        return Counter(row for row in zip(*values, strict=True) if None not in row)


def _partners(
    rounds: RoundEngine, shape: Shape, samples: Sequence[_Sample], driver: int, place: int
) -> float | None:
    """How many rows of one input a row of another meets, or None if that is unknown."""
    assert shape.join is not None, shape.key
    sample, entry = samples[place], shape.join.signature.inputs[place]
    if entry.role.is_table:
        return 1.0  # by its key; a table that is looked up otherwise is rare, and as large as it is
    if sample.n_seen < LEAST:
        return None
    n_window = _n_in_window(rounds, shape, sample, driver, place)
    if n_window is None:
        return None
    theirs, own = sample.keys(shape, place, driver), samples[driver].keys(shape, driver, place)
    n_drivers = own.total()
    if not theirs:
        return 0.0
    if n_drivers:
        met = sum(n * theirs[key] for key, n in own.items()) / n_drivers
    else:
        met = theirs.total() / len(theirs)
    return met * n_window / sample.n_seen


def _n_in_window(rounds: RoundEngine, shape: Shape, sample: _Sample, driver: int, place: int) -> float | None:
    """How many rows of its stream the window of an input holds."""
    assert shape.join is not None, shape.key
    window = shape.inputs[place].window
    if window is not None and window.n_rows is not None:
        return float(min(window.n_rows, max(sample.n_seen, _n_rows(rounds, sample))))
    if window is not None:
        stem = rounds.flow.joins.stage.stems.get(sample.stream.name.lower())
        return None if stem is None else float(stem.n_rows)
    back, ahead = shape.join.reach_us[place][driver], shape.join.reach_us[driver][place]
    if back is None or not sample.span_us:
        return None
    length_us = max(0, back + min(0, ahead if ahead is not None else 0))
    return sample.n_seen * length_us / sample.span_us


def _n_rows(rounds: RoundEngine, sample: _Sample) -> int:
    progress = rounds.progress.get(sample.stream.name.lower())
    return 0 if progress is None else progress.n_rows
