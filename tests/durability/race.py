"""Processes that all open one home at the same moment; the one that gets it registers something and is killed.

They are forks of a process that has opened a home before, so that none of them loads the engine while the others open.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
from pathlib import Path

import eddyline
from eddyline.errors import HomeError

N_PROCESSES = 6
GOT, REFUSED, WRONG = b"g", b"r", b"w"


def one(home: Path, start: int, answers: int) -> None:
    """Wait for the start, open, say how it went, and stay until killed."""
    try:
        os.read(start, 1)
        engine = eddyline.open(home)
        engine.stream(f"s{engine.version}", "n INT")
        os.write(answers, GOT)
    except HomeError as error:
        os.write(answers, REFUSED if "is held by another process" in error.problem else WRONG)
    except BaseException:
        os.write(answers, WRONG)
    while True:
        signal.pause()


def race(home: Path) -> int:
    """How many of the processes got the home."""
    start, started = os.pipe()
    answered, answers = os.pipe()
    pids = []
    for _ in range(N_PROCESSES):
        pid = os.fork()
        if pid == 0:
            one(home, start, answers)
        pids.append(pid)
    os.write(started, b"!" * N_PROCESSES)
    heard = b"".join(os.read(answered, 1) for _ in pids)
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    for descriptor in (start, started, answered, answers):
        os.close(descriptor)
    assert WRONG not in heard, "a process failed in another way"
    return heard.count(GOT)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("home", type=Path)
    parser.add_argument("--times", type=int, default=10)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, eddyline.open(Path(folder) / "home") as engine:
        engine.stream("s", "n INT")
    winners = [race(options.home) for _ in range(options.times)]
    with eddyline.open(options.home) as engine:
        engine.stream("after", "n INT")
        found = {
            "times": options.times,
            "winners": winners,
            "epoch": engine.rounds.durable.epoch,
            "version": engine.version,
        }
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
