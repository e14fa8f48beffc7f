"""What is installed: the whole package, with the page of the dashboard and the mark that it is typed."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "eddyline"
DASHBOARD = PACKAGE / "server" / "dashboard"


def test_the_wheel_takes_the_package_as_it_lies_there():
    """hatchling takes every file of a package, unless it is told otherwise or Git ignores it."""
    build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]
    assert build["targets"]["wheel"] == {"packages": ["src/eddyline"]}
    assert set(build) == {"targets"}
    assert (PACKAGE / "py.typed").is_file()


@pytest.mark.skipif(
    shutil.which("git") is None or not (ROOT / ".git").exists(), reason="this is no checkout of Git"
)
def test_git_ignores_no_file_of_the_package():
    files = [path for path in PACKAGE.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    told = subprocess.run(
        ["git", "check-ignore", "--stdin"],
        cwd=ROOT,
        input="\n".join(map(str, files)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (told.returncode, told.stdout) == (1, "")  # 1: none of them


def test_the_dashboard_has_every_file_it_asks_for():
    there = {path.name for path in DASHBOARD.iterdir()}
    page = (DASHBOARD / "index.html").read_text(encoding="utf-8")
    asked = set(re.findall(r"/static/([\w.-]+)", page))
    for script in DASHBOARD.glob("*.js"):
        asked |= set(re.findall(r"from \"\./([\w.-]+)\"", script.read_text(encoding="utf-8")))
    assert asked
    assert asked <= there, asked - there
    assert there - asked - {"index.html", "favicon.svg"} == set(), "nobody asks for these"
