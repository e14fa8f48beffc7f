"""`eddyline silence` and `eddyline ack`, on a home that nobody holds and on one that is held."""

from __future__ import annotations

import getpass

import pytest

import eddyline


@pytest.fixture(params=["opened", "held"])
def home(request, tmp_path):
    """A home with two open alerts."""
    engine = eddyline.open(tmp_path / "home")
    engine.stream("trades", "sym STRING, price DOUBLE")
    text = "SELECT sym, price FROM trades WHERE price < 10"
    engine.query(text, name="cheap", per="sym", resolve="1 day", message="{sym} at {price:.1f}")
    engine.query(text, name="whole", owner="anna", severity="info")
    engine.push("trades", [("A", 9.0), ("B", 8.0)])
    if request.param == "opened":
        engine.close()
        yield tmp_path / "home"
        return
    engine.listen()
    with engine:
        yield tmp_path / "home"


def test_a_silence_is_made_listed_and_ended(shell, home):
    made = shell(f"eddyline silence cheap --key sym=A --for '2 hours' --reason 'new disk' --home {home}")
    assert made.out.startswith("silence 1: no messages of cheap sym=A until 20"), made
    assert made.err == "to end it before: eddyline silence end 1\n"
    (alert,) = [a for a in shell(f"eddyline alerts cheap --json --home {home}").json if a["silence"]]
    assert (alert["key"], alert["silence"]["by"]) == ({"sym": "A"}, getpass.getuser())
    assert "silenced until 20" in shell(f"eddyline alerts --home {home}").out
    listed = shell(f"eddyline silence list --home {home}").out.splitlines()
    assert listed[0].split() == ["id", "of", "until", "withheld", "by", "reason"]
    assert listed[1].split()[:3] == ["1", "cheap", "sym=A"]
    assert listed[1].endswith("new disk")
    ended = shell(f"eddyline silence end 1 --home {home}")
    assert ended.out == "silence 1 of cheap sym=A ended; 0 messages were withheld\n"
    assert shell(f"eddyline silence end 1 --home {home}").err == "silence 1 was over already\n"
    assert shell(f"eddyline silence list --home {home}").err == "no silence holds\n"
    (over,) = shell(f"eddyline silence list cheap --all --json --home {home}").json
    assert (over["id"], over["ended_by"]) == (1, getpass.getuser())


def test_a_pattern_and_a_query_of_an_owner_are_silenced(shell, home):
    made = shell(f"eddyline silence '*' --severity info --until 2999-01-01T00:00:00Z --home {home}")
    assert "a silence holds no longer than 366 days" in made.err
    made = shell(f"eddyline silence '*' --severity info --for 1h --json --home {home}").json
    assert (made["query_id"], made["severity"], made["owner"]) == (None, "info", None)
    made = shell(f"eddyline silence whole --owner anna --for 1h --json --home {home}").json
    assert (made["query"], made["owner"]) == ("whole", "anna")


def test_alerts_are_acknowledged_and_their_history_told(shell, home):
    said = shell(f"eddyline ack cheap --key sym=B --note 'on it' --home {home}")
    assert said.out == "acknowledged cheap sym=B: B at 8.0\n"
    assert f"acknowledged by {getpass.getuser()}" in shell(f"eddyline alerts --home {home}").out
    told = shell(f"eddyline alerts cheap --history --key sym=B --home {home}").out.splitlines()
    assert [line.split("  ", 1)[1] for line in told] == [
        "firing: B at 8.0",
        f"acknowledged by {getpass.getuser()}: on it",
    ]
    assert len(shell(f"eddyline ack cheap --json --home {home}").json) == 2


def test_wrong_silences_are_refused_with_the_way_out(shell, home):
    for line, code, wanted in [
        ("silence cheap", 2, "a silence needs an end\nhint: Give --for"),
        ("silence cheap --for 1h --until 2030-01-01", 2, "a silence has one end"),
        ("silence cheap more --for 1h", 2, "'more' was not expected here"),
        ("silence cheap --key sym --for 1h", 2, "'sym' is no key of an alert"),
        ("silence cheap --key sim=A --for 1h", 1, "hint: Did you mean sym?"),
        ("silence chaep --for 1h", 1, "hint: Did you mean cheap?"),
        ("silence end", 2, "end needs the number of a silence"),
        ("silence end 7", 1, "there is no silence 7"),
        ("ack cheap --key sym=Z", 1, "no alert of cheap with sym=Z is open"),
        ("alerts --history", 2, "--history is of one alert"),
        ("alerts cheap --key sym=A", 2, "--key goes with --history"),
    ]:
        said = shell(f"eddyline {line} --home {home}")
        assert said.code == code, said
        assert wanted in said.err, said.err
    assert "eddyline silence list" in shell("eddyline silence --help").out
