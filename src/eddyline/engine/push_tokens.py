"""Tokens of pushes: the same token again returns the round of the first time. A home remembers those of all rounds it keeps."""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import replace

from eddyline.engine.round_store import RoundStore
from eddyline.engine.round_work import Outcome

REMEMBERED_TOKENS = 10_000  # in memory
REMEMBERED_OUTPUTS = 64  # rounds with a token whose pairs can be asked for again
REMEMBERED_BYTES = 64 << 20  # which they may hold, unless the last alone holds more


class PushTokens:
    """Rounds by token, the newest with their matches. The caller holds the engine's lock."""

    def __init__(self, store: RoundStore) -> None:
        self.nbytes = 0  # of the matches that are held
        self._store = store
        self._rounds: OrderedDict[str, Outcome] = OrderedDict()
        self._with_outputs: deque[tuple[str, int]] = deque()  # and the bytes they hold

    def find(self, token: str) -> Outcome | None:
        """The round a token belonged to."""
        known = self._rounds.get(token)
        if known is None:
            done = self._store.by_token(token)
            if done is not None:
                return Outcome(done.round, None, done.n_results, done.n_dead, done.n_late)
        return known

    def remember(self, token: str, outcome: Outcome) -> None:
        """Keep a committed round, and let the matches of older ones go."""
        self._rounds[token] = outcome
        if len(self._rounds) > REMEMBERED_TOKENS:
            self._rounds.popitem(last=False)
        nbytes = sum(output.nbytes for output in (outcome.outputs or {}).values())
        self._with_outputs.append((token, nbytes))
        self.nbytes += nbytes
        while len(self._with_outputs) > REMEMBERED_OUTPUTS or (
            self.nbytes > REMEMBERED_BYTES and len(self._with_outputs) > 1
        ):
            old, nbytes = self._with_outputs.popleft()
            self.nbytes -= nbytes
            if self._store.folder is None:
                self._rounds[old] = replace(self._rounds[old], outputs=None)
            else:
                del self._rounds[old]  # the home remembers it
