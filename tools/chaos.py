"""Kill a pipeline on Spark again and again while rows come in, then prove that nothing is lost and nothing is there twice.

    make chaos                          5 kills
    make chaos ARGS="--kills 100 --seed 7"

Two streams of files are written while `eddyline run --spark` reads them. At random moments the driver, the driver with its Java,
or a worker is ended with SIGKILL, and the pipeline is started again. In the end it runs until everything is read. Its results, as
its file sink has them, are compared with what DuckDB finds in the same files for the same rules: every row of every rule once.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SYMBOLS = 40
RULES_PER_SYMBOL = 3
ROWS_PER_FILE = 2_000
LONGEST_LIFE_S = 6.0
START_TIMEOUT_S = 180.0
END_TIMEOUT_S = 600.0

PIPELINE = """
[engine]
home = "home"

[streams.trades]
schema = "id BIGINT, sym STRING, price DOUBLE"
source = { type = "files", path = "trades", format = "parquet", poll = "50 ms" }

[streams.quotes]
schema = "id BIGINT, sym STRING, bid DOUBLE"
source = { type = "files", path = "quotes", format = "json", poll = "50 ms" }

[rules]
files = ["rules.sql"]

[[sinks]]
type = "file"
path = "out"
start = "beginning"
every = "200 ms"

[limits]
job_from_bytes = "4 kB"
"""


@dataclass
class Rule:
    """A rule as eddyline gets it, and the same condition for DuckDB."""

    name: str
    stream: str
    condition: str

    @property
    def sql(self) -> str:
        return f"CREATE OR REPLACE VIEW {self.name} AS SELECT id FROM {self.stream} WHERE {self.condition};"


@dataclass
class Project:
    """A folder with a pipeline, files that come in, and what came out."""

    folder: Path
    chance: random.Random
    rules: list[Rule] = field(default_factory=list)
    n_files: Counter[str] = field(default_factory=Counter)
    next_id: int = 1

    def lay_out(self) -> None:
        for name in ("trades", "quotes"):
            (self.folder / name).mkdir()
        for symbol in range(SYMBOLS):
            for k in range(RULES_PER_SYMBOL):
                low = round(self.chance.uniform(0, 90), 2)
                condition = f"sym = 'S{symbol}' AND price BETWEEN {low} AND {low + 5}"
                self.rules.append(Rule(f"trade_{symbol}_{k}", "trades", condition))
            self.rules.append(Rule(f"quote_{symbol}", "quotes", f"sym = 'S{symbol}' AND bid < {symbol + 1}"))
        self.rules.append(Rule("dear", "trades", "price > 99.5 OR price * 2 < 0.5"))
        (self.folder / "rules.sql").write_text("\n".join(rule.sql for rule in self.rules))
        (self.folder / "eddyline.toml").write_text(PIPELINE)

    def write_files(self, n: int) -> None:
        """Some more files, each there at once and whole."""
        for _ in range(n):
            stream = self.chance.choice(["trades", "quotes"])
            self.n_files[stream] += 1
            n_rows = self.chance.randint(1, ROWS_PER_FILE)
            rng = np.random.default_rng(self.chance.getrandbits(32))
            value = "price" if stream == "trades" else "bid"
            table = pa.table(
                {
                    "id": np.arange(self.next_id, self.next_id + n_rows),
                    "sym": [f"S{k}" for k in rng.integers(0, SYMBOLS, n_rows)],
                    value: rng.uniform(0, 100, n_rows).round(3),
                }
            )
            self.next_id += n_rows
            ending = "parquet" if stream == "trades" else "json"
            path = self.folder / stream / f"{self.n_files[stream]:06d}.{ending}"
            hidden = path.with_name(f".{path.name}")
            if stream == "trades":
                pq.write_table(table, hidden)
            else:
                hidden.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
            hidden.rename(path)

    def results(self) -> Counter[tuple[str, int]]:
        """How often each row is there for each rule."""
        found: Counter[tuple[str, int]] = Counter()
        for file in sorted((self.folder / "out").glob("*.jsonl")):
            for line in file.read_text().splitlines():
                result = json.loads(line)
                found[result["_query"], result["id"]] += 1
        return found

    def expected(self) -> Counter[tuple[str, int]]:
        """The same by DuckDB, which has read the same files."""
        found: Counter[tuple[str, int]] = Counter()
        with duckdb.connect() as database:
            for stream, reader in (("trades", "read_parquet"), ("quotes", "read_json")):
                if self.n_files[stream]:
                    pattern = f"{self.folder / stream}/*"
                    database.execute(f"CREATE TABLE {stream} AS SELECT * FROM {reader}('{pattern}')")
            for rule in self.rules:
                if self.n_files[rule.stream]:
                    query = f"SELECT id FROM {rule.stream} WHERE {rule.condition}"
                    found.update((rule.name, row[0]) for row in database.execute(query).fetchall())
        return found


class Life:
    """One run of the pipeline, in a session of processes of its own."""

    def __init__(self, folder: Path, *options: str) -> None:
        self._log = open(folder / "log", "a")  # noqa: SIM115, kept open while it runs
        self.process = subprocess.Popen(
            [sys.executable, "-m", "eddyline.cli", "run", "--spark", *options],
            cwd=folder,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
        )

    def workers(self) -> list[int]:
        """Python workers of Spark: children of its daemon, which they are forks of."""
        parents = dict(_parents())
        daemons = {
            pid for pid in parents if b"pyspark.daemon" in _command(pid) and self._is_mine(pid, parents)
        }
        return [pid for pid in daemons if parents[pid] in daemons]

    def _is_mine(self, pid: int, parents: dict[int, int]) -> bool:
        while pid and pid != self.process.pid:
            pid = parents.get(pid, 0)
        return bool(pid)

    def end(self, whom: str, chance: random.Random) -> str:
        """SIGKILL to the driver alone, to the driver with its Java and workers, or to one worker; says to whom."""
        if whom == "worker":
            workers = self.workers()
            if not workers:
                return "no worker yet"
            pid = chance.choice(workers)
            _kill(pid)
            return f"worker {pid}"
        parents = dict(_parents())
        mine = [pid for pid in parents if self._is_mine(pid, parents)]
        _kill(self.process.pid)
        if whom == "everything":
            for pid in mine:
                _kill(pid)
        self.process.wait()
        return f"{whom} {self.process.pid}"

    def sweep(self) -> None:
        """End whatever is left of this life; only processes of its own session are touched."""
        for pid, _ in _parents():
            if _session(pid) == self.process.pid:
                _kill(pid)
        self.process.wait()
        self._log.close()


def _parents() -> Iterator[tuple[int, int]]:
    """(process, parent) of all processes."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except (OSError, ValueError):
                continue
            yield int(entry.name), int(fields[1])


