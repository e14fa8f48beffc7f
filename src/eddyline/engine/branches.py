"""Branches of unions: what they match are results of their queries.

A row may match several branches of one query, and each match is a result. The first branch has the numbers of the rows. What the
others match has numbers of its own, as derived rows have, and the components of the row, so that no two results of a query have
one number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from eddyline.batch import PartMatches, TupleBatch
from eddyline.engine.join_visibility import narrowed
from eddyline.filters import DeadPairs, FilterOutput
from eddyline.model import FIRST_BODY, FIRST_BRANCH, StreamPlan
from eddyline.operators import DerivedNumbers, Numbers


@dataclass(frozen=True, slots=True)
class BranchRows:
    """What queries match in their branches of one place: a number for each row that some query takes there."""

    branch: int
    provisional: Numbers  # ascending, as the numbers of the rows do
    components: Numbers


def without_branches(output: FilterOutput, plan: StreamPlan) -> FilterOutput:
    """What queries and bodies of views match; errors also where branches are in them."""
    if not plan.branches:
        return output
    found = narrowed(output, lambda _, ids: ids < FIRST_BRANCH)
    return replace(found, dead_pairs=output.dead_pairs)


def under_queries(
    output: FilterOutput, plan: StreamPlan, numbers: DerivedNumbers
) -> tuple[FilterOutput, list[BranchRows]]:
    """What queries match, and what their further branches do, all under the ids of the queries; and the rows of these."""
    if not plan.branches:
        return (output if output.plan is plan else replace(output, plan=plan)), []
    queries = narrowed(output, lambda _, ids: ids < FIRST_BODY)
    by_place: dict[int, list[PartMatches]] = {}
    for part in narrowed(output, lambda _, ids: ids >= FIRST_BODY).all_parts():
        by_place.setdefault(part.segment.shape.branch, []).append(part)
    parts, rows = list(queries.parts), []
    for branch, mine in sorted(by_place.items()):
        batch, made = _numbered(branch, mine, numbers)
        parts += [replace(part, batch=batch, segment=part.segment.under_queries) for part in mine]
        rows.append(made)
    dead = output.dead_pairs
    under = DeadPairs(dead.rows, output.plan.queries_of(dead.query_ids), dead.failures)
    return replace(queries, plan=plan, parts=tuple(parts), dead_pairs=under), rows


def _numbered(
    branch: int, parts: Sequence[PartMatches], numbers: DerivedNumbers
) -> tuple[TupleBatch, BranchRows]:
    """The batch of these matches with numbers of their own; rows that are there twice, as images, have one."""
    batch = parts[0].batch
    rows = np.unique(np.concatenate([part.rows for part in parts]))
    _, first, of = np.unique(batch.arrival[rows], return_index=True, return_inverse=True)
    provisional = numbers.take(len(first))
    arrival = np.full(len(batch), -1, np.int64)  # no match is at the other rows
    arrival[rows] = provisional[of]
    components = batch.arrival[:, None] if batch.components is None else batch.components
    numbered = replace(batch, arrival=arrival, components=components)
    return numbered, BranchRows(branch, provisional, components[rows[first]])
