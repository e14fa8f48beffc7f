"""Why rows of several streams match a join or do not, and why so few do.

Conditions are asked about one row of each input, or about the last rows of each stream: first what a query says of an input
alone, then the equalities, then all that is about several inputs. What depends on when rows arrive, such as being among the
newest hundred, is unknown from rows alone and is left out, with a note.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.catalog import QueryRecord
from eddyline.documents import ClauseVerdict, InputWhyNot, JoinWhy, JoinWhyNot, WhyNot
from eddyline.engine import RoundEngine
from eddyline.errors import SchemaError, UnknownNameError, did_you_mean
from eddyline.explain.explanations import all_clauses, condition_texts, view_words
from eddyline.explain.join_state import key_words
from eddyline.expressions import Frame
from eddyline.filters import evaluated_expression, why, why_not
from eddyline.model import (
    AGE,
    BEHIND,
    OLDER,
    Atom,
    AtomKind,
    Call,
    Clause,
    Column,
    Condition,
    Input,
    JoinKey,
    Shape,
    joined_name,
)
from eddyline.sources import ingest
from eddyline.sql import column_words, input_words, over_joined
from eddyline.types import BOOLEAN

MOST_PAIRS = 50_000  # that are looked at for `why_not`

Numbers = npt.NDArray[np.int64]


# --------------------------------------------------------------------------------------------- one row of each


def why_join(
    rounds: RoundEngine, record: QueryRecord, row_values: Mapping[str, Any], recorded: Sequence[pa.Array] = ()
) -> JoinWhy:
    """What each condition of a join says about one row of each input, given by its alias; missing columns are NULL.

    Also as `alias.column`: value. If no row is given of the side of an outer join that may find no match, it is about a row that
    nothing matches. Raises UnknownNameError or SchemaError for what does not fit.
    """
    shape = record.shape
    rows = _rows_by_alias(shape, row_values)
    names: list[str] = []
    columns: list[pa.Array] = []
    for place, entry in enumerate(shape.inputs):
        stream = rounds.catalog.stream(entry.stream)
        ingested = ingest(stream, [dict(rows[entry.alias.lower()])], rounds.time_zone)
        if ingested.misfits:
            raise SchemaError(
                f"the row of {entry.alias} does not fit stream {stream.name}",
                detail=ingested.misfits[0].message,
            )
        names += [joined_name(place, name) for name in ingested.rows.schema.names]
        columns += ingested.rows.columns
    row_clauses, texts, notes = _without_marks(record, is_of_pairs=False, is_alone=_is_alone(shape, rows))
    batch = pa.RecordBatch.from_arrays(columns, names=names)
    found = why(record.name, row_clauses, texts, record.constants, batch, rounds.context(), recorded)
    clauses = tuple(_spoken_verdict(shape, verdict) for verdict in found.clauses)
    return JoinWhy(found.query, found.matches, clauses, found.error, (*found.notes, *notes))


def _rows_by_alias(shape: Shape, row_values: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """By alias in lower case; an input that is not given has NULL in all columns."""
    aliases = [entry.alias for entry in shape.inputs]
    known = {alias.lower() for alias in aliases}
    found: dict[str, dict[str, Any]] = {alias: {} for alias in known}
    for name, value in row_values.items():
        alias, dot, column = name.partition(".")
        if alias.lower() not in known or (not dot and not isinstance(value, Mapping)):
            like = ", ".join(f'"{each}": {{…}}' for each in _written_aliases(shape))
            raise UnknownNameError(
                f"{name} is none of the inputs of this join",
                detail=f"It needs a row of each of its inputs: {', '.join(_written_aliases(shape))}.",
                hint=did_you_mean(alias, aliases, noun="input") if dot else f"Write {{{like}}}.",
            )
        if dot:
            found[alias.lower()][column] = value
        else:
            found[alias.lower()].update(value)
    return dict(found)


def _written_aliases(shape: Shape) -> list[str]:
    return [shape.inputs[place].alias for place in shape.written_order]


def _is_alone(shape: Shape, rows: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether rows are one of the side of an outer join all of whose rows may be results, and none of the other."""
    assert shape.join is not None, shape.key
    left, right = (rows[entry.alias.lower()] for entry in (shape.inputs[0], shape.inputs[-1]))
    return bool(shape.join.signature.outer) and bool(left) and not right


