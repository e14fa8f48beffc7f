"""The sets of the filter benchmarks are what they say, and everybody who answers them gives the same."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.filters import _workloads as workloads
from benchmarks.filters._contenders import DuckDb, Polars, Standing, numpy_loop, numpy_pairs
from benchmarks.filters.churn import Believed

SEED = 7
ALL = {**workloads.SETS, "all_match": workloads.all_match}


def test_a_query_is_told_as_text_as_template_and_as_ends():
    queries = workloads.Queries(
        (
            workloads._equal("sym", np.array([3], np.int32)),
            workloads._one_sided("a", np.array([workloads.LESS], np.int8), np.array([20], np.int32)),
            workloads._two_sided("v", np.array([True]), np.array([0.25]), np.array([0.5])),
        )
    )
    assert queries.text(0) == "SELECT * FROM ticks WHERE sym = 'S0003' AND a < 20 AND v BETWEEN 0.25 AND 0.75"
    ((template, parameters, numbers),) = queries.templates()
    assert template == "SELECT * FROM ticks WHERE sym = :sym AND a < :a AND v BETWEEN :v_low AND :v_high"
    assert parameters.to_pylist() == [{"sym": "S0003", "a": 20, "v_low": 0.25, "v_high": 0.75}]
    assert numbers.tolist() == [0]
    least = np.iinfo(np.int32).min
    assert queries.table().to_pylist() == [
        {"id": 0, "sym": "S0003", "a_low": least, "a_high": 19, "v_low": 0.25, "v_high": 0.75}
    ]


def test_cells_are_judged_with_null_satisfying_nothing_but_the_absence_of_a_question():
    operators = np.array([workloads.NONE, workloads.LESS, workloads.AT_LEAST], np.int8)
    queries = workloads.Queries((workloads._one_sided("a", operators, np.array([5, 5, 5], np.int32)),))
    rows = pa.record_batch({"a": pa.array([4, 5, None], pa.int32())})
    assert queries.satisfied_by(rows).tolist() == [
        [True, True, False],
        [True, False, True],
        [True, False, False],
    ]


@pytest.mark.parametrize(
    ("made", "n", "at_least", "at_most"),
    [
        (workloads.dense_int, 4_000, 0.22 * 4_000, 0.25 * 4_000),
        (workloads.dense_float, 4_000, 0.22 * 4_000, 0.25 * 4_000),
        (workloads.ranges, 10_000, 9, 11),
        (workloads.keyed, 100_000, 1.8, 2.2),
        (workloads.symbols, 100_000, 1.8, 2.2),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_set_has_the_matches_per_row_it_promises(made, n, at_least, at_most):
    workload = made(n, SEED)
    rows = workload.rows(300)
    n_pairs = sum(int(workload.queries.satisfied_by(rows.slice(k, 20)).sum()) for k in range(0, 300, 20))
    assert at_least <= n_pairs / 300 <= at_most


@pytest.mark.parametrize("name", ALL)
def test_a_set_is_made_from_its_seed_alone(name):
    one, same, other = ALL[name](50, SEED), ALL[name](50, SEED), ALL[name](50, SEED + 1)
    assert one.rows(10, at=3) == same.rows(10, at=3) != one.rows(10, at=4)
    assert [one.queries.text(k) for k in range(50)] == [same.queries.text(k) for k in range(50)]
    assert one.rows(10) != other.rows(10)


@pytest.mark.parametrize("name", ALL)
def test_all_contenders_find_the_same_pairs(name, monkeypatch):
    monkeypatch.setenv("POLARS_MAX_THREADS", "1")
    workload = ALL[name](40, SEED)
    batches = workload.batches(2, n_rows=150)
    standing = Standing(workload)
    standing.judge(batches[0], n_rows=150)
    n_expected = sum(int(workload.queries.satisfied_by(rows).sum()) for rows in batches)
    answers = {
        "engine": standing.pushes(batches),
        "kernel": standing.probes(batches),
        "numpy": numpy_loop(workload.queries, batches),
        "numpy pairs": numpy_pairs(workload.queries, batches),
    }
    if name != "mixed":
        for kind in (DuckDb, Polars):
            peer = kind(workload.queries, batches[0], has_nulls=workload.has_nulls)
            answers |= {f"{kind.__name__} {form}": peer.joins(batches, form) for form in peer.forms}
    standing.stage.check()
    assert {who: answer() for who, answer in answers.items()} == dict.fromkeys(answers, n_expected)
    standing.close()


def test_the_judge_of_churn_counts_missing_and_superfluous_and_repeated_pairs():
    queries = workloads.all_match(3, SEED).queries
    believed = Believed(queries, np.array([11, 12, 13], np.int32), np.array([True, True, False]))
    rows = workloads.all_match(3, SEED).rows(2)

    def differences(offsets: list[int], ids: list[int]) -> int:
        return believed.differences(rows, np.array(offsets), np.array(ids, np.int32))

    assert differences([0, 2, 4], [12, 11, 11, 12]) == 0
    assert differences([0, 2, 3], [12, 11, 11]) == 1
    assert differences([0, 3, 5], [12, 11, 13, 11, 12]) == 1
    assert differences([0, 3, 5], [12, 11, 11, 11, 12]) == 1
