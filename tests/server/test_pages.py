"""Every command of docs/server.md is run, with a real server and the real curl, and prints what the page shows."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import eddyline
from tests.cli.test_pages import as_pattern
from tests.server.served import on_loopback

PAGE = Path(__file__).parents[2] / "docs" / "server.md"
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl on this machine")
def test_every_command_of_the_page_prints_what_it_shows(tmp_path):
    text = PAGE.read_text(encoding="utf-8")
    shell = tmp_path / "bin"
    shell.mkdir()
    (shell / "eddyline").write_text(f'#!/bin/sh\nexec {sys.executable} -m eddyline.cli "$@"\n')
    (shell / "eddyline").chmod(0o755)
    with eddyline.open(tmp_path / "home") as engine, on_loopback(engine) as serving:
        engine.listen()
        environment = {
            **os.environ,
            "PATH": f"{shell}:{os.environ['PATH']}",
            "EDDYLINE_HOME": str(tmp_path / "home"),
            "URL": serving.url,
            "TOKEN": serving.token("admin"),
        }
        n_commands = 0
        for block in BLOCK.finditer(text):
            for command in re.split(r"^\$ ", block[1], flags=re.MULTILINE)[1:]:
                line, _, shown = command.partition("\n")
                if line.startswith("export "):
                    continue  # it is in the environment
                done = subprocess.run(
                    ["bash", "-c", line], env=environment, capture_output=True, text=True, check=False
                )
                printed = (
                    done.stdout
                    + ("\n" if done.stdout and not done.stdout.endswith("\n") else "")
                    + done.stderr
                )
                at = f"{PAGE.name}:{text.count(chr(10), 0, text.index(line)) + 1}: $ {line}"
                pattern = as_pattern(shown)
                assert re.fullmatch(pattern + "(?:.*\n)*" if "token list" in line else pattern, printed), (
                    f"{at}\n{printed}"
                )
                n_commands += 1
    assert n_commands >= 18
