"""Regular expressions of Java over columns. The pattern is a constant; RE2 matches it, so no pattern can hang a round."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.errors import Span, UnsupportedError
from eddyline.expressions.frame import Evaluation, Frame, merge_errors
from eddyline.expressions.function import Typing, function
from eddyline.expressions.limits import (
    LONGEST_MADE,
    MOST_ELEMENTS,
    check_counts,
    check_elements,
    check_lengths,
    joined_lengths,
    lengths,
    where_fine,
)
from eddyline.expressions.lowerings.java_regex import (
    Anchor,
    JavaPattern,
    RefusedPattern,
    RegexNode,
    Sequential,
    groups_in_lazy_loops,
    least_width,
    line_ends,
    may_loop_on_nothing,
    re2,
)
from eddyline.expressions.lowerings.parameters import exactly, integer, takes, text
from eddyline.expressions.lowerings.rowwise import rowwise
from eddyline.model import Call, Expression, Literal
from eddyline.types import BOOLEAN, INT, STRING

TEXTS = pa.list_(STRING)


@lru_cache(maxsize=1024)
def java_pattern(pattern: str) -> JavaPattern:
    """The pattern read. Raises RefusedPattern."""
    return JavaPattern(pattern)


def _constant(expression: Expression) -> str | None:
    assert isinstance(expression, Literal), "a pattern is a constant"
    return None if expression.value is None else str(expression.value)


def _refusal(pattern: str, problem: RefusedPattern, span: Span | None) -> UnsupportedError:
    return UnsupportedError(
        f"the regular expression {pattern!r} cannot be used: {problem.reason}",
        detail=f"At character {problem.at + 1}. Patterns are Java's, matched in linear time.",
        hint=problem.hint,
        span=span,
    )


def _checked_typing(
    typing: Typing, *, finds_all: bool = False, extracts: bool = False, takes_empty: bool = False
) -> Typing:
    """`typing`, plus the check that the pattern (argument 2) can be matched as Java would.

    `finds_all`: the function needs the place of every match; `extracts`: of the first match and its groups;
    `takes_empty`: it does something of its own with an empty pattern.
    """

    def checked(arguments: Sequence[Expression]) -> tuple[Sequence[Expression], pa.DataType]:
        typed_arguments, result = typing(arguments)
        pattern = _constant(typed_arguments[1])
        if pattern is None:
            return typed_arguments, result
        try:
            read = java_pattern(pattern)
            _check_ends(read.root, finds_all=finds_all)
            if finds_all and least_width(read.root) == 0 and not (takes_empty and pattern == ""):
                raise RefusedPattern("it matches an empty text too, which engines count differently", 0)
            if (finds_all or extracts) and may_loop_on_nothing(read.root):
                raise RefusedPattern("a repeated part that can be empty", 0)
            pc.match_substring_regex(pa.array([""]), re2(read.root))
        except RefusedPattern as problem:
            raise _refusal(pattern, problem, arguments[1].span) from None
        except pa.ArrowInvalid as problem:
            reason = RefusedPattern(str(problem).rpartition(": ")[2], 0)
            raise _refusal(pattern, reason, arguments[1].span) from None
        return typed_arguments, result

    return checked


def _check_ends(root: RegexNode, *, finds_all: bool) -> None:
    n_last, n_elsewhere = line_ends(root)
    if n_elsewhere:
        raise RefusedPattern("$ or \\Z before the end of the pattern", 0, "Write \\\\z for the very end.")
    if n_last and finds_all:
        raise RefusedPattern(
            "$ and \\Z also match before a last line end", 0, "Write \\\\z for the very end of the text."
        )


# ------------------------------------------------------------------------------------------ whether it matches


@function(
    "rlike",
    "regexp_like",
    "regexp",
    typing=_checked_typing(takes(text, text, result=BOOLEAN)),
    arguments=2,
    constants=(1,),
    signature="text RLIKE pattern",
    summary="Whether a part of the text matches the regular expression.",
    is_operator=True,
)
def _rlike(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    pattern = _constant(expression.arguments[1])
    if pattern is None:
        return Evaluation(pa.scalar(None, BOOLEAN))
    root = java_pattern(pattern).root
    return Evaluation(
        _by_line_end(
            frame.array(arguments[0]),
            root,
            lambda values, crlf: pc.match_substring_regex(values, re2(root, ends_in_crlf=crlf)),
        )
    )


def _by_line_end(
    values: pa.Array, root: RegexNode, compute: Callable[[pa.Array, bool], pa.Array]
) -> pa.Array:
    """`compute` of the values that end in \\r\\n and of the others, as `$` is not the same for both."""
    if line_ends(root) == (0, 0):
        return compute(values, False)
    crlf = pc.ends_with(values, "\r\n")
    if not pc.any(crlf).as_py():
        return compute(values, False)
    return pc.if_else(crlf, compute(values, True), compute(values, False))


# ------------------------------------------------------------------------------------------ what matches first


def _extract_type(arguments: Sequence[Expression]) -> tuple[Sequence[Expression], pa.DataType]:
    typing = _checked_typing(takes(text, text, integer, result=STRING), extracts=True)
    typed_arguments, result = typing(arguments)
    pattern, number = _constant(typed_arguments[1]), _group_number(typed_arguments)
    if pattern is None or number is None:
        return typed_arguments, result
    read = java_pattern(pattern)
    if not 0 <= number <= read.n_groups:
        raise UnsupportedError(
            f"the regular expression {pattern!r} has no group {number}",
            detail=f"Its groups are 0 (all of the match) to {read.n_groups}.",
            span=arguments[-1].span,
        )
    if number in groups_in_lazy_loops(read.root):
        problem = RefusedPattern(f"group {number} is in a lazy repetition", 0, "Repeat without the second ?.")
        raise _refusal(pattern, problem, arguments[1].span)
    body, _ = _without_line_end(read.root)
    if number == 0 and line_ends(body) != (0, 0):
        problem = RefusedPattern("$ or \\Z in a part of the pattern", 0, "Write \\\\z for the very end.")
        raise _refusal(pattern, problem, arguments[1].span)
    return typed_arguments, result


def _group_number(arguments: Sequence[Expression]) -> int | None:
    if len(arguments) < 3:
        return 1
    number = arguments[2]
    assert isinstance(number, Literal), "a group number is a constant"
    return None if number.value is None else int(number.value)


def _without_line_end(root: RegexNode) -> tuple[RegexNode, RegexNode | None]:
    """The pattern, and a last `$` of it apart: it must not become part of the match."""
    if isinstance(root, Sequential) and root.parts and root.parts[-1] == Anchor("last line end"):
        return Sequential(root.parts[:-1]), root.parts[-1]
    return root, None


@function(
    "regexp_extract",
    typing=_extract_type,
    arguments=(2, 3),
    constants=(1, 2),
    signature="regexp_extract(text, pattern [, group])",
    summary="What a group (by default the first, 0: all) of the first match matched; an empty text if nothing did.",
)
def _regexp_extract(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    pattern, number = _constant(expression.arguments[1]), _group_number(expression.arguments)
    if pattern is None or number is None:
        return Evaluation(pa.scalar(None, STRING))
    root = java_pattern(pattern).root
    values = frame.array(arguments[0])

    def found(texts: pa.Array, crlf: bool) -> pa.Array:
        body, end = _without_line_end(root)
        written = re2(body, [number], ends_in_crlf=crlf)
        if number == 0:
            written = f"(?P<g0>{written})"
        written += "" if end is None else re2(end, ends_in_crlf=crlf)
        return pc.fill_null(pc.struct_field(pc.extract_regex(texts, written), [0]), "")

    groups = _by_line_end(values, root, found)
    return Evaluation(pc.if_else(values.is_valid(), groups, pa.scalar(None, STRING)))


# ------------------------------------------------------------------------------------------ all matches


def _replace_type(arguments: Sequence[Expression]) -> tuple[Sequence[Expression], pa.DataType]:
    typed_arguments, result = _checked_typing(takes(text, text, text, result=STRING), finds_all=True)(
        arguments
    )
    pattern, replacement = _constant(typed_arguments[1]), _constant(typed_arguments[2])
    if pattern is not None and replacement is not None:
        try:
            read = java_pattern(pattern)
            used = re2_replacement(replacement, read.n_groups)
            lazy = sorted(n for n in groups_in_lazy_loops(read.root) if f"\\{n}" in used)
            if lazy:
                raise RefusedPattern(f"group {lazy[0]} is in a lazy repetition", 0)
        except RefusedPattern as problem:
            raise UnsupportedError(
                f"the replacement {replacement!r} cannot be used: {problem.reason}",
                hint=problem.hint,
                span=arguments[2].span,
            ) from None
    return typed_arguments, result


def re2_replacement(replacement: str, n_groups: int) -> str:
    """Java's replacement for RE2: $1 is a group, a backslash takes the meaning of the next character away."""
    written, at = [], 0
    while at < len(replacement):
        c = replacement[at]
        at += 1
        if c == "\\":
            if at == len(replacement):
                raise RefusedPattern("it ends in a backslash", at)
            c = replacement[at]
            at += 1
        elif c == "$":
            start, number = at, 0
            while at < len(replacement) and replacement[at] in "0123456789":
                if at > start and 10 * number + int(replacement[at]) > n_groups:
                    break  # as many digits as make the number of a group
                number = 10 * number + int(replacement[at])
                at += 1
            if at == start:
                raise RefusedPattern(
                    "a $ without a group number", at, "Write \\\\$ for the character itself."
                )
            if number > min(n_groups, 9):
                raise RefusedPattern(f"the pattern has no group {number}, or one beyond 9", start)
            written.append(f"\\{number}")
            continue
        written.append("\\\\" if c == "\\" else c)
    return "".join(written)


