"""The nouns: typed expression trees, streams, shapes, queries, rounds.

Everything here is a value: frozen, comparable, free of SQL text and of Spark. Rooms pass these to each other.

A *shape* is what queries that differ only in their constants have in common. Its constants are *slots*: literals lifted
from the text, or named parameters. A query is a shape plus one value per slot.
"""

from __future__ import annotations

import bisect
import datetime
import enum
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.errors import Span

# --------------------------------------------------------------------------------------------- expressions


class Facts(NamedTuple):
    """What there is in an expression. What stands in it twice counts twice."""

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
    """A typed scalar expression. Equality and hash ignore where in the text it stood."""

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
    """count, sum, min, max, avg … over a group or a window."""

    function: str
    arguments: tuple[Expression, ...]
    is_distinct: bool = False

    @property
    def children(self) -> tuple[Expression, ...]:
        return self.arguments


@dataclass(frozen=True, slots=True)
class Over(Expression):
    """An aggregate over rows around the current one."""

    aggregate: Expression
    partition_by: tuple[Expression, ...]
    order_by: tuple[Expression, ...]
    frame: str = ""

    @property
    def children(self) -> tuple[Expression, ...]:
        return (self.aggregate, *self.partition_by, *self.order_by)


# --------------------------------------------------------------------------------------------- conditions


class AtomKind(enum.Enum):
    """How an atom can be decided."""

    COMPARE = "compare"  # attribute operator constant: indexable
    IN = "in"  # attribute IN (constants): indexable
    NULL_TEST = "null test"  # attribute IS [NOT] NULL: indexable
    LIKE = "like"  # attribute LIKE pattern: some patterns are a range of texts, which depends on the query
    CONSTANT = "constant"  # no column in it: decided once per query
    FUNCTION = "function"  # calls a function of the user
    RESIDUAL = "residual"  # anything else


@dataclass(frozen=True, slots=True)
class Atom:
    """A condition that is not taken apart further. It passes where `condition` is true.

    For indexable kinds and LIKE, `attribute` holds columns only and `constant` slots and literals only, both of one type (the
    items of IN too). The constant of LIKE is a pattern that escapes with a backslash, that of startswith a text as it is.
    """

    kind: AtomKind
    condition: Expression
    attribute: Expression | None = None
    operator: str = ""  # one of = != < <= > >= in, is null, is not null, like, startswith
    constant: Expression | None = None


def pattern_atom(condition: Expression) -> Atom | None:
    """The atom of kind LIKE that a condition is, or None. It says no more than the condition, so only that is ever stored."""
    if not isinstance(condition, Call) or condition.function not in ("like", "startswith"):
        return None
    attribute, pattern, *escape = condition.arguments
    above, below = attribute.facts, pattern.facts
    if (
        escape
        or condition.facts.has_user_calls
        or not above.has_columns
        or above.has_slots
        or below.has_columns
    ):
        return None
    return Atom(AtomKind.LIKE, condition, attribute, condition.function, pattern)


@dataclass(frozen=True, slots=True)
class Clause:
    """True where one of its atoms is.

    `tokens` says which tokens of the text it came from. Texts of one shape have the same tokens, at different places.
    """

    atoms: tuple[Atom, ...]
    tokens: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Condition:
    """True where all of its clauses are; no clauses: always true."""

    clauses: tuple[Clause, ...] = ()
    never: tuple[Expression, ...] = ()  # over slots: a query for which one of these is true can never match


# --------------------------------------------------------------------------------------------- streams


@dataclass(frozen=True, slots=True)
class Stream:
    """A declared input. With `key` it is a table kept at its latest rows, else append-only."""

    name: str
    schema: pa.Schema
    time: str | None = None
    lateness_us: int = 0
    key: tuple[str, ...] = ()
    source: str = ""  # the USING of its declaration
    options: tuple[tuple[str, str], ...] = ()
    properties: tuple[tuple[str, str], ...] = ()
    discovered: tuple[
        str, ...
    ] = ()  # columns its source brought; a declaration that does not name them leaves them

    @property
    def is_keyed(self) -> bool:
        return bool(self.key)


