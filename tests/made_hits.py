"""Hits written down pair by pair, as (row, query id)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from eddyline.batch import BitmapHits, ListHits

Pairs = Iterable[tuple[int, int]]


def list_hits(n_rows: int, pairs: Pairs) -> ListHits:
    """The ids of a row stay in the order they are given."""
    ordered = sorted(pairs, key=lambda pair: pair[0])
    offsets = [sum(row < until for row, _ in ordered) for until in range(n_rows + 1)]
    return ListHits(np.array(offsets, np.int64), np.array([i for _, i in ordered], np.int32))


def bitmap_hits(n_rows: int, lanes: Sequence[int], pairs: Pairs) -> BitmapHits:
    """`lanes` are the ids of the lanes, 0 where one is empty."""
    n_words = -(-len(lanes) // 512) * 8  # whole blocks of 512 lanes
    words = np.zeros((n_rows, n_words), np.uint64)
    counts = np.zeros(n_rows, np.int32)
    for row, query_id in pairs:
        lane = lanes.index(query_id)
        words[row, lane // 64] |= np.uint64(1 << lane % 64)
        counts[row] += 1
    return BitmapHits(words, np.array([*lanes, *[0] * (64 * n_words - len(lanes))], np.int32), counts)
