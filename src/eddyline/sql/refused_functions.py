"""Functions that Spark has and a standing query does not, or not yet: refused by name, with a way that works."""

from __future__ import annotations

from eddyline.errors import NotBuiltError, Span, UnknownNameError, UnsupportedError
from eddyline.expressions import INTERNAL
from eddyline.sql.aggregates import OTHER_NAMES, WAY_OUT
from eddyline.sql.refusals import EXPLODE_HINT

_REFUSED = {
    ("explode", "explode_outer", "posexplode", "posexplode_outer", "inline", "inline_outer", "stack"): (
        EXPLODE_HINT
    ),
    ("rand", "randn", "random", "uniform", "uuid", "shuffle", "monotonically_increasing_id"): (
        "Declare a function of your own with deterministic=False (docs/functions.md)."
    ),
}
_RANKS = ("row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile")


def refuse_function(name: str, span: Span) -> None:
    """Raise what is said of such a function; nothing of any other name."""
    if name in INTERNAL:
        raise UnknownNameError(f"there is no function {name}", span=span)
    if name == "window_time":
        raise UnsupportedError(
            "window_time is not supported", span=span, hint="Write window.end - INTERVAL 1 MICROSECOND."
        )
    if name == "lag":
        raise UnsupportedError(
            "lag needs OVER", span=span, hint="Write lag(x) OVER (PARTITION BY … ORDER BY ts)."
        )
    if name == "lead":
        raise UnsupportedError(
            "lead is not supported",
            span=span,
            detail="The rows after a row have not come yet, and results are never revised.",
            hint="Write lag(x), and take the row that comes later for the current one.",
        )
    if name in _RANKS:
        raise UnsupportedError(
            f"{name} is not supported",
            span=span,
            detail="A rank changes with rows that come later, and results are never revised.",
            hint="count(*) OVER (PARTITION BY … ORDER BY ts) numbers rows as they come.",
        )
    if name in OTHER_NAMES:
        raise NotBuiltError(f"the aggregate {name} is not built in this version", span=span, hint=WAY_OUT)
    for names, hint in _REFUSED.items():
        if name in names:
            raise UnsupportedError(f"{name} is not supported", span=span, hint=hint)
