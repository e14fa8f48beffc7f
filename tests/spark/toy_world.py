"""A toy world for rounds under fire: a home, input, a sink, drivers that come and go; and what must be true of it at any time.

What drivers leave is judged by reading the catalog's tables, the bytes of listed files and the sink, and by a join in plain
Python over the input.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from eddyline.storage import read_parts
from tests.spark.fire import Marks
from tests.spark.toy_join import arrivals
from tests.spark.toy_rounds import FILES_PER_ROUND

ROOT = Path(__file__).parent.parent.parent
PATIENCE_S = 90.0  # for what must happen; nothing is concluded from how long it took


# --------------------------------------------------------------------------------------------- processes


@contextlib.contextmanager
def program(what: str, env: dict[str, str] | None = None) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.spark.lives", what]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=env or environment(),
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        process.communicate()  # its stdin ends, and so does it
        assert process.returncode == 0


def environment() -> dict[str, str]:
    """Workers import what the driver's tasks are made of."""
    return os.environ | {"PYTHONPATH": str(ROOT)}


@dataclass
class Life:
    """How a driver fared: what it told, and its end."""

    pid: int
    output: Path
    end: dict[str, int] = field(default_factory=dict)

    @property
    def text(self) -> str:
        return self.output.read_text()

    def told(self, what: str) -> list[Any]:
        lines = [json.loads(line) for line in self.text.splitlines() if line.startswith("{")]
        return [line[what] for line in lines if what in line]


class World:
    """A home, input for some rounds, a sink, and the drivers that work on them one after the other."""

    def __init__(self, folder: Path, forks: subprocess.Popen[str], n_rounds: int) -> None:
        self.folder, self._forks, self.n_rounds = folder, forks, n_rounds
        self.home, self.input, self.sink = folder / "home", folder / "input", folder / "sink.jsonl"
        self.marks = Marks(folder / "marks")
        self.marks.folder.mkdir(parents=True)
        self.rows = write_input(self.input, n_rounds)
        self.lives: list[Life] = []
        self._forked: set[int] = set()

    def arguments(self, *fires: str) -> list[str]:
        paths = [self.home, self.input, self.sink, "--marks", self.marks.folder]
        return [str(path) for path in paths] + [f"--fire={fire}" for fire in fires]

    def start(self, *fires: str) -> Life:
        """A driver on the shared Java."""
        output = self.folder / f"life-{len(self.lives)}"
        answer = self._ask({"start": self.arguments(*fires), "output": str(output)})
        self.lives.append(Life(answer["pid"], output))
        self._forked.add(answer["pid"])
        return self.lives[-1]

    def wait(self, life: Life) -> Life:
        """Until it has ended, or was stopped."""
        life.end = self._ask({"wait": life.pid})
        return life

    def live(self, *fires: str) -> Life:
        return self.wait(self.start(*fires))

    def die(self, *fires: str) -> Life:
        life = self.live(*fires)
        assert life.end == {"killed": signal.SIGKILL}, f"{fires}: {life.end}\n{life.text}"
        return life

    def finish(self, *fires: str) -> Life:
        """A life that takes all input that is left."""
        life = self.live(*fires)
        assert life.end == {"ended": 0}, life.text
        assert life.told("ended") == ["all input is taken"]
        return life

    def _ask(self, question: dict[str, object]) -> dict[str, int]:
        assert self._forks.stdin is not None
        assert self._forks.stdout is not None
        self._forks.stdin.write(json.dumps(question) + "\n")
        self._forks.stdin.flush()
        return json.loads(self._forks.stdout.readline())

    @contextlib.contextmanager
    def with_own_java(self, *fires: str) -> Iterator[subprocess.Popen[bytes]]:
        """A driver that starts a Java of its own, both in a process group of their own."""
        output = self.folder / f"life-{len(self.lives)}"
        command = [sys.executable, "-m", "tests.spark.toy_rounds", *self.arguments(*fires)]
        with open(output, "wb") as file:
            process = subprocess.Popen(
                command, cwd=ROOT, env=environment(), stdout=file, stderr=file, start_new_session=True
            )
        self.lives.append(Life(process.pid, output))
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def close(self) -> None:
        for life in self.lives:
            if life.pid in self._forked and set(life.end) <= {"stopped"}:
                os.kill(life.pid, signal.SIGKILL)
                self.wait(life)


