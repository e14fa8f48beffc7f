"""How much one call may make and do on a row, and how much all rows of a frame may make at once.

A query must not be able to take all memory, or to stand still for minutes, whatever its text and its rows are. A row that would
need more is in error, and so a dead letter of the queries that ask; a text whose constants alone would need more is refused when
it is registered. Sizes are known before anything is made of that size.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.expressions.frame import MADE_AT_ONCE, ErrorCodes, Evaluation, Frame, RowError, scalar_bytes

# Characters that repeat, space, lpad and rpad make out of a few.
LONGEST_REPEATED = 1 << 20
# Bytes of a text, and of all texts of an array, that other functions make: as long as the longest text of a query may be.
LONGEST_MADE = 16 << 20
# Of an array that a text is split into, or that arrays are joined to: each takes about 60 bytes while it is made.
MOST_ELEMENTS = 1 << 20
# Comparisons of two characters on one row, about a tenth of a second: levenshtein of two texts of 4,096 characters.
MOST_STEPS = 1 << 24
# Characters of a pattern of LIKE that is computed: as long as one written into a text may be.
LONGEST_PATTERN = 64 << 10
# Bytes that all constants of a query may take while they are computed: what repeat may make, a few times.
CONSTANT_BYTES = 4 << 20
# The same for all queries of a template together: a million constants of a kilobyte.
TEMPLATE_BYTES = 1 << 30

TOO_LONG = "COLLECTION_SIZE_LIMIT_EXCEEDED.FUNCTION"
TOO_MUCH_WORK = "WORK_LIMIT_EXCEEDED"
OVER_A_LIMIT = frozenset((TOO_LONG, TOO_MUCH_WORK))


# ------------------------------------------------------------------------------------------ one value


def n_bytes(value: str | bytes) -> int:
    """Its length in bytes, of text in UTF-8."""
    if isinstance(value, bytes) or value.isascii():
        return len(value)
    return len(value.encode("utf-8", "surrogatepass"))


def check_length(function: str, length: int, most: int = LONGEST_MADE, unit: str = "bytes") -> None:
    """Refuse to make a text of so many bytes (or characters)."""
    if length > most:
        raise RowError(TOO_LONG, _too_long(function, "a text", length, most, unit))


def check_elements(function: str, n: int) -> None:
    """Refuse to make an array of so many elements."""
    if n > MOST_ELEMENTS:
        raise RowError(TOO_LONG, _too_long(function, "an array", n, MOST_ELEMENTS, "elements"))


def check_steps(function: str, n: int) -> None:
    """Refuse to compare so many pairs of characters."""
    if n > MOST_STEPS:
        message = f"{function} would compare {n:,} pairs of characters on one row; at most {MOST_STEPS:,} are compared"
        raise RowError(TOO_MUCH_WORK, message)


def _too_long(function: str, what: str, length: int, most: int, unit: str) -> str:
    return f"{function} would make {what} of {length:,} {unit}; at most {most:,} are made"


# ------------------------------------------------------------------------------------------ columns


def total_bytes(values: pa.Array | pa.Scalar, n_rows: int) -> int:
    """About how many bytes of data a column of a frame has; a scalar counts on every row."""
    if isinstance(values, pa.Scalar):
        return scalar_bytes(values) * n_rows
    return int(values.nbytes)


def lengths(values: pa.Array | pa.Scalar, n_rows: int) -> npt.NDArray[np.int64]:
    """Bytes of each text; NULL has none."""
    if isinstance(values, pa.Scalar):
        return np.full(n_rows, scalar_bytes(values))
    found = pc.binary_length(values)
    return np.asarray(pc.fill_null(found, 0).to_numpy(zero_copy_only=False)).astype(np.int64)


def joined_lengths(columns: Iterable[pa.Array | pa.Scalar], n_rows: int) -> npt.NDArray[np.int64] | None:
    """Bytes of the texts of each row together; None if all rows together have few."""
    columns = list(columns)
    if sum(total_bytes(column, n_rows) for column in columns) <= LONGEST_MADE:
        return None
    together = np.zeros(n_rows, np.int64)
    for column in columns:
        together += lengths(column, n_rows)
    return together


def check_lengths(
    function: str, sizes: npt.NDArray[np.int64] | None, frame: Frame, most: int = LONGEST_MADE
) -> ErrorCodes | None:
    """Errors of the rows whose text would have too many bytes, more than `most` where sizes are estimates; None for `sizes`: all
    are short.

    Raises TooMuchAtOnce if the others are too much together.
    """
    if sizes is None:
        return None
    is_long = sizes > most
    frame.check_bytes(int(sizes[~is_long].sum()))
    return frame.fail_each(
        is_long, TOO_LONG, lambda row: _too_long(function, "a text", int(sizes[row]), LONGEST_MADE, "bytes")
    )


def check_counts(function: str, counts: npt.NDArray[np.int64], frame: Frame) -> ErrorCodes | None:
    """Errors of the rows whose array would have too many elements."""
    return frame.fail_each(
        counts > MOST_ELEMENTS,
        TOO_LONG,
        lambda row: _too_long(function, "an array", int(counts[row]), MOST_ELEMENTS, "elements"),
    )


def where_fine(values: pa.Array | pa.Scalar, errors: ErrorCodes | None, frame: Frame) -> pa.Array | pa.Scalar:
    """The values with NULL on rows in error, so that nothing is made of them."""
    if errors is None:
        return values
    return pc.if_else(pa.array(errors == 0), frame.array(values), pa.scalar(None, values.type))


def check_collected(function: str, arguments: Iterable[Evaluation], frame: Frame) -> ErrorCodes | None:
    """The error of a row whose values are too much for an array, a map or a struct of them.

    Raises TooMuchAtOnce where several rows are.
    """
    nbytes = sum(total_bytes(each.values, frame.n_rows) for each in arguments)
    frame.check_bytes(nbytes)
    is_large = np.full(frame.n_rows, nbytes > MADE_AT_ONCE)
    return frame.fail(is_large, TOO_LONG, _too_long(function, "a value", nbytes, MADE_AT_ONCE, "bytes"))


def value_bytes(value: Any) -> int:
    """About how many bytes a Python value has that stands for a text, BINARY or an array."""
    if isinstance(value, (str, bytes)):
        return len(value)
    if isinstance(value, list):
        return sum(map(value_bytes, value)) + 8 * len(value)
    return 8
