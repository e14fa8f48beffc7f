"""The result log in Spark: as a DataFrame, and appended to a table.

Workers read the outbox files themselves; the driver only says which. Every result has the columns of result files, `_query`,
`_query_id`, `_generation`, `_arrival`, `_round`, `_change` and `_late`, and behind them either the columns of its query or, since
queries differ in theirs, all of them as one JSON text, `result`.

A table, or a folder of Parquet files, gets the rounds since the last time as one partition, named by the first of them. Only then
does its cursor in the home advance. After a crash between the two the next call starts at the same round, so it replaces that
partition: no result is lost, and none is there twice. The home remembers which tables it made: Spark's default catalog forgets
them when the session ends, and then the table is declared again over its files.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from eddyline.catalog import ListedFile
from eddyline.delivery import MARKS, json_lines, result_batch
from eddyline.engine import Durable, RoundEngine, by_bytes
from eddyline.errors import EddylineError, HomeError, PropertyError, UnknownNameError, did_you_mean
from eddyline.events import SinkOvertaken
from eddyline.model import DEFAULT_CHOICES
from eddyline.sources import Reference
from eddyline.storage import OUTBOX, Store, StoredFile, StoredPart, read_parts
from eddyline.types import MONTHS, STRING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

BATCH = "_batch"  # partitions a table: the first round of those that were appended together
FEED = "eddyline.feed"  # a property of a table: whose cursor it has
RESULT = pa.field("result", STRING)
OVERTAKEN_ROUNDS = 100_000  # looked through for results that retention was quicker with

_writing = threading.Lock()  # a table is written by one at a time


class ResultTableError(EddylineError):
    """Results cannot be appended to a table."""


def results_frame(
    session: SparkSession | None,
    rounds: RoundEngine,
    *,
    queries: str | int | Sequence[str | int] | None = None,
    after_round: int = 0,
    as_json: bool | None = None,
) -> DataFrame:
    """Kept results of later rounds, of all queries or of some by name or id, as a DataFrame of now: later rounds are not in it.

    With `as_json` each result is one JSON text; with False it has the columns of its query, which all that are asked for must
    share. If it is left out there are columns if queries are named and share them. Without a session, the active one is taken.
    Raises HomeError, UnknownNameError or PropertyError.
    """
    durable, session = _durable(rounds), _active(session)
    with rounds.lock:
        rounds.check_open()
        selection = _selection(rounds, queries)
        columns = _columns(durable, selection, as_json)
        files = durable.rounds.files.after(OUTBOX, after_round)
        reading = _FileReading(durable, files, selection, columns)
    return reading.frame(session)


def write_results_table(
    session: SparkSession | None,
    rounds: RoundEngine,
    table: str,
    *,
    queries: str | int | Sequence[str | int] | None = None,
    after_round: int = 0,
    as_json: bool = True,
) -> int:
    """Append the results of rounds a table does not have yet, each once; returns the last round it has now.

    The table, or the folder if a path is given, is made if it is not there, and then begins behind `after_round`. It belongs to
    this home. Raises ResultTableError.
    """
    durable, session = _durable(rounds), _active(session)
    log = durable.rounds
    with _writing:
        with rounds.lock:
            rounds.check_open()
            selection = _selection(rounds, queries)
            columns = _columns(durable, selection, as_json)
        target = _Folder(table) if is_path(table) else _Table(table)
        reader = target.reader(session, rounds, columns, after_round)
        with rounds.lock:
            cursor, _ = log.cursors.get(reader) or (0, 0)
            newest = log.last()
            last = cursor if newest is None else max(cursor, newest.round.number)
            files = log.files.after(OUTBOX, cursor)
            n_lost = _n_lost(durable, files, cursor, last)
            reading = _FileReading(durable, files, selection, columns)
        if n_lost:
            rounds.tell(SinkOvertaken(last, f"table {table}", n_lost))
        if files:
            target.replace(session, cursor + 1, reading.frame(session))
        if last > cursor:
            rounds.at_step("5 table")
            with rounds.lock:
                log.cursors.set(reader, last, 0)
        return last


# --------------------------------------------------------------------------------------------- which results


@dataclass(frozen=True, slots=True)
class _QuerySelection:
    """Results of these queries, or of all; and what queries are called, if not by their number."""

    ids: tuple[int, ...] | None
    names: Mapping[int, str]


def _durable(rounds: RoundEngine) -> Durable:
    if rounds.durable is None:
        raise HomeError(
            "an engine in memory has no results that Spark could read",
            hint='Open it with a home: eddyline.open("folder/").',
        )
    return rounds.durable


def _active(session: SparkSession | None) -> SparkSession:
    """The session that is given, or the active one."""
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    try:
        return SparkSession.active() if session is None else session
    except PySparkRuntimeError:
        raise PropertyError("there is no Spark session", hint="Start one, or give one: spark=…") from None


def _selection(rounds: RoundEngine, queries: str | int | Sequence[str | int] | None) -> _QuerySelection:
    """Which queries are meant, with the lock held."""
    database = _durable(rounds).database
    if queries is None:
        return _QuerySelection(None, database.queries.past_names())
    wanted_queries = [queries] if isinstance(queries, (str, int)) else list(queries)
    names: dict[int, str] = {}
    for query in wanted_queries:
        query_id = rounds.catalog.names.find(query) if isinstance(query, str) else query
        past = None if query_id is None else database.queries.past(query_id)
        if query_id is None or past is None:
            raise UnknownNameError(
                f"there is no query {query}",
                hint=did_you_mean(str(query), rounds.catalog.names.of(), noun="named query"),
            )
        names[query_id] = past[0] or f"q{query_id}"
    return _QuerySelection(tuple(names), names)


def _columns(durable: Durable, selection: _QuerySelection, as_json: bool | None) -> pa.Schema | None:
    """The columns that all wanted queries have, in all their generations; None for JSON."""
    if as_json or (as_json is None and not selection.ids):
        return None
    outputs = {
        shape.output: query_id
        for query_id in selection.ids or ()
        for shape in durable.database.queries.past_shapes(query_id)
    }
    if len(outputs) == 1:
        return next(iter(outputs))
    if as_json is None:
        return None
    differ = ", ".join(selection.names[query_id] for query_id in outputs.values())
    raise PropertyError(
        "results can only have columns if all queries that are asked for have the same",
        detail=f"These differ, or did before they were replaced: {differ}." if outputs else None,
        hint="Name queries that have the same columns, or take them as JSON: as_json=True.",
    )


def _n_lost(durable: Durable, files: Sequence[ListedFile], cursor: int, last: int) -> int:
    """How many results behind the cursor retention has removed."""
    kept_rounds = {file.round_number for file in files}
    behind = durable.rounds.recent(min(last - cursor, OVERTAKEN_ROUNDS))
    return sum(r.n_results for r in behind if r.round.number > cursor and r.round.number not in kept_rounds)


# --------------------------------------------------------------------------------------------- reading


class _FileReading:
    """Which files are read, and what becomes of them."""

    def __init__(
        self,
        durable: Durable,
        files: Sequence[ListedFile],
        selection: _QuerySelection,
        columns: pa.Schema | None,
    ) -> None:
        references = [
            Reference(
                OUTBOX,
                {
                    "file": StoredFile(f.name, f.nbytes, f.checksum),
                    "round": f.round_number,
                    "first": (f.first_arrival, f.first_row),
                },
                f.nbytes,
            )
            for f in files
        ]
        self._folder = str(durable.store.folder.absolute())
        self._groups = by_bytes(references, DEFAULT_CHOICES.task_bytes, DEFAULT_CHOICES.most_tasks)
        self._selection = selection
        self._is_json = columns is None
        self._schema = _frame_schema(columns)

    def frame(self, session: SparkSession) -> DataFrame:
        n = len(self._groups)
        return session.range(0, n, 1, max(1, n)).mapInArrow(self._worker(), spark_schema(self._schema))

    def _worker(self) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
        """Reads a group of files; the rows it is given are the groups' numbers."""
        folder, groups, selection, schema = self._folder, self._groups, self._selection, self._schema
        is_json = self._is_json

        def read(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            store = Store(Path(folder), 0)
            for number in (n for batch in numbers for n in batch.column(0).to_pylist()):
                for reference in groups[number]:
                    what = reference.what
                    for part in read_parts(store.read(what["file"]), *what["first"]):
                        rows = _results(what["round"], part, selection)
                        if rows is not None:
                            yield _as_json(rows, schema) if is_json else _as_columns(rows, schema)

        return read


def _results(round_number: int, part: StoredPart, selection: _QuerySelection) -> pa.RecordBatch | None:
    """The wanted results of a part, marks first; None if there are none."""
    everything = np.arange(len(part))
    pairs = everything if selection.ids is None else np.flatnonzero(np.isin(part.query_ids, selection.ids))
    if not len(pairs):
        return None
    names = selection.names
    return result_batch(round_number, part, pairs, lambda query_id: names.get(query_id, f"q{query_id}")).rows


def _as_json(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    texts = json_lines(rows.select(rows.schema.names[len(MARKS) :]))
    return pa.RecordBatch.from_arrays([*rows.columns[: len(MARKS)], pa.array(texts, STRING)], schema=schema)


def _as_columns(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = [_months(column) if column.type == MONTHS else column for column in rows.columns]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _months(column: pa.Array) -> pa.Array:
    """Months as Spark casts them to STRING: Arrow has another kind of interval than Spark takes."""
    texts = []
    for value in column.to_pylist():
        years, months = (0, 0) if value is None else divmod(abs(value.months), 12)
        sign = "-" if value is not None and value.months < 0 else ""
        texts.append(None if value is None else f"INTERVAL '{sign}{years}-{months}' YEAR TO MONTH")
    return pa.array(texts, STRING)


def _frame_schema(columns: pa.Schema | None) -> pa.Schema:
    """The columns of a frame: months, which Spark does not take as they are, are text."""
    if columns is None:
        fields = [*MARKS, RESULT]
    else:
        nothing = np.empty(0, np.int64)
        no_ids, no_signs = nothing.astype(np.int32), nothing.astype(np.int8)
        no_rows = pa.RecordBatch.from_arrays([pa.array([], f.type) for f in columns], schema=columns)
        empty = StoredPart(no_ids, no_ids, nothing, no_signs, nothing.astype(bool), no_rows)
        fields = list(result_batch(0, empty, nothing, str).rows.schema)
    return pa.schema([pa.field(f.name, STRING if f.type == MONTHS else f.type) for f in fields])


def spark_schema(schema: pa.Schema) -> StructType:
    """The same columns as Spark has them."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema, prefer_timestamp_ntz=True)


# --------------------------------------------------------------------------------------------- tables


def is_path(table: str) -> bool:
    """Whether a folder is meant, not a name in a catalog."""
    return "/" in table and "`" not in table


class _Folder:
    """Parquet files in a folder of their own, also on a store that Spark reaches, a partition for each time."""

    def __init__(self, path: str) -> None:
        self._path = path.rstrip("/")

    def reader(
        self, session: SparkSession, rounds: RoundEngine, columns: pa.Schema | None, after_round: int
    ) -> str:
        """The name of the folder's cursor in the home. Raises ResultTableError if the files are not this home's."""
        reader, log = f"spark folder {self._path}", _durable(rounds).rounds
        with rounds.lock:
            is_ours = log.cursors.get(reader) is not None
        if not is_ours:
            if self._files(session):
                raise ResultTableError(
                    f"the folder {self._path} holds files that this home did not write",
                    hint="Name a folder that is empty or does not exist.",
                )
            with rounds.lock:
                log.cursors.set(reader, after_round, 0)
        elif self._files(session):
            expected = spark_schema(_frame_schema(columns))
            found = session.read.parquet(self._path).drop(BATCH).schema
            _check_columns(f"the folder {self._path}", found, expected)
        return reader

    def replace(self, session: SparkSession, batch: int, frame: DataFrame) -> None:
        frame.write.mode("overwrite").parquet(f"{self._path}/{BATCH}={batch}")

    def _files(self, session: SparkSession) -> bool:
        path = session._jvm.org.apache.hadoop.fs.Path(self._path)
        system = path.getFileSystem(session._jsc.hadoopConfiguration())
        return bool(system.exists(path)) and bool(list(system.listStatus(path)))


class _Table:
    """A table in a catalog of Spark."""

    def __init__(self, name: str) -> None:
        self._name = name

    def reader(
        self, session: SparkSession, rounds: RoundEngine, columns: pa.Schema | None, after_round: int
    ) -> str:
        """The name of the table's cursor in the home; a table that is not there is made."""
        durable, schema = _durable(rounds), spark_schema(_frame_schema(columns)).add(BATCH, "long")
        log = durable.rounds
        if not session.catalog.tableExists(self._name):
            return self._make(session, rounds, schema, after_round)
        properties = {row.key: row.value for row in session.sql(f"SHOW TBLPROPERTIES {self._name}").collect()}
        with rounds.lock:
            is_ours = FEED in properties and log.cursors.get(_reader(properties[FEED])) is not None
        if not is_ours:
            raise ResultTableError(
                f"table {self._name} does not belong to this home",
                detail="Another home appends to it."
                if FEED in properties
                else "It was not made for results.",
                hint="Name a table that is not there yet: it is made.",
            )
        _check_columns(f"table {self._name}", session.table(self._name).schema, schema)
        return _reader(properties[FEED])

    def _make(self, session: SparkSession, rounds: RoundEngine, schema: StructType, after_round: int) -> str:
        """Make the table; if this home made it in a session whose catalog is gone, declare it again over its files."""
        durable = _durable(rounds)
        location = self._location(session)
        with rounds.lock:
            feed = durable.database.setting(_table_setting(location))
            is_known = feed is not None and durable.rounds.cursors.get(_reader(feed)) is not None
        if location and _Folder(location)._files(session):
            if not is_known or feed is None:
                raise ResultTableError(
                    f"there is no table {self._name}, and the folder it would have holds files that this home did not write",
                    detail=f"The folder is {location}.",
                    hint="Name another table, give the path of an empty folder instead, or remove that folder.",
                )
            stored, columns = (
                session.read.parquet(location).drop(BATCH).schema,
                type(schema)(schema.fields[:-1]),
            )
            _check_columns(f"table {self._name}", stored, columns)
            fields = ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in schema)
            session.sql(
                f"CREATE TABLE {self._name} ({fields}) USING parquet PARTITIONED BY ({BATCH})"
                f" LOCATION '{location}' TBLPROPERTIES ('{FEED}' = '{feed}')"
            )
            session.sql(f"MSCK REPAIR TABLE {self._name}")
            return _reader(feed)
        feed = uuid.uuid4().hex
        with rounds.lock, durable.database.transaction():
            durable.database.set(_table_setting(location), feed)
        with rounds.lock:  # first, so that there is never a table without a cursor
            durable.rounds.cursors.set(_reader(feed), after_round, 0)
        from pyspark.sql.functions import col

        new = session.createDataFrame([], schema).writeTo(self._name).using("parquet")
        new.partitionedBy(col(BATCH)).tableProperty(FEED, feed).create()
        return _reader(feed)

    def _location(self, session: SparkSession) -> str:
        """Where Spark would put the table if its catalog is the session's own; empty if that is not known."""
        *namespace, name = [part.strip("`") for part in self._name.split(".")]
        if len(namespace) > 1 and namespace[0] != "spark_catalog":
            return ""
        database = namespace[-1] if namespace else session.catalog.currentDatabase()
        if session.catalog.currentCatalog() != "spark_catalog" or not session.catalog.databaseExists(
            database
        ):
            return ""
        return f"{session.catalog.getDatabase(database).locationUri.rstrip('/')}/{name.lower()}"

    def replace(self, session: SparkSession, batch: int, frame: DataFrame) -> None:
        session.sql(
            f"INSERT OVERWRITE TABLE {self._name} PARTITION ({BATCH} = {batch}) SELECT * FROM {{results}}",
            results=frame,
        )


def _check_columns(what: str, found: StructType, expected: StructType) -> None:
    there, ours = _schema_lines(found), _schema_lines(expected)
    if sorted(there) != sorted(ours):
        raise ResultTableError(
            f"{what} has other columns than these results",
            detail=f"It has {', '.join(there)}; the results have {', '.join(ours)}.",
            hint="Name another table, or append what it was made for: the same queries, and as_json as it was.",
        )


def _table_setting(location: str) -> str:
    """The setting in which the home remembers a table it made."""
    return f"spark table at {location}"


def _reader(feed: str) -> str:
    return f"spark table {feed}"


def _schema_lines(schema: StructType) -> list[str]:
    return [f"{field.name} {field.dataType.simpleString()}" for field in schema]
