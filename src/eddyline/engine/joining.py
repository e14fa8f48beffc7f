"""Joins in a round: who wants which rows, what they meet, and which queries see what comes of it.

plan      the plans of all signatures are pinned, with the version
work      local filters say which rows each input wants (join_plans.py); the join stage builds and probes (joins/stage.py)
commit    what was built stays, and what nobody can want any more leaves
abort     what was built is undone
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from eddyline.batch import ListHits, TupleBatch
from eddyline.catalog import Catalog
from eddyline.catalog.rounds import ListedFile
from eddyline.engine.durable import Durable
from eddyline.engine.event_time import event_times
from eddyline.engine.join_groups import JoinClock, groups_of
from eddyline.engine.join_plans import LocalPlans, join_plan
from eddyline.engine.window_files import WindowFiles, stored_rows
from eddyline.expressions import Context
from eddyline.filters import FilterOutput, FilterStage
from eddyline.filters.matching import DeadPairs, merged
from eddyline.joins.plan import Arrived, JoinPlan, Standing, arrived
from eddyline.joins.stage import Joined, JoinStage
from eddyline.model import Round, Stream, StreamPlan, StreamProgress

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class PlannedJoins:
    """What a round does about joins."""

    plan: JoinPlan
    plans: dict[str, StreamPlan]  # of the signatures' streams, by name
    streams: dict[str, Stream]  # by name in lower case, all that some signature reads
    progress: dict[str, StreamProgress]
    first_versions: dict[str, npt.NDArray[np.int64]]  # by signature and query id: since when it sees rows
    groups: list[frozenset[str]]  # streams that joins connect


class Joining:
    """The joins of one engine."""

    def __init__(
        self,
        catalog: Catalog,
        context: Context,
        make_filters: Callable[[], FilterStage],
        *,
        policy: str,
        seed: int,
        durable: Durable | None = None,
    ) -> None:
        self._catalog = catalog
        self._files = None if durable is None else WindowFiles(durable)
        self._make_filters = make_filters
        self.stage = JoinStage(context, policy=policy, seed=seed)
        self._known: tuple[tuple[object, ...], PlannedJoins] | None = None
        self._locals: dict[tuple[str, int], FilterStage] = {}
        self._local_plans = LocalPlans()
        self._clock = JoinClock()
        self._came: dict[str, Arrived] = {}  # in the round that is running

    @property
    def is_idle(self) -> bool:
        """Whether there is no join."""
        return not self._catalog.signatures() and not self.stage.stems

    # ----------------------------------------------------------------------------------------- step 1

    def plan(self, progress: Mapping[str, StreamProgress]) -> PlannedJoins | None:
        """What joins want, as of now; None if there are none."""
        catalog = self._catalog
        if self.is_idle:
            return None
        signatures = catalog.signatures()
        plans = {signature.name: catalog.plan(signature.name) for signature in signatures}
        names = {name.lower() for signature in signatures for name in signature.streams}
        streams = {name: catalog.stream(name) for name in sorted(names)}
        key = (*plans.values(), *streams.values())
        if self._known is None or not _all_same(self._known[0], key):
            version = 0 if self._known is None else self._known[1].plan.version + 1
            made = PlannedJoins(
                join_plan(version, catalog, plans),
                plans,
                streams,
                {},
                {name: self._first_versions(plan) for name, plan in plans.items()},
                groups_of(signatures),
            )
            self._known = key, made
        where = {name: progress.get(name, StreamProgress()) for name in streams}
        return replace(self._known[1], progress=where)

    def _first_versions(self, plan: StreamPlan) -> npt.NDArray[np.int64]:
        last = max((int(each.ids[-1]) for each in plan.segments if len(each)), default=0)
        found = np.zeros(last + 1, np.int64)
        for segment in plan.segments:
            live = segment.is_live
            found[segment.ids[live]] = self._catalog.first_versions(segment)[live]
        return found

    # ----------------------------------------------------------------------------------------- step 3

    def work(
        self, round_: Round, planned: PlannedJoins, batches: Mapping[str, TupleBatch]
    ) -> Iterator[Joined]:
        """Rows of all signatures; all of them must be taken."""
        self._build(planned)
        came = self._came = {
            name: arrived(
                batch, event_times(planned.streams[name], batch.rows), _n_counted(planned.progress[name])
            )
            for name, batch in batches.items()
            if name in planned.streams and len(batch)
        }
        if came:
            before = Standing({name: _n_counted(at) for name, at in planned.progress.items()}, {})
            yield from self.stage.push(came, self._wanted(planned, came, round_), before, round_)

    def _build(self, planned: PlannedJoins) -> None:
        if planned.plan is self.stage.plan:
            return
        self.stage.build(planned.plan)
        inputs = {(each.name, at) for each in planned.plan.signatures for at in range(len(each.signature))}
        for gone in self._locals.keys() - inputs:
            self._locals.pop(gone).close()
        self._local_plans.keep(planned.plans)

    def _wanted(
        self, planned: PlannedJoins, came: Mapping[str, Arrived], round_: Round
    ) -> dict[tuple[str, int], Mask]:
        wanted: dict[tuple[str, int], Mask] = {}
        for each in planned.plan.signatures:
            for place, entry in enumerate(each.signature.inputs):
                rows = came.get(entry.stream.lower())
                if rows is not None:
                    who = each.name, place
                    wanted[who] = self._wanted_by(who, planned.plans[each.name], rows.batch, round_)
        return wanted

    def _wanted_by(self, who: tuple[str, int], plan: StreamPlan, batch: TupleBatch, round_: Round) -> Mask:
        local = self._local_plans.of(plan, who[1])
        if local is None:
            return np.ones(len(batch), dtype=bool)
        stage = self._locals.get(who)
        if stage is None:
            stage = self._locals[who] = self._make_filters()
        stage.build(local)
        output = stage.push(batch, round_)
        wanted = np.diff(output.offsets) > 0
        wanted[output.dead.rows] = True  # not refuted: whoever meets it finds the error again
        return wanted

    def seen(self, planned: PlannedJoins, joined: Joined, output: FilterOutput) -> FilterOutput:
        """What is left if every query sees only rows whose parts all came since it did."""
        return visible(output, joined.version, planned.first_versions[joined.signature])

    # ----------------------------------------------------------------------------------------- step 4

    def commit(
        self,
        round_: Round,
        planned: PlannedJoins,
        progress: Mapping[str, StreamProgress],
        *,
        is_numbered: bool,
    ) -> None:
        """Keep what was built; `progress` is where the streams of the round now stand."""
        after = {name: progress.get(name, at) for name, at in planned.progress.items()}
        self._build(planned)
        self._clock.note(planned.groups, self._came, planned.progress, round_.now_us, is_numbered=is_numbered)
        self._came = {}
        self.stage.commit(self._standing(planned, after), round_)
        if self._files is not None:
            self._files.commit()

    def lifted(
        self, planned: PlannedJoins, progress: Mapping[str, StreamProgress], now_us: int
    ) -> dict[str, StreamProgress]:
        """Where streams that have been idle for long are taken to stand, given where those of the round will."""
        after = {name: progress.get(name, at) for name, at in planned.progress.items()}
        found = self._clock.lifted(planned.groups, planned.streams, after, now_us)
        return {name: at for name, at in found.items() if name not in self._came}

    def save(self, round_number: int) -> tuple[list[ListedFile], list[str]]:
        """Files of what the round has stored, and those that are listed no longer once it has committed."""
        if self._files is None:
            return [], []
        files = self._files.write(round_number, self.stage)
        return files, self._files.gone

    def restore(self, progress: Mapping[str, StreamProgress], now_us: int) -> None:
        """After opening a home: what the SteMs held after the last committed round."""
        assert self._files is not None
        blocks = list(self._files.restore())
        planned = self.plan(progress)
        self._clock.distrust(name for name, at in progress.items() if at.n_rows)
        if planned is None:
            return
        self._build(planned)
        for block in blocks:
            self.stage.restore(block.stream, functools.partial(stored_rows, block))
        self.stage.commit(self._standing(planned, planned.progress), Round(0, 0, now_us, 0, 0, {}))

    def _standing(self, planned: PlannedJoins, progress: Mapping[str, StreamProgress]) -> Standing:
        return Standing(
            {name: _n_counted(at) for name, at in progress.items()},
            self._clock.watermarks(planned.groups, planned.streams, progress),
        )

    def rollback(self) -> None:
        self._came = {}
        self.stage.rollback()
        if self._files is not None:
            self._files.rollback()

    def forget_stream(self, name: str) -> None:
        """A dropped stream leaves nothing."""
        self._clock.forget(name)

    # ----------------------------------------------------------------------------------------- looking at it

    def snapshot(self) -> dict[str, Any]:
        return self.stage.snapshot()

    def close(self) -> None:
        for stage in self._locals.values():
            stage.close()


def _all_same(old: tuple[object, ...], new: tuple[object, ...]) -> bool:
    return len(old) == len(new) and all(a is b for a, b in zip(old, new, strict=True))


def _n_counted(at: StreamProgress) -> int:
    """Late rows do not count."""
    return at.n_rows - at.n_late


# --------------------------------------------------------------------------------------------- who sees what


def visible(
    output: FilterOutput, versions: npt.NDArray[np.int64], first_versions: npt.NDArray[np.int64]
) -> FilterOutput:
    """The matches of rows whose version is not below the one from which on the query sees rows."""
    if not len(versions) or versions.min() >= first_versions.max(initial=0):
        return output
    hits = merged(len(output.batch), output.hits)
    pairs = np.flatnonzero(versions[hits.rows] >= first_versions[hits.ids])
    parts = [
        part.take(np.flatnonzero(versions[part.rows] >= first_versions[part.query_ids]))
        for part in output.parts
    ]
    dead = output.dead
    alive = np.flatnonzero(versions[dead.rows] >= first_versions[dead.query_ids])
    return FilterOutput(
        output.batch,
        output.plan,
        (ListHits(np.searchsorted(pairs, hits.offsets), hits.ids[pairs]),) if len(pairs) else (),
        tuple(part for part in parts if len(part)),
        DeadPairs(dead.rows[alive], dead.query_ids[alive], tuple(dead.failures[k] for k in alive.tolist())),
    )
