"""How far a source was read: what is committed with a round, so that a crash neither loses nor repeats a row.

A position is plain JSON. A source gives it with the rows it hands over; the round that takes the rows commits it. After a crash
the source is opened at the last committed position and reads on from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from eddyline.errors import EddylineError
from eddyline.events import Event
from eddyline.model import Stream
from eddyline.sources.ingestion import IngestedRows

REMEMBERED_FILES = 100  # names above the floor that are known to be finished


@dataclass(frozen=True, slots=True)
class SourceBatch:
    """What a source hands over for one round."""

    rows: IngestedRows
    position: Any
    events: Sequence[Event] = ()  # to be announced, with the number of the round

    @property
    def is_empty(self) -> bool:
        return not self.rows.rows.num_rows and not self.rows.misfits and not self.events


@dataclass(frozen=True, slots=True)
class SourcePart:
    """A part of a source that is read side by side with others, a partition say."""

    name: str
    position: str
    n_behind: int | None


@dataclass(frozen=True, slots=True)
class SourceProgress:
    """How far a source was read, in words, and how many of what are known to be there and not read (None: not known)."""

    position: str
    n_behind: int | None
    unit: str  # messages, files or rows
    parts: tuple[SourcePart, ...] = ()


class SourceError(EddylineError):
    """A source cannot be read now."""


class Source(Protocol):
    """Where rows of one stream come from."""

    def take(self, max_rows: int, max_bytes: int) -> SourceBatch | None:
        """The next rows, as many as are there now within the limits; None if there are none.

        Raises SourceError, and SchemaChanged if the stream is to have more columns before they are read.
        """
        ...

    def redeclare(self, stream: Stream) -> None:
        """From the next `take` on, rows are in the schema of `stream`, which has got new columns."""
        ...

    def wait_s(self) -> float:
        """After `take` gave None: how long until it is worth asking again."""
        ...

    def progress(self) -> SourceProgress:
        """How far it is, from what it knows: nothing is read or asked for. Safe from any thread."""
        ...

    @property
    def is_pending(self) -> bool:
        """Whether something that was there already still has to be read, so that a run of what is there is not over."""
        ...

    @property
    def is_finished(self) -> bool:
        """Whether no row will ever come again."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class FileState:
    """A file as it was when it was read."""

    name: str
    nbytes: int
    modified_ns: int


@dataclass(frozen=True, slots=True)
class FilePlace:
    """Where in a file reading goes on: after so many rows, at this byte, in this line (as far as the format has them)."""

    n_rows: int = 0
    byte: int = 0
    line: int = 1


@dataclass(slots=True)
class FolderPosition:
    """How far a folder was read.

    A file is finished if its name is in `done`, or if it is not above `floor`. So files whose names come somewhat out of order
    are read all the same, and the position does not grow with the folder.
    """

    floor: str = ""
    done: dict[str, FileState] = field(default_factory=dict)  # by name
    current: FileState | None = None
    place: FilePlace = FilePlace()

    def is_done(self, name: str) -> bool:
        return name in self.done or name <= self.floor

    def finish(self, state: FileState) -> list[str]:
        """A file was read to its end; returns the names that sank below the floor."""
        self.done[state.name] = state
        self.current, self.place = None, FilePlace()
        sunk = []
        while len(self.done) > REMEMBERED_FILES:
            self.floor = min(self.done)
            del self.done[self.floor]
            sunk.append(self.floor)
        return sunk

    def to_json(self) -> dict[str, Any]:
        current = self.current
        return {
            "floor": self.floor,
            "done": [[s.name, s.nbytes, s.modified_ns] for s in self.done.values()],
            "current": None
            if current is None
            else [
                [current.name, current.nbytes, current.modified_ns],
                [self.place.n_rows, self.place.byte, self.place.line],
            ],
        }

    @classmethod
    def from_json(cls, stored: dict[str, Any] | None) -> FolderPosition:
        if stored is None:
            return cls()
        done = {entry[0]: FileState(*entry) for entry in stored["done"]}
        position = cls(stored["floor"], done)
        if stored["current"] is not None:
            state, place = stored["current"]
            position.current, position.place = FileState(*state), FilePlace(*place)
        return position
