"""Alerts over aggregates: open while a row of their key is in the answer, until rows take it away or its window closes."""

from __future__ import annotations

import datetime
from collections import Counter
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

import eddyline
from eddyline.control.doctor import check_home
from eddyline.errors import UnsupportedError
from tests.on_workers import through_tasks

SECOND = 1_000_000
AUTHS = "CREATE TABLE auths (card STRING, ts TIMESTAMP) TBLPROPERTIES (time='ts', lateness='1 minute')"
NOON = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
PLACES = ["memory", "home", "tasks"]


class Desk:
    """An engine with a clock that tests set, over a stream whose rows are (card, minutes after noon)."""

    def __init__(self, place: str, folder: Path) -> None:
        self.seconds = 0
        self._place = place
        self._home = None if place == "memory" else folder / "home"
        self.engine = self._open()
        self.engine.sql(AUTHS)
        self._n_seen = 0

    def _open(self) -> eddyline.Engine:
        engine = eddyline.open(self._home, clock=lambda: self.seconds * SECOND)
        return through_tasks(engine) if self._place == "tasks" else engine

    def reopen(self) -> None:
        if self._home is not None:
            self.engine.close()
            self.engine = self._open()

    def push(self, *rows: tuple[str, float]) -> list[tuple]:
        """The messages of a round: status, values of the key, reason."""
        if rows:
            at = [(card, NOON + datetime.timedelta(minutes=minutes)) for card, minutes in rows]
            self.engine.push("auths", [{"card": card, "ts": ts} for card, ts in at])
        else:
            self.engine.tick()
        messages = self.engine.messages(after=self._n_seen)
        self._n_seen += len(messages)
        return [(m.status, *m.key.values(), m.reason) for m in messages]

    def open_alerts(self) -> list[tuple]:
        return [(alert.state, *alert.key.values(), alert.n_rows) for alert in self.engine.alerts()]


@pytest.fixture(params=PLACES)
def desk(request, tmp_path):
    made = Desk(request.param, tmp_path)
    yield made
    made.engine.close()


BUSY = "SELECT card, window.start AS start, count(*) AS n FROM auths GROUP BY card, window(ts, '10 minutes')"


def test_a_window_fires_with_its_row_and_resolves_when_it_closes_though_no_result_says_so(desk):
    desk.engine.query(BUSY + " HAVING count(*) >= 2", name="busy", severity="error")
    assert desk.push(("A", 1), ("B", 1)) == []
    assert desk.push(("A", 2)) == [("firing", "A", None)]
    desk.reopen()
    assert desk.push(("B", 10.9)) == []  # the watermark is at 12:09:54
    assert desk.push(("C", 11)) == [("resolved", "A", "closed")]
    assert desk.open_alerts() == []
    assert [result.change for result in desk.engine.get("busy").results()] == ["insert"]


def test_a_window_that_opens_and_closes_in_one_round_fires_and_resolves(desk):
    desk.engine.query(BUSY + " HAVING count(*) >= 2", severity="error")
    assert desk.push(("A", 1), ("A", 2), ("B", 30)) == [("firing", "A", None), ("resolved", "A", "closed")]


def test_a_key_whose_next_window_is_there_before_the_last_one_closes_goes_on(desk):
    desk.engine.query(BUSY + " HAVING count(*) >= 2", severity="error")
    assert desk.push(("A", 9), ("A", 9.5)) == [("firing", "A", None)]
    assert desk.push(("A", 10), ("A", 10.1)) == []
    assert desk.open_alerts() == [("firing", "A", 2)]
    assert desk.push(("A", 11)) == []  # the first window closes
    assert desk.open_alerts() == [("firing", "A", 1)]
    assert desk.push(("B", 30)) == [("resolved", "A", "closed")]


def test_each_window_has_an_alert_of_its_own_where_per_names_it(desk):
    desk.engine.query(BUSY, name="starts", per=["card", "start"])
    start, next_start = "2026-01-01 12:00:00+00:00", "2026-01-01 12:10:00+00:00"
    assert desk.push(("A", 9), ("A", 10)) == [("firing", "A", start, None), ("firing", "A", next_start, None)]
    assert desk.push(("A", 12)) == [("resolved", "A", start, "closed")]


