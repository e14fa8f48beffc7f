"""Silences keep messages from being sent, and what is left to say afterwards is sent once, whatever crashes in between."""

from __future__ import annotations

import datetime
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

import eddyline
import eddyline.engine.after_commit
from eddyline import Engine
from eddyline.engine import Retention
from eddyline.errors import PropertyError, QueryStateError, UnknownNameError
from tests.alerts.test_step import TEXT, S, World, facts, places
from tests.strategies import examples

LASTING = {"per": "key", "resolve": "10 seconds"}


@pytest.fixture(params=["memory", "home"])
def world(request, tmp_path) -> Iterator[World]:
    found = World(None if request.param == "memory" else tmp_path / "home")
    found.engine.stream("rows_", "key STRING, v INT")
    yield found
    found.engine.close()


def sent(engine: Engine) -> list[tuple[Any, ...]]:
    return [(m.status, m.key.get("key"), m.n_withheld) for m in engine.messages() if m.silence is None]


def withheld(engine: Engine) -> list[tuple[Any, ...]]:
    return [(m.status, m.key.get("key"), m.silence) for m in engine.messages() if m.silence is not None]


# --------------------------------------------------------------------------------------------- what is sent


def test_an_alert_that_fires_in_a_silence_and_is_still_open_is_sent_once_when_it_ends(world):
    heard = []
    world.engine.query(TEXT, name="up", **LASTING)
    world.engine.on_message(lambda message: heard.append((message.id, message.status, message.n_rows)))
    silence = world.engine.silence("up", for_="30 seconds", reason="deploy", by="kim")
    world.push(25, ("a", 1))
    world.push(29, ("a", 1))
    (alert,) = world.engine.alerts()
    assert (alert.state, alert.silence.id, alert.silence.reason) == ("firing", silence.id, "deploy")
    assert (heard, withheld(world.engine)) == ([], [("firing", "a", 1)])
    world.push(30)
    world.push(31)
    assert heard == [(2, "firing", 2)]
    assert sent(world.engine) == [("firing", "a", 1)]
    (over,) = world.engine.silences(over=True)
    assert (over.n_withheld, world.engine.silences()) == (1, [])


def test_an_alert_that_was_sent_and_resolves_in_a_silence_is_sent_resolved_when_it_ends(world):
    world.engine.query(TEXT, name="up", **LASTING)
    world.push(1, ("a", 1))
    world.engine.silence("up", for_="1 minute")
    world.push(20)
    assert world.engine.alerts() == []
    assert sent(world.engine) == [("firing", "a", 0)]
    world.push(62)
    assert sent(world.engine) == [("firing", "a", 0), ("resolved", "a", 1)]


def test_what_came_and_went_and_what_went_and_came_again_needs_no_word(world):
    world.engine.query(TEXT, name="up", **LASTING)
    world.push(1, ("stays", 1))
    world.engine.silence("up", for_="1 minute")
    world.push(2, ("comes", 1))
    world.push(20)
    world.push(55, ("stays", 1))
    assert len(withheld(world.engine)) == 4
    world.push(62)
    assert sent(world.engine) == [("firing", "stays", 0)]
    world.push(90)
    assert sent(world.engine)[1:] == [("resolved", "stays", 0)]


def test_instants_in_a_silence_are_counted_and_never_sent(world):
    world.engine.query(TEXT, name="up", severity="info")
    world.engine.silence("up", for_="1 minute")
    world.push(1, ("a", 1), ("b", 1))
    world.push(61)
    world.push(62, ("c", 1))
    assert sent(world.engine) == [("firing", None, 0)]
    assert [silence.n_withheld for silence in world.engine.silences(over=True)] == [2]
    assert world.engine.get("up").alert_counts.n_fired == 3


def test_a_silence_of_a_key_leaves_the_others_alone(world):
    world.engine.query(TEXT, name="up", **LASTING)
    world.engine.silence("up", {"key": "a"}, for_="1 minute")
    world.push(1, ("a", 1), ("b", 1))
    assert (sent(world.engine), withheld(world.engine)) == ([("firing", "b", 0)], [("firing", "a", 1)])


