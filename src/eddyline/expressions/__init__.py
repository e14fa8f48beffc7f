"""Scalar SQL over Arrow, with Spark's semantics and an error per row.

Enters: a typed expression tree (`model.Expression`) and a `Frame` of Arrow columns. Leaves: one Arrow value per row, and for
rows that have none, why. `call` and `cast` build typed trees from the allow-list `FUNCTIONS`, which the rooms of
`lowerings` fill.
"""

from eddyline.expressions.buffers import bitmap_bits, mask_of
from eddyline.expressions.coercion import can_cast, cast, coerce, common_type, literal_as_decimal
from eddyline.expressions.conversions import convert
from eddyline.expressions.evaluation import evaluate
from eddyline.expressions.failing import can_fail
from eddyline.expressions.folding import (
    constant_calls,
    constants_within,
    fold,
    is_volatile,
    literal_value,
    refuse_over_a_limit,
    refused_constants,
)
from eddyline.expressions.frame import (
    Alike,
    Budget,
    CallResult,
    Context,
    ErrorCodes,
    Evaluation,
    Failure,
    Frame,
    RowError,
    TakenArrays,
    TooMuchForConstants,
    as_mask,
    merge_errors,
)
from eddyline.expressions.function import FUNCTIONS, INTERNAL, Function, NeedsLiteral, call
from eddyline.expressions.limits import CONSTANT_BYTES, OVER_A_LIMIT, TEMPLATE_BYTES
from eddyline.expressions.lowerings.comparisons import FLIPPED
from eddyline.expressions.lowerings.like import like_parts
from eddyline.expressions.stream_times import check_time_format, read_times, time_expression, unreadable_words
from eddyline.expressions.zones import to_local, to_utc, zone_table

__all__ = [
    "CONSTANT_BYTES",
    "FLIPPED",
    "FUNCTIONS",
    "INTERNAL",
    "OVER_A_LIMIT",
    "TEMPLATE_BYTES",
    "Alike",
    "Budget",
    "CallResult",
    "Context",
    "ErrorCodes",
    "Evaluation",
    "Failure",
    "Frame",
    "Function",
    "NeedsLiteral",
    "RowError",
    "TakenArrays",
    "TooMuchForConstants",
    "as_mask",
    "bitmap_bits",
    "call",
    "can_cast",
    "can_fail",
    "cast",
    "check_time_format",
    "coerce",
    "common_type",
    "constant_calls",
    "constants_within",
    "convert",
    "evaluate",
    "fold",
    "is_volatile",
    "like_parts",
    "literal_as_decimal",
    "literal_value",
    "mask_of",
    "merge_errors",
    "read_times",
    "refuse_over_a_limit",
    "refused_constants",
    "time_expression",
    "to_local",
    "to_utc",
    "unreadable_words",
    "zone_table",
]
