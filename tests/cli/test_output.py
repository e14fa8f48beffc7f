"""Help, completion, progress, JSON and what is never printed."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from eddyline.cli import main, output
from eddyline.cli.arguments import HELP, build
from eddyline.cli.completion import _words
from eddyline.cli.output import Output

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).parents[2]


def test_help_fits_one_screen_and_ends_with_something_to_paste(shell):
    for command in ("eddyline", "eddyline --help"):
        said = shell(command)
        assert (said.code, said.out, said.err) == (0, HELP, "")
    lines = HELP.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 90
    assert lines[-1] == "Try:  eddyline init demo && cd demo && eddyline run --once"


@pytest.mark.parametrize("path", [path for path in _words(build()) if path], ids=" ".join)
def test_help_of_every_command_ends_with_something_that_can_be_typed(shell, path):
    said = shell(f"eddyline {' '.join(path)} --help")
    assert said.code == 0
    assert len(said.out.splitlines()) <= 30
    last = said.out.rstrip().splitlines()[-1]
    assert last.startswith("Try:  ")
    assert f"eddyline {path[0]}" in last


def test_every_command_is_named_in_the_help():
    for path in _words(build()):
        if len(path) == 1:
            assert f"  {path[0]}" in HELP or f", {path[0]}" in HELP


def test_completion_knows_commands_options_and_choices(shell):
    bash = shell("eddyline completion bash").out
    assert (
        '"query list") words="--help --home --json --progress --state --owner --page --per-page running paused"'
        in bash
        or ('"query list") words="' in bash and "--state" in bash)
    )
    assert "complete -F _eddyline eddyline" in bash
    assert "bashcompinit" in shell("eddyline completion zsh").out
    fish = shell("eddyline completion fish").out
    assert "complete -c eddyline -n '__fish_use_subcommand' -a doctor\n" in fish
    assert (
        "complete -c eddyline -n '__fish_seen_subcommand_from query; and __fish_seen_subcommand_from add' -l name\n"
        in fish
    )
    assert shell("eddyline completion fish --json").json["script"] == fish


def test_completion_of_bash_completes(shell, tmp_path):
    (tmp_path / "completion.bash").write_text(shell("eddyline completion bash").out)
    program = (
        "source completion.bash\n"
        'try() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _eddyline; echo "${COMPREPLY[*]}"; }\n'
        "try eddyline ver\ntry eddyline query pa\ntry eddyline tail --re\ntry eddyline --json query show --la\n"
        "try eddyline completion f"
    )
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert done.stdout.splitlines() == ["versions version", "pause", "--reader", "--latest", "fish"]


def test_version_is_that_of_the_package(shell):
    assert shell("eddyline version").out == "eddyline 0.1.0\n"
    assert shell("eddyline version --json").json == {"version": "0.1.0"}
    assert shell("eddyline --json version").json == {"version": "0.1.0"}


def test_what_takes_long_says_how_far_it_is(monkeypatch, capsys):
    monkeypatch.setattr(output, "PATIENCE_S", 0.01)
    with Output(progress=True).progress("apply") as tell:
        tell("registering queries", 2000, 10_000)
        deadline = time.monotonic() + 10
        said = ""
        while "registering" not in said and time.monotonic() < deadline:
            time.sleep(0.01)
            said += capsys.readouterr().err
    assert said.startswith("registering queries: 2,000 of 10,000, 0 s\n")
    capsys.readouterr()  # it may have said so again meanwhile
    with Output(progress=False).progress("apply") as tell:
        tell("registering queries", 1, 2)
        time.sleep(0.05)
    assert capsys.readouterr().err == ""


def test_a_table_on_a_terminal_is_drawn_and_in_a_pipe_plain(monkeypatch, capsys):
    out = Output()
    out.table(["id", "query"], [[1, "SELECT\n  1"]])
    assert capsys.readouterr().out == "id  query\n1   SELECT 1\n"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    terminal = Output()
    terminal.table(["id", "query"], [[1, "[bold]x[/bold]"]])
    assert "[bold]x[/bold]" in capsys.readouterr().out


def test_errors_in_json_are_json(shell):
    said = shell("eddyline query list --home nowhere --json")
    assert json.loads(said.err)["error"]["problem"] == "there is no home at nowhere"
    assert json.loads(shell("eddyline qery --json").err)["error"]["hint"] == "Did you mean query?"


def test_a_secret_is_in_no_output(shell, project, monkeypatch):
    monkeypatch.setenv("TRADES_FOLDER", "data-5f4dcc3b5aa7")
    (project / "data-5f4dcc3b5aa7").mkdir()
    toml = (project / "eddyline.toml").read_text().replace('path = "data"', 'path = "${env:TRADES_FOLDER}"')
    (project / "eddyline.toml").write_text(toml)
    (project / "data-5f4dcc3b5aa7" / "a.json").write_text(
        (project / "data" / "trades.json").read_text() + "{nonsense\n"
    )
    printed = ""
    for command in (
        "eddyline plan",
        "eddyline plan --json",
        "eddyline apply",
        "eddyline run --once",
        "eddyline deadletters",
        "eddyline deadletters --json",
        "eddyline doctor",
        "eddyline query show cheap --json",
        "eddyline export out",
        "eddyline versions",
    ):
        said = shell(command)
        assert said.code == 0, said
        printed += said.out + said.err
    assert "5f4dcc3b5aa7" not in printed
    assert not any("5f4dcc3b5aa7" in file.read_text() for file in (project / "out").glob("*.sql"))
    monkeypatch.delenv("TRADES_FOLDER")
    said = shell("eddyline run --once")
    assert said.code == 1
    assert "TRADES_FOLDER" in said.err


def test_the_command_runs_as_a_module_and_leaves_quietly_when_nobody_reads(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "eddyline.cli", "version"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "eddyline 0.1.0\n")
    piped = subprocess.run(
        [
            "bash",
            "-c",
            f"{sys.executable} -m eddyline.cli completion fish | head -1; echo ${{PIPESTATUS[0]}}",
        ],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert piped.stderr == ""
    assert piped.stdout.splitlines()[-1] == "0"


def test_the_script_of_the_package_is_this_function():
    import tomllib

    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts == {"eddyline": "eddyline.cli:main"}
    assert callable(main)
