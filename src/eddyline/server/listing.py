"""All queries of one version of the catalog, side by side, and the list of the next version made from it.

Making the list of a hundred thousand queries takes a while, and every change of the catalog makes another: so what changed is all
that is looked at again.
"""

from __future__ import annotations

import bisect
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from eddyline.model import QueryState, Shape
from eddyline.rules import cost_class

STATES = ("running", "paused", "suspended")
COSTS = ("index", "residual", "function", "matches everything")  # the cheapest first
_STATE_NUMBERS = {QueryState(word): number for number, word in enumerate(STATES)}
ALONE = -1  # the family of a rule without parameters
FORGOTTEN_SHAPES = 1_000  # more of them than of queries, and the list is made anew


class Row(NamedTuple):
    """What a list knows of a query."""

    name: str
    text: str
    owner: str
    state: QueryState
    shape: Shape


class Family(NamedTuple):
    """Rules of one template or rules table: they have a text with parameters in common, and their owner."""

    text: str
    owner: str

    @property
    def key(self) -> str:
        """By which it is asked for: the same in every version, and after a restart."""
        return hashlib.blake2b(f"{self.owner}\0{self.text}".encode(), digest_size=8).hexdigest()


class Kinds:
    """Owners, shapes and families by number, and what each shape costs at worst. It only grows."""

    def __init__(self, before: Kinds | None = None) -> None:
        self.owners: dict[str, int] = {} if before is None else dict(before.owners)
        self.shapes: dict[Shape, int] = {} if before is None else dict(before.shapes)
        self.costs: list[int] = [] if before is None else before.costs.copy()
        self.families: dict[Family, int] = {} if before is None else dict(before.families)

    def owner(self, name: str) -> int:
        return self.owners.setdefault(name, len(self.owners))

    def shape(self, shape: Shape) -> int:
        number = self.shapes.get(shape)
        if number is None:
            number = self.shapes[shape] = len(self.shapes)
            self.costs.append(COSTS.index(cost_class(shape)))
        return number

    def family(self, row: Row) -> int:
        """The number of a rule's family, or ALONE."""
        if not any(slot.name for slot in row.shape.slots):
            return ALONE
        return self.families.setdefault(Family(row.text, row.owner), len(self.families))


@dataclass(frozen=True)
class Listing:
    """Queries in order of registration. Nothing of it is changed once it is made."""

    version: int
    ids: npt.NDArray[np.int32]
    names: list[str]
    texts: list[str]
    owner_numbers: npt.NDArray[Any]  # of `kinds`
    state_numbers: npt.NDArray[Any]  # of `STATES`
    shape_numbers: npt.NDArray[Any]  # of `kinds`
    family_numbers: npt.NDArray[Any]  # of `kinds`, or ALONE
    kinds: Kinds
    name_keys: list[str]  # names in order, whatever their case,
    name_ids: list[int]  # and whose they are
    family_names: dict[int, str] = field(default_factory=dict)  # of families, once they were asked for

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def by_name(self) -> npt.NDArray[np.int64]:
        """Positions in order of name."""
        return np.searchsorted(self.ids, np.array(self.name_ids, np.int32))

    @cached_property
    def name_ranks(self) -> npt.NDArray[np.int64]:
        """The place of each query in order of name."""
        ranks = np.empty(len(self.ids), np.int64)
        ranks[self.by_name] = np.arange(len(self.ids))
        return ranks

    @cached_property
    def families(self) -> list[Family]:
        """Families, by number."""
        return list(self.kinds.families)

    @cached_property
    def costs(self) -> npt.NDArray[np.int64]:
        """What each query costs at worst, a number of `COSTS`."""
        return np.array(self.kinds.costs, np.int64)[self.shape_numbers]

    @cached_property
    def shapes(self) -> list[Shape]:
        """Distinct shapes, by number."""
        return list(self.kinds.shapes)

    @property
    def is_worn(self) -> bool:
        """Whether it remembers many shapes that no query has any more."""
        return len(self.kinds.shapes) > len(self.ids) + FORGOTTEN_SHAPES

    def of(self, owner: str | None) -> npt.NDArray[np.int64]:
        """Positions of the queries of an owner, or of all."""
        if owner is None:
            return np.arange(len(self.ids))
        return np.flatnonzero(self.owner_numbers == self.kinds.owners.get(owner, -1))


