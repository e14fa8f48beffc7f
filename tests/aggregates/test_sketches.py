"""approx_count_distinct: within its error of exact counts, and the same however its rows came together."""

from __future__ import annotations

import datetime
import itertools
import math
from collections import Counter
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import eddyline
from tests.on_workers import through_tasks

STREAM = (
    "CREATE TABLE s (k INT, v BIGINT, x DOUBLE, t STRING, d DECIMAL(10,2), ts TIMESTAMP)"
    " TBLPROPERTIES (time = 'ts', lateness = '1 day')"
)
SECOND = 1_000_000
COUNTS = "approx_count_distinct(v) AS n, count(DISTINCT v) AS exact"
FORMS = {
    "global": f"SELECT {COUNTS} FROM s",
    "groups": f"SELECT k, {COUNTS}, approx_count_distinct(t) AS texts, approx_count_distinct(v, 0.01) AS near FROM s GROUP BY k",
    "filter": "SELECT k, approx_count_distinct(v) FILTER (WHERE v % 2 = 0) AS n,"
    " count(DISTINCT v) FILTER (WHERE v % 2 = 0) AS exact FROM s GROUP BY k",
    "windows": f"SELECT k, window.start AS at, {COUNTS} FROM s GROUP BY k, window(ts, '1 minute')",
    "sliding": f"SELECT k, window.start AS at, {COUNTS} FROM s GROUP BY k, window(ts, '3 minutes', '10 seconds')",
    "sessions": f"SELECT k, session_window.start AS at, {COUNTS} FROM s GROUP BY k, session_window(ts, '2 seconds')",
}  # fmt: skip


def rows(n: int, seed: int = 7) -> pa.RecordBatch:
    """Of ten keys with 10, 20, 40, … 5,120 values each, over ten minutes in any order."""
    rng = np.random.default_rng(seed)
    k = rng.integers(0, 10, n)
    v = rng.integers(0, 10 * 2**k)
    return pa.record_batch(
        {
            "k": pa.array(k, pa.int32()),
            "v": pa.array(v),
            "x": pa.array(v / 8),
            "t": pa.array(v.astype(str)),
            "d": pa.nulls(n, pa.decimal128(10, 2)),
            "ts": pa.array(rng.integers(0, 600 * SECOND, n)).cast(pa.timestamp("us", "UTC")),
        }
    )


def standing(query: Any) -> list[tuple[Any, ...]]:
    """The rows that a query has after all changes, none of which takes away what it had not given."""
    found: Counter[tuple[Any, ...]] = Counter()
    for each in query.latest(1_000_000):
        row = tuple(each.values())
        found[row] += -1 if each.change in ("delete", "update_preimage") else 1
        assert found[row] in (0, 1), (each.change, row)
    return sorted(+found)


def pushed(engine: eddyline.Engine, text: str, parts: Iterable[pa.RecordBatch]) -> list[tuple[Any, ...]]:
    engine.sql(STREAM)
    query = engine.query(text, name="q")
    for part in parts:
        engine.push("s", part)
    return standing(query)


def cut(batch: pa.RecordBatch, n_parts: int) -> list[pa.RecordBatch]:
    ends = np.linspace(0, len(batch), n_parts + 1).astype(int)
    return [batch.slice(a, b - a) for a, b in itertools.pairwise(ends)]


@pytest.fixture(scope="module")
def answers() -> dict[str, list[tuple[Any, ...]]]:
    """Of all forms, over rows that come in one round."""
    found = {}
    for form, text in FORMS.items():
        with eddyline.open() as engine:
            found[form] = pushed(engine, text, [rows(6_000)])
    return found


@pytest.mark.parametrize("form", FORMS)
def test_estimates_are_within_their_error_of_exact_counts(form, answers):
    names = [part.strip().split(" AS ")[-1] for part in FORMS[form].split(" FROM ")[0].split(", ")]
    of = answers[form]
    n, exact = (np.array([row[names.index(name)] for row in of]) for name in ("n", "exact"))
    errors = np.abs(n - exact) / exact
    assert errors.max() < 4 * 0.05
    assert (errors[exact < 20] < 0.01).all(), "of few values the sketch has all hashes"
    assert form == "global" or np.sqrt((errors**2).mean()) < 0.05
    assert form == "sessions" or errors.any(), "these are estimates"


def test_a_smaller_error_can_be_asked_for(answers):
    for _, _, exact, _, near in answers["groups"]:
        assert near == pytest.approx(exact, rel=0.03)


@pytest.mark.parametrize("form", FORMS)
def test_answers_do_not_depend_on_rounds_and_no_change_takes_away_what_was_not_told(form, answers):
    with eddyline.open() as engine:
        assert pushed(engine, FORMS[form], cut(rows(6_000), 7)) == answers[form]


