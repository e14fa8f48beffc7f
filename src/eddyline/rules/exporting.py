"""All streams and queries, written as rule files that change nothing when they are applied.

streams.sql     every stream
queries.sql     every query that was registered by itself
NAME.sql        a template, and beside it NAME.parquet, the table of its rows
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from eddyline.catalog import MemberGroup, is_same_shape, member_groups
from eddyline.durations import duration_text
from eddyline.engine import OpenEngine
from eddyline.errors import EddylineError, PropertyError
from eddyline.model import Properties, Shape, Stream
from eddyline.rules.files import RULES_TABLE, core_text
from eddyline.rules.table import NAME
from eddyline.secrets import is_secret
from eddyline.sql import Shapes, quoted_name, stated
from eddyline.types import type_name


@dataclass(frozen=True, slots=True)
class Exported:
    files: tuple[Path, ...]
    n_streams: int
    n_queries: int

    def as_dict(self) -> dict[str, Any]:
        return {
            "files": [str(file) for file in self.files],
            "n_streams": self.n_streams,
            "n_queries": self.n_queries,
        }


def export(engine: OpenEngine, folder: str | os.PathLike[str]) -> Exported:
    """Write all streams and queries into a new or empty folder."""
    target = Path(folder)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise PropertyError(f"{target} already exists", hint="Name a new folder, or an empty one.")
    with engine.rounds.lock:
        engine.rounds.check_open()
        streams = engine.rounds.catalog.streams()
        groups = member_groups(engine.rounds.catalog)
        members = {query_id for group in groups for query_id in group.ids}
        records = [
            engine.rounds.catalog.record(i) for i in engine.rounds.catalog.queries.ids() if i not in members
        ]
        singles = [
            _view(record.name, record.properties, core_text(record.text))
            for record in sorted(records, key=lambda r: (r.properties.owner, r.name))
        ]
        columns = [_parameter_columns(engine, group) for group in groups]
    files: list[Path] = []
    try:
        target.mkdir(parents=True, exist_ok=True)
        if streams:
            files.append(_written(target / "streams.sql", map(_table, streams)))
        if singles:
            files.append(_written(target / "queries.sql", singles))
        slugs = _slugs(groups, {"streams", "queries"} | {record.name for record in records})
        for slug, group, columns_ in zip(slugs, groups, columns, strict=True):
            rows = target / f"{slug}.parquet"
            pq.write_table(pa.table({NAME: group.names, **columns_}), rows, compression="zstd")
            view = _view(slug, group.properties, core_text(group.text), {RULES_TABLE: rows.name})
            files += [_written(target / f"{slug}.sql", [view]), rows]
    except OSError as error:
        raise PropertyError(f"cannot write to {target}", detail=str(error)) from error
    return Exported(tuple(files), len(streams), len(records) + len(members))


def _written(file: Path, statements: Iterator[str] | list[str]) -> Path:
    file.write_text("\n".join(f"{statement};\n" for statement in statements), encoding="utf-8")
    return file


def _view(name: str, properties: Properties, text: str, more: dict[str, str] | None = None) -> str:
    all_stated = dict(_stated(properties)) | (more or {})
    properties_text = ", ".join(f"{word} = {_string(value)}" for word, value in all_stated.items())
    head = f"CREATE OR REPLACE VIEW {quoted_name(name)}" + (
        f" TBLPROPERTIES ({properties_text})" if properties_text else ""
    )
    return f"{head} AS\n{text}" + ("\n" if "--" in text.rpartition("\n")[2] else "")


def _stated(properties: Properties) -> Iterator[tuple[str, str]]:
    for word, value in stated(properties).items():
        if isinstance(value, tuple):
            yield word, ", ".join(value)
        else:
            yield word, str(value).lower() if isinstance(value, bool) else str(value)


def _table(stream: Stream) -> str:
    columns = [
        f"{quoted_name(f.name)} {type_name(f.type)}{'' if f.nullable else ' NOT NULL'}" for f in stream.schema
    ]
    if stream.key:
        columns.append(f"PRIMARY KEY ({', '.join(map(quoted_name, stream.key))})")
    text = f"CREATE TABLE {quoted_name(stream.name)} ({', '.join(columns)})"
    if stream.source:
        text += f" USING {stream.source}"
    if stream.options:
        text += f" OPTIONS ({', '.join(_option(stream, k, v) for k, v in stream.options)})"
    properties = [("time", stream.time)] if stream.time else []
    properties += [("lateness", duration_text(stream.lateness_us))] if stream.lateness_us else []
    properties_texts = [f"{word} = {_string(value)}" for word, value in properties]
    properties_texts += [_option(stream, k, v) for k, v in stream.properties]
    return text + (f" TBLPROPERTIES ({', '.join(properties_texts)})" if properties_texts else "")


def _option(stream: Stream, name: str, value: str) -> str:
    """An option as written; a secret in plain text becomes the name of a variable to be set."""
    if is_secret(name, value):
        value = "${env:" + re.sub(r"\W", "_", f"{stream.name}_{name}").upper() + "}"
    return f"{_string(name)} = {_string(value)}"


def _string(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _slugs(groups: list[MemberGroup], used_names: set[str]) -> list[str]:
    """A file name for each template: what the names of its queries begin with."""
    slugs: list[str] = []
    for group in groups:
        stem = _beginning(min(group.names), max(group.names))
        stem = re.sub(r"[^\w-]+", "-", stem).strip("-_") or "template"
        names = itertools.chain([stem[:60]], (f"{stem[:60]}-{n}" for n in itertools.count(2)))
        slug = next(name for name in names if name.lower() not in used_names)
        used_names.add(slug.lower())
        slugs.append(slug)
    return slugs


def _beginning(a: str, b: str) -> str:
    """What two names begin with; of the first and the last in order, what all between them do."""
    n = next((k for k, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    return a[:n]


def _parameter_columns(engine: OpenEngine, group: MemberGroup) -> dict[str, pa.Array]:
    """A column for each parameter, in a type that binds the template to the shape it has."""
    choices: dict[str, list[int]] = {}
    for slot in group.shape.slots:
        if slot.name is not None:
            choices.setdefault(slot.name, []).append(slot.index)
    for picked in itertools.product(*choices.values()):
        columns = {name: group.slots[at] for name, at in zip(choices, picked, strict=True)}
        if len(choices) == sum(map(len, choices.values())) or _binds(engine, group, columns):
            return columns
    return {name: group.slots[at[0]] for name, at in choices.items()}


def _binds(engine: OpenEngine, group: MemberGroup, columns: dict[str, pa.Array]) -> bool:
    rounds = engine.rounds
    types = {name: column.type for name, column in columns.items()}
    try:
        shape: Shape = Shapes(time_zone=rounds.time_zone).shape_of(
            group.text, rounds.catalog, rounds.functions, params=types, properties=group.properties
        )[0]
    except EddylineError:
        return False
    return is_same_shape(shape, group.shape)
