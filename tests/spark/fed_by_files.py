"""A program that feeds a stream from a folder through a streaming DataFrame, and is killed at a step of a round.

python -m tests.spark.fed_by_files FOLDER "4 commit@6"     killed there once 6 rows are in; "" to go on to the end
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from pyspark.sql import SparkSession

import eddyline
from eddyline.engine.shared_work import SharedRounds
from eddyline.spark import capture, local_session, stop_session
from eddyline.spark.jobs import pack_functions, spark_runner

SCHEMA = "sym STRING, price DOUBLE, n BIGINT"


def main(folder: Path, kill: str) -> None:
    session = local_session(confs={"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"})
    capture.BATCH_BYTES = 0  # all rounds in tasks
    feed(session, folder, kill)
    stop_session(session)


def feed(session: SparkSession, folder: Path, kill: str) -> None:
    step, _, n_rows = kill.partition("@")
    with eddyline.open(folder / "home") as engine:
        engine.stream("trades", SCHEMA)
        engine.query("SELECT n FROM trades WHERE price < 10", name="cheap")
        rounds = engine.rounds

        def at_step(reached: str) -> None:
            progress = rounds.progress.get("trades")
            if reached == step and progress is not None and progress.n_rows == int(n_rows):
                os.kill(os.getpid(), signal.SIGKILL)

        rounds.at_step = at_step
        shared = SharedRounds(rounds, spark_runner(session), pack_functions)
        frame = session.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(folder / "in"))
        query = capture.feed_stream(
            shared, rounds, "trades", frame, folder / "checkpoint", trigger={"availableNow": True}
        )
        query.awaitTermination()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
