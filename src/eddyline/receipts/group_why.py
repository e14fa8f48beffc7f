"""Why a result of aggregates is there: its group as it was, from the rows of its receipt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.documents import GroupWhy
from eddyline.engine import RoundEngine, fitted
from eddyline.explain import SHOWN_ROWS, entry_verdict, grouped_query
from eddyline.expressions import Context
from eddyline.proof import claim_of
from eddyline.receipts.expansion import record_of_receipt
from eddyline.types import python_rows


def why_group_result(rounds: RoundEngine, receipt: Mapping[str, Any]) -> GroupWhy:
    """What each condition of its query, as it was then, says about the group of a result. The lock is held."""
    query = grouped_query(rounds, record_of_receipt(rounds, receipt))
    assert query is not None, receipt["id"]
    claim = claim_of(receipt)
    assert claim.group is not None, receipt["id"]
    context = Context(claim.now_us, rounds.time_zone, rounds.functions.call)
    order = np.argsort(claim.group.arrivals)
    table = claim.inputs[0].rows.take(pa.array(order)).combine_chunks()
    none = pa.RecordBatch.from_pylist([], table.schema)
    rows = fitted(next(iter(table.to_batches()), none), query.stream.schema)
    entries = query.entries_of(query.class_rows(rows, context, claim.group.arrivals[order]), context)
    at = 0
    if claim.group.row is not None:  # the last of its frame
        at = entries.num_rows - 1
    elif claim.group.sliding is not None:
        at = [start for start, _ in query.spans(entries)].index(claim.group.sliding[0])
    shown = rows.slice(max(0, rows.num_rows - SHOWN_ROWS))
    verdict = replace(entry_verdict(query, entries.slice(at, 1), context), rows=tuple(python_rows(shown)))
    has_left = receipt["change"] in ("delete", "update_preimage")
    note = f"as it was {'before' if has_left else 'after'} round {receipt['round']['number']}"
    name = query.record.name
    return GroupWhy(
        name, verdict.is_result, verdict.clauses, verdict.error, (note,), noun=query.noun, groups=(verdict,)
    )
