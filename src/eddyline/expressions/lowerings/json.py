"""Fields of JSON text, as Spark's parser sees it.

    path      $ for all, then .name, ['name'] or [index]; wildcards are refused
    scalars   text without quotes; whole numbers as written; others as Java prints a double, 1.0E10
    others    objects and arrays without spaces, characters beyond U+FFFF as two \\u escapes
    lenient   text in single quotes, and unescaped control characters in text

Text that is no JSON has no fields: NULL. So has a field that is null, while a null in an array is the text null. Of a name
that is there twice, the first value with what is asked for counts.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any

import pyarrow as pa

from eddyline.errors import UnsupportedError
from eddyline.expressions.conversions.text import floating_text
from eddyline.expressions.frame import Evaluation, Frame
from eddyline.expressions.function import function
from eddyline.expressions.lowerings.parameters import takes, text
from eddyline.expressions.lowerings.rowwise import rowwise
from eddyline.model import Call, Expression, Literal
from eddyline.types import DOUBLE, STRING

_MAX_DIGITS = 1000  # the parser's limit for one number
_STEP = re.compile(r"\.([^.\[]+)|\['([^']+)'\]|\[(\d+)\]")

Path = tuple[str | int, ...]


@lru_cache(maxsize=1024)
def json_path(path: str) -> Path:
    """Names and indexes of a path. Raises ValueError with the reason."""
    if not path.startswith("$"):
        raise ValueError("it does not begin with $")
    steps: list[str | int] = []
    at = 1
    while at < len(path):
        match = _STEP.match(path, at)
        if match is None or "*" in (match.group(1), match.group(2)):
            is_wild = match is not None or path.startswith(("[*]", ".."), at)
            raise ValueError(
                "wildcards are not supported"
                if is_wild
                else f"{path[at:]!r} is no .name, ['name'] or [index]"
            )
        name, quoted, index = match.groups()
        steps.append(int(index) if index is not None else name if name is not None else quoted)
        at = match.end()
    return tuple(steps)


class _Object(list[tuple[str, Any]]):
    """The fields of a JSON object in order; a name may be there twice."""


class _NotJson(Exception):
    """The text is not what Spark's parser accepts."""


def _refuse_constant(word: str) -> Any:
    raise _NotJson(word)


def _whole(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise _NotJson(digits)
    return int(digits)


def _fraction(digits: str) -> float:
    if len(digits) > _MAX_DIGITS:
        raise _NotJson(digits)
    return float(digits)


_DECODER = json.JSONDecoder(
    object_pairs_hook=_Object,
    parse_constant=_refuse_constant,
    parse_int=_whole,
    parse_float=_fraction,
    strict=False,  # control characters may stand in text
)


def _first_value(document: str) -> Any:
    """The first value of the document; what follows it is not looked at."""
    body = document.lstrip(" \t\n\r")
    try:
        value, end = _DECODER.raw_decode(body)
    except json.JSONDecodeError:
        if "'" not in body:
            raise
        body = _with_double_quotes(body)
        value, end = _DECODER.raw_decode(body)
    is_bare = not isinstance(value, (str, list))
    if is_bare and body[end : end + 1] not in ("", " ", "\t", "\n", "\r"):  # 1x or 01
        raise _NotJson(document)
    return value


_QUOTED = re.compile(r"""("(?:[^"\\]|\\.)*")|'((?:[^'\\]|\\.)*)'""", re.DOTALL)


def _with_double_quotes(document: str) -> str:
    def requoted(match: re.Match[str]) -> str:
        if match.group(1) is not None:
            return match.group(1)
        body = re.sub(
            r"\\(.)|\"",
            lambda m: {None: '\\"', "'": "'"}.get(m.group(1), m.group()),
            match.group(2),
            flags=re.DOTALL,
        )
        return f'"{body}"'

    return _QUOTED.sub(requoted, document)


_NOTHING = object()


def _value_at(value: Any, path: Path) -> Any:
    """The value at the path, or `_NOTHING`."""
    for depth, step in enumerate(path):
        if isinstance(step, int):
            if not isinstance(value, list) or isinstance(value, _Object) or step >= len(value):
                return _NOTHING
            value = value[step]
            continue
        if not isinstance(value, _Object):
            return _NOTHING
        fields = [v for name, v in value if name == step and v is not None]
        found = (_value_at(field, path[depth + 1 :]) for field in fields)
        return next((v for v in found if v is not _NOTHING), _NOTHING)
    return value


def get_json_object(document: str, path: Path) -> str | None:
    """The value at a path as text; NULL if there is none, or the document is no JSON."""
    try:
        value = _value_at(_first_value(document), path)
        if value is _NOTHING:
            return None
        if isinstance(value, str):
            value.encode()  # half a surrogate pair is no text
            return value
        return _json_text(value)
    except (_NotJson, json.JSONDecodeError, RecursionError, UnicodeEncodeError):
        return None


_SHORT = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
_ESCAPED = re.compile('[\x00-\x1f"\\\\\ud800-\udfff\U00010000-\U0010ffff]')


def _json_text(value: Any) -> str:
    if isinstance(value, str):
        return '"' + _ESCAPED.sub(_escape, value) + '"'
    if isinstance(value, _Object):
        return "{" + ",".join(f"{_json_text(name)}:{_json_text(v)}" for name, v in value) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_json_text, value)) + "]"
    if isinstance(value, float):
        return _java_double(value)
    return (
        {None: "null", True: "true", False: "false"}[value]
        if value is None or isinstance(value, bool)
        else str(value)
    )


def _escape(match: re.Match[str]) -> str:
    c = match.group()
    if c in _SHORT:
        return _SHORT[c]
    code = ord(c)
    if code < 0x10000:
        return f"\\u{code:04X}"
    return f"\\u{0xD800 + (code - 0x10000 >> 10):04X}\\u{0xDC00 + (code & 0x3FF):04X}"


@lru_cache(maxsize=4096)
def _java_double(value: float) -> str:
    digits = str(floating_text(pa.array([value], DOUBLE))[0].as_py())
    return digits if math.isfinite(value) else f'"{digits}"'


# ------------------------------------------------------------------------------------------ functions


def _path_type(arguments: Sequence[Expression]) -> tuple[Sequence[Expression], pa.DataType]:
    typed_arguments, result = takes(text, text, result=STRING)(arguments)
    path = typed_arguments[1]
    if isinstance(path, Literal) and path.value is not None:
        try:
            json_path(path.value)
        except ValueError as problem:
            raise UnsupportedError(
                f"the JSON path {path.value!r} cannot be used: {problem}",
                hint="Write a path such as $.name, $.list[0].name or $['a name'].",
                span=arguments[1].span,
            ) from None
    return typed_arguments, result


@function(
    "get_json_object",
    typing=_path_type,
    arguments=2,
    constants=(1,),
    signature="get_json_object(json, path)",
    summary="The value at a path of JSON text, as text; NULL if there is none.",
)
def _get_json_object(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    path = expression.arguments[1]
    assert isinstance(path, Literal), "a path is a constant"
    if path.value is None:
        return Evaluation(pa.scalar(None, STRING))
    # Arrow reads no JSON out of a column: this runs in Python, once per distinct text.
    return rowwise(partial(get_json_object, path=json_path(path.value)), arguments[:1], frame, STRING)


@function(
    "json_path",
    typing=_path_type,
    arguments=2,
    constants=(1,),
    signature="json:path",
    summary="The value at a path of JSON text, as text: payload:user.name.",
    is_operator=True,
)
def _json_path(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    return _get_json_object(arguments, expression, frame)
