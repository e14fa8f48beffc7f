"""Where expensive conditions on an input of a join are asked: decided by cost, the same in every place, said and announced."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import eddyline
from eddyline.api.engine import Engine
from eddyline.engine import Limits, MemoryStore, RoundEngine
from eddyline.events import ConditionsMoved
from eddyline.model import ExecutionChoices
from tests.on_workers import through_tasks

TEXT = "SELECT s.sym, s.price, r.n FROM stocks s JOIN refs r ON s.sym = r.sym WHERE dear(s.price) >= 50"
N_REFS = 1_000
WITHOUT_PARTNER = 1_000_000


class Work:
    """Calls that were made, and the clock they move."""

    def __init__(self) -> None:
        self.seen: Counter[float] = Counter()
        self.cost_s = 1e-3
        self.now_s = 0.0
        self.is_slow = False

    def take(self, prices: pa.Array) -> pa.Array:
        self.seen.update(prices.to_pylist())
        self.now_s += len(prices) * self.cost_s
        if self.is_slow:
            time.sleep(len(prices) * self.cost_s)
        return prices

    def taken(self) -> int:
        n, self.seen = self.seen.total(), Counter()
        return n


@pytest.fixture
def work() -> Work:
    work = Work()
    declare_function(work, None)
    return work


def declare_function(work: Work, cost_s: float | None) -> None:
    @eddyline.udf(returns="double", takes=("double",), cost=cost_s, version=str(id(work)))
    def dear(prices: pa.Array) -> pa.Array:
        return work.take(prices)


@pytest.fixture
def engine(work: Work) -> Iterator[Engine]:
    rounds = RoundEngine(
        store=MemoryStore("UTC"), limits=Limits(), clock=lambda: 0, seed=0, work_clock=lambda: work.now_s
    )
    with Engine(rounds) as engine:
        declare(engine)
        yield engine


def declare(engine: Engine) -> None:
    engine.stream("stocks", "sym BIGINT, price DOUBLE")
    engine.stream("refs", "sym BIGINT, n BIGINT", key="sym")
    engine.push("refs", pa.table({"sym": range(N_REFS), "n": range(N_REFS)}))


def stocks(n_rows: int, hit: float) -> pa.Table:
    """Of a hundred rows as many have a partner; prices go from 0 to 99 in both kinds alike."""
    syms = [k % N_REFS if (37 * k + k // 100) % 100 < 100 * hit else WITHOUT_PARTNER for k in range(n_rows)]
    return pa.table({"sym": syms, "price": [float(k % 100) for k in range(n_rows)]})


def moves(engine: Engine) -> list[ConditionsMoved]:
    heard: list[ConditionsMoved] = []
    engine.on_event(lambda event: heard.append(event) if isinstance(event, ConditionsMoved) else None)
    return heard


def n_asked(engine: Engine) -> int:
    """Rows that functions were shown, in all places."""
    return sum(each.n_rows for each in engine.rounds.functions.counters.values())


def origin(engine: Engine, query: str = "told") -> dict[str, Any]:
    (facts,) = (
        each for each in engine.get(query).explain().as_dict()["join"]["origins"] if each["name"] == "s"
    )
    return facts


@pytest.mark.parametrize(("hit", "is_after"), [(0.05, True), (0.6, True), (1.0, False)])
def test_a_dear_function_is_asked_after_the_probe_unless_all_rows_have_partners(engine, work, hit, is_after):
    told, heard = engine.query(TEXT, name="told"), moves(engine)
    engine.push("stocks", stocks(1_000, hit))
    assert work.taken() == 1_000  # nothing was known
    engine.push("stocks", stocks(1_000, hit))
    assert work.taken() == round(1_000 * hit)
    assert [event.side for event in heard] == ["after"] * is_after
    assert told.n_results == 2 * len([k for k in range(1_000) if _has_partner(k, hit) and k % 100 >= 50])


def _has_partner(k: int, hit: float) -> bool:
    return (37 * k + k // 100) % 100 < 100 * hit


def test_more_than_half_of_the_rows_may_have_partners_and_asking_last_still_pays(engine, work):
    engine.query(TEXT, name="told")
    for _ in range(4):
        engine.push("stocks", stocks(1_000, 0.8))
    assert work.taken() == 1_000 + 3 * 800


def test_a_hit_rate_that_falls_is_noticed(engine, work):
    engine.query(TEXT, name="told")
    heard = moves(engine)
    for _ in range(4):
        engine.push("stocks", stocks(1_000, 1.0))
    assert work.taken() == 4_000
    assert not heard
    for _ in range(6):
        engine.push("stocks", stocks(1_000, 0.05))
    work.taken()
    engine.push("stocks", stocks(1_000, 0.05))
    assert work.taken() == 50
    assert [event.side for event in heard] == ["after"]


def test_a_function_that_costs_nothing_is_asked_first(engine, work):
    """There is something cheap to ask before the probe in any case."""
    work.cost_s = 0.0
    engine.query(f"{TEXT} AND s.price >= 0", name="told")
    for _ in range(3):
        engine.push("stocks", stocks(1_000, 0.6))
    assert work.taken() == 3_000


def test_where_it_is_asked_and_why_is_in_explain(engine, work):
    declare_function(work, work.cost_s)  # what is measured is believed after more rounds
    engine.query(TEXT, name="told")
    engine.push("stocks", stocks(1_000, 0.05))
    facts = origin(engine)["conditions"]
    assert facts["side"] == "after"
    assert facts["udf_s"] == pytest.approx(1e-3)
    assert facts["pass_rate"] == 0.5
    assert 0 < facts["match_rate"] < 0.1
    assert facts["after_s"] < facts["before_s"]
    shown = str(engine.get("told").explain())
    assert "of s, expensive conditions after its rows look for partners" in shown
    assert "asking takes 1 ms" in shown


def test_a_change_is_an_event_with_its_figures(engine, work):
    declare_function(work, work.cost_s)
    engine.query(TEXT, name="told")
    heard = moves(engine)
    engine.push("stocks", stocks(1_000, 0.05))
    (event,) = heard
    assert (event.round_number, event.side, event.input) == (2, "after", "stocks")
    assert event.udf_s == pytest.approx(1e-3)
    assert event.after_s < event.before_s


def test_joins_without_expensive_conditions_say_nothing_of_it(engine):
    engine.query("SELECT s.sym FROM stocks s JOIN refs r ON s.sym = r.sym WHERE s.price > 5", name="told")
    engine.push("stocks", stocks(1_000, 0.05))
    assert origin(engine)["conditions"] is None


def test_once_the_queries_with_expensive_conditions_are_gone_nothing_is_said_of_them(engine):
    engine.query("SELECT s.sym FROM stocks s JOIN refs r ON s.sym = r.sym WHERE s.price > 5", name="told")
    dear = engine.query(TEXT)
    engine.push("stocks", stocks(1_000, 0.05))
    assert origin(engine)["conditions"] is not None
    dear.drop()
    engine.push("stocks", stocks(100, 0.05))
    assert origin(engine)["conditions"] is None


def test_regular_expressions_are_asked_for_each_combination_so_fanout_counts(work):
    """What a function said of a row is remembered, what a pattern said is not."""
    with eddyline.open(None) as engine:
        engine.stream("notes", "sym BIGINT, text STRING")
        engine.stream("news", "sym BIGINT, n BIGINT")
        engine.query(
            "SELECT n.sym FROM recent(notes, 10) n JOIN recent(news, 100) w ON n.sym = w.sym WHERE n.text RLIKE 'a+b'",
            name="patterns",
        )
        engine.push("notes", {"sym": [1], "text": ["ab"]})
        known = engine.rounds.flow.placements._inputs
        assert [each.placement.is_remembered for each in known.values()] == [False]


@pytest.mark.parametrize("join_from_rows", [1, 1_000_000])
def test_tasks_ask_where_the_driver_decided(tmp_path, work, join_from_rows):
    """The function waits: tasks measure by a clock of their own. Whoever joins, rows without partners are not asked."""
    work.is_slow, work.cost_s = True, 2e-4
    with eddyline.open(tmp_path / "home") as engine:
        declare(engine)
        told, heard = engine.query(TEXT, name="told"), moves(engine)
        through_tasks(engine, n_pieces=2, join_from_rows=join_from_rows)
        engine.push("stocks", stocks(1_000, 0.05))
        before = n_asked(engine)
        engine.push("stocks", stocks(1_000, 0.05))
        assert n_asked(engine) - before == 50
        assert [event.side for event in heard] == ["after"]
        assert told.n_results == 2 * len([k for k in range(1_000) if _has_partner(k, 0.05) and k % 100 >= 50])


@pytest.mark.parametrize("placement", ["before", "after"])
def test_a_side_that_is_chosen_for_all_rounds_reaches_tasks(tmp_path, work, placement):
    with eddyline.open(tmp_path / "home") as engine:
        declare(engine)
        engine.query(TEXT, name="told")
        through_tasks(engine, n_pieces=2, placement=placement)
        engine.push("stocks", stocks(1_000, 0.05))
        n_rows = n_asked(engine)
        assert n_rows >= 1_000 if placement == "before" else n_rows == 50


def test_results_are_the_same_on_either_side(work):
    found = {}
    for placement in ("before", "after", "by cost"):
        with eddyline.open(None, results_per_query=10_000) as engine:
            declare(engine)
            engine.rounds.choices = ExecutionChoices(placement=placement, judged_by=1)
            told = engine.query(TEXT, name="told")
            for hit in (1.0, 0.05, 0.6):
                engine.push("stocks", stocks(700, hit))
            found[placement] = [tuple(row.values()) for row in told.latest(10_000)]
    assert found["before"] == found["after"] == found["by cost"]
    assert len(found["before"]) > 300


def test_dead_letters_are_the_same_on_either_side():
    """A function that fails on some rows, each of which has three partners or none."""

    @eddyline.udf(returns="double", takes=("double",), version="1")
    def brittle(price: float) -> float:
        if price % 10 == 3:
            raise ValueError(f"no {price}")
        return price

    found = {}
    for placement in ("before", "after"):
        with eddyline.open(None, results_per_query=10_000) as engine:
            engine.stream("stocks", "sym BIGINT, price DOUBLE")
            engine.stream("news", "sym BIGINT, n BIGINT")
            engine.rounds.choices = ExecutionChoices(placement=placement)
            told = engine.query(
                "SELECT s.price, n.n FROM recent(stocks, 1000) s JOIN recent(news, 1000) n ON s.sym = n.sym "
                "WHERE brittle(s.price) >= 50",
                name="told",
            )
            engine.push("news", pa.table({"sym": [k % 50 for k in range(150)], "n": range(150)}))
            for first in (0, 60):
                prices = [float(k) for k in range(first, first + 60)]
                engine.push(
                    "stocks", pa.table({"sym": [int(price) % 70 for price in prices], "price": prices})
                )
            letters = [(each.query, each.error, each.message, each.arrival) for each in engine.dead_letters()]
            found[placement] = [tuple(row.values()) for row in told.latest(10_000)], letters
    assert found["before"] == found["after"]
    rows, letters = found["before"]
    has_partner = [k for k in range(120) if k % 70 < 50]
    assert len(rows) == 3 * len([k for k in has_partner if k >= 50 and k % 10 != 3])
    assert len(letters) == 3 * len([k for k in has_partner if k % 10 == 3])
