"""A text bound to its streams: inputs, projected columns and conditions, typed and named.

Queries inside others become part of them while they are bound (`subqueries`; docs/decisions/0025): their inputs are inputs of the
query around them, and a name of one of their columns stands for what the column is computed as. One that cannot, such as a set,
is a view without a name, which the query around it reads (`unnamed_views`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from eddyline.errors import (
    AmbiguousNameError,
    Span,
    UnknownNameError,
    UnsupportedError,
    did_you_mean,
)
from eddyline.model import Expression, Input, Stream
from eddyline.sql import syntax
from eddyline.sql.aggregate_refusals import Emission, refuse_emission
from eddyline.sql.aggregations import DEFAULT_EMISSION, GroupClauses, selected
from eddyline.sql.bind import Binder, KnownFunctions
from eddyline.sql.bound_query import BoundQuery, with_aliases
from eddyline.sql.constant_types import Constants
from eddyline.sql.from_entries import check_aliases, merged_scope, using_condition, written_window
from eddyline.sql.input_numbers import InputNumbers
from eddyline.sql.parse import ParsedText
from eddyline.sql.projection import (
    bind_group_windows,
    conditions_on_results,
    grouping,
    has_groups,
    names_after_where,
    projected_columns,
)
from eddyline.sql.readable_streams import Streams
from eddyline.sql.scope import Scope, ScopeSource
from eddyline.sql.sets import distinct_span, refuse_distinct
from eddyline.sql.subqueries import (
    FromEntry,
    all_of,
    condition_parts,
    guarded_columns,
    query_entry,
    refuse_several_inputs,
    refuse_too_many,
    refuse_unrepeatable_calls,
)
from eddyline.sql.unions import (
    Choices,
    UnionColumn,
    as_part,
    refuse_in_where,
    refuse_undivided,
    union_columns,
    union_words,
)
from eddyline.sql.unions import refuse_too_many as refuse_many_branches
from eddyline.sql.unnamed_views import ShapeOf, first_select, words_of
from eddyline.sql.where_queries import (
    match_test,
    membership,
    not_excluded,
    refuse_not_in_stream,
    split_where,
)


def bind_query(
    parsed: ParsedText[syntax.AnyQuery],
    streams: Streams,
    constants: Constants,
    functions: KnownFunctions | None,
    shape_of: ShapeOf,
    *,
    merges_sets: bool = False,
    emission: Emission = DEFAULT_EMISSION,
) -> tuple[tuple[BoundQuery, ...], tuple[Stream, ...]]:
    """Names and types of a whole text: of each of the queries that it is the union of; and the streams and views it names.

    Raises what the binder raises. `shape_of` makes the shapes of queries inside it that are views. With `merges_sets` sets are
    not: the text then gives as many equal rows as there are rows they are made of.
    """
    binder = _TextBinder(parsed, streams, constants, functions, shape_of, emission, merges_sets=merges_sets)
    return binder.whole(), binder.read


# What becomes of a set inside another query: a part of a union is one by itself; it is a view without a name; or it adds nothing,
# because equal rows are one anyway.
OWN, APART, MERGED = "own", "apart", "merged"


@dataclass(slots=True)
class _Cte:
    """A query of WITH, bound once. Each further entry of FROM that reads it has inputs of its own.

    One with a union or a set in it is bound for each entry that reads it, with the queries of WITH that it sees: each reads a
    part of its own, and where equal rows are one anyway a set adds nothing.
    """

    bound: BoundQuery
    labels: Mapping[str, tuple[str, ...]]
    columns: tuple[str, ...]
    bound_anew: tuple[syntax.AnyQuery, Mapping[str, _Cte]] | None = None
    is_read: bool = False


@dataclass(slots=True)
class _Joined:
    """What the entries of FROM and the queries of WHERE have brought so far."""

    inputs: list[Input]
    streams: list[Stream]
    conditions: list[Expression]

    def add(self, entry: FromEntry, inputs: Sequence[Input]) -> None:
        self.inputs += inputs
        self.streams += entry.streams
        refuse_too_many(self.inputs)


class _TextBinder:
    """Binds the queries of one text. While it does, inputs have numbers for names (`InputNumbers`)."""

    def __init__(
        self,
        parsed: ParsedText[syntax.AnyQuery],
        streams: Streams,
        constants: Constants,
        functions: KnownFunctions | None,
        shape_of: ShapeOf,
        emission: Emission,
        *,
        merges_sets: bool,
    ) -> None:
        self._parsed = parsed
        self._inputs = InputNumbers(parsed, shape_of, emission)
        self._merges_sets = merges_sets
        self._streams = streams
        self._constants = constants
        self._functions = functions
        self._choices = Choices()
        self._sets = OWN  # what becomes of sets inside the query that is being bound
        # whether unions in FROM of the query that is being bound are views without a name
        self._unions_apart = False
        self._n_sets = 0  # that binding has come to in queries inside others
        self._columns_of: dict[int, tuple[UnionColumn, ...]] = {}  # by id of the node of a union

    @property
    def read(self) -> tuple[Stream, ...]:
        """The streams and views that the text names."""
        return tuple(self._inputs.read.values())

    def whole(self) -> tuple[BoundQuery, ...]:
        root = self._parsed.root
        around = Binder(Scope(()), self._constants, self._functions)
        branches = self._branches(self._parsed.root, {}, Scope(()), around)
        if isinstance(root, syntax.UnionNode) or not has_groups(root, self._functions):
            refuse_emission(self._inputs.emission, "the outermost SELECT has no groups")
        functions = tuple(sorted(around.used_functions.items()))
        return tuple(replace(branch, functions=functions) for branch in branches)

    def _branches(
        self, node: syntax.AnyQuery, ctes: Mapping[str, _Cte], scope: Scope, around: Binder
    ) -> tuple[BoundQuery, ...]:
        """The plain queries that a query is the union of."""
        with self._with_sets(MERGED if node.is_distinct or self._merges_sets else OWN):
            branches = [self._branch(node, ctes, scope, around)]
            while self._choices.advance():
                branches.append(self._branch(node, ctes, scope, around))
                refuse_many_branches(len(branches), node.span)
        is_one_set = node.is_distinct and len(branches) > 1
        return tuple(replace(branch, is_one_set=is_one_set) for branch in branches)

    def _branch(
        self, node: syntax.AnyQuery, ctes: Mapping[str, _Cte], scope: Scope, around: Binder
    ) -> BoundQuery:
        """A query with one part of each union."""
        bound = self._plain(node, ctes, scope, around)
        parts = tuple(self._choices.parts)
        bound = replace(bound, distinct=distinct_span(node) or bound.distinct, parts=parts)
        refuse_distinct(bound, node)
        return self._inputs.named(bound)

    def _query(
        self,
        node: syntax.AnyQuery,
        ctes: Mapping[str, _Cte],
        scope: Scope,
        around: Binder,
        part: int | None = None,
    ) -> BoundQuery:
        """A query inside another one; `part` says which part of a union it is."""
        is_apart = self._unions_apart and isinstance(node, syntax.UnionNode)
        if is_apart or self._is_apart(node, ctes, scope, around, part):
            return self._unnamed(node, ctes, scope, around)
        return self._plain(node, ctes, scope, around, part)

    def _unnamed(
        self, node: syntax.AnyQuery, ctes: Mapping[str, _Cte], scope: Scope, around: Binder
    ) -> BoundQuery:
        """The query that selects all columns of one that is a view without a name."""
        before, self._choices = self._choices, Choices()
        try:
            with self._with_unions(is_apart=False):
                branches = self._branches(node, ctes, scope, around)
        finally:
            self._choices = before
        words = words_of(node, self._parsed.text)
        return self._inputs.columns_of_view(branches, words, first_select(node))

    def _is_apart(
        self,
        node: syntax.AnyQuery,
        ctes: Mapping[str, _Cte],
        scope: Scope,
        around: Binder,
        part: int | None,
    ) -> bool:
        """Whether a query cannot become part of the one around it. A part of a union that reads unions is no branch by itself."""
        self._n_sets += node.is_distinct
        if self._sets == MERGED or not node.is_distinct:
            return False
        if self._sets == APART or isinstance(node, syntax.UnionNode):
            return True
        n_unions = self._choices.n_met
        with self._looking(around):
            self._plain(node, ctes, scope, around, part)
        return self._choices.n_met > n_unions

    def _plain(
        self,
        node: syntax.AnyQuery,
        ctes: Mapping[str, _Cte],
        scope: Scope,
        around: Binder,
        part: int | None = None,
    ) -> BoundQuery:
        """A SELECT, or a part of a union; `part` says which part of another one it is."""
        if isinstance(node, syntax.QueryNode):
            bound = self._select(node, ctes, scope, around, part)
            return replace(bound, distinct=distinct_span(node))
        ctes = self._with_ctes(node, ctes, around)
        columns = self._union_columns(node, ctes, scope, around, part)
        at = self._choices.take(node)
        return as_part(self._query(node.branches[at], ctes, scope, around, at), columns)

    def _union_columns(
        self,
        node: syntax.UnionNode,
        ctes: Mapping[str, _Cte],
        scope: Scope,
        around: Binder,
        part: int | None,
    ) -> tuple[UnionColumn, ...]:
        """The columns of a union, which are the same whichever part is bound."""
        found = self._columns_of.get(id(node))
        if found is None:
            with self._looking(around):
                places = enumerate(node.branches)
                parts = [self._query(each, ctes, scope, around, at) for at, each in places]
            found = self._columns_of[id(node)] = union_columns(node, parts, is_inner=part is not None)
        return found

    @contextmanager
    def _with_sets(self, sets: str) -> Iterator[None]:
        """Binding a query in which sets become this."""
        before, self._sets = self._sets, sets
        try:
            yield
        finally:
            self._sets = before

    @contextmanager
    def _with_unions(self, *, is_apart: bool) -> Iterator[None]:
        """Binding a query in which unions in FROM are views without a name, or become the parts that it is the union of."""
        before, self._unions_apart = self._unions_apart, is_apart
        try:
            yield
        finally:
            self._unions_apart = before

    @contextmanager
    def _looking(self, around: Binder) -> Iterator[None]:
        """Binding what will be bound again, to see what it is."""
        n_predicates = around.n_predicates
        with self._choices.silent():
            yield
        around.n_predicates = n_predicates

    def _select(
        self,
        query: syntax.QueryNode,
        ctes: Mapping[str, _Cte],
        scope: Scope,
        around: Binder,
        part: int | None = None,
    ) -> BoundQuery:
        """A SELECT; `scope` says what it sees and does not see of the queries around it."""
        ctes = self._with_ctes(query, ctes, around)
        check_aliases(query.inputs)
        is_aggregating = has_groups(query, self._functions)
        plain, nested = split_where(query.where)
        beside = scope.beside.union(node.alias.lower() for node in query.inputs)
        with self._with_unions(is_apart=is_aggregating or self._unions_apart):
            entries = self._entries(query.inputs, ctes, around, beside)
        is_matched = scope.outer is not None  # its condition may name columns of the query around it
        if is_aggregating or nested or query.is_distinct or is_matched or len(entries) > 1:
            entries = [self._inputs.unaggregated(*each) for each in zip(entries, query.inputs, strict=True)]
        binder = Binder(scope, self._constants, self._functions, around)
        joined = self._joined(query.inputs, entries, binder)
        binder.names_after_where = names_after_where(query, self._functions)
        where = None if plain is None else binder.condition(plain, "WHERE")
        for node in nested:
            self._add_nested(node, ctes, binder, joined, where)
        refuse_unrepeatable_calls(entries, len(joined.inputs))
        bind_group_windows(query, binder)
        projection = projected_columns(self._parsed, query, binder, part)
        group_by = grouping(query, binder, projection)
        groups = GroupClauses(group_by, *conditions_on_results(query, binder, projection, group_by))
        around.n_predicates += binder.n_predicates
        where = all_of([*joined.conditions, *(() if where is None else (where,))])
        inputs, streams = tuple(joined.inputs), tuple(joined.streams)
        below = entries[0].bound
        aggregating = None if below is None else below.aggregating
        bound = BoundQuery(inputs, streams, projection, where, (), aggregating=aggregating)
        return self._inputs.aggregated(query, bound, groups) if is_aggregating else selected(bound)

    def _with_ctes(
        self, query: syntax.AnyQuery, known: Mapping[str, _Cte], around: Binder
    ) -> Mapping[str, _Cte]:
        """The queries that names in FROM may mean: each of WITH sees those before it."""
        found = dict(known)
        own: set[str] = set()
        for node in query.ctes:
            name = node.name.lower()
            if name in own:
                raise AmbiguousNameError(
                    f"two queries of WITH are called {node.name}",
                    span=node.span,
                    hint="Give one another name.",
                )
            own.add(name)
            n_unions, n_sets, n_predicates = self._choices.n_met, self._n_sets, around.n_predicates
            with self._choices.silent():
                bound = self._nested(node.query, found, Scope(()), around)
            labels = {each.alias: self._inputs.labels[each.alias] for each in bound.inputs}
            found[name] = _Cte(bound, labels, node.columns)
            if self._choices.n_met > n_unions or self._n_sets > n_sets:
                found[name].bound_anew = node.query, dict(found)
                around.n_predicates = n_predicates
            query_entry(node.span, node.name, node.columns, bound)  # its mistakes, also if nothing reads it
        return found

    def _nested(
        self, node: syntax.AnyQuery, ctes: Mapping[str, _Cte], scope: Scope, around: Binder
    ) -> BoundQuery:
        with self._with_sets(MERGED if self._sets == MERGED else APART):
            return self._query(node, ctes, scope, around)

    # ---------------------------------------------------------------- FROM

    def _entries(
        self,
        nodes: Sequence[syntax.InputNode],
        ctes: Mapping[str, _Cte],
        around: Binder,
        beside: frozenset[str],
    ) -> list[FromEntry]:
        """The entries of FROM. A union may stand where the query is the union of what it is over each part."""
        entries: list[FromEntry] = []
        unions: dict[int, Span] = {}
        for place, node in enumerate(nodes):
            n_unions = self._choices.n_met
            entries.append(self._entry(node, ctes, around, beside))
            if self._choices.n_met > n_unions:
                unions[place] = node.span
        refuse_undivided(nodes, unions)
        return entries

    def _entry(
        self, node: syntax.InputNode, ctes: Mapping[str, _Cte], around: Binder, beside: frozenset[str]
    ) -> FromEntry:
        cte = ctes.get(node.stream.lower()) if node.query is None else None
        if cte is not None and node.recent is not None:
            raise UnsupportedError(
                f"recent takes a stream; {node.stream} is a query of WITH",
                span=node.span,
                hint=f"Write recent in the query that {node.stream} is.",
            )
        if node.query is not None:
            inner = Scope((), beside=beside)
            return self._merged(node, self._nested(node.query, ctes, inner, around), ())
        if cte is not None:
            return self._merged(node, self._own_copy(cte, around), cte.columns)
        stream = self._stream(node)
        number = self._inputs.next_number()
        self._inputs.labels[number] = (node.alias,)
        window = None if node.recent is None else written_window(node.recent, self._constants)
        entry = Input(number, stream.name, window, span=node.span)
        source = ScopeSource(node.alias, stream.name, stream.schema, number)
        return FromEntry(node.span, (entry,), (stream,), None, source).with_names(node.columns)

    def _merged(self, node: syntax.InputNode, bound: BoundQuery, columns: Sequence[str]) -> FromEntry:
        if node.alias:
            for each in bound.inputs:
                is_alone = len(bound.inputs) == 1
                self._inputs.labels[each.alias] = (
                    node.alias,
                    *(() if is_alone else self._inputs.labels[each.alias]),
                )
        return query_entry(node.span, node.alias, columns, bound).with_names(node.columns)

    def _own_copy(self, cte: _Cte, around: Binder) -> BoundQuery:
        """The query of WITH for one more entry that reads it."""
        if cte.bound_anew is not None:
            query, ctes = cte.bound_anew
            return self._nested(query, ctes, Scope(()), around)
        if not cte.is_read:
            cte.is_read = True
            return cte.bound
        numbers = {each.alias: self._inputs.next_number() for each in cte.bound.inputs}
        self._inputs.labels |= {number: cte.labels[alias] for alias, number in numbers.items()}
        return with_aliases(cte.bound, numbers)

    def _stream(self, node: syntax.InputNode) -> Stream:
        stream = self._streams.find_stream(node.stream)
        if stream is None:
            raise UnknownNameError(
                f"there is no stream {node.stream}",
                span=node.stream_span,
                hint=did_you_mean(node.stream, [s.name for s in self._streams.streams()], noun="stream"),
            )
        self._inputs.read[stream.name.lower()] = stream
        return stream

    def _joined(
        self, nodes: Sequence[syntax.InputNode], entries: Sequence[FromEntry], binder: Binder
    ) -> _Joined:
        """The inputs of FROM. The binder is left with what SELECT and WHERE see.

        ON sees the inputs up to its own, but none that is only asked for a match. What USING equates has one name.
        """
        joined = _Joined([], [], [])
        scope = binder.scope
        for node, entry in zip(nodes, entries, strict=True):
            left, source = scope, entry.source
            binder.scope = replace(scope, sources=(*scope.sources, source))
            on = None if node.on is None else binder.condition(node.on, "ON")
            if node.using:
                on, pairs = using_condition(node, left, Scope((source,)), binder)
                binder.scope = merged_scope(binder.scope, pairs)
            first, *others = entry.inputs
            if node.join == "right":  # its other side is what may find no match
                on = all_of([part for part in (on, *joined.conditions) if part is not None])
                joined.conditions = []
            if node.join in ("left", "left anti", "left semi"):
                refuse_several_inputs(node.join, entry)
                on = all_of([part for part in (on, entry.where) if part is not None])
            elif entry.where is not None:
                joined.conditions.append(entry.where)
            if node.join == "left":
                guarded = replace(source, columns=guarded_columns(entry, on))
                binder.scope = replace(binder.scope, sources=(*binder.scope.sources[:-1], guarded))
            if node.join == "right" and len(entries) == 2:
                refuse_several_inputs(node.join, entries[0])
                guarded = replace(entries[0].source, columns=guarded_columns(entries[0], on))
                binder.scope = replace(binder.scope, sources=(guarded, *binder.scope.sources[1:]))
            if node.join in ("left anti", "left semi"):
                absent = {**scope.absent, source.alias.lower(): node.join}
                binder.scope = replace(binder.scope, sources=scope.sources, absent=absent)
            scope = binder.scope
            joined.add(entry, [replace(first, join=node.join or first.join, on=on or first.on), *others])
        return joined

    # ---------------------------------------------------------------- queries in WHERE

    def _add_nested(
        self,
        node: syntax.Node,
        ctes: Mapping[str, _Cte],
        binder: Binder,
        joined: _Joined,
        where: Expression | None,
    ) -> None:
        """EXISTS, NOT EXISTS, IN or NOT IN: the input of a semi or anti join with what the query says as ON. `where` is what
        stands beside it."""
        test, join, written = match_test(node)
        n_unions = self._choices.n_met
        # it is only asked whether there is a row, however many there are
        with self._with_sets(MERGED), self._with_unions(is_apart=False):
            bound = self._nested(test.query, ctes, Scope((), outer=binder.scope), binder)
        if bound.aggregating is not None:
            bound = self._inputs.columns_of_view(
                [self._inputs.named(bound)], words_of(test.query, self._parsed.text), test.span
            )
        if self._choices.n_met > n_unions:
            refuse_in_where(union_words(test.query), written, test.span)
        entry = query_entry(test.span, "", (), bound)
        refuse_several_inputs(written, entry)
        conditions = [] if entry.where is None else [entry.where]
        if isinstance(test, syntax.InQuery):
            equality, *sides = membership(test, bound, binder)
            if join == "left anti":
                refuse_not_in_stream(bound.streams[0], bound.inputs[0].span or test.span)
                inputs = zip((*joined.inputs, *bound.inputs), (*joined.streams, *bound.streams), strict=True)
                streams = {each.alias: stream for each, stream in inputs}
                known = (*condition_parts(where), *condition_parts(entry.where))
                equality = not_excluded(equality, sides, streams, known)
            conditions.insert(0, equality)
        on = all_of(conditions)
        joined.add(entry, [replace(bound.inputs[0], join=join, on=on, written=written)])
