"""Functions that Spark has and a standing query does not, or not yet: refused by name, with a way that works."""

from __future__ import annotations

from eddyline.errors import NotBuiltError, Span, UnsupportedError
from eddyline.sql.aggregates import OTHER_NAMES, WAY_OUT, WINDOWS_OF_TIME
from eddyline.sql.refusals import EXPLODE_HINT

_REFUSED = {
    ("explode", "explode_outer", "posexplode", "posexplode_outer", "inline", "inline_outer", "stack"): (
        EXPLODE_HINT
    ),
    ("rand", "randn", "random", "uniform", "uuid", "shuffle", "monotonically_increasing_id"): (
        "Declare a function of your own with deterministic=False (docs/functions.md)."
    ),
}


def refuse_function(name: str, span: Span) -> None:
    """Raise what is said of such a function; nothing of any other name."""
    if name in WINDOWS_OF_TIME:
        raise NotBuiltError(
            f"windows of time ({name}) are not built in this version", span=span, hint=WAY_OUT
        )
    if name in OTHER_NAMES:
        raise NotBuiltError(
            f"{name} is an aggregate; these are not built in this version", span=span, hint=WAY_OUT
        )
    for names, hint in _REFUSED.items():
        if name in names:
            raise UnsupportedError(f"{name} is not supported", span=span, hint=hint)
