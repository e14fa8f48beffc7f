"""Calls of functions that are not deterministic are replaced by what they gave: where they stand, and nowhere else."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from eddyline.errors import ProofError
from eddyline.proof import Claim, FunctionVersion, JudgeStopped, RecordedValue, claim_difference
from eddyline.proof.duckdb import DuckDbJudge
from eddyline.proof.recorded_values import calls_in, replayed_claim

INT = pa.int32()


def claim(text: str, *values: object, params=None, functions=("draw",), t: pa.DataType = INT) -> Claim:
    """One row, a = 5, and what the calls of a text gave, in order."""
    rows = pa.table({"a": pa.array([5], INT)})
    one = np.array([1], np.int64)
    recorded = tuple(RecordedValue("draw", "1", k, t, value) for k, value in enumerate(values, 1))
    versions = tuple(FunctionVersion(name, "1", is_deterministic=False) for name in functions)
    return Claim(text, params or {}, "s", rows, one, 0, "UTC", versions, one, rows, recorded)


def run(text: str, *values: object, **options) -> str:
    return replayed_claim(claim(text, *values, **options))[0].text


@pytest.mark.parametrize(
    ("text", "n_values", "as_run"),
    [
        ("SELECT draw(a) FROM s", 1, "SELECT :recorded_1 FROM s"),
        ("SELECT DRAW(a) AS draw FROM s WHERE Draw ( a ) > 3", 2, "SELECT :recorded_1 AS draw FROM s WHERE :recorded_2 > 3"),
        ("SELECT `draw`(a), draw() FROM s", 2, "SELECT :recorded_1, :recorded_2 FROM s"),
        ("SELECT 'draw(a)', draw(')') FROM s", 1, "SELECT 'draw(a)', :recorded_1 FROM s"),
        ("SELECT a /* draw(a) */, draw/* ( */(a -- )\n) FROM s -- draw(a)", 1,
         "SELECT a /* draw(a) */, :recorded_1 FROM s -- draw(a)"),
        ("SELECT draw(draw(a) + abs(draw(1))) + draw(2) FROM s", 4, "SELECT :recorded_1 + :recorded_4 FROM s"),
        ("SELECT abs(draw((a))) FROM s WHERE -draw(a)<1 AND(draw(a)IN(1,2))", 3,
         "SELECT abs(:recorded_1) FROM s WHERE -:recorded_2<1 AND(:recorded_3 IN(1,2))"),
        ("SELECT redraw(a), draws(a), draw FROM s WHERE draw(a) > draw", 1,
         "SELECT redraw(a), draws(a), draw FROM s WHERE :recorded_1 > draw"),
        ("SELECT draw(:x) FROM s", 1, "SELECT :recorded_1 FROM s"),
    ],
    ids=["plain", "any case", "backquotes", "strings", "comments", "nested", "tight", "other names", "parameters"],
)  # fmt: skip
def test_calls_are_replaced_where_they_stand(text, n_values, as_run):
    assert run(text, *range(n_values), params={"x": (INT, 1)}) == as_run


def test_values_become_parameters_of_the_type_the_function_returns():
    asked, notes = replayed_claim(claim("SELECT draw(a) FROM s WHERE draw(a) > 3", 4, None))
    assert asked.params == {"recorded_1": (INT, 4), "recorded_2": (INT, None)}
    assert asked.functions == asked.recorded_values == ()
    assert notes == (
        "Recorded values stand for calls of functions that are not deterministic: "
        "draw gave 4 (:recorded_1), draw gave null (:recorded_2).",
    )


def test_a_parameter_of_the_user_keeps_its_name():
    asked, _ = replayed_claim(
        claim("SELECT draw(a) FROM s WHERE a > :recorded_1", 4, params={"recorded_1": (INT, 9)})
    )
    assert asked.text == "SELECT :recorded_1_ FROM s WHERE a > :recorded_1"
    assert asked.params == {"recorded_1": (INT, 9), "recorded_1_": (INT, 4)}


def test_a_long_value_is_shown_in_part():
    _, (note,) = replayed_claim(claim("SELECT draw(a) FROM s", "x" * 500, t=pa.string()))
    assert len(note) < 200
    assert "xxx… (:recorded_1)" in note


def test_a_claim_without_such_functions_is_left_alone():
    mine = claim("SELECT draw(a) FROM s", functions=())
    assert replayed_claim(mine) == (mine, ())


def test_calls_know_where_they_end_and_which_are_inside_of_others():
    found = calls_in("SELECT f(g(1), f(2)) FROM s", ["F", "g"])
    assert [(call.function, call.start, call.end, call.is_inner) for call in found] == [
        ("f", 7, 20, False), ("g", 9, 13, True), ("f", 15, 19, True),
    ]  # fmt: skip
    assert [call.end for call in calls_in("SELECT f(1", ["f"])] == [10]


def test_what_is_not_known_is_refused_with_the_reason():
    with pytest.raises(
        ProofError, match="function draw is not deterministic, so it cannot be asked"
    ) as older:
        replayed_claim(claim("SELECT draw(a) FROM s"))
    assert "an earlier version" in older.value.detail
    with pytest.raises(ProofError, match="it is not known what every call") as fewer:
        replayed_claim(claim("SELECT draw(a) FROM s WHERE true OR draw(a) > 1", 1))
    assert fewer.value.detail == "The text calls draw, draw; stored with the round is what these gave: draw."
    with pytest.raises(ProofError, match="it is not known what every call"):
        replayed_claim(claim("SELECT draw(a), cast(a AS INT) FROM s", 1, 2))


def test_duckdb_judges_with_what_was_recorded():
    judge = DuckDbJudge()
    try:
        mine = claim("SELECT draw(a) AS a FROM s WHERE draw(a) BETWEEN 3 AND 4 OR draw(a) = 9", 5, 3, None)
        found = judge.finding(mine)
        assert not claim_difference(mine, found).n_differences
        assert found.notes[0].startswith("Recorded values stand for calls")
        other = claim("SELECT draw(a) AS a FROM s WHERE draw(a) BETWEEN 3 AND 4 OR draw(a) = 9", 5, 2, None)
        assert claim_difference(other, judge.finding(other)).unexpected == (1,)
        with pytest.raises(ProofError, match="DuckDB does not judge"):
            judge.finding(claim("SELECT draw(a) AS a FROM s", b"x", t=pa.binary()))
        overflow = claim("SELECT draw(a) + 2147483647 AS a FROM s", 5)
        with pytest.raises(JudgeStopped):
            judge.finding(overflow)
    finally:
        judge.close()
