"""Every input that is kept holds the contract of its target, and a short run finds none that does not."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest

from eddyline.sources import json_lines
from tests.fuzz.targets import TARGETS, corpus
from tools import fuzz

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def nothing_stays_changed(monkeypatch):
    monkeypatch.setattr(json_lines, "_LEAST", json_lines._LEAST)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("name", TARGETS)
def test_inputs_that_are_kept_hold_the_contract(name, tmp_path):
    target = TARGETS[name](tmp_path)
    inputs = corpus(name)
    assert inputs
    for path in inputs:
        try:
            target(path.read_bytes())
        except BaseException as error:
            error.add_note(f"input: {path.relative_to(ROOT)}")
            raise


@pytest.mark.thorough
def test_a_short_run_finds_no_input_that_breaks_a_target():
    ran = subprocess.run(
        [sys.executable, "-m", "tools.fuzz", "--seconds", "1"], cwd=ROOT, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr[-5_000:]
    assert ran.stderr.count(" inputs ") == len(TARGETS)


def test_an_input_that_ends_the_process_is_kept_and_told(tmp_path, monkeypatch, capfd):
    def crash(folder: Path):
        def target(data: bytes) -> None:
            if b"e-1000000000" in data:
                fuzz.os.abort()

        return target

    monkeypatch.setattr(fuzz, "BUILD", tmp_path / "build")
    (tmp_path / "seed").write_bytes(b"price 1")
    options = fuzz._options(["--seconds", "20", "--plain"], [])
    run = fuzz.Run("crash", crash, [tmp_path / "seed"], tmp_path, options)
    assert run.in_process_of_its_own()
    (kept,) = (tmp_path / "build").iterdir()
    assert b"e-1000000000" in kept.read_bytes()
    assert f"crash: broken (signal 6) by {kept}" in capfd.readouterr().err
