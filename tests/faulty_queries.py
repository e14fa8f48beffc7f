"""Queries with which the predicate index cannot be built, for as long as `armed`: what stands in for a fault of ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from eddyline.expressions.lowerings import strings

FAULTY = "SELECT sym, price FROM trades WHERE sym != repeat('x', {n})"
TIMES = 4242  # as often as `repeat` cannot do it


def no_memory() -> Exception:
    return MemoryError()


@contextmanager
def armed(error: Callable[[], Exception] = no_memory, times: int = TIMES) -> Iterator[list[int]]:
    """Constants that repeat a text so many times fail; gives how often that was tried."""
    tried: list[int] = []
    check = strings.check_length

    def fail(function: str, length: int, *limits: Any) -> None:
        if length == times:
            tried.append(length)
            raise error()
        check(function, length, *limits)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(strings, "check_length", fail)
        yield tried
