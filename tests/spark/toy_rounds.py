"""The round protocol on Spark, in small: two streams, one standing join, one driver that may be killed anywhere.

    python -m tests.spark.toy_rounds HOME INPUT SINK --marks FOLDER          rounds until all input is taken
    … --fire "driver@2 build: task 0 has written"                            what goes wrong, see fire.py

Streams a (k, x) and b (k, y) lie as Parquet files in INPUT/a and INPUT/b. The query joins all rows of a and b with equal k; the
later row of a pair brings the result, once. State is segments: files of rows in the store, listed in the catalog with the round
that brought them. The home, the lock, the epoch, the store and the one transaction are the engine's own; only the work is a toy.

    OPEN     take the home, which clears what no round lists; RECOVER: hand on what was committed and not delivered
    PLAN     positions, live segments, last round; references to new input, with the ordinal their first row gets
    WORK     build: each task reads its reference and writes a segment; probe: each task joins one new segment with all
             segments and writes an outbox file. Two jobs, since a task cannot see what another is still writing.
    COMMIT   segments, outbox files, positions: one transaction
    DELIVER  results of the round to the sink, then the cursor; a crash in between delivers again, with the same identities
    GC       outbox files past retention
    ABORT    a job failed: nothing of the round is listed; the round is tried again
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from eddyline.catalog import CommittedRound, ListedFile
from eddyline.engine.durable import Durable, Retention
from eddyline.errors import EddylineError
from eddyline.model import Round, StreamProgress
from eddyline.spark import use_java
from eddyline.storage import Store, StoredFile
from tests.durability.kill_points import install
from tests.spark.fire import Course, Fire, Marks
from tests.spark.toy_join import (
    OUTBOX,
    SEGMENT,
    STREAMS,
    Reference,
    Segment,
    Written,
    build,
    probe,
    read_results,
    run_tasks,
)

FILES_PER_ROUND = 2  # of each stream
KEPT = Retention(result_bytes=6_000)  # about those of the last round, so there is garbage from the second on
TRIES = 2  # of a round whose job fails
CONF = {
    "spark.master": "local[2,4]",
    "spark.app.name": "toy rounds",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-Xss8m -XX:TieredStopAtLevel=1 -Duser.timezone=UTC",
    "spark.driver.memory": "1g",
    "spark.log.level": "OFF",  # tasks fail on purpose
    "spark.sql.adaptive.enabled": "false",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


@dataclass(frozen=True)
class Plan:
    """All a round starts from."""

    number: int
    base: int
    references: list[Reference]
    live: list[Segment]
    positions: dict[str, int]  # behind the references
    progress: dict[str, StreamProgress]


# --------------------------------------------------------------------------------------------- the driver


class Driver:
    """One life of the program that holds a home."""

    def __init__(self, home: Path, source: Path, sink: Path, course: Course) -> None:
        self._source, self._sink, self._course = source, sink, course
        install(lambda what: self._course.passing(what))  # the places inside SQLite and the file system
        self._durable = Durable(home, time_zone="UTC", retention=KEPT)
        tell(opened=self._durable.epoch, cleared=self._durable.n_cleared)

    def run(self, spark: Any) -> None:
        self._enter(0, "recover")
        self._deliver()
        while (plan := self._plan()) is not None:
            for tried in range(TRIES):
                try:
                    segments, outbox = self._work(spark, plan, is_retry=tried > 0)
                    break
                except Exception as error:  # whatever Spark raises for a job that failed
                    self._durable.abort()
                    tell(aborted=plan.number, why=str(error))
            else:
                raise SystemExit(f"round {plan.number} failed {TRIES} times")
            self._commit(plan, segments, outbox)
            self._enter(plan.number, "deliver")
            self._deliver()
            self._enter(plan.number, "gc")
            self._durable.collect_garbage()
            self._enter(plan.number, "end")
        tell(ended="all input is taken")
        self._durable.close()

    def _enter(self, round_number: int, step: str, *, is_retry: bool = False) -> None:
        self._course = self._course.at(round_number, step, is_retry=is_retry)

    def _plan(self) -> Plan | None:
        rounds = self._durable.rounds
        last = rounds.last()
        number, base = (1, 1) if last is None else (last.round.number + 1, last.last_arrival + 1)
        self._enter(number, "plan")
        bases = self._bases()
        live = [Segment(stored(file), bases[file.round_number]) for file in rounds.files.all(SEGMENT)]
        references: list[Reference] = []
        positions: dict[str, int] = {}
        progress = rounds.progress()
        ordinal = 0
        for stream in STREAMS:
            start = int(str(rounds.position(stream) or 0))
            paths = sorted((self._source / stream).glob("*.parquet"))[start : start + FILES_PER_ROUND]
            first = ordinal
            for path in paths:
                n_rows = pq.read_metadata(path).num_rows
                references.append(Reference(stream, path, ordinal, n_rows))
                ordinal += n_rows
            positions[stream] = start + len(paths)
            progress[stream] = StreamProgress(progress.get(stream, StreamProgress()).n_rows + ordinal - first)
        return Plan(number, base, references, live, positions, progress) if references else None

    def _work(self, spark: Any, plan: Plan, *, is_retry: bool) -> tuple[list[Written], list[Written]]:
        folder, epoch = self._durable.store.folder, self._durable.epoch
        self._enter(plan.number, "build", is_retry=is_retry)
        building, n, references = self._course, len(plan.references), plan.references
        built = run_tasks(spark, n, lambda k: build(Store(folder, epoch), k, references[k], building))
        self._enter(plan.number, "probe", is_retry=is_retry)
        probing, new = self._course, [Segment(written.file, None) for written in built]
        known = [*plan.live, *new]
        probed = run_tasks(spark, n, lambda k: probe(Store(folder, epoch), k, new[k], known, probing))
        return built, probed

    def _commit(self, plan: Plan, segments: list[Written], outbox: list[Written]) -> None:
        self._enter(plan.number, "commit")
        n_rows = dict.fromkeys(STREAMS, 0)
        for reference, segment in zip(plan.references, segments, strict=True):
            assert segment.n == reference.n_rows, f"{reference.path} had {segment.n} rows"
            n_rows[reference.stream] += segment.n
        done = CommittedRound(
            Round(plan.number, version=1, now_us=time.time_ns() // 1000, seed=0, first_arrival=plan.base, n_rows=n_rows),
            last_arrival=plan.base + sum(n_rows.values()) - 1,
            n_results=sum(written.n for written in outbox),
            n_dead=0,
            n_late=0,
        )  # fmt: skip
        files = [
            ListedFile(written.file.name, kind, plan.number, written.file.nbytes, written.file.checksum)
            for kind, brought in ((SEGMENT, segments), (OUTBOX, outbox))
            for written in brought
        ]
        self._durable.commit(done, plan.progress, files, plan.positions)
        tell(committed=plan.number)

    def _deliver(self) -> None:
        """Everything committed after the cursor, a round at a time."""
        rounds = self._durable.rounds
        bases = self._bases()
        delivered, _ = rounds.cursors.get("sink") or (0, 0)
        waiting = self._durable.results(after_round=delivered)
        for number, parts in groupby(waiting, key=lambda found: found[0]):
            results = [result for _, part in parts for result in read_results(part, bases[number])]
            self._append("".join(json.dumps({"round": number} | result) + "\n" for result in results))
            rounds.cursors.set("sink", number, 0)
        assert not self._durable.damaged, self._durable.damaged

    def _append(self, text: str) -> None:
        """Add lines to the sink, behind its last whole line: a killed driver may have left half of one."""
        data = text.encode()
        with open(self._sink, "a+b") as file:
            file.seek(0)
            file.truncate(file.read().rfind(b"\n") + 1)
            file.write(data[: len(data) // 2])
            file.flush()
            self._course.passing("half written")
            file.write(data[len(data) // 2 :])
            file.flush()
            os.fsync(file.fileno())

    def _bases(self) -> dict[int, int]:
        rounds = self._durable.rounds
        return {
            done.round.number: done.round.first_arrival for done in rounds.recent(rounds.retained_rounds().n)
        }


def tell(**what: object) -> None:
    print(json.dumps(what), flush=True)


def stored(file: ListedFile) -> StoredFile:
    return StoredFile(file.name, file.nbytes, file.checksum)


# --------------------------------------------------------------------------------------------- the program


def session() -> Any:
    """A session on the running Java that the environment names, else on a Java of its own."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        use_java()
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
        return SparkSession.builder.config(map=CONF).getOrCreate()
    gateway = launch_gateway()
    running = gateway.jvm.org.apache.spark.SparkContext.getOrCreate()
    context = gateway.jvm.JavaSparkContext(running)
    return SparkSession(SparkContext(gateway=gateway, jsc=context, conf=SparkConf(_jconf=running.conf())))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("home", type=Path)
    parser.add_argument("source", type=Path, metavar="input")
    parser.add_argument("sink", type=Path)
    parser.add_argument(
        "--fire", action="append", default=[], help="what goes wrong, see tests/spark/fire.py"
    )
    parser.add_argument(
        "--marks", type=Path, required=True, help="folder in which places that are passed are noted"
    )
    options = parser.parse_args(arguments)
    course = Course(tuple(map(Fire.parsed, options.fire)), Marks(options.marks), os.getpid())
    try:
        course.passing("begins")
        driver = Driver(options.home, options.source, options.sink, course)
        driver.run(session())
    except EddylineError as error:
        print(error, file=sys.stderr, flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
