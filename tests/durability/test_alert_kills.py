"""A process killed anywhere while alerts move leaves them as if it had lived."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.parametrize(
    ("options", "n_kills"), [([], 200), (["--tasks", "--every", "3"], 65)], ids=["here", "in tasks"]
)
def test_alerts_are_moved_once_whatever_place_their_process_is_killed_at(tmp_path, options, n_kills):
    """In tasks only the work before the commit is another: there, every third place has to do."""
    found = tmp_path / "found.json"
    command = [sys.executable, "-m", "tests.durability.alert_kills", "--json", str(found), *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(found.read_text())
    assert report["kills"] >= n_kills
    for place in [
        "step 4b alert",
        "step 5 deliver",
        "sql: before INSERT INTO messages",
        "sql: after INSERT INTO messages",
        "sql: after INSERT OR REPLACE INTO alerts",
        "sql: before DELETE FROM alerts WHERE",
        "sql: after INSERT OR REPLACE INTO cursors",
        "sql: after INSERT OR REPLACE INTO withheld",
        "sql: before DELETE FROM withheld WHERE",
        "sql: before COMMIT",
        "sql: after COMMIT",
    ]:
        assert place in report["places"], place
    assert any("UPDATE silences" in place for place in report["places"])
