"""Kernels are compiled once for a machine, and it is said before."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

_PUSH = """
import eddyline
from eddyline.events import KernelsCompiling

engine = eddyline.open()
engine.stream("s", "a BIGINT")
query = engine.query("SELECT a FROM s WHERE a > 1")
engine.push("s", {"a": [1, 2]})
print(query.results(), sum(isinstance(event, KernelsCompiling) for event in engine.events()))
"""


def pushed(cache: str) -> tuple[str, str]:
    """What a process with this cache prints, and what it says besides."""
    environment = os.environ | {"NUMBA_CACHE_DIR": cache}
    done = subprocess.run(
        [sys.executable, "-c", _PUSH], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip(), done.stderr.strip()


@pytest.mark.thorough
def test_the_first_process_on_a_machine_says_that_it_compiles_and_the_second_does_not(tmp_path):
    said = "eddyline: compiling its inner loops for this machine, once; about ten seconds …"
    assert pushed(str(tmp_path)) == ("[{'a': 2}] 1", said)
    assert pushed(str(tmp_path)) == ("[{'a': 2}] 0", "")


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
