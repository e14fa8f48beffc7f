"""Time that passes as it does: in steps that a clock that does not jump takes."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

from eddyline.engine import Durable
from eddyline.engine.durable import CLOCK
from eddyline.engine.retention import LONGEST_STEP_US


def pass_time(durable: Durable, clock: list[int], until_us: int) -> None:
    """Let the clock go on until then, and the home look at it often enough to see all of it."""
    for now_us in [*range(clock[0], until_us, LONGEST_STEP_US), until_us]:
        clock[0] = max(now_us, clock[0])
        durable.retention_clock.now_us()


def lived_until(home: Path, until_us: int) -> None:
    """Open a home and let it live until then, from the time it was last open."""
    with closing(sqlite3.connect(home / "catalog.db")) as connection:
        (stored,) = connection.execute("SELECT value FROM settings WHERE name = ?", (CLOCK,)).fetchone()
    clock = [json.loads(stored)[1]]
    durable = Durable(home, time_zone=None, retention=None, clock=lambda: clock[0])
    pass_time(durable, clock, until_us)
    with durable.database.transaction():
        durable.stamp_us()
    durable.close()
