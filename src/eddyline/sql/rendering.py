"""SQL text of a bound expression, for explain, why and messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline import types
from eddyline.expressions import cast, fold, literal_value
from eddyline.model import (
    LAMBDA,
    Call,
    Column,
    Expression,
    Input,
    Literal,
    Slot,
    UserCall,
    Variable,
)
from eddyline.nesting import deep
from eddyline.sql.reading import RESERVED

_LEVELS = (  # loosest first
    ("or",),
    ("and",),
    ("not",),
    ("in", "not in", "like", "ilike", "rlike", "is null", "is not null"),
    ("=", "!=", "<", "<=", ">", ">=", "<=>"),
    ("|",),
    ("^",),
    ("&",),
    ("+", "-", "||"),
    ("*", "/", "%", "div"),
    ("negate", "~"),
)
_LEVEL = {name: level for level, names in enumerate(_LEVELS) for name in names}
_TIGHT = len(_LEVELS)
_TESTS = ("in", "not in", "like", "ilike", "rlike")  # NOT is in the middle of them
_SHOWN_VALUES = 8  # of an IN list


@deep
def render(expression: Expression, values: Sequence[Any] | None = None) -> str:
    """The expression as SQL. Slots show their value if `values` are given, else their number."""
    return _text(expression, values)


def _text(e: Expression, values: Sequence[Any] | None, level: int = 0) -> str:
    if isinstance(e, Column):
        name = quoted_name(e.name)
        return f"{quoted_name(e.input)}.{name}" if e.input else name
    if isinstance(e, Literal):
        return literal_text(e.type, e.value)
    if isinstance(e, Variable):
        return quoted_name(e.name)
    if isinstance(e, Slot):
        return f"?{e.index + 1}" if values is None else literal_text(e.type, values[e.index])
    if isinstance(e, Call):
        own = _LEVEL.get(e.function, _TIGHT)
        text = _call(e, values, own)
        return f"({text})" if own < level else text
    assert isinstance(e, UserCall), f"{type(e).__name__} has no text"
    return f"{e.function}({_list(e.arguments, values)})"


def _list(expressions: Sequence[Expression], values: Sequence[Any] | None) -> str:
    return ", ".join(_text(e, values) for e in expressions)


def _call(e: Call, values: Sequence[Any] | None, own: int) -> str:
    name, arguments = e.function, e.arguments
    if name in ("and", "or"):
        return f" {name.upper()} ".join(_text(a, values, own + 1) for a in arguments)
    if name == "not":
        return _not(arguments[0], values, own)
    if name in ("is null", "is not null"):
        return f"{_text(arguments[0], values, own + 1)} {name.upper()}"
    if name in _TESTS:
        return _test(e, values, own)
    if name in ("negate", "~"):
        return f"{'-' if name == 'negate' else '~'}{_text(arguments[0], values, _TIGHT)}"
    if own < _TIGHT and len(arguments) == 2:
        operator = name.upper() if name == "div" else name
        return f"{_text(arguments[0], values, own)} {operator} {_text(arguments[1], values, own + 1)}"
    return _function(e, values)


def _function(e: Call, values: Sequence[Any] | None) -> str:
    name, arguments = e.function, e.arguments
    if name == LAMBDA:
        names = _list(arguments[1:], values)
        return f"{names if len(arguments) == 2 else f'({names})'} -> {_text(arguments[0], values)}"
    if name in ("cast", "try_cast"):
        return f"{name.upper()}({_text(arguments[0], values)} AS {types.type_name(e.type)})"
    if name == "field" and isinstance(arguments[1], Literal):
        return f"{_text(arguments[0], values, _TIGHT)}.{quoted_name(str(arguments[1].value))}"
    if name == "element":
        return f"{_text(arguments[0], values, _TIGHT)}[{_text(arguments[1], values)}]"
    if name == "json_path" and isinstance(arguments[1], Literal):
        return f"{_text(arguments[0], values, _TIGHT)}:{str(arguments[1].value).removeprefix('$.')}"
    if name == "case":
        *branches, default = arguments
        pairs = zip(branches[::2], branches[1::2], strict=True)
        text = " ".join(f"WHEN {_text(w, values)} THEN {_text(t, values)}" for w, t in pairs)
        is_silent = isinstance(default, Literal) and default.value is None
        return f"CASE {text}{'' if is_silent else f' ELSE {_text(default, values)}'} END"
    return f"{name}({_list(arguments, values)})"


def _not(operand: Expression, values: Sequence[Any] | None, own: int) -> str:
    if isinstance(operand, Call) and operand.function in _TESTS:
        return _test(operand, values, _LEVEL[operand.function], "NOT ")
    if isinstance(operand, Call) and operand.function == "<=>":
        left, right = (_text(a, values, _LEVEL["="] + 1) for a in operand.arguments)
        return f"{left} IS DISTINCT FROM {right}"
    return f"NOT {_text(operand, values, own)}"


def _test(e: Call, values: Sequence[Any] | None, own: int, negation: str = "") -> str:
    value, *rest = e.arguments
    tested = f"{_text(value, values, own + 1)} {negation}{e.function.upper()}"
    if e.function in ("in", "not in"):
        return f"{tested} {_options(rest, values)}"
    return f"{tested} {' ESCAPE '.join(_text(each, values, own + 1) for each in rest)}"


def _options(options: Sequence[Expression], values: Sequence[Any] | None) -> str:
    if len(options) > 1 or not pa.types.is_list(options[0].type):
        return f"({_list(options, values)})"
    if (
        isinstance(options[0], Call) and options[0].function == "cast"
    ):  # so that the list meets the type of the value
        return _options(options[0].arguments, values)
    return _text(options[0], values)


# ------------------------------------------------------------------------------------------------ values


def quoted_name(name: str) -> str:
    """A name, in backquotes where it needs them."""
    if name.isidentifier() and name.isascii() and name.upper() not in RESERVED:
        return name
    return f"`{name.replace('`', '``')}`"


def literal_text(t: pa.DataType, value: Any) -> str:
    """A value as a SQL literal."""
    if isinstance(value, pa.Scalar):
        value = literal_value(value)
    if value is None:
        return "NULL"
    if pa.types.is_list(t):
        items = list(value)
        shown = ", ".join(literal_text(t.value_type, v) for v in items[:_SHOWN_VALUES])
        more = f", … {len(items):,} values" if len(items) > _SHOWN_VALUES else ""
        return f"({shown}{more})"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    if isinstance(value, bytes):
        return f"X'{value.hex().upper()}'"
    if isinstance(value, int) and types.is_temporal(t):  # before year 1 or after 9999
        moment = fold(cast(Literal(t, value), types.STRING), time_zone="UTC")
        assert isinstance(moment, Literal), f"{value} of {t} has no text"
        return f"{types.type_name(t)} '{moment.value}{'Z' if t == types.TIMESTAMP else ''}'"
    if isinstance(value, datetime):
        text = value.replace(tzinfo=None).isoformat(sep=" ")
        return f"TIMESTAMP '{text}Z'" if value.tzinfo is not None else f"TIMESTAMP_NTZ '{text}'"
    if isinstance(value, date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, timedelta):
        return f"INTERVAL '{value.total_seconds():f}' SECONDS".replace(".000000", "")
    if isinstance(value, Decimal):
        return f"{value:f}"
    if t == types.FLOAT:
        return f"{np.float32(value)!s}F"
    if t == types.MONTHS:
        return f"INTERVAL {value[0]} MONTHS"
    return repr(value) if isinstance(value, float) else str(value)


def spoken(expression: Expression, inputs: Sequence[Input]) -> Expression:
    """An expression over rows of a signature, with columns of the inputs in place of its own."""

    def named(leaf: Expression) -> Expression:
        if not isinstance(leaf, Column):
            return leaf
        place, _, own = leaf.name.partition(".")
        return replace(leaf, name=own, input=inputs[int(place)].alias)

    return expression.with_leaves(named)
