"""Who answers a workload: the engine, its filter stage alone, a NumPy loop, DuckDB and Polars.

All of them give every (row, query) pair, and how many there were is compared. Peers run on one thread, keep the queries in
their own form from before, and have the batch in theirs too: registering or converting it is not counted. Each is in its best
form of those that were tried:

    NumPy    per query the comparisons it has, constants already as arrays, each into a buffer that is reused, joined by AND;
             what is left as row numbers. Narrowing the rows after each comparison instead takes 1.3 to 2.4 times as long
    DuckDB   with a key: an equality join with the ranges as further conditions. Without: the fastest of `range join`, which is
             the query as one would write it; `cross product`, the same with a condition it does not take apart (half the time
             on dense sets); `by shape`, a range join per combination of columns (up to ten times as fast on many ranges)
    Polars   with a key: an eager join of the queries, sorted by key, with the batch, then the ranges as a filter. Without: the
             fastest of `join_where` with both ends of each column (`range join`) or one condition it does not take apart
             (`cross product`, up to ten times as fast), on its in-memory or its streaming engine

Where there are several forms they are tried on 512 rows, and the one that was fastest stands in the results.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import eddyline
from benchmarks.filters._workloads import (
    AT_LEAST,
    AT_MOST,
    BETWEEN,
    EQUAL,
    GREATER,
    LESS,
    NONE,
    STREAM,
    Condition,
    Queries,
    Workload,
    numbers_of,
)
from benchmarks.harness import cpu, wall
from eddyline.batch import TupleBatch
from eddyline.filters import FilterStage
from eddyline.model import Round

Answer = Callable[[], int]  # meets some batches with all queries and gives the number of pairs
Pairs = tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]

SETTLED_WITHIN_S = 300
SETTLING_ROWS = 100  # enough for the index to judge its queries by
SHAPES_AT_MOST = 32  # DuckDB by shape
TRIED_ROWS = 512  # on which the forms of a peer are compared


# --------------------------------------------------------------------------------------------- ours


class Standing:
    """An engine with all queries of a workload standing, its index built and at rest."""

    def __init__(self, workload: Workload, home: str | None = None) -> None:
        self.workload = workload
        self.engine = eddyline.open(home)
        self.engine.warm_up()
        self.engine.stream(STREAM, workload.schema)
        began = wall()
        self.ids = registered(self.engine, workload.queries)
        self.register_s = wall() - began
        began = wall()
        self.settle()
        self.build_s = wall() - began

    @property
    def stage(self) -> FilterStage:
        return dict(self.engine.rounds.stages())[STREAM]

    @property
    def nbytes(self) -> int | None:
        """Bytes of the index; None where the stage does not say."""
        return self.stage.snapshot().get("nbytes")

    @property
    def is_rebuilding(self) -> bool | None:
        return self.stage.snapshot().get("rebuilding")

    def settle(self) -> None:
        """Rounds of some rows until nothing is being rebuilt in the background, twice in a row."""
        began, n_quiet = wall(), 0
        while n_quiet < 2:
            self.engine.push(STREAM, self.workload.rows(SETTLING_ROWS))
            n_quiet = 0 if self.is_rebuilding else n_quiet + 1
            if not n_quiet:
                time.sleep(0.01)
            assert wall() - began < SETTLED_WITHIN_S, f"still rebuilding after {SETTLED_WITHIN_S} s"

    def pairs(self, rows: pa.RecordBatch) -> Pairs:
        """What one push finds."""
        matches = self.engine.push(STREAM, rows)
        offsets, ids = matches.pairs()
        assert matches.count == len(ids) == offsets[-1], (matches.count, len(ids), offsets[-1])
        assert not matches.n_dead, f"{matches.n_dead} dead letters"
        return offsets, ids

    def pushes(self, batches: Sequence[pa.RecordBatch]) -> Answer:
        """The engine: push, count, pairs."""
        return lambda: sum(len(self.pairs(rows)[1]) for rows in batches)

    def probes(self, batches: Sequence[pa.RecordBatch]) -> Answer:
        """The filter stage alone, and its hits decoded to pairs."""
        stage, version = self.stage, self.engine.version
        tuples = [_tuple_batch(rows) for rows in batches]

        def answer() -> int:
            n = 0
            for number, batch in enumerate(tuples):
                round_ = Round(number, version, 0, 0, 1, {STREAM: len(batch)})
                n += len(stage.push(batch, round_).pairs()[1])
            return n

        return answer

    def judge(self, rows: pa.RecordBatch, n_rows: int = 16) -> None:
        """Assert that the pairs of the first rows are the right ones."""
        sample = rows.slice(0, min(n_rows, rows.num_rows))
        offsets, found = self.pairs(sample)
        satisfied = self.workload.queries.satisfied_by(sample)
        for row in range(sample.num_rows):
            expected = np.sort(self.ids[satisfied[row]])
            here = np.sort(found[offsets[row] : offsets[row + 1]])
            assert np.array_equal(here, expected), (
                f"{self.workload.name}: row {row} matches {len(here)} queries, not the right {len(expected)}"
            )

    def close(self) -> None:
        self.engine.close()


def registered(engine: eddyline.Engine, queries: Queries) -> npt.NDArray[np.int32]:
    """Register all queries, a template per signature; the engine's id of each."""
    ids = np.zeros(len(queries), np.int32)
    for template, parameters, numbers in queries.templates():
        if parameters is None:
            made = engine.query_many([template] * len(numbers))
        else:
            made = engine.query_many(template, params=parameters)
        ids[numbers] = made.ids
    return ids


