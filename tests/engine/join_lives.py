"""Short lives of engines with joins: seconds for times, rows as tuples, failures of single rounds."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import eddyline
from eddyline import Engine, Query
from eddyline.model import ExecutionChoices

START = datetime.datetime(2026, 1, 1, 9, tzinfo=datetime.UTC)
SECOND = 1_000_000


def at(seconds: float | None) -> datetime.datetime | None:
    return None if seconds is None else START + datetime.timedelta(seconds=seconds)


class Life:
    """An engine whose clock stands at `now_s`; with a home it can be closed and opened again."""

    def __init__(self, declared: str, home: Path | None = None) -> None:
        self.now_s = 0
        self._home = home
        self._choices = ExecutionChoices()
        self.engine = self._opened()
        self.engine.sql(declared)

    def _opened(self) -> Engine:
        engine = eddyline.open(self._home, results_per_query=100_000, clock=lambda: self.now_s * SECOND)
        engine.rounds.choices = self._choices
        return engine

    def choose(self, **choices: Any) -> None:
        """Execute rounds so from now on."""
        self._choices = self.engine.rounds.choices = ExecutionChoices(**choices)

    def reopen(self) -> None:
        assert self._home is not None
        self.engine.close()
        self.engine = self._opened()

    def query(self, text: str, name: str) -> Query:
        return self.engine.query(text, name=name)

    def push(self, **rows: list[tuple[Any, ...]]) -> Any:
        """A round; none: a tick."""
        return self.engine.push(rows)

    def fail(self, **rows: list[tuple[Any, ...]]) -> None:
        """A round that does all its work and then does not commit."""
        self.engine.rounds.at_step = _no_commit
        try:
            self.push(**rows)
        except FailedRound:
            return
        finally:
            self.engine.rounds.at_step = lambda step: None
        raise AssertionError("the round has committed")

    def told(self, name: str) -> list[tuple[Any, ...]]:
        """All that a query was told, as tuples, what was taken back behind a minus."""
        found = self.engine.get(name).latest(100_000)
        return [("-",) * (r.change in ("delete", "update_preimage")) + tuple(r.values()) for r in found]

    def held(self) -> dict[str, int]:
        """By stream, how many rows joins hold."""
        return {name: stem.n_rows for name, stem in self.engine.rounds.flow.joins.stage.stems.items()}

    def files(self, kind: str) -> list[str]:
        durable = self.engine.rounds.durable
        assert durable is not None
        return [file.name for file in durable.rounds.files.all(kind)]

    def check(self) -> None:
        flow = self.engine.rounds.flow
        flow.joins.stage.check()
        for table in flow.tables.tables.values():
            table.check()


class FailedRound(Exception):
    """Nobody else raises it."""


def _no_commit(step: str) -> None:
    if step == "4 commit":
        raise FailedRound
