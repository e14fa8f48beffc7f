"""What a rule costs, and what about it is probably not meant."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from eddyline.expressions import Context, Frame, evaluate, is_volatile
from eddyline.model import AtomKind, Call, Clause, Shape, UserCall
from eddyline.sql import aggregate_names, stream_words

INDEXABLE = frozenset((AtomKind.COMPARE, AtomKind.IN, AtomKind.NULL_TEST))
REGULAR_EXPRESSIONS = frozenset(
    ("rlike", "regexp_like", "regexp_extract", "regexp_extract_all", "regexp_replace", "regexp_count")
)


def cost_class(shape: Shape) -> str:
    """What deciding the rule takes at worst.

    index              the constants of all rules are looked up at once; the cheapest
    residual           an expression is computed, on rows the index has not ruled out
    function           a function of the user is called, likewise
    matches everything no condition at all: every row is a result

    That rows of streams are joined is no part of it. A union takes what the worst of its parts does.
    """
    classes = [_cost_class(branch) for branch in shape.all_branches]
    return max(classes, key=_WORSE.index)


_WORSE = ("index", "residual", "function", "matches everything")


def _cost_class(shape: Shape) -> str:
    if not shape.condition.clauses:
        is_plain = shape.join is None and shape.aggregating is None
        return "matches everything" if is_plain else "index"
    kinds = {atom.kind for clause in shape.condition.clauses for atom in clause.atoms}
    if AtomKind.FUNCTION in kinds or any(_functions(clause) for clause in shape.condition.clauses):
        return "function"
    return "residual" if kinds & {AtomKind.RESIDUAL, AtomKind.LIKE} else "index"


def rule_warnings(shape: Shape, constants: Sequence[Any] | None, context: Context) -> Iterator[str]:
    """What is probably not meant. Without `constants` only what holds for every query of the shape."""
    branches = shape.all_branches
    for number, branch in enumerate(branches, 1):
        part = "" if len(branches) == 1 else f"part {number} "
        yield from (f"{part}{warning}" for warning in _branch_warnings(branch, constants, context))


def _branch_warnings(shape: Shape, constants: Sequence[Any] | None, context: Context) -> Iterator[str]:
    clauses = shape.condition.clauses
    yield from endless_groups(shape)
    if not clauses:
        if shape.join is None and shape.aggregating is None:
            yield "matches every row"
        return
    if constants is not None and _can_never_match(shape, constants, context):
        yield "can never match"
        return
    if any(_is_indexed(clause) for clause in clauses):
        return
    functions = sorted({name for clause in clauses for name in _functions(clause)})
    if functions:
        yield f"calls {', '.join(functions)} on every row of {_read(shape)}: no condition narrows it first"
    elif any(_has_regular_expression(clause) for clause in clauses):
        yield f"matches a regular expression on every row of {_read(shape)}: no condition narrows it first"


def endless_groups(shape: Shape) -> Iterator[str]:
    """Groups over streams that are never forgotten, and partitions whose frames have no beginning."""
    aggregating = shape.aggregating
    if aggregating is None or aggregating.aggregation.reads_table:
        return
    aggregation, calls = aggregating.aggregation, aggregating.calls
    names = aggregate_names(shape)
    per = ", ".join(names[key] for key in aggregation.keys)
    if aggregation.is_over:
        if any(found.frame is not None and found.frame.preceding is None for found in calls):
            state = f"one state per {per}" if per else "one state"
            yield f"has a frame without a beginning: {state}, for ever; RANGE BETWEEN INTERVAL … PRECEDING ends it"
    elif per and aggregation.window is None and aggregation.keep_us is None and not aggregation.bounds:
        yield f"has one state per {per}, for ever: keep = '30 days' forgets groups without rows for so long"


def _read(shape: Shape) -> str:
    words = stream_words(replace(shape, branches=()))
    return words if shape.join is None else f"the join of {words}"


def _can_never_match(shape: Shape, constants: Sequence[Any], context: Context) -> bool:
    scalars = [pa.scalar(value, slot.type) for value, slot in zip(constants, shape.slots, strict=True)]
    frame = Frame(1, {}, scalars, context)
    if any(frame.array(evaluate(never, frame))[0].as_py() is True for never in shape.condition.never):
        return True
    for clause in shape.condition.clauses:
        is_constant = all(a.kind is AtomKind.CONSTANT and not is_volatile(a.condition) for a in clause.atoms)
        if is_constant and not any(
            frame.array(evaluate(a.condition, frame))[0].as_py() is True for a in clause.atoms
        ):
            return True
    return False


def _is_indexed(clause: Clause) -> bool:
    return all(atom.kind in INDEXABLE for atom in clause.atoms)


def _functions(clause: Clause) -> set[str]:
    nodes = (node for atom in clause.atoms for node in atom.condition.walk())
    return {node.function for node in nodes if isinstance(node, UserCall)}


def _has_regular_expression(clause: Clause) -> bool:
    nodes = (node for atom in clause.atoms for node in atom.condition.walk())
    return any(isinstance(node, Call) and node.function in REGULAR_EXPRESSIONS for node in nodes)
