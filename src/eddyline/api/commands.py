"""Everything the shell can ask of an engine, in words that JSON has.

The command line calls `Commands` directly when it opened the home itself, and through the home's socket (`control.py`) when
another process holds it; both get the same answers and the same errors.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from eddyline.api.alert_commands import AlertCommands
from eddyline.api.pipeline_ends import sink_documents, source_documents
from eddyline.api.query_commands import QueryCommands
from eddyline.api.rule_commands import RuleCommands
from eddyline.api.token_commands import TokenCommands
from eddyline.control import check_home, group_findings
from eddyline.delivery import jsonable
from eddyline.documents import Tell
from eddyline.engine import Durable
from eddyline.errors import (
    HomeError,
    PropertyError,
    UnknownNameError,
    did_you_mean,
)
from eddyline.explain import aggregate_facts, busiest, in_words, join_facts
from eddyline.model import iso_time
from eddyline.runtime import tail
from eddyline.types import type_name

if TYPE_CHECKING:
    from eddyline.api.engine import Engine


class Commands(QueryCommands, RuleCommands, AlertCommands, TokenCommands):
    """The commands, each a method with keyword arguments. `NAMES` lists those a request may name."""

    NAMES = (
        "status",
        "rounds",
        "counters",
        "busiest",
        "sources",
        "sinks",
        "retry_source",
        "retry_sink",
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
        "version",
        "explain",
        "explain_index",
        "explain_filters",
        "explain_joins",
        "explain_aggregates",
        "groups",
        "why",
        "why_not",
        "try_query",
        "dead_letters",
        "receipt",
        "prove",
        "alerts",
        "messages",
        "alert_history",
        "acknowledge",
        "silence",
        "silences",
        "silence_end",
        "tail",
        "cursor",
        "set_cursor",
        "doctor",
        "backup",
        "token_add",
        "token_list",
        "token_drop",
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
        keywords = dict(arguments)
        if command in ("plan", "apply", "doctor", "backup"):
            keywords["tell"] = tell
        try:
            answer = getattr(self, command)(**keywords)
        except TypeError as error:
            if command not in str(error):  # not about the arguments of the call itself
                raise
            raise PropertyError(f"command {command} was given wrong arguments", detail=str(error)) from None
        return answer if isinstance(answer, Iterator) else jsonable(answer)

    # ----------------------------------------------------------------------------------------- looking

    def status(self) -> dict[str, Any]:
        """Version, queries and last round of the engine, and the progress of each stream."""
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
            records = [dataclasses.asdict(record) for record in self._rounds.records.last(newest)]
            records = in_words(
                self._rounds, records, own=()
            )  # any user may see them, and none the queries of others
        return [
            record | {"at": iso_time(record["at_us"], timespec="seconds")} for record in reversed(records)
        ]

    def counters(self) -> dict[str, Any]:
        """What happened since the engine was opened, and the present state, in numbers."""
        found = self._engine.counters()
        return dataclasses.asdict(found) | {"index_bytes": found.index_bytes}

    def busiest(self, *, most: int = 20) -> dict[str, Any]:
        """The queries with most results, and those with most rows they could not decide, each the most first."""
        with self._rounds.lock:
            self._rounds.check_open()
            return busiest(self._rounds, most)

    def sources(self) -> Any:
        """How far the source of every stream is."""
        return source_documents(self._engine)

    def sinks(self) -> Any:
        """How far each sink is."""
        return sink_documents(self._engine)

    def retry_source(self, *, stream: str) -> dict[str, Any]:
        """Read a source that fails again at once."""
        self._engine.retry_source(stream)
        return {"retried": stream}

    def retry_sink(self, *, name: str) -> dict[str, Any]:
        """Serve a sink that fails again at once."""
        self._engine.retry_sink(name)
        return {"retried": name}

    def explain_index(self) -> dict[str, Any]:
        """The predicate index of every stream."""
        found = self._engine.explain_index()
        return found.as_dict() | {"shown": str(found)}

    def explain_filters(self, *, stream: str | None = None) -> dict[str, Any]:
        """The expensive conditions of a stream's queries, or of all, and the order in which they run."""
        found = self._engine.explain_filters(stream)
        return found.as_dict() | {"shown": str(found)}

    def explain_joins(self, *, own: Any = None) -> dict[str, Any]:
        """What joins keep of each stream, over time too, and which joins there are: of the queries `own`, if they are given."""
        with self._rounds.lock:
            self._rounds.check_open()
            found = join_facts(self._rounds, own=own)
            history = self._engine.join_history.points()
        return found.as_dict() | {"history": _timed(history), "shown": str(found)}

    def explain_aggregates(self, *, stream: str | None = None, own: Any = None) -> dict[str, Any]:
        """What aggregates keep, of a stream or of all, over time too: of the queries `own`, if they are given."""
        with self._rounds.lock:
            self._rounds.check_open()
            found = aggregate_facts(self._rounds, stream, own=own)
            history = self._engine.aggregate_history.points()
        shown = {facts["id"] for facts in found}
        points = [
            {**point, "classes": {str(i): sizes for i, sizes in point["classes"].items() if i in shown}}
            for point in _timed(history)
        ]
        return found.as_dict() | {"history": points, "shown": str(found)}

    def dead_letters(
        self, *, query: str | None = None, stream: str | None = None, newest: int = 20, owner: str = ""
    ) -> dict[str, Any]:
        """The newest dead letters, newest last, and how many there were."""
        if stream is not None:
            stream = self._rounds.catalog.stream(stream).name
        handle = None if query is None else self._query(query, owner)
        letters = self._engine.dead_letters(stream=stream, query=handle)
        documents = [dataclasses.asdict(letter) for letter in letters[max(0, len(letters) - newest) :]]
        return {"total": letters.total, "kept": len(letters), "letters": documents}

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
            found = self._durable().rounds.cursors.get(f"tail {reader}")
        return {"reader": reader, "round": 0 if found is None else found[0]}

    def set_cursor(self, *, reader: str, round: int) -> dict[str, Any]:
        with self._rounds.lock:
            self._rounds.check_open()
            self._durable().rounds.cursors.set(f"tail {reader}", round, 0)
        return {"reader": reader, "round": round}

    # ----------------------------------------------------------------------------------------- the home

    def doctor(self, *, tell: Tell, forget_damaged: bool = False) -> list[dict[str, Any]]:
        """Findings about the home."""
        with self._rounds.lock:
            self._rounds.check_open()
            found = check_home(self._durable(), forget_damaged=forget_damaged, tell=tell)
            found += group_findings(self._rounds)
        return [dataclasses.asdict(finding) for finding in found]

    def backup(self, *, tell: Tell, file: str) -> dict[str, Any]:
        """Write the home to a new file while rounds go on."""
        return self._engine.backup(file, on_progress=tell).as_dict()

    def _durable(self) -> Durable:
        if self._rounds.durable is None:
            raise HomeError(
                "an engine in memory keeps nothing", hint="Open it with a home: eddyline.open('folder')."
            )
        return self._rounds.durable


def _timed(points: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Points of a history, with their time in words."""
    return [{**point, "at": iso_time(point["at_us"], timespec="seconds")} for point in points]
