"""Joins and tables in a round: who wants which rows, what they meet, and which queries see what comes of it.

plan      the plans of all signatures are pinned, with the version
work      tables change; local filters say which rows each input wants (join_plans.py); the join stage builds and probes
          (joins/stage.py); what comes of it are rows of streams of their own, for the filters of these
commit    what was built stays, and rows that no join can need any more leave
abort     what was built is undone
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.batch import TupleBatch
from eddyline.catalog import Catalog, ListedFile
from eddyline.engine.durable import Durable
from eddyline.engine.event_time import event_times
from eddyline.engine.join_calls import JoinCalls
from eddyline.engine.join_groups import groups_of
from eddyline.engine.join_letters import key_letters
from eddyline.engine.join_plans import BOTH, MATCH, DerivedPlans, cheap, join_plan, local
from eddyline.engine.join_tasks import SharedRows
from eddyline.engine.join_visibility import (
    FirstVersions,
    Partners,
    alone,
    first_versions,
    only,
    partners,
    visible,
    with_reach,
)
from eddyline.engine.rule_tables import RuleTables
from eddyline.engine.tables import PlannedTables, Tables, horizons
from eddyline.engine.window_files import WindowFiles, stored_rows
from eddyline.events import Event
from eddyline.expressions import CallResult, Context
from eddyline.filters import FilterOutput, FilterStage
from eddyline.joins import (
    WHOLE,
    ArrivedRows,
    Deltas,
    JoinedRows,
    JoinPlan,
    JoinStage,
    RoundProgress,
    Share,
    UndecidedRows,
    arrived_rows,
)
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
    first_versions: dict[str, FirstVersions]  # by signature
    groups: list[frozenset[str]]  # streams that joins connect
    incarnations: dict[str, int]  # how often a stream of a name was dropped
    tables: PlannedTables | None = None  # None: there are none

    def with_partners(self, names: list[str]) -> list[str]:
        """These streams and all they are joined with."""
        partners = [sorted(group) for group in self.groups if group & set(names)]
        return list(dict.fromkeys([*names, *(name for group in partners for name in group)]))


@dataclass(frozen=True, slots=True)
class DerivedBatch:
    """Rows that a round has made besides those that came, for the queries of a plan; `seen` narrows what they see of it."""

    stage: str  # whose filters decide
    plan: StreamPlan
    batch: TupleBatch
    seen: Seen | None = None
    signature: Signature | None = None  # whose rows they are, if a join made them


# rows of an input that is expensive to ask are asked only once they have found partners, if few of so many did
FEW_MATCHED, JUDGED_BY = 0.5, 1_000


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
        self._time_zone = context.time_zone
        self._make_filters = make_filters
        self.stage = JoinStage(context, policy=policy, seed=seed)
        self.tables = Tables(catalog, self.stage.evaluate, durable, context.time_zone)
        self.stage.tables = self.tables.tables
        self.rules = RuleTables(self.tables.tables, self.stage.evaluate, make_filters)
        self.stage.look_up = self.rules.partner
        self._files = None if durable is None else WindowFiles(durable)
        self._known: tuple[tuple[object, ...], PlannedJoins] | None = None
        self._locals: dict[tuple[str, str], FilterStage] = {}  # by signature and variant of its plan
        self._derived = DerivedPlans()
        self._incarnations: dict[str, int] = {}  # how often a stream of a name was dropped
        self._built_incarnations: dict[str, int] = {}  # as the stage and the tables know it
        self.left: list[
            str
        ] = []  # filters that no query needs any more (`DerivedBatch.stage`), until they are closed
        # in the round that is running: rows without a key, or with one in error
        self.letters: list[DeadLetter] = []
        self.calls = JoinCalls()

    # ----------------------------------------------------------------------------------------- step 1

    def plan(self, progress: Mapping[str, StreamProgress]) -> PlannedJoins | None:
        """What joins and tables want, as of now; None if there are none."""
        catalog = self._catalog
        tables = self.tables.plan()
        signatures = catalog.plans.signatures()
        is_any_kept = bool(self.stage.stems) or (self._files is not None and self._files.has_any)
        if not signatures and not is_any_kept and tables is None:
            return None
        plans = {signature.name: catalog.plan(signature.name) for signature in signatures}
        names = {name.lower() for signature in signatures for name in signature.streams}
        streams = {name: catalog.stream(name) for name in sorted(names)}
        keyed = () if tables is None else tables.streams.values()
        key = (*plans.values(), *streams.values(), *keyed)
        if self._known is None or not _all_same(self._known[0], key):
            self._known = key, self._new_plan(plans, streams)
        where = {name: progress.get(name, StreamProgress()) for name in streams}
        return replace(self._known[1], progress=where, tables=tables)

    def _new_plan(self, plans: dict[str, StreamPlan], streams: dict[str, Stream]) -> PlannedJoins:
        """The next plan; of signatures in which nothing has changed, what the last one knew."""
        catalog, last = self._catalog, None if self._known is None else self._known[1]
        same = {} if last is None else {n: last for n, plan in plans.items() if last.plans.get(n) is plan}
        signatures = catalog.plans.signatures()
        return PlannedJoins(
            join_plan(
                0 if last is None else last.plan.version + 1,
                catalog,
                plans,
                {name: known.plan.by_name[name] for name, known in same.items()},
                {} if last is None else last.plan.by_name,
            ),
            plans,
            streams,
            {},
            {
                name: same[name].first_versions[name] if name in same else first_versions(plan, catalog)
                for name, plan in plans.items()
            },
            groups_of(signatures),
            dict(self._incarnations),
        )

    # ----------------------------------------------------------------------------------------- step 3

    def work(
        self,
        round_: Round,
        planned: PlannedJoins,
        batches: Mapping[str, TupleBatch],
        plans: Mapping[str, StreamPlan],
        deletes: Mapping[str, Mask],
        shared: SharedRows | None = None,
        share: Share = WHOLE,
        n_made: int = 0,
    ) -> Iterator[DerivedBatch]:
        """What the round makes besides the rows that came; all of it must be taken. `plans` are those of the rows' streams.

        Rows that came through tasks are in `shared`, as far as they are wanted; `share` says what of the joins is done here.
        `n_made` rows were made elsewhere.
        """
        self._build(planned)
        self.stage.begin(round_.first_derived + n_made)
        self.letters = []
        before = RoundProgress({name: _n_counted(at) for name, at in planned.progress.items()}, {})
        if planned.tables is not None:
            yield from self._answers(planned, planned.tables, before, round_)
        came: dict[str, ArrivedRows] = {} if shared is None else dict(shared.came)
        for name, batch in batches.items():
            if planned.tables is not None and name in planned.tables.streams:
                deltas = self._change(round_, planned.tables.streams[name], batch, deletes.get(name))
                came[name] = _as_rows(name, deltas)
                yield DerivedBatch(name, plans[name], self._changed(planned.tables.streams[name], deltas))
            elif name in planned.streams and len(batch):
                times = event_times(planned.streams[name], batch.rows, self._time_zone)
                came[name] = arrived_rows(batch, times, _n_counted(planned.progress[name]))
        came = {name: rows for name, rows in came.items() if name in planned.streams}
        if came:
            wanted = self._wanted(planned, came, round_) if shared is None else shared.wanted
            self.letters += key_letters(round_, planned.plan, came, wanted, self.stage.failures)
            known = replace(share, signatures=share.signatures or frozenset(planned.plans))
            for made in self.stage.push(came, wanted, before, round_, known):
                yield from self._made(planned, made, round_)

    def decide(
        self, round_: Round, planned: PlannedJoins, progress: Mapping[str, StreamProgress]
    ) -> Iterator[DerivedBatch]:
        """Rows of outer joins for which no partner can come any more, given where the streams of the round will stand."""
        after = {name: progress.get(name, at) for name, at in planned.progress.items()}
        for deciding in self.stage.decide(_standing(after), round_):
            if deciding.signature in planned.plans:  # one that came since has had no rows yet
                yield from self._made(planned, deciding, round_)

    def _build(self, planned: PlannedJoins) -> None:
        if planned.plan.version <= self.stage.plan.version:
            return  # a round that was planned earlier may work later: what stands since then stays
        born = [
            name for name, n in planned.incarnations.items() if self._built_incarnations.get(name, 0) != n
        ]
        self.stage.forget(born)
        self.tables.forget(born)
        self._built_incarnations = planned.incarnations
        if planned.tables is not None:
            self.tables.fit(planned.tables)
        before = self.stage.plan.by_name.keys()
        self.stage.build(planned.plan)
        for name in before - planned.plans.keys():
            self.left += [name.lower(), f"{name}/{BOTH}".lower()]
        try:
            self.rules.fit(planned.plan, planned.plans)
        except BaseException:
            self.stage.plan = JoinPlan(-1)  # the next round builds anew
            raise
        for gone in [key for key in self._locals if key[0] not in planned.plans]:
            self._locals.pop(gone).close()
        self._derived.keep(planned.plans)

    def _wanted(
        self, planned: PlannedJoins, came: Mapping[str, ArrivedRows], round_: Round
    ) -> dict[tuple[str, int], Mask]:
        wanted: dict[tuple[str, int], Mask] = {}
        for name, rows in came.items():
            for each, place in planned.plan.inputs[name]:
                plan = planned.plans[each.name]
                wanted[each.name, place] = self._wanted_by(plan, place, rows.batch, round_)
        return wanted

    def _wanted_by(self, plan: StreamPlan, place: int, batch: TupleBatch, round_: Round) -> Mask:
        variant = self._variant(plan, place)
        if self._derived.wants_all(plan, variant):
            return np.ones(len(batch), dtype=bool)
        stream = batch.stream.lower()
        output = self._decided(plan, variant, batch, round_, self.calls.of_rows(stream, batch))
        self.calls.keep_of_rows(stream, batch, self._stage(plan.stream, variant).call_results)
        wanted = np.diff(output.offsets) > 0
        wanted[output.dead_pairs.rows] = True  # not refuted: the join's own filters find the error again
        return wanted

    def _variant(self, plan: StreamPlan, place: int) -> str:
        """By which plan it is decided who wants rows of an input: by all that is said of it, or first by what is cheap to ask."""
        if self._derived.is_dear(plan, place) and self.asks_later(plan.stream, place):
            return cheap(place)
        return local(place)

    def asks_later(self, signature: str, place: int) -> bool:
        """Whether expensive conditions on an input are asked only of rows that have found partners."""
        n_rows, n_matched = self.stage.match_counts(signature, place)
        return n_rows >= JUDGED_BY and n_matched < FEW_MATCHED * n_rows

    def _decided(
        self,
        plan: StreamPlan,
        variant: str,
        batch: TupleBatch,
        round_: Round,
        known: Mapping[UserCall, CallResult] | None = None,
    ) -> FilterOutput:
        """What the queries of a plan that follows from another say of rows."""
        stage = self._stage(plan.stream, variant)
        stage.build(self._derived.of(plan, variant))
        return stage.push(batch, round_, known)

    def before(self, planned: PlannedJoins) -> RoundProgress:
        """Where the streams stand before a round."""
        return _standing(planned.progress)

    def window_files(self) -> list[tuple[ListedFile, int]]:
        """The files of what is kept, in order, each with the arrival number of its last row."""
        return [] if self._files is None else self._files.files()

    def local_plan(self, planned: PlannedJoins, signature: str, place: int) -> StreamPlan | None:
        """What the queries of a signature say of one input alone; None: some query needs all of its rows."""
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

    def _made(
        self, planned: PlannedJoins, made: JoinedRows | UndecidedRows, round_: Round
    ) -> Iterator[DerivedBatch]:
        """What the stage yields, as rows for filters."""
        name = made.signature
        plan, first = planned.plans[name], planned.first_versions[name]
        signature = planned.plan.by_name[name].signature
        if isinstance(made, JoinedRows):
            if signature.outer != "left anti":
                shown = self._derived.of(plan, BOTH) if signature.outer else plan
                seen = functools.partial(visible, versions=made.version, first=first)
                yield DerivedBatch(shown.stream.lower(), shown, made.batch, seen, signature)
            return
        seen = functools.partial(
            alone,
            versions=made.version,
            first=first,
            partners=self._partners(plan, first, made, round_),
            asked=with_reach(plan, made.reach_us),
        )
        yield DerivedBatch(name.lower(), plan, made.unmatched_rows, seen, signature)

    def _partners(
        self, plan: StreamPlan, first: FirstVersions, deciding: UndecidedRows, round_: Round
    ) -> Partners:
        """Which rows have a partner that the query sees."""
        return partners(
            [
                (
                    visible(self._decided(plan, MATCH, joined.batch, round_), joined.version, first),
                    joined.driver,
                )
                for joined in deciding.matched_rows
            ]
        )

    # ----------------------------------------------------------------------------------------- tables

    def _answers(
        self, planned: PlannedJoins, tables: PlannedTables, standing: RoundProgress, round_: Round
    ) -> Iterator[DerivedBatch]:
        """The answers of queries that are new to tables, as these stood before the round."""
        for name, plan, ids in self.tables.unanswered(tables):
            seen = functools.partial(only, ids=ids)
            if name in tables.streams:
                batch = self.tables.current(name)
                if len(batch):
                    yield DerivedBatch(name, plan, self._numbered(tables.streams[name], batch), seen)
            else:
                signature = planned.plan.by_name[name]
                first = signature.signature.inputs[0].stream.lower()
                rows = self.tables.current(first)
                if len(rows):
                    came = ArrivedRows(rows, self.tables.times(first), np.zeros(len(rows), np.int64))
                    for joined in self.stage.answer(signature, came, standing, round_):
                        yield DerivedBatch(name.lower(), plan, joined.batch, seen)

    def table_rows(self, planned: PlannedJoins, name: str) -> pa.RecordBatch:
        """The rows of a table as they stand, between rounds."""
        self._build(planned)
        return self.tables.current(name).rows

    def _change(self, round_: Round, stream: Stream, batch: TupleBatch, is_delete: Mask | None) -> Deltas:
        if is_delete is None:
            is_delete = np.zeros(len(batch), dtype=bool)
        deltas = self.tables.apply(round_, stream, batch, is_delete)
        self.rules.changed(stream.name.lower(), self.tables.changes_of(stream), deltas)
        self.letters += self.tables.letters(round_, stream, batch, deltas.misfits)
        return deltas

    def _changed(self, stream: Stream, deltas: Deltas) -> TupleBatch:
        """What changed in a table as rows of its stream, for queries over it alone."""
        n = len(deltas)
        batch = TupleBatch(stream.name, deltas.rows, deltas.arrival, deltas.sign, np.zeros(n, dtype=bool))
        return self._numbered(stream, batch)

    def _numbered(self, stream: Stream, batch: TupleBatch) -> TupleBatch:
        """Rows with numbers of their own: one change may be two rows, and an answer repeats rows of earlier rounds."""
        first, n = self.stage.numbers(len(batch)), len(batch)
        numbers = np.arange(first, first + n, dtype=np.int64)
        return TupleBatch(stream.name, batch.rows, numbers, batch.sign, batch.is_late, batch.arrival[:, None])

    # ----------------------------------------------------------------------------------------- step 4

    def save(self, round_number: int) -> tuple[list[ListedFile], list[str]]:
        """Files of what the round has kept, and those that are listed no longer once it has committed."""
        files, gone = self.tables.save(round_number)
        if self._files is not None:
            files += self._files.write(round_number, self.stage)
            gone += self._files.gone
        return files, gone

    def commit(self, round_: Round, planned: PlannedJoins, progress: Mapping[str, StreamProgress]) -> None:
        """Keep what was built; `progress` is where the streams of the round now stand."""
        after = {name: progress.get(name, at) for name, at in planned.progress.items()}
        self._build(planned)
        self.letters = []
        standing = _standing(after)
        self.stage.commit(standing, round_)
        self.calls.forget(self.stage.windows.first_arrivals())
        signatures = [each.signature for each in planned.plan.signatures]
        self.rules.commit()
        own = {name: at.watermark_us for name, at in progress.items()}
        self.tables.commit(round_, horizons(signatures, standing.watermarks_us, own))
        if self._files is not None:
            self._files.commit()

    def rollback(self) -> None:
        self.letters = []
        self.stage.rollback()
        self.rules.rollback()
        self.tables.rollback()
        if self._files is not None:
            self._files.rollback()

    def restore(self, progress: Mapping[str, StreamProgress], version: int, now_us: int) -> None:
        """After opening a home: what was kept after the last committed round, which saw this version."""
        assert self._files is not None
        blocks = list(self._files.restore())
        planned = self.plan(progress)
        if planned is None:
            self.tables.restore(version, progress.keys())
            return
        self._build(planned)  # so that tables know whether to keep history
        self.tables.restore(version, progress.keys())
        self.rules.fill()
        for block in blocks:
            self.stage.windows.restore(block.stream, functools.partial(stored_rows, block))
        self.stage.commit(_standing(planned.progress), Round(0, 0, now_us, 0, 0, {}))

    def forget_stream(self, name: str) -> None:
        """A dropped stream leaves nothing."""
        self._incarnations[name] = self._incarnations.get(name, 0) + 1

    # ----------------------------------------------------------------------------------------- looking at it

    def snapshot(self) -> dict[str, Any]:
        return self.stage.snapshot() | {"tables": self.tables.snapshot()}

    def events(self) -> list[Event]:
        """What happened to its indexes since this was last asked."""
        stages = (*self._locals.values(), *self.rules.filters())
        return [event for stage in stages for event in stage.events()]

    def close(self) -> None:
        self.rules.close()
        for stage in self._locals.values():
            stage.close()


def _all_same(old: tuple[object, ...], new: tuple[object, ...]) -> bool:
    return len(old) == len(new) and all(a is b for a, b in zip(old, new, strict=True))


def _n_counted(at: StreamProgress) -> int:
    """Late rows do not count."""
    return at.n_rows - at.n_late


def _standing(progress: Mapping[str, StreamProgress]) -> RoundProgress:
    """What is still to come of a stream is bounded by its own watermark alone: that of its partners says nothing of it."""
    return RoundProgress(
        {name: _n_counted(at) for name, at in progress.items()},
        {name: at.watermark_us for name, at in progress.items()},
    )


def _as_rows(name: str, deltas: Deltas) -> ArrivedRows:
    """What changed in a table, at the numbers of the changes."""
    n = len(deltas)
    batch = TupleBatch(name, deltas.rows, deltas.arrival, deltas.sign, np.zeros(n, dtype=bool))
    return ArrivedRows(batch, deltas.time_us, np.zeros(n, np.int64))
