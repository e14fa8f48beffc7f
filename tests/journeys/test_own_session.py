"""A user whose job has a Spark session, a streaming DataFrame and a table of results already, run again after a restart."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
JOB = Path(__file__).parent / "own_session.py"
JOB_S = 600


def run_job(folder: Path) -> dict[str, Any]:
    """What a run says; it must leave no trace of an error on the screen."""
    done = subprocess.run(
        [sys.executable, str(JOB), str(folder)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=JOB_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for word in ("Traceback", "ERROR", "Exception"):
        assert word not in done.stderr, done.stderr
    return dict(json.loads(done.stdout))


def order(folder: Path, file: str, *orders: tuple[str, float | None, int]) -> None:
    lines = [json.dumps({"sym": sym, "price": price, "qty": qty}) + "\n" for sym, price, qty in orders]
    (folder / "in" / file).write_text("".join(lines))


@pytest.mark.spark
def test_a_job_with_a_session_of_its_own_goes_on_after_a_restart(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    order(tmp_path, "monday.json", ("ACME", 9.5, 4), ("BOLT", 60.0, 2), ("CORE", None, 1), ("ACME", 12.0, 1))
    monday = run_job(tmp_path)
    assert "a streaming DataFrame cannot be pushed to orders" in monday.pop("refused")
    assert monday == {
        "cheap": [{"sym": "ACME", "price": 9.5}],
        "spenders": [{"sym": "BOLT", "n": 1}],
        "in_table": ["ACME", "BOLT"],
        "by_path": ["ACME", "BOLT"],
        "streams left": 0,
        "session works": 3,
        "settings changed": False,
    }

    order(tmp_path, "tuesday.json", ("DATA", 5.0, 1), ("ACME", 30.0, 2))
    tuesday = run_job(tmp_path)
    assert tuesday["cheap"] == [{"sym": "ACME", "price": 9.5}, {"sym": "DATA", "price": 5.0}]
    # 4 * 9.5 + 12 + 2 * 30 = 110: the sum of both days, kept by Spark
    assert tuesday["spenders"] == [{"sym": "BOLT", "n": 1}, {"sym": "ACME", "n": 3}]
    assert tuesday["in_table"] == tuesday["by_path"] == ["ACME", "ACME", "BOLT", "DATA"]
    assert (tuesday["streams left"], tuesday["session works"]) == (0, 3)
