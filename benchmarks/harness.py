"""How a benchmark runs, is judged and is kept.

A benchmark is a script `benchmarks/<room>/<name>.py`, or `benchmarks/papers/<paper>/<name>.py`: a docstring that states claim,
baseline and control, and a function that is given a `Benchmark`, measures, and says what it found.

    def run(bench: Benchmark) -> None:
        n = bench.size(full=1_000_000, quick=10_000)
        timed = bench.interleaved({"ours": ours, "baseline": baseline})
        bench.row(what="ours", cpu_s=timed["ours"].median_s)
        bench.claim("ours_over_baseline", timed["ours"].median_s / timed["baseline"].median_s, "<= 0.5")

    if __name__ == "__main__":
        main(run, __file__, __doc__, seed=7)

A full run writes `benchmarks/results/<room>/<name>.json`, and is refused where files differ from the commit it would name. A
quick run (`--quick`, under a minute) writes to `build/benchmarks/`, never over a full result. A claim that is missed stays in
the file, with `holds: false` and why; without a why nothing is written. What is only `reported`, or `recomputed` (a paper's
arithmetic done again, nothing of ours), gates nothing.
"""

from __future__ import annotations

import argparse
import gc
import importlib.metadata
import json
import os
import platform
import re
import sqlite3
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results"
QUICK_RESULTS = ROOT / "build" / "benchmarks"
WRITTEN = ("benchmarks/results", "docs/papers.md", "docs/images/papers")  # by benchmarks and their report
WIDTH = 130  # of what is printed where there is no terminal
LIBRARIES = ("numpy", "pyarrow", "sqlglot")

T = TypeVar("T")

cpu = time.process_time  # of this process, all its threads: does not feel what else the machine does
wall = time.perf_counter  # where waiting is part of what is measured: the disk, other processes


# --------------------------------------------------------------------------------------------- claims

REPORTED = "reported"
RECOMPUTED = "recomputed"
UNGATED = (REPORTED, RECOMPUTED)
_NUMBER = r"-?[0-9][0-9_]*(?:\.[0-9]+)?"
_COMPARED: dict[str, Callable[[float, float], bool]] = {
    "<=": lambda value, bound: value <= bound,
    ">=": lambda value, bound: value >= bound,
    "<": lambda value, bound: value < bound,
    ">": lambda value, bound: value > bound,
    "=": lambda value, bound: value == bound,
}


def is_held(value: float, bound: str) -> bool:
    """Whether a value keeps a bound such as "<= 5", ">= 25", "= 20" or "= 4.14 ± 0.05"; what is only "reported" or
    "recomputed" always does."""
    if bound in UNGATED:
        return True
    if parts := re.fullmatch(rf"= ({_NUMBER}) ± ({_NUMBER})", bound):
        return abs(value - float(parts.group(1))) <= float(parts.group(2))
    parts = re.fullmatch(rf"(<=|>=|<|>|=) ({_NUMBER})", bound)
    if parts is None:
        raise ValueError(
            f'{bound!r} is not a bound: write "<= 5", ">= 25", "< 3", "> 1", "= 20", "= 4.14 ± 0.05", "reported" or "recomputed"'
        )
    return _COMPARED[parts.group(1)](value, float(parts.group(2)))


@dataclass(frozen=True)
class Claim:
    """A figure an issue asks for, and whether it came out."""

    name: str
    value: float
    bound: str
    holds: bool
    why: str


# --------------------------------------------------------------------------------------------- time


@dataclass
class Timed(Generic[T]):
    """What a contender took in each repetition, and what it returned in the last one."""

    seconds: list[float] = field(default_factory=list)
    result: T | None = None

    @property
    def median_s(self) -> float:
        return statistics.median(self.seconds)

    @property
    def spread(self) -> float:
        """Slowest minus fastest, as a share of the median: how much to trust it."""
        return (max(self.seconds) - min(self.seconds)) / self.median_s if self.median_s else 0.0


def timed(
    run: Callable[[], T], *, clock: Callable[[], float] = cpu, at_least_s: float = 0.0
) -> tuple[float, T]:
    """Seconds of one call, and its result.

    What is shorter than `at_least_s` is called again and again for that long without being counted, and then for as long with: a
    stream comes back to the same loops, with caches and memory as it left them, not as another contender did.
    """
    gc.collect()
    began = clock()
    result = run()
    took = clock() - began
    if took >= at_least_s:
        return took, result
    while clock() - began < at_least_s:
        run()
    began, n = clock(), 0
    while (took := clock() - began) < at_least_s:
        result = run()
        n += 1
    return took / max(n, 1), result


