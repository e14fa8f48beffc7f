"""Scalar SQL over Arrow, with Spark's semantics and an error per row.

Enters: a typed expression tree (`model.Expression`) and a `Frame` of Arrow columns. Leaves: one Arrow value per row, and for
rows that have none, why. `call` and `cast` build typed trees from the allow-list `FUNCTIONS`, which the rooms of
`lowerings` fill.
"""

from eddyline.expressions import lowerings as _lowerings  # noqa: F401  (fills FUNCTIONS)
from eddyline.expressions.coercion import can_cast, cast, coerce, common_type, literal_as_decimal
from eddyline.expressions.evaluate import evaluate
from eddyline.expressions.fold import fold, is_volatile
from eddyline.expressions.frame import Context, Evaluated, Failure, Frame
from eddyline.expressions.function import FUNCTIONS, Function, NeedsLiteral, call

__all__ = [
    "FUNCTIONS",
    "Context",
    "Evaluated",
    "Failure",
    "Frame",
    "Function",
    "NeedsLiteral",
    "call",
    "can_cast",
    "cast",
    "coerce",
    "common_type",
    "evaluate",
    "fold",
    "is_volatile",
    "literal_as_decimal",
]