@pytest.mark.parametrize("form", FORMS)
def test_tasks_hand_on_sketches_that_merge_to_the_same(form, answers, tmp_path):
    with through_tasks(eddyline.open(tmp_path / "home")) as engine:
        assert pushed(engine, FORMS[form], cut(rows(6_000), 3)) == answers[form]


@pytest.mark.parametrize("form", FORMS)
def test_a_home_that_is_opened_again_goes_on_with_its_sketches(form, answers, tmp_path):
    first, *others = cut(rows(6_000), 3)
    with eddyline.open(tmp_path / "home") as engine:
        pushed(engine, FORMS[form], [first])
    for part in others:
        with eddyline.open(tmp_path / "home") as engine:
            engine.push("s", part)
    with eddyline.open(tmp_path / "home") as engine:
        assert standing(engine.get("q")) == answers[form]


@pytest.mark.parametrize("form", FORMS)
def test_queries_of_several_ages_see_their_own_rows_also_when_others_have_gone(form):
    parts = cut(rows(6_000), 6)

    def alone(first: int) -> list[tuple[Any, ...]]:
        with eddyline.open() as engine:
            return pushed(engine, FORMS[form], parts[first:])

    with eddyline.open() as engine:
        engine.sql(STREAM)
        for number, part in enumerate(parts):
            if number < 3:
                engine.query(FORMS[form], name=f"q{number}")
            if number == 4:
                engine.drop("q1")
            engine.push("s", part)
        assert [standing(engine.get(f"q{number}")) for number in (0, 2)] == [alone(0), alone(2)]


def test_windows_that_close_give_what_they_showed_while_they_were_open(answers):
    last = {"k": 0, "v": 0, "ts": datetime.datetime(1970, 1, 3, tzinfo=datetime.UTC)}
    with eddyline.open() as engine:
        engine.sql(STREAM)
        query = engine.query(FORMS["sliding"], name="q", emit="final")
        for part in cut(rows(6_000), 5):
            engine.push("s", part)
        engine.push("s", [last])
        assert sorted(tuple(each.values()) for each in query.results()) == answers["sliding"]


def test_equal_values_are_one_and_null_is_none():
    with eddyline.open() as engine:
        engine.sql(STREAM)
        query = engine.query(
            "SELECT approx_count_distinct(x) AS x, approx_count_distinct(t) AS t, approx_count_distinct(d) AS d,"
            " approx_count_distinct(v) AS v FROM s",
            name="q",
        )
        engine.push("s", [{"x": x} for x in (0.0, -0.0, math.nan, -math.nan, None, 1.5)])
        engine.push("s", [{"t": t} for t in ("", "a", "A", "a ", "", None)])
        engine.push("s", [{"d": d} for d in (Decimal("1.00"), Decimal("1"), Decimal("-1"), None)])
        assert query.latest(1) == [{"x": 3, "t": 4, "d": 2, "v": 0}]


def test_explain_says_what_is_approximate():
    with eddyline.open() as engine:
        engine.sql(STREAM)
        query = engine.query(
            "SELECT k, approx_count_distinct(v) AS n, count(*) AS c FROM s GROUP BY k HAVING approx_count_distinct(t, 0.01) > 5",
            name="q",
            keep="1 day",
        )
        explained = query.explain()
    lines = [line.strip() for line in str(explained).splitlines() if line.strip().startswith("estimate")]
    assert lines == [
        "estimate approx_count_distinct(t, 0.01) is approximate, with a relative standard deviation of 1 %",
        "estimate approx_count_distinct(v) is approximate, with a relative standard deviation of 5 %",
    ]
    assert explained.as_dict()["aggregates"][0]["estimates"][1] == {
        "name": "approx_count_distinct(v)",
        "relative_error": 0.05,
    }


def test_estimates_have_receipts_and_are_not_proven(tmp_path: Path, no_session):
    with eddyline.open(tmp_path / "home", audit="100 %") as engine:
        engine.sql(STREAM)
        query = engine.query(
            "SELECT k, approx_count_distinct(v) AS n FROM s GROUP BY k", name="q", keep="1 day"
        )
        engine.push("s", [{"k": 1, "v": v} for v in range(200)])
        engine.push("s", [{"k": 1, "v": v} for v in range(300)])
        *_, after = query.results()
        receipt = engine.receipt(after)
        assert receipt["group"]["keys"] == {"k": 1}
        assert (len(receipt["group"]["before"]["arrivals"]), len(receipt["rows"])) == (200, 500)
        with pytest.raises(eddyline.EddylineError) as refused:
            engine.prove(after)
        assert (
            refused.value.problem
            == "approx_count_distinct is an estimate, which every engine makes in its own way"
        )
        assert engine.finish_audit(60)
        audited = engine.audited()
        assert (audited.n_pairs, audited.n_differences) == (0, 0)
        assert audited.skipped == {refused.value.problem: 2}
