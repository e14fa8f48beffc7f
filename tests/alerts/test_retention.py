"""Messages go with results as to their age, and by their number; whoever has not read them is told how many are gone."""

from __future__ import annotations

import eddyline
import eddyline.engine.after_commit
from eddyline.engine import Retention

S = 1_000_000


def opened(home, now, **limits):
    return eddyline.open(home, clock=lambda: now[0], retention=Retention(**limits))


def test_messages_older_than_results_may_be_go(tmp_path, monkeypatch):
    monkeypatch.setattr(eddyline.engine.after_commit, "GC_EVERY", 1)
    now = [0]
    with opened(tmp_path / "home", now, results_us=10 * S) as engine:
        engine.stream("trades", "sym INT")
        engine.query("SELECT sym FROM trades", severity="info")
        for second in (0, 5, 10):
            now[0] = second * S
            engine.push("trades", [(second,)])
        assert [message.id for message in engine.messages()] == [1, 2, 3]
        now[0] = 11 * S
        engine.tick()
        assert [message.id for message in engine.messages()] == [2, 3]
        now[0] = 100 * S
        engine.tick()
        log = engine.rounds.alerting.log
        assert engine.messages() == []
        assert (log.first_id(), log.last_id()) == (4, 3)


def test_no_more_messages_than_may_be_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(eddyline.engine.after_commit, "GC_EVERY", 1)
    with opened(tmp_path / "home", [0], message_count=2) as engine:
        engine.stream("trades", "sym INT")
        engine.query("SELECT sym FROM trades", severity="info")
        engine.push("trades", [(k,) for k in range(5)])
        assert [message.id for message in engine.messages()] == [4, 5]
        assert engine.rounds.alerting.log.first_id() == 4
        assert [message.id for message in engine.rounds.alerting.log.messages_after(0, 1)] == [4]
        engine.push("trades", [(6,)])
        assert [message.id for message in engine.rounds.alerting.log.messages_after(4, 10)] == [5, 6]
