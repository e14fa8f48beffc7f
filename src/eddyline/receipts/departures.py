"""Of a result with which a row leaves a table: what the round left in place of its rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from eddyline.engine import ComponentRows, RoundEngine, change_of_key
from eddyline.errors import ReceiptError
from eddyline.model import Round, Shape
from eddyline.proof import rows_to_json, schema_to_text
from eddyline.receipts.expansion import WrittenOut
from eddyline.receipts.occurrences import Occurrences
from eddyline.receipts.readings import NO_ROW, BaseInput
from eddyline.receipts.seen_columns import columns_seen


def departure(
    rounds: RoundEngine,
    round_: Round,
    written: WrittenOut,
    branch: int,
    components: Sequence[int],
    occurrences: Occurrences,
    result_id: str,
) -> dict[str, Any]:
    """The entries of a receipt that say what made its rows leave, and what kind of result they left: what the round left in
    their place, by input, the newer row, or none where it was deleted; and where an outer join had found none, a row that matches
    now. Raises ReceiptError."""
    known = ComponentRows(rounds)
    found: dict[int, dict[str, Any]] = {}
    newer: dict[int, int] = {}
    rows = written.rows_of(branch, components)
    if max(each.arrival for each in rows) >= round_.first_arrival:
        raise ReceiptError(
            f"result {result_id} does not name the row that left",
            detail="It was stored by an earlier version, which named the change that made it leave.",
            hint="The result with which the row came has a receipt.",
        )
    for each in rows:
        if each.arrival == NO_ROW or not each.entry.stream.is_keyed:
            continue
        _, (_, row, *_) = known.row(each.arrival)
        change = change_of_key(rounds, round_, each.entry.stream, row)
        if change is not None:
            found[each.number] = _change(each.entry, change.arrival, change.row, is_delete=change.is_delete)
            newer[each.arrival] = change.arrival
    if not any(change["is_delete"] for change in found.values()):
        after = occurrences.with_match(branch, [newer.get(number, number) for number in components])
        for each in () if after is None else written.rows_of(branch, after):
            is_new = each.number not in {row.number for row in rows if row.arrival != NO_ROW}
            if each.arrival != NO_ROW and is_new:
                _, (_, row, *_) = known.row(each.arrival)
                found[each.number] = _change(each.entry, each.arrival, row, is_delete=False)
    if not found:
        raise ReceiptError(
            f"what made the row of result {result_id} leave is not among the rows of round {round_.number} any more"
        )
    shapes = list(written.reading.shapes())
    return {
        "changes": [found[number] for number in sorted(found)],
        "is_set": any(shape.is_counted for shape in shapes),
        **({"is_outer": True} if any(map(_is_outer, shapes)) else {}),
    }


def _change(entry: BaseInput, arrival: int, row: pa.RecordBatch, *, is_delete: bool) -> dict[str, Any]:
    return {
        "alias": entry.alias,
        "stream": entry.stream.name,
        "arrival": arrival,
        "is_delete": is_delete,
        "columns": schema_to_text(row.schema),
        "seen": columns_seen(entry, row.schema),
        "row": None if is_delete else rows_to_json(row)[0],
    }


def _is_outer(shape: Shape) -> bool:
    """Whether it is an outer join of tables, of which a row without a match and one with a match are two results."""
    return shape.join is not None and bool(shape.join.signature.outer) and shape.join.signature.is_of_tables
