"""The options of `routing=` as users write them, read and checked.

    option         paper   meaning
    policy                 who orders expensive filters
    cost_mode              whose t_k count: the seconds that filters took (measured), or those that functions declare (declared)
    profile_rate   p       the share of rows that is sampled; where it is not given, it follows what happens

With declared costs no clock decides anything: the same rows in the same rounds are routed in the same way by every run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eddyline.errors import PropertyError, did_you_mean
from eddyline.routing.router import AUTO, COST_MODES, MEASURED, POLICIES, RoutingOptions

OPTION_NAMES = ("policy", "cost_mode", "profile_rate")


def routing_options(routing: str | Mapping[str, Any], *, is_strict: bool = False) -> RoutingOptions:
    """What was asked for by the name of a policy, or by a mapping of options."""
    given = {"policy": routing} if isinstance(routing, str) else routing
    if not isinstance(given, Mapping):
        raise PropertyError(
            f"routing is {routing!r}",
            hint='Name a policy, such as "a_greedy", or give a mapping: {"policy": "a_greedy", "cost_mode": "declared"}.',
        )
    for name in given:
        _check_known(name, OPTION_NAMES, "option of routing")
    policy, cost_mode = given.get("policy", AUTO), given.get("cost_mode", MEASURED)
    _check_known(policy, (AUTO, *POLICIES), "routing policy")
    _check_known(cost_mode, COST_MODES, "cost_mode")
    return RoutingOptions(policy, is_strict, _share(given.get("profile_rate")), cost_mode=cost_mode)


def _check_known(name: Any, known: tuple[str, ...], noun: str) -> None:
    if name not in known:
        raise PropertyError(f"there is no {noun} {name!r}", hint=did_you_mean(str(name), known, noun=noun))


def _share(given: Any) -> float | None:
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given <= 1:
        raise PropertyError(
            f"profile_rate is {given!r}", hint="Give a share of rows from 0 to 1, such as 0.01."
        )
    return float(given)
