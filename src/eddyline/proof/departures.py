"""Results with which a row leaves a table: it was a result before the round, and is none after it.

The receipt has the rows that left, of which the text must give the result, and what the round left in their place: newer rows of
their keys, or nothing. Over these the text must give nothing; of an update, the image that takes its place. A row that leaves an
outer join may leave another result behind: without the match that is gone, or with the one that came.
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
from eddyline.proof.groups import group_proof
from eddyline.proof.inputs import texts_with_inner_join
from eddyline.proof.values import rows_to_json


class _Judge(Protocol):
    def finding(self, claim: Claim) -> JudgeFinding: ...


def departure_proof(proof: Proof, receipt: Mapping[str, Any], judge: _Judge) -> Proof:
    """A proof that rows gave a result; if they left with it, with what a judge finds of what the round left in their place."""
    if "group" in receipt:
        return group_proof(proof, receipt, judge)
    if not receipt.get("changes"):
        return proof
    lead = "After " + ", ".join(
        f"{'the delete' if change['is_delete'] else 'row'} {change['arrival']} of {change['stream']}"
        for change in receipt["changes"]
    )
    if "recorded" in receipt:
        note = f"{lead} it is not judged: its functions are not deterministic."
        return replace(proof, note=" ".join(filter(None, (proof.note, note))))
    claim = claim_of(receipt)
    is_update = receipt["change"] == "update_preimage"
    may_remain = receipt["is_set"] or receipt.get("is_outer", False)
    after_claim = _after(claim, receipt)
    try:
        after = judge.finding(after_claim)
    except JudgeStopped as stopped:  # a row in error is no result
        is_right, gives = may_remain or not is_update, f"an error: {stopped}"
    else:
        gives = _words(after, claim)
        is_right = (not len(after.matches)) != is_update
        if may_remain:  # other rows may give what takes its place, and these another result
            is_right = is_update or claim_difference(claim, after).n_differences > 0
            if not is_right and receipt.get("is_outer") and _is_match_changed(claim, after_claim, judge):
                is_right, gives = True, f"{gives}, with a match where there was none, or the other way round"
    return replace(
        proof,
        is_proven=proof.is_proven and is_right,
        note=" ".join(filter(None, (proof.note, f"{lead} it gives {gives}."))),
    )


def _is_match_changed(before: Claim, after: Claim, judge: _Judge) -> bool:
    """Whether some outer join of the text finds a match of one of these rows and none of the other: as an inner join it gives a
    result of one of them alone."""
    for text in texts_with_inner_join(before.text):
        found = [judge.finding(replace(each, text=text)) for each in (before, after)]
        if len({bool(len(each.matches)) for each in found}) > 1:
            return True
    return False


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
