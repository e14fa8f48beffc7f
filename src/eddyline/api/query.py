"""A standing query in the user's hands."""

from __future__ import annotations

import html
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from eddyline.alerts import Alert
from eddyline.api.query_results import QueryResults
from eddyline.batch import PartMatches
from eddyline.catalog import AlertCounts, QueryRecord
from eddyline.delivery import Result, Results
from eddyline.documents import CurrentGroups, as_pandas, as_polars
from eddyline.engine import RoundEngine
from eddyline.errors import EddylineError, NotBuiltError, PropertyError, SchemaError
from eddyline.explain import (
    Explanation,
    branch_record,
    current_groups,
    epoch_warnings,
    explain,
    grouped_query,
    kept_groups,
    live_groups,
    why_grouped,
    why_not_grouped,
    why_not_rows,
    why_row,
)
from eddyline.expressions import Frame, evaluate, is_volatile
from eddyline.filters import Why, WhyNot
from eddyline.model import AtomKind, QueryState, Round, Shape, iso_time
from eddyline.notebook import html_table
from eddyline.receipts import (
    branches_over,
    has_repeated_sets,
    input_numbers,
    record_written_out,
    why_group_result,
)
from eddyline.rules import endless_groups, output_warnings
from eddyline.runtime import Subscription, WhenFull, call_each
from eddyline.storage import StoredPart

if TYPE_CHECKING:
    from eddyline.api.engine import Engine