def test_a_key_of_numbers_is_known_by_its_text_too(world):
    world.engine.query("SELECT v FROM rows_", name="up", per="v", resolve="10 seconds")
    world.engine.silence("up", {"v": "7"}, for_="1 minute")
    world.push(1, ("a", 7), ("a", 8))
    assert [m.key for m in world.engine.messages() if m.silence is None] == [{"v": 8}]
    (alert,) = world.engine.acknowledge("up", {"v": "7"})
    assert alert.key == {"v": 7}
    assert [entry["event"] for entry in world.engine.alert_history("up", {"v": "7"})] == [
        "silenced",
        "firing",
        "acknowledged",
    ]


def test_a_silence_that_is_ended_ends_with_the_next_round(world):
    world.engine.query(TEXT, name="up", **LASTING)
    silence = world.engine.silence("up", for_="1 hour")
    world.push(1, ("a", 1))
    ended = world.engine.end_silence(silence, by="kim")
    assert (ended.ended_us, ended.ended_by) == (1 * S, "kim")
    assert world.engine.end_silence(silence).ended_by == "kim"
    world.push(2)
    assert sent(world.engine) == [("firing", "a", 1)]


def test_while_another_silence_holds_nothing_is_sent(world):
    world.engine.query(TEXT, name="up", **LASTING)
    first = world.engine.silence("up", for_="5 seconds")
    second = world.engine.silence("up", {"key": "a"}, for_="8 seconds")
    world.push(1, ("a", 1), ("b", 1))
    assert [m.silence for m in world.engine.messages()] == [first.id, first.id]
    world.push(6, ("a", 1))
    assert sent(world.engine) == [("firing", "b", 1)]
    assert [alert.silence and alert.silence.id for alert in world.engine.alerts()] == [second.id, None]
    world.push(9)
    assert sent(world.engine) == [("firing", "b", 1), ("firing", "a", 1)]


def test_a_pattern_silences_queries_by_name_owner_and_severity(world):
    for name, owner, severity in [
        ("db-1", "anna", "info"),
        ("db-2", "anna", "error"),
        ("db-3", "ben", "info"),
        ("web", "anna", "info"),
    ]:
        world.engine.query(TEXT, name=name, owner=owner, severity=severity, **LASTING)
    world.engine.silence("db-*", for_="1 minute", owner="anna", severity="info")
    world.push(1, ("a", 1))
    assert {m.query for m in world.engine.messages() if m.silence is not None} == {"db-1"}
    world.engine.silence("*", for_="1 minute")
    world.push(2, ("b", 1))
    assert all(m.silence is not None for m in world.engine.messages() if m.key == {"key": "b"})


def test_a_query_dropped_in_a_silence_is_sent_resolved_when_it_ends_if_it_was_sent_firing(world):
    for name in ("up", "new"):
        world.engine.query(TEXT, name=name, **LASTING)
    world.engine.silence("new", for_="1 minute")
    world.push(1, ("a", 1))
    world.engine.silence("up", for_="1 minute")
    world.engine.drop("up")
    world.engine.drop("new")
    world.push(2)
    world.push(70)
    told = [(m.query, m.status, m.reason) for m in world.engine.messages() if m.silence is None]
    assert told == [("up", "firing", None), ("up", "resolved", "dropped")]


def test_a_round_that_began_before_the_silence_is_told(tmp_path):
    """It is the version of the round that counts, also when the round is made up for after a crash."""
    world = World(tmp_path / "home")
    world.engine.stream("rows_", "key STRING, v INT")
    world.engine.query(TEXT, name="up", **LASTING)
    world.push(1, ("a", 1), at="failing")
    world.engine.silence("up", for_="1 minute")
    world.push(2, ("b", 1))
    assert (sent(world.engine), withheld(world.engine)) == ([("firing", "a", 0)], [("firing", "b", 1)])
    world.engine.close()


# --------------------------------------------------------------------------------------------- acknowledgements


def test_an_acknowledgement_is_of_one_alert_and_ends_with_it(world):
    world.engine.query(TEXT, name="up", **LASTING)
    world.push(1, ("a", 1), ("b", 1))
    (alert,) = world.engine.acknowledge("up", {"key": "a"}, note="on it", by="kim")
    assert alert.acknowledgement.as_dict() == {"by": "kim", "at": "1970-01-01T00:00:01Z", "note": "on it"}
    assert [alert.key for alert in world.engine.alerts(acknowledged=False)] == [{"key": "b"}]
    world.reopen()
    world.push(5, ("a", 1), ("b", 1))
    assert [alert.key for alert in world.engine.alerts(acknowledged=True)] == [{"key": "a"}]
    world.push(20, ("a", 1))  # it resolves, and opens again
    assert [alert.acknowledgement for alert in world.engine.alerts()] == [None]


