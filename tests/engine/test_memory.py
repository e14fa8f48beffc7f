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
from eddyline.engine.memory import _container_limits, machine_limit, resident_bytes
from eddyline.errors import MemoryLimitError, PropertyError
from tests.server.served import in_process

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
    kept = {name: stem.n_rows for name, stem in rounds.joining.stage.stems.items()}
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
    assert engine.rounds.joining.stage.stems["trades"].n_rows == 1
    engine.push("news", [("y", 1)])
    assert len(engine.get("heard").latest(9)) == 2
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    n = [engine.push("trades", rows, token="once").round_number for _ in range(2)]
    assert n == [4, 4], n
    print(engine.rounds.results.produced(engine.get("pairs").id))
"""


@pytest.mark.thorough
def test_a_process_that_gets_no_more_memory_undoes_the_round_and_goes_on(tmp_path: Path) -> None:
    command = [sys.executable, "-c", OUT_OF_MEMORY, str(tmp_path / "home")]
    one_thread = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, env=os.environ | one_thread, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == 1500 * 1500 + 1


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
