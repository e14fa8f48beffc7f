"""Turns: which rounds may work on which streams at the same time.

A round whose work is done in tasks has the turn of its group alone, from its plan to its commit or abort, and holds no lock
meanwhile. Pushes of a group share a turn (the round lock puts them in order) and wait while a round has it alone. Turns are given
first come, first served; all streams of a turn are taken at once, so rounds cannot wait for each other in a circle. Rounds of
other groups go on, and so do ticks, which need no turn and leave groups alone that are busy.

Which streams form a group is certain only when a round is planned. If the group has grown by then, the turn is taken anew.

A thread takes its turn before the round lock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TypeVar

from eddyline.errors import GroupBusyError

Result = TypeVar("Result")


class GroupGrown(Exception):
    """The streams of a round are joined with more streams than its turn has; nothing has happened."""

    def __init__(self, streams: frozenset[str]) -> None:
        super().__init__(", ".join(sorted(streams)))
        self.streams = streams


@dataclass(eq=False, slots=True)
class _Turn:
    streams: frozenset[str]
    is_alone: bool
    thread: int
    is_given: bool = False
    gate: threading.Event | None = None  # of one that has to wait; set once it is given

    def give(self) -> None:
        self.is_given = True
        if self.gate is not None:
            self.gate.set()

    def wait(self) -> None:
        if self.gate is not None:
            self.gate.wait()


class Turns:
    """The turns of one engine. Invariant: no two given turns have a stream in common, unless both are shared or of one thread."""

    def __init__(self) -> None:
        self._guard = threading.Lock()  # of the attributes below; held for a few instructions only
        self._turns: list[_Turn] = []  # given, and waited for, in the order in which they were asked for
        self._groups: Sequence[frozenset[str]] = ()  # of the last plan

    def run(self, streams: Iterable[str], work: Callable[[], Result], *, is_alone: bool = False) -> Result:
        """Do the work of a round over these streams when it is their group's turn; at once within a turn of theirs.

        Raises GroupBusyError if a thread asks within a turn of other streams for one that is taken.
        """
        names = frozenset(name.lower() for name in streams)
        if names <= self._own_streams():
            return work()  # if the group has grown, the turn around this one is taken anew
        group = names.union(*(each for each in self._groups if each & names))
        while True:
            turn = self._asked(group, is_alone)
            try:
                turn.wait()
                return work()
            except GroupGrown as grown:
                group = names | grown.streams
            finally:
                self._end(turn)

    def check(self, streams: Iterable[str], groups: Sequence[frozenset[str]]) -> None:
        """A round over these streams is planned, and these are the groups. Raises GroupGrown if its turn lacks some."""
        self._groups = groups
        names = frozenset(streams)
        needed = names.union(*(each for each in groups if each & names))
        if names and not needed <= self._own_streams():
            raise GroupGrown(needed)

    def busy(self) -> frozenset[str]:
        """The streams that rounds of other threads have alone."""
        me = threading.get_ident()
        with self._guard:
            given = [turn.streams for turn in self._turns if turn.is_alone and turn.is_given]
            mine = [turn.streams for turn in self._turns if turn.thread == me]
        return frozenset().union(*given).difference(*mine)

    def is_held_up(self, streams: Iterable[str]) -> bool:
        """Whether a round over these streams would have to wait for one that has its turn alone, or waits for it."""
        names = frozenset(name.lower() for name in streams)
        names = names.union(*(each for each in self._groups if each & names))
        with self._guard:
            return any(turn.is_alone and turn.streams & names for turn in self._turns)

    def n_waiting(self) -> int:
        """How many threads wait for their turn."""
        with self._guard:
            return sum(not turn.is_given for turn in self._turns)

    def _own_streams(self) -> frozenset[str]:
        if not self._turns:  # those of this thread are put there and taken away by it alone
            return frozenset()
        me = threading.get_ident()
        with self._guard:
            return frozenset().union(*(turn.streams for turn in self._turns if turn.thread == me))

    def _asked(self, streams: frozenset[str], is_alone: bool) -> _Turn:
        turn = _Turn(streams, is_alone, threading.get_ident())
        with self._guard:
            if any(each.thread == turn.thread for each in self._turns):
                self._give_within(turn)
            self._turns.append(turn)
            self._give()
            if not turn.is_given:
                turn.gate = threading.Event()
        return turn

    def _end(self, turn: _Turn) -> None:
        with self._guard:
            self._turns.remove(turn)
            self._give()

    def _give_within(self, turn: _Turn) -> None:
        """Give a turn to a thread that has one. It must not wait: the round it would wait for may need what the thread holds."""
        for each in self._turns:
            if each.thread != turn.thread and each.is_given and _exclude(turn, each):
                names = ", ".join(sorted(turn.streams & each.streams))
                raise GroupBusyError(
                    f"a callback cannot push to {names} now",
                    detail="Workers are at work on a round of it, and the push cannot wait for them within another round.",
                    hint="Give the callback a queue (queue=...): it then has a thread of its own, which waits.",
                )
        turn.give()

    def _give(self) -> None:
        """Give turns to all that need not wait any more."""
        alone: set[str] = set()
        shared: set[str] = set()
        for turn in self._turns:
            if not (turn.streams & alone or (turn.is_alone and turn.streams & shared)):
                turn.give()
            (alone if turn.is_alone else shared).update(turn.streams)


def _exclude(one: _Turn, other: _Turn) -> AbstractSet[str]:
    """The streams for which two turns cannot be given at once."""
    return one.streams & other.streams if one.is_alone or other.is_alone else frozenset()
