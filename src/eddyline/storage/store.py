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
        name = f"{kind}/{self.epoch:08d}-{uuid.uuid4().hex}.{suffix}"
        path = self.folder / name
        try:
            make_folder(path.parent)
            with open(path, "xb") as file:
                counted = _Counted(file)
                write(counted)  # type: ignore[arg-type]
                file.flush()
                os.fsync(file.fileno())
            _sync_folder(path.parent)
        except BaseException as error:
            with contextlib.suppress(OSError):  # what cannot be removed is cleared at the next opening
                path.unlink()
            if isinstance(error, OSError):
                raise _cannot_write(self.folder, error) from error
            raise
        return StoredFile(name, counted.nbytes, counted.checksum)

    def read(self, file: StoredFile) -> pa.Buffer:
        """The bytes of a file, mapped, not copied. Raises StoreError if it is gone or is not what was written."""
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
        if buffer.size != file.nbytes or zlib.crc32(buffer) != file.checksum:
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
        """Remove what no round lists: what an ended process had written for one that did not commit."""
        return self.remove([name for name in self.names() if name not in listed])


class _Counted:
    """Passes bytes on, counting and checking them."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.nbytes = 0
        self.checksum = 0
        self.closed = False

    def write(self, data: bytes) -> int:
        self.nbytes += memoryview(data).nbytes
        self.checksum = zlib.crc32(data, self.checksum)
        return self._file.write(data)

    def flush(self) -> None:
        self._file.flush()

    def tell(self) -> int:
        return self.nbytes

    def writable(self) -> bool:
        return True

    def close(self) -> None:
        """Arrow closes what it wrote to; the file is closed by the store, after it is on the disk."""


def make_folder(folder: Path) -> None:
    """Make a folder, with those above it, so that a power cut does not take it away again."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    _sync_folder(folder.parent)


def _sync_folder(folder: Path) -> None:
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
