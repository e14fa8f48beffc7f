"""Types: a syntax tree becomes a typed expression over the columns in scope."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from itertools import count
from typing import Any, Protocol

import pyarrow as pa

from eddyline import types
from eddyline.errors import (
    EddylineError,
    LimitError,
    ParseError,
    Span,
    TypeMismatchError,
    UnknownNameError,
    UnsupportedError,
    nearest,
)
from eddyline.expressions import FUNCTIONS, INTERNAL, NeedsLiteral, call, cast, coerce, common_type
from eddyline.model import Aggregate, Expression, Literal, Over, Slot, UserCall, Variable
from eddyline.nesting import MAX_NESTING, MAX_NODES, MAX_TYPE_NESTING
from eddyline.sql import aggregates, syntax, time_windows
from eddyline.sql.constant_types import Constants
from eddyline.sql.lambdas import array_and_function, bound_function, variables_of
from eddyline.sql.refused_functions import refuse_function
from eddyline.sql.scope import Scope, fields, struct_field
from eddyline.sql.written_types import json_path, written_type

MAX_PREDICATES = 1000


class FunctionSignature(Protocol):
    """What the binder must know of a registered function."""

    @property
    def name(self) -> str: ...
    @property
    def returns(self) -> pa.DataType: ...
    @property
    def version(self) -> str: ...
    @property
    def is_deterministic(self) -> bool: ...
    @property
    def takes(self) -> tuple[pa.DataType, ...] | None: ...


class KnownFunctions(Protocol):
    """Registered functions, by name."""

    def get(self, name: str, /) -> FunctionSignature | None: ...
    def names(self) -> Sequence[str]: ...


# ------------------------------------------------------------------------------------------------ the binder

_COMPARISONS = frozenset(("=", "!=", "<", "<=", ">", ">=", "<=>"))
_ARITHMETIC = frozenset("+-*/%")
_AGGREGATE_HINTS = {
    "WHERE": "Conditions on groups belong in HAVING.",
    "ON": "Make it a view, and join that.",
    "GROUP BY": "Make it a view, and group its rows.",
}
_SHIFTS = {"<<": "shiftleft", ">>": "shiftright"}


class Binder:
    """Binds the expressions of one query. The caller, which walks the clauses, sets what a clause allows."""

    def __init__(
        self,
        scope: Scope,
        constants: Constants,
        functions: KnownFunctions | None,
        outer: Binder | None = None,
    ) -> None:
        """`outer` is the binder of the query around this one."""
        self.scope = scope
        self.constants = constants
        self.functions = functions
        # user functions met, and their versions
        self.used_functions: dict[str, str] = {} if outer is None else outer.used_functions
        self.aliases: dict[str, Expression] = {}  # projected names that HAVING and QUALIFY may use
        self.preferred_aliases: Set[str] = (
            frozenset()
        )  # those that hide columns of inputs, but not from aggregates
        self.names_after_where: Mapping[str, str] = {}  # of SELECT, and the clause that knows them
        self.group_windows: dict[str, Expression] = {}  # of GROUP BY, by the names of their columns
        self.variables: dict[str, Variable] = {}  # of the functions around that are arguments
        self.clause = "a scalar expression"
        self.allows_aggregates = False
        self.allows_windows = False
        self.n_predicates = 0
        self._occurrences: Iterator[int] = count(1) if outer is None else outer._occurrences
        self._n_variables = 0
        self._depth = 0

    def bind(self, node: syntax.Node) -> Expression:
        """The typed expression of a syntax tree."""
        self._depth += 1
        if self._depth > MAX_NESTING + 2:  # the innermost predicate and its operands are not nesting
            raise LimitError(f"the expression is nested deeper than {MAX_NESTING} levels", span=node.span)
        try:
            bound = self._with_literals(node)
            if bound.facts.n_nodes > MAX_NODES:
                raise LimitError(
                    f"the expression has more than {MAX_NODES:,} operations",
                    detail="BETWEEN, nullif and CASE with a value before WHEN repeat it, so nested ones grow with every level.",
                    span=node.span,
                )
            if types.nesting(bound.type) > MAX_TYPE_NESTING:
                raise LimitError(f"the type is nested deeper than {MAX_TYPE_NESTING} levels", span=node.span)
            return bound
        except EddylineError as error:
            error.span = error.span or node.span
            raise
        finally:
            self._depth -= 1

    def _with_literals(self, node: syntax.Node) -> Expression:
        while True:
            n_predicates = self.n_predicates
            try:
                return _HANDLERS[type(node)](self, node)
            except NeedsLiteral as needs:  # of this node itself: those below it are bound
                self.constants.pin(needs.slots)
                self.n_predicates = n_predicates

    def condition(self, node: syntax.Node, clause: str) -> Expression:
        """An expression that must be BOOLEAN."""
        self.clause = clause
        bound = self.bind(node)
        if self.n_predicates > MAX_PREDICATES:
            raise LimitError(
                f"the query has {self.n_predicates:,} predicates; at most {MAX_PREDICATES:,} are accepted",
                span=node.span,
                hint="Many values of one column belong in an IN list, which is one predicate.",
            )
        if bound.type not in (types.BOOLEAN, types.NULL):
            raise TypeMismatchError(
                f"{clause} needs a condition, found {types.type_name(bound.type)}",
                span=node.span,
                hint="Compare it with something, such as x > 0.",
            )
        return cast(bound, types.BOOLEAN, span=node.span)

    # ---------------------------------------------------------------- leaves

    def _constant(self, node: syntax.ConstantNode) -> Expression:
        return self.constants.expression(node.number, node.span)

    def _word(self, node: syntax.Word) -> Expression:
        if node.word == "NULL":
            return Literal(types.NULL, None, span=node.span)
        return Literal(types.BOOLEAN, node.word == "TRUE", span=node.span)

    def _name(self, node: syntax.Name) -> Expression:
        variable = self.variables.get(node.parts[0].lower())
        if variable is not None:
            return fields(replace(variable, span=node.span), node.parts[1:], node.span)
        alias = self.aliases.get(node.parts[0].lower()) if len(node.parts) == 1 else None
        alias = alias or self.group_windows.get(node.parts[0].lower())
        is_preferred = self.allows_aggregates and node.parts[0].lower() in self.preferred_aliases
        if alias is not None and (is_preferred or not self.scope.has(node.parts[0])):
            return fields(alias, node.parts[1:], node.span)
        clause = self.names_after_where.get(node.parts[0].lower()) if self.clause == "WHERE" else None
        if clause is not None and not self.scope.has(node.parts[0]):
            name, of = node.parts[0], "the rows of a frame" if clause == "QUALIFY" else "groups"
            raise UnknownNameError(
                f"there is no column {name} in WHERE",
                span=node.span,
                hint=f"{name} is computed of {of}, after WHERE: a condition on it belongs in {clause}.",
            )
        return self._apart(self.scope.column(node.parts, node.span))

    def _apart(self, column: Expression) -> Expression:
        """A column of a query inside this one, with variables other than those of the functions around."""
        n_around = self._n_variables
        if not n_around or not column.facts.has_variables:
            return column

        def renumbered(leaf: Expression) -> Expression:
            return replace(leaf, number=leaf.number + n_around) if isinstance(leaf, Variable) else leaf

        return column.with_leaves(renumbered)

    def _star(self, node: syntax.Star) -> Expression:
        raise ParseError("* stands for all columns and cannot be used in an expression", span=node.span)

    # ---------------------------------------------------------------- operators

    def _unary(self, node: syntax.Unary) -> Expression:
        return call(node.operator, [self.bind(node.operand)], span=node.span)

    def _binary(self, node: syntax.Binary) -> Expression:
        operator = _SHIFTS.get(node.operator, node.operator)
        operands = [self.bind(node.left), self.bind(node.right)]
        if operator in _COMPARISONS:
            self.n_predicates += 1
            operands = self._meet(operands)
        elif operator in _ARITHMETIC:
            operands = self._meet_numbers(operands)
        return call(operator, operands, span=node.span)

    def _chain(self, node: syntax.Chain) -> Expression:
        return call(node.operator, [self.bind(operand) for operand in node.operands], span=node.span)

    def equality(self, left: Expression, right: Expression, span: Span) -> Expression:
        """left = right, its constants of the type they are compared in."""
        self.n_predicates += 1
        return call("=", self._meet([left, right]), span=span)

    def _between(self, node: syntax.Between) -> Expression:
        self.n_predicates += 1
        value, low, high = self.bind(node.value), self.bind(node.low), self.bind(node.high)
        if _is_free(value):
            value = self.constants.as_literal(value)
        above = call(">=", self._meet([value, low]), span=node.span)
        below = call("<=", self._meet([value, high]), span=node.span)
        return call("and", [above, below], span=node.span)

    def _in(self, node: syntax.In) -> Expression:
        self.n_predicates += 1
        operands = self._meet([self.bind(operand) for operand in (node.value, *node.options)])
        if (
            len(operands) == 2
            and pa.types.is_list(operands[1].type)
            and not pa.types.is_list(operands[0].type)
        ):
            element = operands[1].type.value_type
            if common_type([operands[0].type, element]) == element:
                operands[0] = coerce(operands[0], element)
        return call("in", operands, span=node.span)

    def _is(self, node: syntax.Is) -> Expression:
        self.n_predicates += 1
        value = self.bind(node.value)
        if node.word == "NULL":
            return call("is not null" if node.is_negated else "is null", [value], span=node.span)
        test = call("<=>", [value, Literal(types.BOOLEAN, node.word == "TRUE")], span=node.span)
        return call("not", [test], span=node.span) if node.is_negated else test

    def _like(self, node: syntax.Like) -> Expression:
        self.n_predicates += 1
        operands = [self.bind(node.value), self.bind(node.pattern)]
        if node.escape is not None:
            operands.append(self.bind(node.escape))
        return call(node.operator, operands, span=node.span)

    def _like_many(self, node: syntax.LikeMany) -> Expression:
        self.n_predicates += len(node.patterns)
        value = self.bind(node.value)
        tests = [call(node.operator, [value, self.bind(p)], span=node.span) for p in node.patterns]
        if node.is_negated:
            tests = [call("not", [test], span=node.span) for test in tests]
        return tests[0] if len(tests) == 1 else call(node.chain, tests, span=node.span)

    def _case(self, node: syntax.Case) -> Expression:
        subject = None if node.subject is None else self.bind(node.subject)
        if subject is not None and _is_free(subject):
            subject = self.constants.as_literal(subject)
        operands: list[Expression] = []
        for when, then in node.branches:
            condition = self.bind(when)
            if subject is not None:
                condition = call("=", self._meet([subject, condition]), span=when.span)
            operands += [condition, self.bind(then)]
        operands.append(Literal(types.NULL, None) if node.default is None else self.bind(node.default))
        return call("case", operands, span=node.span)

    def _cast(self, node: syntax.Cast) -> Expression:
        return cast(self.bind(node.operand), written_type(node.to), is_try=node.is_try, span=node.span)

    def _field(self, node: syntax.Field) -> Expression:
        return struct_field(self.bind(node.operand), node.name, node.span)

    def _element(self, node: syntax.Element) -> Expression:
        value, index = self.bind(node.operand), self.bind(node.index)
        if not (pa.types.is_list(value.type) or pa.types.is_map(value.type)):
            raise TypeMismatchError(
                f"{types.type_name(value.type)} has no elements",
                span=node.span,
                hint="Only an ARRAY or a MAP takes [ ].",
            )
        return call("element", [value, index], span=node.span)

    def _path(self, node: syntax.Path) -> Expression:
        path = Literal(types.STRING, json_path(node.path))
        return call("json_path", [self.bind(node.operand), path], span=node.span)

    # ---------------------------------------------------------------- calls

    def _call(self, node: syntax.CallNode) -> Expression:
        name = node.name.lower()
        if any(isinstance(argument, syntax.LambdaNode) for argument in node.arguments):
            return self._call_with_function(node, name)
        is_known = name in FUNCTIONS and name not in INTERNAL
        user = None if is_known or self.functions is None else self.functions.get(node.name)
        if user is None and not is_known and aggregates.is_aggregate(name):
            return self._aggregate(node, is_windowed=False)
        if user is None and name in time_windows.GROUP_WINDOWS:
            return self._group_window(node)
        if user is None and not is_known:
            refuse_function(name, node.span)
        for words, is_there in (
            ("DISTINCT", node.is_distinct),
            ("FILTER", node.filter is not None),
            (f"{node.nulls} NULLS", bool(node.nulls)),
        ):
            if is_there:
                raise UnsupportedError(f"{node.name} does not take {words}", span=node.span)
        near = nearest(name, aggregates.NAMES)
        if user is None and near is not None and any(isinstance(a, syntax.Star) for a in node.arguments):
            raise UnknownNameError(
                f"there is no function {node.name}", span=node.span, hint=f"Did you mean {near}?"
            )
        arguments = [self.bind(argument) for argument in node.arguments]
        if user is not None:
            return self._user_call(user, arguments, node.span)
        also_known = self.functions.names() if self.functions is not None else []
        if near is not None:
            also_known = [*also_known, *aggregates.NAMES]
        return call(node.name, arguments, span=node.span, also_known=also_known)

    def _call_with_function(self, node: syntax.CallNode, name: str) -> Expression:
        """A call such as exists(tags, t -> t LIKE 'a%')."""
        array, function = array_and_function(node, name)
        bound = self.bind(array)
        variables = variables_of(function, bound, name, self._n_variables)
        outer = self.variables, self.allows_aggregates, self.allows_windows, self.clause
        self.variables = {**self.variables, **{each.name.lower(): each for each in variables}}
        self.allows_aggregates, self.allows_windows, self.clause = False, False, f"the function of {name}"
        self._n_variables += len(variables)
        body = self.bind(function.body)
        self._n_variables -= len(variables)
        self.variables, self.allows_aggregates, self.allows_windows, self.clause = outer
        return call(name, [bound, bound_function(function, body, variables)], span=node.span)

    def _misplaced_query(self, node: syntax.Exists | syntax.InQuery) -> Expression:
        what = "EXISTS" if isinstance(node, syntax.Exists) else "IN (SELECT …)"
        raise UnsupportedError(
            f"{what} can only be a condition of WHERE by itself, beside AND",
            span=node.span,
            hint="Write WHERE EXISTS (…) AND …. For OR, register one query for each part.",
        )

    def _misplaced_function(self, node: syntax.LambdaNode) -> Expression:
        raise UnsupportedError(
            "x -> … can only be an argument",
            span=node.span,
            hint=f"Write {FUNCTIONS['exists'].signature}.",
        )

    def _user_call(self, user: FunctionSignature, arguments: Sequence[Expression], span: Span) -> Expression:
        if user.takes is not None:
            if len(arguments) != len(user.takes):
                n = len(user.takes)
                raise TypeMismatchError(
                    f"{user.name} takes {n} argument{'s' if n != 1 else ''}, found {len(arguments)}",
                    span=span,
                    hint=f"Write {user.name}({', '.join(map(types.type_name, user.takes))}).",
                )
            arguments = [coerce(a, t) for a, t in zip(arguments, user.takes, strict=True)]
        self.used_functions[user.name] = user.version
        occurrence = 0
        if not user.is_deterministic:
            occurrence = next(self._occurrences)
        return UserCall(
            user.returns,
            user.name,
            tuple(arguments),
            user.version,
            user.is_deterministic,
            occurrence,
            span=span,
        )

    # ---------------------------------------------------------------- aggregates

    def _aggregate(self, node: syntax.CallNode, *, is_windowed: bool) -> Aggregate:
        if not is_windowed and not self.allows_aggregates:
            raise UnsupportedError(
                f"{node.name} is an aggregate and cannot stand in {self.clause}",
                span=node.span,
                hint=_AGGREGATE_HINTS.get(self.clause, "Make the inner one a view, and read FROM it."),
            )
        outer = self.allows_aggregates, self.allows_windows, self.clause
        self.allows_aggregates, self.allows_windows = False, False
        self.clause = f"the aggregate {node.name}"
        is_count = aggregates.is_count_of_rows(node)
        arguments = [] if is_count else [self.bind(argument) for argument in node.arguments]
        condition = None if node.filter is None else self.condition(node.filter, f"FILTER of {node.name}")
        self.allows_aggregates, self.allows_windows, self.clause = outer
        return aggregates.aggregate(node, arguments, condition)

    def _over(self, node: syntax.OverNode) -> Expression:
        if not self.allows_windows:
            raise UnsupportedError(
                f"OVER cannot stand in {self.clause}",
                span=node.span,
                hint="Write it in SELECT or QUALIFY, or make it a view and read FROM that.",
            )
        name = node.function.name.lower()
        if not aggregates.is_windowed(name):
            refuse_function(name, node.function.span)
            raise UnsupportedError(f"{node.function.name} cannot stand before OVER", span=node.function.span)
        aggregate = self._aggregate(node.function, is_windowed=True)
        partition_by = tuple(self._below(e, "PARTITION BY") for e in node.partition_by)
        order_by = tuple(self._below(e, "ORDER BY") for e in node.order_by)
        frame = time_windows.frame(node, self.constants.literal_value)
        return Over(aggregate.type, aggregate, partition_by, order_by, frame, span=node.span)

    def _below(self, node: syntax.Node, clause: str) -> Expression:
        """An expression of the rows that aggregates are over."""
        outer = self.allows_aggregates, self.allows_windows, self.clause
        self.allows_aggregates, self.allows_windows, self.clause = False, False, clause
        bound = self.bind(node)
        self.allows_aggregates, self.allows_windows, self.clause = outer
        return bound

    def _group_window(self, node: syntax.CallNode) -> Expression:
        if self.clause not in ("SELECT", "GROUP BY", "HAVING"):
            raise UnsupportedError(
                f"{node.name} cannot stand in {self.clause}",
                span=node.span,
                hint=f"Write GROUP BY {node.name}(…).",
            )
        time = self._below(node.arguments[0], node.name) if node.arguments else None
        return time_windows.group_window(node, time, self.constants.literal_value)

    # ---------------------------------------------------------------- constants meet what they are compared with

    def _meet(self, operands: list[Expression]) -> list[Expression]:
        """The operands of a comparison, its constants already of the type they are compared in."""
        other = common_type(e.type for e in operands if not _is_free(e))
        if other is None or other == types.NULL:
            return operands
        meeting = [self.constants.meeting_type(e, other) for e in operands if _is_free(e)]
        if any(t is None for t in meeting):
            return operands
        target = common_type([other, *meeting])
        if target is None:
            return operands
        return [self.constants.retyped_constant(e, other, target) if _is_free(e) else e for e in operands]

    def _meet_numbers(self, operands: list[Expression]) -> list[Expression]:
        """The operands of arithmetic, a constant already DOUBLE or the wider integer where the other side is."""
        columns = [e for e in operands if not _is_free(e)]
        if len(columns) != 1:
            return operands
        constant = next(e for e in operands if _is_free(e))
        other = columns[0].type
        if not types.is_numeric(constant.type) or not types.is_numeric(other):
            return operands
        target = self.constants.meeting_type(constant, other)
        if target is None or types.is_decimal(target):
            return operands  # the digits of a decimal constant decide the type of the result
        return [self.constants.retyped_constant(e, other, target) if e is constant else e for e in operands]


def _is_free(expression: Expression) -> bool:
    """Whether it is a constant of the text itself."""
    return isinstance(expression, Slot) or (isinstance(expression, Literal) and expression.type != types.NULL)


_HANDLERS: dict[type[syntax.Node], Callable[[Binder, Any], Expression]] = {
    syntax.ConstantNode: Binder._constant,
    syntax.Word: Binder._word,
    syntax.Name: Binder._name,
    syntax.Star: Binder._star,
    syntax.Unary: Binder._unary,
    syntax.Binary: Binder._binary,
    syntax.Chain: Binder._chain,
    syntax.Between: Binder._between,
    syntax.In: Binder._in,
    syntax.Exists: Binder._misplaced_query,
    syntax.InQuery: Binder._misplaced_query,
    syntax.Is: Binder._is,
    syntax.Like: Binder._like,
    syntax.LikeMany: Binder._like_many,
    syntax.Case: Binder._case,
    syntax.Cast: Binder._cast,
    syntax.Field: Binder._field,
    syntax.Element: Binder._element,
    syntax.Path: Binder._path,
    syntax.CallNode: Binder._call,
    syntax.LambdaNode: Binder._misplaced_function,
    syntax.OverNode: Binder._over,
}
