"""Typed expression trees: literals, columns, slots, calls and aggregates, and what there is in them.

Aggregates, OVER and windows are in bound queries only: a shape reads what they give as columns (`aggregations`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import pyarrow as pa

from eddyline.errors import Span
from eddyline.model.aggregations import OverFrame, SessionWindow, TimeWindow


class Facts(NamedTuple):
    """What there is in an expression. What occurs in it twice counts twice."""

    n_nodes: int = 1
    depth: int = 1
    has_columns: bool = False
    has_slots: bool = False
    has_user_calls: bool = False
    has_variables: bool = False

    @property
    def is_constant(self) -> bool:
        """Whether a query gives it the same value on all rows of a round."""
        return not self.has_columns and not self.has_user_calls


_LEAF = Facts()
_COLUMN = Facts(has_columns=True)
_SLOT = Facts(has_slots=True)
_VARIABLE = Facts(has_variables=True)


def _facts(children: tuple[Expression, ...], *, is_user_call: bool = False) -> Facts:
    """Of a node, from those of its children."""
    n_nodes, depth = 1, 0
    has_columns = has_slots = has_variables = False
    has_user_calls = is_user_call
    for child in children:
        inner = child.facts
        n_nodes += inner.n_nodes
        depth = max(depth, inner.depth)
        has_columns |= inner.has_columns
        has_slots |= inner.has_slots
        has_user_calls |= inner.has_user_calls
        has_variables |= inner.has_variables
    return Facts(n_nodes, depth + 1, has_columns, has_slots, has_user_calls, has_variables)


@dataclass(frozen=True, slots=True)
class Expression:
    """A typed scalar expression. Equality and hash ignore where in the text it was."""

    type: pa.DataType
    span: Span | None = field(default=None, compare=False, kw_only=True)

    @property
    def children(self) -> tuple[Expression, ...]:
        return ()

    @property
    def facts(self) -> Facts:
        """What there is in it. Calls know it without walking down."""
        return _facts(self.children) if self.children else _LEAF

    def walk(self) -> Iterator[Expression]:
        """This node and all below it, parents first."""
        stack: list[Expression] = [self]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(reversed(node.children))

    def with_leaves(self, new: Callable[[Expression], Expression]) -> Expression:
        """The same calls over other leaves: each becomes what `new` gives for it."""
        waiting, done = [(self, False)], list[Expression]()
        while waiting:
            node, are_arguments_done = waiting.pop()
            if not isinstance(node, (Call, UserCall)):
                done.append(new(node))
            elif not are_arguments_done:
                waiting.append((node, True))
                waiting.extend((argument, False) for argument in reversed(node.arguments))
            else:
                first = len(done) - len(node.arguments)
                arguments = tuple(done[first:])
                del done[first:]
                done.append(node if arguments == node.arguments else replace(node, arguments=arguments))
        return done[0]


@dataclass(frozen=True, slots=True)
class Literal(Expression):
    """A constant, as a Python value that `pa.scalar(value, type)` accepts; None is NULL."""

    value: Any = field(compare=False)
    _identity: Any = field(init=False, repr=False)

    def __post_init__(
        self,
    ) -> None:  # 0.0 and -0.0 are equal but not the same constant; NaN is the same as itself
        object.__setattr__(
            self, "_identity", repr(self.value) if isinstance(self.value, float) else self.value
        )


@dataclass(frozen=True, slots=True)
class Column(Expression):
    """A column of one of the query's inputs."""

    name: str
    input: str = ""  # alias of the input

    @property
    def facts(self) -> Facts:
        return _COLUMN


@dataclass(frozen=True, slots=True)
class Slot(Expression):
    """A constant of the query: the value of slot `index` in its shape."""

    index: int

    @property
    def facts(self) -> Facts:
        return _SLOT


LAMBDA = "->"  # the call that a function as an argument is: of its value, then of its variables


@dataclass(frozen=True, slots=True)
class Variable(Expression):
    """A variable of a function that is an argument: x in transform(a, x -> x + 1). Functions inside others go on counting."""

    number: int
    name: str = field(compare=False)

    @property
    def facts(self) -> Facts:
        return _VARIABLE


