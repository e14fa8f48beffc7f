"""Statements: a rule file is ordinary Spark DDL.

    SELECT …
    CREATE [OR REPLACE] TABLE [IF NOT EXISTS] name (column TYPE [NOT NULL] [PRIMARY KEY], …)
        [USING source] [OPTIONS (…)] [TBLPROPERTIES (…)]
    CREATE [OR REPLACE] VIEW [IF NOT EXISTS] name [TBLPROPERTIES (…)] AS SELECT …
    ALTER VIEW name AS SELECT …  |  SET TBLPROPERTIES (…)  |  UNSET TBLPROPERTIES [IF EXISTS] (…)
    DROP VIEW | TABLE [IF EXISTS] name

A TABLE is a stream; a VIEW is a query with a name. Each statement keeps its own text as it was written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from eddyline.durations import duration_us
from eddyline.errors import (
    EddylineError,
    ParseError,
    PropertyError,
    Span,
    UnknownNameError,
    did_you_mean,
    nearest,
)
from eddyline.model import Stream
from eddyline.sql import lexer
from eddyline.sql.cursor import Cursor
from eddyline.sql.lexer import Constant, Token
from eddyline.sql.literals import string_value
from eddyline.sql.reading import RESERVED, type_end
from eddyline.sql.refusals import STATEMENTS
from eddyline.sql.syntax import TypeText
from eddyline.sql.written_types import written_type
from eddyline.stream_properties import checked_join_properties
from eddyline.time_properties import with_time

Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement, as written."""

    text: str


@dataclass(frozen=True, slots=True)
class Select(Statement):
    """A query without a name."""


@dataclass(frozen=True, slots=True)
class CreateStream(Statement):
    stream: Stream
    replace: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class CreateView(Statement):
    """`text` is the query; `statement` the whole of it."""

    name: str
    properties: Pairs = ()
    replace: bool = False
    if_not_exists: bool = False
    statement: str = ""


@dataclass(frozen=True, slots=True)
class AlterView:
    """Another query (`text`), or properties to set or to forget."""

    name: str
    text: str | None = None
    set_properties: Pairs = ()
    unset_properties: tuple[str, ...] = ()
    statement: str = ""


@dataclass(frozen=True, slots=True)
class Drop(Statement):
    kind: str  # view or table
    name: str
    if_exists: bool = False
    is_cascade: bool = False  # with the queries that read it


AnyStatement = Select | CreateStream | CreateView | AlterView | Drop


def parse_statements(text: str) -> list[AnyStatement]:
    """The statements of a text, separated by `;`."""
    try:
        tokens, constants = lexer.scan(text)
        ends = [n for n, token in enumerate(tokens) if token.text == ";"] + [len(tokens)]
        statements: list[AnyStatement] = []
        start = 0
        for end in ends:
            if end > start:
                statements.append(_Grammar(text, tokens, constants, start, end).statement())
            start = end + 1
    except EddylineError as error:
        raise error.located(text) from None
    return statements


_QUERIES = ("SELECT", "WITH")
_LEADING = ("SELECT", "WITH", "CREATE", "ALTER", "DROP")
_VIEW_CLAUSES = ("TBLPROPERTIES", "COMMENT", "AS")
_TABLE_CLAUSES = ("USING", "OPTIONS", "TBLPROPERTIES", "COMMENT")


