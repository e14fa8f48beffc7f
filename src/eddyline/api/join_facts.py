"""What joins keep and do, as facts: for `engine.joins()`, explain and the dashboard."""

from __future__ import annotations

from typing import Any

from eddyline.engine import RoundEngine


def join_facts(rounds: RoundEngine) -> dict[str, dict[str, Any]]:
    """By stream, what is kept of it for joins. The lock is held."""
    stems = rounds.joining.snapshot()["stems"]
    return {rounds.catalog.stream(name).name: facts for name, facts in stems.items()}