@dataclass(frozen=True, slots=True, eq=False)
class Call(Expression):
    """A built-in operator or function, by the name `expressions` knows it under."""

    function: str
    arguments: tuple[Expression, ...]
    _hash: int = field(default=0, init=False, repr=False)
    _facts: Facts = field(default=_LEAF, init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.function, self.arguments, self.type)))
        object.__setattr__(self, "_facts", _facts(self.arguments))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return _are_equal(self, other)

    def __reduce__(self) -> tuple[Any, ...]:  # a hash is of one process
        return _call_again, (Call, self.span, self.type, self.function, self.arguments)

    @property
    def facts(self) -> Facts:
        return self._facts

    @property
    def children(self) -> tuple[Expression, ...]:
        return self.arguments


@dataclass(frozen=True, slots=True, eq=False)
class UserCall(Expression):
    """A call of a function the user registered, in the version the query was registered with.

    `occurrence` tells calls of a non-deterministic one apart.
    """

    function: str
    arguments: tuple[Expression, ...]
    version: str = ""
    is_deterministic: bool = True
    occurrence: int = 0
    _hash: int = field(default=0, init=False, repr=False)
    _facts: Facts = field(default=_LEAF, init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.arguments, *_own(self))))
        object.__setattr__(self, "_facts", _facts(self.arguments, is_user_call=True))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return _are_equal(self, other)

    def __reduce__(self) -> tuple[Any, ...]:
        own = self.version, self.is_deterministic, self.occurrence
        return _call_again, (UserCall, self.span, self.type, self.function, self.arguments, *own)

    @property
    def facts(self) -> Facts:
        return self._facts

    @property
    def children(self) -> tuple[Expression, ...]:
        return self.arguments


def _call_again(kind: type[Expression], span: Span | None, *fields: Any) -> Expression:
    """A call as it was stored."""
    return kind(*fields, span=span)


def _own(call: Call | UserCall) -> tuple[Any, ...]:
    """What a call says besides its arguments."""
    if isinstance(call, Call):
        return call.function, call.type
    return call.function, call.type, call.version, call.is_deterministic, call.occurrence


def _are_equal(left: object, right: object) -> bool:
    """Whether two expressions are the same, by a loop: they may be nested deep. Mostly hashes tell."""
    waiting = [(left, right)]
    while waiting:
        a, b = waiting.pop()
        if a is b:
            continue
        if type(a) is not type(b):
            return False
        if not isinstance(a, (Call, UserCall)):
            if a != b:
                return False
            continue
        assert isinstance(b, (Call, UserCall))
        if a._hash != b._hash or _own(a) != _own(b) or len(a.arguments) != len(b.arguments):
            return False
        waiting += zip(a.arguments, b.arguments, strict=True)
    return True


@dataclass(frozen=True, slots=True)
class Aggregate(Expression):
    """count, sum, min, max, avg … over a group or a frame, of rows where the filter is true."""

    function: str
    arguments: tuple[Expression, ...]
    is_distinct: bool = False
    filter: Expression | None = None
    ignores_nulls: bool = False

    @property
    def children(self) -> tuple[Expression, ...]:
        return self.arguments if self.filter is None else (*self.arguments, self.filter)


@dataclass(frozen=True, slots=True)
class Over(Expression):
    """An aggregate over the rows before the current one, and itself."""

    aggregate: Expression
    partition_by: tuple[Expression, ...]
    order_by: tuple[Expression, ...]
    frame: OverFrame = field(default_factory=OverFrame)

    @property
    def children(self) -> tuple[Expression, ...]:
        return (self.aggregate, *self.partition_by, *self.order_by)


@dataclass(frozen=True, slots=True)
class GroupWindow(Expression):
    """window() or session_window() of GROUP BY: the windows that hold a time."""

    time: Expression
    window: TimeWindow | SessionWindow

    @property
    def word(self) -> str:
        return "window" if isinstance(self.window, TimeWindow) else "session_window"

    @property
    def children(self) -> tuple[Expression, ...]:
        return (self.time,)
