"""What functions gave on rows that joins keep is not asked again, whoever asked first and whatever they meet."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest

import eddyline
from eddyline.api.engine import Engine
from eddyline.engine import Limits, MemoryStore, RoundEngine
from eddyline.model import ExecutionChoices

TEXT = (
    "SELECT s.sym, a.n FROM recent(stocks, 1000) s JOIN recent(articles, 1000) a ON s.sym = a.sym "
    "WHERE dear(s.price) > 50"
)


@pytest.fixture
def seen() -> Counter[float]:
    """How often each price was shown to the function."""
    return Counter()


@pytest.fixture
def engine(seen: Counter[float]) -> eddyline.Engine:
    """What functions and probes cost is measured by a clock that the function alone moves: by a millisecond a row."""

    @eddyline.udf(returns="double", takes=("double",), version=str(id(seen)))
    def dear(prices: pa.Array) -> pa.Array:
        seen.update(prices.to_pylist())
        return prices

    engine = Engine(
        RoundEngine(
            store=MemoryStore("UTC"),
            limits=Limits(),
            clock=lambda: 0,
            seed=0,
            work_clock=lambda: 1e-3 * seen.total(),
        )
    )
    engine.stream("stocks", "sym BIGINT, price DOUBLE")
    engine.stream("articles", "sym BIGINT, n BIGINT")
    return engine


def stocks(first: int, end: int) -> pa.Table:
    return pa.table({"sym": range(first, end), "price": [float(k) for k in range(first, end)]})


def articles(first: int, end: int, each: int) -> pa.Table:
    syms = [sym for sym in range(first, end) for _ in range(each)]
    return pa.table({"sym": syms, "n": range(len(syms))})


@pytest.mark.parametrize("articles_first", [True, False])
def test_a_row_is_shown_to_a_function_once_however_many_partners_it_meets(engine, seen, articles_first):
    told = engine.query(TEXT)
    pushes = [("articles", articles(0, 100, 3)), ("stocks", stocks(0, 100))]
    for stream, rows in pushes if articles_first else pushes[::-1]:
        for first in range(0, len(rows), 40):
            engine.push(stream, rows.slice(first, 40))
    assert told.n_results == 3 * 49
    assert set(seen.values()) == {1}
    assert len(seen) == 100


def test_a_row_that_is_asked_only_with_its_partners_is_shown_to_a_function_once(engine, seen):
    engine.rounds.choices = ExecutionChoices(placement="after")
    told = engine.query(TEXT)
    engine.push("articles", articles(0, 100, 3))
    engine.push("stocks", stocks(0, 100))  # a batch in which each is there three times
    assert told.n_results == 3 * 49
    assert set(seen.values()) == {1}


def test_queries_with_other_conditions_share_the_calls(engine, seen):
    for n in range(5):
        engine.query(f"{TEXT} AND a.n > {n}")
    engine.push("stocks", stocks(0, 100))
    engine.push("articles", articles(0, 100, 2))
    assert set(seen.values()) == {1}


def test_where_few_rows_find_partners_only_those_are_asked(engine, seen):
    engine.rounds.choices = ExecutionChoices(judged_by=40)
    told = engine.query(TEXT)
    engine.push("articles", articles(90, 100, 1))
    engine.push("stocks", stocks(0, 100))
    assert len(seen) == 100  # nothing was known of them
    engine.push("articles", articles(190, 200, 1))
    engine.push("stocks", stocks(100, 200))
    assert sorted(seen)[100:] == [float(k) for k in range(190, 200)]
    assert told.n_results == 20


def test_what_is_known_of_rows_goes_with_them(engine, seen):
    engine.query(TEXT.replace("recent(stocks, 1000)", "recent(stocks, 10)"))
    for first in range(0, 100, 10):
        engine.push("stocks", stocks(first, first + 10))
    (given,) = engine.rounds.flow.calls._given["stocks"].values()
    assert len(given.arrival) <= 10