def _tuple_batch(rows: pa.RecordBatch) -> TupleBatch:
    n = rows.num_rows
    return TupleBatch(STREAM, rows, np.arange(1, n + 1), np.ones(n, np.int8), np.zeros(n, dtype=bool))


# --------------------------------------------------------------------------------------------- NumPy

_UFUNCS: dict[int, np.ufunc] = {
    LESS: np.less,
    GREATER: np.greater,
    AT_MOST: np.less_equal,
    AT_LEAST: np.greater_equal,
    EQUAL: np.equal,
}
_Comparison = tuple[np.ufunc, int, npt.NDArray[Any]]


def numpy_loop(queries: Queries, batches: Sequence[pa.RecordBatch]) -> Answer:
    """The rows of each query, one query after the other."""
    compared = comparisons(queries)
    tables = [[numbers_of(rows.column(c.column)) for c in queries.conditions] for rows in batches]
    return lambda: sum(len(found) for columns in tables for found in _rows_by_query(compared, columns))


def numpy_pairs(queries: Queries, batches: Sequence[pa.RecordBatch]) -> Answer:
    """The queries of each row, in the form the engine gives them: a mask per query, all of them turned into pairs at the end."""
    compared = comparisons(queries)
    tables = [[numbers_of(rows.column(c.column)) for c in queries.conditions] for rows in batches]
    return lambda: sum(len(_queries_by_row(compared, columns)[1]) for columns in tables)


def comparisons(queries: Queries) -> list[list[_Comparison]]:
    """Per query the function, the column's place and the constant of each comparison, as the array of no dimension that NumPy
    would otherwise make of it at every call."""
    compared: list[list[_Comparison]] = [[] for _ in range(len(queries))]
    for place, condition in enumerate(queries.conditions):
        for query in np.flatnonzero(condition.operator != NONE).tolist():
            operator = condition.operator[query]
            if operator == BETWEEN:
                compared[query].append((np.greater_equal, place, np.array(condition.low[query])))
                compared[query].append((np.less_equal, place, np.array(condition.high[query])))
            else:
                compared[query].append((_UFUNCS[int(operator)], place, np.array(condition.constant[query])))
    return compared


def _rows_by_query(
    compared: list[list[_Comparison]], columns: list[npt.NDArray[Any]]
) -> list[npt.NDArray[np.int64]]:
    n_rows = len(columns[0])
    mask, other = np.empty(n_rows, dtype=bool), np.empty(n_rows, dtype=bool)
    found = []
    for wanted in compared:
        if wanted:
            _mask_of(wanted, columns, mask, other)
            found.append(mask.nonzero()[0])
        else:
            found.append(np.arange(n_rows))
    return found


