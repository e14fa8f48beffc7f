"""The columns of a class of rows: what aggregates are over, as the projection of a view without a name.

#k0, #k1   the expressions of GROUP BY or PARTITION BY
#e0, #e1   arguments and FILTER conditions of aggregates that are no plain columns
#t0, #t1   times that are no plain columns, which are compared with now() or are in windows
others     all columns of a single input under their own names; of a join those that are needed, and times
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from eddyline.catalog import codec
from eddyline.model import Call, Column, Expression, Literal, ProjectedColumn, Slot, Stream, UserCall
from eddyline.sql.bound_query import BoundQuery

_NOT_SHOWN = ("left anti", "left semi")  # joins of inputs that are only asked for a match


def expression_text(e: Expression) -> str:
    """A text that is the same for expressions that mean the same."""
    return codec.dump(codec.expression_to(e, spans=False))


class ClassColumns:
    """Names for expressions over the rows that a query aggregates."""

    def __init__(
        self,
        bound: BoundQuery,
        keys: Sequence[Expression],
        arguments: Iterable[Expression],
        times: Iterable[Expression],
        others: Iterable[Expression] = (),
    ) -> None:
        """`others` are expressions whose columns are needed as they are."""
        self._inputs = list(zip(bound.inputs, bound.streams, strict=True))
        self._keys = {e: f"#k{n}" for n, e in enumerate(keys)}
        arguments, times = list(arguments), list(times)
        self._computed = _numbered("#e", arguments) | _numbered("#t", times)
        needed = (n for e in (*arguments, *times, *others) for n in e.walk())
        self._plain = {column: self._own_name(column) for column in self._plain_columns(needed)}

    @property
    def projection(self) -> tuple[ProjectedColumn, ...]:
        """The columns, for the SELECT of the class."""
        pairs = (*self._keys.items(), *self._computed.items(), *self._plain.items())
        return tuple(ProjectedColumn(name, e) for e, name in pairs)

    def key(self, e: Expression) -> str | None:
        """The column of an expression of GROUP BY or PARTITION BY."""
        return self._keys.get(e)

    def time(self, rows: Stream) -> Column | None:
        """The column of the input that is the time of the class."""
        return next((column for column, name in self._plain.items() if name == rows.time), None)

    def slots_of_key(self, e: Expression) -> list[int]:
        """The slots of an expression that is a key but for its constants."""
        if not any(_is_alike(e, key) for key in self._keys):
            return []
        return [node.index for node in e.walk() if isinstance(node, Slot)]

    def name(self, e: Expression) -> str:
        """The column of any other expression."""
        return self._plain[e] if isinstance(e, Column) else self._computed[e]

    def _plain_columns(self, needed: Iterable[Expression]) -> Iterator[Column]:
        if len(self._inputs) == 1:
            ((entry, stream),) = self._inputs
            yield from (Column(f.type, f.name, entry.alias) for f in stream.schema)
            return
        for entry, stream in self._inputs:
            if stream.time is not None and entry.join not in _NOT_SHOWN:
                yield Column(stream.schema.field(stream.time).type, stream.time, entry.alias)
        yield from (node for node in needed if isinstance(node, Column))

    def _own_name(self, column: Column) -> str:
        """Its name; in a join behind that of its stream, with a number where the stream is read more than once."""
        if len(self._inputs) == 1:
            return column.name
        stream = next(entry.stream for entry, _ in self._inputs if entry.alias == column.input)
        same = [entry.alias for entry, _ in self._inputs if entry.stream == stream]
        number = f" {same.index(column.input) + 1}" if len(same) > 1 else ""
        return f"{stream}{number}.{column.name}"


def _numbered(prefix: str, expressions: Iterable[Expression]) -> dict[Expression, str]:
    """Names of those that are no plain columns, in an order that does not depend on the text."""
    computed = {expression_text(e): e for e in expressions if not isinstance(e, Column)}
    return {computed[text]: f"{prefix}{n}" for n, text in enumerate(sorted(computed))}


def _is_alike(e: Expression, key: Expression) -> bool:
    """Whether they are the same but for constants."""
    if isinstance(e, (Slot, Literal)) and isinstance(key, (Slot, Literal)):
        return True
    if isinstance(e, (Call, UserCall)) and isinstance(key, (Call, UserCall)):
        arguments = e.arguments, key.arguments
        is_same = e.function == key.function and len(e.arguments) == len(key.arguments)
        return is_same and all(map(_is_alike, *arguments))
    return e == key
