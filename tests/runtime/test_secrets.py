"""Secrets: used, and never kept or shown."""

from __future__ import annotations

import copy
import json
import pickle
import traceback
from pathlib import Path

import pytest

from eddyline.api import run
from eddyline.pipeline import PipelineError, check_machine, read_pipeline
from eddyline.secrets import Secret, SecretError, has_secrets, hidden, revealed_text, text_with_secrets

HUSH = "correct-horse-battery"


@pytest.fixture
def hush(monkeypatch) -> str:
    monkeypatch.setenv("HUSH", HUSH)
    return HUSH


def secret(text: str, folder: Path = Path("/")) -> Secret:
    found = text_with_secrets(text, folder)
    assert isinstance(found, Secret)
    return found


# --------------------------------------------------------------------------------------------- texts


def test_a_secret_is_read_when_it_is_used(monkeypatch, tmp_path):
    text = secret("/data/${env:HUSH}/in/${file:key}", tmp_path)
    monkeypatch.setenv("HUSH", "one")
    (tmp_path / "key").write_text("two\n")
    assert text.reveal() == "/data/one/in/two"
    monkeypatch.setenv("HUSH", "three")
    assert text.reveal() == "/data/three/in/two"


def test_a_text_without_secrets_is_itself():
    assert text_with_secrets("a/$b/{c}", Path()) == "a/$b/{c}"
    assert text_with_secrets("$${env:X}", Path()) == "${env:X}"
    assert revealed_text("plain") == "plain"
    assert [has_secrets(text) for text in ("a", "$${b}", "${c}", "x${env:Y}")] == [False, False, True, True]


def test_the_file_of_a_secret_may_be_named_from_the_root(tmp_path):
    (tmp_path / "key").write_text("two")
    assert secret(f"${{file:{tmp_path / 'key'}}}", Path("/nowhere")).reveal() == "two"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("${env:X", "a secret has no closing brace"),
        ("${X}", "'X' is not a kind of secret"),
        ("${vault:x}", "'vault' is not a kind of secret"),
        ("${env:}", "'' cannot be the name of an environment variable"),
        ("${env:A-B}", "'A-B' cannot be the name of an environment variable"),
        ("${file:}", "a secret names no file"),
    ],
)
def test_a_reference_that_is_written_wrongly_is_refused(text, problem):
    with pytest.raises(SecretError) as refused:
        text_with_secrets(text, Path())
    assert refused.value.problem == problem


def test_a_missing_secret_is_an_error_that_names_it(monkeypatch, tmp_path):
    monkeypatch.delenv("HUSH", raising=False)
    (tmp_path / "bytes").write_bytes(b"\xff")
    (tmp_path / "large").write_bytes(b"x" * 100_000)
    text = secret("${env:HUSH}${file:none}${file:bytes}${file:large}", tmp_path)
    assert [problem.problem for problem in text.problems()] == [
        "the environment variable HUSH is not set",
        "the secret file none cannot be read",
        "the secret file bytes is not UTF-8 text",
        "the secret file large is larger than 64 KB",
    ]
    with pytest.raises(SecretError, match="the environment variable HUSH is not set"):
        text.reveal()


# --------------------------------------------------------------------------------------------- nowhere to be seen


def test_a_secret_shows_only_how_it_was_written(hush):
    text = secret("in/${env:HUSH}")
    shown = [
        str(text),
        repr(text),
        f"{text}",
        json.dumps({"path": text}, default=str),
        repr({"path": text}),
        repr(copy.deepcopy(text)),
        pickle.dumps(text).decode("latin-1"),
        str(vars(SecretError("x"))),
    ]
    assert all(HUSH not in each for each in shown)
    assert str(text) == "in/${env:HUSH}"
    assert text == secret("in/${env:HUSH}")
    assert pickle.loads(pickle.dumps(text)).reveal() == f"in/{HUSH}"


def test_a_message_is_told_without_what_a_secret_holds(hush):
    text = secret("/data/${env:HUSH}/in")
    assert hidden(f"cannot open /data/{HUSH}/in: no", text) == "cannot open /data/${env:HUSH}/in: no"
    assert hidden("nothing in it", text, "plain", None) == "nothing in it"


