"""Named queries as relations that other queries read.

Every named query can be read like a stream: `SELECT … FROM velocity`. As long as some query reads it, its *body* runs: the
same shape and constants under an id of its own, in the plan of the relation it reads. So a view that is paused gives no results
of its own, and its readers go on. What bodies find are rows of the view.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from eddyline.catalog.queries import Registration
from eddyline.catalog.query_names import QueryNames
from eddyline.catalog.registered_queries import RegisteredQueries
from eddyline.catalog.stream_plans import StreamPlans
from eddyline.errors import QueryStateError
from eddyline.model import (
    FIRST_BODY,
    FIRST_BRANCH,
    TABLE_VIEW,
    VIEW,
    Column,
    QueryState,
    Shape,
    Stream,
    ViewFeed,
    ViewRelation,
)
from eddyline.time_properties import TIME_PROPERTIES

MOST_NAMES = 10_000  # of views, among which the nearest to a misspelt one is looked for


@dataclass(frozen=True, slots=True)
class _Body:
    """A body that runs, and the registration it was made of."""

    registration: Registration
    relation: ViewRelation


class Views:
    """The views that queries read, by name in lower case."""

    def __init__(
        self,
        queries: RegisteredQueries,
        names: QueryNames,
        plans: StreamPlans,
        find_stream: Callable[[str], Stream | None],
        constants_of: Callable[[int, Shape], tuple[pa.Scalar, ...]],
    ) -> None:
        self._queries = queries
        self._names = names
        self._plans = plans
        self._find_stream = find_stream
        self._constants_of = constants_of
        self.clear()

    def clear(self) -> None:
        self._bodies: dict[str, _Body] = {}
        self._known: dict[int, tuple[Registration, ViewRelation]] = {}  # by query, whether it is read or not
        self._next_id = FIRST_BODY

    # ----------------------------------------------------------------------------------------- to look at

    @property
    def relations(self) -> Iterator[ViewRelation]:
        """Those that some query reads, in no particular order."""
        return (body.relation for body in self._bodies.values())

    def relation(self, name: str) -> ViewRelation | None:
        """A view that some query reads, by the name of its relation."""
        body = self._bodies.get(name.lower())
        return None if body is None else body.relation

    def find(self, name: str, owner: str = "") -> ViewRelation | None:
        """The view a query of this owner means by a name: its own, or one without an owner.

        Queries without an owner may read the views of all: `ann.velocity`.
        """
        if owner:
            query_id = self._names.find_folded(name, owner)
            if query_id is not None:
                return self.of_query(query_id)
        found = self._of_relation(name)
        if found is not None and owner:
            whose = self._queries.owner_of(found.feeds[0].query_id)
            return found if whose in (owner, "") else None
        return found

    def names(self, owner: str = "") -> list[str]:
        """The views a query of this owner may read."""
        return [name for each in dict.fromkeys((owner, "")) for name in self._names.of(each)]

    def of_query(self, query_id: int) -> ViewRelation:
        """A registered query as a relation; the same object until the query is replaced."""
        registration = self._queries.registration(query_id)
        known = self._known.get(query_id)
        if known is None or known[0] is not registration:
            name = relation_name(registration.name(query_id), registration.properties.owner)
            made = view_relation(name, query_id, registration.shape, self.input)
            known = self._known[query_id] = registration, made
        return known[1]

    def input(self, name: str) -> tuple[Stream, bool]:
        """A relation that a query reads, and whether it is a table."""
        stream = self._find_stream(name)
        if stream is not None:
            return stream, stream.is_keyed
        view = self._of_relation(name)
        assert view is not None, f"no relation {name}"
        return view.stream, view.is_table

    def readers(self, query_id: int) -> list[int]:
        """The queries that read a view, running or not, ascending; those that read it through other views do not count."""
        name = self.of_query(query_id).name
        if self._find_stream(name) is not None:  # a stream of that name is what they read
            return []
        families = self._plans.families
        found = [i for s in self._plans.reads.get(name, {}) if s in families for i in families[s].ids()]
        found += [i for i, shape in self._parked_shapes() if name in _streams(shape)]
        return sorted(found)

    def with_readers(self, ids: Iterable[int]) -> list[int]:
        """These queries, those that read them as views, and theirs."""
        found = dict.fromkeys(ids)
        waiting = list(found) if self._read_views() else []
        while waiting:
            for reader in self.readers(waiting.pop()):
                if reader not in found:
                    found[reader] = None
                    waiting.append(reader)
        return list(found)

    def refuse_dropping(self, ids: Sequence[int]) -> None:
        """Refuse to end views while queries read them that do not end as well."""
        ending, read = set(ids), self._read_views()
        for query_id in ids if read else ():
            if self.of_query(query_id).name not in read:
                continue
            readers = [each for each in self.readers(query_id) if each not in ending]
            if readers:
                names = [self._queries.name_of(each) for each in readers]
                shown = ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
                name = self._queries.name_of(query_id)
                raise QueryStateError(
                    f"view {name} cannot be dropped while queries read it",
                    detail=f"It is read by {shown}.",
                    hint=f"Drop these first, or all at once: DROP VIEW {name} CASCADE.",
                )

    def query_of(self, body_id: int) -> int:
        """The query whose body or branch has this id; the id itself if it is a query's."""
        if body_id < FIRST_BODY:
            return body_id
        if body_id >= FIRST_BRANCH:
            return self._plans.query_of(body_id)
        feeds = (feed for body in self._bodies.values() for feed in body.relation.feeds)
        return next((feed.query_id for feed in feeds if feed.body_id == body_id), 0)

    def base_streams(self, name: str) -> set[str]:
        """The declared streams whose rows those of a relation are made of, in lower case."""
        relation = self.relation(name)
        if relation is None:
            return {name.lower()}
        inputs = (each for feed in relation.feeds for each in feed.shape.streams)
        return {stream for each in inputs for stream in self.base_streams(each)}

    def _parked_shapes(self) -> Iterator[tuple[int, Shape]]:
        """The queries that do not run."""
        return ((i, self._queries.registration(i).shape) for i in self._queries.parked)

    def _read_views(self) -> set[str]:
        """The views that some query reads, running or not."""
        parked = {id(shape): shape for _, shape in self._parked_shapes()}
        read = set(self._plans.reads).union(*map(_streams, parked.values()))
        return {name for name in read if self._find_stream(name) is None}

    # ----------------------------------------------------------------------------------------- changes

    def follow(self, version: int) -> None:
        """Let the bodies run that queries need, and no others; after every change of queries."""
        self._renew(version)
        while self._plans.is_read_anew:  # a body reads a relation, too
            self._plans.is_read_anew = False
            read = [name for name in self._plans.reads if self._find_stream(name) is None]
            for name in [name for name in self._bodies if name not in read]:
                self._end(name, version)
            for name in read:
                if name not in self._bodies:
                    found = self._of_relation(name)
                    if found is not None:
                        self._begin(name, found, version)

    def _renew(self, version: int) -> None:
        """Exchange the bodies of views that were replaced, suspended or dropped."""
        for name, body in list(self._bodies.items()):
            query_id = body.relation.feeds[0].query_id
            if self._is_running(query_id) and self._queries.registration(query_id) is body.registration:
                continue
            self._end(name, version)
            self._plans.is_read_anew = True

    def _is_running(self, query_id: int) -> bool:
        return self._queries.state(query_id) in (QueryState.RUNNING, QueryState.PAUSED)

    def _begin(self, name: str, view: ViewRelation, version: int) -> None:
        query_id = view.feeds[0].query_id
        if not self._is_running(query_id):
            return
        registration = self._queries.registration(query_id)
        constants = [value.as_py() for value in self._constants_of(query_id, registration.shape)]
        ids = range(self._next_id, self._next_id + len(view.feeds))
        feeds = tuple(ViewFeed(i, query_id, feed.shape) for i, feed in zip(ids, view.feeds, strict=True))
        self._next_id = ids.stop
        relation = ViewRelation(view.stream, feeds, view.is_table, view.time_bounds)
        self._bodies[name] = _Body(registration, relation)
        first = self._queries.version_from(query_id)
        for feed in feeds:
            self._plans.add_body(feed.shape, feed.body_id, constants, first, version)

    def _end(self, name: str, version: int) -> None:
        for feed in self._bodies.pop(name).relation.feeds:
            self._plans.remove_body(feed.shape, feed.body_id, version)

    def _of_relation(self, name: str) -> ViewRelation | None:
        """The view whose relation has this name."""
        for owner, own_name in owners_and_names(name):
            query_id = self._names.find_folded(own_name, owner)
            if query_id is not None:
                return self.of_query(query_id)
        return None


