"""Arrays, maps and structs: made, measured and taken apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.errors import TypeMismatchError, UnsupportedError
from eddyline.expressions.buffers import Mask, arrow, numbers, valid
from eddyline.expressions.coercion import cast, coerce, coerce_all, common_type
from eddyline.expressions.frame import ErrorCodes, Evaluation, Frame, merge_errors
from eddyline.expressions.function import NeedsLiteral, function
from eddyline.expressions.limits import check_collected
from eddyline.expressions.lowerings.nested import Lists, ranks, same
from eddyline.expressions.lowerings.parameters import argument_error, exactly, integer, takes
from eddyline.model import Call, Column, Expression, Literal, Slot
from eddyline.types import BOOLEAN, INT, NULL, STRING, is_integer, is_nested, type_name

OUT_OF_BOUNDS = "INVALID_ARRAY_INDEX"
OUT_OF_BOUNDS_AT = "INVALID_ARRAY_INDEX_IN_ELEMENT_AT"
INDEX_ZERO = "INVALID_INDEX_OF_ZERO"

# ------------------------------------------------------------------------------------------ types


def an_array(e: Expression) -> Expression:
    if not pa.types.is_list(e.type):
        raise argument_error("an array", e)
    return e


def _map(e: Expression) -> Expression:
    if not pa.types.is_map(e.type):
        raise argument_error("a map", e)
    return e


def _array_or_map(e: Expression) -> Expression:
    if not pa.types.is_list(e.type) and not pa.types.is_map(e.type):
        raise argument_error("an array or a map", e)
    return e


def _map_key(map_: Expression, key: Expression) -> Expression:
    """A key the map may have."""
    key_type = map_.type.key_type
    if is_nested(key_type):
        raise argument_error("a map with plain keys", map_)
    if key.type == NULL:
        raise argument_error(type_name(key_type), key)
    if common_type([key_type, key.type]) == key_type:
        return coerce(key, key_type)
    if is_integer(key_type) and is_integer(key.type):  # a wider constant, such as 1L for a MAP<INT, …>
        return cast(key, key_type, span=key.span)
    raise argument_error(type_name(key_type), key)


# ------------------------------------------------------------------------------------------ size


@function(
    "size",
    "cardinality",
    typing=takes(_array_or_map, result=INT),
    arguments=1,
    signature="size(array or map)",
    summary="How many elements or entries it has.",
)
def _size(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    lists = Lists.of(frame.array(arguments[0]))
    return Evaluation(arrow(lists.sizes.astype(np.int32), lists.is_known, INT))


@function(
    "array_size",
    typing=takes(an_array, result=INT),
    arguments=1,
    signature="array_size(array)",
    summary="How many elements the array has.",
)
def _array_size(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    return _size(arguments, expression, frame)


# ------------------------------------------------------------------------------------------ making


def _array_type(arguments: Sequence[Expression]) -> tuple[Sequence[Expression], pa.DataType]:
    if not arguments:
        return arguments, pa.list_(NULL)
    coerced, common = coerce_all(arguments, "array")
    return coerced, pa.list_(common)


@function(
    "array",
    typing=_array_type,
    arguments=(0, None),
    signature="array(a, b, …)",
    summary="An array of these elements.",
    null_propagates=False,
)
def _make_array(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    errors = check_collected("array", arguments, frame)
    if errors is not None:
        return Evaluation(pa.nulls(frame.n_rows, expression.type), errors)
    items = _interleaved_rows(arguments, frame, expression.type.value_type)
    offsets = np.arange(frame.n_rows + 1, dtype=np.int32) * len(arguments)
    return Evaluation(pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), items, type=expression.type))


def _interleaved_rows(columns: Sequence[Evaluation], frame: Frame, t: pa.DataType) -> pa.Array:
    """The first row of all columns, then the second row …"""
    if not columns:
        return pa.nulls(0, t)
    stacked = pa.concat_arrays([frame.array(c) for c in columns])
    order = np.arange(frame.n_rows * len(columns)).reshape(len(columns), frame.n_rows).T.ravel()
    return stacked.take(pa.array(order))


def _map_type(arguments: Sequence[Expression]) -> tuple[Sequence[Expression], pa.DataType]:
    if len(arguments) % 2:
        raise TypeMismatchError("map takes pairs of a key and a value", span=arguments[-1].span)
    if not arguments:
        raise TypeMismatchError("map() has no entries, so the types of its keys and values are not known")
    keys, key_type = coerce_all(arguments[::2], "a key of map")
    values, value_type = coerce_all(arguments[1::2], "a value of map")
    if is_nested(key_type):
        raise argument_error("a plain value as key", arguments[0])
    return [e for pair in zip(keys, values, strict=True) for e in pair], pa.map_(key_type, value_type)


@function(
    "map",
    typing=_map_type,
    arguments=(0, None),
    signature="map(key, value, …)",
    summary="A map of these entries. A key must not be NULL, nor be there twice.",
    null_propagates=False,
)
def _make_map(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    errors = check_collected("map", arguments, frame)
    if errors is not None:
        return Evaluation(pa.nulls(frame.n_rows, expression.type), errors)
    n_entries = len(arguments) // 2
    keys = _interleaved_rows(arguments[::2], frame, expression.type.key_type)
    values = _interleaved_rows(arguments[1::2], frame, expression.type.item_type)
    rows = np.repeat(np.arange(frame.n_rows), n_entries)
    is_null = np.asarray(keys.is_null().to_numpy(zero_copy_only=False), bool)
    no_key = np.bincount(rows[is_null], minlength=frame.n_rows) > 0
    codes = ranks(keys) if len(keys) else np.zeros(0, np.int64)
    ordered = np.sort(codes.reshape(frame.n_rows, n_entries), axis=1)
    is_twice = (
        (ordered[:, 1:] == ordered[:, :-1]).any(axis=1) if n_entries > 1 else np.zeros(frame.n_rows, bool)
    )
    errors = merge_errors(
        frame.fail(no_key, "NULL_MAP_KEY", "NULL is no key of a map"),
        frame.fail(is_twice, "DUPLICATED_MAP_KEY", "a key is in the map twice"),
    )
    bad = no_key | is_twice
    good_places = pa.array(np.flatnonzero(~bad[rows]))
    offsets = np.concatenate(([0], np.cumsum(np.where(bad, 0, n_entries)))).astype(np.int32)
    mask = pa.array(bad) if bad.any() else None
    maps = pa.MapArray.from_arrays(
        pa.array(offsets, pa.int32()),
        keys.take(good_places),
        values.take(good_places),
        type=expression.type,
        mask=mask,
    )
    return Evaluation(maps, errors)


def _field_name(e: Expression) -> str:
    if not isinstance(e, Literal) or e.type != STRING or e.value is None:
        raise UnsupportedError("the name of a field must be a constant text", span=e.span)
    return str(e.value)


def _named_struct_type(arguments: Sequence[Expression]) -> tuple[Sequence[Expression], pa.DataType]:
    if len(arguments) % 2:
        raise TypeMismatchError("named_struct takes pairs of a name and a value", span=arguments[-1].span)
    slots = [e.index for e in arguments[::2] if isinstance(e, Slot)]
    if slots:
        raise NeedsLiteral(*slots)
    names = [_field_name(e) for e in arguments[::2]]
    return arguments, _struct_type(names, arguments[1::2])


def _struct_type(names: Sequence[str], values: Sequence[Expression]) -> pa.DataType:
    twice = next((name for name, n in Counter(names).items() if n > 1), None)
    if twice is not None:
        raise UnsupportedError(f"the field {twice} is there twice", span=values[0].span)
    return pa.struct([pa.field(name, e.type) for name, e in zip(names, values, strict=True)])


@function(
    "named_struct",
    typing=_named_struct_type,
    arguments=(2, None),
    signature="named_struct(name, value, …)",
    summary="A struct of these fields.",
    null_propagates=False,
)
def _named_struct(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    return _struct(arguments[1::2], expression, frame)


def _default_names(arguments: Sequence[Expression]) -> list[str]:
    """A column or a field keeps its name; anything else is col1, col2 … by its place."""
    names = []
    for place, e in enumerate(arguments, start=1):
        last = e.arguments[1] if isinstance(e, Call) and e.function == "field" else None
        names.append(
            e.name if isinstance(e, Column) else last.value if isinstance(last, Literal) else f"col{place}"
        )
    return names


@function(
    "struct",
    typing=lambda arguments: (arguments, _struct_type(_default_names(arguments), arguments)),
    arguments=(1, None),
    signature="struct(a, b, …)",
    summary="A struct of these fields, named as the columns are, others col1, col2 and so on.",
    null_propagates=False,
)
def _struct(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    fields = list(expression.type)
    return Evaluation(pa.StructArray.from_arrays([frame.array(a) for a in arguments], fields=fields))


# ------------------------------------------------------------------------------------------ taking apart


def _field_type(arguments: Sequence[Expression]) -> tuple[Sequence[Expression], pa.DataType]:
    struct, name = arguments
    assert isinstance(name, Literal), "a field is named by a literal"
    if not pa.types.is_struct(struct.type):
        raise argument_error("a struct", struct)
    return arguments, struct.type.field(name.value).type


@function(
    "field",
    typing=_field_type,
    arguments=2,
    constants=(1,),
    signature="struct.name",
    summary="A field of a struct.",
    is_operator=True,
)
def _field(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    name = expression.arguments[1]
    assert isinstance(name, Literal), "a field is named by a literal"
    index = arguments[0].values.type.get_field_index(name.value)
    return Evaluation(pc.struct_field(arguments[0].values, [index]))


def _element_type(arguments: Sequence[Expression]) -> tuple[Sequence[Expression], pa.DataType]:
    collection, at = arguments
    if pa.types.is_map(collection.type):
        return [collection, _map_key(collection, at)], collection.type.item_type
    return [an_array(collection), integer(at)], collection.type.value_type


@function(
    "element",
    typing=_element_type,
    arguments=2,
    signature="array[index] or map[key]",
    summary="An element, counted from 0, an error if there is none; the value of a key, NULL if there is none.",
    is_operator=True,
)
def _element(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    collection, at = (frame.array(a) for a in arguments)
    if pa.types.is_map(collection.type):
        return Evaluation(_value_of(collection, at))
    places = numbers(at).astype(np.int64)
    return _elements_at(collection, places, valid(at), frame, OUT_OF_BOUNDS)


def _value_of(maps: pa.Array, keys: pa.Array) -> pa.Array:
    """The value of each row's key, NULL if the map has no such key."""
    lists = Lists.of(maps)
    key_per_entry = keys.take(pa.array(lists.rows))
    place = lists.first(same(lists.items(maps.keys), key_per_entry))
    return at_indices(maps.items, lists.starts + place, place >= 0)


