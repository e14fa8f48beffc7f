"""No room, or no right to write: the round has not happened, the engine stays usable, and the same push works later."""

from __future__ import annotations

import builtins
import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import FunctionType

import pytest

import eddyline
import eddyline.storage.store as store_module
from eddyline.errors import HomeError, StoreError
from eddyline.events import CleanupFailed
from tests.on_workers import through_tasks

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(params=["here", "in tasks"])
def engine(tmp_path, request):
    engine = eddyline.open(tmp_path / "home")
    if request.param == "in tasks":
        through_tasks(engine)
    engine.stream("s", "n INT")
    engine.query("SELECT n FROM s WHERE 10 / n > 0", name="q")
    engine.push("s", [(1,), (0,)], token="first")
    yield engine
    engine.close()


def state(engine: eddyline.Engine) -> tuple[object, ...]:
    """Everything a round could have changed. Tasks of a round that failed in another may leave results that no round lists."""
    durable = engine.rounds.durable
    listed = {file.name for file in durable.rounds.files.all()}
    left = set(durable.store.names()) - listed - durable.in_use
    assert all(name.startswith("outbox/") for name in left), left
    assert not left or isinstance(engine.rounds.run_round, FunctionType), left
    results = [(r["n"], r.arrival) for r in engine.get("q").latest()]
    n_rows = engine.streams()[0].n_rows
    last = durable.rounds.last().round.number
    return results, len(engine.dead_letters()), n_rows, last, listed, engine.version


class Full:
    """A file on a disk that is full after some bytes."""

    def __init__(self, real, number):
        self._real = real
        self._number = number

    def write(self, data):
        self._real.write(bytes(memoryview(data)[:4]))
        raise OSError(self._number, os.strerror(self._number))

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._real.close()

    def __getattr__(self, name):
        return getattr(self._real, name)


@pytest.mark.parametrize("kind", ["capture", "outbox", "dead"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS])
def test_a_round_that_finds_no_room_for_a_file_has_not_happened(engine, monkeypatch, kind, number):
    before = state(engine)

    def full_open(path, mode):
        file = builtins.open(path, mode)  # noqa: SIM115
        return Full(file, number) if path.parent.name == kind else file

    monkeypatch.setattr(store_module, "open", full_open, raising=False)
    for _ in range(2):
        with pytest.raises(StoreError) as refused:
            engine.push("s", [(2,), (0,)], token="second")
        assert os.strerror(number) in str(refused.value)
        assert "the round has not happened" in str(refused.value)
        assert state(engine) == before
    monkeypatch.undo()
    assert not engine.push("s", [(2,), (0,)], token="second").is_repeat
    assert [(r["n"], r.arrival) for r in engine.get("q").latest()] == [(1, 1), (2, 3)]
    assert len(engine.dead_letters()) == 2


def test_a_round_that_finds_no_room_for_its_plan_has_not_happened(tmp_path, monkeypatch):
    with eddyline.open(tmp_path / "home") as engine:
        through_tasks(engine)
        engine.stream("s", "n INT")
        engine.query("SELECT n FROM s WHERE 10 / n > 0", name="q")
        engine.push("s", [(1,), (0,)])
        engine.query("SELECT n + 1 AS m FROM s WHERE n > 1", name="later")
        before = state(engine)

        def full_open(path, mode):
            file = builtins.open(path, mode)  # noqa: SIM115
            return Full(file, errno.ENOSPC) if path.parent.name in ("plan", "index") else file

        monkeypatch.setattr(store_module, "open", full_open, raising=False)
        with pytest.raises(StoreError, match="No space left on device"):
            engine.push("s", [(2,)])
        assert state(engine) == before
        monkeypatch.undo()
        engine.push("s", [(2,)])
        assert [(r["n"], r.arrival) for r in engine.get("q").latest()] == [(1, 1), (2, 3)]
        assert [(r["m"], r.arrival) for r in engine.get("later").latest()] == [(3, 3)]


def test_a_round_that_finds_no_room_in_the_catalog_has_not_happened_and_leaves_no_files(engine):
    before = state(engine)
    connection = engine.rounds.durable.database.connection
    connection.execute(f"PRAGMA max_page_count = {connection.execute('PRAGMA page_count').fetchone()[0]}")
    with pytest.raises(HomeError) as refused:
        engine.push("s", [(2,)], token="x" * 100_000)
    assert str(refused.value) == (
        f"cannot write to {engine.rounds.durable.database.path}\n"
        "detail: database or disk is full. Nothing was changed.\n"
        "hint: Make room on the disk and do it again."
    )
    assert state(engine) == before
    connection.execute("PRAGMA max_page_count = 1000000")
    engine.push("s", [(2,)], token="x" * 100_000)
    assert [r["n"] for r in engine.get("q").latest()] == [1, 2]


def test_a_round_that_is_interrupted_while_it_writes_has_not_happened(engine, monkeypatch):
    before = state(engine)
    real = store_module.Store.create

    def interrupted(store, kind, **options):
        if kind == "outbox":
            raise KeyboardInterrupt
        return real(store, kind, **options)

    monkeypatch.setattr(store_module.Store, "create", interrupted)
    with pytest.raises(KeyboardInterrupt):
        engine.push("s", [(2,)])
    assert state(engine) == before


def test_garbage_that_cannot_be_collected_is_told_and_the_round_stands(engine, monkeypatch):
    durable = engine.rounds.durable
    monkeypatch.setattr("eddyline.engine.after_commit.GC_EVERY", 1)

    def fail(**options):
        raise StoreError("cannot write to the store")

    monkeypatch.setattr(durable, "collect_garbage", fail)
    assert engine.push("s", [(2,)]).count == 1
    (failed,) = [event for event in engine.events() if isinstance(event, CleanupFailed)]
    assert failed.message == "cannot write to the store"


# --------------------------------------------------------------------------------------------- a real disk

CAN_MOUNT = (
    shutil.which("unshare") is not None
    and subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode == 0
)
needs_mount = pytest.mark.skipif(
    not CAN_MOUNT, reason="needs a small file system of its own, which this system does not allow"
)


def on_small_disk(tmp_path: Path, scenario: str) -> dict[str, str]:
    """Run a scenario of `small_disk.py` in a mount namespace of its own: nothing is mounted for anybody else."""
    command = ["unshare", "-rm", sys.executable, "-m", "tests.durability.small_disk", scenario, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@needs_mount
@pytest.mark.parametrize("scenario", ["full", "full in tasks"])
def test_a_full_disk_refuses_rounds_and_changes_until_there_is_room(tmp_path, scenario):
    told = on_small_disk(tmp_path, scenario)
    assert "No space left on device" in told["push"]
    assert "hint: Make room on the disk and push again: the round has not happened." in told["push"]
    assert "full" in told["register"] or "No space left" in told["register"]
    assert "Make room on the disk" in told["open"]
    assert told["after"] == "[(1, 1), (2, 2)]"


@needs_mount
def test_a_read_only_disk_refuses_to_open_and_to_go_on(tmp_path):
    told = on_small_disk(tmp_path, "read-only")
    assert "Read-only file system" in told["open"]
    assert "hint: Give the user who runs the engine the right to write there." in told["open"]
    assert told["after"] == "[(1, 1), (2, 2)]"
