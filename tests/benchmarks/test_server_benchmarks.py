"""The benchmarks of the server run, in small, and claim what they should."""

from __future__ import annotations

import pytest

from benchmarks.harness import Benchmark
from benchmarks.server import register, subscribers, webhooks

pytestmark = pytest.mark.thorough


def claims_of(script) -> dict[str, tuple[float, str]]:
    bench = Benchmark("server/small", seed=7, is_quick=True)
    script.run(bench)
    assert bench.rows
    return {claim.name: (claim.value, claim.bound) for claim in bench.claims}


def test_listeners_get_everything_once_in_small():
    found = claims_of(subscribers)
    assert {name: bound for name, (_, bound) in found.items()} == {
        "sse_subscribers": ">= 100",
        "sse_deliveries_per_s": ">= 1_000",
        "sse_results_lost": "= 0",
        "sse_results_twice_or_astray": "= 0",
        "sse_push_to_client_p99_ms": "reported",
    }
    assert found["sse_subscribers"][0] == 100
    assert found["sse_results_lost"][0] == found["sse_results_twice_or_astray"][0] == 0


def test_webhooks_are_told_once_and_the_cooldown_holds_in_small():
    assert claims_of(webhooks).keys() == {"event_to_webhook_p99_ms_in_process"}


def test_queries_are_registered_over_http_in_small():
    assert claims_of(register).keys() == {"register_http_at_100k_p99_ms", "register_http_at_100_p99_ms"}
