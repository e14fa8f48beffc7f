"""What alerts cost where nothing happens to them: work is counted, not timed."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import eddyline
from eddyline.engine.alerting import CURSOR_EVERY, AlertingCounters

N = 1_000_000


@pytest.mark.slow
@pytest.mark.parametrize("has_home", [False, True])
def test_a_million_alert_queries_cost_a_round_without_matches_nothing(tmp_path, has_home):
    with eddyline.open(tmp_path / "home" if has_home else None, clock=lambda: 0) as engine:
        engine.stream("trades", "sym INT, price DOUBLE")
        limits = pa.table({"sym": np.arange(N, dtype=np.int32), "top": np.ones(N)})
        text = "SELECT sym, price FROM trades WHERE sym = :sym AND price < :top"
        engine.query_many(text, params=limits, per="sym", resolve="5 minutes", cooldown="1 hour")
        engine.query("SELECT sym FROM trades WHERE price > 100", name="plain")
        alerting = engine.rounds.alerting
        for _ in range(10):
            assert engine.push("trades", [(1, 200.0), (2, 50.0)]).count == 1
        assert alerting.counters == AlertingCounters()
        engine.push("trades", [(7, 0.5)])
        assert alerting.counters == AlertingCounters(n_rounds=1, n_rows=1, n_states=0, n_written=1, n_fired=1)
        for _ in range(10):  # one is open now, and not due
            engine.push("trades", [(1, 200.0), (2, 50.0)])
        assert alerting.counters == AlertingCounters(n_rounds=1, n_rows=1, n_states=0, n_written=1, n_fired=1)


def test_rounds_without_alerts_write_the_cursor_now_and_then(tmp_path):
    with eddyline.open(tmp_path / "home", clock=lambda: 0) as engine:
        engine.stream("trades", "sym INT")
        for _ in range(2 * CURSOR_EVERY + 1):
            engine.tick()
        assert engine.rounds.alerting.counters == AlertingCounters(n_written=2)
        assert engine.rounds.alerting.log.cursor() == 2 * CURSOR_EVERY
    with eddyline.open(tmp_path / "home", clock=lambda: 0) as engine:
        assert engine.rounds.alerting.cursor == 2 * CURSOR_EVERY + 1
        assert (
            engine.rounds.alerting.counters == AlertingCounters()
        )  # without alert queries nothing is read back


def test_a_home_from_before_alerts_begins_with_its_next_round(tmp_path):
    with eddyline.open(tmp_path / "home", clock=lambda: 0) as engine:
        engine.stream("trades", "sym INT")
        engine.query("SELECT sym FROM trades", severity="info")
        engine.rounds.alerting.after = lambda *round_: []  # as an earlier version did
        engine.push("trades", [(1,)])
        engine.rounds.durable.rounds.cursors.set("alerts", 1, 0)  # as the migration does
    with eddyline.open(tmp_path / "home", clock=lambda: 0) as engine:
        engine.push("trades", [(2,)])
        assert [message.row for message in engine.messages()] == [{"sym": 2}]


def test_dropping_many_alert_queries_looks_only_at_those_that_have_alerts(tmp_path):
    with eddyline.open(tmp_path / "home", clock=lambda: 0) as engine:
        engine.stream("trades", "sym INT")
        made = engine.query_many(
            "SELECT sym FROM trades WHERE sym = :sym",
            params={"sym": range(20_000)},
            per="sym",
            resolve="1 hour",
        )
        engine.push("trades", [(3,), (4,)])
        made.drop()
        engine.tick()
        assert engine.rounds.alerting.counters.n_states == 2
        assert [(m.status, m.key["sym"], m.reason) for m in engine.messages(2)] == [
            ("resolved", 3, "dropped"),
            ("resolved", 4, "dropped"),
        ]
        assert engine.rounds.alerting.log.counted_query_ids() == []
