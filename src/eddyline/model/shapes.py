"""Shapes: what queries that differ only in their constants have in common.

The constants are *slots*: literals lifted from the text, or named parameters. A query is a shape plus one value per slot.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from eddyline.errors import Span
from eddyline.model.aggregations import Aggregating
from eddyline.model.conditions import Condition
from eddyline.model.expressions import Call, Column, Expression, UserCall
from eddyline.model.joins import Join


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
    join: str = ""  # "", inner, left, left anti, left semi, right, asof, cross
    on: Expression | None = None
    span: Span | None = field(default=None, compare=False)
    # of a query in WHERE, what it was written as: EXISTS, NOT EXISTS, IN (SELECT …); not stored
    written: str = field(default="", compare=False)
    view: UnnamedView | None = field(default=None, compare=False)  # what `stream` is, if it has no name

    @property
    def label(self) -> str:
        """What users call the relation it reads."""
        return self.stream if self.view is None else self.view.words

    @property
    def join_words(self) -> str:
        """How it is joined, as the text says it."""
        return self.written or f"{self.join.upper()} JOIN"


@dataclass(frozen=True, slots=True, eq=False)
class UnnamedView:
    """A query in FROM or WITH that cannot become part of the query around it: a view that only this query names.

    Its relation is called by what the view does, so queries with the same one read the same relation.
    """

    shape: Shape  # without slots: its constants are part of it
    words: str  # what users call it: the subquery at line 1


@dataclass(frozen=True, slots=True)
class ProjectedColumn:
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
class UnionPart:
    """A part of a UNION ALL that a branch reads: its number from 1, and where it stands, as a span of token numbers."""

    number: int
    tokens: Span | None


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """What queries equal but for constants share: parsed, bound and normalised once."""

    key: str
    inputs: tuple[Input, ...]
    projection: tuple[ProjectedColumn, ...]
    condition: Condition
    slots: tuple[SlotInfo, ...]
    functions: tuple[tuple[str, str], ...] = ()  # name and version of every user function in it
    join: Join | None = None  # several inputs: in the order of its signature
    is_distinct: bool = False  # equal rows are one result
    is_one_set: bool = False  # of a union: also equal rows of different branches
    # UNION ALL: the shapes of its other parts, over the same slots; everything else here is of the first
    branches: tuple[Shape, ...] = ()
    branch: int = 0  # its place among the branches of a union
    parts: tuple[UnionPart, ...] = ()  # of a branch: the part it reads of each union that it comes to
    # its input is a class of rows, and everything else here is over what it is aggregated to
    aggregating: Aggregating | None = None

    @property
    def all_branches(self) -> tuple[Shape, ...]:
        """The plain queries that it is the union of; itself alone, if it is one."""
        return (self, *self.branches)

    @property
    def stream(self) -> str:
        """The stream its queries read; of a join or an aggregation, that of its rows; of a union, that of its first branch."""
        if self.aggregating is not None:
            return self.aggregating.aggregation.name
        return self.inputs[0].stream if self.join is None else self.join.signature.name

    @property
    def relations(self) -> tuple[str, ...]:
        """The relations it reads, in all branches, each once."""
        inputs = (entry for branch in self.all_branches for entry in branch.inputs)
        return tuple(dict.fromkeys(entry.stream for entry in inputs))

    @property
    def streams(self) -> tuple[str, ...]:
        """The declared streams and named views it reads, also in unnamed views, each once."""
        inputs = (entry for shape in self.plain_shapes() for entry in shape.inputs)
        return tuple(dict.fromkeys(entry.stream for entry in inputs if entry.view is None))

    def unnamed_views(self) -> Iterator[Input]:
        """The inputs that are unnamed views, also those inside others."""
        return (entry for shape in self.plain_shapes() for entry in shape.inputs if entry.view is not None)

    def plain_shapes(self) -> Iterator[Shape]:
        """Its branches, and those of the unnamed views they read."""
        for branch in self.all_branches:
            yield branch
            for entry in branch.inputs:
                if entry.view is not None:
                    yield from entry.view.shape.plain_shapes()

    @property
    def is_counted(self) -> bool:
        """Whether a result is there as long as something it occurs in is, so that occurrences are counted."""
        return self.is_distinct or (self.join is not None and self.join.signature.is_counted)

    @property
    def written_order(self) -> tuple[int, ...]:
        """The places of its inputs in the order of the text."""
        starts = [entry.span.start if entry.span else at for at, entry in enumerate(self.inputs)]
        return tuple(sorted(range(len(self.inputs)), key=starts.__getitem__))

    @property
    def written_components(self) -> tuple[int, ...]:
        """Where the components of its rows stand, in the order of the text; of a join."""
        assert self.join is not None, self.key
        columns = self.join.signature.component_columns
        return tuple(at for place in self.written_order for at in columns(place))

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
    def is_volatile(self) -> bool:
        """Whether it may say something else of a row in another round: it asks for the time, or calls a function that is not
        deterministic. Other calls without arguments are constants, and are computed when a text is bound."""
        nodes = (node for e in self.expressions() for node in e.walk())
        return any(
            (isinstance(node, UserCall) and not node.is_deterministic)
            or (isinstance(node, Call) and not node.arguments)
            for node in nodes
        )

    @property
    def recorded_calls(self) -> tuple[UserCall, ...]:
        """Calls of functions that are not deterministic, as they follow each other in the text: what they gave is stored
        with the round."""
        if not self.functions:
            return ()
        nodes = (node for e in self.expressions() for node in e.walk() if isinstance(node, UserCall))
        calls = dict.fromkeys(node for node in nodes if not node.is_deterministic)
        return tuple(sorted(calls, key=lambda call: (call.span.start if call.span else -1, call.occurrence)))
