"""Values by brute force: expressions of one row, and aggregates of a list of rows, by their definitions in SQL.

A value is None, bool, int, float, Decimal, str, datetime (TIMESTAMP), timedelta (INTERVAL) or a `Window`.
"""

from __future__ import annotations

import datetime
import math
import operator
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Decimal, localcontext
from fractions import Fraction
from typing import Any, NamedTuple

from sqlglot import exp

from tests.aggregates.reference_sql import BIGINT, COMPARISONS, INT, Call, Type, interval

MISSING = object()  # a lookup does not know the node
FAILS, ERRS, PASSES = 0, 1, 2  # what a row does to a condition; AND is the least, OR the greatest
LIMITS = {INT: 2**31, BIGINT: 2**63}
ORDERS = {
    exp.EQ: operator.eq, exp.NEQ: operator.ne, exp.LT: operator.lt, exp.LTE: operator.le, exp.GT: operator.gt,
    exp.GTE: operator.ge,
}  # fmt: skip
ARITHMETIC = {exp.Add: operator.add, exp.Sub: operator.sub, exp.Mul: operator.mul}
Lookup = Callable[[exp.Expr], Any]  # the value of a node that the scope knows, or MISSING


class ComputationError(Exception):
    """A value that cannot be computed: division by zero, overflow."""


class Window(NamedTuple):
    start: datetime.datetime
    end: datetime.datetime


def order(value: Any) -> tuple[Any, ...]:
    """Sorts as Spark does: NULL first, NaN last."""
    if value is None:
        return (0,)
    if isinstance(value, float) and math.isnan(value):
        return (2,)
    return (1, value + 0.0 if isinstance(value, float) else value)


def shown(value: Any) -> Any:
    """A key as it is shown: -0.0 is 0.0."""
    return value + 0.0 if isinstance(value, float) else value


# --------------------------------------------------------------------------------------------- expressions


def evaluate(tree: exp.Expr, lookup: Lookup) -> Any:
    """The value of an expression; raises ComputationError."""
    known = lookup(tree)
    if known is not MISSING:
        return known
    if isinstance(tree, (exp.Alias, exp.Paren)):
        return evaluate(tree.this, lookup)
    if isinstance(tree, exp.Literal):
        return tree.name if tree.is_string else Decimal(tree.name) if "." in tree.name else int(tree.name)
    if isinstance(tree, exp.Boolean):
        return bool(tree.this)
    if isinstance(tree, exp.Null):
        return None
    if isinstance(tree, exp.Interval):
        return interval(tree)
    if isinstance(tree, exp.Cast):
        return _instant(tree.this.name)
    if isinstance(tree, exp.Neg):
        value = evaluate(tree.this, lookup)
        return None if value is None else -value
    if isinstance(tree, exp.Case):
        return _case(tree, lookup)
    if isinstance(tree, exp.Coalesce):
        values = (evaluate(part, lookup) for part in (tree.this, *tree.expressions))
        return next((value for value in values if value is not None), None)
    if isinstance(tree, (exp.And, exp.Or, exp.Not)):
        return _logic(tree, lookup)
    return _binary(tree, lookup)


def _instant(text: str) -> datetime.datetime:
    found = datetime.datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=datetime.UTC)


def _case(tree: exp.Case, lookup: Lookup) -> Any:
    for branch in tree.args["ifs"]:
        if evaluate(branch.this, lookup) is True:
            return evaluate(branch.args["true"], lookup)
    default = tree.args.get("default")
    return None if default is None else evaluate(default, lookup)


def _logic(tree: exp.Expr, lookup: Lookup) -> bool | None:
    if isinstance(tree, exp.Not):
        value = evaluate(tree.this, lookup)
        return None if value is None else not value
    settles = isinstance(tree, exp.Or)
    values = [evaluate(tree.left, lookup), evaluate(tree.right, lookup)]
    if settles in values:
        return settles
    return None if None in values else not settles


def _binary(tree: exp.Expr, lookup: Lookup) -> Any:
    if isinstance(tree, exp.Is):
        return evaluate(tree.this, lookup) is evaluate(tree.expression, lookup)
    if isinstance(tree, exp.Between):
        low, high = (
            exp.GTE(this=tree.this, expression=tree.args["low"]),
            exp.LTE(this=tree.this, expression=tree.args["high"]),
        )
        return _logic(exp.And(this=low, expression=high), lookup)
    if isinstance(tree, exp.In):
        found = [
            _compared(exp.EQ, evaluate(tree.this, lookup), evaluate(v, lookup)) for v in tree.expressions
        ]
        return True if True in found else None if None in found else False
    if isinstance(tree, (*COMPARISONS, exp.Div, *ARITHMETIC)):
        left = evaluate(tree.this, lookup)
        if left is None and not isinstance(tree, exp.NullSafeEQ):
            return None
        right = evaluate(tree.expression, lookup)
        if isinstance(tree, COMPARISONS):
            return _compared(type(tree), left, right)
        return _computed(tree, left, right)
    raise NotImplementedError(f"{type(tree).__name__}: {tree.sql()}")


def _compared(how: type[exp.Expr], left: Any, right: Any) -> bool | None:
    if how is exp.NullSafeEQ:
        return order(left) == order(right)
    if left is None or right is None:
        return None
    if isinstance(left, datetime.datetime) and isinstance(right, str):
        right = _instant(right)
    return bool(ORDERS[how](order(left), order(right)))