class Query:
    """A handle to one query. It stays good until the query is dropped, also when its text is replaced."""

    def __init__(self, engine: Engine, query_id: int) -> None:
        self._engine = engine
        self._rounds = engine.rounds
        self.id = query_id
        self._results = QueryResults(self._rounds, query_id)

    # ----------------------------------------------------------------------------------------- what it is

    @property
    def name(self) -> str:
        return self._record().name

    @property
    def text(self) -> str:
        """The SQL as it was written."""
        return self._record().text

    @property
    def state(self) -> str:
        """running, paused, suspended (see `suspended`) or dropped."""
        with self._rounds.lock:
            return self._rounds.catalog.queries.state(self.id).value

    @property
    def suspended(self) -> str | None:
        """Why the engine has paused it: its source no longer has a column it needs, or a function it calls only failed. `resume`
        or `replace` lets it run again."""
        return self._record().why or None

    @property
    def generation(self) -> int:
        """Grows when the query is replaced or resumed; part of the identity of its results."""
        return self._record().generation

    @property
    def schema(self) -> pa.Schema:
        """Columns of the results."""
        return self._record().shape.output

    @property
    def warnings(self) -> list[str]:
        """What is probably not meant, such as a query that can never match."""
        return _warnings_of(self._rounds, self._record())

    @property
    def n_results(self) -> int:
        """How many results there were since it was registered."""
        with self._rounds.lock:
            return self._rounds.results.n_produced_by(self.id)

    @property
    def n_dropped(self) -> int:
        """How many of them left memory and can no longer be read. A home keeps them until its retention ends."""
        with self._rounds.lock:
            return 0 if self._rounds.durable is not None else self._rounds.results.n_dropped_of(self.id)

    # ----------------------------------------------------------------------------------------- results

    def results(self, timeout: float | None = None, *, after: str | None = None) -> Results:
        """Results since the last call on this handle, oldest first. With `timeout`, waits that many seconds for the first.

        `after` is the `cursor` of a result, also of one read before a restart: gives all that came later and is still kept.
        With a home everything it keeps is read. In memory, results that left for want of room are counted in `n_dropped` of
        what is returned, and the first time there is a warning.
        """
        return self._results.unread(timeout) if after is None else self._results.after(after, timeout)

    def latest(self, n: int = 10) -> Results:
        """The newest results, oldest first, read or not."""
        return self._results.latest(n)

    def __iter__(self) -> Iterator[Result]:
        """The results `results()` would give, one by one, read as they are needed: `for result in query`."""
        return iter(self._results)

    def __aiter__(self) -> AsyncIterator[Result]:
        """Unread results, then new ones as they come, until the query is dropped or the engine closed: `async for result in
        query`. What is not taken from the loop stays unread."""
        return self._results.follow()

    def to_arrow(
        self, *, after: str | None = None, newest: int | None = None, marks: bool = False
    ) -> pa.Table:
        """Results that are kept, read or not, oldest first: all of them, those after a cursor, or the newest.

        With `marks` the columns `_generation`, `_round`, `_arrival`, `_change` and `_late` come first.
        """
        return self._results.table(after, newest, marks=marks)

    def to_pandas(self, *, after: str | None = None, newest: int | None = None, marks: bool = False) -> Any:
        """The same as a pandas DataFrame."""
        return as_pandas(self.to_arrow(after=after, newest=newest, marks=marks))

    def to_polars(self, *, after: str | None = None, newest: int | None = None, marks: bool = False) -> Any:
        """The same as a Polars DataFrame."""
        return as_polars(self.to_arrow(after=after, newest=newest, marks=marks))

    def on_result(
        self,
        callback: Callable[[Result], None],
        *,
        queue: int | None = None,
        when_full: WhenFull = "drop_oldest",
    ) -> Subscription:
        """Call `callback` with every new result, after its round is final. Call what is returned to end it.

        queue       how many results may wait for the callback, which then has a thread of its own; without it the callback is
                    called in the round, before `push` returns, and a slow one makes rounds slow
        when_full   what happens to a result for which there is no room: "drop_oldest" and "drop_newest" drop one, which is
                    counted and announced; with "block" the round waits, and the callback cannot push

        A callback that raises is announced as an event; it stops neither the round nor other callbacks.
        """
        if not callable(callback):
            raise PropertyError(
                f"{callback!r} cannot be called",
                hint="Give a function of one result: query.on_result(print).",
            )
        with self._rounds.lock:
            name = self._record().name
            queued = self._engine.subscribers.open_queue(
                callback, queue, when_full, query=name, query_id=self.id
            )

            def tell(round_: Round, part: PartMatches | StoredPart) -> None:
                def heard(first: int, last: int) -> Iterator[Result]:
                    return self._results.as_results(
                        round_.number, round_.version, part, np.arange(first, last)
                    )

                if queued is None:
                    call_each(callback, list(heard(0, len(part))))
                else:
                    queued.offer(round_.number, len(part), heard)

            self._rounds.callbacks.add(self.id, tell)

        def end() -> None:
            with self._rounds.lock:
                self._rounds.callbacks.remove(self.id, tell)
                if queued is not None:
                    queued.stop()

        return Subscription(end, queued)

    def alerts(self) -> list[Alert]:
        """Its open alerts, the oldest first."""
        return self._engine.alerts(self)

    @property
    def alert_counts(self) -> AlertCounts:
        """How often it fired, resolved, was held back, and could not fill its message."""
        with self._rounds.lock:
            self._record()
            return self._rounds.alerting.log.counts(self.id)

    # ----------------------------------------------------------------------------------------- change

    def pause(self) -> None:
        """See nothing of the rounds until `resume`."""
        with self._rounds.lock:
            self._record()
            self._rounds.catalog.set_paused(self.id, True, self._rounds.now_us())

    def resume(self) -> None:
        """Run again from the next round on, as a new generation; so do queries that read aggregates of aggregates as a view."""
        with self._rounds.lock:
            self._record()
            self._engine.registrar.resume(self.id)

    def replace(self, text: str, *, params: Mapping[str, Any] | None = None, **properties: Any) -> Query:
        """Another text under the same name, in one version: no row is seen by both or by neither."""
        self._engine.replace(self, text, params=params, **properties)
        return self

    def drop(self, *, cascade: bool = False) -> None:
        """End the query. It sees nothing of any later round. One that others read as a view ends only with them: `cascade`."""
        self._engine.drop(self, cascade=cascade)

    # ----------------------------------------------------------------------------------------- questions

    def explain(self) -> Explanation:
        """How the engine answers this query, and what it shares with others."""
        with self._rounds.lock:
            return explain(self._rounds, self._record(), self.warnings)

    def groups(
        self,
        *,
        where: Mapping[str, Any] | None = None,
        order: str | None = None,
        limit: int = 100,
        having: bool = True,
    ) -> CurrentGroups:
        """The groups of a query with GROUP BY, as they are after the last round (docs/aggregates.md).

        where    only groups with these values of columns of SELECT or GROUP BY: {"card": "A"}
        order    a column of SELECT or GROUP BY, such as "n DESC"; else by key
        limit    how many to give, at most 10,000
        having   False: also groups that HAVING leaves out, which have `is_result` False
        """
        with self._rounds.lock:
            own = self._record()
            written_out = record_written_out(self._rounds, own)
        return current_groups(
            self._rounds, own, written_out, where=where, order=order, limit=limit, having=having
        )

    def why(self, row: Mapping[str, Any] | Result | Any) -> Why:
        """What each condition says about a row of the stream, given as a dict (missing columns are NULL).

        A join is asked about one row of each input, by its alias: {"t": {"price": 9.5}, "n": {…}}, or about one of its results.
        A query that reads views is asked about rows of the streams below them. Of a query with UNION ALL each part is asked that
        the row fits, the nearest first; of a result the part that gave it. Of a query with aggregates WHERE is asked about the
        row, and HAVING or QUALIFY about its groups, as they stand.
        """
        with self._rounds.round_lock, self._rounds.lock:  # groups are taken between rounds
            own = self._record()
            record = record_written_out(self._rounds, own)
            grouped = grouped_query(self._rounds, record)
            if grouped is not None:
                if isinstance(row, Result):
                    return why_group_result(self._rounds, self._engine.receipt(row))
                live = live_groups(self._rounds, own)
                kept = kept_groups(self._rounds, grouped.over(live.aggregation), live)
            else:
                is_composed = record.shape.join is not None or record.shape.branches or record is not own
                if isinstance(row, Result) and is_composed:
                    receipt = self._engine.receipt(row)
                    record = record_of_rows(record, receipt)
                    row = rows_of_receipt(record, receipt)
                found = why_row(self._rounds, record, row)
            notes = _sees_no_rows(self._rounds, record)
        if grouped is not None:  # there may be a million groups, which are judged while rounds go on
            found = why_grouped(kept, row)
        return replace(found, notes=(*notes, *found.notes))

    def why_not(self, last: int = 1000) -> WhyNot:
        """How many of the last rows each condition stopped, and which row came nearest; of a query with aggregates also how many
        of its groups, and which groups came nearest."""
        with self._rounds.round_lock, self._rounds.lock:
            own = self._record()
            record = record_written_out(self._rounds, own)
            notes = [*_warnings_of(self._rounds, record), *_sees_no_rows(self._rounds, record)]
            since = f"version {record.version_from}, {iso_time(record.registered_us, timespec='seconds')}"
            grouped = grouped_query(self._rounds, record)
            if grouped is None:
                return why_not_rows(self._rounds, record, last, since, notes)
            live = live_groups(self._rounds, own)
            kept = kept_groups(self._rounds, grouped.over(live.aggregation), live)
        return why_not_grouped(kept, last, since, notes)  # outside of the locks, as above

    def __repr__(self) -> str:
        try:
            return f"<query {self.name} ({self.state}): {' '.join(self.text.split())}>"
        except EddylineError:
            return f"<query {self.id} (dropped)>"

    def _repr_html_(self) -> str:
        record = self._record()
        rows = self.latest(5)
        caption = f"{record.name} ({record.state.value}), {self.n_results} results, {self.n_dropped} dropped"
        latest = html_table(caption, record.shape.output.names, [row.values() for row in rows])
        return f"<pre>{html.escape(record.text)}</pre>{latest}"

    def _record(self) -> QueryRecord:
        with self._rounds.lock:
            self._rounds.check_open()
            return self._rounds.catalog.record(self.id)


