"""Why a row matches a query or does not, and how the last rows fared: of one stream, of a join, and of each part of a union."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from eddyline.catalog import QueryRecord
from eddyline.documents import Why, WhyNot
from eddyline.engine import RoundEngine
from eddyline.errors import SchemaError, UnknownNameError
from eddyline.explain.explanations import condition_texts
from eddyline.explain.join_why import last_rows, why_join, why_not_join
from eddyline.explain.union_parts import branch_records, nearest_why, nearest_why_not, part_of
from eddyline.filters import why, why_not
from eddyline.sources import ingest


def why_row(
    rounds: RoundEngine,
    record: QueryRecord,
    row: Mapping[str, Any] | Any,
    recorded: Sequence[pa.Array] = (),
) -> Why:
    """What each condition of a query, registered or not, says about a row of its stream; of a union, what each part says that
    the row fits, the nearest first. `recorded` is what its functions that are not deterministic gave on it, if that is known.

    Raises SchemaError or UnknownNameError for a row that does not fit.
    """
    branches = branch_records(record)
    if len(branches) == 1:
        return _why_part(rounds, record, row, recorded)
    found: list[Why] = []
    unfit: list[str] = []
    for branch in branches:
        try:
            found.append(_why_part(rounds, branch, row, recorded))
        except (SchemaError, UnknownNameError) as error:
            unfit.append(f"{part_of(branch)}, is not asked: {error.problem}")
    if not found:
        raise SchemaError(
            f"the row fits no part of {record.name}",
            detail=f"{'. '.join(unfit)}.",
            hint="Give the columns of one part; of a part that is a join, one row of each of its inputs.",
        )
    nearest = nearest_why(found)
    return replace(nearest, notes=(*nearest.notes, *unfit))


def _why_part(
    rounds: RoundEngine, record: QueryRecord, row: Mapping[str, Any] | Any, recorded: Sequence[pa.Array]
) -> Why:
    """The same of a query without UNION ALL, or of one of its branches."""
    if record.shape.join is not None:
        if not isinstance(row, Mapping):
            raise SchemaError(
                "why of a join takes one row of each input", hint='Write why({"t": {…}, "n": {…}}).'
            )
        return replace(why_join(rounds, record, row, recorded), part=part_of(record))
    stream = rounds.catalog.stream(record.shape.stream)
    ingested = ingest(stream, [dict(row)] if isinstance(row, Mapping) else row, rounds.time_zone)
    if ingested.misfits:
        raise SchemaError(f"the row does not fit stream {stream.name}", detail=ingested.misfits[0].message)
    if ingested.rows.num_rows != 1:
        raise SchemaError(
            f"why takes one row, not {ingested.rows.num_rows}", hint='Write why({"price": 9.5}).'
        )
    texts, context = condition_texts(record), rounds.context()
    found = why(record.name, record.shape, texts, record.constants, ingested.rows, context, recorded)
    return replace(found, part=part_of(record))


def why_not_rows(
    rounds: RoundEngine, record: QueryRecord, last: int, since: str, notes: Sequence[str]
) -> WhyNot:
    """How many of the last rows each condition of a query stopped; of a union, of each part, the nearest first."""
    branches = branch_records(record)
    found = nearest_why_not([_why_not_part(rounds, branch, last, since) for branch in branches])
    return replace(found, notes=(*notes, *found.notes))


def _why_not_part(rounds: RoundEngine, record: QueryRecord, last: int, since: str) -> WhyNot:
    if record.shape.join is not None:
        return replace(why_not_join(rounds, record, last, since, ()), part=part_of(record))
    rows, texts, context = last_rows(rounds, record, 0, last), condition_texts(record), rounds.context()
    found = why_not(record.name, record.shape, texts, record.constants, rows, context, since)
    return replace(found, part=part_of(record))
