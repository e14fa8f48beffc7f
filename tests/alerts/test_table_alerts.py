"""Alerts over tables: open while their key has rows. Beside a twin that looks at the rows of every round anew."""

from __future__ import annotations

from dataclasses import dataclass, field

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

import eddyline
from eddyline.errors import PropertyError

SECOND = 1_000_000


class Desk:
    """An engine with a clock that tests set."""

    def __init__(self, home=None) -> None:
        self.seconds = 0
        self._home = home
        self.engine = self._open()
        self.engine.stream("quotes", "sym STRING, grp STRING, bid INT", key="sym")
        self.engine.stream("names", "sym STRING, name STRING", key="sym")

    def _open(self) -> eddyline.Engine:
        return eddyline.open(self._home, clock=lambda: self.seconds * SECOND)

    def reopen(self) -> None:
        self.engine.close()
        self.engine = self._open()

    def push(self, *rows: tuple) -> None:
        """Rows are (sym, grp, bid); one with the sym alone deletes."""
        columns = "sym", "grp", "bid"
        stated = [
            {**dict(zip(columns, row, strict=False)), "_change_type": "insert" if len(row) > 1 else "delete"}
            for row in rows
        ]
        if stated:
            self.engine.push("quotes", stated)
        else:
            self.engine.tick()

    def messages(self, *, after: int = 0) -> list[tuple]:
        return [(m.status, *m.key.values()) for m in self.engine.messages(after=after)]

    def open_alerts(self) -> list[tuple]:
        return [(alert.state, *alert.key.values(), alert.n_rows) for alert in self.engine.alerts()]


@pytest.fixture(params=["memory", "home"])
def desk(request, tmp_path):
    made = Desk(tmp_path / "home" if request.param == "home" else None)
    yield made
    made.engine.close()


def test_an_alert_resolves_when_its_row_leaves(desk):
    desk.engine.query("SELECT sym, bid FROM quotes WHERE bid > 10", name="high", message="{sym} at {bid}")
    desk.push(("A", "x", 11))
    assert desk.open_alerts() == [("firing", "A", 1)]
    desk.push(("A", "x", 5))
    assert desk.open_alerts() == []
    assert desk.messages() == [("firing", "A"), ("resolved", "A")]


def test_a_row_that_takes_the_place_of_another_neither_resolves_nor_fires_and_is_the_alerts_row(desk):
    desk.engine.query("SELECT sym, bid FROM quotes WHERE bid > 10", name="high", message="{sym} at {bid}")
    desk.push(("A", "x", 11))
    desk.push(("A",), ("A", "x", 12))
    assert desk.messages() == [("firing", "A")]
    assert [alert.message for alert in desk.engine.alerts()] == ["A at 12"]


def test_rows_of_a_key_are_counted_and_the_last_one_resolves(desk):
    desk.engine.query("SELECT grp, sym FROM quotes WHERE bid > 10", name="high", per="grp")
    desk.push(("A", "x", 11), ("B", "x", 12), ("C", "y", 13))
    assert desk.open_alerts() == [("firing", "x", 2), ("firing", "y", 1)]
    desk.push(("A",), ("C", "x", 13))
    assert desk.open_alerts() == [("firing", "x", 2)]
    desk.push(("B",), ("C",))
    assert desk.messages() == [("firing", "x"), ("firing", "y"), ("resolved", "y"), ("resolved", "x")]


def test_a_new_query_fires_for_rows_that_are_there(desk):
    desk.push(("A", "x", 11), ("B", "x", 5))
    desk.engine.query("SELECT sym FROM quotes WHERE bid > 10", severity="error")
    desk.push(("C", "x", 12))
    assert desk.messages() == [("firing", "A"), ("firing", "C")]


def test_without_the_key_in_its_result_the_query_has_one_alert(desk):
    desk.engine.query("SELECT bid FROM quotes WHERE bid > 10", severity="error")
    desk.push(("A", "x", 11), ("B", "x", 12))
    desk.push(("A",))
    assert desk.open_alerts() == [("firing", 1)]
    desk.push(("B",))
    assert desk.messages() == [("firing",), ("resolved",)]


def test_a_join_of_tables_has_an_alert_for_each_pair_of_keys(desk):
    text = "SELECT n.sym, n.name FROM quotes q JOIN names n ON q.sym = n.sym WHERE q.bid > 10"
    desk.engine.query(text, severity="error")
    desk.push(("A", "x", 11))
    desk.engine.push("names", [("A", "ann")])
    assert desk.open_alerts() == [("firing", "A", 1)]
    desk.push(("A", "x", 3))
    assert desk.messages() == [("firing", "A"), ("resolved", "A")]


def test_a_query_over_a_view_of_a_table_resolves_too(desk):
    desk.engine.query("SELECT sym, bid FROM quotes WHERE bid > 10", name="high")
    desk.engine.query("SELECT sym FROM high WHERE bid > 20", per="sym")
    desk.push(("A", "x", 21))
    desk.push(("A", "x", 15))
    assert desk.messages() == [("firing", "A"), ("resolved", "A")]


def test_it_fires_once_it_has_had_rows_for_that_long(desk):
    desk.engine.query("SELECT sym FROM quotes WHERE bid > 10", for_="10 seconds")
    desk.push(("A", "x", 11), ("B", "x", 12))
    desk.seconds = 5
    desk.push(("B",))
    assert desk.open_alerts() == [("pending", "A", 1)]
    desk.seconds = 10
    desk.push()
    assert desk.messages() == [("firing", "A")]


