"""Outer joins of tables as rows of their relation: combinations, and rows of input 0 with NULL beside them, in one batch.

The filters decide for each query which combinations match, and so which rows are alone. Both are one batch since they are results
of the same queries: a value that leaves with one and appears with the other is still there.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from eddyline.batch import TupleBatch, concatenated
from eddyline.engine.identities import behind, encoded
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
from eddyline.model import Role, Round
from eddyline.operators import (
    ArrivedRows,
    Derived,
    Identity,
    Numbers,
    PossiblePartners,
    RoundProgress,
    Share,
    Unmatched,
    WantedMasks,
)
from eddyline.types import BINARY

NONE: Numbers = np.empty(0, np.int64)


def changed_outer_joins(stage: JoinStage, arrived: Mapping[str, ArrivedRows], share: Share) -> list[str]:
    """The outer joins of tables, of a share, of which a table has changed. They may have no combinations."""
    return [
        plan.name
        for plan in stage.plan.signatures
        if plan.signature.outer and plan.signature.is_of_tables and share.has(plan.name)
        if any(name.lower() in arrived for name in plan.signature.streams)
    ]


def numbers_in_table(plan: SignaturePlan, rows: ArrivedRows) -> Numbers:
    """With which numbers changes of input 0 stand in its table: of a view their positions among all of its changes."""
    return rows.position if plan.signature.inputs[0].role is Role.VIEW else rows.batch.arrival


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
        changes = numbers_in_table(plan, arrived[stream])
        owners.append(table.versions.owners(changes[wanted[plan.name, 0]]))
    owners += [
        table.versions.owners(each.table_numbers[:, 0])
        for each in joined_rows
        if each.table_numbers is not None
    ]
    states = row_states(table, np.unique(np.concatenate(owners)), round_.first_arrival)
    alone = stage.rows_alone(plan, states, progress, round_)
    if net is None or plan.signature.outer == "left anti":
        return _outer_rows(stage, plan, [], NONE, alone, round_.version)
    assert net.preimages is not None, plan.name
    assert net.identity is not None, plan.name
    return _outer_rows(stage, plan, [(net.batch, net.identity)], net.preimages, alone, round_.version)


def outer_answer(
    stage: JoinStage,
    plan: SignaturePlan,
    rows: ArrivedRows,
    progress: RoundProgress,
    round_: Round,
    identity_of: Callable[[JoinedRows], Identity],
) -> Iterator[Derived]:
    """The join as it is now, some of the rows of input 0 at a time; `identity_of` is that of combinations."""
    table = stage.tables[plan.signature.inputs[0].stream.lower()]
    for first in range(0, len(rows.batch), DECIDED_AT_ONCE):
        places = np.arange(first, min(first + DECIDED_AT_ONCE, len(rows.batch)))
        some = ArrivedRows(rows.batch.take(places), rows.time_us[places], rows.position[places])
        states = appearing(table.versions.rows_by_arrival(numbers_in_table(plan, some)))
        joined = list(stage.answer(plan, some, progress, round_)) if plan.signature.outer == "left" else None
        alone = stage.rows_alone(plan, states, progress, round_, joined)
        combinations = [(each.batch, identity_of(each)) for each in joined or ()]
        yield _outer_rows(stage, plan, combinations, NONE, alone, round_.version)


def _outer_rows(
    stage: JoinStage,
    plan: SignaturePlan,
    combinations: Sequence[tuple[TupleBatch, Identity]],
    preimages: Numbers,
    alone: RowsAlone,
    version: int,
) -> Derived:
    """Rows of a signature, for the queries of a version; `preimages` are those of the combinations."""
    name, table = plan.name, stage.tables[plan.signature.inputs[0].stream.lower()]
    batches = [each for each, _ in combinations]
    batch = concatenated([*batches, alone.batch])
    n = len(batch) - len(alone.batch)  # combinations
    images = np.concatenate([preimages, n + alone.preimages])

    def alone_identity(at: Numbers) -> pa.Array:
        return encoded([*table.take(alone.rows[at], table.key), pa.nulls(len(at), BINARY)])

    identities = [(len(each), identity) for each, identity in combinations]
    identity = behind([*identities, (len(alone.batch), alone_identity)])
    derived = Derived(name.lower(), batch, phase=1, preimages=images, identity=identity)
    if alone.matched_rows is None:
        return derived
    first_rows = np.cumsum([0, *map(len, batches)]).tolist()
    themselves = (
        PossiblePartners(batch, np.full(len(batch), version, np.int64), first + np.arange(len(batch)))
        for batch, first in zip(batches, first_rows, strict=False)
    )
    others = (PossiblePartners(each.batch, each.version, n + each.driver) for each in alone.matched_rows)
    unmatched = Unmatched(
        f"{name}/{MATCH}".lower(),
        itertools.chain(themselves, others),
        is_alone=np.arange(len(batch)) >= n,
        unchanged=n + alone.unchanged,
    )
    return replace(derived, unmatched=unmatched)
