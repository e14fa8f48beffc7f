"""Results of a function, remembered for a while: no more of them, and no more bytes, than said; the least recently used leave
first."""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any

CACHE_ENTRIES = 100_000
CACHE_BYTES = 64 << 20
ENTRY_BYTES = 250  # of the tables and tuples around a key and its value

MISSING = object()


class ResultCache:
    """Values by arguments. Time comes in with every call."""

    def __init__(self, keep_s: float, n_most: int = CACHE_ENTRIES, most_bytes: int = CACHE_BYTES) -> None:
        self.nbytes = 0
        self._keep_s = keep_s
        self._n_most = n_most
        self._most_bytes = most_bytes
        self._entries: OrderedDict[Hashable, tuple[float, Any, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Hashable, now: float) -> Any:
        """The value, or MISSING if it is not known or too old."""
        known = self._entries.get(key)
        if known is None or now - known[0] > self._keep_s:
            return MISSING
        self._entries.move_to_end(key)
        return known[1]

    def put(self, key: Hashable, value: Any, now: float) -> None:
        """Remember a value. One that would take more than everything may is not kept."""
        self._forget(key)
        nbytes = ENTRY_BYTES + _nbytes(key) + _nbytes(value)
        if nbytes > self._most_bytes:
            return
        self._entries[key] = now, value, nbytes
        self.nbytes += nbytes
        while len(self._entries) > self._n_most or self.nbytes > self._most_bytes:
            self._forget(next(iter(self._entries)))

    def _forget(self, key: Hashable) -> None:
        known = self._entries.pop(key, None)
        if known is not None:
            self.nbytes -= known[2]

    def check(self) -> None:
        assert self.nbytes == sum(nbytes for _, _, nbytes in self._entries.values()), self.nbytes
        assert len(self._entries) <= self._n_most, len(self._entries)
        assert self.nbytes <= self._most_bytes, self.nbytes


def _nbytes(value: Any) -> int:
    """What a plain value takes, with all that is in it."""
    inside: Any = ()
    if isinstance(value, dict):
        inside = (*value.keys(), *value.values())
    elif isinstance(value, (list, tuple)):
        inside = value
    return sys.getsizeof(value) + sum(map(_nbytes, inside))
