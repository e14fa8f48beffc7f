"""Fuzz targets for Python values: rows that are pushed, what is asked about them, and what a home keeps of them.

A row is written as lines `column kind text`, apart from the next by an empty line:

    n int 12345678901234567890
    d decimal 1e-1000000000
    l json [1.5, {"a": null}]
"""

from __future__ import annotations

import datetime
import decimal
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

import eddyline
from eddyline.errors import EddylineError
from eddyline.sources import ingest
from tests.fuzz.readers import SCHEMAS, STREAMS, TIME_ZONES, Choices, check_rows

KINDS: dict[str, Callable[[str], Any]] = {
    "str": str,
    "int": int,
    "float": float,
    "decimal": decimal.Decimal,
    "bytes": lambda text: text.encode("utf-8", "surrogatepass"),
    "bool": lambda text: text == "true",
    "date": datetime.date.fromisoformat,
    "time": datetime.datetime.fromisoformat,
    "days": lambda text: datetime.timedelta(days=float(text)),
    "int64": lambda text: np.int64(int(text)),
    "float32": lambda text: np.float32(float(text)),
    "datetime64": lambda text: np.datetime64(text),
    "stamp": pd.Timestamp,
    "json": lambda text: json.loads(text, parse_float=decimal.Decimal),
    "array": lambda text: np.array(json.loads(text)),
    "none": lambda text: None,
    "lone": lambda text: "\ud800" + text,
    "object": lambda text: object(),
}


def rows_of(text: str) -> Iterator[dict[str, Any]]:
    """The rows a text writes down; what cannot be a value of its kind is left out."""
    for paragraph in text.split("\n\n"):
        row = {}
        for line in paragraph.split("\n"):
            column, kind, value = [*line.split(" ", 2), "", "", ""][:3]
            try:
                row[column] = KINDS.get(kind, str)(value)
            except (ValueError, ArithmeticError, TypeError, RecursionError):
                row[column] = value
        yield row


def as_rows(rows: list[dict[str, Any]]) -> Any:
    return rows


def as_columns(rows: list[dict[str, Any]]) -> Any:
    return {name: [row.get(name) for row in rows] for name in rows[0]}


def as_frame(rows: list[dict[str, Any]]) -> Any:
    return pd.DataFrame(rows)


def as_arrow(rows: list[dict[str, Any]]) -> Any:
    return pa.Table.from_pylist(rows)


def python_rows(folder: Path) -> Callable[[bytes], None]:
    """Rows as dicts, columns, frames and tables."""

    def target(data: bytes) -> None:
        choices = Choices(data)
        stream, zone = choices.among(STREAMS), choices.among(TIME_ZONES)
        form = choices.among((as_rows, as_columns, as_frame, as_arrow))
        rows = list(rows_of(choices.data.decode(errors="replace")))
        try:
            given = form(rows)
        except (ValueError, TypeError, ArithmeticError, NotImplementedError):
            return  # what the library does not take the user cannot push
        try:
            found = ingest(stream, given, zone)
        except EddylineError:
            return
        check_rows(
            found, stream, found.rows.num_rows + len(found.misfits) if form is as_columns else len(rows)
        )

    return target


def kept_rows(folder: Path) -> Callable[[bytes], None]:
    """Rows of JSON pushed into a home: each is a result of the query of all rows, or a dead letter, and can be asked about."""
    engine = eddyline.open(folder / "home")
    for k, schema in enumerate(SCHEMAS):
        engine.stream(f"s{k}", schema)
        engine.query(f"SELECT * FROM s{k}", name=f"all{k}")
    engine.push("s0", [{"n": 1}])  # compiles what it needs

    def target(data: bytes) -> None:
        k = Choices(data).among(range(len(SCHEMAS)))
        rows = []
        for line in data[1:].split(b"\n"):
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(row, dict):
                rows.append(row)
        query = engine.query(f"SELECT * FROM s{k}", name=f"all{k}")
        try:
            matches = engine.push(f"s{k}", rows)
        except EddylineError:
            return
        assert matches.count == matches.n_rows, matches
        assert matches.n_rows + matches.n_dead == len(rows), (matches, rows)
        assert len(query.latest(len(rows)) if rows else []) >= min(matches.n_rows, 1)
        engine.dead_letters()
        for row in rows[:2]:
            try:
                repr(query.why(row))
            except EddylineError:
                continue
        repr(query.why_not())

    return target
