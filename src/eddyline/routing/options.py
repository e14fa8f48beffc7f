"""What users may choose of routing: a policy, and what its paper leaves open.

    option      symbol         meaning                                                                        from
    window      W              sampled rows that a policy judges by; of `sweep`, of a stage                   Babu and others
    sample      p              share of rows that is sampled, whatever happens                                Babu and others
    slack       alpha          how much worse a filter may be than a later one before that takes its place    Babu and others
    memory      (none: [R])    share of its tickets that a filter has left after a thousand sampled rows      Madden and others
    cost_mode   t              what counts: the seconds that filters took (measured), or that functions declare (declared)

With declared costs no clock decides anything: the same rows in the same rounds are routed in the same way by every run.

Enters: a name, or a name with options, as users write them. Leaves: `RoutingOptions`, or an error that names what a policy has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from eddyline.errors import PropertyError, did_you_mean
from eddyline.routing.a_greedy import MIN_FILL

AUTO = "auto"
MEASURED, DECLARED = COST_MODES = ("measured", "declared")
_BY_ORDER = ("a_greedy", "sweep", "independent", "local_swaps")  # watch which filters drop rows too late
_BY_TREE = ("shared_greedy", "greedy_variant", "fixed_greedy", "phased")
_SAMPLING = (AUTO, *_BY_ORDER, *_BY_TREE, "tickets")
POLICY_NAMES = (*_SAMPLING, "fixed", "random")


@dataclass(frozen=True, slots=True)
class RoutingOption:
    """An option, the values it may have, and the policies that have it."""

    name: str
    least: float
    most: float
    policies: tuple[str, ...]
    is_whole: bool = False

    def check(self, value: object) -> None:
        kind = int if self.is_whole else (int, float)
        is_number = isinstance(value, kind) and not isinstance(value, bool)
        if not is_number or not self.least <= value <= self.most:  # type: ignore[operator]
            what = "a whole number" if self.is_whole else "a number"
            raise PropertyError(
                f"{self.name} of routing is {value!r}",
                hint=f"Give {what} from {self.least:,g} to {self.most:,g}.",
            )


OPTIONS = {
    each.name: each
    for each in (
        RoutingOption("window", 50, 100_000, (AUTO, *_BY_ORDER, *_BY_TREE), is_whole=True),
        RoutingOption("sample", 0.0001, 1.0, _SAMPLING),
        RoutingOption("slack", 0.1, 1.0, (AUTO, *_BY_ORDER)),
        RoutingOption("memory", 0.01, 1.0, ("tickets",)),
    )
}


@dataclass(frozen=True, slots=True)
class RoutingOptions:
    """How expensive filters, and probes of joins, are ordered. What is None is the policy's own.

    `profile_rate` fixes the share of rows that is sampled. Groups of fewer rows than `small_group` go level by level.
    """

    policy: str = AUTO
    is_strict: bool = False  # in the order of the text, and an error ends a pair
    profile_rate: float | None = None
    small_group: int = 64
    window: int | None = None
    slack: float | None = None
    memory: float | None = None
    cost_mode: str = MEASURED

    @property
    def given(self) -> dict[str, float | str]:
        """The options that are set, by the names users know."""
        named = {
            "window": self.window,
            "sample": self.profile_rate,
            "slack": self.slack,
            "memory": self.memory,
            "cost_mode": None if self.cost_mode == MEASURED else self.cost_mode,
        }
        return {name: value for name, value in named.items() if value is not None}

    def settings(self, policy: str) -> dict[str, Any]:
        """The arguments of a policy; of those that compete, each has what it knows."""
        found: dict[str, Any] = {}
        if self.window is not None and policy in OPTIONS["window"].policies:
            found["stage_rows" if policy == "sweep" else "window_rows"] = self.window
            if policy in ("a_greedy", "independent"):
                found["min_fill"] = min(MIN_FILL, self.window)
        if self.slack is not None and policy in OPTIONS["slack"].policies:
            found["slack"] = self.slack
        if self.memory is not None and policy in OPTIONS["memory"].policies:
            found["decay"] = self.memory
        return found


ADAPTIVE = RoutingOptions()


def routing_options(routing: object, *, is_strict: bool = False) -> RoutingOptions:
    """Options as users write them: "sweep", or {"policy": "sweep", "window": 200}. Raises PropertyError."""
    if not isinstance(routing, str | Mapping):
        raise PropertyError(
            f"routing is {routing!r}",
            hint='Name a policy, such as "auto", or give options too: {"policy": "a_greedy", "window": 500}.',
        )
    given: dict[str, Any] = {"policy": routing} if isinstance(routing, str) else dict(routing)
    policy = given.pop("policy", AUTO)
    if not isinstance(policy, str) or policy not in POLICY_NAMES:
        raise PropertyError(
            f"there is no routing policy {policy!r}",
            hint=did_you_mean(str(policy), POLICY_NAMES, noun="routing policy"),
        )
    for name, value in given.items():
        _check(policy, name, value)
    return RoutingOptions(
        policy,
        is_strict=is_strict,
        profile_rate=given.get("sample"),
        window=given.get("window"),
        slack=given.get("slack"),
        memory=given.get("memory"),
        cost_mode=given.get("cost_mode", MEASURED),
    )


def _check(policy: str, name: str, value: object) -> None:
    if name == "cost_mode":
        if value not in COST_MODES:
            raise PropertyError(
                f"cost_mode of routing is {value!r}", hint=f"Give one of {', '.join(COST_MODES)}."
            )
        return
    option = OPTIONS.get(name)
    if option is None or policy not in option.policies:
        own = [*(each.name for each in OPTIONS.values() if policy in each.policies), "cost_mode"]
        elsewhere = "" if option is None else f" It is an option of {', '.join(option.policies)}."
        raise PropertyError(
            f"routing policy {policy} has no option {name}",
            detail=f"It has {', '.join(own)}.",
            hint=(
                did_you_mean(name, [*OPTIONS, "cost_mode"], noun="option")
                if option is None
                else elsewhere.strip()
            ),
        )
    option.check(value)
