"""The joins of the driver with all that is kept for them: views over tables, what functions gave on their rows, and files."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

from eddyline.catalog import Catalog, ListedFile
from eddyline.engine.condition_placement import ConditionPlacements
from eddyline.engine.join_calls import JoinCalls
from eddyline.engine.join_operator import JoinLevel, Joins
from eddyline.engine.join_plans import BOTH, MATCH, join_plan
from eddyline.engine.join_visibility import FirstVersions, first_versions
from eddyline.engine.operator_states import OperatorState, RoundEnd
from eddyline.engine.planned_flow import PlannedFlow, PlannedJoins
from eddyline.engine.view_tables import ViewTableLevel, ViewTables
from eddyline.engine.window_files import WindowFiles, stored_rows
from eddyline.joins import SignaturePlan
from eddyline.model import ExecutionChoices, Round, StreamPlan
from eddyline.operators import DerivedNumbers, Operator
from eddyline.storage import WindowBlock


class KeptJoins(OperatorState):
    """Built after the tables, which joins look up."""

    def __init__(
        self,
        joins: Joins,
        view_tables: ViewTables,
        calls: JoinCalls,
        placements: ConditionPlacements,
        files: WindowFiles | None,
    ) -> None:
        """Without `files` nothing outlives the process."""
        self._joins = joins
        self._view_tables = view_tables
        self._calls = calls
        self._placements = placements
        self._files = files

    @property
    def has_any(self) -> bool:
        """Whether rows of streams are kept, or files list some."""
        return bool(self._joins.stage.stems) or (self._files is not None and self._files.has_any)

    def build(self, planned: PlannedFlow, renewed: Sequence[str]) -> None:
        plan = planned.joins.plan
        self._joins.stage.forget(renewed)
        self._view_tables.fit(plan.view_names, planned.kept_views, plan.schemas)
        self._joins.build(plan, planned.joins.queries)
        self._placements.keep(planned.joins.queries)

    def begin(
        self, planned: PlannedFlow, numbers: DerivedNumbers, choices: ExecutionChoices
    ) -> Sequence[Operator]:
        self._calls.shared_numbers = planned.views.shared_numbers
        self._view_tables.begin(planned.kept_views.keys())
        self._joins.begin(planned.joins.plan, numbers, choices)
        return [
            operator
            for level in range(len(planned.views.join_levels))
            for operator in self._level(planned, level)
        ]

    def _level(self, planned: PlannedFlow, level: int) -> tuple[Operator, Operator]:
        """The views that are complete by then, and the joins that can be made of them."""
        views = planned.views
        complete = planned.kept_views.keys() & views.complete_before(level)
        return (
            ViewTableLevel(self._view_tables, complete, level),
            JoinLevel(self._joins, views.join_levels[level], views.unfinished(level), level + 1),
        )

    def save(self, round_number: int) -> tuple[list[ListedFile], list[str]]:
        if self._files is None:
            return [], []
        return self._files.write(round_number, self._joins.stage), self._files.gone

    def commit(self, end: RoundEnd) -> None:
        stage = self._joins.stage
        stage.add_probe_counts(end.output.probes)
        end.output.events += self._placements.observe(end.round.number, end.output, end.choices)
        self._joins.commit(end.planned.after(end.progress), end.round, end.busy)
        self._calls.forget(stage.windows.first_arrivals())
        self._view_tables.commit()
        if self._files is not None:
            self._files.commit()

    def rollback(self) -> None:
        self._joins.rollback()
        self._view_tables.rollback()
        if self._files is not None:
            self._files.rollback()

    def stored_blocks(self) -> list[WindowBlock]:
        """After opening a home: the rows that are kept, oldest first."""
        assert self._files is not None
        return list(self._files.restore())

    def restore(self, blocks: Sequence[WindowBlock], planned: PlannedFlow, now_us: int) -> None:
        """Hold these rows, once the tables are there."""
        stage = self._joins.stage
        self._joins.rules.fill()
        for block in blocks:
            stage.windows.restore(block.stream, functools.partial(stored_rows, block))
        stage.commit(planned.before, Round(0, 0, now_us, 0, 0, {}))

    def files(self) -> list[tuple[ListedFile, int]]:
        """In order, each with the arrival number of its last row."""
        return [] if self._files is None else self._files.files()

    def close(self) -> None:
        self._joins.close()


def planned_joins(catalog: Catalog, plans: dict[str, StreamPlan], last: PlannedJoins | None) -> PlannedJoins:
    """What is to be joined for these queries, by signature; what has not changed is taken from the last plan."""
    known: dict[str, SignaturePlan] = {}
    before: Mapping[str, SignaturePlan] = {}
    first: dict[str, FirstVersions] = {}
    version = 0
    if last is not None:
        before, version = last.plan.by_name, last.plan.version + 1
        same = [name for name, plan in plans.items() if last.queries.get(name) is plan]
        known = {name: before[name] for name in same}
        first = {name: last.first_versions[name] for name in same}
    return PlannedJoins(
        join_plan(version, catalog, plans, known, before),
        plans,
        {name: first.get(name) or first_versions(plan, catalog) for name, plan in plans.items()},
        {
            (name if variant is None else f"{name}/{variant}").lower(): (name, variant)
            for name in plans
            for variant in (None, BOTH, MATCH)
        },
    )
