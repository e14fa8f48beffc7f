"""From the text of a pipeline file to a `Pipeline`, or to every mistake in it."""

from __future__ import annotations

import dataclasses
import glob
import string
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from eddyline.documents import Mistake, PipelineError, Place
from eddyline.engine import Limits, Retention
from eddyline.errors import EddylineError, PropertyError, did_you_mean
from eddyline.pipeline.model import (
    TICK_US,
    EngineSettings,
    Pipeline,
    RulesSettings,
    RulesTable,
    RunLimits,
)
from eddyline.pipeline.shares import share_of
from eddyline.pipeline.sinks import read_sinks
from eddyline.pipeline.static_tables import read_tables
from eddyline.pipeline.streams import STREAM_KEYS, read_streams
from eddyline.pipeline.syntax import document_of
from eddyline.pipeline.tables import Table, TomlDocument
from eddyline.routing import AUTO, routing_options
from eddyline.sql import PROPERTY_NAMES, properties

FILE_NAME = "eddyline.toml"

_TABLES = ("engine", "streams", "tables", "functions", "rules", "sinks", "limits")
_ENGINE = ("home", "time_zone", "seed", "tick", "retention", "audit", "routing", "strict")
_RETENTION = {field.name.removesuffix("_us"): field.name for field in dataclasses.fields(Retention)}
_MEMORY = {
    "results_per_query": "whole",
    "result_bytes": "size",
    "recent_rows": "whole",
    "dead_letters": "whole",
    "groups": "whole",
    "memory": "size",
}
_LIMITS = (
    *_MEMORY,
    "rows_per_round",
    "bytes_per_round",
    "job_from_bytes",
    "bytes_per_job",
    "rows_per_second",
)
_RULES = ("files", "tables")
_RULES_TABLE = ("name", "template", "sql", "file", "key", "properties")
_ELSEWHERE = {
    **dict.fromkeys(_ENGINE, "[engine]"),
    **dict.fromkeys(_LIMITS, "[limits]"),
    **dict.fromkeys(STREAM_KEYS, "[streams.NAME]"),
    **dict.fromkeys(("queries", "bytes_per_file", "takes", "url"), "[[sinks]]"),
    "modules": "[functions]",
    "files": "[rules]",
    "tables": "[rules]",
}


# --------------------------------------------------------------------------------------------- finding and reading


def find_pipeline(start: str | Path | None = None) -> Path | None:
    """The pipeline file: `start` itself, eddyline.toml in that folder, or, without `start`, here or in a folder above."""
    start_path = Path.cwd() if start is None else Path(start).absolute()
    if start_path.is_file():
        return start_path
    for folder in (start_path, *(start_path.parents if start is None else ())):
        if (folder / FILE_NAME).is_file():
            return folder / FILE_NAME
    return None


def load_pipeline(path: str | Path) -> Pipeline:
    """Read and check a pipeline file. Raises PipelineError with all its mistakes.

    What only the machine that runs it can tell, secrets and folders of sources, is checked when it runs.
    """
    file = Path(path).absolute()
    try:
        text = file.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise PropertyError(f"cannot read {path}", detail=error.strerror) from None
    except UnicodeDecodeError as error:
        before = error.object[: error.start]
        place = Place(file, before.count(b"\n") + 1, error.start - (before.rfind(b"\n") + 1) + 1)
        mistake = Mistake(place, "this is not UTF-8", hint="Save the file as UTF-8.")
        raise PipelineError(file, [mistake]) from None
    return read_pipeline(text, file)


def read_pipeline(text: str, path: Path) -> Pipeline:
    """Check the text of a pipeline file that is at `path`, where relative paths start."""
    text = text.replace("\r\n", "\n")
    document, values = document_of(path, text)
    root = Table(document, (), values, "the file")
    pipeline = _read(document, root)
    if document.mistakes:
        raise PipelineError(path, document.mistakes)
    return pipeline


