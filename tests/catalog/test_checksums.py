"""A catalog that is damaged is refused by name, or it is right: byte after byte of a real one."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TypeVar

import pytest

import eddyline
from eddyline.catalog import checksums
from eddyline.catalog.database import Database
from eddyline.control import check_home
from eddyline.errors import HomeError
from tools.make_old_home import facts, fill

T = TypeVar("T")
PAGE = 4096
HOMES = Path(__file__).parent.parent / "homes"


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """A home with something in every table, closed, so that all of it is in one file."""
    home = tmp_path_factory.mktemp("whole") / "home"
    fill(home)
    with eddyline.open(home, clock=lambda: 0) as engine:
        engine.query("SELECT sym FROM trades WHERE price > 1", name="hot", per="sym", resolve="1 hour")
        engine.push("trades", [("A", 5.0, 1, None)])
        engine.acknowledge("hot", by="kim")
        engine.silence("hot", for_="1 hour", by="kim")
        engine.access.tokens.add("admin", 0)
        engine.access.audit.add(0, "kim", "", "looked", {})
    assert not (home / "catalog.db-wal").exists()
    return home


@pytest.fixture
def home(whole, tmp_path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "home"))


def seen(home: Path) -> object:
    """All that a home says of itself."""
    with eddyline.open(home, clock=lambda: 0) as engine:
        durable = engine.rounds.durable
        return (
            facts(engine),
            engine.rounds.durable.rounds.recent(100),
            engine.messages(),
            engine.silences(over=None),
            engine.access.tokens.list(),
            engine.access.audit.newest(10),
            [engine.push("trades", [], token=token).is_repeat for token in ("t1", "t2")],
            list(durable.database.problems(all_rows=True)),
        )


def tables(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        return [name for (name,) in rows if not name.startswith("sqlite_")]


def harmed(home: Path, offset: int, change: Callable[[int], int]) -> None:
    with open(home / "catalog.db", "r+b") as file:
        file.seek(offset)
        (before,) = file.read(1)
        file.seek(offset)
        file.write(bytes([change(before)]))


def opened_or_refused(open_: Callable[[], T], offset: int) -> T | None:
    """None if it is refused by name: which file, what is wrong with it, what to do."""
    try:
        return open_()
    except HomeError as refused:
        said = refused.problem, refused.detail, refused.hint
    assert "catalog.db" in said[0], (offset, said)
    assert said[1] is not None, (offset, said)
    assert said[2] is not None, (offset, said)
    return None


def test_every_table_has_rows_and_checksums_in_this_home(whole):
    with closing(sqlite3.connect(whole / "catalog.db")) as connection:
        empty = [
            name
            for name in tables(whole / "catalog.db")
            if not connection.execute(f"SELECT count({checksums.COLUMN}) FROM {name}").fetchone()[0]
        ]
    assert set(empty) <= {"functions", "inputs", "withheld", "alert_counts"}


@pytest.mark.parametrize("round_", range(4))
def test_flipped_bytes_are_named_or_change_nothing(whole, home, round_):
    """Some bytes of every page; the file is as it was before each."""
    rng = random.Random(round_)
    pristine = (whole / "catalog.db").read_bytes()
    right = Database(home / "catalog.db")
    expected = (
        right.versions.recent(1000),
        list(right.queries.past_names().items()),
        right.setting("time zone"),
    )
    right.close()
    n_refused = 0
    for page in range(len(pristine) // PAGE):
        (home / "catalog.db").write_bytes(pristine)
        bit = 1 << rng.randrange(8)
        used = [at for at in range(page * PAGE, (page + 1) * PAGE) if pristine[at]]
        offset = rng.choice(used)
        harmed(home, offset, lambda byte, bit=bit: byte ^ bit)
        database = opened_or_refused(lambda: Database(home / "catalog.db"), offset)
        if database is None:
            n_refused += 1
            continue
        found = (
            database.versions.recent(1000),
            list(database.queries.past_names().items()),
            database.setting("time zone"),
        )
        assert found == expected, offset
        assert list(database.problems(all_rows=True)) == [], offset
        database.close()
    assert n_refused > 20


@pytest.mark.thorough
def test_a_home_with_a_flipped_byte_is_refused_or_says_what_it_said(whole, home):
    rng = random.Random(7)
    pristine = (whole / "catalog.db").read_bytes()
    expected = seen(home)
    for _ in range(60):
        shutil.rmtree(home)
        shutil.copytree(whole, home)
        used = [at for at in range(len(pristine)) if pristine[at]]
        offset = rng.choice(used)
        harmed(home, offset, lambda byte: byte ^ (1 << rng.randrange(8)))
        found = opened_or_refused(lambda: seen(home), offset)
        assert found in (None, expected), offset


def spoiled(path: Path, table: str, column: str) -> bool:
    """Change a value as damage would: the checksum stays that of what was written. False if the table has no row."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        row = connection.execute(f"SELECT {column} FROM {table} LIMIT 1").fetchone()
        if row is None:
            return False
        (value,) = row
        other = value + 10_000 if isinstance(value, int) else 7 if not value else value[:-1] + value[:1] * 2
        (trigger,) = connection.execute(
            "SELECT sql FROM sqlite_master WHERE name = ?", (f"{table}_changed",)
        ).fetchone()
        connection.execute(f"DROP TRIGGER {table}_changed")
        connection.execute(f"UPDATE OR REPLACE {table} SET {column} = ? WHERE {column} IS ?", (other, value))
        connection.execute(trigger)
        return True


