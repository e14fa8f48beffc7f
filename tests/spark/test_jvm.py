"""A process that should become a Java for Spark: it comes up, or is told apart from all the ways in which it does not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap

import pytest

from eddyline.spark.jvm import JavaEndedError, Jvm, SparkStartError, without_farewells


def started(script: str, *, timeout_s: float = 60.0, environ: dict[str, str] | None = None) -> Jvm:
    """A shell script in the place of Spark's start script."""
    base = {"PATH": os.environ["PATH"], **(environ or {})}
    return Jvm(["/bin/sh", "-c", textwrap.dedent(script)], base, timeout_s=timeout_s)


def failure(script: str, **options) -> SparkStartError:
    with pytest.raises(SparkStartError) as caught:
        started(script, **options)
    return caught.value


# what Java writes: the port, then the length of the secret and the secret
UP = r"""
    printf '\000\000\061\071\000\000\000\004key!' > "$_PYSPARK_DRIVER_CONN_INFO_PATH.new"
    mv "$_PYSPARK_DRIVER_CONN_INFO_PATH.new" "$_PYSPARK_DRIVER_CONN_INFO_PATH"
"""


def is_running(pid: int) -> bool:
    ran = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True)
    return ran.returncode == 0 and "Z" not in ran.stdout


def test_a_java_that_comes_up_is_reached_by_port_and_secret_and_ends_with_its_input():
    jvm = started(UP + "cat > /dev/null")
    assert (jvm.port, jvm.secret) == (0x3139, "key!")
    jvm.end()
    assert jvm.process.returncode == 0


def test_a_java_that_fails_is_told_with_its_last_words():
    error = failure("echo starting; echo 'Error: no such thing' >&2; exit 3")
    assert isinstance(error, JavaEndedError)
    assert str(error) == (
        "Java for Spark ended while it started, with exit code 3\ndetail: starting\nError: no such thing"
    )


def test_a_java_that_ends_without_an_error_is_not_waited_for():
    assert failure("exit 0").problem == "Java for Spark ended while it started, with exit code 0"


def test_only_the_last_lines_are_shown_without_stack_and_chatter():
    error = failure("""
        echo 'WARNING: Using incubator modules: jdk.incubator.vector'
        for n in 1 2 3 4 5 6 7 8 9 10; do echo "line $n"; done
        echo 'java.lang.Oops: oh'
        printf '\\tat org.apache.Spark.main(Spark.java:1)\\n\\t... 7 more\\n'
        exit 1""")
    assert error.detail == "\n".join([*(f"line {n}" for n in range(2, 11)), "java.lang.Oops: oh"])


def test_a_java_that_never_comes_up_is_killed_with_what_it_started(tmp_path):
    # the shell in between is what spark-submit is to Java
    error = failure(f"sleep 600 & echo $! > {tmp_path}/pid; echo hanging; wait", timeout_s=1.0)
    assert error.problem == "Java for Spark did not come up within 1 s"
    assert error.detail == "hanging"
    assert not is_running(int((tmp_path / "pid").read_text()))


def test_a_java_that_was_killed_points_to_memory():
    error = failure("kill -9 $$")
    assert error.problem == "Java for Spark ended while it started, killed by signal 9"
    assert error.hint.startswith("Something killed it, most likely for want of memory")


@pytest.mark.parametrize(
    ("said", "hint"),
    [
        ("Error: Could not reserve enough space for object heap", "set spark.driver.memory lower"),
        ("Invalid maximum heap size: -Xmx1x", "spark.driver.memory to a size such as 1g"),
        ("java.net.BindException: Cannot assign requested address", "spark.driver.bindAddress"),
        ("org.apache.spark.SparkException: All masters are unresponsive! Giving up.", "master is running"),
        ("java.lang.UnsupportedClassVersionError: org/apache/spark/Main", "JAVA_HOME to Java 17"),
        ("Unrecognized option: -bogus", "spark.driver.extraJavaOptions"),
        ("java.io.IOException: No space left on device", "TMPDIR"),
    ],
)
def test_known_troubles_get_a_hint(said, hint):
    assert hint in failure(f"echo '{said}'; exit 1").hint


def test_an_unknown_trouble_gets_no_hint():
    assert failure("echo what; exit 1").hint is None


def test_options_from_the_environment_are_suspected():
    error = failure("exit 1", environ={"JAVA_TOOL_OPTIONS": "-Xmx1k"})
    assert error.hint == "Try without JAVA_TOOL_OPTIONS in the environment."


def test_a_start_script_that_cannot_run_is_named(tmp_path):
    with pytest.raises(SparkStartError) as caught:
        Jvm([str(tmp_path / "spark-submit")], {}, timeout_s=1.0)
    assert caught.value.problem == "Spark's start script does not run"
    assert caught.value.detail == f"{tmp_path}/spark-submit: No such file or directory."


def test_a_java_that_ignores_its_end_is_killed(monkeypatch):
    monkeypatch.setattr("eddyline.spark.jvm.END_TIMEOUT_S", 0.2)
    jvm = started(UP + "exec sleep 600")
    jvm.end()
    assert jvm.process.returncode == -signal.SIGKILL


def test_a_block_that_takes_too_long_kills_java():
    jvm = started(UP + "exec sleep 600")
    with jvm.killed_after(0.1) as is_late:
        assert jvm.process.wait(60) == -signal.SIGKILL
        assert is_late.is_set()
    assert "killed" not in str(jvm.start_error("too late").hint)  # by us, not for want of memory


@pytest.mark.thorough
def test_output_reaches_stderr_only_once_java_is_up():
    script = UP + "echo chatter; read word; echo later; echo more >&2"
    program = f"""
        import os, time
        from eddyline.spark.jvm import Jvm
        jvm = Jvm(["/bin/sh", "-c", {textwrap.dedent(script)!r}], dict(os.environ), timeout_s=60)
        while not jvm.start_error("?").detail:
            time.sleep(0.01)
        jvm.pass_output_on()
        jvm.process.stdin.write(b"go\\n"); jvm.process.stdin.flush()
        jvm.end()
    """
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=60
    )
    assert (ran.stdout, ran.stderr) == ("", "later\nmore\n")


def test_a_worker_that_spark_lets_go_leaves_no_trace_and_nothing_else_is_kept_back():
    farewell = [
        b"Traceback (most recent call last):\n",
        b'  File "/x/pyspark.zip/pyspark/daemon.py", line 264, in manager\n',
        b'  File "/x/pyspark.zip/pyspark/daemon.py", line 95, in worker\n',
        b"BrokenPipeError: [Errno 32] Broken pipe\n",
    ]
    other = [*farewell[:2], b"ValueError: something else\n"]
    said = [b"before\n", *farewell, *other, farewell[0], *farewell, b"after\n", farewell[0]]
    assert list(without_farewells(said)) == [b"before\n", *other, farewell[0], b"after\n", farewell[0]]
