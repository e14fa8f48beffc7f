"""Arrays of plain values: searched, ordered, compared and joined to text."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.errors import TypeMismatchError
from eddyline.expressions.buffers import Mask, arrow
from eddyline.expressions.coercion import cast, coerce, coerce_all, common_type
from eddyline.expressions.frame import Evaluation, Frame
from eddyline.expressions.function import Typing, function
from eddyline.expressions.limits import LONGEST_MADE, check_lengths, lengths, where_fine
from eddyline.expressions.lowerings.collections import an_array, at_indices
from eddyline.expressions.lowerings.nested import Lists, ranks, same
from eddyline.expressions.lowerings.parameters import argument_error, exactly, takes, text
from eddyline.model import Call, Expression, Literal
from eddyline.types import BIGINT, BOOLEAN, NULL, STRING, is_floating, is_nested, type_name


def _comparable_array(e: Expression) -> Expression:
    """An array of values that have an order."""
    if is_nested(an_array(e).type.value_type):
        raise argument_error("an array of plain values", e)
    return e


def _array_and_item(
    arguments: Sequence[Expression], result: pa.DataType
) -> tuple[Sequence[Expression], pa.DataType]:
    """An array, and a value its items may be equal to."""
    array, item = _comparable_array(arguments[0]), arguments[1]
    if item.type == NULL:
        raise argument_error("a value", item)
    common = common_type([array.type.value_type, item.type])
    if common is None:
        raise TypeMismatchError(
            f"{type_name(array.type)} has no {type_name(item.type)} in it", span=item.span
        )
    return [coerce(array, pa.list_(common)), coerce(item, common)], result


def _with_item(result: pa.DataType) -> Typing:
    return partial(_array_and_item, result=result)


# ------------------------------------------------------------------------------------------ searching


@function(
    "array_contains",
    typing=_with_item(BOOLEAN),
    arguments=2,
    signature="array_contains(array, value)",
    summary="Whether the array has the value; NULL if it has not, but has a NULL.",
)
def _array_contains(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    arrays, values = (frame.array(a) for a in arguments)
    lists = Lists.of(arrays)
    items = lists.items(arrays.values)
    is_there = lists.first(same(items, values.take(pa.array(lists.rows)))) >= 0
    has_null = lists.count(_nulls(items)) > 0
    known = lists.is_known & values.is_valid().to_numpy(zero_copy_only=False)
    return Evaluation(arrow(is_there, known & (is_there | ~has_null), BOOLEAN))


def _nulls(items: pa.Array) -> Mask:
    return np.asarray(items.is_null().to_numpy(zero_copy_only=False), bool)


@function(
    "array_position",
    typing=_with_item(BIGINT),
    arguments=2,
    signature="array_position(array, value)",
    summary="The place of the first such element, counted from 1; 0 if there is none.",
)
def _array_position(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    arrays, values = (frame.array(a) for a in arguments)
    lists = Lists.of(arrays)
    place = lists.first(same(lists.items(arrays.values), values.take(pa.array(lists.rows))))
    known = lists.is_known & values.is_valid().to_numpy(zero_copy_only=False)
    return Evaluation(arrow(place + 1, known, BIGINT))


def _two_arrays(arguments: Sequence[Expression]) -> tuple[Sequence[Expression], pa.DataType]:
    coerced, _ = coerce_all([_comparable_array(e) for e in arguments], "arrays_overlap")
    return coerced, BOOLEAN


@function(
    "arrays_overlap",
    typing=_two_arrays,
    arguments=2,
    signature="arrays_overlap(a, b)",
    summary="Whether they have a value in common; NULL if not, but one has a NULL and none is empty.",
)
def _arrays_overlap(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    left, right = (frame.array(a) for a in arguments)
    sides = [Lists.of(left), Lists.of(right)]
    items = [lists.items(array.values) for lists, array in zip(sides, (left, right), strict=True)]
    codes = ranks(pa.concat_arrays(items)) if sum(map(len, items)) else np.zeros(0, np.int64)
    n_codes = int(codes.max(initial=0)) + 1
    nulls = [_nulls(i) for i in items]
    pairs = [
        lists.rows[~null] * n_codes + code[~null]
        for lists, null, code in zip(sides, nulls, np.split(codes, [len(items[0])]), strict=True)
    ]
    common = np.intersect1d(pairs[0], pairs[1]) // n_codes
    is_common = np.zeros(frame.n_rows, bool)
    is_common[common] = True
    has_null = (sides[0].count(nulls[0]) > 0) | (sides[1].count(nulls[1]) > 0)
    is_open = has_null & (sides[0].sizes > 0) & (sides[1].sizes > 0)
    known = sides[0].is_known & sides[1].is_known & (is_common | ~is_open)
    return Evaluation(arrow(is_common, known, BOOLEAN))


# ------------------------------------------------------------------------------------------ ordering


def _item_type(arguments: Sequence[Expression]) -> tuple[Sequence[Expression], pa.DataType]:
    return [_comparable_array(arguments[0])], arguments[0].type.value_type


def _register_extreme(name: str, sign: int, which: str) -> None:
    @function(
        name,
        typing=_item_type,
        arguments=1,
        signature=f"{name}(array)",
        summary=f"The {which} element; NULLs do not count.",
    )
    def lowering(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
        arrays = frame.array(arguments[0])
        lists = Lists.of(arrays)
        items = lists.items(arrays.values)
        non_null_places = np.flatnonzero(~_nulls(items))
        rows = lists.rows[non_null_places]
        stable_order = np.lexsort((sign * ranks(items)[non_null_places], rows))  # the first among equals
        order = non_null_places[stable_order]
        first = np.searchsorted(lists.rows[order], np.arange(frame.n_rows))
        is_there = np.bincount(rows, minlength=frame.n_rows) > 0
        if not len(order):
            return Evaluation(pa.nulls(frame.n_rows, expression.type))
        return Evaluation(at_indices(items.take(pa.array(order)), first, is_there))


_register_extreme("array_min", 1, "least")
_register_extreme("array_max", -1, "greatest")


@function(
    "sort_array",
    typing=takes(_comparable_array, exactly(BOOLEAN)),
    arguments=(1, 2),
    constants=(1,),
    signature="sort_array(array [, ascending])",
    summary="The elements in order; NULLs come first, or last if not ascending.",
)
def _sort_array(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    arrays = frame.array(arguments[0])
    ascending = expression.arguments[1] if len(arguments) == 2 else Literal(BOOLEAN, True)
    assert isinstance(ascending, Literal), "the direction is a constant"
    if ascending.value is None:
        return Evaluation(pa.scalar(None, expression.type))
    lists = Lists.of(arrays)
    items = lists.items(arrays.values)
    keys = np.where(_nulls(items), 0, ranks(items))  # ranks begin at 1
    order = np.lexsort((keys if ascending.value else -keys, lists.rows))
    return Evaluation(lists.rebuilt(items.take(pa.array(order))))


@function(
    "array_distinct",
    typing=takes(_comparable_array),
    arguments=1,
    signature="array_distinct(array)",
    summary="Each value once, where it occurs first.",
)
def _array_distinct(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    arrays = frame.array(arguments[0])
    lists = Lists.of(arrays)
    items = lists.items(arrays.values)
    codes = ranks(items)
    _, first = np.unique(lists.rows * (int(codes.max(initial=0)) + 1) + codes, return_index=True)
    first_places = np.sort(first)
    if is_floating(items.type):
        items = pc.add(items, pa.scalar(0.0, items.type))  # -0.0 is shown as 0.0
    sizes = np.bincount(lists.rows[first_places], minlength=frame.n_rows)
    return Evaluation(lists.rebuilt(items.take(pa.array(first_places)), sizes))


# ------------------------------------------------------------------------------------------ text


def _joined_type(arguments: Sequence[Expression]) -> tuple[Sequence[Expression], pa.DataType]:
    array = an_array(arguments[0])
    if is_nested(array.type.value_type):
        raise argument_error("an array of plain values", array)
    return [cast(array, pa.list_(STRING), span=array.span), *map(text, arguments[1:])], STRING


@function(
    "array_join",
    typing=_joined_type,
    arguments=(2, 3),
    signature="array_join(array, separator [, null])",
    summary="The elements as one text, with the separator between them; NULLs are left out, or shown as `null`.",
    asked_first=(2,),
)
def _array_join(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    arrays = frame.array(arguments[0])
    lists = Lists.of(arrays)
    items = lists.items(arrays.values)
    is_kept = ~_nulls(items)
    shown = arguments[2].values if len(arguments) == 3 else pa.scalar("")
    errors = check_lengths(
        "array_join", _text_lengths(lists, items, arguments[1].values, shown, frame.n_rows), frame
    )
    separators = frame.array(where_fine(arguments[1].values, errors, frame))
    if len(arguments) == 3:
        shown = frame.array(where_fine(shown, errors, frame))
        filled = pc.coalesce(items, shown.take(pa.array(lists.rows)))
        texts = pc.binary_join(lists.rebuilt(filled), separators)
        return Evaluation(pc.if_else(shown.is_valid(), texts, pa.scalar(None, STRING)), errors)
    non_null_lists = lists.rebuilt(items.filter(pa.array(is_kept)), lists.count(is_kept))
    return Evaluation(pc.binary_join(non_null_lists, separators), errors)


def _text_lengths(
    lists: Lists,
    items: pa.Array,
    separator: pa.Array | pa.Scalar,
    shown: pa.Array | pa.Scalar,
    n_rows: int,
) -> npt.NDArray[np.int64] | None:
    """About how many bytes the text of each array has, with `shown` for each NULL; None if all together have few."""
    between = lengths(separator, n_rows)
    instead = lengths(shown, n_rows)
    most = int(between.max(initial=0) + instead.max(initial=0))
    if items.nbytes + most * len(items) <= LONGEST_MADE:
        return None
    sizes = lengths(items, len(items)) + np.where(_nulls(items), instead[lists.rows], 0) + between[lists.rows]
    return np.bincount(lists.rows, weights=sizes, minlength=n_rows).astype(np.int64)
