"""Running a pipeline: from files to files, through restarts, faults and change."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import eddyline
from eddyline.api import PipelineRunner, run
from eddyline.catalog import checksums
from eddyline.delivery.sinks import SinkError
from eddyline.engine import Retention
from eddyline.errors import HomeError, StoreError
from eddyline.events import (
    FileSetAside,
    RoundCommitted,
    RoundFailed,
    SinkFailed,
    SinkOvertaken,
    SinkRecovered,
    SourceClosed,
    SourceFailed,
    SourceRecovered,
)
from eddyline.functions.declarations import DECLARED
from eddyline.pipeline import PipelineError, read_pipeline
from eddyline.runtime import RunProgress
from eddyline.storage import Store

pytestmark = pytest.mark.thorough

STREAM = """
[streams.trades]
schema = "n INT, price DOUBLE"
source = { type = "files", path = "in", format = "json" }
[rules]
files = ["rules.sql"]
"""
FILE_SINK = """
[[sinks]]
type = "file"
path = "out"
"""


@pytest.fixture(autouse=True)
def _functions_of_this_test_only():
    before = dict(DECLARED)
    yield
    DECLARED.clear()
    DECLARED.update(before)


class Project:
    """A folder with a pipeline."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "in").mkdir()
        self.rules("CREATE OR REPLACE VIEW cheap AS SELECT n FROM trades WHERE price < 10")
        self.events: list = []

    def rules(self, text: str) -> None:
        (self.folder / "rules.sql").write_text(text)

    def pipeline(self, text: str):
        return read_pipeline(text, self.folder / "eddyline.toml")

    def write(self, name: str, *numbers: int, price: float = 1.0) -> None:
        lines = [json.dumps({"n": n, "price": price}) for n in numbers]
        (self.folder / "in" / f".{name}").write_text("\n".join([*lines, ""]))
        (self.folder / "in" / f".{name}").rename(self.folder / "in" / name)

    def run(self, text: str = STREAM, **options):
        return run(self.pipeline(text), once=True, on_event=self.events.append, **options)

    def runner(self, text: str = STREAM, **options) -> PipelineRunner:
        return PipelineRunner(self.pipeline(text), on_event=self.events.append, **options)

    def out(self) -> list[int]:
        """What the file sink has, in order."""
        files = sorted((self.folder / "out").iterdir())
        return [json.loads(line)["n"] for file in files for line in file.read_text().splitlines()]

    def seen(self, kind: type) -> list:
        return [event for event in self.events if isinstance(event, kind)]


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path)


# --------------------------------------------------------------------------------------------- the way through


def test_rows_of_files_meet_the_rules_and_results_leave_in_round_order(project):
    project.write("a.json", 1, 2)
    project.write("b.json", 3, price=99.0)
    project.write("c.json", 4)
    screen = io.StringIO()
    summary = project.run(
        STREAM + FILE_SINK + "[[sinks]]\ntype = 'stdout'\nformat = 'text'\n[limits]\nrows_per_round = 1\n",
        stdout=screen,
    )
    assert (summary.n_rounds, summary.n_rows, summary.n_results, summary.n_dead) == (4, 4, 3, 0)
    assert summary.ended_by == "once"
    assert screen.getvalue() == "+ cheap: n=1\n+ cheap: n=2\n+ cheap: n=4\n"
    assert project.out() == [1, 2, 4]


def test_the_next_run_goes_on_where_the_last_one_ended(project):
    project.write("a.json", 1)
    project.run(STREAM + FILE_SINK)
    assert project.run(STREAM + FILE_SINK).n_rounds == 0
    project.write("b.json", 2)
    assert project.run(STREAM + FILE_SINK).n_rows == 1
    assert project.out() == [1, 2]
    with eddyline.open(project.folder / "home") as engine:
        assert engine.streams()[0].n_rows == 2
        assert [dict(result) for result in engine.get("cheap").latest()] == [{"n": 1}, {"n": 2}]