class _Grammar(Cursor):
    """Reads one statement: tokens `at` up to `end`."""

    def __init__(
        self, text: str, tokens: Sequence[Token], constants: Sequence[Constant], at: int, end: int
    ) -> None:
        super().__init__(text, tokens, at, end)
        self._constants = constants
        self._first = at

    def statement(self) -> AnyStatement:
        if self.word() in _QUERIES:
            return Select(self._rest())
        if self.take("CREATE"):
            return self._create()
        if self.take("ALTER"):
            return self._alter()
        if self.take("DROP"):
            return self._drop()
        word = self.word()
        near = nearest(word, _LEADING) if word else None
        hint = f"Did you mean {near}?" if near else f"Accepted are {STATEMENTS}."
        if near is None and word.isalpha():
            raise ParseError(f"{word} is not accepted here", span=self.here, hint=hint)
        raise ParseError(f"expected a statement, found {self.token_text()}", span=self.here, hint=hint)

    # ---------------------------------------------------------------- CREATE

    def _create(self) -> AnyStatement:
        replace = self.take("OR", "REPLACE")
        for word in ("TEMPORARY", "TEMP", "GLOBAL", "MATERIALIZED", "EXTERNAL", "STREAMING", "STREAM"):
            if self.word() == word:
                raise self.unsupported_error(
                    f"CREATE {word}", "Write CREATE TABLE for a stream, CREATE VIEW for a query."
                )
        if self.take("TABLE"):
            return self._create_table(replace)
        if self.take("VIEW"):
            return self._create_view(replace)
        near = nearest(self.peek().text, ("TABLE", "VIEW"))
        raise self.expected_error("TABLE or VIEW", hint=near and f"Did you mean {near}?")

    def _if_not_exists(self, replace: bool) -> bool:
        here = self.here
        found = self.take("IF", "NOT", "EXISTS")
        if found and replace:
            raise ParseError("OR REPLACE and IF NOT EXISTS exclude each other", span=here)
        return found

    def _create_view(self, replace: bool) -> CreateView:
        if_not_exists = self._if_not_exists(replace)
        name, _ = self._qualified_name("a name for the view")
        if self.word() == "(":
            raise self.unsupported_error("a column list", "Name the columns in the SELECT with AS.")
        properties: Pairs = ()
        while not self.take("AS"):
            if self.take("TBLPROPERTIES"):
                properties += self._pairs()
            elif self.take("COMMENT"):
                self._string("a comment")
            elif self.is_at_end:
                raise self.expected_error("AS and the query of the view")
            else:
                raise self.unexpected_error(_VIEW_CLAUSES)
        return CreateView(self._query(), name, properties, replace, if_not_exists, self._whole())

    def _create_table(self, replace: bool) -> CreateStream:
        if_not_exists = self._if_not_exists(replace)
        name, _ = self._qualified_name("a name for the stream")
        opening = self.peek()
        if not self.take("("):
            raise self.expected_error("( and the columns of the stream")
        fields, key = self._columns()
        self.close(opening)
        source = ""
        options: Pairs = ()
        properties: Pairs = ()
        while not self.is_at_end:
            if self.take("USING"):
                source, _ = self.name("a source after USING")
            elif self.take("OPTIONS"):
                options += self._pairs()
            elif self.take("TBLPROPERTIES"):
                properties += self._pairs()
            elif self.take("COMMENT"):
                self._string("a comment")
            elif self.word() in ("PARTITIONED", "CLUSTERED", "LOCATION", "AS", "SELECT"):
                raise self.unsupported_error(f"{self.word()} for a stream")
            else:
                raise self.unexpected_error(_TABLE_CLAUSES)
        return self._stream(name, fields, key, source, options, properties, replace, if_not_exists)

    def _stream(
        self,
        name: str,
        fields: Sequence[pa.Field],
        key: Sequence[tuple[str, Span]],
        source: str,
        options: Pairs,
        properties: Pairs,
        replace: bool,
        if_not_exists: bool,
    ) -> CreateStream:
        names = [f.name for f in fields]
        spelt = {n.lower(): n for n in names}
        for column, span in key:
            if column.lower() not in spelt:
                raise UnknownNameError(
                    f"there is no column {column} to be the key",
                    span=span,
                    hint=did_you_mean(column, names, noun="column"),
                )
        properties_by_name = {k.lower(): v for k, v in properties}
        plain = Stream(name, pa.schema(fields), properties=tuple(properties_by_name.items()))
        timed = with_time(plain, properties_by_name.pop("time", None))
        time, properties_by_name = timed.time, {k: v for k, v in timed.properties if k != "time"}
        if time is not None and time.lower() not in spelt:
            raise UnknownNameError(
                f"there is no column {time} to be the time", hint=did_you_mean(time, names, noun="column")
            )
        try:
            lateness_us = duration_us(properties_by_name.pop("lateness", 0))
        except PropertyError as error:
            raise PropertyError(f"property lateness: {error.problem}", hint=error.hint) from None
        stream = Stream(
            name,
            pa.schema(fields),
            spelt[time.lower()] if time is not None else None,
            lateness_us,
            tuple(spelt[column.lower()] for column, _ in key),
            source,
            options,
            tuple(properties_by_name.items()),
        )
        return CreateStream(self._whole(), checked_join_properties(stream), replace, if_not_exists)

    def _columns(self) -> tuple[list[pa.Field], list[tuple[str, Span]]]:
        fields: list[pa.Field] = []
        key: list[tuple[str, Span]] = []
        while True:
            if self.take("PRIMARY", "KEY") or self._is_named_key():
                key = self._once(key, self._names())
            else:
                field, is_key, span = self._column()
                if any(f.name.lower() == field.name.lower() for f in fields):
                    raise ParseError(f"two columns are called {field.name}", span=span)
                fields.append(field)
                if is_key:
                    key = self._once(key, [(field.name, span)])
            if not self.take(","):
                break
        if not fields:
            raise ParseError("a stream needs at least one column", span=self.here)
        return fields, key

    def _is_named_key(self) -> bool:
        if self.word() == "CONSTRAINT" and self.word(2) == "PRIMARY":
            self.at += 2
            self.expect("PRIMARY", "KEY")
            return True
        return False

    def _once(self, known: list[tuple[str, Span]], new: list[tuple[str, Span]]) -> list[tuple[str, Span]]:
        if known:
            raise ParseError(
                "a stream has one PRIMARY KEY",
                span=self.previous.span,
                hint="Several columns: PRIMARY KEY (a, b).",
            )
        return new

    def _column(self) -> tuple[pa.Field, bool, Span]:
        name, span = self.name("a column")
        column_type = written_type(self._type())
        is_nullable, is_key = True, False
        while True:
            if self.take("NOT", "NULL"):
                is_nullable = False
            elif self.take("PRIMARY", "KEY"):
                is_key = True
            elif self.take("COMMENT"):
                self._string("a comment")
            elif self.word() in ("DEFAULT", "GENERATED", "COLLATE", "UNIQUE", "CHECK", "REFERENCES"):
                raise self.unsupported_error(f"{self.word()} for a column of a stream")
            else:
                return pa.field(name, column_type, is_nullable), is_key, span

    def _type(self) -> TypeText:
        if not self.is_name():
            raise self.expected_error(f"a type after {self.previous.text}")
        first = self.at
        self.at = type_end(self.tokens, first, self.end)
        span = self.since(first)
        return TypeText(self.text[span.start : span.end], span=span)

    # ---------------------------------------------------------------- ALTER, DROP

    def _alter(self) -> AlterView:
        if self.word() == "TABLE":
            raise self.unsupported_error(
                "ALTER TABLE", "Declare the stream again with CREATE OR REPLACE TABLE."
            )
        self.expect("VIEW")
        name, _ = self._qualified_name("the name of the view")
        if self.take("AS"):
            return AlterView(name, self._query(), statement=self._whole())
        if self.take("SET"):
            self.expect("TBLPROPERTIES")
            pairs = self._pairs()
            self._finish()
            return AlterView(name, set_properties=pairs, statement=self._whole())
        if self.take("UNSET"):
            self.expect("TBLPROPERTIES")
            self.take("IF", "EXISTS")
            names = tuple(n.lower() for n, _ in self._names())
            self._finish()
            return AlterView(name, unset_properties=names, statement=self._whole())
        raise self.expected_error("AS, SET TBLPROPERTIES or UNSET TBLPROPERTIES")

    def _drop(self) -> Drop:
        kind = self.word()
        if kind not in ("VIEW", "TABLE"):
            raise self.expected_error("VIEW or TABLE")
        self.at += 1
        if_exists = self.take("IF", "EXISTS")
        name, _ = self._qualified_name(f"the name of the {kind.lower()}")
        is_cascade = kind == "VIEW" and self.take("CASCADE")
        self._finish()
        return Drop(self._whole(), kind.lower(), name, if_exists, is_cascade)

    # ---------------------------------------------------------------- pieces

    def _qualified_name(self, what: str) -> tuple[str, Span]:
        name, span = self.name(what, RESERVED)
        if self.word() == ".":
            raise self.unsupported_error("a name with a database", "Streams and views have plain names.")
        return name, span

    def _names(self) -> list[tuple[str, Span]]:
        opening = self.peek()
        if not self.take("("):
            raise self.expected_error("(")
        names = [self._key()]
        while self.take(","):
            names.append(self._key())
        self.close(opening)
        return names

    def _pairs(self) -> Pairs:
        """(key = 'value', …); the `=` may be left out, keys may be quoted or dotted."""
        opening = self.peek()
        if not self.take("("):
            raise self.expected_error("(")
        pairs: dict[str, str] = {}
        while True:
            key, span = self._key()
            if key.lower() in (k.lower() for k in pairs):
                raise ParseError(f"{key} is given twice", span=span)
            self.take("=")
            pairs[key] = self._value(key)
            if not self.take(","):
                break
        self.close(opening)
        return tuple(pairs.items())

    def _key(self) -> tuple[str, Span]:
        token = self.peek()
        if token.constant is not None and self._constants[token.constant].kind == lexer.STRING:
            self.at += 1
            return string_value(self._constants[token.constant].raw), token.span
        name, span = self.name("a name")
        while self.take("."):
            part, end = self.name("a name after .")
            name, span = f"{name}.{part}", span.to(end)
        return name, span

    def _value(self, key: str) -> str:
        token = self.peek()
        if token.constant is not None:
            constant = self._constants[token.constant]
            if constant.kind != lexer.PARAMETER and not constant.is_list:
                self.at += 1
                return string_value(constant.raw) if constant.kind == lexer.STRING else token.text
        if self.word() in ("TRUE", "FALSE"):
            self.at += 1
            return token.text.lower()
        if key.lower() == "time" and self.word(1) == "(":
            return self._expression_text()
        raise self.expected_error(f"a value for {key}", hint="Write text in quotes.")

    def _expression_text(self) -> str:
        """A call as it is written, such as timestamp_millis(ts)."""
        first = self.at
        self.name("a function")
        opening = self.peek()
        self.expect("(")
        while self.at < self.end and self.word() not in (")", "("):
            self.at += 1
        self.close(opening)
        span = self.since(first)
        return self.text[span.start : span.end]

    def _string(self, what: str) -> str:
        token = self.peek()
        if token.constant is None or self._constants[token.constant].kind != lexer.STRING:
            raise self.expected_error(f"{what} in quotes")
        self.at += 1
        return string_value(self._constants[token.constant].raw)

    def _query(self) -> str:
        """The rest of the statement, which must be a query."""
        if self.word() not in _QUERIES:
            raise self.expected_error("SELECT", hint="A view is a query: … AS SELECT … FROM stream.")
        return self._rest()

    def _finish(self) -> None:
        if not self.is_at_end:
            raise self.unexpected_error(())

    def _rest(self) -> str:
        span = self.tokens[self.at].span.to(self.tokens[self.end - 1].span)
        return self.text[span.start : span.end]

    def _whole(self) -> str:
        span = self.tokens[self._first].span.to(self.tokens[self.end - 1].span)
        return self.text[span.start : span.end]
