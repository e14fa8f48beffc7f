"""When the columns of a file are not those of its stream.

    a column the stream does not have   is added to it, NULL for all rows before; where SQL has no type for it, or the format
                                        states none, it is not read
    one of another type                 is not read, and so is missing; types whose values fit are not other types
    one that is missing                 is NULL, if the stream allows it; a query that needs it is not given such rows

Added columns have to be declared before the file is read: opening it raises SchemaChanged. What is missing travels with the rows,
to where they meet the queries: there a round in which one needs it is refused, again with SchemaChanged. Either way nothing has
happened, and once the catalog has followed, the same rows are taken again. So the catalog alone knows how far that has come.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from eddyline.errors import EddylineError, SchemaError, nearest
from eddyline.model import Stream, StreamPlan
from eddyline.sources.rows import ARRIVAL
from eddyline.types import NULL, canonical, parse_type, type_name

MOST_IGNORED = 100  # names reported for a stream
SHOWN_NAME = 100  # characters


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """How the columns of some rows, as they were written, differ from those of their stream."""

    added: tuple[pa.Field, ...] = ()  # the stream could have them
    missing: Mapping[str, str] = field(default_factory=dict)  # columns of the stream without values: why
    ignored: Mapping[str, str] = field(default_factory=dict)  # columns that are not read: why

    def change_for(self, plan: StreamPlan) -> SchemaChange | None:
        """What is missing of the columns that queries need; None if nothing is."""
        missing = {column: why for column, why in self.missing.items() if column in plan.columns}
        return SchemaChange(missing=missing) if missing else None


UNCHANGED = SchemaChange()


def together(changes: Iterable[SchemaChange]) -> SchemaChange:
    """What is missing or ignored in some of them; the first to say why is heard."""
    missing: dict[str, str] = {}
    ignored: dict[str, str] = {}
    for change in changes:
        if change is not UNCHANGED:
            missing = {**change.missing, **missing}
            ignored = {**change.ignored, **ignored}
    return SchemaChange(missing=missing, ignored=ignored) if missing or ignored else UNCHANGED


class SchemaChanged(EddylineError):
    """Rows of a source are not as its stream was declared, or lack what a query needs; nothing has happened."""

    def __init__(self, stream: str, change: SchemaChange) -> None:
        columns = [*(f.name for f in change.added), *change.missing]
        super().__init__(
            f"the columns of stream {stream} have changed at its source: {', '.join(columns)}",
            hint="Declare the new ones; pause the queries that need one that is gone.",
        )
        self.stream = stream
        self.change = change


@dataclass(frozen=True, slots=True)
class FileColumn:
    """A column as a file states it."""

    name: str
    type: pa.DataType | None  # of SQL; None if it has none for such values
    kind: str  # what the file calls its type


def change_of(
    stream: Stream,
    file_columns: Sequence[FileColumn],
    where: str,
    fits: Callable[[pa.DataType, FileColumn], bool],
) -> SchemaChange:
    """How a file with these columns differs. `fits` says whether a column of a type can hold values of one that is written.

    Raises SchemaError if a column is there twice, or a missing one must not be NULL: such rows cannot be in the stream.
    """
    known = {f.name.lower(): f for f in stream.schema}
    added: list[pa.Field] = []
    missing = _not_among(stream, [column.name for column in file_columns], where)
    ignored: dict[str, str] = {}
    for column in file_columns:
        f = known.get(column.name.lower())
        if f is not None and not fits(f.type, column):
            missing[f.name] = (
                f"{stream.name}.{f.name} is {column.kind} in {where}, and was declared {type_name(f.type)}"
            )
            ignored[f.name] = f"it is {column.kind} in {where}, and was declared {type_name(f.type)}"
        elif f is None and column.name.lower() != ARRIVAL and column.type != NULL:
            t = _declarable(column.type)
            if t is None:
                ignored[column.name] = f"it is {column.kind} in {where}, which no column of a stream can be"
            else:
                added.append(pa.field(column.name, t))
    _check_nullable(stream, missing, ignored)
    return SchemaChange(tuple(added), missing, ignored) if added or missing or ignored else UNCHANGED


def change_of_header(stream: Stream, names: Sequence[str], where: str) -> SchemaChange:
    """How rows with these columns, of which nothing is known but the names, differ. Raises SchemaError as `change_of` does."""
    known = {f.name.lower() for f in stream.schema}
    missing = _not_among(stream, names, where)
    _check_nullable(stream, missing, ())
    unknown = [name for name in names if name.lower() not in known and name != ARRIVAL]
    ignored = {name: why_ignored(stream, name) for name in unknown[:MOST_IGNORED]}
    return SchemaChange(missing=missing, ignored=ignored) if missing or ignored else UNCHANGED


def why_ignored(stream: Stream, name: str) -> str:
    """What is said of a name that is no column of the stream."""
    near = nearest(name[:SHOWN_NAME], stream.schema.names)
    hint = "Declare it to use it." if near is None else f"Did you mean {near}?"
    return f"there is no such column in stream {stream.name}. {hint}"


def shown_name(name: str) -> str:
    """A name as messages show it: short and printable."""
    name = name if name.isprintable() else ascii(name)
    return name if len(name) <= SHOWN_NAME else f"{name[:SHOWN_NAME]}…"


def _not_among(stream: Stream, names: Sequence[str], where: str) -> dict[str, str]:
    """Columns of the stream that are not there, and why. Raises SchemaError if one is there twice."""
    earlier_names: set[str] = set()
    for name in names:
        if name.lower() in earlier_names:
            raise SchemaError(f"column {name} is there twice", hint="Names are not case-sensitive.")
        earlier_names.add(name.lower())
    missing_names = [f.name for f in stream.schema if f.name.lower() not in earlier_names]
    return {name: f"{stream.name}.{name} is gone from {where}" for name in missing_names}


def _check_nullable(stream: Stream, missing: Mapping[str, str], unread: Collection[str]) -> None:
    for f in stream.schema:
        if f.name in missing and not f.nullable:
            how = "cannot be read" if f.name in unread else "is missing"
            raise SchemaError(
                f"column {f.name} {how}, and stream {stream.name} does not allow NULL there",
                detail=f"{missing[f.name]}.",
                hint="Mend the data, or declare the column without NOT NULL.",
            )


def _declarable(t: pa.DataType | None) -> pa.DataType | None:
    """The type a stream can be declared with for such values, as it is read back from a catalog; None if there is none."""
    known = None if t is None else canonical(t)
    if known is None or not _is_whole(known):
        return None
    try:
        return parse_type(type_name(known))
    except ValueError:  # names inside that SQL cannot write
        return None


def _is_whole(t: pa.DataType) -> bool:
    """Whether nothing in a type is left open, as it is where all lists of a file are empty."""
    return t != NULL and all(_is_whole(t.field(k).type) for k in range(t.num_fields))
