"""The demo as people run it: every check holds, and it leaves nothing behind, also when it is stopped."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from eddyline.demo.__main__ import main


def started(folder: Path, *options: str) -> subprocess.Popen[str]:
    """The demo in a process group of its own, with a folder of its own for temporary files."""
    return subprocess.Popen(
        [sys.executable, "-m", "eddyline.demo", *options],
        env=os.environ | {"TMPDIR": str(folder), "EDDYLINE_CLASS_ARCHIVE": "off"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        process_group=0,
    )


def left_behind(folder: Path) -> list[str]:
    """Its own files; what Java and Spark's archives unpack there is theirs."""
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("eddyline"))


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.spark
@pytest.mark.thorough
def test_it_runs_to_its_end_and_every_check_holds(tmp_path):
    process = started(tmp_path, "--quick", "--rules", "200", "--seed", "3")
    said, _ = process.communicate(timeout=600)
    assert process.returncode == 0, said
    assert "200 rules are deployed" in said
    assert re.search(r"first alert \d+\.\d\d s later, in round \d+: sym=(ACME|CORE)", said)
    assert re.search(r"Process \d+, which worked on some of them, was ended with SIGKILL", said)
    assert "ok    0 lost, 0 twice, 0 that should not be" in said
    found = re.search(r"ok    alerts of these [\d,]+ trades: ([\d,]+) by Spark, ([\d,]+) by eddyline", said)
    assert found is not None
    assert found[1] == found[2]
    assert "the row matches slump" in said
    assert "WRONG" not in said
    assert "Traceback" not in said
    assert "!" not in said
    workers = re.search(r"workers: processes ([\d, ]+)", said)
    assert workers is not None
    assert not any(is_alive(int(pid)) for pid in workers[1].split(","))
    assert left_behind(tmp_path) == []


@pytest.mark.spark
@pytest.mark.slow
def test_ctrl_c_ends_it_in_the_middle_of_the_rounds_and_leaves_nothing(tmp_path):
    process = started(tmp_path, "--rules", "200")
    assert process.stdout is not None
    said = ""
    for line in process.stdout:
        said += line
        if "rules come and go" in line:
            os.kill(process.pid, signal.SIGINT)
            break
    rest, _ = process.communicate(timeout=300)
    said += rest
    assert process.returncode == 130, said
    assert said.endswith("stopped; all temporary files were removed\n")
    assert "Traceback" not in said
    workers = re.search(r"workers: processes ([\d, ]+)", said)
    assert workers is not None
    assert not any(is_alive(int(pid)) for pid in workers[1].split(","))
    assert left_behind(tmp_path) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--rules", "3"], "--rules must be between 10 and 1,000,000"),
        (["--seed", "-1"], "--seed must be at least 0"),
    ],
)
def test_sizes_that_make_no_sense_are_refused(options, message, capsys):
    with pytest.raises(SystemExit) as raised:
        main(options)
    assert raised.value.code == 2
    assert message in capsys.readouterr().err
