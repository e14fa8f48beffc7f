"""Results of aggregates: what the rows of a group give after the round, and what they gave before it.

change              before the round     after it
insert              nothing              the result
update_postimage    another result       the result
update_preimage     the result           another result
delete              the result           nothing

Of windows with emit = 'final', and of rows over their frames, there is nothing before. The texts here are the user's, but for two
things: which of several windows that overlap, and which row of a frame, a result is about.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from eddyline.errors import ProofError
from eddyline.proof.claims import (
    Claim,
    JudgeFinding,
    JudgeStopped,
    Proof,
    claim_at,
    claim_difference,
    claim_of,
)
from eddyline.proof.values import rows_to_json
from eddyline.proof.words import Edit, SqlWord


class _Judge(Protocol):
    def finding(self, claim: Claim) -> JudgeFinding: ...


def group_proof(proof: Proof, receipt: Mapping[str, Any], judge: _Judge) -> Proof:
    """A proof that rows of a group give a result, with what a judge finds of those it had on the other side of the round."""
    change = receipt["change"]
    other = "after" if change in ("delete", "update_preimage") else "before"
    if receipt["group"][other] is None or "row" in receipt["group"]:
        return proof
    claim = claim_at(claim_of(receipt), receipt, other)
    try:
        found = judge.finding(claim)
    except JudgeStopped as stopped:  # a group in error has no row in the answer
        n_found, is_same, gives = 0, False, f"an error: {stopped}"
    else:
        n_found = len(found.matches)
        is_same = n_found > 0 and not claim_difference(claim, found).n_differences
        gives = _words(found, claim)
    is_right = (n_found > 0 and not is_same) if change.startswith("update") else not n_found
    assert claim.group is not None, receipt["id"]
    n = len(claim.group.arrivals)
    note = f"{other.capitalize()} the round its {n:,} row{'' if n == 1 else 's'} gave {gives}."
    return replace(
        proof,
        is_proven=proof.is_proven and is_right,
        note=" ".join(
            filter(None, (proof.note, note if other == "before" else note.replace(" gave ", " give ")))
        ),
    )


def _words(found: JudgeFinding, claim: Claim) -> str:
    if not len(found.matches):
        return "no result"
    results = found.results.rename_columns(claim.results.schema.names)
    return json.dumps(rows_to_json(results)[0], ensure_ascii=False)


# --------------------------------------------------------------------------------------------- windows that overlap


def window_edits(words: Sequence[SqlWord], sliding: tuple[int, int]) -> Iterator[Edit]:
    """window(ts, size, slide, offset) as the windows of the same size of which the one that is meant is one, and which do not
    overlap."""
    start_us, size_us = sliding
    for at, word in enumerate(words):
        if not (word.says("WINDOW") and at + 1 < len(words) and words[at + 1].says("(")):
            continue
        closing = _closing(words, at + 1)
        durations = [each for each in words[at + 2 : closing] if each.kind == "string"]
        if len(durations) < 2:
            continue
        size, last = durations[0], durations[-1]
        yield Edit(size.end, last.end, f", {size.text}, '{start_us % size_us} microseconds'")


# --------------------------------------------------------------------------------------------- rows over frames


def row_edits(words: Sequence[SqlWord], arrival: str, text: str) -> Iterator[Edit]:
    """The arrival number of each row as the first column of every SELECT, and as what orders rows of the same time for lag and
    frames of so many rows. The column is called `arrival` in the rows, and with a number behind it in results."""
    depths = [(depth, at) for depth, at in _depths(words) if words[at].says("SELECT")]
    levels = sorted(depths, reverse=True)
    if len({depth for depth, _ in levels}) < len(levels):
        raise ProofError(
            "a text with OVER and several queries beside each other cannot be put to a judge", text=text
        )
    names = {depth: f"{arrival}_{number}" if number else arrival for number, (depth, _) in enumerate(levels)}
    for number, (depth, at) in enumerate(levels, 1):
        end = words[at].end
        yield Edit(end, end, f" `{names[depth]}` AS `{arrival}_{number}`,")
    for at, word in enumerate(words):
        if word.says("OVER") and at + 1 < len(words) and words[at + 1].says("("):
            depth = next(d for d, place in _depths(words) if place == at)
            inside = words[at + 2 : _closing(words, at + 1)]
            frame = next((each for each in inside if each.says("ROWS", "RANGE")), None)
            is_distance = (
                frame is not None and frame.says("RANGE") and any(each.says("INTERVAL") for each in inside)
            )
            if not is_distance:
                end = frame.start if frame is not None else inside[-1].end
                yield Edit(end, end, f", `{names[_level(depth, names)]}` ")


def _level(depth: int, names: Mapping[int, str]) -> int:
    """The depth of the SELECT that something in parentheses belongs to."""
    return max(level for level in names if level <= depth)


def _depths(words: Sequence[SqlWord]) -> list[tuple[int, int]]:
    """By word: in how many parentheses it is, and its place."""
    depth, found = 0, []
    for at, word in enumerate(words):
        depth -= word.says(")", "]")
        found.append((depth, at))
        depth += word.says("(", "[")
    return found


def _closing(words: Sequence[SqlWord], opening: int) -> int:
    depth = 0
    for at in range(opening, len(words)):
        depth += words[at].says("(") - words[at].says(")")
        if depth == 0:
            return at
    return len(words)
