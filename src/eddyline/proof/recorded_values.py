"""Claims about functions that are not deterministic: the values they gave on the row replace the calls.

A judge cannot call such a function again: it would give something else. So each call of the text becomes a parameter, in the type
the function returns, with the value that was stored with the round.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from eddyline.errors import ProofError
from eddyline.proof.claims import Claim, RecordedValue
from eddyline.proof.values import to_json
from eddyline.proof.words import Edit, SqlWord, edited_text, words_of

MOST_SHOWN = 60  # characters of a value


@dataclass(frozen=True, slots=True)
class WrittenCall:
    """A call of a function as it is written in a text."""

    function: str  # as written, without backquotes
    start: int
    end: int
    is_inner: bool  # it is part of an argument of another


def replayed_claim(claim: Claim) -> tuple[Claim, tuple[str, ...]]:
    """The claim with recorded values in place of calls, and notes about that; without such calls the claim as it is.

    A call inside of another one goes with it. Raises ProofError if it is not known what every call gave.
    """
    unsteady = [called.name for called in claim.functions if not called.is_deterministic]
    if not unsteady:
        return claim, ()
    if not claim.recorded_values:
        raise ProofError(
            f"function {unsteady[0]} is not deterministic, so it cannot be asked again",
            detail="What it gave was not stored with the result: an earlier version of eddyline made the round, or the function "
            "is called by a view that the query reads.",
            hint="Later results of the query can be proven, or those of the view.",
        )
    calls = calls_in(claim.text, unsteady)
    recorded = sorted(claim.recorded_values, key=lambda recorded_value: recorded_value.call)
    _check(claim, calls, recorded)
    params = dict(claim.params)
    edits, result_notes = [], []
    for call, recorded_value in zip(calls, recorded, strict=True):
        if not call.is_inner:
            name = _free_name(recorded_value.call, params)
            params[name] = recorded_value.type, recorded_value.value
            gap = " " if claim.text[call.end : call.end + 1].isalpha() else ""  # as in f(x)IN(1, 2)
            edits.append(Edit(call.start, call.end, f":{name}{gap}"))
            result_notes.append(f"{recorded_value.function} gave {_value_text(recorded_value)} (:{name})")
    functions = tuple(called for called in claim.functions if called.is_deterministic)
    note = (
        f"Recorded values stand for calls of functions that are not deterministic: {', '.join(result_notes)}."
    )
    text = edited_text(claim.text, edits)
    return replace(claim, text=text, params=params, functions=functions, recorded_values=()), (note,)


def calls_in(text: str, functions: Collection[str]) -> list[WrittenCall]:
    """All calls of these functions, in the order in which they begin; names in whatever case."""
    names = {name.lower() for name in functions}
    return list(_calls(words_of(text), names))


def _calls(words: Sequence[SqlWord], names: Collection[str]) -> Iterator[WrittenCall]:
    outer_end = -1
    for at, word in enumerate(words[:-1]):
        if word.is_name and word.name.lower() in names and words[at + 1].says("("):
            end = _closing(words, at + 1)
            yield WrittenCall(word.name, word.start, end, word.start < outer_end)
            outer_end = max(outer_end, end)


def _closing(words: Sequence[SqlWord], opening: int) -> int:
    """Where the parenthesis ends that opens at this word."""
    depth = 0
    for word in words[opening:]:
        depth += word.says("(") - word.says(")")
        if depth == 0:
            return word.end
    return words[-1].end


def _check(claim: Claim, calls: Sequence[WrittenCall], recorded: Sequence[RecordedValue]) -> None:
    """Refuse a receipt that does not list exactly the calls of its text."""
    in_text = [(k, call.function.lower()) for k, call in enumerate(calls, 1)]
    in_receipt = [(recorded_value.call, recorded_value.function.lower()) for recorded_value in recorded]
    if in_text != in_receipt:
        raise ProofError(
            "it is not known what every call of a function that is not deterministic gave",
            detail=f"The text calls {_call_list(in_text)}; stored with the round is what these gave: {_call_list(in_receipt)}.",
            text=claim.text,
        )


def _value_text(recorded_value: RecordedValue) -> str:
    text = json.dumps(to_json(pa.scalar(recorded_value.value, recorded_value.type)), ensure_ascii=False)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}…"


def _call_list(calls: Sequence[tuple[int, str]]) -> str:
    return ", ".join(name for _, name in calls) or "none"


def _free_name(call: int, params: dict[str, Any]) -> str:
    name = f"recorded_{call}"
    while name in params:
        name += "_"
    return name
