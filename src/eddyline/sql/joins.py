"""Joins: a bound query over several inputs as a shape over the rows of its signature.

The inputs get a canonical order, and every column the name it has in joined rows: `0.price` is the price of input 0. Equalities
between two inputs become the keys of the signature, which queries share whatever else they ask; what is left is the shape's
condition, windows included. `join_windows` says which rows of each input must be kept, and refuses what would be kept for ever.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from eddyline.errors import UnsupportedError
from eddyline.expressions import NeedsLiteral, call, fold, is_volatile, time_expression, zone_table
from eddyline.model import (
    Atom,
    Call,
    Clause,
    Column,
    Condition,
    Expression,
    Input,
    Join,
    JoinInput,
    JoinKey,
    Literal,
    ProjectedColumn,
    Role,
    Shape,
    Signature,
    Slot,
    SlotInfo,
    Stream,
    UserCall,
    Variable,
    joined_name,
)
from eddyline.sql.bound_query import BoundQuery, expressions_of
from eddyline.sql.event_time_bounds import EventTimes, Reach, TimeBound, TimeDifference, reach_of
from eddyline.sql.join_windows import (
    JoinEntry,
    RetainedInputs,
    hidden_places,
    refuse_undecided,
    retained_inputs,
)
from eddyline.sql.lexer import Token
from eddyline.sql.normalisation import normalise
from eddyline.sql.sets import refuse_volatile
from eddyline.time_properties import UNIT_US, time_unit
from eddyline.types import BOOLEAN, type_name

_OUTER = ("left", "left anti", "right")
_MATCH_MATTERS = (*_OUTER, "left semi")  # whether there is a match, not only which
_SIGNS = {"": "⋈", "left": "⟕", "left anti": "▷"}
_DIGEST_BYTES = 6  # of the name; two signatures of the same streams must not get the same


def joined_shape(
    bound: BoundQuery,
    slots: tuple[SlotInfo, ...],
    *,
    time_zone: str,
    tokens: Sequence[Token] = (),
    keeps_rows: bool = True,
) -> Shape:
    """The shape of a query over two inputs or more, without its key. One that keeps no rows is only asked about rows.

    Raises UnsupportedError or LimitError, and NeedsLiteral for a constant on which the signature depends.
    """
    outer = _outer(bound.inputs)
    entries = _in_order(bound, outer)
    place_of = {entry.input.alias: at for at, entry in enumerate(entries)}
    parameters = frozenset(slot.index for slot in slots if slot.name is not None)

    def normalised(parts: Iterable[Expression | None]) -> Condition:
        return normalise(
            _all_of([to_joined(part, place_of) for part in parts if part is not None]),
            nullable_slots=parameters,
            time_zone=time_zone,
            tokens=tokens,
        )

    ons = [entry.on for entry in bound.inputs]
    matching = normalised(ons if outer else [*ons, bound.where])
    times = EventTimes(
        [_time(entry.stream) for entry in entries],
        has_fixed_zone=len(zone_table(time_zone).offset_us) == 1,
        parameters=parameters,
        units_us=[UNIT_US[time_unit(entry.stream) or "us"] for entry in entries],
        expressions=_time_expressions(entries),
    )
    keys, remaining_clauses, differences = _split_clauses(matching.clauses, times, parameters)
    bounds = [found for difference in differences for found in difference.bounds]
    _refuse_unconnected(entries, matching.clauses)
    hidden = hidden_places(entries, keys)
    reach_now = reach_of(len(entries), bounds)
    retained = retained_inputs(entries, keys, reach_now, differences, keeps_rows=keeps_rows)
    matching, reach = _bounded_condition(
        replace(matching, clauses=remaining_clauses), retained, [*bounds, *retained.bounds]
    )
    if outer:
        refuse_undecided(entries, retained.roles, reach)
        _refuse_unrepeatable(remaining_clauses, bound.inputs)
    signature = _signature(entries, retained.roles, hidden, keys, outer)
    if signature.is_counted or (outer and signature.is_of_tables):
        words = next(each.join_words for each in bound.inputs if each.join in _MATCH_MATTERS)
        refuse_volatile(tuple(expressions_of(bound)), f"{words} of tables")
    condition = normalised([bound.where]) if outer else matching
    # Of an outer join's left only WHERE can leave out rows, of its right only ON.
    local = tuple(
        _local(place, condition.clauses if outer and not place else remaining_clauses)
        for place in range(len(entries))
    )
    return Shape(
        "",
        tuple(replace(e.input, window=window) for e, window in zip(entries, retained.windows, strict=True)),
        tuple(
            ProjectedColumn(p.name, fold(to_joined(p.expression, place_of), time_zone=time_zone))
            for p in bound.projection
        ),
        condition,
        slots,
        bound.functions,
        Join(signature, reach, local, matching if outer else Condition()),
        bound.distinct is not None,
        bound.is_one_set,
    )


# ------------------------------------------------------------------------------------------------ inputs


def _outer(inputs: Sequence[Input]) -> str:
    """left, left anti, or nothing if only matches are results. RIGHT JOIN is LEFT JOIN with its sides exchanged."""
    found = next((entry for entry in inputs if entry.join in _OUTER), None)
    if found is None:
        return ""
    if len(inputs) > 2:
        raise UnsupportedError(
            f"{found.join_words} takes two inputs, this query has {len(inputs)}",
            span=found.span,
            hint="Join two inputs per query, or write JOIN where a match is needed anyway.",
        )
    return "left" if found.join == "right" else found.join


def _in_order(bound: BoundQuery, outer: str) -> list[JoinEntry]:
    """The inputs as the signature has them: by stream, those of one stream as in FROM; of an outer join, the one all of whose
    rows are results before the other."""
    entries = [JoinEntry(entry, stream) for entry, stream in zip(bound.inputs, bound.streams, strict=True)]
    if bound.inputs[-1].join == "right":
        return entries[::-1]
    return entries if outer else sorted(entries, key=lambda entry: entry.stream.name.lower())


def _time(stream: Stream) -> tuple[str, pa.DataType] | None:
    return None if stream.time is None else (stream.time, stream.schema.field(stream.time).type)


def _time_expressions(entries: Sequence[JoinEntry]) -> dict[Expression, int]:
    """The times that are computed from columns, over joined rows."""
    found: dict[Expression, int] = {}
    for place, entry in enumerate(entries):
        time = _time(entry.stream)
        computed = None
        if time is not None:
            computed = time_expression(entry.stream, Column(time[1], joined_name(place, time[0])))
        if computed is not None:
            found[computed] = place
    return found


def _refuse_unconnected(entries: Sequence[JoinEntry], clauses: Sequence[Clause]) -> None:
    """Refuse an input that no condition connects to another, unless all are windowed: then it is meant."""
    connected: set[int] = set()
    for clause in clauses:
        places = _places(*_conditions(clause))
        connected |= places if len(places) > 1 else set()
    if len(connected) == len(entries) or all(entry.window is not None for entry in entries):
        return
    alone = [entry for at, entry in enumerate(entries) if at not in connected]
    last = max(alone, key=lambda entry: entry.input.span.start if entry.input.span is not None else 0)
    raise UnsupportedError(
        f"no condition connects {last.label} to the rest of the query",
        span=last.input.span,
        detail="Each of its rows would meet every row of the others.",
        hint="Add a condition such as ON a.id = b.id. If every pair is meant, say of how many rows: recent(stream, 100).",
    )


# ------------------------------------------------------------------------------------------------ names


def to_joined(e: Expression, place_of: Mapping[str, int]) -> Expression:
    """The expression over joined rows; `place_of` has the place of each input by its alias."""

    def renamed(column: Column) -> Column:
        return replace(column, name=joined_name(place_of[column.input], column.name), input="")

    return _with_columns(e, renamed)


def _to_own(e: Expression) -> Expression:
    """The expression over the columns of the one stream whose columns are in it."""
    return _with_columns(e, lambda column: replace(column, name=column.name.partition(".")[2]))


def _with_columns(e: Expression, renamed: Callable[[Column], Column]) -> Expression:
    if isinstance(e, Column):
        return renamed(e)
    if isinstance(e, (Call, UserCall)):
        return replace(e, arguments=tuple(_with_columns(a, renamed) for a in e.arguments))
    return e


def _places(*expressions: Expression) -> set[int]:
    """The inputs whose columns are in these."""
    columns = (node.name for e in expressions for node in e.walk() if isinstance(node, Column))
    return {int(name.partition(".")[0]) for name in columns}


def _conditions(clause: Clause) -> tuple[Expression, ...]:
    return tuple(atom.condition for atom in clause.atoms)


def _all_of(parts: Sequence[Expression]) -> Expression | None:
    return None if not parts else parts[0] if len(parts) == 1 else call("and", parts)


# ------------------------------------------------------------------------------------------------ conditions


def _split_clauses(
    clauses: Sequence[Clause], times: EventTimes, parameters: frozenset[int]
) -> tuple[tuple[JoinKey, ...], tuple[Clause, ...], list[TimeDifference]]:
    """The equalities between inputs, the clauses that are left, and what all of them say of event time."""
    keys: set[JoinKey] = set()
    remaining_clauses: dict[tuple[Atom, ...], Clause] = {}
    differences: list[TimeDifference] = []
    for clause in clauses:
        difference = times.difference(clause)
        if difference is not None:
            differences.append(difference)
        key = _key(clause, parameters)
        if key is not None:
            keys.add(key)
            continue
        if difference is not None:
            clause = times.rewritten(clause, difference)
        remaining_clauses.setdefault(clause.atoms, clause)
    return tuple(sorted(keys, key=_key_text)), tuple(remaining_clauses.values()), differences


def _key(clause: Clause, parameters: frozenset[int]) -> JoinKey | None:
    """The equality of two inputs that a clause is. Raises NeedsLiteral for a constant in it: it is part of the signature."""
    condition = clause.atoms[0].condition
    if len(clause.atoms) > 1 or not isinstance(condition, Call) or condition.function != "=":
        return None
    sides = sorted(condition.arguments, key=lambda side: sorted(_places(side)))
    places = [_places(side) for side in sides]
    if any(len(found) != 1 for found in places) or places[0] == places[1] or is_volatile(condition):
        return None
    slots = [node.index for node in condition.walk() if isinstance(node, Slot)]
    if parameters.intersection(slots):
        return None
    if slots:
        raise NeedsLiteral(*slots)
    return JoinKey(places[0].pop(), places[1].pop(), _to_own(sides[0]), _to_own(sides[1]))


def _bounded_condition(
    matching: Condition, retained: RetainedInputs, bounds: Sequence[TimeBound]
) -> tuple[Condition, Reach]:
    """The condition with its windows, and how far event times can be apart. Where no times fulfil it, it is never true."""
    n_inputs = len(retained.roles)
    reach = reach_of(n_inputs, bounds)
    never = matching.never
    if reach is None:
        never = tuple(dict.fromkeys((*never, Literal(BOOLEAN, True))))
        reach = ((0,) * n_inputs,) * n_inputs
    return Condition((*matching.clauses, *retained.clauses), never), reach


def _refuse_unrepeatable(clauses: Sequence[Clause], inputs: Sequence[Input]) -> None:
    """Refuse functions that answer anew each time where it must stay known that there was no match."""
    where = inputs[1].written or f"ON of {inputs[1].join_words}"
    for clause in clauses:
        for node in (node for e in _conditions(clause) for node in e.walk()):
            if isinstance(node, UserCall) and not node.is_deterministic:
                raise UnsupportedError(
                    f"{node.function} is not deterministic and cannot stand in {where}",
                    span=node.span,
                    detail="Whether a row has no match is decided over many rounds, and must not change in between.",
                    hint="Write it in WHERE, or declare the function deterministic.",
                )


def _local(place: int, clauses: Sequence[Clause]) -> Condition:
    """What is said of one input alone, over its own columns. What changes from round to round is not."""
    return Condition(
        tuple(
            _own_clause(clause)
            for clause in clauses
            if _places(*_conditions(clause)) == {place} and not any(map(is_volatile, _conditions(clause)))
        )
    )


def _own_clause(clause: Clause) -> Clause:
    return replace(clause, atoms=tuple(_own_atom(atom) for atom in clause.atoms))


def _own_atom(atom: Atom) -> Atom:
    attribute = None if atom.attribute is None else _to_own(atom.attribute)
    return replace(atom, condition=_to_own(atom.condition), attribute=attribute)


# ------------------------------------------------------------------------------------------------ signatures


def _signature(
    entries: Sequence[JoinEntry],
    roles: Sequence[Role],
    hidden: Collection[int],
    keys: tuple[JoinKey, ...],
    outer: str,
) -> Signature:
    inputs = tuple(
        JoinInput(entry.stream.name, role, entry.stream.n_components, at not in hidden)
        for at, (entry, role) in enumerate(zip(entries, roles, strict=True))
    )
    parts = [
        f"{entry.stream.lower()} {entry.role.value}"
        + (f" {entry.n_components}" if entry.n_components > 1 else "")
        + ("" if entry.is_shown else " once")
        for entry in inputs
    ]
    parts += [" ".join(map(str, _key_text(key))) for key in keys]
    digest = hashlib.blake2s("\n".join([outer, *parts]).encode(), digest_size=_DIGEST_BYTES).hexdigest()
    streams = f" {_SIGNS[outer]} ".join(entry.stream for entry in inputs)
    return Signature(f"{streams} #{digest}", inputs, keys, outer)


def _key_text(key: JoinKey) -> tuple[int, int, str, str]:
    return key.left, key.right, _text(key.left_key), _text(key.right_key)


def _text(e: Expression) -> str:
    """A text that differs for expressions that differ, types and versions included."""
    if isinstance(e, Column):
        text = repr(e.name)
    elif isinstance(e, Literal):
        text = f"={e.value!r}"
    elif isinstance(e, Variable):
        text = f"#{e.number}"
    else:
        assert isinstance(e, (Call, UserCall)), f"{type(e).__name__} in a key"
        version = f"@{e.version}" if isinstance(e, UserCall) else ""
        text = f"{e.function}{version}({', '.join(map(_text, e.arguments))})"
    return f"{text}:{type_name(e.type)}"
