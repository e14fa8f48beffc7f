"""PySpark's daemon, with all loaded that tasks of the engine need: workers are forks of it, and none of them loads it again.

    spark.python.daemon.module=tests.spark.warm_daemon

Sessions that tests share have it. Those that a command or a program of a user starts have PySpark's own, as users do.
"""

from __future__ import annotations

from pyspark import worker  # noqa: F401
from pyspark.daemon import manager

import eddyline.spark.jobs  # noqa: F401
from eddyline.kernels import warm_up

if __name__ == "__main__":
    warm_up()
    manager()
