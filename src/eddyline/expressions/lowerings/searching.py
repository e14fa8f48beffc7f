"""Text in text: whether and where a part occurs, and what is before, after or instead of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.expressions.coercion import coerce
from eddyline.expressions.frame import Evaluation, Frame, RowError
from eddyline.expressions.function import function
from eddyline.expressions.limits import (
    LONGEST_MADE,
    check_elements,
    check_length,
    check_lengths,
    check_steps,
    lengths,
    n_bytes,
    where_fine,
)
from eddyline.expressions.lowerings.parameters import exactly, integer, takes, text, text_or_bytes
from eddyline.expressions.lowerings.patterns import pattern_test
from eddyline.expressions.lowerings.rowwise import is_ascii, rowwise
from eddyline.expressions.lowerings.strings import text_slice
from eddyline.model import Call, Expression
from eddyline.types import BIGINT, BINARY, BOOLEAN, INT, STRING

# ------------------------------------------------------------------------------------------ whether it occurs


def _part_of(arguments: Sequence[Expression]) -> tuple[Sequence[Expression], pa.DataType]:
    if BINARY in (e.type for e in arguments):
        return [coerce(e, BINARY) for e in arguments], BOOLEAN
    return [text(e) for e in arguments], BOOLEAN


def _register_test(name: str, test: Callable[[Any, Any], Any], where: str) -> None:
    @function(
        name,
        typing=_part_of,
        arguments=2,
        signature=f"{name}(text, part)",
        summary=f"Whether the text {where}.",
    )
    def lowering(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
        return pattern_test(arguments[0], arguments[1], frame, test)


_register_test("contains", pc.match_substring, "has this part")
_register_test("startswith", pc.starts_with, "starts with this part")
_register_test("endswith", pc.ends_with, "ends with this part")


# ------------------------------------------------------------------------------------------ where it occurs


@function(
    "instr",
    typing=takes(text, text, result=INT),
    arguments=2,
    signature="instr(text, part)",
    summary="The position of the first such part, counted from 1; 0 if there is none.",
)
def _instr(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    whole, part = arguments[0].values, arguments[1].values
    if isinstance(whole, pa.Array) and isinstance(part, pa.Scalar) and part.is_valid and is_ascii(whole):
        return Evaluation(pc.add(pc.find_substring(whole, part.as_py()), pa.scalar(1, INT)))
    return rowwise(lambda whole, part: whole.find(part) + 1, arguments, frame, INT)


@function(
    "locate",
    "position",
    typing=takes(text, text, integer, result=INT),
    arguments=(2, 3),
    signature="locate(part, text [, start])",
    summary="The position of the first such part from `start` on, counted from 1; 0 if there is none.",
    asked_first=(2,),
)
def _locate(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    if len(arguments) == 2:
        return _instr(arguments[::-1], expression, frame)
    return rowwise(_position_of, arguments, frame, INT, takes_null=True)


def _position_of(part: str | None, whole: str | None, start: int | None) -> int | None:
    if start is None:  # Spark's rule: no start finds nothing, whatever the texts are
        return 0
    if part is None or whole is None:
        return None
    if start < 1:
        return 0
    return 1 if part == "" else whole.find(part, start - 1) + 1


@function(
    "find_in_set",
    typing=takes(text, text, result=INT),
    arguments=2,
    signature="find_in_set(word, words)",
    summary="The position of a word in a comma-separated list, counted from 1; 0 if it is not there.",
)
def _find_in_set(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    def position(word: str, words: str) -> int:
        check_elements("find_in_set", words.count(",") + 1)
        listed = words.split(",")
        return listed.index(word) + 1 if word in listed else 0

    return rowwise(position, arguments, frame, INT)


@function(
    "levenshtein",
    typing=takes(text, text, integer, result=INT),
    arguments=(2, 3),
    signature="levenshtein(a, b [, limit])",
    summary="How many characters to insert, delete or change to make a from b; -1 if above the limit.",
)
def _levenshtein(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    return rowwise(_distance, arguments, frame, INT)


def _distance(a: str, b: str, limit: int | None = None) -> int:
    """Row by row of the usual table, the shorter text's; what is inserted along a row is a running minimum."""
    if limit is not None and abs(len(a) - len(b)) > limit:
        return -1
    check_steps("levenshtein", len(a) * len(b))
    a, b = sorted((a, b), key=len)
    other = np.array([ord(c) for c in b], np.int64)
    places = np.arange(len(b) + 1)
    row = places.copy()
    for c in a:
        changed = np.minimum(row[1:] + 1, row[:-1] + (other != ord(c)))
        row = np.minimum.accumulate(np.concatenate(([row[0] + 1], changed)) - places) + places
    return int(row[-1]) if limit is None or row[-1] <= limit else -1


# ------------------------------------------------------------------------------------------ what is around it


