"""How far a run is, and what it did: the lines a terminal shows, and the summary at its end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from eddyline.events import RoundCommitted

QUIET_S = 2.0  # nothing is reported about what takes less
PROGRESS_EVERY_S = 1.0


@dataclass(frozen=True, slots=True)
class RunProgress:
    """How far a run is. While it starts, `what` says at what, with `n_done` of `n_total`."""

    what: str
    seconds: float
    n_rounds: int = 0
    n_rows: int = 0
    n_results: int = 0
    n_dead: int = 0
    n_done: int = 0
    n_total: int = 0

    @property
    def line(self) -> str:
        """One line for a terminal."""
        if self.what != "running":
            of = f" {self.n_done:,} of {self.n_total:,}" if self.n_total else ""
            return f"{self.what}{of}, {self.seconds:.0f} s"
        rate = self.n_rows / self.seconds if self.seconds else 0.0
        dead = f", {self.n_dead:,} dead letters" if self.n_dead else ""
        return (
            f"{self.n_rounds:,} rounds, {self.n_rows:,} rows, {self.n_results:,} results{dead}, "
            f"{rate:,.0f} rows/s, {self.seconds:.0f} s"
        )


@dataclass(frozen=True, slots=True)
class RunSummary:
    """What happened while a run lasted, also in rounds of pushes and of Spark's streaming queries.

    It was ended by: once, until, stop, signal, sources (all ended), reader (of standard output: gone).
    """

    n_rounds: int
    n_rows: int
    n_results: int
    n_dead: int
    seconds: float
    ended_by: str
    signal: int | None = None


class ProgressReporter:
    """Counts the rounds of a run and reports them about every second, if the caller wants reports."""

    def __init__(self, on_progress: Callable[[RunProgress], None] | None, clock: Callable[[], float]) -> None:
        self._on_progress = on_progress
        self._clock = clock
        self._began = clock()
        self._last_report = self._began + QUIET_S - PROGRESS_EVERY_S
        self._counts = RunProgress("running", 0.0)

    def count(self, event: RoundCommitted) -> None:
        counts = self._counts
        self._counts = replace(
            counts,
            n_rounds=counts.n_rounds + 1,
            n_rows=counts.n_rows + event.n_rows,
            n_results=counts.n_results + event.n_results,
            n_dead=counts.n_dead + event.n_dead,
        )

    def progress(self) -> RunProgress:
        """The counts so far, with the seconds since the run began."""
        return replace(self._counts, seconds=self._clock() - self._began)

    def report(self) -> None:
        """Report the progress if the last report is old enough."""
        if self._on_progress is not None and self._clock() - self._last_report >= PROGRESS_EVERY_S:
            self._last_report = self._clock()
            self._on_progress(self.progress())

    def report_start(self, what: str, n_done: int, n_total: int) -> None:
        """Report how far the start is if the last report is old enough."""
        if self._on_progress is not None and self._clock() - self._last_report >= PROGRESS_EVERY_S:
            self._last_report = self._clock()
            seconds = self._clock() - self._began
            self._on_progress(RunProgress(what, seconds, n_done=n_done, n_total=n_total))

    def summary(self, ended_by: str, signal: int | None) -> RunSummary:
        counts = self._counts
        return RunSummary(
            counts.n_rounds,
            counts.n_rows,
            counts.n_results,
            counts.n_dead,
            self._clock() - self._began,
            ended_by,
            signal,
        )
