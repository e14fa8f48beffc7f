"""No query makes every round slow: what a text costs grows with its size and no faster, counted in calls.

Twice the parts may cost twice as much. So between 4n and 2n parts lie twice as many calls as between 2n and n, whatever a round
costs besides.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pyarrow as pa
import pytest

import eddyline
from eddyline.expressions.frame import TakenArrays
from eddyline.model import Stream
from eddyline.sql import Shapes, lexer
from tests.nasty_texts import ROW, SCHEMA, many

pytestmark = pytest.mark.thorough

NOW_US = 1_767_225_600_000_000
SIZES = (25, 50, 100)
MOST = 2.5  # 2 is linear, 4 quadratic


def n_calls(do: Callable[[], Any]) -> int:
    """Calls of Python and of C while this runs."""
    n = 0

    def count(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal n
        n += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        do()
    finally:
        sys.setprofile(before)
    return n


def work(text: str, params: dict[str, Any] | None = None) -> dict[str, int]:
    """Calls of each step in the life of a query."""
    rows = [{**ROW, "a": k, "b": 2 * k, "x": k + 0.5} for k in range(5)]
    with eddyline.open(clock=lambda: NOW_US) as engine:
        engine.stream("s", SCHEMA)
        engine.stream("u", "a INT, c INT")
        engine.push("s", rows)
        found: dict[str, int] = {}
        found["register"] = n_calls(lambda: engine.query(text, name="q", params=params))
        query = engine.get("q")
        found["first push"] = n_calls(lambda: engine.push({"s": rows, "u": [(1, 1)]}))
        found["push"] = n_calls(lambda: engine.push({"s": rows, "u": [(2, 1)]}))
        found["explain"] = n_calls(lambda: str(query.explain()))
        found["index"] = n_calls(lambda: str(engine.explain_index()))
        found["why not"] = n_calls(lambda: str(query.why_not()))
        if "JOIN" not in text:
            found["why"] = n_calls(lambda: str(query.why(ROW)))
    return found


def assert_linear(text: Callable[[int], str], params: dict[str, Any] | None = None) -> None:
    work(text(SIZES[0]), params)  # imports, compiles and fills caches
    small, middle, large = (work(text(n), params) for n in SIZES)
    for step in large:
        low, high = middle[step] - small[step], large[step] - middle[step]
        assert high <= MOST * max(low, 200), f"{step}: {small[step]}, {middle[step]}, {large[step]} calls"


@pytest.mark.parametrize("form", many(2))
def test_each_step_of_a_condition_costs_calls_linear_in_its_parts(form):
    assert_linear(lambda n: f"SELECT a FROM s WHERE {many(n)[form]}")


@pytest.mark.parametrize("form", ["IN of expressions", "computed BETWEEN", "AND"])
def test_so_it_is_in_templates_and_over_joins(form):
    assert_linear(lambda n: f"SELECT a FROM s WHERE b > :low AND ({many(n)[form]})", {"low": -1})
    join = "SELECT s.t FROM recent(s, 100) s JOIN recent(u, 100) u ON s.a = u.a WHERE u.c > 0 AND "
    assert_linear(lambda n: join + f"({many(n)[form]})".replace("a +", "s.a +").replace("a !=", "s.a !="))


@pytest.mark.parametrize("form", ["a + {k} AS c{k}", "a + {k}", "concat(t, '{k}') AS c{k}"])
def test_so_do_many_columns_of_a_result(form):
    assert_linear(lambda n: f"SELECT {', '.join(form.format(k=k) for k in range(n))} FROM s WHERE a = 3")


def test_a_leaf_takes_the_constants_it_has_and_no_others(monkeypatch):
    taken: list[object] = []
    take = TakenArrays.__getitem__
    monkeypatch.setattr(TakenArrays, "__getitem__", lambda self, key: taken.append(key) or take(self, key))
    with eddyline.open(clock=lambda: NOW_US) as engine:
        engine.stream("s", SCHEMA)
        engine.query("SELECT a FROM s WHERE " + " OR ".join(f"a + b = {k + 9} + a" for k in range(200)))
        engine.push("s", [ROW])
    slots = [key for key in taken if isinstance(key, int)]
    assert (len(slots), len(set(slots))) == (200, 200)


def test_an_opening_without_an_end_is_one_token_however_many_follow():
    for opening in ("/*" + " /*" * 9_999, "'" + "\\'" * 9_999, "`" + "``" * 9_999):
        text = "SELECT a FROM s WHERE a = 1 AND " + opening
        assert sum(1 for _ in lexer._TOKEN.finditer(text)) < 20


def test_a_text_is_walked_twice_however_many_of_its_constants_decide_its_form():
    shapes = Shapes()
    streams = {"s": Stream("s", pa.schema([("a", pa.int32()), ("t", pa.string())]))}
    patterns = " OR ".join(f"t RLIKE 'a{k}.*'" for k in range(100))
    columns = ", ".join(f"a + {k}" for k in range(100))
    shapes.shape_of(f"SELECT {columns} FROM s WHERE {patterns}", streams)
    assert (shapes.bound, shapes.passes) == (1, 2)