# --------------------------------------------------------------------------------------------- queries


@dataclass(frozen=True, slots=True)
class Window:
    """How much of an input a join may look back on: newest rows, or arrival time."""

    n_rows: int | None = None
    duration_us: int | None = None


@dataclass(frozen=True, slots=True)
class Input:
    """An entry of the FROM list."""

    alias: str
    stream: str
    window: Window | None = None
    join: str = ""  # "", inner, left, left anti, asof, cross
    on: Expression | None = None
    span: Span | None = field(default=None, compare=False)


# --------------------------------------------------------------------------------------------- joins

END_OF_ARRIVALS = 1 << 52  # no row that arrives gets so far
# Rows that joins and tables make are numbered from here, over all rounds of a home. Below, homes may have numbers that repeat,
# from rounds before this was so. Up to 2**53, 4.5e15 rows later, JSON readers that know only doubles tell them apart.
FIRST_MADE = END_OF_ARRIVALS + (1 << 41)
NO_TIME = -(1 << 62)  # the event time of a row without one: below every other, and differences stay in range

# columns that rows of a join have besides those of their inputs, each behind the place of the input it is about: 0.#behind
BEHIND = "#behind"  # how many rows of its stream came after it, up to the row that made the result
AGE = "#age"  # microseconds between the round it came in and that of the row that made the result
OLDER = "#older"  # microseconds by which its event time is below the latest of all rows of the result


class Role(enum.Enum):
    """What becomes of the rows of an input of a join."""

    WINDOW = "window"  # they are kept, and later rows of other inputs meet them
    CURRENT = "current"  # they meet what came before them and are not kept
    TABLE = "table"  # the latest row of each key, as the row that meets it finds it
    AS_OF = "as of"  # the row of each key that was the latest at the event time of the row that meets it

    @property
    def is_table(self) -> bool:
        return self in (Role.TABLE, Role.AS_OF)


@dataclass(frozen=True, slots=True)
class JoinInput:
    """An input of a signature."""

    stream: str
    role: Role = Role.WINDOW


@dataclass(frozen=True, slots=True)
class JoinKey:
    """An equality between two inputs, each side over the columns of its own stream, by their own names; both of one type."""

    left: int
    right: int
    left_key: Expression
    right_key: Expression

    def side(self, place: int) -> Expression:
        """What the input at this place brings."""
        assert place in (self.left, self.right), f"{place} is neither {self.left} nor {self.right}"
        return self.left_key if place == self.left else self.right_key


@dataclass(frozen=True, slots=True)
class Signature:
    """What join queries have in common that are executed as one: the inputs and the equalities between them.

    Its rows are a stream of their own, which has its name. A column of input k is called `k.name` there.
    """

    name: str
    inputs: tuple[JoinInput, ...]
    keys: tuple[JoinKey, ...] = ()
    # "": only matches; left, left anti: input 0 also, or only, where nothing of input 1 matches
    outer: str = ""

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def streams(self) -> tuple[str, ...]:
        """The names of its streams, each once."""
        return tuple(dict.fromkeys(entry.stream for entry in self.inputs))

    def places(self, stream: str) -> tuple[int, ...]:
        """The inputs that are this stream."""
        return tuple(at for at, entry in enumerate(self.inputs) if entry.stream.lower() == stream.lower())


def joined_name(place: int, column: str) -> str:
    """What a column of an input is called in the rows of a join."""
    return f"{place}.{column}"


@dataclass(frozen=True, slots=True)
class Join:
    """What a join shape says besides its condition, which is about rows of the signature."""

    signature: Signature
    # reach_us[i][j]: the event time of input j exceeds that of input i by at most this; None: by any amount
    reach_us: tuple[tuple[int | None, ...], ...]
    # per input, what the condition says of it alone, over its stream's own columns
    local: tuple[Condition, ...]
    # outer joins: what makes a match, besides the keys; it is not in the shape's condition
    on: Condition = Condition()


@dataclass(frozen=True, slots=True)
class Projected:
    """A column of the result."""

    name: str
    expression: Expression


