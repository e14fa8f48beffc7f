"""What functions that are not deterministic gave, in receipts: a value for each call in the text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from eddyline.model import Shape, UserCall
from eddyline.proof import from_json, to_json, type_from
from eddyline.storage import StoredPart
from eddyline.types import type_name


def recorded_calls(shape: Shape, part: StoredPart) -> list[dict[str, Any]]:
    """What functions that are not deterministic gave on the row, in the order of the text; other parts of a union made none."""
    assert part.recorded is not None
    own = shape.all_branches[part.branch].recorded_calls
    gave = {_start(call): to_json(column[0]) for call, column in zip(own, part.recorded.columns, strict=True)}
    return [
        {
            "function": call.function,
            "version": call.version,
            "call": k,
            "type": type_name(call.type),
            "value": gave.get(start),
        }
        for k, (start, call) in enumerate(sorted(_calls(shape).items()), 1)
    ]


def _calls(shape: Shape) -> dict[int, UserCall]:
    """The calls of functions that are not deterministic in all branches, by where they stand in the text."""
    return {_start(call): call for branch in shape.all_branches for call in branch.recorded_calls}


def _start(call: UserCall) -> int:
    return call.span.start if call.span else -1


def recorded_values(receipt: Mapping[str, Any], shape: Shape, branch: Shape) -> tuple[pa.Array, ...]:
    """What the calls of a branch of a shape gave according to a receipt, one value each; nothing if it tells of other calls."""
    in_text = sorted(_calls(shape))
    recorded = receipt.get("recorded", ())
    if len(recorded) != len(in_text):
        return ()
    calls = [recorded[in_text.index(_start(call))] for call in branch.recorded_calls]
    if [each["function"] for each in calls] != [call.function for call in branch.recorded_calls]:
        return ()
    types = [type_from(each["type"]) for each in calls]
    return tuple(pa.array([from_json(each["value"], t)], t) for each, t in zip(calls, types, strict=True))
