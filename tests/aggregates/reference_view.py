"""What one query of the reference sees of its input in one round: names, types, and the rows that take part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlglot import exp

from tests.aggregates.reference_relations import Output, Round, Row, is_closed
from tests.aggregates.reference_sql import (
    TIMESTAMP,
    WINDOW,
    Call,
    QueryText,
    Type,
    call_of,
    call_type,
    type_of,
)
from tests.aggregates.reference_values import (
    ERRS,
    MISSING,
    PASSES,
    ComputationError,
    Lookup,
    aggregate,
    evaluate,
    order,
    outcome,
)

WINDOWS = ("window", "session_window")


@dataclass
class View:
    query: QueryText
    source: Output
    round: Round
    first: int  # the first round of the query
    letters: list[dict[str, Any]] = field(default_factory=list)

    # ----------------------------------------------------------------------------------------- names and types

    def projections(self) -> dict[str, exp.Expr]:
        found: dict[str, exp.Expr] = {}
        for tree in self.query.projection:
            if isinstance(tree, exp.Star):
                found |= {name: exp.column(name) for name in self.source.columns}
            else:
                found[tree.alias_or_name.lower()] = tree
        return found

    def output(self, **more: Any) -> Output:
        types = {name: type_of(tree, self.column_type) for name, tree in self.projections().items()}
        return Output(types, self.time(), self.source.before, self.source.after, **more)

    def column_type(self, column: exp.Column) -> Type:
        name, table = column.name.lower(), column.table.lower()
        if f"{table}.{name}" in self.source.columns:
            return self.source.columns[f"{table}.{name}"]
        if table in WINDOWS or self.source.columns.get(table) == WINDOW:
            return TIMESTAMP
        if name in self.source.columns:
            return self.source.columns[name]
        return WINDOW if name in WINDOWS else type_of(self.projections()[name], self.column_type)

    def time(self) -> str | None:
        """The column that is the time of the output, if the query passes one on."""
        passed = None if self.query.is_grouped else self.source.time
        if self.query.is_final and not self.query.window.is_session:
            passed = "window"
        for name, tree in self.projections().items():
            column = tree.unalias()
            if passed and isinstance(column, exp.Column) and column.name.lower() == passed:
                return name
        return None

    def alias(self, tree: exp.Expr, lookup: Lookup) -> Any:
        """The value of a column that is the name of a result."""
        return evaluate(self.projections()[tree.name.lower()].unalias(), lookup)

    # ----------------------------------------------------------------------------------------- rows

    def lookup(self, row: Row) -> Lookup:
        def found(tree: exp.Expr) -> Any:
            if isinstance(tree, exp.CurrentTimestamp):
                return self.round.now
            if not isinstance(tree, exp.Column):
                return MISSING
            name, table = tree.name.lower(), tree.table.lower()
            if f"{table}.{name}" in row.values:
                return row.values[f"{table}.{name}"]
            if table in row.values:
                return getattr(row.values[table], name)
            return row.values.get(name, MISSING)

        return found

    def visible(self) -> list[Row]:
        if self.source.entries is not None:
            return list(self.source.entries.values())
        return [row for row in self.source.rows if row.first_number >= self.first]

    def taking_part(self, needed: Sequence[exp.Expr]) -> list[Row]:
        """Rows for which WHERE is true, and on which nothing that is needed fails, in order of (ts, g)."""
        found = []
        for row in self.visible():
            result = self._part(row, needed)
            if result == PASSES:
                found.append(row)
            is_new = row.number == self.round.number or self.first == self.round.number
            if result == ERRS and is_new:
                self.letters.append({"arrival": row.g[0]})
        return sorted(found, key=lambda row: (order(row.ts), row.g))

    def _part(self, row: Row, needed: Sequence[exp.Expr]) -> int:
        lookup = self.lookup(row)
        result = outcome(self.query.where, lookup)
        if result != PASSES:
            return result
        try:
            for tree in needed:
                self._compute(tree, lookup)
        except ComputationError:
            return ERRS
        return PASSES

    def _compute(self, tree: exp.Expr, lookup: Lookup) -> None:
        """Compute an expression, or the arguments of an aggregate where its FILTER lets them be."""
        call = call_of(tree.this if isinstance(tree, exp.Window) else tree)
        if call is None:
            evaluate(tree, lookup)
        elif call.condition is None or evaluate(call.condition, lookup) is True:
            for argument in call.arguments:
                evaluate(argument, lookup)

    def value(self, call: Call, rows: Sequence[Row]) -> Any:
        """An aggregate of rows in order of (ts, g)."""
        types = [type_of(argument, self.column_type) for argument in call.arguments]
        return aggregate(call, [self.lookup(row) for row in rows], types, call_type(call, types))

    # ----------------------------------------------------------------------------------------- selections

    def projected(self, row: Row, lookup: Lookup, condition: exp.Expr | None) -> Iterator[Row]:
        """The result of a row, if the condition is true and it can be computed; else a dead letter."""
        result = outcome(condition, lookup)
        if result == PASSES:
            try:
                values = {name: evaluate(tree, lookup) for name, tree in self.projections().items()}
                yield replace(row, values=values, ts=row.ts if self.time() else None)
            except ComputationError:
                result = ERRS
        if result == ERRS:
            self.letters.append({"arrival": row.g[0]})

    def selected_rows(self) -> Iterator[Row]:
        for row in self.visible():
            if row.number == self.round.number:
                yield from self.projected(row, self.lookup(row), self.query.where)

    def selected_entries(self) -> Iterator[tuple[Any, Row]]:
        for identity, row in self.source.entries.items():
            found = list(self.projected(row, self.lookup(row), self.query.where))
            if self.letters:
                raise NotImplementedError("errors of selections over tables")
            yield from ((identity, entry) for entry in found)

    def closed_entries(self) -> Iterator[Any]:
        """Entries of windows that were closed when the round began."""
        if self.source.closes is not None:
            for identity, row in self.source.entries.items():
                if is_closed(row.window, self.source.closes, self.source.before):
                    yield identity
