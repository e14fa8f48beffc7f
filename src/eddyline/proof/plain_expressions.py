"""Expressions and conditions of the small language of `plain_sql`, with every precedence and type written out.

Precedence is Spark's. An operator is allowed only on types for which both engines were found to give the same values, types and
errors on edge values: `ALLOWED`, which tests/proof/test_duckdb_agrees.py finds again and compares. Everything else is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from eddyline.proof.words import SqlWord
from eddyline.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INT,
    INTERVAL,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    type_name,
)

COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")
ARITHMETIC = ("+", "-", "*")
INTEGERS = (TINYINT, SMALLINT, INT, BIGINT)
TYPES = (BOOLEAN, *INTEGERS, DOUBLE, STRING)
TIMES = (TIMESTAMP, TIMESTAMP_NTZ)  # whole microseconds to DuckDB

_Pairs = frozenset[tuple[pa.DataType, pa.DataType]]
_NUMBERS: _Pairs = frozenset((a, b) for a in (*INTEGERS, DOUBLE) for b in (*INTEGERS, DOUBLE))
_ALIKE: _Pairs = _NUMBERS | {(BOOLEAN, BOOLEAN), (STRING, STRING)}
# By operator, the pairs of types on which Spark and DuckDB do the same, overflow included.
ALLOWED: Mapping[str, _Pairs] = {
    **dict.fromkeys(COMPARISONS, _ALIKE),
    **dict.fromkeys(ARITHMETIC, _NUMBERS),
}

_DUCKDB = {
    BOOLEAN: "BOOLEAN",
    TINYINT: "TINYINT",
    SMALLINT: "SMALLINT",
    INT: "INTEGER",
    BIGINT: "BIGINT",
    DOUBLE: "DOUBLE",
    STRING: "VARCHAR",
}
_SAME_AS = {"==": "=", "<>": "!="}
_SECONDS = {"SECOND": 1, "MINUTE": 60, "HOUR": 3_600}
_DAY_S = 86_400  # from here on an interval has days, whose length depends on the time zone
_RESERVED = frozenset(
    [
        *[
            "SELECT",
            "FROM",
            "WHERE",
            "AND",
            "OR",
            "NOT",
            "IN",
            "BETWEEN",
            "IS",
            "NULL",
            "AS",
            "TRUE",
            "FALSE",
        ],
        *[
            "JOIN",
            "INNER",
            "LEFT",
            "RIGHT",
            "FULL",
            "CROSS",
            "ANTI",
            "SEMI",
            "ASOF",
            "ON",
            "USING",
            "INTERVAL",
            "UNION",
        ],
        *["CASE", "WHEN", "THEN", "ELSE", "END", "LIKE", "ILIKE", "RLIKE", "DISTINCT", "ESCAPE", "DIV"],
    ]
)
FRACTIONAL = pa.decimal128(38, 18)  # of a literal such as 10.5, whatever its digits
_WHOLE = re.compile(r"\d+")
_FRACTION = re.compile(r"\d+\.\d*|\.\d+")
_EXPONENT = re.compile(r"(?:\d+(?:\.\d*)?|\.\d+)[eE][+-]?\d+")
_PLAIN_STRING = re.compile(r"""'[^'\\]*'|"[^"\\]*\"""")


@dataclass(frozen=True, slots=True)
class Term:
    """A part of the text: what DuckDB is given for it, and its type (None: NULL without one)."""

    sql: str
    type: pa.DataType | None


class UnsupportedText(Exception):
    """The text uses something that is not in the language."""


@dataclass(slots=True)
class TextInput:
    """An input: what columns of it may be written behind, what it has, and what the text used of it."""

    stream: str
    fields: dict[str, pa.Field]  # by name in lower case
    prefix: str  # of columns, as DuckDB reads them
    qualifier: str = ""
    used: set[str] = field(default_factory=set)
    terms: Mapping[str, Term] | None = None  # of a query in FROM: what its columns are computed as
    is_of_other_part: bool = False  # of a union, than the one that is read


