"""Named queries as relations that other queries read.

Every named query can be read like a stream: `SELECT … FROM velocity`. As long as some query reads it, its *body* runs: the
same shape and constants under an id of its own, in the plan of the relation it reads. So a view that is paused gives no results
of its own, and its readers go on. What bodies find are rows of the view.

A query in FROM that cannot become part of the query around it is a view without a name: what it is stands in the shapes that read
it, and its body runs as long as one of them does. Nothing is stored of it, and no query is registered for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import pyarrow as pa

from eddyline.catalog.queries import Registration
from eddyline.catalog.query_names import QueryNames
from eddyline.catalog.registered_queries import RegisteredQueries
from eddyline.catalog.stream_plans import StreamPlans
from eddyline.catalog.view_relations import view_relation
from eddyline.errors import QueryStateError
from eddyline.model import FIRST_BODY, FIRST_BRANCH, QueryState, Shape, Stream, ViewRelation

MOST_NAMES = 10_000  # of views, among which the nearest to a misspelt one is looked for


@dataclass(frozen=True, slots=True)
class _Body:
    """A body that runs, and what it was made of: a registration, or, of a view without a name, the streams and views it reads."""

    origin: Registration | tuple[Stream | None, ...]
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
        parked = (i for i, shape in self._parked_shapes() if name in _streams(shape))
        return sorted({*self._running_readers(name), *parked})

    def _running_readers(self, name: str) -> Iterator[int]:
        """The running queries that read a relation, also in views without a name."""
        families, shapes = self._plans.families, self._plans.reads.get(name, {})
        for shape in shapes:
            yield from families[shape].ids() if shape in families else ()
        for view in self.relations:
            if not view.query_ids and any(feed.shape in shapes for feed in view.feeds):
                yield from self._running_readers(view.name)

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

    def queries_of(self, own_id: int) -> list[int]:
        """The query whose body or branch has this id; of a view without a name, those that read it."""
        if own_id < FIRST_BODY:
            return [own_id]
        if own_id >= FIRST_BRANCH:
            return [self._plans.query_of(own_id)]
        feeds = [(view.name, feed) for view in self.relations for feed in view.feeds]
        mine = next(((name, feed) for name, feed in feeds if feed.body_id == own_id), None)
        if mine is None or mine[1].query_id:
            return [] if mine is None else [mine[1].query_id]
        shapes = self._plans.reads.get(mine[0], {})
        above = (i for _, feed in feeds if feed.shape in shapes for i in self.queries_of(feed.body_id))
        return sorted({*self._running_readers(mine[0]), *above})

    def base_streams(self, name: str) -> set[str]:
        """The declared streams whose rows those of a relation are made of, in lower case."""
        relation = self.relation(name)
        if relation is None:
            return {name.lower()}
        inputs = (each for feed in relation.feeds for each in feed.shape.relations)
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

    def follow(self, version: int, *, is_loaded: bool = False) -> None:
        """Let the bodies run that queries need, and no others; after every change of queries, and when they were loaded."""
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
                    else:
                        first = self._oldest_reader(name, version) if is_loaded else version
                        self._begin_unnamed(name, first, version)

    def _renew(self, version: int) -> None:
        """Exchange the bodies of views that were replaced, suspended or dropped."""
        for name, body in list(self._bodies.items()):
            if not self._is_current(body):
                self._end(name, version)
                self._plans.is_read_anew = True

    def _is_current(self, body: _Body) -> bool:
        query_id = body.relation.feeds[0].query_id
        if isinstance(body.origin, Registration):
            return self._is_running(query_id) and self._queries.registration(query_id) is body.origin
        now = self._named_inputs(body.relation)
        return all(before is after for before, after in zip(body.origin, now, strict=True))

    def _named_inputs(self, view: ViewRelation) -> tuple[Stream | None, ...]:
        """The streams and named views that a view without a name reads; each is the same object until it is another one."""
        names = dict.fromkeys(name for feed in view.feeds for name in feed.shape.streams)
        streams = ((name, self._find_stream(name)) for name in names)
        views = ((self._of_relation(name) if stream is None else None, stream) for name, stream in streams)
        return tuple(stream if view is None else view.stream for view, stream in views)

    def _is_running(self, query_id: int) -> bool:
        return self._queries.state(query_id) in (QueryState.RUNNING, QueryState.PAUSED)

    def _begin(self, name: str, view: ViewRelation, version: int) -> None:
        query_id = view.feeds[0].query_id
        if not self._is_running(query_id):
            return
        registration = self._queries.registration(query_id)
        constants = [value.as_py() for value in self._constants_of(query_id, registration.shape)]
        self._bodies[name] = _Body(registration, self._with_ids(view))
        first = self._queries.version_from(query_id)
        for feed in self._bodies[name].relation.feeds:
            self._plans.add_body(feed.shape, feed.body_id, constants, first, version)

    def _oldest_reader(self, name: str, version: int) -> int:
        """The first version of the queries that read a relation, also in views without a name."""
        families, shapes = self._plans.families, self._plans.reads.get(name, {})
        segments = (each for shape in shapes if shape in families for each in families[shape].segments())
        found = [
            int(self._queries.first_versions(each)[each.is_live].min()) for each in segments if each.n_live
        ]
        for view in self.relations:
            if any(feed.shape in shapes for feed in view.feeds):
                mine = (self._queries.version_from(query_id) for query_id in view.query_ids)
                found += mine if view.query_ids else (self._oldest_reader(view.name, version),)
        return min(found, default=version)

    def _begin_unnamed(self, name: str, first: int, version: int) -> None:
        """Let the body of a view without a name run, which the shapes that read it have."""
        entries = (e for shape in self._plans.reads[name] for b in shape.all_branches for e in b.inputs)
        shape = next(e.view.shape for e in entries if e.stream.lower() == name and e.view is not None)
        view = self._with_ids(view_relation(name, 0, shape, self.input))
        self._bodies[name] = _Body(self._named_inputs(view), view)
        for feed in view.feeds:
            self._plans.add_body(feed.shape, feed.body_id, (), first, version)

    def _with_ids(self, view: ViewRelation) -> ViewRelation:
        """A view whose bodies have ids."""
        first, self._next_id = self._next_id, self._next_id + len(view.feeds)
        return replace(
            view, feeds=tuple(replace(feed, body_id=first + at) for at, feed in enumerate(view.feeds))
        )

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
