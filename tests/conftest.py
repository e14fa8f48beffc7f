"""What every test may use: one Spark session, one seed, and Hypothesis set to repeat itself.

EDDYLINE_SEED=7 make test                  other random inputs, the same on every run with 7
EDDYLINE_PROFILE=explore make test-slow    many more examples for properties; `make test-fast` has fewer (fast)
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import hypothesis.core
import numpy as np
import pytest

from tests.kafka_broker import broker, broker_name, real_broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["broker", "real_broker"]  # fixtures

TESTS = Path(__file__).parent
THOROUGH = (
    "journeys",
    "server",
    "client",
    "benchmarks",
)  # folders: a server or a browser for every test; recipes in small
QUICK_JAVA = "-XX:TieredStopAtLevel=1"  # the quick compiler alone, for Javas that live for seconds
# Folders and files that take longest: they go first, so that no test process has a long one left when the others are done.
LONG = (
    *("durability", "spark", "journeys", "demo", "server", "expressions", "api", "engine", "runtime", "cli"),
    *("test_filter_laws.py", "test_vectors_shared_eddies.py"),
)
MEMORY_FOLDER = Path("/dev/shm")
MEMORY_NEEDED = 8 << 30
DEFAULT_SEED = 20260101
SEED = int(os.environ.get("EDDYLINE_SEED", DEFAULT_SEED))
PROFILE = os.environ.get("EDDYLINE_PROFILE", "ci")

hypothesis.settings.register_profile(
    "ci",
    derandomize="EDDYLINE_SEED" not in os.environ,  # otherwise the seed decides, see pytest_configure
    database=None,
    deadline=None,
    print_blob=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.register_profile("fast", hypothesis.settings.get_profile("ci"), max_examples=10)
hypothesis.settings.register_profile(
    "explore", hypothesis.settings.get_profile("ci"), derandomize=False, max_examples=2000
)


def pytest_configure(config: pytest.Config) -> None:
    # PySpark gives timestamps as naive local times: let local be UTC on every machine.
    os.environ["TZ"] = "UTC"
    time.tzset()
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell lets what it starts in the background ignore it, and so would the processes that tests start and interrupt.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.setdefault("SPARK_SUBMIT_OPTS", QUICK_JAVA)  # of every Java that tests start for Spark
    if "PYTEST_DEBUG_TEMPROOT" not in os.environ and _has_room(MEMORY_FOLDER):
        # A killed process loses no written file, on a disk or not; only waiting for the disk is left out.
        os.environ["PYTEST_DEBUG_TEMPROOT"] = str(MEMORY_FOLDER)
    hypothesis.settings.load_profile(PROFILE)
    if config.getoption("--hypothesis-seed", None) is None and (
        PROFILE == "explore" or "EDDYLINE_SEED" in os.environ
    ):
        hypothesis.core.global_force_seed = SEED


def _has_room(folder: Path) -> bool:
    try:
        room = os.statvfs(folder)
    except OSError:  # no such folder on this system
        return False
    return os.access(folder, os.W_OK) and room.f_bavail * room.f_frsize >= MEMORY_NEEDED


def pytest_report_header() -> list[str]:
    return [
        f"eddyline: seed {SEED} (EDDYLINE_SEED), hypothesis profile {PROFILE} (EDDYLINE_PROFILE)",
        f"kafka: {broker_name()}",
    ]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """As many test processes as cores; for `auto` half as many again, as tests wait for processes, browsers, Javas they start."""
    n_cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return n_cores if config.option.numprocesses == "logical" else (3 * n_cores + 1) // 2


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """No garbage is looked for among modules and tests, half a million objects: not while they come, and not afterwards."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark tests by what they use; several test processes take the files in this order, each a whole file."""
    for item in items:
        if _room(item) in THOROUGH:
            item.add_marker("thorough")
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker("spark")
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: LONG.index(_room(item)) if _room(item) in LONG else len(LONG))


def _room(item: pytest.Item) -> str:
    return item.path.relative_to(TESTS).parts[0] if item.path.is_relative_to(TESTS) else ""


@pytest.fixture(scope="session")
def seed() -> int:
    return SEED


@pytest.fixture
def rng() -> np.random.Generator:
    """A generator that starts anew in every test, so that a test alone sees what it sees in the suite."""
    return np.random.default_rng(SEED)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A local Spark session for each test process: two cores, tasks retried, loopback only, nothing downloaded."""
    pytest.importorskip("pyspark")
    from eddyline.spark import local_confs, use_java

    use_java()
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_PYTHON"] = sys.executable  # workers run in this environment, not the python3 of PATH
    from pyspark.sql import SparkSession

    folder = tmp_path_factory.mktemp("spark")
    session = (
        SparkSession.builder.master("local[2,4]")
        .appName("eddyline tests")
        .config(map=local_confs("local[2,4]", time_zone="UTC"))
        .config(
            "spark.driver.extraJavaOptions",
            f"-XX:+UseSerialGC -Duser.timezone=UTC -Dderby.system.home={folder}",
        )
        .config("spark.driver.memory", "1g")
        .config("spark.local.dir", str(folder / "local"))
        .config("spark.sql.ansi.enabled", "true")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
