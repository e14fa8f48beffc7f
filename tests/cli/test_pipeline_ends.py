"""`eddyline source` and `eddyline sink`: how far the ends of a running pipeline are, and trying what fails again."""

from __future__ import annotations

import io
import socket
import threading
from collections.abc import Iterator

import pytest

from eddyline.api import PipelineRunner
from eddyline.pipeline import load_pipeline
from eddyline.sources import FolderSource
from eddyline.sources.positions import SourceError

pytestmark = pytest.mark.thorough

SINKS = """
[[sinks]]
name = "pager"
type = "webhook"
url = "http://127.0.0.1:{port}/"
allow_private = true
"""
ALERT = (
    "CREATE OR REPLACE VIEW cheap TBLPROPERTIES (per = 'sym') AS SELECT sym FROM trades WHERE price < 10;\n"
)


@pytest.fixture
def port() -> Iterator[int]:
    """A port that refuses connections."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


@pytest.fixture
def runner(project, port, monkeypatch) -> Iterator[PipelineRunner]:
    monkeypatch.setattr("eddyline.runtime.feeds.FIRST_PAUSE_S", 3600.0)
    monkeypatch.setattr("eddyline.runtime.feeds.LONGEST_PAUSE_S", 3600.0)
    with open(project / "eddyline.toml", "a") as file:
        file.write(SINKS.format(port=port))
    (project / "rules" / "cheap.sql").write_text(ALERT)
    with PipelineRunner(load_pipeline(project / "eddyline.toml"), stdout=io.StringIO()) as runner:
        runner.engine.listen()
        thread = threading.Thread(target=lambda: runner.run(signals=False))
        thread.start()
        yield runner
        runner.stop()
        thread.join()


def until(thing) -> None:
    pause = threading.Event()
    for _ in range(6_000):
        if thing():
            return
        pause.wait(0.01)
    raise AssertionError("it did not come to that in a minute")


def test_sources_are_listed_and_a_failing_one_is_tried_again(shell, project, runner, monkeypatch):
    until(lambda: runner.sources() and runner.sources()[0].n_rows == 4)
    listed = shell("eddyline source list")
    assert listed.code == 0
    head, line = listed.out.splitlines()
    assert head.split() == ["stream", "type", "position", "behind", "rows", "rows/s", "lag", "status"]
    assert line.startswith("trades  files ")
    assert "  up to trades.json  0 files  4 " in line
    assert line.endswith(" days  ok")

    take = FolderSource.take

    def broken(self, max_rows, max_bytes):
        raise SourceError("the folder is gone")

    monkeypatch.setattr(FolderSource, "take", broken)
    until(lambda: runner.sources()[0].is_failing)
    failing = shell("eddyline source list")
    assert failing.out.splitlines()[1].endswith("failing")
    assert failing.err.startswith("source trades failed 1 time; tried again in 36")
    assert failing.err.endswith("s: the folder is gone\nto try it now: eddyline source retry trades\n")

    monkeypatch.setattr(FolderSource, "take", take)
    said = shell("eddyline source retry trades")
    assert (said.code, said.out) == (0, "source trades is tried again\n")
    assert said.err == "whether that helped: eddyline source list\n"
    until(lambda: not runner.sources()[0].is_failing)
    assert shell("eddyline source list --json").json[0]["is_failing"] is False
    wrong = shell("eddyline source retry trade")
    assert (wrong.code, wrong.err) == (1, "stream trade has no source here\nhint: Did you mean trades?\n")


def test_sinks_are_listed_and_a_failing_one_is_tried_again(shell, project, runner):
    until(lambda: any(sink.is_failing for sink in runner.sinks()))
    listed = shell("eddyline sink list")
    head, stdout, pager = (line.split() for line in listed.out.splitlines())
    assert head == ["sink", "type", "takes", "position", "behind", "delivered", "per", "s", "lost", "status"]
    assert (stdout[:3], stdout[-1]) == (["stdout", "stdout", "results"], "ok")
    assert pager[:7] == ["pager", "webhook", "alerts", "message", "0", "3", "messages"]
    assert pager[-1] == "failing"
    assert listed.err.startswith("sink pager failed ")
    assert listed.err.endswith("to try it now: eddyline sink retry pager\n")
    assert shell("eddyline sink retry pager").out == "sink pager is tried again\n"
    assert shell("eddyline sink list --json").json[1]["name"] == "pager"


@pytest.mark.parametrize("command", ["source list", "sink list", "sink retry stdout"])
def test_a_home_that_does_not_run_has_no_ends_to_look_at(shell, project, command):
    assert shell("eddyline apply").code == 0
    said = shell(f"eddyline {command}")
    assert (said.code, said.out) == (1, "")
    assert said.err == (
        f"no process runs the home {project / 'home'}\nhint: Start it with eddyline run or eddyline serve.\n"
    )
