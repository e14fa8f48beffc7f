"""Is anything lost, half done or done twice when the process is killed?

Claim     200 kills and more are survived without a difference from what an uninterrupted run would hold
Baseline  a model in plain Python of what the home must hold after each step (tests/durability/model.py)
Control   the judge itself: with the clearing of unlisted files taken out of the engine, it must find a difference

First each kind of step is killed at every place where a file, a statement or a step of the protocol begins or ends; then homes
live through kills at random places and at random times.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.harness import ROOT, Benchmark, main, wall

WITHOUT_CLEARING = """
import sys
from eddyline.storage import Store
from tests.durability.kill_driver import run
Store.clear_unlisted = lambda store, listed: 0
try:
    run(0, kinds=["tick"])
except AssertionError:
    sys.exit(7)
"""


def killed(*options: object) -> dict[str, object]:
    """The driver's report, from a process of its own: it forks."""
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "found.json"
        command = [sys.executable, "-m", "tests.durability.kill_driver", "--json", found, *options]
        subprocess.run([str(word) for word in command], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        return json.loads(found.read_text())


def run(bench: Benchmark) -> None:
    kills = bench.options["kills"] or bench.size(full=1_000, quick=200)
    found = killed("--kills", kills, "--seed", bench.seed)
    bench.row(
        what="kills without a difference",
        kills=found["kills"],
        places=len(found["places"]),
        steps=found["steps"],
        wall_s=found["seconds"],
        ms_each=1e3 * found["seconds"] / found["kills"],
    )
    began = wall()
    control = subprocess.run(
        [sys.executable, "-c", WITHOUT_CLEARING], cwd=ROOT, check=False, env={**os.environ, "PYTHONPATH": "."}
    )
    bench.row(
        what="control: unlisted files not cleared",
        wall_s=wall() - began,
        difference="found" if control.returncode == 7 else "not found",
    )
    assert control.returncode == 7, "the judge did not notice"
    bench.claim("kills", found["kills"], ">= 200")


if __name__ == "__main__":
    main(
        run,
        __file__,
        __doc__,
        seed=0,
        options=lambda parser: parser.add_argument(
            "--kills", type=int, help="how many, instead of the usual number"
        ),
    )
