"""Results on their way out: the columns of a query behind the marks that identify each result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.storage.outbox import StoredPart

MARKS = pa.schema(
    [
        pa.field("_query", pa.string(), nullable=False),
        pa.field("_query_id", pa.int32(), nullable=False),
        pa.field("_generation", pa.int32(), nullable=False),
        pa.field("_arrival", pa.int64(), nullable=False),
        pa.field("_round", pa.int64(), nullable=False),
        pa.field("_change", pa.string(), nullable=False),
        pa.field("_late", pa.bool_(), nullable=False),
    ]
)


@dataclass(frozen=True)
class ResultBatch:
    """Results of one round that have the same columns, by arrival, then query.

    Query id, generation and arrival number identify a result; a sink that is given one twice can tell.
    """

    round_number: int
    rows: pa.RecordBatch  # MARKS, then the columns of the queries

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    @cached_property
    def columns(self) -> pa.Schema:
        """The columns of the queries."""
        return pa.schema(list(self.rows.schema)[len(MARKS) :])


def result_batch(
    round_number: int, part: StoredPart, pairs: npt.NDArray[np.int64], name_of: Callable[[int], str]
) -> ResultBatch:
    """The chosen results of a part, ready to leave."""
    pairs = pairs[np.lexsort((part.query_ids[pairs], part.arrivals[pairs]))]
    ids = part.query_ids[pairs]
    distinct, places = np.unique(ids, return_inverse=True)
    names = pa.array([name_of(int(i)) for i in distinct], pa.string()).take(pa.array(places))
    marks = [
        names,
        pa.array(ids),
        pa.array(part.generations[pairs]),
        pa.array(part.arrivals[pairs]),
        pa.repeat(pa.scalar(round_number, pa.int64()), len(pairs)),
        pa.array(np.where(part.signs[pairs] > 0, "insert", "delete"), pa.string()),
        pa.array(part.is_late[pairs]),
    ]
    projected = part.project(pairs)
    fields = _own_names(list(projected.schema))
    return ResultBatch(
        round_number,
        pa.RecordBatch.from_arrays([*marks, *projected.columns], schema=pa.schema([*MARKS, *fields])),
    )


def _own_names(fields: Sequence[pa.Field]) -> list[pa.Field]:
    """Every column under a name of its own: a mark, or a column before it, may have the name already."""
    taken = set(MARKS.names)
    named = []
    for f in fields:
        name, n = f.name, 1
        while name in taken:
            n += 1
            name = f"{f.name}_{n}"
        taken.add(name)
        named.append(f.with_name(name))
    return named
