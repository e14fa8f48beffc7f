"""The format of the catalog's file and the way from each earlier format to this one."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

from eddyline.catalog import checksums
from eddyline.errors import HomeError

FORMAT = 7
PROTECTED = 6  # from this format on rows have checksums

_TABLES = """
CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE versions (version INTEGER PRIMARY KEY, at_us INTEGER NOT NULL, what TEXT NOT NULL);
CREATE TABLE streams (name TEXT NOT NULL, definition TEXT NOT NULL, version_from INTEGER NOT NULL, version_to INTEGER);
CREATE TABLE shapes (id INTEGER PRIMARY KEY, body TEXT NOT NULL UNIQUE);
CREATE TABLE queries (
    query_id INTEGER NOT NULL, generation INTEGER NOT NULL, name TEXT, text TEXT NOT NULL, shape INTEGER NOT NULL,
    properties TEXT NOT NULL, constants TEXT NOT NULL, state TEXT NOT NULL, registered_us INTEGER NOT NULL,
    version_from INTEGER NOT NULL, version_to INTEGER, PRIMARY KEY (query_id, version_from)) WITHOUT ROWID;
CREATE TABLE templates (
    first_id INTEGER PRIMARY KEY, n INTEGER NOT NULL, text TEXT NOT NULL, shape INTEGER NOT NULL, properties TEXT NOT NULL,
    names BLOB, constants BLOB, registered_us INTEGER NOT NULL, version_from INTEGER NOT NULL);
CREATE TABLE ended_members (query_id INTEGER PRIMARY KEY, version INTEGER NOT NULL);
CREATE TABLE functions (name TEXT NOT NULL, function_version TEXT NOT NULL, version INTEGER NOT NULL,
    PRIMARY KEY (name, function_version)) WITHOUT ROWID;
CREATE TABLE rounds (
    number INTEGER PRIMARY KEY, version INTEGER NOT NULL, now_us INTEGER NOT NULL, seed INTEGER NOT NULL,
    first_arrival INTEGER NOT NULL, last_arrival INTEGER NOT NULL, token TEXT UNIQUE, rows TEXT NOT NULL,
    n_results INTEGER NOT NULL, n_dead INTEGER NOT NULL, n_late INTEGER NOT NULL, epoch INTEGER NOT NULL);
