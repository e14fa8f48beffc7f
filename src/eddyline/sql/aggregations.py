"""Queries with aggregates as queries over the relation of their aggregation (`model.aggregations`).

    SELECT card, count(*) AS n FROM auths WHERE declined GROUP BY card HAVING count(*) >= 5

becomes a class of rows, which is a view without a name, and a selection over what they are aggregated to:

    class      SELECT card AS `#k0`, * FROM auths WHERE declined
    selection  SELECT `#k0` AS card, `#count()` AS n FROM the aggregation WHERE `#count()` >= 5

Constants of the class are part of it; those of HAVING, QUALIFY and SELECT stay slots, so queries that differ in a threshold are
one shape. Names of aggregations say what they mean, as those of views without a name do.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from eddyline.catalog import aggregation_stream
from eddyline.errors import Span, UnsupportedError
from eddyline.expressions import NeedsLiteral, call
from eddyline.model import (
    NOW,
    OVERFLOW,
    WINDOW,
    Aggregate,
    AggregateCall,
    Aggregating,
    Aggregation,
    Call,
    Column,
    Expression,
    GroupWindow,
    Input,
    Literal,
    Over,
    ProjectedColumn,
    Properties,
    Slot,
    TemporalBound,
    UserCall,
)
from eddyline.sql.aggregate_refusals import (
    Emission,
    check_over,
    check_windows,
    now_with_window,
    refuse_emission,
    refuse_estimates,
    refuse_final,
    refuse_inputs,
    refuse_keep,
    refuse_now,
    refuse_over_in_groups,
    refuse_unrepeatable,
)
from eddyline.sql.aggregates import ESTIMATES
from eddyline.sql.bound_query import BoundQuery, expressions_of
from eddyline.sql.class_columns import ClassColumns, expression_text
from eddyline.sql.sets import is_table
from eddyline.sql.subqueries import all_of
from eddyline.sql.temporal_conditions import TimeComparison, asks_for_time, comparison_with_now, split_where
from eddyline.sql.unnamed_views import UnnamedRelation
from eddyline.types import BOOLEAN, TIMESTAMP

_DIGEST_BYTES = 12  # of the name; two aggregations that differ must not get the same

RelationOf = Callable[[BoundQuery], UnnamedRelation]  # the view without a name that a bound query is


@dataclass(frozen=True, slots=True)
class GroupClauses:
    """What a SELECT says of groups and frames."""

    group_by: tuple[Expression, ...]
    having: Expression | None
    qualify: Expression | None

    def results(self, bound: BoundQuery) -> list[Expression]:
        """What is computed of groups and frames."""
        conditions = (e for e in (self.having, self.qualify) if e is not None)
        return [*(p.expression for p in bound.projection), *conditions]

    def is_grouped(self, bound: BoundQuery) -> bool:
        """Whether rows become groups; otherwise each stays a row, with values over its frame."""
        nodes = (node for e in self.results(bound) for node in _outside_over(e))
        has_groups = any(isinstance(node, (Aggregate, GroupWindow)) for node in nodes)
        return bool(self.group_by) or self.having is not None or has_groups


DEFAULT_EMISSION = Emission()


def emission_of(properties: Properties | None) -> Emission:
    """What the properties of a query say of its aggregation."""
    if properties is None:
        return DEFAULT_EMISSION
    return Emission(properties.emit == "final", properties.keep_us)


def aggregated(
    bound: BoundQuery, groups: GroupClauses, emission: Emission, relation_of: RelationOf, number: str
) -> BoundQuery:
    """The query over its aggregation, as an input with this number. Raises NeedsLiteral for constants of the class."""
    refuse_inputs(bound)
    lower = _grouped if groups.is_grouped(bound) else _framed
    return lower(bound, groups, emission, relation_of, number)


def selected(bound: BoundQuery) -> BoundQuery:
    """A selection over groups: what HAVING says, or a query around one with aggregates. Refuses what would change results that
    were given, and finds what time changes."""
    aggregating = bound.aggregating
    if aggregating is None or aggregating.aggregation.is_over:
        return bound
    aggregation, results = aggregating.aggregation, [p.expression for p in bound.projection]
    if aggregation.window is not None and bound.where is not None and asks_for_time(bound.where):
        raise now_with_window(bound.where.span)
    if not aggregation.is_final:
        conditions = [] if bound.where is None else [bound.where]
        refuse_unrepeatable([*results, *conditions], "SELECT or HAVING of groups")
    refuse_now(
        results,
        "SELECT of groups",
        "Select max(ts), and compare it with now() in HAVING.",
    )
    where, deadlines = _with_deadlines(bound.where, {found.name: found for found in aggregating.calls})
    return replace(bound, where=where, aggregating=replace(aggregating, deadlines=deadlines))


def refuse_outer_columns(bound: BoundQuery, groups: GroupClauses) -> None:
    """Refuse columns of the query around one that aggregates: there is one aggregation for all of its rows."""
    own = {entry.alias for entry in bound.inputs}
    below = (*expressions_of(bound), *groups.group_by, *groups.results(bound))
    columns = (node for e in below for node in e.walk() if isinstance(node, Column))
    outer = next((column for column in columns if column.input not in own), None)
    if outer is not None:
        raise UnsupportedError(
            f"a subquery with aggregates cannot name {outer.name} of the query around it",
            span=outer.span,
            hint="Group by the column it is compared with, and join the subquery in FROM.",
        )


# ------------------------------------------------------------------------------------------------ GROUP BY


def _grouped(
    bound: BoundQuery, groups: GroupClauses, emission: Emission, relation_of: RelationOf, number: str
) -> BoundQuery:
    results = groups.results(bound)
    refuse_over_in_groups(results, groups.qualify)
    aggregates = [node for e in results for node in e.walk() if isinstance(node, Aggregate)]
    _pin([*expressions_of(replace(bound, projection=())), *groups.group_by, *aggregates])
    window = next((e for e in groups.group_by if isinstance(e, GroupWindow)), None)
    keys = list(dict.fromkeys(e for e in groups.group_by if not isinstance(e, GroupWindow)))
    where, comparisons = split_where(bound.where)
    refuse_now(
        [*groups.group_by, *aggregates, *(entry.on for entry in bound.inputs if entry.on is not None)],
        "GROUP BY, in ON, or in an aggregate",
        "It may be compared with a time in WHERE: ts > now() - INTERVAL 10 MINUTES.",
    )
    if window is not None and comparisons:
        raise now_with_window(comparisons[0].span)
    times = [c.time for c in comparisons] + ([] if window is None else [window.time])
    columns = ClassColumns(bound, keys, _arguments(aggregates), times)
    body = replace(bound, projection=columns.projection, where=all_of(where))
    relation = relation_of(body)
    reads_table = is_table(relation.stream)
    if window is not None:
        check_windows(window, emission, bound, relation.stream, columns.time(relation.stream))
    refuse_final(emission, window, reads_table=reads_table)
    refuse_keep(emission, keys, window, comparisons, reads_table=reads_table)
    if reads_table:
        refuse_unrepeatable(expressions_of(body), "an aggregate over a table")
        refuse_estimates(aggregates, "over a table")
    if comparisons:
        refuse_estimates(aggregates, "together with a condition on now() in WHERE")
    aggregation = _named(
        Aggregation(
            "",
            relation.stream.name,
            tuple(f"#k{n}" for n in range(len(keys))),
            window=None if window is None else window.window,
            window_time=columns.name(window.time) if window is not None and reads_table else None,
            is_final=emission.is_final,
            keep_us=emission.keep_us,
            bounds=_bounds(comparisons, columns),
            reads_table=reads_table,
        )
    )
    rewriting = _Rewriting(columns, number, window)
    having = None if groups.having is None else rewriting.grouped(groups.having)
    projection = tuple(replace(p, expression=rewriting.grouped(p.expression)) for p in bound.projection)
    aggregating = Aggregating(aggregation, rewriting.all_calls)
    span = next((e.span for e in (*groups.group_by, *aggregates)), bound.inputs[0].span)
    return selected(_over_aggregation(relation, aggregating, projection, having, number, bound, span))


def _bounds(comparisons: Sequence[TimeComparison], columns: ClassColumns) -> tuple[TemporalBound, ...]:
    found = {c.bound(columns.name(c.time)) for c in comparisons}
    return tuple(sorted(found, key=lambda b: (b.column, b.leave_us or 0, b.enter_us or 0)))


def _with_deadlines(
    having: Expression | None, calls: Mapping[str, AggregateCall]
) -> tuple[Expression | None, tuple[TemporalBound, ...]]:
    """HAVING with every comparison of an aggregate with now() in one form, and what these comparisons are."""
    deadlines: dict[TemporalBound, None] = {}

    def new(e: Expression) -> Expression:
        if not asks_for_time(e):
            return e
        if isinstance(e, Call) and e.function in ("and", "or", "not"):
            return replace(e, arguments=tuple(map(new, e.arguments)))
        found = comparison_with_now(e, "in HAVING")
        if not isinstance(found.time, Column) or found.time.name not in calls:
            raise UnsupportedError(
                "now() can only be compared with a TIMESTAMP aggregate in HAVING",
                span=e.span,
                hint="Write a comparison such as max(ts) < now() - INTERVAL 10 MINUTES.",
            )
        deadlines[found.bound(found.time.name)] = None
        return found.condition(Column(TIMESTAMP, NOW, found.time.input))

    return None if having is None else new(having), tuple(deadlines)


# ------------------------------------------------------------------------------------------------ OVER


def _framed(
    bound: BoundQuery, groups: GroupClauses, emission: Emission, relation_of: RelationOf, number: str
) -> BoundQuery:
    refuse_emission(emission, "results of OVER are final by themselves, and rows go by their frames")
    results = groups.results(bound)
    overs = [node for e in results for node in e.walk() if isinstance(node, Over)]
    if not overs:
        raise UnsupportedError(
            "QUALIFY needs OVER",
            span=None if groups.qualify is None else groups.qualify.span,
            hint="Write the condition in WHERE.",
        )
    _pin([*expressions_of(replace(bound, projection=())), *overs])
    refuse_now(
        [e for e in (bound.where, *overs) if e is not None],
        "what OVER reads",
        "Frames go by the time of rows: RANGE BETWEEN INTERVAL 10 MINUTES PRECEDING AND CURRENT ROW.",
    )
    keys = {expression_text(e): e for over in overs for e in over.partition_by}
    aggregates = [over.aggregate for over in overs if isinstance(over.aggregate, Aggregate)]
    refuse_estimates(aggregates, "before OVER")
    columns = ClassColumns(bound, [keys[text] for text in sorted(keys)], _arguments(aggregates), [], results)
    relation = relation_of(replace(bound, projection=columns.projection))
    for over in overs:
        check_over(over, bound, relation.stream, columns.time(relation.stream))
    partitions = {_partition(over, columns) for over in overs}
    partition = max(partitions, key=lambda names: (len(names), names))
    aggregation = _named(Aggregation("", relation.stream.name, partition, is_over=True))
    rewriting = _Rewriting(columns, number, partition=partition)
    qualify = None if groups.qualify is None else rewriting.framed(groups.qualify)
    projection = tuple(replace(p, expression=rewriting.framed(p.expression)) for p in bound.projection)
    aggregating = Aggregating(aggregation, rewriting.all_calls)
    return _over_aggregation(relation, aggregating, projection, qualify, number, bound, overs[0].span)


def _partition(over: Over, columns: ClassColumns) -> tuple[str, ...]:
    return tuple(sorted({columns.key(e) or "" for e in over.partition_by}))


# ------------------------------------------------------------------------------------------------ both


def _pin(expressions: Iterable[Expression]) -> None:
    """Have the constants of the class as literals."""
    slots = {node.index for e in expressions for node in e.walk() if isinstance(node, Slot)}
    if slots:
        raise NeedsLiteral(*sorted(slots))


def _arguments(aggregates: Iterable[Aggregate]) -> list[Expression]:
    """What the rows of the class must have for these aggregates."""
    conditions = (a.filter for a in aggregates if a.filter is not None)
    return [*(e for a in aggregates for e in _given(a)), *conditions]


def _given(aggregate: Aggregate) -> tuple[Expression, ...]:
    """The arguments as rows give them: with FILTER they are not computed where it is not true."""
    has_constants = aggregate.function in ("lag", *ESTIMATES)
    arguments = aggregate.arguments[:1] if has_constants else aggregate.arguments
    if aggregate.filter is None:
        return arguments
    return tuple(
        e if isinstance(e, Column) else call("case", [aggregate.filter, e, Literal(e.type, None)])
        for e in arguments
    )


def _named(aggregation: Aggregation) -> Aggregation:
    digest = hashlib.blake2b(repr(aggregation).encode(), digest_size=_DIGEST_BYTES)
    return replace(aggregation, name=f"aggregate {digest.hexdigest()}")


def _over_aggregation(
    relation: UnnamedRelation,
    aggregating: Aggregating,
    projection: tuple[ProjectedColumn, ...],
    where: Expression | None,
    number: str,
    bound: BoundQuery,
    span: Span | None,
) -> BoundQuery:
    entry = Input(number, relation.stream.name, span=span, view=relation.view)
    stream = aggregation_stream(aggregating, relation.stream)
    return BoundQuery((entry,), (stream,), projection, where, bound.functions, aggregating=aggregating)


@dataclass(slots=True)
class _Rewriting:
    """Expressions over the rows of a class as expressions over what they are aggregated to."""

    columns: ClassColumns
    number: str  # of the input that the aggregation is
    window: GroupWindow | None = None
    partition: tuple[str, ...] = ()
    calls: dict[str, AggregateCall] = field(default_factory=dict)  # that some expression needs

    @property
    def all_calls(self) -> tuple[AggregateCall, ...]:
        return tuple(self.calls[name] for name in sorted(self.calls))

    def grouped(self, e: Expression) -> Expression:
        """Over groups: keys, the window and aggregates are columns, and there are no others."""
        key = self.columns.key(e)
        if key is not None:
            return self._column(e.type, key, e.span)
        if isinstance(e, Aggregate):
            return self._value(self._call(e), e.span)
        if isinstance(e, GroupWindow) and e == self.window:
            return self._column(e.type, WINDOW, e.span)
        if isinstance(e, GroupWindow):
            raise UnsupportedError(
                f"{e.word} is not in GROUP BY", span=e.span, hint="Write the same window there."
            )
        if e.facts.has_slots and (slots := self.columns.slots_of_key(e)):
            raise NeedsLiteral(*slots)
        if isinstance(e, Column):
            raise UnsupportedError(
                f"{e.name} is neither grouped by nor aggregated",
                span=e.span,
                hint=f"Add it to GROUP BY, or write an aggregate such as max({e.name}) or any_value({e.name}).",
            )
        return _with_arguments(e, self.grouped)

    def framed(self, e: Expression) -> Expression:
        """Over rows with values over their frames."""
        if isinstance(e, Over):
            assert isinstance(e.aggregate, Aggregate), e
            keys = _partition(e, self.columns)
            found = self._call(e.aggregate)
            frame = None if found.function == "lag" else e.frame
            found = replace(found, frame=frame, keys=None if keys == self.partition else keys)
            return self._value(found, e.span)
        if isinstance(e, Column):
            return self._column(e.type, self.columns.name(e), e.span)
        return _with_arguments(e, self.framed)

    def _call(self, e: Aggregate) -> AggregateCall:
        given = _given(e)
        n_back, default = e.arguments[1:] if e.function == "lag" else (None, None)
        error = e.arguments[1] if e.function in ESTIMATES else None
        return AggregateCall(
            e.function,
            tuple(map(self.columns.name, given)),
            tuple(argument.type for argument in given),
            e.type,
            None if e.filter is None else self.columns.name(e.filter),
            e.is_distinct,
            e.ignores_nulls,
            n_back=n_back.value if isinstance(n_back, Literal) else 0,
            default=default.value if isinstance(default, Literal) else None,
            relative_error=error.value if isinstance(error, Literal) else None,
        )

    def _value(self, found: AggregateCall, span: Span | None) -> Expression:
        self.calls[found.name] = found
        value = self._column(found.type, found.name, span)
        if not found.can_overflow:
            return value
        return call("checked", [value, self._column(BOOLEAN, found.name + OVERFLOW, span)], span=span)

    def _column(self, t: pa.DataType, name: str, span: Span | None) -> Column:
        return Column(t, name, self.number, span=span)


def _with_arguments(e: Expression, new: Callable[[Expression], Expression]) -> Expression:
    if isinstance(e, (Call, UserCall)):
        return replace(e, arguments=tuple(map(new, e.arguments)))
    return e


def _outside_over(e: Expression) -> Iterator[Expression]:
    """This node and those below it, but not what stands before or in OVER."""
    stack = [e]
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, Over):
            stack.extend(node.children)
