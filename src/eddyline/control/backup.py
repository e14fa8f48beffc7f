"""A home as one file, taken while rounds go on, and a home made of it again.

    backup.tar          or .tar.gz
      catalog.db        the catalog at one moment: streams, queries, tokens, rounds, positions, alerts, cursors
      store/…           exactly the files it lists: results, dead letters, rows as they came
      manifest.json     the name, size and SHA-256 of each of them; last, so that a file cut short has none

What is not listed has not happened, so it is not in a backup. Listed files never change, and are pinned until they are copied.
A file the home itself can no longer read is left out and named; the catalog still lists it, as it does in the home.

A home appears only after everything was unpacked beside it and compared with the manifest and with its catalog.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
import shutil
import tarfile
import tempfile
import time
import uuid
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, cast

import pyarrow as pa

from eddyline.catalog import Snapshot, copy_catalog, verified_snapshot
from eddyline.documents import Tell
from eddyline.engine import OpenEngine
from eddyline.errors import BackupError, ClosedError, HomeError, StoreError
from eddyline.model import iso_time
from eddyline.storage import Home, Store, StoredFile, make_folder, sync_folder
from eddyline.version import VERSION

LAYOUT = 1  # of the tar
CATALOG, MANIFEST = "catalog.db", "manifest.json"
CHUNK = 1 << 20
MOST_MANIFEST_BYTES = 1 << 30
_STORED = re.compile(r"store/[a-z]+/[0-9]{8}-[0-9a-f]{32}\.[a-z]+")


@dataclass(frozen=True, slots=True)
class Backup:
    """What a backup holds. `left_out` has files of the home that were damaged or gone already, and why."""

    file: str
    nbytes: int
    at: str
    eddyline: str
    format: int
    version: int
    last_round: int
    n_rounds: int
    n_files: int
    file_bytes: int
    left_out: Mapping[str, str]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def _quiet(what: str, done: int, of: int) -> None:
    """Progress that the caller does not want."""


# --------------------------------------------------------------------------------------------- writing


def backup_of(engine: OpenEngine, file: Path, tell: Tell | None = None) -> Backup:
    """Write the home of an open engine to a new file; rounds go on meanwhile. Raises BackupError, HomeError."""
    rounds = engine.rounds
    with rounds.lock:
        rounds.check_open()
        durable = rounds.durable
        if durable is None:
            raise HomeError(
                "an engine in memory has nothing to back up",
                hint="Open it with a home: eddyline.open('folder').",
            )
        durable.pin()

    def check() -> None:
        """Raise if the engine was closed: from then on the files are not pinned, and another process may remove them."""
        with rounds.lock:
            if rounds.is_closed or durable.database.number("epoch") != durable.epoch:
                raise ClosedError("the engine was closed before the backup was written", hint="Take another.")

    try:
        return _written(durable.home.folder, file, tell or _quiet, check)
    finally:
        with rounds.lock:
            if not rounds.is_closed:
                durable.unpin()


def backup_of_folder(home: Path, file: Path, tell: Tell | None = None) -> Backup:
    """Write a home that no process holds to a new file, as it is: it is not opened, and stays in the format it has."""
    if not (home / CATALOG).exists():
        raise HomeError(f"there is no home at {home}", hint="Name the folder that holds catalog.db.")
    held = Home(home)
    try:
        return _written(home, file, tell or _quiet, lambda: None)
    finally:
        held.release()


def _written(home: Path, file: Path, tell: Tell, check: Callable[[], None]) -> Backup:
    file = Path(os.path.abspath(file))
    if file.exists():
        raise BackupError(f"{file} already exists", hint="Name a new file: a backup replaces nothing.")
    mode = _mode(file)
    try:
        with _beside(file, "partial") as folder:
            snapshot = copy_catalog(home / CATALOG, folder / CATALOG, tell)
            verified_snapshot(folder / CATALOG)
            whole = folder / "backup"
            with tarfile.open(whole, mode, format=tarfile.PAX_FORMAT) as tar:
                manifest = _packed(tar, folder / CATALOG, Store(home / "store", 0), snapshot, tell)
            check()
            os.chmod(whole, 0o600)  # it has the queries and results of all owners
            _sync(whole)
            os.rename(whole, file)
            sync_folder(file.parent)
    except OSError as error:
        raise BackupError(
            f"cannot write the backup {file}",
            detail=str(error),
            hint="Free some space, or name a file in a writable folder. The home was not changed.",
        ) from error
    return _backup(file, manifest)


def _packed(
    tar: tarfile.TarFile, catalog: Path, store: Store, snapshot: Snapshot, tell: Tell
) -> dict[str, Any]:
    """Put the catalog, its files and the manifest into the tar; returns the manifest."""
    at_s = int(time.time())
    with open(catalog, "rb") as copy:
        digest = hashlib.file_digest(copy, "sha256").hexdigest()
        copy.seek(0)
        nbytes = catalog.stat().st_size
        tar.addfile(_member(CATALOG, nbytes, at_s), copy)
    files = [{"name": CATALOG, "nbytes": nbytes, "sha256": digest}]
    left_out: dict[str, str] = {}
    for n, listed in enumerate(snapshot.files):
        tell("copying files", n, len(snapshot.files))
        try:
            buffer = store.read(StoredFile(listed.name, listed.nbytes, listed.checksum))
        except StoreError as error:
            left_out[listed.name] = error.problem
            continue
        name = f"store/{listed.name}"
        tar.addfile(_member(name, listed.nbytes, at_s), cast("IO[bytes]", pa.BufferReader(buffer)))
        files.append({"name": name, "nbytes": listed.nbytes, "sha256": hashlib.sha256(buffer).hexdigest()})
    manifest = {
        "what": "eddyline backup",
        "layout": LAYOUT,
        "eddyline": VERSION,
        "at": iso_time(at_s * 1_000_000),
        "format": snapshot.format,
        "version": snapshot.version,
        "last_round": snapshot.last_round,
        "n_rounds": snapshot.n_rounds,
        "left_out": left_out,
        "files": files,
    }
    body = json.dumps(manifest, ensure_ascii=False, indent=1).encode()
    tar.addfile(_member(MANIFEST, len(body), at_s), io.BytesIO(body))
    return manifest


def _member(name: str, nbytes: int, at_s: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size, member.mtime, member.mode = nbytes, at_s, 0o600
    return member


def _mode(file: Path) -> Any:
    if file.name.endswith((".tar.gz", ".tgz")):
        return "w:gz"
    if file.suffix == ".tar":
        return "w"
    raise BackupError(
        f"{file.name} has no known ending",
        hint="Name it .tar, or .tar.gz to have it compressed.",
    )


# --------------------------------------------------------------------------------------------- reading


def verify(file: Path, tell: Tell | None = None) -> Backup:
    """Read a backup to its end and compare everything with its manifest and catalog. Raises BackupError, HomeError."""
    try:
        with tempfile.TemporaryDirectory(prefix="eddyline-") as folder:
            return _unpacked(file, Path(folder), tell or _quiet, keeps_files=False)
    except OSError as error:
        raise _cannot_read(file, error) from error


def restore(file: Path, home: Path, tell: Tell | None = None) -> Backup:
    """Make a home of a backup, all of it or nothing; `home` must not be there. Raises BackupError, HomeError."""
    home = Path(os.path.abspath(home))
    if home.exists() and not (home.is_dir() and not any(home.iterdir())):
        raise HomeError(
            f"{home} already exists",
            detail="A restored home replaces nothing.",
            hint="Name a folder that does not exist; move this one away to replace it.",
        )
    if not file.exists():
        raise BackupError(f"there is no file {file}")
    try:
        make_folder(home.parent)
        with _beside(home, "restoring") as folder:
            found = _unpacked(file, folder, tell or _quiet, keeps_files=True)
            for path in sorted(folder.rglob("*"), reverse=True):
                sync_folder(path) if path.is_dir() else _sync(path)
            sync_folder(folder)
            os.rename(folder, home)
            sync_folder(home.parent)
    except OSError as error:
        raise HomeError(
            f"cannot restore to {home}",
            detail=str(error),
            hint="Make room, or name a folder on a disk that can be written to. There is no home yet.",
        ) from error
    return found


def _unpacked(file: Path, folder: Path, tell: Tell, *, keeps_files: bool) -> Backup:
    """Unpack a backup to a folder and compare everything; without `keeps_files` only the catalog is written."""
    unpacking = _Unpacking(file, folder, keeps_files)
    try:
        with open(file, "rb") as source, tarfile.open(fileobj=source, mode="r|*") as tar:
            for member in tar:
                tell("reading the backup", source.tell(), file.stat().st_size)
                unpacking.take(tar, member)
    except (tarfile.TarError, zlib.error, EOFError) as error:
        raise _damaged(file, str(error) or type(error).__name__) from error
    manifest = unpacking.checked()
    _compare(file, manifest, verified_snapshot(folder / CATALOG))
    return _backup(file, manifest)


class _Unpacking:
    """The members of a tar, one after the other: only names that a backup has, only plain files, each once."""

    def __init__(self, file: Path, folder: Path, keeps_files: bool) -> None:
        self._file = file
        self._folder = folder
        self._keeps_files = keeps_files
        self._found: dict[str, tuple[int, str]] = {}
        self._manifest: bytes | None = None

    def take(self, tar: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        name = member.name
        is_known = name in (CATALOG, MANIFEST) or _STORED.fullmatch(name) is not None
        is_plain = member.isreg() and not member.issparse()
        if not is_plain or not is_known or name in self._found or self._manifest is not None:
            raise _damaged(self._file, f"it has an entry {name!r}, which does not belong there")
        source = tar.extractfile(member)
        assert source is not None, name
        if name == MANIFEST:
            if member.size > MOST_MANIFEST_BYTES:
                raise _damaged(self._file, "its manifest is too long")
            self._manifest = source.read()
            return
        digest, nbytes = hashlib.sha256(), 0
        with self._open(name) as target:
            while chunk := source.read(CHUNK):
                digest.update(chunk)
                nbytes += len(chunk)
                target.write(chunk)
        self._found[name] = nbytes, digest.hexdigest()

    @contextlib.contextmanager
    def _open(self, name: str) -> Iterator[IO[bytes]]:
        if name != CATALOG and not self._keeps_files:
            with open(os.devnull, "wb") as nowhere:
                yield nowhere
            return
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "xb") as file:
            yield file

    def checked(self) -> dict[str, Any]:
        """The manifest, after all that was unpacked turned out to be what it says."""
        if self._manifest is None:
            raise _damaged(self._file, "it has no manifest at its end, so it was cut short or is no backup")
        try:
            manifest = json.loads(self._manifest)
            layout = manifest["layout"] if manifest["what"] == "eddyline backup" else None
            listed = {entry["name"]: (entry["nbytes"], entry["sha256"]) for entry in manifest["files"]}
        except (ValueError, KeyError, TypeError) as error:
            raise _damaged(self._file, f"its manifest cannot be read: {error!r}") from None
        if layout != LAYOUT:
            raise BackupError(
                f"{self._file} has an unknown layout",
                detail=f"It has layout {layout}, this version reads layout {LAYOUT}.",
                hint="Use the version of eddyline that wrote it, or a later one.",
            )
        wrong = sorted(
            name for name in listed.keys() | self._found.keys() if listed.get(name) != self._found.get(name)
        )
        if wrong or CATALOG not in listed:
            named = ", ".join(wrong[:3]) + (f" and {len(wrong) - 3} more" if len(wrong) > 3 else "")
            raise _damaged(self._file, f"checksum does not match: {named or CATALOG}")
        return dict(manifest)


def _compare(file: Path, manifest: Mapping[str, Any], snapshot: Snapshot) -> None:
    """Whether the catalog lists exactly the files that are there."""
    listed = {f"store/{entry.name}": entry.nbytes for entry in snapshot.files}
    there = {entry["name"]: entry["nbytes"] for entry in manifest["files"] if entry["name"] != CATALOG}
    missing = listed.keys() - there.keys() - {f"store/{name}" for name in manifest["left_out"]}
    if missing or any(listed.get(name) != nbytes for name, nbytes in there.items()):
        raise _damaged(file, "its catalog lists other files than it holds")


def _backup(file: Path, manifest: Mapping[str, Any]) -> Backup:
    stored = [entry["nbytes"] for entry in manifest["files"] if entry["name"] != CATALOG]
    return Backup(
        file=str(file),
        nbytes=file.stat().st_size,
        at=manifest["at"],
        eddyline=manifest["eddyline"],
        format=manifest["format"],
        version=manifest["version"],
        last_round=manifest["last_round"],
        n_rounds=manifest["n_rounds"],
        n_files=len(stored),
        file_bytes=sum(stored),
        left_out=manifest["left_out"],
    )


def _damaged(file: Path, why: str) -> BackupError:
    return BackupError(
        f"{file} is damaged, or is not a backup",
        detail=f"{why[:1].upper()}{why[1:]}.",
        hint="Take another backup.",
    )


def _cannot_read(file: Path, error: OSError) -> BackupError:
    return BackupError(f"cannot read {file}", detail=str(error))


# --------------------------------------------------------------------------------------------- folders


@contextlib.contextmanager
def _beside(path: Path, what: str) -> Iterator[Path]:
    """A folder of one's own beside a file, on the same disk, gone afterwards whatever happens. A kill leaves it behind."""
    folder = path.absolute().parent / f".{path.name}.{what}-{uuid.uuid4().hex[:8]}"
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _sync(file: Path) -> None:
    with open(file, "rb") as opened:
        os.fsync(opened.fileno())
