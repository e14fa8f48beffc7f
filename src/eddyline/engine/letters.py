"""Dead letters: rows that could not be read, and pairs of row and query that no decided condition settles.

All of them are made here. Those of a query over a join are in its words: the streams it reads, and columns by its aliases. A row
whose key is in error finds no partner and is found by none, whatever its queries ask besides; it is one letter for all queries of
the signature, if one needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from eddyline.batch import TupleBatch
from eddyline.engine.join_plans import WINDOW_MARKS
from eddyline.expressions import Failure
from eddyline.filters import FilterOutput
from eddyline.joins import JoinPlan
from eddyline.model import (
    END_OF_ARRIVALS,
    WINDOW,
    Column,
    DeadLetter,
    Expression,
    Shape,
    Stream,
    StreamPlan,
)
from eddyline.operators import ArrivedRows, Numbers, WantedMasks
from eddyline.sources import Misfit
from eddyline.types import python_rows

NULL_KEY = "NULL_KEY"


def misfit_letters(round_number: int, stream: str, misfits: Iterable[Misfit]) -> list[DeadLetter]:
    """Rows that do not fit the schema of their stream; they have no arrival number."""
    return [DeadLetter(round_number, stream, each.row, each.error, each.message) for each in misfits]


def pair_letter(output: FilterOutput, at: int, round_number: int) -> DeadLetter:
    """One of the pairs in error. The name of its query is for a place that has the catalog to find."""
    dead, batch = output.dead_pairs, output.batch
    row, query_id, failure = int(dead.rows[at]), int(dead.query_ids[at]), dead.failures[at]
    stream, values = batch.stream, _row(batch, row)
    if batch.components is not None or _shape_of(output.plan, query_id).aggregating is not None:
        stream, values = _in_words_of(output.plan, query_id, values)
    return DeadLetter(
        round_number,
        stream,
        values,
        failure.error,
        failure.message,
        int(output.plan.queries_of(dead.query_ids[at : at + 1])[0]),
        arrival=int(batch.arrival[row]),
    )


def key_letters(
    round_number: int,
    plan: JoinPlan,
    arrived: Mapping[str, ArrivedRows],
    wanted: WantedMasks,
    failures: Callable[[Expression, pa.RecordBatch], Mapping[int, Failure]],
) -> Iterator[DeadLetter]:
    """Rows that arrived and whose key is in error, each once for every signature with a query that needs it."""
    for name, rows in arrived.items():
        by_key: dict[Expression, Mapping[int, Failure]] = {}
        reported: set[tuple[str, int]] = set()
        batch = rows.batch
        is_meant = ~batch.is_late & (batch.sign > 0)
        for each, place in plan.inputs.get(name, ()):
            signature, is_wanted = each.signature, wanted.get((each.name, place))
            if is_wanted is None:
                continue
            for key in [k.side(place) for k in signature.keys if place in (k.left, k.right)]:
                if key not in by_key:
                    by_key[key] = failures(key, batch.rows)
                for row, failure in by_key[key].items():
                    if is_meant[row] and is_wanted[row] and (each.name, row) not in reported:
                        reported.add((each.name, row))
                        stream = signature.inputs[place].stream
                        yield _row_letter(round_number, stream, batch, row, failure.error, failure.message)


def null_key_letters(
    round_number: int, stream: Stream, batch: TupleBatch, rows: Numbers
) -> Iterator[DeadLetter]:
    """Rows of a keyed stream without a key."""
    message = f"{' or '.join(stream.key)} is NULL, and it is the key of {stream.name}"
    for row in rows.tolist():
        yield _row_letter(round_number, stream.name, batch, row, NULL_KEY, message)


def _row_letter(
    round_number: int, stream: str, batch: TupleBatch, row: int, error: str, message: str
) -> DeadLetter:
    """A letter of a row that no query is named in."""
    arrival = int(batch.arrival[row])
    is_own = arrival < END_OF_ARRIVALS  # not that of a row which only the end of the round decided
    values = {name: value for name, value in _row(batch, row).items() if not name.startswith("#")}
    return DeadLetter(round_number, stream, values, error, message, arrival=arrival if is_own else None)


def _row(batch: TupleBatch, row: int) -> dict[str, Any]:
    return python_rows(batch.rows.slice(row, 1))[0]


def _in_words_of(plan: StreamPlan, query_id: int, row: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The streams, and the row without marks of windows: {"t.price": 9.5, "n.head": "merger"}; of one table, the row as it is."""
    shape = _shape_of(plan, query_id)
    if shape.aggregating is not None:
        return _group_in_words(shape, row)
    if shape.join is None:
        return shape.inputs[0].label, row
    values: dict[str, Any] = {}
    for name, value in row.items():
        place, _, own = name.partition(".")
        if own and own not in WINDOW_MARKS:
            values[f"{shape.inputs[int(place)].alias}.{own}"] = value
    return ", ".join(dict.fromkeys(shape.inputs[place].label for place in shape.written_order)), values


def _group_in_words(shape: Shape, row: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The streams that are aggregated, and the group: {"card": "A", "window": …}; of OVER, the row."""
    below, aggregating = shape.inputs[0].view, shape.aggregating
    assert below is not None, shape.key
    assert aggregating is not None, shape.key
    stream = ", ".join(dict.fromkeys(entry.label for entry in below.shape.inputs))
    if aggregating.aggregation.is_over:
        return stream, {name: value for name, value in row.items() if not name.startswith("#")}
    values: dict[str, Any] = {}
    for projected in below.shape.projection:
        if projected.name in aggregating.aggregation.keys:
            expression = projected.expression
            values[expression.name if isinstance(expression, Column) else projected.name] = row[
                projected.name
            ]
    if WINDOW in row:
        values[WINDOW] = row[WINDOW]
    return stream, values


def _shape_of(plan: StreamPlan, query_id: int) -> Shape:
    for segment in plan.segments:
        at = segment.position(query_id)
        if at is not None and segment.is_live[at]:
            return segment.shape
    raise AssertionError(f"query {query_id} is not registered on {plan.stream}")
