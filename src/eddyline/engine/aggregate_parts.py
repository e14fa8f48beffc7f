"""Aggregates in tasks: a task folds the rows it finds of a class into partial results, and the place with the state merges them.

What is handed on is a line for each key and slice, or piece of a session, however many rows there were. One rule (`why_rows`)
says for which classes that can be; of others a task hands on the rows. What comes of either is the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from eddyline.aggregates import (
    ClassRows,
    MergingStructure,
    PartialRows,
    Reader,
    joined_lines,
    stored_lines,
)
from eddyline.engine.aggregate_files import Form
from eddyline.engine.aggregate_plans import PlannedAggregates
from eddyline.engine.aggregate_structures import form_of, merging_structure
from eddyline.engine.dataflow import Relation
from eddyline.engine.view_plans import PlannedViews
from eddyline.expressions import Context
from eddyline.filters import FilterStage
from eddyline.model import (
    OVER,
    TEMPORAL,
    Aggregation,
    StreamPlan,
    ViewRelation,
)
from eddyline.operators import ArrivedRows, Part, StatelessOperator, WantedMasks
from eddyline.storage import AggregateBlock, Store, StoredFile, read_aggregates, write_aggregates

PARTS = "parts"  # the kind of these files; none is ever listed
LEAST_LINES = 1 << 14  # of a task and a structure, below which they are not folded again before its end


@dataclass(frozen=True, slots=True)
class FoldedClass:
    """A class whose rows tasks fold: the view that they are rows of, and who reads them."""

    view: ViewRelation
    readers: tuple[Reader, ...]


# --------------------------------------------------------------------------------------------- which classes


_NEEDS_ROWS = {OVER: "OVER needs each of them", TEMPORAL: "each of them leaves by itself"}


def why_rows(
    name: str, views: PlannedViews, aggregates: PlannedAggregates, reader: Aggregation | None = None
) -> str | None:
    """Why tasks hand on the rows of a class, by its name in lower case; None: they hand on what the rows come to.

    With a `reader`, one of its aggregations, also whether it is another that needs them.
    """
    view, planned = views.by_name[name], aggregates.classes[name]
    kinds = {each.aggregation.kind for each in planned}
    if view.is_table:
        return "rows of tables are in the driver"
    if [feed.source for feed in view.feeds] != sorted(planned[0].base_streams):
        return "they are made of rows that tasks hand on"
    if reader is not None and reader.kind in _NEEDS_ROWS:
        return _NEEDS_ROWS[reader.kind]
    needed = next((kind for kind in _NEEDS_ROWS if kind in kinds), None)
    if needed is not None and reader is not None:
        return f"another query of the class has {'OVER' if needed == OVER else 'conditions on now()'}"
    return None if needed is None else _NEEDS_ROWS[needed]


def folded_classes(views: PlannedViews, aggregates: PlannedAggregates) -> dict[str, tuple[FoldedClass, ...]]:
    """The classes whose rows tasks fold, by the stream that they are rows of."""
    found: dict[str, list[FoldedClass]] = {}
    for name in sorted(aggregates.classes):
        if why_rows(name, views, aggregates) is None:
            view, readers = views.by_name[name], tuple(each.reader for each in aggregates.classes[name])
            found.setdefault(view.feeds[0].source, []).append(FoldedClass(view, readers))
    return {stream: tuple(classes) for stream, classes in found.items()}


# --------------------------------------------------------------------------------------------- in a task


class ReadyClass:
    """A class as workers have it: its relation, which no query is registered on, and structures without state."""

    def __init__(self, folded: FoldedClass, filters: FilterStage) -> None:
        self.view = folded.view
        self.relation = Relation(StreamPlan(folded.view.stream.name, 0, ()), filters)
        self.structures: dict[Form, MergingStructure] = {}
        readers: dict[Form, list[Reader]] = {}
        for reader in folded.readers:
            readers.setdefault(form_of(reader.aggregation), []).append(reader)
        for form, mine in readers.items():
            structure = self.structures[form] = merging_structure(
                folded.view.stream.schema, mine[0].aggregation
            )
            structure.build(mine)


def ready_classes(classes: Sequence[FoldedClass], context: Context) -> dict[str, ReadyClass]:
    """These classes, by name in lower case."""
    filters = FilterStage(context)
    filters.build(StreamPlan("", 0, ()))
    return {each.view.name: ReadyClass(each, filters) for each in classes}


class PartialAggregates(StatelessOperator):
    """The aggregations in a task: an operator that folds the rows of classes."""

    def __init__(self, classes: Mapping[str, ReadyClass]) -> None:
        self._classes = classes
        self._lines: dict[Form, list[PartialRows]] = {}
        self._most: dict[Form, int] = {}  # lines, from which on they are folded again

    def partial(self, arrived: Mapping[str, ArrivedRows], wanted: WantedMasks) -> None:
        for name in self._classes.keys() & arrived.keys():
            rows, at = arrived[name], arrived[name].batch
            epoch = np.zeros(len(at), np.int64)  # one, and only the driver knows which
            of_class = ClassRows(at.rows, rows.time_us, at.arrival, at.sign, at.is_late, epoch)
            for form, structure in self._classes[name].structures.items():
                self._take(form, structure, of_class)

    def _take(self, form: Form, structure: MergingStructure, rows: ClassRows) -> None:
        lines = self._lines.setdefault(form, [])
        lines.append(structure.partial(rows))
        if sum(map(len, lines)) > self._most.get(form, LEAST_LINES):
            lines[:] = [structure.partial(joined_lines(lines))]
            self._most[form] = 2 * len(lines[0]) + LEAST_LINES

    def finish(self, store: Store) -> StoredFile | None:
        """The file of what the rows came to, if there were any."""
        blocks = [
            AggregateBlock(*form, stored_lines(self._folded(form, structure)))
            for each in self._classes.values()
            for form, structure in each.structures.items()
            if form in self._lines
        ]
        return store.put(PARTS, lambda file: write_aggregates(file, blocks)) if blocks else None

    def _folded(self, form: Form, structure: MergingStructure) -> PartialRows:
        lines = self._lines[form]
        return lines[0] if len(lines) == 1 else structure.partial(joined_lines(lines))


# --------------------------------------------------------------------------------------------- for the driver


def shared_parts(store: Store, files: Iterable[tuple[StoredFile, int]]) -> Iterator[Part]:
    """What tasks made, in their order; with each file the arrival number of the task's first row."""
    for file, first in files:
        for block in read_aggregates(store.read(file, is_new=True)):
            yield Part(block.rows, block.kind, block.entries, first)
