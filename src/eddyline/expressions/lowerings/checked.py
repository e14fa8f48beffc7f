"""The value of an aggregate that may not fit its type: an error where it does not. No text can call it."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from eddyline.expressions.frame import Evaluation, Frame
from eddyline.expressions.function import INTERNAL, function
from eddyline.expressions.lowerings.arithmetic import OVERFLOW
from eddyline.model import Call, Expression
from eddyline.types import type_name

CHECKED = "checked"
INTERNAL.add(CHECKED)


def _types(arguments: Sequence[Expression]) -> tuple[Sequence[Expression], pa.DataType]:
    return arguments, arguments[0].type


@function(
    CHECKED,
    typing=_types,
    arguments=2,
    signature="checked(value, is_overflow)",
    summary="The value; an error where it does not fit its type.",
    is_operator=True,
    null_propagates=False,
)
def _checked(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    value, overflow = arguments
    is_over = frame.array(overflow).fill_null(False).to_numpy(zero_copy_only=False)
    message = f"the value does not fit {type_name(expression.type)}"
    return Evaluation(value.values, frame.fail(is_over, OVERFLOW, message))
