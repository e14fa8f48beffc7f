"""Kernels are compiled once for a machine, and it is said before."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from eddyline.kernels import warm

_PUSH = """
import eddyline
from eddyline.events import KernelsCompiling

engine = eddyline.open()
engine.stream("s", "a BIGINT")
query = engine.query("SELECT a FROM s WHERE a > 1")
engine.push("s", {"a": [1, 2]})
print(query.results())
for event in engine.events():
    if isinstance(event, KernelsCompiling):
        print(event.n_done, event.n_parts, event.seconds, event.left_s)
"""


def pushed(cache: str) -> tuple[str, str]:
    """What a process with this cache prints, and what it says besides."""
    environment = os.environ | {"NUMBA_CACHE_DIR": cache}
    done = subprocess.run(
        [sys.executable, "-c", _PUSH], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip(), done.stderr.strip()


@pytest.mark.thorough
def test_the_first_process_on_a_machine_says_how_far_compiling_is_and_the_second_compiles_nothing(tmp_path):
    printed, said = pushed(str(tmp_path))
    results, *reports = printed.splitlines()
    assert results == "[{'a': 2}]"
    first, *between, last = ([float(value) for value in line.split()] for line in reports)
    assert (first[:2], last[:2], last[3]) == ([1, warm._N_PARTS], [warm._N_PARTS, warm._N_PARTS], 0)
    assert [line[0] for line in between] == sorted(line[0] for line in between)
    assert all(line[3] > 0 for line in (first, *between))
    lines = said.splitlines()
    assert lines[0] == f"eddyline: compiling its inner loops for this machine, once; about {first[3]:.0f} s …"
    assert (
        lines[-1]
        == f"eddyline: compiled its inner loops in {last[2]:.0f} s; they are kept for the next start"
    )
    for line in lines[1:-1]:
        assert re.fullmatch(
            rf"eddyline: compiled \d+ of {warm._N_PARTS} parts of its inner loops in \d+ s; about \d+ s to go …",
            line,
        )
    assert pushed(str(tmp_path)) == ("[{'a': 2}]", "")


def test_what_is_left_to_compile_is_judged_by_what_the_parts_so_far_took(monkeypatch):
    seconds = iter([1.8, 30.0, 60.0])
    monkeypatch.setattr(warm.time, "perf_counter", lambda: next(seconds))
    monkeypatch.setattr(warm, "_n_cores", lambda: 1)
    said = []
    reports = warm._Reports(said.append, 0.0)  # the first kernel took twice its time
    for module in warm._HERE:
        reports.done(module)
    reports.say()
    for module in warm._BESIDE:
        reports.done(module)
    reports.say()
    work_s = sum(warm._HERE.values()) + sum(warm._BESIDE.values())
    here_s = warm._PROBE_S + sum(warm._HERE.values())
    assert said[0].left_s == pytest.approx(2 * work_s)
    assert (said[1].n_done, said[1].left_s) == (
        1 + len(warm._HERE),
        pytest.approx(30.0 / here_s * sum(warm._BESIDE.values()), abs=0.1),
    )
    assert str(said[2]) == "compiled its inner loops in 60 s; they are kept for the next start"


def test_a_warmed_up_engine_compiles_nothing_more():
    import eddyline
    from eddyline.kernels import bitsets, key_lists, leaves

    engine = eddyline.open()
    engine.warm_up()
    kernels = (bitsets.evaluate_blocks, bitsets.decode_rows, key_lists.match_lists, leaves.find_records)
    before = [len(kernel.signatures) for kernel in kernels]
    engine.stream("s", "a BIGINT, x DOUBLE, t STRING")
    engine.query_many("SELECT a FROM s WHERE a = :k", params={"k": list(range(1_000))})
    engine.query_many(
        "SELECT a FROM s WHERE x BETWEEN :k AND :k + 0.1D", params={"k": [k / 1 for k in range(2_000)]}
    )
    engine.query_many("SELECT a FROM s WHERE t LIKE :p", params={"p": ["a%", "%b", "c"]})
    assert engine.push("s", {"a": [5, None], "x": [7.05, 8.0], "t": ["ab", "c"]}).count == 6
    assert [len(kernel.signatures) for kernel in kernels] == before
