"""Sets of queries over one stream, and rows to meet them: what the benchmarks of the filters are run on.

Every set is made from a seed alone. It has the stream's columns, the queries, and rows of any number. Queries are kept as
arrays, per column an operator and its constants, and are told from there in three ways: as SQL, for the engine; as a table with
a lower and an upper end per column, for joins; and cell by cell, slowly, to judge everybody else (`Queries.satisfied_by`).

    dense_int     five INT columns, uniform on 0..99; a query has a predicate on each with probability 1/2: <, >, <= or >= a
                  uniform constant. The random workload of Madden et al., "Continuously Adaptive Continuous Queries over
                  Streams", SIGMOD 2002; a query passes 24 % of the rows
    dense_float   the same over DOUBLE columns, uniform on [0, 1)
    ranges        two or three two-sided ranges over five DOUBLE columns, passing 1 row in 1000
    keyed         an equality with one of 5,000 numbers and one or two ranges passing 1 row in 10 of those:
                  0.2 matches a row from 10,000 queries, 20 from a million
    zipf          keyed, the keys of rows and queries drawn from one Zipf law of exponent 1.1: hot keys have many of both
    symbols       keyed by one of 5,000 strings
    nulls         dense_int, a tenth of all values NULL
    mixed         a fifth each of dense_int, dense_float, ranges, keyed and symbols on one stream; a tenth of its DOUBLEs NULL
    all_match     one predicate each, which every row satisfies

Queries are registered from one template per signature (which columns have which operator; 3,125 of them in the dense sets),
because that takes seconds where a million texts take minutes. What stands afterwards is the same: texts equal but for their
literals share one shape anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

STREAM = "ticks"
INTS = ("a", "b", "c", "d", "e")
FLOATS = ("v", "w", "x", "y", "z")
N_KEYS = 5_000
ZIPF_EXPONENT = 1.1
RANGES_SHARE = 1e-3  # of the rows pass a query of `ranges`
KEYED_SHARE = 0.1  # of the rows with its key pass a query of `keyed`
NULL_SHARE = 0.1
DENSE_BATCHES = {
    100_000: 1_024,
    1_000_000: 128,
}  # smaller ones where every row matches thousands: pairs must fit in memory
BATCH = 8_192

Numbers = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]

NONE, LESS, GREATER, AT_MOST, AT_LEAST, BETWEEN, EQUAL = range(7)
SQL = {
    LESS: "{0} < {1}",
    GREATER: "{0} > {1}",
    AT_MOST: "{0} <= {1}",
    AT_LEAST: "{0} >= {1}",
    BETWEEN: "{0} BETWEEN {1} AND {2}",
    EQUAL: "{0} = {1}",
}

SYMBOLS = pa.array([f"S{k:04d}" for k in range(N_KEYS)])


# --------------------------------------------------------------------------------------------- queries


@dataclass(frozen=True)
class Condition:
    """What each query asks of one column. Strings are numbered, as places in SYMBOLS."""

    column: str
    operator: npt.NDArray[np.int8]
    constant: Numbers  # the one constant of a one-sided operator or =
    low: Numbers  # both ends inclusive; the least and the greatest value there is where the end is open
    high: Numbers

    def take(self, at: npt.NDArray[np.int64]) -> Condition:
        return Condition(self.column, self.operator[at], self.constant[at], self.low[at], self.high[at])

    @property
    def is_equality(self) -> bool:
        """Whether every query has an equality with this column."""
        return bool((self.operator == EQUAL).all())

    @property
    def is_text(self) -> bool:
        return self.column == "sym"

    def values(self, numbers: Numbers) -> pa.Array:
        """Constants as the stream has them."""
        return SYMBOLS.take(pa.array(numbers)) if self.is_text else pa.array(numbers)

    def literal(self, number: Any) -> str:
        return f"'{SYMBOLS[int(number)].as_py()}'" if self.is_text else repr(number.item())


@dataclass(frozen=True)
class Queries:
    """Many queries of a set, numbered from 0."""

    conditions: tuple[Condition, ...]

    def __len__(self) -> int:
        return len(self.conditions[0].operator)

    def take(self, at: npt.NDArray[np.int64]) -> Queries:
        return Queries(tuple(condition.take(at) for condition in self.conditions))

    @property
    def key(self) -> Condition | None:
        return next((condition for condition in self.conditions if condition.is_equality), None)

    @property
    def ranged(self) -> tuple[Condition, ...]:
        return tuple(condition for condition in self.conditions if not condition.is_equality)

    def signatures(self) -> Iterator[tuple[tuple[int, ...], npt.NDArray[np.int64]]]:
        """Each combination of operators that occurs, and the numbers of its queries."""
        operators = np.column_stack([condition.operator for condition in self.conditions])
        found, which = np.unique(operators, axis=0, return_inverse=True)
        order = np.argsort(which, kind="stable")
        ends = np.cumsum(np.bincount(which, minlength=len(found)))
        for signature, queries in zip(found, np.split(order, ends[:-1]), strict=True):
            yield tuple(int(operator) for operator in signature), queries

    def templates(self) -> Iterator[tuple[str, pa.Table | None, npt.NDArray[np.int64]]]:
        """A template, its parameters (None: it has none) and the numbers of its queries, per signature."""
        for signature, queries in self.signatures():
            words, parameters = [], {}
            for condition, operator in zip(self.conditions, signature, strict=True):
                if operator == BETWEEN:
                    names = (f"{condition.column}_low", f"{condition.column}_high")
                    parameters[names[0]] = condition.values(condition.low[queries])
                    parameters[names[1]] = condition.values(condition.high[queries])
                else:
                    names = (condition.column, "")
                    if operator != NONE:
                        parameters[names[0]] = condition.values(condition.constant[queries])
                if operator != NONE:
                    words.append(SQL[operator].format(condition.column, *(f":{name}" for name in names)))
            yield _select(words), pa.table(parameters) if parameters else None, queries

    def text(self, query: int) -> str:
        """One query with its constants written out."""
        words = []
        for condition in self.conditions:
            operator = int(condition.operator[query])
            if operator != NONE:
                ends = (condition.low[query], condition.high[query])
                used = ends if operator == BETWEEN else (condition.constant[query],)
                words.append(SQL[operator].format(condition.column, *map(condition.literal, used)))
        return _select(words)

    def table(self) -> pa.Table:
        """For joins: number, the key where every query has an equality, and both ends for all other columns."""
        columns: dict[str, Any] = {"id": np.arange(len(self), dtype=np.int32)}
        for condition in self.conditions:
            if condition.is_equality:
                columns[condition.column] = condition.values(condition.constant)
            else:
                columns[f"{condition.column}_low"] = condition.low
                columns[f"{condition.column}_high"] = condition.high
        return pa.table(columns)

    def satisfied_by(self, rows: pa.RecordBatch) -> Mask:
        """Rows x queries, by looking at every cell: for few rows, to judge by."""
        satisfied = np.ones((rows.num_rows, len(self)), dtype=bool)
        for condition in self.conditions:
            column = rows.column(condition.column)
            values = numbers_of(column)[:, None]
            inside = (condition.low[None, :] <= values) & (values <= condition.high[None, :])
            satisfied &= (condition.operator == NONE)[None, :] | (inside & ~_is_null(column)[:, None])
        return satisfied


def joined(parts: Sequence[Queries]) -> Queries:
    """Several sets as one; a query asks nothing of columns its set does not have."""
    columns = {c.column: c.constant.dtype for part in parts for c in part.conditions}
    conditions = []
    for name, dtype in columns.items():
        pieces = []
        for part in parts:
            own = next((c for c in part.conditions if c.column == name), None)
            pieces.append(own or _asks_nothing(name, len(part), dtype))
        conditions.append(
            Condition(
                name,
                np.concatenate([piece.operator for piece in pieces]),
                np.concatenate([piece.constant for piece in pieces]),
                np.concatenate([piece.low for piece in pieces]),
                np.concatenate([piece.high for piece in pieces]),
            )
        )
    return Queries(tuple(conditions))


def numbers_of(column: pa.Array) -> Numbers:
    """Values to compute with: symbols as their numbers, NULL as NaN (and so as unequal to everything)."""
    if pa.types.is_string(column.type):
        column = pc.index_in(column, value_set=SYMBOLS)
    return column.to_numpy(zero_copy_only=False)


def _select(words: Sequence[str]) -> str:
    return f"SELECT * FROM {STREAM}" + (f" WHERE {' AND '.join(words)}" if words else "")


def _is_null(column: pa.Array) -> Mask:
    return column.is_null().to_numpy(zero_copy_only=False)


def _open_ends(dtype: Any) -> tuple[Any, Any]:
    if np.issubdtype(dtype, np.integer):
        return np.iinfo(dtype).min, np.iinfo(dtype).max
    return -np.inf, np.inf


def _asks_nothing(column: str, n: int, dtype: Any) -> Condition:
    low, high = _open_ends(dtype)
    none = np.zeros(n, np.int8)
    return Condition(column, none, np.zeros(n, dtype), np.full(n, low, dtype), np.full(n, high, dtype))


def _one_sided(column: str, operator: npt.NDArray[np.int8], constant: Numbers) -> Condition:
    """Ends of <, >, <= and >=: strictly below c is at most the value before c."""
    low, high = _open_ends(constant.dtype)
    if np.issubdtype(constant.dtype, np.integer):
        before, after = constant - 1, constant + 1
    else:
        before, after = np.nextafter(constant, -np.inf), np.nextafter(constant, np.inf)
    lows = np.select([operator == GREATER, operator == AT_LEAST], [after, constant], low)
    highs = np.select([operator == LESS, operator == AT_MOST], [before, constant], high)
    dtype = constant.dtype
    return Condition(column, operator, constant, lows.astype(dtype), highs.astype(dtype))


def _two_sided(column: str, has: Mask, low: Numbers, width: Numbers) -> Condition:
    return Condition(
        column,
        np.where(has, BETWEEN, NONE).astype(np.int8),
        low,
        np.where(has, low, -np.inf),
        np.where(has, low + width, np.inf),
    )


def _equal(column: str, constant: Numbers) -> Condition:
    return Condition(column, np.full(len(constant), EQUAL, np.int8), constant, constant, constant)


def _dense(rng: np.random.Generator, n: int, columns: Sequence[str]) -> Queries:
    conditions = []
    for column in columns:
        operator = np.where(rng.random(n) < 0.5, rng.integers(LESS, AT_LEAST + 1, n), NONE).astype(np.int8)
        constant = rng.integers(0, 100, n).astype(np.int32) if column in INTS else rng.random(n)
        conditions.append(_one_sided(column, operator, constant))
    return Queries(tuple(conditions))


def _ranged(
    rng: np.random.Generator, n: int, columns: Sequence[str], at_least: int, at_most: int, share: float
) -> tuple[Condition, ...]:
    """Between `at_least` and `at_most` ranges of equal width on columns chosen at random, passing `share` together."""
    n_ranges = rng.integers(at_least, at_most + 1, n)
    width = share ** (1 / n_ranges)
    place = np.argsort(np.argsort(rng.random((n, len(columns))), axis=1), axis=1)
    return tuple(
        _two_sided(column, place[:, k] < n_ranges, rng.random(n) * (1 - width), width)
        for k, column in enumerate(columns)
    )


# --------------------------------------------------------------------------------------------- rows

Draw = Callable[[np.random.Generator, int], pa.Array]


def _ints(rng: np.random.Generator, n: int) -> pa.Array:
    return pa.array(rng.integers(0, 100, n).astype(np.int32))


def _floats(rng: np.random.Generator, n: int) -> pa.Array:
    return pa.array(rng.random(n))


def _uniform_keys(rng: np.random.Generator, n: int) -> npt.NDArray[np.int32]:
    return rng.integers(0, N_KEYS, n).astype(np.int32)


def _zipf_keys(rng: np.random.Generator, n: int) -> npt.NDArray[np.int32]:
    weight = np.arange(1, N_KEYS + 1) ** -ZIPF_EXPONENT
    return rng.choice(N_KEYS, n, p=weight / weight.sum()).astype(np.int32)


def _symbols(rng: np.random.Generator, n: int) -> pa.Array:
    return SYMBOLS.take(pa.array(_uniform_keys(rng, n)))


def _with_nulls(draw: Draw) -> Draw:
    def drawn(rng: np.random.Generator, n: int) -> pa.Array:
        values = draw(rng, n)
        return pc.if_else(pa.array(rng.random(n) < NULL_SHARE), pa.scalar(None, values.type), values)

    return drawn


# --------------------------------------------------------------------------------------------- sets


@dataclass(frozen=True)
class Workload:
    """A set of queries, and rows for it."""

    name: str
    queries: Queries
    columns: dict[str, Draw]
    seed: int
    has_nulls: bool = False
    is_dense: bool = False  # a row matches a good part of all queries

    @property
    def schema(self) -> pa.Schema:
        return self.rows(0).schema

    @property
    def batch_rows(self) -> int:
        """How many rows a round has."""
        return DENSE_BATCHES.get(len(self.queries), BATCH) if self.is_dense else BATCH

    def rows(self, n: int, at: int = 0) -> pa.RecordBatch:
        """A batch; another one for every `at`."""
        rng = np.random.default_rng((self.seed, 1, at))
        return pa.record_batch({name: draw(rng, n) for name, draw in self.columns.items()})

    def batches(self, n_batches: int, n_rows: int | None = None) -> list[pa.RecordBatch]:
        return [self.rows(n_rows or self.batch_rows, at) for at in range(n_batches)]


def dense_int(n: int, seed: int) -> Workload:
    queries = _dense(_queries_rng(seed), n, INTS)
    return Workload("dense_int", queries, dict.fromkeys(INTS, _ints), seed, is_dense=True)


def dense_float(n: int, seed: int) -> Workload:
    queries = _dense(_queries_rng(seed), n, FLOATS)
    return Workload("dense_float", queries, dict.fromkeys(FLOATS, _floats), seed, is_dense=True)


def ranges(n: int, seed: int) -> Workload:
    queries = Queries(_ranged(_queries_rng(seed), n, FLOATS, 2, 3, RANGES_SHARE))
    return Workload("ranges", queries, dict.fromkeys(FLOATS, _floats), seed)


def keyed(n: int, seed: int, share: float = KEYED_SHARE) -> Workload:
    """`share` of the rows that have its key pass a query: n * share / 5,000 matches a row."""
    rng = _queries_rng(seed)
    queries = Queries((_equal("k", _uniform_keys(rng, n)), *_ranged(rng, n, FLOATS[:2], 1, 2, share)))
    return Workload("keyed", queries, _keyed_columns("k", lambda r, m: pa.array(_uniform_keys(r, m))), seed)


def zipf(n: int, seed: int) -> Workload:
    rng = _queries_rng(seed)
    queries = Queries((_equal("k", _zipf_keys(rng, n)), *_ranged(rng, n, FLOATS[:2], 1, 2, KEYED_SHARE)))
    return Workload("zipf", queries, _keyed_columns("k", lambda r, m: pa.array(_zipf_keys(r, m))), seed)


def symbols(n: int, seed: int) -> Workload:
    rng = _queries_rng(seed)
    queries = Queries((_equal("sym", _uniform_keys(rng, n)), *_ranged(rng, n, FLOATS[:2], 1, 2, KEYED_SHARE)))
    return Workload("symbols", queries, _keyed_columns("sym", _symbols), seed)


def nulls(n: int, seed: int) -> Workload:
    queries = _dense(_queries_rng(seed), n, INTS)
    columns = dict.fromkeys(INTS, _with_nulls(_ints))
    return Workload("nulls", queries, columns, seed, has_nulls=True, is_dense=True)


def mixed(n: int, seed: int) -> Workload:
    """Shuffled, so that any part of the queries has all kinds."""
    kinds = (dense_int, dense_float, ranges, keyed, symbols)
    sizes = [n // len(kinds) + (k < n % len(kinds)) for k in range(len(kinds))]
    parts = [kind(size, seed + k) for k, (kind, size) in enumerate(zip(kinds, sizes, strict=True)) if size]
    queries = joined([part.queries for part in parts])
    queries = queries.take(_queries_rng(seed).permutation(n))
    columns: dict[str, Draw] = {
        **dict.fromkeys(INTS, _ints),
        **dict.fromkeys(FLOATS, _with_nulls(_floats)),
        "k": lambda rng, m: pa.array(_uniform_keys(rng, m)),
        "sym": _symbols,
    }
    return Workload("mixed", queries, columns, seed, has_nulls=True, is_dense=True)


def all_match(n: int, seed: int) -> Workload:
    conditions = []
    for k, column in enumerate(INTS):
        operator = np.where(np.arange(n) % len(INTS) == k, AT_LEAST, NONE).astype(np.int8)
        conditions.append(_one_sided(column, operator, np.zeros(n, np.int32)))
    return Workload("all_match", Queries(tuple(conditions)), dict.fromkeys(INTS, _ints), seed, is_dense=True)


SETS: dict[str, Callable[[int, int], Workload]] = {
    made.__name__: made for made in (dense_int, dense_float, ranges, keyed, zipf, symbols, nulls, mixed)
}


def _queries_rng(seed: int) -> np.random.Generator:
    return np.random.default_rng((seed, 0))


def _keyed_columns(key: str, draw: Draw) -> dict[str, Draw]:
    return {key: draw, **dict.fromkeys(FLOATS[:2], _floats)}
