"""What does it take to watch ten million devices for silence, and what does a tick that finds a few of them?

Claim     absence_10m_devices_bytes_each      bytes that one query `HAVING max(ts) < now() - INTERVAL 10 MINUTES` keeps for each
                                              of 10,000,000 devices: at most 100
Claim     visited_over_silent                 groups that a tick visits, over those that fall silent in it: 1
Control   `quiet`: ticks in which none falls silent visit none

Devices report once, a hundred thousand in a push, so that the ticks ten minutes later find some silent. Bytes are those of all
arrays of the class, as `engine.explain_aggregates()` gives them; groups that are visited are counted by the engine, which tells
users of them nowhere.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

import eddyline
from benchmarks.harness import Benchmark, cpu, main

MILLISECOND = 1_000
MINUTE = 60_000 * MILLISECOND
BEGIN_US = 1_767_225_600_000_000  # 2026-01-01
TEXT = "SELECT device, max(ts) AS heard FROM readings GROUP BY device HAVING max(ts) < now() - INTERVAL 10 MINUTES"
N_TICKS = 10
WHY_LARGER = (
    "They find a key by its words, and an entry by its key, how long it is kept and its epoch; the rest is the aggregate, the "
    "order of time, and what a round holds apart. Both tables store where the words of a key begin and how many they are, which "
    "keys of one length do not need, and grow by doubling."
)


def reports(first: int, end: int, per_tick: int) -> pa.Table:
    """One row for each of these devices: so many in a millisecond as fall silent in a tick."""
    devices = np.arange(first, end)
    times = BEGIN_US + devices // per_tick * MILLISECOND
    return pa.table({"device": devices, "ts": pa.array(times, pa.timestamp("us", "UTC"))})


def visited_groups(engine: eddyline.Engine) -> int:
    (found,) = engine.rounds.flow.snapshot()["aggregates"].values()
    return int(found["visited"])


def run(bench: Benchmark) -> None:
    n_devices = bench.size(full=10_000_000, quick=100_000)
    n_pushed = bench.size(full=100_000, quick=10_000)
    per_tick = n_devices // 1_000
    engine = eddyline.open(results_per_query=1, clock=lambda: BEGIN_US)
    engine.sql(
        "CREATE TABLE readings (device BIGINT, ts TIMESTAMP) TBLPROPERTIES (time='ts', lateness='1 minute')"
    )
    engine.query(TEXT)
    filled_s = 0.0
    for first in range(0, n_devices, n_pushed):
        table = reports(first, min(first + n_pushed, n_devices), per_tick)
        began = cpu()
        engine.push("readings", table)
        filled_s += cpu() - began
    (found,) = engine.explain_aggregates()
    (groups,) = found["structures"]
    assert groups["groups"] == n_devices
    bytes_each = found["nbytes"] / n_devices
    bench.row(
        what="devices",
        devices=n_devices,
        bytes_each=bytes_each,
        us_each=1e6 * filled_s / n_devices,
    )
    n_silent = n_visited = 0
    quiet = visited_groups(engine)
    engine.tick(now=BEGIN_US + 10 * MINUTE - 1)
    quiet = visited_groups(engine) - quiet
    for tick in range(N_TICKS):
        before, began = visited_groups(engine), cpu()
        now_silent = engine.tick(now=BEGIN_US + 10 * MINUTE + tick * MILLISECOND + 1).count
        took_s, visited = cpu() - began, visited_groups(engine) - before
        assert now_silent == per_tick, (now_silent, per_tick)
        n_silent, n_visited = n_silent + now_silent, n_visited + visited
        bench.row(what="tick", devices=now_silent, visited=visited, us_each=1e6 * took_s / now_silent)
    why = f"{bytes_each:.0f} bytes with {n_devices:,} devices. {WHY_LARGER}"
    bench.claim("absence_10m_devices_bytes_each", bytes_each, "<= 100", why)
    bench.claim("visited_over_silent", n_visited / n_silent, "= 1")
    bench.claim("visited_in_a_quiet_tick", quiet, "= 0")
    engine.close()


if __name__ == "__main__":
    main(run, __file__, __doc__, seed=7)