def _queries_by_row(compared: list[list[_Comparison]], columns: list[npt.NDArray[Any]]) -> Pairs:
    n_rows, n_queries = len(columns[0]), len(compared)
    masks, other = np.ones((n_rows, n_queries), dtype=bool), np.empty(n_rows, dtype=bool)
    for query, wanted in enumerate(compared):
        if wanted:
            _mask_of(wanted, columns, masks[:, query], other)
    offsets = np.zeros(n_rows + 1, np.int64)
    np.cumsum(np.count_nonzero(masks, axis=1), out=offsets[1:])
    return offsets, np.broadcast_to(np.arange(n_queries, dtype=np.int32), masks.shape)[masks]


def _mask_of(
    wanted: list[_Comparison],
    columns: list[npt.NDArray[Any]],
    mask: npt.NDArray[np.bool_],
    other: npt.NDArray[np.bool_],
) -> None:
    first, *further = wanted
    compare, place, constant = first
    compare(columns[place], constant, out=mask)
    for compare, place, constant in further:
        compare(columns[place], constant, out=other)
        np.logical_and(mask, other, out=mask)


# --------------------------------------------------------------------------------------------- DuckDB


class DuckDb:
    """The queries as a table, joined with the batch."""

    def __init__(self, queries: Queries, rows: pa.RecordBatch, *, has_nulls: bool = False) -> None:
        import duckdb

        self._connection = duckdb.connect()
        self._connection.execute("SET threads = 1")
        self._fill("queries", queries.table())
        self.forms = self._forms(queries, has_nulls)
        self.form = _fastest(self, rows)

    def joins(self, batches: Sequence[pa.RecordBatch], form: str | None = None) -> Answer:
        names = [self._batch(at, rows) for at, rows in enumerate(batches)]
        texts = [self.forms[form or self.form].format(batch=name) for name in names]
        return lambda: sum(self._connection.sql(text).to_arrow_table().num_rows for text in texts)

    def _batch(self, at: int, rows: pa.RecordBatch) -> str:
        numbered = pa.table({"row": np.arange(rows.num_rows, dtype=np.int32), **_columns(rows)})
        self._connection.register(f"batch_{at}", numbered)
        return f"batch_{at}"

    def _fill(self, name: str, table: pa.Table) -> None:
        self._connection.register("filling", table)
        self._connection.execute(f"CREATE TABLE {name} AS SELECT * FROM filling")
        self._connection.unregister("filling")

    def _forms(self, queries: Queries, has_nulls: bool) -> dict[str, str]:
        ends = [_inside(condition, has_nulls) for condition in queries.ranged]
        if queries.key is not None:
            key = queries.key.column
            return {"key join": _join("queries", [f"r.{key} = q.{key}", *ends])}
        forms = {
            "range join": _join("queries", ends),
            "cross product": _join("queries", [f"(({' AND '.join(ends)}) OR r.row + q.id < 0)"]),
        }
        by_columns: dict[tuple[str, ...], list[npt.NDArray[np.int64]]] = {}
        for signature, numbers in queries.signatures():
            pairs = zip(queries.conditions, signature, strict=True)
            by_columns.setdefault(tuple(c.column for c, o in pairs if o != NONE), []).append(numbers)
        if len(by_columns) <= SHAPES_AT_MOST:
            forms["by shape"] = self._by_shape(queries, by_columns, has_nulls)
        return forms

    def _by_shape(
        self,
        queries: Queries,
        by_columns: dict[tuple[str, ...], list[npt.NDArray[np.int64]]],
        has_nulls: bool,
    ) -> str:
        table, joins = queries.table(), []
        for columns, numbers in by_columns.items():
            name = "_".join(["shape", *columns])
            self._fill(name, table.take(pa.array(np.concatenate(numbers))))
            asked = [_inside(c, has_nulls) for c in queries.ranged if c.column in columns]
            joins.append(_join(name, asked or ["true"]))
        return " UNION ALL ".join(joins)


def _join(queries: str, conditions: Sequence[str]) -> str:
    return f"SELECT r.row, q.id FROM {{batch}} r JOIN {queries} q ON {' AND '.join(conditions)}"


