"""Views and joins of views, one row at a time: every relation is a list of all its rows, made anew from the rows that arrived.

A row is `(values, arrivals, time, is_late, version)`: the arrival numbers of the declared streams' rows it is made of, and the
version of the round its latest one came in. A query registered with version v sees rows whose version is not below v; of a
join each row that it combines has to be visible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple

Values = dict[str, Any]


class Row(NamedTuple):
    values: Values
    arrivals: tuple[int, ...]
    time: int | None
    is_late: bool
    version: int


class Query(NamedTuple):
    """A select or join: over which relations, what it keeps, what it shows, and which column is its time."""

    inputs: tuple[str, ...]
    keeps: Callable[..., bool]
    shows: Callable[..., Values]
    time: str | None = None


def rows_of(
    name: str, base: dict[str, Sequence[Row]], queries: dict[str, Query], versions: dict[str, int]
) -> Iterator[Row]:
    """The rows of a declared stream or of a view; a view has those that its query saw."""
    if name in base:
        yield from base[name]
        return
    query, since = queries[name], versions[name]
    relations = [list(rows_of(each, base, queries, versions)) for each in query.inputs]
    for combination in product(*relations):
        is_join = len(combination) > 1
        if any(row.version < since or (is_join and row.is_late) for row in combination):
            continue
        values = [row.values for row in combination]
        if query.keeps(*values):
            shown = query.shows(*values)
            yield Row(
                shown,
                tuple(number for row in combination for number in row.arrivals),
                None if query.time is None else shown[query.time],
                combination[0].is_late and not is_join,
                max(row.version for row in combination),
            )
