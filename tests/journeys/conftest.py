"""What journeys share: a shell whose commands are processes of their own, and a browser.

A journey is the story of one user report, from the first command on. It goes through the doors that users have: the shell,
`import eddyline`, HTTP, a browser, a notebook, a Spark session of their own. What is inside is for the tests beside the code.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from eddyline.functions.declarations import DECLARED
from tests.cli.test_live import Child
from tests.server.browser.conftest import browser

__all__ = ["browser"]  # fixtures

COMMAND_S = 300  # a loaded machine takes its time; no command takes that long when all is well


@dataclass(frozen=True)
class Said:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[dict[str, Any]]:
        """The objects that `--json` printed, one on each line."""
        return [json.loads(line) for line in self.out.splitlines()]


@dataclass
class Shell:
    """A terminal in a folder."""

    folder: Path
    children: list[Child] = field(default_factory=list)

    def __call__(self, *words: str) -> Said:
        """Run `eddyline WORDS` to its end."""
        environment = {name: value for name, value in os.environ.items() if name != "EDDYLINE_HOME"}
        done = subprocess.run(
            [sys.executable, "-m", "eddyline.cli", *words],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=COMMAND_S,
            check=False,
        )
        return Said(done.returncode, done.stdout, done.stderr)

    def start(self, *words: str) -> Child:
        """Run `eddyline WORDS` beside what follows."""
        self.children.append(Child(self.folder, *words))
        return self.children[-1]


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    found = Shell(tmp_path)
    yield found
    for child in found.children:
        if child.process.poll() is None:
            child.end(signal.SIGKILL)


@pytest.fixture
def own_functions() -> Iterator[None]:
    """Functions that a journey declares are gone when it ends."""
    before = dict(DECLARED)
    yield
    DECLARED.clear()
    DECLARED.update(before)
