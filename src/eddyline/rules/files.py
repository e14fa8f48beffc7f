"""Rule files: the rules a team wants deployed, as ordinary Spark DDL.

    CREATE TABLE trades (sym STRING, price DOUBLE);                               a stream
    CREATE OR REPLACE VIEW cheap TBLPROPERTIES (owner = 'ops') AS SELECT …;       a query
    CREATE OR REPLACE VIEW `watch-{user}` TBLPROPERTIES (rules_table = 'watches.csv') AS SELECT … :limit …;
                                                                                  a query for every row of a table
    SELECT …                                                                      alone in its file: a query named after the file

Reading stops at no mistake: all of them are returned, each with file, line and column.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eddyline.errors import EddylineError, PropertyError, Span, did_you_mean
from eddyline.model import Properties, Stream
from eddyline.pipeline import Mistake, Pipeline, Place, SinkSettings, place_of
from eddyline.pipeline import RulesTable as PipelineTable
from eddyline.secrets import SECRET_WORD, is_secret
from eddyline.sources import beside
from eddyline.sql import AlterView, CreateStream, CreateView, Drop, Select, parse_statements, properties
from eddyline.stream_properties import is_static

RULES_TABLE = "rules_table"


@dataclass(frozen=True, slots=True)
class Origin:
    """Place of a text: `start` is its offset in the text of the file."""

    file: Path
    file_text: str = field(repr=False)
    start: int
    place: Place  # of the statement

    def mistake(self, error: EddylineError) -> Mistake:
        """An error about the text, as a mistake at its place in the file."""
        place, detail = self.place, error.detail
        if error.span is not None and self.file_text:
            place = place_of(self.file, self.file_text, error.span.shifted(self.start))
        elif error.span is not None and error.text is not None:
            line, column = error.position or (1, 1)
            detail = f"At line {line}, column {column} of the template. {detail or ''}".rstrip()
        return Mistake(place, error.problem, detail, error.hint)


@dataclass(frozen=True, slots=True)
class Rule:
    """A query as a file states it."""

    name: str
    text: str
    properties: Properties
    origin: Origin


@dataclass(frozen=True, slots=True)
class TableRule:
    """A template and the table whose every row is a query; `name` is formatted with the row, which is thereby its key."""

    name: str
    text: str
    properties: Properties
    file: Path  # CSV or Parquet
    origin: Origin
    key: tuple[str, ...] = ()  # columns that must be there and not NULL, besides those the name uses


@dataclass(frozen=True, slots=True)
class StatedStream:
    stream: Stream
    place: Place


@dataclass(slots=True)
class Desired:
    """All rules, tables and streams that files declare."""

    streams: list[StatedStream] = field(default_factory=list)
    rules: list[Rule] = field(default_factory=list)
    tables: list[TableRule] = field(default_factory=list)
    mistakes: list[Mistake] = field(default_factory=list)
    sinks: tuple[SinkSettings, ...] = ()  # of a pipeline


Source = str | Path | Pipeline | Iterable[str | Path]


def desired(source: Source) -> Desired:
    """The rules, tables and streams that a pipeline, a folder of rule files, or a list of files declares."""
    found = Desired()
    if isinstance(source, Pipeline):
        for settings in source.streams:
            place = settings.place or Place(source.path, 1, 1)
            found.streams.append(StatedStream(settings.stream, place))
        templates = {table.template_file for table in source.rules.tables}
        for file in source.rules.files:
            if file not in templates:  # which are no rules by themselves
                _read_file(file, found)
        for table in source.rules.tables:
            _take_pipeline_table(table, source, found)
        _refuse_unknown_sinks(found, [sink.name for sink in source.sinks])
        found.sinks = source.sinks
    else:
        for file in rule_files([source] if isinstance(source, (str, Path)) else source):
            _read_file(file, found)
    _refuse_twins(found)
    return found


def rule_files(paths: Iterable[str | Path]) -> list[Path]:
    """The files at `paths`, and all *.sql below those that are folders."""
    files: dict[Path, None] = {}
    for each in paths:
        path = Path(each)
        if path.is_dir():
            inside = [
                f
                for f in path.rglob("*.sql")
                if not any(p.startswith(".") for p in f.relative_to(path).parts)
            ]
            if not inside:
                raise PropertyError(
                    f"there are no rules in {path}",
                    hint="Rule files end in .sql; write one, or name another folder.",
                )
            files |= dict.fromkeys(sorted(inside))
        elif path.exists():
            files[path] = None
        else:
            raise PropertyError(
                f"there is no file or folder {path}", hint="Name a .sql file or a folder of them."
            )
    return list(files)


def statements(text: str) -> Iterator[tuple[int, str]]:
    """The parts of a text between its semicolons, each with where it starts."""
    start = 0
    for piece in _PIECES.finditer(text):
        if piece.group() == ";":
            yield start, text[start : piece.start()]
            start = piece.end()
    yield start, text[start:]


_PIECES = re.compile(
    r"""[^;'"`/rR-]+"""
    r"""|[rR]'[^']*'|[rR]"[^"]*"|'(?:\\.|''|[^'\\])*'|"(?:\\.|""|[^"\\])*"|`(?:``|[^`])*`"""
    r"""|--[^\n]*|/\*.*?\*/|.""",
    re.DOTALL,
)