def test_without_a_key_all_open_alerts_of_a_query_are_acknowledged(world):
    world.engine.query(TEXT, name="up", **LASTING)
    world.engine.query(TEXT, name="other", **LASTING)
    world.push(1, ("a", 1), ("b", 1))
    assert len(world.engine.acknowledge("up", by="kim")) == 2
    assert {alert.query for alert in world.engine.alerts(acknowledged=True)} == {"up"}


# --------------------------------------------------------------------------------------------- history, retention


def test_the_history_of_an_alert_says_what_happened_in_order(world):
    world.engine.query(TEXT, name="up", **LASTING, for_="2 seconds")
    world.push(1, ("a", 1), ("b", 1))
    world.push(3, ("a", 1))
    world.engine.acknowledge("up", {"key": "a"}, note="on it", by="kim")
    world.now_us = 4 * S
    world.engine.silence("up", {"key": "a"}, for_="30 seconds", reason="deploy", by="ben")
    world.push(20)
    world.push(40)
    found = world.engine.alert_history("up", {"key": "a"})
    assert [(entry["at"][-3:-1], entry["event"], entry.get("by")) for entry in found] == [
        ("01", "opened", None),
        ("03", "firing", None),
        ("03", "acknowledged", "kim"),
        ("04", "silenced", "ben"),
        ("20", "resolved", None),
        ("34", "silence ended", ""),
        ("40", "sent", None),
    ]
    assert world.engine.alert_history("up", {"key": "a"}, newest=1) == found[-1:]
    assert [entry["event"] for entry in world.engine.alert_history("up", {"key": "b"})] == []


