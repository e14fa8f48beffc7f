"""Dead letters: rows and (row, query) pairs that could not be used, the newest kept, all counted."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator

from eddyline.model import DeadLetter


class DeadLetters:
    """The last `capacity` dead letters and how many there were."""

    def __init__(self, capacity: int) -> None:
        self._letters: deque[DeadLetter] = deque(maxlen=capacity)
        self.n_total = 0
        self.by_error: Counter[str] = Counter()
        self.by_query: Counter[int] = Counter()

    def __len__(self) -> int:
        return len(self._letters)

    def __iter__(self) -> Iterator[DeadLetter]:
        return iter(self._letters)

    @property
    def n_dropped(self) -> int:
        """How many are counted but no longer kept."""
        return self.n_total - len(self._letters)

    @property
    def capacity(self) -> int:
        assert self._letters.maxlen is not None
        return self._letters.maxlen

    def add(self, letters: Iterable[DeadLetter]) -> None:
        for letter in letters:
            self._letters.append(letter)
            self.count(letter.error, letter.query_id)

    def count(self, error: str, query_id: int | None, n: int = 1) -> None:
        """Count letters without keeping them."""
        self.n_total += n
        self.by_error[error] += n
        if query_id is not None:
            self.by_query[query_id] += n

    def find(self, *, stream: str | None = None, query_id: int | None = None) -> list[DeadLetter]:
        """Those of a stream, and of joins that read it, or of a query."""
        return [
            letter
            for letter in self._letters
            if (stream is None or stream.lower() in letter.stream.lower().split(", "))
            and (query_id is None or letter.query_id == query_id)
        ]
