"""The probes of all signatures, from each of their inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from typing import Any

from eddyline.joins.join_tree import can_drive, join_tree
from eddyline.joins.plan import SignaturePlan
from eddyline.joins.probe_matches import Evaluate, Key
from eddyline.joins.probe_order import ProbeOrder
from eddyline.joins.probing import ProbeOrigin
from eddyline.joins.ranges import range_probe
from eddyline.model import Expression
from eddyline.routing import RoutingOptions

_COUNTED = ("n_drivers", "n_probes", "n_matches", "n_combinations")


class ProbeOrigins:
    """An origin for each input that probes, by signature and place, with what its order has learned and the work it did.

    Invariant: an origin is made when it is first needed, and stays as long as its signature is in the plan.
    """

    def __init__(
        self, evaluate: Evaluate, routing: RoutingOptions, seed: int, clock: Callable[[], float]
    ) -> None:
        self._evaluate = evaluate
        self._routing = routing
        self._seed = seed
        self._clock = clock
        self._origins: dict[tuple[str, int], ProbeOrigin] = {}

    @property
    def by_input(self) -> Mapping[tuple[str, int], ProbeOrigin]:
        """By signature and input; those no round has needed yet are missing."""
        return self._origins

    def origin(self, plan: SignaturePlan, place: int) -> ProbeOrigin:
        """The probes from an input of a signature."""
        origin = self._origins.get((plan.name, place))
        if origin is None:
            tree = join_tree(plan.signature, place)
            order = ProbeOrder(tree, self._routing.policy, self._seed, options=self._routing)
            origin = ProbeOrigin(tree, order, self._evaluate, self._clock)
            self._origins[plan.name, place] = origin
        return origin

    def keep(self, signatures: Set[str]) -> None:
        """Remove the origins of all other signatures."""
        self._origins = {key: origin for key, origin in self._origins.items() if key[0] in signatures}

    def keys(self, inputs: Iterable[tuple[SignaturePlan, int]]) -> set[Key]:
        """The keys by which these inputs are probed, from whichever origin."""
        return {
            self.origin(plan, origin).tree.child_keys[place]
            for plan, place in inputs
            for origin in range(len(plan.signature))
            if origin != place and can_drive(plan.signature, origin)
        } - {()}

    def orders(self, inputs: Iterable[tuple[SignaturePlan, int]]) -> set[Expression]:
        """What these inputs are probed by ranges of, from whichever origin."""
        probes = (
            range_probe(plan.ranges, self.origin(plan, origin).tree, place)
            for plan, place in inputs
            for origin in range(len(plan.signature))
            if origin != place and can_drive(plan.signature, origin)
        )
        return {probe.key for probe in probes if probe is not None}

    def snapshot(self) -> dict[tuple[str, int], dict[str, Any]]:
        """Orders and counters, by signature and input."""
        return {
            key: {**origin.order.snapshot(), **{n: getattr(origin.counters, n) for n in _COUNTED}}
            for key, origin in self._origins.items()
        }
