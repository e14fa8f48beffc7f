"""What came of the papers' figures and tables: the second half of docs/papers.md and its plots, made of kept results.

python -m benchmarks.papers_report [--quick]

With --quick it is made of quick results, in build/papers/. Which figures there are, what the papers found, and which benchmarks
show it is in benchmarks/papers/figures.toml.
"""

from __future__ import annotations

import argparse
import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks._line_plots import line_plot
from benchmarks.harness import QUICK_RESULTS, RECOMPUTED, REPORTED, RESULTS, ROOT, UNGATED, Claim, shown

FIGURES = ROOT / "benchmarks" / "papers" / "figures.toml"
PAGE = ROOT / "docs" / "papers.md"
IMAGES = ROOT / "docs" / "images" / "papers"
QUICK_PAGE = ROOT / "build" / "papers" / "papers.md"
BEGINS = "<!-- From here on made by `make papers`, of benchmarks/results. -->"
EXACT = frozenset({"small_instances", "correlation", "precompute"})  # no rows: costs over all outcomes
HEAD = """\
## Figures and tables

A figure is *shown* if every claim about it that gates holds, *in part* if these are not all that the paper says; the rest is
below the table. The commit that was measured is in parentheses.

| | |
| --- | --- |
| engine | rows through `engine.push`; filters are Python functions that count, at [declared costs](filters.md#options) |
| simulator | the policies alone, on rows whose answers are known beforehand |
| exact | what policies cost over all outcomes, without rows |
| recomputed | the paper's own arithmetic; it gates nothing |

Scripts are in `benchmarks/papers/`. `make papers` runs them all and writes this half of the page, `make papers ARGS=--quick` a
small one in `build/papers/`.
"""

Figure = Mapping[str, Any]


# --------------------------------------------------------------------------------------------- words


def verdict(claims: Sequence[Claim], *, in_part: bool = False) -> str:
    gates = [claim for claim in claims if claim.bound not in UNGATED]
    missed = [f"`{claim.name}`" for claim in gates if not claim.holds]
    if missed:
        return f"not shown: {', '.join(missed)}"
    if gates:
        return "shown in part" if in_part else "shown"
    return REPORTED if any(claim.bound == REPORTED for claim in claims) else RECOMPUTED


def kind_of(benchmark: str) -> str:
    if benchmark.startswith("simulated_"):
        return "simulator"
    return "exact" if benchmark in EXACT else "engine"


def figures_of(claims: Sequence[Claim]) -> str:
    """The claims that gate, with their bounds; where none does, all."""
    told = [claim for claim in claims if claim.bound not in UNGATED] or claims
    return "; ".join(f"`{claim.name}` {shown(claim.value)} ({claim.bound})" for claim in told)


def why_of(claims: Sequence[Claim]) -> list[str]:
    return [f"`{claim.name}`: {claim.why}" for claim in claims if claim.why]


# --------------------------------------------------------------------------------------------- the page


def result_of(folder: Path, paper: str, benchmark: str) -> dict[str, Any] | None:
    path = folder / "papers" / paper / f"{benchmark}.json"
    if not path.exists():
        return None
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return document


def rows_of(paper: str, figure: Figure, folder: Path) -> list[str]:
    """A row of the table for each benchmark of a figure."""
    rows = []
    for number, benchmark in enumerate(figure["benchmarks"]):
        what = f"{figure['label']} | {figure['finding']}" if number == 0 else " | "
        found = result_of(folder, paper, benchmark)
        claims = [Claim(**claim) for claim in found["claims"]] if found else []
        said = verdict(claims, in_part=figure.get("in_part", False))
        ours = f"**{said}** ({found['commit']})" if found else "no run yet"
        rows.append(
            f"| {what} | `{paper}/{benchmark}.py` | {kind_of(benchmark)}: {ours} | {figures_of(claims)} |"
        )
    return rows


def notes_of(paper: str, figure: Figure, folder: Path) -> list[str]:
    """What is not shown, and why."""
    notes = [figure["note"]] if "note" in figure else []
    for benchmark in figure["benchmarks"]:
        found = result_of(folder, paper, benchmark)
        notes += why_of([Claim(**claim) for claim in found["claims"]]) if found else []
    return [f"- {figure['label']}: {' '.join(notes)}"] if notes else []


def page(folder: Path, images: str) -> tuple[str, dict[str, str]]:
    """This half of the page, and the plots it shows, by file."""
    parts, plots = [BEGINS, "", HEAD], {}
    papers = tomllib.loads(FIGURES.read_text(encoding="utf-8"))
    for paper, about in papers.items():
        parts += [f"### {about['title']}", "", "| figure | the paper's finding | script | ours | claims |"]
        parts.append("| --- | --- | --- | --- | --- |")
        for figure in about["figures"]:
            parts += rows_of(paper, figure, folder)
        parts += ["", *(note for figure in about["figures"] for note in notes_of(paper, figure, folder)), ""]
        for figure in about["figures"]:
            found = result_of(folder, paper, figure["benchmarks"][0])
            for plot in figure.get("plots", ()) if found else ():
                plots[f"{plot['file']}.svg"] = drawn(plot, found["rows"] if found else [])
                parts += [f"![{plot['title']}]({images}/{plot['file']}.svg)", ""]
    return "\n".join(parts), plots


def drawn(plot: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> str:
    """A plot of the rows that have numbers for it."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        x = row.get(plot["x"])
        is_wanted = all(row.get(column) in values for column, values in plot.get("where", {}).items())
        if not is_wanted or not isinstance(x, int | float):
            continue
        columns = plot.get("columns") or [plot["y"]]
        for column in columns:
            name, y = column if "columns" in plot else str(row[plot["by"]]), row.get(column)
            if isinstance(y, int | float):
                lines.setdefault(name.replace("_", " "), []).append((float(x), float(y)))
    assert lines, f"no row of the result has what {plot['file']} shows"
    x_label = plot.get("x_label", plot["x"].replace("_", " "))
    in_order = {name: sorted(points) for name, points in lines.items()}
    return line_plot(plot["title"], x_label, plot.get("y", "").replace("_", " "), in_order)


def write(*, is_quick: bool) -> Path:
    """Write the page and its plots, and say where."""
    target, images = (QUICK_PAGE, QUICK_PAGE.parent) if is_quick else (PAGE, IMAGES)
    first_half = "" if is_quick else PAGE.read_text(encoding="utf-8").partition(BEGINS)[0]
    made, plots = page(QUICK_RESULTS, ".") if is_quick else page(RESULTS, "images/papers")
    images.mkdir(parents=True, exist_ok=True)
    for old in images.glob("*.svg"):
        old.unlink()
    for name, svg in plots.items():
        (images / name).write_text(svg, encoding="utf-8")
    target.write_text(first_half + made, encoding="utf-8")
    return target


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="of quick results, in build/papers/")
    print(write(is_quick=parser.parse_args().quick).relative_to(ROOT))
