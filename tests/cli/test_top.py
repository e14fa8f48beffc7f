"""`eddyline top` over the socket of a running home, one frame at a time; and the picture itself."""

from __future__ import annotations

import io
import json
import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console

import eddyline
from eddyline.cli.top import TopFrame, drawn


def picture(frame: TopFrame, before: TopFrame | None = None, sort: str = "rate", **options) -> str:
    console = Console(file=io.StringIO(), width=110, highlight=False)
    console.print(drawn(frame, before, sort, **options))
    return console.file.getvalue()


def frame(at_s: float = 10.0, n: int = 1, **changes) -> TopFrame:
    """A frame whose numbers are `n` times larger than those of the first."""
    counters = {
        "opened_us": 0,
        "at_us": 3_725_000_000,
        "version": 7,
        "last_round": 10 * n,
        "n_rounds": 10 * n,
        "n_rounds_failed": 0,
        "n_rows": 1_000 * n,
        "n_results": 50 * n,
        "n_late": 2,
        "n_dead": 3,
        "total": {
            "n_rounds": 10 * n,
            "n_rows": 1_000 * n,
            "n_results": 50 * n,
            "n_late": 2,
            "n_dead": 3,
        },
        "queries": {"running": 4, "paused": 1, "suspended": 0},
        "index_bytes": 2_048,
        "streams": [
            {
                "name": "trades",
                "n_rows": 1_000 * n,
                "n_late": 2,
                "n_queries": 4,
                "watermark_lag_s": 5.0,
                "index_bytes": 2_048,
            }
        ],
        "sinks": [
            {
                "name": "ops",
                "type": "webhook",
                "takes": "alerts",
                "n_behind": 12,
                "n_delivered": 3,
                "n_failures": 5,
                "n_lost": 0,
                "is_failing": True,
                "message": "no route to host",
            }
        ],
        "alerts": {
            "n_fired": 2,
            "n_resolved": 1,
            "n_suppressed": 4,
            "n_open": {"pending": 0, "firing": 1, "held": 0},
        },
        "store": {"kinds": {"outbox": [1, 1_000]}, "catalog_bytes": 24, "free_bytes": 1 << 30},
    }
    queries = [
        {"id": 1, "name": "steady", "owner": "", "state": "running", "n_results": 40, "n_dead": 0},
        {"id": 2, "name": "rising", "owner": "anna", "state": "running", "n_results": 10 * n, "n_dead": 0},
    ]
    failing = [{"id": 3, "name": "failing", "owner": "", "state": "running", "n_results": 0, "n_dead": 3}]
    rounds = [
        {"at_us": 1_000_000 * k, "seconds": 0.001 * k, "n_rows": 100, "n_results": 5} for k in (3, 2, 1)
    ]
    message = {"at": "2026-01-05T09:30:00Z", "status": "firing", "query": "low", "message": "A fell"}
    return TopFrame(
        at_s, "trading", counters | changes, rounds, {"results": queries, "failing": failing}, [message]
    )


def test_a_frame_shows_rates_streams_sinks_alerts_and_queries():
    said = picture(frame(at_s=12.0, n=2), frame())
    assert "trading   up 1 h 2 min   round 20   version 7   queries: 4 running, 1 paused" in said
    assert "rounds 20 (5.0/s)   rows 2,000 (500/s)   results 100 (25/s)   late 2   dead 3" in said
    assert "last 3 rounds: median 2.0 ms, 99 % 3.0 ms, longest 3.0 ms" in said
    assert [line.split() for line in said.splitlines() if line.startswith("trades")] == [
        ["trades", "2,000", "500", "2", "4", "5", "s", "2.0", "kB"]
    ]
    assert [line.split() for line in said.splitlines() if line.startswith("ops")] == [
        ["ops", "webhook", "alerts", "12", "3", "5", "0", "no", "route", "to", "host"]
    ]
    assert "alerts: 0 pending, 1 firing, 0 held; fired 2, resolved 1, suppressed 4" in said
    assert "firing    low: A fell" in said


@pytest.mark.parametrize(
    ("sort", "order"),
    [
        ("rate", ["rising", "steady", "failing"]),
        ("results", ["steady", "rising", "failing"]),
        ("dead", ["failing", "steady", "rising"]),
        ("name", ["failing", "rising", "steady"]),
    ],
)
def test_queries_are_sorted_by_rate_results_dead_letters_or_name(sort, order):
    said = picture(frame(at_s=12.0, n=2), frame(), sort)
    first = [line.split()[0] for line in said.splitlines() if line.strip()]
    assert [word for word in first if word in order] == order


