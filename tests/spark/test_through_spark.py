"""What is tested by pushing holds on Spark too: scripts, worked examples, random queries judged by DuckDB, all in one session."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

from eddyline.scripts import run_file
from eddyline.spark.jobs import spark_runner
from tests import test_oracle_duckdb, test_vectors_shared_eddies
from tests.aggregates.scripts import VECTORS, ScriptRun, script_differences
from tests.on_workers import opener
from tests.test_oracle_duckdb import lives
from tests.test_streams import SCRIPTS, functions_of_the_scripts  # noqa: F401
from tests.test_vectors_shared_eddies import cases


@pytest.fixture
def open_on_spark(spark, tmp_path):
    return opener(tmp_path, spark_runner(spark), n_pieces=2, keeps_numbers=False)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_script(path, spark, tmp_path):
    differences = run_file(path, opener(tmp_path, spark_runner(spark), n_pieces=2))
    assert not differences, "\n".join(map(str, differences))


@pytest.mark.vectors
@pytest.mark.parametrize("case", cases("filter_cases") + cases("boolean_cases"))
def test_selections_accept_exactly_their_tuples(case, open_on_spark, monkeypatch):
    monkeypatch.setattr(
        test_vectors_shared_eddies, "open_engine", lambda: open_on_spark(results_per_query=1_000_000)
    )
    test_vectors_shared_eddies.test_selections_accept_exactly_their_tuples(case, 0)


# of the worked examples of aggregates, a few of every form; the others go through tasks in process (test_aggregate_homes.py)
AGGREGATES = (
    "sliding", "final_at_the_watermark", "two_windows_one_class", "session_merge", "session_final", "running_having", "keep",
    "first_and_last", "min_by_max_by", "functions_doubles", "overflow", "error_in_an_argument", "temporal_having", "absence",
    "over_out_of_order", "young_window", "drop_and_add_again", "view_over_to_window",
)  # fmt: skip


@pytest.mark.vectors
@pytest.mark.parametrize("name", AGGREGATES)
def test_aggregates_tell_what_the_vectors_say(name, open_on_spark):
    (case,) = (case for case in VECTORS["cases"] if case["name"] == name)
    assert script_differences(case, run=ScriptRun(case, open_on_spark)) == []


@given(lives())
@settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_query_is_told_what_duckdb_finds_in_the_rows_it_could_see(open_on_spark, monkeypatch, life):
    def open_engine():
        return open_on_spark(results_per_query=1_000_000, clock=lambda: 1_767_225_600_000_000)

    monkeypatch.setattr(test_oracle_duckdb, "open_engine", open_engine)
    test_oracle_duckdb.test_every_query_is_told_what_duckdb_finds_in_the_rows_it_could_see.hypothesis.inner_test(
        life
    )