CREATE TABLE progress (stream TEXT PRIMARY KEY, n_rows INTEGER NOT NULL, max_time_us INTEGER, watermark_us INTEGER,
    n_late INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE positions (source TEXT PRIMARY KEY, position TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE files (
    name TEXT PRIMARY KEY, kind TEXT NOT NULL, round INTEGER NOT NULL, nbytes INTEGER NOT NULL, checksum INTEGER NOT NULL,
    at_us INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX files_by_round ON files (kind, round);
CREATE TABLE cursors (reader TEXT PRIMARY KEY, round INTEGER NOT NULL, place INTEGER NOT NULL) WITHOUT ROWID;
"""

# What has ended, and what no query uses any more, is found without reading active queries; rounds say when they were committed.
_FORGETTING = """
CREATE INDEX queries_ended ON queries (version_to) WHERE version_to IS NOT NULL;
CREATE INDEX queries_by_shape ON queries (shape);
CREATE INDEX templates_by_shape ON templates (shape);
CREATE INDEX ended_members_by_version ON ended_members (version);
ALTER TABLE rounds ADD COLUMN at_us INTEGER NOT NULL DEFAULT 0;
UPDATE rounds SET at_us = now_us;
"""

# Files that tasks write number their rows from 0; a query that is suspended says why.
_ARRIVALS = """
ALTER TABLE files ADD COLUMN first_arrival INTEGER NOT NULL DEFAULT 0;
ALTER TABLE queries ADD COLUMN why TEXT NOT NULL DEFAULT '';
"""

# Alerts and what they said; which rows a shared round read, where they lie; who may do what, and who did.
_SERVICE = """
CREATE TABLE alerts (
    query_id INTEGER NOT NULL, generation INTEGER NOT NULL, key TEXT NOT NULL, state TEXT NOT NULL, first_us INTEGER NOT NULL,
    last_us INTEGER NOT NULL, fired_us INTEGER, n_rows INTEGER NOT NULL, n_suppressed INTEGER NOT NULL,
    result TEXT NOT NULL, row TEXT NOT NULL, message TEXT NOT NULL, due_us INTEGER NOT NULL,
    PRIMARY KEY (query_id, generation, key)) WITHOUT ROWID;
CREATE INDEX alerts_due ON alerts (due_us);
CREATE TABLE alert_counts (
    query_id INTEGER PRIMARY KEY, n_fired INTEGER NOT NULL, n_resolved INTEGER NOT NULL, n_suppressed INTEGER NOT NULL,
    n_unformatted INTEGER NOT NULL);
CREATE TABLE messages (
    id INTEGER PRIMARY KEY AUTOINCREMENT, round INTEGER NOT NULL, query_id INTEGER NOT NULL, owner TEXT NOT NULL,
    body TEXT NOT NULL);
CREATE INDEX messages_by_query ON messages (query_id, id);
CREATE INDEX messages_by_owner ON messages (owner, id);
INSERT INTO cursors SELECT 'alerts', coalesce(max(number), 0), 0 FROM rounds;
CREATE TABLE inputs (
    round INTEGER NOT NULL, first_arrival INTEGER NOT NULL, n_rows INTEGER NOT NULL, stream TEXT NOT NULL,
    reference TEXT NOT NULL, PRIMARY KEY (round, first_arrival)) WITHOUT ROWID;
CREATE TABLE tokens (
    id TEXT PRIMARY KEY, hash TEXT NOT NULL UNIQUE, role TEXT NOT NULL, owner TEXT NOT NULL, note TEXT NOT NULL,
    created_us INTEGER NOT NULL, expires_us INTEGER, used_us INTEGER, is_single_use INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE audit (
    id INTEGER PRIMARY KEY AUTOINCREMENT, at_us INTEGER NOT NULL, who TEXT NOT NULL, owner TEXT NOT NULL, what TEXT NOT NULL,
    detail TEXT NOT NULL);
"""

# Acknowledgements of alerts; silences, and what they withheld; the messages of one key.
_SILENCES = """
CREATE TABLE acknowledgements (
    id INTEGER PRIMARY KEY AUTOINCREMENT, query_id INTEGER NOT NULL, generation INTEGER NOT NULL, key TEXT NOT NULL,
    since_us INTEGER NOT NULL, at_us INTEGER NOT NULL, who TEXT NOT NULL, note TEXT NOT NULL);
CREATE INDEX acknowledgements_by_alert ON acknowledgements (query_id, key, since_us);
CREATE TABLE silences (
    id INTEGER PRIMARY KEY AUTOINCREMENT, query TEXT NOT NULL, query_id INTEGER, key TEXT NOT NULL, severity TEXT, owner TEXT,
    who TEXT NOT NULL, reason TEXT NOT NULL, at_us INTEGER NOT NULL, until_us INTEGER NOT NULL, version_from INTEGER NOT NULL,
    version_to INTEGER, ended_us INTEGER, ended_by TEXT NOT NULL DEFAULT '', n_withheld INTEGER NOT NULL DEFAULT 0);
CREATE TABLE withheld (
    query_id INTEGER NOT NULL, generation INTEGER NOT NULL, key TEXT NOT NULL, first_status TEXT NOT NULL,
    n_messages INTEGER NOT NULL, owner TEXT NOT NULL, body TEXT NOT NULL,
    PRIMARY KEY (query_id, generation, key)) WITHOUT ROWID;
ALTER TABLE messages ADD COLUMN key TEXT;
CREATE INDEX messages_by_key ON messages (query_id, key, id);
"""

# From now on `at_us` of rounds and files, and `kept_us` of versions, are times as retention counts them (engine/retention.py).
# So far they were those of the wall clock: a jump of it, back or by more than a day, is taken out.
_PASSED = """
ALTER TABLE versions ADD COLUMN kept_us INTEGER NOT NULL DEFAULT 0;
CREATE TEMP TABLE passed AS
    SELECT version, number, at_us, first_value(at_us) OVER in_order + sum(step) OVER in_order AS kept_us FROM (
        SELECT *, max(0, min(at_us - lag(at_us, 1, at_us) OVER (ORDER BY version, number), 86400000000)) AS step FROM (
            SELECT version, 0 AS number, at_us FROM versions UNION ALL SELECT version, number, at_us FROM rounds))
    WINDOW in_order AS (ORDER BY version, number ROWS UNBOUNDED PRECEDING);
CREATE INDEX temp.passed_by_number ON passed (number, version);
UPDATE versions SET kept_us = (SELECT kept_us FROM passed p WHERE p.number = 0 AND p.version = versions.version);
UPDATE rounds SET at_us = (SELECT kept_us FROM passed p WHERE p.number = rounds.number);
UPDATE files SET at_us = coalesce((SELECT kept_us FROM passed p WHERE p.number = files.round AND p.number > 0),
    (SELECT max(kept_us) FROM passed), at_us);
INSERT INTO settings SELECT 'retention clock', json_array(kept_us, at_us, '', 0) FROM passed
    ORDER BY version DESC, number DESC LIMIT 1;
DROP TABLE passed;
"""

# Workers join the rows of a round before it has numbers.
_ORDINALS = """
ALTER TABLE files ADD COLUMN first_row INTEGER NOT NULL DEFAULT 0;
"""

# `n_rows` of an open alert over tables is from now on the number of rows of its key. So far it counted rows that appeared and
# none that left: 0 says that the number is not known (delivery/alerts.py). A query that was replaced may have read something else
# in an earlier generation; the members of a template are in their first one.
_TABLE_ALERTS = """
CREATE TEMP TABLE shapes_of_tables AS SELECT id FROM shapes WHERE json_valid(body) AND NOT EXISTS (
    SELECT 1 FROM json_each(iif(json_valid(shapes.body), shapes.body, '{}'), '$.inputs') AS input WHERE NOT EXISTS (
        SELECT 1 FROM streams WHERE lower(streams.name) = lower(json_extract(input.value, '$[1]'))
            AND version_to IS NULL AND json_array_length(definition, '$.key') > 0));
UPDATE alerts SET n_rows = 0 WHERE state <> 'cooling' AND (
    (query_id, generation) IN (SELECT query_id, generation FROM queries WHERE shape IN (SELECT id FROM shapes_of_tables))
    OR generation = 1 AND EXISTS (SELECT 1 FROM templates WHERE shape IN (SELECT id FROM shapes_of_tables)
        AND query_id BETWEEN first_id AND first_id + n - 1));
DROP TABLE shapes_of_tables;
"""

# From format k to k + 1, in order; each is a script that runs in one transaction.
_STEPS: dict[int, str] = {
    0: _TABLES,
    1: _FORGETTING,
    2: _ARRIVALS,
    3: _SERVICE,
    4: _SILENCES,
    5: _PASSED,
    6: _ORDINALS + _TABLE_ALERTS,
}


def refuse_newer(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a file from a newer version, or whose format is damaged; it is not written to."""
    found = _format(connection)
    if found > FORMAT:
        raise HomeError(
            f"{path} was written by a newer version of eddyline",
            detail=f"It has format {found}, this version knows {FORMAT}.",
            hint="Upgrade eddyline, or restore a backup from before the upgrade.",
        )
    triggers = connection.execute("SELECT 1 FROM sqlite_master WHERE type = 'trigger' LIMIT 1").fetchone()
    if (triggers is not None) != (found >= PROTECTED):
        raise checksums.damage_error(path, f"it says that it has format {found}, and has not")


def migrate(connection: sqlite3.Connection, path: Path | str = "catalog.db") -> None:
    """Bring the file to this version's format, each step all or nothing. Raises HomeError if it is damaged."""
    found = _format(connection)
    if found == 0:  # new: all steps at once wait for the disk once
        _transform(connection, "".join(_STEPS[step] for step in range(FORMAT)), FORMAT)
    else:
        for step in range(found, FORMAT):
            if step + 1 == PROTECTED:
                _refuse_unreadable(connection, path)
            _transform(connection, _STEPS[step], step + 1)


def _transform(connection: sqlite3.Connection, script: str, to: int) -> None:
    """One transaction that ends in a format."""
    connection.executescript(f"BEGIN IMMEDIATE;\n{script}\nPRAGMA user_version = {to};")
    if to >= PROTECTED:
        checksums.protect(connection)
    connection.execute("COMMIT")


def _refuse_unreadable(connection: sqlite3.Connection, path: Path | str) -> None:
    """What cannot be read gets no checksum that says it is right."""
    for table, column in (("streams", "definition"), ("positions", "position"), ("rounds", "rows")):
        if connection.execute(f"SELECT 1 FROM {table} WHERE NOT json_valid({column}) LIMIT 1").fetchone():
            raise checksums.damage_error(
                path, f"a row of the table {table} is not what was written: {column} is no JSON"
            )


def catalog_problems(connection: sqlite3.Connection, *, all_rows: bool = False) -> Iterator[str]:
    """What is not as it was written: pages, indexes, and rows as far as they have checksums."""
    (verdict,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    if verdict != "ok":
        yield f"pages of it are broken: {verdict}"
    elif _format(connection) >= PROTECTED:
        yield from checksums.problems(connection, all_rows=all_rows)


def _format(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])