def until(happened: Callable[[], object], what: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < end, f"waited in vain until {what}"
        time.sleep(0.02)


def running(pids: set[int]) -> set[int]:
    """Which of these processes, and of those in process groups of these numbers, still run."""
    listed = subprocess.run(
        ["ps", "-A", "-o", "pid=,pgid=,stat="], capture_output=True, text=True, check=True
    )
    found = (line.split() for line in listed.stdout.splitlines())
    return {int(pid) for pid, group, state in found if {int(pid), int(group)} & pids and "Z" not in state}


def workers(world: World) -> set[int]:
    """Python workers in which tasks ran."""
    return {pid for pid, _, place in world.marks.passed() if ": task" in place}


def daemon(world: World) -> int:
    """The process from which the workers were forked, which is also the number of their process group."""
    return os.getpgid(next(iter(running(workers(world)))))


# --------------------------------------------------------------------------------------------- input, and what is right


@dataclass(frozen=True)
class Row:
    stream: str
    round: int
    arrival: int
    k: int
    value: int


def write_input(folder: Path, n_rounds: int) -> list[Row]:
    """Files of 0 to 7 rows with 6 keys; and the rows as they must arrive: round by round, a before b, file by file."""
    rng = np.random.default_rng(5)
    rows: list[Row] = []
    for number in range(1, n_rounds + 1):
        for stream, column in (("a", "x"), ("b", "y")):
            (folder / stream).mkdir(parents=True, exist_ok=True)
            for k in range(FILES_PER_ROUND):
                n = 0 if (number, stream, k) == (2, "b", 0) else int(rng.integers(3, 8))
                keys, values = rng.integers(0, 6, n), rng.integers(0, 1000, n)
                path = folder / stream / f"{(number - 1) * FILES_PER_ROUND + k:03d}.parquet"
                pq.write_table(pa.table({"k": keys, column: values}), path)
                for key, value in zip(keys.tolist(), values.tolist(), strict=True):
                    rows.append(Row(stream, number, len(rows) + 1, key, value))
    return rows


def joined(rows: list[Row], last_round: int) -> dict[tuple[int, int], tuple[int, int, int]]:
    """(arrival of a, arrival of b) to (the round that brings it, x, y), by looking at every pair."""
    return {
        (a.arrival, b.arrival): (max(a.round, b.round), a.value, b.value)
        for a in rows
        for b in rows
        if (a.stream, b.stream) == ("a", "b") and a.k == b.k and max(a.round, b.round) <= last_round
    }


def check(world: World) -> set[str]:
    """Everything that was committed is right, whatever else lies around; returns names in the store that no round lists."""
    if not (world.home / "catalog.db").exists():
        return set()
    with contextlib.closing(read_only(world)) as catalog:
        if catalog.execute("PRAGMA user_version").fetchone() == (0,):
            return set()
        rounds = catalog.execute(
            "SELECT number, first_arrival, last_arrival, rows, n_results FROM rounds ORDER BY number"
        ).fetchall()
        files = catalog.execute("SELECT name, kind, round, nbytes, checksum FROM files").fetchall()
        positions = dict(catalog.execute("SELECT source, position FROM positions"))
        n_rows = dict(catalog.execute("SELECT stream, n_rows FROM progress"))
        delivered = catalog.execute("SELECT coalesce(max(round), 0) FROM cursors").fetchone()[0]
    last = len(rounds)
    expected = joined(world.rows, last)

    assert [number for number, *_ in rounds] == list(range(1, last + 1))
    for number, first, last_arrival, counts, n_results in rounds:
        arrived = [row for row in world.rows if row.round == number]
        assert (first, last_arrival) == (arrived[0].arrival, arrived[-1].arrival)
        assert json.loads(counts) == {s: sum(row.stream == s for row in arrived) for s in ("a", "b")}
        assert n_results == sum(brought_in == number for brought_in, _, _ in expected.values())
    if rounds:
        assert {name: int(at) for name, at in positions.items()} == dict.fromkeys(
            "ab", last * FILES_PER_ROUND
        )
        before = [row.stream for row in world.rows if row.round <= last]
        assert n_rows == {"a": before.count("a"), "b": before.count("b")}
    _check_outbox(world, files, {number: first for number, first, *_ in rounds}, expected, delivered)
    _check_sink(world, expected, delivered)
    n_segments = [sum(f[1:3] == ("segment", number) for f in files) for number in range(1, last + 1)]
    assert n_segments == [2 * FILES_PER_ROUND] * last
    there = {path.relative_to(world.home / "store").as_posix() for path in (world.home / "store").glob("*/*")}
    return there - {name for name, *_ in files}


def read_only(world: World) -> sqlite3.Connection:
    """The catalog, without touching it: not even what a killed process left to be recovered."""
    return sqlite3.connect(f"file:{world.home / 'catalog.db'}?mode=ro", uri=True)


def _check_outbox(
    world: World, files: list[Any], bases: dict[int, int], expected: Any, delivered: int
) -> None:
    """Listed files are there, byte for byte; results are right, none twice; all there are of rounds not yet delivered."""
    found: dict[tuple[int, int], tuple[int, int, int]] = {}
    for name, kind, number, nbytes, checksum in files:
        data = (world.home / "store" / name).read_bytes()
        assert (len(data), zlib.crc32(data)) == (nbytes, checksum), f"{name} is damaged"
        for part in read_parts(pa.py_buffer(data)) if kind == "outbox" else ():
            columns = {c: np.asarray(part.rows.column(c)) for c in ("a", "b", "x", "y")}
            numbers = [arrivals(columns[c], bases[number]).tolist() for c in ("a", "b")]
            for a, b, x, y in zip(*numbers, columns["x"].tolist(), columns["y"].tolist(), strict=True):
                assert (a, b) not in found, f"the result {a, b} is there twice"
                found[a, b] = number, x, y
    assert found.items() <= expected.items()
    undelivered = {pair: result for pair, result in expected.items() if result[0] > delivered}
    assert undelivered.items() <= found.items()


def _check_sink(world: World, expected: Any, delivered: int) -> None:
    """Results of every delivered round, perhaps again, and none of a round that did not commit; the last line may be torn."""
    found: dict[tuple[int, int], tuple[int, int, int]] = {}
    text = world.sink.read_text() if world.sink.exists() else ""
    for line in text.splitlines(keepends=True):
        if line.endswith("\n"):
            result = json.loads(line)
            found[result["a"], result["b"]] = result["round"], result["x"], result["y"]
    assert found.items() <= expected.items()
    assert {pair for pair, (number, _, _) in expected.items() if number <= delivered} <= found.keys()


def last_round(world: World) -> int:
    with contextlib.closing(read_only(world)) as catalog:
        return int(catalog.execute("SELECT coalesce(max(number), 0) FROM rounds").fetchone()[0])


def epoch_of(name: str) -> int:
    return int(name.split("/")[1].split("-")[0])


def opened_last(world: World) -> None:
    """Everything is done: opening the home once more clears what is left over, and then the store holds what is listed."""
    world.finish()
    assert check(world) == set()
    assert joined(world.rows, world.n_rounds).keys() == {
        (line["a"], line["b"]) for line in map(json.loads, world.sink.read_text().splitlines())
    }
