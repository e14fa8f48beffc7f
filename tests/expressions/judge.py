"""Real Spark SQL judges expressions: the same text over the same rows must give the same values, types and errors.

    CASES = [Cases(edge_values.INTEGER_PAIRS, "t1 + t2", "i1 % i2"), …]     # at the top of a test file

    def test_integer_arithmetic_is_spark_s(spark):
        agree(spark, CASES)

Spark stops a query at the first bad row. To learn which rows are bad in one go, each expression is first asked as part of an
addition that gives NULL instead of an error whatever failed inside; then the values are asked for on the other rows only.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from eddyline.errors import EddylineError
from eddyline.expressions import Context, Frame, evaluate
from eddyline.types import type_name
from tests.expressions.edge_values import numbered
from tests.expressions.known_differences import KNOWN
from tests.scalars import scalar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

UTC, NEW_YORK = "UTC", "America/New_York"
NOW_US = 1_718_000_000_000_000
PER_SELECT = 60  # expressions in one SELECT: planning one costs more than computing many

# Functions whose last digits Java's and C's mathematical libraries may choose differently, and by how many steps.
LAST_DIGITS = {
    **dict.fromkeys(
        ["exp", "expm1", "ln", "log", "log10", "log2", "log1p", "pow", "power", "cbrt", "hypot"], 2
    ),
    **dict.fromkeys(["sin", "cos", "tan", "cot", "asin", "acos", "atan", "atan2"], 2),
    **dict.fromkeys(["sinh", "cosh", "tanh"], 3),
}


@dataclass(frozen=True, slots=True)
class Cases:
    """Expressions over one table, judged in one or more session time zones."""

    table: pa.Table
    expressions: tuple[str, ...]
    zones: tuple[str, ...]

    def __init__(self, table: pa.Table, *expressions: str | Iterable[str], zones: Sequence[str] = ()) -> None:
        texts: list[str] = []
        for e in expressions:
            texts += [e] if isinstance(e, str) else list(e)
        object.__setattr__(self, "table", table)
        object.__setattr__(self, "expressions", tuple(dict.fromkeys(texts)))
        has_time = any(pa.types.is_temporal(t) for t in table.schema.types)
        object.__setattr__(self, "zones", tuple(zones) or ((UTC, NEW_YORK) if has_time else (UTC,)))


def each(template: str, **choices: str | Sequence[str]) -> list[str]:
    """The template with every combination of choices; a string is a choice of words: each("{x} + 1", x="t i l")."""
    texts = [template]
    for name, words in choices.items():
        options = words.split() if isinstance(words, str) else words
        texts = [text.replace("{" + name + "}", option) for text in texts for option in options]
    return texts


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one side says: refused, or a type and per row a value or an error."""

    refusal: str | None = None
    type: str = ""
    values: list[Any] = field(default_factory=list)
    errors: dict[int, str] = field(default_factory=dict)  # row -> error class


@dataclass(frozen=True, slots=True)
class Difference:
    """One expression on which eddyline and Spark do not agree, and the rows that show it."""

    expression: str
    zone: str
    what: str

    def __str__(self) -> str:
        return f"[{self.zone}] {self.expression}\n      {self.what}"


def agree(spark: SparkSession, cases: Sequence[Cases]) -> None:
    """Fail with every disagreement that is not listed as known, and with every known one that has gone."""
    unexpected: list[str] = []
    for case in cases:
        found = differences(spark, case)
        differing = {d.expression for d in found}
        unexpected += [str(d) for d in found if known(d.expression) is None]
        unexpected += [
            f"{e}\n      agrees with Spark now: remove it from known_differences.py"
            for e in case.expressions
            if known(e) is not None and e not in differing
        ]
    assert not unexpected, f"{len(unexpected)} differences from Spark\n  " + "\n  ".join(unexpected)


def known(expression: str) -> str | None:
    """The reason why this expression is allowed to differ."""
    return next((reason for pattern, reason in KNOWN if re.fullmatch(pattern, expression)), None)


