"""The columns of a result, and what is said of groups of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields

from eddyline import types
from eddyline.errors import AmbiguousNameError, ParseError, Span, TypeMismatchError, UnsupportedError
from eddyline.model import Aggregate, Column, Expression, Over, ProjectedColumn
from eddyline.sql import syntax
from eddyline.sql.aggregates import is_aggregate
from eddyline.sql.bind import Binder, KnownFunctions
from eddyline.sql.constant_types import Constants
from eddyline.sql.lexer import PARAMETER, Token, tokens_of
from eddyline.sql.parse import ParsedText
from eddyline.sql.reading import RESERVED
from eddyline.sql.scope import Scope, ScopeColumn
from eddyline.sql.time_windows import GROUP_WINDOWS


def projected_columns(
    parsed: ParsedText[syntax.AnyQuery], query: syntax.QueryNode, binder: Binder, part: int | None = None
) -> tuple[ProjectedColumn, ...]:
    """The columns of SELECT; `query` is one of the queries of the text.

    Which `part` of a union it is, if it is one: then another may say what type NULL has, and the first what columns are called.
    """
    is_named = part is None or part == 0
    binder.clause, binder.allows_aggregates, binder.allows_windows = "SELECT", True, True
    projected: list[ProjectedColumn] = []
    names: dict[str, str] = {}
    for node in query.projection:
        if isinstance(node.expression, syntax.Star):
            new = _named_columns(_star_columns(node.expression, binder.scope), query, names)
        else:
            name = (
                node.alias
                or _column_name(node.expression)
                or (_text_name(parsed, node.expression.span, binder.constants) if is_named else "")
            )
            new = [ProjectedColumn(name, binder.bind(node.expression))]
        for column in new:
            if column.name.lower() in names and is_named:
                raise AmbiguousNameError(
                    f"two columns of the result are called {column.name}",
                    span=node.span,
                    hint="Name one of them with AS, or leave it out with * EXCEPT (…).",
                )
            if column.expression.type == types.NULL and part is None:
                raise TypeMismatchError(
                    f"column {column.name} has no type",
                    span=node.span,
                    hint="Write CAST(NULL AS STRING) or another type.",
                )
            names[column.name.lower()] = column.name
        projected += new
    return tuple(projected)


def _named_columns(
    columns: Sequence[ScopeColumn], query: syntax.QueryNode, used_names: Mapping[str, str]
) -> list[ProjectedColumn]:
    """The columns * stands for. Where inputs of a join have the same name for one, the later ones are called `alias_name`; what
    the inputs are joined by with USING is there once."""
    merged = {name.lower() for node in query.inputs for name, _ in node.using}
    first = query.inputs[0].alias
    names: set[str] = set(used_names)
    found: list[ProjectedColumn] = []
    for column in columns:
        name = column.name
        if name.lower() in names and column.alias and len(query.inputs) > 1:
            if name.lower() in merged and column.alias != first:
                continue
            name = f"{column.alias}_{name}"
        names.add(name.lower())
        found.append(ProjectedColumn(name, column.expression))
    return found


def _star_columns(star: syntax.Star, scope: Scope) -> list[ScopeColumn]:
    columns = scope.star(star.input, star.span)
    hidden: set[tuple[str, str]] = set()
    for name in star.hidden:
        parts = name.parts if star.input is None or len(name.parts) > 1 else (star.input, *name.parts)
        found, fields = scope.find(parts, name.span)
        if not fields:
            hidden.add(found.identity)
    shown_columns = [column for column in columns if column.identity not in hidden]
    if not shown_columns:
        raise ParseError("* EXCEPT leaves no column", span=star.span)
    return shown_columns


def _column_name(node: syntax.Node) -> str | None:
    """The name a column or field brings along, as the user spelt it."""
    if isinstance(node, syntax.Name):
        return node.parts[-1]
    return node.name if isinstance(node, syntax.Field) else None


def _text_name(parsed: ParsedText[syntax.AnyQuery], span: Span, constants: Constants) -> str:
    """The text of an expression, evenly spaced. Its constants are part of the name, so they stay as written."""
    tokens_span = tokens_of(span, parsed.tokens)
    assert tokens_span is not None, f"no token is in {span}"
    pieces: list[str] = []
    before: Token | None = None
    for token in parsed.tokens[tokens_span.start : tokens_span.end]:
        if token.constant is not None and parsed.constants[token.constant].kind != PARAMETER:
            constants.literal_value(token.constant)
        pieces += (" ", token.text) if before is not None and _is_spaced(before, token) else (token.text,)
        before = token
    return "".join(pieces)


def _is_spaced(before: Token, token: Token) -> bool:
    if before.text in ("(", "[", ".", "::", "~") or token.text in (")", "]", ".", ",", "[", "::"):
        return False
    if token.text == "(":
        is_name = before.text[0].isalpha() or before.text[0] in "_`"
        return not is_name or before.text.upper() in RESERVED
    return not (token.text[0] == ":" and token.constant is None)


# ------------------------------------------------------------------------------------------------ groups


def bind_group_windows(query: syntax.QueryNode, binder: Binder) -> None:
    """Let the names window and session_window mean the window of GROUP BY."""
    binder.clause, binder.allows_aggregates, binder.allows_windows = "GROUP BY", False, False
    for node in query.group_by:
        if isinstance(node, syntax.CallNode) and node.name.lower() in GROUP_WINDOWS:
            if binder.group_windows:
                raise UnsupportedError(
                    "GROUP BY takes one window",
                    span=node.span,
                    hint="Register one query for each, or make one a view with emit = 'final' and read FROM it.",
                )
            binder.group_windows[node.name.lower()] = binder.bind(node)


def grouping(
    query: syntax.QueryNode, binder: Binder, projection: Sequence[ProjectedColumn]
) -> tuple[Expression, ...]:
    """What GROUP BY takes."""
    binder.clause, binder.allows_aggregates, binder.allows_windows = "GROUP BY", False, False
    binder.aliases = {p.name.lower(): p.expression for p in projection}
    groups = []
    for node in query.group_by:
        group = binder.bind(node)
        if any(isinstance(n, (Aggregate, Over)) for n in group.walk()):
            raise UnsupportedError(
                "GROUP BY cannot take what is computed of groups",
                span=node.span,
                hint="Make it a view, and group its rows.",
            )
        if not any(isinstance(n, Column) for n in group.walk()):
            raise UnsupportedError(
                "GROUP BY takes columns, not their numbers",
                span=node.span,
                hint="Write the expression, or the name that AS gives it. For one group of all rows leave GROUP BY out.",
            )
        groups.append(group)
    return tuple(groups)


def conditions_on_results(
    query: syntax.QueryNode,
    binder: Binder,
    projection: Sequence[ProjectedColumn],
    group_by: Sequence[Expression],
) -> tuple[Expression | None, Expression | None]:
    """HAVING and QUALIFY. In HAVING a name means a column that is grouped by, else one of SELECT, as in Spark."""
    binder.aliases = {p.name.lower(): p.expression for p in projection}
    binder.allows_aggregates = True
    grouped = {e.name.lower() for e in group_by if isinstance(e, Column)}
    binder.preferred_aliases = binder.aliases.keys() - grouped
    having = None if query.having is None else binder.condition(query.having, "HAVING")
    binder.preferred_aliases = frozenset()
    binder.allows_windows = True
    qualify = None if query.qualify is None else binder.condition(query.qualify, "QUALIFY")
    return having, qualify


def has_groups(query: syntax.QueryNode, functions: KnownFunctions | None) -> bool:
    """Whether a SELECT computes something of several rows, as its words say."""
    if query.group_by or query.having is not None or query.qualify is not None:
        return True
    return any(_clause_after(p.expression, functions) for p in query.projection)


def names_after_where(query: syntax.QueryNode, functions: KnownFunctions | None) -> Mapping[str, str]:
    """Names of SELECT, in lower case, of what is computed of several rows, and the clause that conditions on it belong in."""
    found = {(p.alias or "").lower(): _clause_after(p.expression, functions) for p in query.projection}
    return {name: clause for name, clause in found.items() if name and clause}


def _clause_after(expression: syntax.Node, functions: KnownFunctions | None) -> str:
    """The clause that conditions on an expression belong in, if it computes something of several rows; else nothing."""
    found = ""
    stack: list[object] = [expression]
    while stack:
        node = stack.pop()
        if isinstance(node, syntax.OverNode):
            return "QUALIFY"
        name = node.name if isinstance(node, syntax.CallNode) else ""
        is_of_groups = is_aggregate(name.lower()) or name.lower() in GROUP_WINDOWS
        if is_of_groups and (functions is None or functions.get(name) is None):
            found = "HAVING"
        if isinstance(node, tuple):
            stack.extend(node)
        elif isinstance(node, syntax.Node):
            stack.extend(getattr(node, f.name) for f in fields(node) if f.name != "span")
    return found
