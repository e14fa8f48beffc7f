"""A frame: the rows an expression is computed over, and what has been computed over them already.

Values are Arrow arrays (or one Arrow scalar where all rows agree). Errors are kept per row beside them: `errors[i]` is 0, or
1 + the index of a `Failure` in the frame. A row in error has NULL as its value. So one bad row never stops another.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.model import Expression, UserCall

_Key = TypeVar("_Key", bound=Hashable)

MESSAGES_PER_CALL = 100  # a batch of nothing but bad rows should not build a message for each
MADE_AT_ONCE = (
    256 << 20
)  # bytes that a function may make on all rows of a frame: far below Arrow's 2 GiB of text

ErrorCodes = npt.NDArray[np.int32]
Alike = Callable[[UserCall], npt.NDArray[np.int64]]  # rows of one number give the call the same arguments


class TooMuchAtOnce(Exception):
    """The rows of a frame would make too much together. Fewer of them may not."""


class TooMuchForConstants(Exception):
    """The constants of a query take more than they may. `call` is the one at which that shows."""

    def __init__(self, call: Expression) -> None:
        super().__init__(call)
        self.call = call


class RowError(Exception):
    """A row has no value: Spark's error class, and a sentence."""

    def __init__(self, error: str, message: str) -> None:
        super().__init__(message)
        self.error = error
        self.message = message


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a row has no value: Spark's error class, and a sentence."""

    error: str
    message: str


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The value of an expression on every row of a frame, and the rows that have none."""

    values: pa.Array | pa.Scalar
    errors: ErrorCodes | None = None

    @property
    def is_scalar(self) -> bool:
        return isinstance(self.values, pa.Scalar)


@dataclass(frozen=True, slots=True)
class Context:
    """What expressions may know besides their rows."""

    now_us: int = 0
    time_zone: str = "UTC"
    # calls a user's function on columns of n rows: values, and (row, message) of every row it failed on
    call_function: (
        Callable[[UserCall, Sequence[pa.Array], int], tuple[pa.Array, list[tuple[int, str]]]] | None
    ) = None


@dataclass(frozen=True, slots=True)
class CallResult:
    """What a user's function gave on some rows of a frame, so that no row is shown to it twice. NULL on the others."""

    rows: npt.NDArray[np.bool_]
    values: pa.Array
    errors: ErrorCodes

    def take(self, rows: npt.NDArray[np.int64]) -> CallResult:
        return CallResult(self.rows[rows], self.values.take(pa.array(rows)), self.errors[rows])

    def wherever_alike(self, numbers: npt.NDArray[np.int64]) -> CallResult:
        """The same, known also on rows that have the number of one on which it is known."""
        known = np.flatnonzero(self.rows)
        if not len(known):
            return self
        distinct, first = np.unique(numbers[known], return_index=True)
        at = np.minimum(np.searchsorted(distinct, numbers), len(distinct) - 1)
        rows = distinct[at] == numbers
        return replace(self.take(known[first][at]), rows=rows)


class TakenArrays(Mapping[_Key, pa.Array]):
    """Some rows of arrays, each taken when it is asked for: an expression needs few of the columns and constants there are."""

    def __init__(self, arrays: Any, rows: npt.NDArray[np.int64]) -> None:
        self._arrays = arrays
        self._rows = pa.array(rows)
        self._taken_arrays: dict[_Key, pa.Array | pa.Scalar] = {}

    def __getitem__(self, key: _Key) -> pa.Array | pa.Scalar:
        found = self._taken_arrays.get(key)
        if found is None:
            found = self._arrays[key]
            if not isinstance(found, pa.Scalar):
                found = found.take(self._rows)
            self._taken_arrays[key] = found
        return found

    def __iter__(self) -> Iterator[_Key]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)


@dataclass(slots=True)
class Budget:
    """Bytes that constants may still take while they are computed: what calls are given, and what they make of it."""

    nbytes: int

    def spend(self, call: Expression, nbytes: int) -> None:
        self.nbytes -= nbytes
        if self.nbytes < 0:
            raise TooMuchForConstants(call)


