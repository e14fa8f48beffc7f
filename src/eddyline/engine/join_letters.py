"""Dead letters of joins in the words of their query: the streams it reads, and columns by its aliases."""

from __future__ import annotations

from typing import Any

from eddyline.model import AGE, BEHIND, OLDER, Shape, StreamPlan

_MARKS = (BEHIND, AGE, OLDER)


def joined_letter(plan: StreamPlan, query_id: int, row: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The streams, and the row without marks of windows: {"t.price": 9.5, "n.head": "merger"}."""
    shape = _shape_of(plan, query_id)
    said: dict[str, Any] = {}
    for name, value in row.items():
        place, _, own = name.partition(".")
        if own and own not in _MARKS:
            said[f"{shape.inputs[int(place)].alias}.{own}"] = value
    return ", ".join(dict.fromkeys(shape.inputs[place].stream for place in shape.written_order)), said


def _shape_of(plan: StreamPlan, query_id: int) -> Shape:
    for segment in plan.segments:
        at = segment.position(query_id)
        if at is not None and segment.is_live[at]:
            return segment.shape
    raise AssertionError(f"query {query_id} does not stand on {plan.stream}")
