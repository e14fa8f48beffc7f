"""`eddyline serve` as a process: how it starts, what it says, and how it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

import eddyline
from tests.server.served import events_in

PIPELINE = """\
[engine]
home = "home"

[streams.ticks]
schema = "n BIGINT"
source = { type = "generator", rate = 1000, columns = { n = { sequence = 1 } } }

[rules]
files = ["rules/*.sql"]

[[sinks]]
name = "out"
type = "file"
format = "jsonl"
path = "out"
"""


class Process:
    """A server in a process of its own."""

    def __init__(self, folder: Path, *words: str) -> None:
        self._said: list[str] = []
        environment = {name: value for name, value in os.environ.items() if name != "EDDYLINE_HOME"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "eddyline.cli", "serve", "--port", "0", *words],
            cwd=folder,
            env=environment | {"PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._has_said = threading.Condition()
        self._reader = threading.Thread(target=self._listen)
        self._reader.start()
        try:
            self.url = self._wait(r"serving at (\S+)")
        except BaseException:
            self.stop()
            raise

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._has_said:
                self._said.append(line)
                self._has_said.notify_all()
        with self._has_said:
            self._said.append("(ended)\n")
            self._has_said.notify_all()

    def _wait(self, pattern: str) -> str:
        with self._has_said:
            while True:
                found = re.search(pattern, self.text)
                if found:
                    return found[1]
                assert "(ended)" not in self.text, self.text
                self._has_said.wait(60)

    @property
    def text(self) -> str:
        return "".join(self._said)

    @property
    def link(self) -> str:
        return self._wait(r"log in.*?(http\S+)")

    def end(self, number: int = signal.SIGTERM) -> int:
        self._process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        code = self._process.wait(60)
        self._reader.join()
        return code

    def stop(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self.wait()


@contextmanager
def serving(folder: Path, *words: str) -> Iterator[Process]:
    process = Process(folder, *words)
    try:
        yield process
    finally:
        process.stop()


@contextmanager
def logged_in(process: Process) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=process.url, headers={"X-Eddyline": "1"}, timeout=30) as client:
        assert client.get(process.link).status_code == 303
        yield client


def test_a_home_alone_is_served_and_ends_in_order(tmp_path):
    with serving(tmp_path, "--home", "home") as process, logged_in(process) as client:
        assert client.get("/ready").json()["ok"] is True
        client.post("/api/v1/streams", json={"name": "trades", "schema": "price DOUBLE"})
        client.post("/api/v1/queries", json={"text": "SELECT price FROM trades", "name": "all"})
        pushed = client.post("/api/v1/streams/trades/rows", json=[{"price": 1.5}])
        assert pushed.json()["n_results"] == 1
        with client.stream("GET", "/api/v1/results/stream?after=0") as answer:
            text = ""
            for piece in answer.iter_text():
                if "data:" in text + piece and "1-1-1" not in text:
                    process._process.send_signal(signal.SIGTERM)
                text += piece
        assert events_in(text)[0][1] == "1-1-1"  # and then the stream ended by itself
        assert process.wait() == 0
        assert process.text.rstrip().endswith("shutting down\n(ended)")
    with eddyline.open(tmp_path / "home") as engine:
        assert engine.get("all").latest()[0]["price"] == 1.5
        assert "edl_" not in process.text.replace(process.link, "")


@pytest.mark.slow
def test_a_request_under_way_is_answered_before_the_end(tmp_path):
    with serving(tmp_path, "--home", "home") as process, logged_in(process) as client:
        client.post("/api/v1/streams", json={"name": "trades", "schema": "price DOUBLE"})
        texts = {
            f"q-{k}": f"SELECT price FROM trades WHERE price > {k} AND price < {2 * k}" for k in range(4_000)
        }
        answers: list[httpx.Response] = []
        sent = threading.Event()

        def body() -> Iterator[bytes]:
            yield b'{"queries":'
            sent.set()
            yield json.dumps(texts).encode() + b"}"

        def register() -> None:
            headers = {"content-type": "application/json"}
            answers.append(client.post("/api/v1/queries/bulk", content=body(), headers=headers))

        thread = threading.Thread(target=register)
        thread.start()
        sent.wait()
        assert process.end() == 0
        thread.join()
        assert answers[0].status_code == 201, answers[0].text
        assert answers[0].json()["n"] == 4_000
    with eddyline.open(tmp_path / "home") as engine:
        assert engine.n_queries == 4_000


@pytest.mark.slow
def test_a_pipeline_runs_beside_the_server_and_ends_with_it(tmp_path):
    (tmp_path / "eddyline.toml").write_text(PIPELINE)
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "even.sql").write_text("SELECT n FROM ticks WHERE n % 100 = 0\n")
    with serving(tmp_path) as process, logged_in(process) as client:
        with client.stream("GET", "/api/v1/results/stream?query=even&after=0") as answer:
            ids = _first(answer.iter_lines(), "id: ", 3)
        assert len(set(ids)) == 3
        status = client.get("/api/v1/status").json()
        assert (status["n_queries"], status["is_ready"]) == (1, True)
        token = subprocess.run(
            [sys.executable, "-m", "eddyline.cli", "token", "add", "--role", "reader", "--json"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )  # through the socket of the home, while it is served
        made = json.loads(token.stdout)
        own = {"Authorization": f"Bearer {made['token']}"}
        assert httpx.get(f"{process.url}/api/v1/me", headers=own).json()["role"] == "reader"
        assert process.end(signal.SIGINT) == 0
    with eddyline.open(tmp_path / "home") as engine:
        n_kept = sum(len(part) for _, part in engine.rounds.durable.results())
        delivered = [
            line for file in (tmp_path / "out").rglob("*.jsonl") for line in file.read_text().splitlines()
        ]
        assert len(delivered) == n_kept >= 3


def _first(lines: Iterator[str], start: str, n: int) -> list[str]:
    found: list[str] = []
    for line in lines:
        if line.startswith(start):
            found.append(line)
        if len(found) == n:
            break
    return found


@pytest.mark.slow
def test_a_port_that_is_taken_is_said_in_words(tmp_path):
    with serving(tmp_path, "--home", "one") as process:
        port = process.url.rpartition(":")[2]
        done = subprocess.run(
            [sys.executable, "-m", "eddyline.cli", "serve", "--home", "two", "--port", port],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 1
        assert f"Z error cannot serve at 127.0.0.1:{port}\n" in done.stderr
        assert "Traceback" not in done.stderr
        assert process.end() == 0
