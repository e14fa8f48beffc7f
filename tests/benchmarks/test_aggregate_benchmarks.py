"""The benchmarks of aggregates run, in small, and what they compare with gives the same results."""

from __future__ import annotations

import pytest

from benchmarks.harness import Benchmark


@pytest.mark.spark
@pytest.mark.slow
def test_windowed_counts_beside_those_of_spark_in_small(spark):
    from benchmarks.aggregates import spark_streaming

    bench = Benchmark("aggregates/small", seed=17, is_quick=True)
    spark_streaming.run(bench)
    assert bench.rows
    assert "vs_spark_streaming_aggregate" in {claim.name for claim in bench.claims}
