"""What does it cost to add or drop a query while rows flow, and do the results stay exact?

Claim     adding or dropping one query among a million takes at most 10 ms (p99), in memory, while another thread pushes rounds
Claim     while the base of the index is rebuilt in the background, because a seventh as many queries came at once, no round takes
          more than twice as long as the median round before; the one that first meets the new queries is reported beside it
Claim     10,000 adds and drops mixed with 1,000 rounds: not one pair differs from what a look at every cell says; with what was
          added dropped again, the index takes at most 1.1 times its bytes of before
Baseline  the same adds and drops with nobody pushing, and the same rounds with nobody adding; for exactness, NumPy over all
          cells (`Queries.satisfied_by`)
Control   the judge itself: a query it does not know of, and every row satisfies, must show as differences

The million are keyed, 20 matches a row (benchmarks/filters/_workloads.py). Rounds beside adds and drops have 1,000 rows, those
during the rebuild 8,192. An add is `engine.query(text)`, a drop `query.drop()`; each waits for the round that is under way. The
durable figures are those of a home in a temporary folder, where each add and drop is flushed to the disk. Seconds are wall
time: waiting is what is measured.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import eddyline
from benchmarks.filters._contenders import Standing, registered
from benchmarks.filters._workloads import BATCH, STREAM, Queries, Workload, joined, keyed, mixed
from benchmarks.harness import Benchmark, main, wall

ROWS_BESIDE = 1_000  # of a round beside adds and drops
QUIET_ROUNDS = 50
ADDED_SHARE = 1 / 7  # of the base, added at once: enough for it to be built anew
CHURN_ROWS = 64


# --------------------------------------------------------------------------------------------- adding and dropping


class Pusher:
    """Another thread that pushes rounds back to back, and how long each took."""

    def __init__(self, engine: eddyline.Engine, batches: list[pa.RecordBatch]) -> None:
        self.seconds: list[float] = []
        self._engine, self._batches = engine, batches
        self._is_over = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._push, name="pusher")

    def __enter__(self) -> Pusher:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _push(self) -> None:
        try:
            while not self._is_over.is_set():
                began = wall()
                self._engine.push(STREAM, self._batches[len(self.seconds) % len(self._batches)]).pairs()
                self.seconds.append(wall() - began)
        except BaseException as error:
            self._error = error


@dataclass
class Changes:
    """Seconds of adds and of drops."""

    adds: list[float] = field(default_factory=list)
    drops: list[float] = field(default_factory=list)

    @property
    def p99_ms(self) -> float:
        return 1e3 * max(_p99(self.adds), _p99(self.drops))


def changes(
    engine: eddyline.Engine, texts: Sequence[str], pauses_s: Sequence[float] | None = None
) -> Changes:
    """Add them one by one, then drop them one by one, after a pause each if any are given."""
    found = Changes()
    standing = []
    for at, text in enumerate(texts):
        if pauses_s is not None:
            time.sleep(pauses_s[at])
        began = wall()
        standing.append(engine.query(text))
        found.adds.append(wall() - began)
    for at, query in enumerate(standing):
        if pauses_s is not None:
            time.sleep(pauses_s[at])
        began = wall()
        query.drop()
        found.drops.append(wall() - began)
    return found


def measure_changes(bench: Benchmark, workload: Workload, home: str | None, n: int) -> float:
    """p99 of adds and drops while rounds are pushed; without rounds, and rounds without them, for the table.

    A change comes after a random pause of up to two rounds, so that it meets a round at any moment of it and holds none up twice.
    """
    where = "in memory" if home is None else "durable"
    standing = Standing(workload, home)
    batches = workload.batches(8, bench.size(full=ROWS_BESIDE, quick=100))
    spare = keyed(2 * n, bench.seed + 1).queries
    texts = [spare.text(k) for k in range(2 * n)]
    for rows in batches:
        standing.pairs(rows)  # kernels compile
    with Pusher(standing.engine, batches) as quiet:
        _until(lambda: len(quiet.seconds) >= QUIET_ROUNDS)
    alone = changes(standing.engine, texts[:n])
    standing.settle()
    pauses_s = np.random.default_rng(bench.seed).uniform(0, 2 * statistics.median(quiet.seconds), n).tolist()
    with Pusher(standing.engine, batches) as pusher:
        _until(lambda: len(pusher.seconds) >= 3)
        beside = changes(standing.engine, texts[n:], pauses_s)
    for who, change in (("nobody pushes", alone), ("rounds pushed", beside)):
        for what, seconds in (("add", change.adds), ("drop", change.drops)):
            _row(bench, f"{what} {where}, {who}", len(workload.queries), seconds)
    _row(bench, f"round {where}, nobody adds", len(workload.queries), quiet.seconds)
    _row(bench, f"round {where}, beside adds and drops", len(workload.queries), pusher.seconds)
    standing.close()
    return beside.p99_ms


# --------------------------------------------------------------------------------------------- rounds during a rebuild


def measure_rebuild(bench: Benchmark, workload: Workload) -> float | None:
    """Longest round while the base is rebuilt, over the median round before; None if nothing was rebuilt."""
    standing = Standing(workload)
    batches = workload.batches(4, bench.size(full=BATCH, quick=500))
    more = keyed(int(ADDED_SHARE * len(workload.queries)), bench.seed + 2).queries

    def timed_round(at: int) -> float:
        began = wall()
        standing.engine.push(STREAM, batches[at % len(batches)]).pairs()
        return wall() - began

    for at in range(4):
        timed_round(at)
    quiet = [timed_round(at) for at in range(QUIET_ROUNDS)]
    registered(standing.engine, more)
    first_seen = [timed_round(0)]
    during: list[float] = []
    if standing.is_rebuilding:
        while standing.is_rebuilding:
            during.append(timed_round(len(during)))
        during += [timed_round(at) for at in range(3)]  # what was rebuilt is adopted here at the latest
    after = [timed_round(at) for at in range(QUIET_ROUNDS)]
    new = f"round that first met {len(more):,} queries"
    for what, seconds in (
        ("round before the rebuild", quiet),
        (new, first_seen),
        ("round during the rebuild", during),
        ("round after the rebuild", after),
    ):
        if seconds:
            _row(bench, what, len(workload.queries), seconds)
    standing.close()
    return max(during) / statistics.median(quiet) if during else None


# --------------------------------------------------------------------------------------------- exactness


@dataclass
class Believed:
    """Every query there ever was, and which of them stand: what the engine must agree with."""

    queries: Queries
    ids: npt.NDArray[np.int32]  # of the engine; 0 where it is not registered
    is_standing: npt.NDArray[np.bool_]

    def differences(
        self, rows: pa.RecordBatch, offsets: npt.NDArray[np.int64], ids: npt.NDArray[np.int32]
    ) -> int:
        """Pairs that only one side has."""
        here = np.flatnonzero(self.is_standing)
        row, place = np.nonzero(self.queries.take(here).satisfied_by(rows))
        expected = row * (1 << 32) + self.ids[here[place]]
        found = np.repeat(np.arange(rows.num_rows), np.diff(offsets)) * (1 << 32) + ids
        return len(np.setxor1d(expected, found)) + len(found) - len(np.unique(found))


class Churn:
    """Adds and drops of single queries in any order, and rounds between them."""

    def __init__(self, n_base: int, n_spare: int, seed: int) -> None:
        self.base, spare = mixed(n_base, seed), mixed(n_spare, seed + 1)
        self.standing = Standing(self.base)
        self.engine = self.standing.engine
        self.n_base = n_base
        self._rng = np.random.default_rng((seed, 2))
        self._unused = iter(range(n_base, n_base + n_spare))
        self.believed = Believed(
            joined([self.base.queries, spare.queries]),
            np.concatenate([self.standing.ids, np.zeros(n_spare, np.int32)]),
            np.arange(n_base + n_spare) < n_base,
        )

    def change(self) -> None:
        """An add or a drop, as likely."""
        if self._rng.random() < 0.5:
            self.add(next(self._unused))
        else:
            self.drop(int(self._rng.choice(np.flatnonzero(self.believed.is_standing))))

    def add(self, number: int) -> None:
        query = self.engine.query(self.believed.queries.text(number))
        self.believed.ids[number] = query.id
        self.believed.is_standing[number] = True

    def drop(self, number: int) -> None:
        self.engine.get(int(self.believed.ids[number])).drop()
        self.believed.is_standing[number] = False

    def differences(self, at: int) -> int:
        rows = self.base.rows(CHURN_ROWS, at)
        return self.believed.differences(rows, *self.standing.pairs(rows))

    def restore(self) -> None:
        """The queries of before, and no others."""
        for number in np.flatnonzero(self.believed.is_standing[self.n_base :]) + self.n_base:
            self.drop(int(number))
        for number in np.flatnonzero(~self.believed.is_standing[: self.n_base]):
            self.add(int(number))
        self.standing.settle()


def measure_churn(bench: Benchmark) -> None:
    n_changes = bench.size(full=10_000, quick=300)
    n_rounds = bench.size(full=1_000, quick=30)
    churn = Churn(bench.size(full=10_000, quick=500), n_changes, bench.seed)
    bytes_before = churn.standing.nbytes
    n_different, n_rebuilding, most_bytes = 0, 0, bytes_before
    began = wall()
    for at in range(n_rounds):
        for _ in range(n_changes // n_rounds):
            churn.change()
        n_different += churn.differences(at)
        n_rebuilding += bool(churn.standing.is_rebuilding)
        if most_bytes is not None:
            most_bytes = max(most_bytes, churn.standing.nbytes or 0)
    bench.row(
        what="churn",
        queries=churn.n_base,
        n=n_changes,
        rounds=n_rounds,
        rebuilding=n_rebuilding,
        wall_s=wall() - began,
    )
    churn.standing.stage.check()
    churn.restore()
    n_different += churn.differences(n_rounds)
    bench.claim("churn_exact", n_different, "= 0")
    _judge_the_judge(churn)
    if bytes_before is not None and churn.standing.nbytes is not None and most_bytes is not None:
        bench.row(
            what="index bytes",
            queries=churn.n_base,
            before=bytes_before,
            most=most_bytes,
            after=churn.standing.nbytes,
        )
        bench.claim("churn_bytes_ratio", churn.standing.nbytes / bytes_before, "<= 1.1")
    else:
        assert bench.is_quick, "the stage does not say how many bytes its index has"
    churn.standing.close()


def _judge_the_judge(churn: Churn) -> None:
    """It must miss a query that every row satisfies."""
    everything = churn.engine.query(f"SELECT * FROM {STREAM}")
    assert churn.differences(0) == CHURN_ROWS, "the judge did not notice a query it does not know of"
    everything.drop()
    assert churn.differences(0) == 0


# --------------------------------------------------------------------------------------------- all


def run(bench: Benchmark) -> None:
    n = bench.size(full=1_000_000, quick=10_000)
    workload = keyed(n, bench.seed)
    in_memory = measure_changes(bench, workload, None, bench.size(full=2_000, quick=50))
    bench.claim("add_drop_among_1m_p99_ms", in_memory, "<= 10")
    with tempfile.TemporaryDirectory(dir=bench.options["folder"]) as folder:
        durable = measure_changes(bench, workload, folder, bench.size(full=200, quick=10))
    bench.claim("durable_add_drop_among_1m_p99_ms", durable, "reported")
    longest = measure_rebuild(bench, workload)
    if longest is None:
        assert bench.is_quick, f"{ADDED_SHARE:.0%} more queries started no rebuild"
        bench.row(what="no rebuild was seen")
    else:
        bench.claim("longest_round_during_rebuild_over_median", longest, "<= 2")
    measure_churn(bench)


def _until(is_so: Callable[[], bool]) -> None:
    waiting = threading.Event()
    while not is_so():
        waiting.wait(0.005)


def _p99(seconds: list[float]) -> float:
    return float(np.percentile(seconds, 99))


def _row(bench: Benchmark, what: str, among: int, seconds: list[float]) -> None:
    bench.row(
        what=what,
        queries=among,
        n=len(seconds),
        median_ms=1e3 * statistics.median(seconds),
        p99_ms=1e3 * _p99(seconds),
        longest_ms=1e3 * max(seconds),
    )


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--folder", help="on the disk to measure; a temporary one")


if __name__ == "__main__":
    main(run, __file__, __doc__, seed=7, options=options)
