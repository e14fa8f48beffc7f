"""What the results of a round claim, for a judge.

Of a query over the rows of one stream: which of these are results. Of joins and tables: some results, each over the rows it is
made of. Of a union both, part by part: a judge is given rows of the inputs of one part, and none of the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.catalog import CommittedRound, StoredQuery
from eddyline.engine import ComponentRows, RoundEngine, RoundInputs
from eddyline.proof import Claim, InputRows, claim_inputs, no_columns
from eddyline.receipts.expansion import WrittenOut
from eddyline.receipts.occurrences import Occurrences
from eddyline.receipts.readings import BaseInput, ResultRow
from eddyline.receipts.receipts import functions_of, joined_rows, other_inputs
from eddyline.receipts.seen_columns import columns_seen
from eddyline.storage import NumberedRows, StoredPart

JOINED = 5  # results of a join query in a round
UNION_ROWS = 100  # of each input that a part of a union reads alone: they are judged one by one

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RoundResult:
    """A result of a round: its number, and where it is stored."""

    number: int
    part: StoredPart
    at: int

    def rows(self, written: WrittenOut, occurrences: Occurrences) -> list[ResultRow]:
        """The rows it is made of."""
        components, own = self.part.components, slice(self.at, self.at + 1)
        numbers = self.part.arrivals[own] if components is None else components[self.at]
        branch, sign = self.part.branch, int(self.part.signs[self.at])
        return written.rows_of(branch, occurrences.named(branch, numbers.tolist(), self.columns(), sign))

    def columns(self) -> pa.RecordBatch:
        return self.part.project(np.array([self.at]))


def round_results(parts: Iterable[StoredPart], query: StoredQuery) -> list[RoundResult]:
    """The results of a query over joins, tables or unions in a round, by their numbers."""
    found = [
        RoundResult(int(part.arrivals[at]), part, at)
        for part in parts
        for at in np.flatnonzero(part.query_ids == query.id).tolist()
    ]
    return sorted(found, key=lambda result: result.number)


class RoundClaims:
    """Claims of one query in one round."""

    def __init__(self, rounds: RoundEngine, committed: CommittedRound, written: WrittenOut) -> None:
        self._rounds = rounds
        self._round = committed.round
        self._written = written
        self._known = ComponentRows(rounds)
        self._occurrences = Occurrences(rounds, written, committed, self._known)

    def of_rows(self, batch: NumberedRows, matches: Numbers, results: pa.Table, undecided: Numbers) -> Claim:
        """Which rows of its one stream are results, but for those it could not decide."""
        stream, rows, arrivals, *_ = batch
        assert arrivals is not None
        is_here = np.isin(matches, arrivals)
        seen = columns_seen(self._written.inputs[0], rows.schema)
        table = pa.Table.from_batches([rows]).select(seen)
        here = results.filter(pa.array(is_here))
        return self._claim(stream, table, arrivals, matches[is_here], here).without(undecided)

    def of_results(self, results: Sequence[RoundResult], rng: np.random.Generator) -> Iterator[Claim]:
        """Some of the results, each over the rows it is made of."""
        n = len(results)
        for at in np.sort(rng.choice(n, min(n, JOINED), replace=False)).tolist():
            made_of = results[at].rows(self._written, self._occurrences)
            rows = joined_rows(self._rounds, self._written, self._round, made_of, self._known)
            inputs = claim_inputs(rows, other_inputs(self._written, made_of))
            yield self._of_inputs(inputs, results[at].number, [results[at]])

    def of_union(
        self, results: Sequence[RoundResult], undecided: Numbers, rng: np.random.Generator
    ) -> Iterator[Claim]:
        """Of each part over a single stream some rows, results or not; of the other parts some results."""
        inputs = self._written.inputs
        alone = [number for number in self._written.reading.alone() if not inputs[number].stream.is_keyed]
        of_row: dict[tuple[int, int], list[RoundResult]] = {}
        composed = []
        for result in results:
            first, *more = result.rows(self._written, self._occurrences)
            if not more and first.number in alone:
                of_row.setdefault((first.number, first.arrival), []).append(result)
            else:
                composed.append(result)
        yield from self.of_results(composed, rng)
        for batch in RoundInputs(self._rounds, self._round):
            for number in alone:
                if inputs[number].stream.name.lower() == batch.stream.lower():
                    yield from self._rows_of_part(batch, number, of_row, undecided, rng)

    def _rows_of_part(
        self,
        batch: NumberedRows,
        number: int,
        of_row: dict[tuple[int, int], list[RoundResult]],
        undecided: Numbers,
        rng: np.random.Generator,
    ) -> Iterator[Claim]:
        assert batch.arrivals is not None
        inputs = self._written.inputs
        places = np.flatnonzero(~np.isin(batch.arrivals, undecided))
        for at in np.sort(rng.choice(places, min(len(places), UNION_ROWS), replace=False)).tolist():
            arrival = int(batch.arrivals[at])
            own = _input(inputs[number], batch.rows.slice(at, 1), arrival)
            others = [_input(entry, entry.stream.schema.empty_table(), None) for entry in inputs]
            claimed = (*others[:number], own, *others[number + 1 :])
            yield self._of_inputs(claimed, arrival, of_row.get((number, arrival), []))

    def _of_inputs(self, inputs: tuple[InputRows, ...], number: int, results: Sequence[RoundResult]) -> Claim:
        """That rows of the inputs, one of each, are these results and no other."""
        schema = self._written.queries[0].shape.output
        table = pa.Table.from_batches([each.columns() for each in results], None if results else schema)
        numbers = np.array([number], np.int64)
        return self._claim("", no_columns(1), numbers, np.repeat(numbers, len(results)), table, inputs)

    def _claim(
        self,
        stream: str,
        rows: pa.Table,
        arrivals: Numbers,
        matches: Numbers,
        results: pa.Table,
        inputs: tuple[InputRows, ...] = (),
    ) -> Claim:
        written = self._written
        return Claim(
            text=written.text,
            params={name: (value.type, value.as_py()) for name, value in written.params.items()},
            stream=stream,
            rows=rows,
            arrivals=arrivals,
            now_us=self._round.now_us,
            time_zone=self._rounds.time_zone,
            functions=functions_of(written),
            matches=matches,
            results=results,
            inputs=inputs,
        )


def _input(entry: BaseInput, rows: pa.RecordBatch | pa.Table, arrival: int | None) -> InputRows:
    table = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
    seen = columns_seen(entry, table.schema)
    return InputRows(
        entry.alias, entry.stream.name, table.select(seen), arrival, is_of_other_part=arrival is None
    )
