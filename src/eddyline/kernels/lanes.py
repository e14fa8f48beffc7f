"""What the processor can do with 64 lanes in a word, or 512 in a line of 8 words, as functions that kernels may call.

A *line* lives in vector registers: kernels load it, combine it with others and store it, and never see its words. Written as
vectors of LLVM because its optimiser, as Numba runs it, does not make them out of eight words.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba import config, njit, types
from numba.extending import intrinsic, models, register_model

from eddyline.kernels.layouts import LINE_WORDS

_INT8, _INT32, _INT64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)
_EIGHT_IDS = ir.VectorType(_INT32, 8)
_LINE = ir.VectorType(_INT64, LINE_WORDS)

_Function = TypeVar("_Function", bound=Callable[..., Any])
_Emit = Callable[[Any, Any, Any, Any], Any]  # context, builder, signature, arguments: the value


def kernel(function: _Function) -> _Function:
    """Compile at the first call for the types of its arguments, or fetch from the cache what was compiled before."""
    compiled: Any = njit(cache=True, nogil=True, error_model="numpy")(function)
    return compiled


def primitive(function: Callable[..., tuple[Any, _Emit]]) -> Any:
    """A function for kernels whose instructions are given: its Numba signature, and what emits them."""
    return intrinsic(function)


def compiles_for_avx2() -> bool:
    """Whether kernels are compiled for a processor that can permute 8 ids at once."""
    settings: Any = config
    if settings.CPU_NAME or settings.CPU_FEATURES:  # another target than this machine was chosen
        return "+avx2" in (settings.CPU_FEATURES or "")
    return bool(settings.ENABLE_AVX and llvm.get_host_cpu_features().get("avx2", False))


class _LineType(types.Type):
    def __init__(self) -> None:
        super().__init__(name="line")


@register_model(_LineType)
class _LineModel(models.PrimitiveModel):
    def __init__(self, manager: Any, frontend: Any) -> None:
        init: Any = super().__init__
        init(manager, frontend, _LINE)


_line: Any = _LineType()
_uint64: Any = types.uint64
_int64: Any = types.int64
_nothing: Any = types.void


def _address(context: Any, builder: Any, array_type: Any, array: Any, at: Any, pointed: Any) -> Any:
    """A pointer to an element of a one-dimensional contiguous array, to be read as `pointed`."""
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [at]), pointed.as_pointer())


def _call(builder: Any, name: str, result: Any, *arguments: Any) -> Any:
    """What LLVM knows by name."""
    kind = ir.FunctionType(result, [argument.type for argument in arguments])
    return builder.call(builder.module.declare_intrinsic(name, (), kind), arguments)


# ----------------------------------------------------------------------------------------------- words


@primitive
def count_ones(typing: Any, word: Any) -> tuple[Any, _Emit]:
    """Set bits of a uint64."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return _int64(_uint64), emit


@primitive
def lowest_one(typing: Any, word: Any) -> tuple[Any, _Emit]:
    """Place of the lowest set bit of a uint64 that is not 0."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return _int64(_uint64), emit


# ----------------------------------------------------------------------------------------------- lines


@primitive
def line_at(typing: Any, words: Any, at: Any) -> tuple[Any, _Emit]:
    """The line words[at : at + 8]."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address = _address(context, builder, signature.args[0], arguments[0], arguments[1], _LINE)
        return builder.load(address, align=8)

    return _line(words, _int64), emit


@primitive
def put_line(typing: Any, words: Any, at: Any, line: Any) -> tuple[Any, _Emit]:
    """Store a line as words[at : at + 8]."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address = _address(context, builder, signature.args[0], arguments[0], arguments[1], _LINE)
        builder.store(arguments[2], address, align=8)
        return context.get_dummy_value()

    return _nothing(words, _int64, _line), emit


@primitive
def fetch_line(typing: Any, words: Any, at: Any) -> tuple[Any, _Emit]:
    """Have the line words[at : at + 8] brought near, to be read soon; it may lie outside the array."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address = _address(context, builder, signature.args[0], arguments[0], arguments[1], _INT8)
        to_read, second_cache, data = (ir.Constant(_INT32, k) for k in (0, 2, 1))
        _call(builder, "llvm.prefetch.p0", ir.VoidType(), address, to_read, second_cache, data)
        return context.get_dummy_value()

    return _nothing(words, _int64), emit


@primitive
def no_lanes(typing: Any) -> tuple[Any, _Emit]:
    """The line with no bit set."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return ir.Constant(_LINE, [0] * LINE_WORDS)

    return _line(), emit


@primitive
def line_and(typing: Any, left: Any, right: Any) -> tuple[Any, _Emit]:
    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.and_(*arguments)

    return _line(_line, _line), emit


@primitive
def line_or(typing: Any, left: Any, right: Any) -> tuple[Any, _Emit]:
    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.or_(*arguments)

    return _line(_line, _line), emit


@primitive
def line_xor(typing: Any, left: Any, right: Any) -> tuple[Any, _Emit]:
    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.xor(*arguments)

    return _line(_line, _line), emit


@primitive
def line_parity(typing: Any, a: Any, b: Any, c: Any) -> tuple[Any, _Emit]:
    """Where one or three of three lines have a bit: what is left when they are added."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        a, b, c = arguments
        return builder.xor(builder.xor(a, b), c)

    return _line(_line, _line, _line), emit


@primitive
def line_majority(typing: Any, a: Any, b: Any, c: Any) -> tuple[Any, _Emit]:
    """Where at least two of three lines have a bit: what is carried when they are added."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        a, b, c = arguments
        return builder.or_(builder.and_(a, b), builder.and_(builder.xor(a, b), c))

    return _line(_line, _line, _line), emit


@primitive
def count_line(typing: Any, line: Any) -> tuple[Any, _Emit]:
    """Set bits of a line."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        ones = _call(builder, "llvm.ctpop.v8i64", _LINE, arguments[0])
        return _call(builder, "llvm.vector.reduce.add.v8i64", _INT64, ones)

    return _int64(_line), emit


# ----------------------------------------------------------------------------------------------- ids

# for each byte the places of its set bits, in front of 8 int32
PLACES_OF_ONES = np.array(
    [[bit for bit in range(8) if byte >> bit & 1] + [0] * (8 - byte.bit_count()) for byte in range(256)],
    np.int32,
).ravel()


@primitive
def put_chosen_ids(
    typing: Any, ids: Any, lane: Any, places: Any, byte: Any, out: Any, at: Any
) -> tuple[Any, _Emit]:
    """Of ids[lane : lane + 8], store those whose bit of `byte` is set at out[at], closed up. All of out[at : at + 8] is written.

    Needs AVX2. `places` is PLACES_OF_ONES.
    """

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        ids_type, _, places_type, _, out_type, _ = signature.args
        ids, lane, places, byte, out, at = arguments
        row = builder.mul(byte, ir.Constant(_INT64, 8))
        eight = builder.load(_address(context, builder, ids_type, ids, lane, _EIGHT_IDS), align=4)
        chosen = builder.load(_address(context, builder, places_type, places, row, _EIGHT_IDS), align=4)
        closed_up = _call(builder, "llvm.x86.avx2.permd", _EIGHT_IDS, eight, chosen)
        builder.store(closed_up, _address(context, builder, out_type, out, at, _EIGHT_IDS), align=4)
        return context.get_dummy_value()

    return _nothing(ids, _int64, places, _int64, out, _int64), emit