def listing_of(version: int, rows: Mapping[int, Row]) -> Listing:
    """A list of these queries, whose numbers ascend."""
    kinds = Kinds()
    order = sorted((row.name.casefold(), query_id) for query_id, row in rows.items())
    return Listing(
        version,
        np.fromiter(rows, np.int32, len(rows)),
        [row.name for row in rows.values()],
        [row.text for row in rows.values()],
        np.array([kinds.owner(row.owner) for row in rows.values()], np.int32),
        np.array([_STATE_NUMBERS[row.state] for row in rows.values()], np.int8),
        np.array([kinds.shape(row.shape) for row in rows.values()], np.int32),
        np.array([kinds.family(row) for row in rows.values()], np.int32),
        kinds,
        [key for key, _ in order],
        [query_id for _, query_id in order],
    )


def listing_after(before: Listing, version: int, changed: Mapping[int, Row | None]) -> Listing:
    """The same list after some queries, whose numbers ascend, changed, came, or went (None)."""
    kinds = Kinds(before.kinds)
    keys, name_ids = before.name_keys.copy(), before.name_ids.copy()
    ids = np.fromiter(changed, np.int32, len(changed))
    places = np.searchsorted(before.ids, ids)
    is_known = np.zeros(len(ids), dtype=bool)
    inside = places < len(before.ids)
    is_known[inside] = before.ids[places[inside]] == ids[inside]
    for query_id, place in zip(ids[is_known].tolist(), places[is_known].tolist(), strict=True):
        at = _name_place(keys, name_ids, before.names[place].casefold(), query_id)
        assert name_ids[at] == query_id, f"query {query_id} is not listed under {before.names[place]!r}"
        del keys[at]
        del name_ids[at]
    rows = [row for row in changed.values() if row is not None]
    is_there = np.array([row is not None for row in changed.values()], dtype=bool)
    for query_id, row in zip(ids[is_there].tolist(), rows, strict=True):
        at = _name_place(keys, name_ids, row.name.casefold(), query_id)
        keys.insert(at, row.name.casefold())
        name_ids.insert(at, query_id)

    # without what changed, then with it as it is now
    dropped_places = places[is_known]
    remaining_ids = np.delete(before.ids, dropped_places)
    where = np.searchsorted(remaining_ids, ids[is_there])

    def column(old: npt.NDArray[Any], new: list[int]) -> npt.NDArray[Any]:
        return np.insert(np.delete(old, dropped_places), where, new)

    def words(old: list[str], new: list[str]) -> list[str]:
        return _changed(old, dropped_places.tolist(), where.tolist(), new)

    return Listing(
        version,
        np.insert(remaining_ids, where, ids[is_there]),
        words(before.names, [row.name for row in rows]),
        words(before.texts, [row.text for row in rows]),
        column(before.owner_numbers, [kinds.owner(row.owner) for row in rows]),
        column(before.state_numbers, [_STATE_NUMBERS[row.state] for row in rows]),
        column(before.shape_numbers, [kinds.shape(row.shape) for row in rows]),
        column(before.family_numbers, [kinds.family(row) for row in rows]),
        kinds,
        keys,
        name_ids,
    )


def _changed(old: list[str], dropped_places: list[int], where: list[int], new: list[str]) -> list[str]:
    """A list without the entries at `dropped_places`, then with new ones before those at `where`."""
    found = old.copy()
    for at in reversed(dropped_places):
        del found[at]
    for at, entry in zip(reversed(where), reversed(new), strict=True):
        found.insert(at, entry)
    return found


def _name_place(keys: list[str], name_ids: list[int], key: str, query_id: int) -> int:
    """The place a name has, or would have: among equal ones, by number."""
    low, high = bisect.bisect_left(keys, key), bisect.bisect_right(keys, key)
    return bisect.bisect_left(name_ids, query_id, low, high)
