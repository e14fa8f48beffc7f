"""Names that a home and its pipeline file have, read in some ten milliseconds, for shells that complete words.

Shells run this file by its path, with the interpreter that has eddyline:

    python names.py KIND WORDS…       KIND: query, alert, stream, sink, version or silence; WORDS: the line so far

So it imports nothing of the package, which would take seconds, and opens no engine: the catalog is only read, also while
a process holds the home. Prints the names that begin with the last word, one a line.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import tomllib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

FILE_NAME = "eddyline.toml"
MOST = 1000


def names(kind: str, words: Sequence[str], prefix: str = "") -> list[str]:
    """Names of a kind that begin with `prefix`, sorted, MOST at most; `words` may have --home or --pipeline."""
    if kind == "sink":
        found: Iterable[str] = _sinks(pipeline_file(words))
    else:
        home = home_folder(words)
        found = () if home is None else _in_catalog(home / "catalog.db", _READERS[kind])
    return sorted({name for name in found if name.startswith(prefix)})[:MOST]


def home_folder(words: Sequence[str]) -> Path | None:
    """--home, EDDYLINE_HOME, or what the pipeline file says; None: no home is named."""
    stated = _value(words, "--home") or os.environ.get("EDDYLINE_HOME")
    if stated:
        return Path(stated).expanduser()
    file = pipeline_file(words)
    if file is None:
        return None
    engine = _read(file).get("engine", {})
    home = engine.get("home", "home") if isinstance(engine, dict) else "home"
    return file.parent / Path(str(home)).expanduser()


def pipeline_file(words: Sequence[str]) -> Path | None:
    """--pipeline, or eddyline.toml here or in a folder above."""
    stated = _value(words, "--pipeline")
    if stated is not None:
        path = Path(stated).expanduser()
        return path / FILE_NAME if path.is_dir() else path
    here = Path.cwd()
    return next((each / FILE_NAME for each in (here, *here.parents) if (each / FILE_NAME).is_file()), None)


def _value(words: Sequence[str], option: str) -> str | None:
    """What the line says after an option, --home X or --home=X."""
    for at, word in enumerate(words):
        if word == option and at + 1 < len(words):
            return words[at + 1].removeprefix("=") or (words[at + 2] if at + 2 < len(words) else None)
        if word.startswith(f"{option}="):
            return word.partition("=")[2]
    return None


def _read(file: Path) -> dict[str, Any]:
    """The tables of a pipeline file; of one that cannot be read, none: eddyline plan says what is wrong with it."""
    try:
        return tomllib.loads(file.read_bytes().decode("utf-8-sig"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        return {}


def _sinks(file: Path | None) -> list[str]:
    tables = [] if file is None else _read(file).get("sinks", [])
    each = [table for table in tables if isinstance(table, dict)] if isinstance(tables, list) else []
    return [str(table.get("name") or table.get("type") or "") for table in each]


# --------------------------------------------------------------------------------------------- the catalog

Reader = Callable[[sqlite3.Connection], Iterable[str]]


def _in_catalog(file: Path, read: Reader) -> list[str]:
    """What a reader finds; nothing if there is no catalog, or one that this version cannot read."""
    if not file.is_file():
        return []
    try:
        connection = sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True, timeout=1.0)
    except sqlite3.Error:
        return []
    try:
        return list(read(connection))
    except sqlite3.Error:
        return []
    finally:
        connection.close()


def _queries(connection: sqlite3.Connection) -> dict[int, str]:
    """The name of every query that is deployed, by its number."""
    rows = connection.execute("SELECT query_id, name FROM queries WHERE version_to IS NULL")
    found = {number: name or f"q{number}" for number, name in rows}
    templates = connection.execute("SELECT first_id, n, names FROM templates").fetchall()
    if templates:
        ended = {number for (number,) in connection.execute("SELECT query_id FROM ended_members")}
        for first, n, stored in templates:
            members = [f"q{first + k}" for k in range(n)] if stored is None else _stored_names(stored)
            found |= {first + k: name for k, name in enumerate(members) if first + k not in ended}
    return found


def _stored_names(stored: bytes) -> list[str]:
    import pyarrow as pa  # 100 ms, which only homes with templates pay

    with pa.ipc.open_stream(stored) as reader:
        column: list[str] = reader.read_all().column(0).to_pylist()
    return column


def _alerts(connection: sqlite3.Connection) -> list[str]:
    """Queries with open alerts."""
    queries = _queries(connection)
    numbers = connection.execute("SELECT DISTINCT query_id FROM alerts")
    return [queries[number] for (number,) in numbers if number in queries]


def _rows(statement: str) -> Reader:
    return lambda connection: [str(value) for (value,) in connection.execute(statement)]


_READERS: dict[str, Reader] = {
    "query": lambda connection: _queries(connection).values(),
    "alert": _alerts,
    "stream": _rows("SELECT name FROM streams WHERE version_to IS NULL"),
    "version": _rows("SELECT version FROM versions"),
    "silence": _rows("SELECT id FROM silences WHERE ended_us IS NULL"),
}


if __name__ == "__main__":
    sys.stdout.writelines(f"{name}\n" for name in names(sys.argv[1], sys.argv[2:-1], sys.argv[-1]))
