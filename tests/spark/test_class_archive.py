"""The class-data archive is built beside its place, by one process at a time, and only worth a recording of Python tasks."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from eddyline.spark.class_archive import RETRY_FAILED_S, UNUSED_S, ClassArchive, Recording, class_archive


@pytest.fixture
def archive(tmp_path) -> ClassArchive:
    (tmp_path / "cache").mkdir()
    return ClassArchive(tmp_path / "cache" / "spark-4.3.0-key.jsa")


def a_recording(
    archive: ClassArchive, java: Path, body: str = "", *, classes: str = "org/apache/ArrowPythonRunner"
) -> Recording:
    """With a script that dumps like Java, or as `body` says: it writes the list it is given to the file it is given."""
    java.write_text(
        textwrap.dedent("""\
        #!/bin/sh
        for argument do
          case "$argument" in
            -XX:SharedArchiveFile=*) file=${argument#*=} ;;
            -XX:SharedClassListFile=*) list=${argument#*=} ;;
          esac
        done
        """)
        + (body or 'if [ -n "$list" ]; then cat "$list" > "$file"; fi; [ -s "$file" ]')
    )
    java.chmod(0o755)
    archive.class_list().write_text(classes)
    options = ("-Xss8m", f"-XX:DumpLoadedClassList={archive.class_list()}")
    return Recording(str(java), options, "a.jar:b.jar", str(archive.class_list()))


def others(archive: ClassArchive) -> list[str]:
    """What lies beside the archive and its lock."""
    names = {entry.name for entry in archive.path.parent.iterdir()}
    return sorted(names - {archive.path.name, f".{archive.path.name}.lock"})


def test_it_is_built_from_the_list_and_nothing_else_stays(archive, tmp_path):
    assert archive.is_missing
    assert archive.build(a_recording(archive, tmp_path / "java")) is None
    assert archive.path.read_text() == "org/apache/ArrowPythonRunner"
    assert others(archive) == []
    assert not archive.is_missing


def test_java_gets_the_options_of_the_session_but_not_those_of_the_recording(archive, tmp_path):
    recording = a_recording(archive, tmp_path / "java", f'echo "$@" >> {tmp_path}/said; : > "$file"')
    archive.build(recording)
    new = archive.path.with_name(f".{archive.path.name}.{os.getpid()}.new")
    assert (tmp_path / "said").read_text().splitlines() == [
        f"-Xss8m -Xshare:dump -XX:SharedArchiveFile={new} -XX:SharedClassListFile={recording.class_list} "
        "-cp a.jar:b.jar",
        f"-Xss8m -Xshare:on -XX:SharedArchiveFile={new} -XX:+VerifySharedSpaces -cp a.jar:b.jar -version",
    ]


@pytest.mark.parametrize("body", ["echo no memory; exit 1", 'echo x > "$file"; echo no memory; exit 1'])
def test_a_failure_is_remembered_for_a_day(archive, tmp_path, body):
    assert archive.build(a_recording(archive, tmp_path / "java", body)) == "no memory\n"
    assert others(archive) == ["spark-4.3.0-key.failed"]
    assert not archive.is_there
    assert not archive.is_missing
    yesterday = time.time() - RETRY_FAILED_S - 10
    os.utime(archive.path.with_suffix(".failed"), (yesterday, yesterday))
    assert archive.is_missing


def test_an_archive_that_java_refuses_to_map_does_not_get_its_name(archive, tmp_path):
    body = 'if [ -n "$list" ]; then echo half > "$file"; else echo refused; exit 1; fi'
    assert archive.build(a_recording(archive, tmp_path / "java", body)) == "refused\n"
    assert not archive.is_there


def test_one_process_builds_at_a_time(archive, tmp_path):
    recording = a_recording(archive, tmp_path / "java")
    with open(archive.path.with_name(f".{archive.path.name}.lock"), "w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        assert archive.build(recording) is None
        assert not archive.is_there
        assert others(archive) == []  # its list is of no use any more


def test_what_killed_builders_left_is_removed(archive, tmp_path):
    left = [
        f".{archive.path.name}.1.new",
        f".{archive.path.name}.1.classes",
        f".{archive.path.name}.2.classes",
    ]
    for name in left:
        (archive.path.parent / name).write_text("")
    os.utime(archive.path.parent / left[1], (0, 0))  # the other list may belong to a session that runs
    archive.build(a_recording(archive, tmp_path / "java"))
    assert others(archive) == [left[2]]


def test_archives_that_nobody_used_for_a_month_go_when_another_is_built(archive, tmp_path):
    unused, used = (archive.path.with_name(f"spark-4.1.0-{name}.jsa") for name in ("unused", "used"))
    long_ago = time.time() - UNUSED_S - 10
    for other in (unused, used):
        other.write_text("")
        os.utime(other, (long_ago, long_ago))
    ClassArchive(used).use()
    archive.build(a_recording(archive, tmp_path / "java"))
    assert (unused.exists(), used.exists()) == (False, True)


def test_a_session_without_a_python_task_is_not_worth_an_archive(archive, tmp_path):
    recording = a_recording(archive, tmp_path / "java", classes="java/lang/Object")
    assert not archive.build_later(recording)
    assert others(archive) == []


@pytest.mark.thorough
def test_it_is_built_by_a_process_that_outlives_this_one(archive, tmp_path):
    recording = a_recording(archive, tmp_path / "java")
    program = f"""
        from pathlib import Path
        from eddyline.spark.class_archive import *
        assert ClassArchive(Path({str(archive.path)!r})).build_later({recording!r})
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True, timeout=60)
    until = time.monotonic() + 60
    while not archive.is_there and time.monotonic() < until:
        time.sleep(0.02)
    assert archive.path.read_text() == "org/apache/ArrowPythonRunner"


def test_a_folder_that_cannot_be_made_is_no_reason_to_fail(tmp_path):
    (tmp_path / "cache").write_text("a file")
    assert not ClassArchive(tmp_path / "cache" / "spark.jsa").is_missing


@pytest.fixture
def machine(tmp_path):
    """A Java and a Spark, as far as the name of an archive depends on them."""
    for file in ("java/bin/java", "java/release", "spark/jars/a.jar", "spark/jars/b.jar"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text("1")
    return tmp_path


def named(machine: Path, **environ: str) -> Path | None:
    found = class_archive(machine / "java", machine / "spark", "4.3.0", machine / "cache", environ)
    return found and found.path


def test_another_java_spark_or_configuration_has_another_archive(machine):
    seen = {named(machine), named(machine)}
    assert len(seen) == 1
    (machine / "java" / "release").write_text("2")
    seen.add(named(machine))
    (machine / "spark" / "jars" / "a.jar").write_text("longer")
    seen.add(named(machine))
    (machine / "spark" / "jars" / "c.jar").write_text("1")
    seen.add(named(machine))
    (machine / "spark" / "conf").mkdir()
    (machine / "spark" / "conf" / "spark-defaults.conf").write_text("spark.driver.extraClassPath x")
    seen.add(named(machine))
    seen.add(named(machine, HADOOP_CONF_DIR="/etc/hadoop"))
    assert len(seen) == 6
    assert all(path.name.startswith("spark-4.3.0-") for path in seen)


def test_it_can_be_switched_off(machine):
    assert named(machine, EDDYLINE_CLASS_ARCHIVE="off") is None
