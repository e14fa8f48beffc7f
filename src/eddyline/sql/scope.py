"""Which column a name means: the inputs of a query and their columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from eddyline import types
from eddyline.errors import (
    AmbiguousNameError,
    Span,
    TypeMismatchError,
    UnknownNameError,
    did_you_mean,
    nearest,
)
from eddyline.expressions import call
from eddyline.model import Column, Expression, Literal


@dataclass(frozen=True, slots=True)
class ScopeSource:
    """An input as the binder sees it: what a query calls it, what it is, and its columns."""

    alias: str
    stream: str
    schema: pa.Schema


@dataclass(slots=True)
class Scope:
    """The columns a name may mean."""

    sources: Sequence[ScopeSource]
    is_joined: bool = False  # columns then say which input they are of
    absent: Mapping[str, str] = field(
        default_factory=dict
    )  # inputs results have no columns of, and why: alias to join
    merged_columns: frozenset[tuple[str, str]] = (
        frozenset()
    )  # (alias, column) that USING has equated with another of the name
    leading: tuple[
        Column, ...
    ] = ()  # what * begins with: the columns of USING, the last one's before those of others

    def column(self, parts: Sequence[str], span: Span) -> Expression:
        """The column, or the field of a struct column, that dotted names mean."""
        if len(parts) > 1:
            self._check_present(parts[0], span)
            for source in self.sources:
                if source.alias.lower() == parts[0].lower():
                    found = self._in(source, parts[1])
                    if found is None and self._anywhere(parts[0]):
                        break  # a struct column with the name of an input
                    if found is None:
                        raise self._unknown_error(parts[1], [source], span)
                    return fields(found, parts[2:], span)
        matches = self._anywhere(parts[0])
        if not matches and len(parts) > 1 and nearest(parts[0], self._names()) is None:
            raise UnknownNameError(
                f"there is no input {parts[0]}",
                span=span,
                hint=did_you_mean(parts[0], [s.alias for s in self.sources], noun="input"),
            )
        if not matches:
            raise self._unknown_error(parts[0], self.sources, span)
        if len(matches) > 1:
            owners = " and ".join(source.alias for source, _ in matches)
            raise AmbiguousNameError(
                f"{parts[0]} could be a column of {owners}",
                span=span,
                hint=f"Write {matches[0][0].alias}.{parts[0]}.",
            )
        return fields(matches[0][1], parts[1:], span)

    def has(self, name: str) -> bool:
        """Whether some input has a column of this name."""
        return bool(self._anywhere(name))

    def star(self, alias: str | None, span: Span | None) -> list[Column]:
        """All columns, or those of one input."""
        sources = [s for s in self.sources if alias is None or s.alias.lower() == alias.lower()]
        self._check_present(alias or "", span)
        if not sources:
            raise UnknownNameError(
                f"there is no input {alias}",
                span=span,
                hint=did_you_mean(alias or "", [s.alias for s in self.sources], noun="input"),
            )
        columns = [
            self._as_column(s, f)
            for s in sources
            for f in s.schema
            if alias is not None or not self._is_merged(s, f.name)
        ]
        return columns if alias is not None else list(dict.fromkeys((*self.leading, *columns)))

    def _check_present(self, alias: str, span: Span | None) -> None:
        join, first = self.absent.get(alias.lower()), self.sources[0].alias
        if join == "left semi":
            raise UnknownNameError(
                f"results have no columns of {alias}: LEFT SEMI JOIN keeps rows of {first} that have a match",
                span=span,
                hint=f"Name columns of {first}, or write JOIN.",
            )
        if join is not None:
            raise UnknownNameError(
                f"results have no row of {alias}: LEFT ANTI JOIN keeps rows that have no match",
                span=span,
                hint=f"Name columns of {first}, or write LEFT JOIN.",
            )

    def _is_merged(self, source: ScopeSource, name: str) -> bool:
        return (source.alias.lower(), name.lower()) in self.merged_columns

    def _names(self) -> list[str]:
        return [name for source in self.sources for name in source.schema.names]

    def _anywhere(self, name: str) -> list[tuple[ScopeSource, Column]]:
        found = (
            (source, self._in(source, name)) for source in self.sources if not self._is_merged(source, name)
        )
        return [(source, column) for source, column in found if column is not None]

    def _in(self, source: ScopeSource, name: str) -> Column | None:
        folded = name.lower()
        hits = [f for f in source.schema if f.name.lower() == folded]
        exact = [f for f in hits if f.name == name] or hits
        return self._as_column(source, exact[0]) if exact else None

    def _as_column(self, source: ScopeSource, f: pa.Field) -> Column:
        return Column(f.type, f.name, source.alias if self.is_joined else "")

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
