from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

import eddyline.storage.store as store_module
from eddyline.errors import StoreError
from eddyline.storage.store import Store, StoredFile


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store", epoch=7)


def put(store: Store, data: bytes = b"twelve bytes", kind: str = "outbox") -> StoredFile:
    return store.put(kind, lambda file: file.write(data))


def test_a_file_gets_a_new_name_of_its_kind_and_epoch_and_is_read_back(store):
    file = put(store)
    assert file.name.startswith("outbox/00000007-")
    assert file.name.endswith(".arrow")
    assert file.nbytes == 12
    assert store.read(file).to_pybytes() == b"twelve bytes"
    assert put(store).name != file.name


def test_what_is_written_in_pieces_is_counted_and_checked_as_one(store):
    def write(file):
        file.write(b"twelve ")
        file.write(b"bytes")

    assert store.put("outbox", write).checksum == put(store).checksum


@pytest.mark.skipif(
    not Path("/proc/self/fd").exists(), reason="the system does not say which file was flushed"
)
def test_a_file_is_flushed_with_its_folder_and_new_folders_with_theirs(store, monkeypatch):
    flushed = []
    real = os.fsync

    def fsync(descriptor):
        flushed.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")))
        real(descriptor)

    monkeypatch.setattr(store_module.os, "fsync", fsync)
    file = put(store)
    assert [path.name for path in flushed] == [
        store.folder.parent.name,  # now has the folder store
        "store",  # now has the folder outbox
        Path(file.name).name,
        "outbox",
    ]
    flushed.clear()
    put(store)
    assert [path.parent.name for path in flushed] == ["outbox", "store"]


def test_a_file_whose_content_changed_is_damaged(store):
    file = put(store)
    path = store.folder / file.name
    path.write_bytes(b"twelve bytez")
    with pytest.raises(StoreError) as refused:
        store.read(file)
    assert str(refused.value) == (
        f"file {file.name} of the store is damaged\n"
        "detail: It has 12 bytes, 12 were written, and its checksum must agree.\n"
        "hint: Restore it from a backup, or leave it out with eddyline doctor --forget-damaged."
    )


def test_a_file_that_is_shorter_is_damaged(store):
    file = put(store)
    (store.folder / file.name).write_bytes(b"twelve")
    with pytest.raises(StoreError, match="It has 6 bytes, 12 were written"):
        store.read(file)


@pytest.mark.parametrize("content", [None, b""])
def test_a_file_that_is_gone_or_empty_cannot_be_read(store, content):
    file = put(store)
    (store.folder / file.name).unlink()
    if content is not None:
        (store.folder / file.name).write_bytes(content)
    with pytest.raises(StoreError, match=r"of the store (cannot be read|is damaged)"):
        store.read(file)


@pytest.mark.parametrize(
    ("number", "hint"),
    [
        (errno.ENOSPC, "hint: Make room on the disk and push again: the round has not happened."),
        (
            errno.EROFS,
            "hint: Give the user who runs the engine the right to write there, and push again: the round has not happened.",
        ),
        (errno.EIO, "hint: The round has not happened; push again when this is mended."),
    ],
)
def test_a_file_that_cannot_be_written_leaves_nothing_behind(store, number, hint):
    def write(file):
        file.write(b"half of it")
        raise OSError(number, os.strerror(number))

    with pytest.raises(StoreError) as refused:
        store.put("outbox", write)
    assert str(refused.value).splitlines() == [
        f"cannot write to the store in {store.folder}",
        f"detail: [Errno {number}] {os.strerror(number)}",
        hint,
    ]
    assert list(store.names()) == []


def test_a_write_that_is_interrupted_leaves_nothing_behind(store):
    def write(file):
        file.write(b"half of it")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.put("outbox", write)
    assert list(store.names()) == []


def test_a_failed_flush_fails_the_file(store, monkeypatch):
    put(store)

    def fsync(descriptor):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(store_module.os, "fsync", fsync)
    with pytest.raises(StoreError, match="cannot write to the store"):
        put(store)
    assert len(list(store.names())) == 1


def test_where_a_folder_should_be_a_file_in_the_way_is_told(store):
    store.folder.parent.mkdir(exist_ok=True)
    store.folder.write_text("in the way")
    with pytest.raises(StoreError, match="cannot write to the store"):
        put(store)


def test_unlisted_files_are_cleared_and_listed_ones_and_strangers_stay(store):
    listed, unlisted = put(store), put(store, kind="dead")
    stranger = store.folder / "outbox" / "notes.txt"
    stranger.write_text("not ours")
    nested = store.folder / "outbox" / "mine" / Path(unlisted.name).name
    nested.parent.mkdir()
    nested.write_text("not ours either")
    assert Store(store.folder, store.epoch + 1).clear_unlisted({listed.name}) == 1
    assert list(store.names()) == [listed.name]
    assert stranger.exists()
    assert nested.exists()


def test_files_of_this_and_later_epochs_stay_until_an_epoch_has_passed_them(store):
    """They belong to the current holder of the home; after a catalog was restored from a copy they wait for their turn."""
    files = {epoch: put(Store(store.folder, epoch)).name for epoch in (6, 7, 8)}
    assert Store(store.folder, epoch=7).clear_unlisted(set()) == 1
    assert set(store.names()) == {files[7], files[8]}
    assert Store(store.folder, epoch=9).clear_unlisted(set()) == 2


def test_removing_what_is_gone_already_counts_only_what_was_there(store):
    file = put(store)
    assert store.remove([file.name, "outbox/gone.arrow"]) == 1


def test_a_store_without_a_folder_is_empty(store):
    assert list(store.names()) == []
    assert store.clear_unlisted(set()) == 0
