"""A list in which the rules of one template or rules table are one line that can be opened.

A family of which one rule alone fits is shown as that rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from eddyline.engine import RoundEngine
from eddyline.model import iso_time
from eddyline.server.directory import ATTENTION, STATUSES, Directory
from eddyline.server.listing import ALONE, COSTS, Listing
from eddyline.server.trends import Members
from eddyline.sql import stream_words, streams_of

Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """One line: the positions of the rules it shows."""

    positions: Positions
    family: int = ALONE

    @property
    def is_family(self) -> bool:
        return self.family != ALONE


class Folded:
    """Lines in order. `positions` are the rules that fit, `statuses` how each fares."""

    def __init__(
        self,
        directory: Directory,
        listing: Listing,
        positions: Positions,
        statuses: npt.NDArray[np.int64],
        sort: str,
    ) -> None:
        self._listing = listing
        family = listing.family_numbers[positions].astype(np.int64)
        keys = np.where(family == ALONE, len(listing.families) + positions, family)
        _, first, lines = np.unique(keys, return_index=True, return_inverse=True)
        self._family = family[first]
        order = np.argsort(lines, kind="stable")
        self._members = positions[order]
        self._starts = np.concatenate([[0], np.cumsum(np.bincount(lines, minlength=len(first)))])
        self._order = self._sorted(directory, positions, statuses, lines, len(first), sort)

    def __len__(self) -> int:
        return len(self._order)

    def lines(self, first: int, n: int) -> list[Line]:
        found = []
        for line in self._order[first : first + n].tolist():
            members = self._members[self._starts[line] : self._starts[line + 1]]
            found.append(Line(members, int(self._family[line]) if len(members) > 1 else ALONE))
        return found

    def _sorted(
        self,
        directory: Directory,
        positions: Positions,
        statuses: npt.NDArray[np.int64],
        lines: npt.NDArray[np.int64],
        n: int,
        sort: str,
    ) -> npt.NDArray[np.int64]:
        """Numbers of lines; a family comes where its foremost rule would, or by the sum of its results."""
        listing = self._listing

        def least(values: npt.NDArray[Any], start: float) -> npt.NDArray[np.float64]:
            found = np.full(n, start)
            np.minimum.at(found, lines, values)
            return found

        if sort == "name":
            return np.argsort(least(listing.name_ranks[positions], np.inf), kind="stable")
        ids = listing.ids[positions]
        n_results = np.bincount(lines, directory.n_results(ids), n)
        if sort == "last":
            return np.lexsort((-n_results, least(-directory.last_results.of(ids), 0)))
        if sort == "cost":
            work = np.bincount(lines, directory.function_shares(listing)[positions], n)
            return np.lexsort((-n_results, least(-listing.costs[positions], 0), -work))
        if sort == "status":
            rank = np.array([ATTENTION.index(status) for status in STATUSES], np.int64)
            return np.lexsort((-n_results, least(rank[statuses], np.inf)))
        return np.argsort(-n_results, kind="stable")


def family_facts(
    directory: Directory,
    rounds: RoundEngine,
    listing: Listing,
    line: Line,
    statuses: npt.NDArray[np.int64],
    open_alerts: Mapping[int, Mapping[str, int]],
) -> dict[str, Any]:
    """What a list says of a family: `statuses` of the rules that fit are added up, as are their numbers."""
    family = listing.families[line.family]
    ids = listing.ids[line.positions]
    shape = listing.shapes[listing.shape_numbers[line.positions[0]]]
    counts = np.bincount(statuses, minlength=len(STATUSES)).tolist()
    by_status = {status: n for status, n in zip(STATUSES, counts, strict=True) if n}
    last = int(directory.last_results.of(ids).max())
    times = directory.times([last])
    mine = set(ids.tolist())
    with rounds.lock:
        n_dead = sum(n for query_id, n in rounds.dead_letters.by_query.items() if query_id in mine)
    shares = directory.cost_shares(listing, line.positions[:1])
    share = None if shares[0] is None else round(min(1.0, shares[0] * len(ids)), 6)
    return {
        "family": family.key,
        "name": family_name(listing, line.family),
        "owner": family.owner,
        "text": family.text,
        "parameters": [slot.name for slot in shape.slots if slot.name is not None],
        "stream": stream_words(shape),
        "streams": list(streams_of(shape)),
        "n_rules": len(ids),
        "n_all": int((listing.family_numbers == line.family).sum()),
        "status": min(by_status, key=ATTENTION.index),
        "statuses": by_status,
        "n_results": int(directory.n_results(ids).sum()),
        "n_open_alerts": sum(sum(n.values()) for query_id, n in open_alerts.items() if query_id in mine),
        "n_dead": n_dead,
        "last_result_at": iso_time(times[last]) if last in times else None,
        "last_round": last or None,
        "cost": COSTS[int(listing.costs[line.positions].max())],
        "cost_share": share,
    }


def family_name(listing: Listing, number: int) -> str:
    """What the names of a family's rules have in common: watch-…"""
    known = listing.family_names.get(number)
    if known is None:
        names = [listing.names[at] for at in np.flatnonzero(listing.family_numbers == number).tolist()]
        start = _common_start(min(names), max(names))
        backwards = [name[len(start) :][::-1] for name in names]
        end = _common_start(min(backwards), max(backwards))[::-1]
        known = listing.family_names[number] = f"{start}…{end}" if len(names) > 1 else names[0]
    return known


def _common_start(a: str, b: str) -> str:
    n = next((at for at, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    return a[:n]


def members_of(listing: Listing, line: Line, spans: list[tuple[int, int]]) -> Members:
    """How trends are found for a family: registrations that are wholly its own, and the rest one by one."""
    ids = listing.ids[line.positions]
    whole = []
    for first, n in spans:
        low, high = np.searchsorted(listing.ids, [first, first + n])
        if high > low and (listing.family_numbers[low:high] == line.family).all():
            inside = np.searchsorted(ids, [first, first + n])
            if inside[1] - inside[0] == high - low:  # all of them fit
                whole.append((first, n))
    others = ids
    for first, n in whole:
        others = others[(others < first) | (others >= first + n)]
    return Members(tuple(whole), others)
