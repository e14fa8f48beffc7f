"""Sinks at work beside the rounds: alone in their threads, each with what is meant for it, through faults and kills."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import eddyline
from eddyline.api import PipelineRunner, run
from eddyline.catalog import ListedFile
from eddyline.delivery.sinks import SinkError, feed
from eddyline.events import RoundCommitted, SinkFailed, SinkOvertaken, SinkRefused, SinkUnknown
from eddyline.pipeline import PipelineError, check_machine, read_pipeline
from eddyline.rules import RulesError
from eddyline.runtime import deliveries, supplies
from eddyline.storage import OUTBOX, write_parts
from tests.webhook_receiver import LONGEST_S, Receiver, Reply, receiver

STREAM = """
[streams.trades]
schema = "n INT, price DOUBLE"
[rules]
files = ["rules.sql"]
"""
ALERT = (
    "CREATE OR REPLACE VIEW cheap TBLPROPERTIES (per = 'n', severity = 'critical', message = '{n} is cheap') AS "
    "SELECT n, price FROM trades WHERE price < 10"
)


def webhook(name: str, hook: Receiver, more: str = "") -> str:
    return f"[[sinks]]\ntype = 'webhook'\nname = '{name}'\nurl = '{hook.url}'\nallow_private = true\n{more}\n"


class Project:
    """A folder with a pipeline whose rows are pushed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rules(ALERT)
        self.events: list = []
        self.told = threading.Condition()

    def rules(self, text: str) -> None:
        (self.folder / "rules.sql").write_text(text)

    def pipeline(self, text: str):
        return read_pipeline(text, self.folder / "eddyline.toml")

    def hear(self, event) -> None:
        with self.told:
            self.events.append(event)
            self.told.notify_all()

    def seen(self, kind: type) -> list:
        with self.told:
            return [event for event in self.events if isinstance(event, kind)]

    def wait_for(self, kind: type, n: int = 1) -> list:
        with self.told:
            there = self.told.wait_for(lambda: len(self.seen(kind)) >= n, LONGEST_S)
            assert there, self.events
        return self.seen(kind)

    @contextmanager
    def running(self, text: str, **options) -> Iterator[PipelineRunner]:
        """A run in a thread; ends when the block does."""
        with PipelineRunner(self.pipeline(text), on_event=self.hear, **options) as runner:
            errors: list[BaseException] = []

            def work() -> None:
                try:
                    runner.run(ends_with_sources=False)
                except BaseException as error:
                    errors.append(error)

            thread = threading.Thread(target=work)
            thread.start()
            try:
                yield runner
            finally:
                runner.stop()
                thread.join(LONGEST_S)
            assert not thread.is_alive()
            if errors:
                raise errors[0]


def push(runner: PipelineRunner, *numbers: int) -> None:
    """Each a round of its own."""
    for n in numbers:
        runner.engine.push("trades", [{"n": n, "price": 1.0}])