def _without_marks(
    record: QueryRecord, *, is_of_pairs: bool, is_alone: bool = False
) -> tuple[Shape, list[str], list[str]]:
    """The shape with its equalities as conditions and without what depends on arrival, its conditions in words, and notes.

    Pairs that have met already are asked only what is about both; a row that nothing matches, what is not about a match.
    """
    shape = record.shape
    assert shape.join is not None, shape.key
    clauses: list[Clause] = []
    texts: list[str] = []
    if not is_of_pairs and not is_alone:
        clauses += [_key_clause(key) for key in shape.join.signature.keys]
        words = key_words(shape.join.signature, shape.inputs, shape.written_order)
        texts += [
            _key_view(record, key) + text for key, text in zip(shape.join.signature.keys, words, strict=True)
        ]
    notes = _outer_notes(shape, is_alone=is_alone)
    notes += [
        f"also, which depends on when they arrive: the row of the view is in {window}"
        for window in record.view_windows
    ]
    asked = shape.condition.clauses if is_alone else all_clauses(shape)
    for clause, text in zip(asked, condition_texts(record, asked), strict=True):
        if _marks(clause):
            notes.append(f"also, which depends on when they arrive: {text}")
        elif not is_of_pairs or len(_places(clause)) > 1:
            clauses.append(clause)
            texts.append(text)
    return replace(shape, condition=Condition(tuple(clauses), shape.condition.never)), texts, notes


def _outer_notes(shape: Shape, *, is_alone: bool) -> list[str]:
    assert shape.join is not None, shape.key
    left, right = shape.inputs[0].alias, shape.inputs[-1].alias
    if is_alone:
        return [f"no row of {right} is given: this is about a row of {left} that no row of {right} matches"]
    return {
        "left": [f"a row of {left} is a result also where no row of {right} matches it"],
        "left anti": [f"a row of {left} is a result only where no row of {right} matches it"],
    }.get(shape.join.signature.outer, [])


def _places(clause: Clause) -> set[str]:
    nodes = (node for atom in clause.atoms for node in atom.condition.walk() if isinstance(node, Column))
    return {node.name.partition(".")[0] for node in nodes}


def _marks(clause: Clause) -> bool:
    nodes = (node for atom in clause.atoms for node in atom.condition.walk() if isinstance(node, Column))
    return any(node.name.partition(".")[2] in (BEHIND, AGE, OLDER) for node in nodes)


def _key_clause(key: JoinKey) -> Clause:
    left, right = over_joined(key.left_key, key.left), over_joined(key.right_key, key.right)
    return Clause((Atom(AtomKind.RESIDUAL, Call(BOOLEAN, "=", (left, right))),))


def _key_view(record: QueryRecord, key: JoinKey) -> str:
    """The view that has an equality, as `view_words` says it; nothing where a query of WITH is read more than once: its inputs
    stand in one place of the text."""
    inputs = record.shape.inputs
    places = {entry.span for entry in inputs}
    if len(places) < len(inputs):
        return ""
    spans = (inputs[key.left].span, inputs[key.right].span)
    return view_words(record, [span for span in spans if span is not None])


def _spoken_verdict(shape: Shape, verdict: ClauseVerdict) -> ClauseVerdict:
    return replace(
        verdict, values={column_words(shape, name): value for name, value in verdict.values.items()}
    )


# --------------------------------------------------------------------------------------------- the last rows


