"""Places at which a process can be made to end, as if the power had gone: no cleaning up, no goodbye.

Installed in a process that is going to be killed, around what the engine asks of the system: the steps of the protocol, every
file made, written, flushed or removed, every statement that changes the catalog, before it and after it. The engine's own code
stays as it is.
"""

from __future__ import annotations

import builtins
import os
import signal
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import eddyline
import eddyline.engine.engine_state
import eddyline.storage.store as store_module

Watch = Callable[[str], None]


class Recorder:
    """Notes every place that is passed while it is armed."""

    def __init__(self) -> None:
        self.is_armed = True
        self.passed: list[str] = []

    def __call__(self, place: str) -> None:
        if self.is_armed:
            self.passed.append(place)


class Killer:
    """Ends the process at the nth place it passes while it is armed."""

    def __init__(self, nth: int) -> None:
        self.is_armed = True
        self._left = nth

    def __call__(self, place: str) -> None:
        if self.is_armed:
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


class _Connection:
    """A connection to SQLite that tells of statements that change something."""

    def __init__(self, real: sqlite3.Connection, watch: Watch) -> None:
        self._real = real
        self._watch = watch

    def execute(self, sql: str, *arguments: Any) -> sqlite3.Cursor:
        return self._told(sql, lambda: self._real.execute(sql, *arguments))

    def executemany(self, sql: str, *arguments: Any) -> sqlite3.Cursor:
        return self._told(sql, lambda: self._real.executemany(sql, *arguments))

    def executescript(self, sql: str) -> sqlite3.Cursor:
        return self._told("SCRIPT", lambda: self._real.executescript(sql))

    def _told(self, sql: str, run: Callable[[], sqlite3.Cursor]) -> sqlite3.Cursor:
        words = sql.split(None, 5)
        if words[0] in ("SELECT", "PRAGMA"):
            return run()
        what = " ".join(word for word in words[:5] if word.isupper() or word in _TABLES)
        self._watch(f"sql: before {what}")
        cursor = run()
        self._watch(f"sql: after {what}")
        return cursor

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


_TABLES = {"settings", "versions", "streams", "shapes", "queries", "templates", "ended_members", "rounds",
           "progress", "positions", "files", "cursors", "alerts", "alert_counts", "messages",
           "silences", "withheld"}  # fmt: skip


class _File:
    """A file whose writes reach the system in two halves."""

    def __init__(self, real: Any, kind: str, watch: Watch) -> None:
        self._real = real
        self._kind = kind
        self._watch = watch

    def write(self, data: bytes) -> int:
        view = memoryview(data).cast("B")
        half = len(view) // 2
        self._real.write(view[:half])
        self._real.flush()
        self._watch(f"file: half written {self._kind}")
        self._real.write(view[half:])
        return len(view)

    def __enter__(self) -> _File:
        return self

    def __exit__(self, *error: object) -> None:
        self._real.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def _opened(descriptor: int) -> str:
    """The kind of an open file of the store, or the folder itself."""
    if not Path("/proc/self/fd").exists():
        return "something"
    path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
    return f"folder {path.name}" if path.is_dir() else path.parent.name


def install(watch: Watch) -> None:
    """From now on this process tells `watch` of every place it passes. There is no way back: use it in a process of its own."""
    connect, fsync, unlink = sqlite3.connect, os.fsync, Path.unlink

    def watched_open(path: Path, mode: str) -> _File:
        file = builtins.open(path, mode)  # noqa: SIM115
        watch(f"file: created {path.parent.name}")
        return _File(file, path.parent.name, watch)

    def watched_fsync(descriptor: int) -> None:
        what = _opened(descriptor)
        watch(f"file: before flushing {what}")
        fsync(descriptor)
        watch(f"file: after flushing {what}")

    def watched_unlink(path: Path, missing_ok: bool = False) -> None:
        watch(f"file: before removing {path.parent.name}")
        unlink(path, missing_ok)
        watch(f"file: after removing {path.parent.name}")

    def watched_connect(*arguments: Any, **options: Any) -> Any:
        return _Connection(connect(*arguments, **options), watch)

    store_module.open = watched_open  # type: ignore[attr-defined]
    os.fsync = watched_fsync
    Path.unlink = watched_unlink  # type: ignore[method-assign]
    sqlite3.connect = watched_connect  # type: ignore[assignment]
    eddyline.engine.engine_state._no_step = lambda step: watch(f"step {step}")
