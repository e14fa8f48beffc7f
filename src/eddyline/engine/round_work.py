"""What a round works with and what it produces, step by step: planned, worked, committed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from eddyline.batch import PartMatches, TupleBatch
from eddyline.catalog import ListedFile, ReadInput
from eddyline.engine.event_time import LaneTimes
from eddyline.engine.planned_flow import PlannedFlow
from eddyline.engine.round_output import RoundOutput
from eddyline.filters import FilterOutput
from eddyline.hit_matches import HitMatches
from eddyline.model import DEFAULT_CHOICES, ExecutionChoices, Round, Stream, StreamPlan, StreamProgress
from eddyline.storage import StoredPart


@dataclass(frozen=True, slots=True)
class Limits:
    """How much is kept in memory."""

    results_per_query: int = 100
    result_bytes: int = 64 << 20
    recent_rows: int = 10_000
    recent_bytes: int = 64 << 20
    dead_letters: int = 10_000
    groups: int | None = None  # of a class, for each kind of grouping; None: as many as come
    memory: int | None = None  # bytes of the process; None: a share of what the machine or the container has


@dataclass(frozen=True, slots=True)
class Outcome:
    """A committed round: what came in and what matched. `outputs` is None where it is no longer kept."""

    round: Round
    outputs: Mapping[str, FilterOutput] | None
    n_results: int
    n_dead: int
    n_late: int
    is_repeat: bool = False


@dataclass(slots=True)
class Planned:
    """Step 1: what a round works with."""

    version: int
    now_us: int
    seed: int
    progress: dict[str, StreamProgress]
    streams: dict[str, Stream]
    plans: dict[str, StreamPlan]
    last_rounds: dict[str, int]  # of each stream, and of those it is joined with: no other may come between
    incarnations: dict[str, int]  # of each stream: one dropped and declared anew is another
    timed: dict[str, Stream]  # all streams with a time and no key, whose rows others may wait for
    flow: PlannedFlow | None = None  # what operators do; None: there are none
    choices: ExecutionChoices = DEFAULT_CHOICES


@dataclass(slots=True)
class Work:
    """Steps 2 and 3: all a round produced, not yet visible to any reader."""

    n_rows: dict[str, int]
    output: RoundOutput = field(default_factory=RoundOutput)
    progress: dict[str, StreamProgress] = field(default_factory=dict)
    n_late: int = 0
    last_arrival: int = 0  # 0: there are no rows
    recent: dict[str, TupleBatch] = field(default_factory=dict)  # rows to look back on
    matches: Sequence[HitMatches | PartMatches | StoredPart] = ()
    closed_rows: Sequence[PartMatches | StoredPart] = ()  # of alert queries: rows of windows that closed
    files: list[ListedFile] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)  # files that are listed no longer
    inputs: list[ReadInput] = field(default_factory=list)  # rows that were read where they lie
    outputs: dict[str, FilterOutput] | None = None  # where the filters ran in this process
    ignored: dict[str, Mapping[str, str]] = field(default_factory=dict)  # by stream and column: why
    times: dict[str, LaneTimes] = field(default_factory=dict)  # of the rows, by stream
    n_tasks: int = 0
    waiting_s: float = 0.0
    planned_at: float = 0.0  # when the steps ended, on the clock of performance
    worked_at: float = 0.0
