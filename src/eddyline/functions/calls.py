"""One call of a function: over arrays or row by row, in the engine's process or in one of its own.

Run as a script, this file is the process of an isolated function. It loads nothing of eddyline but its types, so that a process
is up as soon as Arrow is loaded. It is given three files: a socket for what it is asked and answers, a page of memory where it
notes which row it is at, so that this is known also of a process that is gone, and a lifeline, which closes when the engine's
process ends.

A message is a head in JSON and a body, both behind their lengths:

    first     -> (pickled)  which function, its limits, where to import from      <- {"ready": true} or {"failed": why}
    a call    -> {"n_rows": 3}, the arguments as an Arrow stream                   <- {"rows": {"1": why}}, the results
                                                                                   <- {"failed": why}: the call as a whole
"""

from __future__ import annotations

import errno
import fcntl
import importlib
import importlib.util
import json
import mmap
import os
import pickle
import resource
import select
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

if __name__ != "__main__":
    from eddyline.types import array_of
else:  # the same file by itself
    spec = importlib.util.spec_from_file_location("types_alone", Path(__file__).parents[1] / "types.py")
    assert spec is not None
    assert spec.loader is not None
    types_alone = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(types_alone)
    array_of = types_alone.array_of

MESSAGE_LENGTH = 300
_LENGTHS = struct.Struct("<IQ")
_PROGRESS = struct.Struct("<qd?")
PROGRESS_BYTES = mmap.PAGESIZE
READING = -1  # instead of a row: it has not begun
_NAMES_OF_COLUMNS = [str(k) for k in range(256)]


class WrongResult(Exception):
    """The function came back with something unusable."""


# --------------------------------------------------------------------------------------------- calling


def call_with_arrays(
    function: Callable[..., Any], first: tuple[Any, ...], mode: str, columns: Sequence[pa.Array]
) -> Any:
    """What the function returns for whole columns: arrays, or series if its mode is pandas."""
    arguments = [column.to_pandas() for column in columns] if mode == "pandas" else columns
    return function(*first, *arguments)


def call_with_rows(
    function: Callable[..., Any],
    first: tuple[Any, ...],
    name: str,
    columns: Sequence[pa.Array],
    n_rows: int,
    on_row: Callable[[int], None] | None = None,
    is_fatal: Callable[[BaseException], bool] = lambda error: False,
) -> tuple[list[Any], dict[int, str]]:
    """What the function returns for each row, and by row what it raised; `on_row` is called before each."""
    values = [column.to_pylist() for column in columns]
    results: list[Any] = []
    wrong: dict[int, str] = {}
    for at, row in enumerate(zip(*values, strict=True) if values else [()] * n_rows):
        if on_row is not None:
            on_row(at)
        try:
            results.append(function(*first, *row))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # whatever a user's function raises belongs to its row, sys.exit too
            if is_fatal(error):
                raise
            results.append(None)
            wrong[at] = message_of(name, error)
    return results, wrong


def as_array(
    result: Any, returns: pa.DataType, returns_name: str, n_rows: int, *, is_pandas: bool
) -> pa.Array:
    """What a function returned as an array; one that is an array already may still have another type or length."""
    if isinstance(result, pa.ChunkedArray):
        return result.combine_chunks()
    if isinstance(result, pa.Array):
        return result
    if not hasattr(result, "__len__") or isinstance(result, (str, bytes)):
        raise WrongResult(f"returned {type(result).__name__}, expected an array of {n_rows} values")
    try:
        return array_of(result, returns, from_pandas=is_pandas or None)
    except (pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError, ValueError) as error:
        raise WrongResult(f"returned values that are not {returns_name}: {error}") from None


def rows_as_array(
    results: list[Any], wrong: dict[int, str], returns: pa.DataType, returns_name: str, name: str
) -> pa.Array:
    """The values of single rows as an array. Those that do not fit are NULL and come to `wrong`."""
    try:
        return as_array(results, returns, returns_name, len(results), is_pandas=False)
    except WrongResult:
        parts = [pa.array([], returns)]
        for at, result in enumerate(results):
            try:
                parts.append(as_array([result], returns, returns_name, 1, is_pandas=False))
            except WrongResult as error:
                parts.append(pa.nulls(1, returns))
                wrong[at] = message_of(name, error)
        return pa.concat_arrays(parts)


