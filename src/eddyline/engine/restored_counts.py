"""Counts of results and dead letters by query, as they were before a home was opened again.

Memory holds the newest results and letters alone, and has counted those. What is added here: the counts that were saved, without
what memory counted of them, and files of later rounds that memory does not hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from eddyline.catalog import ListedFile
from eddyline.delivery import ResultLog
from eddyline.engine.durable import Durable
from eddyline.storage import DEAD_LETTERS, OUTBOX, DeadLetters, QueryCounts, read_counts

COUNTS_EVERY = 512  # rounds, after which counts are saved: so many files are read at most after a kill
MOST_BYTES = 256 << 20  # of files that are read only to count what they hold: no counts were saved


def restore_counts(
    durable: Durable,
    last_round: int,
    results: ResultLog,
    dead_letters: DeadLetters,
    held: Mapping[str, Sequence[ListedFile]],
) -> None:
    """Count what queries had before; `held` are the files, by kind, whose results and letters are in memory."""
    saved = read_counts(durable.home.folder)
    if saved is None or saved.round_number > last_round:
        saved = QueryCounts(0, np.zeros(0, np.int64), np.zeros(0, np.int64), {})
    results.count_earlier(saved.result_ids, saved.results)
    dead_letters.by_query.update(saved.dead)

    def count(kind: str, file: ListedFile, sign: int) -> None:
        if kind == OUTBOX:
            for part in durable.parts(file):
                results.count_earlier(part.query_ids, sign)
            return
        for letter in durable.dead_letters(file):
            if letter.query_id is not None:
                dead_letters.by_query[letter.query_id] += sign

    for kind in (OUTBOX, DEAD_LETTERS):
        names, n_bytes = {file.name for file in held[kind]}, MOST_BYTES
        for file in held[kind]:
            if file.round_number <= saved.round_number:
                count(kind, file, -1)
        for file in reversed(durable.rounds.files.all(kind)):
            if file.round_number <= saved.round_number:
                break
            if file.name not in names:
                n_bytes -= file.nbytes
                if n_bytes < 0:
                    break
                count(kind, file, 1)
