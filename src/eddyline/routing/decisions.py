"""What a router decided and why, for its history, for events and for explain; filters by number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from eddyline.routing.auto import Switch
from eddyline.routing.learner import Learner
from eddyline.routing.policy import OrderChange
from eddyline.statistics import Drift


@dataclass(frozen=True)
class Decision:
    """A line of the router's history."""

    round_number: int
    kind: str  # reordered, switched, drifted, joined
    policy: str
    order: tuple[int, ...]
    why: dict[str, Any]

    @classmethod
    def of(cls, policy: Learner, round_number: int, kind: str, why: dict[str, Any]) -> Decision:
        """What a policy decides from now on."""
        return cls(round_number, kind, policy.name, policy.current_order, why)

    def with_numbers(self, new_of: Mapping[int, int]) -> Decision | None:
        """The same with filters by other numbers; None if it is about one that has none."""
        named = {word: k for word, k in self.why.items() if word in ("filter", "came", "left")}
        if not all(k in new_of for k in named.values()):
            return None
        why = {**self.why, **{word: new_of[k] for word, k in named.items()}}
        if isinstance(why.get("before"), list):
            why["before"] = [new_of[k] for k in why["before"] if k in new_of]
        order = tuple(new_of[k] for k in self.order if k in new_of)
        return Decision(self.round_number, self.kind, self.policy, order, why)

    def document(self) -> dict[str, Any]:
        """Ready for JSON."""
        named = {
            "round": self.round_number,
            "kind": self.kind,
            "policy": self.policy,
            "order": list(self.order),
        }
        return named | self.why


def why_drifted(drift: Drift) -> dict[str, Any]:
    return {"filter": drift.filter, "what": drift.what, "before": drift.before, "after": drift.after}


def why_switched(switch: Switch) -> dict[str, Any]:
    return {
        "before": switch.before,
        "after": switch.after,
        "before_s": switch.before_s,
        "after_s": switch.after_s,
    }


def why_reordered(change: OrderChange) -> dict[str, Any]:
    return {
        "at": change.at,
        "came": change.entering_filter,
        "left": change.displaced_filter,
        "ratio_came": change.entering_ratio,
        "ratio_left": change.displaced_ratio,
        "before": list(change.before),
    }
