"""Run the benchmarks one after another, each in a process of its own, and say which claims hold.

python -m benchmarks [--room ROOM] [--quick]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.harness import QUICK_RESULTS, RESULTS, ROOT, Claim, name_of, sentence, wall


def scripts(room: str | None = None, folder: Path = ROOT / "benchmarks") -> list[Path]:
    """Every benchmark, or those of one room; a room may have rooms, as papers/filter_ordering."""
    return sorted(
        path
        for path in folder.glob(f"{room or '*'}/**/*.py")
        if path.relative_to(folder).parts[0] != "results" and not path.name.startswith("_")
    )


def summary(documents: Sequence[dict[str, Any]]) -> list[str]:
    """The claims of all runs, missed ones last, and how many there are of each."""
    claims = [
        (document["benchmark"], Claim(**claim)) for document in documents for claim in document["claims"]
    ]
    lines = [
        f"{sentence(claim)}  [{name}]" for name, claim in sorted(claims, key=lambda entry: not entry[1].holds)
    ]
    n_missed = sum(not claim.holds for _, claim in claims)
    return [*lines, f"{len(claims) - n_missed} of {len(claims)} claims hold, {n_missed} missed"]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--room", help="only the benchmarks of one room, such as catalog")
    parser.add_argument("--quick", action="store_true", help="small sizes; full results stay as they are")
    chosen = parser.parse_args(arguments)
    console = Console(highlight=False)
    found = scripts(chosen.room)
    if not found:
        rooms = sorted({name_of(path).rpartition("/")[0] for path in scripts()})
        parser.error(f"there are no benchmarks in {chosen.room}; rooms: {', '.join(rooms)}")
    documents: list[dict[str, Any]] = []
    failed: list[str] = []
    for path in found:
        name = name_of(path)
        console.print(f"== {name}", style="bold", markup=False)
        module = f"benchmarks.{name.replace('/', '.')}"
        command = [sys.executable, "-m", module, *(["--quick"] if chosen.quick else [])]
        began = wall()
        is_failed = subprocess.run(command, cwd=ROOT, check=False).returncode != 0
        console.print(f"   took {wall() - began:.0f} s", markup=False)
        if is_failed:
            failed.append(name)
            continue
        kept = (QUICK_RESULTS if chosen.quick else RESULTS) / f"{name}.json"
        documents.append(json.loads(kept.read_text(encoding="utf-8")))
    if chosen.quick:
        console.print("quick: small sizes, so these are not the claims' own figures")
    for line in summary(documents):
        console.print(line, soft_wrap=True, markup=False)
    for name in failed:
        console.print(f"  FAILED    {name}", style="red", markup=False)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
