"""Queries as they were registered: one record per call, whether it brought one query or a million."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from eddyline.model import Properties, QueryState, Shape, ViewText


class Registration(NamedTuple):  # a million of them are made when a home is opened
    """One call of `query` or `query_many`: ids `first_id` to `first_id + n - 1`, one text, one shape, one version."""

    first_id: int
    n: int
    text: str
    shape: Shape
    properties: Properties
    names: Sequence[str] | str | None  # of each query; a single name; or none
    version: int
    registered_us: int

    def name(self, query_id: int) -> str:
        """What the query is called; unnamed ones go by their number."""
        if self.names is None:
            return f"q{query_id}"
        return self.names if isinstance(self.names, str) else str(self.names[query_id - self.first_id])


@dataclass(frozen=True, slots=True)
class QueryRecord:
    """All the catalog knows about one query."""

    id: int
    name: str
    text: str
    shape: Shape
    properties: Properties
    state: QueryState
    generation: int
    version_from: int
    registered_us: int
    constants: tuple[object, ...]
    why: str = ""  # it is suspended
    view_texts: tuple[ViewText, ...] = ()  # where its text has those of views: it is written out
    view_windows: tuple[
        str, ...
    ] = ()  # recent(view, …) of views over joins, which a text over streams cannot say
