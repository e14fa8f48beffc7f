"""Expensive filters, one row at a time: which filters a row meets, in which order, and what becomes of it.

A filter says True, False or ERROR of a row; ERROR lets it pass and spoils the queries that have the filter. Nothing is shared
with `eddyline.filters` or `eddyline.routing` but the words a policy is asked in: bits of filters and of queries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tests.oracles.logic import ERRS, FAILS, PASSES, And, outcome

ERROR = "error"


def bits(members: Any) -> int:
    return sum(1 << member for member in members)


def walked_alone(
    queries: Sequence[frozenset[int]],
    says: Callable[[int], Any],
    next_filter: Callable[[int, int, int], int],
    at_first: Sequence[int] | None = None,
) -> tuple[list[int], dict[int, str]]:
    """The filters one row runs, and what becomes of each query that was open on it: "match", "none" or "dead".

    `next_filter` is told, as bits, the filters that ran, those of them that did not refute, and the queries not decided yet.
    """
    asked = list(range(len(queries)) if at_first is None else at_first)
    said: dict[int, Any] = {}
    while True:
        undecided = [
            q
            for q in asked
            if not any(said.get(k) is False for k in queries[q]) and not all(k in said for k in queries[q])
        ]
        if not undecided:
            break
        k = next_filter(bits(said), bits(k for k in said if said[k] is not False), bits(undecided))
        assert k not in said, f"filter {k} was asked twice"
        assert any(k in queries[q] for q in undecided), f"nobody needs filter {k}"
        said[k] = says(k)
    return list(said), {q: _became([said.get(k) for k in queries[q]]) for q in asked}


def _became(answers: Sequence[Any]) -> str:
    if False in answers:
        return "none"
    return "dead" if ERROR in answers else "match"


def in_order(queries: Sequence[frozenset[int]], order: Sequence[int]) -> Callable[[int, int, int], int]:
    """One order for all rows: the first filter in it that an undecided query has and that has not run."""

    def next_filter(ran: int, passed: int, undecided: int) -> int:
        for k in order:
            if not ran >> k & 1 and any(undecided >> q & 1 and k in queries[q] for q in range(len(queries))):
                return k
        raise AssertionError("an undecided query needs a filter that is not in the order")

    return next_filter


def strict_outcome(tree: And, row: dict[str, Any]) -> int:
    """The conditions one after the other, as they stand: the first that is not true ends it."""
    for part in tree.parts:
        found = outcome(part, row)
        if found != PASSES:
            assert found in (ERRS, FAILS)
            return found
    return PASSES
