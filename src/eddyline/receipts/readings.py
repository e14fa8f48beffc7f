"""What a query reads, down to declared streams, and which of that a result is made of.

The inputs of a text are numbered in its order, with those of the views it reads in their places. A result of a query names the
rows it is made of; of a union only inputs of the branch that gave it have any:

    u      SELECT k FROM a UNION ALL SELECT b.k FROM b JOIN c ON b.k = c.k
    query  SELECT k FROM u                inputs 0: a, 1: b, 2: c
    rows   7, 8, mark of branch 1         input 1: row 7, input 2: row 8
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from eddyline.catalog import QueryRecord, StoredQuery
from eddyline.model import Shape, Stream, Window, marked_branch
from eddyline.proof import words_of
from eddyline.sql import displayed_names, part_words

AnyQuery = StoredQuery | QueryRecord

NO_ROW = 0  # instead of the arrival number of an input of an outer join that found no row


@dataclass(frozen=True, slots=True)
class BaseInput:
    """A declared stream that a query reads by itself or through views, and where it is named: at a place of a branch."""

    alias: str  # no two of a result are alike
    stream: Stream
    query: AnyQuery
    shape: Shape  # the branch of the query
    place: int

    @property
    def window(self) -> Window | None:
        return self.shape.inputs[self.place].window


@dataclass(frozen=True, slots=True)
class ResultRow:
    """A row that a result is made of: the number of its input in the text, the input, and its arrival number."""

    number: int
    entry: BaseInput
    arrival: int


_Labelled = tuple[tuple[str, ...], int, int]  # aliases around an input, its number, an arrival number


@dataclass(frozen=True, slots=True)
class Reading:
    """A query, or a view where one is read: what each branch reads, by alias, as the number of an input or as a view."""

    query: AnyQuery
    branches: tuple[tuple[tuple[str, int | Reading], ...], ...]

    @property
    def n_components(self) -> int:
        """How many numbers a row of it has in a row of its reader: those of its rows, and of a union the branch."""
        n_rows = (sum(_width(read) for _, read in branch) for branch in self.branches)
        return max(n_rows) + (len(self.branches) > 1)

    def shape(self, branch: int) -> Shape:
        return self.query.shape.all_branches[branch]

    def entries(
        self, branch: int, components: Sequence[int]
    ) -> Iterator[tuple[str, int | Reading, Sequence[int]]]:
        """What a branch reads, in the order of the text, each with its own of the components of a row."""
        at = 0
        for alias, read in self.branches[branch]:
            yield alias, read, components[at : at + _width(read)]
            at += _width(read)

    def numbers(self, branch: int | None = None) -> Iterator[int]:
        """The inputs below it, or below one of its branches."""
        for each in self.branches if branch is None else self.branches[branch : branch + 1]:
            for _, read in each:
                yield from (read,) if isinstance(read, int) else read.numbers()

    def shapes(self) -> Iterator[Shape]:
        """Those of its branches, and of all views below it."""
        yield from self.query.shape.all_branches
        for branch in self.branches:
            for _, read in branch:
                if isinstance(read, Reading):
                    yield from read.shapes()

    def alone(self) -> Iterator[int]:
        """The inputs of which a single row makes a row of it."""
        for branch in self.branches:
            if len(branch) == 1:
                read = branch[0][1]
                yield from (read,) if isinstance(read, int) else read.alone()

    def rows(self, branch: int, components: Sequence[int]) -> Iterator[_Labelled]:
        """The rows that a row of one of its branches is made of."""
        for alias, read, own in self.entries(branch, components):
            below: list[_Labelled] = (
                [((), read, own[0])] if isinstance(read, int) else list(read._of_view(own))
            )
            for labels, number, arrival in below:
                yield (alias, *(labels if len(below) > 1 else ())), number, arrival

    def _of_view(self, components: Sequence[int]) -> Iterator[_Labelled]:
        if len(self.branches) == 1:
            yield from self.rows(0, components)
        elif components[-1] != NO_ROW:
            yield from self.rows(marked_branch(components[-1]), components)
        else:  # on a side of an outer join that found no row, in none of the branches
            missing = [NO_ROW] * self.n_components
            found = {row[1]: row for k in range(len(self.branches)) for row in self.rows(k, missing)}
            yield from found.values()

    def part_words(self, branch: int, components: Sequence[int], view: str = "") -> Iterator[str]:
        """Which part of each UNION ALL gave a row of this branch: of its own text, then of the views it reads."""
        parts = self.shape(branch).parts
        if parts:
            yield part_words(self.query.text, parts, of=view)
        for _, read, own in self.entries(branch, components):
            if isinstance(read, Reading) and (len(read.branches) == 1 or own[-1] != NO_ROW):
                below = 0 if len(read.branches) == 1 else marked_branch(own[-1])
                is_same_text = read.query.id == self.query.id
                name = view if is_same_text else read.query.name or f"q{read.query.id}"
                yield from read.part_words(below, own, name)


def _width(read: int | Reading) -> int:
    return 1 if isinstance(read, int) else read.n_components


@dataclass(slots=True)
class Readings:
    """Reads queries down to streams: collects their inputs, and the windows of recent(view, …) with the inputs of the view."""

    find_stream: Callable[[str], Stream | None]
    find_view: Callable[[str], AnyQuery]
    inputs: list[BaseInput] = field(default_factory=list)
    view_windows: list[tuple[range, Window]] = field(default_factory=list)

    def read(self, query: AnyQuery) -> Reading:
        places = _places(query.shape)
        found: dict[tuple[int, int], tuple[str, int | Reading]] = {}
        for key, (shape, place) in sorted(places[0].items()):
            entry = shape.inputs[place]
            stream = self.find_stream(entry.stream)
            first = len(self.inputs)
            if stream is not None:
                self.inputs.append(BaseInput(entry.alias, stream, query, shape, place))
                found[key] = entry.alias, first
                continue
            view = self.find_view(entry.stream) if entry.view is None else part_of(query, entry.view.shape)
            found[key] = entry.alias, self.read(view)
            if entry.window is not None:
                self.view_windows.append((range(first, len(self.inputs)), entry.window))
        return Reading(query, tuple(tuple(found[key] for key in keys) for keys in places[1]))


def part_of(query: AnyQuery, shape: Shape) -> AnyQuery:
    """A query of which only a subquery is meant, which has this shape."""
    return query._replace(shape=shape) if isinstance(query, StoredQuery) else replace(query, shape=shape)


_Key = tuple[int, int]  # where an input stands in a text, and which one it is of those that stand there


def _places(shape: Shape) -> tuple[dict[_Key, tuple[Shape, int]], list[list[_Key]]]:
    """The inputs of a text, each with a branch that reads it and its place there; and for each branch its inputs in order.

    A query of WITH that is read twice has inputs that stand in one place.
    """
    inputs: dict[_Key, tuple[Shape, int]] = {}
    keys: list[list[_Key]] = []
    for branch in shape.all_branches:
        n_at: Counter[int] = Counter()
        keys.append([])
        for nth, place in enumerate(branch.written_order):
            span = branch.inputs[place].span
            start = nth if span is None else span.start
            key = start, n_at[start]
            n_at[start] += 1
            inputs.setdefault(key, (branch, place))
            keys[-1].append(key)
    return inputs, keys


def rows_of_result(
    reading: Reading, inputs: Sequence[BaseInput], branch: int, components: Sequence[int]
) -> list[ResultRow]:
    """The rows that a result of a branch is made of, in the order of the text, with aliases of which no two are alike."""
    found = sorted(reading.rows(branch, components), key=lambda row: row[1])
    names = displayed_names({str(number): labels for labels, number, _ in found})
    return [
        ResultRow(number, replace(inputs[number], alias=names[str(number)]), arrival)
        for _, number, arrival in found
    ]


def branches_over(shape: Shape, numbers: Collection[int]) -> list[Shape]:
    """The branches of a text over declared streams that read just the inputs with these numbers."""
    inputs, keys = _places(shape)
    number_of = {key: number for number, key in enumerate(sorted(inputs))}
    wanted = sorted(numbers)
    return [
        branch
        for branch, own in zip(shape.all_branches, keys, strict=True)
        if sorted(number_of[key] for key in own) == wanted
    ]


def has_repeated_sets(text: str, branch: Shape) -> bool:
    """Whether a set of WITH that joins inputs may be read more than once: receipts have the rows of one reading after the other,
    a text over streams all that stand in one place."""
    places = Counter(entry.span for entry in branch.inputs)
    is_repeated = sum(n > 1 for n in places.values()) > 1
    return is_repeated and any(word.says("DISTINCT", "UNION") for word in words_of(text))


def input_numbers(receipt: Mapping[str, Any]) -> list[int]:
    """The numbers of the inputs that a receipt has rows of, among all inputs of its text."""
    others = {each["number"] for each in receipt.get("other_inputs", ())}
    n_inputs = len(receipt["rows"]) + len(others)
    return [number for number in range(n_inputs) if number not in others]
