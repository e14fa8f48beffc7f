"""A shell for tests: the real command line in this process, in a folder of its own."""

from __future__ import annotations

import io
import json
import shlex
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from eddyline.api import Engine, open_pipeline
from eddyline.cli import main
from eddyline.functions.declarations import DECLARED
from eddyline.pipeline import load_pipeline
from eddyline.rules import apply_rules


@dataclass(frozen=True)
class Said:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Shell = Callable[..., Said]


@pytest.fixture
def shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Shell]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("EDDYLINE_HOME", raising=False)
    before = dict(DECLARED)

    def call(command: str, *, stdin: str = "") -> Said:
        words = shlex.split(command)
        assert words[0] == "eddyline"
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        capsys.readouterr()
        code = main(words[1:])
        captured = capsys.readouterr()
        return Said(code, captured.out, captured.err)

    yield call
    DECLARED.clear()
    DECLARED.update(before)
    sys.modules.pop("functions", None)


@pytest.fixture
def project(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What `eddyline init` writes, as the current folder."""
    assert shell("eddyline init demo").code == 0
    monkeypatch.chdir(tmp_path / "demo")
    return tmp_path / "demo"


@pytest.fixture(params=["opened", "held"])
def home(request: pytest.FixtureRequest, shell: Shell, project: Path) -> Iterator[Path]:
    """A home with the rules of the project and a round, not held by any process and by an engine that listens."""
    assert shell("eddyline run --once").code == 0
    if request.param == "opened":
        yield project / "home"
        return
    engine: Engine = open_pipeline(load_pipeline(project / "eddyline.toml"))
    with engine:
        apply_rules(engine, load_pipeline(project / "eddyline.toml"))
        engine.listen()
        yield project / "home"