def _computed(tree: exp.Expr, left: Any, right: Any) -> Any:
    if right is None:
        return None
    if isinstance(tree, exp.Div):
        if right == 0:
            raise ComputationError("division by zero")
        return float(left) / float(right)
    if isinstance(left, float) or isinstance(right, float):
        left, right = float(left), float(right)
    value = ARITHMETIC[type(tree)](left, right)
    # The reference adds and multiplies columns of BIGINT only: results of INT would need their own limit.
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ComputationError("overflow")
    return value


def outcome(tree: exp.Expr | None, lookup: Lookup, *, is_negated: bool = False) -> int:
    """What a row or group does to a condition: false and unknown beat error, in an OR true does."""
    if tree is None:
        return PASSES
    if isinstance(tree, exp.Paren):
        return outcome(tree.this, lookup, is_negated=is_negated)
    if isinstance(tree, exp.Not):
        return outcome(tree.this, lookup, is_negated=not is_negated)
    if isinstance(tree, (exp.And, exp.Or)):
        sides = [outcome(side, lookup, is_negated=is_negated) for side in (tree.left, tree.right)]
        return min(sides) if isinstance(tree, exp.And) is not is_negated else max(sides)
    try:
        value = evaluate(tree, lookup)
    except ComputationError:
        return ERRS
    return PASSES if value is (not is_negated) else FAILS


# --------------------------------------------------------------------------------------------- aggregates


def aggregate(call: Call, members: Sequence[Lookup], types: Sequence[Type], type_: Type) -> Any:
    """The value of a call over rows in order of (ts, g)."""
    if call.condition is not None:
        members = [m for m in members if evaluate(call.condition, m) is True]
    rows = [tuple(evaluate(argument, m) for argument in call.arguments[:2]) for m in members]
    if call.function == "count":
        return _count(call, [tuple(evaluate(argument, m) for argument in call.arguments) for m in members])
    if call.function == "count_if":
        return sum(row[0] is True for row in rows)
    if call.function in ("first", "last"):
        ignores = call.ignores_nulls or row_flag(rows)
        values = [row[0] for row in rows if row[0] is not None or not ignores]
        return None if not values else values[0 if call.function == "first" else -1]
    if call.function in ("min_by", "max_by"):
        return _by(call.function, [row for row in rows if row[1] is not None])
    values = [row[0] for row in rows if row[0] is not None]
    if not values:
        return None
    if call.function in ("min", "max"):
        return (min if call.function == "min" else max)(values, key=order)
    if call.function in ("bool_and", "bool_or"):
        return all(values) if call.function == "bool_and" else any(values)
    if call.function in ("sum", "avg"):
        return _sum(values, types[0], type_) if call.function == "sum" else _avg(values, types[0], type_)
    return _spread(call.function, values)


def row_flag(rows: Sequence[tuple[Any, ...]]) -> bool:
    """first(x, true): the second argument says that NULLs are passed over."""
    return bool(rows) and len(rows[0]) > 1 and rows[0][1] is True


def _count(call: Call, rows: Sequence[tuple[Any, ...]]) -> int:
    whole = [tuple(order(value) for value in row) for row in rows if None not in row]
    return len(set(whole)) if call.is_distinct else len(whole)


def _by(function: str, rows: Sequence[tuple[Any, ...]]) -> Any:
    """x of the row with the least or greatest y, the last of equals."""
    if not rows:
        return None
    best = (min if function == "min_by" else max)(order(y) for _, y in rows)
    return [x for x, y in rows if order(y) == best][-1]


def _sum(values: Sequence[Any], of: Type, type_: Type) -> Any:
    if of[0] == "decimal":
        return _fitted(sum(map(Fraction, values)), type_)
    if of in LIMITS:
        total = sum(values)
        if not -(2**63) <= total < 2**63:
            raise ComputationError("overflow")
        return total
    return _sum_of_doubles(values)


def _sum_of_doubles(values: Sequence[float]) -> float:
    special = {v for v in values if math.isinf(v)}
    if any(map(math.isnan, values)) or len(special) == 2:
        return math.nan
    return special.pop() if special else math.fsum(values)


def _avg(values: Sequence[Any], of: Type, type_: Type) -> Any:
    if of[0] == "decimal":
        _, p, s = of
        total = sum(map(Fraction, values))
        _fitted(total, ("decimal", min(p + 10, 38), s))
        return _fitted(total / len(values), type_)
    if of in LIMITS:
        return float(Fraction(sum(values), len(values)))
    return _sum_of_doubles(values) / len(values)


def _fitted(value: Fraction, type_: Type) -> Decimal:
    """A DECIMAL, rounded half up."""
    _, p, s = type_
    with localcontext(prec=120):
        found = (Decimal(value.numerator) / Decimal(value.denominator)).quantize(
            Decimal(1).scaleb(-s), ROUND_HALF_UP
        )
        if abs(found) >= Decimal(10) ** (p - s):
            raise ComputationError("overflow")
        return found


def _spread(function: str, values: Sequence[Any]) -> float | None:
    kind, n = function.split("_")[1], len(values)
    if kind == "samp" and n == 1:
        return None
    if any(isinstance(v, float) and not math.isfinite(v) for v in values):
        return math.nan
    exact = [Fraction(v) for v in values]
    mean = sum(exact) / n
    variance = float(sum((v - mean) ** 2 for v in exact) / (n if kind == "pop" else n - 1))
    return math.sqrt(variance) if function.startswith("stddev") else variance
