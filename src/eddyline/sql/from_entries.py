"""Entries of FROM: their names, what USING equates, and windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from eddyline.errors import AmbiguousNameError, TypeMismatchError, UnsupportedError
from eddyline.expressions import call
from eddyline.model import Expression, Window
from eddyline.sql import syntax
from eddyline.sql.bind import Binder
from eddyline.sql.constant_types import Constants
from eddyline.sql.scope import Scope, ScopeColumn


def check_aliases(nodes: Sequence[syntax.InputNode]) -> None:
    """Refuse two entries of one name."""
    aliases: set[str] = set()
    for node in nodes:
        if node.alias.lower() in aliases:
            other = f"{node.stream} AS other" if node.stream else "(SELECT …) AS other"
            raise AmbiguousNameError(
                f"two inputs are called {node.alias}",
                span=node.span,
                hint=f"Give one another name: {other}.",
            )
        if node.alias:
            aliases.add(node.alias.lower())


def using_condition(
    node: syntax.InputNode, left: Scope, right: Scope, binder: Binder
) -> tuple[Expression, list[tuple[ScopeColumn, ScopeColumn]]]:
    """The condition that USING is; for each of its columns the one that its name stands for, and the one that it hides."""
    tests, pairs = [], []
    for name, span in node.using:
        sides = left.column([name], span), right.column([name], span)
        tests.append(call("=", sides, span=span))
        columns = left.find([name], span)[0], right.find([name], span)[0]
        pairs.append(columns[::-1] if node.join == "right" else columns)  # the other one may be NULL
    return tests[0] if len(tests) == 1 else call("and", tests, span=node.span), pairs


def merged_scope(scope: Scope, pairs: Sequence[tuple[ScopeColumn, ScopeColumn]]) -> Scope:
    """The scope with one name for what USING equates."""
    merged = scope.merged_columns.union(hidden.identity for _, hidden in pairs)
    leading = [shown for shown, _ in pairs]
    others = (column for column in scope.leading if column not in leading)
    return replace(scope, merged_columns=merged, leading=(*leading, *others))


def written_window(node: syntax.Node, constants: Constants) -> Window:
    """The window that recent names."""
    hint = "Write recent(stream, 100) for rows, or recent(stream, INTERVAL 10 MINUTES)."
    if not isinstance(node, syntax.ConstantNode):
        raise UnsupportedError("recent takes a constant", span=node.span, hint=hint)
    amount = constants.literal_value(node.number)
    if isinstance(amount, timedelta) and amount > timedelta(0):
        return Window(duration_us=amount // timedelta(microseconds=1))
    if isinstance(amount, int) and amount > 0:
        return Window(n_rows=amount)
    raise TypeMismatchError(
        "recent takes a positive number of rows or an interval", span=node.span, hint=hint
    )
