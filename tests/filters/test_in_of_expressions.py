"""IN and NOT IN of expressions are kept whole, and decide as the comparisons they stand for: NULL and errors, too."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import eddyline

VALUES = ["a", "b", "1", "1 / b", "a % b", "CAST(t AS INT)", "nullif(a, b)", "nullif(3, 3)", ":p"]
OPTIONS = st.lists(st.sampled_from([*VALUES, "1 % 0"]), min_size=2, max_size=4)
ROWS = [
    {"a": a, "b": b, "t": t} for a in (None, 0, 1, 2) for b in (None, 0, 1) for t in (None, "1", "no number")
]


def decided(*conditions: str, params: dict[str, Any] | None = None) -> list[list[str]]:
    """What becomes of each row, for each condition."""
    with eddyline.open() as engine:
        engine.stream("s", "n INT, a INT, b INT, t STRING")
        queries = [engine.query(f"SELECT n FROM s WHERE {each}", params=params) for each in conditions]
        engine.push("s", [{"n": n, **row} for n, row in enumerate(ROWS)])
        found = {query.name: ["no"] * len(ROWS) for query in queries}
        for query in queries:
            for result in query.results():
                found[query.name][result["n"]] = "matches"
        for letter in engine.dead_letters():
            found[letter.query][letter.row["n"]] = "error"
        whys = [queries[0].why(row) for row in ROWS]
        assert found[queries[0].name] == ["matches" if w else "error" if w.error else "no" for w in whys]
        return list(found.values())


@pytest.mark.parametrize(
    ("condition", "verdict"),
    [
        ("a IN (1 / b, a)", "matches"),
        ("a IN (1 / b, b)", "error"),
        ("a NOT IN (1 / b, a)", "no"),
        ("a NOT IN (1 / b, b)", "error"),
        ("a NOT IN (1 / b, nullif(a, 1))", "no"),
        ("1 / b NOT IN (a, nullif(3, 3))", "no"),  # a constant is asked for first
        ("1 / b NOT IN (a, nullif(a, 1))", "error"),
        ("1 / b != nullif(3, 3)", "no"),
    ],
)
def test_an_option_that_is_equal_or_null_decides_whatever_becomes_of_the_others(condition, verdict):
    (found,) = decided(condition)
    assert found[ROWS.index({"a": 1, "b": 0, "t": "no number"})] == verdict


@pytest.mark.thorough
@settings(max_examples=30)
@given(st.sampled_from(VALUES), OPTIONS, st.booleans(), st.sampled_from([None, 1]))
def test_they_decide_as_their_comparisons_do(
    value: str, options: list[str], is_negated: bool, parameter: int | None
) -> None:
    word, test, joint = ("NOT IN", "!=", " AND ") if is_negated else ("IN", "=", " OR ")
    whole = f"{value} {word} ({', '.join(options)})"
    params = {"p": parameter} if ":p" in whole else None
    apart = joint.join(f"{value} {test} {option}" for option in options)
    together, one_by_one = decided(whole, apart, params=params)
    assert together == one_by_one
