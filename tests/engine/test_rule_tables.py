"""Tables whose rows are rules: found by the predicate index, as they were when a row came."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eddyline

TEXT = (
    "SELECT w.who, t.sym, t.price FROM trades t JOIN watches w "
    "ON t.sym = w.sym AND t.price BETWEEN w.low AND w.high"
)


def declared(engine: eddyline.Engine) -> eddyline.Engine:
    engine.stream("trades", "sym BIGINT, price DOUBLE")
    engine.stream("watches", "id BIGINT, sym BIGINT, low DOUBLE, high DOUBLE, who STRING", key="id")
    return engine


def watch(identity: int, sym: int, low: float, high: float) -> dict[str, Any]:
    return {"id": identity, "sym": sym, "low": low, "high": high, "who": f"u{identity}"}


def n_rules(engine: eddyline.Engine) -> int:
    return sum(engine.rounds.flow.joins.rules.snapshot().values())


def test_a_row_meets_the_rules_that_were_there_when_it_came() -> None:
    engine = declared(eddyline.open(None))
    told = engine.query(TEXT)
    engine.push({"trades": [{"sym": 1, "price": 5.0}], "watches": [watch(1, 1, 4, 6)]})
    assert told.results() == []
    engine.push({"watches": [watch(1, 1, 40, 60)], "trades": [{"sym": 1, "price": 5.0}]})
    assert told.results() == []
    engine.push({"watches": [watch(1, 1, 5, 5), watch(2, 1, 0, 9)], "trades": [{"sym": 1, "price": 5.0}]})
    assert sorted(result["who"] for result in told.results()) == ["u1", "u2"]
    assert n_rules(engine) == 2


@pytest.mark.parametrize(
    ("join", "sym", "who"),
    [
        ("t.sym = n.sym", "n.sym", "u1"),
        ("t.sym = n.sym", "t.other", "u2"),
        ("t.sym = n.sym", "n.other", "u2"),
        ("t.other = n.sym", "n.sym", "u2"),
        ("t.other = n.sym", "t.sym", "u1"),
        ("t.other = n.sym", "n.other", "u1"),
        ("t.sym = n.sym AND t.other = n.other", "n.other", "u2"),
        ("t.sym = n.sym AND t.other = n.other", "n.sym", "u1"),
    ],
)
def test_a_rule_is_met_by_its_equality_whichever_input_that_is_with(join: str, sym: str, who: str) -> None:
    """Another table stands between the stream and the rules, which may be asked for by what it brings."""
    engine = eddyline.open(None)
    engine.stream("trades", "sym BIGINT, other BIGINT, price DOUBLE")
    engine.stream("names", "sym BIGINT, other BIGINT", key="sym")
    engine.stream("watches", "id BIGINT, sym BIGINT, low DOUBLE, high DOUBLE, who STRING", key="id")
    told = engine.query(
        f"SELECT w.who FROM trades t JOIN names n ON {join} "
        f"JOIN watches w ON w.sym = {sym} AND t.price BETWEEN w.low AND w.high"
    )
    engine.push("names", [(1, 2), (2, 1)])
    engine.push("watches", [watch(1, 1, 4, 6), watch(2, 2, 4, 6), watch(3, 1, 7, 9), watch(4, 2, 7, 9)])
    engine.push("trades", [(1, 2, 5.0)])
    assert [result["who"] for result in told.results()] == [who]


def test_rules_of_rows_that_are_gone_go() -> None:
    engine = declared(eddyline.open(None))
    told = engine.query(TEXT)
    engine.push("watches", [watch(1, 1, 0, 9), watch(2, 1, 0, 9)])
    engine.push("watches", [{"id": 1, "_change_type": "delete"}])
    assert n_rules(engine) == 1
    engine.push("trades", [{"sym": 1, "price": 5.0}])
    assert [result["who"] for result in told.results()] == ["u2"]
    told.drop()
    engine.tick()
    assert n_rules(engine) == 0


def test_a_round_that_fails_leaves_no_rule() -> None:
    engine = declared(eddyline.open(None))
    told = engine.query(TEXT)
    engine.push("watches", [watch(1, 1, 0, 9)])

    def fail(step: str) -> None:
        if step == "4 commit":
            raise RuntimeError(step)

    engine.rounds.at_step = fail
    with pytest.raises(RuntimeError):
        engine.push("watches", [watch(1, 1, 50, 60), watch(2, 1, 0, 9)])
    engine.rounds.at_step = lambda step: None
    engine.push("trades", [{"sym": 1, "price": 5.0}])
    assert [result["who"] for result in told.results()] == ["u1"]


def test_a_range_that_only_some_queries_ask_for_is_probed_and_checked() -> None:
    engine = declared(eddyline.open(None))
    ranged = engine.query(TEXT)
    engine.query("SELECT w.who FROM trades t JOIN watches w ON t.sym = w.sym", name="all")
    engine.push("watches", [watch(1, 1, 0, 9), watch(2, 1, 50, 60)])
    engine.push("trades", [{"sym": 1, "price": 5.0}])
    assert n_rules(engine) == 0
    assert [result["who"] for result in ranged.results()] == ["u1"]
    assert sorted(result["who"] for result in engine.get("all").results()) == ["u1", "u2"]


@pytest.mark.parametrize("has_home", [False, True])
def test_rules_find_what_looking_at_each_of_them_finds(tmp_path: Path, has_home: bool) -> None:
    rng = np.random.default_rng(4)
    home = tmp_path / "home" if has_home else None
    engine = declared(eddyline.open(home, results_per_query=100_000))
    engine.query(TEXT, name="told")
    table: dict[int, dict[str, Any]] = {}
    n_expected = 0
    for number in range(12):
        lows = rng.random(60) * 100
        rows = [
            watch(int(rng.integers(0, 200)), int(rng.integers(0, 8)), float(low), float(low + 8))
            for low in lows
        ]
        trades = [{"sym": int(rng.integers(0, 8)), "price": float(rng.random() * 100)} for _ in range(30)]
        is_first = number % 2 == 0
        if is_first:
            table |= {row["id"]: row for row in rows}
        n_expected += sum(
            trade["sym"] == row["sym"] and row["low"] <= trade["price"] <= row["high"]
            for trade in trades
            for row in table.values()
        )
        table |= {row["id"]: row for row in rows}
        both = {"watches": rows, "trades": trades}
        engine.push(both if is_first else dict(reversed(both.items())))
        if has_home and number % 5 == 2:
            engine.close()
            engine = eddyline.open(home, results_per_query=100_000)
    assert n_expected > 100
    assert engine.get("told").n_results == n_expected
    assert n_rules(engine) == len(table)
    engine.close()
