"""Joins and tables in a round: who wants which rows, what they meet, and which queries see what comes of it.

plan      the plans of all signatures are pinned, with the version
work      tables change; local filters say which rows each input wants (join_plans.py); the join stage builds and probes
          (joins/stage.py); what comes of it are rows of streams of their own, for the filters of these
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

from eddyline.batch import ListHits, PartMatches, QueryIds, TupleBatch
from eddyline.catalog import Catalog
from eddyline.catalog.rounds import ListedFile
from eddyline.engine.durable import Durable
from eddyline.engine.event_time import event_times
from eddyline.engine.join_calls import JoinCalls
from eddyline.engine.join_groups import JoinClock, groups_of
from eddyline.engine.join_plans import BOTH, MATCH, DerivedPlans, cheap, join_plan, local
from eddyline.engine.join_tasks import SharedRows
from eddyline.engine.tables import PlannedTables, Tables, horizons
from eddyline.engine.window_files import WindowFiles, stored_rows
from eddyline.expressions import Context
from eddyline.expressions.frame import Called
from eddyline.filters import FilterOutput, FilterStage
from eddyline.filters.matching import DeadPairs, merged
from eddyline.joins.joined_rows import Joined
from eddyline.joins.outer import Deciding
from eddyline.joins.plan import Arrived, JoinPlan, Standing, arrived
from eddyline.joins.stage import JoinStage
from eddyline.joins.table_changes import Deltas
from eddyline.model import DeadLetter, Round, Signature, Stream, StreamPlan, StreamProgress, UserCall

Mask = npt.NDArray[np.bool_]
Seen = Callable[[FilterOutput], FilterOutput]


@dataclass(frozen=True, eq=False)
class PlannedJoins:
    """What a round does about joins and tables."""

    plan: JoinPlan
    plans: dict[str, StreamPlan]  # of the signatures' streams, by name
    streams: dict[str, Stream]  # by name in lower case, all that some signature reads
    progress: dict[str, StreamProgress]
    first_versions: dict[str, npt.NDArray[np.int64]]  # by signature and query id: since when it sees rows
    groups: list[frozenset[str]]  # streams that joins connect
    tables: PlannedTables | None = None  # None: there are none

    def with_partners(self, names: list[str]) -> list[str]:
        """These streams and all they are joined with."""
        partners = [sorted(group) for group in self.groups if group & set(names)]
        return list(dict.fromkeys([*names, *(name for group in partners for name in group)]))


@dataclass(frozen=True, slots=True)
class Made:
    """Rows that a round has made besides those that came, for the queries of a plan; `seen` narrows what they see of it."""

    stage: str  # whose filters decide
    plan: StreamPlan
    batch: TupleBatch
    seen: Seen | None = None
    signature: Signature | None = None  # whose rows they are, if a join made them


# rows of an input that is expensive to ask are asked only once they have found partners, if few of so many did
FEW_LUCKY, JUDGED_BY = 0.5, 1_000


class Joining:
    """The joins and tables of one engine."""

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
        self._make_filters = make_filters
        self.stage = JoinStage(context, policy=policy, seed=seed)
        self.tables = Tables(catalog, self.stage.evaluate, durable)
        self.stage.tables = self.tables.tables
        self._files = None if durable is None else WindowFiles(durable)
        self._known: tuple[tuple[object, ...], PlannedJoins] | None = None
        self._locals: dict[tuple[str, str], FilterStage] = {}  # by signature and variant of its plan
        self._derived = DerivedPlans()
        self._clock = JoinClock()
        self._came: dict[str, Arrived] = {}  # in the round that is running
        self.letters: list[DeadLetter] = []  # the same: rows without a key
        self.calls = JoinCalls()

    # ----------------------------------------------------------------------------------------- step 1

    def plan(self, progress: Mapping[str, StreamProgress]) -> PlannedJoins | None:
        """What joins and tables want, as of now; None if there are none."""
        catalog = self._catalog
        tables = self.tables.plan()
        signatures = catalog.signatures()
        if not signatures and not self.stage.stems and tables is None:
            return None
        plans = {signature.name: catalog.plan(signature.name) for signature in signatures}
        names = {name.lower() for signature in signatures for name in signature.streams}
        streams = {name: catalog.stream(name) for name in sorted(names)}
        keyed = () if tables is None else tables.streams.values()
        key = (*plans.values(), *streams.values(), *keyed)
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
        return replace(self._known[1], progress=where, tables=tables)

    def _first_versions(self, plan: StreamPlan) -> npt.NDArray[np.int64]:
        last = max((int(each.ids[-1]) for each in plan.segments if len(each)), default=0)
        found = np.zeros(last + 1, np.int64)
        for segment in plan.segments:
            live = segment.is_live
            found[segment.ids[live]] = self._catalog.first_versions(segment)[live]
        return found

    # ----------------------------------------------------------------------------------------- step 3

    def work(
        self,
        round_: Round,
        planned: PlannedJoins,
        batches: Mapping[str, TupleBatch],
        plans: Mapping[str, StreamPlan],
        deletes: Mapping[str, Mask],
        shared: SharedRows | None = None,
    ) -> Iterator[Made]:
        """What the round makes besides the rows that came; all of it must be taken. `plans` are those of the rows' streams.

        Rows that came through tasks are in `shared`, as far as they are wanted.
        """
        self._build(planned)
        self.stage.begin()
        self.letters = []
        before = Standing({name: _n_counted(at) for name, at in planned.progress.items()}, {})
        if planned.tables is not None:
            yield from self._answers(planned, planned.tables, before, round_)
        came: dict[str, Arrived] = {} if shared is None else dict(shared.came)
        for name, batch in batches.items():
            if planned.tables is not None and name in planned.tables.streams:
                deltas = self._change(round_, planned.tables.streams[name], batch, deletes.get(name))
                came[name] = _as_rows(name, deltas)
                yield Made(name, plans[name], self._changed(name, deltas))
            elif name in planned.streams and len(batch):
                times = event_times(planned.streams[name], batch.rows)
                came[name] = arrived(batch, times, _n_counted(planned.progress[name]))
        self._came = {name: rows for name, rows in came.items() if name in planned.streams}
        if self._came:
            wanted = self._wanted(planned, self._came, round_) if shared is None else shared.wanted
            for made in self.stage.push(self._came, wanted, before, round_):
                yield from self._made(planned, made, round_)

    def decide(
        self, round_: Round, planned: PlannedJoins, progress: Mapping[str, StreamProgress]
    ) -> Iterator[Made]:
        """Rows of outer joins for which no partner can come any more, given where the streams of the round will stand."""
        after = {name: progress.get(name, at) for name, at in planned.progress.items()}
        for deciding in self.stage.decide(self._standing(planned, after), round_):
            yield from self._made(planned, deciding, round_)

    def _build(self, planned: PlannedJoins) -> None:
        if planned.plan is self.stage.plan:
            return
        if planned.tables is not None:
            self.tables.fit(planned.tables)
        self.stage.build(planned.plan)
        for gone in [key for key in self._locals if key[0] not in planned.plans]:
            self._locals.pop(gone).close()
        self._derived.keep(planned.plans)

    def _wanted(
        self, planned: PlannedJoins, came: Mapping[str, Arrived], round_: Round
    ) -> dict[tuple[str, int], Mask]:
        wanted: dict[tuple[str, int], Mask] = {}
        for each in planned.plan.signatures:
            for place, entry in enumerate(each.signature.inputs):
                rows = came.get(entry.stream.lower())
                if rows is not None:
                    plan = planned.plans[each.name]
                    wanted[each.name, place] = self._wanted_by(plan, place, rows.batch, round_)
        return wanted

    def _wanted_by(self, plan: StreamPlan, place: int, batch: TupleBatch, round_: Round) -> Mask:
        variant = self._variant(plan, place)
        if self._derived.wants_all(plan, variant):
            return np.ones(len(batch), dtype=bool)
        stream = batch.stream.lower()
        output = self._decided(plan, variant, batch, round_, self.calls.of_rows(stream, batch))
        self.calls.keep_of_rows(stream, batch, self._stage(plan.stream, variant).called)
        wanted = np.diff(output.offsets) > 0
        wanted[output.dead.rows] = True  # not refuted: whoever meets it finds the error again
        return wanted

    def _variant(self, plan: StreamPlan, place: int) -> str:
        """By which plan it is decided who wants rows of an input: by all that is said of it, or first by what is cheap to ask."""
        if self._derived.is_dear(plan, place) and self.asks_later(plan.stream, place):
            return cheap(place)
        return local(place)

    def asks_later(self, signature: str, place: int) -> bool:
        """Whether expensive conditions on an input are asked only of rows that have found partners."""
        n_rows, n_lucky = self.stage.luck(signature, place)
        return n_rows >= JUDGED_BY and n_lucky < FEW_LUCKY * n_rows

    def _decided(
        self,
        plan: StreamPlan,
        variant: str,
        batch: TupleBatch,
        round_: Round,
        known: Mapping[UserCall, Called] | None = None,
    ) -> FilterOutput:
        """What the queries of a plan that follows from another say of rows."""
        stage = self._stage(plan.stream, variant)
        stage.build(self._derived.of(plan, variant))
        return stage.push(batch, round_, known)

    def local_plan(self, planned: PlannedJoins, signature: str, place: int) -> StreamPlan | None:
        """What the queries of a signature say of one input alone; None: somebody wants all of its rows."""
        plan = planned.plans[signature]
        if self._derived.wants_all(plan, local(place)):
            return None
        return self._derived.of(plan, local(place))

    def local_stage(self, signature: str, place: int) -> FilterStage:
        """The filters of that."""
        return self._stage(signature, local(place))

    def _stage(self, signature: str, variant: str) -> FilterStage:
        stage = self._locals.get((signature, variant))
        if stage is None:
            stage = self._locals[signature, variant] = self._make_filters()
        return stage

    def _made(self, planned: PlannedJoins, made: Joined | Deciding, round_: Round) -> Iterator[Made]:
        """What the stage yields, as rows for filters."""
        name = made.signature
        plan, first = planned.plans[name], planned.first_versions[name]
        signature = next(each.signature for each in planned.plan.signatures if each.name == name)
        if isinstance(made, Joined):
            if signature.outer != "left anti":
                shown = self._derived.of(plan, BOTH) if signature.outer else plan
                seen = functools.partial(visible, versions=made.version, first_versions=first)
                yield Made(shown.stream.lower(), shown, made.batch, seen, signature)
            return
        matched = self._matched(plan, made, round_)
        asked = _with_reach(plan, made.reach_us)
        seen = functools.partial(
            _unmatched, versions=made.version, first_versions=first, matched=matched, asked=asked
        )
        yield Made(name.lower(), plan, made.alone, seen, signature)

    def _matched(self, plan: StreamPlan, deciding: Deciding, round_: Round) -> npt.NDArray[np.int64]:
        """Which rows have a partner, for which queries: row and query in one number, ascending."""
        found = [np.empty(0, np.int64)]
        for joined in deciding.matched:
            output = self._decided(plan, MATCH, joined.batch, round_)
            offsets, ids = output.pairs()
            rows = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
            found.append(_pair_numbers(joined.driver[rows], ids))
        return np.unique(np.concatenate(found))

    # ----------------------------------------------------------------------------------------- tables

    def _answers(
        self, planned: PlannedJoins, tables: PlannedTables, standing: Standing, round_: Round
    ) -> Iterator[Made]:
        """The answers of queries that are new to tables, as these stood before the round."""
        by_name = {each.name: each for each in planned.plan.signatures}
        for name, (plan, ids) in tables.newcomers.items():
            seen = functools.partial(_only, ids=ids)
            if name in tables.streams:
                batch = self.tables.current(name)
                if len(batch):
                    yield Made(name, plan, self._numbered(batch, batch.arrival), seen)
            else:
                first = by_name[name].signature.inputs[0].stream.lower()
                rows = self.tables.current(first)
                if len(rows):
                    came = Arrived(rows, self.tables.times(first), np.zeros(len(rows), np.int64))
                    for joined in self.stage.answer(by_name[name], came, standing, round_):
                        yield Made(name.lower(), plan, joined.batch, seen)

    def _change(self, round_: Round, stream: Stream, batch: TupleBatch, is_delete: Mask | None) -> Deltas:
        if is_delete is None:
            is_delete = np.zeros(len(batch), dtype=bool)
        deltas = self.tables.apply(stream, batch, is_delete)
        self.letters += self.tables.letters(round_, stream, batch, deltas.misfits)
        return deltas

    def _changed(self, name: str, deltas: Deltas) -> TupleBatch:
        """What changed in a table as rows of its stream, for queries over it alone."""
        n = len(deltas)
        batch = TupleBatch(name, deltas.rows, deltas.arrival, deltas.sign, np.zeros(n, dtype=bool))
        return self._numbered(batch, deltas.arrival)

    def _numbered(self, batch: TupleBatch, arrival: npt.NDArray[np.int64]) -> TupleBatch:
        """Rows with numbers of their own: one change may be two rows, and an answer repeats rows of earlier rounds."""
        first, n = self.stage.numbers(len(batch)), len(batch)
        numbers = np.arange(first, first + n, dtype=np.int64)
        stream = self._catalog.stream(batch.stream).name
        return TupleBatch(stream, batch.rows, numbers, batch.sign, batch.is_late, arrival[:, None])

    # ----------------------------------------------------------------------------------------- step 4

    def save(self, round_number: int) -> tuple[list[ListedFile], list[str]]:
        """Files of what the round has kept, and those that are listed no longer once it has committed."""
        files, gone = self.tables.save(round_number)
        if self._files is not None:
            files += self._files.write(round_number, self.stage)
            gone += self._files.gone
        return files, gone

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
        self._came, self.letters = {}, []
        standing = self._standing(planned, after)
        self.stage.commit(standing, round_)
        self.calls.forget(self.stage.first_arrivals())
        signatures = [each.signature for each in planned.plan.signatures]
        self.tables.commit(round_, horizons(signatures, standing.watermarks_us))
        if self._files is not None:
            self._files.commit()

    def lifted(
        self, planned: PlannedJoins, progress: Mapping[str, StreamProgress], now_us: int
    ) -> dict[str, StreamProgress]:
        """Where streams that have been idle for long are taken to stand, given where those of the round will."""
        after = {name: progress.get(name, at) for name, at in planned.progress.items()}
        found = self._clock.lifted(planned.groups, planned.streams, after, now_us)
        return {name: at for name, at in found.items() if name not in self._came}

    def rollback(self) -> None:
        self._came, self.letters = {}, []
        self.stage.rollback()
        self.tables.rollback()
        if self._files is not None:
            self._files.rollback()

    def restore(self, progress: Mapping[str, StreamProgress], version: int, now_us: int) -> None:
        """After opening a home: what was kept after the last committed round, which saw this version."""
        assert self._files is not None
        blocks = list(self._files.restore())
        planned = self.plan(progress)
        self._clock.distrust(name for name, at in progress.items() if at.n_rows)
        if planned is None:
            self.tables.restore(version)
            return
        self._build(planned)  # so that tables know whether to keep history
        self.tables.restore(version)
        for block in blocks:
            self.stage.restore(block.stream, functools.partial(stored_rows, block))
        self.stage.commit(self._standing(planned, planned.progress), Round(0, 0, now_us, 0, 0, {}))

    def _standing(self, planned: PlannedJoins, progress: Mapping[str, StreamProgress]) -> Standing:
        outer = {
            name.lower() for s in planned.plan.signatures if s.signature.outer for name in s.signature.streams
        }
        ordered = [
            group for group in planned.groups if not group & outer
        ]  # what is decided stays so after a restart
        return Standing(
            {name: _n_counted(at) for name, at in progress.items()},
            self._clock.watermarks(ordered, planned.streams, progress),
        )

    def forget_stream(self, name: str) -> None:
        """A dropped stream leaves nothing."""
        self._clock.forget(name)

    # ----------------------------------------------------------------------------------------- looking at it

    def snapshot(self) -> dict[str, Any]:
        return self.stage.snapshot() | {"tables": self.tables.snapshot()}

    def close(self) -> None:
        for stage in self._locals.values():
            stage.close()


def _all_same(old: tuple[object, ...], new: tuple[object, ...]) -> bool:
    return len(old) == len(new) and all(a is b for a, b in zip(old, new, strict=True))


def _n_counted(at: StreamProgress) -> int:
    """Late rows do not count."""
    return at.n_rows - at.n_late


def _as_rows(name: str, deltas: Deltas) -> Arrived:
    """What changed in a table, at the numbers of the changes."""
    n = len(deltas)
    batch = TupleBatch(name, deltas.rows, deltas.arrival, deltas.sign, np.zeros(n, dtype=bool))
    return Arrived(batch, deltas.time_us, np.zeros(n, np.int64))


# --------------------------------------------------------------------------------------------- who sees what


def narrowed(output: FilterOutput, keeps: Callable[[npt.NDArray[np.int64], QueryIds], Mask]) -> FilterOutput:
    """The matches of which a function of rows and query ids says so."""
    hits = merged(len(output.batch), output.hits)
    pairs = np.flatnonzero(keeps(hits.rows, hits.ids))
    kept: list[PartMatches] = []
    for part in output.parts:
        mine = np.flatnonzero(keeps(part.rows, part.query_ids))
        if len(mine):
            kept.append(part.take(mine))
    dead = output.dead
    alive = np.flatnonzero(keeps(dead.rows, dead.query_ids))
    return FilterOutput(
        output.batch,
        output.plan,
        (ListHits(np.searchsorted(pairs, hits.offsets), hits.ids[pairs]),) if len(pairs) else (),
        tuple(kept),
        DeadPairs(dead.rows[alive], dead.query_ids[alive], tuple(dead.failures[k] for k in alive.tolist())),
    )


def visible(
    output: FilterOutput, versions: npt.NDArray[np.int64], first_versions: npt.NDArray[np.int64]
) -> FilterOutput:
    """The matches of rows whose version is not below the one from which on the query sees rows."""
    if not len(versions) or versions.min() >= first_versions.max(initial=0):
        return output
    return narrowed(output, lambda rows, ids: versions[rows] >= first_versions[ids])


def _only(output: FilterOutput, ids: QueryIds) -> FilterOutput:
    return narrowed(output, lambda _, found: np.isin(found, ids))


def _unmatched(
    output: FilterOutput,
    versions: npt.NDArray[np.int64],
    first_versions: npt.NDArray[np.int64],
    matched: npt.NDArray[np.int64],
    asked: QueryIds | None,
) -> FilterOutput:
    """The matches of rows for queries that are asked now and for which nothing matches the row."""

    def keeps(rows: npt.NDArray[np.int64], ids: QueryIds) -> Mask:
        is_kept = (versions[rows] >= first_versions[ids]) & ~np.isin(_pair_numbers(rows, ids), matched)
        return is_kept if asked is None else is_kept & np.isin(ids, asked)

    return narrowed(output, keeps)


def _pair_numbers(rows: npt.NDArray[np.int64], ids: QueryIds) -> npt.NDArray[np.int64]:
    return (rows.astype(np.int64) << 32) | ids.astype(np.int64)


def _with_reach(plan: StreamPlan, reach_us: int | None) -> QueryIds | None:
    """The queries of an outer join that decide at this reach; None: all of them."""
    if reach_us is None:
        return None
    found = [
        segment.ids
        for segment in plan.segments
        if segment.shape.join is not None and segment.shape.join.reach_us[0][1] == reach_us
    ]
    return np.concatenate([np.empty(0, np.int32), *found])
