"""What a stream or a query leaves in an engine when it is declared, changed or dropped.

A stream that gets columns, or another reading of its time, is planned anew; one that is dropped leaves nothing, so that another
of its name starts from its first row. A dropped query leaves no results and no callbacks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Protocol

from eddyline.engine.rounds import RoundEngine
from eddyline.errors import SchemaError, did_you_mean
from eddyline.expressions import check_time_format
from eddyline.model import Stream
from eddyline.sql import refuse_unbuilt
from eddyline.time_properties import checked_time, same_time


class OpenEngine(Protocol):
    """An engine that is open, whatever its front door looks like."""

    @property
    def rounds(self) -> RoundEngine: ...


def declare(rounds: RoundEngine, stream: Stream) -> Stream:
    """Declare a stream, or add nullable columns to one of its name. Raises SchemaError if it cannot be."""
    stream = checked_stream(stream)
    refuse_unbuilt(stream=stream)
    with rounds.lock:
        rounds.check_open()
        known = rounds.catalog.find_stream(stream.name)
        declared = rounds.catalog.declare(stream)
        if known is not None and declared is not known:
            rounds.shapes.forget(declared.name)
            if not same_time(known, declared):
                rounds.forget_times(declared.name.lower())
    return declared


def drop_stream(rounds: RoundEngine, name: str) -> None:
    """Forget a stream that no query reads."""
    with rounds.lock:
        rounds.check_open()
        rounds.catalog.drop_stream(name)
        rounds.shapes.forget(name)
        rounds.forget_stream(name.lower())


def drop_queries(rounds: RoundEngine, query_ids: Iterable[int]) -> int:
    """End queries in one version; how many there were."""
    with rounds.lock:
        rounds.check_open()
        ids = list(query_ids)
        n = rounds.catalog.drop(ids)
        rounds.forget_queries(ids)
        return n


def checked_stream(stream: Stream) -> Stream:
    """The stream with its time and key columns found in the schema."""
    if not stream.name or not stream.name.replace("_", "a").isalnum() or stream.name[0].isdigit():
        raise SchemaError(
            f"{stream.name!r} cannot be the name of a stream", hint="Use letters, digits and underscores."
        )
    names = {field.name.lower(): field.name for field in stream.schema}
    for column in stream.key:
        if column.lower() not in names:
            raise SchemaError(
                f"stream {stream.name} has no column {column}, which is given as its key",
                hint=did_you_mean(column, names.values(), noun="column"),
            )
    stream = checked_time(stream)
    check_time_format(stream)
    return replace(stream, key=tuple(names[column.lower()] for column in stream.key))
