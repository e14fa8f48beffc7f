"""The examples do what their first lines say."""

import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"

pytestmark = pytest.mark.thorough


def test_analysts_share_one_model_and_get_what_each_would_get_alone(capsys):
    pytest.importorskip("py3langid")
    calls = runpy.run_path(str(EXAMPLES / "languages" / "calls.py"))
    calls["main"].__globals__.update(N_POSTS=300, N_BATCHES=3)
    calls["main"]()
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("77 rules over 300 posts: ")
    alone, together = (int(line.split()[-1].replace(",", "")) for line in said[1:3])
    assert together <= 2 * 300  # two functions, each once per post
    assert alone > 4 * together


@pytest.mark.parametrize("name", ["market", "languages"])
def test_an_example_runs_from_a_fresh_copy(name, tmp_path):
    if name == "languages":
        pytest.importorskip("py3langid")
    folder = tmp_path / name
    shutil.copytree(EXAMPLES / name, folder, ignore=shutil.ignore_patterns("home", "__pycache__"))
    done = subprocess.run(
        [sys.executable, "-m", "eddyline.cli", "run", str(folder), "--once"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "rows" in done.stderr
    assert done.stdout
