"""Functions that are arguments, from the text to a home and back."""

from __future__ import annotations

from pathlib import Path

import pytest

import eddyline
from eddyline.errors import TypeMismatchError, UnsupportedError

DECLARED = """
    CREATE TABLE events (id INT, k INT, tags ARRAY<STRING>, n ARRAY<INT>);
    CREATE TABLE kinds (k INT PRIMARY KEY, words ARRAY<STRING>)
"""


def test_a_query_with_a_function_goes_on_when_its_home_is_opened_again(tmp_path: Path) -> None:
    with eddyline.open(tmp_path / "home") as engine:
        engine.sql(DECLARED)
        for tag in ("red", "blue"):
            engine.query(f"SELECT id FROM events WHERE exists(tags, t -> t = '{tag}')", name=tag)
        engine.query(
            "SELECT e.id, transform(w.words, (x, i) -> x || e.tags[i]) AS y FROM events e JOIN kinds w "
            "ON e.k = w.k AND exists(e.tags, t -> exists(w.words, u -> u = t))",
            name="joined",
        )
        engine.push("kinds", [(1, ["red", "x"])])
        engine.push("events", [(1, 1, ["red", "y"], [1])])
    with eddyline.open(tmp_path / "home") as engine:
        engine.push("events", [(2, 1, ["red", "blue"], [2]), (3, 1, ["no"], [3])])
        assert [r["id"] for r in engine.get("red").latest(9)] == [1, 2]
        assert [r["id"] for r in engine.get("blue").latest(9)] == [2]
        joined = engine.get("joined").latest(9)
        assert [r["y"] for r in joined] == [["redred", "xy"], ["redred", "xblue"]]
        assert "exists(tags, t -> t = 'red')" in str(engine.get("red").explain())
        row = {"id": 9, "k": 1, "tags": ["red"], "n": None}
        assert str(engine.get("red").why(row)).startswith("the row matches red")


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("exists(id, x -> x = 1)", "exists takes an ARRAY, found INT"),
        ("exists(n, x -> x)", "exists needs a condition, found INT"),
        ("exists(n, (x, i) -> true)", "the function of exists is written x -> …"),
        ("exists(n, 5)", "exists takes a function as its second argument"),
        ("exists(x -> x, n)", "exists takes an array and a function"),
        ("size(transform(n, (x, X) -> 1)) > 1", "the function of transform is written x -> … or (x, i) -> …"),
    ],
)
def test_a_function_that_does_not_fit_is_refused(expression: str, problem: str) -> None:
    engine = eddyline.open()
    engine.sql(DECLARED)
    with pytest.raises(TypeMismatchError) as refused:
        engine.query(f"SELECT id FROM events WHERE {expression}")
    assert refused.value.problem == problem


def test_other_functions_of_functions_are_refused_by_name_with_a_way_out() -> None:
    engine = eddyline.open()
    engine.sql(DECLARED)
    with pytest.raises(UnsupportedError) as refused:
        engine.query("SELECT aggregate(n, 0, (a, x) -> a + x) AS y FROM events")
    assert refused.value.problem == "aggregate of a function is not supported"

    @eddyline.udf(returns="int", scalar=True)
    def total(n: list[int]) -> int:
        return sum(n)

    query = engine.query("SELECT total(n) AS y FROM events WHERE size(n) > 1")
    engine.push("events", [(1, 1, [], [1, 2, 3])])
    assert query.results() == [{"y": 6}]
    with pytest.raises(UnsupportedError) as refused:
        engine.query("SELECT transform(n, x -> total(n)) AS y FROM events")
    assert refused.value.problem == "total cannot be called for each element of an array"


def test_elements_that_would_take_all_memory_are_the_error_of_their_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("eddyline.expressions.frame.MADE_AT_ONCE", 1 << 16)
    monkeypatch.setattr("eddyline.expressions.lowerings.lambdas.MADE_AT_ONCE", 1 << 16)
    engine = eddyline.open()
    engine.sql(DECLARED)
    texts = {
        "long texts": "SELECT id FROM events WHERE exists(transform(n, x -> repeat('a', 900 * x)), y -> y = 'b')",
        "nested": "SELECT id FROM events WHERE exists(n, x -> exists(n, y -> exists(n, z -> x + y + z < 0)))",
        "copies": "SELECT id FROM events WHERE exists(n, x -> array_contains(n, -x))",
    }
    queries = {name: engine.query(text, name=name) for name, text in texts.items()}
    engine.push("events", [(1, 1, [], list(range(1, 200))), (2, 1, [], [1, 2])] + [(3, 1, [], [1] * 6)] * 9)
    for name, query in queries.items():
        dead = [(d.arrival, d.error) for d in engine.dead_letters(query=query)]
        assert dead == [(1, "COLLECTION_SIZE_LIMIT_EXCEEDED.FUNCTION")], name