def warmed_up(run: Callable[[], Any], *, calls: int, at_most_s: float) -> None:
    """Call something some times, but not for longer than that, before it is measured: kernels are loaded, memory is touched."""
    began = wall()
    for _ in range(calls):
        run()
        if wall() - began > at_most_s:
            break


def interleaved(
    contenders: Mapping[str, Callable[[], T]],
    *,
    repetitions: int = 5,
    clock: Callable[[], float] = cpu,
    same: Callable[[T], Any] | None = None,
    at_least_s: float = 0.0,
) -> dict[str, Timed[T]]:
    """Run all contenders in turn, A B A B …, so that a machine that slows down slows all of them alike.

    Each turn is one call, or as many as take `at_least_s`.

    With `same`, what it makes of each result must be equal for all contenders in every repetition.
    """
    found: dict[str, Timed[T]] = {name: Timed() for name in contenders}
    for repetition in range(repetitions):
        answers: dict[str, Any] = {}
        for name, run in contenders.items():
            seconds, result = timed(run, clock=clock, at_least_s=at_least_s)
            found[name].seconds.append(seconds)
            found[name].result = result
            if same is not None:
                answers[name] = same(result)
        first, *others = answers or [""]
        for other in others:
            if answers[other] != answers[first]:
                raise AssertionError(
                    f"{first} and {other} differ in repetition {repetition + 1}:\n{answers[first]!r}\n{answers[other]!r}"
                )
    return found


# --------------------------------------------------------------------------------------------- a benchmark