class ExpressionReader:
    """Reads expressions over the sources that the text has come to."""

    def __init__(
        self,
        words: Sequence[SqlWord],
        params: Mapping[str, tuple[pa.DataType, Any]],
    ) -> None:
        self._words = words
        self._at = 0
        self._named: list[TextInput] = []  # those the query has come to
        self._params = params

    # ----------------------------------------------------------------------------------------- conditions

    def _or(self) -> Term:
        return self._joined("OR", self._and)

    def _and(self) -> Term:
        return self._joined("AND", self._not)

    def _joined(self, word: str, part: Any) -> Term:
        first = part()
        while self._takes(word):
            left, right = self._boolean(first), self._boolean(part())
            first = Term(f"({left.sql} {word} {right.sql})", BOOLEAN)
        term: Term = first
        return term

    def _not(self) -> Term:
        if self._takes("NOT"):
            return Term(f"(NOT {self._boolean(self._not()).sql})", BOOLEAN)
        return self._predicate()

    def _predicate(self) -> Term:
        left = self._comparison()
        if self._takes("IS"):
            negated = "NOT " if self._takes("NOT") else ""
            self._expect("NULL")
            return Term(f"({left.sql} IS {negated}NULL)", BOOLEAN)
        is_negated = self._says("NOT") and self._says("BETWEEN", "IN", ahead=1)
        if is_negated:
            self._at += 1
        if self._takes("BETWEEN"):
            low = self._sum()
            self._expect("AND")
            high = self._sum()
            above, below = self._compared(">=", left, low), self._compared("<=", left, high)
            found = Term(f"({above.sql} AND {below.sql})", BOOLEAN)
        elif self._takes("IN"):
            found = self._in(left)
        else:
            return left
        return Term(f"(NOT {found.sql})", BOOLEAN) if is_negated else found

    def _in(self, left: Term) -> Term:
        self._expect("(")
        options = self._options()
        while self._takes(","):
            options += self._options()
        self._expect(")")
        if len({option.type for option in options}) > 1:
            raise UnsupportedText("an IN list of several types")
        if not options:
            return Term("FALSE", BOOLEAN)
        equal = [self._compared("=", left, option).sql for option in options]
        return Term(f"({' OR '.join(equal)})", BOOLEAN)

    def _options(self) -> list[Term]:
        word = self._peek()
        if word is not None and word.kind == "parameter":
            t, value = self._param(word)
            if pa.types.is_list(t):
                self._at += 1
                return [self._constant(t.value_type, item) for item in value or ()]
        return [self._sum()]

    def _comparison(self) -> Term:
        left = self._sum()
        word = self._peek()
        operator = None if word is None else _SAME_AS.get(word.text, word.text)
        if word is None or word.kind != "symbol" or operator not in COMPARISONS:
            return left
        self._at += 1
        found = self._compared(operator, left, self._sum())
        after = self._peek()
        if after is not None and _SAME_AS.get(after.text, after.text) in COMPARISONS:
            raise UnsupportedText("a comparison of a comparison")
        return found

    def _compared(self, operator: str, left: Term, right: Term) -> Term:
        self._check(operator, left, right)
        return Term(f"({left.sql} {operator} {right.sql})", BOOLEAN)

    # ----------------------------------------------------------------------------------------- values

    def _sum(self) -> Term:
        return self._arithmetic(("+", "-"), self._product)

    def _product(self) -> Term:
        return self._arithmetic(("*",), self._value)

    def _arithmetic(self, operators: tuple[str, ...], part: Any) -> Term:
        first: Term = part()
        while self._says(*operators):
            operator = self._words[self._at].text
            self._at += 1
            second = part()
            self._check(operator, first, second)
            t = first.type if first.type in TIMES else _wider(first.type, second.type)
            first = Term(f"({first.sql} {operator} {second.sql})", t)
        return first

    def _value(self) -> Term:
        word = self._peek()
        if word is None:
            raise UnsupportedText("a text that ends here")
        if word.says("("):
            self._at += 1
            inner = self._or()
            self._expect(")")
            return inner
        if word.says("-") and self._kind(1) == "number":
            self._at += 1
            return self._number("-")
        if word.kind == "number":
            return self._number("")
        if word.says("INTERVAL"):
            return self._interval()
        if word.kind == "string":
            return self._string(word)
        if word.kind == "parameter":
            self._at += 1
            return self._constant(*self._param(word))
        if word.says("TRUE", "FALSE"):
            self._at += 1
            return Term(word.text.upper(), BOOLEAN)
        if word.says("NULL"):
            self._at += 1
            return Term("NULL", None)
        return self._reference()

    def _reference(self) -> Term:
        name = self._name()
        source: TextInput | None = None
        if self._takes("."):
            source = self._qualified(name)
            if source is None:
                raise UnsupportedText(f"{name}.{self._name()}")
            name = self._name()
        if self._says("(", ".", "["):
            raise UnsupportedText(f"{name}{self._words[self._at].text}")
        after = self._peek()
        if after is not None and after.kind in ("path", "string"):
            raise UnsupportedText(f"{name}{after.text}")
        if source is None:
            having = [each for each in self._named if name.lower() in each.fields]
            if len(having) != 1:
                raise UnsupportedText(name)
            source = having[0]
        return self._column(source, name)

    def _column(self, source: TextInput, name: str) -> Term:
        found = source.fields.get(name.lower())
        if found is None:
            raise UnsupportedText(name)
        if source.terms is not None:
            return source.terms[name.lower()]
        if found.type not in TYPES and found.type not in TIMES:
            raise UnsupportedText(f"column {found.name}, which is {type_name(found.type)}")
        source.used.add(found.name)
        return Term(source.prefix + _quoted(found.name), found.type)

    def _interval(self) -> Term:
        """INTERVAL 10 MINUTES, or with the number in quotes."""
        words = self._words[self._at : self._at + 3]
        if len(words) < 3 or words[1].kind not in ("number", "string") or words[2].kind != "word":
            raise UnsupportedText("INTERVAL")
        n, unit = words[1].text.strip("'\""), words[2].text.upper().removesuffix("S")
        if not _WHOLE.fullmatch(n) or unit not in _SECONDS or int(n) * _SECONDS[unit] >= _DAY_S:
            raise UnsupportedText(" ".join(word.text for word in words))
        self._at += 3
        return Term(f"CAST('{int(n) * _SECONDS[unit] * 1_000_000}' AS BIGINT)", INTERVAL)

    def _number(self, sign: str) -> Term:
        text = self._words[self._at].text
        self._at += 1
        if _WHOLE.fullmatch(text):
            value = int(sign + text)
            t = INT if -(1 << 31) <= value < 1 << 31 else BIGINT
            if not -(1 << 63) < value < 1 << 63:
                raise UnsupportedText(sign + text)
            return self._constant(t, value)
        if _EXPONENT.fullmatch(text):
            return self._constant(DOUBLE, float(sign + text))
        if _FRACTION.fullmatch(text):
            return Term(f"CAST('{sign}{text}' AS DOUBLE)", FRACTIONAL)
        raise UnsupportedText(text)

    def _string(self, word: SqlWord) -> Term:
        self._at += 1
        if not _PLAIN_STRING.fullmatch(word.text) or self._kind(0) == "string":
            raise UnsupportedText(f"the string {word.text}")
        return self._constant(STRING, word.text[1:-1])

    def _param(self, word: SqlWord) -> tuple[pa.DataType, Any]:
        found = self._params.get(word.text[1:])
        if found is None:
            raise UnsupportedText(f"parameter {word.text}")
        return found

    def _constant(self, t: pa.DataType, value: Any) -> Term:
        if t not in TYPES:
            raise UnsupportedText(f"a constant of type {type_name(t)}")
        if value is None:
            return Term(f"CAST(NULL AS {_DUCKDB[t]})", t)
        text = str(value).replace("'", "''")
        return Term(f"CAST('{text}' AS {_DUCKDB[t]})", t)

    def _check(self, operator: str, left: Term, right: Term) -> None:
        """Refuse an operator on types on which it was not found to be the same."""
        types = [t for t in (left.type, right.type) if t is not None]
        if any(t in TIMES or t == INTERVAL for t in types):
            is_compared = operator in COMPARISONS and len(types) == 2 and left.type == right.type
            is_moved = operator in ("+", "-") and left.type in TIMES and right.type == INTERVAL
            if not (is_compared and left.type != INTERVAL) and not is_moved:
                raise UnsupportedText(f"{operator} of {' and '.join(type_name(t) for t in types)}")
            return
        if FRACTIONAL in types:  # a DECIMAL, which Spark reads as a DOUBLE beside a DOUBLE, and only there
            types.remove(FRACTIONAL)
            if operator in ARITHMETIC or types != [DOUBLE]:
                raise UnsupportedText("a number with a decimal point but beside a DOUBLE")
            return
        pair = (types[0], types[-1]) if types else None
        if pair is None or (len(types) == 1 and operator in ARITHMETIC) or pair not in ALLOWED[operator]:
            shown = " and ".join(type_name(t) for t in types) or "NULL"
            raise UnsupportedText(f"{operator} of {shown}")

    def _boolean(self, term: Term) -> Term:
        if term.type not in (BOOLEAN, None):
            after = self._peek()
            if after is not None and not after.says(")", ";", "AND", "OR"):
                raise UnsupportedText(after.text)
            raise UnsupportedText(f"{type_name(term.type)} as a condition")
        return term

    def _qualified(self, name: str) -> TextInput | None:
        return next((source for source in self._named if source.qualifier == name.lower()), None)

    # ----------------------------------------------------------------------------------------- words

    def _peek(self) -> SqlWord | None:
        return self._words[self._at] if self._at < len(self._words) else None

    def _kind(self, ahead: int) -> str | None:
        at = self._at + ahead
        return self._words[at].kind if at < len(self._words) else None

    def _says(self, *words: str, ahead: int = 0) -> bool:
        at = self._at + ahead
        return at < len(self._words) and self._words[at].says(*words)

    def _takes(self, word: str) -> bool:
        found = self._says(word)
        self._at += found
        return found

    def _expect(self, word: str) -> None:
        if not self._takes(word):
            found = self._peek()
            raise UnsupportedText("a text that ends here" if found is None else found.text)

    def _at_name(self) -> bool:
        word = self._peek()
        return (
            word is not None and word.is_name and (word.kind == "name" or word.text.upper() not in _RESERVED)
        )

    def _name(self) -> str:
        word = self._peek()
        if word is None or not self._at_name():
            raise UnsupportedText("a text that ends here" if word is None else word.text)
        self._at += 1
        return word.name


def _wider(a: pa.DataType | None, b: pa.DataType | None) -> pa.DataType:
    order = (*INTEGERS, DOUBLE)
    return max((t for t in (a, b) if t is not None), key=order.index)


def _quoted(name: str) -> str:
    escaped = name.replace('"', '""')
    return f'"{escaped}"'