def pipeline(folder: Path):
    return read_pipeline(
        """
        [streams.trades]
        schema = "sym STRING, price DOUBLE"
        source = { type = "files", path = "${env:HUSH}/in", format = "json" }
        [rules]
        files = ["cheap.sql"]
        [[sinks]]
        type = "file"
        path = "${env:HUSH}/out"
        every = 0
        """,
        folder / "eddyline.toml",
    )


@pytest.fixture
def folder(tmp_path) -> Path:
    (tmp_path / "cheap.sql").write_text(
        "CREATE OR REPLACE VIEW cheap AS SELECT sym FROM trades WHERE price < 10"
    )
    return tmp_path


def everything_in(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


def told(error: BaseException) -> str:
    """All that a user could be shown of an error."""
    return f"{error}{error!r}" + "".join(traceback.format_exception(error))


def test_a_run_uses_secrets_and_leaves_none_behind(folder, hush):
    (folder / HUSH / "in").mkdir(parents=True)
    (folder / HUSH / "in" / "a.json").write_text(
        '{"sym": "A", "price": 1}\n{"sym": "B", "price": "x"}\nnonsense\n'
    )
    (folder / HUSH / "in" / "b.json").write_text("[{")
    events = []
    summary = run(pipeline(folder), once=True, on_event=events.append)
    assert (summary.n_results, summary.n_dead) == (1, 3)
    assert len(list((folder / HUSH / "out").iterdir())) == 1
    assert HUSH.encode() not in everything_in(folder)
    assert HUSH not in repr(events)
    assert HUSH not in repr(pipeline(folder))


def test_a_missing_secret_stops_the_run_before_it_begins(folder, monkeypatch):
    monkeypatch.delenv("HUSH", raising=False)
    with pytest.raises(PipelineError) as refused:
        run(pipeline(folder), once=True)
    assert [f"{m.place.line} {m.problem}" for m in refused.value.mistakes] == [
        "4 the environment variable HUSH is not set",
        "9 the environment variable HUSH is not set",
    ]
    assert not (folder / "home").exists()


def test_a_folder_that_is_not_there_is_named_as_it_was_written(folder, hush):
    with pytest.raises(PipelineError) as refused:
        check_machine(pipeline(folder))
    assert refused.value.mistakes[0].problem == "the folder ${env:HUSH}/in of stream trades does not exist"
    assert HUSH not in told(refused.value)


def test_a_folder_that_vanishes_and_a_sink_that_cannot_write_tell_no_secret(folder, hush):
    events = []

    def breaking(event):
        events.append(event)
        if type(event).__name__ == "RoundCommitted":
            (folder / HUSH / "in" / "a.json").unlink(missing_ok=True)
            (folder / HUSH / "in").rmdir()
            (folder / HUSH / "out").rmdir()
            (folder / HUSH / "out").write_text("in the way")

    (folder / HUSH / "in").mkdir(parents=True)
    (folder / HUSH / "in" / "a.json").write_text('{"sym": "A", "price": 1}\n')
    with pytest.raises(Exception) as failed:
        run(pipeline(folder), once=True, on_event=breaking)
    assert {"SinkFailed"} <= {type(event).__name__ for event in events}
    assert HUSH not in repr(events)
    assert HUSH not in told(failed.value)
    assert HUSH.encode() not in everything_in(folder / "home")


def test_a_sink_whose_folder_cannot_be_made_tells_no_secret(folder, hush):
    (folder / HUSH / "in").mkdir(parents=True)
    (folder / HUSH / "out").write_text("in the way")
    with pytest.raises(Exception) as failed:
        run(pipeline(folder), once=True)
    assert "sink file cannot use its folder" in str(failed.value)
    assert HUSH not in told(failed.value)


def test_an_error_does_not_show_secrets_of_the_file_itself(folder, hush):
    text = '[[sinks]]\ntype = "file"\npath = "${env:HUSH}"\nformat = "xml"\n'
    with pytest.raises(PipelineError) as refused:
        read_pipeline(text, folder / "eddyline.toml")
    assert HUSH not in told(refused.value)
    assert HUSH not in json.dumps([m.as_dict() for m in refused.value.mistakes])
