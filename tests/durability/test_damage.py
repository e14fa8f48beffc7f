"""Homes that are damaged, half there, in odd places, or opened under a clock that was set back."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

import eddyline
from eddyline.engine import Retention
from eddyline.errors import HomeError
from eddyline.events import StoreFileDamaged
from tests.durability.time_passing import lived_until


def filled(home: Path, **options) -> None:
    """A home with three rounds; each has a result, a dead letter and captured rows."""
    with eddyline.open(home, **options) as engine:
        engine.stream("s", "n INT")
        engine.query("SELECT n FROM s WHERE 10 / n > 0", name="q")
        for n in (1, 2, 3):
            engine.push("s", [(n,), (0,)], token=f"t{n}")


@pytest.fixture
def home(tmp_path):
    filled(tmp_path / "home")
    return tmp_path / "home"


def files(home: Path, kind: str) -> list[Path]:
    """Files of a kind, oldest round first."""
    with eddyline.open(home) as engine:
        return [home / "store" / file.name for file in engine.rounds.durable.rounds.files.all(kind)]


def flip_a_bit(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:10])


def results(engine: eddyline.Engine) -> list[int]:
    return [r["n"] for r in engine.get("q").latest()]


# --------------------------------------------------------------------------------------------- files of the store


@pytest.mark.parametrize("harm", [flip_a_bit, cut, Path.unlink])
def test_one_damaged_file_of_results_is_told_and_the_others_are_read(home, harm):
    _, second, _ = files(home, "outbox")
    harm(second)
    with eddyline.open(home) as engine:
        assert results(engine) == [1, 3]
        assert [r["n"] for r in engine.get("q").results(after="0-0")] == [1, 3]
        (told,) = [event for event in engine.events() if isinstance(event, StoreFileDamaged)]
        assert told.file == f"outbox/{second.name}"
        assert f"file outbox/{second.name} of the store" in told.message
        assert len(engine.dead_letters()) == 3
        assert engine.push("s", [(4,)]).count == 1
        assert engine.push("s", [(2,), (0,)], token="t2").is_repeat
    with eddyline.open(home) as engine:
        assert results(engine) == [1, 3, 4]


def test_damaged_dead_letters_and_captured_rows_are_told_and_stop_nothing(home):
    flip_a_bit(files(home, "dead")[0])
    flip_a_bit(files(home, "capture")[2])
    with eddyline.open(home) as engine:
        assert results(engine) == [1, 2, 3]
        assert [letter.round_number for letter in engine.dead_letters()] == [2, 3]
        told = [event.file for event in engine.events() if isinstance(event, StoreFileDamaged)]
        assert sorted(name.partition("/")[0] for name in told) == ["capture", "dead"]
        assert "of the last 4 rows" in str(engine.get("q").why_not())  # of the two captures that are whole


def test_all_damaged_files_can_be_found_and_forgotten(home):
    harmed = [files(home, "outbox")[0], files(home, "capture")[0]]
    for path in harmed:
        flip_a_bit(path)
    with eddyline.open(home) as engine:
        durable = engine.rounds.durable
        assert sorted(durable.find_damaged()) == sorted(f"{p.parent.name}/{p.name}" for p in harmed)
        assert durable.forget_damaged() == sorted(f"{p.parent.name}/{p.name}" for p in harmed)
        assert durable.find_damaged() == {}
    with eddyline.open(home) as engine:
        assert not engine.events()
        assert results(engine) == [2, 3]


def test_a_damaged_file_that_was_restored_is_no_longer_damaged(home):
    path = files(home, "outbox")[0]
    good = path.read_bytes()
    flip_a_bit(path)
    with eddyline.open(home) as engine:
        assert len(engine.rounds.durable.find_damaged()) == 1
        path.write_bytes(good)
        assert engine.rounds.durable.find_damaged() == {}


def test_a_home_whose_store_is_gone_opens_and_tells_what_is_missing(home):
    shutil.rmtree(home / "store")
    with eddyline.open(home) as engine:
        assert results(engine) == []
        assert len([event for event in engine.events() if isinstance(event, StoreFileDamaged)]) == 9
        assert engine.push("s", [(4,)]).count == 1
        assert engine.streams()[0].n_rows == 7


# --------------------------------------------------------------------------------------------- the catalog


@pytest.mark.parametrize("harm", [Path.unlink, lambda path: path.write_bytes(b"")], ids=["gone", "empty"])
def test_a_lost_catalog_is_not_replaced_by_an_empty_one_that_would_clear_the_store(home, harm):
    before = sorted(path.name for path in (home / "store").rglob("*"))
    for name in ("catalog.db-wal", "catalog.db-shm"):
        (home / name).unlink(missing_ok=True)
    harm(home / "catalog.db")
    for _ in range(2):
        with pytest.raises(HomeError) as refused:
            eddyline.open(home)
        assert str(refused.value) == (
            f"the catalog of the home {home} is gone\n"
            "detail: catalog.db is new and empty, but the store has 9 files of earlier rounds.\n"
            "hint: Restore catalog.db from a backup. To start anew, take another folder, or remove this one's store."
        )
    assert sorted(path.name for path in (home / "store").rglob("*")) == before


def test_a_catalog_that_is_something_else_is_refused_and_the_home_let_go(home):
    (home / "catalog.db").write_text("something else " * 1000)
    with pytest.raises(HomeError, match="is damaged, or is not a catalog"):
        eddyline.open(home)
    shutil.rmtree(home)
    filled(home)  # the lock is free


def test_a_catalog_cut_short_is_refused(home):
    with open(home / "catalog.db", "r+b") as file:
        file.truncate(10_000)
    with pytest.raises(HomeError, match="is damaged, or is not a catalog"):
        eddyline.open(home)


def test_a_home_from_a_newer_version_is_refused(home):
    with eddyline.open(home) as engine:
        engine.rounds.durable.database.connection.execute("PRAGMA user_version = 1000")
    with pytest.raises(HomeError, match="was written by a newer version of eddyline"):
        eddyline.open(home)


def test_a_copy_of_a_home_taken_between_rounds_is_a_home(home, tmp_path):
    with eddyline.open(home) as engine:
        engine.push("s", [(4,)])
        shutil.copytree(home, tmp_path / "copy")
        engine.push("s", [(5,)])
    with eddyline.open(tmp_path / "copy") as engine:
        assert results(engine) == [1, 2, 3, 4]


def test_a_home_of_which_only_the_folder_is_there_is_a_new_home(tmp_path):
    (tmp_path / "store").mkdir()
    (tmp_path / "lock").touch()
    with eddyline.open(tmp_path) as engine:
        assert (engine.version, engine.n_queries) == (0, 0)


# --------------------------------------------------------------------------------------------- places


@pytest.mark.parametrize(
    "name",
    [
        "two words",
        "Überstände 数据 🌊",
        "quote'\"semi;colon?query#hash%20",
        "-dash",
        "a\nnewline",
        "d/" * 60 + "end",
    ],
)
def test_a_home_may_be_called_anything(tmp_path, name):
    filled(tmp_path / name)
    with eddyline.open(str(tmp_path / name)) as engine:
        assert results(engine) == [1, 2, 3]
    assert (tmp_path / name / "catalog.db").exists()


def test_a_home_may_be_given_relative_to_where_the_process_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    filled(Path("here"))
    with eddyline.open("here") as engine:
        assert results(engine) == [1, 2, 3]


def test_a_path_longer_than_sqlite_takes_is_refused_also_through_a_link(tmp_path):
    deep = tmp_path.joinpath(*["d" * 100] * 6)
    (tmp_path / "link").symlink_to(deep)
    for path in (deep, tmp_path / "link"):
        with pytest.raises(HomeError, match="the path of the home is too long"):
            eddyline.open(path)


def test_a_home_without_the_right_to_write_is_refused(tmp_path):
    if os.getuid() == 0:
        pytest.skip("root may write anywhere; test_full_disk.py has a disk that is read-only for everybody")
    filled(tmp_path / "home")
    (tmp_path / "home").chmod(0o555)
    (tmp_path / "home" / "lock").chmod(0o444)
    with pytest.raises(HomeError, match="the right to write there"):
        eddyline.open(tmp_path / "home")
    (tmp_path / "home").chmod(0o755)


# --------------------------------------------------------------------------------------------- time


def test_a_clock_that_was_set_back_does_not_turn_time_back(tmp_path):
    hour = 3_600_000_000
    with eddyline.open(tmp_path, clock=lambda: 100 * hour) as engine:
        engine.stream("s", "n INT")
        engine.query("SELECT n, now() AS at FROM s", name="q")
        engine.push("s", [(1,)])
    with eddyline.open(tmp_path, clock=lambda: 40 * hour) as engine:
        engine.push("s", [(2,)])
        engine.query("SELECT n FROM s WHERE n > 1", name="later")
        first, second = (r["at"] for r in engine.get("q").latest())
        assert second == first
    with eddyline.open(tmp_path, clock=lambda: 101 * hour) as engine:
        engine.push("s", [(3,)])
        *_, third = (r["at"] for r in engine.get("q").latest())
        assert (third - first).total_seconds() == 3600
        assert [r["n"] for r in engine.get("q").latest()] == [1, 2, 3]


def test_a_clock_that_was_set_back_keeps_results_that_are_not_old(tmp_path):
    hour = 3_600_000_000
    retention = Retention(results_us=10 * hour)
    with eddyline.open(tmp_path, clock=lambda: 100 * hour, retention=retention) as engine:
        engine.stream("s", "n INT")
        engine.query("SELECT n FROM s", name="q")
        engine.push("s", [(1,)])
    with eddyline.open(tmp_path, clock=lambda: 40 * hour, retention=retention) as engine:
        engine.push("s", [(2,)])
        assert engine.rounds.durable.collect_garbage() == {}
    lived_until(tmp_path, 49 * hour)
    with eddyline.open(tmp_path, clock=lambda: 49 * hour, retention=retention) as engine:
        assert engine.rounds.durable.collect_garbage() == {}
    lived_until(tmp_path, 51 * hour)
    with eddyline.open(tmp_path, clock=lambda: 51 * hour, retention=retention) as engine:
        assert engine.rounds.durable.collect_garbage() == {"outbox": 2}  # neither is younger than 11 hours
