"""Receipts of results of aggregates: the rows of the group that the query had seen, before the round and after it.

A result of a window with emit = 'final', and one of a row over its frame, have only the rows after. The rows are in the order of
their times and of their arrival, which is the order that first(x), lag(x) and frames of rows go by.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.catalog import CommittedRound, StoredQuery
from eddyline.documents import jsonable
from eddyline.engine import RoundEngine, event_times, home_of
from eddyline.errors import ReceiptError
from eddyline.explain import GroupedQuery, grouped_query
from eddyline.model import OVER, TimeWindow, UserCall, iso_time
from eddyline.operators import times_of
from eddyline.proof import rows_to_json, schema_to_text
from eddyline.receipts.expansion import WrittenOut, record_of_stored
from eddyline.receipts.group_rows import GroupHistory, GroupOfResult, Moment
from eddyline.receipts.seen_columns import columns_seen
from eddyline.storage import OUTBOX, StoredPart

GROUP_FORMAT = 4  # of the document: with the rows of a group
MOST_ROWS = 10_000  # of a receipt


def aggregating_query(written: WrittenOut) -> StoredQuery | None:
    """The query, or the view that it reads, whose text has aggregates; None if none has."""
    for query in written.queries:
        if any(shape.aggregating is not None for shape in query.shape.plain_shapes()):
            assert isinstance(query, StoredQuery), query.name
            return query
    return None


class UnmadeResult(ReceiptError):
    """A result that the rows which the query had seen do not make."""


class GroupReceipts:
    """The parts of receipts that say what the results of one query in one round were made of. Rows are read once for all."""

    def __init__(
        self, rounds: RoundEngine, written: WrittenOut, committed: CommittedRound, parts: Sequence[StoredPart]
    ) -> None:
        """`parts` are the results of the round. Raises NotBuiltError, or ReceiptError if rows are gone."""
        query = written.queries[0]
        assert isinstance(query, StoredQuery), query.name
        aggregating = aggregating_query(written)
        assert aggregating is not None, query.name
        _refuse_unsteady(written)
        with rounds.lock:
            rounds.check_open()
            grouped = grouped_query(rounds, record_of_stored(rounds, query, written))
        assert grouped is not None, query.name
        assert aggregating.shape.aggregating is not None, f"{aggregating.name} is one with its aggregates"
        self._rounds, self._written, self._committed = rounds, written, committed
        self._grouped = grouped.over(aggregating.shape.aggregating.aggregation)
        self._parts = [part for part in parts if (part.query_ids == query.id).any()]
        self._query_id = query.id
        self._history = GroupHistory(rounds, self._grouped, committed, aggregating.version, query.version)

    @property
    def grouped(self) -> GroupedQuery:
        return self._grouped

    def body(self, arrival: int, part: StoredPart, change: str) -> dict[str, Any]:
        """The entries `rows` and `group` of the receipt of a result, which `part` has alone. Raises ReceiptError."""
        group = (
            self._frame(arrival) if self._grouped.aggregation.is_over else self._group(arrival, part, change)
        )
        if group is None and self._history.is_certain:
            raise UnmadeResult(
                f"the rows that {self._grouped.stream.name} had do not make result "
                f"{self._committed.round.number}-{arrival}-{self._query_id}",
                detail="All rows that the query had seen are retained.",
                hint="Send the home, or its backup, with a bug report.",
            )
        if group is None:
            raise ReceiptError(
                f"the rows that made result {self._committed.round.number}-{arrival}-{self._query_id} are not all retained",
                detail=f"Those of {self._grouped.stream.name} that are do not make it.",
                hint='To keep them as long as results: captures = "7 days" in [engine.retention] (docs/pipeline.md).',
            )
        return self._body(group, arrival)

    def _frame(self, arrival: int) -> GroupOfResult | None:
        frame = self._history.frame_of(arrival)
        if frame is None:
            return None
        own = frame.rows.columns.slice(len(frame.rows) - 1, 1)
        return GroupOfResult(own, None, frame)

    def _group(self, arrival: int, part: StoredPart, change: str) -> GroupOfResult | None:
        alike = []  # of equal results of the round, in their order
        for each in self._parts:
            for at in np.flatnonzero(
                (each.query_ids == self._query_id) & (each.signs == part.signs[0])
            ).tolist():
                if each.project(np.array([at])).equals(part.rows):
                    alike.append(int(each.arrivals[at]))
        return self._history.group_of(part.rows, change, sorted(alike).index(arrival))

    def _body(self, group: GroupOfResult, arrival: int) -> dict[str, Any]:
        query, entry = self._grouped, self._written.inputs[0]
        moments = [moment for moment in (group.before, group.after) if moment is not None]
        rows = {
            number: each.rows.stream_rows.slice(at, 1)
            for each in moments
            for at, number in enumerate(each.rows.arrivals.tolist())
        }
        if len(rows) > MOST_ROWS:
            raise ReceiptError(
                f"the group has {len(rows):,} rows, and a receipt has up to {MOST_ROWS:,}",
                hint="Ask about a result of a smaller group.",
            )
        numbers = self._in_order(rows)
        together = pa.Table.from_batches([rows[n] for n in numbers], query.stream.schema).combine_chunks()
        shown = together.to_batches()[0] if numbers else pa.RecordBatch.from_pylist([], query.stream.schema)
        facts: dict[str, Any] = {
            "of": query.noun,
            "keys": jsonable(self._keys(group.entry)),
            "stream": query.stream.name,
            "columns": schema_to_text(shown.schema),
            "seen": columns_seen(entry, shown.schema),
            "before": None if group.before is None else _moment(group.before),
            "after": _moment(group.after),
        }
        window = query.aggregation.window
        if isinstance(window, TimeWindow) and window.slide_us != window.size_us:
            ((start_us, _),) = query.spans(group.entry)
            facts["sliding"] = {"start_us": start_us, "size_us": window.size_us}
        if query.aggregation.is_over:
            facts["row"] = arrival
        json_rows = rows_to_json(shown)
        return {
            "format": GROUP_FORMAT,
            "group": facts,
            "rows": [
                {"stream": query.stream.name, "arrival": number, "row": row}
                for number, row in zip(numbers, json_rows, strict=True)
            ],
        }

    def _keys(self, entry: pa.RecordBatch) -> dict[str, Any]:
        if self._grouped.aggregation.kind != OVER:
            return self._grouped.groups(entry)[0]
        names = self._grouped.aggregation.keys
        return {self._grouped.names[name]: entry.column(name)[0].as_py() for name in names}

    def _in_order(self, rows: dict[int, pa.RecordBatch]) -> list[int]:
        """Arrival numbers by the times of the rows, then as they came."""
        stream, zone = self._grouped.stream, self._rounds.time_zone
        times = {number: int(times_of(event_times(stream, row, zone), 1)[0]) for number, row in rows.items()}
        return sorted(rows, key=lambda number: (times[number], number))


def _refuse_unsteady(written: WrittenOut) -> None:
    """Refuse functions that would have to be called again to know which rows a group had."""
    for query in written.queries:
        nodes = (
            node for shape in query.shape.plain_shapes() for e in shape.expressions() for node in e.walk()
        )
        for node in nodes:
            if isinstance(node, UserCall) and not node.is_deterministic:
                raise ReceiptError(
                    f"results of {query.name or 'the query'} have no receipts: it aggregates, and {node.function} is not "
                    "deterministic",
                    detail="What the function gave is not stored for each row of a group.",
                )


def results_in(rounds: RoundEngine, number: int) -> list[StoredPart]:
    """The results of a round."""
    durable = home_of(rounds)
    with rounds.lock:
        files = durable.rounds.files.of_round(OUTBOX, number)
    return [part for file in files for part in durable.parts(file)]


def _moment(moment: Moment) -> dict[str, Any]:
    watermark_us = moment.watermark_us
    return {
        "now": iso_time(moment.now_us),
        "now_us": moment.now_us,
        "watermark": None if watermark_us is None else iso_time(watermark_us),
        "arrivals": sorted(moment.rows.arrivals.tolist()),
    }