class Benchmark:
    """What a script measures with and reports to."""

    def __init__(
        self,
        name: str,
        *,
        seed: int,
        is_quick: bool = False,
        why: Mapping[str, str] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.name = name
        self.seed = seed
        self.is_quick = is_quick
        self.options = dict(options or {})  # the script's own
        self.claims: list[Claim] = []
        self.rows: list[dict[str, Any]] = []
        self._why = dict(why or {})

    def size(self, *, full: int, quick: int) -> int:
        return quick if self.is_quick else full

    def interleaved(self, contenders: Mapping[str, Callable[[], T]], **options: Any) -> dict[str, Timed[T]]:
        """See `interleaved` of this module; a quick run repeats three times at most."""
        if self.is_quick:
            options["repetitions"] = min(3, options.get("repetitions", 3))
        return interleaved(contenders, **options)

    def row(self, **figures: Any) -> None:
        """A line of the table."""
        self.rows.append({name: _rounded(figure) for name, figure in figures.items()})

    def claim(self, name: str, value: float, bound: str, why: str = "") -> Claim:
        """State what came out. `why` explains a miss and is left out where there is none."""
        holds = is_held(value, bound)
        why = "" if holds else self._why.get(name, why).strip()
        claim = Claim(name, _rounded(value), bound, holds, why)
        self.claims.append(claim)
        return claim

    def document(self) -> dict[str, Any]:
        """What is kept of a run."""
        return {
            "benchmark": self.name,
            "commit": commit(),
            "machine": machine(),
            "seed": self.seed,
            "claims": [asdict(claim) for claim in self.claims],
            "rows": self.rows,
        }

    def unexplained(self) -> list[Claim]:
        return [claim for claim in self.claims if not claim.holds and not claim.why]

    def write(self, folder: Path) -> Path:
        """Keep the result. Refused while a missed claim has no why."""
        unexplained = self.unexplained()
        if unexplained and not self.is_quick:
            raise Unexplained(unexplained)
        path = folder / f"{self.name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(self.document(), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        return path


def _rounded(figure: Any) -> Any:
    """Five digits: what a second run may repeat."""
    return float(f"{figure:.5g}") if isinstance(figure, float) else figure


class Unexplained(Exception):
    """Missed claims without a why."""

    def __init__(self, claims: Sequence[Claim]) -> None:
        lines = [f"{c.name} is missed ({c.value:g}, bound {c.bound}) and nothing says why" for c in claims]
        hint = f'Say why in the script, or with --why "{claims[0].name}=…". Nothing was written.'
        super().__init__("\n".join([*lines, hint]))


def main(
    run: Callable[[Benchmark], None],
    file: str,
    document: str | None,
    *,
    seed: int,
    options: Callable[[argparse.ArgumentParser], None] | None = None,
    arguments: Sequence[str] | None = None,
) -> None:
    """Run a benchmark as a script: read its options, show its table and claims, keep the result."""
    parser = argparse.ArgumentParser(
        description=document, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--quick", action="store_true", help="small sizes, under a minute; full results stay as they are"
    )
    parser.add_argument("--seed", type=int, default=seed, help=f"of random inputs; {seed} if not given")
    parser.add_argument(
        "--why",
        action="append",
        default=[],
        metavar="CLAIM=TEXT",
        type=_why,
        help="why a claim is missed; may be repeated",
    )
    if options is not None:
        options(parser)
    chosen = parser.parse_args(arguments)
    name = name_of(Path(file))
    if not chosen.quick and (changed := changed_files()):
        sys.exit(refusal(changed))
    own = {key: value for key, value in vars(chosen).items() if key not in ("quick", "seed", "why")}
    bench = Benchmark(name, seed=chosen.seed, is_quick=chosen.quick, why=dict(chosen.why), options=own)
    run(bench)
    console = Console()
    show(bench, console if console.is_terminal else Console(width=WIDTH))
    try:
        bench.write(QUICK_RESULTS if bench.is_quick else RESULTS)
    except Unexplained as error:
        sys.exit(str(error))


def name_of(script: Path) -> str:
    """What a script is called: its path below `benchmarks/`, such as filters/churn or papers/filter_ordering/traps."""
    parts = script.resolve().with_suffix("").parts
    below = max(at for at, part in enumerate(parts[:-1]) if part == "benchmarks") + 1
    return "/".join(parts[below:])


def _why(given: str) -> tuple[str, str]:
    name, separator, text = given.partition("=")
    if not separator or not text.strip():
        raise argparse.ArgumentTypeError(f"{given!r} is not CLAIM=TEXT")
    return name.strip(), text.strip()


# --------------------------------------------------------------------------------------------- showing


def show(bench: Benchmark, console: Console) -> None:
    """The table and the claims of a run."""
    columns = list(dict.fromkeys(column for row in bench.rows for column in row))
    table = Table(title=bench.name + (" (quick)" if bench.is_quick else ""), title_justify="left")
    for column in columns:
        is_number = all(isinstance(row.get(column, 0), int | float) for row in bench.rows)
        table.add_column(column, justify="right" if is_number else "left")
    for row in bench.rows:
        table.add_row(*(shown(row.get(column)) for column in columns))
    console.print(table)
    for claim in bench.claims:
        console.print(sentence(claim), soft_wrap=True, markup=False, highlight=False)


def shown(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def sentence(claim: Claim) -> str:
    word = claim.bound if claim.bound in UNGATED else "holds" if claim.holds else "MISSED"
    bound = "" if claim.bound in UNGATED else f" ({claim.bound})"
    return f"  {word:8s}  {claim.name}: {claim.value:,}{bound}{'  ' + claim.why if claim.why else ''}"


# --------------------------------------------------------------------------------------------- where and when


def commit() -> str:
    """The commit that was measured; `-dirty` if files differed from it."""
    found = _git("describe", "--always", "--exclude=*").strip() or "unknown"
    return f"{found}-dirty" if changed_files() else found


def changed_files() -> list[str]:
    """Files that differ from the commit, or are not in it; results do not count, which runs before this one may have written."""
    found = _git("status", "--porcelain", "--no-renames", "--", ".", *(f":!{path}" for path in WRITTEN))
    return [line[3:] for line in found.splitlines()]


def refusal(changed: Sequence[str]) -> str:
    more = f" and {len(changed) - 5} more" if len(changed) > 5 else ""
    return (
        f"{', '.join(changed[:5])}{more} differ from the commit that the result would name. Nothing was run.\n"
        "Commit them, or run with --quick, which changes no results."
    )


def _git(*arguments: str) -> str:
    try:
        found = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return found.stdout


def machine() -> str:
    """What figures in seconds depend on; nothing that tells whose machine it is."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in LIBRARIES)
    return (
        f"{cores} cores of {_processor()}, {memory:.0f} GB, {platform.system()} {platform.machine()}, "
        f"Python {platform.python_version()}, {versions}, SQLite {sqlite3.sqlite_version}"
    )


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return platform.processor() or "an unknown processor"
    model = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return " ".join(model.group(1).split()) if model else platform.machine()
