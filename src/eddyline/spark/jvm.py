"""The Java process below a Spark session: up within a bounded time or a clear error, its output kept, ended for certain.

PySpark starts this process too, but waits for it without a limit, leaves what it says to the terminal, and keeps it until Python
ends. Here it is Spark's own start script with the same contract: Java writes its port and a secret to a file that only this user
can read, and ends when its standard input does, so also when Python is killed.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import struct
import subprocess
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from eddyline.errors import EddylineError
from eddyline.spark.java import OPTION_VARIABLES

KEPT_LINES = 200
SHOWN_LINES = 10
END_TIMEOUT_S = 15.0  # a session ends in about one second; then it is killed
_LOOK_EVERY_S = 0.05

# What Java or Spark says when it cannot start, and what to do about it; the first that is found counts.
_REMEDIES = (
    (
        r"Could not reserve enough space|Cannot allocate memory|insufficient memory|OutOfMemoryError",
        "Java found too little memory: free some, or set spark.driver.memory lower (it is 1g unless you set it).",
    ),
    (
        r"(?i)maximum heap size|initial heap size|must be at least \d+\. Please increase heap size",
        "Set spark.driver.memory to a size such as 1g.",
    ),
    (
        r"BindException|[Cc]annot assign requested address|UnknownHostException|failed after \d+ retries",
        "Spark could not open a port. Set spark.driver.bindAddress and spark.driver.host to an address of this machine, "
        "and see whether spark.driver.port is taken or SPARK_LOCAL_IP is wrong.",
    ),
    (
        r"All masters are unresponsive|Failed to connect to|Master removed our application|Could not parse Master URL",
        "See whether the master is running and its address is right, for example spark://host:7077.",
    ),
    (
        r"UnsupportedClassVersionError",
        "This Java is too old for this Spark: set JAVA_HOME to Java 17 or newer.",
    ),
    (
        r"Unrecognized (?:VM )?option|Could not create the Java Virtual Machine|Invalid \S+ size",
        "See spark.driver.extraJavaOptions and spark.driver.memory.",
    ),
    (r"No space left on device", "The disk of the temporary folder is full: make room, or set TMPDIR to another."),
)  # fmt: skip


_FAREWELL = tuple(
    re.compile(pattern)
    for pattern in (
        rb"Traceback \(most recent call last\):",
        rb'\s+File ".*pyspark/daemon\.py", line \d+, in manager',
        rb'\s+File ".*pyspark/daemon\.py", line \d+, in worker',
        rb"BrokenPipeError: ",
    )
)


class SparkStartError(EddylineError):
    """Spark cannot be started here."""


class JavaEndedError(SparkStartError):
    """Java ended by itself before it was up."""


class Jvm:
    """A running Java process with its gateway open at `port`, for clients that know `secret`."""

    def __init__(self, command: Sequence[str], environ: Mapping[str, str], *, timeout_s: float) -> None:
        self._environ = environ
        self._lines: deque[str] = deque(maxlen=KEPT_LINES)
        self._passes_on = False
        self._was_killed = False
        folder = tempfile.mkdtemp(prefix="eddyline-jvm-")  # no other user may read it
        try:
            where = Path(folder) / "gateway"
            self.process = self._launch(command, {**environ, "_PYSPARK_DRIVER_CONN_INFO_PATH": str(where)})
            self._reader = threading.Thread(target=self._read, name="eddyline-jvm-output", daemon=True)
            self._reader.start()
            try:
                self.port, self.secret = self._address(where, timeout_s)
            except BaseException:
                self.kill()
                raise
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def pass_output_on(self) -> None:
        """From now on what Java says goes to stderr as well: up to here it was chatter about starting."""
        self._passes_on = True

    def start_error(
        self, problem: str, *, cause: str = "", kind: type[SparkStartError] = SparkStartError
    ) -> SparkStartError:
        """The error for a start that failed, with the last that Java said, and a hint where it is understood."""
        if self.process.poll() is not None:
            self._reader.join(1.0)  # so that its last words are there
        output_lines = [*self._lines, cause]
        return kind(
            problem, detail=_last_lines(output_lines) or None, hint=self._remedy("\n".join(output_lines))
        )

    @contextlib.contextmanager
    def killed_after(self, limit_s: float) -> Iterator[threading.Event]:
        """Java is killed, and the event set, if the block takes longer: a caller that waits for an answer then gets an error."""
        is_late = threading.Event()
        watch = threading.Timer(limit_s, self._kill_late, [is_late])
        watch.daemon = True
        watch.start()
        try:
            yield is_late
        finally:
            watch.cancel()

    def end(self) -> None:
        """Let Java end by itself, which takes half a second, and kill it if it does not."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            self.process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
        self._close()

    def kill(self) -> None:
        """End Java now, and the script that may still be starting it."""
        self._was_killed = self._was_killed or self.process.poll() is None
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._close()

    def _kill_late(self, is_late: threading.Event) -> None:
        is_late.set()
        self.kill()

    @staticmethod
    def _launch(command: Sequence[str], environ: Mapping[str, str]) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                command,
                env=dict(environ),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,  # stdout is for results
                process_group=0,  # a Ctrl-C in the terminal is for Python, which then ends Java in good order
            )
        except OSError as error:
            raise SparkStartError(
                "Spark's start script does not run",
                detail=f"{command[0]}: {error.strerror or error}.",
                hint="Install PySpark again, or unset SPARK_HOME if it is set.",
            ) from error

    def _address(self, where: Path, timeout_s: float) -> tuple[int, str]:
        """Port and secret, once Java has written them; it does so in one step."""
        until = time.monotonic() + timeout_s
        while not where.is_file():
            code = self.process.poll()
            if code is not None:
                raise self.start_error(
                    f"Java for Spark ended while it started, {_end_text(code)}", kind=JavaEndedError
                )
            if time.monotonic() > until:
                raise self.start_error(f"Java for Spark did not come up within {timeout_s:g} s")
            time.sleep(_LOOK_EVERY_S)
        data = where.read_bytes()
        port, length = struct.unpack_from(">ii", data)
        return port, data[8 : 8 + length].decode()

    def _remedy(self, output: str) -> str | None:
        if self.process.returncode == -signal.SIGKILL and not self._was_killed:
            return "Something killed it, most likely for want of memory: free some, or raise the limit of the container."
        remedies = [remedy for pattern, remedy in _REMEDIES if re.search(pattern, output)][:1]
        if option_variables := [
            name for name in (*OPTION_VARIABLES, "SPARK_SUBMIT_OPTS") if self._environ.get(name)
        ]:
            remedies.append(f"Try without {' and '.join(option_variables)} in the environment.")
        return " ".join(remedies) or None

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in without_farewells(self.process.stdout):
            self._lines.append(line.decode("utf-8", "replace").rstrip())
            if self._passes_on:
                with contextlib.suppress(OSError):  # a closed stderr; Java must not stop for that
                    os.write(2, line)  # not sys.stderr: its lock may be held for good when Python ends

    def _close(self) -> None:
        self._reader.join(1.0)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        if not self._reader.is_alive():
            self.process.stdout.close()


def without_farewells(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Leave out the trace of a Python worker whose socket Spark closed, which it does after a minute without work."""
    held: list[bytes] = []
    for line in lines:
        if not _FAREWELL[len(held)].match(line):
            yield from held
            held = []
        if _FAREWELL[len(held)].match(line):
            held.append(line)
            if len(held) == len(_FAREWELL):
                held = []
        else:
            yield line
    yield from held


def _end_text(code: int) -> str:
    if code < 0:
        return f"killed by signal {-code}"
    return f"with exit code {code}"


def _last_lines(output: Sequence[str]) -> str:
    """The last lines that say something: no lines of a stack, no remarks about the start itself."""
    noise = re.compile(
        r"\s*at \S+\(|\s*\.\.\. \d+ more|WARNING: Using incubator|Setting default log|To adjust logging|\s*$"
    )
    return "\n".join([line for line in output if not noise.match(line)][-SHOWN_LINES:])