def at_indices(values: pa.Array, indices: Any, is_there: Mask) -> pa.Array:
    return values.take(pa.array(np.where(is_there, indices, 0), mask=~is_there))


def _elements_at(
    arrays: pa.Array, places: Any, known: Mask | None, frame: Frame, error: str | None
) -> Evaluation:
    """The element at each row's place, counted from 0; outside, an error, or NULL without one."""
    lists = Lists.of(arrays)
    is_asked = lists.is_known if known is None else lists.is_known & known
    is_inside = (places >= 0) & (places < lists.sizes)
    errors = None
    if error is not None:

        def message(row: int) -> str:
            return f"an array of {lists.sizes[row]} elements has no such element"

        errors = frame.fail_each(is_asked & ~is_inside, error, message)
    return Evaluation(at_indices(arrays.values, lists.starts + places, is_asked & is_inside), errors)


def _register_element_at(name: str, error: str | None, outside: str) -> None:
    @function(
        name,
        typing=_element_at_type,
        arguments=2,
        signature=f"{name}(array or map, index or key)",
        summary=f"An element, counted from 1 or back from -1, {outside} if there is none; or the value of a key, or NULL.",
    )
    def lowering(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
        collection, at = (frame.array(a) for a in arguments)
        if pa.types.is_map(collection.type):
            return Evaluation(_value_of(collection, at))
        index, known = numbers(at).astype(np.int64), valid(at)
        sizes = Lists.of(collection).sizes
        is_known = collection.is_valid().to_numpy(zero_copy_only=False)
        is_known = is_known if known is None else is_known & known
        zero: ErrorCodes | None = frame.fail(
            is_known & (index == 0), INDEX_ZERO, "elements are counted from 1, or back from -1"
        )
        places = np.where(index > 0, index - 1, sizes + index)
        elements = _elements_at(collection, np.where(index == 0, -1, places), known, frame, error)
        return Evaluation(elements.values, merge_errors(zero, elements.errors))


def _element_at_type(arguments: Sequence[Expression]) -> tuple[Sequence[Expression], pa.DataType]:
    collection, at = arguments
    if pa.types.is_map(collection.type):
        return [collection, _map_key(collection, at)], collection.type.item_type
    if at.type == NULL:
        raise argument_error("a whole number", at)
    return [an_array(collection), exactly(INT)(at)], collection.type.value_type


_register_element_at("element_at", OUT_OF_BOUNDS_AT, "an error")
_register_element_at("try_element_at", None, "NULL")


@function(
    "map_keys",
    typing=lambda arguments: ([_map(arguments[0])], pa.list_(arguments[0].type.key_type)),
    arguments=1,
    signature="map_keys(map)",
    summary="An array of the keys.",
)
def _map_keys(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    maps = frame.array(arguments[0])
    lists = Lists.of(maps)
    return Evaluation(lists.rebuilt(lists.items(maps.keys)))


@function(
    "map_values",
    typing=lambda arguments: ([_map(arguments[0])], pa.list_(arguments[0].type.item_type)),
    arguments=1,
    signature="map_values(map)",
    summary="An array of the values.",
)
def _map_values(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    maps = frame.array(arguments[0])
    lists = Lists.of(maps)
    return Evaluation(lists.rebuilt(lists.items(maps.items)))


@function(
    "map_contains_key",
    typing=lambda arguments: ([_map(arguments[0]), _map_key(arguments[0], arguments[1])], BOOLEAN),
    arguments=2,
    signature="map_contains_key(map, key)",
    summary="Whether the map has the key.",
)
def _map_contains_key(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    maps, keys = (frame.array(a) for a in arguments)
    lists = Lists.of(maps)
    is_there = lists.first(same(lists.items(maps.keys), keys.take(pa.array(lists.rows)))) >= 0
    known = lists.is_known & keys.is_valid().to_numpy(zero_copy_only=False)
    return Evaluation(arrow(is_there, known, BOOLEAN))
