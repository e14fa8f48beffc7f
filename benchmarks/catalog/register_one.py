"""What does one more query cost, when there are many already?

Claim     registering one query durably among 100,000 takes at most 5 times as long as among 100
Baseline  the same home with 100 queries; registrations take turns, one here, one there
Control   what the disk alone takes: appending a page to a file and flushing it

Seconds are wall time, because waiting for the disk is what a durable registration mostly does; CPU time stands beside them.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import eddyline
from benchmarks.harness import Benchmark, Timed, cpu, main, wall

ROWS = [{"sym": "S7", "sector": "TECH", "price": 1.0, "qty": 10}]


def text(k: int) -> str:
    return f"SELECT sym, price FROM trades WHERE sym = 'S{k}' AND price < {k % 97}.5"


def home_with(folder: Path, n: int) -> eddyline.Engine:
    engine = eddyline.open(folder)
    engine.stream("trades", "sym STRING, sector STRING, price DOUBLE, qty INT")
    engine.query_many({f"rule-{k}": text(k) for k in range(n)})
    engine.push("trades", ROWS)
    return engine


def flushed_page(folder: Path) -> Iterator[None]:
    """Each step appends a page and waits until it is on the disk."""
    with open(folder / "page", "ab", buffering=0) as file:
        while True:
            file.write(bytes(4096))
            os.fsync(file.fileno())
            yield


class Steps:
    """One durable change after another on one home, each unlike those before."""

    def __init__(self, engine: eddyline.Engine) -> None:
        self._engine = engine
        self._next = 10_000_000
        self._new: list[str] = []

    def register(self) -> None:
        self._next += 1
        self._new.append(f"new-{self._next}")
        self._engine.query(text(self._next), name=self._new[-1])

    def replace(self) -> None:
        self._next += 1
        self._engine.query(text(self._next), name="rule-5")

    def drop(self) -> None:
        self._engine.drop(self._new.pop())

    def push(self) -> None:
        """What a round takes after a change: its plan is no longer current."""
        self._engine.push("trades", ROWS)


def both_clocks(run: Callable[[], object], into: Timed[None], on_cpu: Timed[None]) -> None:
    began_wall, began_cpu = wall(), cpu()
    run()
    on_cpu.seconds.append(cpu() - began_cpu)
    into.seconds.append(wall() - began_wall)


def run(bench: Benchmark) -> None:
    sizes = [100, bench.size(full=100_000, quick=5_000)]
    repetitions = bench.size(full=400, quick=50)
    with tempfile.TemporaryDirectory(dir=bench.options["folder"]) as folder:
        steps = {n: Steps(home_with(Path(folder) / str(n), n)) for n in sizes}
        page = flushed_page(Path(folder))
        medians: dict[str, dict[int, float]] = {}
        disk: Timed[None] = Timed()
        for what in ("register", "push", "replace", "drop"):
            walls: dict[int, Timed[None]] = {n: Timed() for n in sizes}
            cpus: dict[int, Timed[None]] = {n: Timed() for n in sizes}
            for _ in range(repetitions if what != "push" else repetitions // 10):
                for n in sizes:
                    if what == "push":
                        steps[n].register()
                    both_clocks(getattr(steps[n], what), walls[n], cpus[n])
                both_clocks(lambda: next(page), disk, Timed())
            medians[what] = {n: walls[n].median_s for n in sizes}
            for n in sizes:
                bench.row(what=what, among=n, wall_ms=1e3 * walls[n].median_s, cpu_ms=1e3 * cpus[n].median_s)
        bench.row(what="control: a page flushed", wall_ms=1e3 * disk.median_s)
    few, many = sizes
    bench.claim("register_one_at_100k_over_100", medians["register"][many] / medians["register"][few], "<= 5")
    for what in ("replace", "drop", "push"):
        bench.claim(f"{what}_one_at_100k_over_100", medians[what][many] / medians[what][few], "reported")


if __name__ == "__main__":
    main(
        run,
        __file__,
        __doc__,
        seed=0,
        options=lambda parser: parser.add_argument(
            "--folder", help="on the disk to measure; a temporary one"
        ),
    )
