"""What is on its way out: results, the columns of a query behind the marks that identify each; or messages of alerts.

A sink takes either, in the forms it needs: as columns, as lines of JSON, as text for people, or one by one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.batch import change_names
from eddyline.delivery.sinks.texts import json_lines, text_columns
from eddyline.documents import change_mark
from eddyline.model import Message
from eddyline.storage import StoredPart
from eddyline.types import TIMESTAMP

MARKS = pa.schema(
    [
        pa.field("_query", pa.string(), nullable=False),
        pa.field("_query_id", pa.int32(), nullable=False),
        pa.field("_generation", pa.int32(), nullable=False),
        pa.field("_arrival", pa.int64(), nullable=False),
        pa.field("_round", pa.int64(), nullable=False),
        pa.field("_change", pa.string(), nullable=False),
        pa.field("_late", pa.bool_(), nullable=False),
    ]
)


MESSAGE = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("status", pa.string(), nullable=False),
        pa.field("query", pa.string(), nullable=False),
        pa.field("query_id", pa.int32(), nullable=False),
        pa.field("generation", pa.int32(), nullable=False),
        pa.field("owner", pa.string(), nullable=False),
        pa.field("key", pa.string(), nullable=False),  # JSON
        pa.field("severity", pa.string(), nullable=False),
        pa.field("message", pa.string(), nullable=False),
        pa.field("row", pa.string(), nullable=False),  # JSON
        pa.field("result", pa.string(), nullable=False),
        pa.field("round", pa.int64(), nullable=False),
        pa.field("at", TIMESTAMP, nullable=False),
        pa.field("since", TIMESTAMP, nullable=False),
        pa.field("n_rows", pa.int64(), nullable=False),
        pa.field("n_suppressed", pa.int64(), nullable=False),
        pa.field("reason", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class Item:
    """One result, or one message, by itself."""

    id: str
    text: str  # as JSON
    round_number: int
    query_id: int
    generation: int
    query: str
    arrival: int | None = None
    message: Message | None = None
    is_lasting: bool = False  # of a message that fires: another will say that it is over

    @property
    def row(self) -> dict[str, Any]:
        """The row of a result, the whole of a message."""
        body: dict[str, Any] = json.loads(self.text)
        return body["row"] if self.message is None else body


class Batch(Protocol):
    """Results of one round, or messages of one, in order."""

    def __len__(self) -> int: ...

    @property
    def number(self) -> int:
        """The position in the order of all batches: the round, or the id of the last message."""
        ...

    @property
    def rows(self) -> pa.RecordBatch:
        """All entries, as columns."""
        ...

    def lines(self) -> list[str]:
        """One JSON object for each entry."""
        ...

    def text_lines(self, time_zone: str) -> list[str]:
        """One readable line for each entry."""
        ...

    def queries(self) -> list[str]:
        """The name of the query of each entry."""
        ...

    def items(self) -> list[Item]:
        """The entries, one by one."""
        ...


@dataclass(frozen=True)
class ResultBatch:
    """Results of one round that have the same columns, by arrival, then query.

    Query id, generation and arrival number identify a result; a sink can detect one that comes twice.
    """

    number: int  # the round
    rows: pa.RecordBatch  # MARKS, then the columns of the queries

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    @cached_property
    def columns(self) -> pa.Schema:
        """The columns of the queries."""
        return pa.schema(list(self.rows.schema)[len(MARKS) :])

    def lines(self) -> list[str]:
        return json_lines(self.rows)

    def text_lines(self, time_zone: str) -> list[str]:
        names = self.columns.names
        columns = [column.to_pylist() for column in text_columns(self.rows, time_zone).columns]
        queries, values = columns[0], columns[len(MARKS) :]
        rows = [
            ", ".join(f"{name}={_value_text(value)}" for name, value in zip(names, row, strict=True))
            for row in (zip(*values, strict=True) if values else [()] * len(self))
        ]
        changes = self.rows.column("_change").to_pylist()
        return [
            f"{change_mark(change)} {query}: {row}".rstrip()
            for change, query, row in zip(changes, queries, rows, strict=True)
        ]

    def queries(self) -> list[str]:
        return list(self.rows.column("_query").to_pylist())

    def items(self) -> list[Item]:
        marks = self.rows.select(MARKS.names).to_pylist()
        rows = json_lines(self.rows.select(self.columns.names))
        return [self._item(mark, row) for mark, row in zip(marks, rows, strict=True)]

    def _item(self, mark: dict[str, Any], row: str) -> Item:
        cursor = f"{self.number}-{mark['_arrival']}-{mark['_query_id']}"
        head = {
            "query": mark["_query"],
            "query_id": mark["_query_id"],
            "generation": mark["_generation"],
            "round": self.number,
            "arrival": mark["_arrival"],
            "change": mark["_change"],
            "is_late": mark["_late"],
            "cursor": cursor,
        }
        return Item(
            id=cursor,
            text=f'{json.dumps(head, ensure_ascii=False)[:-1]}, "row": {row}}}',
            round_number=self.number,
            query_id=mark["_query_id"],
            generation=mark["_generation"],
            query=mark["_query"],
            arrival=mark["_arrival"],
        )


@dataclass(frozen=True)
class MessageBatch:
    """Messages of one round, by id. `lasting` are the ids of those whose alerts will be resolved by another message."""

    messages: Sequence[Message]
    lasting: frozenset[int] = frozenset()

    def __len__(self) -> int:
        return len(self.messages)

    @property
    def number(self) -> int:
        return self.messages[-1].id

    @cached_property
    def rows(self) -> pa.RecordBatch:
        bodies = [message.as_dict() for message in self.messages]
        times = {"at": "at_us", "since": "since_us"}
        columns = []
        for field in MESSAGE:
            if field.name in times:
                stamps = [getattr(message, times[field.name]) for message in self.messages]
                columns.append(pa.array(stamps, pa.int64()).cast(field.type))
                continue
            values = [body[field.name] for body in bodies]
            if field.name in ("key", "row"):
                values = [json.dumps(value, ensure_ascii=False) for value in values]
            columns.append(pa.array(values, field.type))
        return pa.RecordBatch.from_arrays(columns, schema=MESSAGE)

    def lines(self) -> list[str]:
        return [json.dumps(message.as_dict(), ensure_ascii=False) for message in self.messages]

    def text_lines(self, time_zone: str) -> list[str]:
        lines = []
        for message in self.messages:
            key = ", ".join(f"{name}={_value_text(value)}" for name, value in message.key.items())
            text = " ".join(message.message.split())  # one line each
            what = f"{message.status} {message.severity}".rstrip()
            lines.append(f"{what} {message.query}{f' ({key})' if key else ''}: {text}".rstrip())
        return lines

    def queries(self) -> list[str]:
        return [message.query for message in self.messages]

    def items(self) -> list[Item]:
        return [
            Item(
                id=str(message.id),
                text=text,
                round_number=message.round,
                query_id=message.query_id,
                generation=message.generation,
                query=message.query,
                message=message,
                is_lasting=message.id in self.lasting,
            )
            for message, text in zip(self.messages, self.lines(), strict=True)
        ]


def _value_text(value: object) -> str:
    return "NULL" if value is None else str(value)


def result_batch(
    round_number: int, part: StoredPart, pairs: npt.NDArray[np.int64], name_of: Callable[[int], str]
) -> ResultBatch:
    """The chosen results of a part, ready to leave."""
    pairs = pairs[np.lexsort((part.query_ids[pairs], part.arrivals[pairs]))]
    ids = part.query_ids[pairs]
    distinct, places = np.unique(ids, return_inverse=True)
    names = pa.array([name_of(int(i)) for i in distinct], pa.string()).take(pa.array(places))
    marks = [
        names,
        pa.array(ids),
        pa.array(part.generations[pairs]),
        pa.array(part.arrivals[pairs]),
        pa.repeat(pa.scalar(round_number, pa.int64()), len(pairs)),
        pa.array(change_names(part.signs[pairs]), pa.string()),
        pa.array(part.is_late[pairs]),
    ]
    projected = part.project(pairs)
    fields = _own_names(list(projected.schema))
    return ResultBatch(
        round_number,
        pa.RecordBatch.from_arrays([*marks, *projected.columns], schema=pa.schema([*MARKS, *fields])),
    )


def _own_names(fields: Sequence[pa.Field]) -> list[pa.Field]:
    """Every column under a name of its own: a mark, or a column before it, may have the name already."""
    used_names = set(MARKS.names)
    named = []
    for f in fields:
        name, n = f.name, 1
        while name in used_names:
            n += 1
            name = f"{f.name}_{n}"
        used_names.add(name)
        named.append(f.with_name(name))
    return named
