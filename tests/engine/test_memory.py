"""At the limit of the process's memory rows are refused, and nothing has happened; then others go on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import eddyline
from eddyline import Engine
from eddyline.engine import after_commit
from eddyline.engine.memory import _container_limits, machine_limit, resident_bytes
from eddyline.errors import ClosedError, MemoryLimitError, PropertyError
from eddyline.events import MemoryRanOut
from tests.server.served import in_process

pytestmark = pytest.mark.thorough

SPARE = 20 << 20


@pytest.fixture(params=[False, True], ids=["in memory", "with a home"])
def engine(request, tmp_path: Path):
    with eddyline.open(tmp_path / "home" if request.param else None) as opened:
        for name in ("trades", "news"):
            opened.stream(name, "sym STRING, n BIGINT")
        opened.query("SELECT sym FROM trades WHERE n > 5", name="many")
        opened.query(
            "SELECT t.n FROM recent(trades, 100) t JOIN recent(news, 100) w ON t.sym = w.sym", name="met"
        )
        opened.push("trades", [("a", 7)])
        yield opened


def many_rows() -> pa.Table:
    n = 1_000_000
    return pa.table({"sym": pa.repeat("a", n), "n": np.zeros(n, np.int64)})


def standing(engine: Engine) -> tuple[object, ...]:
    """All that a round moves."""
    rounds = engine.rounds
    kept = {name: stem.n_rows for name, stem in rounds.flow.joins.stage.stems.items()}
    n_results = [len(query.latest(1000)) for query in engine.queries()]
    return rounds.last_round, dict(rounds.progress), kept, n_results, rounds.dead_letters.n_total


def test_rows_for_which_there_is_no_room_are_refused_and_others_go_on(engine: Engine) -> None:
    rows, before = many_rows(), standing(engine)
    engine.rounds.memory._free()
    engine.rounds.memory.limit = resident_bytes() + SPARE
    with pytest.raises(MemoryLimitError) as refused:
        engine.push("trades", rows, token="once")
    assert standing(engine) == before
    error = refused.value
    assert error.problem == "these rows are refused: the process is at its memory limit"
    assert "Nothing of the round has happened." in str(error.detail)
    sizes = [n for _, n in error.holders]
    assert "rows of trades that joins keep" in [what for what, _ in error.holders]
    assert sizes == sorted(sizes, reverse=True)
    assert 'eddyline.open(memory="4 GB")' in str(error.hint)
    assert "let joins look back less far" in str(error.hint)
    engine.push("news", [("a", 1)])
    assert len(engine.get("met").results()) == 1
    engine.rounds.memory.limit = machine_limit()
    first = engine.push("trades", rows, token="once")
    again = engine.push("trades", rows, token="once")
    assert (first.round_number, again.round_number) == (3, 3)
    assert engine.rounds.last_round == 3


def test_a_token_of_a_round_that_was_is_answered_also_at_the_limit(engine: Engine) -> None:
    first = engine.push("trades", [("a", 8)], token="done")
    engine.rounds.memory.limit = 1
    assert engine.push("trades", [("a", 8)], token="done").round_number == first.round_number
    with pytest.raises(MemoryLimitError):
        engine.push("trades", [("a", 8)], token="new")
    engine.push({})  # a tick is no rows


@pytest.mark.parametrize("step", ["3 work", "4 commit"])
def test_a_round_that_runs_out_of_memory_is_undone(engine: Engine, step: str) -> None:
    before = standing(engine)

    def run_out(at: str) -> None:
        if at == step:
            raise MemoryError

    engine.rounds.at_step = run_out
    with pytest.raises(MemoryLimitError, match="there was not enough memory to work on them"):
        engine.push("trades", [("a", 8)], token="once")
    engine.rounds.at_step = lambda at: None
    assert standing(engine) == before
    engine.push("news", [("a", 1)])
    engine.push("trades", [("a", 8)], token="once")
    assert len(engine.get("met").results()) == 2


def test_a_server_at_its_limit_says_when_to_come_again(engine: Engine) -> None:
    token = engine.access.tokens.add("admin", 0)[1]
    headers = {"Authorization": f"Bearer {token}"}
    engine.rounds.memory.limit = 1
    with in_process(engine) as client:
        refused = client.post("/api/v1/streams/trades/rows", headers=headers, json=[{"sym": "a", "n": 1}])
        engine.rounds.memory.limit = machine_limit()
        taken = client.post("/api/v1/streams/trades/rows", headers=headers, json=[{"sym": "a", "n": 1}])
    assert (refused.status_code, refused.headers["Retry-After"]) == (503, "5")
    assert refused.json()["error"]["problem"] == "these rows are refused: the process is at its memory limit"
    assert taken.status_code == 200


OUT_OF_MEMORY = """
import resource, sys
import numpy as np, pyarrow as pa, eddyline
from eddyline.errors import MemoryLimitError

with eddyline.open(sys.argv[1], memory="1000 GB") as engine:
    for name in ("trades", "news"):
        engine.stream(name, "sym STRING, n BIGINT")
    engine.query("SELECT a.n, b.n AS m FROM recent(trades, 9000) a JOIN recent(trades, 9000) b ON a.sym = b.sym", name="pairs")
    engine.query("SELECT sym FROM news", name="heard")
    engine.push("trades", [("x", 1)])
    engine.push("news", [("x", 1)])
    rows = pa.table({"sym": ["a"] * 1500, "n": np.arange(1500)})
    pages = int(open("/proc/self/statm").read().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (60 << 20), resource.RLIM_INFINITY))
    try:
        engine.push("trades", rows, token="once")
    except MemoryLimitError as error:
        assert "no more than" in error.detail, error
    else:
        raise SystemExit("there was memory enough")
    assert engine.rounds.last_round == 2
    assert engine.rounds.flow.joins.stage.stems["trades"].n_rows == 1
    engine.push("news", [("y", 1)])
    assert len(engine.get("heard").latest(9)) == 2
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    n = [engine.push("trades", rows, token="once").round_number for _ in range(2)]
    assert n == [4, 4], n
    print(engine.rounds.results.n_produced_by(engine.get("pairs").id))
