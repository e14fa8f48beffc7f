from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest

import eddyline.storage.home as home_module
from eddyline.errors import HomeError
from eddyline.storage.home import Home, holder_of


def test_a_home_is_made_with_the_folders_above_it(tmp_path):
    home = Home(tmp_path / "a" / "b")
    assert home.catalog == tmp_path / "a" / "b" / "catalog.db"
    assert home.folder.is_dir()
    home.release()


def test_a_held_home_is_refused_with_who_holds_it(tmp_path):
    home = Home(tmp_path)
    with pytest.raises(HomeError) as refused:
        Home(tmp_path)
    assert refused.value.problem == f"the home {tmp_path} is held by another process"
    assert f"Process {os.getpid()} (" in str(refused.value.detail)
    assert "works on a held home" in str(refused.value.hint)
    home.release()


def test_a_released_home_can_be_taken_again(tmp_path):
    Home(tmp_path).release()
    home = Home(tmp_path)
    home.release()
    home.release()


def test_the_holder_is_known_while_it_holds_and_only_then(tmp_path):
    assert holder_of(tmp_path) is None
    home = Home(tmp_path)
    holder = holder_of(tmp_path)
    assert holder is not None
    assert holder["pid"] == os.getpid()
    assert set(holder) == {"pid", "host", "since", "command"}
    home.release()
    assert holder_of(tmp_path) is None


def test_what_a_dead_holder_wrote_about_itself_holds_nobody_back(tmp_path):
    (tmp_path / "lock").write_text('{"pid": 1, "host": "elsewhere", "since": "long ago", "command": "gone"}')
    assert holder_of(tmp_path) is None
    Home(tmp_path).release()


def test_somebody_who_only_looks_whether_a_home_is_held_is_in_nobodys_way(tmp_path):
    Home(tmp_path).release()
    is_over = threading.Event()

    def look() -> None:
        while not is_over.is_set():
            holder_of(tmp_path)

    looking = threading.Thread(target=look)
    looking.start()
    try:
        for _ in range(300):
            Home(tmp_path).release()
    finally:
        is_over.set()
        looking.join()


def test_a_holder_that_does_not_say_who_it_is_is_still_a_holder(tmp_path, monkeypatch):
    monkeypatch.setattr(home_module, "PAUSE_S", 0.0)
    home = Home(tmp_path)
    os.truncate(tmp_path / "lock", 0)
    with pytest.raises(HomeError, match="detail: It does not say which"):
        Home(tmp_path)
    home.release()


def test_a_file_is_no_home(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(HomeError) as refused:
        Home(tmp_path / "file")
    assert refused.value.problem == f"{tmp_path / 'file'} is not a folder"
    with pytest.raises(HomeError, match="is not a folder"):
        Home(tmp_path / "file" / "below")


@pytest.mark.parametrize(
    ("number", "hint"),
    [
        (errno.EROFS, "Give the user who runs the engine the right to write there."),
        (errno.EACCES, "Give the user who runs the engine the right to write there."),
        (errno.ENOSPC, "Make room on the disk and open it again."),
    ],
)
def test_a_home_that_cannot_be_written_is_refused(tmp_path, monkeypatch, number, hint):
    def refuse(*arguments):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(home_module.os, "open", refuse)
    with pytest.raises(HomeError) as refused:
        Home(tmp_path)
    assert refused.value.problem == f"cannot open the home {tmp_path}"
    assert os.strerror(number) in str(refused.value.detail)
    assert refused.value.hint == hint


def test_a_lock_that_cannot_be_written_lets_the_home_go(tmp_path, monkeypatch):
    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(home_module.os, "pwrite", full)
    with pytest.raises(HomeError, match="Make room on the disk"):
        Home(tmp_path)
    monkeypatch.undo()
    Home(tmp_path).release()


def test_a_name_that_is_too_long_for_the_system_is_told(tmp_path):
    with pytest.raises(HomeError) as refused:
        Home(Path(tmp_path, "x" * 300))
    assert refused.value.hint == "Put the home nearer to the root."
