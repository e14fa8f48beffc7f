"""Where rounds leave what must last, and find it again: a home (durable.py), or memory alone.

Both have the interface `RoundStore`, so that a round walks through the same steps with either. Memory keeps the catalog and
nothing else: no file is written, no position or cursor outlives the engine, and what was dropped is not known any more.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from eddyline.batch import PartMatches, TupleBatch
from eddyline.catalog import Catalog, CommittedRound, ListedFile, PastQuery, ReadInput
from eddyline.delivery import ResultLog
from eddyline.filters import FilterOutput
from eddyline.hit_matches import HitMatches
from eddyline.model import DeadLetter, Round, Shape, StreamProgress
from eddyline.operators import Mask
from eddyline.storage import DeadLetters, StoredFile, StoredPart

Generations = Callable[[npt.NDArray[np.int32], int], npt.NDArray[np.int32]]
RoundMatches = Sequence[HitMatches | PartMatches | StoredPart]


class RoundStore(Protocol):
    """What a round asks of the place it is kept in. Unless it says otherwise the caller holds the engine's lock."""

    catalog: Catalog
    time_zone: str

    @property
    def folder(self) -> Path | None:
        """The folder of the home, if there is one."""

    def capture(
        self, round_number: int, batches: Mapping[str, TupleBatch], deletes: Mapping[str, Mask]
    ) -> list[ListedFile]:
        """Step 2: keep the rows as they arrived, and which of them delete. Called without the lock."""

    def write(
        self,
        round_: Round,
        outputs: Iterable[FilterOutput],
        letters: Sequence[DeadLetter],
        generations: Generations,
    ) -> tuple[list[ListedFile], RoundMatches]:
        """Step 3: keep results and dead letters; the results as they can be read back. Called without the lock."""

    def write_closed(
        self, round_: Round, parts: Sequence[PartMatches], generations: Generations
    ) -> tuple[list[ListedFile], Sequence[PartMatches | StoredPart]]:
        """Step 3: keep rows of windows that close until alerts have moved. Called without the lock."""

    def commit(
        self,
        done: CommittedRound,
        progress: Mapping[str, StreamProgress],
        files: Sequence[ListedFile],
        positions: Mapping[str, object],
        inputs: Sequence[ReadInput] = (),
        unlisted_files: Sequence[str] = (),
    ) -> None:
        """Step 4: from here on the round has happened."""

    def abort(self) -> None:
        """Remove what a failed round has written."""

    def save_counts(self, last_round: int, results: ResultLog, dead_letters: DeadLetters) -> None:
        """Keep the counts of results and dead letters by query as they are after this round."""

    def close(self) -> None: ...

    def by_token(self, token: str) -> CommittedRound | None:
        """The round that was pushed with a token."""

    def position(self, stream: str) -> Any:
        """How far the source of a stream, in lower case, was read with its last committed round; None if that is not kept."""

    def reader_cursor(self, reader: str) -> int | None:
        """The last round or message a reader has for good; None if that is not kept."""

    def set_reader_cursor(self, reader: str, number: int) -> None: ...

    def identity(self) -> str:
        """Tells files of one home from those of another; memory is a new home every time."""

    def past_query(self, query_id: int, generation: int) -> PastQuery | None:
        """An alert query as it was in an earlier generation, or before it was dropped."""

    def past_name_and_shape(self, query_id: int) -> tuple[str | None, Shape] | None:
        """Name and shape of a query that was dropped."""

    def past_owner(self, query_id: int) -> str | None:
        """The owner of a query that was dropped."""

    def put_letters(self, letters: Sequence[DeadLetter]) -> StoredFile | None:
        """Write dead letters that came after their round, of a sink that refused results. Called without the lock."""

    def list_letters(self, round_number: int, stored: StoredFile | None, n_letters: int) -> None:
        """Let the file of such letters be found again."""

    def is_taken_over(self) -> bool:
        """Whether another process has opened the home since."""

    def file_counts(self) -> dict[str, tuple[int, int]]:
        """How many files of each kind there are, and their bytes."""

    def removed_counts(self) -> dict[str, int]:
        """How many files of each kind retention has removed."""


class MemoryStore:
    """A `RoundStore` that keeps nothing but the catalog."""

    folder = None

    def __init__(self, time_zone: str) -> None:
        self.catalog = Catalog()
        self.time_zone = time_zone

    def capture(
        self, round_number: int, batches: Mapping[str, TupleBatch], deletes: Mapping[str, Mask]
    ) -> list[ListedFile]:
        return []

    def write(
        self,
        round_: Round,
        outputs: Iterable[FilterOutput],
        letters: Sequence[DeadLetter],
        generations: Generations,
    ) -> tuple[list[ListedFile], RoundMatches]:
        return [], [each for output in outputs for each in output.all_matches()]

    def write_closed(
        self, round_: Round, parts: Sequence[PartMatches], generations: Generations
    ) -> tuple[list[ListedFile], Sequence[PartMatches | StoredPart]]:
        return [], parts

    def commit(
        self,
        done: CommittedRound,
        progress: Mapping[str, StreamProgress],
        files: Sequence[ListedFile],
        positions: Mapping[str, object],
        inputs: Sequence[ReadInput] = (),
        unlisted_files: Sequence[str] = (),
    ) -> None:
        return

    def abort(self) -> None:
        return

    def save_counts(self, last_round: int, results: ResultLog, dead_letters: DeadLetters) -> None:
        return

    def close(self) -> None:
        return

    def by_token(self, token: str) -> CommittedRound | None:
        return None

    def position(self, stream: str) -> Any:
        return None

    def reader_cursor(self, reader: str) -> int | None:
        return None

    def set_reader_cursor(self, reader: str, number: int) -> None:
        return

    def identity(self) -> str:
        return uuid.uuid4().hex[:6]

    def past_query(self, query_id: int, generation: int) -> PastQuery | None:
        return None

    def past_name_and_shape(self, query_id: int) -> tuple[str | None, Shape] | None:
        return None

    def past_owner(self, query_id: int) -> str | None:
        return None

    def put_letters(self, letters: Sequence[DeadLetter]) -> StoredFile | None:
        return None

    def list_letters(self, round_number: int, stored: StoredFile | None, n_letters: int) -> None:
        return

    def is_taken_over(self) -> bool:
        return False

    def file_counts(self) -> dict[str, tuple[int, int]]:
        return {}

    def removed_counts(self) -> dict[str, int]:
        return {}