@function(
    "regexp_replace",
    typing=_replace_type,
    arguments=3,
    constants=(1, 2),
    signature="regexp_replace(text, pattern, replacement)",
    summary="With every match replaced; $1 in the replacement stands for what group 1 matched.",
)
def _regexp_replace(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    pattern, replacement = map(_constant, expression.arguments[1:])
    if pattern is None or replacement is None:
        return Evaluation(pa.scalar(None, STRING))
    read = java_pattern(pattern)
    written = re2(read.root, range(1, read.n_groups + 1))
    new = re2_replacement(replacement, read.n_groups)
    values = frame.array(arguments[0])
    errors = check_lengths("regexp_replace", _most_bytes(values, written, new), frame, 4 * LONGEST_MADE)
    replaced = _replaced_texts(where_fine(values, errors, frame), written, new)
    too_long = check_lengths("regexp_replace", joined_lengths([replaced], frame.n_rows), frame)
    return Evaluation(replaced, merge_errors(errors, too_long))


def _most_bytes(values: pa.Array, pattern: str, new: str) -> npt.NDArray[np.int64] | None:
    """How many bytes each text has at most once its matches are replaced; None if all of them together have few."""
    n_groups, size = len(re.findall(r"\\[0-9]", new)), len(new.encode())
    if values.nbytes * (1 + n_groups + size) <= LONGEST_MADE:  # no match is empty
        return None
    (mark,) = _unused_marks(values, 1)
    counts = pc.fill_null(pc.count_substring(_replaced_texts(values, pattern, mark), mark), 0)
    n_matches = counts.to_numpy(zero_copy_only=False).astype(np.int64)
    return lengths(values, len(values)) * (1 + n_groups) + n_matches * size


def _replaced_texts(values: pa.Array, pattern: str, replacement: str) -> pa.Array:
    return pc.replace_substring_regex(values, pattern=pattern, replacement=replacement)


# Characters that Unicode gives no meaning, to mark places in a text with.
_MARKS = [chr(code) for code in range(0xFDD0, 0xFDF0)]


def _unused_marks(values: pa.Array, n: int) -> list[str]:
    """Marks that no text has in it."""
    unused = (m for m in _MARKS if not pc.any(pc.match_substring(values, m)).as_py())
    marks = [mark for mark, _ in zip(unused, range(n), strict=False)]
    assert len(marks) == n, "a batch of text has every one of Unicode's noncharacters in it"
    return marks


@function(
    "regexp_count",
    typing=_checked_typing(takes(text, text, result=INT), finds_all=True),
    arguments=2,
    constants=(1,),
    signature="regexp_count(text, pattern)",
    summary="How many parts of the text match.",
)
def _regexp_count(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    pattern = _constant(expression.arguments[1])
    if pattern is None:
        return Evaluation(pa.scalar(None, INT))
    values = frame.array(arguments[0])
    # Arrow's own count forgets what was before a match, and so would find ^ more than once.
    (mark,) = _unused_marks(values, 1)
    marked = _replaced_texts(values, re2(java_pattern(pattern).root), mark)
    return Evaluation(pc.count_substring(marked, mark))


@function(
    "split",
    typing=_checked_typing(
        takes(text, text, exactly(INT), result=TEXTS),
        finds_all=True,
        takes_empty=True,
    ),
    arguments=(2, 3),
    constants=(1, 2),
    signature="split(text, pattern [, limit])",
    summary="The parts between matches of a regular expression; with a positive limit at most so many parts.",
)
def _split(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    pattern = _constant(expression.arguments[1])
    limit = expression.arguments[2] if len(expression.arguments) == 3 else Literal(INT, -1)
    assert isinstance(limit, Literal), "a limit is a constant"
    if pattern is None or limit.value is None:
        return Evaluation(pa.scalar(None, TEXTS))
    if pattern == "":
        return rowwise(lambda whole: _characters(whole, limit.value), arguments[:1], frame, TEXTS)
    values = frame.array(arguments[0])
    written = re2(java_pattern(pattern).root)
    if limit.value <= 0 or limit.value > MOST_ELEMENTS:  # more parts are made of no text
        (mark,) = _unused_marks(values, 1)
        marked = _replaced_texts(values, written, mark)
        counts = pc.fill_null(pc.count_substring(marked, mark), 0).to_numpy(zero_copy_only=False)
        errors = check_counts("split", counts.astype(np.int64) + 1, frame)
        return Evaluation(pc.split_pattern(where_fine(marked, errors, frame), mark), errors)
    before, after = _unused_marks(values, 2)
    marked = _replaced_texts(values, written, rf"{before}\0{after}")

    def parts(whole: str) -> list[str]:
        first, *rest = whole.split(before, limit.value - 1)
        cut = [first, *(part.partition(after)[2] for part in rest)]
        return [*cut[:-1], cut[-1].replace(before, "").replace(after, "")]

    return rowwise(parts, [Evaluation(marked)], frame, TEXTS)


def _characters(whole: str, limit: int) -> list[str]:
    """The characters one by one, the last part with the rest if there is a limit."""
    check_elements("split", len(whole) if limit <= 0 else min(limit, len(whole)))
    if limit <= 0 or limit >= len(whole):
        return list(whole) or [""]
    return [*whole[: limit - 1], whole[limit - 1 :]]
