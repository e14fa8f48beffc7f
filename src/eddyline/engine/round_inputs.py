"""The rows of a committed round, read again: from its capture, or where they lay when workers read them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from eddyline.catalog.rounds import ReadInput
from eddyline.engine.durable import CAPTURE, Durable
from eddyline.engine.rounds import RoundEngine
from eddyline.errors import HomeError, ReceiptError
from eddyline.model import Round
from eddyline.sources.reading import read, reference_from
from eddyline.sources.references import UnreadableReference
from eddyline.storage.outbox import NumberedRows

_DAY_US = 86_400_000_000


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
            self._captures = [] if self._references else log.files_of(CAPTURE, round_.number)
            self._streams = {stream.name.lower(): stream for stream in database.streams(round_.version)}

    def row(self, arrival: int) -> NumberedRows:
        """One row by its number. Raises ReceiptError if it is not there any more."""
        for stream, rows, arrivals in self._batches(arrival):
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
                detail=f"Rows that were pushed are kept for {age_us / _DAY_US:g} days, up to {nbytes / (1 << 30):g} GiB.",
                hint='To keep them as long as results: captures = "7 days" in [engine.retention] (docs/pipeline.md).',
            )
        for file in self._captures:
            first = self._round.first_arrival
            found = self._durable.numbered_rows(file)
            if found is None:
                why = self._durable.damaged.get(file.name, "it is damaged")
                raise ReceiptError(f"the rows of round {self._round.number} cannot be read", detail=why)
            for stream, rows, arrivals in found:
                numbers = np.arange(first, first + rows.num_rows) if arrivals is None else arrivals
                yield NumberedRows(stream, rows, numbers)
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
                yield NumberedRows(stream.name, ingested.rows, numbers)
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
