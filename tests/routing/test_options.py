"""What users write as `routing=`: read, and refused with what there is."""

from __future__ import annotations

import pytest

import eddyline
from eddyline.errors import PropertyError
from eddyline.routing import RoutingOptions, routing_options


def test_a_name_is_a_policy_and_a_mapping_has_options():
    assert routing_options("sweep") == RoutingOptions("sweep")
    assert routing_options({}) == RoutingOptions()
    assert routing_options({"cost_mode": "declared", "profile_rate": 1}, is_strict=True) == RoutingOptions(
        is_strict=True, profile_rate=1.0, cost_mode="declared"
    )


@pytest.mark.parametrize(
    ("given", "problem", "hint"),
    [
        ("a_gredy", "there is no routing policy 'a_gredy'", "Did you mean a_greedy?"),
        ({"policy": "greed"}, "there is no routing policy 'greed'", "Did you mean a_greedy?"),
        (
            {"cost_mode": "clock"},
            "there is no cost_mode 'clock'",
            "Known: declared, measured.",
        ),
        (
            {"costmode": "declared"},
            "there is no option of routing 'costmode'",
            "Did you mean cost_mode?",
        ),
        ({"profile_rate": 5}, "profile_rate is 5", "Give a share of rows from 0 to 1, such as 0.01."),
        ({"profile_rate": True}, "profile_rate is True", "Give a share of rows from 0 to 1, such as 0.01."),
        (
            ["a_greedy"],
            "routing is ['a_greedy']",
            'Name a policy, such as "a_greedy", or give a mapping: {"policy": "a_greedy", "cost_mode": "declared"}.',
        ),
    ],
)
def test_what_cannot_be_meant_is_refused_with_what_there_is(given, problem, hint):
    with pytest.raises(PropertyError) as refused:
        eddyline.open(routing=given)
    assert (refused.value.problem, refused.value.hint) == (problem, hint)
