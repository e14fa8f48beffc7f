"""What happens on a disk that is full or read-only. To be run in a mount namespace of its own, see test_full_disk.py."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import eddyline
from eddyline.errors import EddylineError
from tests.on_workers import through_tasks


def told(attempt: Callable[[], object]) -> str:
    try:
        attempt()
    except EddylineError as error:
        return str(error)
    return "it worked"


def mount(options: str, folder: Path) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], check=True)


def here(engine: eddyline.Engine) -> eddyline.Engine:
    return engine


def started(home: Path, where: Callable[[eddyline.Engine], eddyline.Engine] = here) -> eddyline.Engine:
    engine = where(eddyline.open(home))
    engine.stream("s", "n INT, filler STRING")
    engine.query("SELECT n FROM s WHERE n > 0", name="q")
    engine.push("s", [(1, "")], token="first")
    return engine


def results(engine: eddyline.Engine) -> str:
    return str([(r["n"], r.arrival) for r in engine.get("q").latest()])


def fill(path: Path) -> None:
    """Leave no room at all."""
    with open(path, "wb", buffering=0) as file:
        for size in (65536, 4096, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue


def full(folder: Path, where: Callable[[eddyline.Engine], eddyline.Engine] = here) -> dict[str, str]:
    mount("size=4m", folder)
    engine = started(folder / "home", where)
    fill(folder / "ballast")
    push = lambda: engine.push("s", [(2, "x" * 10_000)], token="second")  # noqa: E731
    found = {"push": told(push)}
    long = "SELECT n FROM s WHERE filler IN (" + ", ".join(f"'{k:0500}'" for k in range(100)) + ")"
    found["register"] = told(lambda: engine.query(long))
    before = results(engine), engine.n_queries
    assert before == ("[(1, 1)]", 1), before
    engine.close()
    found["open"] = told(lambda: eddyline.open(folder / "home"))
    (folder / "ballast").unlink()
    engine = where(eddyline.open(folder / "home"))
    assert push().count == 1
    assert push().is_repeat
    engine.query(long)
    found["after"] = results(engine)
    engine.close()
    return found


def read_only(folder: Path) -> dict[str, str]:
    mount("size=4m", folder)
    started(folder / "home").close()
    subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
    found = {"open": told(lambda: eddyline.open(folder / "home"))}
    subprocess.run(["mount", "-o", "remount,rw", str(folder)], check=True)
    engine = eddyline.open(folder / "home")
    engine.push("s", [(2, "")], token="second")
    found["after"] = results(engine)
    engine.close()
    return found


if __name__ == "__main__":
    scenario, where = sys.argv[1:]
    scenarios = {
        "full": full,
        "full in tasks": lambda folder: full(folder, through_tasks),
        "read-only": read_only,
    }
    print(json.dumps(scenarios[scenario](Path(where))))