@function(
    "split_part",
    typing=takes(text, text, integer, result=STRING),
    arguments=3,
    signature="split_part(text, delimiter, n)",
    summary="The n-th part between delimiters, counted from 1, or back from the end.",
)
def _split_part(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    def part(whole: str, delimiter: str, n: int) -> str:
        if n == 0:
            raise RowError("INVALID_INDEX_OF_ZERO", "parts are counted from 1, or back from -1")
        check_elements("split_part", whole.count(delimiter) + 1 if delimiter else 1)
        parts = whole.split(delimiter) if delimiter else [whole]
        at = n - 1 if n > 0 else len(parts) + n
        return parts[at] if 0 <= at < len(parts) else ""

    return rowwise(part, arguments, frame, STRING)


@function(
    "substring_index",
    typing=takes(text, text, integer, result=STRING),
    arguments=3,
    signature="substring_index(text, delimiter, n)",
    summary="What is before the n-th delimiter, or after the n-th from the end if n is negative.",
)
def _substring_index(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    return rowwise(_before_delimiter, arguments, frame, STRING)


def _before_delimiter(whole: str, delimiter: str, n: int) -> str:
    if not delimiter or n == 0:
        return ""
    if n < 0:  # Python searches from the end in quadratic time
        return _before_delimiter(whole[::-1], delimiter[::-1], -n)[::-1]
    # Delimiters may overlap, so each search starts one character behind the one before.
    at = -1
    for n_found in range(min(n, len(whole) + 1)):
        check_steps("substring_index", n_found * len(delimiter))
        at = whole.find(delimiter, at + 1)
        if at < 0:
            return whole
    return whole[:at]


# ------------------------------------------------------------------------------------------ what is instead of it


@function(
    "replace",
    typing=takes(text, text, text, result=STRING),
    arguments=(2, 3),
    signature="replace(text, part [, replacement])",
    summary="With every such part replaced, or removed.",
)
def _replace(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    whole, part, *rest = (a.values for a in arguments)
    new = rest[0] if rest else pa.scalar("")
    is_constant = (
        isinstance(part, pa.Scalar) and isinstance(new, pa.Scalar) and part.is_valid and new.is_valid
    )
    if is_constant and isinstance(whole, pa.Array) and part.as_py():
        old, by = part.as_py(), new.as_py()
        errors = check_lengths("replace", _replaced_lengths(whole, old, by), frame)
        fine = where_fine(whole, errors, frame)
        return Evaluation(pc.replace_substring(fine, pattern=old, replacement=by), errors)
    return rowwise(_replaced_text, [arguments[0], arguments[1], Evaluation(new)], frame, STRING)


def _replaced_text(whole: str, part: str, new: str) -> str:
    if not part:
        return whole
    if len(new) > len(part):
        grown = n_bytes(new) - n_bytes(part)
        check_length("replace", n_bytes(whole) + whole.count(part) * grown)
    return whole.replace(part, new)


def _replaced_lengths(whole: pa.Array, part: str, new: str) -> npt.NDArray[np.int64] | None:
    """Bytes of each text once it is replaced in; None if all of them together have few."""
    size, grown = n_bytes(part), n_bytes(new) - n_bytes(part)
    if grown <= 0 or whole.nbytes + whole.nbytes // size * grown <= LONGEST_MADE:
        return None
    counts = pc.fill_null(pc.count_substring(whole, part), 0).to_numpy(zero_copy_only=False)
    return lengths(whole, len(whole)) + counts.astype(np.int64) * grown


@function(
    "translate",
    typing=takes(text, text, text, result=STRING),
    arguments=3,
    signature="translate(text, from, to)",
    summary="With each character of `from` replaced by the one at its place in `to`, or removed.",
)
def _translate(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    def translated(whole: str, old: str, new: str) -> str:
        table: dict[int, str] = {}
        for at, c in enumerate(old):
            table.setdefault(ord(c), new[at] if at < len(new) else "")
        return whole.translate(table)

    return rowwise(translated, arguments, frame, STRING)


def _overlaid_type(arguments: Sequence[Expression]) -> tuple[Sequence[Expression], pa.DataType]:
    whole = text_or_bytes(arguments[0])
    new = coerce(arguments[1], BINARY) if whole.type == BINARY else text(arguments[1])
    return [whole, new, *map(integer, arguments[2:])], whole.type


@function(
    "overlay",
    typing=_overlaid_type,
    arguments=(3, 4),
    signature="overlay(text, new, start [, length])",
    summary="With the characters from `start` replaced: as many as are new, or `length`.",
)
def _overlay(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    def overlaid(whole: Any, new: Any, start: int, length: int = -1) -> Any:
        check_length("overlay", len(whole) + len(new))
        kept_from = start + (length if length >= 0 else len(new))
        return (
            text_slice(whole, 1, start - 1) + new + text_slice(whole, kept_from, len(whole) + abs(kept_from))
        )

    return rowwise(overlaid, arguments, frame, expression.type)


# ------------------------------------------------------------------------------------------ single characters


@function(
    "ascii",
    typing=takes(text, result=INT),
    arguments=1,
    signature="ascii(text)",
    summary="The number of the first character; 0 for an empty text.",
)
def _ascii(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    return rowwise(lambda whole: ord(whole[0]) if whole else 0, arguments, frame, INT)


@function(
    "chr",
    "char",
    typing=takes(exactly(BIGINT), result=STRING),
    arguments=1,
    signature="chr(n)",
    summary="The character of number n modulo 256; an empty text below zero.",
)
def _chr(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    return rowwise(lambda n: chr(n % 256) if n >= 0 else "", arguments, frame, STRING)
