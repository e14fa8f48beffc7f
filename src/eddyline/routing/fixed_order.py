"""The order that was given, for ever."""

from __future__ import annotations

from eddyline.routing.in_order import InOrder
from eddyline.routing.policy import OrderChange, Profile, Statistics


class FixedOrder(InOrder):
    """Never changes its order. What others are compared with, and what `strict` mode runs."""

    name = "fixed"

    def learn(self, profile: Profile, statistics: Statistics) -> list[OrderChange]:
        self.statistics = statistics
        return []
