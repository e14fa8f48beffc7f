"""`eddyline alerts`, on a home that nobody holds and on one that is held."""

from __future__ import annotations

import threading

import pytest

import eddyline
from eddyline.api import Commands
from eddyline.errors import PropertyError


@pytest.fixture(params=["opened", "held"])
def home(request, tmp_path):
    """A home with two open alerts, and messages."""
    engine = eddyline.open(tmp_path / "home", clock=lambda: 0)
    engine.stream("trades", "sym STRING, price DOUBLE")
    text = "SELECT sym, price FROM trades WHERE price < 10"
    engine.query(
        text, name="cheap", per="sym", resolve="1 hour", severity="error", message="{sym} at {price:.1f}"
    )
    engine.query(text, name="slow", owner="anna", for_="1 minute", resolve="1 hour")
    engine.query(text, name="once", cooldown="1 day")
    engine.push("trades", [("A", 9.0), ("B", 8.0)])
    engine.query(text, name="late", per="sym", resolve="1 hour", cooldown="1 day")
    if request.param == "opened":
        engine.close()
        yield tmp_path / "home"
        return
    engine.listen()
    with engine:
        yield tmp_path / "home"


def test_open_alerts_are_a_table(shell, home):
    said = shell(f"eddyline alerts --home {home}")
    assert said.code == 0
    assert said.out.splitlines() == [
        "state    severity  query  key    since                 last                  rows  message",
        "firing   error     cheap  sym=A  1970-01-01T00:00:00Z  1970-01-01T00:00:00Z  1     A at 9.0",
        "firing   error     cheap  sym=B  1970-01-01T00:00:00Z  1970-01-01T00:00:00Z  1     B at 8.0",
        "pending  warning   slow          1970-01-01T00:00:00Z  1970-01-01T00:00:00Z  2     slow",
    ]


def test_open_alerts_of_a_query_an_owner_or_a_state(shell, home):
    assert len(shell(f"eddyline alerts cheap --home {home} --json").json) == 2
    assert [a["query"] for a in shell(f"eddyline alerts --owner anna --home {home} --json").json] == ["slow"]
    assert [a["query"] for a in shell(f"eddyline alerts --state pending --home {home} --json").json] == [
        "slow"
    ]
    nothing = shell(f"eddyline alerts late --home {home}")
    assert (nothing.code, nothing.out, nothing.err) == (0, "", "no alert is open\n")


def test_messages_are_lines(shell, home):
    said = shell(f"eddyline alerts --messages 2 --home {home}")
    assert said.out.splitlines() == [
        "2  1970-01-01T00:00:00Z  firing  warning  once  once",
        "3  1970-01-01T00:00:00Z  firing  error  cheap  B at 8.0",
    ]
    (message,) = [shell(f"eddyline alerts once --messages 5 --json --home {home}").json]
    assert (message["id"], message["query"], message["status"], message["row"]) == (
        2,
        "once",
        "firing",
        {"sym": "A", "price": 9.0},
    )


def test_a_query_shows_its_properties_and_how_its_alerts_are(shell, home):
    said = shell(f"eddyline query show cheap --home {home}")
    for line in ["  per        sym", "  resolve    1 hour", "  severity   error", "  message    {sym} at {price:.1f}",
                 "  alerts     2 firing, fired 2 times, resolved 0, 0 suppressed"]:  # fmt: skip
        assert line in said.out.splitlines()
    assert (
        "  alerts     none open, fired 1 times, resolved 0, 1 suppressed"
        in shell(f"eddyline query show once --home {home}").out
    )


def test_what_is_wrong_is_said(shell, home):
    both = shell(f"eddyline alerts --state held --follow --home {home}")
    assert (both.code, both.err) == (
        2,
        "--state goes with open alerts, not with messages\nhint: Leave out --messages and --follow.\n",
    )
    assert "hint: Did you mean cheap?" in shell(f"eddyline alerts chaep --home {home}").err
    assert "there is no state hld" in shell(f"eddyline alerts --state hld --home {home}").err


def test_a_state_nobody_has_is_refused():
    with eddyline.open() as engine, pytest.raises(PropertyError) as refused:
        engine.alerts(state="fring")
    assert str(refused.value) == "there is no state 'fring' of an alert\nhint: Did you mean firing?"


def test_messages_are_followed_as_they_come():
    with eddyline.open(clock=lambda: 0) as engine:
        engine.stream("trades", "sym STRING")
        engine.query("SELECT sym FROM trades", name="all", message="{sym}")
        engine.query("SELECT sym FROM trades", name="other", message="not {sym}")
        engine.push("trades", [("a",), ("b",)])
        coming = Commands(engine).messages(query="all", newest=1, follow=True)
        assert next(coming)["message"] == "b"
        pusher = threading.Thread(target=lambda: engine.push("trades", [("c",), ("d",)]))
        pusher.start()
        found = []
        while len(found) < 2:
            message = next(coming)
            if message is not None:
                found.append((message["id"], message["message"]))
        pusher.join()
        assert found == [(5, "c"), (7, "d")]
        assert [m["id"] for m in Commands(engine).messages(after=5)] == [6, 7, 8]
