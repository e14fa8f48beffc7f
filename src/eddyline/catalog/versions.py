"""Versions that can be gone back to, and forgetting those that are too old.

A version can be gone back to as long as it is in `versions`. Once it is not, all goes that only it had: rows of streams and of
queries that ended before the oldest version kept, templates of which no member is left, shapes no query uses any more. A query is
remembered longer if results of it are kept, for they are shown under its name. A member that ended, of a template with other
members that are registered, is noted for good. Ids are not used again, whatever is forgotten: the last one is a setting.

Looking whether there is something to forget takes a few steps in indexes, however many queries there are. A step of forgetting is
one transaction and removes no more than AT_ONCE versions and AT_ONCE rows of queries, so that no round waits for long; the
versions go first, so that what a later step is to remove can no longer be asked for. The file does not become smaller by it:
SQLite uses the free pages again for what comes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from eddyline.catalog.database import Database

AT_ONCE = 10_000  # rows; about 50 ms
FORGOTTEN = "forgotten"  # a setting: templates none of whose members is left at this version are gone


@dataclass(frozen=True, slots=True)
class RetainedRange:
    """How many there are, the number of the oldest, and when that one was made, as retention counts; zeros if there are none."""

    n: int
    oldest: int
    oldest_us: int


@dataclass(frozen=True, slots=True)
class RemovedVersions:
    """What a step removed: versions, rows of queries, templates by their first ids, and shapes."""

    n_versions: int = 0
    n_queries: int = 0
    templates: tuple[int, ...] = ()
    n_shapes: int = 0

    def __bool__(self) -> bool:
        return bool(self.n_versions or self.n_queries or self.templates)


class VersionLog:
    """The versions of a catalog on disk."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._connection = database.connection

    def retained_versions(self) -> RetainedRange:
        """Versions that are kept, the current one among them."""
        (n,) = self._connection.execute("SELECT count(*) FROM versions").fetchone()
        oldest = self._connection.execute(
            "SELECT version, kept_us FROM versions ORDER BY version LIMIT 1"
        ).fetchone()
        return RetainedRange(int(n), *(oldest or (0, 0)))

    def first_to_keep(self, since_us: int, count: int) -> int:
        """The version that was current at that time, or the newest but `count`, whichever is later.

        What counts is when a version was replaced, not when it was made: after a year without a change, the change that was made
        today can be undone.
        """
        newest = self._database.versions.last()
        later = self._connection.execute(
            "SELECT version FROM versions WHERE kept_us >= ? ORDER BY version LIMIT 1", (since_us,)
        ).fetchone()
        version_then = newest
        if later is not None:
            (before,) = self._connection.execute(
                "SELECT max(version) FROM versions WHERE version < ?", later
            ).fetchone()
            version_then = before or 0
        return max(version_then, newest - count)

    def forget(self, before: int, *, results_from: int | None = None) -> RemovedVersions:
        """Forget versions before this one, a step of it: to be called again as long as something was forgotten.

        Queries that were registered at version `results_from` or later are still known by name.
        """
        (oldest,) = self._connection.execute("SELECT coalesce(min(version), 0) FROM versions").fetchone()
        before = min(before, int(oldest) + AT_ONCE)
        unused = before if results_from is None else min(before, results_from)
        ended = self._connection.execute(
            "SELECT query_id, version_from, shape FROM queries WHERE version_to <= ? ORDER BY version_to LIMIT ?",
            (unused, AT_ONCE),
        ).fetchall()
        done = self._database.number(FORGOTTEN)
        if before <= oldest and not ended and unused <= done:
            return RemovedVersions()
        with self._database.transaction():
            n_versions = self._connection.execute(
                "DELETE FROM versions WHERE version < ?", (before,)
            ).rowcount
            self._connection.execute("DELETE FROM streams WHERE version_to <= ?", (before,))
            self._connection.executemany(
                "DELETE FROM queries WHERE query_id = ? AND version_from = ?",
                [(query_id, version) for query_id, version, _ in ended],
            )
            templates = list(self._ended_templates(done, unused))
            for first_id, n, _ in templates:
                self._connection.execute("DELETE FROM templates WHERE first_id = ?", (first_id,))
                self._connection.execute(
                    "DELETE FROM ended_members WHERE query_id BETWEEN ? AND ?", (first_id, first_id + n - 1)
                )
            shapes = self._forget_shapes({shape for *_, shape in (*ended, *templates)})
            self._database.set(FORGOTTEN, str(max(done, unused)))
        self._database.shapes.forget(shapes)
        return RemovedVersions(
            n_versions, len(ended), tuple(first_id for first_id, _, _ in templates), len(shapes)
        )

    def _ended_templates(self, after: int, until: int) -> Iterator[tuple[int, int, int]]:
        """First id, number of members and shape of templates whose last members ended after one version and until another."""
        for first_id, n, shape in sorted(set(self._touched_templates(after, until))):
            (n_ended,) = self._connection.execute(
                "SELECT count(*) FROM ended_members WHERE query_id BETWEEN ? AND ? AND version <= ?",
                (first_id, first_id + n - 1, until),
            ).fetchone()
            if n_ended == n:
                yield first_id, n, shape

    def _touched_templates(self, after: int, until: int) -> Iterator[tuple[int, int, int]]:
        """Templates of which members ended in these versions: a step in the index for each, however many members ended."""
        version = after
        while True:
            (version,) = self._connection.execute(
                "SELECT min(version) FROM ended_members WHERE version > ?", (version,)
            ).fetchone()
            if version is None or version > until:
                return
            yield from self._templates_ending(version)

    def _templates_ending(self, version: int) -> Iterator[tuple[int, int, int]]:
        query_id = 0
        while True:
            member = self._connection.execute(
                "SELECT query_id FROM ended_members WHERE version = ? AND query_id > ? ORDER BY query_id LIMIT 1",
                (version, query_id),
            ).fetchone()
            if member is None:
                return
            (query_id,) = member
            template = self._connection.execute(
                "SELECT first_id, n, shape FROM templates WHERE first_id <= ? ORDER BY first_id DESC LIMIT 1",
                (query_id,),
            ).fetchone()
            if template is not None and query_id < template[0] + template[1]:
                yield template
                query_id = template[0] + template[1] - 1

    def _forget_shapes(self, candidates: Iterable[int]) -> set[int]:
        """Remove those that no query uses any more; returns which."""
        return {
            shape
            for shape in candidates
            if self._connection.execute(
                "DELETE FROM shapes WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM queries WHERE shape = ?1)"
                " AND NOT EXISTS (SELECT 1 FROM templates WHERE shape = ?1)",
                (shape,),
            ).rowcount
        }