def until(what) -> None:
    """Wait for something that will be so."""
    for _ in range(LONGEST_S * 100):
        if what():
            return
        time.sleep(0.01)
    raise AssertionError(f"{what} has not come")


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.setattr(feed, "FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr(deliveries, "LONGEST_DRAIN_S", 0.1)
    return Project(tmp_path)


@pytest.fixture
def hook():
    with receiver() as made:
        yield made


@pytest.fixture
def other():
    with receiver() as made:
        yield made


# --------------------------------------------------------------------------------------------- one beside the other


def test_a_sink_that_hangs_delays_neither_rounds_nor_another_sink(project, hook, other):
    hook.answer(Reply(do="hang"))
    with project.running(
        STREAM + webhook("dead", hook, "timeout = '10 minutes'") + webhook("live", other)
    ) as runner:
        push(runner, *range(20))
        other.wait_for_ids(*range(1, 21))
        assert len(project.seen(RoundCommitted)) == 20
        assert len(hook.requests) == 1
        dead, live = runner.sinks()
        assert (dead.name, dead.cursor, dead.n_behind) == ("dead", 0, 20)
        until(lambda: runner.sinks()[1].n_behind == 0)
        assert (live.name, live.is_failing) == ("live", False)
    hook.released.set()
    hook.answer(200)
    with project.running(STREAM + webhook("dead", hook) + webhook("live", other)):
        hook.wait_for_ids(*range(1, 21))
    assert hook.once_each() == list(range(1, 21)), "it had them all in the next run"
    assert other.once_each() == list(range(1, 21))


def test_a_sink_that_fails_says_so_and_has_everything_in_the_end(project, hook, other):
    closes = Reply(do="close")  # the first time it may be that the connection was idle for too long
    hook.answer(503, Reply(429, (("Retry-After", "0"),)), closes, closes, 200)
    with project.running(STREAM + webhook("ops", hook) + webhook("live", other)) as runner:
        push(runner, 1, 2)
        hook.wait_for_ids(1, 2)
        other.wait_for_ids(1, 2)
        until(lambda: not runner.sinks()[0].is_failing)
    failed = project.seen(SinkFailed)
    assert [event.sink for event in failed] == ["ops"] * 3
    assert failed[0].message == f"sink ops at http://127.0.0.1:{hook.port} answered 503 Service Unavailable"
    assert hook.deliveries[:5] == ["1-1"] * 5
    assert hook.once_each() == [1, 2]


def test_a_run_of_what_is_there_waits_for_its_sinks(project, hook):
    project.rules(ALERT)
    (project.folder / "in").mkdir()
    (project.folder / "in" / "a.json").write_text("".join(f'{{"n": {n}, "price": 1}}\n' for n in range(250)))
    text = STREAM.replace('DOUBLE"', 'DOUBLE"\nsource = { type = "files", path = "in", format = "json" }')
    hook.answer(500, 500, 200)
    run(project.pipeline(text + webhook("ops", hook)), once=True, on_event=project.hear)
    assert hook.once_each() == list(range(1, 251))
    assert {len(request.ids) for request in hook.requests} == {100, 50}


def test_a_sink_is_tried_again_also_if_its_pause_is_over_before_anyone_looks(project, hook, monkeypatch):
    monkeypatch.setattr("eddyline.delivery.sinks.feed.FIRST_PAUSE_S", 0.0)
    project.rules("CREATE OR REPLACE VIEW every TBLPROPERTIES (severity = 'info') AS SELECT n FROM trades")
    text = STREAM.replace('DOUBLE"', 'DOUBLE"\nsource = { type = "generator", rows = 5 }')
    hook.answer(500, 500, 200)
    run(project.pipeline(text + webhook("ops", hook)), once=True)
    assert len(hook.requests) == 3


def test_a_run_of_what_is_there_fails_if_nobody_takes_it_and_the_next_one_goes_on(project, hook):
    text = STREAM.replace('DOUBLE"', 'DOUBLE"\nsource = { type = "generator", rows = 5 }')
    project.rules("CREATE OR REPLACE VIEW every TBLPROPERTIES (severity = 'info') AS SELECT n FROM trades")
    hook.answer(500)
    with pytest.raises(SinkError, match="answered 500"):
        run(project.pipeline(text + webhook("ops", hook)), once=True)
    hook.answer(200)
    run(project.pipeline(text + webhook("ops", hook)), once=True)
    assert hook.once_each() == [1, 2, 3, 4, 5]


def test_a_receiver_that_asks_for_an_hour_ends_a_run_of_what_is_there(project, hook):
    text = STREAM.replace('DOUBLE"', 'DOUBLE"\nsource = { type = "generator", rows = 5 }')
    project.rules("CREATE OR REPLACE VIEW every TBLPROPERTIES (severity = 'info') AS SELECT n FROM trades")
    hook.answer(Reply(429, (("Retry-After", "3600"),)))
    with pytest.raises(SinkError, match="429"):
        run(project.pipeline(text + webhook("ops", hook)), once=True)
    assert len(hook.requests) == 1


def test_results_of_all_tasks_of_a_round_leave(project):
    text = STREAM + "[[sinks]]\ntype = 'file'\npath = 'out'\nevery = 0\nstart = 'beginning'\n"
    run(project.pipeline(text), once=True)
    with eddyline.open(project.folder / "home") as engine:
        engine.push("trades", [{"n": 1, "price": 1.0}])
        durable = engine.rounds.durable
        [file] = durable.rounds.files.all(OUTBOX)
        parts = durable.parts(file)
        twin = durable.store.put(OUTBOX, lambda out: write_parts(out, parts))
        durable.rounds.list_letters(ListedFile(twin.name, OUTBOX, 1, twin.nbytes, twin.checksum, 7), 0)
    run(project.pipeline(text), once=True)
    lines = [line for path in (project.folder / "out").iterdir() for line in path.read_text().splitlines()]
    assert sorted(json.loads(line)["_arrival"] for line in lines) == [1, 8]


# --------------------------------------------------------------------------------------------- who gets what


def test_a_query_that_names_sinks_is_delivered_to_exactly_these(project, hook, other):
    project.rules(
        "CREATE OR REPLACE VIEW both AS SELECT n FROM trades;"
        "CREATE OR REPLACE VIEW one TBLPROPERTIES (deliver = 'a') AS SELECT n + 100 AS n FROM trades;"
        "CREATE OR REPLACE VIEW two TBLPROPERTIES (deliver = 'a, b') AS SELECT n + 200 AS n FROM trades"
    )
    files = "".join(f"[[sinks]]\ntype = 'file'\nname = '{x}'\npath = '{x}'\nevery = 0\n{y}" for x, y in
                    (("a", "queries = ['none']\n"), ("b", "")))  # fmt: skip
    with project.running(STREAM + files) as runner:
        push(runner, 1)
        until(lambda: all(sink.n_behind == 0 for sink in runner.sinks()))

    def found(name: str) -> list[int]:
        lines = [line for path in (project.folder / name).iterdir() for line in path.read_text().splitlines()]
        return sorted(json.loads(line)["n"] for line in lines)

    assert found("a") == [101, 201], "though its own filter wants none of them"
    assert found("b") == [1, 201]


def test_a_query_delivered_to_a_sink_of_alerts_fires_with_every_row(project, hook, other):
    project.rules(
        "CREATE OR REPLACE VIEW plain AS SELECT n FROM trades;"
        "CREATE OR REPLACE VIEW sent TBLPROPERTIES (deliver = 'ops') AS SELECT n + 100 AS n FROM trades"
    )
    with project.running(
        STREAM + webhook("ops", hook) + webhook("rows", other, "takes = 'results'")
    ) as runner:
        push(runner, 1, 2)
        hook.wait_for_ids(1, 2)
        other.wait_for(2)
    assert [m["row"]["n"] for request in hook.requests for m in request.document["messages"]] == [101, 102]
    assert [r["query"] for request in other.requests for r in request.document["results"]] == [
        "plain",
        "plain",
    ]


def test_a_rule_for_a_sink_that_is_not_there_is_refused_with_the_nearest(project, hook):
    project.rules("CREATE OR REPLACE VIEW one TBLPROPERTIES (deliver = 'osp, ops') AS SELECT n FROM trades")
    with pytest.raises(RulesError) as refused:
        run(project.pipeline(STREAM + webhook("ops", hook)), once=True)
    [mistake] = refused.value.mistakes
    assert mistake.problem == "property deliver: there is no sink osp"
    assert (mistake.hint, mistake.place.line) == ("Did you mean ops?", 1)


def test_a_query_registered_otherwise_may_name_a_sink_that_is_not_there_and_it_is_told_once(project, hook):
    with project.running(STREAM + webhook("rows", hook, "takes = 'results'")) as runner:
        runner.engine.query("SELECT n FROM trades", name="mine", deliver="nowhere")
        push(runner, 1, 2)
        assert [(said.query, said.sink) for said in project.wait_for(SinkUnknown)] == [("mine", "nowhere")]
        hook.wait_for(2)
    assert len(project.seen(SinkUnknown)) == 1
    assert {r["query"] for request in hook.requests for r in request.document["results"]} == {"cheap"}


def test_results_go_where_their_query_said_when_they_were_found(project):
    both = "".join(f"[[sinks]]\ntype = 'file'\nname = '{x}'\npath = '{x}'\nevery = 0\n" for x in "ab")
    run(project.pipeline(STREAM + both), once=True)
    with eddyline.open(project.folder / "home") as engine:
        query = engine.query("SELECT n FROM trades", name="mine", deliver="a")
        engine.push("trades", [{"n": 1, "price": 99.0}])
        engine.replace(query, "SELECT n FROM trades", deliver="b")
        engine.push("trades", [{"n": 2, "price": 99.0}])
    run(project.pipeline(STREAM + both), once=True)
    found = {
        name: [json.loads(line)["n"] for path in (project.folder / name).iterdir() for line in path.open()]
        for name in "ab"
    }
    assert found == {"a": [1], "b": [2]}


def test_alerts_leave_as_lines_and_files_too(project):
    screen = io.StringIO()
    sinks = (
        "[[sinks]]\ntype = 'stdout'\nformat = 'text'\ntakes = 'alerts'\n"
        "[[sinks]]\ntype = 'file'\npath = 'out'\nevery = 0\ntakes = 'alerts'\n"
        "[[sinks]]\ntype = 'file'\nname = 'rows'\npath = 'out'\nevery = 0\n"
    )
    with project.running(STREAM + sinks, stdout=screen) as runner:
        push(runner, 7)
        until(lambda: all(sink.n_behind == 0 for sink in runner.sinks()))
    assert screen.getvalue() == "firing critical cheap (n=7): 7 is cheap\n"
    alerts, rows = sorted((project.folder / "out").iterdir())
    assert alerts.name.startswith("file+alerts-")
    assert json.loads(alerts.read_text())["message"] == "7 is cheap"
    assert json.loads(rows.read_text())["n"] == 7


def test_a_new_sink_of_alerts_begins_now_or_at_the_beginning_of_what_is_kept(project, hook, other):
    with project.running(STREAM) as runner:
        push(runner, 1, 2)
    sinks = webhook("now", hook) + webhook("early", other, "start = 'beginning'")
    with project.running(STREAM + sinks) as runner:
        push(runner, 3)
        other.wait_for_ids(1, 2, 3)
        hook.wait_for_ids(3)
    assert (hook.once_each(), other.once_each()) == ([3], [1, 2, 3])


# --------------------------------------------------------------------------------------------- refused, overtaken


def test_what_a_receiver_refuses_becomes_dead_letters_that_stay(project, hook):
    hook.answer(Reply(422, body=b"no such channel"), 200)
    with project.running(STREAM + webhook("ops", hook)) as runner:
        push(runner, 1, 2)
        hook.wait_for_ids(2)
        project.wait_for(SinkRefused)
    why = "sink ops: the receiver answered 422 Unprocessable Entity: no such channel"
    assert project.seen(SinkRefused) == [
        SinkRefused(project.seen(SinkRefused)[0].round_number, "ops", 1, why)
    ]
    assert project.seen(SinkFailed) == []
    with eddyline.open(project.folder / "home") as engine:
        [letter] = engine.dead_letters()
        assert (letter.error, letter.message, letter.stream, letter.query) == (
            "WEBHOOK_REFUSED", why, "trades", "cheap"
        )  # fmt: skip
        assert (letter.row["id"], letter.row["message"]) == (1, "1 is cheap")
        assert engine.rounds.dead_letters.n_total == 1
        assert engine.dead_letters(query="cheap") == [letter]


def test_a_sink_is_told_how_many_messages_retention_has_taken(project, hook):
    run(project.pipeline(STREAM + webhook("ops", hook)), once=True)
    with eddyline.open(project.folder / "home") as engine:
        for n in range(5):
            engine.push("trades", [{"n": n, "price": 1.0}])
        engine.rounds.durable.alerts.forget(4, 1_000)
    run(project.pipeline(STREAM + webhook("ops", hook)), once=True, on_event=project.hear)
    assert [event.n_results for event in project.seen(SinkOvertaken)] == [3]
    assert hook.once_each() == [4, 5]
    project.events.clear()
    run(project.pipeline(STREAM + webhook("ops", hook)), once=True, on_event=project.hear)
    assert project.seen(SinkOvertaken) == []


def test_results_a_sink_was_given_and_could_not_make_last_are_told_if_retention_has_taken_them(project):
    text = STREAM + "[[sinks]]\ntype = 'file'\npath = 'out'\nevery = '1 hour'\n"
    with project.running(text) as runner:
        given, durable = runner.deliveries.feeds[0], runner.engine.rounds.durable
        put, failures = given.sink._write_file, [1]

        def fail_once(name, write):
            if failures:
                raise OSError(28, f"No space left on device ({failures.pop()})")
            put(name, write)

        given.sink._write_file = fail_once
        push(runner, 1, 2, 3)
        until(lambda: given.read_to == 3)
        with runner.engine.rounds.lock:
            durable.rounds.files.unlist([file.name for file in durable.rounds.files.all(OUTBOX)[:2]])
        given.sink._every_s = 0.0
        push(runner, 4)
        project.wait_for(SinkFailed)
        until(lambda: runner.sinks()[0].n_behind == 0)
    assert [event.n_results for event in project.seen(SinkOvertaken)] == [2]
    lines = [line for path in sorted((project.folder / "out").iterdir()) for line in path.open()]
    assert [json.loads(line)["n"] for line in lines] == [3, 4]


# --------------------------------------------------------------------------------------------- in memory


def memory_run(project: Project, text: str, n_rows: int, **options):
    text = text.replace(
        'DOUBLE"',
        f'DOUBLE"\nsource = {{ type = "generator", rows = {n_rows}, columns = {{ n = {{ sequence = 0 }} }} }}',
    )
    engine = eddyline.open()
    engine.stream("trades", "n INT, price DOUBLE")
    engine.query("SELECT n FROM trades", name="all", severity="info")
    return PipelineRunner(
        project.pipeline(text + "[limits]\nrows_per_round = 1\n"),
        engine=engine,
        apply=False,
        on_event=project.hear,
    )


def test_a_slow_sink_of_an_engine_in_memory_loses_nothing(project, monkeypatch):
    monkeypatch.setattr(supplies, "ROUNDS_IN_MEMORY", 3)
    sink = "[[sinks]]\ntype = 'file'\npath = 'out'\nevery = 0\n"
    with memory_run(project, STREAM.replace('[rules]\nfiles = ["rules.sql"]\n', "") + sink, 50) as runner:
        given = runner.deliveries.feeds[0].sink
        write = given.write
        given.write = lambda *each: (time.sleep(0.002), write(*each))
        runner.run(once=True)
    lines = [line for path in sorted((project.folder / "out").iterdir()) for line in path.open()]
    assert [json.loads(line)["n"] for line in lines] == list(range(50))
    assert project.seen(SinkOvertaken) == []


def test_a_sink_of_an_engine_in_memory_that_fails_is_told_what_it_lost(project, monkeypatch):
    monkeypatch.setattr(supplies, "ROUNDS_IN_MEMORY", 3)
    sink = "[[sinks]]\ntype = 'file'\npath = 'out'\nevery = 0\n"
    with memory_run(project, STREAM.replace('[rules]\nfiles = ["rules.sql"]\n', "") + sink, 50) as runner:
        given = runner.deliveries.feeds[0].sink
        put = given._write_file

        def full(name, write):
            if len(project.seen(RoundCommitted)) < 40:
                raise OSError(28, "No space left on device")
            put(name, write)

        given._write_file = full
        runner.run(once=True)
    lines = [line for path in sorted((project.folder / "out").iterdir()) for line in path.open()]
    numbers = [json.loads(line)["n"] for line in lines]
    assert numbers == sorted(set(numbers))  # a slow sink may be overtaken again
    assert numbers[-1] == 49
    assert numbers[0] > 0
    assert sum(event.n_results for event in project.seen(SinkOvertaken)) == 50 - len(numbers)
    assert project.seen(SinkFailed)


def test_what_a_sink_was_given_and_could_not_make_last_counts_as_lost_if_memory_has_it_no_more(
    project, monkeypatch
):
    monkeypatch.setattr(supplies, "ROUNDS_IN_MEMORY", 3)
    sink = "[[sinks]]\ntype = 'file'\npath = 'out'\nevery = '1 hour'\n"
    with memory_run(project, STREAM.replace('[rules]\nfiles = ["rules.sql"]\n', "") + sink, 20) as runner:
        given = runner.deliveries.feeds[0].sink
        put, failures = given._write_file, [1]

        def fail_once(name, write):
            if failures:
                raise OSError(28, f"No space left on device ({failures.pop()})")
            put(name, write)

        given._write_file = fail_once
        runner.run(once=True)
    lines = [line for path in sorted((project.folder / "out").iterdir()) for line in path.open()]
    assert [json.loads(line)["n"] for line in lines] == [17, 18, 19]
    assert [event.n_results for event in project.seen(SinkOvertaken)] == [17]


def test_alerts_of_an_engine_in_memory_are_delivered_too(project, hook):
    with memory_run(
        project, STREAM.replace('[rules]\nfiles = ["rules.sql"]\n', "") + webhook("ops", hook), 5
    ) as runner:
        runner.run(once=True)
    assert hook.once_each() == [1, 2, 3, 4, 5]


# --------------------------------------------------------------------------------------------- kills


class Killed(BaseException):
    """What a test raises where the process would have ended."""


@pytest.mark.thorough
def test_a_kill_between_the_answer_and_the_cursor_repeats_the_same_delivery(project, hook):
    text = STREAM.replace('DOUBLE"', 'DOUBLE"\nsource = { type = "generator", rows = 40 }')
    text += webhook("ops", hook, "batch = 7") + "[limits]\nrows_per_round = 3\n"
    project.rules("CREATE OR REPLACE VIEW every TBLPROPERTIES (severity = 'info') AS SELECT n FROM trades")
    n_kills, left = 0, 1
    while True:
        runner, countdown = PipelineRunner(project.pipeline(text)), [left]
        given = runner.deliveries.feeds[0]
        acknowledge = given._acknowledge

        def killed(number: int, countdown=countdown, acknowledge=acknowledge) -> None:
            countdown[0] -= 1
            if countdown[0] == 0:
                raise Killed
            acknowledge(number)

        given._acknowledge = killed
        try:
            with runner:
                runner.run(once=True)
            break
        except Killed:
            n_kills += 1
            left = left % 3 + 1
    assert n_kills >= 3
    assert hook.once_each() == list(range(1, 41))
    named: dict[str, list[int]] = {}
    for request in hook.requests:
        assert named.setdefault(request.delivery, request.ids) == request.ids
    assert len(hook.requests) > len(named)


SCRIPT = """
import sys
from eddyline.pipeline import load_pipeline
from eddyline.api import run
run(load_pipeline(sys.argv[1]), once=True)
"""


@pytest.mark.slow
def test_a_process_that_is_killed_again_and_again_leaves_a_receiver_with_each_alert_once(project, hook):
    text = STREAM.replace('DOUBLE"', 'DOUBLE"\nsource = { type = "generator", rows = 4_000 }')
    text += webhook("ops", hook, "batch = 20") + "[limits]\nrows_per_round = 13\n"
    project.rules("CREATE OR REPLACE VIEW every TBLPROPERTIES (severity = 'info') AS SELECT n FROM trades")
    (project.folder / "eddyline.toml").write_text(text)
    command = [sys.executable, "-c", SCRIPT, str(project.folder / "eddyline.toml")]
    for kill in range(12):
        child = subprocess.Popen(command)
        hook.wait_for(len(hook.requests) + 1 + kill % 5)
        child.kill()
        child.wait()
    subprocess.run(command, check=True, timeout=600)
    assert hook.once_each() == list(range(1, 4_001))


# --------------------------------------------------------------------------------------------- secrets and addresses


HUSH = "correct-horse-battery"
SECRETIVE = """
[[sinks]]
type = "webhook"
name = "ops"
url = "${env:HOOK_URL}"
allow_private = true
secret = { env = "HOOK_KEY" }
headers = { Authorization = "Bearer ${env:HOOK_TOKEN}", X-More = { file = "more" } }
"""


@pytest.fixture
def hush(project, hook, monkeypatch) -> list[str]:
    monkeypatch.setenv("HOOK_URL", f"{hook.url}/{HUSH}-url")
    monkeypatch.setenv("HOOK_KEY", f"{HUSH}-key")
    monkeypatch.setenv("HOOK_TOKEN", f"{HUSH}-token")
    (project.folder / "more").write_text(f"{HUSH}-more\n")
    return [HUSH, f"127.0.0.1:{hook.port}"]


def test_no_secret_of_a_webhook_is_kept_or_told(project, hook, hush, caplog, capfd):
    hook.answer(Reply(503, body=HUSH.encode()), Reply(400, body=HUSH.encode()), 500, 200)
    caplog.set_level(logging.DEBUG)
    pipeline = project.pipeline(STREAM + SECRETIVE)
    with project.running(STREAM + SECRETIVE) as runner:
        push(runner, 1, 2)
        hook.wait_for_ids(2)
        project.wait_for(SinkFailed, 2)
        said = [repr(runner.sinks()), repr(pipeline), str(runner.engine.get("cheap").explain())]
        said += [repr(letter) for letter in runner.engine.dead_letters()]
    assert hook.requests[0].headers["Authorization"] == f"Bearer {HUSH}-token"
    assert hook.requests[0].headers["X-More"] == f"{HUSH}-more"
    assert len(project.seen(SinkRefused)) == 1
    said += [repr(event) for event in project.events] + [caplog.text, *capfd.readouterr()]
    said += [
        path.read_bytes().decode("latin-1") for path in (project.folder / "home").rglob("*") if path.is_file()
    ]
    for secret in hush:
        assert not any(secret in each for each in said)


def test_what_is_missing_on_this_machine_is_told_before_anything_runs(project, monkeypatch):
    for name in ("HOOK_URL", "HOOK_KEY", "HOOK_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(PipelineError) as refused:
        check_machine(project.pipeline(STREAM + SECRETIVE))
    assert [mistake.problem for mistake in refused.value.mistakes] == [
        "the environment variable HOOK_URL is not set",
        "the environment variable HOOK_KEY is not set",
        "the environment variable HOOK_TOKEN is not set",
        "the secret file more cannot be read",
    ]


@pytest.mark.parametrize(
    "url", ["http://127.1/x", "http://[::ffff:10.0.0.1]/x", "http://2130706433/x", "nonsense"]
)
def test_a_secret_url_is_judged_before_anything_runs_and_not_shown(project, monkeypatch, url):
    monkeypatch.setenv("HOOK_URL", url)
    text = STREAM + "[[sinks]]\ntype = 'webhook'\nurl = '${env:HOOK_URL}'\n"
    with pytest.raises(PipelineError) as refused:
        check_machine(project.pipeline(text))
    assert url not in str(refused.value)
    assert "${env:HOOK_URL}" in str(refused.value)


def test_a_private_name_is_refused_when_it_is_looked_up(project, hook):
    text = STREAM + f"[[sinks]]\ntype = 'webhook'\nname = 'ops'\nurl = 'http://ip6-localhost.:{hook.port}/'\n"
    with project.running(text) as runner:
        push(runner, 1)
        said = project.wait_for(SinkFailed)[0].message
    assert "not on the public internet" in said or "cannot be resolved" in said
    assert hook.requests == []