def test_after_a_restart_a_frame_has_what_the_home_had_in_all_and_rates_of_this_process():
    total = {"n_rounds": 500, "n_rows": 70_000, "n_results": 900, "n_late": 4, "n_dead": 5}
    again = frame(n_rounds=1, n_rows=100, n_results=5, n_late=0, n_dead=0, total=total, opened_us=2_000_000)
    said = picture(again)  # of the last three rounds, two are of this process
    assert "rounds 500 (1.0/s)   rows 70,000 (100/s)   results 900 (5.0/s)   late 4   dead 5" in said
    assert "rows 70,000   " in picture(frame(total=total, opened_us=3_000_000))


def test_a_first_frame_has_the_rates_of_the_last_rounds():
    assert "rounds 10 (1.0/s)   rows 1,000 (100/s)   results 50 (5.0/s)" in picture(frame())


def test_an_engine_in_memory_without_sinks_alerts_or_rounds_is_shown_too():
    alerts = {
        "n_fired": 0,
        "n_resolved": 0,
        "n_suppressed": 0,
        "n_open": {"pending": 0, "firing": 0, "held": 0},
    }
    empty = frame(sinks=[], streams=[], store=None, alerts=alerts)
    said = picture(TopFrame(1.0, "h", empty.counters, [], {"results": [], "failing": []}, []))
    assert "no rounds yet" in said
    assert "sink" not in said
    assert "alerts" not in said


def test_names_that_look_like_markup_are_shown_as_they_are():
    made = frame()
    made.queries["results"][0]["name"] = "[bold]x[/bold]"
    assert "[bold]x[/bold]" in picture(made)


@pytest.fixture
def running(tmp_path: Path):
    with eddyline.open(tmp_path / "home") as engine:
        engine.stream("trades", "sym STRING, price DOUBLE")
        engine.query("SELECT sym FROM trades WHERE price < 10", name="cheap", owner="anna")
        engine.query("SELECT cast(sym AS INT) AS n FROM trades", name="numbers")
        engine.push("trades", [("A", 5.0), ("B", 50.0)])
        engine.listen()
        yield tmp_path / "home"


def test_once_prints_a_frame_of_a_running_home(shell, running):
    said = shell(f"eddyline top --once --home '{running}'")
    assert said.code == 0
    lines = [line.split() for line in said.out.splitlines()]
    assert ["trades", "2", "0", "2"] in [line[:4] for line in lines]
    assert ["cheap", "anna", "running", "1", "0"] in lines
    assert ["numbers", "running", "0", "2"] in lines
    assert "\x1b" not in said.out


def test_json_is_a_line_of_numbers(shell, running):
    said = shell(f"eddyline top --once --json --home '{running}'")
    found = json.loads(said.out)
    assert found["counters"]["n_rows"] == 2
    assert [query["name"] for query in found["queries"]["failing"]] == ["numbers"]


def test_a_home_nobody_runs_is_said_to_be_so(shell, tmp_path):
    said = shell("eddyline top --once --home nowhere")
    assert said.code == 1
    assert said.err.startswith("no process runs the home nowhere\nhint: Start it with eddyline run")


@pytest.mark.thorough
def test_keys_sort_pause_and_quit(running):
    """In a terminal of its own: s sorts by something else, p holds the picture, q ends it and leaves the terminal as it was."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "eddyline.cli", "top", "--every", "0.2", "--home", str(running)],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=os.environ | {"TERM": "xterm", "COLUMNS": "120", "LINES": "40"},
    )
    os.close(slave)
    seen = ""

    def until(word: str) -> None:
        nonlocal seen
        seen, deadline = "", time.monotonic() + 60
        while word not in seen:
            assert time.monotonic() < deadline, seen
            if select.select([master], [], [], 1)[0]:
                seen += os.read(master, 65536).decode(errors="replace")

    try:
        until("by rate")
        os.write(master, b"s")
        until("by dead")
        os.write(master, b"p")
        until("PAUSED")
        os.write(master, b"q")
        while True:  # what it still has to say, until it closes its side
            try:
                if not os.read(master, 65536):
                    break
            except OSError:
                break
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
        os.close(master)
