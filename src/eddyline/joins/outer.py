"""Outer joins: rows of input 0 of which it is decided that nothing of input 1 matches.

What matches differs from query to query, so the filters decide, not the join: `matched_rows` are all partners
within the window of any query, which the filters test, and `unmatched_rows` the rows of input 0 with NULL beside them.

A row is decided when it comes if all that could match it has come before: the other input is a table, or rows of input 0 only
drive. Otherwise it is decided once the watermark of input 1 is above its event time plus the reach of the query. Where both
inputs are tables, nothing is decided for good (outer_tables.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass

import numpy as np

from eddyline.batch import TupleBatch
from eddyline.joins.joined_rows import JoinedRows
from eddyline.joins.plan import SignaturePlan, has_bit
from eddyline.joins.retention import decided_until, reaches
from eddyline.joins.stem import Stem
from eddyline.model import NO_TIME, Role, Round, Signature
from eddyline.operators import Mask, Numbers, RoundProgress

DECIDED_AT_ONCE = 1 << 16  # rows of input 0


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
    at_end: Mask | None  # of rows that only the end of the round decides; None: there are none


def is_decided_at_once(signature: Signature) -> bool:
    """Whether rows of an outer join are decided when they come."""
    if not signature.outer or signature.is_of_tables:
        return False
    return signature.inputs[1].role.is_table or signature.inputs[0].role is Role.CURRENT


def is_decided_by_time(signature: Signature) -> bool:
    """Whether rows of an outer join are decided when no partner can come any more."""
    return bool(signature.outer) and not signature.is_of_tables and not is_decided_at_once(signature)


class OuterDecisions:
    """Up to which event time rows of input 0 are decided, by signature and reach.

    Invariant: committed rounds have decided every stored row up to that time, and none above it.
    """

    def __init__(self) -> None:
        self._until_us: dict[tuple[str, int], int] = {}

    def keep(self, signatures: Set[str]) -> None:
        """Forget all other signatures."""
        self._until_us = {key: until for key, until in self._until_us.items() if key[0] in signatures}

    def due_rows(
        self, plan: SignaturePlan, reach: int, stem: Stem, bit: int, progress: RoundProgress, round_: Round
    ) -> Numbers:
        """Rows of the SteM of input 0 that this round decides; those wanted there have this bit of `wants`."""
        until = decided_until(plan, reach, progress)
        if until is None:
            until = NO_TIME  # rows without a time are decided when they come: nothing can match them
        decided = self._until_us.get((plan.name, reach), NO_TIME)
        stored = stem.rows
        first_new = int(np.searchsorted(stored.arrival, round_.first_arrival))
        rows = stem.numbers.every_row() if until > decided else np.arange(first_new, len(stem.numbers))
        time_us = stored.time_us[rows]
        is_open = (time_us > decided) & (time_us != NO_TIME) | (rows >= first_new)
        is_open &= has_bit(stored.wants, bit, rows)
        return rows[is_open & (time_us <= until)]

    def commit(self, signatures: Iterable[SignaturePlan], progress: RoundProgress) -> None:
        """What the round decided is decided; `progress` is that of the streams after it."""
        for plan in signatures:
            for reach in reaches(plan) if plan.signature.outer else ():
                until = decided_until(plan, reach, progress)
                if until is not None:
                    self._until_us[plan.name, reach] = until
