"""The benchmarks of aggregates run, in small, and what they compare with gives the same results."""

from __future__ import annotations

import pytest

from benchmarks.aggregates import absence, thresholds, velocity, windows
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


def test_silence_of_many_devices_in_small():
    found = claims_of(absence)
    assert found["visited_over_silent"] == 1
    assert found["visited_in_a_quiet_tick"] == 0


def test_velocity_rules_beside_duckdb_in_small():
    """Their counts are compared in each push."""
    assert claims_of(velocity)["over_vs_duckdb_per_batch"] > 0


@pytest.mark.spark
@pytest.mark.slow
def test_windowed_counts_beside_those_of_spark_in_small(spark):
    from benchmarks.aggregates import spark_streaming

    bench = Benchmark("aggregates/small", seed=17, is_quick=True)
    spark_streaming.run(bench)
    assert bench.rows
    assert "vs_spark_streaming_aggregate" in {claim.name for claim in bench.claims}
