"""`eddyline stream add`: what it shows, what it writes, what it refuses."""

from __future__ import annotations

import json
import tomllib

import pytest

from eddyline.pipeline import load_pipeline

TRADES = """\
column  type       nulls  examples
sym     STRING            ACME, BYTE, CORN
sector  STRING            TECH, FOOD
price   DOUBLE            9.5, 13.0, 4.25
qty     BIGINT            100, 5000, 300
ts      TIMESTAMP         2026-01-05 09:30:00, 2026-01-05 09:30:01, 2026-01-05 09:30:02

[streams.copies]
schema = "sym STRING, sector STRING, price DOUBLE, qty BIGINT, ts TIMESTAMP"
time = "ts"
source = { type = "files", path = "data", format = "json" }

CREATE TABLE copies (
  sym STRING,
  sector STRING,
  price DOUBLE,
  qty BIGINT,
  ts TIMESTAMP
) TBLPROPERTIES (time = 'ts');
"""


def test_a_proposal_is_shown_and_nothing_is_changed(shell, project):
    before = (project / "eddyline.toml").read_text()
    said = shell("eddyline stream add copies --sample data/trades.json")
    assert (said.code, said.out) == (0, TRADES)
    assert said.err == (
        "looked at 4 rows of json; time is ts\nnothing was changed: --write adds the first part to eddyline.toml\n"
    )
    assert (project / "eddyline.toml").read_text() == before


def test_a_written_stream_is_part_of_the_pipeline_and_runs(shell, project):
    said = shell("eddyline stream add copies --sample data --write")
    assert (said.code, said.out) == (0, TRADES)
    assert said.err.splitlines()[-1] == "added to eddyline.toml; eddyline run reads it from the next start on"
    assert [s.stream.name for s in load_pipeline(project / "eddyline.toml").streams] == ["trades", "copies"]
    (project / "rules" / "copied.sql").write_text(
        "CREATE VIEW copied AS SELECT sym FROM copies WHERE qty = 300"
    )
    assert "+ copied: sym=CORN\n" in shell("eddyline run --once").out


def test_a_stream_that_is_there_is_refused_in_any_spelling(shell, project):
    before = (project / "eddyline.toml").read_text()
    said = shell("eddyline stream add TRADES --sample data --write")
    assert (said.code, said.out) == (1, "")
    assert said.err == (
        "stream trades is in eddyline.toml already\ndetail: Nothing was written.\n"
        "hint: Give another name, or leave --write out and change the file by hand.\n"
    )
    assert (project / "eddyline.toml").read_text() == before


@pytest.mark.parametrize(
    "column",
    [
        'a" } \\ x',
        "b', 'c INT) --",
        "d`, e INT -- ",
        "f, g INT",
        '"""',
        "${env:HOME}",
        'x"]\n[engine]\nhome = "elsewhere',
        "\u2028[engine]",
    ],
)
def test_names_in_the_data_cannot_write_anything_else_into_the_pipeline(shell, project, column):
    """They come from whoever writes the data. Either they are the name of a column, or nothing is written."""
    before = (project / "eddyline.toml").read_text()
    (project / "odd.json").write_text(json.dumps({column: 1}) + "\n")
    done = shell("eddyline stream add odd --sample odd.json --write")
    if done.code:
        assert done.err.count("hint: ") == 1
        assert (project / "eddyline.toml").read_text() == before
        return
    read, known = tomllib.loads((project / "eddyline.toml").read_text()), tomllib.loads(before)
    added = read["streams"].pop("odd")
    assert read == known | {"streams": known["streams"]}
    assert set(added) == {"schema", "source"}
    (settings,) = [s for s in load_pipeline(project / "eddyline.toml").streams if s.stream.name == "odd"]
    assert settings.stream.schema.names == [column]


def test_a_file_with_other_line_ends_keeps_them(shell, project):
    path = project / "eddyline.toml"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert shell("eddyline stream add copies --sample data --write").code == 0
    assert path.read_bytes().count(b"\n") == path.read_bytes().count(b"\r\n")
    assert path.read_bytes().endswith(b'format = "json" }\r\n')


def test_a_pipeline_that_cannot_take_it_is_left_as_it_was(shell, project):
    path = project / "eddyline.toml"
    path.write_text('streams = { a = { schema = "n INT" } }\n')
    said = shell("eddyline stream add copies --sample data --write")
    assert said.code == 1
    assert "eddyline.toml" in said.err
    assert path.read_text() == 'streams = { a = { schema = "n INT" } }\n'


def test_standard_input_json_and_a_time_of_choice(shell, project):
    said = shell(
        "eddyline stream add things --sample - --rows 1 --time b --json",
        stdin='{"a": "2026-01-05 10:00:00", "b": "2026-01-05 10:00:00"}\n{"c": 1}\n',
    )
    assert said.json["time"] == "b"
    assert [column["name"] for column in said.json["columns"]] == ["a", "b"]
    assert said.json["pipeline"] == (
        '[streams.things]\nschema = "a TIMESTAMP, b TIMESTAMP"\ntime = "b"\nsource = { type = "stdin", format = "json" }\n'
    )
    assert (said.json["n_rows"], said.json["written_to"]) == (1, None)


def test_rows_that_do_not_fit_are_counted_and_noted(shell, project):
    said = shell("eddyline stream add s --sample -", stdin='{"a": 1}\n{"a": "x"}\n{\n')
    assert said.out.splitlines()[:2] == [
        "column  type    nulls  examples  note",
        "a       STRING         1, x      numbers 1 times, text 1 times: rows where it is not text will not fit",
    ]
    assert said.err.splitlines()[:2] == [
        "looked at 2 rows of json, 2 would not fit; no time column",
        "not a row: the line is not JSON (standard input, line 3)",
    ]


def test_without_a_pipeline_paths_start_here(shell, tmp_path):
    (tmp_path / "a.csv").write_text("n\n1\n")
    said = shell("eddyline stream add s --sample a.csv --json")
    assert 'path = "."' in said.json["pipeline"]
    said = shell("eddyline stream add s --sample a.csv --write")
    assert (said.code, said.err.splitlines()[0]) == (2, "there is no eddyline.toml here or in a folder above")


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        ("eddyline stream", 2, "stream needs an ACTION: add\n"),
        ("eddyline stream drop x", 2, "there is no command drop\n"),
        ("eddyline stream add", 2, "stream add needs a NAME: the name of the stream\n"),
        ("eddyline stream add x", 2, "stream add looks at a sample of the data\n"),
        ("eddyline stream add 5x --sample data", 2, "'5x' cannot be the name of a stream\n"),
        ("eddyline stream add x --sample data --format xml", 2, "there is no format xml\n"),
        ("eddyline stream add x --sample data --rows 0", 2, "argument --rows: it counts from 1\n"),
        ("eddyline stream add x --sample data --delimiter ab", 2, "'ab' cannot separate fields\n"),
        ("eddyline stream add x --sample nowhere", 1, "nowhere cannot be read\ndetail: No such file or directory\n"),
        ("eddyline stream add x --sample data --time tss", 1,
         "there is no column tss in the data for x\nhint: Did you mean ts?\n"),
        ("eddyline stream add x --sample data --pipeline nowhere.toml", 2, "there is no eddyline.toml at nowhere.toml\n"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(shell, project, command, code, message):
    said = shell(command)
    assert (said.code, said.out) == (code, "")
    assert said.err.startswith(message)
