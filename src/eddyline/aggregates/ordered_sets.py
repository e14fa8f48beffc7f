"""Storage of ordered sets of rows, for entries of one or several states: nodes of trees, and what the columns of a row are as
integers. The trees are those of kernels/ordered_sets.py.

A row has columns that it is ordered by, and perhaps one behind that is only kept. Columns become integers of a line:

    numbers, times            integers in their order, two for a decimal
    texts, bytes              the first eight bytes, and the place in a pool of bytes
    the kept column, NULLs    whether it is there, and its integers; or the place in a pool of values
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from eddyline import types
from eddyline.aggregates.accumulators import Lines, given, grown, masked
from eddyline.aggregates.rows import Ints
from eddyline.aggregates.values import (
    MIN_POOL,
    Pool,
    has_words,
    n_words,
    offsets_and_data,
    order_words,
    values_of_words,
)
from eddyline.kernels import (
    FIRST_FREE,
    LEFT,
    MAX_DEPTH,
    N_FREE,
    USES,
    TreeNodes,
    find_ends,
    list_nodes,
    release_sets,
    share_sets,
    update_sets,
)

_SIGN_BIT = np.uint64(1 << 63)


class Texts:
    """Bytes by place, one behind the other in one array, as kernels compare them."""

    def __init__(self) -> None:
        self._n, self._n_bytes = 0, 0
        self._offsets, self._data = np.zeros(1, np.int64), np.zeros(8, np.uint8)

    def __len__(self) -> int:
        return self._n

    @property
    def arrays(self) -> tuple[Ints, Lines]:
        return self._offsets, self._data

    def add(self, column: pa.Array) -> Ints:
        """The places of these texts, none of them NULL; equal ones have the same."""
        encoded = column.cast(types.BINARY).dictionary_encode()
        new = encoded.dictionary
        offsets, data = offsets_and_data(new)
        n_bytes = int(offsets[-1] - offsets[0])
        self._offsets = grown(self._offsets, self._n + len(new) + 1)
        self._data = grown(self._data, self._n_bytes + n_bytes)
        self._offsets[self._n : self._n + len(new) + 1] = self._n_bytes + offsets - offsets[0]
        self._data[self._n_bytes : self._n_bytes + n_bytes] = data[offsets[0] : offsets[-1]]
        places = self._n + encoded.indices.to_numpy().astype(np.int64)
        self._n, self._n_bytes = self._n + len(new), self._n_bytes + n_bytes
        return places

    def take(self, places: Ints, t: pa.DataType) -> pa.Array:
        buffers = [None, pa.py_buffer(self._offsets), pa.py_buffer(self._data)]
        texts = pa.Array.from_buffers(pa.large_binary(), self._n, buffers).take(pa.array(places))
        return texts.cast(pa.binary()).cast(t)

    def words(self, places: Ints) -> Ints:
        """The first eight bytes as integers in the order of the texts; zeros stand behind the end of a shorter one."""
        begin, end = self._offsets[places], self._offsets[places + 1]
        words = np.zeros(len(places), np.uint64)
        for at in range(8):
            inside = begin + at < end
            byte = self._data[np.where(inside, begin + at, 0)]
            words = words << np.uint64(8) | np.where(inside, byte, 0).astype(np.uint64)
        return (words ^ _SIGN_BIT).view(np.int64)

    @property
    def nbytes(self) -> int:
        return self._offsets.nbytes + self._data.nbytes


class OrderedRows:
    """Trees of rows whose columns have these types; `kept` is the type of a column that is not ordered by."""

    def __init__(self, ordered: Sequence[pa.DataType], kept: pa.DataType | None = None) -> None:
        self._types, self._kept = ordered, kept
        self._texts = Texts()
        self._pool = Pool(kept) if kept is not None and not has_words(kept) else None
        is_text: list[bool] = []
        for t in ordered:
            is_text += [False] * n_words(t) if has_words(t) else [False, True]
        self._is_text = np.array(is_text, np.bool_)
        n_kept = 0 if kept is None else 1 if self._pool is not None else 1 + n_words(kept)
        self._lines = np.zeros((1, len(is_text) + n_kept), np.int64)
        self._links, self._times = np.zeros((1, 4), np.int32), np.zeros(1, np.int64)
        self._control = np.zeros(4, np.int64)

    # ------------------------------------------------------------------------------------------- sets

    def update(self, entries: Ints, lines: Ints, steps: Ints, roots: Ints, n_lines: Ints) -> None:
        """Put lines into the sets of entries, or take them out; `roots` and `n_lines` are those of all entries."""
        done, entries, lines, steps = 0, given(entries), given(lines), given(steps)
        while done < len(entries):
            if self._control[N_FREE] < MAX_DEPTH:
                self._grow()
            done = update_sets(self._nodes, done, entries, lines, steps, roots, n_lines)
        self._compact_pools()

    def share(self, roots: Ints) -> None:
        """These roots are used once more."""
        share_sets(self._nodes, given(roots))

    def release(self, roots: Ints) -> None:
        """These roots are used once less."""
        release_sets(self._nodes, given(roots))

    def ends(self, roots: Ints, side: int) -> Ints:
        """The nodes of the first rows of sets, or of the last ones; 0 of an empty one."""
        nodes = np.zeros(len(roots), np.int64)
        find_ends(self._nodes, given(roots), side, nodes)
        return nodes

    def listed(self, roots: Ints, n_nodes: int) -> Ints:
        """The nodes of all rows of sets, in their order."""
        nodes = np.zeros(n_nodes, np.int64)
        list_nodes(self._nodes, given(roots), nodes)
        return nodes

    @property
    def _nodes(self) -> TreeNodes:
        return TreeNodes(
            self._lines, self._links, self._times, self._control, self._is_text, *self._texts.arrays
        )

    def _grow(self) -> None:
        """Twice the nodes, the new ones in front of the free ones."""
        n = len(self._lines)
        self._lines, self._links = (
            grown(self._lines, 2 * n + MAX_DEPTH),
            grown(self._links, 2 * n + MAX_DEPTH),
        )
        self._times = grown(self._times, 2 * n + MAX_DEPTH)
        n_new = len(self._lines) - n
        self._links[n:, LEFT] = np.arange(n + 1, n + n_new + 1)
        self._links[-1, LEFT] = self._control[FIRST_FREE]
        self._control[FIRST_FREE] = n
        self._control[N_FREE] += n_new

    # ------------------------------------------------------------------------------------------- rows

    def lines(self, columns: Sequence[pa.Array]) -> Ints:
        """Rows as lines: the columns that are ordered by, without NULLs, then the kept one."""
        parts = []
        for t, column in zip(self._types, columns, strict=False):
            if has_words(t):
                parts.append(order_words(column))
            else:
                places = self._texts.add(column)
                parts += [self._texts.words(places)[:, None], places[:, None]]
        if self._pool is not None:
            parts.append(self._pool.add(columns[-1])[:, None])
        elif self._kept is not None:
            parts.append(_kept_words(columns[-1], n_words(self._kept)))
        return np.concatenate(parts, axis=1)

    def lines_at(self, nodes: Ints) -> Ints:
        return np.asarray(self._lines[nodes])

    def times(self, nodes: Ints) -> Ints:
        """How often the rows of nodes are in their set."""
        return np.asarray(self._times[nodes])

    def columns(self, nodes: Ints) -> list[pa.Array]:
        """The inverse of `lines`, for rows of nodes."""
        return [self.column(nodes, at) for at in range(len(self._types) + (self._kept is not None))]

    def column(self, nodes: Ints, at: int) -> pa.Array:
        begin = sum(n_words(t) if has_words(t) else 2 for t in self._types[:at])
        if at == len(self._types):
            return self._kept_column(self._lines[nodes, begin:])
        t = self._types[at]
        if has_words(t):
            return values_of_words(self._lines[nodes, begin : begin + n_words(t)], t)
        return self._texts.take(self._lines[nodes, begin + 1], t)

    def _kept_column(self, lines: Ints) -> pa.Array:
        if self._pool is not None:
            return self._pool.take(lines[:, 0])
        assert self._kept is not None
        return masked(values_of_words(np.ascontiguousarray(lines[:, 1:]), self._kept), lines[:, 0] != 0)

    # ------------------------------------------------------------------------------------------- pools

    def _compact_pools(self) -> None:
        """Drop what no node refers to, once it is more than half of a pool."""
        n_used = len(self._lines) - 1 - int(self._control[N_FREE])
        n_texts = n_used * int(self._is_text.sum())
        is_full = self._pool is not None and len(self._pool) > MIN_POOL + 2 * n_used
        if len(self._texts) <= MIN_POOL + 2 * n_texts and not is_full:
            return
        used = np.flatnonzero(self._links[:, USES])
        if self._pool is not None:
            self._lines[used, -1] = self._pool.compact(self._lines[used, -1])
        texts = self._texts
        self._texts = Texts()
        for at in np.flatnonzero(self._is_text).tolist():
            self._lines[used, at] = self._texts.add(texts.take(self._lines[used, at], types.BINARY))

    @property
    def nbytes(self) -> int:
        pools = self._texts.nbytes + (0 if self._pool is None else self._pool.nbytes)
        return self._lines.nbytes + self._links.nbytes + self._times.nbytes + pools

    @property
    def n_nodes(self) -> int:
        """Nodes in use, by all states together."""
        return len(self._lines) - 1 - int(self._control[N_FREE])


def _kept_words(column: pa.Array, width: int) -> Ints:
    """Whether a value is there, and its integers."""
    valid = np.asarray(column.is_valid().to_numpy(zero_copy_only=False))
    words = np.zeros((len(column), 1 + width), np.int64)
    words[:, 0] = valid
    words[valid, 1:] = order_words(column.drop_null())
    return words
