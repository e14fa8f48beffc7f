"""A fault inside one expression costs its rows and queries only."""

from __future__ import annotations

import pyarrow as pa
import pytest

import eddyline
from eddyline.expressions import FUNCTIONS, Evaluation


@pytest.fixture
def faulty_abs(monkeypatch):
    """abs() with a bug of ours: it raises for the whole batch when it meets 13."""
    sound = FUNCTIONS["abs"]

    def lowering(arguments, call, frame) -> Evaluation:
        values = frame.array(arguments[0])
        if pa.scalar(13, values.type) in values:
            raise RuntimeError("thirteen")
        return sound.lowering(arguments, call, frame)

    entry = type(sound)(
        **{name: getattr(sound, name) for name in sound.__slots__ if name != "lowering"}, lowering=lowering
    )
    monkeypatch.setitem(FUNCTIONS, "abs", entry)


def test_a_row_that_breaks_an_expression_is_a_dead_letter_of_that_query_alone(faulty_abs):
    engine = eddyline.open()
    engine.stream("t", "a INT")
    broken = engine.query("SELECT a FROM t WHERE abs(a) > 5", name="broken")
    sound = engine.query("SELECT a FROM t WHERE a > 5", name="sound")
    matches = engine.push("t", {"a": [1, 7, 13, -9, 20]})
    assert [r["a"] for r in broken.results()] == [7, -9, 20]
    assert [r.arrival for r in broken.latest()] == [2, 4, 5]
    assert [r["a"] for r in sound.results()] == [7, 13, 20]
    assert matches.pairs()[0].tolist() == [0, 0, 2, 3, 4, 6]
    (letter,) = engine.dead_letters()
    assert (letter.query, letter.row, letter.error) == ("broken", {"a": 13}, "INTERNAL_ERROR")
    assert letter.message == "eddyline could not decide this row: RuntimeError: thirteen"