def _warnings_of(rounds: RoundEngine, record: QueryRecord) -> list[str]:
    if record.state is QueryState.SUSPENDED:  # it may be so because its constants cannot be computed
        return []
    branches = record.shape.all_branches
    found: list[str] = []
    for number, branch in enumerate(branches, 1):
        who = "this query" if len(branches) == 1 else f"part {number} of this query"
        found += _branch_warnings(rounds, who, branch, record.constants)
    return found


def _branch_warnings(rounds: RoundEngine, who: str, shape: Shape, constants: Sequence[Any]) -> list[str]:
    frame = Frame(1, {}, list(constants), rounds.context())
    for clause in shape.condition.clauses:
        if all(a.kind is AtomKind.CONSTANT and not is_volatile(a.condition) for a in clause.atoms):
            truths = [frame.array(evaluate(atom.condition, frame))[0].as_py() for atom in clause.atoms]
            if not any(truth is True for truth in truths):
                return [f"{who} can never match: a condition on constants alone is not true"]
    for never in shape.condition.never:
        if frame.array(evaluate(never, frame))[0].as_py() is True:
            return [f"{who} can never match: its conditions contradict each other"]
    if shape.aggregating is not None:
        with rounds.lock:
            return [f"{who} {each}" for each in (*endless_groups(shape), *epoch_warnings(rounds, shape))]
    if not shape.condition.clauses and shape.join is None:
        return [f"{who} matches every row"]
    with rounds.lock:
        return list(output_warnings(rounds, shape, constants))


