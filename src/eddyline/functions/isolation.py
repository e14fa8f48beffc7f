"""A function in a process of its own, with limits of time and memory.

The process is a fresh interpreter (calls.py): it has none of the engine's locks, threads or files. A call goes there as Arrow
data and comes back, or is lost: it took longer than its limit, ended the process, or needed more memory. Then the process is
ended, and the next call has another. It ends with the engine, and when the engine's process dies, in the middle of a call too.

The limit of time is for one call: of all its rows, or of one row if the function is called row by row. The limit of memory is for
what setup makes, arguments and results, and whatever the function keeps; what the interpreter needs and what the function imports
is not counted.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Sequence

import pyarrow as pa

from eddyline.errors import FunctionError
from eddyline.functions import calls
from eddyline.functions.calls import PROGRESS_BYTES, READING, Progress, receive, send
from eddyline.functions.declarations import UserFunction
from eddyline.functions.halving import ANY_NUMBER, CallFailed, CallLost, SetupFailed
from eddyline.functions.sending import FunctionTransport, function_transport
from eddyline.types import type_name

START_LIMIT_S = 600.0  # for starting, loading and setup together: a model may be large
LOOK_EVERY_S = 0.5  # whether the process is still there
GRACE_S = 2.0  # to end by itself

Fitted = Callable[[pa.Array, UserFunction, int], pa.Array]


class IsolatedFunction:
    """A declared function, called in its own process, which is started when it is first needed and again after it was lost."""

    def __init__(self, function: UserFunction, fit: Fitted) -> None:
        """`fitted` gives an array the declared type and checks its length, or raises WrongResult."""
        assert function.timeout_s is not None, function.name
        self.function = function
        self.limits = function.limits
        self.most_rows = ANY_NUMBER
        self.used_at = time.monotonic()
        self._fit = fit
        self._timeout_s = function.timeout_s
        self._transport: FunctionTransport | None = None
        self._process: _Process | None = None
        self._lock = threading.RLock()

    @property
    def pid(self) -> int | None:
        """Of the process, if there is one now."""
        process = self._process
        return None if process is None else process.pid

    def prepare(self) -> None:
        """Start the process and have it set up, if there is none. Raises SetupFailed."""
        with self._lock:
            if self._process is not None and self._process.has_ended():
                self._end()
            if self._process is None:
                try:
                    self._transport = self._transport or function_transport(self.function)
                    self._process = _Process(self.function, self._transport)
                except FunctionError as error:
                    raise SetupFailed(f"{error.problem}: {error.detail}") from None
                except OSError as error:
                    problem = f"{type(error).__name__}: {error}"
                    raise SetupFailed(
                        f"function {self.function.name} cannot have a process of its own: {problem}"
                    ) from None

    def call(self, columns: Sequence[pa.Array], n_rows: int) -> tuple[pa.Array, dict[int, str]]:
        """Call it on these rows."""
        with self._lock:
            if self._process is None:  # another thread may have lost it
                self.prepare()
            assert self._process is not None
            self.used_at = time.monotonic()
            try:
                values, wrong = self._process.call(columns, n_rows, self._timeout_s)
            except (CallLost, OSError):
                self._end()
                raise
            try:
                return self._fit(values, self.function, n_rows), wrong
            except calls.WrongResult as error:
                raise CallFailed(
                    calls.message_of(self.function.name, error) + self.function.hint(error)
                ) from None

    def close(self) -> None:
        """End the process; the next call would start another."""
        with self._lock:
            self._end()

    def _end(self) -> None:
        if self._process is not None:
            self._process.end()
            self._process = None


class _Process:
    """One life of the process of a function."""

    def __init__(self, function: UserFunction, way: FunctionTransport) -> None:
        """Start it and wait until it is ready. Raises SetupFailed, or OSError if there can be no process."""
        self._function = function
        self._n_calls = 0
        with contextlib.ExitStack() as opened:
            ours, theirs = socket.socketpair()
            opened.callback(theirs.close)
            page = opened.enter_context(tempfile.TemporaryFile())
            page.truncate(PROGRESS_BYTES)
            lifeline, ours_alive = os.pipe()
            opened.callback(os.close, lifeline)
            files = [theirs.fileno(), page.fileno(), lifeline]
            self._progress = Progress(page.fileno())
            self._progress.at(READING)
            try:
                self._popen = subprocess.Popen(
                    [sys.executable, "-P", calls.__file__, *map(str, files)],
                    stdin=subprocess.DEVNULL,
                    stdout=2,  # what it prints is no result of ours
                    pass_fds=files,
                    start_new_session=True,  # an interrupt at the terminal is for the engine alone
                    env=os.environ | {"ARROW_DEFAULT_MEMORY_POOL": "system"},  # takes what it needs, not more
                )
            except BaseException:
                ours.close()
                os.close(ours_alive)
                raise
        self._connection = ours
        self.pid = self._popen.pid
        self.end = weakref.finalize(self, _end, self._popen, ours, ours_alive, self._progress, os.getpid())
        try:
            self._start(way)
        except BaseException:
            self.end()
            raise

    def has_ended(self) -> bool:
        """Whether it has ended by itself between two calls."""
        return self._popen.poll() is not None

    def call(
        self, columns: Sequence[pa.Array], n_rows: int, timeout_s: float
    ) -> tuple[pa.Array, dict[int, str]]:
        is_first, self._n_calls = self._n_calls == 0, self._n_calls + 1
        self._progress.at(READING)
        try:
            body = calls.columns_to_bytes(columns)
            self._connection.settimeout(timeout_s)
            send(self._connection, {"n_rows": n_rows}, body)
            head, result_bytes = receive(lambda n: self._read(n, timeout_s))
        except (TimeoutError, EOFError, ConnectionError) as error:
            raise self._call_lost(error, is_first, n_rows) from None
        if "failed" in head:
            raise CallFailed(head["failed"])
        return calls.columns_from_bytes(result_bytes)[0], {int(at): why for at, why in head["rows"].items()}

    def _start(self, way: FunctionTransport) -> None:
        declared = self._function
        hello = {
            "name": declared.name,
            "version": declared.version,
            "mode": declared.mode,
            "returns": declared.returns,
            "returns_name": type_name(declared.returns),
            "memory_bytes": declared.memory_bytes,
            "path": [os.path.abspath(each) for each in sys.path],
            "pickled": way.pickled_function,
            "module": way.module,
            "qualname": way.qualname,
        }
        try:
            self._connection.settimeout(START_LIMIT_S)
            send(self._connection, {}, pickle.dumps(hello))
            head, _ = receive(lambda n: self._read(n, START_LIMIT_S))
        except (TimeoutError, EOFError, ConnectionError) as error:
            what = "setup of function" if declared.setup is not None else "loading function"
            raise SetupFailed(f"{what} {declared.name} {self._what_happened(error, START_LIMIT_S)}") from None
        if "failed" in head:
            raise SetupFailed(head["failed"])

    def _read(self, n: int, limit_s: float) -> bytearray:
        """So many bytes of an answer. Raises TimeoutError when the row it is at has had its time, EOFError when it is gone."""
        found = bytearray(n)
        view, at = memoryview(found), 0
        while at < n:
            _, since, _ = self._progress.read()
            left_s = since + limit_s - time.monotonic()
            if left_s <= 0:
                raise TimeoutError
            self._connection.settimeout(min(left_s, LOOK_EVERY_S))
            try:
                got = self._connection.recv_into(view[at:])
            except TimeoutError:
                if self.has_ended():  # what it started may still hold the socket open
                    raise EOFError from None
                continue
            if not got:
                raise EOFError
            at += got
        return found

    def _call_lost(self, error: Exception, is_first: bool, n_rows: int) -> CallLost:
        is_slow = isinstance(error, TimeoutError)
        assert self._function.timeout_s is not None
        message = f"function {self._function.name} {self._what_happened(error, self._function.timeout_s)}"
        row = self._progress.read()[0]
        is_known = self._function.mode == "scalar" and 0 <= row < n_rows
        return CallLost(message, row=row if is_known else None, is_slow=is_slow, is_first=is_first)

    def _what_happened(self, error: Exception, limit_s: float) -> str:
        """To be read behind the name of the function."""
        if isinstance(error, TimeoutError):
            return f"took longer than {limit_s:g} s"
        try:
            code = self._popen.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            return "closed its connection to the engine"
        if self._progress.read()[2]:
            assert self._function.memory_bytes is not None
            return f"needed more than {size_text(self._function.memory_bytes)} of memory"
        return f"ended its process ({_code_text(code)})"


def _end(
    popen: subprocess.Popen[bytes], connection: socket.socket, lifeline: int, progress: Progress, owner: int
) -> None:
    """End a process and whatever it started, and keep nothing of it."""
    is_owner = os.getpid() == owner  # a process that was forked from the owner has no say in this
    connection.close()
    if is_owner:
        with contextlib.suppress(subprocess.TimeoutExpired):  # it is busy: it is ended below
            popen.wait(GRACE_S if progress.read()[0] == READING else 0)
    os.close(lifeline)
    if is_owner:
        with contextlib.suppress(ProcessLookupError, PermissionError):  # no process of its session is left
            os.killpg(popen.pid, signal.SIGKILL)
        popen.wait()
    progress.close()


def _code_text(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:  # a real-time signal
        return f"signal {-code}"


def size_text(nbytes: int) -> str:
    """500 MB, not 524288000 bytes."""
    for unit, size in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if nbytes >= size:
            return f"{nbytes / size:.4g} {unit}"
    return f"{nbytes} bytes"