def _session(pid: int) -> int | None:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[3])
    except (OSError, ValueError):
        return None


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def run(n_kills: int, seed: int, folder: Path) -> bool:
    """Kill so many times; True if the results are what they should be."""
    chance = random.Random(seed)
    project = Project(folder, chance)
    project.lay_out()
    killed: Counter[str] = Counter()
    began = time.monotonic()
    while sum(killed.values()) < n_kills:
        life = Life(folder)
        try:
            _until_it_works(life, project)
            lives_until = time.monotonic() + chance.uniform(0.2, LONGEST_LIFE_S)
            while time.monotonic() < lives_until and life.process.poll() is None:
                project.write_files(chance.randint(1, 4))
                time.sleep(chance.uniform(0.05, 0.4))
                if chance.random() < 0.15 and sum(killed.values()) < n_kills - 1:
                    _count(killed, life.end("worker", chance), n_kills, began)
            if sum(killed.values()) < n_kills:
                whom = chance.choice(["driver", "everything"])
                _count(killed, life.end(whom, chance), n_kills, began)
        finally:
            life.sweep()
    project.write_files(10)
    print("running to the end …", flush=True)
    last = subprocess.run(
        [sys.executable, "-m", "eddyline.cli", "run", "--spark", "--once"],
        cwd=folder,
        timeout=END_TIMEOUT_S,
        capture_output=True,
        text=True,
    )
    if last.returncode:
        print(last.stdout + last.stderr)
        return False
    return _compare(project)


def _until_it_works(life: Life, project: Project) -> None:
    """Until it has started: there are rounds, or it has workers."""
    deadline = time.monotonic() + START_TIMEOUT_S
    log = project.folder / "log"
    before = log.stat().st_size
    project.write_files(1)
    while life.process.poll() is None and not life.workers():
        if time.monotonic() > deadline:
            raise TimeoutError(f"the pipeline did not start: {log.read_text()[before:]}")
        project.write_files(1)
        time.sleep(0.5)
    if life.process.poll() is not None:
        raise RuntimeError(f"the pipeline ended by itself: {log.read_text()[before:]}")


def _count(killed: Counter[str], said: str, n_kills: int, began: float) -> None:
    if said != "no worker yet":
        killed[said.split()[0]] += 1
        print(
            f"{time.monotonic() - began:5.0f} s  kill {sum(killed.values())} of {n_kills}: {said}", flush=True
        )


def _compare(project: Project) -> bool:
    found, expected = project.results(), project.expected()
    lost, twice = expected - found, found - expected
    n_rows = project.next_id - 1
    print(
        f"{n_rows:,} rows in {sum(project.n_files.values())} files, {len(project.rules)} rules: "
        f"{sum(expected.values()):,} results expected, {sum(found.values()):,} found"
    )
    for what, which in (("lost", lost), ("more than once, or wrong", twice)):
        if which:
            print(f"{sum(which.values()):,} {what}, such as {sorted(which)[:5]}")
    if lost or twice:
        return False
    print("nothing lost, nothing twice")
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=5, metavar="N", help="how many (5)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of whom to kill and when (1)")
    parser.add_argument("--keep", action="store_true", help="leave the folder for a look")
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="eddyline-chaos-"))
    is_right = False
    try:
        is_right = run(args.kills, args.seed, folder)
    finally:
        if args.keep or not is_right:
            print(f"see {folder}")
        else:
            shutil.rmtree(folder)
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
