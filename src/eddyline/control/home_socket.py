"""Commands on a held home: a Unix socket in the home, on which the holder answers.

One JSON object a line, both ways. A request is

    {"protocol": 1, "id": 7, "command": "query_list", "arguments": {"page": 2}}

and is answered, in order, by any number of

    {"id": 7, "progress": ["comparing rules", 3000, 10000]}
    {"id": 7, "item": {…}}                                    of commands that give many, such as tail
    {"id": 7, "idle": true}                                   of those, when nothing came for a while

and then one of

    {"id": 7, "result": …}
    {"id": 7, "error": {"kind": "UnknownNameError", "problem": …, "detail": …, "hint": …, "span": [3, 8], "text": …}}

A client that may connect may do everything, so only the user who runs the engine may: the socket has permissions 0600.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from eddyline.documents import error_from, error_to
from eddyline.errors import ClosedError, EddylineError, HomeError

PROTOCOL = 1
MAX_PATH = 100  # bytes: systems allow 104 or 108 for the path of a socket
MAX_REQUEST = 16 << 20  # bytes
PROGRESS_EVERY_S = 0.2


class CommandTable(Protocol):
    """Commands by name: a document, or an iterator of documents (None: nothing new, are you still there?)."""

    def call(
        self, command: str, arguments: Mapping[str, Any], tell: Callable[[str, int, int], None]
    ) -> Any: ...


class Control:
    """Takes commands for an engine until `close`; a thread for every connection."""

    def __init__(self, path: Path, commands: CommandTable) -> None:
        """Listen at `path`, a socket in the home."""
        self._commands = commands
        self._path = path
        self._connections: set[socket.socket] = set()
        self._guard = threading.Lock()
        self._listener = _listener(self._path)
        self._identity = os.stat(self._path).st_ino
        threading.Thread(target=self._accept, name="eddyline commands", daemon=True).start()

    def close(self) -> None:
        """Take no more commands; those under way are cut off."""
        with self._guard:
            listener, connections = self._listener, list(self._connections)
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        listener.close()
        for connection in connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        with suppress(OSError):
            if os.stat(self._path).st_ino == self._identity:
                self._path.unlink()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:  # closed
                return
            with self._guard:
                self._connections.add(connection)
            threading.Thread(
                target=self._serve, args=(connection,), name="eddyline command", daemon=True
            ).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection, connection.makefile("rb") as requests:
                while line := requests.readline(MAX_REQUEST + 1):
                    self._answer(connection, line)
                    if len(line) > MAX_REQUEST:
                        return
        except OSError:
            return  # the client has disconnected
        finally:
            with self._guard:
                self._connections.discard(connection)

    def _answer(self, connection: socket.socket, line: bytes) -> None:
        number: Any = None

        def send(**body: Any) -> None:
            connection.sendall(json.dumps({"id": number, **body}, ensure_ascii=False).encode() + b"\n")

        reported_at_s = 0.0

        def tell(what: str, done: int, of: int) -> None:  # seldom: the engine's lock may be held
            nonlocal reported_at_s
            if time.monotonic() - reported_at_s >= PROGRESS_EVERY_S:
                reported_at_s = time.monotonic()
                send(progress=[what, done, of])

        try:
            number, command, arguments = _request(line)
            answer = self._commands.call(command, arguments, tell)
            if isinstance(answer, Iterator):
                for item in answer:
                    send(**({"idle": True} if item is None else {"item": item}))
                answer = None
        except EddylineError as error:
            send(error=error_to(error))
        except OSError:
            raise
        except Exception as error:  # a fault of ours must not end the engine; the client gets an error
            problem = f"the engine failed on this command: {type(error).__name__}: {error}"
            send(error=error_to(EddylineError(problem, hint="This is a bug in eddyline.")))
        else:
            send(result=answer)


def _request(line: bytes) -> tuple[Any, str, Mapping[str, Any]]:
    if len(line) > MAX_REQUEST:
        raise EddylineError(f"a command of more than {MAX_REQUEST} bytes is not taken")
    try:
        body = json.loads(line)
    except ValueError as error:
        raise EddylineError("the command is not JSON", detail=str(error)) from None
    if not isinstance(body, dict) or body.get("protocol") != PROTOCOL:
        spoken = body.get("protocol") if isinstance(body, dict) else None
        raise EddylineError(
            f"the engine has protocol {PROTOCOL}, the command {spoken}",
            hint="Use the same version of eddyline for both.",
        )
    command, arguments = body.get("command"), body.get("arguments", {})
    if not isinstance(command, str) or not isinstance(arguments, dict):
        raise EddylineError("the command needs a name and arguments")
    return body.get("id"), command, arguments


def _listener(path: Path) -> socket.socket:
    """A socket that listens at a path. This process holds the home, so one that is there was left by a killed holder."""
    with suppress(FileNotFoundError):
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise HomeError(
                f"{path} is not a socket",
                detail="Its name is needed for taking commands.",
                hint="Move it out of the home.",
            )
        path.unlink()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with short_path(path) as short:
            listener.bind(str(short))
        os.chmod(path, 0o600)  # no client can connect before listen()
        listener.listen(16)
    except OSError as error:
        listener.close()
        raise HomeError(
            f"cannot take commands at {path}",
            detail=str(error),
            hint="Put the home on a local disk: some shared disks have no sockets.",
        ) from error
    return listener


@contextmanager
def short_path(path: Path) -> Iterator[Path]:
    """A path to the same file that is short enough for a socket: through a link in the folder for temporary files."""
    if len(os.fsencode(path)) <= MAX_PATH:
        yield path
        return
    folder = Path(tempfile.mkdtemp(prefix="eddyline-"))
    try:
        link = folder / "h"
        link.symlink_to(path.parent.resolve(), target_is_directory=True)
        short = link / path.name
        if len(os.fsencode(short)) > MAX_PATH:
            raise HomeError(
                f"the path of the socket {path} is too long",
                detail=f"It has {len(os.fsencode(path))} bytes, and so has the folder for temporary files {folder.parent}.",
                hint="Set TMPDIR to a folder with a short path, such as /tmp.",
            )
        yield short
    finally:
        shutil.rmtree(folder, ignore_errors=True)


# --------------------------------------------------------------------------------------------- the other end


class Remote:
    """The commands of an engine that another process holds. Like `Commands`, and its errors are the same."""

    def __init__(self, home: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        path = home / "socket"
        try:
            with short_path(path) as short:
                self._socket.connect(str(short))
        except OSError as error:
            self._socket.close()
            raise HomeError(
                f"the process that holds {home} does not accept commands",
                detail=str(error),
                hint="Let it call engine.listen(), or end it first.",
            ) from error
        self._answers = self._socket.makefile("rb")
        self._last = 0

    def call(self, command: str, arguments: Mapping[str, Any], tell: Callable[[str, int, int], None]) -> Any:
        """The answer to a command; an iterator for those that give many. Raises what the command raised there."""
        self._last += 1
        request = {"protocol": PROTOCOL, "id": self._last, "command": command, "arguments": dict(arguments)}
        try:
            self._socket.sendall(json.dumps(request).encode() + b"\n")
        except OSError as error:
            raise _closed_error(error) from error
        answers = self._read(tell)
        first = next(answers)
        if "result" in first:
            return first["result"]
        return self._items(first, answers)

    def _items(
        self, first: dict[str, Any], answers: Iterator[dict[str, Any]]
    ) -> Iterator[dict[str, Any] | None]:
        answer = first
        while "result" not in answer:
            yield answer.get("item")
            answer = next(answers)

    def _read(self, tell: Callable[[str, int, int], None]) -> Iterator[dict[str, Any]]:
        while True:
            try:
                line = self._answers.readline()
            except OSError as error:
                raise _closed_error(error) from error
            if not line.endswith(b"\n"):
                raise _closed_error(None)
            answer = json.loads(line)
            if "error" in answer:
                raise error_from(answer["error"])
            if "progress" in answer:
                tell(*answer["progress"])
                continue
            yield answer

    def close(self) -> None:
        self._answers.close()
        self._socket.close()


def _closed_error(error: OSError | None) -> ClosedError:
    return ClosedError(
        "the engine ended before it answered",
        detail=None if error is None else str(error),
        hint="Run the command again: it then opens the home itself.",
    )


# --------------------------------------------------------------------------------------------- errors
