"""Rows by reference: what lies ready and does not change is not carried to a worker, it is read there.

The driver asks a source what lies ready (`plan`), which moves nothing. Workers read the references (`reading.read`) and say how
many rows each had. The position behind them follows from that; it is committed with the round, and only then does the source
move there. So a round that does not commit is planned again, from the same place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from eddyline.events import Event
from eddyline.sources.ingestion import ONE_LANE, PUSHED, Lanes, Misfit
from eddyline.sources.positions import Source
from eddyline.sources.schema_changes import SchemaChange
from eddyline.storage import StoredFile


@dataclass(frozen=True, slots=True)
class Reference:
    """Rows that lie ready and do not change. Every reading gives the same rows in the same order."""

    kind: str  # its reader: a key of `reading.READERS`
    what: dict[
        str, Any
    ]  # plain values that can be sent; no secrets, they are looked up where the rows are read
    nbytes: int  # about how much there is to read
    lane: str = PUSHED  # the partition of the source it is of


@dataclass(frozen=True, slots=True)
class ReadCount:
    """What reading one reference came to."""

    n_rows: int  # of the stream, without those that do not fit
    n_lines: int = 0  # of the file, where the format has them: rows, misfits, empty lines
    n_units: int = 0  # rows as the file counts them, fitting or not


@dataclass(frozen=True, slots=True)
class PlannedInput:
    """What a source offers for one round: references in the order of arrival, and what happened to the source meanwhile."""

    references: tuple[Reference, ...]
    position: Callable[[Sequence[ReadCount]], Any]  # behind them, once it is known what they had
    misfits: tuple[Misfit, ...] = ()  # of the source itself: files set aside, say
    events: tuple[Event, ...] = ()
    # kind and file of the store that each reference is, if they are: listed with the round, removed if there is none
    files: tuple[tuple[str, StoredFile], ...] = ()
    lanes: Lanes = ONE_LANE  # of the source; which rows are whose is said by the references


class UnreadableReference(Exception):
    """A reference cannot be read, or not now; the text says why. With a `change`, it can once the catalog has followed that."""

    def __init__(self, why: str, change: SchemaChange | None = None) -> None:
        super().__init__(why)
        self.change = change


@runtime_checkable
class ReferenceSource(Source, Protocol):
    """A source whose rows workers can read themselves."""

    def backlog_bytes(self) -> int:
        """About how much lies ready, cheaply: little of it is read in the driver, without a job."""
        ...

    def plan(self, max_rows: int, max_bytes: int) -> PlannedInput | None:
        """What lies ready, within the limits; None if there is nothing. Moves nothing. Raises SourceError."""
        ...

    def move_to(self, position: Any) -> None:
        """The round that took a plan has committed: go on behind it."""
        ...

    def note_refusal(self, reference: Reference, why: str) -> None:
        """A reference could not be read. It is offered again some times, then set aside with a dead letter."""
        ...
