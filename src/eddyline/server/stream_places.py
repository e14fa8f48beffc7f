"""Places for streams of events: a bound on how many are open at once, of all clients and of each token."""

from __future__ import annotations

from collections import Counter

from eddyline.server.limits import MOST_STREAMS


class StreamPlaces:
    """Counts the streams that are open. Everything happens in the loop."""

    def __init__(self) -> None:
        self.n_streams = 0
        self.n_by_token: Counter[str] = Counter()  # by id

    @property
    def is_full(self) -> bool:
        return self.n_streams >= MOST_STREAMS

    def occupy(self, token_id: str | None) -> None:
        """Count a stream from the request on, not from its first event: requests that come together are counted too."""
        self.n_streams += 1
        if token_id is not None:
            self.n_by_token[token_id] += 1

    def free(self, token_id: str | None) -> None:
        """The stream has ended, however it did."""
        self.n_streams -= 1
        if token_id is not None:
            self.n_by_token[token_id] -= 1
            self.n_by_token += Counter()  # forgets those that have none