def core_text(text: str) -> str:
    """A query without the blanks, comments and semicolon around it: as a rule file would give it."""
    try:
        statements = parse_statements(text)
    except EddylineError:
        return text
    return statements[0].text if len(statements) == 1 and isinstance(statements[0], Select) else text


def _read_file(file: Path, found: Desired) -> None:
    start = Place(file, 1, 1)
    try:
        text = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        found.mistakes.append(Mistake(start, "the file is not UTF-8", str(error), "Save it as UTF-8."))
        return
    except OSError as error:
        found.mistakes.append(Mistake(start, "the file cannot be read", error.strerror))
        return
    bare: list[Rule] = []
    n_statements = 0
    for offset, piece in statements(text):
        try:
            parsed = parse_statements(piece)
        except EddylineError as error:
            first = offset + len(piece) - len(piece.lstrip())
            place = place_of(file, text, Span(first, first + 1))
            mistake = Origin(file, text, offset, place).mistake(error)
            found.mistakes.append(_without_secrets(mistake, piece))
            n_statements += 1
            continue
        for statement in parsed:
            n_statements += 1
            whole = (
                statement.text if isinstance(statement, (Select, CreateStream, Drop)) else statement.statement
            )
            at = offset + piece.find(whole)
            place = place_of(file, text, Span(at, at + len(whole)))
            if isinstance(statement, Select):
                bare.append(Rule(file.stem, statement.text, Properties(), Origin(file, text, at, place)))
            elif isinstance(statement, CreateView):
                start_of_query = at + whole.rfind(statement.text)
                _take_view(statement, Origin(file, text, start_of_query, place), found)
            elif isinstance(statement, CreateStream):
                _take_stream(statement.stream, place, found)
            else:
                _refuse_statement(statement, place, found)
    if len(bare) == 1 and n_statements == 1:
        found.rules += bare
        return
    for rule in bare:
        found.mistakes.append(
            Mistake(
                rule.origin.place,
                "a SELECT without a name must be alone in its file",
                f"It would be called {file.stem}, and {file.name} holds {n_statements} statements.",
                "Name it: CREATE OR REPLACE VIEW name AS SELECT ….",
            )
        )


def _take_view(view: CreateView, origin: Origin, found: Desired) -> None:
    stated = {name.lower(): value for name, value in view.properties}
    table = stated.pop(RULES_TABLE, None)
    declared = _properties(stated, origin, found)
    if declared is None:
        return
    if table is None:
        found.rules.append(Rule(view.name, view.text, declared, origin))
    else:
        file = origin.file.parent / table
        found.tables.append(TableRule(view.name, view.text, declared, file, origin))


def _take_pipeline_table(table: PipelineTable, pipeline: Pipeline, found: Desired) -> None:
    place = table.place or Place(pipeline.path, 1, 1)
    origin = Origin(pipeline.path, "", 0, place)
    text = core_text(table.template)
    if table.template_file is not None:
        try:
            file_text = table.template_file.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError):
            file_text = ""  # the pipeline had read it; its place in the file is then all that is known
        if text in file_text:
            origin = Origin(table.template_file, file_text, file_text.index(text), place)
    declared = _properties(table.properties, origin, found)
    if declared is not None:
        found.tables.append(TableRule(table.name, text, declared, table.file, origin, table.key))


