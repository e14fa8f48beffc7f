"""Aggregate functions by definition: all rows of a group in a list, everything computed anew."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa

from eddyline.model import AggregateCall

OVERFLOWS = object()  # the value does not fit its type
EXACTLY = Context(prec=300)


@dataclass(frozen=True)
class Row:
    values: dict[str, Any]
    ts: int
    g: int


def aggregate(call: AggregateCall, rows: Sequence[Row]) -> Any:
    """The value of a call over rows in any order."""
    if call.filter is not None:
        rows = [row for row in rows if row.values[call.filter] is True]
    arguments = [[row.values[name] for name in call.arguments] for row in rows]
    match call.function:
        case "count":
            whole = [tuple(map(identity, line)) for line in arguments if None not in line]
            return len(set(whole)) if call.is_distinct else len(whole)
        case "approx_count_distinct":  # of so few that a sketch has them all
            return len({identity(value) for (value,) in arguments if value is not None})
        case "count_if":
            return sum(line[0] is True for line in arguments)
        case "min_by" | "max_by":
            return chosen_by(call, rows)
        case "first" | "last":
            return first_or_last(call, rows)
    values = [line[0] for line in arguments if line[0] is not None]
    if not values:
        return None
    match call.function:
        case "min":
            return min(values, key=rank)
        case "max":
            return max(values, key=rank)
        case "bool_and":
            return all(values)
        case "bool_or":
            return any(values)
        case "sum" | "avg":
            return total(call, values)
    return variance(call.function, values)


def identity(value: Any) -> Any:
    """NaN equals NaN, 0.0 equals -0.0; lists and structs by their parts."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    if isinstance(value, dict):
        return tuple((name, identity(part)) for name, part in value.items())
    return tuple(map(identity, value)) if isinstance(value, list) else value


def rank(value: Any) -> Any:
    """NaN is above all numbers."""
    return (math.isnan(value), value) if isinstance(value, float) else (False, value)


def chosen_by(call: AggregateCall, rows: Sequence[Row]) -> Any:
    x, y = call.arguments
    ordered = sorted((row for row in rows if row.values[y] is not None), key=lambda row: (row.ts, row.g))
    if not ordered:
        return None
    pick = min if call.function == "min_by" else max
    best = identity(pick((row.values[y] for row in ordered), key=rank))
    return [row for row in ordered if identity(row.values[y]) == best][-1].values[x]


def first_or_last(call: AggregateCall, rows: Sequence[Row]) -> Any:
    ordered = sorted(rows, key=lambda row: (row.ts, row.g))
    values = [row.values[call.arguments[0]] for row in ordered]
    if call.ignores_nulls:
        values = [value for value in values if value is not None]
    return values[0 if call.function == "first" else -1] if values else None


def total(call: AggregateCall, values: list[Any]) -> Any:
    """sum or avg: of doubles a Fraction if it is finite."""
    of = call.types[0]
    if pa.types.is_floating(of):
        if special := specials(values):
            return special[0] if len(set(map(str, special))) == 1 else math.nan
        exact = sum(map(Fraction, values), Fraction(0))
        return exact if call.function == "sum" else exact / len(values)
    exact = sum(map(Fraction, values), Fraction(0))
    if pa.types.is_integer(of):
        if call.function == "avg":
            return exact.numerator / (exact.denominator * len(values))
        return int(exact) if -(2**63) <= exact < 2**63 else OVERFLOWS
    if abs(exact) >= 10 ** (min(of.precision + 10, 38) - of.scale):
        return OVERFLOWS
    if call.function == "avg":
        exact /= len(values)
    unit = Decimal(1).scaleb(-call.type.scale)
    wide = EXACTLY.divide(Decimal(exact.numerator), Decimal(exact.denominator))
    result = wide.quantize(unit, rounding=ROUND_HALF_UP, context=EXACTLY)
    return result if result.copy_abs() < Decimal(10) ** (call.type.precision - call.type.scale) else OVERFLOWS


def specials(values: list[Any]) -> list[float]:
    return [value for value in values if isinstance(value, float) and not math.isfinite(value)]


def variance(function: str, values: list[Any]) -> float | None:
    n = len(values) - function.endswith("_samp")
    if n == 0:
        return None
    if specials(values):
        return math.nan
    numbers = list(map(Fraction, values))
    mean = sum(numbers, Fraction(0)) / len(numbers)
    exact = sum(((number - mean) ** 2 for number in numbers), Fraction(0)) / n
    if function.startswith("var"):
        return float(exact) if exact < Fraction(1.797e308) else math.inf
    return float(Decimal(exact.numerator).sqrt() / Decimal(exact.denominator).sqrt())
