"""What a push returns: which rows matched which queries, looked up only as far as it is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.api.query import Query
from eddyline.engine import Outcome
from eddyline.errors import QueryStateError, UnknownNameError, did_you_mean
from eddyline.filters import FilterOutput
from eddyline.notebook import SHOWN_ROWS, html_table

if TYPE_CHECKING:
    from eddyline.api.engine import Engine


class Matches:
    """The matches of one round."""

    def __init__(self, engine: Engine, outcome: Outcome) -> None:
        self._engine = engine
        self._outcome = outcome

    @property
    def count(self) -> int:
        """How many (row, query) pairs matched."""
        return self._outcome.n_results

    @property
    def round_number(self) -> int:
        return self._outcome.round.number

    @property
    def version(self) -> int:
        """The catalog version the round saw."""
        return self._outcome.round.version

    @property
    def n_dead(self) -> int:
        """How many rows and pairs went to the dead letters."""
        return self._outcome.n_dead

    @property
    def n_rows(self) -> int:
        """How many rows the round had, of all streams."""
        return sum(self._outcome.round.n_rows.values())

    @property
    def n_late(self) -> int:
        return self._outcome.n_late

    @property
    def is_repeat(self) -> bool:
        """Whether the token had been pushed before, so that nothing happened now."""
        return self._outcome.is_repeat

    def pairs(self, stream: str | None = None) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
        """Row offsets and query ids: the queries that row i matched are `ids[offsets[i]:offsets[i + 1]]`, in no particular order.

        With rows of several streams in the push, name the one to look at. Where nothing has to be put together the arrays are
        those of the engine: do not change them.
        """
        return self._output(stream).pairs()

    def rows(self, stream: str | None = None) -> npt.NDArray[np.int64]:
        """The row number of each pair, beside the ids of `pairs`."""
        offsets = self._output(stream).offsets
        return np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))

    def to_arrow(self, query: Query | str | int) -> pa.Table:
        """The result rows of one query in this round."""
        handle = self._engine.get(query)
        parts = [part for output in self._outputs().values() for part in output.parts_of(handle.id)]
        batches = [part.project(np.arange(len(part))) for part in parts]
        found = pa.Table.from_batches(batches, batches[0].schema if batches else handle.schema)
        if len(parts) > 1:  # of a union
            numbers = np.concatenate([part.arrivals for part in parts])
            found = found.take(pa.array(np.argsort(numbers, kind="stable")))
        return found

    def queries(self) -> list[Query]:
        """The queries that matched something."""
        ids = {query_id for output in self._outputs().values() for query_id in output.query_ids().tolist()}
        return [Query(self._engine, query_id) for query_id in sorted(ids)]

    def _outputs(self) -> dict[str, FilterOutput]:
        if self._outcome.outputs is None:
            raise QueryStateError(
                f"the pairs of round {self.round_number} are no longer kept",
                hint="Its results can still be read from the queries.",
            )
        return dict(self._outcome.outputs)

    def _output(self, stream: str | None) -> FilterOutput:
        outputs = self._outputs()
        outputs = {name: output for name, output in outputs.items() if name in self._outcome.round.n_rows}
        if stream is None and len(outputs) == 1:
            return next(iter(outputs.values()))
        names = [output.batch.stream for output in outputs.values()]
        if stream is None:
            raise UnknownNameError(
                f"this round has rows of {len(outputs)} streams",
                hint=f"Name one: {', '.join(names)}." if names else "A tick has no rows.",
            )
        if stream.lower() not in outputs:
            raise UnknownNameError(
                f"this round has no rows of stream {stream}", hint=did_you_mean(stream, names, noun="stream")
            )
        return outputs[stream.lower()]

    def _repr_html_(self) -> str:
        found = [] if self._outcome.outputs is None else self.queries()
        shown = [(query.name, self.to_arrow(query).num_rows) for query in found[:SHOWN_ROWS]]
        return html_table(repr(self)[1:-1], ("query", "matches"), shown, more=len(found) - len(shown))

    def __repr__(self) -> str:
        rows = sum(self._outcome.round.n_rows.values())
        text = f"<round {self.round_number}: {rows} rows, {self.count} matches"
        if self.n_dead:
            text += f", {self.n_dead} dead letters"
        if self.n_late:
            text += f", {self.n_late} late rows"
        return text + (", seen before>" if self.is_repeat else ">")