def why_not_join(
    rounds: RoundEngine, record: QueryRecord, last: int, since: str, notes: Sequence[str]
) -> JoinWhyNot:
    """How the last rows of each stream fared: alone, with the equalities, and, of two streams, as pairs."""
    shape = record.shape
    assert shape.join is not None, shape.key
    inputs = [last_rows(rounds, record, place, last) for place in range(len(shape.inputs))]
    alone = [_alone(rounds, record, place, rows) for place, rows in enumerate(inputs)]
    passed = [np.flatnonzero(each) for _, each in alone]
    streams = tuple(
        replace(alone[place][0], without_partner=_without_partner(rounds, shape, inputs, passed, place))
        for place in shape.written_order
    )
    pair_clauses, texts, mark_notes = _without_marks(record, is_of_pairs=True)
    pairs, is_all = _pairs(rounds, shape, inputs, passed)
    more = [*notes, *mark_notes]
    if len(inputs) > 2:
        more.append("with more than two streams only the conditions on each stream alone are tried")
    elif not is_all:
        more.append(f"only the first {MOST_PAIRS:,} pairs were looked at")
    found = why_not(record.name, pair_clauses, texts, record.constants, pairs, rounds.context(), since, more)
    nearest = found.nearest
    if nearest is not None:
        clauses = tuple(_spoken_verdict(shape, verdict) for verdict in nearest.clauses)
        nearest = JoinWhy(nearest.query, nearest.matches, clauses, nearest.error, nearest.notes)
    row = found.nearest_row
    nearest_row = None if row is None else {column_words(shape, name): value for name, value in row.items()}
    same = {each.name: getattr(found, each.name) for each in fields(WhyNot)}
    return JoinWhyNot(**(same | {"nearest": nearest, "nearest_row": nearest_row}), inputs=streams)


def inputs_alone(rounds: RoundEngine, record: QueryRecord, last: int) -> tuple[InputWhyNot, ...]:
    """How the last rows of each stream of a join fare with the conditions on it alone."""
    found = []
    for place in record.shape.written_order:
        with rounds.lock:
            rows = last_rows(rounds, record, place, last)
        found.append(_alone(rounds, record, place, rows)[0])
    return tuple(found)


def last_rows(rounds: RoundEngine, record: QueryRecord, place: int, last: int) -> pa.RecordBatch:
    """The last rows of one input that a query could see."""
    return last_marked_rows(rounds, record, place, last)[0]


def last_marked_rows(
    rounds: RoundEngine, record: QueryRecord, place: int, last: int
) -> tuple[pa.RecordBatch, npt.NDArray[np.bool_]]:
    """The same, and which of them were late when they came."""
    stream = rounds.catalog.stream(record.shape.inputs[place].stream)
    recent = rounds.recent.get(stream.name.lower())
    if recent is None:
        return pa.RecordBatch.from_pylist([], schema=stream.schema), np.zeros(0, dtype=bool)
    return recent.last_marked(last, stream.schema, since_version=record.version_from)


def _alone(
    rounds: RoundEngine, record: QueryRecord, place: int, rows: pa.RecordBatch
) -> tuple[InputWhyNot, npt.NDArray[np.bool_]]:
    """What a query says of one input alone, and which of its rows that lets through."""
    shape = record.shape
    assert shape.join is not None, shape.key
    entry, condition = shape.inputs[place], shape.join.local[place]
    own = replace(
        shape, inputs=(Input(entry.alias, entry.stream),), projection=(), condition=condition, join=None
    )
    joined = [
        replace(clause, atoms=tuple(_at_place(atom, place) for atom in clause.atoms))
        for clause in condition.clauses
    ]
    texts = tuple(condition_texts(record, joined))
    judged = why_not(record.name, own, texts, record.constants, rows, rounds.context(), "")
    frame = _frame(rounds, record, rows)
    passes = np.ones(rows.num_rows, dtype=bool)
    for clause in condition.clauses:
        truths = [frame.array(evaluated_expression(atom.condition, frame)) for atom in clause.atoms]
        passes &= np.logical_or.reduce([np.asarray(each.fill_null(False)) for each in truths])
    return (
        InputWhyNot(input_words(entry), rows.num_rows, int(passes.sum()), texts, judged.stopped, {}),
        passes,
    )


