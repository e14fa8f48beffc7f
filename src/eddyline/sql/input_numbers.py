"""Inputs of one text while it is bound: numbers for names, and those that are views without a name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import count

from eddyline.errors import Span, UnsupportedError
from eddyline.model import GroupWindow, Stream
from eddyline.sql import syntax
from eddyline.sql.aggregate_refusals import Emission
from eddyline.sql.aggregations import DEFAULT_EMISSION, GroupClauses, aggregated, refuse_outer_columns
from eddyline.sql.bound_query import BoundQuery, with_aliases
from eddyline.sql.parse import ParsedText
from eddyline.sql.sets import distinct_span
from eddyline.sql.subqueries import FromEntry, displayed_names, query_entry
from eddyline.sql.unnamed_views import ShapeOf, UnnamedRelation, unnamed_relation


class InputNumbers:
    """What inputs are called while a text is bound: numbers. `labels` says what they will be called: the aliases of the entries
    of FROM around them, the outermost first."""

    def __init__(self, parsed: ParsedText[syntax.AnyQuery], shape_of: ShapeOf, emission: Emission) -> None:
        """`emission` is that of the query that the text is."""
        self._parsed = parsed
        self._shape_of = shape_of
        self._emission = emission
        self._has_final = False  # whether windows of a query inside another one are final
        self._numbers = count(1)
        self.labels: dict[str, tuple[str, ...]] = {}
        self.read: dict[str, Stream] = {}  # the streams and views that the text names, by name in lower case

    def next_number(self) -> str:
        return str(next(self._numbers))

    @property
    def emission(self) -> Emission:
        """What is said of the outermost query, if it has no windows: those inside are final where any are to be."""
        return replace(self._emission, is_final=self._emission.is_final and not self._has_final)

    def named(self, bound: BoundQuery) -> BoundQuery:
        """The query with the names that its inputs have for users in place of numbers."""
        names = displayed_names({each.alias: self.labels[each.alias] for each in bound.inputs})
        if len(bound.inputs) > 1:
            return with_aliases(bound, names)
        number = bound.inputs[0].alias  # columns of a single input do not name it
        bound = with_aliases(bound, {number: ""})
        return replace(bound, inputs=(replace(bound.inputs[0], alias=names[number]),))

    def columns_of_view(self, branches: Sequence[BoundQuery], words: str, span: Span) -> BoundQuery:
        relation = unnamed_relation(branches, self._shape_of, self.read, words)
        number = self.next_number()
        self.labels[number] = ("subquery",)
        return relation.columns(number, span)

    def unaggregated(self, entry: FromEntry, node: syntax.InputNode) -> FromEntry:
        """An entry of FROM; a view without a name if it aggregates and cannot become part of the query around it."""
        if entry.bound is None or entry.bound.aggregating is None:
            return entry
        line = self._parsed.text.count("\n", 0, node.span.start) + 1
        words = f"the subquery at line {line}"
        bound = self.columns_of_view([self.named(entry.bound)], words, node.span)
        self.labels[bound.inputs[0].alias] = (node.alias or "subquery",)
        return query_entry(node.span, node.alias, entry.source.schema.names, bound)

    def aggregated(self, query: syntax.QueryNode, bound: BoundQuery, groups: GroupClauses) -> BoundQuery:
        """The query over its aggregation, whose class of rows is a view without a name."""
        line = self._parsed.text.count("\n", 0, query.span.start) + 1

        def relation_of(body: BoundQuery) -> UnnamedRelation:
            names = displayed_names({each.alias: (each.stream,) for each in body.inputs})
            named = self.named(body) if len(body.inputs) == 1 else with_aliases(body, names)
            words = f"the rows aggregated at line {line}"
            return unnamed_relation([named], self._shape_of, self.read, words)

        refuse_outer_columns(bound, groups)
        if query.is_distinct:
            raise UnsupportedError(
                "SELECT DISTINCT cannot stand together with groups",
                span=distinct_span(query),
                hint="Groups are distinct by themselves. Make it a view, and write SELECT DISTINCT … FROM it.",
            )
        is_windowed = any(isinstance(e, GroupWindow) for e in groups.group_by)
        if query is self._parsed.root:
            emission = self._emission if is_windowed else self.emission
        else:
            emission = replace(DEFAULT_EMISSION, is_final=self._emission.is_final and is_windowed)
            self._has_final |= emission.is_final
        number = self.next_number()
        self.labels[number] = (query.inputs[0].alias or "rows",)
        return aggregated(bound, groups, emission, relation_of, number)
