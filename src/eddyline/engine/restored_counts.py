"""Counts of results and dead letters by query, as they were before a home was opened again.

Memory holds the newest results and letters alone, and has counted those. What is added here: the counts that were saved, without
what memory counted of them, and files of later rounds that memory does not hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from eddyline.catalog.rounds import ListedFile
from eddyline.delivery import ResultLog
from eddyline.engine.durable import DEAD, OUTBOX, Durable
from eddyline.storage import DeadLetters
from eddyline.storage.query_counts import QueryCounts, read_counts, write_counts

COUNTS_EVERY = 512  # rounds, after which counts are saved: so many files are read at most after a kill
MOST_BYTES = 256 << 20  # of files that are read only to count what they hold: no counts were saved


def save_counts(durable: Durable, last_round: int, results: ResultLog, dead_letters: DeadLetters) -> None:
    """Keep the counts as they are after this round."""
    write_counts(durable.home.folder, last_round, results.produced_counts(), dead_letters.by_query)


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

    for kind in (OUTBOX, DEAD):
        names, n_bytes = {file.name for file in held[kind]}, MOST_BYTES
        for file in held[kind]:
            if file.round_number <= saved.round_number:
                count(kind, file, -1)
        for file in reversed(durable.rounds.files(kind)):
            if file.round_number <= saved.round_number:
                break
            if file.name not in names:
                n_bytes -= file.nbytes
                if n_bytes < 0:
                    break
                count(kind, file, 1)