def message_of(name: str, error: BaseException) -> str:
    """What a dead letter says of an error of a function."""
    if isinstance(error, WrongResult):
        return f"function {name} {error}"
    try:
        message = str(error)
    except Exception:  # an exception that cannot even say what it is
        message = ""
    text = f"{type(error).__name__}: {message}" if message else type(error).__name__
    return f"function {name} raised {text[:MESSAGE_LENGTH]}"


# --------------------------------------------------------------------------------------------- talking


def send(connection: socket.socket, head: dict[str, Any], body: Any = b"") -> None:
    """Write one message."""
    encoded = json.dumps(head).encode()
    connection.sendall(_LENGTHS.pack(len(encoded), len(body)) + encoded)
    if len(body):
        connection.sendall(body)


def receive(read: Callable[[int], bytearray]) -> tuple[dict[str, Any], bytearray]:
    """Read one message; `read` gives so many bytes, or raises EOFError."""
    n_head, n_body = _LENGTHS.unpack(read(_LENGTHS.size))
    return json.loads(read(n_head)), read(n_body)


def columns_to_bytes(columns: Sequence[pa.Array]) -> pa.Buffer | bytes:
    """Arrays of one length as an Arrow stream."""
    if not columns:
        return b""
    batch = pa.RecordBatch.from_arrays(list(columns), _NAMES_OF_COLUMNS[: len(columns)])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def columns_from_bytes(body: bytearray) -> list[pa.Array]:
    if not body:
        return []
    columns: list[pa.Array] = pa.ipc.open_stream(pa.py_buffer(body)).read_next_batch().columns
    return columns


class Progress:
    """A page that the process of a function and the engine's both see: which row it is at, since when, and whether it ran out of
    memory."""

    def __init__(self, fd: int) -> None:
        self._page = mmap.mmap(fd, PROGRESS_BYTES)

    def at(self, row: int) -> None:
        _PROGRESS.pack_into(self._page, 0, row, time.monotonic(), False)

    def out_of_memory(self) -> None:
        """Report the row without allocating anything."""
        self._page[_PROGRESS.size - 1] = 1

    def read(self) -> tuple[int, float, bool]:
        row, since, is_out_of_memory = _PROGRESS.unpack_from(self._page, 0)
        return row, since, is_out_of_memory

    def close(self) -> None:
        self._page.close()


# --------------------------------------------------------------------------------------------- the process


def is_out_of_memory(error: BaseException | None) -> bool:
    """Whether an error comes from an allocation that failed, also through another that was raised meanwhile."""
    for _ in range(20):
        if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
            return True
        if error is None:
            return False
        error = error.__cause__ or error.__context__
    return False


