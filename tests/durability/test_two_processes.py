"""Two processes want one home: one gets it, the other is told who has it, and a dead one holds nobody back."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import eddyline
from eddyline.errors import HomeError
from eddyline.storage import holder_of

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).parent.parent.parent
HOLD = (
    "import sys, eddyline; engine = eddyline.open(sys.argv[1]); print('held', flush=True); sys.stdin.read()"
)


@pytest.fixture
def holder(tmp_path):
    """Another process that holds the home `tmp_path / "home"`."""
    command = [sys.executable, "-c", HOLD, str(tmp_path / "home")]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def test_a_second_process_is_refused_and_told_who_holds_the_home_until_that_one_dies(tmp_path, holder):
    home = tmp_path / "home"
    with pytest.raises(HomeError) as refused:
        eddyline.open(home)
    assert refused.value.problem == f"the home {home} is held by another process"
    assert f"Process {holder.pid} (" in str(refused.value.detail)
    assert holder_of(home)["pid"] == holder.pid
    holder.kill()
    holder.wait()
    assert holder_of(home) is None
    eddyline.open(home).close()


def test_of_many_processes_that_open_at_once_exactly_one_gets_the_home(tmp_path):
    command = [sys.executable, "-m", "tests.durability.race", str(tmp_path / "home"), "--times", "8"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"times": 8, "winners": [1] * 8, "epoch": 9, "version": 9}


def test_an_engine_whose_home_was_taken_can_change_nothing_any_more(tmp_path):
    home = tmp_path / "home"
    first = eddyline.open(home)
    first.stream("s", "n INT")
    query = first.query("SELECT n FROM s", name="all")
    first.push("s", [(1,)], token="a")
    (home / "lock").unlink()  # the one way to get past the lock
    second = eddyline.open(home)
    second.push("s", [(2,)], token="b")

    taken = "another process has opened this home\ndetail: This process no longer holds it"
    for attempt in [
        lambda: first.push("s", [(3,)], token="c"),
        lambda: first.query("SELECT n FROM s WHERE n > 1"),
        lambda: first.drop("all"),
        lambda: first.stream("t", "n INT"),
        query.pause,
    ]:
        with pytest.raises(HomeError, match=taken):
            attempt()
    assert [r["n"] for r in second.get("all").latest()] == [1, 2]
    first.close()
    second.push("s", [(4,)], token="d")
    second.close()
    with eddyline.open(home) as third:
        assert [(r["n"], r.arrival) for r in third.get("all").latest()] == [(1, 1), (2, 2), (4, 3)]
        assert third.n_queries == 1
