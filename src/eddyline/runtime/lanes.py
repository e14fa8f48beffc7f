"""Feeds whose rows workers read: what lies ready goes to them as rounds, one at a time for each stream, streams side by side.

Little of it is not worth a job: it is read here, like everything that cannot be read by reference.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import Any

from eddyline.engine import Outcome, ReferenceRefused, RowsNumbered, SharedRounds
from eddyline.runtime.endpoints import Feed
from eddyline.sources import PlannedInput, ReadCount, Reference, ReferenceSource, SchemaChanged


@dataclass(slots=True)
class Job:
    """A round of one feed at the workers."""

    future: Future[Outcome]
    references: tuple[Reference, ...]
    began: float
    at: Any = None  # position of the source after it, once that is known
    n_rows: int = 0  # read, fitting or not, once that is known
    nbytes: int = 0  # of the references that had some

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
        self._next_bytes: dict[str, int] = {}  # of streams whose next job is to end somewhere

    def is_busy(self, feed: Feed) -> bool:
        return feed.name in self._jobs

    def has_ended(self, feed: Feed) -> bool:
        """Whether the feed's job is back; `end` says how it went."""
        return feed.name in self._jobs and self._jobs[feed.name].is_done

    def start(self, feed: Feed, now: float) -> bool:
        """Hand what lies ready to the workers, no more than the feed's pace allows.

        False if that is little, or has to be read here. Raises SourceError.
        """
        source, pace = feed.source, feed.pace
        if not isinstance(source, ReferenceSource) or feed.held is not None or feed.name in self._read_here:
            return False
        if feed.stream.is_keyed:  # each of its rows changes the table, which is here
            return False
        if pace.most_bytes < self._least_bytes or source.backlog_bytes() < self._least_bytes:
            return False
        most_bytes = self._next_bytes.pop(feed.name, self._most_bytes)
        planned = source.plan(pace.most_rows, min(most_bytes, pace.most_bytes))
        if planned is None:
            return False
        job = self._jobs[feed.name] = Job(Future(), planned.references, now)
        job.future = self._pool.submit(self._run, feed, planned, job)
        job.future.add_done_callback(lambda _: self._wake())
        return True

    def _run(self, feed: Feed, planned: PlannedInput, job: Job) -> Outcome:
        def position_of(name: str, at: object) -> object:
            job.at = at
            return feed.position(at)

        def behind(counts: Sequence[ReadCount]) -> object:
            read = [
                (c.n_units, r.nbytes) for c, r in zip(counts, planned.references, strict=True) if c.n_units
            ]
            job.n_rows, job.nbytes = sum(n for n, _ in read), sum(nbytes for _, nbytes in read)
            return planned.position(counts)

        offered = replace(planned, position=behind)
        return self._shared.run_round({feed.name: offered}, position_of=position_of)

    def end(self, feed: Feed) -> Outcome | None:
        """Take a job back: its round; or None if it is to be planned again. Raises what went wrong otherwise.

        That is SchemaChanged if its first rows lack what a query needs. If later ones do, those before them go first, in a round
        of their own, which the query still sees.
        """
        job, source = self._jobs.pop(feed.name), feed.source
        assert isinstance(source, ReferenceSource), source
        try:
            outcome = job.future.result()
        except ReferenceRefused as refused:
            if refused.change is None:
                source.note_refusal(refused.reference, refused.why)
                return None
            before = job.references[: job.references.index(refused.reference)]
            if not refused.change.missing or not before:
                raise SchemaChanged(feed.stream.name, refused.change) from None
            self._next_bytes[feed.name] = sum(reference.nbytes for reference in before)
            return None
        except RowsNumbered:
            self._read_here.add(feed.name)
            return None
        source.move_to(job.at)
        feed.pace.took(job.n_rows, job.nbytes, job.began)
        return outcome

    def forget(self, feed: Feed) -> Outcome | None:
        """Wait for the feed's job, if it has one, and leave it at that; gives its round if it came to one."""
        job = self._jobs.pop(feed.name, None)
        if job is not None:
            wait([job.future])
        self._read_here.discard(feed.name)
        self._next_bytes.pop(feed.name, None)
        return None if job is None or job.future.exception() is not None else job.future.result()

    def close(self) -> None:
        """Wait for what is under way."""
        self._pool.shutdown(wait=True)
