"""Shapes, streams and constants as JSON: the bound form is what is stored, so that reopening parses nothing.

The format is part of the home's format version: a change of a node here needs a migration.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from eddyline.catalog.aggregation_codec import aggregating_from, aggregating_to
from eddyline.catalog.value_codec import natural_value
from eddyline.catalog.value_codec import type_from as type_from
from eddyline.catalog.value_codec import value_from as value_from
from eddyline.catalog.value_codec import value_to as value_to
from eddyline.errors import Span
from eddyline.model import (
    Atom,
    AtomKind,
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
    Properties,
    Role,
    Shape,
    Signature,
    Slot,
    SlotInfo,
    Stream,
    UnionPart,
    UnnamedView,
    UserCall,
    Variable,
    Window,
    pattern_atom,
)
from eddyline.nesting import deep
from eddyline.types import type_name

_JSON = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)
_FROM_JSON = json.JSONDecoder()


@deep
def dump(value: Any) -> str:
    return _JSON.encode(value)


# --------------------------------------------------------------------------------------------- expressions


@deep
def expression_to(expression: Expression, *, spans: bool = True) -> list[Any]:
    """Without `spans`, what it means and not where in a text it was."""
    t, span = type_name(expression.type), _span_to(expression.span) if spans else None
    if isinstance(expression, Literal):
        return ["literal", t, span, value_to(expression.value, expression.type)]
    if isinstance(expression, Column):
        return ["column", t, span, expression.name, expression.input]
    if isinstance(expression, Slot):
        return ["slot", t, span, expression.index]
    if isinstance(expression, Variable):
        return ["variable", t, span, expression.number, expression.name]
    if isinstance(expression, UserCall):
        rest = [expression.version, expression.is_deterministic, expression.occurrence]
        return ["user", t, span, expression.function, *rest, _all_to(expression.arguments, spans)]
    assert isinstance(expression, Call), f"{type(expression).__name__} cannot be stored"
    return ["call", t, span, expression.function, _all_to(expression.arguments, spans)]


@deep
def expression_from(stored: list[Any]) -> Expression:
    kind, t, span = stored[0], type_from(stored[1]), _span_from(stored[2])
    if kind == "literal":
        return Literal(t, natural_value(value_from(stored[3], t), t), span=span)
    if kind == "column":
        return Column(t, stored[3], stored[4], span=span)
    if kind == "slot":
        return Slot(t, stored[3], span=span)
    if kind == "variable":
        return Variable(t, stored[3], stored[4], span=span)
    if kind == "user":
        name, version, is_deterministic, occurrence, arguments = stored[3:]
        return UserCall(t, name, _all_from(arguments), version, is_deterministic, occurrence, span=span)
    assert kind == "call", kind
    return Call(t, stored[3], _all_from(stored[4]), span=span)


def _all_to(expressions: tuple[Expression, ...], spans: bool) -> list[Any]:
    return [expression_to(expression, spans=spans) for expression in expressions]


def _all_from(stored: list[Any]) -> tuple[Expression, ...]:
    return tuple(expression_from(argument) for argument in stored)


def _optional_to(expression: Expression | None, spans: bool) -> list[Any] | None:
    return None if expression is None else expression_to(expression, spans=spans)


def _optional_from(stored: list[Any] | None) -> Expression | None:
    return None if stored is None else expression_from(stored)


def _span_to(span: Span | None) -> list[int] | None:
    return None if span is None else [span.start, span.end]


def _span_from(stored: list[int] | None) -> Span | None:
    return None if stored is None else Span(*stored)


# --------------------------------------------------------------------------------------------- shapes


def shape_to(shape: Shape) -> str:
    return dump(_shape_body(shape, spans=True))


def shape_meaning(shape: Shape) -> str:
    """The same text for two shapes that do the same, wherever in a query their parts were."""
    return dump(_shape_body(shape, spans=False))


def _shape_body(shape: Shape, *, spans: bool) -> dict[str, Any]:
    return {
        "key": shape.key,
        "inputs": [_input_to(entry, spans) for entry in shape.inputs],
        "projection": [[p.name, expression_to(p.expression, spans=spans)] for p in shape.projection],
        "clauses": _clauses_to(shape.condition, spans),
        "never": _all_to(shape.condition.never, spans),
        "slots": [[slot.index, type_name(slot.type), slot.name, slot.is_list] for slot in shape.slots],
        "group_by": [],
        "having": None,
        "qualify": None,
        "functions": [list(function) for function in shape.functions],
        **({} if shape.join is None else {"join": _join_to(shape.join, spans)}),
        **({} if shape.aggregating is None else {"aggregating": aggregating_to(shape.aggregating)}),
        **({"distinct": True} if shape.is_distinct else {}),
        **({"one_set": True} if shape.is_one_set else {}),
        **(
            {"branches": [_shape_body(each, spans=spans) for each in shape.branches]}
            if shape.branches
            else {}
        ),
        **(
            {"parts": [[part.number, _span_to(part.tokens)] for part in shape.parts]}
            if spans and shape.parts
            else {}
        ),
    }


@deep
def shape_from(stored: str) -> Shape:
    return _shape_of(json.loads(stored))


def _shape_of(s: dict[str, Any]) -> Shape:
    return Shape(
        key=s["key"],
        inputs=tuple(_input_from(entry) for entry in s["inputs"]),
        projection=tuple(ProjectedColumn(name, expression_from(e)) for name, e in s["projection"]),
        condition=_condition_from(s["clauses"], s["never"]),
        slots=tuple(SlotInfo(index, type_from(t), name, is_list) for index, t, name, is_list in s["slots"]),
        functions=tuple((name, version) for name, version in s["functions"]),
        join=_join_from(s["join"]) if "join" in s else None,
        aggregating=aggregating_from(s["aggregating"]) if "aggregating" in s else None,
        is_distinct=s.get("distinct", False),
        is_one_set=s.get("one_set", False),
        branches=tuple(replace(_shape_of(each), branch=k) for k, each in enumerate(s.get("branches", ()), 1)),
        parts=tuple(UnionPart(number, _span_from(tokens)) for number, tokens in s.get("parts", ())),
    )


def _clauses_to(condition: Condition, spans: bool) -> list[Any]:
    return [
        [_span_to(c.tokens) if spans else None, [_atom_to(atom, spans) for atom in c.atoms]]
        for c in condition.clauses
    ]


def _condition_to(condition: Condition, spans: bool) -> list[Any]:
    return [_clauses_to(condition, spans), _all_to(condition.never, spans)]


def _condition_from(clauses: list[Any], never: list[Any]) -> Condition:
    found = tuple(Clause(tuple(_atom_from(a) for a in atoms), _span_from(span)) for span, atoms in clauses)
    return Condition(found, _all_from(never))


def _join_to(join: Join, spans: bool) -> dict[str, Any]:
    signature = join.signature
    return {
        "name": signature.name,
        "inputs": [_join_input_to(entry) for entry in signature.inputs],
        "keys": [[k.left, k.right, *_all_to((k.left_key, k.right_key), spans)] for k in signature.keys],
        "outer": signature.outer,
        "reach_us": [list(row) for row in join.reach_us],
        "local": [_condition_to(condition, spans) for condition in join.local],
        "on": _condition_to(join.on, spans),
    }


def _join_input_to(entry: JoinInput) -> list[Any]:
    others: list[Any] = [] if entry.is_shown else [entry.n_components, False]
    if entry.is_shown and entry.n_components > 1:
        others = [entry.n_components]
    return [entry.stream, entry.role.value, *others]


def _join_from(stored: dict[str, Any]) -> Join:
    signature = Signature(
        stored["name"],
        tuple(JoinInput(stream, Role(role), *others) for stream, role, *others in stored["inputs"]),
        tuple(JoinKey(left, right, *_all_from(sides)) for left, right, *sides in stored["keys"]),
        stored["outer"],
    )
    reach_us = tuple(tuple(row) for row in stored["reach_us"])
    local = tuple(_condition_from(*condition) for condition in stored["local"])
    return Join(signature, reach_us, local, _condition_from(*stored["on"]))


def _input_to(entry: Input, spans: bool) -> list[Any]:
    window = None if entry.window is None else [entry.window.n_rows, entry.window.duration_us]
    span = _span_to(entry.span) if spans else None
    stored = [entry.alias, entry.stream, window, entry.join, _optional_to(entry.on, spans), span]
    if entry.view is None:
        return stored
    return [*stored, _shape_body(entry.view.shape, spans=spans), entry.view.words if spans else None]


def _input_from(stored: list[Any]) -> Input:
    alias, stream, window, join, on, span, *view = stored
    return Input(
        alias,
        stream,
        None if window is None else Window(*window),
        join,
        _optional_from(on),
        _span_from(span),
        view=UnnamedView(_shape_of(view[0]), view[1]) if view else None,
    )


def _atom_to(atom: Atom, spans: bool) -> list[Any]:
    if atom.kind is AtomKind.LIKE:  # as homes had it before there was this kind: nothing but the condition
        atom = Atom(AtomKind.RESIDUAL, atom.condition)
    return [
        atom.kind.value,
        expression_to(atom.condition, spans=spans),
        _optional_to(atom.attribute, spans),
        atom.operator,
        _optional_to(atom.constant, spans),
    ]


def _atom_from(stored: list[Any]) -> Atom:
    kind, stored_condition, attribute, operator, constant = stored
    condition = expression_from(stored_condition)
    if AtomKind(kind) is AtomKind.RESIDUAL:
        return pattern_atom(condition) or Atom(AtomKind.RESIDUAL, condition)
    return Atom(
        AtomKind(kind),
        condition,
        _optional_from(attribute),
        operator,
        _optional_from(constant),
    )


# --------------------------------------------------------------------------------------------- streams, properties, constants


def stream_to(stream: Stream) -> str:
    return dump(
        {
            "name": stream.name,
            "columns": [[f.name, type_name(f.type), f.nullable] for f in stream.schema],
            "time": stream.time,
            "lateness_us": stream.lateness_us,
            "key": list(stream.key),
            "source": stream.source,
            "options": [list(pair) for pair in stream.options],
            "properties": [list(pair) for pair in stream.properties],
            **({"discovered": list(stream.discovered)} if stream.discovered else {}),
        }
    )


def stream_from(stored: str) -> Stream:
    s = json.loads(stored)
    return Stream(
        name=s["name"],
        schema=pa.schema([pa.field(name, type_from(t), nullable) for name, t, nullable in s["columns"]]),
        time=s["time"],
        lateness_us=s["lateness_us"],
        key=tuple(s["key"]),
        source=s["source"],
        options=tuple((k, v) for k, v in s["options"]),
        properties=tuple((k, v) for k, v in s["properties"]),
        discovered=tuple(s.get("discovered", ())),
    )


_PLAIN = Properties()


def properties_to(properties: Properties) -> str:
    """Only what differs from the default: most queries have nothing to say."""
    if properties == _PLAIN:
        return ""
    stated = {
        name: value
        for name in Properties.__slots__
        if (value := getattr(properties, name)) != getattr(_PLAIN, name)
    }
    return dump(stated)


def properties_from(stored: str) -> Properties:
    if not stored:
        return _PLAIN
    stated: dict[str, Any] = json.loads(stored)
    for name in ("per", "deliver"):
        if name in stated:
            stated[name] = tuple(stated[name])
    return Properties(**stated)


def constants_writer(shape: Shape) -> Callable[[Sequence[Any]], str]:
    """What turns a query's constants into text. Made once per shape: there are a million queries to a shape."""
    types = [slot.type for slot in shape.slots]
    plain = [at for at, t in enumerate(types) if _is_plain(t)]
    converted = [(at, t) for at, t in enumerate(types) if not _is_plain(t)]

    def write(constants: Sequence[Any]) -> str:
        values = list(constants)
        assert len(values) == len(types), f"{len(values)} constants for {len(types)} slots"
        for at, t in converted:
            values[at] = value_to(values[at], t)
        for at in plain:
            if isinstance(values[at], pa.Scalar):
                values[at] = values[at].as_py()
        return dump(values)

    return write


