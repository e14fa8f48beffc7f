"""Shapes: texts equal but for constants are parsed and bound once.

A text is lexed; its skeleton finds a *family*, which knows what each constant decides:

    exact     only its SQL type matters
    met       only the type in which it meets what it is compared with: 9.5 and 10.25 are both DOUBLE beside a DOUBLE column
    pinned    its value matters, because the bound form depends on it: it is a literal of the shape

From that the key of the shape follows, and from the shape the type each slot's value is converted to. Nothing is parsed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from typing import Any

import pyarrow as pa

from eddyline import types
from eddyline.errors import (
    EddylineError,
    LimitError,
    ParseError,
    Span,
    TypeMismatchError,
    UnknownNameError,
    UnsupportedError,
    did_you_mean,
)
from eddyline.expressions import CONSTANT_BYTES, Budget, NeedsLiteral, common_type, constants_within, fold
from eddyline.model import (
    Expression,
    Literal,
    ProjectedColumn,
    Properties,
    Shape,
    Slot,
    SlotInfo,
    Stream,
    UnionPart,
)
from eddyline.nesting import deep_recursion
from eddyline.sql import lexer, syntax
from eddyline.sql.aggregate_refusals import Emission
from eddyline.sql.aggregations import DEFAULT_EMISSION, emission_of
from eddyline.sql.bind import KnownFunctions
from eddyline.sql.bound_query import BoundQuery, slots_in, with_slots
from eddyline.sql.constant_types import convert, list_like, meeting_type, typed_constant
from eddyline.sql.constants import WRITTEN_SHARE, check_constants
from eddyline.sql.joins import joined_shape
from eddyline.sql.lexer import Constant, Token, tokens_of
from eddyline.sql.literals import string_value
from eddyline.sql.normalisation import normalise
from eddyline.sql.parse import ParsedText, parse_query
from eddyline.sql.readable_streams import Streams, StreamTable
from eddyline.sql.select import bind_query
from eddyline.sql.sets import is_table
from eddyline.sql.unnamed_views import with_key
from eddyline.stream_properties import window_of
from eddyline.time_properties import time_format, time_unit


class _WrongConstant(Exception):
    """A constant of a known skeleton cannot be what its place asks for."""

    def __init__(self, number: int, error: EddylineError) -> None:
        super().__init__(number)
        self.number = number
        self.error = error


# ------------------------------------------------------------------------------------------------ while binding


class SlotConstants:
    """Constants as slots, but for intervals and those pinned. Learns what each decides."""

    def __init__(
        self,
        parsed: ParsedText[syntax.AnyQuery],
        pinned: frozenset[int],
        parameters: Mapping[str, pa.DataType],
        time_zone: str,
    ) -> None:
        self._constants = parsed.constants
        self._spans = parsed.spans
        self._pinned_numbers = pinned
        self._parameters = parameters
        self._time_zone = time_zone
        self.compared_types: dict[int, pa.DataType] = {}  # constant number: the type it was compared with
        self.slots: list[SlotInfo] = []
        self.numbers: list[int] = []  # per slot, the constant it stands for
        self._slot_of: dict[int | tuple[str, pa.DataType], int] = {}
        self.pins: set[int] = set()  # constants that turned out to be literals of the shape, too
        for number, constant in enumerate(self._constants):
            if constant.kind == lexer.PARAMETER:
                t = self._parameter_type(constant.raw, self._spans[number])
                self._allocate((constant.raw, t), number, t, constant.raw)
            elif constant.kind != lexer.INTERVAL and number not in pinned:
                t, _ = typed_constant(constant, time_zone, self._spans[number])
                self._allocate(number, number, t, None)

    def _parameter_type(self, name: str, span: Span) -> pa.DataType:
        t = self._parameters.get(name)
        if t is None and not self._parameters:
            raise UnknownNameError(
                f"parameter {name} has no value", span=span, hint=f"Give it one: params={{'{name}': …}}."
            )
        if t is None:
            raise UnknownNameError(
                f"there is no parameter {name}",
                span=span,
                hint=did_you_mean(name, self._parameters, noun="parameter"),
            )
        return t

    def _allocate(
        self, key: int | tuple[str, pa.DataType], number: int, t: pa.DataType, name: str | None
    ) -> int:
        index = self._slot_of.get(key)
        if index is None:
            index = self._slot_of[key] = len(self.slots)
            self.slots.append(SlotInfo(index, t, name, bool(pa.types.is_list(t))))
            self.numbers.append(number)
        return index

    # What the binder asks.

    def expression(self, number: int, span: Span) -> Expression:
        constant = self._constants[number]
        if constant.kind == lexer.PARAMETER:
            t = self._parameters[constant.raw]
            return Slot(t, self._slot_of[constant.raw, t], span=span)
        index = self._slot_of.get(number)
        if index is None:
            t, value = typed_constant(constant, self._time_zone, span)
            return Literal(t, value, span=span)
        return Slot(self.slots[index].type, index, span=span)

    def meeting_type(self, constant: Expression, other: pa.DataType) -> pa.DataType | None:
        if isinstance(constant, Literal):
            return meeting_type(constant.type, constant.value, other)
        assert isinstance(constant, Slot)
        if self.slots[constant.index].name is not None:
            return _parameter_meeting(constant.type, other)
        _, value = typed_constant(
            self._constants[self.numbers[constant.index]], self._time_zone, constant.span
        )
        return meeting_type(constant.type, value, other)

    def retyped_constant(self, constant: Expression, other: pa.DataType, to: pa.DataType) -> Expression:
        t = list_like(constant.type, to)
        if isinstance(constant, Literal):
            value = convert(constant.value, constant.type, to, self._time_zone, constant.span)
            return Literal(t, value, span=constant.span)
        assert isinstance(constant, Slot)
        slot, number = self.slots[constant.index], self.numbers[constant.index]
        if slot.name is not None:
            return Slot(t, self._allocate((slot.name, t), number, t, slot.name), span=constant.span)
        if types.is_temporal(to):  # refuses a text that is none, while its place is at hand
            _, value = typed_constant(self._constants[number], self._time_zone, constant.span)
            convert(value, constant.type, to, self._time_zone, constant.span)
        self.compared_types[number] = other
        self.slots[constant.index] = SlotInfo(slot.index, t, None, slot.is_list)
        return Slot(t, constant.index, span=constant.span)

    def literal_value(self, number: int) -> Any:
        constant = self._constants[number]
        if constant.kind == lexer.PARAMETER:
            raise self._not_a_parameter(number)
        if number in self._slot_of:
            self.pins.add(number)
        return typed_constant(constant, self._time_zone, self._spans[number])[1]

    def as_literal(self, constant: Expression) -> Expression:
        if not isinstance(constant, Slot) or self.slots[constant.index].name is not None:
            return constant
        number = self.numbers[constant.index]
        self.pins.add(number)
        t, value = typed_constant(self._constants[number], self._time_zone, constant.span)
        return Literal(t, value, span=constant.span)

    def pin(self, slots: Sequence[int]) -> None:
        for slot in slots:
            number = self.numbers[slot]
            if self.slots[slot].name is not None:
                raise self._not_a_parameter(number)
            self.pins.add(number)
            self._slot_of.pop(number, None)

    def pin_all(self) -> None:
        """The same for every constant that is one value."""
        self.pin([slot.index for slot in self.slots if slot.name is None and not slot.is_list])

    def keep(self, used: set[int]) -> dict[int, int]:
        """Forget the slots of parameters that only ever appear as another type; old numbers to new ones."""
        retained_slots = [n for n, slot in enumerate(self.slots) if slot.name is None or n in used]
        renumbered = {old: new for new, old in enumerate(retained_slots)}
        self.slots = [replace(self.slots[old], index=new) for old, new in renumbered.items()]
        self.numbers = [self.numbers[old] for old in retained_slots]
        return renumbered

    def _not_a_parameter(self, number: int) -> UnsupportedError:
        return UnsupportedError(
            f"parameter {self._constants[number].raw} is used where only a literal can be",
            span=self._spans[number],
            hint="Write the value into the text.",
        )


def _parameter_meeting(source: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    element = source.value_type if pa.types.is_list(source) else source
    if element == types.STRING and types.is_temporal(other):
        return other
    return common_type([other, element])


# ------------------------------------------------------------------------------------------------ while reading

# Reads a constant: what of it belongs to the key, its SQL type, its value.
Reader = Callable[[Constant], tuple[Any, pa.DataType, Any]]


@dataclass(slots=True)
class _Entry:
    """A bound shape, what it was bound against, and how slots get their values."""

    shape: Shape
    streams: tuple[Stream, ...]
    readers: tuple[
        tuple[int, pa.DataType] | None, ...
    ]  # per slot: constant number and slot type; None for a parameter


@dataclass(slots=True)
class _Rules:
    """What the constants of a skeleton decide, and the shapes found under these rules."""

    readers: tuple[Reader, ...]
    signature: Any
    entries: dict[tuple[Any, ...], _Entry] = field(default_factory=dict)


_MOST_PASSES = 8  # over a text of which a join finds one constant after the other to be part of its signature


class Shapes:
    """The shapes of one engine. `parsed` and `bound` count the work: once per shape; `passes` how often texts are walked.

    Of texts that are only asked about rows, `keeps_rows` is False: joins need no bound, and sets in subqueries are what the
    same subqueries are without DISTINCT.
    """

    def __init__(self, *, time_zone: str = "UTC", keeps_rows: bool = True) -> None:
        self.time_zone = time_zone
        self._keeps_rows = keeps_rows
        self.parsed = 0
        self.bound = 0
        self.passes = 0
        self._families: dict[Any, list[_Rules]] = {}

    def shape_of(
        self,
        text: str,
        streams: Streams | Mapping[str, Stream],
        functions: KnownFunctions | None = None,
        params: Mapping[str, pa.DataType] | None = None,
        properties: Properties | None = None,
    ) -> tuple[Shape, list[Any]]:
        """The shape of a query and the value of each slot, in order; None for those of named parameters.

        The same text over the same streams gives the identical shape. `params` are the types of the named parameters. Of the
        `properties` those count that say how a query aggregates: emit and keep.
        """
        emission = emission_of(properties)
        known = StreamTable(streams) if isinstance(streams, Mapping) else streams
        try:
            lexed = lexer.lex(text)
            lexer.check_length(text, lexed.constants)
            key: Any = lexed.skeleton
            if params:
                key = key, tuple(sorted((name, str(t)) for name, t in params.items()))
            if emission != DEFAULT_EMISSION:
                key = key, emission
            found = self._find(key, lexed.constants, known, functions)
            if found is None:
                found = self._bind(key, text, known, functions, params or {}, emission)
            entry, values = found
            return entry.shape, self._slot_values(entry, values)
        except _WrongConstant as wrong:
            tokens, _ = lexer.scan(text)
            wrong.error.span = next(t.span for t in tokens if t.constant == wrong.number)
            raise wrong.error.located(text) from None
        except EddylineError as error:
            if error.span is None and isinstance(error, ParseError):
                error.span = lexer.refused_at(text)
            raise error.located(text) from None

    def check_constants(
        self,
        text: str,
        shape: Shape,
        slots: Sequence[pa.Array],
        streams: Streams | Mapping[str, Stream],
        functions: KnownFunctions | None = None,
        params: Mapping[str, pa.DataType] | None = None,
        properties: Properties | None = None,
    ) -> None:
        """Refuse queries of a shape whose constants, in `slots`, go over a limit, with the place in their text."""
        try:
            check_constants(shape, slots, self.time_zone)
        except LimitError:
            # the shape has the places of the first text of its kind
            own, _ = Shapes(time_zone=self.time_zone).shape_of(text, streams, functions, params, properties)
            try:
                check_constants(own, slots, self.time_zone)
            except LimitError as error:
                raise error.located(text) from None
            raise

    def forget(self, stream: str) -> None:
        """Drop what was bound against a stream, because its declaration changed."""
        name = stream.lower()
        for families in self._families.values():
            for rules in families:
                stale = [
                    k for k, e in rules.entries.items() if any(s.name.lower() == name for s in e.streams)
                ]
                for key in stale:
                    del rules.entries[key]
        self._families = {k: [r for r in f if r.entries] for k, f in self._families.items()}
        self._families = {k: f for k, f in self._families.items() if f}

    def __len__(self) -> int:
        return sum(len(rules.entries) for families in self._families.values() for rules in families)

    # ---------------------------------------------------------------- known shapes

    def _find(
        self, key: Any, constants: Sequence[Constant], streams: Streams, functions: KnownFunctions | None
    ) -> tuple[_Entry, list[tuple[pa.DataType, Any]]] | None:
        for rules in self._families.get(key, ()):
            parts, values = [], []
            for number, (reader, constant) in enumerate(zip(rules.readers, constants, strict=True)):
                try:
                    part, t, value = reader(constant)
                except ParseError as error:
                    raise _WrongConstant(number, error) from None
                parts.append(part)
                values.append((t, value))
            entry = rules.entries.get(tuple(parts))
            if entry is not None and _is_current(entry, streams, functions):
                return entry, values
        return None

    def _slot_values(self, entry: _Entry, values: Sequence[tuple[pa.DataType, Any]]) -> list[Any]:
        result: list[Any] = []
        for reader in entry.readers:
            if reader is None:
                result.append(None)
                continue
            number, to = reader
            t, value = values[number]
            if t is not to and t != to:
                to = to.value_type if pa.types.is_list(to) else to
                try:
                    value = convert(value, t, to, self.time_zone, None)
                except TypeMismatchError as error:
                    raise _WrongConstant(number, error) from None
            result.append(value)
        return result

    # ---------------------------------------------------------------- new shapes

    def _bind(
        self,
        key: Any,
        text: str,
        streams: Streams,
        functions: KnownFunctions | None,
        params: Mapping[str, pa.DataType],
        emission: Emission,
    ) -> tuple[_Entry, list[tuple[pa.DataType, Any]]]:
        self.parsed += 1
        parsed = parse_query(text)
        _check_parameters(parsed, params)
        pinned = set(parsed.read_as_written)
        for n in count():
            constants = SlotConstants(parsed, frozenset(pinned), params, self.time_zone)
            self.passes += 1
            try:
                budget = Budget(CONSTANT_BYTES + WRITTEN_SHARE * len(text))
                with deep_recursion(), constants_within(budget):
                    inner = partial(self._union_shape, slots=(), tokens=parsed.tokens)
                    branches, read = bind_query(
                        parsed,
                        streams,
                        constants,
                        functions,
                        inner,
                        merges_sets=not self._keeps_rows,
                        emission=emission,
                    )
                    if not constants.pins:
                        renumbered = constants.keep(set[int]().union(*map(slots_in, branches)))
                        own = [with_slots(branch, renumbered) for branch in branches]
                        shape = self._union_shape(own, slots=tuple(constants.slots), tokens=parsed.tokens)
                        break
            except NeedsLiteral as needs:
                constants.pin(needs.slots)
                if n >= _MOST_PASSES:
                    constants.pin_all()
            pinned |= constants.pins
        self.bound += 1
        return self._keep(key, parsed, pinned, constants, shape, read)

    def _union_shape(
        self, branches: Sequence[BoundQuery], *, slots: tuple[SlotInfo, ...], tokens: Sequence[Token]
    ) -> Shape:
        """The shape of a query, given the plain queries that it is the union of."""
        first, *others = (self._shape(branch, slots, tokens) for branch in branches)
        return replace(first, branches=tuple(others))

    def _shape(self, bound: BoundQuery, slots: tuple[SlotInfo, ...], tokens: Sequence[Token]) -> Shape:
        parts = tuple(UnionPart(number, tokens_of(span, tokens)) for number, span in bound.parts)
        if len(bound.inputs) > 1:
            joined = joined_shape(
                bound, slots, time_zone=self.time_zone, tokens=tokens, keeps_rows=self._keeps_rows
            )
            return replace(joined, parts=parts)
        nullable = frozenset(slot.index for slot in slots if slot.name is not None)
        condition = normalise(bound.where, nullable_slots=nullable, time_zone=self.time_zone, tokens=tokens)
        projection = tuple(
            ProjectedColumn(p.name, fold(p.expression, time_zone=self.time_zone)) for p in bound.projection
        )
        return Shape(
            "",  # known when the constants it depends on are
            bound.inputs,
            projection,
            condition,
            slots,
            bound.functions,
            is_distinct=bound.distinct is not None,
            is_one_set=bound.is_one_set,
            parts=parts,
            aggregating=bound.aggregating,
        )

    def _keep(
        self,
        key: Any,
        parsed: ParsedText[syntax.AnyQuery],
        pinned: set[int],
        learned: SlotConstants,
        shape: Shape,
        streams: tuple[Stream, ...],
    ) -> tuple[_Entry, list[tuple[pa.DataType, Any]]]:
        readers = tuple(
            _reader(constant, number in pinned, learned.compared_types.get(number), self.time_zone)
            for number, constant in enumerate(parsed.constants)
        )
        read = [reader(constant) for reader, constant in zip(readers, parsed.constants, strict=True)]
        slots = tuple(
            None if slot.name is not None else (number, slot.type)
            for slot, number in zip(shape.slots, learned.numbers, strict=True)
        )
        parts = tuple(part for part, _, _ in read)
        decided = [str(part) for part in parts if part is not None]
        entry = _Entry(with_key(shape, "; ".join([str(key), *decided])), streams, slots)
        family = self._families.setdefault(key, [])
        signature = (frozenset(pinned), tuple(sorted((n, str(t)) for n, t in learned.compared_types.items())))
        rules = next((r for r in family if r.signature == signature), None)
        if rules is None:
            rules = _Rules(readers, signature)
            family.append(rules)
        rules.entries[parts] = entry
        return entry, [(t, value) for _, t, value in read]


def _is_current(entry: _Entry, streams: Streams, functions: KnownFunctions | None) -> bool:
    is_told_apart = any(
        each.join is not None or each.is_distinct or each.aggregating is not None
        for each in entry.shape.plain_shapes()
    )
    for stream in entry.streams:
        now = streams.find_stream(stream.name)
        if now is not stream and (
            now is None or now.name != stream.name or not now.schema.equals(stream.schema)
        ):
            return False
        if is_told_apart and now is not stream and not _joins_alike(now, stream):
            return False
    for name, version in entry.shape.functions:
        function = functions.get(name) if functions is not None else None
        if function is None or function.version != version:
            return False
    return True


def _joins_alike(a: Stream, b: Stream) -> bool:
    """Whether a join, or DISTINCT, would be bound to both in the same way, given that they have the same columns."""
    return _joined_by(a) == _joined_by(b)


def _joined_by(stream: Stream) -> tuple[object, ...]:
    return (
        stream.time,
        time_unit(stream),
        time_format(stream),
        stream.key,
        window_of(stream),
        is_table(stream),
        stream.n_components,
        stream.is_volatile,
        stream.is_windowed,
    )


def _check_parameters(parsed: ParsedText[syntax.AnyQuery], params: Mapping[str, pa.DataType]) -> None:
    used = {c.raw for c in parsed.constants if c.kind == lexer.PARAMETER}
    unused = [name for name in params if name not in used]
    if unused and used <= set(params):
        raise UnknownNameError(
            f"the text does not use parameter {unused[0]}",
            hint=f"Write :{unused[0]} in the text, or leave it out.",
        )


# ------------------------------------------------------------------------------------------------ readers


def _reader(constant: Constant, is_pinned: bool, other: pa.DataType | None, time_zone: str) -> Reader:
    """How constants in this place are read, by what they decide."""
    kind = constant.kind
    if kind in (lexer.PARAMETER, lexer.INTERVAL):  # both are in the skeleton as written
        return lambda c: (None, None, None)
    if is_pinned:
        return lambda c: _pinned(c, time_zone)
    if kind == lexer.STRING and other is None and not constant.is_list:
        return _read_string
    if other == types.DOUBLE and kind in (lexer.INTEGER, lexer.DECIMAL) and not constant.is_list:
        return _read_double
    if kind == lexer.INTEGER and not constant.is_list and (other is None or types.is_integer(other)):
        return _integer_reader(other, time_zone)
    if other is None:
        return lambda c: _exact(c, time_zone)
    return lambda c: _met(c, other, time_zone)


def _read_string(constant: Constant) -> tuple[Any, pa.DataType, Any]:
    return None, types.STRING, string_value(constant.raw)


def _read_double(constant: Constant) -> tuple[Any, pa.DataType, Any]:
    raw = constant.raw
    return "double", types.DOUBLE, float(raw if raw[-1] not in "dD" else raw[:-2])


def _integer_reader(other: pa.DataType | None, time_zone: str) -> Reader:
    """Integers beside an integer column (or none): their type is that of the column (or INT) unless they are too long."""
    t = types.BIGINT if other == types.BIGINT else types.INT
    n_digits, part = len(str(2 ** (t.bit_width - 1))) - 1, str(t)

    def read(constant: Constant) -> tuple[Any, pa.DataType, Any]:
        if len(constant.raw) <= n_digits:
            return part, t, int(constant.raw)
        return _exact(constant, time_zone) if other is None else _met(constant, other, time_zone)

    return read


def _exact(constant: Constant, time_zone: str) -> tuple[Any, pa.DataType, Any]:
    t, value = typed_constant(constant, time_zone, None)
    return str(t), t, value


def _met(constant: Constant, other: pa.DataType, time_zone: str) -> tuple[Any, pa.DataType, Any]:
    t, value = typed_constant(constant, time_zone, None)
    met = meeting_type(t, value, other)
    return str(met), t, value


def _pinned(constant: Constant, time_zone: str) -> tuple[Any, pa.DataType, Any]:
    t, value = typed_constant(constant, time_zone, None)
    return (str(t), repr(value)), t, value
