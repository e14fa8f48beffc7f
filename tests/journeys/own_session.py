"""A job that somebody already has on a Spark session of their own, with eddyline in it: python own_session.py FOLDER.

`test_own_session.py` runs it again and again, as a scheduler would; what it prints is one JSON document.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

import eddyline
from eddyline.spark import use_java

folder = Path(sys.argv[1])
use_java()
os.environ |= {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
builder = SparkSession.builder.master("local[2]").appName("orders")
for name, value in {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.sql.shuffle.partitions": "1",
    # Spark tidies state up every minute, and prints an error if the session ends meanwhile: not in a run of seconds or minutes.
    "spark.sql.streaming.stateStore.maintenanceInterval": "1h",
    "spark.sql.warehouse.dir": str(folder / "warehouse"),
    "spark.ui.enabled": "false",
}.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()


def settings() -> list[str]:
    """What whoever wrote the job relies on."""
    return [spark.conf.get(name) for name in ("spark.sql.ansi.enabled", "spark.sql.session.timeZone")]


before = settings()

# what was there before eddyline: orders as they come, cleaned
orders = (
    spark.readStream.schema("sym STRING, price DOUBLE, qty INT")
    .json(str(folder / "in"))
    .where("price IS NOT NULL")
)
said: dict[str, object] = {}

with eddyline.open(folder / "home") as engine:
    engine.stream("orders", "sym STRING, price DOUBLE, qty INT")
    engine.stream("sums", "sym STRING, n BIGINT, spent DOUBLE", key="sym")
    engine.query("SELECT sym, price FROM orders WHERE price < 10", name="cheap")
    engine.query("SELECT sym, n FROM sums WHERE spent > 100", name="spenders")
    try:
        engine.push("orders", orders)
    except eddyline.EddylineError as error:
        said["refused"] = str(error)

    with engine.start(spark) as running:
        feeding = running.feed("orders", orders, checkpoint=folder / "checkpoints" / "orders")
        sums = orders.groupBy("sym").agg(
            F.count("*").alias("n"), F.sum(F.col("price") * F.col("qty")).alias("spent")
        )
        summing = running.feed("sums", sums, checkpoint=folder / "checkpoints" / "sums", output_mode="update")
        feeding.processAllAvailable()
        summing.processAllAvailable()
        said["cheap"] = [dict(result) for result in engine.get("cheap").results()]
        said["spenders"] = [dict(result) for result in engine.get("spenders").results()]
        for target in ("alerts", str(folder / "alerts-by-path")):
            engine.append_results(target, spark)
            engine.append_results(target, spark)  # nothing new
    said["in_table"] = sorted(json.loads(row.result)["sym"] for row in spark.table("alerts").collect())
    by_path = spark.read.parquet(str(folder / "alerts-by-path"))
    said["by_path"] = sorted(json.loads(row.result)["sym"] for row in by_path.collect())

said["streams left"] = len(spark.streams.active)
said["session works"] = spark.range(3).count()
said["settings changed"] = settings() != before
spark.stop()
print(json.dumps(said))
