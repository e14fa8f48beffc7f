"""What every stage can do.

A stage is built from a plan, fed batches, and can be looked at, checked, saved and loaded. It knows nothing of Spark, of SQL
text or of who listens. `push` is pure but for the stage's own state: clock and randomness come with the round.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, Protocol, TypeVar

from eddyline.batch import TupleBatch
from eddyline.model import Round

Plan = TypeVar("Plan", contravariant=True)
Output = TypeVar("Output", covariant=True)


class Stage(Protocol, Generic[Plan, Output]):
    def build(self, plan: Plan) -> None:
        """Adopt a plan version; called between rounds only."""

    def push(self, batch: TupleBatch, round_: Round) -> Output:
        """Work on one batch of a round."""

    def snapshot(self) -> dict[str, Any]:
        """A frozen view of the state, for explain, the dashboard and tests."""

    def check(self) -> None:
        """Assert the stage's invariants."""

    def save(self) -> Sequence[bytes]:
        """State that must survive, as opaque blocks."""

    def load(self, blocks: Sequence[bytes]) -> None:
        """The inverse of save."""
