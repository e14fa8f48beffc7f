"""How much is kept of a class of rows, by structure: for explain, metrics and the dashboard."""

from __future__ import annotations

from dataclasses import dataclass

from eddyline.aggregates import OverRows, Sessions, Structure, TemporalGroups


@dataclass(frozen=True, slots=True)
class AggregateSizes:
    """What one structure keeps. None: it keeps nothing of that kind."""

    groups: int  # or partitions of OVER
    slices: int | None  # of windows; of sessions the pieces they are made of
    rows: int | None  # of OVER and of conditions on now()
    nbytes: int
    deadline_us: int | None  # the first time at which time alone may change an entry
    n_refused: int = 0  # rows of groups above the limit, since the engine was opened


def sizes_of(structure: Structure | OverRows) -> AggregateSizes:
    """Between rounds."""
    found = structure.snapshot()
    if isinstance(structure, OverRows):
        return AggregateSizes(found["partitions"], None, found["rows"], structure.nbytes, None)
    slices = found["entries"] if isinstance(structure, Sessions) else found.get("slices")
    rows = found["entries"] if isinstance(structure, TemporalGroups) else None
    return AggregateSizes(found["groups"], slices, rows, structure.nbytes, structure.next_deadline())
