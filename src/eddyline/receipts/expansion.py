"""Queries written out over declared streams: each view replaced by its text, to any depth.

    rich   SELECT sym FROM big WHERE value > 100
    big    SELECT sym, price * qty AS value FROM trades WHERE price > :low
    out    SELECT sym FROM (SELECT sym, price * qty AS value FROM trades WHERE price > :v1_low) AS `big` WHERE value > 100

A result of a reader names the rows of declared streams it is made of, in the order in which the written-out text names the
streams. So a judge needs nothing but these rows and that text. Bound, it is one flat query over streams, of which `why` asks one
condition after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from eddyline.catalog import QueryRecord, StoredQuery, owners_and_names, relation_name, view_at
from eddyline.engine import RoundEngine, home_of
from eddyline.errors import AmbiguousNameError, LimitError, NotBuiltError, ReceiptError, UnsupportedError
from eddyline.expressions import Context, Frame, cast, evaluate
from eddyline.model import Column, Properties, QueryState, Shape, Stream, ViewText, Window
from eddyline.proof import WrittenInput, from_json, quoted, type_from, words_of, written_inputs
from eddyline.receipts.readings import (
    AnyQuery,
    BaseInput,
    Reading,
    Readings,
    ResultRow,
    rows_of_result,
)
from eddyline.sql import Shapes
from eddyline.types import BIGINT, DOUBLE, FLOAT, INT, SMALLINT, STRING, TINYINT, is_decimal

_NARROW_FIRST = (STRING, TINYINT, SMALLINT, INT, BIGINT)


@dataclass(frozen=True, slots=True)
class WrittenOut:
    """A query over declared streams alone."""

    text: str
    params: dict[str, pa.Scalar]  # those of views have other names than those of the query
    inputs: tuple[BaseInput, ...]  # in the order of the text
    queries: tuple[AnyQuery, ...]  # the query, then the views it reads, each once
    view_texts: tuple[ViewText, ...]  # those around others first
    reading: Reading  # what reads which of the inputs
    windows: tuple[str, ...] = ()  # recent(view, …) of views over joins, which the text does not have
    view_windows: tuple[
        tuple[range, Window], ...
    ] = ()  # of recent(view, …): which inputs the view is made of

    @property
    def views(self) -> tuple[AnyQuery, ...]:
        return self.queries[1:]

    @property
    def is_composed(self) -> bool:
        """Whether a result names the rows it is made of: of joins and tables. Any other has the number of its one row."""
        return len(self.inputs) > 1 or self.inputs[0].stream.is_keyed

    @property
    def is_union(self) -> bool:
        """Whether results are made of rows of some of the inputs only: it has a union, or a view or subquery that it reads."""
        return any(shape.branches for shape in self.reading.shapes())

    def rows_of(self, branch: int, components: Sequence[int]) -> list[ResultRow]:
        """The rows that a result of a branch is made of, in the order of the text."""
        return rows_of_result(self.reading, self.inputs, branch, components)

    def part_words(self, branch: int, components: Sequence[int]) -> str:
        """The part of UNION ALL that gave a result, also of views; nothing without one."""
        return "; ".join(self.reading.part_words(branch, components))


# --------------------------------------------------------------------------------------------- as it was, as it is


def written_out(rounds: RoundEngine, query: StoredQuery, version: int) -> WrittenOut:
    """A query of a home with the views it read at a version. The lock is held.

    Raises ReceiptError if one of these is no longer known, NotBuiltError for a text that cannot be written out.
    """
    database = home_of(rounds).database
    streams = {stream.name.lower(): stream for stream in database.streams.at(version)}

    def view_then(relation: str) -> StoredQuery | None:
        likely = [rounds.catalog.names.find(name, owner) for owner, name in owners_and_names(relation)]
        return view_at(database, relation, version, [each for each in likely if each is not None])

    def find_stream(name: str) -> Stream | None:
        stream = streams.get(name.lower())
        later = rounds.catalog.find_stream(name)
        if stream is not None or later is None:
            return stream
        # how it was declared then may be forgotten before its results are
        return later if view_then(name) is None else None

    def find_view(relation: str) -> AnyQuery:
        found = view_then(relation)
        if found is None:
            raise ReceiptError(
                f"what {relation} was in version {version}, when {query.name or f'q{query.id}'} read it, is no longer known",
                hint="[engine.retention] sets how long earlier versions are retained (docs/pipeline.md).",
            )
        return found

    return _Expansion(query, find_stream, find_view).written_out()


def record_written_out(rounds: RoundEngine, record: QueryRecord) -> QueryRecord:
    """A query, registered or not, as one over declared streams; itself if it reads no view, with a name or without one. The lock
    is held.

    Raises NotBuiltError if what it asks through views is not built as one query.
    """
    catalog = rounds.catalog
    is_flat = not any(record.shape.unnamed_views())
    if is_flat and all(catalog.find_stream(name) is not None for name in record.shape.streams):
        return record

    def find_view(relation: str) -> AnyQuery:
        view = catalog.views.find(relation)
        assert view is not None, f"{record.name} reads {relation}, which is neither a stream nor a view"
        return catalog.record(view.feeds[0].query_id)

    written = _Expansion(record, catalog.find_stream, find_view).written_out()
    shape, constants = _bound(
        rounds,
        record.name,
        written.text,
        written.params,
        record.properties if record.shape.aggregating else Properties(),
    )
    return replace(
        record,
        text=written.text,
        shape=shape,
        constants=constants,
        view_texts=written.view_texts,
        view_windows=written.windows,
    )


def record_of_stored(rounds: RoundEngine, query: StoredQuery, written: WrittenOut) -> QueryRecord:
    """A query of a home as it was, over declared streams as they are now. The lock is held.

    Raises NotBuiltError if what it asks through views is not built as one query.
    """
    name = query.name or f"q{query.id}"
    emission = query.properties if query.shape.aggregating else Properties()
    shape, constants = _bound(rounds, name, written.text, written.params, emission)
    return QueryRecord(
        query.id,
        name,
        written.text,
        shape,
        query.properties,
        query.state,
        query.generation,
        query.version,
        query.registered_us,
        constants,
        view_texts=written.view_texts,
    )


def record_of_receipt(rounds: RoundEngine, receipt: Mapping[str, Any]) -> QueryRecord:
    """The query of a receipt as it was, over declared streams as they are now. The lock is held.

    Raises NotBuiltError if what it asks through views is not built as one query.
    """
    written = receipt.get("written_out", {"text": receipt["text"], "params": {}, "views": ()})
    params = {name: _scalar(param) for name, param in (receipt["params"] | written["params"]).items()}
    views = tuple(ViewText(**view) for view in written["views"])
    shape, constants = _bound(rounds, receipt["query"], written["text"], params, Properties())
    return QueryRecord(
        receipt["query_id"],
        receipt["query"],
        written["text"],
        shape,
        Properties(owner=receipt["owner"]),
        QueryState.RUNNING,
        receipt["generation"],
        receipt["version"],
        receipt["round"]["now_us"],
        constants,
        view_texts=views,
        view_windows=tuple(written.get("windows", ())),
    )


def _scalar(param: Mapping[str, Any]) -> pa.Scalar:
    t = type_from(param["type"])
    return pa.scalar(from_json(param["value"], t), t)


def _bound(
    rounds: RoundEngine,
    reader: str,
    text: str,
    params: Mapping[str, pa.Scalar],
    emission: Properties,
) -> tuple[Shape, tuple[pa.Scalar, ...]]:
    """Shape and constants of a text over declared streams, that of `reader` with its views written out and its sets merged: a row
    of a set is there if one is that it is made of."""
    types = {name: value.type for name, value in params.items()}
    # of its own, since no query is registered with this text; recent(view, …) may have been all that bounded it
    shapes = Shapes(time_zone=rounds.time_zone, keeps_rows=False)
    try:
        shape, values = shapes.shape_of(text, rounds.catalog, rounds.functions, types or None, emission)
    except (AmbiguousNameError, LimitError, NotBuiltError, UnsupportedError) as error:
        raise NotBuiltError(
            f"{reader} cannot be asked about down to the rows of streams in this version",
            detail=f"With its views and subqueries written as one query it is no query that is built: {error.problem}.",
            hint="Ask about a view that it reads, or register the subquery and ask about that. Results of all have receipts.",
        ) from None
    constants = (
        pa.scalar(value, slot.type)
        if slot.name is None
        else _in_type(params[slot.name], slot.type, rounds.time_zone)
        for slot, value in zip(shape.slots, values, strict=True)
    )
    return shape, tuple(constants)


def _in_type(value: pa.Scalar, t: pa.DataType, time_zone: str) -> pa.Scalar:
    """A parameter in the type its place has: the one it was registered with, or a wider one."""
    if value.type == t:
        return value
    frame = Frame(1, {("", "value"): pa.array([value.as_py()], value.type)}, context=Context(0, time_zone))
    return frame.array(evaluate(cast(Column(value.type, "value"), t), frame))[0]


# --------------------------------------------------------------------------------------------- texts


@dataclass(slots=True)
class _Piece:
    """A text that is being written, and where texts of views stand in it."""

    text: str = ""
    view_texts: list[ViewText] = field(default_factory=list)

    def add(self, other: _Piece) -> None:
        start = len(self.text)
        self.view_texts += [ViewText(v.name, v.start + start, v.end + start) for v in other.view_texts]
        self.text += other.text


class _Expansion:
    """Writes one query out."""

    def __init__(
        self,
        query: AnyQuery,
        find_stream: Callable[[str], Stream | None],
        find_view: Callable[[str], AnyQuery],
    ) -> None:
        self._query = query
        self._find_stream = find_stream
        self._find_view = find_view
        self._views: dict[str, AnyQuery] = {}
        self._params = params_of(query)
        self._windows: dict[str, None] = {}  # that are not in the text

    def written_out(self) -> WrittenOut:
        readings = Readings(self._find_stream, self._view)
        reading = readings.read(self._query)
        piece = _Piece(self._query.text)
        if any(self._is_view(name) for name in self._query.shape.streams):
            piece = self._text(self._query, "", frozenset())
        return WrittenOut(
            piece.text,
            self._params,
            tuple(readings.inputs),
            (self._query, *self._views.values()),
            tuple(piece.view_texts),
            reading,
            tuple(self._windows),
            tuple(readings.view_windows),
        )

    def _is_view(self, relation: str) -> bool:
        return self._find_stream(relation) is None

    def _view(self, relation: str) -> AnyQuery:
        found = self._views.get(relation)
        if found is None:
            found = self._views[relation] = self._find_view(relation)
        return found

    def _text(self, query: AnyQuery, window: str, ctes_around: frozenset[str]) -> _Piece:
        """The text of a query. A `window` is that of recent(view, …): if the view reads one stream, it is the stream's."""
        read = written_inputs(query.text, _written_names(query))
        edits: list[tuple[int, int, _Piece]] = list(self._parameter_edits(query))
        is_alone = all(len(branch.inputs) == 1 for branch in query.shape.all_branches)
        if window and not is_alone:
            self._windows[f"recent({query.name}, {window})"] = None
        ctes = ctes_around.union(cte.name for cte in read.ctes)
        for entry in read.inputs:
            relation = self._relation(query, entry.stream)
            entry_window = entry.window or (window if is_alone else "")
            if self._is_view(relation):
                edits.append((entry.start, entry.end, self._view_entry(entry, relation, entry_window, ctes)))
                continue
            if entry.stream.lower() in ctes_around:
                raise NotBuiltError(
                    f"{self._query.name or 'the query'} cannot be written out over streams in this version",
                    detail=f"Its WITH calls a query {entry.stream}, as a stream is called that view {query.name} reads.",
                    hint="Give the query of WITH another name.",
                )
            if entry_window and not entry.window:
                name = query.text[entry.name_start : entry.name_end]
                edits.append((entry.name_start, entry.name_end, _Piece(f"recent({name}, {entry_window})")))
        return _edited(query.text, edits)

    def _view_entry(self, entry: WrittenInput, relation: str, window: str, ctes: frozenset[str]) -> _Piece:
        """What stands for a view in FROM. Its text ends with a line of its own: it may end with a comment."""
        view = self._view(relation)
        inside = self._text(view, window, ctes)
        piece = _Piece("(")
        start = len(piece.text)
        piece.view_texts.append(ViewText(relation, start, start + len(inside.text)))
        piece.add(inside)
        piece.text += f"\n) AS {quoted(entry.alias)}"
        return piece

    def _relation(self, query: AnyQuery, written: str) -> str:
        """The relation a query means by a name: a stream, else a view of its owner, else one that all may read."""
        read = {name.lower(): name for name in query.shape.streams}
        own = relation_name(written, query.properties.owner).lower()
        if written.lower() in read and not self._is_view(written):
            return read[written.lower()]
        return read[own] if own in read else read[written.lower()]

    def _parameter_edits(self, query: AnyQuery) -> Iterator[tuple[int, int, _Piece]]:
        """Other names for the parameters of a view, and no semicolon behind it."""
        words = words_of(query.text)
        while words and words[-1].says(";"):
            last = words.pop()
            yield last.start, last.end, _Piece()
        names = {} if query is self._query else self._view_parameters(query)
        for word in words:
            if word.kind == "parameter" and word.text[1:] in names:
                yield word.start, word.end, _Piece(f":{names[word.text[1:]]}")

    def _view_parameters(self, view: AnyQuery) -> dict[str, str]:
        """What the parameters of a view are called in the written-out text."""
        number = next(k for k, each in enumerate(self._views.values(), 1) if each is view)
        own = params_of(self._query)
        names = {}
        for name, value in params_of(view).items():
            new = f"v{number}_{name}"
            while new in own:
                new += "_"
            names[name], self._params[new] = new, value
        return names