def _properties(stated: Mapping[str, Any], origin: Origin, found: Desired) -> Properties | None:
    try:
        return properties(stated)
    except EddylineError as error:
        found.mistakes.append(Mistake(origin.place, error.problem, error.detail, error.hint))
        return None


def _take_stream(stream: Stream, place: Place, found: Desired) -> None:
    for name, value in (*stream.options, *stream.properties):
        if is_secret(name, value):
            found.mistakes.append(
                Mistake(
                    Place(place.file, place.line, place.column),  # without its line, which holds the secret
                    f"option {name} of stream {stream.name} holds a secret in plain text",
                    "Declarations are stored in the home and shown.",
                    f"Write {name} '${{env:NAME}}' or '${{file:/path}}'.",
                )
            )
            return
    if is_static(stream):
        stream = beside(stream, place.file.absolute().parent)
    found.streams.append(StatedStream(stream, place))


def _without_secrets(mistake: Mistake, statement: str) -> Mistake:
    """A mistake in a statement that seems to hold a secret: where it is, and nothing of the text."""
    if not (re.search(r"\bOPTIONS\b", statement, re.IGNORECASE) and SECRET_WORD.search(statement)):
        return mistake
    place = Place(mistake.place.file, mistake.place.line, mistake.place.column)
    return Mistake(
        place,
        "the statement cannot be read",
        "Its text is not shown, as it seems to hold a secret.",
        "Write options as name = 'value', and secrets as '${env:NAME}' or '${file:/path}'.",
    )


def _refuse_statement(statement: AlterView | Drop, place: Place, found: Desired) -> None:
    what = "ALTER VIEW" if isinstance(statement, AlterView) else f"DROP {statement.kind.upper()}"
    found.mistakes.append(
        Mistake(
            place,
            f"{what} is not accepted in a rule file",
            "A rule file declares what should be deployed, not what to do.",
            "Change the CREATE VIEW itself; what is in no file is dropped by eddyline apply --prune.",
        )
    )


def _refuse_twins(found: Desired) -> None:
    """Two entries under one name: the second is a mistake."""
    named: dict[tuple[str, str], Place] = {}
    rules: list[Rule] = []
    for rule in found.rules:
        known = named.setdefault((rule.properties.owner, rule.name), rule.origin.place)
        if known is rule.origin.place:
            rules.append(rule)
        else:
            found.mistakes.append(_twin(rule.origin.place, f"rule {rule.name} already exists", known))
    tables: list[TableRule] = []
    for table in found.tables:
        known = named.setdefault((table.properties.owner, table.name), table.origin.place)
        if known is table.origin.place:
            tables.append(table)
        else:
            found.mistakes.append(_twin(table.origin.place, f"rule {table.name} already exists", known))
    declared: dict[str, Place] = {}
    streams: list[StatedStream] = []
    for stated in found.streams:
        known = declared.setdefault(stated.stream.name.lower(), stated.place)
        if known is stated.place:
            streams.append(stated)
        else:
            found.mistakes.append(_twin(stated.place, f"stream {stated.stream.name} already exists", known))
    found.rules, found.tables, found.streams = rules, tables, streams


def _refuse_unknown_sinks(found: Desired, sinks: Sequence[str]) -> None:
    """A pipeline knows its sinks: a rule can be delivered to no other."""
    stated = [(rule.properties, rule.origin) for rule in found.rules]
    stated += [(table.properties, table.origin) for table in found.tables]
    for properties_, origin in stated:
        for name in properties_.deliver:
            if name not in sinks:
                hint = did_you_mean(name, sinks, noun="sink")
                problem = f"property deliver: there is no sink {name}"
                found.mistakes.append(Mistake(origin.place, problem, hint=hint))


def _twin(place: Place, problem: str, known: Place) -> Mistake:
    return Mistake(place, problem, f"The first is at {known}.", "Rename one of them, or leave one out.")
