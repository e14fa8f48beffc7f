"""Outer joins of tables as rows of their relation: combinations, and rows of input 0 with NULL beside them, in one batch.

The filters decide for each query which combinations match, and so which rows are alone. Both are one batch since they are results
of the same queries: a value that leaves with one and appears with the other is still there.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from eddyline.batch import TupleBatch, concatenated
from eddyline.engine.join_plans import MATCH
from eddyline.joins import (
    DECIDED_AT_ONCE,
    JoinedRows,
    JoinStage,
    RowsAlone,
    SignaturePlan,
    appearing,
    row_states,
)
from eddyline.model import Round
from eddyline.operators import (
    ArrivedRows,
    Derived,
    Numbers,
    PossiblePartners,
    RoundProgress,
    Share,
    Unmatched,
    WantedMasks,
)

NONE: Numbers = np.empty(0, np.int64)


def changed_outer_joins(stage: JoinStage, arrived: Mapping[str, ArrivedRows], share: Share) -> list[str]:
    """The outer joins of tables, of a share, of which a table has changed. They may have no combinations."""
    return [
        plan.name
        for plan in stage.plan.signatures
        if plan.signature.outer and plan.signature.is_of_tables and share.has(plan.name)
        if any(name.lower() in arrived for name in plan.signature.streams)
    ]


def outer_changes(
    stage: JoinStage,
    plan: SignaturePlan,
    joined_rows: Sequence[JoinedRows],
    net: Derived | None,
    arrived: Mapping[str, ArrivedRows],
    wanted: WantedMasks,
    progress: RoundProgress,
    round_: Round,
) -> Derived:
    """What a round changes, given all combinations that appeared or left in it, and what remains of these.

    Rows of input 0 may be alone now, or be no longer, if they have changed or are in such a combination.
    """
    stream = plan.signature.inputs[0].stream.lower()
    table, owners = stage.tables[stream], [NONE]
    if stream in arrived:
        owners.append(table.owners(arrived[stream].batch.arrival[wanted[plan.name, 0]]))
    owners += [table.owners(each.components[:, 0]) for each in joined_rows]
    states = row_states(table, np.unique(np.concatenate(owners)), round_.first_arrival)
    alone = stage.rows_alone(plan, states, progress, round_)
    if net is None or plan.signature.outer == "left anti":
        return _outer_rows(plan.name, [], NONE, alone, round_.version)
    assert net.preimages is not None, plan.name
    return _outer_rows(plan.name, [net.batch], net.preimages, alone, round_.version)


def outer_answer(
    stage: JoinStage, plan: SignaturePlan, rows: ArrivedRows, progress: RoundProgress, round_: Round
) -> Iterator[Derived]:
    """The join as it is now, some of the rows of input 0 at a time."""
    table = stage.tables[plan.signature.inputs[0].stream.lower()]
    for first in range(0, len(rows.batch), DECIDED_AT_ONCE):
        places = np.arange(first, min(first + DECIDED_AT_ONCE, len(rows.batch)))
        some = ArrivedRows(rows.batch.take(places), rows.time_us[places], rows.position[places])
        states = appearing(table.rows_by_arrival(some.batch.arrival))
        joined = list(stage.answer(plan, some, progress, round_)) if plan.signature.outer == "left" else None
        alone = stage.rows_alone(plan, states, progress, round_, joined)
        yield _outer_rows(plan.name, [each.batch for each in joined or ()], NONE, alone, round_.version)


def _outer_rows(
    name: str, combinations: Sequence[TupleBatch], preimages: Numbers, alone: RowsAlone, version: int
) -> Derived:
    """Rows of the signature of this name, for the queries of a version; `preimages` are those of the combinations."""
    batch = concatenated([*combinations, alone.batch])
    n = len(batch) - len(alone.batch)  # combinations
    images = np.concatenate([preimages, n + alone.preimages])
    derived = Derived(name.lower(), batch, phase=1, preimages=images)
    if alone.matched_rows is None:
        return derived
    first_rows = np.cumsum([0, *map(len, combinations)]).tolist()
    themselves = (
        PossiblePartners(batch, np.full(len(batch), version, np.int64), first + np.arange(len(batch)))
        for batch, first in zip(combinations, first_rows, strict=False)
    )
    others = (PossiblePartners(each.batch, each.version, n + each.driver) for each in alone.matched_rows)
    unmatched = Unmatched(
        f"{name}/{MATCH}".lower(),
        itertools.chain(themselves, others),
        is_alone=np.arange(len(batch)) >= n,
        unchanged=n + alone.unchanged,
    )
    return replace(derived, unmatched=unmatched)