def test_without_the_key_in_its_result_a_window_is_of_the_one_alert_of_its_query(desk):
    desk.engine.query(
        "SELECT count(*) AS n FROM auths GROUP BY card, window(ts, '10 minutes')", severity="info"
    )
    assert desk.push(("A", 1), ("B", 1)) == [("firing", None)]
    assert desk.open_alerts() == [("firing", 2)]
    assert desk.push(("A", 12)) == []
    assert desk.open_alerts() == [("firing", 1)]


def test_a_row_that_having_takes_away_resolves_without_a_reason(desk):
    desk.engine.query(BUSY + " HAVING count(*) < 3", severity="error")
    assert desk.push(("A", 1)) == [("firing", "A", None)]
    assert desk.push(("A", 2), ("A", 3)) == [("resolved", "A", None)]
    assert desk.push(("B", 30)) == [("firing", "B", None)]  # nothing of A closes


def test_sessions_keep_their_alert_while_they_grow_and_resolve_when_they_close(desk):
    text = "SELECT card, count(*) AS n FROM auths GROUP BY card, session_window(ts, '5 minutes') HAVING count(*) >= 2"
    desk.engine.query(text, severity="error")
    assert desk.push(("A", 1), ("A", 2)) == [("firing", "A", None)]
    assert desk.push(("A", 0.5)) == []  # the session begins earlier: a delete and an insert of one key
    assert desk.push(("A", 4)) == []
    assert desk.push(("B", 10)) == []  # W = 12:09 is the end
    assert desk.push(("C", 10.1)) == [("resolved", "A", "closed")]


def test_a_group_that_keep_forgets_resolves_as_forgotten(desk):
    desk.engine.query(
        "SELECT card, count(*) AS n FROM auths GROUP BY card",
        name="cards",
        severity="info",
        keep="10 seconds",
    )
    assert desk.push(("A", 1)) == [("firing", "A", None)]
    desk.seconds = 5
    assert desk.push(("B", 1)) == [("firing", "B", None)]
    desk.seconds = 10
    desk.reopen()
    assert desk.push() == [("resolved", "A", "forgotten")]
    desk.seconds = 15
    assert desk.push(("B", 2)) == []  # it begins anew in the round that forgets it
    changes = [(r.change, r["card"], r["n"]) for r in desk.engine.get("cards").results()]
    assert ("delete", "A", 1) in changes


def test_what_silence_opens_and_a_row_ends_resolves_without_a_reason(desk):
    text = (
        "SELECT card, max(ts) AS seen FROM auths GROUP BY card HAVING max(ts) < now() - INTERVAL 10 MINUTES"
    )
    desk.engine.query(text, name="silent", severity="error")
    noon = int(NOON.timestamp())
    desk.seconds = noon + 60
    assert desk.push(("A", 1)) == []
    desk.seconds = noon + 661
    assert desk.push() == [("firing", "A", None)]
    assert desk.push(("A", 11)) == [("resolved", "A", None)]


def test_a_rule_on_a_view_of_windows_resolves_when_they_close(desk):
    desk.engine.query(BUSY, name="counts")
    desk.engine.query("SELECT card, n FROM counts WHERE n >= 2", per="card", name="rule")
    either = "SELECT card FROM counts WHERE n >= 2 UNION ALL SELECT upper(card) FROM counts WHERE n >= 2"
    desk.engine.query(either, per="card", name="either")
    assert desk.push(("A", 1), ("A", 2)) == [("firing", "A", None), ("firing", "A", None)]
    assert desk.open_alerts() == [("firing", "A", 1), ("firing", "A", 2)]
    assert desk.push(("B", 30)) == [("resolved", "A", "closed"), ("resolved", "A", "closed")]
    counts = [(r.change, r["card"], r["n"]) for r in desk.engine.get("rule").results()]
    assert counts == [("insert", "A", 2)]


def test_rules_on_a_view_that_keep_forgets_know_the_reason(desk):
    desk.engine.query("SELECT card, count(*) AS n FROM auths GROUP BY card", name="counts", keep="10 seconds")
    desk.engine.query("SELECT card FROM counts WHERE n >= 2", per="card")
    assert desk.push(("A", 1), ("A", 2)) == [("firing", "A", None)]
    desk.seconds = 10
    assert desk.push() == [("resolved", "A", "forgotten")]


