"""What users call the columns of an aggregation: count(*), sum(amount), what they grouped by."""

from __future__ import annotations

from eddyline.durations import duration_text
from eddyline.model import NOW, OVERFLOW, AggregateCall, OverFrame, ProjectedColumn, Shape
from eddyline.sql.aggregates import DEFAULT_RELATIVE_ERROR
from eddyline.sql.rendering import quoted_name, render, spoken


def aggregate_names(shape: Shape) -> dict[str, str]:
    """The columns of the aggregation that a shape is over, each with what its text calls it."""
    assert shape.aggregating is not None, shape.key
    view = shape.inputs[0].view
    assert view is not None, shape.key
    of_class = {each.name: _column_text(each, view.shape) for each in view.shape.projection}
    calls = {each.name: call_text(each, of_class) for each in shape.aggregating.calls}
    return {**of_class, **calls, NOW: "now()"}


def with_aggregate_names(text: str, shape: Shape) -> str:
    """A rendered expression over an aggregation, in the words of its text."""
    for name, words in aggregate_names(shape).items():
        if name.startswith("#"):
            column = quoted_name(name)
            text = text.replace(f"checked({column}, {quoted_name(name + OVERFLOW)})", words)
            text = text.replace(column, words)
    return text


def _column_text(column: ProjectedColumn, body: Shape) -> str:
    """What a column of the rows of a class is, of a join with what its inputs are called."""
    if not column.name.startswith("#"):
        return column.name
    return render(column.expression if body.join is None else spoken(column.expression, body.inputs))


def call_text(call: AggregateCall, of_class: dict[str, str]) -> str:
    """An aggregate as SQL; `of_class` are the columns of the rows of its class in the words of the text."""
    arguments = [of_class[name] for name in call.arguments] or (["*"] if call.function == "count" else [])
    if call.function == "lag":
        arguments.append(str(call.n_back))
    if call.relative_error not in (None, DEFAULT_RELATIVE_ERROR):
        arguments.append(str(call.relative_error))
    text = f"{call.function}({'DISTINCT ' if call.is_distinct else ''}{', '.join(arguments)})"
    text += " IGNORE NULLS" if call.ignores_nulls else ""
    text += f" FILTER (WHERE {of_class[call.filter]})" if call.filter is not None else ""
    return text if call.frame is None else f"{text} OVER ({_frame_text(call.frame)})"


def _frame_text(frame: OverFrame) -> str:
    if frame.preceding is None:
        return "UNBOUNDED PRECEDING"
    size = frame.preceding if frame.unit == "rows" else f"INTERVAL '{duration_text(frame.preceding)}'"
    return f"{frame.unit.upper()} {size} PRECEDING"
