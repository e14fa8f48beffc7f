"""The benchmarks of aggregates run, in small, and what they compare gives the same results."""

from __future__ import annotations

from benchmarks.aggregates import thresholds, windows
from benchmarks.harness import Benchmark


def claims_of(script) -> dict[str, float]:
    bench = Benchmark("aggregates/small", seed=7, is_quick=True)
    script.run(bench)
    assert bench.rows
    return {claim.name: claim.value for claim in bench.claims}


def test_ten_thousand_thresholds_in_small():
    assert "ten_thousand_thresholds_over_one" in claims_of(thresholds)


def test_a_thousand_windows_in_small():
    found = claims_of(windows)
    assert found["slices_touched_per_row"] == 1
    assert found["thousand_windows_over_one"] > 0
