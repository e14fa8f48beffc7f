"""Rounds on Spark: sessions and the Java below them.

Nothing here is imported by the engine in process; importing this package does not import PySpark.
"""

from eddyline.spark.java import JavaNotFoundError, java_home, use_java

__all__ = ["JavaNotFoundError", "java_home", "use_java"]
