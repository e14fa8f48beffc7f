"""Which of several intervals hold a value, many at a time and without branches, as functions that kernels may call.

The comparisons are written as vectors of LLVM, because its loop vectoriser does not find them: failures are gathered as wide as
the compared numbers and become one bit each only at the end (gathered as bits, they are ten times slower). Positions and strides
count elements of the flattened array, which must be contiguous.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from eddyline.kernels.lanes import primitive
from eddyline.kernels.layouts import QUAD

BOX_ROWS = 32  # rows that `rows_within` compares with one box
_INT16, _INT32, _INT64 = ir.IntType(16), ir.IntType(32), ir.IntType(64)
_int64: Any = types.int64
_uint64: Any = types.uint64


def _address(context: Any, builder: Any, array_type: Any, array: Any, at: Any) -> Any:
    return builder.gep(context.make_array(array_type)(context, builder, array).data, [at])


def _vector_at(builder: Any, address: Any, width: int) -> Any:
    """As many numbers from memory, which need not lie on a boundary of the vector."""
    number = address.type.pointee
    vector = builder.bitcast(address, ir.VectorType(number, width).as_pointer())
    return builder.load(vector, align=number.width // 8)


def _repeated(builder: Any, number: Any, width: int) -> Any:
    nothing = ir.Constant(ir.VectorType(number.type, width), ir.Undefined)
    first = builder.insert_element(nothing, number, ir.Constant(_INT32, 0))
    return builder.shuffle_vector(first, nothing, ir.Constant(ir.VectorType(_INT32, width), [0] * width))


def _bits(builder: Any, verdicts: Any, width: int) -> Any:
    """A vector of one-bit verdicts as a uint64, the first in the lowest bit."""
    word = builder.bitcast(verdicts, ir.IntType(width))
    return word if width == 64 else builder.zext(word, _INT64)


class _Failures:
    """Lanes that failed at least once: a vector of 0 and -1, kept in registers through a loop."""

    def __init__(self, builder: Any, number: Any, width: int) -> None:
        self._builder, self._width = builder, width
        self._type = ir.VectorType(number, width)
        self._none = ir.Constant(self._type, [0] * width)
        kept_in_registers: Any = cgutils.alloca_once_value
        self._place = kept_in_registers(builder, self._none)

    def add_outside(self, low: Any, value: Any, high: Any) -> None:
        """Fail lanes where not low <= value <= high."""
        builder = self._builder
        failed = builder.load(self._place)
        for less, more in ((low, value), (value, high)):
            failed = builder.or_(failed, builder.sext(builder.icmp_signed(">", less, more), self._type))
        builder.store(failed, self._place)

    def passed(self) -> Any:
        failed = self._builder.load(self._place)
        return _bits(self._builder, self._builder.icmp_signed(">=", failed, self._none), self._width)


@primitive
def rows_within(typing: Any, values: Any, at: Any, stride: Any, boxes: Any, box: Any, n_sides: Any) -> Any:
    """Bit i: row i of BOX_ROWS is in the box.

    Its value on side k is values[at + i + k * stride], the ends of the box are boxes[box + 2 k] and the number after it.
    """

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        values, at, stride, boxes, box, n_sides = arguments
        rows = _address(context, builder, signature.args[0], values, at)
        sides = _address(context, builder, signature.args[3], boxes, box)
        failures = _Failures(builder, _INT64, BOX_ROWS)
        with cgutils.for_range(builder, n_sides) as loop:
            row_values = _vector_at(builder, builder.gep(rows, [builder.mul(loop.index, stride)]), BOX_ROWS)
            side = builder.gep(sides, [builder.mul(loop.index, ir.Constant(_INT64, 2))])
            low, high = builder.load(side), builder.load(builder.gep(side, [ir.Constant(_INT64, 1)]))
            failures.add_outside(
                _repeated(builder, low, BOX_ROWS), row_values, _repeated(builder, high, BOX_ROWS)
            )
        return failures.passed()

    return _uint64(values, _int64, _int64, boxes, _int64, _int64), emit


def _emit_within(number: Any, width: int) -> Any:
    """Compare one row with `width` boxes: side k of them is `width` lows, then as many highs, behind those of side k - 1."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        bounds, at, values, first, n_sides = arguments
        sides = _address(context, builder, signature.args[0], bounds, at)
        row = _address(context, builder, signature.args[2], values, first)
        failures = _Failures(builder, number, width)
        with cgutils.for_range(builder, n_sides) as loop:
            value = _repeated(builder, builder.load(builder.gep(row, [loop.index])), width)
            lows = builder.gep(sides, [builder.mul(loop.index, ir.Constant(_INT64, 2 * width))])
            highs = builder.gep(lows, [ir.Constant(_INT64, width)])
            failures.add_outside(_vector_at(builder, lows, width), value, _vector_at(builder, highs, width))
        return failures.passed()

    return emit


@primitive
def ranks_within_16(typing: Any, bounds: Any, at: Any, ranks: Any, first: Any, n_sides: Any) -> Any:
    """Bit i: box i of 16 holds ranks[first + k] on each side k; side k is 16 lows, then 16 highs, at bounds[at + 32 k]."""
    return _uint64(bounds, _int64, ranks, _int64, _int64), _emit_within(_INT16, 16)


@primitive
def ranks_within_64(typing: Any, bounds: Any, at: Any, ranks: Any, first: Any, n_sides: Any) -> Any:
    """Bit i: box i of 64 holds ranks[first + k] on each side k; side k is 64 lows, then 64 highs, at bounds[at + 128 k]."""
    return _uint64(bounds, _int64, ranks, _int64, _int64), _emit_within(_INT16, 64)


@primitive
def keys_within_4(typing: Any, bounds: Any, at: Any, keys: Any, first: Any, n_sides: Any) -> Any:
    """Bit i: box i of 4 holds keys[first + k] on each side k; side k is 4 lows, then 4 highs, at bounds[at + 8 k]."""
    return _uint64(bounds, _int64, keys, _int64, _int64), _emit_within(_INT64, QUAD)


@primitive
def chosen(typing: Any, condition: Any, yes: Any, no: Any) -> Any:
    """`yes` if the condition holds, else `no` (both uint64), never by a branch: for conditions that cannot be predicted.

    A binary search among 2048 numbers takes 8 ns so, and 47 ns with the branches that LLVM prefers.
    """

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        choice = builder.select(*arguments)
        choice.set_metadata("unpredictable", builder.module.add_metadata([]))
        return choice

    return _uint64(types.boolean, _uint64, _uint64), emit
