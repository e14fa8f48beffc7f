"""A process killed anywhere while joins run leaves results as if it had lived: every one once."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent.parent
STEPS = ("0 skip", "1 plan", "2 capture", "3 work", "4 commit", "5 deliver", "end")


def killed(tmp_path: Path, *options: str) -> dict[str, Any]:
    """Run the kills in a process of its own: it forks, which one with threads must not."""
    found = tmp_path / "found.json"
    command = [sys.executable, "-m", "tests.durability.join_kills", "--json", str(found), *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(found.read_text())
    return report


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("options", "n_kills"),
    [(["--every", "6"], 75), (["--tasks", "--every", "12"], 50)],
    ids=["here", "in tasks"],
)
def test_joins_killed_at_some_places_give_each_result_once(tmp_path, options, n_kills):
    """Others in each step, so that most places are among them."""
    report = killed(tmp_path, *options)
    assert report["kills"] >= n_kills
    for place in ["step 3 work", "step 4 commit", "file: half written window"]:
        assert place in report["places"] or "--tasks" in options, place


@pytest.mark.slow
@pytest.mark.parametrize("options", [[], ["--tasks"]], ids=["here", "in tasks"])
def test_joins_killed_at_every_place_give_each_result_once(tmp_path, options):
    report = killed(tmp_path, *options)
    assert report["kills"] >= 300
    for step in STEPS:
        assert f"step {step}" in report["places"] or options, step  # tasks read captures, they make none
    for kind in ("outbox", "window", "table"):
        for place in ("created", "half written"):
            assert f"file: {place} {kind}" in report["places"], (place, kind)
    for place in ["sql: before COMMIT", "sql: after COMMIT", "open: sql: before COMMIT"]:
        assert place in report["places"], place