def _at_place(atom: Atom, place: int) -> Atom:
    """A condition on a stream's own columns, as one on rows of the join."""
    attribute = None if atom.attribute is None else over_joined(atom.attribute, place)
    return replace(atom, condition=over_joined(atom.condition, place), attribute=attribute)


def _frame(rounds: RoundEngine, record: QueryRecord, rows: pa.RecordBatch) -> Frame:
    columns = {("", name): column for name, column in zip(rows.schema.names, rows.columns, strict=True)}
    return Frame(rows.num_rows, columns, list(record.constants), rounds.context())


def _keys_of(
    rounds: RoundEngine, shape: Shape, rows: pa.RecordBatch, place: int, other: int, row_numbers: Numbers
) -> list[tuple[Any, ...] | None]:
    """By row of `row_numbers`, what it brings to the equalities with another input; None where a part is NULL."""
    assert shape.join is not None, shape.key
    columns = {("", name): column for name, column in zip(rows.schema.names, rows.columns, strict=True)}
    frame = Frame(rows.num_rows, columns, [], rounds.context())
    keys = [key for key in shape.join.signature.keys if {key.left, key.right} == {place, other}]
    values = [
        frame.array(evaluated_expression(key.side(place), frame)).take(pa.array(row_numbers)).to_pylist()
        for key in keys
    ]
    if not values:
        return [()] * len(row_numbers)
    return [None if None in row else row for row in zip(*values, strict=True)]


def _without_partner(
    rounds: RoundEngine,
    shape: Shape,
    inputs: Sequence[pa.RecordBatch],
    passed: Sequence[Numbers],
    place: int,
) -> dict[str, int]:
    """By input that an equality connects, how many rows of this one that passed have a key no row there that passed has."""
    assert shape.join is not None, shape.key
    found: dict[str, int] = {}
    for other, entry in enumerate(shape.inputs):
        if any({key.left, key.right} == {place, other} for key in shape.join.signature.keys):
            theirs = set(_keys_of(rounds, shape, inputs[other], other, place, passed[other])) - {None}
            mine = _keys_of(rounds, shape, inputs[place], place, other, passed[place])
            found[input_words(entry)] = sum(key not in theirs for key in mine)
    return found


def _pairs(
    rounds: RoundEngine, shape: Shape, inputs: Sequence[pa.RecordBatch], passed: Sequence[Numbers]
) -> tuple[pa.RecordBatch, bool]:
    """The pairs that the equalities of two inputs let meet, as rows of the join, and whether those are all.

    Of more inputs there are none.
    """
    rows: list[Numbers] = [np.empty(0, np.int64) for _ in inputs]
    is_all = True
    if len(inputs) == 2:
        by_key: dict[tuple[Any, ...] | None, list[int]] = {}
        for row, key in zip(
            passed[1].tolist(), _keys_of(rounds, shape, inputs[1], 1, 0, passed[1]), strict=True
        ):
            by_key.setdefault(key, []).append(row)
        met = [
            (row, other)
            for row, key in zip(
                passed[0].tolist(), _keys_of(rounds, shape, inputs[0], 0, 1, passed[0]), strict=True
            )
            if key is not None
            for other in by_key.get(key, ())
        ]
        is_all = len(met) <= MOST_PAIRS
        rows = [np.array([pair[k] for pair in met[:MOST_PAIRS]], np.int64) for k in (0, 1)]
    names, columns = [], []
    for place, (batch, row_numbers) in enumerate(zip(inputs, rows, strict=True)):
        names += [joined_name(place, name) for name in batch.schema.names]
        columns += batch.take(pa.array(row_numbers)).columns
    return pa.RecordBatch.from_arrays(columns, names=names), is_all
