"""What a view is to its readers: columns, a time and its watermark, whether rows leave, and the order among views."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import pyarrow as pa

from eddyline.model import (
    NOW,
    OVERFLOW,
    TABLE_VIEW,
    VIEW,
    WINDOW,
    WINDOW_TYPE,
    Aggregating,
    Column,
    Input,
    Shape,
    Stream,
    TimeWindow,
    ViewFeed,
    ViewRelation,
)
from eddyline.time_properties import TIME_PROPERTIES
from eddyline.types import TIMESTAMP


def view_relation(
    name: str, query_id: int, shape: Shape, input_of: Callable[[str], tuple[Stream, bool]]
) -> ViewRelation:
    """The relation that a query is to its readers. It has a time if it passes on that of an input as it is.

    A union has one if all of its branches pass one on in the same column. Its rows have one more component: their branch.
    """
    branches = shape.all_branches

    def input_at(entry: Input) -> tuple[Stream, bool]:
        if entry.view is None:
            return input_of(entry.stream)
        view = view_relation(entry.stream, 0, entry.view.shape, input_of)
        return view.stream, view.is_table

    def inputs_of(branch: Shape) -> list[tuple[Stream, bool]]:
        found = [input_at(entry) for entry in branch.inputs]
        if branch.aggregating is None:
            return found
        return [
            (aggregation_stream(branch.aggregating, found[0][0]), branch.aggregating.aggregation.is_table)
        ]

    inputs = [inputs_of(branch) for branch in branches]
    time, properties, bounds = _union_time(branches, [[stream for stream, _ in each] for each in inputs])
    is_table = all(_is_table(branch, each) for branch, each in zip(branches, inputs, strict=True))
    n_components = max(sum(stream.n_components for stream, _ in each) for each in inputs)
    stream = Stream(
        name,
        shape.output,
        time=time,
        source=TABLE_VIEW if is_table else VIEW,
        properties=properties,
        n_components=n_components + (len(branches) > 1),
        # what now() decides of groups becomes a change of its own
        is_volatile=any(branch.is_volatile for branch in branches if branch.aggregating is None)
        or any(stream.is_volatile for each in inputs for stream, _ in each),
        is_windowed=any(stream.is_windowed for each in inputs for stream, _ in each),
    )
    feeds = tuple(ViewFeed(0, query_id, branch) for branch in branches)
    return ViewRelation(stream, feeds, is_table, bounds)


def aggregation_stream(aggregating: Aggregating, rows: Stream) -> Stream:
    """The relation of an aggregation with the aggregates that one query needs; `rows` is that of its class.

    Rows of OVER have the time of the rows that they are; a window that is final has the end of the window.
    """
    aggregation = aggregating.aggregation
    fields = [*rows.schema] if aggregation.is_over else [rows.schema.field(name) for name in aggregation.keys]
    if aggregation.window is not None:
        fields.append(pa.field(WINDOW, WINDOW_TYPE))
    for found in aggregating.calls:
        fields.append(pa.field(found.name, found.type))
        fields += [pa.field(found.name + OVERFLOW, pa.bool_())] if found.can_overflow else []
    fields += [pa.field(NOW, TIMESTAMP)] if aggregating.deadlines else []
    is_final = aggregation.is_final and isinstance(aggregation.window, TimeWindow)
    return Stream(
        aggregation.name,
        pa.schema(fields),
        time=rows.time if aggregation.is_over else WINDOW if is_final and rows.time is not None else None,
        source=TABLE_VIEW if aggregation.is_table else VIEW,
        properties=rows.properties if aggregation.is_over else (),
        n_components=rows.n_components if aggregation.is_over else 1,
        is_volatile=rows.is_volatile,
        is_windowed=aggregation.window is not None and not aggregation.is_final,
    )


def _is_table(shape: Shape, inputs: list[tuple[Stream, bool]]) -> bool:
    if shape.join is None:
        return inputs[0][1]
    return all(entry.role.is_table for entry in shape.join.signature.inputs)


_Time = tuple[str | None, tuple[tuple[str, str], ...], tuple[tuple[str, int], ...]]
_NO_TIME: _Time = None, (), ()


def _union_time(branches: Sequence[Shape], streams: list[list[Stream]]) -> _Time:
    """The time column of a view, how it is read, and what its watermark follows."""
    for place, projected in enumerate(branches[0].projection):
        times = [_time(each, place, of) for each, of in zip(branches, streams, strict=True)]
        found = [time for time in times if time is not None]
        if len(found) == len(branches) and all(properties == found[0][0] for properties, _ in found):
            return projected.name, found[0][0], tuple(bound for _, bounds in found for bound in bounds)
    return _NO_TIME


def _time(
    shape: Shape, column: int, streams: list[Stream]
) -> tuple[tuple[tuple[str, str], ...], tuple[tuple[str, int], ...]] | None:
    """Of a column of a view that is the time of an input: how it is read, and what its watermark follows."""
    expression = shape.projection[column].expression
    for place, stream in enumerate(streams):
        if stream.time is None or not _is_column(expression, shape, place, stream.time):
            continue
        bounds = _time_bounds(shape, place)
        if bounds is not None:
            return tuple(pair for pair in stream.properties if pair[0] in TIME_PROPERTIES), bounds
    return None


def _is_column(expression: object, shape: Shape, place: int, name: str) -> bool:
    own = name if shape.join is None else f"{place}.{name}"
    return isinstance(expression, Column) and expression.name == own


def _time_bounds(shape: Shape, place: int) -> tuple[tuple[str, int], ...] | None:
    """Watermarks below which no row of the view will have the time of one of its inputs; None: there is no such bound."""
    name = shape.inputs[place].stream.lower()
    if shape.join is None:
        return ((name, 0),)
    signature, reach = shape.join.signature, shape.join.reach_us[place]
    if signature.inputs[place].role.is_table:
        return None
    if signature.outer and not (place == 0 and signature.inputs[1].role.is_table):
        return None  # a row without a partner comes later than its time
    found = [(name, 0)]
    for at, entry in enumerate(signature.inputs):
        if at != place and not entry.role.is_table:
            bound = reach[at]
            if bound is None:
                return None
            found.append((entry.stream.lower(), bound))
    return tuple(found)


def watermark_us(view: ViewRelation, watermarks: Mapping[str, int | None]) -> int | None:
    """The watermark of a view, given those of the relations below it."""
    found = [(watermarks.get(name), below) for name, below in view.time_bounds]
    times = [mark - below for mark, below in found if mark is not None]
    return min(times) if times and len(times) == len(found) else None


def in_order(views: Iterable[ViewRelation]) -> list[ViewRelation]:
    """Views after those they read."""
    by_name = {view.name: view for view in views}
    ordered: dict[str, ViewRelation] = {}

    def add(view: ViewRelation) -> None:
        for feed in view.feeds:
            for name in map(str.lower, feed.shape.relations):
                if name in by_name and name not in ordered:
                    add(by_name[name])
        ordered[view.name] = view

    for view in by_name.values():
        if view.name not in ordered:
            add(view)
    return list(ordered.values())
