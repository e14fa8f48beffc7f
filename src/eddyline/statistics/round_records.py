"""What the last rounds took: rows, matches, bytes, processor time and waiting, for each stage.

Records are kept in memory and, with a home, as lines of JSON in a file beside the catalog. That file begins anew when it is full,
and the one before it stays, so at least `MAX_RECORDS` rounds can be looked back on. It is not flushed round by round: after a
power cut the newest records may be missing, which loses no result.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

MAX_RECORDS = 2_000  # rounds
_FILES = ("rounds.jsonl", "rounds.before.jsonl")


@dataclass(frozen=True, slots=True)
class StageRecord:
    """What one stage did for one stream in a round; of tasks, all together."""

    stage: str
    stream: str
    n_rows: int
    n_candidates: int  # pairs the index named
    n_looked_at: int  # pairs looked at one by one
    n_matches: int
    nbytes: int  # of rows
    cpu_s: float


@dataclass(frozen=True, slots=True)
class RoundRecord:
    """What a round took. Seconds add up to `seconds`, but for what lies between the steps."""

    round_number: int
    version: int
    at_us: int  # its now()
    n_tasks: int  # 0: it was worked on in this process
    n_rows: int
    n_results: int
    n_dead: int
    n_late: int
    seconds: float
    plan_s: float
    work_s: float
    waiting_s: float  # of the work: for tasks to be started, sent and brought back
    commit_s: float
    stages: tuple[StageRecord, ...] = ()

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> RoundRecord:
        stages = tuple(StageRecord(**stage) for stage in stored.pop("stages"))
        return cls(**stored, stages=stages)


class RoundRecords:
    """The records of the last rounds, oldest first."""

    def __init__(self, folder: Path | None = None) -> None:
        """With a folder, go on with what is kept there."""
        self._records: deque[RoundRecord] = deque(maxlen=MAX_RECORDS)
        self._folder = folder
        self._file: TextIO | None = None
        self._n_in_file = 0
        if folder is not None:
            self._read(folder)

    def _read(self, folder: Path) -> None:
        for name in reversed(_FILES):
            lines: list[str] = []
            with contextlib.suppress(OSError):
                lines = (folder / name).read_text(encoding="utf-8").splitlines()
            for line in lines:
                with contextlib.suppress(ValueError, TypeError, KeyError):  # cut short, or of another version
                    self._records.append(RoundRecord.from_json(json.loads(line)))
            self._n_in_file = len(lines)

    def add(self, record: RoundRecord) -> None:
        """Keep a record. A disk that cannot be written to costs only what is looked back on after a restart."""
        self._records.append(record)
        if self._folder is None:
            return
        try:
            self._open(self._folder).write(json.dumps(dataclasses.asdict(record)) + "\n")
            self._n_in_file += 1
        except OSError:
            self.close()

    def _open(self, folder: Path) -> TextIO:
        newest, before = (folder / name for name in _FILES)
        if self._n_in_file >= MAX_RECORDS:
            self.close()
            newest.replace(before)
            self._n_in_file = 0
        if self._file is None:
            self._file = open(newest, "a", encoding="utf-8", buffering=1)  # noqa: SIM115, kept open
        return self._file

    def last(self, n: int) -> list[RoundRecord]:
        """The newest records, oldest first."""
        return list(self._records)[-n:] if n > 0 else []

    def close(self) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
            self._file = None
