"""A process killed anywhere while aggregates run leaves answers as if it had lived: every change once."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent.parent


def killed(tmp_path: Path, *options: str) -> dict[str, Any]:
    """Run the kills in a process of its own: it forks, which one with threads must not."""
    found = tmp_path / "found.json"
    command = [sys.executable, "-m", "tests.durability.aggregate_kills", "--json", str(found), *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(found.read_text())
    return report


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("options", "n_kills"),
    [(["--every", "9"], 20), (["--tasks", "--every", "9"], 30)],
    ids=["here", "in tasks"],
)
def test_aggregates_killed_at_some_places_tell_each_change_once(tmp_path, options, n_kills):
    """Others in each step, so that most places are among them."""
    assert killed(tmp_path, *options)["kills"] >= n_kills


@pytest.mark.slow
@pytest.mark.parametrize("options", [[], ["--tasks"]], ids=["here", "in tasks"])
def test_aggregates_killed_at_every_place_tell_each_change_once(tmp_path, options):
    places = killed(tmp_path, *options)["places"]
    for place in [
        "step 3 work",
        "step 4 commit",
        "sql: before COMMIT",
        "sql: after COMMIT",
        "open: sql: before COMMIT",
    ]:
        assert place in places, place
    for kind in ("outbox", "aggregate", *(("parts",) if options else ())):
        for place in ("created", "half written"):
            assert f"file: {place} {kind}" in places, (place, kind)
