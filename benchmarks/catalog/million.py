"""What does it cost to register a million queries, and to open a home that has them?

Claim     a million queries are registered durably from a template and a table within 60 s
Claim     a home with a million simple queries opens within 30 s, whether they came from a template or as a million texts
Baseline  registering the same queries again from their texts, which is what opening would cost if it parsed them
Control   a home with 100 queries: opening costs something by itself

Each step runs in a process of its own. Files that were just written are still in the system's cache.
"""

from __future__ import annotations

import multiprocessing
import resource
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

import eddyline
from benchmarks.harness import Benchmark, cpu, main, wall

TEMPLATE = "SELECT sym, price FROM trades WHERE sym = :sym AND price < :limit"
KINDS = ("template", "named template", "texts", "named texts")


def build(folder: str, kind: str, n: int) -> dict[str, float]:
    """Seconds it takes to register n queries in one version in a new home."""
    engine = eddyline.open(folder)
    engine.stream("trades", "sym STRING, sector STRING, price DOUBLE, qty INT")
    queries: Any
    options: dict[str, Any] = {}
    if "template" in kind:
        queries = TEMPLATE
        syms, limits = [f"S{k}" for k in range(n)], [k % 97 + 0.5 for k in range(n)]
        options["params"] = pa.table({"sym": syms, "limit": limits})
        if kind.startswith("named"):
            options["name"] = "watch-{sym}"
    else:
        texts = (f"SELECT sym, price FROM trades WHERE sym = 'S{k}' AND price < {k % 97}.5" for k in range(n))
        named = {f"watch-S{k}": text for k, text in enumerate(texts)}
        queries = named if kind.startswith("named") else list(named.values())
    began_wall, began_cpu = wall(), cpu()
    engine.query_many(queries, **options)
    took = {"wall_s": wall() - began_wall, "cpu_s": cpu() - began_cpu}
    engine.close()
    took["disk_mb"] = sum(path.stat().st_size for path in Path(folder).rglob("*")) / 2**20
    return took


def reopen(folder: str, kind: str, n: int) -> dict[str, float]:
    """Seconds until the home is open and, after that, until its first round is done."""
    before_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    began_wall, began_cpu = wall(), cpu()
    engine = eddyline.open(folder)
    took = {"wall_s": wall() - began_wall, "cpu_s": cpu() - began_cpu}
    assert engine.n_queries == n
    assert engine.rounds.shapes.parsed == 0, "a text was parsed"
    began_wall = wall()
    matches = engine.push("trades", [{"sym": "S42", "price": 42.0}, {"sym": "S42", "price": 43.0}])
    took["first_round_s"] = wall() - began_wall
    assert [int(i) for i in matches.pairs()[1]] == [43], (
        "exactly query 43 wants the first row, none the second"
    )
    if kind.startswith("named"):
        assert engine.get("watch-S42").id == 43
    took["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10 - before_mb
    engine.close()
    return took


def apart(function: Callable[..., dict[str, float]], *arguments: Any) -> dict[str, float]:
    """Run in a new process, so that nothing is warm and memory is its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(function, arguments)


def run(bench: Benchmark) -> None:
    n = bench.size(full=1_000_000, quick=10_000)
    repetitions = bench.size(full=3, quick=1)
    with tempfile.TemporaryDirectory(dir=bench.options["folder"]) as folder:
        apart(build, f"{folder}/few", "texts", 100)
        built: dict[str, dict[str, float]] = {}
        for kind in KINDS:
            built[kind] = apart(build, f"{folder}/{kind}", kind, n)
            bench.row(what="register", kind=kind, queries=n, **built[kind])
        opened: dict[str, list[dict[str, float]]] = {kind: [] for kind in KINDS}
        few = []
        for _ in range(repetitions):
            for kind in KINDS:
                opened[kind].append(apart(reopen, f"{folder}/{kind}", kind, n))
            few.append(apart(reopen, f"{folder}/few", "texts", 100))
        for kind, times, among in [*((kind, opened[kind], n) for kind in KINDS), ("control", few, 100)]:
            median = {key: statistics.median(took[key] for took in times) for key in times[0]}
            bench.row(what="open", kind=kind, queries=among, **median)
    bench.claim(
        "bulk_1m_template_s", max(built[kind]["wall_s"] for kind in ("template", "named template")), "<= 60"
    )
    slowest = max(statistics.median(took["wall_s"] for took in times) for times in opened.values())
    bench.claim("reopen_1m_s", slowest, "<= 30")
    parsing = min(built[kind]["wall_s"] for kind in ("texts", "named texts"))
    bench.claim("register_texts_over_reopen", parsing / slowest, "reported")


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
