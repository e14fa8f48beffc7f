"""The rows of a committed round, read again: from its capture, or where they lay when workers read them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.catalog import ReadInput
from eddyline.durations import DAY_US
from eddyline.engine.durable import Durable
from eddyline.engine.event_time import event_times
from eddyline.engine.rounds import RoundEngine
from eddyline.errors import HomeError, ReceiptError
from eddyline.model import NO_TIME, Round, Stream
from eddyline.operators import Numbers, times_of
from eddyline.sources import UnreadableReference, read, reference_from
from eddyline.storage import CAPTURE, NumberedRows


class RoundInputs:
    """Where the rows of a round are. Finding that out takes the engine's lock for a moment; reading them takes none."""

    def __init__(self, rounds: RoundEngine, round_: Round) -> None:
        self._round = round_
        self._time_zone = rounds.time_zone
        self._durable = home_of(rounds)
        with rounds.lock:
            rounds.check_open()
            log, database = self._durable.rounds, self._durable.database
            self._references = log.inputs(round_.number)
            self._captures = [] if self._references else log.files.of_round(CAPTURE, round_.number)
            self._streams = {stream.name.lower(): stream for stream in database.streams.at(round_.version)}

    def row(self, arrival: int) -> NumberedRows:
        """One row by its number. Raises ReceiptError if it is not there any more."""
        for stream, rows, arrivals, *_ in self._batches(arrival):
            assert arrivals is not None
            at = int(np.searchsorted(arrivals, arrival))
            if at < len(arrivals) and arrivals[at] == arrival:
                return NumberedRows(stream, rows.slice(at, 1), arrivals[at : at + 1])
        raise ReceiptError(f"row {arrival} is not among the rows of round {self._round.number} any more")

    def __iter__(self) -> Iterator[NumberedRows]:
        """All rows, some of one stream at a time, in order of arrival within it. Raises ReceiptError."""
        return self._batches(None)

    def _batches(self, holding: int | None) -> Iterator[NumberedRows]:
        if not self._references and not self._captures and any(self._round.n_rows.values()):
            age_us, nbytes = self._durable.retention.of(CAPTURE)
            raise ReceiptError(
                f"the rows of round {self._round.number} are no longer kept",
                detail=f"Rows that were pushed are kept for {age_us / DAY_US:g} days, up to {nbytes / (1 << 30):g} GiB.",
                hint='To keep them as long as results: captures = "7 days" in [engine.retention] (docs/pipeline.md).',
            )
        for file in self._captures:
            first = self._round.first_arrival
            found = self._durable.numbered_rows(file)
            if found is None:
                why = self._durable.damaged.get(file.name, "it is damaged")
                raise ReceiptError(f"the rows of round {self._round.number} cannot be read", detail=why)
            for stream, rows, arrivals, is_delete, _ in found:
                numbers = np.arange(first, first + rows.num_rows) if arrivals is None else arrivals
                yield NumberedRows(stream, rows, numbers, is_delete)
                first += rows.num_rows
        for each in self._references:
            if holding is None or each.first_arrival <= holding < each.first_arrival + each.n_rows:
                yield from self._read(each)

    def _read(self, each: ReadInput) -> Iterator[NumberedRows]:
        stream = self._streams.get(each.stream.lower())
        if stream is None:
            raise ReceiptError(f"how stream {each.stream} was declared then is no longer known")
        reference = reference_from(each.reference, self._durable.store.folder)
        first = each.first_arrival
        try:
            for ingested in read(reference, stream, self._time_zone):
                numbers = np.arange(first, first + ingested.rows.num_rows)
                yield NumberedRows(stream.name, ingested.rows, numbers, ingested.is_delete)
                first += ingested.rows.num_rows
        except UnreadableReference as error:
            raise ReceiptError(
                f"rows of stream {stream.name} cannot be read again from where they lay",
                detail=f"{_place(reference.what)}: {error}.",
                hint="Put it back as it was when the round read it.",
            ) from None
        n_rows = first - each.first_arrival
        if n_rows != each.n_rows:
            raise ReceiptError(
                f"rows of stream {stream.name} are not what they were when the round read them",
                detail=f"{_place(reference.what)} had {each.n_rows:,} rows and has {n_rows:,} now.",
            )


@dataclass(frozen=True, slots=True)
class KeyChange:
    """What a round left of a key of a table: the row that came last for it, or a delete."""

    arrival: int
    row: pa.RecordBatch
    is_delete: bool