def _edited(text: str, edits: Sequence[tuple[int, int, _Piece]]) -> _Piece:
    """The text with parts replaced."""
    piece, at = _Piece(), 0
    for start, end, new in sorted(edits, key=lambda edit: edit[:2]):
        piece.text += text[at:start]
        piece.add(new)
        at = end
    piece.text += text[at:]
    return piece


def _written_names(query: AnyQuery) -> set[str]:
    """What the relations that a query reads may be called in its text."""
    owner = f"{query.properties.owner}."
    own = {name[len(owner) :] for name in query.shape.streams if name.lower().startswith(owner.lower())}
    return own.union(query.shape.streams)


# --------------------------------------------------------------------------------------------- parameters


def params_of(query: AnyQuery) -> dict[str, pa.Scalar]:
    """Values of the named parameters, each in the narrowest type the query has it in: wider ones follow from where it is used."""
    found: dict[str, pa.Scalar] = {}
    constants: Sequence[Any] = query.constants
    for slot, value in zip(query.shape.slots, constants, strict=True):
        if slot.name is not None:
            scalar = value if isinstance(value, pa.Scalar) else pa.scalar(value, slot.type)
            known = found.get(slot.name)
            if known is None or _width(scalar.type) < _width(known.type):
                found[slot.name] = scalar
    return found


def _width(t: pa.DataType) -> int:
    t = t.value_type if pa.types.is_list(t) else t
    if t in _NARROW_FIRST:
        return _NARROW_FIRST.index(t)
    return len(_NARROW_FIRST) + (0 if is_decimal(t) else {FLOAT: 1, DOUBLE: 2}.get(t, 3))