def test_a_row_that_leaves_after_that_time_has_fired_and_resolved(desk):
    desk.engine.query("SELECT sym FROM quotes WHERE bid > 10", for_="10 seconds")
    desk.push(("A", "x", 11))
    desk.seconds = 12
    desk.push(("A",))
    assert desk.messages() == [("firing", "A"), ("resolved", "A")]


def test_within_the_cooldown_it_is_held_and_fires_when_that_is_over(desk):
    desk.engine.query("SELECT sym FROM quotes WHERE bid > 10", cooldown="10 seconds")
    desk.push(("A", "x", 11))
    desk.push(("A",))
    desk.push(("A", "x", 12))
    assert desk.open_alerts() == [("held", "A", 1)]
    desk.seconds = 10
    desk.push()
    assert desk.messages() == [("firing", "A"), ("resolved", "A"), ("firing", "A")]
    assert [m.n_suppressed for m in desk.engine.messages()] == [0, 0, 1]


def test_a_query_that_is_paused_and_resumed_begins_anew(desk):
    query = desk.engine.query("SELECT sym FROM quotes WHERE bid > 10", name="high", severity="error")
    desk.push(("A", "x", 11))
    query.pause()
    desk.push(("A", "x", 12))
    query.resume()
    desk.push(("B", "x", 1))
    assert desk.messages() == [("firing", "A"), ("resolved", "A"), ("firing", "A")]


def test_a_silence_that_ends_sends_what_is_open(desk):
    desk.engine.query("SELECT sym FROM quotes WHERE bid > 10", name="high", severity="error")
    desk.engine.silence("high", for_="10 seconds")
    desk.push(("A", "x", 11), ("B", "x", 12))
    desk.push(("B",))
    desk.seconds = 10
    desk.push()
    assert desk.messages() == [("firing", "A"), ("firing", "B"), ("resolved", "B"), ("firing", "A")]
    assert [m.n_withheld for m in desk.engine.messages()] == [0, 0, 0, 1]


def test_resolve_is_refused_with_the_reason(desk):
    with pytest.raises(PropertyError) as refusal:
        desk.engine.query("SELECT sym FROM quotes WHERE bid > 10", resolve="5 minutes")
    assert refusal.value.problem == "property resolve does not go with a query over tables"
    assert refusal.value.detail == (
        "Rows of a table leave as well as appear: an alert over it resolves when the last row of its key leaves."
    )
    with pytest.raises(PropertyError, match="resolve does not go with"):
        desk.engine.sql(
            "CREATE VIEW v TBLPROPERTIES (resolve='5 minutes') AS SELECT sym FROM quotes WHERE bid > 10"
        )


# --------------------------------------------------------------------------------------------- the twin


@dataclass
class Twin:
    """One query by group above a limit: its rows are counted anew after every round."""

    limit: int
    counts: dict[str, int] = field(default_factory=dict)

    def round(self, table: dict[str, tuple[str, int]]) -> set[tuple[str, str]]:
        before, self.counts = self.counts, {}
        for group, bid in table.values():
            if bid > self.limit:
                self.counts[group] = self.counts.get(group, 0) + 1
        fired = {("firing", group) for group in self.counts.keys() - before.keys()}
        return fired | {("resolved", group) for group in before.keys() - self.counts.keys()}


WRITES = st.lists(
    st.one_of(
        st.tuples(st.sampled_from("ABCD")),
        st.tuples(st.sampled_from("ABCD"), st.sampled_from("xyz"), st.integers(0, 3)),
    ),
    max_size=4,
)
STEPS = st.lists(st.one_of(WRITES, st.sampled_from(["restart", "query"])), min_size=1, max_size=12)


@pytest.mark.thorough
@pytest.mark.parametrize("is_kept", [False, True])
@settings(max_examples=15, deadline=None)
@given(steps=STEPS)
def test_it_is_what_looking_at_all_rows_says(steps, is_kept, tmp_path_factory):
    desk = Desk(tmp_path_factory.mktemp("home") if is_kept else None)
    table: dict[str, tuple[str, int]] = {}
    twins: dict[str, Twin] = {}
    n_messages = 0
    try:
        for step in [*steps, []]:
            if step == "query":
                name = f"q{len(twins)}above"
                text = f"SELECT grp, bid FROM quotes WHERE bid > {len(twins) % 3}"
                desk.engine.query(text, name=name, per="grp")
                twins[name] = Twin(len(twins) % 3)
                continue
            if step == "restart":
                if is_kept:
                    desk.reopen()
                continue
            desk.push(*step)
            for sym, *row in step:
                if row:
                    table[sym] = (row[0], row[1])
                else:
                    table.pop(sym, None)
            said: dict[str, set] = {name: set() for name in twins}
            for message in desk.engine.messages(after=n_messages):
                said[message.query].add((message.status, message.key["grp"]))
                n_messages = message.id
            assert said == {name: twin.round(table) for name, twin in twins.items()}
            for name, twin in twins.items():
                opened = {alert.key["grp"]: alert.n_rows for alert in desk.engine.alerts(query=name)}
                assert opened == twin.counts
    finally:
        desk.engine.close()
