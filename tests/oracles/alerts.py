"""Alerts by looking back: all rows of a key are laid out on the line of time, cut into episodes, and judged.

Slow and obvious. It shares nothing with eddyline.delivery.alerts, which goes forward, state by state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Row:
    """A matching row: which round, which of its rows, when, of which key."""

    round_number: int
    place: int
    time: int
    key: str


@dataclass(frozen=True)
class Said:
    """A message: (round, order within the round, key, status, rows of the alert, held back, when it opened)."""

    round_number: int
    order: tuple
    key: str
    status: str
    n_rows: int
    n_suppressed: int
    since: int
    row: Row  # that made it fire


@dataclass
class Expected:
    said: list[Said] = field(default_factory=list)
    open: dict[str, tuple[str, int, int, int]] = field(default_factory=dict)  # key: state, since, last, rows
    n_fired: int = 0
    n_resolved: int = 0
    n_suppressed: int = 0


def expected(rounds: Sequence[tuple[int, Sequence[str]]], cooldown: int, for_: int, resolve: int) -> Expected:
    """What becomes of rounds, each a time and the keys of its matching rows; durations of 0 are not given."""
    rows = [
        Row(number, place, time, key)
        for number, (time, keys) in enumerate(rounds, 1)
        for place, key in enumerate(keys)
    ]
    found = Expected()
    for key in sorted({row.key for row in rows}):
        mine = [row for row in rows if row.key == key]
        if resolve:
            _lasting(found, mine, rounds, cooldown, for_, resolve)
        else:
            _instants(found, mine, cooldown)
    found.said.sort(key=lambda said: (said.round_number, said.order))
    return found


def _instants(found: Expected, rows: list[Row], cooldown: int) -> None:
    fired_at: int | None = None
    held_back = 0
    for row in rows:
        if fired_at is not None and row.time < fired_at + cooldown:
            held_back += 1
            found.n_suppressed += 1
            continue
        if fired_at is not None and row.time >= fired_at + 2 * cooldown:
            held_back = 0
        found.said.append(
            Said(row.round_number, (1, row.place), row.key, "firing", 1, held_back, row.time, row)
        )
        found.n_fired += 1
        fired_at, held_back = row.time, 0


def _lasting(
    found: Expected,
    rows: list[Row],
    rounds: Sequence[tuple[int, Sequence[str]]],
    cooldown: int,
    for_: int,
    resolve: int,
) -> None:
    episodes: list[list[Row]] = []
    for row in rows:
        if episodes and row.time - episodes[-1][-1].time < resolve:
            episodes[-1].append(row)
        else:
            episodes.append([row])
    fired_at: int | None = None
    held_back = 0
    for episode in episodes:
        first, last = episode[0], episode[-1]
        if fired_at is not None and first.time >= fired_at + 2 * cooldown:
            held_back = 0
        long_enough = [row for row in episode if row.time - first.time >= for_]
        too_soon = [row for row in long_enough if fired_at is not None and row.time < fired_at + cooldown]
        firing = [row for row in long_enough if row not in too_soon]
        if too_soon:
            held_back += 1
            found.n_suppressed += 1
        if firing:
            n_rows = episode.index(firing[0]) + 1
            found.said.append(
                Said(firing[0].round_number, (1, firing[0].place), first.key, "firing", n_rows, held_back, first.time, firing[0])
            )  # fmt: skip
            found.n_fired += 1
            fired_at, held_back = firing[0].time, 0
        ended = [number for number, (time, _) in enumerate(rounds, 1) if time >= last.time + resolve]
        if not ended:
            state = "firing" if firing else "held" if too_soon else "pending"
            found.open[first.key] = state, first.time, last.time, len(episode)
        elif firing:
            order = (0, last.time + resolve, first.key)
            found.said.append(
                Said(ended[0], order, first.key, "resolved", len(episode), 0, first.time, firing[0])
            )
            found.n_resolved += 1
