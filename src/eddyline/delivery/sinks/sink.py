"""What every sink can do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from eddyline.delivery.sinks.batches import Batch
from eddyline.errors import EddylineError


class SinkError(EddylineError):
    """A sink does not take results now. `retry_after_s`: it asked not to be tried again before."""

    retry_after_s: float = 0.0


class SinkClosedError(SinkError):
    """The reader of a sink closed its end."""


class Sink(Protocol):
    """Takes results round by round, or messages. Every method may raise SinkError; then what was written after the last flush
    comes again.

    What is written carries a number that grows: of results the round, of messages the id of the last one.
    """

    name: str

    def has_room(self, number: int, n_items: int) -> bool:
        """Whether so many results of this number may be written before it is flushed."""
        ...

    def write(self, number: int, batches: Sequence[Batch]) -> None:
        """What comes next, in order; rounds without results for this sink do not come."""
        ...

    def is_due(self) -> bool:
        """Whether it is time to flush, if nothing else comes now."""
        ...

    def is_full(self) -> bool:
        """Whether it is time to flush, though more lies ready."""
        ...

    def wait_s(self) -> float:
        """How long until it is due; endless if nothing waits in it."""
        ...

    def flush(self) -> bool:
        """Make what was written last; True if all of it does."""
        ...

    def forget(self, cursor: int) -> None:
        """Drop what is not for good yet: everything after `cursor` comes again."""
        ...

    def interrupt(self) -> None:
        """End what would take long, from another thread: it fails then, and is not tried again."""
        ...

    def close(self) -> None:
        """Let go of everything; nothing is under way."""
        ...
