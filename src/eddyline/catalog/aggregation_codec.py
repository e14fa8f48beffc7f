"""What a query reads of an aggregation as JSON, as part of its stored shape."""

from __future__ import annotations

from dataclasses import astuple
from typing import Any

from eddyline.catalog.value_codec import natural_value, type_from, value_from, value_to
from eddyline.model import (
    AggregateCall,
    Aggregating,
    Aggregation,
    OverFrame,
    SessionWindow,
    TemporalBound,
    TimeWindow,
)
from eddyline.types import type_name


def aggregating_to(aggregating: Aggregating) -> dict[str, Any]:
    a = aggregating.aggregation
    return {
        "name": a.name,
        "rows": a.rows,
        "keys": list(a.keys),
        **({"over": True} if a.is_over else {}),
        **({} if a.window is None else {"window": list(astuple(a.window))}),
        **({} if a.window_time is None else {"window_time": a.window_time}),
        **({"final": True} if a.is_final else {}),
        **({} if a.keep_us is None else {"keep_us": a.keep_us}),
        **({"bounds": [astuple(bound) for bound in a.bounds]} if a.bounds else {}),
        **({"table": True} if a.reads_table else {}),
        "calls": [_call_to(found) for found in aggregating.calls],
        **({"deadlines": list(map(astuple, aggregating.deadlines))} if aggregating.deadlines else {}),
    }


def aggregating_from(s: dict[str, Any]) -> Aggregating:
    window = s.get("window")
    aggregation = Aggregation(
        s["name"],
        s["rows"],
        tuple(s["keys"]),
        s.get("over", False),
        None if window is None else SessionWindow(*window) if len(window) == 1 else TimeWindow(*window),
        s.get("window_time"),
        s.get("final", False),
        s.get("keep_us"),
        tuple(TemporalBound(*bound) for bound in s.get("bounds", ())),
        s.get("table", False),
    )
    deadlines = tuple(TemporalBound(*bound) for bound in s.get("deadlines", ()))
    return Aggregating(aggregation, tuple(map(_call_from, s["calls"])), deadlines)


def _call_to(found: AggregateCall) -> dict[str, Any]:
    """Only what differs from the default."""
    stated = {
        "filter": found.filter,
        "distinct": found.is_distinct,
        "ignores_nulls": found.ignores_nulls,
        "frame": None if found.frame is None else list(astuple(found.frame)),
        "back": found.n_back,
        "keys": None if found.keys is None else list(found.keys),
        "relative_error": found.relative_error,
    }
    return {
        "function": found.function,
        "arguments": [[name, type_name(t)] for name, t in zip(found.arguments, found.types, strict=True)],
        "type": type_name(found.type),
        **{name: value for name, value in stated.items() if value or value == []},
        **({} if found.default is None else {"default": value_to(found.default, found.type)}),
    }


def _call_from(s: dict[str, Any]) -> AggregateCall:
    t, frame, keys = type_from(s["type"]), s.get("frame"), s.get("keys")
    return AggregateCall(
        s["function"],
        tuple(name for name, _ in s["arguments"]),
        tuple(type_from(name) for _, name in s["arguments"]),
        t,
        s.get("filter"),
        s.get("distinct", False),
        s.get("ignores_nulls", False),
        None if frame is None else OverFrame(*frame),
        s.get("back", 0),
        natural_value(value_from(s.get("default"), t), t),
        None if keys is None else tuple(keys),
        s.get("relative_error"),
    )
