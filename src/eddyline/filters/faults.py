"""Which queries an index cannot be built with: found by halving, once building it with all of them has failed.

A query that wants more memory than there is gets a second try. Where there is next to none left, no query is to blame for that:
the round is refused, and the next one tries again.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from eddyline.errors import IndexBuildError

MOST_FAULTS = 64  # found one by one; what still cannot be built after so many is at fault as a whole
LEAST_MEMORY = 64 << 20  # bytes that must still be had if a query is to blame for wanting more

Built = TypeVar("Built")


@dataclass(slots=True)
class FaultIsolation(Generic[Built]):
    """What was built, and the places at fault with the reason of each."""

    built_parts: list[Built] = field(default_factory=list)
    faults: dict[int, Exception] = field(default_factory=dict)


def isolate_faults(n: int, build: Callable[[int, int], Built]) -> FaultIsolation[Built]:
    """Build places `first` to `until` of n apart, in groups as large as can be, until only those at fault are left.

    Raises IndexBuildError without names if there is too little memory to find them.
    """
    found: FaultIsolation[Built] = FaultIsolation()
    waiting = [(0, n)]
    while waiting:
        first, until = waiting.pop()
        try:
            found.built_parts.append(_again(build, first, until))
        except Exception as error:
            if until - first == 1 or len(found.faults) >= MOST_FAULTS:
                found.faults |= dict.fromkeys(range(first, until), error)
            else:
                middle = (first + until) // 2
                waiting += [(middle, until), (first, middle)]
    if any(isinstance(error, MemoryError) for error in found.faults.values()) and not _has_memory():
        raise out_of_memory() from None
    return found


def _again(build: Callable[[int, int], Built], first: int, until: int) -> Built:
    """Build; of a single query once more after memory was given back, if there was too little of it."""
    try:
        return build(first, until)
    except MemoryError:
        if until - first > 1:
            raise
    gc.collect()
    return build(first, until)


def _has_memory() -> bool:
    try:
        bytearray(LEAST_MEMORY)
    except MemoryError:
        return False
    return True


def unbuildable_error(whys: Mapping[int, Exception]) -> IndexBuildError:
    """The error that names queries, by id, and says of each why."""
    fault_texts = {
        query_id: f"the predicate index cannot be built with it: {type(error).__name__}{f': {error}' if str(error) else ''}"
        for query_id, error in whys.items()
    }
    return IndexBuildError(
        f"the predicate index cannot be built with {len(fault_texts)} of the queries",
        detail=next(iter(fault_texts.values())),
        hint="Replace or drop these queries.",
        whys=fault_texts,
    )


def out_of_memory() -> IndexBuildError:
    return IndexBuildError(
        "there is not enough memory to build the predicate index",
        detail="Nothing of the round has happened; the next one tries again.",
        hint="Give the process more memory, or drop some queries.",
    )