def _read(document: TomlDocument, root: Table) -> Pipeline:
    for key in root.values:
        if key not in _TABLES:
            at_home = _ELSEWHERE.get(key)
            hint = did_you_mean(key, _TABLES, noun="table")
            is_table = isinstance(root.values[key], (dict, list))
            if at_home is not None and not is_table:
                hint = f"It belongs into {at_home}."
            noun = "table" if is_table else "key"
            document.wrong((key,), f"there is no {noun} {key}", hint=hint, of_key=True)
    engine = _engine(root)
    time_zone = engine.time_zone or "UTC"
    streams = read_streams(root.table("streams", "[streams]"), time_zone)
    names = [settings.stream.name.lower() for settings in streams]
    streams += read_tables(root.table("tables", "[tables]"), names, time_zone)
    functions = root.table("functions", "[functions]")
    if functions is not None:
        functions.only(("modules",), _ELSEWHERE)
    rules = _rules(root)
    stated = {
        path[1] for path in document.broken if path[:1] in (("streams",), ("tables",)) and len(path) > 1
    }
    for table in (root.values.get("streams"), root.values.get("tables")):
        stated |= set(table) if isinstance(table, dict) else set()
    stream_names = {str(name).lower(): str(name) for name in stated}  # also of those with mistakes
    return Pipeline(
        path=document.path,
        text=document.text,
        engine=engine,
        streams=tuple(streams),
        functions=() if functions is None else functions.names("modules"),
        rules=rules,
        sinks=read_sinks(root, stream_names, rules, streams, _ELSEWHERE),
        limits=_run_limits(root),
    )


# --------------------------------------------------------------------------------------------- [engine] and [limits]


def _engine(root: Table) -> EngineSettings:
    document = root.document
    table = root.table("engine", "[engine]") or Table(document, ("engine",), {}, "[engine]")
    table.only(_ENGINE, _ELSEWHERE)
    home = table.text("home", "home")
    zone = table.text("time_zone")
    if zone is not None:
        try:
            ZoneInfo(zone)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            table.wrong(
                "time_zone", f"there is no time zone {zone!r}", hint='Name one such as "Europe/Berlin".'
            )
    return EngineSettings(
        home=document.folder / Path(home or "home").expanduser(),
        time_zone=zone,
        seed=table.whole("seed", 0),
        tick_us=table.duration_us("tick", TICK_US),
        limits=_memory_limits(root),
        retention=_retention(table),
        audit=_audit(table),
        routing=_routing(table),
        is_strict=table.flag("strict", False),
    )


def _routing(engine: Table) -> str | Mapping[str, Any]:
    """A policy, or a table of it and its options; each mistake is noted where it is written."""
    routing = engine.values.get("routing", AUTO)
    policy = routing.get("policy", AUTO) if isinstance(routing, Mapping) else routing
    is_right = _is_right(engine, policy, *(["policy"] if isinstance(routing, Mapping) else []))
    if isinstance(routing, Mapping) and is_right:
        named = {name: {"policy": policy, name: value} for name, value in routing.items()}
        checked = [_is_right(engine, given, name) for name, given in named.items()]
        is_right = all(checked)
    return cast("str | Mapping[str, Any]", routing) if is_right else AUTO


def _is_right(engine: Table, routing: object, *key: str) -> bool:
    """Note what is wrong with the routing at this key of it."""
    try:
        routing_options(routing)
    except PropertyError as error:
        engine.document.wrong_as((*engine.at, "routing", *key), error)
        return False
    return True


def _audit(engine: Table) -> float:
    """The share of rounds that are looked at again: a text such as "0.1 %", or a number."""
    share = engine.values.get("audit", 0.0)
    try:
        return share_of(share)
    except PropertyError as error:
        engine.wrong_as("audit", error)
        return 0.0


def _retention(engine: Table) -> Retention | None:
    table = engine.table("retention", "[engine.retention]")
    if table is None:
        return None
    table.only(list(_RETENTION), _ELSEWHERE)
    default, found = Retention(), {}
    for key, field in _RETENTION.items():
        if field.endswith("_us"):
            found[field] = table.duration_us(key, getattr(default, field))
        elif field.endswith("_count"):
            found[field] = table.whole(key, getattr(default, field))
        else:
            found[field] = table.size(key, getattr(default, field))
    return Retention(**found)


def _limits(root: Table) -> Table:
    return root.table("limits", "[limits]") or Table(root.document, ("limits",), {}, "[limits]")


def _memory_limits(root: Table) -> Limits:
    table = _limits(root)
    table.only(_LIMITS, _ELSEWHERE)
    default = Limits()
    found: dict[str, Any] = {}
    for key, kind in _MEMORY.items():
        if kind == "whole":
            found[key] = table.whole(key, getattr(default, key), least=1)
        else:
            found[key] = table.size(key, getattr(default, key)) or getattr(default, key)
    return dataclasses.replace(default, **found)


def _run_limits(root: Table) -> RunLimits:
    table, default = _limits(root), RunLimits()
    n_bytes = table.size("bytes_per_round", default.bytes_per_round)
    job_from = table.size("job_from_bytes", default.job_from_bytes)
    per_job = table.size("bytes_per_job", default.bytes_per_job)
    if per_job == 0:
        table.wrong("bytes_per_job", "bytes_per_job is 0", hint="Write a size such as '256 MB'.")
    if n_bytes < 1:
        table.wrong("bytes_per_round", "bytes_per_round is 0", hint="Write a size such as '16 MB'.")
    n_rows = table.whole("rows_per_round", default.rows_per_round, least=1)
    return RunLimits(n_rows, n_bytes, job_from, per_job, table.number("rows_per_second", None, above=0))