@dataclass(frozen=True, slots=True)
class SlotInfo:
    """A constant of a shape: a literal of the text (name is None) or a named parameter."""

    index: int
    type: pa.DataType
    name: str | None = None
    is_list: bool = False


@dataclass(frozen=True, slots=True)
class Properties:
    """What TBLPROPERTIES, TOML, Python and JSON may say about a view; durations in microseconds."""

    owner: str = ""
    is_enabled: bool = True
    per: tuple[str, ...] = ()
    cooldown_us: int | None = None
    for_us: int | None = None
    resolve_us: int | None = None
    emit: str = "changes"
    within_us: int | None = None
    deliver: tuple[str, ...] = ()
    message: str | None = None
    severity: str | None = None
    since: str | None = None
    memory_bytes: int | None = None


def is_alert(properties: Properties, alert_sinks: Collection[str] = ()) -> bool:
    """Whether a query with these properties is an alert query: its rows move alerts and bring messages (delivery/alerts.py).

    One without any property of alerts is one, too, if it is delivered to a sink that takes alerts: each of its rows fires.
    """
    p = properties
    return (
        bool(p.per)
        or p.cooldown_us is not None
        or p.for_us is not None
        or p.resolve_us is not None
        or p.message is not None
        or p.severity is not None
        or any(name in alert_sinks for name in p.deliver)
    )


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """What queries equal but for constants share: parsed, bound and normalised once."""

    key: str
    inputs: tuple[Input, ...]
    projection: tuple[Projected, ...]
    condition: Condition
    slots: tuple[SlotInfo, ...]
    group_by: tuple[Expression, ...] = ()
    having: Expression | None = None
    qualify: Expression | None = None
    functions: tuple[tuple[str, str], ...] = ()  # name and version of every user function in it
    join: Join | None = None  # several inputs: they stand in the order of its signature

    @property
    def stream(self) -> str:
        """The stream its queries stand on; of a join, that of its rows."""
        return self.inputs[0].stream if self.join is None else self.join.signature.name

    @property
    def streams(self) -> tuple[str, ...]:
        """The declared streams it reads, each once."""
        return tuple(dict.fromkeys(entry.stream for entry in self.inputs))

    @property
    def written_order(self) -> tuple[int, ...]:
        """The places of its inputs as they stand in the text."""
        starts = [entry.span.start if entry.span else at for at, entry in enumerate(self.inputs)]
        return tuple(sorted(range(len(self.inputs)), key=starts.__getitem__))

    @property
    def output(self) -> pa.Schema:
        return pa.schema([pa.field(p.name, p.expression.type) for p in self.projection])

    @property
    def columns(self) -> frozenset[str]:
        """Names of the input columns a single-stream shape needs."""
        return frozenset(n.name for e in self.expressions() for n in e.walk() if isinstance(n, Column))

    def expressions(self) -> Iterator[Expression]:
        for projected in self.projection:
            yield projected.expression
        matching = () if self.join is None else self.join.on.clauses
        for clause in (*self.condition.clauses, *matching):
            for atom in clause.atoms:
                yield atom.condition

    @property
    def recorded_calls(self) -> tuple[UserCall, ...]:
        """Calls of functions that are not deterministic, as they follow each other in the text: what they gave is stored
        with the round."""
        if not self.functions:
            return ()
        nodes = (node for e in self.expressions() for node in e.walk() if isinstance(node, UserCall))
        calls = dict.fromkeys(node for node in nodes if not node.is_deterministic)
        return tuple(sorted(calls, key=lambda call: (call.span.start if call.span else -1, call.occurrence)))


