"""Commands on a held home: what the socket answers is what the engine answers, errors included."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

import pytest

import eddyline
from eddyline.api import Commands
from eddyline.control.home_socket import MAX_REQUEST, Remote, error_from, error_to
from eddyline.errors import ClosedError, EddylineError, HomeError, ParseError, Span, UnknownNameError
from eddyline.pipeline import Mistake, PipelineError, Place
from eddyline.rules import RulesError
from eddyline.storage import holder_of


def quiet(what: str, done: int, of: int) -> None:
    """Nobody is watching."""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def engine(home: Path):
    with eddyline.open(home, clock=lambda: 1_767_225_600_000_000) as engine:
        engine.stream("trades", "sym STRING, price DOUBLE")
        engine.query("SELECT sym, price FROM trades WHERE price < 10", name="cheap")
        engine.listen()
        yield engine


@pytest.fixture
def remote(engine, home: Path):
    remote = Remote(home)
    yield remote
    remote.close()


def asked(home: Path, line: bytes) -> dict:
    """The answer to a line as it stands."""
    with socket.socket(socket.AF_UNIX) as one:
        one.connect(str(home / "socket"))
        one.sendall(line)
        return json.loads(one.makefile("rb").readline())


# --------------------------------------------------------------------------------------------- the same answers


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        ("status", {}),
        ("query_list", {"pattern": "che"}),
        ("query_show", {"query": "cheap"}),
        ("explain", {"text": "SELECT sym FROM trades WHERE price > 3"}),
        ("why", {"query": "cheap", "row": {"price": 11}}),
        ("why_not", {"query": "cheap"}),
        ("dead_letters", {}),
        ("versions", {}),
        ("doctor", {}),
        ("cursor", {"reader": "me"}),
    ],
)
def test_an_answer_over_the_socket_is_that_of_the_engine(engine, remote, command, arguments):
    engine.push("trades", [{"sym": "A", "price": 9.5}, {"sym": "B", "price": float("nan")}])
    assert remote.call(command, arguments, quiet) == Commands(engine).call(command, arguments, quiet)


@pytest.mark.parametrize(
    ("command", "arguments", "kind"),
    [
        ("query_show", {"query": "chep"}, UnknownNameError),
        ("query_add", {"text": "SELECT sym\nFROM trades WHERE"}, ParseError),
        ("query_add", {"text": "SELECT syn FROM trades"}, UnknownNameError),
        ("plan", {"files": ["/nowhere.sql"]}, EddylineError),
        ("rollback", {"version": 99}, EddylineError),
        ("no_such", {}, UnknownNameError),
        ("query_show", {"qery": "cheap"}, EddylineError),
    ],
)
def test_an_error_over_the_socket_is_that_of_the_engine(engine, remote, command, arguments, kind):
    with pytest.raises(kind) as there:
        remote.call(command, arguments, quiet)
    with pytest.raises(kind) as here:
        Commands(engine).call(command, arguments, quiet)
    assert str(there.value) == str(here.value)
    assert type(there.value) is type(here.value)


def test_a_change_over_the_socket_is_a_change_of_the_live_engine(engine, remote):
    made = remote.call("query_add", {"text": "SELECT sym FROM trades", "name": "all"}, quiet)
    assert (made["id"], made["is_new"], engine.version) == (2, True, 3)
    assert engine.push("trades", [{"sym": "A", "price": 50.0}]).count == 1
    remote.call("query_pause", {"queries": ["all", "cheap"]}, quiet)
    assert (engine.get("all").state, engine.get("cheap").state, engine.version) == ("paused", "paused", 4)
    remote.call("query_resume", {"queries": ["all"]}, quiet)
    assert remote.call("query_drop", {"queries": ["2"]}, quiet) == {"dropped": ["all"], "version": 6}
    assert [query.name for query in engine.queries()] == ["cheap"]


def test_progress_is_told_to_the_one_who_asked(engine, remote, tmp_path):
    (tmp_path / "a.sql").write_text("SELECT sym FROM trades")
    told: list[str] = []
    remote.call(
        "plan", {"files": [str(tmp_path)]}, lambda what, done, of: told.append(f"{what} {done} of {of}")
    )
    assert told[0] == "comparing rules 0 of 1"


def test_mistakes_of_rules_and_pipelines_travel_whole(tmp_path):
    mistakes = [Mistake(Place(Path("a.sql"), 3, 7, "SELECT nope", 4), "no", "why", "do this")]
    for error in (RulesError(mistakes), PipelineError(Path("eddyline.toml"), mistakes)):
        again = error_from(json.loads(json.dumps(error_to(error))))
        assert type(again) is type(error)
        assert str(again) == str(error)


def test_an_error_of_a_kind_unknown_here_is_still_an_error():
    error = error_from(
        {"kind": "os", "problem": "it broke", "hint": "Mend it.", "span": [0, 2], "text": "ab"}
    )
    assert type(error) is EddylineError
    assert (str(error), error.span) == ("it broke\n  ab\n  ^^\nhint: Mend it.", Span(0, 2))


# --------------------------------------------------------------------------------------------- results as they come


def test_following_gives_what_is_there_and_then_what_comes(engine, remote):
    engine.push("trades", [{"sym": "A", "price": 1.0}])
    items = remote.call("tail", {"newest": 10, "follow": True}, quiet)
    first = next(item for item in items if item is not None)
    assert (first["query"], first["row"], first["cursor"]) == ("cheap", {"sym": "A", "price": 1.0}, "1-1-1")
    engine.push("trades", [{"sym": "B", "price": 20.0}, {"sym": "C", "price": 2.0}])
    second = next(item for item in items if item is not None)
    assert (second["row"]["sym"], second["round"], second["cursor"]) == ("C", 2, "2-3-1")


def test_reading_goes_on_after_a_cursor(engine):
    commands = Commands(engine)
    engine.query("SELECT sym FROM trades", name="all")
    engine.push("trades", [{"sym": "A", "price": 1.0}, {"sym": "B", "price": 2.0}])
    engine.push("trades", [{"sym": "C", "price": 3.0}])

    def read(**arguments):
        found = commands.call("tail", arguments, quiet)
        return [f"{item['cursor']} {item['query']}" for item in found]

    everything = ["1-1-1 cheap", "1-1-2 all", "1-2-1 cheap", "1-2-2 all", "2-3-1 cheap", "2-3-2 all"]
    assert read() == everything
    assert read(after="1-1-1") == everything[1:]
    assert read(after="1-1") == everything[2:]
    assert read(after="1") == everything[4:]
    assert read(after="2") == []
    assert read(newest=1) == everything[5:]
    assert read(newest=0) == []
    assert read(newest=3) == everything[3:]
    assert read(queries=["cheap"], after="1-1-2") == ["1-2-1 cheap", "2-3-1 cheap"]
    engine.drop("cheap")
    assert read(newest=2) == everything[4:]  # it keeps its name
    with pytest.raises(EddylineError, match=r"'x-1' is not a cursor\nhint: Use the cursor of a result"):
        read(after="x-1")


def test_a_reader_that_goes_away_ends_alone(engine, home):
    one, other = Remote(home), Remote(home)
    next(one.call("tail", {"newest": 0, "follow": True}, quiet))
    one.close()
    assert other.call("status", {}, quiet)["n_queries"] == 1
    other.close()


def test_closing_the_engine_ends_whoever_follows(engine, remote, home):
    items = remote.call("tail", {"newest": 0, "follow": True}, quiet)
    assert next(items) is None
    engine.close()
    with suppress(ClosedError):  # cut off, or told that it is over
        assert all(item is None for item in items)
    assert not (home / "socket").exists()
    assert holder_of(home) is None


def test_many_may_ask_at_once(engine, home):
    answers: list[int] = []

    def ask(n: int) -> None:
        remote = Remote(home)
        for k in range(5):
            made = remote.call("query_add", {"text": f"SELECT sym FROM trades WHERE price > {n}{k}"}, quiet)
            answers.append(made["id"])
        remote.close()

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == list(range(2, 42))
    assert engine.n_queries == 41


# --------------------------------------------------------------------------------------------- the socket


def test_only_the_user_may_connect(engine, home):
    assert stat.S_IMODE(os.stat(home / "socket").st_mode) == 0o600


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"hello\n", "the command is not JSON"),
        (b'["status"]\n', "the engine has protocol 1, the command None"),
        (b'{"protocol": 2, "command": "status"}\n', "the engine has protocol 1, the command 2"),
        (b'{"protocol": 1, "command": 7}\n', "the command needs a name and arguments"),
        (b'{"protocol": 1, "command": "call", "arguments": {}}\n', "there is no command call"),
        (b'{"protocol": 1, "command": "__init__", "arguments": {}}\n', "there is no command __init__"),
        (b"x" * (MAX_REQUEST + 10), "a command of more than 16777216 bytes is not taken"),
    ],
    ids=["text", "list", "protocol", "number", "private", "special", "long"],
)  # fmt: skip
def test_what_is_not_a_command_is_refused(engine, home, line, problem):
    assert asked(home, line)["error"]["problem"] == problem


def test_a_fault_of_ours_is_told_and_ends_nothing(engine, remote, monkeypatch):
    def broken(self):
        raise KeyError("oops")

    monkeypatch.setattr(Commands, "status", broken)
    with pytest.raises(EddylineError) as error:
        remote.call("status", {}, quiet)
    assert str(error.value) == (
        "the engine failed on this command: KeyError: 'oops'\nhint: This is a bug in eddyline."
    )
    assert remote.call("cursor", {"reader": "x"}, quiet)["round"] == 0


@pytest.mark.thorough
def test_a_socket_left_by_a_killed_holder_is_replaced(home):
    script = (
        "import sys, time, eddyline\n"
        "engine = eddyline.open(sys.argv[1]); engine.listen(); print('ready', flush=True); time.sleep(600)"
    )
    child = subprocess.Popen([sys.executable, "-c", script, str(home)], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    remote = Remote(home)
    assert remote.call("status", {}, quiet)["version"] == 0
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    with pytest.raises(ClosedError, match="the engine ended before it answered"):
        remote.call("status", {}, quiet)
    remote.close()
    assert (home / "socket").exists()
    with eddyline.open(home) as engine:
        engine.listen()
        again = Remote(home)
        assert again.call("status", {}, quiet)["version"] == 0
        again.close()


def test_a_long_path_works_all_the_same(tmp_path):
    home = tmp_path / ("a long name with blänks " * 5) / ("x" * 60)
    with eddyline.open(home) as engine:
        engine.listen()
        remote = Remote(home)
        assert remote.call("status", {}, quiet)["home"] == str(home)
        remote.close()
    assert not (home / "socket").exists()


def test_a_long_path_without_a_short_folder_is_told(tmp_path, monkeypatch):
    home = tmp_path / ("x" * 120)
    deep = tmp_path / ("t" * 120)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    with eddyline.open(home) as engine, pytest.raises(HomeError) as error:
        engine.listen()
    assert error.value.problem == f"the path of the socket {home}/socket is too long"
    assert error.value.hint == "Set TMPDIR to a folder with a short path, such as /tmp."


def test_a_file_in_the_place_of_the_socket_is_not_removed(home):
    with eddyline.open(home) as engine:
        (home / "socket").write_text("mine")
        with pytest.raises(HomeError, match=r"socket is not a socket\n"):
            engine.listen()
    assert (home / "socket").read_text() == "mine"


def test_an_engine_in_memory_has_no_socket():
    with pytest.raises(HomeError, match="an engine in memory has no home to take commands in"):
        eddyline.open().listen()


def test_a_holder_that_does_not_listen_is_told(home):
    with eddyline.open(home), pytest.raises(HomeError) as error:
        Remote(home)
    assert error.value.problem == f"the process that holds {home} does not accept commands"
    assert error.value.hint == "Let it call engine.listen(), or end it first."


def test_listening_twice_is_listening_once(engine, remote):
    engine.listen()
    assert remote.call("status", {}, quiet)["n_queries"] == 1
