"""Which column a name means: the inputs of a query and their columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from eddyline import types
from eddyline.errors import (
    AmbiguousNameError,
    EddylineError,
    Span,
    TypeMismatchError,
    UnknownNameError,
    UnsupportedError,
    did_you_mean,
    nearest,
)
from eddyline.expressions import call
from eddyline.model import Column, Expression, Literal


@dataclass(frozen=True, slots=True)
class ScopeSource:
    """An input as the binder sees it: what a query calls it, what it is, and its columns."""

    alias: str  # nothing: a query that was given no name
    stream: str
    schema: pa.Schema
    input: str = ""  # what its columns call it
    columns: tuple[Expression, ...] | None = None  # of a query: what its columns are

    @property
    def label(self) -> str:
        """As a message names it."""
        return self.alias or self.stream


@dataclass(frozen=True, slots=True)
class ScopeColumn:
    """A column of an input: its name, the alias of the input, and what it is."""

    name: str
    alias: str
    expression: Expression

    @property
    def identity(self) -> tuple[str, str]:
        return self.alias.lower(), self.name.lower()


@dataclass(slots=True)
class Scope:
    """The columns a name may mean."""

    sources: Sequence[ScopeSource]
    absent: Mapping[str, str] = field(
        default_factory=dict
    )  # inputs results have no columns of, and why: alias to join
    merged_columns: frozenset[tuple[str, str]] = (
        frozenset()
    )  # (alias, column) that USING has equated with another of the name
    leading: tuple[
        ScopeColumn, ...
    ] = ()  # what * begins with: the columns of USING, the last one's before those of others
    outer: Scope | None = None  # of the query around this one, where it sees its columns
    beside: frozenset[str] = frozenset()  # aliases around a query in FROM, which it does not see

    def column(self, parts: Sequence[str], span: Span) -> Expression:
        """The column, or the field of a struct column, that dotted names mean."""
        found, names = self.find(parts, span)
        return fields(found.expression, names, span)

    def find(self, parts: Sequence[str], span: Span) -> tuple[ScopeColumn, Sequence[str]]:
        """The column that dotted names begin with, and the names of fields behind it."""
        if self.outer is None:
            return self._own(parts, span)
        try:
            return self._own(parts, span)
        except UnknownNameError:
            if not self.outer.knows(parts):
                raise
        return self.outer.find(parts, span)

    def knows(self, parts: Sequence[str]) -> bool:
        """Whether dotted names can mean a column of this query, or of one around it."""
        is_alias = len(parts) > 1 and any(s.alias.lower() == parts[0].lower() for s in self.sources)
        return is_alias or self.has(parts[0])

    def _own(self, parts: Sequence[str], span: Span) -> tuple[ScopeColumn, Sequence[str]]:
        if len(parts) > 1:
            self._check_present(parts[0], span)
            for source in self.sources:
                if source.alias.lower() == parts[0].lower():
                    found = self._in(source, parts[1])
                    if found is None and self._anywhere(parts[0]):
                        break  # a struct column with the name of an input
                    if found is None:
                        raise self._unknown_error(parts[1], [source], span)
                    return found, parts[2:]
        matches = self._anywhere(parts[0])
        if not matches and len(parts) > 1 and nearest(parts[0], self._names()) is None:
            raise self._unknown_input_error(parts[0], span)
        if not matches:
            raise self._unknown_error(parts[0], self.sources, span)
        if len(matches) > 1:
            owners = " and ".join(source.label for source, _ in matches)
            named = next((source.alias for source, _ in matches if source.alias), "")
            raise AmbiguousNameError(
                f"{parts[0]} could be a column of {owners}",
                span=span,
                hint=f"Write {named}.{parts[0]}." if named else "Give the subqueries names: (SELECT …) AS x.",
            )
        return matches[0][1], parts[1:]

    def has(self, name: str) -> bool:
        """Whether some input has a column of this name."""
        return bool(self._anywhere(name)) or (self.outer is not None and self.outer.has(name))

    def star(self, alias: str | None, span: Span | None) -> list[ScopeColumn]:
        """All columns, or those of one input."""
        sources = [s for s in self.sources if alias is None or s.alias.lower() == alias.lower()]
        self._check_present(alias or "", span)
        if not sources:
            raise self._unknown_input_error(alias or "", span)
        columns = [
            self._as_column(s, at)
            for s in sources
            for at, name in enumerate(s.schema.names)
            if alias is not None or not self._is_merged(s, name)
        ]
        if alias is not None:
            return columns
        return list({column.identity: column for column in (*self.leading, *columns)}.values())

    def _check_present(self, alias: str, span: Span | None) -> None:
        join = self.absent.get(alias.lower())
        if join == "left semi":
            first = self.sources[0].label
            raise UnknownNameError(
                f"results have no columns of {alias}: LEFT SEMI JOIN keeps rows of {first} that have a match",
                span=span,
                hint=f"Name columns of {first}, or write JOIN.",
            )
        if join is not None:
            raise UnknownNameError(
                f"results have no row of {alias}: LEFT ANTI JOIN keeps rows that have no match",
                span=span,
                hint=f"Name columns of {self.sources[0].label}, or write LEFT JOIN.",
            )

    def _is_merged(self, source: ScopeSource, name: str) -> bool:
        return (source.alias.lower(), name.lower()) in self.merged_columns

    def _names(self) -> list[str]:
        return [name for source in self.sources for name in source.schema.names]

    def _anywhere(self, name: str) -> list[tuple[ScopeSource, ScopeColumn]]:
        found = (
            (source, self._in(source, name)) for source in self.sources if not self._is_merged(source, name)
        )
        return [(source, column) for source, column in found if column is not None]

    def _in(self, source: ScopeSource, name: str) -> ScopeColumn | None:
        folded = name.lower()
        hits = [at for at, spelt in enumerate(source.schema.names) if spelt.lower() == folded]
        exact = [at for at in hits if source.schema.names[at] == name] or hits
        return self._as_column(source, exact[0]) if exact else None

    def _as_column(self, source: ScopeSource, at: int) -> ScopeColumn:
        f = source.schema.field(at)
        expression = Column(f.type, f.name, source.input) if source.columns is None else source.columns[at]
        return ScopeColumn(f.name, source.alias, expression)

    def _unknown_input_error(self, name: str, span: Span | None) -> EddylineError:
        if name.lower() in self.beside:
            return UnsupportedError(
                f"a query in FROM does not see {name}, which stands beside it",
                span=span,
                hint="Write the condition in ON or WHERE of the query around it.",
            )
        known = [s.alias for s in self.sources if s.alias]
        return UnknownNameError(
            f"there is no input {name}", span=span, hint=did_you_mean(name, known, noun="input")
        )

    def _unknown_error(self, name: str, sources: Iterable[ScopeSource], span: Span) -> UnknownNameError:
        sources = list(sources)
        names = [n for source in sources for n in source.schema.names]
        where = f" in {' or '.join(s.stream for s in sources)}" if sources and sources[0].stream else ""
        return UnknownNameError(
            f"there is no column {name}{where}", span=span, hint=did_you_mean(name, names, noun="column")
        )


def fields(expression: Expression, names: Sequence[str], span: Span) -> Expression:
    """A field inside a field inside a struct."""
    expression = _with_span(expression, span)
    for name in names:
        expression = struct_field(expression, name, span)
    return expression


def struct_field(expression: Expression, name: str, span: Span) -> Expression:
    if pa.types.is_map(expression.type):
        return call("element", [expression, Literal(types.STRING, name, span=span)], span=span)
    if not pa.types.is_struct(expression.type):
        raise TypeMismatchError(
            f"{types.type_name(expression.type)} has no field {name}",
            span=span,
            hint="Only a STRUCT has fields; a field of a JSON text is written payload:field.",
        )
    known = [f.name for f in expression.type]
    spelt = next((k for k in known if k.lower() == name.lower()), None)
    if spelt is None:
        raise UnknownNameError(
            f"there is no field {name}", span=span, hint=did_you_mean(name, known, noun="field")
        )
    return call("field", [expression, Literal(types.STRING, spelt, span=span)], span=span)


def _with_span(expression: Expression, span: Span) -> Expression:
    """The same column with its span in the text."""
    if isinstance(expression, Column):
        return Column(expression.type, expression.name, expression.input, span=span)
    return expression