# --------------------------------------------------------------------------------------------- [rules]


def _rules(root: Table) -> RulesSettings:
    table = root.table("rules", "[rules]")
    if table is None:
        return RulesSettings()
    table.only(_RULES, _ELSEWHERE)
    patterns = table.names("files")
    files: dict[Path, None] = {}
    for number, pattern in enumerate(patterns):
        is_list = isinstance(table.values["files"], list)
        at = (*table.at, "files", number) if is_list else (*table.at, "files")
        files |= dict.fromkeys(_matching(table.document, at, pattern))
    tables = [_rules_table(each) for each in table.tables("tables", "[[rules.tables]]")]
    return RulesSettings(patterns, tuple(files), tuple(each for each in tables if each is not None))


def _matching(document: TomlDocument, at: tuple[str | int, ...], pattern: str) -> list[Path]:
    """The files a pattern means, in name order; a pattern that can mean nothing is a mistake."""
    whole = str(document.folder / Path(pattern).expanduser())
    found = sorted(Path(name) for name in glob.glob(whole, recursive=True) if Path(name).is_file())
    if found:
        return found
    fixed = Path(pattern) if not glob.has_magic(pattern) else _fixed_part(Path(pattern))
    if not glob.has_magic(pattern):
        document.wrong(at, f"there is no file {pattern}", hint="Paths start at the folder of this file.")
    elif not (document.folder / fixed.expanduser()).is_dir():
        document.wrong(at, f"there is no folder {fixed}", hint="Paths start at the folder of this file.")
    return []


def _fixed_part(pattern: Path) -> Path:
    fixed = Path()
    for part in pattern.parts[:-1]:
        if glob.has_magic(part):
            break
        fixed /= part
    return fixed


def _rules_table(table: Table) -> RulesTable | None:
    table.only(_RULES_TABLE, _ELSEWHERE)
    n_mistakes = len(table.document.mistakes)
    name = table.text("name", needed='Name the queries by their rows: name = "watch-{user}".')
    if name is not None:
        _check_name(table, name)
    template_file = _existing(table, "template")
    template = table.text("sql")
    if table.has("template") == table.has("sql"):
        hint = 'Write template = "rules/watch.sql" or sql = "SELECT …", one of the two.'
        table.document.wrong(table.at, "a rules table needs one template", hint=hint, of_key=True)
    if template_file is not None:
        template = _file_text(table, "template", template_file)
    if not table.has("file"):
        table.missing("file", hint="Name a CSV or Parquet file whose every row is a query.")
    file = _existing(table, "file")
    if file is not None and file.suffix.lower() not in (".csv", ".parquet", ".pq"):
        table.wrong(
            "file", f"{file.name} is neither CSV nor Parquet", hint="Rules tables are .csv or .parquet files."
        )
    stated = table.table("properties", "properties")
    if stated is not None:
        _check_properties(stated)
    if len(table.document.mistakes) > n_mistakes or name is None or template is None or file is None:
        return None
    return RulesTable(
        name=name,
        template=template,
        template_file=template_file,
        file=file,
        key=table.names("key"),
        properties={} if stated is None else dict(stated.values),
        place=table.place(),
    )


def _check_name(table: Table, name: str) -> None:
    try:
        fields = [field for _, field, _, _ in string.Formatter().parse(name) if field is not None]
    except ValueError as error:
        table.wrong("name", f"name {name!r} cannot be formatted", detail=str(error))
        return
    if not fields:
        hint = 'Name the queries by their rows: name = "watch-{user}".'
        table.wrong("name", f"name {name!r} is the same for every row", hint=hint)


def _check_properties(table: Table) -> None:
    table.only(PROPERTY_NAMES)
    for key, value in table.values.items():
        if key in PROPERTY_NAMES:
            try:
                properties({key: value})
            except EddylineError as error:
                table.wrong_as(key, error)


def _existing(table: Table, key: str) -> Path | None:
    """The file a key names, which must be there."""
    name = table.text(key)
    if name is None:
        return None
    path = table.document.folder / Path(name).expanduser()
    if not path.is_file():
        table.wrong(key, f"there is no file {name}", hint="Paths start at the folder of this file.")
        return None
    return path


def _file_text(table: Table, key: str, path: Path) -> str | None:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        table.wrong(key, f"cannot read {path.name}", detail=error.strerror)
    except UnicodeDecodeError:
        table.wrong(key, f"{path.name} is not UTF-8", hint="Save the file as UTF-8.")
    return None
