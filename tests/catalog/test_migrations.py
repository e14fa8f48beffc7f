from __future__ import annotations

import contextlib
import json
import sqlite3

import pytest

from eddyline.catalog import checksums, migrations
from eddyline.catalog.migrations import FORMAT, migrate, refuse_newer
from eddyline.errors import HomeError


@pytest.fixture
def connection(tmp_path):
    connection = sqlite3.connect(tmp_path / "catalog.db", isolation_level=None)
    checksums.register(connection)
    yield connection
    connection.close()


def tables(connection: sqlite3.Connection) -> set[str]:
    return {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def test_a_new_file_comes_to_the_format_of_this_version(connection):
    migrate(connection)
    assert connection.execute("PRAGMA user_version").fetchone() == (FORMAT,)
    assert {"streams", "queries", "versions", "functions", "rounds", "positions", "cursors"} <= tables(
        connection
    )


def schema(connection: sqlite3.Connection) -> dict[str, list[tuple]]:
    """Of every table its columns, in no order, and its indexes and triggers."""
    found = {}
    for name in tables(connection):
        columns = [column[1:] for column in connection.execute(f"PRAGMA table_info({name})")]
        others = connection.execute(
            "SELECT type, name FROM sqlite_master WHERE tbl_name = ? AND type <> 'table'", (name,)
        )
        found[name] = [*sorted(columns, key=repr), *sorted(others)]
    return found


def test_a_new_file_has_at_once_what_others_get_format_by_format(connection, monkeypatch):
    migrate(connection)
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as old:
        checksums.register(old)
        for number in range(1, FORMAT + 1):
            monkeypatch.setattr(migrations, "FORMAT", number)
            migrate(old)
            assert old.execute("PRAGMA user_version").fetchone() == (number,)
        assert schema(old) == schema(connection)
        assert list(checksums.problems(old)) == list(checksums.problems(connection)) == []


def test_a_file_of_this_format_stays_as_it_is(connection):
    migrate(connection)
    connection.execute("INSERT INTO settings (name, value) VALUES ('a', 'b')")
    migrate(connection)
    assert connection.execute("SELECT value FROM settings WHERE name = 'a'").fetchall() == [("b",)]


def test_every_format_has_a_way_to_the_next():
    assert sorted(migrations._STEPS) == list(range(FORMAT))


def test_a_file_goes_through_every_format_between(connection, monkeypatch):
    steps = {**migrations._STEPS, FORMAT: "ALTER TABLE settings ADD COLUMN more TEXT;"}
    migrate(connection)
    connection.execute("INSERT INTO settings (name, value) VALUES ('a', 'b')")
    monkeypatch.setattr(migrations, "_STEPS", steps)
    monkeypatch.setattr(migrations, "FORMAT", FORMAT + 1)
    migrate(connection)
    assert connection.execute("PRAGMA user_version").fetchone() == (FORMAT + 1,)
    assert connection.execute("SELECT value, more FROM settings WHERE name = 'a'").fetchall() == [("b", None)]
    assert list(checksums.problems(connection)) == []


def test_rounds_of_the_first_format_are_as_old_as_their_time(connection, monkeypatch):
    monkeypatch.setattr(migrations, "FORMAT", 1)
    migrate(connection)
    connection.execute("INSERT INTO rounds VALUES (1, 3, 1714521600000000, 42, 1, 5, 't1', '{}', 2, 1, 0, 1)")
    monkeypatch.setattr(migrations, "FORMAT", 2)
    migrate(connection)
    assert connection.execute("SELECT number, token, at_us FROM rounds").fetchall() == [
        (1, "t1", 1714521600000000)
    ]


def test_a_step_that_fails_leaves_the_format_before_it(connection, monkeypatch):
    migrate(connection)
    steps = {**migrations._STEPS, FORMAT: "CREATE TABLE half (n);\nALTER TABLE nowhere ADD COLUMN n;"}
    monkeypatch.setattr(migrations, "_STEPS", steps)
    monkeypatch.setattr(migrations, "FORMAT", FORMAT + 1)
    with pytest.raises(sqlite3.OperationalError):
        migrate(connection)
    connection.execute("ROLLBACK")
    assert connection.execute("PRAGMA user_version").fetchone() == (FORMAT,)
    assert "half" not in tables(connection)


def test_a_newer_format_is_refused(connection, tmp_path):
    connection.execute(f"PRAGMA user_version = {FORMAT + 1}")
    with pytest.raises(HomeError, match="was written by a newer version of eddyline"):
        refuse_newer(connection, tmp_path / "catalog.db")


def test_times_of_the_fifth_format_lose_the_jumps_of_the_clock(connection, monkeypatch):
    day = 86_400_000_000
    monkeypatch.setattr(migrations, "FORMAT", 5)
    migrate(connection)
    for version, at_us in ((1, 10), (2, 30), (3, 400 * day + 60)):
        connection.execute("INSERT INTO versions VALUES (?, ?, '')", (version, at_us))
    for number, version, at_us in ((1, 1, 20), (2, 2, 400 * day + 50), (3, 3, 70), (4, 3, 90)):
        connection.execute(
            "INSERT INTO rounds VALUES (?, ?, 0, 0, 1, 1, NULL, '{}', 0, 0, 0, 1, ?)",
            (number, version, at_us),
        )
        connection.execute(
            "INSERT INTO files VALUES (?, 'outbox', ?, 1, 1, ?, 0)", (f"f{number}", number, at_us)
        )
    monkeypatch.undo()
    migrate(connection)
    kept = connection.execute("SELECT kept_us FROM versions ORDER BY version").fetchall()
    assert kept == [(10,), (30,), (day + 40,)]
    times = [(20,), (day + 30,), (day + 40,), (day + 60,)]
    assert connection.execute("SELECT at_us FROM rounds ORDER BY number").fetchall() == times
    assert connection.execute("SELECT at_us FROM files ORDER BY name").fetchall() == times
    assert connection.execute("SELECT value FROM settings WHERE name = 'retention clock'").fetchone() == (
        f'[{day + 60},90,"",0]',
    )
    assert list(checksums.problems(connection)) == []


def test_open_alerts_over_tables_of_the_sixth_format_do_not_know_how_many_rows_they_have(
    connection, monkeypatch
):
    monkeypatch.setattr(migrations, "FORMAT", 6)
    migrate(connection)
    for name, key, version_to in (
        ("Quotes", '["sym"]', None),
        ("names", '["sym"]', None),
        ("trades", "[]", 3),
    ):
        connection.execute(
            "INSERT INTO streams (name, definition, version_from, version_to) VALUES (?, ?, 1, ?)",
            (name, f'{{"key": {key}}}', version_to),
        )
    connection.execute(
        "INSERT INTO streams (name, definition, version_from) VALUES ('trades', '{\"key\": []}', 3)"
    )
    for shape, streams in enumerate((["quotes"], ["trades"], ["quotes", "names"], ["trades", "quotes"]), 1):
        inputs = json.dumps([[stream[0], stream, None, None, None, None] for stream in streams])
        connection.execute("INSERT INTO shapes (id, body) VALUES (?, ?)", (shape, f'{{"inputs": {inputs}}}'))
    generations = [
        (1, 1, 1),
        (2, 1, 2),
        (3, 1, 3),
        (4, 1, 4),
        (5, 1, 1),
        (5, 2, 2),
        (6, 1, 2),
        (6, 2, 1),
        (21, 2, 2),
    ]
    for query_id, generation, shape in generations:
        connection.execute(
            "INSERT INTO queries (query_id, generation, text, shape, properties, constants, state, registered_us,"
            " version_from) VALUES (?, ?, '', ?, '', '', 'running', 0, ?)",
            (query_id, generation, shape, generation),
        )
    for first_id, n, shape in ((10, 2, 2), (20, 3, 1)):
        connection.execute(
            "INSERT INTO templates (first_id, n, text, shape, properties, registered_us, version_from)"
            " VALUES (?, ?, '', ?, '', 0, 1)",
            (first_id, n, shape),
        )
    over_tables = {(1, 1), (3, 1), (6, 2), (20, 1), (22, 1)}
    over_streams = {(2, 1), (4, 1), (5, 2), (10, 1), (11, 1), (19, 1), (21, 2), (23, 1)}
    for query_id, generation in over_tables | over_streams:
        for key, state in (("a", "firing"), ("b", "pending"), ("c", "held"), ("d", "cooling")):
            connection.execute(
                "INSERT INTO alerts (query_id, generation, key, state, first_us, last_us, n_rows, n_suppressed,"
                " result, row, message, due_us) VALUES (?, ?, ?, ?, 0, 0, 7, 0, '', '', '', 0)",
                (query_id, generation, key, state),
            )
    assert list(checksums.problems(connection)) == []
    monkeypatch.undo()
    migrate(connection)
    found = set(connection.execute("SELECT query_id, generation, state FROM alerts WHERE n_rows = 0"))
    assert found == {(*query, state) for query in over_tables for state in ("firing", "pending", "held")}
    assert set(connection.execute("SELECT n_rows FROM alerts")) == {(0,), (7,)}
    assert list(checksums.problems(connection, all_rows=True)) == []