def differences(spark: SparkSession, cases: Cases) -> list[Difference]:
    """All disagreements on these cases."""
    found = []
    for zone in cases.zones:
        ours = {expression: outcome(cases.table, expression, zone) for expression in cases.expressions}
        doubtful = [expression for expression, mine in ours.items() if mine.refusal is not None]
        judged = spark_outcomes(spark, cases.table, cases.expressions, zone, doubtful=doubtful)
        for expression, theirs in zip(cases.expressions, judged, strict=True):
            what = _compare(expression, ours[expression], theirs, cases.table)
            if what is not None:
                found.append(Difference(expression, zone, what))
    return found


# ------------------------------------------------------------------------------------------ eddyline's side


def outcome(table: pa.Table, expression: str, zone: str) -> Outcome:
    """What eddyline makes of an expression."""
    table = numbered(table)
    try:
        bound = scalar(expression, table.schema, time_zone=zone)
    except EddylineError as error:
        return Outcome(refusal=str(error))
    columns = {("", name): table[name].combine_chunks() for name in table.column_names}
    frame = Frame(len(table), columns, context=Context(now_us=NOW_US, time_zone=zone))
    result = evaluate(bound, frame)
    values = frame.array(result)
    assert values.type == bound.type, f"{expression} promised {bound.type} and gave {values.type}"
    assert len(values) == len(table), f"{expression} gave {len(values)} rows of {len(table)}"
    errors = {}
    if result.errors is not None:
        errors = {int(row): frame.failure(result.errors[row]).error for row in np.flatnonzero(result.errors)}
        assert all(not values[row].is_valid for row in errors), f"{expression} has values on rows in error"
    return Outcome(None, type_name(bound.type), python_values(values), errors)


def python_values(values: pa.Array) -> list[Any]:
    """Python values; timestamps, dates and durations as numbers, so that no year is out of range."""
    t = values.type
    if pa.types.is_timestamp(t) or pa.types.is_duration(t):
        return (
            values.cast(pa.timestamp("us", t.tz) if pa.types.is_timestamp(t) else pa.duration("us"))
            .cast(pa.int64())
            .to_pylist()
        )
    if pa.types.is_date(t):
        return values.cast(pa.int32()).to_pylist()
    return values.to_pylist()


# ------------------------------------------------------------------------------------------ Spark's side


_SETTINGS = {
    # Otherwise the optimizer computes small tables itself, by other code than queries run on.
    "spark.sql.optimizer.excludedRules": "org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation",
    "spark.sql.subexpressionElimination.enabled": "false",  # it would compute parts outside of the probe
    "spark.sql.codegen.wholeStage": "false",  # the same code for expressions, compiled sooner
}


def spark_outcomes(
    spark: SparkSession,
    table: pa.Table,
    expressions: Sequence[str],
    zone: str,
    *,
    doubtful: Collection[str] = (),
) -> list[Outcome]:
    """What Spark makes of the expressions, ANSI on, in this session time zone; the doubtful are likely to be refused."""
    from pyspark.sql.pandas.types import from_arrow_schema

    rows = numbered(table)
    schema = from_arrow_schema(rows.schema, prefer_timestamp_ntz=True)
    spark.createDataFrame(rows, schema).createOrReplaceTempView(
        "edge"
    )  # in UTC: PySpark passes by local times
    spark.conf.set("spark.sql.session.timeZone", zone)
    for name, value in _SETTINGS.items():
        spark.conf.set(name, value)
    try:
        types, refused = _analysed(spark, expressions, doubtful)
        accepted = list(types)
        outcomes = {e: Outcome(refusal=why) for e, why in refused.items()}
        for start in range(0, len(accepted), PER_SELECT):
            chunk = accepted[start : start + PER_SELECT]
            judged = _judged(spark, len(rows), {e: types[e] for e in chunk})
            outcomes |= dict(zip(chunk, judged, strict=True))
        return [outcomes[e] for e in expressions]
    finally:
        spark.catalog.dropTempView("edge")
        spark.conf.set("spark.sql.session.timeZone", UTC)
        for name in _SETTINGS:
            spark.conf.unset(name)


