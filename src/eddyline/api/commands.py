"""Everything the shell can ask of an engine, in words that JSON has.

The command line calls `Commands` directly when it opened the home itself, and through the home's socket (`control.py`) when
another process holds it; both get the same answers and the same errors.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from eddyline.api import doctor, rules, rules_export
from eddyline.api.engine import Engine
from eddyline.api.explain import suspended
from eddyline.api.jsonable import jsonable
from eddyline.api.pipeline import load_pipeline
from eddyline.api.query import Query
from eddyline.api.rules_files import Source
from eddyline.api.tail import tail
from eddyline.engine.durable import Durable
from eddyline.errors import (
    HomeError,
    PropertyError,
    QueryStateError,
    UnknownNameError,
    did_you_mean,
)
from eddyline.model import QueryState
from eddyline.sql.properties import FIELDS
from eddyline.types import type_name

Tell = Callable[[str, int, int], None]  # progress: what, done, of how many (0: not known)


class Commands:
    """The commands, each a method with keyword arguments. `NAMES` lists those a request may name."""

    NAMES = (
        "status",
        "rounds",
        "query_add",
        "query_drop",
        "query_list",
        "query_show",
        "query_pause",
        "query_resume",
        "plan",
        "apply",
        "export",
        "rollback",
        "versions",
        "explain",
        "explain_index",
        "why",
        "why_not",
        "dead_letters",
        "tail",
        "cursor",
        "set_cursor",
        "doctor",
    )

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._rounds = engine.rounds

    def call(self, command: str, arguments: Mapping[str, Any], tell: Tell) -> Any:
        """Run a command: a document, or an iterator of documents (None: nothing new, are you still there?)."""
        if command not in self.NAMES:
            raise UnknownNameError(
                f"there is no command {command}", hint=did_you_mean(command, self.NAMES, noun="command")
            )
        given = dict(arguments)
        if command in ("plan", "apply", "doctor"):
            given["tell"] = tell
        try:
            answer = getattr(self, command)(**given)
        except TypeError as error:
            if command not in str(error):  # not about the arguments of the call itself
                raise
            raise PropertyError(f"command {command} was given wrong arguments", detail=str(error)) from None
        return answer if isinstance(answer, Iterator) else jsonable(answer)

    # ----------------------------------------------------------------------------------------- looking

    def status(self) -> dict[str, Any]:
        """What stands and how far it has come."""
        with self._rounds.lock:
            self._rounds.check_open()
            durable = self._rounds.durable
            last = None if durable is None else durable.rounds.last()
            return {
                "home": None if durable is None else str(durable.home.folder),
                "version": self._engine.version,
                "n_queries": self._engine.n_queries,
                "last_round": 0 if last is None else last.round.number,
                "time_zone": self._rounds.time_zone,
                "streams": [
                    {
                        "name": stream.name,
                        "columns": [{"name": f.name, "type": type_name(f.type)} for f in stream.schema],
                        "n_rows": stream.n_rows,
                        "n_late": stream.n_late,
                        "n_queries": stream.n_queries,
                    }
                    for stream in self._engine.streams()
                ],
            }

    def rounds(self, *, newest: int = 20) -> list[dict[str, Any]]:
        """What the newest rounds took, newest first."""
        with self._rounds.lock:
            self._rounds.check_open()
            records = self._rounds.records.last(newest)
        return [dataclasses.asdict(record) | {"at": _instant(record.at_us)} for record in reversed(records)]

    def versions(self, *, newest: int = 20) -> list[dict[str, Any]]:
        """The newest versions, newest first, and what made each."""
        with self._rounds.lock:
            self._rounds.check_open()
            rows = self._durable().database.versions(newest)
        return [{"version": number, "at": _instant(at_us), "what": what} for number, at_us, what in rows]

    def explain(
        self,
        *,
        query: str | None = None,
        text: str | None = None,
        owner: str = "",
        params: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """How a registered query, or a text, is or would be answered."""
        if text is not None:
            found = self._engine.explain(text, params=params)
            lines = [line for line in str(found).splitlines()[1:] if not line.startswith("  results ")]
            shown = "\n".join(["not registered", *lines])
            return found.as_dict() | {"name": None, "state": "not registered", "shown": shown}
        assert query is not None
        found = self._query(query, owner).explain()
        return found.as_dict() | {"shown": str(found)}

    def explain_index(self) -> dict[str, Any]:
        """The predicate index of every stream."""
        found = self._engine.explain_index()
        return found.as_dict() | {"shown": str(found)}

    def why(self, *, query: str, row: Mapping[str, Any], owner: str = "") -> dict[str, Any]:
        """What each condition of a query says about a row."""
        found = self._query(query, owner).why(row)
        return dataclasses.asdict(found) | {"shown": str(found)}

    def why_not(self, *, query: str, last: int = 1000, owner: str = "") -> dict[str, Any]:
        """How the last rows fared with a query."""
        found = self._query(query, owner).why_not(last)
        return dataclasses.asdict(found) | {"shown": str(found)}

    def dead_letters(
        self, *, query: str | None = None, stream: str | None = None, newest: int = 20, owner: str = ""
    ) -> dict[str, Any]:
        """The newest dead letters, newest last, and how many there were."""
        if stream is not None:
            stream = self._rounds.catalog.stream(stream).name
        handle = None if query is None else self._query(query, owner)
        letters = self._engine.dead_letters(stream=stream, query=handle)
        kept = [dataclasses.asdict(letter) for letter in letters[max(0, len(letters) - newest) :]]
        return {"total": letters.total, "kept": len(letters), "letters": kept}

    # ----------------------------------------------------------------------------------------- queries

    def query_add(
        self,
        *,
        text: str,
        name: str | None = None,
        params: Mapping[str, Any] | None = None,
        properties: Mapping[str, Any] | None = None,
        replace: bool = False,
    ) -> dict[str, Any]:
        """Register a query. Another text under a name that is taken needs `replace`."""
        with self._rounds.lock:
            before, owner = self._engine.version, str((properties or {}).get("owner", ""))
            known = None if name is None else self._rounds.catalog.find(name, owner)
            if known is not None and not replace:
                explained = self._engine.explain(text, params=params)  # a text that is wrong is told first
                record = self._rounds.catalog.record(known)
                if record.text != explained.text:
                    raise QueryStateError(
                        f"query {name} is there already, with another text",
                        detail=f"It is {' '.join(record.text.split())}",
                        hint="Give --replace to change it, or another --name.",
                    )
            handle = self._engine.query(text, name=name, params=params, **(properties or {}))
            return self._shown(handle) | {
                "is_new": known is None,
                "is_changed": self._engine.version != before,
            }

    def query_drop(self, *, queries: Sequence[str], owner: str = "") -> dict[str, Any]:
        """End queries, all in one version or none."""
        with self._rounds.lock:
            handles = [self._query(query, owner) for query in queries]
            names = [handle.name for handle in handles]
            self._engine.drop_ids(handle.id for handle in handles)
            return {"dropped": names, "version": self._engine.version}

    def query_pause(self, *, queries: Sequence[str], owner: str = "") -> dict[str, Any]:
        return self._set_paused(queries, owner, True)

    def query_resume(self, *, queries: Sequence[str], owner: str = "") -> dict[str, Any]:
        return self._set_paused(queries, owner, False)

    def _set_paused(self, queries: Sequence[str], owner: str, is_paused: bool) -> dict[str, Any]:
        with self._rounds.lock:
            handles = [self._query(query, owner) for query in queries]
            wanted = QueryState.PAUSED if is_paused else QueryState.RUNNING
            moving = [handle for handle in handles if self._rounds.catalog.state(handle.id) is not wanted]
            if moving:
                with self._rounds.catalog.change(
                    f"{'pause' if is_paused else 'resume'} {', '.join(h.name for h in moving[:10])}"
                ):
                    for handle in moving:
                        handle.pause() if is_paused else handle.resume()
            return {
                "queries": [{"name": handle.name, "state": handle.state} for handle in handles],
                "changed": [handle.name for handle in moving],
                "version": self._engine.version,
            }

    def query_list(
        self,
        *,
        pattern: str | None = None,
        owner: str | None = None,
        state: str | None = None,
        page: int = 1,
        per_page: int = 50,
    ) -> dict[str, Any]:
        """A page of queries; `pattern` is a part of name or text."""

        def fits(query: Query) -> bool:
            record = self._rounds.catalog.record(query.id)
            return (
                (pattern is None or pattern in record.name or pattern in record.text)
                and (owner is None or record.properties.owner == owner)
                and (state is None or record.state.value == state)
            )

        is_filtered = not (pattern is None and owner is None and state is None)
        with self._rounds.lock:
            found = self._engine.queries(fits if is_filtered else None, page, per_page=per_page)
            return {
                "total": found.total,
                "page": found.page,
                "n_pages": found.n_pages,
                "queries": [self._shown(query) for query in found],
            }

    def query_show(self, *, query: str, owner: str = "", latest: int = 5) -> dict[str, Any]:
        """All about one query, and its latest results."""
        with self._rounds.lock:
            handle = self._query(query, owner)
            explained = handle.explain()
            record = self._rounds.catalog.record(handle.id)
            facts = explained.as_dict() | self._shown(handle)
            return facts | {
                "registered": _instant(record.registered_us),
                "cost": rules.cost_class(record.shape),
                "latest": [
                    {"round": r.round_number, "change": r.change, "row": dict(r)}
                    for r in handle.latest(latest)
                ],
                "shown": str(explained),
            }

    def _shown(self, query: Query) -> dict[str, Any]:
        record = self._rounds.catalog.record(query.id)
        return {
            "id": record.id,
            "name": record.name,
            "owner": record.properties.owner,
            "state": record.state.value,
            "suspended": suspended(record),
            "generation": record.generation,
            "version": record.version_from,
            "n_results": query.n_results,
            "text": record.text,
            "properties": {
                word: getattr(record.properties, field)
                for field, word in FIELDS.items()
                if getattr(record.properties, field) not in (None, "", ())
            },
            "warnings": query.warnings,
        }

    def _query(self, name: str, owner: str) -> Query:
        """A query by its name, or by its number: 12 or q12."""
        with self._rounds.lock:
            self._rounds.check_open()
            found = self._rounds.catalog.find(name, owner)
            number = name.removeprefix("q")
            is_number = found is None and number.isascii() and number.isdigit()
            if is_number and self._rounds.catalog.state(int(number)) is not QueryState.DROPPED:
                return Query(self._engine, int(number))
            return self._engine.get(name, owner=owner)

    # ----------------------------------------------------------------------------------------- rules

    def plan(
        self,
        *,
        tell: Tell,
        pipeline: str | None = None,
        files: Sequence[str] | None = None,
        prune: bool = False,
    ) -> dict[str, Any]:
        """What applying rules would change."""
        found = rules.plan(self._engine, _source(pipeline, files), progress=tell)
        return found.as_dict(prune=prune)

    def apply(
        self,
        *,
        tell: Tell,
        pipeline: str | None = None,
        files: Sequence[str] | None = None,
        prune: bool = False,
        dry_run: bool = False,
    ) -> dict[str, Any]:
        """Make rules stand, in one version; gives the plan and what was done."""
        source = _source(pipeline, files)
        with self._rounds.lock:
            found = rules.plan(self._engine, source, progress=tell)
            done = rules.apply(self._engine, found, prune=prune, dry_run=dry_run, progress=tell)
            return {"plan": found.as_dict(prune=prune), "applied": done.as_dict(), "dry_run": dry_run}

    def export(self, *, folder: str) -> dict[str, Any]:
        """Write all that stands as rule files."""
        return rules_export.export(self._engine, folder).as_dict()

    def rollback(self, *, version: int, dry_run: bool = False) -> dict[str, Any]:
        """Make the queries of an earlier version stand again, as a new version."""
        before = self._engine.version
        done = rules.rollback(self._engine, version, dry_run=dry_run)
        return {
            "from": before,
            "to": version,
            "version": done.version,
            "added": len(done.added),
            "changed": len(done.changed),
            "removed": len(done.dropped),
            "dry_run": dry_run,
        }

    # ----------------------------------------------------------------------------------------- results

    def tail(
        self,
        *,
        queries: Sequence[str] = (),
        owner: str = "",
        newest: int | None = None,
        after: str | None = None,
        follow: bool = False,
    ) -> Iterator[dict[str, Any] | None]:
        """Results in order, as they are kept: the `newest` ones or those after a cursor, then, to follow, all that come.

        Yields None now and then while nothing comes, so that a reader that has gone away is noticed.
        """
        ids = frozenset(self._query(query, owner).id for query in queries)
        return tail(self._rounds, self._durable(), ids, newest=newest, after=after, follow=follow)

    def cursor(self, *, reader: str) -> dict[str, Any]:
        """The last round a reader has taken whole, or 0."""
        with self._rounds.lock:
            self._rounds.check_open()
            found = self._durable().rounds.cursor(f"tail {reader}")
        return {"reader": reader, "round": 0 if found is None else found[0]}

    def set_cursor(self, *, reader: str, round: int) -> dict[str, Any]:
        with self._rounds.lock:
            self._rounds.check_open()
            self._durable().rounds.set_cursor(f"tail {reader}", round, 0)
        return {"reader": reader, "round": round}

    # ----------------------------------------------------------------------------------------- the home

    def doctor(self, *, tell: Tell, forget_damaged: bool = False) -> list[dict[str, Any]]:
        """Findings about the home."""
        with self._rounds.lock:
            self._rounds.check_open()
            found = doctor.check_home(self._durable(), forget_damaged=forget_damaged, tell=tell)
        return [dataclasses.asdict(finding) for finding in found]

    def _durable(self) -> Durable:
        if self._rounds.durable is None:
            raise HomeError(
                "an engine in memory keeps nothing", hint="Open it with a home: eddyline.open('folder')."
            )
        return self._rounds.durable


def _source(pipeline: str | None, files: Sequence[str] | None) -> Source:
    if files is not None:
        return [Path(file) for file in files]
    if pipeline is None:
        raise PropertyError("there are no rules to look at", hint="Name a folder of .sql files.")
    return load_pipeline(Path(pipeline))


def _instant(microseconds: int) -> str:
    at = datetime.datetime.fromtimestamp(0, datetime.UTC) + datetime.timedelta(microseconds=microseconds)
    return at.isoformat(timespec="seconds")
