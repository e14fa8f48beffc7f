"""Rounds on Spark whose driver, Java, workers or disk fail anywhere: nothing is lost, nothing is there twice.

The program under fire is `toy_rounds.py`; `fire.py` lists what can go wrong, `toy_world.py` says what must be true all the same.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

import eddyline.storage.store as store_module
from eddyline.engine.durable import Durable
from eddyline.storage import Store
from tests.spark.toy_world import (
    ROOT,
    World,
    check,
    daemon,
    environment,
    epoch_of,
    joined,
    last_round,
    opened_last,
    program,
    running,
    until,
    workers,
)

pytestmark = [pytest.mark.spark, pytest.mark.thorough]


@pytest.fixture(scope="module")
def java() -> Iterator[dict[str, str]]:
    """One Java for many drivers: the environment in which they find it."""
    with program("java") as process:
        yield environment() | json.loads(process.stdout.readline())


@pytest.fixture(scope="module")
def forks(java) -> Iterator[subprocess.Popen[str]]:
    """A warm process that forks drivers."""
    with program("fork", env=java) as process:
        yield process


@pytest.fixture
def make_world(tmp_path, forks) -> Iterator[Callable[[int], World]]:
    worlds: list[World] = []

    def make(n_rounds: int) -> World:
        worlds.append(World(tmp_path / str(len(worlds)) / "world", forks, n_rounds))
        return worlds[-1]

    yield make
    for world in worlds:
        world.close()


@pytest.fixture
def world(make_world) -> World:
    return make_world(4)


# --------------------------------------------------------------------------------------------- drivers killed


def test_rounds_without_fire_give_every_result_once(world):
    life = world.finish()
    assert life.told("committed") == [1, 2, 3, 4]
    assert check(world) == set()
    lines = world.sink.read_text().splitlines()
    assert len(lines) == len(set(lines)) == len(joined(world.rows, 4)) > 100


PLACES = [
    "open: begins",
    "open: sql: after COMMIT",
    "plan: begins",
    "build: begins",
    "build: task 0 begins",
    "build: task 1 half written",
    "build: task 3 has written",
    "open: file: before removing segment",
    "probe: begins",
    "probe: task 0 half written",
    "probe: task 2 has written",
    "open: file: after removing outbox",
    "commit: begins",
    "commit: sql: after INSERT INTO rounds",
    "commit: sql: before INSERT INTO files",
    "commit: sql: before COMMIT",
    "commit: sql: after COMMIT",
    "recover: half written",
    "deliver: begins",
    "deliver: half written",
    "deliver: sql: before COMMIT",
    "deliver: sql: after COMMIT",
    "gc: begins",
    "gc: sql: before COMMIT",
    "gc: sql: after COMMIT",
    "gc: file: before removing outbox",
    "gc: file: after removing outbox",
    "end: begins",
]


def test_a_home_lives_through_a_driver_killed_at_every_step(make_world):
    """Tasks of a killed driver go on in the Java they share: what they write comes while the next driver works."""
    world = make_world(14)
    for place in PLACES:
        at = 0 if place.startswith(("open:", "recover:")) else last_round(world) + 1
        world.die(f"driver@{at} {place}")
        check(world)
    life = world.finish()
    # Each life has opened the home, but for the first two: killed before, and after the commit of its empty tables.
    assert life.told("opened") == [len(PLACES) - 1]
    opened_last(world)


@pytest.mark.slow
@pytest.mark.parametrize("number", [1, 3])
def test_a_driver_killed_at_any_place_of_an_early_or_a_late_round(make_world, number):
    before = make_world(number + 1)
    if number > 1:
        before.die(f"driver@{number - 1} commit: begins")  # so that there is something to clear
        before.die(f"driver@{number - 1} commit: sql: after COMMIT")  # and something to recover
    quiet = copied(before, make_world)
    quiet.finish()
    passed = dict.fromkeys((at, place) for _, at, place in quiet.marks.passed() if at in (0, number))
    passed = [where for where in passed if not re.search(r"task [12] ", where[1])]  # as with 0 and 3
    assert len(passed) > 50
    for at, place in passed:
        world = copied(before, make_world)
        world.die(f"driver@{at} {place}")
        check(world)
        life = world.finish()
        assert all(epoch_of(name) < life.told("opened")[0] for name in check(world))


def copied(world: World, make_world: Callable[[int], World]) -> World:
    copy = make_world(world.n_rounds)
    if world.home.exists():
        shutil.copytree(world.home, copy.home)
        shutil.copy(world.sink, copy.sink)
    return copy


@pytest.mark.slow
def test_a_home_lives_through_drivers_killed_at_random_moments(make_world, seed):
    world = make_world(30)
    moments = random.Random(seed)
    for _ in range(30):
        life = world.start()
        time.sleep(moments.uniform(0.0, 2.5))
        with contextlib.suppress(ProcessLookupError):
            os.kill(life.pid, signal.SIGKILL)
        world.wait(life)
        check(world)
    world.finish()
    opened_last(world)


# --------------------------------------------------------------------------------------------- who outlives whom


def overtaken(world: World, name: str, task: str) -> None:
    """A new driver commits rounds; then the task `name`, of a driver that is no more, goes on and writes; then more rounds."""
    written = task.replace("begins", "has written").replace("half written", "has written")
    life = world.start("wait=new@4 plan: begins")
    until(lambda: world.marks.is_reached("new"), "a new driver has committed the rounds")
    assert life.told("committed") == [2, 3]
    check(world)
    world.marks.let_go(name)
    until(lambda: passed_by(world, written) >= 2, "the task of the old driver has written too")
    late = {name for name in check(world) if epoch_of(name) == 1}
    assert bool(late) is (
        "begins" in task
    )  # the file of one that was writing already had been cleared under its hands
    world.marks.let_go("new")
    assert world.wait(life).end == {"ended": 0}
    assert late <= check(world)  # not listed by any round
    last = world.finish()
    assert last.told("cleared")[0] >= len(late)
    assert check(world) == set()


def passed_by(world: World, place: str) -> int:
    """How many tasks passed this place in round 2."""
    return len({pid for pid, number, passed in world.marks.passed() if (number, passed) == (2, place)})


@pytest.mark.parametrize("task", ["build: task 0 begins", "probe: task 0 half written"])
def test_what_a_task_writes_after_its_driver_has_died_is_never_listed_and_cleared_by_the_next_opening(
    world, task
):
    step = task.partition(":")[0]
    world.die(f"wait=zombie@2 {task}", f"driver@2 {step}: task 3 has written")  # the last: two run at a time
    until(lambda: world.marks.is_reached("zombie"), "the task of the dead driver waits")
    overtaken(world, "zombie", task)


def test_a_worker_that_outlives_its_driver_its_java_and_its_daemon_cannot_add_to_the_home(world):
    with world.with_own_java("wait=orphan@2 build: task 0 begins") as process:
        until(lambda: world.marks.is_reached("orphan"), "the task waits")
        os.kill(daemon(world), signal.SIGKILL)  # first: it would end the workers when it sees its Java gone
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        orphans = workers(world)
        overtaken(world, "orphan", "build: task 0 begins")
    until(lambda: not running(orphans), "the workers have ended, for want of anybody to answer")


@pytest.mark.slow
def test_java_and_workers_end_by_themselves_when_their_driver_is_killed(world):
    with world.with_own_java("driver@2 build: task 1 has written") as process:
        assert process.wait() == -signal.SIGKILL
        left_alone = {process.pid} | workers(world)
        world.finish()  # at once: the lock of the home has gone with the driver, whatever its Java still does
        check(world)
        until(lambda: not running(left_alone), "Java and workers have ended")
    opened_last(world)


@pytest.mark.slow
@pytest.mark.parametrize(
    "place",
    ["plan: begins", "build: task 1 half written", "probe: task 2 has written", "commit: sql: before COMMIT",
     "commit: sql: after COMMIT", "deliver: half written"],
)  # fmt: skip
def test_a_driver_killed_together_with_its_java_and_its_workers(world, place):
    with world.with_own_java(f"wait=here@2 {place}") as process:
        until(lambda: world.marks.is_reached("here"), "the place is reached")
        os.killpg(process.pid, signal.SIGKILL)
        os.killpg(daemon(world), signal.SIGKILL)
        process.wait()
        until(lambda: not running({process.pid} | workers(world)), "all have ended")
        left = len(check(world))
        assert world.finish().told("cleared") == [left]
        assert check(world) == set()


# --------------------------------------------------------------------------------------------- two drivers


@pytest.mark.parametrize("place", ["build: begins", "commit: begins"])
def test_a_stopped_driver_keeps_its_home_and_one_whose_lock_was_lost_commits_nothing_any_more(world, place):
    old = world.live(f"stop@2 {place}")
    assert old.end == {"stopped": signal.SIGSTOP}
    refused = world.live()
    assert refused.end == {"ended": 1}
    assert f"the home {world.home} is held by another process\ndetail: Process {old.pid} (" in refused.text
    assert "hint: Speak to that process through the command line" in refused.text

    (world.home / "lock").unlink()  # now two can hold it, as on a network file system that forgets locks
    new = world.finish()
    assert (new.told("opened"), new.told("committed")) == ([2], [2, 3, 4])
    os.kill(old.pid, signal.SIGCONT)
    assert world.wait(old).end == {"ended": 1}
    assert old.told("committed") == [1]
    assert "another process has opened this home\ndetail: This process no longer holds it" in old.text
    assert {epoch_of(name) for name in check(world)} == ({1} if place == "build: begins" else set())
    opened_last(world)


@pytest.mark.slow
def test_a_driver_stopped_inside_its_transaction_cannot_be_overtaken(world):
    old = world.live("stop@2 commit: sql: before COMMIT")
    assert old.end == {"stopped": signal.SIGSTOP}
    (world.home / "lock").unlink()
    refused = world.live()
    assert refused.end == {"ended": 1}
    assert "database is locked" in refused.text
    assert "hint: Close the other program that has it open" in refused.text
    os.kill(old.pid, signal.SIGCONT)
    assert world.wait(old).end == {"ended": 0}
    assert old.told("committed") == [1, 2, 3, 4]
    opened_last(world)


# --------------------------------------------------------------------------------------------- in a task


def test_files_of_a_worker_that_is_killed_are_never_listed(world):
    life = world.finish(
        "worker@1 build: task 0 half written",
        "worker@2 build: task 1 has written",
        "worker@3 probe: task 0 has written",
    )
    assert life.told("aborted") == []  # another worker did the task
    assert sorted(name.split("/")[0] for name in check(world)) == ["outbox", "segment", "segment"]
    assert world.finish().told("cleared") == [3]
    assert check(world) == set()


def test_a_round_whose_task_finds_no_room_is_aborted_and_done_again(world):
    life = world.finish("room@2 probe: task 1 half written")
    assert life.told("aborted") == [2]
    (why,) = life.told("why")
    assert f"cannot write to the store in {world.home / 'store'}\n" in why
    assert "File too large" in why
    assert "Make room on the disk and push again: the round has not happened." in why
    left = check(world)
    assert (
        sum(name.startswith("segment/") for name in left) == 4
    )  # tasks that had room, in the try that failed
    assert world.finish().told("cleared") == [len(left)]
    assert check(world) == set()


CAN_MOUNT = (
    shutil.which("unshare") is not None
    and subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode == 0
)
SMALL_DISK = """
mount -t tmpfs -o size=56k tmpfs "$STORE"
"$@" && exit 3
mount -o remount,size=4m "$STORE"
"$@"
cp -a "$STORE" "$STORE-copy"
"""


@pytest.mark.slow
@pytest.mark.skipif(not CAN_MOUNT, reason="needs a small disk of its own, which this system does not allow")
def test_rounds_on_a_full_disk_fail_until_there_is_room(world):
    store = world.home / "store"
    store.mkdir(parents=True)
    driver = [sys.executable, "-m", "tests.spark.toy_rounds", *world.arguments()]
    script = ["unshare", "-rm", "sh", "-ec", SMALL_DISK, "sh", *driver]
    done = subprocess.run(
        script,
        cwd=ROOT,
        env=environment() | {"STORE": str(store)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "No space left on device" in done.stdout
    assert "failed 2 times" in done.stderr
    store.rmdir()
    store.with_name("store-copy").rename(store)
    assert '{"ended": "all input is taken"}' in done.stdout
    assert check(world) == set()
    opened_last(world)


# --------------------------------------------------------------------------------------------- holes


def opened(home: Path) -> Durable:
    return Durable(home, time_zone="UTC", retention=None, clock=lambda: 0)


def test_an_opening_that_stalls_while_another_takes_the_home_removes_none_of_its_files(tmp_path, monkeypatch):
    home = tmp_path / "home"
    opened(home).close()
    clear = Store.clear_unlisted
    brought = []

    def stalled_clear(store: Store, listed: set[str]) -> int:
        """What is listed has been read; now the lock is lost, and another process opens the home and writes."""
        if store.epoch == 2:
            (home / "lock").unlink()
            with contextlib.closing(opened(home)) as other:
                brought.append(other.store.put("segment", lambda file: file.write(b"rows")))
        return clear(store, listed)

    monkeypatch.setattr(Store, "clear_unlisted", stalled_clear)
    opened(home).close()
    (file,) = brought
    assert epoch_of(file.name) == 3
    assert (home / "store" / file.name).exists()


def test_a_file_is_flushed_with_the_folders_above_it_also_if_a_task_was_killed_after_making_them(
    tmp_path, monkeypatch
):
    folder = tmp_path / "store"
    (folder / "segment").mkdir(parents=True)  # by a task that was killed before it flushed `store`
    flushed = []
    monkeypatch.setattr(
        store_module.os, "fsync", lambda descriptor: flushed.append(os.fstat(descriptor).st_ino)
    )
    Store(folder, epoch=1).put("segment", lambda file: file.write(b"rows"))
    assert {(folder / "segment").stat().st_ino, folder.stat().st_ino} <= set(flushed)