def _analysed(
    spark: SparkSession, expressions: Sequence[str], doubtful: Collection[str]
) -> tuple[dict[str, str], dict[str, str]]:
    """The types of the expressions that Spark accepts, and why it does not accept the others.

    The doubtful are asked alone, the others all at once, then by halves.
    """
    types: dict[str, str] = {}
    refused: dict[str, str] = {}
    for group in [*[[e] for e in doubtful], [e for e in expressions if e not in doubtful]]:
        _analyse(spark, group, types, refused)
    return types, refused


def _analyse(
    spark: SparkSession, expressions: Sequence[str], types: dict[str, str], refused: dict[str, str]
) -> None:
    from pyspark.errors import AnalysisException, ParseException
    from pyspark.logger import PySparkLogger

    if not expressions:
        return
    logger = PySparkLogger.getLogger("SQLQueryContextLogger")  # prints Java's stack for every refusal
    was_disabled, logger.disabled = logger.disabled, True
    try:
        fields = spark.sql(_select(expressions)).schema.fields[1:]
    except (AnalysisException, ParseException) as error:
        if len(expressions) == 1:
            refused[expressions[0]] = str(error)
            return
        half = len(expressions) // 2
        _analyse(spark, expressions[:half], types, refused)
        _analyse(spark, expressions[half:], types, refused)
        return
    finally:
        logger.disabled = was_disabled
    types |= {e: field.dataType.simpleString() for e, field in zip(expressions, fields, strict=True)}


def _judged(spark: SparkSession, n_rows: int, types: Mapping[str, str]) -> list[Outcome]:
    """What Spark computes, by expression; their types are known."""
    bad = _bad_rows(spark, n_rows, list(types))
    shown = [
        f"CASE WHEN row IN ({', '.join(map(str, rows))}) THEN NULL ELSE ({e}) END" if rows else e
        for e, rows in zip(types, bad, strict=True)
    ]
    # Where every row is bad there is nothing to compute, and Spark may fail before it comes to a row.
    values = _rows(spark, [e for e, rows in zip(shown, bad, strict=True) if len(rows) < n_rows], n_rows)
    computed = iter(values)
    return [
        Outcome(
            None,
            t,
            python_values(next(computed)) if len(rows) < n_rows else [None] * n_rows,
            dict.fromkeys(rows, ""),
        )
        for t, rows in zip(types.values(), bad, strict=True)
    ]


def _select(expressions: Sequence[str]) -> str:
    return "SELECT row, " + ", ".join(f"({e}) AS c{n}" for n, e in enumerate(expressions)) + " FROM edge"


def _rows(spark: SparkSession, expressions: Sequence[str], n_rows: int) -> list[pa.Array]:
    if not expressions:
        return []
    result = spark.sql(_select(expressions)).toArrow().sort_by("row")
    assert len(result) == n_rows, f"Spark gave {len(result)} rows of {n_rows}"
    return [result[f"c{n}"].combine_chunks() for n in range(len(expressions))]


# Through a hash, because the optimizer finds out whether a value IS NULL, or which of two constants it picks, without
# computing it.
_PROBE = "try_add(TIMESTAMP_NTZ'2000-01-01 00:00:00', make_dt_interval(0, 0, 0, xxhash64({e}) & 1))"


def _bad_rows(spark: SparkSession, n_rows: int, expressions: Sequence[str]) -> list[list[int]]:
    """Per expression the rows on which Spark has an error."""
    from pyspark.errors import PySparkException

    try:
        probes = _rows(spark, [_PROBE.replace("{e}", e) for e in expressions], n_rows)
    except PySparkException:
        if len(expressions) > 1:
            half = len(expressions) // 2
            return [
                *_bad_rows(spark, n_rows, expressions[:half]),
                *_bad_rows(spark, n_rows, expressions[half:]),
            ]
        if _is_bad(spark, expressions[0], "false"):  # fails before it comes to any row
            return [list(range(n_rows))]
        return [[row for row in range(n_rows) if _is_bad(spark, expressions[0], f"row = {row}")]]
    return [np.flatnonzero(p.is_null().to_numpy(zero_copy_only=False)).tolist() for p in probes]