@dataclass(slots=True)
class Frame:
    """Rows: `columns` by (input alias, name), the query's own constants in `slots` (arrays of equal length, or scalars)."""

    n_rows: int
    columns: Mapping[tuple[str, str], pa.Array]
    slots: Sequence[pa.Array | pa.Scalar] | Mapping[int, pa.Array | pa.Scalar] = ()
    context: Context = field(default_factory=Context)
    failures: list[Failure] = field(default_factory=list)
    computed_values: dict[Expression, Evaluation] = field(default_factory=dict)
    _codes: dict[Failure, int] = field(default_factory=dict)
    call_results: dict[UserCall, CallResult] = field(default_factory=dict)
    alike: Alike | None = None  # where several rows may give a call the same arguments
    budget: Budget | None = None  # of constants; rows have none
    variables: dict[int, pa.Array] = field(default_factory=dict)  # inside a function that is an argument

    def code(self, error: str, message: str) -> int:
        """The number that stands for this failure in `errors`."""
        failure = Failure(error, message)
        code = self._codes.get(failure)
        if code is None:
            self.failures.append(failure)
            code = self._codes[failure] = len(self.failures)
        return code

    def failure(self, code: int) -> Failure:
        return self.failures[code - 1]

    def array(self, value: Evaluation | pa.Array | pa.Scalar) -> pa.Array:
        """The value spread over all rows."""
        values = value.values if isinstance(value, Evaluation) else value
        if isinstance(values, pa.Scalar):
            if self.n_rows == 0:  # Arrow repeats no list or struct zero times
                return pa.array([], values.type)
            self.check_bytes(scalar_bytes(values) * self.n_rows)
            return pa.repeat(values, self.n_rows)
        return values

    def check_bytes(self, nbytes: int) -> None:
        """Raises TooMuchAtOnce if so many bytes are too much for several rows."""
        if nbytes > MADE_AT_ONCE and self.n_rows > 1:
            raise TooMuchAtOnce

    def fail(self, where: Any, error: str, message: str) -> ErrorCodes | None:
        """Error codes for the rows where `where` (boolean array, Arrow or NumPy; NULL counts as no) holds, or None."""
        mask = as_mask(where, self.n_rows)
        if not mask.any():
            return None
        return np.where(mask, np.int32(self.code(error, message)), np.int32(0)).astype(np.int32)

    def fail_each(self, where: Any, error: str, describe: Callable[[int], str]) -> ErrorCodes | None:
        """Like `fail`, with a message per row; past the first hundred the rows share the last message."""
        mask = as_mask(where, self.n_rows)
        rows = np.flatnonzero(mask)
        if not len(rows):
            return None
        codes = np.zeros(self.n_rows, np.int32)
        for row in rows[:MESSAGES_PER_CALL]:
            codes[row] = self.code(error, describe(int(row)))
        codes[rows[MESSAGES_PER_CALL:]] = codes[rows[:MESSAGES_PER_CALL][-1]]
        return codes

    def single(self) -> Frame:
        """A frame of one row without columns, for what is the same on all rows. Failures are numbered as in this one."""
        return Frame(1, {}, (), self.context, self.failures, {}, self._codes, budget=self.budget)

    def take(self, rows: npt.NDArray[np.int64], calls: Collection[UserCall] | None = None) -> Frame:
        """A frame over these rows only; of the functions that were called it knows `calls` (None: all). Its failures are
        numbered as in this one."""
        alike = self.alike
        calls = self.call_results if calls is None else [call for call in calls if call in self.call_results]
        return Frame(
            len(rows),
            TakenArrays(self.columns, rows),
            TakenArrays(self.slots, rows),
            self.context,
            self.failures,
            {},
            self._codes,
            {call: self.call_results[call].take(rows) for call in calls},
            None if alike is None else lambda call: alike(call)[rows],
            self.budget,
            {number: column.take(pa.array(rows)) for number, column in self.variables.items()},
        )


def scalar_bytes(scalar: pa.Scalar) -> int:
    """About how many bytes of data a scalar has."""
    if not scalar.is_valid:
        return 0
    t = scalar.type
    if pa.types.is_string(t) or pa.types.is_binary(t):
        return int(scalar.as_buffer().size)
    if pa.types.is_list(t) or pa.types.is_map(t):
        return int(scalar.values.nbytes)
    return 8


def as_mask(where: Any, n_rows: int) -> npt.NDArray[np.bool_]:
    """A NumPy boolean mask; NULL counts as no."""
    if isinstance(where, pa.Scalar):
        return np.full(n_rows, bool(where.as_py()), dtype=bool)
    if isinstance(where, (pa.Array, pa.ChunkedArray)):
        filled = pc.fill_null(where, False) if where.null_count else where
        return np.asarray(filled.to_numpy(zero_copy_only=False), dtype=bool)
    return np.asarray(where, dtype=bool)


def merge_errors(*errors: ErrorCodes | None) -> ErrorCodes | None:
    """The first error of each row."""
    merged: ErrorCodes | None = None
    for codes in errors:
        if codes is not None:
            merged = codes if merged is None else np.where(merged != 0, merged, codes)
    return merged


def without_errors(values: pa.Array, errors: ErrorCodes | None) -> pa.Array:
    """The values with NULL on the rows in error."""
    if errors is None or not errors.any():
        return values
    return pc.if_else(pa.array(errors == 0), values, pa.scalar(None, values.type))
