"""Outer joins: rows of input 0 of which it is decided that nothing of input 1 matches.

What matches differs from query to query, so the filters decide, not the join: `matched_rows` are all partners
within the window of any query, which the filters test, and `unmatched_rows` the rows of input 0 with NULL beside them.

A row is decided when it comes if all that could match it has come before: the other input is a table, or rows of input 0 only
drive. Otherwise it is decided once the watermark of input 1 is above its event time plus the reach of the query.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from eddyline.batch import TupleBatch
from eddyline.joins.joined_rows import JoinedRows
from eddyline.joins.plan import Numbers
from eddyline.model import Role, Signature


@dataclass(frozen=True, slots=True)
class UndecidedRows:
    """Rows to decide, for the queries with this reach (None: all).

    Row k of `unmatched_rows` drove the rows of `matched_rows` with driver k.
    """

    signature: str
    reach_us: int | None
    unmatched_rows: TupleBatch
    version: Numbers
    matched_rows: Sequence[JoinedRows]


def is_decided_at_once(signature: Signature) -> bool:
    """Whether rows of an outer join are decided when they come."""
    if not signature.outer:
        return False
    return signature.inputs[1].role.is_table or signature.inputs[0].role is Role.CURRENT