def columns(path: Path, table: str) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        named = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        return [name for name in named if name != checksums.COLUMN]


@pytest.mark.thorough
def test_a_value_that_is_not_what_was_written_is_refused_with_its_table(whole, tmp_path):
    path, n = tmp_path / "catalog.db", 0
    for table in tables(whole / "catalog.db"):
        for column in columns(whole / "catalog.db", table):
            shutil.copy(whole / "catalog.db", path)
            if not spoiled(path, table, column):
                continue
            with pytest.raises(HomeError) as refused:
                Database(path)
            what = "the schema is not" if (table, column) == ("settings", "name") else f"table {table} "
            assert str(refused.value).startswith(f"{path} is damaged\ndetail: "), (table, column)
            assert what in refused.value.detail or table == "settings", (table, column, refused.value)
            assert refused.value.hint == "Restore it from a backup with eddyline restore."
            n += 1
    assert n > 100


def test_rows_too_many_to_look_at_are_looked_at_when_they_are_read(home, monkeypatch):
    monkeypatch.setattr(checksums, "NEWEST", 0)
    for table, column in (("rounds", "seed"), ("messages", "body"), ("audit", "detail")):
        assert spoiled(home / "catalog.db", table, column)
    with eddyline.open(home, clock=lambda: 0) as engine:
        for table, read in (
            ("rounds", lambda: engine.push("trades", [], token="t1")),
            ("messages", engine.messages),
            ("audit", lambda: engine.access.audit.newest(10)),
        ):
            with pytest.raises(HomeError, match=f"A row of the table {table} is not what was written"):
                read()
        found = check_home(engine.rounds.durable, tell=lambda *progress: None)
    assert [
        finding.message.split(": ", 1)[1].split(":")[0] for finding in found if finding.level == "error"
    ] == [f"a row of the table {table} is not what was written" for table in ("audit", "messages", "rounds")]


def test_pages_that_break_while_a_home_is_open_are_named(home):
    database = Database(home / "catalog.db")
    (root,) = database.connection.execute(
        "SELECT rootpage FROM sqlite_master WHERE name = 'rounds'"
    ).fetchone()
    with open(home / "catalog.db", "r+b") as file:
        file.seek((root - 1) * PAGE)
        file.write(bytes(PAGE))
    database.connection.execute("PRAGMA shrink_memory")  # it is not read from memory
    with pytest.raises(HomeError, match=r"catalog\.db is damaged") as refused:
        database.connection.execute("SELECT * FROM rounds").fetchall()
    assert refused.value.hint == "Restore it from a backup."
    database.close()


def test_an_old_home_with_a_text_that_cannot_be_read_is_damaged_by_name(tmp_path):
    for table, column, said in (
        ("streams", "definition", "A row of the table streams is not what was written"),
        ("positions", "position", "A row of the table positions is not what was written"),
        ("shapes", "body", "What it says cannot be read: JSONDecodeError"),
    ):
        home = tmp_path / table
        shutil.copytree(HOMES / "format-5", home)
        with closing(sqlite3.connect(home / "catalog.db", isolation_level=None)) as connection:
            connection.execute(f"UPDATE {table} SET {column} = substr({column}, 3)")
        with pytest.raises(HomeError) as refused:
            eddyline.open(home, clock=lambda: 0)
        assert refused.value.problem == f"{home / 'catalog.db'} is damaged"
        assert said in refused.value.detail


def test_looking_at_a_catalog_is_one_pass_over_each_table(home):
    """However many rows there are: no row is looked for by another."""
    with closing(Database(home / "catalog.db")) as database:
        asked: list[str] = []
        database.connection.set_trace_callback(asked.append)
        assert list(database.problems()) == []
        database.connection.set_trace_callback(None)
        looks = [text for text in asked if checksums.COLUMN in text and "LIMIT 1" in text]
        assert len(looks) == len(tables(home / "catalog.db"))
        for text in looks:
            steps = [row[3] for row in database.connection.execute(f"EXPLAIN QUERY PLAN {text}")]
            assert sum(step.startswith("SCAN") for step in steps) <= 2, (text, steps)
            assert not any("TEMP B-TREE" in step for step in steps), (text, steps)
