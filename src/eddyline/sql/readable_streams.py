"""Where the streams that a text names are found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from eddyline.model import Stream


class Streams(Protocol):
    """Where declared streams are found."""

    def find_stream(self, name: str, /) -> Stream | None: ...
    def streams(self) -> Sequence[Stream]: ...


class StreamTable:
    """Streams given as a plain mapping."""

    def __init__(self, streams: Mapping[str, Stream]) -> None:
        self._streams = {name.lower(): stream for name, stream in streams.items()}

    def find_stream(self, name: str, /) -> Stream | None:
        return self._streams.get(name.lower())

    def streams(self) -> Sequence[Stream]:
        return list(self._streams.values())
