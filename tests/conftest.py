"""What every test may use: one Spark session, one seed, and Hypothesis set to repeat itself.

EDDYLINE_SEED=7 make test                  other random inputs, the same on every run with 7
EDDYLINE_PROFILE=explore make test-slow    many more examples for properties; `make test-fast` has fewer (fast)
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import tempfile
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
# Folders: a server or a browser for every test; recipes in small.
THOROUGH = ("tests/journeys/", "tests/server/", "tests/client/", "tests/benchmarks/")
# For Javas that live for seconds: the quick compiler alone, and no second look at classes that a compiler has made.
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
# Files and folders that take longest: they go first, so that no test process has a long one left when the others are done.
LONG = (
    "durability/test_alert_kills.py", "durability/test_join_kills.py", "demo/", "journeys/", "spark/test_capture.py", "fuzz/",
    "kernels/test_warm.py", "durability/", "spark/", "aggregates/test_aggregate_homes.py", "aggregates/", "server/",
    "expressions/", "benchmarks/", "joins/", "engine/", "api/",
    "runtime/", "cli/", "filters/", "test_filter_laws.py", "test_vectors_shared_eddies.py",
)  # fmt: skip
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
    os.environ.setdefault("EDDYLINE_CLASS_ARCHIVE", "off")  # building one takes 40 s, while tests run
    if "PYTEST_DEBUG_TEMPROOT" not in os.environ and _has_room(MEMORY_FOLDER):
        # A killed process loses no written file, on a disk or not; only waiting for the disk is left out.
        os.environ["PYTEST_DEBUG_TEMPROOT"] = str(MEMORY_FOLDER)
    # For homes of examples, which have no tmp_path of their own.
    tempfile.tempdir = os.environ.get("PYTEST_DEBUG_TEMPROOT")
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


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Folders of thorough tests are not loaded where none of these is wanted: servers and browsers take a while to import."""
    wanted = config.option.markexpr
    is_without = " or " not in wanted and "not thorough" in wanted.split(" and ")
    is_thorough = f"{collection_path.relative_to(TESTS.parent).as_posix()}/" in THOROUGH
    return True if is_without and is_thorough else None


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
        if item.nodeid.startswith(THOROUGH):
            item.add_marker("thorough")
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker("spark")
    if hasattr(config, "workerinput"):
        items.sort(key=_place_in_the_queue)


def _place_in_the_queue(item: pytest.Item) -> int:
    path = item.nodeid.removeprefix("tests/")
    return next((place for place, long in enumerate(LONG) if path.startswith(long)), len(LONG))


@pytest.fixture(scope="session")
def seed() -> int:
    return SEED


@pytest.fixture
def rng() -> np.random.Generator:
    """A generator that starts anew in every test, so that a test alone sees what it sees in the suite."""
    return np.random.default_rng(SEED)


@pytest.fixture
def no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if no session of Spark ran here: other tests of this process may have started one, which would then judge audits."""
    for module in ("api.query_commands", "receipts.audit"):
        monkeypatch.setattr(f"eddyline.{module}.running_session", lambda: None)


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
        .config("spark.executorEnv.PYTHONPATH", str(TESTS.parent))
        .config("spark.python.daemon.module", "tests.spark.warm_daemon")
        .config("spark.local.dir", str(folder / "local"))
        .config("spark.sql.ansi.enabled", "true")
        .config("spark.sql.codegen.wholeStage", "false")  # the same code for expressions, compiled sooner
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
