"""The Dockerfile, read: no image is built here, since there may be no engine for it."""

from __future__ import annotations

import fnmatch
import json
import re
from pathlib import Path

from eddyline.cli.arguments import build

ROOT = Path(__file__).parent.parent


def instructions() -> list[tuple[str, str]]:
    """Each instruction with its arguments, lines that go on joined."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    found = []
    for line in joined.splitlines():
        word, _, rest = line.partition(" ")
        assert word.isupper(), line
        found.append((word, rest.strip()))
    return found


def stages() -> list[list[tuple[str, str]]]:
    found: list[list[tuple[str, str]]] = []
    for word, rest in instructions():
        if word == "FROM":
            found.append([])
        if found:
            found[-1].append((word, rest))
    return found


def test_what_it_copies_is_there_and_reaches_the_build():
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").split("\n")
    let_through = [line[1:] for line in ignored if line.startswith("!")]
    assert "*" in ignored
    copied = [rest.split()[:-1] for word, rest in instructions() if word == "COPY" and "--from" not in rest]
    for name in (name for names in copied for name in names):
        assert (ROOT / name).exists(), name
        assert any(fnmatch.fnmatch(name, pattern) for pattern in let_through), f"{name} is left out"
    assert {name for names in copied for name in names} == set(let_through)


def test_the_image_that_runs_builds_nothing_and_is_no_root():
    first, last = stages()
    assert first[0] == ("FROM", "python:${PYTHON} AS build")
    runs = " ".join(rest for word, rest in last if word == "RUN")
    assert not re.search(r"pip|apt|apk|gcc|curl", runs)
    words = [word for word, _ in last]
    assert dict(last)["USER"] == "eddyline"
    assert words.index("USER") > words.index("RUN")
    assert words.index("USER") < words.index("ENTRYPOINT")
    assert [rest for word, rest in last if word == "COPY"] == ["--from=build /opt/eddyline /opt/eddyline"]


def test_it_serves_and_says_whether_it_lives():
    last = dict(stages()[-1])
    assert json.loads(last["ENTRYPOINT"]) == ["eddyline", "serve"]
    given = build().parse_args(["serve", *json.loads(last["CMD"])])
    assert (given.host, given.port, given.home, given.log_format) == ("0.0.0.0", 8321, "/data/home", "json")
    assert last["EXPOSE"] == "8321"
    assert "/health" in last["HEALTHCHECK"]
    assert f":{given.port}/" in last["HEALTHCHECK"]
    assert given.home.startswith(last["VOLUME"])


def test_the_extras_it_installs_are_those_of_the_package():
    import tomllib

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (given,) = [rest for word, rest in instructions() if word == "ARG" and rest.startswith("EXTRAS=")]
    assert set(given.removeprefix("EXTRAS=").split(",")) <= set(extras)
