"""Results with which a row leaves a table: it was a result before the round, and is none after it.

The receipt has the rows that left, of which the text must give the result, and what the round left in their place: newer rows of
their keys, or nothing. Over these the text must give nothing; of an update, the image that takes its place.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol

from eddyline.proof.claims import (
    Claim,
    JudgeFinding,
    JudgeStopped,
    Proof,
    claim_difference,
    claim_of,
    table_of,
)
from eddyline.proof.values import rows_to_json


class _Judge(Protocol):
    def finding(self, claim: Claim) -> JudgeFinding: ...


def departure_proof(proof: Proof, receipt: Mapping[str, Any], judge: _Judge) -> Proof:
    """A proof that rows gave a result; if they left with it, with what a judge finds of what the round left in their place."""
    if not receipt.get("changes"):
        return proof
    told = "After " + ", ".join(
        f"{'the delete' if change['is_delete'] else 'row'} {change['arrival']} of {change['stream']}"
        for change in receipt["changes"]
    )
    if "recorded" in receipt:
        note = f"{told} it is not judged: its functions are not deterministic."
        return replace(proof, note=" ".join(filter(None, (proof.note, note))))
    claim = claim_of(receipt)
    is_update, is_set = receipt["change"] == "update_preimage", receipt["is_set"]
    try:
        after = judge.finding(_after(claim, receipt))
    except JudgeStopped as stopped:  # a row in error is no result
        is_right, gives = is_set or not is_update, f"an error: {stopped}"
    else:
        gives = _words(after, claim)
        is_right = (not len(after.matches)) != is_update
        if is_set:  # other rows may give what takes its place, and this one another result
            is_right = is_update or claim_difference(claim, after).n_differences > 0
    return replace(
        proof,
        is_proven=proof.is_proven and is_right,
        note=" ".join(filter(None, (proof.note, f"{told} it gives {gives}."))),
    )


def _after(claim: Claim, receipt: Mapping[str, Any]) -> Claim:
    """The text over what the round left: claims no result."""
    newer = {change["alias"]: change for change in receipt["changes"]}
    inputs = tuple(
        entry
        if entry.is_of_other_part or entry.alias not in newer
        else replace(entry, rows=table_of(newer[entry.alias]), arrival=newer[entry.alias]["arrival"])
        for entry in claim.inputs
    )
    return replace(claim, inputs=inputs, matches=claim.matches[:0], results=claim.results.slice(0, 0))


def _words(after: JudgeFinding, claim: Claim) -> str:
    if not len(after.matches):
        return "no result"
    results = after.results.rename_columns(claim.results.schema.names)
    return json.dumps(rows_to_json(results)[0], ensure_ascii=False)
