"""How many results and dead letters each query has had, kept beside the catalog of a home.

Written now and then and at the end, in one step: after a kill, what later rounds brought is counted from their files. A file that
is missing or damaged costs the counts of results that are not kept any more, and nothing else.
"""

from __future__ import annotations

import contextlib
import os
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

FILE = "query-counts.npz"


@dataclass(frozen=True, slots=True)
class QueryCounts:
    """Counts up to a round: `results[k]` of the query `result_ids[k]`, and dead letters by query."""

    round_number: int
    result_ids: npt.NDArray[np.int64]
    results: npt.NDArray[np.int64]
    dead: Mapping[int, int]


def write_counts(
    folder: Path, round_number: int, results: npt.NDArray[np.int64], dead: Mapping[int, int]
) -> None:
    """Keep counts; `results` by number of the query. A disk that cannot be written to costs only these."""
    ids = np.flatnonzero(results)
    new = folder / f".{FILE}.new"
    with contextlib.suppress(OSError):
        with open(new, "wb") as file:
            np.savez(
                file,
                round=np.int64(round_number),
                ids=ids,
                results=results[ids],
                dead_ids=np.fromiter(dead.keys(), np.int64, len(dead)),
                dead=np.fromiter(dead.values(), np.int64, len(dead)),
            )
        os.replace(new, folder / FILE)


def read_counts(folder: Path) -> QueryCounts | None:
    """What was kept last; None if there is nothing that can be read."""
    try:
        with np.load(folder / FILE, allow_pickle=False) as arrays:
            dead = dict(zip(arrays["dead_ids"].tolist(), arrays["dead"].tolist(), strict=True))
            return QueryCounts(int(arrays["round"]), arrays["ids"], arrays["results"], dead)
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None
