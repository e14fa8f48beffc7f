"""Which expressions may fail on a row: all but those of a few functions that have a value for every row."""

from __future__ import annotations

from eddyline.model import Call, Expression, UserCall

# with arguments that have values, each of these has one, whatever they are
_NEVER_FAIL = frozenset(
    (
        *("=", "==", "!=", "<>", "<", "<=", ">", ">=", "<=>", "equal_null", "in", "not in"),
        *("and", "or", "not", "is null", "is not null", "isnull", "isnotnull", "isnan"),
        *("case", "if", "coalesce", "ifnull", "nvl", "nvl2", "nullif", "nanvl", "greatest", "least"),
        *("lower", "lcase", "upper", "ucase", "startswith", "endswith", "contains"),
    )
)


def can_fail(e: Expression) -> bool:
    """Whether a row may have no value of this because its computation fails."""
    if isinstance(e, UserCall):
        return True
    fails = isinstance(e, Call) and e.function not in _NEVER_FAIL
    return fails or any(map(can_fail, e.children))
