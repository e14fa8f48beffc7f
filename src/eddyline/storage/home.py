"""A home: the local folder that holds everything an engine must not lose, and the lock on it.

home/
  catalog.db    what is registered, rounds, positions (SQLite)
  lock          who holds the home; locked by the system, so a killed holder leaves no lock behind
  socket        where the holder takes commands
  rounds.jsonl  what the last rounds took
  store/        immutable files: captures, outbox, plans
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import socket
import sys
import time
from pathlib import Path
from typing import Any

from eddyline.errors import HomeError
from eddyline.model import iso_time
from eddyline.storage.store import make_folder

TRIES = 20  # while another process only checks whether the home is held
PAUSE_S = 0.01


OWN_NAMES = (
    "catalog.db",
    "catalog.db-wal",
    "catalog.db-shm",
    "lock",
    "socket",
    "rounds.jsonl",
    "query-counts.npz",
    "store",
)
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


def local_folder(home: str | os.PathLike[str]) -> Path:
    """The folder a home is given by. Raises HomeError for an address such as s3://bucket/home."""
    text = os.fspath(home)
    if _ADDRESS.match(text):
        scheme = text.partition(":")[0]
        raise HomeError(
            f"{text!r} is not a local folder, and a home is one",
            detail=f"A home holds a database, a lock and a socket, which {scheme} does not have.",
            hint="Give a folder on a disk of this machine. Copy it elsewhere with eddyline backup, and write results to tables"
            " with append_results (docs/operations.md).",
        )
    return Path(text)


def _refuse_foreign(folder: Path) -> None:
    """A folder with other files in it is probably not meant."""
    names = sorted(os.listdir(folder))
    foreign = [name for name in names if name not in OWN_NAMES and name != "lost+found"]
    if foreign and "catalog.db" not in names:
        raise HomeError(
            f"the folder {folder} is no home, and holds other files",
            detail=f"Such as {', '.join(foreign[:3])}.",
            hint="Name a folder that is empty or does not exist, or say create=True to make a home in this one.",
        )


class Home:
    """A folder held by this process until `release`."""

    def __init__(self, folder: Path, *, create: bool = True) -> None:
        """With `create` a home is also made in a folder that holds other files."""
        self.folder = folder
        try:
            make_folder(folder)
            if not create:
                _refuse_foreign(folder)
            self._lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise _cannot_open(folder, error) from error
        try:
            if not self._take_lock():
                raise HomeError(
                    f"the home {folder} is held by another process",
                    detail=_holder_text(holder_of(folder)),
                    hint="Speak to that process through the command line (it works on a held home), or end it first.",
                )
            os.ftruncate(self._lock, 0)
            os.pwrite(self._lock, json.dumps(_myself()).encode(), 0)
        except BaseException as error:
            os.close(self._lock)
            if isinstance(error, OSError):
                raise _cannot_open(folder, error) from error
            raise

    def _take_lock(self) -> bool:
        for _ in range(TRIES):
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            except BlockingIOError:
                if holder_of(self.folder):  # a holder has written who it is
                    return False
                time.sleep(PAUSE_S)
        return False

    @property
    def catalog(self) -> Path:
        return self.folder / "catalog.db"

    @property
    def store(self) -> Path:
        return self.folder / "store"

    @property
    def socket(self) -> Path:
        return self.folder / "socket"

    def release(self) -> None:
        """Give the home back. The lock file stays: removing it would let two processes lock two files of one name."""
        if self._lock >= 0:
            os.ftruncate(self._lock, 0)
            os.close(self._lock)
            self._lock = -1


def holder_of(folder: Path) -> dict[str, Any] | None:
    """What the process that holds a home says about itself, or None if no process holds it."""
    try:
        lock = os.open(folder / "lock", os.O_RDWR)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return None
    except BlockingIOError:
        text = os.pread(lock, 4096, 0).decode(errors="replace")
        return json.loads(text) if text.startswith("{") and text.rstrip().endswith("}") else {}
    finally:
        os.close(lock)


def _cannot_open(folder: Path, error: OSError) -> HomeError:
    if error.errno in (errno.ENOTDIR, errno.EEXIST):
        return HomeError(
            f"{folder} is not a folder", detail=str(error), hint="Name a folder, or one to be made."
        )
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        hint = "Make room on the disk and open it again."
    elif error.errno == errno.ENAMETOOLONG:
        hint = "Put the home nearer to the root."
    else:
        hint = "Give the user who runs the engine the right to write there."
    return HomeError(f"cannot open the home {folder}", detail=str(error), hint=hint)


def _myself() -> dict[str, Any]:
    return {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "since": iso_time(time.time_ns() // 1000, timespec="seconds"),
        "command": Path(sys.argv[0]).name or "python",
    }


def _holder_text(holder: dict[str, Any] | None) -> str:
    if not holder:
        return "It does not say which."
    return f"Process {holder['pid']} ({holder['command']}) on {holder['host']}, since {holder['since']}."