def test_rules_that_changed_hold_from_the_next_run_on(project):
    project.write("a.json", 1)
    project.run(STREAM + FILE_SINK)
    project.rules("CREATE OR REPLACE VIEW cheap AS SELECT n + 100 AS n FROM trades")
    project.write("b.json", 2)
    project.run(STREAM + FILE_SINK)
    assert project.out() == [1, 102]


def test_functions_beside_the_file_can_be_used(project):
    (project.folder / "runner_functions.py").write_text(
        "import eddyline\n\n@eddyline.udf(returns='int')\ndef runner_twice(n: int) -> int:\n    return 2 * n\n"
    )
    project.rules("CREATE OR REPLACE VIEW big AS SELECT runner_twice(n) AS n FROM trades")
    project.write("a.json", 21)
    project.run(STREAM + FILE_SINK + "[functions]\nmodules = ['runner_functions']\n")
    assert project.out() == [42]


def test_files_that_are_not_as_they_should_be_are_dead_letters_and_stop_nothing(project):
    (project.folder / "in" / "a.json").write_text("[{")
    (project.folder / "in" / "b.json").write_text('{"n": "x"}\nnonsense\n{"n": 3, "price": 1}\n')
    summary = project.run(STREAM + FILE_SINK)
    assert project.out() == [3]
    assert summary.n_dead == 3
    assert [event.file for event in project.seen(FileSetAside)] == ["a.json"]
    with eddyline.open(project.folder / "home") as engine:
        assert sorted(letter.error for letter in engine.dead_letters()) == [
            "FILE_CANNOT_BE_READ",
            "LINE_CANNOT_BE_READ",
            "ROW_DOES_NOT_FIT",
        ]


def test_standard_input_ends_the_run_when_it_ends(project):
    text = STREAM.replace('"files", path = "in", format = "json"', '"stdin"') + FILE_SINK
    for once in (True, False):
        lines = io.BytesIO(b'{"n": 1, "price": 1}\n{"n": 2, "price": 1}\n')
        summary = run(project.pipeline(text), once=once, stdin=lines)
        assert summary.n_rows == 2
        assert summary.ended_by == ("once" if once else "sources")
    assert project.out() == [1, 2, 1, 2]


def test_a_generator_goes_on_exactly_after_a_restart(project):
    def text(rows: int, folder: str) -> str:
        source = f'{{ type = "generator", rows = {rows}, seed = 3, on_change = "restart" }}'
        head = f'[engine]\nhome = "{folder}"\n' + STREAM.replace(
            '{ type = "files", path = "in", format = "json" }', source
        )
        return head + FILE_SINK.replace('"out"', f'"{folder}-out"') + "[limits]\nrows_per_round = 7\n"

    project.run(text(50, "whole"))
    for rows in (10, 30, 50):
        project.run(text(rows, "parts"))
    found = []
    for folder in ("whole-out", "parts-out"):
        files = sorted((project.folder / folder).iterdir())
        found.append([json.loads(line)["n"] for file in files for line in file.read_text().splitlines()])
    assert found[0] == found[1]
    assert len(found[0]) > 0


def test_an_engine_that_is_open_already_is_used_and_left_open(project):
    project.write("a.json", 1, 2)
    with eddyline.open() as engine:
        engine.stream("trades", "n INT, price DOUBLE")
        query = engine.query("SELECT n FROM trades WHERE n > 1", name="mine")
        screen = io.StringIO()
        sinks = "[[sinks]]\ntype = 'stdout'\nformat = 'text'\n" + FILE_SINK
        summary = run(project.pipeline(STREAM + sinks), engine=engine, once=True, stdout=screen)
        assert summary.n_results == 1
        assert screen.getvalue() == "+ mine: n=2\n"
        assert query.n_results == 1
    assert project.out() == [2]


# --------------------------------------------------------------------------------------------- ending


