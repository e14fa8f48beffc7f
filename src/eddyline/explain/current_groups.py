"""The groups of a query as they are now: the entries that are kept for it, with what HAVING and SELECT say of each.

Entries are taken between two rounds; they are judged outside of the engine's locks, since there may be a million.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.catalog import QueryRecord
from eddyline.documents import CurrentGroup, CurrentGroups, Threshold, shown_value
from eddyline.engine import RoundEngine
from eddyline.errors import NotBuiltError, PropertyError, UnknownNameError, did_you_mean
from eddyline.explain.explanations import condition_texts
from eddyline.explain.grouped_query import entry_noun, live_groups
from eddyline.expressions import Context, Frame
from eddyline.filters import evaluated_expression, truth
from eddyline.model import WINDOW, Atom, AtomKind, Expression, QueryState
from eddyline.sql import aggregate_names
from eddyline.types import python_values, type_name

MOST_GROUPS = 10_000  # of one answer
_WINDOW_BOUNDS = [f"{WINDOW}.start", f"{WINDOW}.end"]

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class _Compared:
    threshold: Threshold
    attribute: Expression


def current_groups(
    rounds: RoundEngine,
    record: QueryRecord,
    written_out: QueryRecord,
    *,
    where: Mapping[str, Any] | None = None,
    order: str | None = None,
    limit: int = 100,
    having: bool = True,
) -> CurrentGroups:
    """The groups of a query after the last round: the results, or with `having=False` also what HAVING leaves out.

    `written_out` is the query with the text of its views in place of their names: of a query over a view with aggregates the
    groups of the view are asked.
    """
    if not 1 <= limit <= MOST_GROUPS:
        raise PropertyError(f"limit is {limit}", hint=f"Ask for 1 to {MOST_GROUPS:,} groups.")
    _check(record, written_out)
    judged = record if record.shape.aggregating is not None else written_out
    with rounds.round_lock, rounds.lock:
        context, texts, round_number = rounds.context(), condition_texts(judged), rounds.last_round
        live = live_groups(rounds, record)
        entries = rounds.flow.entries_of(live.aggregation, live.id, context.now_us)
    columns = {} if entries is None else dict(zip(entries.schema.names, entries.columns, strict=True))
    n = 0 if entries is None else entries.num_rows
    frame = Frame(n, {("", name): each for name, each in columns.items()}, list(judged.constants), context)
    compared = _compared(judged, texts, context)
    names = aggregate_names(judged.shape)
    key_names = {name: names[name] for name in live.aggregation.keys}
    key_names |= {} if live.aggregation.window is None else {WINDOW: WINDOW}
    by_name = {each.name: each.expression for each in judged.shape.projection}
    thresholds = [each.threshold for each in compared]
    ordered_by = None if order is None else _ordered_by(order)
    bounds = [] if live.aggregation.window is None else _WINDOW_BOUNDS
    known = dict.fromkeys([*by_name, *key_names.values(), *bounds, *(each.words for each in thresholds)])
    for name in (*(where or {}), *(() if ordered_by is None else (ordered_by[0],))):
        if name not in known:
            hint = did_you_mean(name, known, noun="column")
            raise UnknownNameError(f"there is no column {name} in these groups", hint=hint)
    if entries is None:
        return CurrentGroups(
            [],
            query=record.name,
            round_number=round_number,
            n_total=0,
            n_results=0,
            thresholds=thresholds,
            noun=entry_noun(live.aggregation),
        )
    keys = {name: columns[column] for column, name in key_names.items()}
    is_result = np.ones(n, dtype=bool)
    for clause in judged.shape.condition.clauses:
        is_result &= truth(clause, frame)[0]
    chosen = is_result if having else np.ones(n, dtype=bool)
    for name, value in (where or {}).items():
        chosen &= _equals(name, _column(name, keys, by_name, compared, frame), value)
    places = np.flatnonzero(chosen)
    shown = places[_order(ordered_by, keys, by_name, compared, frame, places)[:limit]]
    keys = {name: column.take(pa.array(shown)) for name, column in keys.items()}
    return CurrentGroups(
        _groups(judged, frame.take(shown), keys, is_result[shown], compared),
        query=record.name,
        round_number=round_number,
        n_total=len(places),
        n_results=int(is_result[places].sum()),
        thresholds=thresholds,
        noun=entry_noun(live.aggregation),
    )


def _check(record: QueryRecord, written_out: QueryRecord) -> None:
    """Refuse a query without groups that are kept."""
    if record.shape.branches:
        raise NotBuiltError(
            f"groups of {record.name}, a query with UNION ALL, are not built in this version",
            hint="Ask for the groups of a query for each part.",
        )
    aggregating = record.shape.aggregating or written_out.shape.aggregating
    if aggregating is None:
        raise PropertyError(
            f"{record.name} has no groups: it has no GROUP BY", hint="Ask for its results, which are rows."
        )
    if aggregating.aggregation.is_over:
        raise PropertyError(
            f"{record.name} has no groups: OVER gives a row for each row, which is never revised",
            hint="Ask for its results.",
        )
    if record.state is not QueryState.RUNNING:
        raise PropertyError(
            f"{record.name} is {record.state.value}, and no groups are kept for it",
            hint="Resume it: groups begin with the rows of the next round.",
        )


def _column(
    name: str,
    keys: Mapping[str, pa.Array],
    by_name: Mapping[str, Expression],
    compared: list[_Compared],
    frame: Frame,
) -> pa.Array:
    """The values of a column of the answer, of a key, or of what a threshold is compared with, by name."""
    if name in keys:
        return keys[name]
    expressions = {each.threshold.words: each.attribute for each in compared} | dict(by_name)
    if name not in expressions and name in _WINDOW_BOUNDS:
        return pc.struct_field(keys[WINDOW], name.removeprefix(f"{WINDOW}."))
    return _values(expressions[name], frame)[0]


def _values(expression: Expression, frame: Frame) -> tuple[pa.Array, npt.NDArray[np.int32]]:
    """The values, and the codes of errors."""
    found = evaluated_expression(expression, frame)
    codes = np.zeros(frame.n_rows, np.int32) if found.errors is None else found.errors
    return frame.array(found), codes


def _equals(name: str, column: pa.Array, value: Any) -> Mask:
    if value is None:
        return np.asarray(column.is_null())
    if pa.types.is_struct(column.type) and isinstance(value, Mapping):
        return _equals_struct(name, column, value)
    try:
        scalar = pa.scalar(value).cast(column.type)
        return np.asarray(pc.equal(column, scalar).fill_null(False))
    except (pa.ArrowException, OverflowError, UnicodeError) as error:
        raise PropertyError(
            f"{name} is {type_name(column.type)}, and cannot equal {shown_value(value)}",
            detail=str(error),
            hint=_by_field(name, column.type) or "Give a value of the column's type.",
        ) from None


def _equals_struct(name: str, column: pa.Array, value: Mapping[str, Any]) -> Mask:
    """A window, by its bounds, or by one of them."""
    fields = [field.name for field in column.type]
    for given in value:
        if given not in fields:
            hint = did_you_mean(given, fields, noun="field")
            raise UnknownNameError(f"there is no field {given} in {name}", hint=hint)
    found = np.ones(len(column), dtype=bool)
    for field, wanted in value.items():
        found &= _equals(f"{name}.{field}", pc.struct_field(column, field), wanted)
    return found


def _by_field(name: str, of: pa.DataType) -> str | None:
    """How to ask for a struct."""
    return f"Ask for a field of it: {name}.{of[0].name}." if pa.types.is_struct(of) else None


def _ordered_by(order: str) -> tuple[str, bool]:
    """The column of an order, and whether the largest comes first."""
    name, _, direction = order.strip().rpartition(" ")
    if name and direction.lower() in ("asc", "desc"):
        return name.strip(), direction.lower() == "desc"
    return order.strip(), False


def _order(
    order: tuple[str, bool] | None,
    keys: Mapping[str, pa.Array],
    by_name: Mapping[str, Expression],
    compared: list[_Compared],
    frame: Frame,
    places: npt.NDArray[np.int64],
) -> npt.NDArray[np.int64]:
    """In which order to show places; by key if nothing is said."""
    if order is None:
        return np.arange(len(places))
    name, is_descending = order
    column = _column(name, keys, by_name, compared, frame)
    if pa.types.is_struct(column.type) and column.type.get_field_index("start") >= 0:
        column = pc.struct_field(column, "start")
    try:
        found = pc.sort_indices(
            column.take(pa.array(places)), sort_keys=[("", "descending" if is_descending else "ascending")]
        )
    except pa.ArrowException:
        raise PropertyError(
            f"groups cannot be ordered by {name}, which is {type_name(column.type)}",
            hint="Name another column.",
        ) from None
    return np.asarray(found).astype(np.int64)


def _compared(record: QueryRecord, texts: Sequence[str], context: Context) -> list[_Compared]:
    """The comparisons of HAVING with a constant number, each by itself a condition."""
    found = []
    names = {each.expression: each.name for each in record.shape.projection}
    one = Frame(1, {}, list(record.constants), context)
    for clause, text in zip(record.shape.condition.clauses, texts, strict=True):
        atom = clause.atoms[0]
        if len(clause.atoms) > 1 or not _is_threshold(atom):
            continue
        assert atom.attribute is not None, text
        assert atom.constant is not None, text
        value = python_values(_values(atom.constant, one)[0])[0]
        left, operator, _ = text.partition(f" {atom.operator} ")
        words = names.get(atom.attribute) or (left if operator else text)
        found.append(_Compared(Threshold(words, atom.operator, value), atom.attribute))
    return found


def _is_threshold(atom: Atom) -> bool:
    """Whether it compares a number of the group with a constant."""
    if atom.kind is not AtomKind.COMPARE or atom.attribute is None or atom.constant is None:
        return False
    of = atom.attribute.type
    return pa.types.is_integer(of) or pa.types.is_floating(of) or pa.types.is_decimal(of)


def _groups(
    record: QueryRecord,
    frame: Frame,
    keys: Mapping[str, pa.Array],
    is_result: Mask,
    compared: list[_Compared],
) -> list[CurrentGroup]:
    projected = {each.name: _values(each.expression, frame) for each in record.shape.projection}
    values = {name: python_values(column) for name, (column, _) in projected.items()}
    key_values = {name: python_values(column) for name, column in keys.items()}
    compared_values = [python_values(_values(each.attribute, frame)[0]) for each in compared]
    failed = np.zeros(frame.n_rows, np.int32)
    for _, codes in projected.values():
        failed = np.where(failed != 0, failed, codes)
    found = []
    for k in range(frame.n_rows):
        key = {name: column[k] for name, column in key_values.items()}
        error = frame.failure(int(failed[k])).message if failed[k] else ""
        row = None if error else {name: column[k] for name, column in values.items()}
        found.append(
            CurrentGroup(
                key, row, bool(is_result[k]) and not error, tuple(c[k] for c in compared_values), error
            )
        )
    return found
