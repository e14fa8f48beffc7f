"""The log on stderr: events and notes as lines, for people or as JSON, without secrets."""

from __future__ import annotations

import argparse
import json
import logging
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from eddyline import events
from eddyline.cli.logs import level_of, logging_to_stderr, tell_event, without_secrets
from eddyline.cli.output import Output
from eddyline.errors import PropertyError

FAILED = events.SinkFailed(12, "ops", "no route to host")
COMMITTED = events.RoundCommitted(12, 3, 10, 2, 0, 0, 0.01)
TOKEN = "edl_0123456789ab_Zm9vYmFyLWZvbw"


def wanted(**options: str) -> argparse.Namespace:
    return argparse.Namespace(**({"log_format": "text", "log_level": "info"} | options))


def after_time(line: str) -> str:
    """A line of the log for people, behind its time."""
    at, rest = line.split(" ", 1)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", at), line
    return rest


def lines(text: str) -> list[dict]:
    return [json.loads(line) for line in text.splitlines()]


def test_events_are_lines_of_json_with_time_level_name_and_fields(capsys):
    with logging_to_stderr(wanted(log_format="json"), Output()):
        tell_event(FAILED)
        tell_event(COMMITTED)  # rounds are told at level debug
    (line,) = lines(capsys.readouterr().err)
    at = line.pop("time")
    assert line == {
        "level": "warning",
        "event": "SinkFailed",
        "round": 12,
        "sink": "ops",
        "message": "no route to host",
    }
    assert at.endswith("Z")
    assert len(at) == len("2026-01-05T09:30:00.123Z")


def test_events_are_lines_for_people_as_text(capsys):
    with logging_to_stderr(wanted(), Output()):
        tell_event(FAILED)
        tell_event(COMMITTED)
    (line,) = capsys.readouterr().err.splitlines()
    assert after_time(line) == "warning round 12: SinkFailed: sink ops, message no route to host"


def test_what_routers_decide_is_told_in_words_and_only_to_who_wants_everything(capsys):
    drifted = events.FilterDrifted(12, "posts", "lang(text) = 'de'", "pass rate", 0.48, 0.12)
    with logging_to_stderr(wanted(), Output()):
        tell_event(drifted)
    with logging_to_stderr(wanted(log_level="debug"), Output()):
        tell_event(drifted)
    with logging_to_stderr(wanted(log_level="debug", log_format="json"), Output()):
        tell_event(drifted)
    text, line = capsys.readouterr().err.splitlines()
    assert (
        after_time(text)
        == "debug round 12: FilterDrifted: posts: `lang(text) = 'de'` passes 12 % of rows, it was 48 %"
    )
    assert json.loads(line)["after"] == 0.12


@pytest.mark.parametrize(
    ("level", "told"),
    [
        ("debug", ["RoundCommitted", "IndexBuilt", "SinkFailed", "RoundFailed"]),
        ("info", ["IndexBuilt", "SinkFailed", "RoundFailed"]),
        ("warning", ["SinkFailed", "RoundFailed"]),
        ("error", ["RoundFailed"]),
    ],
)
def test_the_level_says_what_is_told(capsys, level, told):
    with logging_to_stderr(wanted(log_format="json", log_level=level), Output()):
        for event in (
            COMMITTED,
            events.IndexBuilt(1, "trades", 5, 0.1),
            FAILED,
            events.RoundFailed(1, "full"),
        ):
            tell_event(event)
    assert [line["event"] for line in lines(capsys.readouterr().err)] == told


def test_every_event_has_a_level_and_can_be_told(capsys):
    """Whatever is announced, with values of whatever kind."""
    kinds = [
        kind for kind in vars(events).values() if isinstance(kind, type) and issubclass(kind, events.Event)
    ]
    values = {"int": 1, "float": 0.5, "str": "x", "int | None": None}
    values |= {"tuple[tuple[str, str], ...]": (("cheap", "anna"),), "tuple[str, ...]": ("anna",)}
    values["tuple[tuple[str, int], ...]"] = (("cheap", 2),)
    made = [kind(*(values[field.type] for field in kind.__dataclass_fields__.values())) for kind in kinds]
    with logging_to_stderr(wanted(log_format="json", log_level="debug"), Output()):
        for event in made:
            tell_event(event)
    found = lines(capsys.readouterr().err)
    assert [line["event"] for line in found] == [kind.__name__ for kind in kinds]
    assert [line["level"] for line in found] == [logging.getLevelName(level_of(e)).lower() for e in made]
    assert len(kinds) > 20


