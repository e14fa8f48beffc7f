"""First hops that several signatures have in common are probed once for all of them, within one push.

Paper: Madden, Shah, Hellerstein, Raman, "Continuously Adaptive Continuous Queries over Streams", SIGMOD 2002: queries share the
probes of a SteM. Here signatures whose probe orders begin with the same hop do.

A hop leads from new rows of a stream, by the values of some expressions, to rows of another input by a key. What a probe finds is
remembered for every row that made it, before anything that differs from signature to signature (windows, wanted rows, versions)
is applied. A later signature probes only with rows that no earlier one had.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from eddyline.joins.join_tree import JoinTree, can_drive
from eddyline.joins.plan import SignaturePlan
from eddyline.joins.probe_matches import Key, ProbeMatches
from eddyline.model import Role, Signature
from eddyline.operators import ArrivedRows, Numbers

_UNKNOWN = -1
Probe = Callable[[Numbers], ProbeMatches]  # with some of the values, by their places


class Hop(NamedTuple):
    """What a first probe finds depends on this and on the row alone."""

    stream: str  # of the rows that probe
    values: Key  # over their columns
    partner: str  # the stream that is probed
    key: Key  # over its columns
    is_as_of: bool
    meets_own: bool  # of a table, which looks different from both sides of its own changes


def first_hop(signature: Signature, tree: JoinTree, place: int) -> Hop | None:
    """The hop from the origin to an input; None if it is none that can be shared."""
    if tree.parents[place] != tree.origin or not tree.child_keys[place]:
        return None
    origin, partner = signature.inputs[tree.origin], signature.inputs[place]
    return Hop(
        origin.stream.lower(),
        tree.parent_keys[place],
        partner.stream.lower(),
        tree.child_keys[place],
        partner.role is Role.AS_OF,
        partner.role.is_table and meets_own(signature, tree.origin, place),
    )


def meets_own(signature: Signature, origin: int, place: int) -> bool:
    """Whether a row of the origin may be its own partner at a place: what only drives comes last."""
    return place < origin or signature.inputs[origin].role is Role.CURRENT


def shared_hops(
    plans: Iterable[SignaturePlan], tree_of: Callable[[SignaturePlan, int], JoinTree]
) -> frozenset[Hop]:
    """The hops that two probe trees or more begin with."""
    found: set[Hop] = set()
    shared: set[Hop] = set()
    for plan in plans:
        for origin in range(len(plan.signature)):
            if can_drive(plan.signature, origin):
                tree = tree_of(plan, origin)
                hops = {first_hop(plan.signature, tree, place) for place in tree.others} - {None}
                for hop in filter(None, hops):
                    (shared if hop in found else found).add(hop)
    return frozenset(shared)


class SharedProbes:
    """What the shared hops of one push have found so far."""

    def __init__(self, hops: Set[Hop], arrivals: Mapping[str, ArrivedRows], most_pairs: int) -> None:
        """Of one hop no more than `most_pairs` are remembered; what is found beyond them is probed again."""
        self._hops = hops
        self._most_pairs = most_pairs
        self._arrivals = arrivals
        self._found: dict[Hop, RememberedHop] = {}

    def hop(self, hop: Hop | None) -> RememberedHop | None:
        """What is remembered of a hop; None if no other signature has it."""
        if hop is None or hop not in self._hops or hop.stream not in self._arrivals:
            return None
        known = self._found.get(hop)
        if known is None:
            arrival = self._arrivals[hop.stream].batch.arrival
            if (np.diff(arrival) <= 0).any():  # both images of an update have one number
                return None
            known = self._found[hop] = RememberedHop(arrival, self._most_pairs)
        return known


@dataclass(slots=True)
class RememberedHop:
    """What the rows of a stream found by one hop. Rows are known by their arrival numbers, which ascend.

    Invariant: the partners of row k, if it is known, are `n_found[k]` of `rows` from `start[k]` on.
    """

    arrival: Numbers
    start: Numbers
    n_found: Numbers
    rows: Numbers
    most_pairs: int

    def __init__(self, arrival: Numbers, most_pairs: int) -> None:
        self.arrival = arrival
        self.most_pairs = most_pairs
        self.start = np.full(len(arrival), _UNKNOWN, np.int64)
        self.n_found = np.zeros(len(arrival), np.int64)
        self.rows = np.empty(0, np.int64)

    def find(self, arrival: Numbers, probe: Probe) -> ProbeMatches:
        """The partners of the rows with these arrival numbers, all of the stream; `probe` finds those not yet known."""
        numbers = np.searchsorted(self.arrival, arrival)
        is_new = self.start[numbers] == _UNKNOWN
        new_places = np.flatnonzero(is_new)
        if not len(new_places):
            return self._known_matches(numbers)
        found = probe(new_places)
        if len(self.rows) + len(found) <= self.most_pairs:
            self._remember(numbers[new_places], found)
        if len(new_places) == len(numbers):
            return found
        known_places = np.flatnonzero(~is_new)
        known = self._known_matches(numbers[known_places])
        probes = np.concatenate([known_places[known.probes], new_places[found.probes]])
        order = np.argsort(probes, kind="stable")
        return ProbeMatches(
            probes[order], np.concatenate([known.rows, found.rows])[order], n_shared=known.n_shared
        )

    def _remember(self, numbers: Numbers, found: ProbeMatches) -> None:
        counts = np.bincount(found.probes, minlength=len(numbers))
        self.start[numbers] = len(self.rows) + np.cumsum(counts) - counts
        self.n_found[numbers] = counts
        self.rows = np.concatenate([self.rows, found.rows]) if len(self.rows) else found.rows

    def _known_matches(self, numbers: Numbers) -> ProbeMatches:
        counts = self.n_found[numbers]
        probes = np.repeat(np.arange(len(numbers)), counts)
        within = np.arange(len(probes)) - np.repeat(np.cumsum(counts) - counts, counts)
        return ProbeMatches(probes, self.rows[self.start[numbers][probes] + within], n_shared=len(numbers))
