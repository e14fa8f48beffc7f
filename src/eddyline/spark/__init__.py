"""Rounds on Spark: sessions and the Java below them.

Nothing here is imported by the engine in process; importing this package does not import PySpark.
"""

from eddyline.spark.capture import drain, feed_stream
from eddyline.spark.class_archive import SWITCH
from eddyline.spark.confs import local_confs, local_master
from eddyline.spark.java import JavaNotFoundError, java_home, use_java
from eddyline.spark.jobs import pack_functions
from eddyline.spark.judge import SparkJudge, is_installed, prove, running_session
from eddyline.spark.jvm import SparkStartError
from eddyline.spark.results import results_frame, write_results_table
from eddyline.spark.session import local_session, prepare_fast_start, stop_session
from eddyline.spark.session_check import CheckedSession, SessionRefusedError, checked_session
from eddyline.spark.workers import SparkWorkers

__all__ = [
    "SWITCH",
    "CheckedSession",
    "JavaNotFoundError",
    "SessionRefusedError",
    "SparkJudge",
    "SparkStartError",
    "SparkWorkers",
    "checked_session",
    "drain",
    "feed_stream",
    "is_installed",
    "java_home",
    "local_confs",
    "local_master",
    "local_session",
    "pack_functions",
    "prepare_fast_start",
    "prove",
    "results_frame",
    "running_session",
    "stop_session",
    "use_java",
    "write_results_table",
]