class _Process:
    """The process of one function, from the inside."""

    def __init__(self, connection: socket.socket, progress: Progress) -> None:
        self._connection = connection
        self._progress = progress
        self._name = ""
        self._is_limited = False

    def serve(self) -> None:
        """Load the function, then answer calls until the other end closes."""
        hello = pickle.loads(receive(self._read)[1])
        self._name = name = hello["name"]
        try:
            sys.path[:] = hello["path"]
            pa.array(
                [0]
            )  # loads pandas where there is one: neither its time nor its memory is the function's
            function, setup = _loaded(hello)
            if hello["memory_bytes"] is not None:
                _limit_memory(hello["memory_bytes"])
                self._is_limited = True
        except BaseException as error:
            problem = f"{type(error).__name__}: {error}"[:MESSAGE_LENGTH]
            self._answer({"failed": f"function {name} cannot be loaded in a process of its own: {problem}"})
            return
        try:
            first = () if setup is None else (setup(),)
        except BaseException as error:
            self._end_if_out_of_memory(error)
            self._answer({"failed": f"setup of {message_of(name, error)}"})
            return
        self._answer({"ready": True})
        while True:
            try:
                head, body = receive(self._read)
            except EOFError:
                return
            try:
                columns = columns_from_bytes(body)
                answer, values = self._call(function, first, hello, columns, head["n_rows"])
                result_bytes = columns_to_bytes(() if values is None else [values])
            except BaseException as error:  # memory apart, whatever a user's function raises is reported
                self._end_if_out_of_memory(error)
                answer, result_bytes = {"failed": message_of(name, error)}, b""
            self._answer(answer, result_bytes)
            body = columns = values = result_bytes = None  # type: ignore[assignment]  # may be large

    def _call(
        self,
        function: Callable[..., Any],
        first: tuple[Any, ...],
        hello: dict[str, Any],
        columns: list[pa.Array],
        n_rows: int,
    ) -> tuple[dict[str, Any], pa.Array | None]:
        name, mode, returns, returns_name = (
            hello[key] for key in ("name", "mode", "returns", "returns_name")
        )
        if mode == "scalar":
            fatal = is_out_of_memory if self._is_limited else lambda error: False
            results, wrong = call_with_rows(
                function, first, name, columns, n_rows, on_row=self._progress.at, is_fatal=fatal
            )
            self._progress.at(n_rows)  # none of them any more
            values = rows_as_array(results, wrong, returns, returns_name, name)
            return {"rows": {str(at): why for at, why in sorted(wrong.items())}}, values
        self._progress.at(0)
        result = call_with_arrays(function, first, mode, columns)
        return {"rows": {}}, as_array(result, returns, returns_name, n_rows, is_pandas=mode == "pandas")

    def _end_if_out_of_memory(self, error: BaseException) -> None:
        if self._is_limited and is_out_of_memory(error):
            self._progress.out_of_memory()
            os._exit(1)  # what fills the memory stays; a fresh process has none of it

    def _answer(self, head: dict[str, Any], body: Any = b"") -> None:
        self._progress.at(READING)
        send(self._connection, head, body)

    def _read(self, n: int) -> bytearray:
        try:
            found = bytearray(n)
        except MemoryError as error:
            self._end_if_out_of_memory(error)
            raise
        view, at = memoryview(found), 0
        while at < n:
            got = self._connection.recv_into(view[at:])
            if not got:
                raise EOFError
            at += got
        return found


def _loaded(hello: dict[str, Any]) -> tuple[Callable[..., Any], Callable[[], Any] | None]:
    """The function and its setup, from their bytes or from the module that declares them."""
    if hello["pickled"] is not None:
        function, setup = pickle.loads(hello["pickled"])
        return function, setup
    found: Any = importlib.import_module(hello["module"])
    for part in hello["qualname"].split("."):
        found = getattr(found, part)
    if found.version != hello["version"]:
        raise ImportError(f"{hello['module']} declares version {found.version}, asked for {hello['version']}")
    return found.function, found.setup


def _limit_memory(nbytes: int) -> None:
    """Let allocations fail that would need so many bytes more than now.

    RLIMIT_DATA counts what a process may write to, from the moment it asks for it. So an allocation fails at the same place in
    every run, before the machine feels it. Resident memory could only be watched, and address space also counts what is merely
    reserved, which libraries do by the gigabyte.
    """
    with open("/proc/self/status", encoding="ascii") as status:
        used_kb = next(int(line.split()[1]) for line in status if line.startswith("VmData:"))
    limit = used_kb * 1024 + nbytes
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def _end_with(lifeline: int) -> None:
    """End when the lifeline closes, whatever is going on.

    The kernel sends SIGIO then, which ends a process that does not handle it. No thread of ours has to get its turn, so this
    holds also inside a regular expression that never lets go of the interpreter.
    """
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)
    if select.select([lifeline], [], [], 0)[0]:  # it was closed before this process listened
        os._exit(1)


def main(arguments: Sequence[str]) -> None:
    connection, progress, lifeline = map(int, arguments)
    for fd in (connection, progress, lifeline):
        os.set_inheritable(fd, False)  # what the function starts has no part in this
    _end_with(lifeline)
    try:
        _Process(socket.socket(fileno=connection), Progress(progress)).serve()
    except (BrokenPipeError, ConnectionResetError, EOFError):
        return  # no process is left to report to


if __name__ == "__main__":
    main(sys.argv[1:])
