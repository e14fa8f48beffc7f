"""A small language that Spark and DuckDB read alike: what a text in it says, with every precedence and type written out.

    query        select [UNION [ALL | DISTINCT] select …]
    select       SELECT [DISTINCT] item, … FROM source [join …] [WHERE condition]
    source       stream [[AS] alias] | (query) [[AS] alias [(name, …)]]
    join         , source | [INNER | CROSS | ASOF] JOIN source [ON condition]
    item         * | alias.* | expression [[AS] name]
    condition    comparisons, [NOT] BETWEEN, [NOT] IN, IS [NOT] NULL, joined by AND, OR, NOT
    expression   columns, numbers, strings without escapes, TRUE, FALSE, NULL, :parameters, + - *, parentheses
                 times of the same kind compared with each other, and with INTERVAL n HOURS, MINUTES or SECONDS added or taken
                 away, below a day: DuckDB is given them as microseconds

Expressions are read by `plain_expressions`, which says what operators are allowed on which types. Everything else is refused.
A stream of a join may be written as recent(stream, …): a judge has just the rows it is about. Of a union one part has rows, and
what the text says is what that part says; all parts must have columns of the same types. DISTINCT, and UNION without ALL, say
nothing of a single row, and are refused where there may be more: over a stream that is read alone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from eddyline.errors import ProofError
from eddyline.nesting import deep
from eddyline.proof.plain_expressions import FRACTIONAL, ExpressionReader, Term, TextInput, UnsupportedText
from eddyline.proof.words import SqlWord, words_of
from eddyline.types import INTERVAL


@dataclass(frozen=True, slots=True)
class Plain:
    """A query of the language: its condition and result columns as DuckDB reads them, and the columns of the stream it needs.

    Of a join, columns are named by their place in FROM: "t1"."price"; `inputs` has those that each input needs.
    """

    condition: str
    items: tuple[str, ...]
    columns: frozenset[str]
    types: tuple[pa.DataType | None, ...] = ()  # of the items
    inputs: tuple[frozenset[str], ...] = ()


def plain(text: str, stream: str, schema: pa.Schema, params: Mapping[str, tuple[pa.DataType, Any]]) -> Plain:
    """What a text over one stream says. Raises ProofError with the first thing that is not in the language."""
    return _read(text, [(stream, schema)], params, is_join=False)


def plain_join(
    text: str,
    inputs: Sequence[tuple[str, pa.Schema]],
    params: Mapping[str, tuple[pa.DataType, Any]],
    other_parts: Collection[int] = (),
) -> Plain:
    """What a join says of these streams, which it names in this order; a table is one. `other_parts` are the places of those that
    other parts of a union read. Raises ProofError like `plain`."""
    return _read(text, inputs, params, is_join=True, other_parts=other_parts)


@deep
def _read(
    text: str,
    inputs: Sequence[tuple[str, pa.Schema]],
    params: Mapping[str, tuple[pa.DataType, Any]],
    *,
    is_join: bool,
    other_parts: Collection[int] = (),
) -> Plain:
    sources = [
        TextInput(stream, {f.name.lower(): f for f in schema}, f'"t{k + 1}".' if is_join else "")
        for k, (stream, schema) in enumerate(inputs)
    ]
    for k in other_parts:
        sources[k].is_of_other_part = True
    reader = _Reader(words_of(text), sources, params)
    try:
        return reader.query()
    except UnsupportedText as refused:
        raise ProofError(
            f"DuckDB does not judge {refused}",
            detail="It is asked only where all operators of a text were found to be the same there as in Spark.",
            hint="Let Spark judge it: pip install 'eddyline[spark]'.",
            text=text,
        ) from None


_Selected = tuple[list[Term], list[tuple[str, Term]]]


class _Reader(ExpressionReader):
    """Reads queries. Those in FROM become part of the one around them: their columns are what they are computed as."""

    def __init__(
        self,
        words: Sequence[SqlWord],
        sources: Sequence[TextInput],
        params: Mapping[str, tuple[pa.DataType, Any]],
    ) -> None:
        super().__init__(words, params)
        self._sources = sources  # streams in the order of the text
        self._n_read = 0  # of these

    @property
    def _is_join(self) -> bool:
        return bool(self._sources[0].prefix)

    def query(self) -> Plain:
        conditions, items = self._union(is_nested=False)
        inputs = tuple(frozenset(source.used) for source in self._sources)
        return Plain(
            " AND ".join(each.sql for each in conditions) or "TRUE",
            tuple(item.sql for _, item in items),
            inputs[0],
            tuple(item.type for _, item in items),
            inputs if self._is_join else (),
        )

    def _union(self, *, is_nested: bool) -> _Selected:
        """A query: of a union the part that is read, with the names of the first."""
        parts = [self._part()]
        while self._takes("UNION"):
            if not self._takes("ALL"):
                self._takes("DISTINCT")
                self._refuse_set("UNION without ALL")
            parts.append(self._part())
        self._check_end(is_nested=is_nested)
        (_, (_, first)), *others = parts
        types = [term.type for _, term in first]
        if others and FRACTIONAL in types:
            raise UnsupportedText("a number with a decimal point as a column of UNION ALL")
        if any([term.type for _, term in items] != types for _, (_, items) in others):
            raise UnsupportedText("UNION ALL of columns of several types")
        # where no part is read, this is inside of a part that is not read, and it does not matter which
        _, (conditions, items) = next((part for part in parts if part[0]), parts[0])
        names = [name for name, _ in first]
        return conditions, [(name, term) for name, (_, term) in zip(names, items, strict=True)]

    def _part(self) -> tuple[bool, _Selected]:
        """A SELECT, and whether it is in the part that is read: whether any of its streams is."""
        before = self._n_read
        found = self._select()
        own = self._sources[before : self._n_read]
        return any(not source.is_of_other_part for source in own), found

    def _select(self) -> _Selected:
        """The conditions of a SELECT, and its columns with their names, nothing for one that has none."""
        around, self._named = self._named, []
        self._expect("SELECT")
        if self._takes("DISTINCT"):
            self._refuse_set("SELECT DISTINCT")
        start = self._at
        self._skip_items()
        conditions = self._from()
        if self._takes("WHERE"):
            conditions.append(self._boolean(self._or()))
        end, self._at = self._at, start  # now that the aliases are known
        items = list(self._item())
        while self._takes(","):
            items += self._item()
        self._expect("FROM")
        self._at, self._named = end, around
        return conditions, items

    def _refuse_set(self, words: str) -> None:
        """Refuse a set over more than one row of each input."""
        if not self._is_join:
            raise UnsupportedText(f"{words} over a stream that is read alone")

    def _check_end(self, *, is_nested: bool) -> None:
        while not is_nested and self._takes(";"):
            pass
        word = self._peek()
        if word is not None and not (is_nested and word.says(")")):
            raise UnsupportedText(word.text)
        if not is_nested and self._n_read < len(self._sources):
            raise UnsupportedText("a text that reads fewer streams")

    def _skip_items(self) -> None:
        depth = 0
        while (word := self._peek()) is not None:
            if depth == 0 and word.says("FROM"):
                return
            depth += word.says("(") - word.says(")")
            self._at += 1

    def _from(self) -> list[Term]:
        """The sources, and the conditions behind ON and of queries among the sources."""
        self._expect("FROM")
        conditions = self._source()
        while self._n_read < len(self._sources) and self._says(",", "CROSS", "INNER", "ASOF", "JOIN"):
            if self._takes(","):
                conditions += self._source()
                continue
            is_crossed = self._takes("CROSS")
            if not is_crossed and not self._takes("INNER"):
                self._takes("ASOF")
            self._expect("JOIN")
            conditions += self._source()
            if not is_crossed:
                self._expect("ON")
                conditions.append(self._boolean(self._or()))
        return conditions

    def _source(self) -> list[Term]:
        """The next source; of a query also its conditions."""
        if self._takes("("):
            conditions, items = self._union(is_nested=True)
            self._expect(")")
            self._named.append(self._query_source(items))
            return conditions
        if self._n_read == len(self._sources):
            raise UnsupportedText("a text that reads more streams")
        source = self._sources[self._n_read]
        name = self._name()
        if name.lower() == "stream" and (after := self._peek()) is not None and after.is_name:
            name = self._name() if after.name.lower() == source.stream.lower() else name
        if name.lower() == "recent" and self._is_join and self._takes("("):
            name = self._name()
            while not self._takes(")"):
                if self._peek() is None:
                    raise UnsupportedText("a text that ends here")
                self._at += 1
        if name.lower() != source.stream.lower():
            raise UnsupportedText(f"FROM {name}")
        has_alias = self._takes("AS") or self._at_name()
        source.qualifier = self._name().lower() if has_alias else source.stream.lower()
        self._named.append(source)
        self._n_read += 1
        return []

    def _query_source(self, items: Sequence[tuple[str, Term]]) -> TextInput:
        """A query in FROM, by its alias and perhaps other names for its columns."""
        has_alias = self._takes("AS") or self._at_name()
        alias = self._name().lower() if has_alias else ""
        names = [name for name, _ in items]
        if has_alias and self._takes("("):
            names = [self._name()]
            while self._takes(","):
                names.append(self._name())
            self._expect(")")
        terms = {name.lower(): term for name, (_, term) in zip(names, items, strict=False)}
        if "" in terms or len(terms) != len(items) or len(names) != len(items):
            raise UnsupportedText("a query in FROM whose columns have no names of their own")
        if any(term.type == FRACTIONAL for term in terms.values()):
            raise UnsupportedText("a number with a decimal point as a column of a query in FROM")
        fields = {name: pa.field(name, term.type) for name, term in terms.items()}
        return TextInput("", fields, "", alias, terms=terms)

    def _item(self) -> list[tuple[str, Term]]:
        if self._takes("*"):
            return [column for source in self._named for column in self._columns(source)]
        words = self._words[self._at : self._at + 3]
        if len(words) == 3 and words[0].is_name and words[1].says(".") and words[2].says("*"):
            source = self._qualified(words[0].name)
            if source is None:
                raise UnsupportedText(f"{words[0].text}.*")
            self._at += 3
            return self._columns(source)
        start = self._at
        term = self._or()
        if term.type is None:
            raise UnsupportedText("NULL as a column")
        if term.type == INTERVAL:
            raise UnsupportedText("an interval as a column")
        said = self._words[start : self._at]
        is_column = said[-1].is_name and (len(said) == 1 or (len(said) == 3 and said[1].says(".")))
        has_name = self._takes("AS") or self._at_name()
        return [(self._name() if has_name else said[-1].name if is_column else "", term)]

    def _columns(self, source: TextInput) -> list[tuple[str, Term]]:
        return [(name, self._column(source, name)) for name in source.fields]
