"""Dead letters of joins.

Those of a query are in its words: the streams it reads, and columns by its aliases. A row whose key is in error finds no partner
and is found by none, whatever its queries ask besides; it is one letter for all queries of the signature, if one needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.engine.join_plans import WINDOW_MARKS
from eddyline.expressions import Failure
from eddyline.joins import ArrivedRows, JoinPlan
from eddyline.model import DeadLetter, Expression, Round, Shape, StreamPlan
from eddyline.types import python_rows


def joined_letter(plan: StreamPlan, query_id: int, row: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The streams, and the row without marks of windows: {"t.price": 9.5, "n.head": "merger"}; of one table, the row as it is."""
    shape = _shape_of(plan, query_id)
    if shape.join is None:
        return shape.inputs[0].stream, row
    said: dict[str, Any] = {}
    for name, value in row.items():
        place, _, own = name.partition(".")
        if own and own not in WINDOW_MARKS:
            said[f"{shape.inputs[int(place)].alias}.{own}"] = value
    return ", ".join(dict.fromkeys(shape.inputs[place].stream for place in shape.written_order)), said


def key_letters(
    round_: Round,
    plan: JoinPlan,
    came: Mapping[str, ArrivedRows],
    wanted: Mapping[tuple[str, int], npt.NDArray[np.bool_]],
    failures: Callable[[Expression, pa.RecordBatch], Mapping[int, Failure]],
) -> Iterator[DeadLetter]:
    """Rows that came and whose key is in error, each once for every signature with a query that needs it."""
    for name, rows in came.items():
        found: dict[Expression, Mapping[int, Failure]] = {}
        reported: set[tuple[str, int]] = set()
        batch = rows.batch
        is_meant = ~batch.is_late & (batch.sign > 0)
        for each, place in plan.inputs.get(name, ()):
            signature, is_wanted = each.signature, wanted.get((each.name, place))
            if is_wanted is None:
                continue
            for key in [k.side(place) for k in signature.keys if place in (k.left, k.right)]:
                if key not in found:
                    found[key] = failures(key, batch.rows)
                for row, failure in found[key].items():
                    if is_meant[row] and is_wanted[row] and (each.name, row) not in reported:
                        reported.add((each.name, row))
                        yield DeadLetter(
                            round_.number,
                            signature.inputs[place].stream,
                            python_rows(batch.rows.slice(row, 1))[0],
                            failure.error,
                            failure.message,
                            arrival=int(batch.arrival[row]),
                        )


def _shape_of(plan: StreamPlan, query_id: int) -> Shape:
    for segment in plan.segments:
        at = segment.position(query_id)
        if at is not None and segment.is_live[at]:
            return segment.shape
    raise AssertionError(f"query {query_id} does not stand on {plan.stream}")
