"""Trying a query on recent rows before it is registered."""

from __future__ import annotations

import importlib
import itertools

import pyarrow as pa
import pytest

import eddyline
from eddyline import rules
from eddyline.errors import UnknownNameError
from eddyline.rules import try_plan

trial_module = importlib.import_module("eddyline.filters.trials")  # its name is also that of a function
TRADES = "sym STRING, price DOUBLE, note STRING"


@pytest.fixture
def engine():
    with eddyline.open() as opened:
        opened.stream("trades", TRADES)
        rows = [{"sym": f"S{n}", "price": float(n), "note": "x" if n % 2 else str(n)} for n in range(10)]
        opened.push("trades", rows)
        yield opened


def test_a_trial_counts_matches_and_gives_the_newest_as_samples(engine):
    found = engine.try_query("SELECT sym FROM trades WHERE price >= 3 AND price < 7", samples=2)
    assert (found.n_rows, found.n_matched, found.n_in_error) == (10, 4, 0)
    assert found.samples == ({"sym": "S6"}, {"sym": "S5"})
    assert dict(zip(found.conditions, found.stopped, strict=True)) == {"price >= 3": 3, "price < 7": 3}
    assert found.headline == "4 of the last 10 rows would have matched"


def test_nothing_is_registered_delivered_or_counted_by_a_trial(engine):
    before = engine.version
    engine.try_query("SELECT cast(note AS INT) AS n FROM trades")
    assert (engine.version, engine.n_queries, engine.dead_letters().total) == (before, 0, 0)


def test_rows_in_error_are_counted_apart_in_conditions_and_in_the_projection(engine):
    found = engine.try_query("SELECT cast(note AS INT) AS n FROM trades WHERE price < 4")
    assert (found.n_matched, found.n_in_error) == (2, 2)
    assert [each.row["sym"] for each in found.errors] == ["S3", "S1"]
    found = engine.try_query("SELECT sym FROM trades WHERE cast(note AS INT) > 2 AND price < 4")
    assert (found.n_matched, found.n_in_error) == (0, 2)


def test_only_the_last_rows_are_tried_and_parameters_have_values(engine):
    found = engine.try_query("SELECT sym FROM trades WHERE price < :most", params={"most": 8}, last=3)
    assert (found.n_rows, found.n_matched) == (3, 1)


def test_what_could_not_be_registered_cannot_be_tried(engine):
    with pytest.raises(UnknownNameError, match="prise"):
        engine.try_query("SELECT sym FROM trades WHERE prise < 3")


def test_a_join_says_why_it_is_not_tried_and_what_its_streams_give(engine):
    engine.stream("news", "sym STRING", window="10 rows")
    found = engine.try_query(
        "SELECT t.sym FROM trades t JOIN recent(news, 10) n ON t.sym = n.sym WHERE t.price < 4"
    )
    assert found.n_matched is None
    assert [(each.n_rows, each.n_passed) for each in found.inputs] == [(10, 4), (0, 0)]
    assert "depend on the contents of its windows" in found.notes[0]


def test_a_trial_answers_with_what_it_has_judged_when_its_time_is_over(engine, monkeypatch):
    monkeypatch.setattr(trial_module, "CHUNK_ROWS", 4)
    record, _ = engine.registrar.trial("SELECT sym FROM trades", None)
    ticks = itertools.count()
    with engine.rounds.lock:
        rows = engine.rounds.recent["trades"].last(10, engine.rounds.catalog.stream("trades").schema)
    found = trial_module.trial(
        record.shape,
        [],
        record.constants,
        rows,
        engine.rounds.context(),
        n_samples=1,
        timeout_s=1.5,
        clock=lambda: float(next(ticks)),
    )
    assert (found.n_rows, found.n_matched) == (8, 8)
    assert found.samples == ({"sym": "S9"},)
    assert found.notes == ("only the newest 8 of 10 rows were tried in 1.5 s",)


def test_a_function_is_asked_only_about_rows_that_are_not_refuted_yet(engine):
    asked = []

    @eddyline.udf(returns="boolean", name="is_good_in_trials")
    def is_good(sym):
        asked.extend(sym.to_pylist())
        return pa.array([True] * len(sym))

    found = engine.try_query("SELECT sym FROM trades WHERE is_good_in_trials(sym) AND price < 3")
    assert (found.n_matched, sorted(asked)) == (3, ["S0", "S1", "S2"])


def test_a_plan_tries_what_it_adds_and_changes(engine, tmp_path):
    engine.query("SELECT sym FROM trades WHERE price < 1", name="changed")
    engine.query("SELECT sym FROM trades WHERE price < 2", name="same")
    (tmp_path / "a.sql").write_text(
        "CREATE OR REPLACE VIEW added AS SELECT sym FROM trades WHERE price > 7;"
        "CREATE OR REPLACE VIEW changed AS SELECT sym FROM trades WHERE price < 5;"
        "CREATE OR REPLACE VIEW same AS SELECT sym FROM trades WHERE price < 2;"
        "CREATE OR REPLACE VIEW `w-{sym}` TBLPROPERTIES (rules_table = 'w.csv')"
        " AS SELECT sym FROM trades WHERE sym = :sym"
    )
    (tmp_path / "w.csv").write_text("sym\nS1\nS2\nnone\n")
    plan = rules.plan(engine, [tmp_path])
    try_plan(engine.rounds, plan)
    tried = {change.rule.name: change.tried and change.tried.n_matched for change in plan.queries}
    assert tried == {"added": 2, "changed": 5, "same": None}
    table = plan.as_dict()["tables"][0]["tried"]
    assert table == {"n_rules": 3, "n_matching": 2, "n_rows": 10, "n_matched": 2, "n_in_error": 0}