# --------------------------------------------------------------------------------------------- plans


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """Some queries of one shape: ids ascending, and one column of constants per slot."""

    shape: Shape
    ids: npt.NDArray[np.int32]
    slots: tuple[pa.Array, ...]
    is_live: npt.NDArray[np.bool_]
    cache: dict[str, Any] = field(
        default_factory=dict
    )  # what stages derive from ids and slots; never from is_live

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def n_live(self) -> int:
        return int(self.is_live.sum())

    @property
    def columns(self) -> frozenset[str]:
        """Columns its queries need."""
        if "columns" not in self.cache:
            self.cache["columns"] = self.shape.columns
        found: frozenset[str] = self.cache["columns"]
        return found

    @property
    def recorded_calls(self) -> tuple[UserCall, ...]:
        """Those of its shape."""
        if "recorded calls" not in self.cache:
            self.cache["recorded calls"] = self.shape.recorded_calls
        found: tuple[UserCall, ...] = self.cache["recorded calls"]
        return found

    @property
    def nbytes(self) -> int:
        return int(self.ids.nbytes + self.is_live.nbytes + sum(s.nbytes for s in self.slots))

    def position(self, query_id: int) -> int | None:
        """Where a query stands in the columns, live or not, or None."""
        at = int(np.searchsorted(self.ids, np.int32(query_id)))  # another type would copy all ids
        return at if at < len(self.ids) and self.ids[at] == query_id else None


