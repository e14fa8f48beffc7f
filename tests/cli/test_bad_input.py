"""What each command says to bad input: exit code 2 if the command is wrong, 1 if the query or the data is."""

from __future__ import annotations

import json
import os
import stat

import pytest

import eddyline

pytestmark = pytest.mark.thorough

TOP = [
    ("eddyline qery list", "there is no command qery\nhint: Did you mean query?\n"),
    ("eddyline --jsn plan", "there is no option --jsn\nhint: Did you mean --json?\n"),
    ("eddyline init", "init needs a NAME: the folder to make\nhint: Try eddyline init demo, or see eddyline init --help.\n"),
    ("eddyline init a b", "'b' was not expected\nhint: See eddyline init --help.\n"),
    ("eddyline query", "query needs an ACTION: add, drop, pause, resume, list, show\n"
        "hint: Try eddyline query list, or see eddyline query --help.\n"),
    ("eddyline query lst", "there is no command lst\nhint: Did you mean list?\n"),
    ("eddyline query list --stat paused", "there is no option --stat\nhint: Did you mean --state?\n"),
    ("eddyline query list --state stopped", "there is no state stopped\nhint: Known: paused, running, suspended.\n"),
    ("eddyline query list --page 0", "argument --page: it counts from 1\nhint: See eddyline query list --help.\n"),
    ("eddyline query drop", "query drop needs a QUERY: a name, or a number\n"
        "hint: Try eddyline query drop cheap, or see eddyline query drop --help.\n"),
    ("eddyline why", "why needs a QUERY: a name\n"
        "hint: Try eddyline why cheap sym=ACME price=9.5, or see eddyline why --help.\n"),
    ("eddyline restore", "restore needs a FILE: the backup, and a HOME: the folder to create; it must not exist\n"
        "hint: Try eddyline restore trading.tar.gz trading/, or see eddyline restore --help.\n"),
    ("eddyline rollback two", "argument VERSION: 'two' is not a whole number\nhint: See eddyline rollback --help.\n"),
    ("eddyline tail -n -3", "argument -n/--newest: '-3' is not a whole number\nhint: See eddyline tail --help.\n"),
    ("eddyline completion tcsh", "there is no shell tcsh\nhint: Known: bash, fish, zsh.\n"),
    ("eddyline completion", "completion needs a SHELL: bash, zsh, fish\n"
        "hint: Try eval \"$(eddyline completion bash)\", or see eddyline completion --help.\n"),
    ("eddyline explain", "explain takes a query, --all, --filters, --joins or --aggregates\n"
        "hint: See eddyline explain --help.\n"),
    ("eddyline version now", "'now' was not expected\nhint: See eddyline version --help.\n"),
]  # fmt: skip


@pytest.mark.parametrize(("command", "message"), TOP, ids=[command for command, _ in TOP])
def test_a_wrong_command_is_told_with_exit_code_2(shell, command, message):
    said = shell(command)
    assert (said.code, said.out) == (2, "")
    assert said.err == message


NOWHERE = [
    ("eddyline query list", "no home was named\n"
        "hint: Give --home FOLDER, set EDDYLINE_HOME, or go to a folder with an eddyline.toml.\n"),
    ("eddyline query list --home nowhere", "there is no home at nowhere\n"
        "hint: Make one with eddyline apply or eddyline run, or name another with --home.\n"),
    ("eddyline plan", "there is no eddyline.toml here or in a folder above\n"
        "hint: Start one with eddyline init NAME, or name a pipeline file.\n"),
    ("eddyline apply nowhere", "there is no file or folder nowhere\nhint: Name .sql files or a folder of them.\n"),
    ("eddyline run", "there is no eddyline.toml here or in a folder above\n"
        "hint: Start one with eddyline init NAME, or name a pipeline file.\n"),
    ("eddyline run nowhere.toml", "there is no eddyline.toml at nowhere.toml\n"
        "hint: Start one with eddyline init NAME, or name a pipeline file.\n"),
    ("eddyline test nowhere", "there is no file or folder nowhere\nhint: Name .stream files or a folder of them.\n"),
    ("eddyline test", "there are no .stream files in .\nhint: Write one: see docs/rules.md, “Tests”.\n"),
    ("eddyline doctor --forget-damaged --home nowhere", "there is no home at nowhere\nhint: Name another with --home.\n"),
    ("eddyline tail --home nowhere", "there is no home at nowhere\n"
        "hint: Make one with eddyline apply or eddyline run, or name another with --home.\n"),
]  # fmt: skip


