"""The allow-list: every operator and function SQL may use, with its typing rule and its lowering to Arrow.

A lowering room registers functions here by decorator; the binder finds them by name. Nothing outside the list is accepted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from eddyline.errors import Span, TypeMismatchError, UnknownNameError, UnsupportedError, did_you_mean
from eddyline.expressions.frame import Evaluation, Frame
from eddyline.model import Call, Expression, Literal, Slot

# Takes the bound arguments, returns them coerced, and the type of the result; raises TypeMismatchError.
Typing = Callable[[Sequence[Expression]], tuple[Sequence[Expression], pa.DataType]]
# Takes the evaluated arguments; errors of the arguments are merged in by the caller afterwards.
Lowering = Callable[[Sequence[Evaluation], Call, Frame], Evaluation]
# Takes unevaluated arguments and the function that evaluates them; owns all error handling (CASE, AND, coalesce …).
LazyLowering = Callable[[Call, Frame, Callable[[Expression, Frame], Evaluation]], Evaluation]


@dataclass(frozen=True, slots=True)
class Function:
    """One entry of the allow-list."""

    name: str
    typing: Typing
    lowering: Lowering | None
    lazy: LazyLowering | None
    min_arguments: int
    max_arguments: int | None  # None: any number
    constants: tuple[int, ...]  # arguments that must be literals of the text
    signature: str  # for docs and errors, such as "substring(text, start [, length])"
    summary: str
    is_operator: bool
    null_propagates: bool  # NULL in, NULL out: the default of SQL functions
    asked_first: tuple[
        int, ...
    ]  # arguments Spark asks for before the others, which it takes from left to right


class NeedsLiteral(Exception):
    """Raised when slots must stay literals because the bound form depends on their values."""

    def __init__(self, *slots: int) -> None:
        super().__init__(*slots)
        self.slots = slots


FUNCTIONS: dict[str, Function] = {}
INTERNAL: set[str] = set()  # names in it that no text can call


def function(
    *names: str,
    typing: Typing,
    arguments: int | tuple[int, int | None],
    signature: str,
    summary: str = "",
    constants: tuple[int, ...] = (),
    is_operator: bool = False,
    null_propagates: bool = True,
    asked_first: tuple[int, ...] = (),
    lazy: bool = False,
) -> Callable[[Callable[..., Evaluation]], Callable[..., Evaluation]]:
    """Register a lowering under one or more names; the first is the one explain and docs show."""
    low, high = (arguments, arguments) if isinstance(arguments, int) else arguments

    def register(lowering: Callable[..., Evaluation]) -> Callable[..., Evaluation]:
        entry = Function(
            names[0],
            typing,
            None if lazy else lowering,
            lowering if lazy else None,
            low,
            high,
            constants,
            signature,
            summary,
            is_operator,
            null_propagates,
            asked_first,
        )
        for name in names:
            assert name not in FUNCTIONS, f"{name} is registered twice"
            FUNCTIONS[name] = entry
        return lowering

    return register


def call(
    name: str, arguments: Sequence[Expression], *, span: Span | None = None, also_known: Sequence[str] = ()
) -> Call:
    """The typed call of a built-in on bound arguments: coerced, checked, and refused with the nearest name if unknown."""
    entry = FUNCTIONS.get(name.lower())
    if entry is None:
        names = [f.name for f in FUNCTIONS.values() if not f.is_operator] + list(also_known)
        raise UnknownNameError(
            f"there is no function {name}", span=span, hint=did_you_mean(name, set(names), noun="function")
        )
    n = len(arguments)
    if n < entry.min_arguments or (entry.max_arguments is not None and n > entry.max_arguments):
        raise TypeMismatchError(
            f"{entry.name} does not take {n} argument{'s' if n != 1 else ''}",
            span=span,
            hint=f"Write {entry.signature}.",
        )
    for index in entry.constants:
        if index < n and isinstance(arguments[index], Slot):
            raise NeedsLiteral(arguments[index].index)  # type: ignore[attr-defined]
        if index < n and not isinstance(arguments[index], Literal):
            raise UnsupportedError(
                f"argument {index + 1} of {entry.name} must be a constant",
                span=arguments[index].span or span,
                hint=f"Write {entry.signature} with a literal there.",
            )
    try:
        coerced, result = entry.typing(arguments)
    except TypeMismatchError as error:
        if error.span is None:
            error.span = span
        if error.hint is None and not entry.is_operator:
            error.hint = f"Write {entry.signature}."
        raise
    return Call(result, entry.name, tuple(coerced), span=span)
