"""Rounds, and the numbers of the rows in them."""

from __future__ import annotations

from dataclasses import dataclass

END_OF_ARRIVALS = 1 << 52  # no row that arrives gets so far
# Rows that joins and tables make are numbered from here, over all rounds of a home. Below, homes may have numbers that repeat,
# from rounds before this was so. Up to 2**53, 4.5e15 rows later, JSON readers that know only doubles tell them apart.
FIRST_DERIVED = END_OF_ARRIVALS + (1 << 41)
# Workers join the rows of a round before it has numbers: they count them from here, above every number of a row or a derived row.
FIRST_ORDINAL = 1 << 61
NO_TIME = -(1 << 62)  # the event time of a row without one: below every other, and differences stay in range


@dataclass(frozen=True, slots=True)
class Round:
    """One committed step."""

    number: int
    version: int
    now_us: int
    seed: int
    first_arrival: int
    n_rows: dict[str, int]
    token: str | None = None
    first_derived: int = FIRST_DERIVED  # the number of the first row that joins and tables make in it
