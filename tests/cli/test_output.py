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
from eddyline.cli.completion import commands
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


@pytest.mark.parametrize("path", [path for path in commands(build()) if path], ids=" ".join)
def test_help_of_every_command_ends_with_something_that_can_be_typed(shell, path):
    said = shell(f"eddyline {' '.join(path)} --help")
    assert said.code == 0
    assert len(said.out.splitlines()) <= 30
    last = said.out.rstrip().splitlines()[-1]
    assert last.startswith("Try:  ")
    assert f"eddyline {path[0]}" in last


def test_every_command_is_named_in_the_help():
    for path in commands(build()):
        if len(path) == 1:
            assert f"  {path[0]}" in HELP or f", {path[0]}" in HELP


def test_completion_knows_commands_options_and_choices(shell):
    bash = shell("eddyline completion bash").out
    assert '"query list") words="--help --home --json --progress --state --owner --page --per-page"' in bash
    assert "complete -F _eddyline eddyline" in bash
    assert "bashcompinit" in shell("eddyline completion zsh").out
    fish = shell("eddyline completion fish").out
    assert "complete -c eddyline -n '__fish_use_subcommand' -a doctor\n" in fish
    assert (
        "complete -c eddyline -n '__fish_seen_subcommand_from query; and __fish_seen_subcommand_from add' -l name -r\n"
        in fish
    )
    assert shell("eddyline completion fish --json").json["script"] == fish


def completed(shell, folder: Path, *lines: str) -> list[str]:
    """What bash offers at the end of each line."""
    (folder / "completion.bash").write_text(shell("eddyline completion bash").out)
    program = (
        "source completion.bash\n"
        'try() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _eddyline; echo "${COMPREPLY[*]}"; }\n'
    ) + "\n".join(f"try {line}" for line in lines)
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, cwd=folder, check=True)
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_completion_of_bash_completes(shell, tmp_path):
    said = completed(
        shell,
        tmp_path,
        "eddyline ver",
        "eddyline query pa",
        "eddyline tail --re",
        "eddyline --json query show --la",
        "eddyline completion f",
    )
    assert said == ["versions version", "pause", "--reader", "--latest", "fish"]


def test_completion_of_bash_knows_values_of_options(shell, tmp_path):
    said = completed(
        shell,
        tmp_path,
        "eddyline query list --state ''",
        "eddyline --home there silence cheap --severity e",
        "eddyline top --sort ''",
    )
    assert said == ["running paused suspended", "error", "results rate dead name"]


def test_completion_of_bash_knows_the_names_a_home_has(shell, home, project):
    shell("eddyline query add --name 'odd $(touch x) one' 'SELECT sym FROM trades WHERE price = 3'")
    shell("eddyline query add 'SELECT sym FROM trades WHERE price = 4'")
    shell("eddyline query drop big")
    (project / "rules" / "watch.csv").write_text("sym\nACME\nBYTE\nCORN\n")
    (project / "rules" / "watch.sql").write_text(
        "CREATE OR REPLACE VIEW `watch-{sym}` TBLPROPERTIES (rules_table = 'watch.csv') AS "
        "SELECT price FROM trades WHERE sym = :sym"
    )
    shell("eddyline apply rules/watch.sql")
    shell("eddyline query drop watch-BYTE")
    said = completed(
        shell,
        project,
        "eddyline why ''",
        "eddyline query drop cheap w",
        "eddyline --home home tail ch",
        "eddyline deadletters --query c",
        "eddyline deadletters --stream ''",
        "eddyline explain --filters t",
        "eddyline source retry ''",
        "eddyline sink retry ''",
        "eddyline rollback ''",
        "eddyline ack ''",
    )
    assert said == [
        "cheap odd\\ \\$\\(touch\\ x\\)\\ one q4 watch-ACME watch-CORN",
        "watch-ACME watch-CORN",
        "cheap",
        "cheap",
        "trades",
        "trades",
        "trades",
        "stdout",
        "1 2 3 4 5 6",
        "",
    ]
    assert not (project / "x").exists()
    fish = shell("eddyline completion fish").out
    assert "-n '__fish_seen_subcommand_from why' -f -a \"(" in fish
    assert "-l state -xa 'running paused suspended'\n" in fish


def test_a_command_without_its_query_lists_those_there_are(shell, home):
    said = shell("eddyline why")
    assert (said.code, said.out) == (2, "")
    assert said.err == (
        "why needs a QUERY: a name\ndetail: Known: big, cheap.\n"
        "hint: Try eddyline why big, or see eddyline why --help.\n"
    )
    assert "detail: Known: trades.\n" in shell("eddyline source retry").err
    shell("eddyline query drop big cheap")
    assert f"detail: There is no query in {home} yet.\n" in shell("eddyline query show").err


@pytest.mark.parametrize("group", ["query", "stream", "source", "sink", "token"])
def test_help_of_a_group_lists_its_actions_with_a_line_each(shell, group):
    listed = shell(f"eddyline {group} --help").out.partition("actions:\n")[2].splitlines()
    for path in commands(build()):
        if len(path) == 2 and path[0] == group:
            (line,) = [line for line in listed if line.split()[:1] == [path[1]]]
            assert line.endswith(".")


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