def constants_reader(shape: Shape) -> Callable[[str], list[Any]]:
    """The inverse of `constants_writer`."""
    types = [slot.type for slot in shape.slots]
    converted = [(at, _reader(t)) for at, t in enumerate(types) if not _is_plain(t)]

    def read(stored: str) -> list[Any]:
        values: list[Any] = _FROM_JSON.raw_decode(stored)[0]
        assert len(values) == len(types), f"{len(values)} constants for {len(types)} slots"
        for at, convert in converted:
            if values[at] is not None:
                values[at] = convert(values[at])
        return values

    return read


def _is_plain(t: pa.DataType) -> bool:
    """JSON has its values as they are."""
    return bool(pa.types.is_string(t) or pa.types.is_integer(t) or pa.types.is_boolean(t))


def _reader(t: pa.DataType) -> Callable[[Any], Any]:
    return float.fromhex if pa.types.is_floating(t) else lambda stored: value_from(stored, t)


def columns_to(columns: list[pa.Array], names: list[str]) -> bytes:
    """Columns of constants as one Arrow stream."""
    sink = pa.BufferOutputStream()
    batch = pa.RecordBatch.from_arrays(columns, names=names)
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def columns_from(stored: bytes) -> list[pa.Array]:
    with pa.ipc.open_stream(stored) as reader:
        table = reader.read_all().combine_chunks()
    return [column.chunk(0) if column.num_chunks else pa.array([], column.type) for column in table.columns]