def change_of_key(
    rounds: RoundEngine, round_: Round, stream: Stream, row: pa.RecordBatch
) -> KeyChange | None:
    """What a round left in place of a row of a table; None if nothing came for its key. Raises ReceiptError."""
    newest: KeyChange | None = None
    newest_us = int(_times(stream, row, rounds.time_zone)[0])
    for batch in RoundInputs(rounds, round_):
        if batch.stream.lower() != stream.name.lower():
            continue
        assert batch.arrivals is not None
        is_same = np.ones(batch.rows.num_rows, dtype=bool)
        for name in stream.key:
            equal = pc.equal(batch.rows.column(name), row.column(name)[0])
            is_same &= np.asarray(equal.fill_null(False).to_numpy(zero_copy_only=False))
        times = _times(stream, batch.rows, rounds.time_zone)
        for at in np.flatnonzero(is_same).tolist():
            is_delete = batch.is_delete is not None and bool(batch.is_delete[at])
            time_us = newest_us if is_delete and times[at] == NO_TIME else int(times[at])
            if time_us >= newest_us:  # an older row does not replace a newer one
                newest_us = time_us
                newest = KeyChange(int(batch.arrivals[at]), batch.rows.slice(at, 1), is_delete)
    return newest


def _times(stream: Stream, rows: pa.RecordBatch, time_zone: str) -> Numbers:
    return times_of(event_times(stream, rows, time_zone), rows.num_rows)


def round_holding(rounds: RoundEngine, arrival: int) -> Round:
    """The round in which a row arrived. Raises ReceiptError if it is forgotten."""
    durable = home_of(rounds)
    with rounds.lock:
        rounds.check_open()
        first, last = durable.rounds.retained_rounds().oldest, rounds.last_round
        before = durable.rounds.get(first) if first else None
        if before is None or arrival < before.round.first_arrival:
            raise ReceiptError(
                f"the round in which row {arrival} arrived is forgotten",
                hint="[engine.retention] says how long rounds are kept (docs/pipeline.md).",
            )
        while first < last:  # the first round whose last row is not below it
            middle = (first + last) // 2
            found = durable.rounds.get(middle)
            assert found is not None, f"round {middle} is missing between {first} and {last}"
            first, last = (first, middle) if found.last_arrival >= arrival else (middle + 1, last)
        found = durable.rounds.get(first)
    assert found is not None, f"round {first} is missing"
    return found.round


class ComponentRows:
    """Rows of any rounds by their arrival numbers, as the results of joins name them; each round is looked up once."""

    def __init__(self, rounds: RoundEngine) -> None:
        self._rounds = rounds
        self._inputs: dict[int, RoundInputs] = {}
        self._found: dict[int, tuple[Round, NumberedRows]] = {}

    def row(self, arrival: int) -> tuple[Round, NumberedRows]:
        """The row, and its round. Raises ReceiptError if either is no longer kept."""
        known = self._found.get(arrival)
        if known is None:
            round_ = round_holding(self._rounds, arrival)
            inputs = self._inputs.get(round_.number)
            if inputs is None:
                inputs = self._inputs[round_.number] = RoundInputs(self._rounds, round_)
            known = self._found[arrival] = round_, inputs.row(arrival)
        return known

    def n_between(self, stream: str, after: int, until: int) -> int:
        """How many rows of a stream arrived behind one, up to another, late ones too. Raises ReceiptError."""
        first, last = round_holding(self._rounds, after), round_holding(self._rounds, until)
        n_rows = 0
        log = home_of(self._rounds).rounds
        for number in range(first.number + 1, last.number):
            with self._rounds.lock:  # let go in between: there may be many
                committed = log.get(number)
            if committed is not None:
                n_rows += _n_rows(committed.round, stream)
        for round_ in {first.number: first, last.number: last}.values():
            if _n_rows(round_, stream):
                n_rows += sum(
                    int(((numbers > after) & (numbers <= until)).sum())
                    for name, _, numbers, *_ in RoundInputs(self._rounds, round_)
                    if numbers is not None and name.lower() == stream.lower()
                )
        return n_rows


def _n_rows(round_: Round, stream: str) -> int:
    return sum(n for name, n in round_.n_rows.items() if name.lower() == stream.lower())


def _place(what: dict[str, object]) -> str:
    """Where rows lay, for a person."""
    state = what.get("state")
    if state is not None:
        return f"{what['folder']}/{getattr(state, 'name', '')}"
    if "topic" in what:
        return (
            f"topic {what['topic']}, partition {what['partition']}, offsets {what['start']} to {what['end']}"
        )
    return str(what.get("name", "made-up rows"))


def home_of(rounds: RoundEngine) -> Durable:
    """The home, which keeps what a receipt needs. Raises HomeError for an engine in memory."""
    if rounds.durable is None:
        raise HomeError(
            "an engine in memory keeps no rows, so its results have no receipts",
            hint='Open it with a home: eddyline.open("folder/").',
        )
    return rounds.durable
