"""How long and how much a home keeps, by which time that is counted, and what was removed.

A clock may jump: a machine starts with a wrong one, it is set, a virtual machine is restored. What is kept must not go
because of it. So retention counts the time that passes. Each look at the clocks is one step, and a step is as long as the wall
clock says, but never negative, and

    since the machine started    never longer than the machine has been up in the meantime
    across a start of it         LONGEST_STEP_US at most, for nothing else says how long that took

The second bound also holds for a clock that is not the machine's. Time that is not counted keeps things longer; limits of size
hold all the same. The reading of the clock is committed with each round, each version and each opening, and with what these
bring: after a restart or a crash it goes on from there, and whether something is past retention does not depend on when that is
checked.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from eddyline.durations import DAY_US
from eddyline.storage import CAPTURE, DEAD_LETTERS, OUTBOX

LONGEST_STEP_US = 3_600_000_000
ANNOUNCE_EVERY_US = 60_000_000  # removals of one kind
MOST_NAMED = 5  # queries or streams
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class Retention:
    """How long and how much is kept in the home; of age and size, the narrower limit counts.

    The size of versions and of rounds is their number. Whatever else rooms come to store, statistics first, gets an age and a
    size here as well.
    """

    results_us: int = 7 * DAY_US
    result_bytes: int = 4 << 30
    dead_letters_us: int = 7 * DAY_US
    dead_letter_bytes: int = 256 << 20
    captures_us: int = 1 * DAY_US
    capture_bytes: int = 1 << 30
    versions_us: int = 30 * DAY_US  # since another took its place
    version_count: int = 10_000  # beside the active one
    rounds_us: int = 30 * DAY_US  # a round of which a file is kept is kept too
    round_count: int = 1_000_000
    message_count: int = 1_000_000  # of alerts; they go with results as to their age

    @classmethod
    def stored(cls, text: str | None) -> Retention:
        """What `as_text` gave; the usual limits if there was nothing."""
        known = {field.name for field in dataclasses.fields(cls)}
        values = {} if text is None else json.loads(text)
        return cls(**{name: value for name, value in values.items() if name in known})

    def as_text(self) -> str:
        return json.dumps(dataclasses.asdict(self), sort_keys=True)

    def of(self, kind: str) -> tuple[int, int]:
        return {
            OUTBOX: (self.results_us, self.result_bytes),
            DEAD_LETTERS: (self.dead_letters_us, self.dead_letter_bytes),
            CAPTURE: (self.captures_us, self.capture_bytes),
        }[kind]


class Uptime:
    """How long this machine has been up, sleep included, and which start of it that counts from."""

    def __init__(self) -> None:
        self.boot = uuid.uuid4().hex  # where the system does not say, this process's own
        with contextlib.suppress(OSError):
            self.boot = _BOOT_ID.read_text().strip()
        self._clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

    def now_us(self) -> int:
        return time.clock_gettime_ns(self._clock) // 1000


class RetentionClock:
    """The time that has passed, as retention counts it: microseconds, from the first wall clock of the home on."""

    def __init__(self, wall: Callable[[], int], uptime: Uptime | None, stored: str | None) -> None:
        """`uptime` is None if the wall clock is not the machine's; `stored` is what `as_text` gave when it was last stored."""
        self._wall = wall
        self._uptime = uptime
        self._guard = threading.Lock()
        if stored is None:
            now = wall()
            self._us, self._wall_us, self._boot, self._up_us = now, now, "", 0
        else:
            self._us, self._wall_us, self._boot, self._up_us = json.loads(stored)

    def now_us(self) -> int:
        """Look at the clocks."""
        with self._guard:
            wall_us = self._wall()
            boot, up_us = ("", 0) if self._uptime is None else (self._uptime.boot, self._uptime.now_us())
            longest_us = up_us - self._up_us if boot and boot == self._boot else LONGEST_STEP_US
            self._us += max(0, min(wall_us - self._wall_us, longest_us))
            self._wall_us, self._boot, self._up_us = wall_us, boot, up_us
            return self._us

    def as_text(self) -> str:
        with self._guard:
            return json.dumps([self._us, self._wall_us, self._boot, self._up_us])


@dataclass(slots=True)
class Removal:
    """What retention removed of one kind since it was last announced."""

    what: str  # results, dead letters, rows as they came, messages, versions, rounds
    n: int = 0
    until_us: int | None = None  # now() of the newest round it was of
    of: Counter[int | str] = field(default_factory=Counter)  # ids of queries, or streams, where that is known

    def add(self, other: Removal) -> None:
        self.n += other.n
        self.until_us = max(filter(None, (self.until_us, other.until_us)), default=None)
        self.of.update(other.of)


class Removals:
    """What was removed: since the home exists, and what has not been announced yet."""

    def __init__(self, stored: str | None) -> None:
        self.totals: dict[str, tuple[int, int | None]] = {
            what: (n, until_us) for what, (n, until_us) in json.loads(stored or "{}").items()
        }  # of what lies in files: how much, and up to which now()
        self._unannounced: dict[str, Removal] = {}
        self._announced_us: dict[str, int] = {}

    def with_(self, removal: Removal) -> str:
        """The totals with this removal, as they are stored with it."""
        n, until_us = self.totals.get(removal.what, (0, None))
        until_us = max(filter(None, (until_us, removal.until_us)), default=None)
        return json.dumps({**self.totals, removal.what: (n + removal.n, until_us)}, sort_keys=True)

    def add(self, removal: Removal, totals: str | None = None) -> None:
        """Count a removal that has happened."""
        if totals is not None:
            self.totals = Removals(totals).totals
        if removal.n:
            self._unannounced.setdefault(removal.what, Removal(removal.what)).add(removal)

    def due(self, now_us: int) -> Iterator[Removal]:
        """What is to be announced now: of each kind at once, then no more often than every minute, all that was removed since."""
        for what in list(self._unannounced):
            announced_us = self._announced_us.get(what)
            if announced_us is None or now_us - announced_us >= ANNOUNCE_EVERY_US:
                self._announced_us[what] = now_us
                yield self._unannounced.pop(what)
