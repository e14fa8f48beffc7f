"""A pipeline that runs in a process of its own, and commands that change it while it does."""

from __future__ import annotations

import json
import os
import platform
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from queue import Queue

import pytest

import eddyline

pytestmark = pytest.mark.thorough

SECONDS = 60  # a loaded machine takes its time; nothing here waits that long when all is well


class Child:
    """A command in a process of its own, its lines as they come."""

    def __init__(self, folder: Path, *words: str) -> None:
        environ = os.environ | {"PYTHONUNBUFFERED": "1"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "eddyline.cli", *words],
            cwd=folder,
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.out: Queue[str] = Queue()
        self.err: Queue[str] = Queue()
        self._threads = [
            threading.Thread(target=self._read, args=(pipe, queue), daemon=True)
            for pipe, queue in ((self.process.stdout, self.out), (self.process.stderr, self.err))
        ]
        for thread in self._threads:
            thread.start()

    def _read(self, pipe, queue: Queue[str]) -> None:
        with pipe:
            for line in pipe:
                queue.put(line.rstrip("\n"))

    def end(self, how: signal.Signals) -> int:
        self.process.send_signal(how)
        code = self.process.wait(SECONDS)
        for thread in self._threads:
            thread.join(SECONDS)
        return code


@pytest.fixture
def start(project: Path):
    children: list[Child] = []

    def start(*words: str) -> Child:
        children.append(Child(project, *words))
        return children[-1]

    yield start
    for child in children:
        if child.process.poll() is None:
            child.end(signal.SIGKILL)


@pytest.fixture
def running(start):
    child = start("run")
    while re.search(r" info comparing rules \d of 2, \d+ s$", said := child.err.get(timeout=SECONDS)):
        pass  # what takes a slow machine seconds is reported
    assert said.endswith("Z info rules: 2 added; version 1")
    assert [child.out.get(timeout=SECONDS) for _ in range(3)] == [
        "+ big: sym=BYTE, worth=65000.0",
        "+ cheap: sym=ACME, price=9.5",
        "+ cheap: sym=DATA, price=7.75",
    ]
    return child


def trade(sym: str, price: float) -> str:
    row = {"sym": sym, "sector": "TECH", "price": price, "qty": 1, "ts": "2026-01-05 09:31:00"}
    return json.dumps(row) + "\n"


def test_a_query_added_from_the_shell_sees_the_next_rows(shell, project, start, running):
    said = shell('eddyline query add --name dear "SELECT sym, price FROM trades WHERE price > 500"')
    assert (said.code, said.out, said.err) == (0, "added: dear, number 3, version 2\n", "")
    follower = start("tail", "dear")
    (project / "data" / "more.json.part").write_text(trade("HASH", 501.0) + trade("GRID", 9.0))
    (project / "data" / "more.json.part").rename(project / "data" / "more.json")
    assert sorted(running.out.get(timeout=SECONDS) for _ in range(2)) == [
        "+ cheap: sym=GRID, price=9.0",
        "+ dear: sym=HASH, price=501.0",
    ]
    assert follower.out.get(timeout=SECONDS) == "2-5-3  + dear  sym=HASH price=501.0"
    assert follower.end(signal.SIGINT) == 130
    assert follower.err.empty()
    assert shell("eddyline apply --prune").out == "- query dear   (in no file)\n1 removed; version 3\n"
    assert running.end(signal.SIGTERM) == 0
    last = list(running.err.queue)[-1]
    assert re.search(
        r" info \d rounds, 6 rows, 5 results in ", last
    )  # a slow machine has rounds of time alone
    assert last.endswith("s; ended by signal")


def test_a_run_without_a_terminal_says_what_it_does(project, running):
    """As under systemd or in a container: lines with their time, no progress bar."""
    assert running.end(signal.SIGTERM) == 0
    said = [line.split(" ", 2) for line in running.err.queue]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", at) for at, *_ in said), said
    told = [text for _, level, text in said if level == "info"]
    home = project / "home"
    assert told[0] == (
        f"started: eddyline {eddyline.__version__}, Python {platform.python_version()}, home {home}, 1 stream, 2 queries"
    )
    assert told[1].startswith("reading trades from files data")
    assert told[2] == "sinks: stdout (results)"
    n_rounds = told[-1].split()[0]
    assert told[-2] == f"stopping after round {n_rounds} (SIGTERM); sinks get what is theirs"
    assert re.match(r"\d rounds?, 4 rows, 3 results in ", told[-1])


def test_a_second_run_on_a_held_home_is_refused(shell, running):
    said = shell("eddyline run --once")
    assert (said.code, said.out) == (1, "")
    assert "is held by another process" in said.err
    assert f"Process {running.process.pid} " in said.err


def test_a_killed_run_leaves_a_home_that_commands_open_again(shell, running):
    running.end(signal.SIGKILL)
    assert "cheap" in shell("eddyline query list").out
    assert shell("eddyline run --once").code == 0