def test_notes_and_errors_are_lines_of_json_too(capsys):
    out = Output()
    with logging_to_stderr(wanted(log_format="json"), out):
        out.note("serving at http://127.0.0.1:8321")
    out.error(PropertyError("this is wrong", hint="Mend it."))
    found = [(line["level"], line["event"], line["message"]) for line in lines(capsys.readouterr().err)]
    assert found == [
        ("info", "Note", "serving at http://127.0.0.1:8321"),
        ("error", "Error", "this is wrong\nhint: Mend it."),
    ]


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_tokens_and_passwords_are_taken_out_of_whatever_is_logged(capsys, log_format):
    with logging_to_stderr(wanted(log_format=log_format), Output()):
        tell_event(events.SinkFailed(1, "ops", f"POST https://anna:pw123@host/x?token={TOKEN} failed"))
        logging.getLogger("eddyline.server").error("GET /%s failed", TOKEN)
        try:
            raise ValueError(f"bad {TOKEN}")
        except ValueError:
            logging.getLogger("eddyline.server").exception("failed")
    said = capsys.readouterr().err
    assert "Zm9vYmFyLWZvbw" not in said
    assert "pw123" not in said
    assert "edl_0123456789ab_…" in said
    assert "ValueError" in said


def test_notes_are_lines_with_their_time_too(capsys):
    out = Output()
    with logging_to_stderr(wanted(), out):
        out.note("rules: 2 added; version 1")
    out.error(PropertyError("this is wrong", hint="Mend it."))
    note, error, hint = capsys.readouterr().err.splitlines()
    assert after_time(note) == "info rules: 2 added; version 1"
    assert (after_time(error), hint) == ("error this is wrong", "hint: Mend it.")


def test_numbers_in_lines_for_people_are_rounded_and_exact_in_json(capsys):
    measured = events.RoundMeasured(12, 3, 123_456_789, 0.123456, 1.23456, 0.1, 12_345.678, 0.25)
    for log_format in ("text", "json"):
        with logging_to_stderr(wanted(log_level="debug", log_format=log_format), Output()):
            tell_event(measured)
    text, line = capsys.readouterr().err.splitlines()
    assert "nbytes 123,456,789, cpu_seconds 0.123, longest_task_s 1.23, plan_s 0.1, work_s 12,346" in text
    assert json.loads(line)["work_s"] == 12_345.678


# --------------------------------------------------------------------------------------------- what repeats


def test_a_failure_that_repeats_is_said_once_then_with_its_count(capsys):
    with logging_to_stderr(wanted(), Output()):
        for k in range(1000):
            tell_event(events.SourceFailed(1, "trades", f"no answer from the broker after {k} ms"))
        tell_event(events.SourceFailed(1, "quotes", "no answer from the broker after 3 ms"))
    said = [after_time(line) for line in capsys.readouterr().err.splitlines()]
    counts = [re.findall(r"\(([\d,]+) times since \d{4}-\S+Z\)$", line) for line in said]
    assert counts == [[], ["10"], ["100"], ["1,000"], []]
    assert (
        said[0]
        == "warning round 1: SourceFailed: stream trades, message no answer from the broker after 0 ms"
    )
    assert "stream quotes" in said[-1]


def test_another_failure_of_the_same_source_is_said_at_once(capsys):
    with logging_to_stderr(wanted(), Output()):
        for message in ("HTTP 500", "HTTP 500", "HTTP 401", "HTTP 500"):
            tell_event(events.SinkFailed(1, "ops", message))
    said = capsys.readouterr().err.splitlines()
    assert [line.rpartition(" ")[2] for line in said] == ["500", "401"]


