"""What operators keep from round to round, in the place that holds all of it: tables, joins, counts of results.

The place (driver_flow.py) goes over all of them: a further kind of operator is one more class of this kind.

  build      adopt a version of the plan, between rounds
  begin      a round begins, and these operators of it are called by the walk
  save       files of what the round has kept
  commit     what was built stays
  rollback   it is undone
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from eddyline.catalog import ListedFile
from eddyline.engine.planned_flow import PlannedFlow
from eddyline.engine.round_output import RoundOutput
from eddyline.model import ExecutionChoices, Round, StreamProgress
from eddyline.operators import DerivedNumbers, Operator


@dataclass(frozen=True, slots=True)
class RoundEnd:
    """A round that has committed, as operators see it."""

    round: Round
    planned: PlannedFlow
    progress: Mapping[str, StreamProgress]  # of all streams, after it
    output: RoundOutput  # what was done in all places; events may be added
    choices: ExecutionChoices
    busy: AbstractSet[str]  # streams with rounds that are worked on: their rows stay


class OperatorState:
    """With the obvious answers, for what needs less."""

    def build(self, planned: PlannedFlow, renewed: Sequence[str]) -> None:
        """Adopt a version of the plan, after what it stands on has; `renewed` streams were dropped and may be declared anew."""

    def begin(
        self, planned: PlannedFlow, numbers: DerivedNumbers, choices: ExecutionChoices
    ) -> Sequence[Operator]:
        """A round begins; gives its operators, those below first."""
        return ()

    def save(self, round_number: int) -> tuple[list[ListedFile], list[str]]:
        """Files of what the round has kept, and those that are listed no longer once it has committed."""
        return [], []

    def commit(self, end: RoundEnd) -> None:
        """Keep what was built, before what it stands on does."""

    def rollback(self) -> None:
        """Undo what was built."""

    def close(self) -> None:
        """Let go of processes and files."""
