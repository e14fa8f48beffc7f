"""Every command that README.md, docs/cli.md and docs/rules.md show is run, and prints what the page shows.

A line `$ eddyline …` is a command, or some with && between them, what follows is what they print, stdout before stderr; other
lines with $ are for the shell. `…` stands for anything: inside a line
for a part of it, alone on a line for any number of lines. A block behind a line that is nothing but a `path`: is that file.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"(?:^`([^`\n]+)`:\n\n)?^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def as_pattern(shown: str) -> str:
    lines = []
    for line in shown.splitlines():
        lines.append("(?:.*\n)*?" if line.strip() == "…" else re.escape(line).replace("…", ".*") + "\n")
    return "".join(lines)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("page", "n_expected"), [("README.md", 5), ("docs/rules.md", 15), ("docs/cli.md", 15)]
)
def test_every_command_of_the_page_prints_what_it_shows(page, n_expected, shell, tmp_path):
    text = (ROOT / page).read_text(encoding="utf-8")
    n_commands = 0
    for block in BLOCK.finditer(text):
        file, language, content = block.groups()
        if file is not None:
            Path(file).write_text(content, encoding="utf-8")
        if language != "console":
            continue
        for command in re.split(r"^\$ ", content, flags=re.MULTILINE)[1:]:
            line, _, shown = command.partition("\n")
            if line.startswith("cd "):
                os.chdir(line[3:])
                continue
            if not line.startswith("eddyline"):
                subprocess.run(["bash", "-c", line], check=True)
                continue
            said = [shell(each) for each in line.split(" && ")]
            n_commands += len(said)
            rows = "".join(each.out for each in said) + "".join(each.err for each in said)
            printed = "".join(f"{row.rstrip()}\n" for row in rows.splitlines())
            at = f"{page}:{text.count(chr(10), 0, text.index(line)) + 1}: $ {line}"
            assert re.fullmatch(as_pattern(shown), printed), f"{at}\n{printed}"
            assert "Traceback" not in printed
    assert n_commands >= n_expected
