"""How far a run is, and what it did: the lines a terminal shows, and the summary at its end."""

from __future__ import annotations

from dataclasses import dataclass


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