def test_silences_and_acknowledgements_are_forgotten_with_results_unless_they_still_matter(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(eddyline.engine.after_commit, "GC_EVERY", 1)
    world = World(tmp_path / "home", retention=Retention(results_us=60 * S))
    world.engine.stream("rows_", "key STRING, v INT")
    world.engine.query(TEXT, name="up", per="key", resolve="10 minutes")
    world.push(1, ("a", 1))
    world.engine.acknowledge("up", by="kim")
    world.engine.silence("up", for_="5 seconds")
    world.engine.silence("up", for_="5 minutes")
    world.push(50)
    assert [silence.id for silence in world.engine.silences(over=None)] == [1, 2]
    world.push(200)
    assert [silence.id for silence in world.engine.silences(over=None)] == [2]
    assert [alert.acknowledgement.by for alert in world.engine.alerts()] == ["kim"]
    world.push(700)
    world.push(800)
    assert world.engine.silences(over=None) == []
    assert [entry["event"] for entry in world.engine.alert_history("up", {"key": "a"})] == []
    world.engine.close()


# --------------------------------------------------------------------------------------------- mistakes


def test_what_cannot_be_silenced_is_refused_with_the_way_out():
    engine = eddyline.open(clock=lambda: 100 * S)
    engine.stream("rows_", "key STRING, v INT")
    engine.query(TEXT, name="up", **LASTING)
    engine.query(TEXT, name="whole", severity="info")
    engine.query(TEXT, name="plain")
    version = engine.version
    for error, what, call in [
        (PropertyError, "a silence needs an end", lambda: engine.silence("up")),
        (
            PropertyError,
            "a silence has one end",
            lambda: engine.silence("up", for_="1 s", until="2030-01-01"),
        ),
        (PropertyError, "has to end after now", lambda: engine.silence("up", until="1970-01-01T00:01:00Z")),
        (PropertyError, "has to end after now", lambda: engine.silence("up", for_=0)),
        (PropertyError, "no longer than 366 days", lambda: engine.silence("up", for_="400 days")),
        (PropertyError, "'soon' is not a time", lambda: engine.silence("up", until="soon")),
        (PropertyError, "no severity 'bad'", lambda: engine.silence("*", for_="1 h", severity="bad")),
        (PropertyError, "have no key column kex", lambda: engine.silence("up", {"kex": 1}, for_="1 h")),
        (PropertyError, "have no key column key", lambda: engine.silence("whole", {"key": 1}, for_="1 h")),
        (PropertyError, "cannot be the reason", lambda: engine.silence("up", for_="1 h", reason="a\nb")),
        (QueryStateError, "query plain has no alerts", lambda: engine.silence("plain", for_="1 h")),
        (
            QueryStateError,
            "no alert of up with key=a is open",
            lambda: engine.acknowledge("up", {"key": "a"}),
        ),
        (UnknownNameError, "there is no query upp", lambda: engine.silence("upp", for_="1 h")),
        (UnknownNameError, "there is no silence 9", lambda: engine.end_silence(9)),
        (PropertyError, "needs its key: key", lambda: engine.alert_history("up")),
    ]:
        with pytest.raises(error) as refused:
            call()
        assert what in str(refused.value)
        assert refused.value.hint, what
    assert (engine.version, engine.silences(over=None)) == (version, [])


def test_the_end_of_a_silence_may_be_a_time_in_any_zone():
    engine = eddyline.open(clock=lambda: 0)
    engine.stream("rows_", "key STRING, v INT")
    engine.query(TEXT, name="up", **LASTING)
    zone = datetime.timezone(datetime.timedelta(hours=2))
    for until in (
        "1970-01-02T00:00:00Z",
        "1970-01-02 00:00",
        datetime.datetime(1970, 1, 2, 2, tzinfo=zone),
    ):
        assert engine.silence("up", until=until).until_us == 86_400 * S


# --------------------------------------------------------------------------------------------- any life

steps = st.lists(
    st.tuples(
        st.sampled_from(["silence", "silence key", "end", "push", "push", "push", "tick", "pause"]),
        st.integers(0, 6),
        st.sampled_from(["a", "b"]),
        places,
    ),
    max_size=16,
)


@examples(0.4)
@given(steps)
def test_after_every_silence_those_who_are_told_know_where_each_alert_stands_whatever_crashes(life):
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for home in (None, Path(folder) / "home"):
            world = World(home)
            world.engine.stream("rows_", "key STRING, v INT")
            world.engine.query(
                TEXT, name="up", per="key", for_="2 seconds", resolve="5 seconds", cooldown="9 seconds"
            )
            try:
                found.append(_lived(world, life))
            finally:
                world.engine.close()
    assert found[0] == found[1]


def _lived(world: World, life) -> dict[str, Any]:
    time = 0
    made: list[tuple[int, str | None, int, list[int]]] = []  # id, key, until, the round it was ended before
    held: dict[int, dict[str, bool]] = {}  # by round: whether each key is silenced
    number = 0
    for what, gap, key, at in life:
        time += gap
        world.now_us = time * S
        if at == "reopened":
            world.reopen()
        engine = world.engine
        if what.startswith("silence"):
            of = key if what == "silence key" else None
            silence = engine.silence("up", None if of is None else {"key": of}, for_=gap + 1)
            made.append((silence.id, of, time + gap + 1, []))
        elif what == "end" and made:
            made[-1][3].append(time)
            engine.end_silence(made[-1][0])
        elif what == "pause":
            engine.get("up").pause()
            engine.get("up").resume()
        else:
            number += 1
            held[number] = {
                each: any(of in (None, each) and time < until and not ended for _, of, until, ended in made)
                for each in ("a", "b", "c")
            }
            world.push(time, *([(key, 2), ("c", 2)] if what == "push" else []), at=at)
    for message in world.engine.messages():
        if not message.n_withheld:
            assert held[message.round][message.key["key"]] == (message.silence is not None), message
    while world.engine.silences():
        time += 1
        world.push(time)
    world.push(time)
    told: dict[tuple[int, str], list[str]] = {}
    for message in world.engine.messages():
        if message.silence is None:
            told.setdefault((message.generation, message.key["key"]), []).append(message.status)
    for statuses in told.values():
        assert statuses == (["firing", "resolved"] * len(statuses))[: len(statuses)]
    firing = {(a.generation, a.key["key"]) for a in world.engine.alerts(state="firing")}
    assert {key for key, statuses in told.items() if statuses[-1] == "firing"} == firing
    assert world.engine.rounds.alerting.log.withheld() == {}
    return facts(world.engine) | {"silences": [s.as_dict() for s in world.engine.silences(over=None)]}