class ReadableRelations:
    """The relations that queries of an owner may name: declared streams and views. `changed` are views as they are to become."""

    def __init__(
        self, catalog: _Relations, owner: str = "", changed: Mapping[str, Stream] | None = None
    ) -> None:
        self._catalog = catalog
        self._owner = owner
        self._changed = changed or {}

    def find_stream(self, name: str, /) -> Stream | None:
        stream = self._catalog.find_stream(name)
        if stream is not None:
            return stream
        for each in dict.fromkeys((relation_name(name, self._owner), name)):
            if each.lower() in self._changed:
                return self._changed[each.lower()]
        view = self._catalog.views.find(name, self._owner)
        return None if view is None else view.stream

    def streams(self) -> Sequence[Stream]:
        """All of them, by name; the columns of views are not looked up."""
        views = self._catalog.views.names(self._owner)[:MOST_NAMES]
        return [*self._catalog.streams(), *(Stream(name, pa.schema([])) for name in views)]


class _Relations(Protocol):
    """What is declared and what is registered: a catalog."""

    views: Views

    def find_stream(self, name: str, /) -> Stream | None: ...
    def streams(self) -> list[Stream]: ...


def _streams(shape: Shape) -> set[str]:
    return set(map(str.lower, shape.streams))


def relation_name(name: str, owner: str) -> str:
    """What the relation of a view is called: two owners may have views of one name."""
    return f"{owner}.{name}" if owner else name