def _is_bad(spark: SparkSession, expression: str, where: str) -> bool:
    """Whether Spark has an error on some rows: for the few expressions that fail even inside the probe."""
    from pyspark.errors import PySparkException

    try:
        spark.sql(f"{_select([expression])} WHERE {where}").toArrow()
    except PySparkException:
        return True
    return False


def spark_error(spark: SparkSession, table: pa.Table, expression: str) -> str | None:
    """The class of the error Spark stops with, without its subclass; None if it does not stop."""
    from pyspark.errors import PySparkException

    spark.createDataFrame(numbered(table)).createOrReplaceTempView("edge")
    try:
        spark.sql(_select([expression])).toArrow()
    except PySparkException as error:
        return str(error.getCondition()).split(".")[0]
    finally:
        spark.catalog.dropTempView("edge")
    return None


# ------------------------------------------------------------------------------------------ comparing


def _compare(expression: str, ours: Outcome, theirs: Outcome, table: pa.Table) -> str | None:
    if ours.refusal is not None or theirs.refusal is not None:
        if ours.refusal is not None and theirs.refusal is not None:
            return None
        who, why = ("eddyline", ours.refusal) if ours.refusal is not None else ("Spark", theirs.refusal)
        return f"only {who} refuses it: {' '.join(str(why).split())[:300]}"
    if _plain_type(ours.type) != _plain_type(theirs.type):
        return f"type {ours.type}, in Spark {theirs.type}"
    ulps = max((n for name, n in LAST_DIGITS.items() if re.search(rf"\b{name}\s*\(", expression)), default=0)
    shown: list[str] = []
    for row, (a, b) in enumerate(zip(ours.values, theirs.values, strict=True)):
        a = ours.errors.get(row, "error") if row in ours.errors else a
        if (row in ours.errors) != (row in theirs.errors):
            b = "error" if row in theirs.errors else repr(b)
            a = f"error {ours.errors[row]}" if row in ours.errors else repr(a)
        elif row in ours.errors or same(a, b, ulps=ulps, is_single=ours.type == "FLOAT"):
            continue
        shown.append(
            f"{_inputs(expression, table, row)}: {a if isinstance(a, str) else repr(a)}, in Spark {b}"
        )
    if not shown:
        return None
    more = f" … and {len(shown) - 4} more rows" if len(shown) > 4 else ""
    return "\n      ".join(shown[:4]) + more


def _plain_type(name: str) -> str:
    plain = re.sub(r"[\s`]", "", name.lower())
    return re.sub(r"interval(day|hour|minute|second)(to\w+?)?(?=$|[,>])", "intervaldaytosecond", plain)


def _inputs(expression: str, table: pa.Table, row: int) -> str:
    used = [name for name in table.column_names if re.search(rf"\b{name}\b", expression)]
    return ", ".join(f"{name}={table[name][row]}" for name in used) or f"row {row}"


def same(a: Any, b: Any, *, ulps: int = 0, is_single: bool = False) -> bool:
    """Equal to the last bit: NaN equals NaN, -0.0 does not equal 0.0, lists and structs by their items."""
    if isinstance(a, float) and isinstance(b, float):
        if math.isnan(a) or math.isnan(b):
            return math.isnan(a) and math.isnan(b)
        if a == b:
            return math.copysign(1, a) == math.copysign(1, b)
        if not ulps or math.isinf(a) or math.isinf(b):
            return False
        step = float(np.spacing(np.float32(a))) if is_single else math.ulp(a)
        return abs(a - b) <= ulps * abs(step)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(same(x, y, ulps=ulps) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k], ulps=ulps) for k in a)
    return type(a) is type(b) and a == b
