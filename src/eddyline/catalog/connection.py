"""A connection to the catalog's file, whose errors name the file and say what to do."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any, Self

from eddyline.errors import HomeError

BUSY_S = 10.0
LONGEST_PATH = 490  # bytes; SQLite takes 512, with what it appends to the name

_ERRORS = (sqlite3.Error, UnicodeDecodeError)  # the latter: of a text, or of what SQLite says of one


class _Cursor(sqlite3.Cursor):
    """One that says so if the file turns out to be damaged while it is read."""

    def execute(self, *arguments: Any) -> Self:
        try:
            return super().execute(*arguments)
        except _ERRORS as error:
            raise self._named_error(error) from error

    def fetchone(self) -> Any:
        try:
            return super().fetchone()
        except _ERRORS as error:
            raise self._named_error(error) from error

    def fetchall(self) -> list[Any]:
        try:
            return super().fetchall()
        except _ERRORS as error:
            raise self._named_error(error) from error

    def __next__(self) -> Any:
        try:
            return super().__next__()
        except _ERRORS as error:
            raise self._named_error(error) from error

    def _named_error(self, error: Exception) -> Exception:
        """A damaged file by name; any other error as it is."""
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        is_text = isinstance(error, UnicodeDecodeError) or "Could not decode" in str(error)
        if is_text or code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            return cannot_open(self.connection.path, error)  # type: ignore[attr-defined]
        return error


class CatalogConnection(sqlite3.Connection):
    """One whose cursors say so if the file turns out to be damaged while it is read."""

    path: Path  # of the file

    def execute(self, *arguments: Any) -> sqlite3.Cursor:
        return self.cursor(_Cursor).execute(*arguments)


def connect(path: Path) -> CatalogConnection:
    """Open the file, or make it. Raises HomeError."""
    if len(str(path.resolve()).encode()) > LONGEST_PATH:
        raise HomeError(
            "the path of the home is too long",
            detail=f"SQLite opens files whose path has up to {LONGEST_PATH} bytes; {path} has more.",
            hint="Put the home nearer to the root.",
        )
    try:
        connection = sqlite3.connect(
            path, timeout=BUSY_S, isolation_level=None, check_same_thread=False, factory=CatalogConnection
        )
    except sqlite3.Error as error:
        raise cannot_open(path, error) from error
    connection.path = path
    return connection


_NO_RIGHT = "Give the user who runs the engine the right to write there."


def cannot_open(path: Path, error: Exception) -> HomeError:
    text = str(error)
    if "readonly" in text or "unable to open" in text:
        return HomeError(f"cannot open {path} for writing", detail=text, hint=_NO_RIGHT)
    if "full" in text:
        return HomeError(f"cannot open {path}", detail=text, hint="Make room on the disk and open it again.")
    if "locked" in text:
        return HomeError(f"cannot open {path}", detail=text, hint="Close the other program that has it open.")
    return HomeError(f"{path} is damaged, or is not a catalog", detail=text, hint="Restore it from a backup.")


def cannot_write(path: Path, error: sqlite3.Error) -> HomeError:
    text = str(error)
    if "readonly" in text or "unable to open" in text:
        hint = _NO_RIGHT
    elif "full" in text:
        hint = "Make room on the disk and do it again."
    elif "locked" in text:
        hint = "Close the other program that has it open, and do it again."
    else:
        hint = "If it happens again, close the engine and restore the file from a backup."
    return HomeError(f"cannot write to {path}", detail=f"{text}. Nothing was changed.", hint=hint)
