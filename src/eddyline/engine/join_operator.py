"""All joins of a place: its signatures share SteMs, tables and rules.

Joins over views come after what makes the rows of the views, so there is an operator for each level: the signatures whose inputs
are complete once those of the levels below have been joined. All levels are one `Joins`.

A worker that joins a share of a round has the same operator as the driver, over a copy of what the driver holds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.batch import QueryIds, TupleBatch, concatenated
from eddyline.engine.identities import encoded
from eddyline.engine.join_plans import BOTH, MATCH
from eddyline.engine.join_visibility import queries_of
from eddyline.engine.letters import key_letters
from eddyline.engine.outer_changes import changed_outer_joins, outer_answer, outer_changes
from eddyline.engine.rule_tables import RuleTables
from eddyline.events import Event, ProbesReordered
from eddyline.expressions import Context
from eddyline.filters import FilterStage
from eddyline.joins import (
    JoinedRows,
    JoinPlan,
    JoinStage,
    KeyedTable,
    SignaturePlan,
    TableChanges,
    UndecidedRows,
    net_changes,
)
from eddyline.model import DeadLetter, ExecutionChoices, Role, Round, Signature, StreamPlan
from eddyline.operators import (
    WHOLE,
    ArrivedRows,
    Derived,
    DerivedNumbers,
    Identity,
    Numbers,
    OperatorInput,
    PossiblePartners,
    Repeated,
    RoundProgress,
    Share,
    ShownRows,
    StatelessOperator,
    Unmatched,
    WantedMasks,
)
from eddyline.routing import ADAPTIVE, RoutingOptions
from eddyline.sql import input_names, signature_words


@dataclass(frozen=True, slots=True)
class FirstAnswer:
    """Queries that are to see a join of tables as it is now, and what has the rows of its first input."""

    signature: SignaturePlan
    query_ids: QueryIds
    current_rows: Callable[[], ArrivedRows]


class Joins(StatelessOperator):
    """The joins of one place."""

    level, order = 0, (0, 3)  # as an operator of its own, where nothing is counted

    def __init__(
        self,
        context: Context,
        tables: Mapping[str, KeyedTable],
        new_filters: Callable[[], FilterStage],
        *,
        routing: RoutingOptions = ADAPTIVE,
        seed: int = 0,
        clock: Callable[[], float] = time.thread_time,
        changes_of: Callable[[str], TableChanges | None] = lambda table: None,
        first_answers: Callable[[], Sequence[FirstAnswer]] = tuple,
        recounts: Callable[[], Sequence[FirstAnswer]] = tuple,
    ) -> None:
        """`changes_of` are the changes that the running round brought to a table, `first_answers` what it owes to new queries,
        and `recounts` to those whose results it has to count first."""
        self.stage = JoinStage(context, routing=routing, seed=seed, clock=clock)
        self.stage.tables = tables
        self.rules = RuleTables(tables, self.stage.evaluate, new_filters)
        self.stage.look_up = self.rules.partner
        self._changes_of = changes_of
        self._first_answers = first_answers
        self._recounts = recounts
        self._plan = JoinPlan(-1)  # that of the running round
        self._letters: list[DeadLetter] = []
        self._round_number = 0  # of the round that is joined
        self._arrived: set[str] = set()  # relations that the running round has brought so far

    def build(self, plan: JoinPlan, plans: Mapping[str, StreamPlan]) -> None:
        """Adopt a version of the plan, between rounds. `plans` are those of the queries, by signature."""
        self.stage.build(plan)
        try:
            self.rules.fit(plan, plans)
        except BaseException:
            self.stage.plan = JoinPlan(-1)  # the next round builds anew
            raise

    def begin(self, plan: JoinPlan, numbers: DerivedNumbers, choices: ExecutionChoices) -> None:
        """A round begins that was planned with this version; a newer one may have been adopted since."""
        self._plan, self._letters, self._arrived = plan, [], set()
        self.stage.begin(numbers, choices, is_planned=plan is self.stage.plan)
        self.rules.choices = choices

    def inputs(self, relation: str) -> list[OperatorInput]:
        return [(each.name, place) for each, place in self._plan.inputs.get(relation, ())]

    def recounted(
        self,
        rows: Mapping[str, ArrivedRows],
        progress: RoundProgress,
        round_: Round,
        signatures: frozenset[str] | None = None,
    ) -> Iterator[Derived]:
        for recount in self._recounts():
            if signatures is None or recount.signature.name in signatures:
                for derived in self._answer(recount, progress, round_):
                    yield replace(derived, is_recount=True)

    def current(
        self, progress: RoundProgress, round_: Round, signatures: frozenset[str] | None = None
    ) -> Iterator[Derived]:
        for answer in self._first_answers():
            if signatures is None or answer.signature.name in signatures:
                yield from self._answer(answer, progress, round_)

    def _answer(self, answer: FirstAnswer, progress: RoundProgress, round_: Round) -> Iterator[Derived]:
        rows = answer.current_rows()
        if not len(rows.batch):
            return
        if answer.signature.signature.outer:
            for derived in outer_answer(
                self.stage, answer.signature, rows, progress, round_, self._combined_identity
            ):
                yield replace(derived, only=answer.query_ids)
        else:
            for joined in self.stage.answer(answer.signature, rows, progress, round_):
                name, signature = answer.signature.name.lower(), answer.signature.signature
                numbers = joined.table_numbers
                assert numbers is not None, name
                shown = self._shown_rows(joined.batch, numbers, signature) if signature.is_counted else None
                yield Derived(
                    name,
                    joined.batch,
                    phase=1,
                    only=answer.query_ids,
                    shown=shown,
                    identity=self._identity(signature, numbers),
                )

    def push(
        self,
        arrived: Mapping[str, ArrivedRows],
        wanted: WantedMasks,
        progress: RoundProgress,
        round_: Round,
        share: Share,
        signatures: frozenset[str] | None = None,
    ) -> Iterator[Derived]:
        """Join what came, or a share of it; called for each level of a round with all rows there are by then."""
        new = {name: rows for name, rows in arrived.items() if name not in self._arrived}
        self._arrived.update(new)
        for name, rows in new.items():
            changes = self._changes_of(name)
            if changes is not None:
                self.rules.changed(name, changes, rows.batch)
        self._round_number = round_.number
        mine = {name: rows for name, rows in arrived.items() if name in self._plan.inputs}
        if not mine:
            return
        if share.relations is None:  # the place that keeps state sees all rows, and others parts of them
            letters = {name: rows for name, rows in mine.items() if name in new}
            self._letters += key_letters(round_.number, self._plan, letters, wanted, self.stage.failures)
        part = self._part(share, signatures)
        # of joins of tables
        table_changes: dict[str, list[JoinedRows]] = {
            name: [] for name in changed_outer_joins(self.stage, mine, part)
        }
        for joined in self.stage.push(mine, wanted, progress, round_, part):
            if isinstance(joined, JoinedRows) and self._plan.by_name[joined.signature].signature.is_of_tables:
                table_changes.setdefault(joined.signature, []).append(joined)
            else:
                yield from self._derived(joined)
        if table_changes:
            newcomers = {
                answer.signature.name: queries_of(answer.query_ids) for answer in self._first_answers()
            }
            for name, joined_rows in table_changes.items():
                derived = self._net(name, joined_rows, round_) if joined_rows else None
                plan = self.stage.plan.by_name[name]
                if plan.signature.outer:
                    derived = outer_changes(
                        self.stage, plan, joined_rows, derived, mine, wanted, progress, round_
                    )
                if derived is not None and len(derived.batch):
                    yield replace(derived, without=newcomers.get(name))

    def _net(self, name: str, joined_rows: list[JoinedRows], round_: Round) -> Derived:
        """What remains of the changes of a join of tables, whose rows are identified by the keys of its inputs."""
        batch = concatenated([each.batch for each in joined_rows])
        numbers = np.concatenate(
            [each.table_numbers for each in joined_rows if each.table_numbers is not None]
        )
        signature = self._plan.by_name[name].signature
        owners = self._owners(numbers, signature)
        net = net_changes(_groups(owners), batch.sign)  # by the change that made a row, which is its latest
        rows = net.rows
        if signature.is_counted:
            places = [at for at in range(len(signature)) if at not in signature.hidden_places]
            rows = rows[np.lexsort((batch.sign[rows], _groups(owners[rows][:, places])))]
        numbered = replace(batch.take(rows), arrival=np.sort(batch.arrival[rows]))
        latest = np.concatenate([each.latest for each in joined_rows])[rows]
        derived = Derived(
            name.lower(),
            self._with_rows_that_left(numbered, latest, signature),
            phase=1,
            versions=np.concatenate([each.version for each in joined_rows])[rows],
            identity=self._identity(signature, numbers[rows]),
        )
        if signature.is_counted:
            shown = self._shown_rows(numbered, numbers[rows], signature, round_.first_arrival)
            return replace(derived, shown=shown)
        return replace(derived, preimages=net.preimages)

    def _with_rows_that_left(self, batch: TupleBatch, latest: Numbers, signature: Signature) -> TupleBatch:
        """Rows that leave a join of tables are derived by a change, which came as `latest`; they are made of the row that left
        with it. What leaves a view has as components the rows it was made of."""
        assert batch.components is not None, signature.name
        components = batch.components.copy()
        for place, entry in enumerate(signature.inputs):
            if entry.role is not Role.VIEW:
                (column,) = signature.component_columns(place)
                rows = np.flatnonzero((batch.sign < 0) & (components[:, column] == latest))
                table = self.stage.tables[entry.stream.lower()]
                components[rows, column] = table.versions.replaced(batch.components[rows, column])
        return replace(batch, components=components)

    def _owners(self, numbers: Numbers, signature: Signature) -> Numbers:
        """For each row the numbers of the keys of its inputs, given those it has in these tables."""
        tables = [self.stage.tables[entry.stream.lower()] for entry in signature.inputs]
        return np.stack([table.versions.owners(numbers[:, at]) for at, table in enumerate(tables)], axis=1)

    def _keys(self, numbers: Numbers, signature: Signature) -> list[list[pa.Array]]:
        """The keys of the tables whose rows are shown, for rows with these numbers in them."""
        found = []
        for place, entry in enumerate(signature.inputs):
            if entry.is_shown:
                table = self.stage.tables[entry.stream.lower()]
                found.append(table.take(table.versions.rows_by_arrival(numbers[:, place]), table.key))
        return found

    def _combined_identity(self, joined: JoinedRows) -> Identity:
        assert joined.table_numbers is not None, joined.signature
        return self._identity(self._plan.by_name[joined.signature].signature, joined.table_numbers)

    def _identity(self, signature: Signature, numbers: Numbers) -> Identity:
        """What tells apart the rows of a join of tables, which have these numbers there."""
        return lambda places: encoded(
            [key for keys in self._keys(numbers[places], signature) for key in keys]
        )

    def _shown_rows(
        self,
        batch: TupleBatch,
        numbers: Numbers,
        signature: Signature,
        first_arrival: int | None = None,
    ) -> ShownRows:
        """What a semi join of tables shows. Rows from `first_arrival` on are new; None: none are."""
        components, shown_columns = batch.components, signature.shown_columns
        assert components is not None, signature.name
        assert shown_columns is not None, signature.name
        arrays = [key for keys in self._keys(numbers, signature) for key in keys]
        keys = pa.RecordBatch.from_arrays(arrays, names=[str(at) for at in range(len(arrays))])
        shown = np.array([at for at in range(len(signature)) if at not in signature.hidden_places])
        newest = components[:, shown_columns].max(axis=1, initial=0)
        is_new = np.zeros(len(batch), dtype=bool) if first_arrival is None else newest >= first_arrival
        return ShownRows(keys, _groups(self._owners(numbers, signature)[:, shown]), is_new)

    def advance(
        self, progress: RoundProgress, round_: Round, signatures: frozenset[str] | None = None
    ) -> Iterator[Derived]:
        for undecided in self.stage.decide(progress, round_, self._part(WHOLE, signatures)):
            if undecided.signature in self._plan.by_name:  # one that was registered since has had no rows yet
                yield from self._derived(undecided)

    def _part(self, share: Share, signatures: frozenset[str] | None) -> Share:
        """A share of some signatures, None: of all."""
        planned = frozenset(self._plan.by_name) if share.relations is None else share.relations
        return replace(share, relations=planned if signatures is None else planned & signatures)

    def _derived(self, rows: JoinedRows | UndecidedRows) -> Iterator[Derived]:
        name, signature = rows.signature, self._plan.by_name[rows.signature].signature
        outer = signature.outer
        if isinstance(rows, UndecidedRows):
            matched = [PossiblePartners(each.batch, each.version, each.driver) for each in rows.matched_rows]
            unmatched = Unmatched(f"{name}/{MATCH}".lower(), matched, rows.reach_us)
            yield Derived(
                name.lower(),
                rows.unmatched_rows,
                phase=1,
                versions=rows.version,
                unmatched=unmatched,
                at_end=rows.at_end,
            )
        elif outer != "left anti":
            relation = (f"{name}/{BOTH}" if outer else name).lower()
            repeated = _repeated(rows.batch, signature)
            yield Derived(relation, rows.batch, versions=rows.version, repeated=repeated, at_end=rows.at_end)

    def take_letters(self) -> list[DeadLetter]:
        letters, self._letters = self._letters, []
        return letters

    def events(self) -> list[Event]:
        found = [event for filters in self.rules.filters() for event in filters.events()]
        for (name, place), origin in self.stage.origins.items():
            signature = self.stage.plan.by_name[name].signature
            for before, after in origin.order.take_changes():
                found.append(self._reordered(signature, place, origin.order.policy, before, after))
        return found

    def _reordered(
        self,
        signature: Signature,
        origin: int,
        policy: str,
        before: tuple[int, ...],
        after: tuple[int, ...],
    ) -> Event:
        names = input_names(signature)
        at = next(place for place, (old, new) in enumerate(zip(before, after, strict=True)) if old != new)
        return ProbesReordered(
            self._round_number,
            signature_words(signature),
            names[origin],
            policy,
            tuple(names[each] for each in after),
            names[after[at]],
            names[before[at]],
            at,
        )

    def commit(self, progress: RoundProgress, round_: Round, busy: AbstractSet[str] = frozenset()) -> None:
        """Keep what the round built; `progress` is that after it. Before the tables commit. Rows of `busy` streams stay."""
        self.stage.commit(progress, round_, busy)
        self.rules.commit()

    def rollback(self) -> None:
        self._letters = []
        self.stage.rollback()
        self.rules.rollback()

    def snapshot(self) -> dict[str, Any]:
        return self.stage.snapshot()

    def check(self) -> None:
        self.stage.check()

    def close(self) -> None:
        self.rules.close()


class JoinLevel(StatelessOperator):
    """The joins whose inputs are complete at one level, as an operator of the walk."""

    def __init__(
        self, joins: Joins, signatures: frozenset[str], unfinished: frozenset[str], level: int
    ) -> None:
        """Rows of views that are `unfinished` are left to a later level: more of them are to come."""
        self.level, self.order = level, (level - 1, 3)
        self._joins = joins
        self._signatures = signatures
        self._unfinished = unfinished

    def inputs(self, relation: str) -> list[OperatorInput]:
        return [] if relation in self._unfinished else self._joins.inputs(relation)

    def recounted(
        self, rows: Mapping[str, ArrivedRows], progress: RoundProgress, round_: Round
    ) -> Iterator[Derived]:
        return self._joins.recounted(rows, progress, round_, self._signatures)

    def current(self, progress: RoundProgress, round_: Round) -> Iterator[Derived]:
        return self._joins.current(progress, round_, self._signatures)

    def push(
        self,
        arrived: Mapping[str, ArrivedRows],
        wanted: WantedMasks,
        progress: RoundProgress,
        round_: Round,
        share: Share,
    ) -> Iterator[Derived]:
        finished = {name: rows for name, rows in arrived.items() if name not in self._unfinished}
        return self._joins.push(finished, wanted, progress, round_, share, self._signatures)

    def advance(self, progress: RoundProgress, round_: Round) -> Iterator[Derived]:
        return self._joins.advance(progress, round_, self._signatures)

    def take_letters(self) -> list[DeadLetter]:
        return self._joins.take_letters()

    def events(self) -> list[Event]:
        return self._joins.events()


def _groups(numbers: Numbers) -> Numbers:
    """Rows with the same numbers have the same group; groups are numbered in the order of their first rows."""
    _, first, inverse = np.unique(numbers, axis=0, return_index=True, return_inverse=True)
    found: Numbers = np.argsort(np.argsort(first))[inverse.reshape(-1)]
    return found


def _repeated(batch: TupleBatch, signature: Signature) -> Repeated | None:
    """Which rows of a semi join are one result: those that differ in rows of hidden inputs only, the smallest lineage first."""
    shown = signature.shown_columns
    if shown is None:
        return None
    components = batch.components
    assert components is not None, signature.name
    _, group = np.unique(components[:, shown], axis=0, return_inverse=True)
    rank = np.empty(len(batch), np.int64)
    rank[np.lexsort(components.T[::-1])] = np.arange(len(batch))
    return Repeated(group.reshape(-1).astype(np.int64), rank)
