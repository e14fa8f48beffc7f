"""Fuzz targets for texts that users write: SQL, schemas, settings, rules, cursors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import eddyline
from eddyline import rules
from eddyline.errors import EddylineError
from eddyline.pipeline import read_pipeline
from eddyline.runtime import read_place
from eddyline.scripts import parse_script
from eddyline.sources import infer_schema
from eddyline.types import parse_type, type_name


def sql_text(folder: Path) -> Callable[[bytes], None]:
    """A query that is registered, sees a row, is explained and dropped; or is refused."""
    engine = eddyline.open()
    engine.stream("s", "n INT, d DECIMAL(10,2), f DOUBLE, t STRING, ts TIMESTAMP, l ARRAY<INT>", time="ts")
    engine.stream("r", "n INT, t STRING", window="10 rows")
    row = {"n": 1, "d": 2, "f": 0.5, "t": "abc", "ts": "2026-01-05T10:00:00Z", "l": [1, None]}
    engine.query("SELECT s.n FROM s JOIN r ON s.n = r.n WHERE s.n > 0", name="q")
    engine.push({"s": [row], "r": [{"n": 1, "t": "abc"}]})  # compiles what it needs

    def target(data: bytes) -> None:
        text = data.decode(errors="replace")
        try:
            query = engine.query(text, name="q")
        except EddylineError as error:
            str(error)
            return
        try:
            engine.push("s", [row])
            engine.push("r", [{"n": 1, "t": "abc"}])
            for ask in (query.latest, query.explain, query.why_not):
                try:
                    repr(ask())
                except EddylineError as error:
                    str(error)
        finally:
            engine.drop(query)

    return target


def sql_statements(folder: Path) -> Callable[[bytes], None]:
    """Statements one after the other, in an engine of their own."""

    def target(data: bytes) -> None:
        with eddyline.open() as engine:
            engine.stream("s", "n INT, t STRING")
            try:
                engine.sql(data.decode(errors="replace"))
            except EddylineError as error:
                str(error)

    return target


def schema_text(folder: Path) -> Callable[[bytes], None]:
    """A schema, whose types are themselves again when they are named."""

    def target(data: bytes) -> None:
        try:
            schema = infer_schema(data.decode(errors="replace"))
        except EddylineError as error:
            str(error)
            return
        for field in schema:
            if all(name.isidentifier() for name in _names_inside(field.type)):
                assert parse_type(type_name(field.type)) == field.type, field

    return target


def _names_inside(t: object) -> list[str]:
    fields = [t.field(k) for k in range(t.num_fields)]  # type: ignore[attr-defined]
    return [f.name for f in fields] + [name for f in fields for name in _names_inside(f.type)]


def settings_text(folder: Path) -> Callable[[bytes], None]:
    """A pipeline in TOML."""

    def target(data: bytes) -> None:
        try:
            read_pipeline(data.decode(errors="replace"), folder / "eddyline.toml")
        except EddylineError as error:
            str(error)

    return target


def rules_text(folder: Path) -> Callable[[bytes], None]:
    """A file of rules, planned against an engine."""
    engine = eddyline.open()
    engine.stream("s", "n INT, t STRING")
    (folder / "rules").mkdir(exist_ok=True)

    def target(data: bytes) -> None:
        (folder / "rules" / "r.sql").write_bytes(data)
        try:
            rules.plan(engine, rules.desired([folder / "rules"])).as_dict()
        except EddylineError as error:
            str(error)

    return target


def cursor_text(folder: Path) -> Callable[[bytes], None]:
    """Where to go on reading results, and which result is meant, in every place that takes it."""
    engine = eddyline.open(folder / "home")
    engine.stream("s", "n INT")
    query = engine.query("SELECT n FROM s", name="q")
    engine.push("s", [{"n": 1}])

    def target(data: bytes) -> None:
        text = data.decode(errors="replace")
        for read in (read_place, lambda cursor: query.results(after=cursor), engine.receipt):
            try:
                read(text)
            except EddylineError as error:
                str(error)

    return target


def script_text(folder: Path) -> Callable[[bytes], None]:
    """A script of streams, queries, rows and what is expected of them."""

    def target(data: bytes) -> None:
        try:
            parse_script(data.decode(errors="replace"))
        except EddylineError as error:
            str(error)

    return target
