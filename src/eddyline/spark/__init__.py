"""Rounds on Spark: sessions and the Java below them.

Nothing here is imported by the engine in process; importing this package does not import PySpark.
"""

from eddyline.spark.confs import local_confs, local_master
from eddyline.spark.java import JavaNotFoundError, java_home, use_java
from eddyline.spark.jvm import SparkStartError
from eddyline.spark.session import local_session, prepare_fast_start, stop_session
from eddyline.spark.session_check import CheckedSession, SessionRefusedError, checked_session

__all__ = [
    "CheckedSession",
    "JavaNotFoundError",
    "SessionRefusedError",
    "SparkStartError",
    "checked_session",
    "java_home",
    "local_confs",
    "local_master",
    "local_session",
    "prepare_fast_start",
    "stop_session",
    "use_java",
]