def ascending(ids: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """The distinct ids in order; np.unique takes twenty times as long for many."""
    ids = np.sort(ids)
    is_first = np.ones(len(ids), dtype=bool)
    is_first[1:] = ids[1:] != ids[:-1]
    return ids if is_first.all() else ids[is_first]


class Changes:
    """Which queries of a stream came, went or were replaced, by version: what an index reads to follow. It only grows."""

    def __init__(self, since: int = 0) -> None:
        self.since = since  # versions up to here are not told apart
        self._versions: list[int] = []
        self._changed: list[tuple[Shape, npt.NDArray[np.int32]]] = []

    def __len__(self) -> int:
        return len(self._versions)

    def note(self, version: int, shape: Shape, ids: npt.NDArray[np.int32]) -> None:
        """These queries came to the shape, or left it."""
        self._versions.append(version)
        self._changed.append((shape, ids))

    def newest(self, n: int) -> Changes:
        """A copy without all but so many."""
        changes = Changes(self._versions[-n - 1] if n < len(self) else self.since)
        changes._versions, changes._changed = self._versions[-n:], self._changed[-n:]
        return changes

    def between(self, after: int, until: int) -> dict[Shape, npt.NDArray[np.int32]] | None:
        """Queries, by shape, that changed in versions later than `after`, up to `until`; None if that is no longer known."""
        if after < self.since:
            return None
        low, high = bisect.bisect_right(self._versions, after), bisect.bisect_right(self._versions, until)
        by_shape: dict[Shape, list[npt.NDArray[np.int32]]] = {}
        for shape, ids in self._changed[low:high]:
            by_shape.setdefault(shape, []).append(ids)
        return {shape: ascending(np.concatenate(ids)) for shape, ids in by_shape.items()}


@dataclass(frozen=True, eq=False)
class StreamPlan:
    """Everything that stands on one stream as of one version."""

    stream: str
    version: int
    segments: tuple[Segment, ...]
    changes: Changes = field(default_factory=Changes)

    @property
    def n_queries(self) -> int:
        return sum(segment.n_live for segment in self.segments)

    @cached_property
    def by_shape(self) -> dict[Shape, list[Segment]]:
        """The segments of each shape."""
        found: dict[Shape, list[Segment]] = {}
        for segment in self.segments:
            found.setdefault(segment.shape, []).append(segment)
        return found

    @cached_property
    def columns(self) -> frozenset[str]:
        """Columns of the stream that some query needs."""
        return frozenset().union(*(segment.columns for segment in self.segments if segment.n_live))


class QueryState(enum.Enum):
    RUNNING = "running"
    PAUSED = "paused"
    SUSPENDED = "suspended"  # the engine paused it, and says why
    DROPPED = "dropped"


# --------------------------------------------------------------------------------------------- rounds


@dataclass(frozen=True, slots=True)
class LaneProgress:
    """How far a partition of a stream's source has come: its largest event time, and now() of its last round with rows."""

    max_time_us: int | None
    last_row_us: int


@dataclass(frozen=True, slots=True)
class StreamProgress:
    """How far a stream has come."""

    n_rows: int = 0
    max_time_us: int | None = None
    watermark_us: int | None = None
    n_late: int = 0
    last_row_us: int | None = None  # now() of the last round with rows; None: not known
    lanes: Mapping[str, LaneProgress] = field(default_factory=dict)  # by partition of its source


@dataclass(frozen=True, slots=True)
class Round:
    """One committed step."""

    number: int
    version: int
    now_us: int
    seed: int
    first_arrival: int
    n_rows: dict[str, int]
    token: str | None = None
    first_made: int = FIRST_MADE  # the number of the first row that joins and tables make in it


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A (row, query) pair that could not be decided, or a row that does not fit its stream (query is None)."""

    round_number: int
    stream: str
    row: dict[str, Any]
    error: str
    message: str
    query_id: int | None = None
    query: str | None = None
    arrival: int | None = None


# --------------------------------------------------------------------------------------------- alerts

AlertKey = tuple[int, int, str]  # query, generation, and the values of its `per` columns as JSON


class AlertState(NamedTuple):  # made anew for every matching row
    """Where one key of an alert query stands: pending, firing or held if it is open, else cooling (delivery/alerts.py)."""

    state: str
    first_us: int  # when it opened
    last_us: int  # when its last matching row came
    fired_us: int | None  # when it was last told to fire, also before it opened
    n_rows: int  # since it opened
    n_suppressed: int  # since it was last told to fire
    result: str  # id of the row that opened it or, once told, made it fire


@dataclass(frozen=True, slots=True)
class Message:
    """What an alert said. Ids are dense and grow with the rounds."""

    id: int
    status: str  # firing or resolved
    query: str
    query_id: int  # 0: the engine itself
    generation: int
    owner: str
    key: dict[str, Any]  # the `per` columns
    severity: str
    message: str
    row: dict[str, Any]  # that made it fire, in what JSON has
    result: str  # id of that row
    round: int
    at_us: int
    since_us: int
    n_rows: int
    n_suppressed: int
    reason: str | None = None  # why it resolved, if not by time: dropped, paused, suspended, replaced
    deliver: tuple[str, ...] = ()  # the sinks its query names; none: all that take alerts
    silence: int | None = None  # id of the silence that keeps it from being sent
    n_withheld: int = 0  # messages of its key that silences kept back, and after which this one is sent

    def as_dict(self) -> dict[str, Any]:
        """As it is sent: what JSON has, times in UTC."""
        return {
            "id": self.id,
            "status": self.status,
            "query": self.query,
            "query_id": self.query_id,
            "generation": self.generation,
            "owner": self.owner,
            "key": self.key,
            "severity": self.severity,
            "message": self.message,
            "row": self.row,
            "result": self.result,
            "round": self.round,
            "at": iso_time(self.at_us),
            "since": iso_time(self.since_us),
            "n_rows": self.n_rows,
            "n_suppressed": self.n_suppressed,
            "reason": self.reason,
            "silence": self.silence,
            "n_withheld": self.n_withheld,
        }


def iso_time(microseconds: int, *, timespec: str = "auto") -> str:
    """ISO 8601 in UTC, of a time since 1970; as microseconds if no calendar has it, since a row may carry any number.

    `timespec` as in Python's isoformat: "auto" has microseconds where there are any, "seconds" is enough for people.
    """
    try:
        at = datetime.datetime.fromtimestamp(0, datetime.UTC) + datetime.timedelta(microseconds=microseconds)
    except OverflowError:
        return f"{microseconds} microseconds since 1970"
    return iso_text(at, timespec=timespec)


def iso_text(at: datetime.datetime, *, timespec: str = "auto") -> str:
    """ISO 8601 of a time as Python has it: in UTC, with Z; one without a zone (TIMESTAMP_NTZ) has no Z either."""
    if at.tzinfo is None:
        return at.isoformat(timespec=timespec)
    try:
        utc = at if at.tzinfo is datetime.UTC else at.astimezone(datetime.UTC)
    except OverflowError:  # in UTC it is before year 1 or after 9999
        return at.isoformat(timespec=timespec)
    return f"{utc.replace(tzinfo=None).isoformat(timespec=timespec)}Z"