@pytest.mark.parametrize(("command", "message"), NOWHERE, ids=[command for command, _ in NOWHERE])
def test_a_command_without_a_place_to_work_on_is_told(shell, tmp_path, command, message):
    said = shell(command)
    assert (said.code, said.out, said.err) == (2, "", message)
    assert list(tmp_path.iterdir()) == []  # and nothing was made


HERE = [
    (2, "eddyline query add", "query add takes one SQL text\n"
        "hint: Try eddyline query add --name all \"SELECT * FROM trades\", or --file FILE.\n"),
    (2, 'eddyline query add "SELECT 1" --file x.sql', "query add takes one SQL text\n"),
    (2, "eddyline query add --file none.sql", "none.sql cannot be read\ndetail: No such file or directory\n"),
    (2, 'eddyline query add --param limit "SELECT sym FROM trades"', "--param limit has no value\n"
        "hint: Write --param NAME=VALUE.\n"),
    (2, 'eddyline query add --set a=1 --set a=2 "SELECT sym FROM trades"', "--set a is given twice\n"),
    (1, 'eddyline query add --set cooldwn=1 "SELECT sym FROM trades"', "there is no property cooldwn\n"
        "hint: Did you mean cooldown?\n"),
    (1, 'eddyline query add "SELECT sym FRM trades"', "FRM was not expected here\n  SELECT sym FRM trades\n             ^^^"),
    (1, 'eddyline query add "SELECT mode(qty) AS n FROM trades"', "the aggregate mode is not built in this version\n"),
    (1, 'eddyline query add ""', "the text is empty\n"),
    (1, "eddyline query show chep", "there is no query chep\nhint: Did you mean cheap?\n"),
    (1, "eddyline query drop cheap nope", "there is no query nope\n"),
    (1, "eddyline query pause nope", "there is no query nope\n"),
    (1, "eddyline query resume nope", "there is no query nope\n"),
    (1, "eddyline query show cheap --owner nobody", "there is no query cheap\nhint: There is no named query yet.\n"),
    (1, "eddyline explain nope", "there is no query nope\n"),
    (2, "eddyline explain nope.sql", "there is no file nope.sql\n"),
    (1, 'eddyline explain "SELECT nope FROM trades"', "there is no column nope in trades\n"),
    (1, "eddyline why nope price=1", "there is no query nope\n"),
    (2, "eddyline why cheap price", "row price has no value\nhint: Write row NAME=VALUE.\n"),
    (2, "eddyline why cheap '{\"price\": }'", "the row is not a JSON object\n"),
    (1, "eddyline why cheap prize=1", "stream trades has no column prize\n"),
    (1, "eddyline why cheap price=low", "the row does not fit stream trades\ndetail: column price: 'low' is not DOUBLE\n"),
    (1, "eddyline deadletters --stream nope", "there is no stream nope\nhint: Known: trades.\n"),
    (1, "eddyline deadletters --query nope", "there is no query nope\n"),
    (1, "eddyline tail nope --no-follow", "there is no query nope\n"),
    (1, "eddyline tail --after x --no-follow", "'x' is not a cursor\n"
        "hint: Use the cursor of a result, such as 12-345-6, or a round.\n"),
    (2, "eddyline tail --after 1 --reader r", "--after and --reader exclude each other\nhint: A reader has its own position.\n"),
    (1, "eddyline rollback 77", "there is no version 77 to go back to\n"
        "detail: Kept are 1 to 1.\nhint: See them with eddyline versions.\n"),
    (2, "eddyline export rules", "rules already exists\nhint: Name a new folder, or an empty one.\n"),
    (2, "eddyline init .", "eddyline.toml already exists\ndetail: Nothing was written.\nhint: Name a new folder.\n"),
]  # fmt: skip


