"""How deep texts may nest, and room on Python's stack for what walks down them.

A text of the deepest nesting allowed takes more calls than the 1,000 Python allows, the more so where the caller is deep in calls
of its own. What walks down a nested form (reads, binds, computes, writes or stores it) does so inside `deep_recursion`: the limit
is raised while some thread is inside, and is what it was before when the last one has left.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

MAX_NESTING = 200  # levels of a text
MAX_NODES = 100_000  # of an expression; the longest text has fewer, if nothing in it is repeated
SHALLOW = (
    40  # levels of an expression that need no room: six calls each are few beside the 1,000 Python allows
)
MAX_TYPE_NESTING = 50  # levels of a type: ARRAY<ARRAY<…
# Per level sqlglot takes up to 32 calls and the binder three; computing a CASE takes five, for the casts around it as well.
_ROOM = 1000 + 36 * MAX_NESTING
_MARGIN = 100  # calls between the one that leaves and its caller

_P = ParamSpec("_P")
_R = TypeVar("_R")


class _Limit:
    """Python's recursion limit, which all threads share."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._n_inside = 0
        self._before: int | None = None  # the limit to go back to
        self._raised = 0

    def enter(self) -> None:
        with self._lock:
            limit, needed = sys.getrecursionlimit(), _depth() + _ROOM
            if self._before is None or limit != self._raised:  # otherwise it is ours
                self._before = limit
            self._raised = max(limit, needed)
            if needed > limit:
                sys.setrecursionlimit(needed)
            self._n_inside += 1

    def leave(self) -> None:
        with self._lock:
            self._n_inside -= 1
            if self._n_inside or self._before is None:
                return
            if sys.getrecursionlimit() != self._raised:  # other code has set it meanwhile
                self._before = None
            elif _depth() + _MARGIN < self._before:  # otherwise a later one, less deep, takes it back
                sys.setrecursionlimit(self._before)
                self._before = None


_limit = _Limit()
_thread = threading.local()


@contextmanager
def deep_recursion() -> Iterator[None]:
    """Room on Python's stack for the deepest text allowed."""
    if getattr(_thread, "is_inside", False):
        yield
        return
    _limit.enter()
    _thread.is_inside = True
    try:
        yield
    finally:
        _thread.is_inside = False
        _limit.leave()


def deep(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """A function that walks down a nested form: it has room to."""

    @functools.wraps(function)
    def with_room(*arguments: _P.args, **options: _P.kwargs) -> _R:
        if getattr(_thread, "is_inside", False):
            return function(*arguments, **options)
        with deep_recursion():
            return function(*arguments, **options)

    return with_room


def _depth() -> int:
    """How many calls this thread is in."""
    n, frame = 0, sys._getframe()
    while frame is not None:
        n, frame = n + 1, frame.f_back  # type: ignore[assignment]
    return n
