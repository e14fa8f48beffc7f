"""Declared streams, and how far each has come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa


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
    n_components: int = 1  # of a view: how many rows of declared streams each of its rows is made of
    is_volatile: bool = (
        False  # a view that may say of a row that leaves what it did not say when the row appeared
    )

    is_windowed: bool = False  # a view of windows whose rows change until they close

    @property
    def is_keyed(self) -> bool:
        return bool(self.key)


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
