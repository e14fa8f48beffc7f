"""How long is it from the start of a Python process to the first result of a round on Spark?

Claim     reported: with the class-data archive built and the kernels compiled, 10,000 queries in the home
Baseline  the same without the class-data archive

A process of its own opens a home, starts a session on this machine, has the workers read and filter a file, and says so when the
round is committed and its first result read. The clock starts before the process. Each kind has one start that does not count, so
files are in the page cache. A quick run starts once, without the archive, so as to leave none behind.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.filters._workloads import keyed
from benchmarks.harness import ROOT, Benchmark, main, wall
from benchmarks.spark._home import Home, written

ARCHIVE = "EDDYLINE_CLASS_ARCHIVE"
N_ROWS = 1_000
FIRST_RESULT = """
import time
began = time.perf_counter()
import json, pathlib, sys
import eddyline
from eddyline.engine.shared_work import SharedRounds
from eddyline.sources import FileFormat, FolderSource
from eddyline.spark.jobs import pack_functions
from eddyline.spark.workers import SparkWorkers

steps = {}
def step(name):
    steps[name] = time.perf_counter() - began

folder = pathlib.Path(sys.argv[1])
with eddyline.open(folder / "home") as engine:
    step("home_open_s")
    with SparkWorkers() as workers:
        step("session_s")
        rounds = engine.rounds
        stream = rounds.catalog.stream("ticks")
        source = FolderSource(folder / "inbox", FileFormat("parquet"), stream, rounds.time_zone)
        planned = source.plan(1 << 40, 1 << 40)
        outcome = SharedRounds(rounds, workers.run, pack_functions).run_round({"ticks": planned})
        number, part = next(rounds.durable.results(after_round=outcome.round.number - 1))
        row = part.rows.slice(0, 1).to_pylist()[0]
        step("first_result_s")
        print(json.dumps({"row": row, **steps}), flush=True)
"""


def started(folder: Path, environ: Mapping[str, str]) -> tuple[float, dict[str, Any]]:
    """Seconds until a new process has its first result, and what it says about them."""
    command = [sys.executable, "-c", FIRST_RESULT, str(folder)]
    began = wall()
    with subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, **environ}, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        took = wall() - began
        process.stdout.read()
    assert process.returncode == 0, f"it ended with {process.returncode}"
    said = json.loads(line)
    assert said["row"], said
    return took, said


def run(bench: Benchmark) -> None:
    kinds: dict[str, Mapping[str, str]] = {"without archive": {ARCHIVE: "off"}}
    if not bench.is_quick:
        from eddyline.spark import prepare_fast_start

        assert prepare_fast_start() is not None, f"the class-data archive is switched off by {ARCHIVE}"
        kinds["with archive"] = {}
    workload = keyed(bench.size(full=10_000, quick=500), bench.seed)
    with tempfile.TemporaryDirectory(prefix="eddyline-start-") as temporary:
        folder = Path(temporary)
        with Home(None, workload, folder) as home:
            home.offer(written(workload, N_ROWS, 1, folder / "rows"))
        found: dict[str, list[tuple[float, dict[str, Any]]]] = {kind: [] for kind in kinds}
        for turn in range(bench.size(full=6, quick=1)):
            for kind, environ in kinds.items():
                start = started(folder, environ)
                if turn or bench.is_quick:
                    found[kind].append(start)
    medians = {kind: statistics.median(took for took, _ in starts) for kind, starts in found.items()}
    for kind, starts in found.items():
        steps = {
            name: statistics.median(said[name] for _, said in starts)
            for name in starts[0][1]
            if name != "row"
        }
        seconds = [took for took, _ in starts]
        bench.row(who=kind, wall_s=medians[kind], fastest_s=min(seconds), slowest_s=max(seconds), **steps)
    bench.claim(
        "warm_start_to_first_result_s", medians.get("with archive", medians["without archive"]), "reported"
    )
    if "with archive" in medians:
        bench.claim("start_without_archive_s", medians["without archive"], "reported")


if __name__ == "__main__":
    main(run, __file__, __doc__, seed=7)