def test_rows_that_are_never_revised_are_alerts_as_over_streams(desk):
    final = BUSY + " HAVING count(*) >= 2"
    desk.engine.query(final, name="final", emit="final", per="card", resolve="5 seconds")
    frame = "count(*) OVER (PARTITION BY card ORDER BY ts RANGE BETWEEN INTERVAL 10 MINUTES PRECEDING AND CURRENT ROW)"
    desk.engine.query(
        f"SELECT card, {frame} AS n FROM auths QUALIFY n >= 2",
        name="velocity",
        per="card",
        resolve="5 seconds",
    )
    assert desk.push(("A", 1), ("A", 2)) == [("firing", "A", None)]  # velocity
    assert desk.push(("B", 30)) == [("firing", "A", None)]  # final
    desk.seconds = 5
    assert desk.push() == [("resolved", "A", None), ("resolved", "A", None)]


def test_a_query_that_comes_while_a_window_is_open_resolves_for_its_own_rows_alone(desk):
    desk.engine.query(BUSY + " HAVING count(*) >= 2", name="old", severity="error")
    desk.push(("A", 1), ("A", 2))
    desk.engine.query(BUSY + " HAVING count(*) >= 2", name="young", severity="error")
    assert desk.push(("A", 3)) == []
    assert desk.push(("B", 30)) == [("resolved", "A", "closed")]  # the one of `old`


def test_closed_rows_are_kept_for_alerts_alone_and_removed_once_these_have_moved(tmp_path):
    desk = Desk("home", tmp_path)
    desk.engine.query(BUSY, name="plain")
    desk.push(("A", 1), ("B", 30))
    durable = desk.engine.rounds.durable
    assert durable.rounds.files.count("closed") == 0
    desk.engine.query(BUSY, name="alerting", severity="error")
    desk.push(("A", 31), ("B", 60))
    assert durable.rounds.files.count("closed") == 1
    findings = check_home(durable, tell=lambda *progress: None)
    assert {finding.level for finding in findings} == {"ok"}
    durable.collect_garbage(read_to=desk.engine.rounds.alerting.cursor)
    assert durable.rounds.files.count("closed") == 0
    assert not list((tmp_path / "home" / "store" / "closed").glob("*.arrow"))
    desk.engine.close()


@pytest.mark.parametrize(
    "text", ["SELECT DISTINCT card FROM counts", "SELECT card FROM counts UNION SELECT card FROM counts"]
)
def test_distinct_rows_of_windows_that_change_are_refused_with_the_reason(desk, text):
    desk.engine.query(BUSY, name="counts")
    with pytest.raises(
        UnsupportedError, match="counts, which has windows that change until they close"
    ) as refusal:
        desk.engine.query(text)
    assert refusal.value.detail == "Each closed window would have to be remembered for ever."


# --------------------------------------------------------------------------------------------- the twin

ROWS = st.lists(st.tuples(st.sampled_from("AB"), st.integers(0, 3)), max_size=4)
STEPS = st.lists(st.one_of(ROWS, st.just("restart")), min_size=1, max_size=10)


@pytest.mark.thorough
@pytest.mark.parametrize("place", ["memory", "home"])
@settings(max_examples=15, deadline=None)
@given(steps=STEPS)
def test_it_is_what_counting_the_rows_of_open_windows_says(steps, place, tmp_path_factory):
    """Of windows of two minutes at each minute with two rows, by card. Rows come up to three minutes after the one before."""
    desk = Desk(place, tmp_path_factory.mktemp("home"))
    text = "SELECT card, count(*) AS n FROM auths GROUP BY card, window(ts, '2 minutes', '1 minute') HAVING count(*) >= 2"
    desk.engine.query(text, severity="error")
    counts: Counter[tuple[str, int]] = Counter()  # by card and end of the window
    largest = 0
    try:
        for step in steps:
            if step == "restart":
                desk.reopen()
                continue
            before = {card for (card, _), n in counts.items() if n >= 2}
            watermark, rows = largest - 1, []
            for card, minutes in step:
                rows.append((card, max(0, largest - 1) + minutes))
                largest = max(largest, rows[-1][1])
            for card, minute in rows:
                if minute >= watermark:
                    counts.update([(card, minute + 1), (card, minute + 2)])
            during = {card for (card, _), n in counts.items() if n >= 2}
            for key in [(card, end) for card, end in counts if end <= largest - 1]:
                del counts[key]
            after = Counter(card for (card, _), n in counts.items() if n >= 2)
            wanted = {("firing", card, None) for card in during - before}
            wanted |= {("resolved", card, "closed") for card in during - after.keys()}
            assert set(desk.push(*rows)) == wanted
            assert {(card, n) for _, card, n in desk.open_alerts()} == set(after.items())
    finally:
        desk.engine.close()
