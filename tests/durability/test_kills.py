"""A process is killed at every place of the protocol, and at random ones; its home is always exactly before or after the step."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.durability.kill_driver import CATALOG, ROUNDS

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).parent.parent.parent
FORGOTTEN = ("versions", "streams", "queries", "templates", "ended_members", "shapes", "rounds")


def killed(tmp_path: Path, *options: object) -> dict[str, object]:
    """Run the driver in a process of its own: it forks, which one with threads must not."""
    found = tmp_path / "found.json"
    command = [sys.executable, "-m", "tests.durability.kill_driver", "--json", found, *options]
    done = subprocess.run(
        [str(word) for word in command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(found.read_text())


def test_a_round_killed_at_any_place_has_happened_or_has_not(tmp_path):
    found = killed(tmp_path, "--kinds", *ROUNDS)
    for step in [
        "0 skip",
        "1 plan",
        "2 capture",
        "3 work",
        "4 commit",
        "4b alert",
        "5 deliver",
        "7 gc",
        "end",
    ]:
        assert f"push: step {step}" in found["places"]
    for kind in ["capture", "outbox", "dead"]:
        for place in ["created", "half written"]:
            assert f"push: file: {place} {kind}" in found["places"]
    for place in ["push: sql: before COMMIT", "push: sql: after COMMIT", "open: file: before removing outbox",
                  "open: sql: before SCRIPT", "push: file: before removing capture",
                  "open: sql: before DELETE FROM versions WHERE", "open: sql: after DELETE FROM queries WHERE"]:  # fmt: skip
        assert place in found["places"]
    for table in FORGOTTEN:
        for when in ["before", "after"]:
            assert f"push: sql: {when} DELETE FROM {table} WHERE" in found["places"]
    assert found["kills"] >= 75


def test_a_round_in_tasks_killed_at_any_place_has_happened_or_has_not(tmp_path):
    found = killed(tmp_path, "--tasks", "--kinds", *ROUNDS)
    for step in ["0 skip", "1 plan", "3 work", "4 commit", "4b alert", "5 deliver", "7 gc", "end"]:
        assert f"push: step {step}" in found["places"]
    for kind in ["plan", "index", "capture", "outbox", "dead"]:
        for place in ["created", "half written"]:
            assert f"push: file: {place} {kind}" in found["places"]
    assert found["kills"] >= 75


def test_a_change_of_the_catalog_killed_at_any_place_has_happened_or_has_not(tmp_path):
    found = killed(tmp_path, "--kinds", *CATALOG)
    for kind in CATALOG:
        assert f"{kind}: sql: before COMMIT" in found["places"]
        assert f"{kind}: sql: after COMMIT" in found["places"]
        assert f"{kind}: sql: before INSERT INTO versions" in found["places"]
    assert found["kills"] >= 90


def test_a_home_lives_through_deaths_at_random_places(tmp_path, seed):
    found = killed(tmp_path, "--kinds", "--kills", 40, "--seed", seed, "--timed", 0)
    assert found["kills"] == 40


def test_a_home_lives_through_deaths_at_random_places_of_rounds_in_tasks(tmp_path, seed):
    found = killed(tmp_path, "--tasks", "--kinds", "--kills", 40, "--seed", seed, "--timed", 0)
    assert found["kills"] == 40


@pytest.mark.slow
def test_a_home_lives_through_a_thousand_deaths(tmp_path, seed):
    found = killed(tmp_path, "--kinds", "--kills", 1000, "--seed", seed + 1, "--timed", 0.3)
    assert found["kills"] == 1000
