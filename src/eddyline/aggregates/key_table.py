"""Keys made of 64-bit words, each with a dense number: open addressing with linear probing, and numbers used again.

Keys are compared word by word, so equal hashes do no harm. Numbers are below `n_numbers`; what is added since the last `commit`
is taken out by `rollback`.

Invariant: every live number is found by its words, and the numbers below `n_numbers` are live or free.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from eddyline.aggregates.rows import Ints, Mask
from eddyline.kernels import NOTHING, add_keys, copy_runs, find_keys, place_keys, remove_keys

_Value = TypeVar("_Value", bound=np.generic)
LEAST_SLOTS = 16
MOST_UNUSED = 2  # times the words of live keys, and LEAST_SLOTS: when the words that are stored are packed


@dataclass(frozen=True, slots=True)
class KeyWords:
    """Keys as words: key k is words[offsets[k]:offsets[k + 1]]."""

    words: Ints
    offsets: Ints

    def __len__(self) -> int:
        return len(self.offsets) - 1


def fixed_words(*columns: Ints) -> KeyWords:
    """Keys of one word from each column."""
    n, width = len(columns[0]), len(columns)
    words = np.empty((n, width), np.int64)
    for place, column in enumerate(columns):
        words[:, place] = column
    return KeyWords(words.ravel(), np.arange(0, (n + 1) * width, width))


def grown(array: npt.NDArray[_Value], n: int) -> npt.NDArray[_Value]:
    """An array with room for n elements, that of doubling; the new ones are zero."""
    if len(array) >= n:
        return array
    larger = np.zeros((max(n, 2 * len(array)), *array.shape[1:]), array.dtype)
    larger[: len(array)] = array
    return larger


def merged(left: Ints, right: Ints) -> Ints:
    """What is in one of two ascending arrays, or in both, once."""
    both = np.concatenate([left, right])
    both.sort(kind="stable")
    return both[np.append(True, both[1:] != both[:-1])[: len(both)]]


class KeyTable:
    """Numbers of keys."""

    def __init__(self) -> None:
        self._store: Ints = np.zeros(LEAST_SLOTS, np.int64)
        self._n_store = 0
        self._n_unused = 0  # words that are stored of keys that have left
        self._begins: Ints = np.zeros(LEAST_SLOTS, np.int64)
        self._lengths: npt.NDArray[np.int32] = np.zeros(LEAST_SLOTS, np.int32)
        self._is_live: Mask = np.zeros(LEAST_SLOTS, dtype=bool)
        self._free: Ints = np.empty(0, np.int64)
        self._added: list[Ints] = []  # since the last commit
        self._set_slots(LEAST_SLOTS)
        self.n_numbers = 0

    def __len__(self) -> int:
        return self.n_numbers - len(self._free)

    def _set_slots(self, n_slots: int) -> None:
        self._slots = np.full(n_slots, NOTHING, np.int32)
        self._shift = 64 - (n_slots.bit_length() - 1)

    @property
    def live(self) -> Ints:
        """All numbers that keys have, ascending."""
        return np.flatnonzero(self._is_live)

    # ------------------------------------------------------------------------------------------- in and out

    def find(self, keys: KeyWords) -> Ints:
        """The number of each key, or NOTHING."""
        numbers = np.empty(len(keys), np.int64)
        find_keys(keys.words, keys.offsets, *self._table, numbers)
        return numbers

    def number(self, keys: KeyWords) -> Ints:
        """The number of each key, given to those that have none."""
        numbers = self.find(keys)
        rows = np.flatnonzero(numbers == NOTHING)
        if len(rows):
            self._reserve(len(rows), int((keys.offsets[rows + 1] - keys.offsets[rows]).sum()))
            fresh = self._fresh(len(rows))
            slots, shift, store, begins, lengths = self._table
            n_added, self._n_store = add_keys(
                keys.words, keys.offsets, rows, slots, shift, store, self._n_store, begins, lengths, fresh, numbers
            )  # fmt: skip
            self._take(fresh[:n_added])
        return numbers

    def remove(self, numbers: Ints) -> None:
        """Take out keys that are there; their numbers may be given to others."""
        if len(numbers):
            assert self._is_live[numbers].all(), f"no keys: {numbers[~self._is_live[numbers]]}"
            remove_keys(numbers, *self._table)
            self._is_live[numbers] = False
            self._free = np.append(self._free, numbers)
            self._n_unused += int(self._lengths[numbers].sum())
            if self._n_unused > max(LEAST_SLOTS, MOST_UNUSED * (self._n_store - self._n_unused)):
                self._pack()

    def words_of(self, numbers: Ints) -> KeyWords:
        """The keys with these numbers."""
        lengths = self._lengths[numbers].astype(np.int64)
        offsets = np.append(0, np.cumsum(lengths))
        words = np.empty(int(offsets[-1]), np.int64)
        copy_runs(self._store, self._begins[numbers], offsets[:-1], lengths, words)
        return KeyWords(words, offsets)

    def commit(self) -> None:
        """Keep what was added."""
        self._added = []

    def rollback(self) -> None:
        """Take out what was added since the last commit."""
        added, self._added = self._added, []
        for numbers in added:
            self.remove(numbers)

    # ------------------------------------------------------------------------------------------- room

    @property
    def _table(self) -> tuple[npt.NDArray[np.int32], int, Ints, Ints, npt.NDArray[np.int32]]:
        return self._slots, self._shift, self._store, self._begins, self._lengths

    def _reserve(self, n_keys: int, n_words: int) -> None:
        if 2 * (len(self) + n_keys) > len(self._slots):
            self._set_slots(1 << (4 * (len(self) + n_keys) - 1).bit_length())
            place_keys(self.live, *self._table)
        n_numbers = self.n_numbers + n_keys
        self._store = grown(self._store, self._n_store + n_words)
        self._begins, self._lengths = grown(self._begins, n_numbers), grown(self._lengths, n_numbers)
        self._is_live = grown(self._is_live, n_numbers)

    def _fresh(self, n: int) -> Ints:
        """So many numbers that no key has, free ones first."""
        n_used = min(n, len(self._free))
        free = self._free[len(self._free) - n_used :][::-1]
        return np.concatenate([free, np.arange(self.n_numbers, self.n_numbers + n - n_used)])

    def _take(self, numbers: Ints) -> None:
        """These, the first of the fresh ones, belong to keys from now on."""
        n_used = min(len(numbers), len(self._free))
        self._free = self._free[: len(self._free) - n_used]
        self.n_numbers += len(numbers) - n_used
        self._is_live[numbers] = True
        self._added.append(numbers)

    def _pack(self) -> None:
        live = self.live
        keys = self.words_of(live)
        self._store, self._n_store, self._n_unused = keys.words, len(keys.words), 0
        self._begins[live] = keys.offsets[:-1]
        if 8 * len(live) < len(self._slots) and len(self._slots) > LEAST_SLOTS:
            self._set_slots(max(LEAST_SLOTS, 1 << (4 * len(live)).bit_length()))
            place_keys(live, *self._table)

    # ------------------------------------------------------------------------------------------- for explain and tests

    @property
    def nbytes(self) -> int:
        arrays = (self._slots, self._store, self._begins, self._lengths, self._is_live, self._free)
        return sum(array.nbytes for array in arrays)

    def check(self) -> None:
        """Assert the invariant."""
        live = self.live
        assert (self.find(self.words_of(live)) == live).all(), "a key is not found by its words"
        known = np.sort(np.concatenate([live, self._free]))
        assert (known == np.arange(self.n_numbers)).all(), f"numbers below {self.n_numbers}: {known}"
        assert (self._slots != NOTHING).sum() == len(live), "a slot for each key"