def test_a_failure_after_it_went_well_again_is_a_new_one(capsys):
    with logging_to_stderr(wanted(log_format="json"), Output()):
        for _ in range(12):
            tell_event(events.SourceFailed(1, "trades", "no answer"))
        tell_event(events.SourceRecovered(2, "trades", 12, 75.25))
        tell_event(events.SourceFailed(3, "trades", "no answer"))
    found = lines(capsys.readouterr().err)
    assert [(line["event"], line.get("times")) for line in found] == [
        ("SourceFailed", None),
        ("SourceFailed", 10),
        ("SourceRecovered", None),
        ("SourceFailed", None),
    ]
    assert (found[2]["n_failures"], found[2]["seconds"], found[2]["level"]) == (12, 75.25, "info")


@pytest.mark.thorough
def test_clients_of_a_broker_that_is_down_say_so_once(capsys):
    """The library of Kafka writes its own lines, one of each client and again now and then."""
    from eddyline.kafka.cluster import Cluster, Complaints, library, new_client

    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # and does not listen
        cluster = Cluster.of(f"127.0.0.1:{closed.getsockname()[1]}")
        heard: list[str] = []
        counting = logging.Handler()
        counting.emit = lambda record: heard.append(record.getMessage())
        logger = logging.getLogger("eddyline.kafka")
        logger.addHandler(counting)
        with logging_to_stderr(wanted(), Output()):
            clients = [new_client(cluster, library().Producer, {}, Complaints()) for _ in range(3)]
            until = time.monotonic() + 60
            while sum("refused" in line for line in heard) < 3 and time.monotonic() < until:
                for client in clients:
                    client.poll(0.05)
        logger.removeHandler(counting)
    assert sum("refused" in line for line in heard) >= 3
    assert sum("refused" in line for line in capsys.readouterr().err.splitlines()) == 1


# --------------------------------------------------------------------------------------------- secrets


def test_what_is_no_secret_stays():
    for text in ("a@b.example", "http://host:80/a@b", "edl_ is how they begin", "SELECT edl_x FROM t"):
        assert without_secrets(text) == text


def test_a_secret_is_shown_by_no_log(capsys):
    out = Output()
    out.secret("link: http://x/login?token=1", otherwise="make a token")
    assert capsys.readouterr().err == "link: http://x/login?token=1\n"
    with logging_to_stderr(wanted(log_format="json"), out):
        out.secret("link: http://x/login?token=1", otherwise="make a token")
    assert [line["message"] for line in lines(capsys.readouterr().err)] == ["make a token"]


def test_words_of_the_engine_and_the_event_they_are_about_are_told_once(capsys):
    """The engine itself says in words what nobody who listens to nothing should miss."""
    for log_format, told in (("text", ["warning in words"]), ("json", ["KernelsCompiling"])):
        with logging_to_stderr(wanted(log_format=log_format), Output()):
            tell_event(events.KernelsCompiling(0, 1, 9, 1.0, 11.0, "compiling"))
            logging.getLogger("eddyline").warning("in words", extra={"is_event": True})
        said = capsys.readouterr().err
        assert (
            [after_time(line) for line in said.splitlines()]
            if log_format == "text"
            else [line["event"] for line in lines(said)]
        ) == told


def test_logging_is_as_before_afterwards():
    logger = logging.getLogger("eddyline")
    before = (logger.level, logger.propagate, list(logger.handlers))
    with logging_to_stderr(wanted(log_format="json"), Output()):
        assert not logger.propagate
    assert (logger.level, logger.propagate, list(logger.handlers)) == before


@pytest.mark.thorough
def test_a_run_with_json_logs_writes_nothing_else_to_stderr(project: Path):
    (project / "data" / "bad.json").write_text("this is not json\n")
    words = ["run", "--once", "--log-format", "json", "--log-level", "debug"]
    done = subprocess.run(
        [sys.executable, "-m", "eddyline.cli", *words],
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0
    found = lines(done.stderr)
    assert {"Note", "RoundCommitted"} <= {line["event"] for line in found}
    assert all({"time", "level", "event"} <= line.keys() for line in found)
    assert [line for line in done.stdout.splitlines() if "cheap" in line]
