"""`eddyline backup` and `restore`, of a home that runs and of one that nobody holds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest


def test_a_home_is_backed_up_verified_and_restored(shell, home: Path, tmp_path):
    said = shell(f"eddyline backup '{home}' '{tmp_path}/b.tar.gz'")
    assert (said.code, said.err) == (0, "")
    assert "b.tar.gz: written, " in said.out
    assert "up to round 1, 2 files" in said.out
    assert "no damage found" in shell(f"eddyline backup --verify '{tmp_path}/b.tar.gz'").out
    before = shell(f"eddyline tail --no-follow --home '{home}'").out
    said = shell(f"eddyline restore '{tmp_path}/b.tar.gz' '{tmp_path}/again'")
    assert said.code == 0
    assert f"restored to {tmp_path}/again" in said.out
    assert shell(f"eddyline tail --no-follow --home '{tmp_path}/again'").out == before != ""


def test_without_a_home_it_is_that_of_the_pipeline(shell, home: Path):
    assert shell("eddyline backup b.tar").code == 0
    found = json.loads(shell("eddyline backup --verify b.tar --json").out)
    assert (found["last_round"], found["left_out"]) == (1, {})


def test_a_backup_that_is_there_a_damaged_one_and_a_home_that_is_there_are_refused(shell, home: Path):
    assert shell("eddyline backup b.tar").code == 0
    said = shell("eddyline backup b.tar")
    assert said.code == 1
    assert "already exists" in said.err
    said = shell(f"eddyline restore b.tar '{home}'")
    assert said.code == 1
    assert "already exists" in said.err
    Path("b.tar").write_bytes(Path("b.tar").read_bytes()[:5000])
    for command in ("eddyline backup --verify b.tar", "eddyline restore b.tar again"):
        said = shell(command)
        assert said.code == 1
        assert "b.tar is damaged, or is not a backup" in said.err
    assert not Path("again").exists()


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        ("eddyline backup", 2, "backup needs a file to write"),
        ("eddyline backup a b.tar --verify c.tar", 2, "--verify takes one file"),
        ("eddyline backup nowhere b.tar", 1, "there is no home at nowhere"),
        ("eddyline backup --verify gone.tar", 1, "cannot read gone.tar"),
        ("eddyline restore gone.tar new", 1, "there is no file gone.tar"),
        ("eddyline restore gone.tar", 2, "HOME"),
    ],
)
def test_what_is_wrong_with_the_command_is_said(shell, command, code, said):
    answer = shell(command)
    assert answer.code == code
    assert said in answer.err