"""


def test_a_process_that_gets_no_more_memory_undoes_the_round_and_goes_on(tmp_path: Path) -> None:
    command = [sys.executable, "-c", OUT_OF_MEMORY, str(tmp_path / "home")]
    one_thread = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, env=os.environ | one_thread, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == 1500 * 1500 + 1


OUT_OF_MEMORY_AFTERWARDS = """
import resource, sys
import numpy as np, pyarrow as pa, eddyline

LIMITS = {"4b alert": 1 << 20, "end": None}  # bytes more than now, from a step on

def at_step(step):
    if step in LIMITS:
        pages = int(open("/proc/self/statm").read().split()[0])
        more = LIMITS[step]
        now = resource.RLIM_INFINITY if more is None else pages * resource.getpagesize() + more
        resource.setrlimit(resource.RLIMIT_AS, (now, resource.RLIM_INFINITY))

with eddyline.open(sys.argv[1], memory="1000 GB") as engine:
    engine.stream("trades", "sym STRING, n BIGINT")
    engine.query("SELECT sym, n FROM trades WHERE n > 0", name="hot", per="n", severity="info")
    heard = []
    engine.get("hot").on_result(lambda result: heard.append(result["n"]))
    engine.push("trades", [("x", 1)])
    rows = pa.table({"sym": ["a" * 100] * 60_000, "n": np.arange(60_000) + 2})
    engine.rounds.at_step = at_step
    done = engine.push("trades", rows, token="once")
    engine.rounds.at_step = lambda step: None
    events = [type(event).__name__ for event in engine.events()]
    assert done.round_number == engine.rounds.last_round == 2
    assert "AlertsDelayed" in events, events
    assert len(engine.messages()) == 1
    again = engine.push("trades", rows, token="once")
    assert (again.is_repeat, again.round_number) == (True, 2)
    engine.tick()
    assert engine.rounds.alerting.log.last_id() == 60_001
    assert len(engine.get("hot").results()) == 60_001
    print(events.count("MemoryRanOut"))
"""


def test_a_process_that_gets_no_more_memory_after_the_commit_has_done_the_round(tmp_path: Path) -> None:
    command = [sys.executable, "-c", OUT_OF_MEMORY_AFTERWARDS, str(tmp_path / "home")]
    one_thread = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, env=os.environ | one_thread, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("step", ["callbacks", "statistics"])
def test_a_step_after_the_commit_without_memory_is_told_and_the_push_succeeds(
    engine: Engine, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_out(*_: object) -> None:
        raise MemoryError

    where = (after_commit, "_deliver") if step == "callbacks" else (engine.rounds.records, "add")
    monkeypatch.setattr(*where, run_out)
    assert engine.push("trades", [("a", 8)], token="once").round_number == engine.rounds.last_round
    (told,) = [event for event in engine.events() if isinstance(event, MemoryRanOut)]
    assert (told.round_number, told.step) == (engine.rounds.last_round, step)
    monkeypatch.undo()
    assert engine.push("trades", [("a", 8)], token="once").is_repeat


def test_an_engine_that_could_not_take_note_of_its_own_round_is_closed_and_the_home_has_the_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = eddyline.open(tmp_path / "home")
    engine.stream("trades", "sym STRING, n INT")
    engine.query("SELECT n FROM trades", name="all")

    def run_out(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(engine.rounds.results, "append", run_out)
    with pytest.raises(ClosedError) as ended:
        engine.push("trades", [("a", 8)], token="once")
    assert str(ended.value) == (
        "round 1 has happened, but memory ran out before the engine had taken note of all of it\n"
        "detail: Its rows and results are in the home. This engine was closed.\n"
        "hint: Open the home again, with more memory or less to hold. Do not push the rows of this round once more, "
        "unless with its token."
    )
    with pytest.raises(ClosedError, match="this engine was closed"):
        engine.push("trades", [("a", 9)])
    with eddyline.open(tmp_path / "home") as again:
        assert again.push("trades", [("a", 8)], token="once").is_repeat
        assert [result["n"] for result in again.get("all").results()] == [8]


# --------------------------------------------------------------------------------------------- limits


def test_a_limit_is_given_as_a_size() -> None:
    with eddyline.open(memory="2 GB") as engine:
        assert engine.rounds.memory.limit == 2 << 30
    with pytest.raises(PropertyError, match="memory is 0"):
        eddyline.open(memory=0)
    with pytest.raises(PropertyError, match="is not a size"):
        eddyline.open(memory="plenty")


def test_without_one_it_is_a_share_of_the_machine_or_of_the_container(tmp_path: Path) -> None:
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert 0 < machine_limit() <= 0.9 * physical
    (tmp_path / "memory.max").write_text("max\n")
    assert _container_limits(tmp_path) == []
    (tmp_path / "memory.max").write_text("1073741824\n")
    assert set(_container_limits(tmp_path)) == {1 << 30}