@pytest.mark.parametrize(("code", "command", "message"), HERE, ids=[command for _, command, _ in HERE])
def test_bad_input_is_told_the_same_on_a_held_home(shell, home, code, command, message):
    said = shell(command)
    assert (said.code, said.out) == (code, "")
    assert said.err.startswith(message), said.err
    if code == 1:
        body = json.loads(shell(f"{command} --json").err)["error"]
        assert body["problem"] == message.partition("\n")[0]


def test_a_drop_with_an_unknown_name_drops_none(shell, home):
    shell("eddyline query drop cheap nope")
    assert len(shell("eddyline query list --json").json["queries"]) == 2


def test_a_home_that_does_not_take_commands_is_told_with_its_holder(shell, tmp_path, monkeypatch):
    monkeypatch.setattr("eddyline.cli.session.STARTING_S", 0.0)
    with eddyline.open(tmp_path / "home"):
        said = shell("eddyline query list --home home")
    assert said.code == 1
    assert said.err.startswith(
        f"the process that holds home does not accept commands\ndetail: It is process {os.getpid()} ("
    )
    assert said.err.endswith("hint: Let it call engine.listen(), or end it first.\n")


def test_a_home_of_a_newer_version_is_refused(shell, tmp_path):
    eddyline.open(tmp_path / "home").close()
    catalog = tmp_path / "home" / "catalog.db"
    content = bytearray(catalog.read_bytes())
    content[60:64] = (99).to_bytes(4, "big")  # where SQLite keeps the user's version
    catalog.write_bytes(content)
    said = shell("eddyline query list --home home")
    assert (said.code, said.out) == (1, "")
    assert "was written by a newer version of eddyline" in said.err
    doctor = shell("eddyline doctor --home home")
    assert doctor.code == 1
    assert "hint: Upgrade eddyline, or restore a backup from before the upgrade." in doctor.out


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_a_home_that_cannot_be_written_is_refused(shell, tmp_path):
    eddyline.open(tmp_path / "home").close()
    os.chmod(tmp_path / "home", stat.S_IRUSR | stat.S_IXUSR)
    try:
        said = shell("eddyline query list --home home")
    finally:
        os.chmod(tmp_path / "home", stat.S_IRWXU)
    assert (said.code, said.out) == (1, "")


def test_a_catalog_that_is_none_is_refused_and_the_doctor_says_so(shell, tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "catalog.db").write_bytes(
        b"this is not a catalog, though it is long enough to be looked at" * 20
    )
    said = shell("eddyline query list --home home")
    assert (said.code, said.out) == (1, "")
    assert said.err.startswith("home/catalog.db is damaged, or is not a catalog\n")
    assert "ERROR    home: " in shell("eddyline doctor --home home").out


def test_init_never_writes_over_a_file(shell, tmp_path):
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "functions.py").write_text("mine")
    said = shell("eddyline init demo")
    assert (said.code, said.out) == (2, "")
    assert (
        said.err
        == "demo/functions.py already exists\ndetail: Nothing was written.\nhint: Name a new folder.\n"
    )
    assert [path.name for path in (tmp_path / "demo").iterdir()] == ["functions.py"]


def test_init_into_a_place_that_is_a_file_is_told(shell, tmp_path):
    (tmp_path / "demo").write_text("mine")
    said = shell("eddyline init demo")
    assert said.code == 2
    assert said.err.startswith("cannot write to demo\ndetail: ")


def test_a_pipeline_with_mistakes_is_told_by_every_command_that_reads_it(shell, project):
    (project / "eddyline.toml").write_text('[engin]\nhome = "home"\n')
    for command in ("eddyline plan", "eddyline run", "eddyline query list", "eddyline test"):
        said = shell(command)
        assert (said.code, said.out) == (1, "")
        assert "eddyline.toml has 1 mistake" in said.err
        assert "hint: Did you mean engine?" in said.err


def test_a_function_that_cannot_be_imported_is_told(shell, project):
    (project / "functions.py").write_text("import nonsense_that_is_nowhere")
    said = shell("eddyline plan")
    assert said.code == 1
    assert said.err.startswith("module functions with functions cannot be imported\n")
