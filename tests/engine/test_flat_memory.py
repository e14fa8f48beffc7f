"""What an engine holds does not grow with its pushes, whatever comes and goes beside them."""

from __future__ import annotations

import gc
import random
from collections import deque
from pathlib import Path
from typing import Any

import pytest

import eddyline
import eddyline.catalog.stream_plans
import eddyline.engine.after_commit
import eddyline.statistics.round_records
from eddyline import Engine, Query

PAGE_BYTES = 4_096
STREAMS = """
    CREATE TABLE trades (sym STRING, price DOUBLE, note STRING);
    CREATE TABLE news (sym STRING, score INT);
"""


class Churn:
    """Pushes with dead letters, alerts that fire and resolve, a subscriber, a join, and queries that come and go."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.n_pushes = 0
        self.n_heard = 0
        self._rng = random.Random(1)
        self._standing: deque[Query] = deque()
        engine.sql(STREAMS)
        engine.query(
            "SELECT sym, price FROM trades WHERE price > 90", name="dear", per="sym", resolve="1 second"
        )
        engine.query("SELECT sym, cast(note AS INT) AS n FROM trades", name="counted")
        engine.query(
            "SELECT t.sym, n.score FROM recent(trades, 10) t JOIN recent(news, 10) n ON t.sym = n.sym",
            name="met",
        )
        engine.get("dear").on_result(self._heard)

    def _heard(self, result: Any) -> None:
        self.n_heard += 1

    def push(self, n: int) -> None:
        rng, engine = self._rng, self.engine
        for number in range(self.n_pushes, self.n_pushes + n):
            rows = [(f"S{rng.randrange(50)}", rng.random() * 100, rng.choice("1x")) for _ in range(5)]
            engine.push("trades", rows, token=f"t{number}")
            if number % 5 == 0:
                engine.push("news", [("S1", 1)])
            if number % 2 == 0:
                text = f"SELECT sym FROM trades WHERE price > {rng.random() * 100} AND sym = 'S{rng.randrange(50)}'"
                self._standing.append(engine.query(text, name=f"c{number}"))
            if number % 6 == 0:
                text = f"SELECT sym, price * {number} AS p FROM trades WHERE price > {rng.random() * 100}"
                self._standing.append(engine.query(text, name=f"d{number}", per="sym", cooldown="1 second"))
            while len(self._standing) > 10:
                self._standing.popleft().drop()
        self.n_pushes += n


def n_objects() -> int:
    gc.collect()
    return len(gc.get_objects())


def rss_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES


@pytest.mark.thorough
@pytest.mark.parametrize("has_home", [False, True], ids=["in memory", "with a home"])
def test_as_many_objects_are_held_after_more_pushes(
    tmp_path: Path, has_home: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every limit is small, so that all of them are reached soon."""
    monkeypatch.setattr(eddyline.catalog.stream_plans, "CHANGES_KEPT", 32)
    monkeypatch.setattr(eddyline.engine.push_tokens, "REMEMBERED_TOKENS", 70)
    monkeypatch.setattr(eddyline.engine.announcements, "EVENTS_KEPT", 32)
    monkeypatch.setattr(eddyline.engine.after_commit, "MESSAGES_KEPT", 32)
    monkeypatch.setattr(eddyline.statistics.round_records, "MAX_RECORDS", 32)
    limits = {"results_per_query": 5, "result_bytes": 200_000, "recent_rows": 50, "dead_letters": 50}
    now = [0]
    with eddyline.open(tmp_path / "home" if has_home else None, clock=lambda: now[0], **limits) as engine:
        engine.warm_up()  # kernels that are loaded later, or compiled, are objects too
        churn = Churn(engine)
        held = []
        for _ in range(5):
            for _ in range(6):
                now[0] += 400_000
                churn.push(10)
            held.append(n_objects())
        messages = engine.rounds.alerting.log
        assert messages.last_id() > 500
        assert has_home or len(messages.messages_after(0, 10_000)) < 500  # they are looked at every 64 rounds
    assert churn.n_heard > 50
    assert max(held[3:]) - held[2] < 500, held  # some hundred pushes further on


@pytest.mark.slow
@pytest.mark.parametrize("has_home", [False, True], ids=["in memory", "with a home"])
def test_memory_is_flat_from_ten_to_twenty_thousand_pushes(tmp_path: Path, has_home: bool) -> None:
    with eddyline.open(tmp_path / "home" if has_home else None) as engine:
        churn = Churn(engine)
        churn.push(10_000)
        gc.collect()
        before = rss_bytes()
        churn.push(10_000)
        gc.collect()
        assert rss_bytes() - before < 16 << 20  # 7 MB in memory; 27 MB while every message of alerts was kept
