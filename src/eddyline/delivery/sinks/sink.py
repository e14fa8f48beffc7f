"""What every sink can do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from eddyline.delivery.sinks.batches import ResultBatch
from eddyline.errors import EddylineError


class SinkError(EddylineError):
    """A sink does not take results now."""


class SinkClosedError(SinkError):
    """Whoever read from a sink has gone."""


class Sink(Protocol):
    """Takes results round by round. Every method may raise SinkError; then what was written after the last flush comes again."""

    name: str

    def write(self, round_number: int, batches: Sequence[ResultBatch]) -> None:
        """The results of a round; rounds come in order, and those without results for this sink do not come."""
        ...

    def is_due(self) -> bool:
        """Whether it is time to flush."""
        ...

    def flush(self) -> bool:
        """Make what was written last; True if all of it does."""
        ...

    def forget(self, cursor: int) -> None:
        """Drop what is not for good yet: everything after round `cursor` comes again."""
        ...

    def close(self) -> None: ...
