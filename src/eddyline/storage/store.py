"""The store: a folder of immutable files, shared with workers.

A file gets a new name, is written once, flushed to the disk together with its folder, and never renamed or overwritten. What is
not listed in the catalog does not exist: such files are cleared when the home is opened, before it writes any of its own.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import uuid
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from eddyline.errors import StoreError

_NAME = re.compile(
    r"[a-z]+/[0-9]{8}-[0-9a-f]{32}\.[a-z]+"
)  # ours; what else lies in the folder is left alone


_flushed: set[Path] = set()  # folders of the store that this process knows to be on the disk


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file of the store: its name below the folder, its size and its checksum."""

    name: str
    nbytes: int
    checksum: int


class Store:
    """Files below one folder. `epoch` is part of every new name."""

    def __init__(self, folder: Path, epoch: int) -> None:
        self.folder = folder
        self.epoch = epoch

    def put(self, kind: str, write: Callable[[BinaryIO], None], *, suffix: str = "arrow") -> StoredFile:
        """Write a new file of a kind, such as "outbox", and flush it. Raises StoreError; then nothing is left."""
        new = self.create(kind, suffix=suffix)
        try:
            write(new)  # type: ignore[arg-type]
            return new.finish()
        except BaseException as error:
            new.discard()
            if isinstance(error, OSError):
                raise _cannot_write(self.folder, error) from error
            raise

    def create(self, kind: str, *, suffix: str = "arrow") -> NewFile:
        """A new file to be written piece by piece. Raises StoreError."""
        name = f"{kind}/{self.epoch:08d}-{uuid.uuid4().hex}.{suffix}"
        try:
            return NewFile(self.folder, name)
        except OSError as error:
            raise _cannot_write(self.folder, error) from error

    def read(self, file: StoredFile, *, is_new: bool = False) -> pa.Buffer:
        """The bytes of a file, mapped, not copied. Raises StoreError if it is gone or is not what was written.

        Of a new file, one that was written just now, only the size is looked at: a file that is not read need not come here.
        """
        path = self.folder / file.name
        try:
            with pa.memory_map(str(path)) as mapped:
                buffer = mapped.read_buffer()
        except (OSError, pa.ArrowInvalid) as error:
            raise StoreError(
                f"file {file.name} of the store cannot be read",
                detail=str(error),
                hint="Restore it from a backup.",
            ) from error
        if buffer.size != file.nbytes or (not is_new and zlib.crc32(buffer) != file.checksum):
            raise StoreError(
                f"file {file.name} of the store is damaged",
                detail=f"It has {buffer.size} bytes, {file.nbytes} were written, and its checksum must agree.",
                hint="Restore it from a backup, or leave it out with eddyline doctor --forget-damaged.",
            )
        return buffer

    def names(self) -> Iterator[str]:
        """All files of the store there are, listed or not."""
        if self.folder.is_dir():
            for path in sorted(self.folder.glob("*/*")):
                name = path.relative_to(self.folder).as_posix()
                if _NAME.fullmatch(name):
                    yield name

    def remove(self, names: Iterable[str]) -> int:
        """Remove files; those gone already do not count."""
        n = 0
        for name in names:
            try:
                (self.folder / name).unlink()
                n += 1
            except FileNotFoundError:
                continue
            except OSError as error:
                raise _cannot_write(self.folder, error) from error
        return n

    def clear_unlisted(self, listed: set[str]) -> int:
        """Remove what no round lists: what processes of earlier epochs had written for one that did not commit.

        Names of later epochs are left alone: the process that wrote them holds the home now, and this one does not.
        """
        return self.remove(
            [name for name in self.names() if name not in listed and _epoch(name) < self.epoch]
        )


class NewFile:
    """A file of the store while it is written: it is there once `finish` has come back. Looks like a file to Arrow.

    Writing and flushing raise StoreError.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._path = folder / name
        _make_kind(self._path.parent)
        self._file = open(self._path, "xb")  # noqa: SIM115, it outlives this call
        self.name = name
        self.nbytes = 0
        self.checksum = 0
        self.closed = False

    def finish(self) -> StoredFile:
        """Flush the file to the disk, with its folder. Raises StoreError; then nothing is left."""
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            sync_folder(self._path.parent)
        except OSError as error:
            self.discard()
            raise _cannot_write(self._folder, error) from error
        return StoredFile(self.name, self.nbytes, self.checksum)

    def discard(self) -> None:
        """Leave nothing. What cannot be removed now is cleared at the next opening."""
        with contextlib.suppress(OSError):
            self._file.close()
        with contextlib.suppress(OSError):
            self._path.unlink()

    def write(self, data: bytes) -> int:
        self.nbytes += memoryview(data).nbytes
        self.checksum = zlib.crc32(data, self.checksum)
        try:
            return self._file.write(data)
        except OSError as error:
            raise _cannot_write(self._folder, error) from error

    def flush(self) -> None:
        self._file.flush()

    def tell(self) -> int:
        return self.nbytes

    def writable(self) -> bool:
        return True

    def close(self) -> None:
        """Arrow closes what it wrote to; the file is closed by the store, after it is on the disk."""


def _make_kind(folder: Path) -> None:
    """The folder of a kind, on the disk: the process that made it may have died before it was flushed."""
    if not folder.is_dir():
        make_folder(folder)
    elif folder not in _flushed:
        sync_folder(folder.parent)
    _flushed.add(folder)


def _epoch(name: str) -> int:
    return int(name.partition("/")[2][:8])


def make_folder(folder: Path) -> None:
    """Make a folder, with those above it, so that a power cut does not take it away again."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Flush the names in a folder to the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _cannot_write(folder: Path, error: OSError) -> StoreError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        hint = "Make room on the disk and push again: the round has not happened."
    elif error.errno in (errno.EACCES, errno.EROFS, errno.EPERM):
        hint = "Give the user who runs the engine the right to write there, and push again: the round has not happened."
    else:
        hint = "The round has not happened; push again when this is mended."
    return StoreError(f"cannot write to the store in {folder}", detail=str(error), hint=hint)
