"""Feeds whose rows workers read: what lies ready goes to them as rounds, one at a time for each stream, streams side by side.

Little of it is not worth a job: it is read here, like everything that cannot be read by reference.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

from eddyline.api.endpoints import Feed
from eddyline.engine import Outcome
from eddyline.engine.shared_work import ReferenceRefused, RowsNumbered, SharedRounds
from eddyline.sources.references import PlannedInput, ReferenceSource

MOST_ROWS = 1 << 40  # bytes are what counts


@dataclass(slots=True)
class Job:
    """A round of one feed at the workers."""

    future: Future[Outcome]
    at: Any = None  # where the source stands behind it, once that is known

    @property
    def is_done(self) -> bool:
        return self.future.done()


class JobLanes:
    """A lane for each feed, with room for one job."""

    def __init__(
        self,
        shared: SharedRounds,
        n_lanes: int,
        wake: Callable[[], None],
        *,
        least_bytes: int,
        most_bytes: int,
    ) -> None:
        """Less than `least_bytes` is read here, more than `most_bytes` takes several rounds."""
        self._shared = shared
        self._pool = ThreadPoolExecutor(max(1, n_lanes), thread_name_prefix="eddyline-lane")
        self._wake = wake
        self._least_bytes = least_bytes
        self._most_bytes = most_bytes
        self._jobs: dict[str, Job] = {}  # by stream
        self._read_here: set[str] = set()  # streams whose rows bring their own numbers

    def is_busy(self, feed: Feed) -> bool:
        return feed.name in self._jobs

    def has_ended(self, feed: Feed) -> bool:
        """Whether the feed's job is back; `end` says how it went."""
        return feed.name in self._jobs and self._jobs[feed.name].is_done

    def start(self, feed: Feed) -> bool:
        """Hand what lies ready to the workers; False if it is little, or has to be read here. Raises SourceError."""
        source = feed.source
        if not isinstance(source, ReferenceSource) or feed.held is not None or feed.name in self._read_here:
            return False
        if source.backlog_bytes() < self._least_bytes:
            return False
        planned = source.plan(MOST_ROWS, self._most_bytes)
        if planned is None:
            return False
        job = self._jobs[feed.name] = Job(Future())
        job.future = self._pool.submit(self._run, feed, planned, job)
        job.future.add_done_callback(lambda _: self._wake())
        return True

    def _run(self, feed: Feed, planned: PlannedInput, job: Job) -> Outcome:
        def position_of(name: str, at: object) -> object:
            job.at = at
            return feed.position(at)

        return self._shared.run_round({feed.name: planned}, position_of=position_of)

    def end(self, feed: Feed) -> Outcome | None:
        """Take a job back: its round; or None if it is to be planned again. Raises what went wrong otherwise."""
        job, source = self._jobs.pop(feed.name), feed.source
        assert isinstance(source, ReferenceSource), source
        try:
            outcome = job.future.result()
        except ReferenceRefused as refused:
            source.refused(refused.reference, refused.why)
            return None
        except RowsNumbered:
            self._read_here.add(feed.name)
            return None
        source.move_to(job.at)
        return outcome

    def forget(self, feed: Feed) -> None:
        """Wait for the feed's job, if it has one, and leave it at that."""
        job = self._jobs.pop(feed.name, None)
        if job is not None:
            wait([job.future])
        self._read_here.discard(feed.name)

    def close(self) -> None:
        """Wait for what is under way."""
        self._pool.shutdown(wait=True)
