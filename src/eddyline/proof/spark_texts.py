"""A user's text made ready for plain Spark SQL: as written, but for what only the round can say.

now(), current_timestamp, current_date, localtimestamp, unix_timestamp()   literals of the round's now()
:name        stays a parameter, in the type it has in the query: spark.sql(text, args=…)
IN (:name)   the values of the list
a:b.c        get_json_object(a, '$.b.c'): Spark has the colon for VARIANT alone
FROM STREAM  FROM
FROM a JOIN  FROM a table for each input that holds the row of the result, by the alias it has
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa

from eddyline.errors import ProofError
from eddyline.proof.claims import Claim
from eddyline.proof.groups import row_edits, window_edits
from eddyline.proof.inputs import table_edits
from eddyline.proof.words import Edit, SqlWord, edited_text, from_at, json_path, words_of
from eddyline.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    INTERVAL,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    is_decimal,
    is_integer,
    type_name,
)

INPUT = "__eddyline_input_{}"  # views of the inputs of a join, from 1
ARRIVAL = "__eddyline_arrival"  # a column of the view that no text names
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_ONE_US = datetime.timedelta(microseconds=1)
_INT_RANGE = range(-(1 << 31), 1 << 31)


@dataclass(frozen=True, slots=True)
class SparkText:
    """What Spark is asked: the text, a text that gives the arrival numbers of the rows it holds for, and their arguments.

    No text gives those of queries inside a query: rows are judged one by one.
    """

    text: str
    matching: str
    args: dict[str, Any]
    notes: tuple[str, ...]


def spark_text(claim: Claim) -> SparkText:
    """The text of a claim for Spark. Raises ProofError if there is none."""
    words = words_of(claim.text)
    args: dict[str, Any] = {}
    notes: list[str] = []
    edits: list[Edit] = []
    if claim.inputs:
        tables = [INPUT.format(k) for k in range(1, len(claim.inputs) + 1)]
        edits += table_edits(claim.text, [entry.stream for entry in claim.inputs], tables)
        words = [w for w in words if not any(e.start <= w.start < e.end for e in edits)]
    if claim.group is not None:
        if claim.group.sliding is not None:
            edits += window_edits(words, claim.group.sliding)
            notes.append("Of windows that overlap, it is asked for the one of the result.")
        if claim.group.row is not None:
            edits += row_edits(words, ARRIVAL, claim.text)
    while words and words[-1].says(";"):
        last = words.pop()
        edits.append(Edit(last.start, last.end, ""))
    for at, word in enumerate(words):
        if word.kind == "parameter":
            edits.append(_parameter(words, at, claim, args))
        elif word.kind == "path":
            edits.append(_path(words, at))
        elif word.says("STREAM") and _is_stream_word(words, at, claim.stream):
            edits.append(Edit(word.start, words[at + 1].start, ""))
        elif (clock := _clock(words, at, claim)) is not None:
            edits.append(clock)
            notes.append(f"{word.text} is the round's own.")
    start = from_at(words)
    if start is None:
        raise ProofError("this text has no FROM, so it cannot be run over rows", text=claim.text)
    start_of_from = words[start].start
    is_nested = any(word.says("SELECT") for word in words[1:])
    rest = [edit for edit in edits if edit.start >= start_of_from]
    shift = [Edit(e.start - start_of_from, e.end - start_of_from, e.text) for e in rest]
    return SparkText(
        edited_text(claim.text, edits),
        "" if is_nested else f"SELECT `{ARRIVAL}` {edited_text(claim.text[start_of_from:], shift)}",
        args,
        tuple(dict.fromkeys(notes)),
    )


def _is_stream_word(words: Sequence[SqlWord], at: int, stream: str) -> bool:
    follows = at + 1 < len(words) and words[at + 1].is_name and words[at + 1].name.lower() == stream.lower()
    return follows and at > 0 and words[at - 1].says("FROM")


# --------------------------------------------------------------------------------------------- the round's time


def _clock(words: Sequence[SqlWord], at: int, claim: Claim) -> Edit | None:
    """What a word that asks for the time is replaced by, or None for any other word."""
    word = words[at]
    literal = None if word.kind != "word" else _literals(claim).get(word.text.lower())
    if literal is None or (at > 0 and words[at - 1].says(".", "AS")):
        return None
    after = words[at + 1 : at + 3]
    if len(after) == 2 and after[0].says("(") and after[1].says(")"):
        return Edit(word.start, after[1].end, literal)
    is_call = bool(after) and after[0].says("(")
    is_column = word.text.lower() in claim.column_names
    has_bare_form = word.text.lower() in ("current_timestamp", "current_date", "localtimestamp")
    return Edit(word.start, word.end, literal) if has_bare_form and not is_call and not is_column else None


def _literals(claim: Claim) -> dict[str, str]:
    now = _EPOCH + claim.now_us * _ONE_US
    local = now.astimezone(ZoneInfo(claim.time_zone)).replace(tzinfo=None)
    instant = f"TIMESTAMP '{now.replace(tzinfo=None).isoformat(sep=' ', timespec='microseconds')}Z'"
    today = f"DATE '{local.date().isoformat()}'"
    return {
        "now": instant,
        "current_timestamp": instant,
        "current_date": today,
        "curdate": today,
        "localtimestamp": f"TIMESTAMP_NTZ '{local.isoformat(sep=' ', timespec='microseconds')}'",
        "unix_timestamp": f"{claim.now_us // 1_000_000}L",
    }


# --------------------------------------------------------------------------------------------- parameters and paths


def _parameter(words: Sequence[SqlWord], at: int, claim: Claim, args: dict[str, Any]) -> Edit:
    word = words[at]
    name = word.text[1:]
    if name not in claim.params:
        raise ProofError(f"the receipt says nothing of parameter {name}", text=claim.text)
    t, value = claim.params[name]
    if pa.types.is_list(t):
        return _list(words, at, t.value_type, value)
    args[name], expression = _argument(t, value)
    return Edit(word.start, word.end, expression.replace("?", word.text))


def _list(words: Sequence[SqlWord], at: int, t: pa.DataType, values: Sequence[Any] | None) -> Edit:
    """The values of a list where it is alone in the parentheses of IN, else an array of them."""
    word = words[at]
    around = words[max(0, at - 2) : at + 2]
    is_in_list = len(around) == 4 and around[0].says("IN") and around[1].says("(") and around[3].says(")")
    if values is None:
        return Edit(word.start, word.end, f"CAST(NULL AS {type_name(t if is_in_list else pa.list_(t))})")
    texts = ", ".join(literal(t, value) for value in values)
    if not is_in_list:
        return Edit(word.start, word.end, f"CAST(array({texts}) AS ARRAY<{type_name(t)}>)")
    nothing = f"SELECT CAST(NULL AS {type_name(t)}) WHERE false"
    return Edit(word.start, word.end, texts or nothing)


def _argument(t: pa.DataType, value: Any) -> tuple[Any, str]:
    """A value as spark.sql takes it, and the expression in the text that gives it its type; a question mark is the value."""
    cast = f"CAST(? AS {type_name(t)})"
    if value is None:
        return None, cast
    if t in (STRING, BOOLEAN):
        return value, "?"
    if t == INTERVAL:
        return value * _ONE_US if isinstance(value, int) else value, "?"
    if t in (DOUBLE, FLOAT):
        return (value, "?") if t == DOUBLE and math.isfinite(value) else (_float_text(value), cast)
    if is_integer(t):
        is_as_read = (t == INT) if value in _INT_RANGE else (t == BIGINT)
        return value, "?" if is_as_read else cast
    if t == BINARY:
        return value.hex(), "unhex(?)"
    if t == TIMESTAMP:
        return _microseconds(value), "timestamp_micros(?)"
    if t == DATE and isinstance(value, int):
        return value, "date_from_unix_date(?)"
    if is_decimal(t) or t in (DATE, TIMESTAMP_NTZ):
        return _text(value), cast
    raise ProofError(f"a parameter of type {type_name(t)} cannot be given to Spark")


def literal(t: pa.DataType, value: Any) -> str:
    """A value as Spark SQL writes it, in exactly this type."""
    name = type_name(t)
    if value is None:
        return f"CAST(NULL AS {name})"
    if t == STRING:
        escaped = value.replace("\\", "\\\\").replace("'", "\\'")
        return f"'{escaped}'"
    if t == BOOLEAN:
        return "TRUE" if value else "FALSE"
    if t == BINARY:
        return f"X'{value.hex()}'"
    if t == TIMESTAMP:
        return f"timestamp_micros({_microseconds(value)}L)"
    if t == DATE and isinstance(value, int):
        return f"date_from_unix_date({value})"
    if is_integer(t):
        return f"CAST('{value}' AS {name})"  # there is no literal for the least of them
    if t in (DOUBLE, FLOAT):
        return f"CAST('{_float_text(value)}' AS {name})"
    if is_decimal(t) or t in (DATE, TIMESTAMP_NTZ):
        return f"CAST('{_text(value)}' AS {name})"
    raise ProofError(f"a list of {name} cannot be given to Spark")


def _text(value: Any) -> str:
    if isinstance(value, datetime.datetime):
        return value.isoformat(sep=" ")
    return value.isoformat() if isinstance(value, datetime.date) else str(value)


def _float_text(value: float) -> str:
    return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(repr(value), repr(value))


def _microseconds(value: int | datetime.datetime) -> int:
    return value if isinstance(value, int) else (value - _EPOCH) // _ONE_US


def _path(words: Sequence[SqlWord], at: int) -> Edit:
    """`t.payload:a.b` as a call; only columns are reached into by receipts."""
    first = at - 1
    while first >= 2 and words[first - 1].says(".") and words[first - 2].is_name:
        first -= 2
    if first < 0 or not words[first].is_name:
        raise ProofError(
            f"{words[at].text} follows something other than a column, which cannot be put to Spark",
            hint="Write get_json_object(…, path) instead.",
        )
    operand = "".join(word.text for word in words[first:at])
    path = json_path(words[at].text).replace("\\", "\\\\").replace("'", "\\'")
    return Edit(words[first].start, words[at].end, f"get_json_object({operand}, '{path}')")
