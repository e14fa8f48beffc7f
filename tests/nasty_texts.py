"""Conditions that try to break the reader: nested in every form, with constants no type holds, repeated many times."""

from __future__ import annotations

DIGITS = "9" * 4_400

SCHEMA = (
    "a INT, b INT, x DOUBLE, t STRING, flag BOOLEAN, d DATE, ts TIMESTAMP, arr ARRAY<INT>, dec DECIMAL(10, 2)"
)
ROW = {
    "a": 1,
    "b": 2,
    "x": 1.5,
    "t": "abc",
    "flag": True,
    "d": "2024-01-01",
    "ts": "2024-01-01 00:00:00",
    "arr": [1, 2],
}


def nested(n: int) -> dict[str, str]:
    """Conditions nested n levels deep; those that are read hold on ROW."""
    return {
        "parentheses": "(" * n + "a = 1" + ")" * n,
        "NOT": "NOT " * (n - n % 2) + "flag",
        "signs": "- " * (n - n % 2) + "a = 1",
        "calls": "abs(" * n + "a" + ")" * n + " = 1",
        "texts": "upper(" * n + "t" + ")" * n + " = 'ABC'",
        "lazy calls": "coalesce(" * n + "a" + ", 1)" * n + " = 1",
        "CASE in THEN": "CASE WHEN flag THEN " * n + "a" + " ELSE 0 END" * n + " = 1",
        "CASE in ELSE": "CASE WHEN NOT flag THEN 0 ELSE " * n + "a" + " END" * n + " = 1",
        "CASE in WHEN": "CASE WHEN " * n + "flag" + " THEN flag END" * n,
        "CASE of CASE": "CASE " * n + "a" + " WHEN 1 THEN 1 ELSE 2 END" * n + " = 1",
        "sums": " + ".join(["a"] * n) + " > 0",
        "differences": "a - (" * n + "a" + ")" * n + " < 9",
        "casts": "CAST(" * n + "a" + " AS BIGINT)" * n + " = 1",
        "IN": "flag IN (flag, " * n + "flag" + ")" * n,
        "AND and OR": "(" * (n // 2)
        + "a = 1"
        + "".join(f" OR b = {k}) AND a < {k + 10}" for k in range(n // 2)),
        "equalities": "flag" + " = flag" * n,
    }


# nested deeper than anything is read, or in forms that grow or end nowhere
REFUSED = {
    **{f"{name}, 201": text for name, text in nested(205).items()},
    **{f"{name}, 5,000": text for name, text in nested(5_000).items() if len(text) < 60_000},
    "BETWEEN": "(" * 30 + "flag" + " BETWEEN false AND true)" * 30,
    "nullif": "nullif(" * 100 + "a" + ", 5)" * 100 + " = 1",
    "arrays": "size(" + "array(" * 100 + "a" + ")" * 100 + ") > 0",
    "types": "CAST(NULL AS " + "ARRAY<" * 8_000 + "INT" + ">" * 8_000 + ") IS NULL",
    "structs": "CAST(NULL AS " + "STRUCT<a: " * 60 + "INT" + ">" * 60 + ") IS NULL",
    "comments": "a = 1 " + "/* " * 10_000,
    "quotes": "t = '" + "\\'" * 10_000,
    "openings": "(" * 5_000,
    "CASE": "CASE " * 5_000,
    "END": "END " * 500 + "(" * 500,
    "a number": f"a = {DIGITS}",
    "a negative number": f"a + -{DIGITS} > 1",
    "a number in a list": f"a IN (1, {DIGITS})",
    "BIGINT": f"a = {DIGITS}L",
    "TINYINT": f"a = {DIGITS}Y",
    "DECIMAL": f"dec = {DIGITS}.5",
    "an exponent of DOUBLE": "x < 1e999999999",
    "an exponent of DECIMAL": "dec = 1e999999999BD",
    "an exponent of digits": f"dec = 1e{DIGITS}BD",
    "digits of a type": f"CAST(a AS DECIMAL({DIGITS}, 2)) = 1",
    "Arabic digits": "a = ٣",
    "superscripts": "a = 1²",
    "years": "d + INTERVAL 999999999999 YEARS > d",
    "days": "ts - INTERVAL 999999999 DAYS < ts",
    "days of 4,400 digits": f"ts + INTERVAL {DIGITS} DAYS > ts",
    "months of 4,400 digits": f"ts + INTERVAL '{DIGITS}-1' YEAR TO MONTH > ts",
    "an interval compared": "ts - ts < INTERVAL 106751992 DAYS",
    "a date": f"d = DATE '{DIGITS}-01-01'",
    "groups of patterns": "t RLIKE '" + "(" * 1_000 + "a" + ")" * 1_000 + "'",
    "repetitions": "t RLIKE '((a{1000}){1000}){1000}'",
    "repetitions of 4,400 digits": f"t RLIKE 'a{{{DIGITS}}}'",
    "a group to replace": f"regexp_replace(t, '(a)', '${DIGITS}') = 'x'",
    "back-references": r"t RLIKE r'(a+)+\1$'",
    "a zone": "from_utc_timestamp(ts, '" + "A" * 5_000 + "') > ts",
    "a name": "a" * 50_000 + " = 1",
    "a function": "f" * 50_000 + "(a) = 1",
    "half a character": "t = '\\ud800'",
}
# far out, and right
ACCEPTED = {
    "zeros": f"a = {'0' * 5_000}1",
    "groups in a row": "t RLIKE '" + "(a)?" * 1_000 + "'",
    "patterns that take others forever": "t RLIKE '(a+)+'",
    "dates after 9999": "d < DATE '99999-12-31'",
    "dates before year 1": "d > DATE '-0001-01-01'",
    "times after 9999": "ts < TIMESTAMP '200000-01-01 00:00:00'",
    "lists of them": "NOT d IN (DATE '9999-12-31', DATE '10000-01-01')",
    "days": "ts + INTERVAL 106751991 DAYS IS NOT NULL OR flag",
    "a long text": "t != '" + "x" * 50_000 + "'",
    "a long pattern": "NOT t LIKE '" + "%_" * 10_000 + "'",
}


def many(n: int) -> dict[str, str]:
    """Conditions of n parts. None of them is nested."""
    every = range(n)
    half = range(n // 2)
    return {
        "IN of expressions": f"x + 1 IN ({', '.join(f'a + {k}' for k in every)})",
        "NOT IN of expressions": f"NOT x + 1 IN ({', '.join(f'a + {k + 1000}' for k in every)})",
        "IN of constants": f"a + 1 IN ({', '.join(f'{k} + 2' for k in every)})",
        "OR of AND": " OR ".join(f"(a = {k} AND b = {k + 1})" for k in half),
        "OR of computed AND": " OR ".join(f"(a + b > {k + 100} AND b * a = {k + 1})" for k in half),
        "BETWEEN": " OR ".join(f"a BETWEEN {10 * k + 1000} AND {10 * k + 1005}" for k in every),
        "computed BETWEEN": " OR ".join(
            f"a + b BETWEEN b + {10 * k + 1000} AND b + {10 * k + 1005}" for k in every
        ),
        "arrays": f"array_contains(array({', '.join(f'a + {k}' for k in every)}), 3)",
        "arrays of arrays": f"size(array({', '.join(f'array(a, {k})' for k in every)})) > 3",
        "CASE": f"CASE {' '.join(f'WHEN a = {k + 5} THEN {k}' for k in every)} ELSE -1 END = 3",
        "CASE of a value": f"CASE a + 1 {' '.join(f'WHEN {k} THEN {k}' for k in every)} ELSE -1 END = 3",
        "concat": f"concat({', '.join(f't, {k!s}' for k in every)}) = 'x'",
        "AND": " AND ".join(f"a != {k + 100}" for k in every),
        "computed AND": " AND ".join(f"a + b != {k + 10000} + a" for k in every),
        "computed OR": " OR ".join(f"a + b = {k + 10000} + a" for k in every),
        "coalesce": f"coalesce({', '.join(f'nullif(a, {k})' for k in every)}) = 3",
        "greatest": f"greatest({', '.join(f'a + {k}' for k in every)}) = 3",
        "RLIKE": " OR ".join(f"t RLIKE 'a{k}.*'" for k in every),
        "LIKE": " OR ".join(f"t LIKE '%a{k}%'" for k in every),
        "a long pattern": f"t RLIKE '{'(a|b)' * n}'",
        "IS NULL": " OR ".join(f"a + {k} IS NULL" for k in every),
        "lists": " OR ".join(f"a IN ({k}, {k + 1000})" for k in every),
    }
