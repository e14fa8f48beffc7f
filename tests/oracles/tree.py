"""The test generator's own queries: small expression trees that write themselves as Spark SQL and as DuckDB SQL.

Nothing here goes through eddyline, so that what judges it shares no code with it.
"""

from __future__ import annotations

import datetime
import math
from dataclasses import dataclass
from typing import Any

_DUCKDB_TYPES = {
    "bigint": "BIGINT",
    "int": "INTEGER",
    "double": "DOUBLE",
    "string": "VARCHAR",
    "boolean": "BOOLEAN",
    "date": "DATE",
    "timestamp_ntz": "TIMESTAMP",
    "decimal(6,2)": "DECIMAL(6,2)",
}

# operator -> how it is written, in Spark and in DuckDB; {all} is all arguments with commas, {rest} all but the first
_FORMS: dict[str, tuple[str, str] | str] = {
    "=": "({0} = {1})",
    "!=": "({0} <> {1})",
    "<": "({0} < {1})",
    "<=": "({0} <= {1})",
    ">": "({0} > {1})",
    ">=": "({0} >= {1})",
    "<=>": ("({0} <=> {1})", "({0} IS NOT DISTINCT FROM {1})"),
    "between": "({0} BETWEEN {1} AND {2})",
    "not between": "({0} NOT BETWEEN {1} AND {2})",
    "in": "({0} IN ({rest}))",
    "not in": "({0} NOT IN ({rest}))",
    "like": "({0} LIKE {1})",
    "not like": "({0} NOT LIKE {1})",
    "is null": "({0} IS NULL)",
    "is not null": "({0} IS NOT NULL)",
    "and": "({0} AND {1})",
    "or": "({0} OR {1})",
    "not": "(NOT {0})",
    "case": "CASE WHEN {0} THEN {1} ELSE {2} END",
    "if": ("if({0}, {1}, {2})", "CASE WHEN {0} THEN {1} ELSE {2} END"),
    "+": "({0} + {1})",
    "-": "({0} - {1})",
    "*": "({0} * {1})",
    "negate": "(- {0})",
    "/": ("({0} / {1})", "unused"),
    "div": ("({0} div {1})", "unused"),
    "%": ("({0} % {1})", "unused"),
    "to int": ("CAST({0} AS INT)", "unused"),
    "try to int": ("TRY_CAST({0} AS INT)", "unused"),
    "coalesce": "coalesce({all})",
    "nullif": "nullif({0}, {1})",
    "greatest": "greatest({all})",
    "least": "least({all})",
    "abs": "abs({0})",
    "length": "length({0})",
    "upper": "upper({0})",
    "lower": "lower({0})",
    "||": "({0} || {1})",
    "year": "year({0})",
}


@dataclass(frozen=True)
class Column:
    name: str
    type: str

    def spark(self) -> str:
        return self.name

    def duckdb(self) -> str:
        return self.name


@dataclass(frozen=True)
class Constant:
    """A literal, or the value of a named parameter if it has a name."""

    value: Any
    type: str
    parameter: str | None = None

    def spark(self) -> str:
        return f":{self.parameter}" if self.parameter else _spark_literal(self.value, self.type)

    def duckdb(self) -> str:
        return _duckdb_literal(self.value, self.type)


@dataclass(frozen=True)
class Operation:
    operator: str
    arguments: tuple[Node, ...]
    type: str

    def spark(self) -> str:
        form = _FORMS[self.operator]
        return _filled(form if isinstance(form, str) else form[0], [a.spark() for a in self.arguments])

    def duckdb(self) -> str:
        form = _FORMS[self.operator]
        return _filled(form if isinstance(form, str) else form[1], [a.duckdb() for a in self.arguments])


Node = Column | Constant | Operation


@dataclass(frozen=True)
class Selection:
    """SELECT outputs FROM stream WHERE condition; no outputs means *."""

    condition: Node | None
    outputs: tuple[Node, ...] = ()

    def text(self, stream: str) -> str:
        """As eddyline gets it."""
        outputs = ", ".join(f"{node.spark()} AS c{at}" for at, node in enumerate(self.outputs)) or "*"
        return f"SELECT {outputs} FROM {stream}" + (
            f" WHERE {self.condition.spark()}" if self.condition else ""
        )

    def parameters(self) -> dict[str, Any]:
        nodes = [*self.outputs, *([self.condition] if self.condition else [])]
        found = {}
        while nodes:
            node = nodes.pop()
            if isinstance(node, Constant) and node.parameter:
                found[node.parameter] = node.value
            elif isinstance(node, Operation):
                nodes += node.arguments
        return found


def _filled(form: str, arguments: list[str]) -> str:
    return form.format(*arguments, all=", ".join(arguments), rest=", ".join(arguments[1:]))


def _spark_literal(value: Any, kind: str) -> str:
    if value is None:
        return f"CAST(NULL AS {kind})"
    if kind == "boolean":
        return "TRUE" if value else "FALSE"
    if kind == "double":
        return f"{value!r}D" if math.isfinite(value) else f"CAST('{_float_word(value)}' AS DOUBLE)"
    if kind == "string":
        return f"'{value}'"
    if isinstance(value, datetime.date):
        return f"{'TIMESTAMP_NTZ' if isinstance(value, datetime.datetime) else 'DATE'} '{value}'"
    return str(value)


def _duckdb_literal(value: Any, kind: str) -> str:
    if value is None:
        return f"CAST(NULL AS {_DUCKDB_TYPES[kind]})"
    if kind == "boolean":
        return "TRUE" if value else "FALSE"
    text = _float_word(value) if kind == "double" else str(value)
    return f"CAST('{text}' AS {_DUCKDB_TYPES[kind]})"


def _float_word(value: float) -> str:
    return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(repr(value), repr(value))