def _inside(condition: Condition, has_nulls: bool) -> str:
    """Between both ends; a NULL is below every lower end and above every upper one but the open ones."""
    name = condition.column
    if not has_nulls:
        return f"r.{name} >= q.{name}_low AND r.{name} <= q.{name}_high"
    least, greatest = _extremes(condition)
    return f"coalesce(r.{name}, {least}) >= q.{name}_low AND coalesce(r.{name}, {greatest}) <= q.{name}_high"


def _extremes(condition: Condition) -> tuple[int, int]:
    assert np.issubdtype(condition.low.dtype, np.integer), condition.low.dtype
    return int(np.iinfo(condition.low.dtype).min), int(np.iinfo(condition.low.dtype).max)


def _columns(rows: pa.RecordBatch) -> dict[str, pa.Array]:
    return dict(zip(rows.schema.names, rows.columns, strict=True))


# --------------------------------------------------------------------------------------------- Polars


class Polars:
    """The queries as a frame, joined with the batch."""

    def __init__(self, queries: Queries, rows: pa.RecordBatch, *, has_nulls: bool = False) -> None:
        os.environ.setdefault("POLARS_MAX_THREADS", "1")  # read once, at the first import
        import polars

        self._polars = polars
        self._standing = polars.DataFrame(polars.from_arrow(queries.table()))
        self.forms = self._forms(queries, has_nulls)
        self.form = _fastest(self, rows)

    def joins(self, batches: Sequence[pa.RecordBatch], form: str | None = None) -> Answer:
        pairs = self.forms[form or self.form]
        frames = [self._polars.DataFrame(self._polars.from_arrow(rows)) for rows in batches]
        frames = [frame.with_row_index("row") for frame in frames]
        return lambda: sum(pairs(frame).height for frame in frames)

    def _forms(self, queries: Queries, has_nulls: bool) -> dict[str, Callable[[Any], Any]]:
        ends = [end for condition in queries.ranged for end in self._ends(condition, has_nulls)]
        if queries.key is not None:
            key = queries.key.column
            by_key = self._standing.sort(key)
            return {"key join": lambda rows: by_key.join(rows, on=key).filter(*ends).select("row", "id")}
        lazy = self._standing.lazy()
        whole = self._polars.all_horizontal([self._inside(c, has_nulls) for c in queries.ranged])
        forms: dict[str, Callable[[Any], Any]] = {}
        for name, conditions in (("range join", ends), ("cross product", [whole])):
            for engine in ("in-memory", "streaming"):
                forms[f"{name}, {engine}"] = partial(self._join_where, lazy, conditions, engine)
        return forms

    def _join_where(self, queries: Any, conditions: list[Any], engine: str, rows: Any) -> Any:
        return rows.lazy().join_where(queries, *conditions).select("row", "id").collect(engine=engine)

    def _ends(self, condition: Condition, has_nulls: bool) -> list[Any]:
        column, name = self._polars.col, condition.column
        below = above = column(name)
        if has_nulls:
            least, greatest = _extremes(condition)
            below, above = below.fill_null(least), above.fill_null(greatest)
        return [below >= column(f"{name}_low"), above <= column(f"{name}_high")]

    def _inside(self, condition: Condition, has_nulls: bool) -> Any:
        column, name = self._polars.col, condition.column
        low, high = column(f"{name}_low"), column(f"{name}_high")
        inside = column(name).is_between(low, high)
        if has_nulls:
            least, greatest = _extremes(condition)
            inside = inside.fill_null(False) | (column(name).is_null() & (low == least) & (high == greatest))
        return inside


def _fastest(peer: DuckDb | Polars, rows: pa.RecordBatch) -> str:
    """The best of its forms on a few of the rows."""
    if len(peer.forms) == 1:
        return next(iter(peer.forms))
    some = [rows.slice(0, TRIED_ROWS)]
    answers = {form: peer.joins(some, form) for form in peer.forms}
    for answer in answers.values():
        answer()
    return min(answers, key=lambda form: _seconds(answers[form]))


def _seconds(answer: Answer) -> float:
    began = cpu()
    answer()
    return cpu() - began