def _sees_no_rows(rounds: RoundEngine, record: QueryRecord) -> list[str]:
    """A note, where the engine or its owner has stopped the query, or the engine a view it reads."""
    if record.state is QueryState.PAUSED:
        return ["it is paused, so it sees no rows"]
    if record.state is QueryState.SUSPENDED:
        return [f"it is suspended, so it sees no rows: {record.why}"]
    for name in dict.fromkeys(view.name for view in record.view_texts):
        view = rounds.catalog.views.find(name)
        below = None if view is None else rounds.catalog.record(view.feeds[0].query_id)
        if below is not None and below.state is QueryState.SUSPENDED:
            return [f"view {name} is suspended, so it gives no rows: {below.why}"]
    return []


def record_of_rows(record: QueryRecord, receipt: Mapping[str, Any]) -> QueryRecord:
    """A query, of which a receipt has a result; of a union the branch that gave it."""
    numbers = input_numbers(receipt)
    branches = branches_over(record.shape, numbers)
    if len(branches) > 1 or (branches and has_repeated_sets(record.text, branches[0])):
        raise NotBuiltError(
            f"why of a result of {record.name} is not built in this version",
            detail="A query of WITH that has UNION or DISTINCT is read more than once, and its rows cannot be told apart.",
            hint="Ask about the rows of the result.",
        )
    if not branches:
        n = max(len(branch.inputs) for branch in record.shape.all_branches)
        raise SchemaError(
            f"result {receipt['id']} is made of {len(numbers)} rows, and {record.name} reads {n} streams now",
            detail=f"It is of generation {receipt['generation']}, the query of {record.generation}.",
            hint="Ask about a result that it had since it was replaced.",
        )
    return branch_record(record, branches[0])


def rows_of_receipt(record: QueryRecord, receipt: Mapping[str, Any]) -> dict[str, Any]:
    """The rows of a receipt, as `why` takes them: of a join by what the query, or its branch, calls its inputs."""
    rows = [each["row"] or {} for each in receipt["rows"]]
    shape = record.shape
    if shape.join is None:
        return dict(rows[0])
    return {shape.inputs[place].alias: row for place, row in zip(shape.written_order, rows, strict=True)}


class QuerySet:
    """Many queries registered in one call."""

    def __init__(self, engine: Engine, ids: Sequence[int]) -> None:
        self._engine = engine
        self.ids = ids

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[Query]:
        return (Query(self._engine, query_id) for query_id in self.ids)

    def __getitem__(self, at: int) -> Query:
        return Query(self._engine, self.ids[at])

    def drop(self) -> int:
        """End all of them in one version; those dropped before are passed over. Returns how many."""
        rounds = self._engine.rounds
        with rounds.lock:
            live_ids = [i for i in self.ids if rounds.catalog.queries.state(i) is not QueryState.DROPPED]
            return self._engine.drop_ids(live_ids)

    def __repr__(self) -> str:
        return f"<{len(self)} queries>"


class QueryPage(list[Query]):
    """One page of queries; `total` is how many there are on all pages."""

    def __init__(self, queries: list[Query], total: int, page: int, per_page: int) -> None:
        super().__init__(queries)
        self.total = total
        self.page = page
        self.n_pages = max(1, -(-total // per_page))