def owners_and_names(relation: str) -> Iterator[tuple[str, str]]:
    """Whose view a relation may be, and what it is called."""
    yield "", relation
    for at, character in enumerate(relation):
        if character == ".":
            yield relation[:at], relation[at + 1 :]


def view_relation(
    name: str, query_id: int, shape: Shape, input_of: Callable[[str], tuple[Stream, bool]]
) -> ViewRelation:
    """The relation that a query is to its readers. It has a time if it passes on that of an input as it is.

    A union has one if all of its branches pass one on in the same column. Its rows have one more component: their branch.
    """
    branches = shape.all_branches
    inputs = [[input_of(entry.stream) for entry in branch.inputs] for branch in branches]
    time, properties, bounds = _union_time(branches, [[stream for stream, _ in each] for each in inputs])
    is_table = all(_is_table(branch, each) for branch, each in zip(branches, inputs, strict=True))
    n_components = max(sum(stream.n_components for stream, _ in each) for each in inputs)
    stream = Stream(
        name,
        shape.output,
        time=time,
        source=TABLE_VIEW if is_table else VIEW,
        properties=properties,
        n_components=n_components + (len(branches) > 1),
        is_union=len(branches) > 1 or (shape.join is None and inputs[0][0][0].is_union),
        is_volatile=any(branch.is_volatile for branch in branches)
        or any(stream.is_volatile for each in inputs for stream, _ in each),
    )
    feeds = tuple(ViewFeed(0, query_id, branch) for branch in branches)
    return ViewRelation(stream, feeds, is_table, bounds)


def _is_table(shape: Shape, inputs: list[tuple[Stream, bool]]) -> bool:
    if shape.join is None:
        return inputs[0][1]
    return all(entry.role.is_table for entry in shape.join.signature.inputs)


_Time = tuple[str | None, tuple[tuple[str, str], ...], tuple[tuple[str, int], ...]]
_NO_TIME: _Time = None, (), ()


def _union_time(branches: Sequence[Shape], streams: list[list[Stream]]) -> _Time:
    """The time column of a view, how it is read, and what its watermark follows."""
    for place, projected in enumerate(branches[0].projection):
        times = [_time(each, place, of) for each, of in zip(branches, streams, strict=True)]
        found = [time for time in times if time is not None]
        if len(found) == len(branches) and all(properties == found[0][0] for properties, _ in found):
            return projected.name, found[0][0], tuple(bound for _, bounds in found for bound in bounds)
    return _NO_TIME


def _time(
    shape: Shape, column: int, streams: list[Stream]
) -> tuple[tuple[tuple[str, str], ...], tuple[tuple[str, int], ...]] | None:
    """Of a column of a view that is the time of an input: how it is read, and what its watermark follows."""
    expression = shape.projection[column].expression
    for place, stream in enumerate(streams):
        if stream.time is None or not _is_column(expression, shape, place, stream.time):
            continue
        bounds = _time_bounds(shape, place)
        if bounds is not None:
            return tuple(pair for pair in stream.properties if pair[0] in TIME_PROPERTIES), bounds
    return None


def _is_column(expression: object, shape: Shape, place: int, name: str) -> bool:
    own = name if shape.join is None else f"{place}.{name}"
    return isinstance(expression, Column) and expression.name == own


def _time_bounds(shape: Shape, place: int) -> tuple[tuple[str, int], ...] | None:
    """Watermarks below which no row of the view will have the time of one of its inputs; None: there is no such bound."""
    name = shape.inputs[place].stream.lower()
    if shape.join is None:
        return ((name, 0),)
    signature, reach = shape.join.signature, shape.join.reach_us[place]
    if signature.inputs[place].role.is_table or signature.outer:
        return None
    found = [(name, 0)]
    for at, entry in enumerate(signature.inputs):
        if at != place and not entry.role.is_table:
            bound = reach[at]
            if bound is None:
                return None
            found.append((entry.stream.lower(), bound))
    return tuple(found)


def watermark_us(view: ViewRelation, watermarks: Mapping[str, int | None]) -> int | None:
    """The watermark of a view, given those of the relations below it."""
    found = [(watermarks.get(name), below) for name, below in view.time_bounds]
    times = [mark - below for mark, below in found if mark is not None]
    return min(times) if times and len(times) == len(found) else None


def in_order(views: Iterable[ViewRelation]) -> list[ViewRelation]:
    """Views after those they read."""
    by_name = {view.name: view for view in views}
    ordered: dict[str, ViewRelation] = {}

    def add(view: ViewRelation) -> None:
        for feed in view.feeds:
            for name in map(str.lower, feed.shape.streams):
                if name in by_name and name not in ordered:
                    add(by_name[name])
        ordered[view.name] = view

    for view in by_name.values():
        if view.name not in ordered:
            add(view)
    return list(ordered.values())