def test_a_run_ends_when_until_says_so(project):
    project.write("a.json", *range(10))
    text = STREAM + FILE_SINK + "[limits]\nrows_per_round = 2\n"
    seen: list[RunProgress] = []
    with project.runner(text) as runner:
        summary = runner.run(until=lambda progress: seen.append(progress) or progress.n_rows >= 6)
    assert summary.ended_by == "until"
    assert [progress.n_rows for progress in seen] == [2, 4, 6]
    assert project.out() == [0, 1, 2, 3, 4, 5]


def test_another_thread_may_push_and_stop(project):
    with project.runner(STREAM + FILE_SINK) as runner:
        done = []
        thread = threading.Thread(target=lambda: done.append(runner.run()))
        thread.start()
        runner.engine.push("trades", [{"n": 7, "price": 1.0}])
        runner.stop()
        thread.join(30)
    assert done[0].ended_by == "stop"
    assert project.out() == [7]


SCRIPT = """
import sys
from eddyline.pipeline import load_pipeline
from eddyline.api import run
def tell(event):
    print(type(event).__name__, flush=True)
summary = run(load_pipeline(sys.argv[1]), on_event=tell)
print(summary.ended_by, summary.signal, summary.n_rows, flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_run_after_the_round_in_flight(project, number):
    source = '{ type = "generator", rate = 1000 }'
    text = STREAM.replace('{ type = "files", path = "in", format = "json" }', source) + FILE_SINK
    (project.folder / "eddyline.toml").write_text(text)
    child = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(project.folder / "eddyline.toml")],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stdout is not None
        for _ in range(3):
            assert child.stdout.readline().strip() == "RoundCommitted"
        child.send_signal(number)
        said, _ = child.communicate(timeout=60)
    finally:
        child.kill()
    assert child.returncode == 0
    ended_by, by_signal, n_rows = said.splitlines()[-1].split()
    assert (ended_by, by_signal) == ("signal", str(int(number)))
    with eddyline.open(project.folder / "home") as engine:
        assert engine.streams()[0].n_rows == int(n_rows)
        assert engine.get("cheap").n_results == len(project.out())


def test_time_passes_while_nothing_comes(project):
    text = "[engine]\ntick = '10 ms'\n" + STREAM
    with project.runner(text) as runner:
        project.events.clear()
        runner.engine.on_event(lambda event: len(project.seen(RoundCommitted)) >= 3 and runner.stop())
        runner.run()
    assert [event.n_rows for event in project.seen(RoundCommitted)[:3]] == [0, 0, 0]


def test_progress_is_told_only_for_what_takes_long(project):
    project.write("a.json", *range(10))
    now, lines = [0.0], []

    def clock() -> float:
        now[0] += 0.2
        return now[0]

    text = STREAM + "[limits]\nrows_per_round = 1\n"
    with PipelineRunner(project.pipeline(text), on_progress=lines.append, clock=clock) as runner:
        runner.run(once=True)
    assert lines[0].seconds >= 2.0
    gaps = [after.seconds - before.seconds for before, after in itertools.pairwise(lines)]
    assert min(gaps) >= 1.0
    assert (
        RunProgress("running", 10.0, 3, 5000, 7, 1).line
        == "3 rounds, 5,000 rows, 7 results, 1 dead letters, 500 rows/s, 10 s"
    )
    assert (
        RunProgress("registering queries", 3.0, n_done=1000, n_total=5000).line
        == "registering queries 1,000 of 5,000, 3 s"
    )


# --------------------------------------------------------------------------------------------- crashes


class Killed(BaseException):
    """What a test raises where the process would have ended."""


def test_a_crash_at_any_step_loses_no_row_and_no_result_and_repeats_none(project):
    n_rows = 0
    for name in "abcdefghijkl":  # sinks have threads of their own, so that how many crashes fit is not fixed
        project.write(f"{name}.json", *range(n_rows, n_rows + 5))
        n_rows += 5
    text = STREAM + FILE_SINK.replace('"out"', '"out"\nevery = 0') + "[limits]\nrows_per_round = 2\n"
    n_crashes, left = 0, 1
    while True:
        runner, countdown = project.runner(text), [left]

        def step(name: str, countdown=countdown) -> None:
            countdown[0] -= 1
            if countdown[0] == 0:
                raise Killed(name)

        acknowledge = runner.deliveries.feeds[0]._acknowledge

        def before_acknowledging(number: int, step=step, acknowledge=acknowledge) -> None:
            step("acknowledge")
            acknowledge(number)

        runner.engine.rounds.at_step = step
        runner.deliveries.feeds[0]._acknowledge = before_acknowledging
        try:
            with runner:
                runner.run(once=True)
            break
        except Killed:
            n_crashes += 1
            left = left % 11 + 1
    assert n_crashes > 20
    assert project.out() == list(range(n_rows))
    with eddyline.open(project.folder / "home") as engine:
        assert engine.streams()[0].n_rows == n_rows


@pytest.mark.slow
def test_a_process_that_is_killed_again_and_again_loses_nothing_and_repeats_nothing(project):
    n_rows = 4_000
    for at in range(0, n_rows, 100):
        project.write(f"{at:06d}.json", *range(at, at + 100))
    text = STREAM + FILE_SINK.replace('"out"', '"out"\nevery = "20 ms"') + "[limits]\nrows_per_round = 13\n"
    (project.folder / "eddyline.toml").write_text(text)
    arguments = [sys.executable, "-c", SCRIPT, str(project.folder / "eddyline.toml")]
    for kill in range(25):
        child = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        for _ in range(1 + kill % 7):
            child.stdout.readline()
        time.sleep((kill % 5) * 0.003)
        child.kill()
        child.communicate()
    project.run(text)
    assert project.out() == list(range(n_rows))


# --------------------------------------------------------------------------------------------- faults


def test_a_round_that_cannot_be_committed_is_tried_again_with_the_same_rows(project, monkeypatch):
    project.write("a.json", 1, 2)
    put, failures = Store.put, [2]

    def full(store, kind, write, **options):
        if failures[0]:
            failures[0] -= 1
            raise StoreError("cannot write to the store", detail="No space left on device")
        return put(store, kind, write, **options)

    monkeypatch.setattr(Store, "put", full)
    project.run(STREAM + FILE_SINK)
    assert [event.message for event in project.seen(RoundFailed)] == [
        "cannot write to the store: No space left on device"
    ] * 2
    assert project.out() == [1, 2]
    [recovered] = project.seen(SourceRecovered)
    assert (recovered.stream, recovered.n_failures) == ("trades", 2)


def test_a_source_at_the_memory_limit_is_held_and_its_rows_are_tried_again(project):
    project.write("a.json", 1, 2)
    text = STREAM + FILE_SINK + '[limits]\nmemory = "1 MB"\n'
    runner = PipelineRunner(project.pipeline(text), on_event=lambda event: heard(event))

    def heard(event):
        project.events.append(event)
        if len(project.seen(RoundFailed)) == 2:
            runner.engine.rounds.memory.limit = 1 << 40

    with runner:
        runner.run(once=True)
    failures = [event.message for event in project.seen(RoundFailed)]
    assert len(failures) == 2
    assert all(
        said.startswith("these rows are refused: the process is at its memory limit: It holds")
        for said in failures
    )
    assert project.out() == [1, 2]


def test_a_run_of_what_is_there_gives_up_on_a_full_disk_and_leaves_the_rows_for_the_next(
    project, monkeypatch
):
    project.write("a.json", 1, 2)
    with monkeypatch.context() as patched:
        patched.setattr(
            Store, "put", lambda *given, **options: (_ for _ in ()).throw(StoreError("the disk is full"))
        )
        with pytest.raises(StoreError, match="the disk is full"):
            project.run(STREAM + FILE_SINK)
    project.run(STREAM + FILE_SINK)
    assert project.out() == [1, 2]


def test_a_home_that_another_process_has_taken_ends_the_run(project):
    project.write("a.json", 1)
    with project.runner() as runner:
        with contextlib.closing(sqlite3.connect(project.folder / "home" / "catalog.db")) as other:
            checksums.register(other)
            other.execute("UPDATE settings SET value = '99' WHERE name = 'epoch'")
            other.commit()
        with pytest.raises(HomeError, match="another process has opened this home"):
            runner.run()


def test_rows_whose_own_numbers_do_not_grow_are_dead_letters(project):
    (project.folder / "in" / "a.json").write_text('{"n": 1, "price": 1, "_arrival": 50}\n')
    (project.folder / "in" / "b.json").write_text('{"n": 2, "price": 1, "_arrival": 40}\n')
    (project.folder / "in" / "c.json").write_text('{"n": 3, "price": 1, "_arrival": 60}\n')
    summary = project.run(STREAM + FILE_SINK)
    assert project.out() == [1, 3]
    assert summary.n_dead == 1
    with eddyline.open(project.folder / "home") as engine:
        [letter] = engine.dead_letters()
        assert letter.row["n"] == 2
        assert letter.message == "_arrival 40 is not after the rows already seen. The last row had 50."


def test_a_summary_has_what_was_pushed_while_it_ran_and_nothing_from_before(project):
    project.write("a.json", 1)
    project.run(STREAM)
    with project.runner() as runner:
        pushed = []

        def push_once(event):
            if isinstance(event, RoundCommitted) and not pushed:
                pushed.append(True)
                threading.Thread(target=push).start()

        def push():
            runner.engine.push("trades", [{"n": 8, "price": 1.0}, {"n": 9, "price": 99.0}])
            runner.stop()

        runner.engine.on_event(push_once)
        project.write("b.json", 2)
        summary = runner.run()
    assert (summary.n_rounds, summary.n_rows, summary.n_results) == (2, 3, 2)


def test_a_folder_that_vanishes_is_waited_for(project):
    with project.runner(STREAM + FILE_SINK) as runner:
        (project.folder / "in").rmdir()

        def mend(event):
            if isinstance(event, SourceFailed):
                (project.folder / "in").mkdir()
                project.write("a.json", 5)
            elif isinstance(event, RoundCommitted):
                runner.stop()

        runner.engine.on_event(mend)
        runner.run()
    assert [event.stream for event in project.seen(SourceFailed)] == ["trades"]
    assert project.out() == [5]


def test_a_stream_that_is_dropped_meanwhile_stops_no_other(project):
    other = '[streams.other]\nschema = "m INT"\nsource = { type = "generator", rate = 1000 }\n'
    project.write("a.json", 1)
    with project.runner(STREAM + other) as runner:

        def change(event):
            if isinstance(event, RoundCommitted) and len(project.seen(RoundCommitted)) == 2:
                runner.engine.drop("cheap")
                runner.engine.drop_stream("trades")
            elif project.seen(SourceClosed) and len(project.seen(RoundCommitted)) > 5:
                runner.stop()

        runner.engine.on_event(change)
        runner.run()
        assert [stream.name for stream in runner.engine.streams()] == ["other"]
    assert [event.stream for event in project.seen(SourceClosed)] == ["trades"]
    assert not project.seen(SourceFailed)


def test_a_stream_that_gets_a_column_meanwhile_is_read_on_in_its_new_schema(project):
    project.write("a.json", 1)
    with project.runner() as runner:

        def change(event):
            if isinstance(event, RoundCommitted) and len(project.seen(RoundCommitted)) == 1:
                runner.engine.stream("trades", "n INT, price DOUBLE, note STRING")
                runner.engine.query("SELECT note FROM trades", name="notes")
                (project.folder / "in" / "b.json").write_text('{"n": 2, "price": 1, "note": "x"}\n')
            elif isinstance(event, RoundCommitted):
                runner.stop()

        runner.engine.on_event(change)
        runner.run()
        assert runner.engine.get("notes").latest() == [{"note": "x"}]


# --------------------------------------------------------------------------------------------- another source


def test_another_source_is_refused_until_the_file_says_what_is_meant(project):
    project.write("a.json", 1)
    project.write("b.json", 2)
    project.run(STREAM)
    (project.folder / "in").rename(project.folder / "moved")
    moved = STREAM.replace('path = "in"', 'path = "moved"') + FILE_SINK
    with pytest.raises(PipelineError) as refused:
        project.run(moved)
    assert [f"{m.place.line}:{m.place.column} {m.problem}" for m in refused.value.mistakes] == [
        "4:35 stream trades was fed by another source so far"
    ]
    (project.folder / "moved" / "c.json").write_text('{"n": 3, "price": 1}\n')
    project.run(moved.replace('"json"', '"json", on_change = "continue"'))
    assert project.out() == [3]
    project.run(moved)
    assert project.out() == [3]


def test_another_source_may_be_read_from_its_beginning(project):
    project.write("a.json", 1)
    project.run(STREAM)
    (project.folder / "other").mkdir()
    (project.folder / "other" / "a.json").write_text('{"n": 2, "price": 1}\n')
    other = STREAM.replace(
        'path = "in", format = "json"', 'path = "other", format = "json", on_change = "restart"'
    )
    for _ in range(2):
        project.run(other + FILE_SINK)
    assert project.out() == [2]


# --------------------------------------------------------------------------------------------- sinks


def test_a_new_sink_begins_now_or_at_the_beginning_of_what_is_kept(project):
    project.write("a.json", 1)
    project.run(STREAM)
    project.write("b.json", 2)
    early = FILE_SINK.replace('"file"', '"file"\nname = "early"\nstart = "beginning"').replace(
        '"out"', '"early"'
    )
    project.run(STREAM + FILE_SINK + early)
    assert project.out() == [2]
    [file] = (project.folder / "early").iterdir()
    assert [json.loads(line)["n"] for line in file.read_text().splitlines()] == [1, 2]


def test_a_sink_gets_only_the_queries_it_wants(project):
    project.rules(
        "CREATE OR REPLACE VIEW cheap AS SELECT n FROM trades WHERE price < 10;"
        "CREATE OR REPLACE VIEW other AS SELECT n + 100 AS n FROM trades"
    )
    project.write("a.json", 1)
    project.run(STREAM + FILE_SINK + "queries = ['oth*']\nstreams = ['trades']\n")
    assert project.out() == [101]


def test_a_sink_that_fails_is_tried_again_and_stops_no_other(project, monkeypatch):
    from eddyline.delivery.sinks import feed

    monkeypatch.setattr(feed, "FIRST_PAUSE_S", 0.001)
    project.write("a.json", 1, 2, 3)
    good = FILE_SINK.replace('"file"', '"file"\nname = "good"').replace('"out"', '"good"')
    text = STREAM + FILE_SINK.replace('"out"', '"out"\nevery = 0') + good + "[limits]\nrows_per_round = 1\n"
    with project.runner(text) as runner:
        sink, failures = runner.deliveries.feeds[0].sink, [3]
        put = sink._write_file

        def fail(name, write):
            if failures[0]:
                failures[0] -= 1
                raise OSError(28, "No space left on device")
            put(name, write)

        sink._write_file = fail
        runner.run(once=True)
    assert [event.sink for event in project.seen(SinkFailed)] == ["file"] * 3
    assert project.seen(SinkFailed)[0].message == "sink file cannot write its files: No space left on device"
    assert [(event.sink, event.n_failures) for event in project.seen(SinkRecovered)] == [("file", 3)]
    assert project.out() == [1, 2, 3]
    assert len(list((project.folder / "good").iterdir())) == 1


def test_a_run_of_what_is_there_fails_if_a_sink_cannot_have_its_results_and_they_come_next_time(
    project, monkeypatch
):
    from eddyline.delivery.sinks import feed

    monkeypatch.setattr(feed, "FIRST_PAUSE_S", 0.001)
    project.write("a.json", 1)
    text = STREAM + FILE_SINK
    with project.runner(text) as runner:
        runner.deliveries.feeds[0].sink._write_file = lambda name, write: (_ for _ in ()).throw(
            OSError(28, "No space left on device")
        )
        with pytest.raises(SinkError, match="sink file cannot write its files"):
            runner.run(once=True)
    project.run(text)
    assert project.out() == [1]


def test_a_sink_overtaken_by_retention_is_told_how_much_it_lost(project):
    project.write("a.json", 1, 2)
    project.run(STREAM + FILE_SINK)
    with eddyline.open(project.folder / "home") as engine:
        engine.push("trades", [{"n": 7, "price": 1.0}, {"n": 8, "price": 1.0}])
        durable = engine.rounds.durable
        durable.rounds.files.unlist([file.name for file in durable.rounds.files.all("outbox")])
    project.run(STREAM + FILE_SINK)
    assert project.seen(SinkOvertaken) == [SinkOvertaken(2, "file", 2)]
    project.events.clear()
    project.run(STREAM + FILE_SINK)
    assert project.seen(SinkOvertaken) == []


def test_a_sink_that_is_behind_is_not_told_of_rounds_it_has_had_when_others_were_forgotten(project):
    project.write("a.json", 1)
    project.run(STREAM + FILE_SINK)  # round 1, which the sink has
    retention = Retention(round_count=1, captures_us=10**15)
    with eddyline.open(project.folder / "home", retention=retention) as engine:
        for _ in range(3):
            engine.tick()
        durable = engine.rounds.durable
        durable.rounds.files.unlist([file.name for file in durable.rounds.files.all("outbox")])
        durable.collect_garbage()
        assert [done.round.number for done in durable.rounds.recent(9)] == [4, 1]
    project.run(STREAM + FILE_SINK)
    assert project.seen(SinkOvertaken) == []


def test_results_of_a_query_that_was_dropped_before_they_were_delivered_keep_its_name(project):
    project.write("a.json", 1)
    project.run(STREAM + FILE_SINK)
    with eddyline.open(project.folder / "home") as engine:
        engine.push("trades", [{"n": 7, "price": 1.0}])
        engine.drop("cheap")
    project.rules("")
    project.run(STREAM + FILE_SINK + "queries = ['cheap']\nstreams = ['trades']\n")
    files = sorted((project.folder / "out").iterdir())
    assert [json.loads(line)["_query"] for file in files for line in file.read_text().splitlines()] == [
        "cheap",
        "cheap",
    ]


def test_a_run_ends_when_whoever_reads_standard_output_has_gone(project):
    project.write("a.json", 1)
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as screen:
        summary = run(project.pipeline(STREAM + "[[sinks]]\ntype = 'stdout'\n"), stdout=screen)
    assert summary.ended_by == "reader"
    screen = io.StringIO()
    run(project.pipeline(STREAM + "[[sinks]]\ntype = 'stdout'\n"), once=True, stdout=screen)
    assert json.loads(screen.getvalue())["n"] == 1


def test_the_example_runs(tmp_path):
    import shutil

    from eddyline.pipeline import load_pipeline

    shutil.copytree(Path(__file__).parents[2] / "examples" / "market", tmp_path / "market")
    screen = io.StringIO()
    summary = run(load_pipeline(tmp_path / "market" / "eddyline.toml"), once=True, stdout=screen)
    assert (summary.n_rows, summary.n_dead) == (20_000, 0)
    assert "+ cheap_tech: " in screen.getvalue()
    assert "+ watch-ann-S007: " in screen.getvalue()
