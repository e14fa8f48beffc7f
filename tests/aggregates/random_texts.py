"""Texts and values of random scripts: small pools, so that rows, groups and constants meet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

ORDER = "{order}"  # of rows in DuckDB's words: (ts, g), of a table g
# Doubles are dyadic, so that sums do not depend on their order.
VALUES: dict[str, Sequence[Any]] = {
    "k": ("a", "a", "a", "b", "b", "c", "", "é", None),
    "v": (0, 1, 2, 2, 3, 3, 4, 5, -1, -2, None),
    "x": (0.0, -0.0, 0.25, 0.5, 1.5, -0.75, 2.0, 3.75, "NaN", "Infinity", "-Infinity", None),
    "d": ("0.00", "0.25", "1.50", "-0.75", "1.10", "9999.99", None),
    "b": (True, False, None),
}
EXTREME = (2**63 - 1, -(2**63), 2**62)
# Aggregates: Spark's words, and DuckDB's if they are others; None: DuckDB has no such function.
AGGREGATES: dict[str, str | None] = {
    "count(*)": "count(*)",
    "count(v)": "count(v)",
    "count(k, v)": "count(CASE WHEN k IS NOT NULL AND v IS NOT NULL THEN 1 END)",
    "count(DISTINCT v)": "count(DISTINCT v)",
    "count(DISTINCT x)": "count(DISTINCT x)",
    "count(DISTINCT k, v)": "count(DISTINCT (k, v)) FILTER (WHERE k IS NOT NULL AND v IS NOT NULL)",
    "count_if(v > 2)": "count(CASE WHEN v > 2 THEN 1 END)",
    "sum(v)": "CAST(sum(v) AS BIGINT)",
    "sum(x)": "sum(x)",
    "sum(d)": "sum(d)",
    "avg(v)": "avg(v)",
    "avg(x)": "avg(x)",
    "avg(d)": None,
    "min(v)": "min(v)",
    "max(v)": "max(v)",
    "min(x)": "min(x)",
    "max(x)": "max(x)",
    "min(k)": "min(k)",
    "max(d)": "max(d)",
    "max(ts)": "max(ts)",
    "min(b)": "bool_and(b)",
    "min_by(k, v)": f"(list(k ORDER BY v DESC, {ORDER}) FILTER (WHERE v IS NOT NULL))[-1]",
    "max_by(x, v)": f"(list(x ORDER BY v, {ORDER}) FILTER (WHERE v IS NOT NULL))[-1]",
    "max_by(v, x)": f"(list(v ORDER BY x, {ORDER}) FILTER (WHERE x IS NOT NULL))[-1]",
    "first(v)": f"list(v ORDER BY {ORDER})[1]",
    "last(x)": f"list(x ORDER BY {ORDER})[-1]",
    "first(v, true)": f"(list(v ORDER BY {ORDER}) FILTER (WHERE v IS NOT NULL))[1]",
    "last(k) IGNORE NULLS": f"(list(k ORDER BY {ORDER}) FILTER (WHERE k IS NOT NULL))[-1]",
    "any_value(b)": f"list(b ORDER BY {ORDER})[1]",
    "var_pop(v)": "var_pop(v)",
    "variance(v)": "var_samp(v)",
    "stddev_pop(v)": "stddev_pop(v)",
    "stddev(v)": "stddev_samp(v)",
    "var_pop(x)": None,
    "bool_and(v > 1)": "bool_and(v > 1)",
    "some(b)": "bool_or(b)",
    "sum(v) FILTER (WHERE x > 0)": "CAST(sum(v) FILTER (WHERE x > 0) AS BIGINT)",
    "count(*) FILTER (WHERE b)": "count(*) FILTER (WHERE b)",
    "max(ts) FILTER (WHERE v > 1)": "max(ts) FILTER (WHERE v > 1)",
}
CONDITIONS = (
    "v > 1", "v IS NOT NULL AND x < 2", "k <> 'c' OR v = 2", "b", "NOT b", "d BETWEEN 0 AND 1.5", "k IN ('a', 'b')",
    "x >= 0.5", "v IS NULL OR b", "NOT (v > 1 AND b)",
)  # fmt: skip
HAVINGS = (
    "count(*) >= 2", "sum(v) > 5", "max(v) >= 3 AND count(*) < 6", "min(x) < 1 OR count(*) > 3", "bool_or(b)",
    "f0 IS NOT NULL", "avg(v) > 1.5", "NOT (min(v) > 0)", "sum(d) > 2.5",
)  # fmt: skip
KEYS = (
    ("k",),
    ("k",),
    ("k", "v"),
    ("x",),
    ("d", "b"),
    ("CASE WHEN v > 2 THEN 'high' ELSE 'low' END",),
    ("v + 1",),
)
WINDOWS = (
    ("4 minutes",), ("1 minute",), ("10 minutes", "5 minutes"), ("10 minutes", "3 minutes"),
    ("5 minutes", "5 minutes", "-1 minutes"), ("6 minutes", "2 minutes", "30 seconds"),
)  # fmt: skip
GAPS = ("1 minute", "3 minutes", "90 seconds")
# Frames: Spark's words, and DuckDB's condition on a row of the frame, which is the `back`-th before r, r itself the 0th.
FRAMES = {
    "": "true",
    " RANGE BETWEEN INTERVAL 3 MINUTES PRECEDING AND CURRENT ROW": "ts >= r_ts - INTERVAL 3 MINUTES",
    " RANGE BETWEEN INTERVAL 90 SECONDS PRECEDING AND CURRENT ROW": "ts >= r_ts - INTERVAL 90 SECONDS",
    " ROWS BETWEEN 2 PRECEDING AND CURRENT ROW": "back <= 2",
    " ROWS BETWEEN 0 PRECEDING AND CURRENT ROW": "back = 0",
    " ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW": "true",
    " RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW": "true",
}
OVERS = {
    **{call: AGGREGATES[call] for call in (
        "count(*)", "sum(v)", "min(v)", "max(x)", "avg(v)", "sum(x)", "count(DISTINCT v)", "sum(d)", "var_pop(v)", "max_by(x, v)",
        "sum(v) FILTER (WHERE x > 0)",
    )},
    "bool_or(b)": "bool_or(b)",
    "first_value(v)": f"list(v ORDER BY {ORDER})[1]",
    "last_value(x)": f"list(x ORDER BY {ORDER})[-1]",
}  # fmt: skip
LAGS = {
    "lag(v)": "(list(v) FILTER (WHERE back = 1))[1]",
    "lag(x, 2)": "(list(x) FILTER (WHERE back = 2))[1]",
    "lag(v, 1, -1)": "CASE WHEN max(back) >= 1 THEN (list(v) FILTER (WHERE back = 1))[1] ELSE -1 END",
    "lag(k, 0)": "(list(k) FILTER (WHERE back = 0))[1]",
}
PARTITIONS = (("k",), ("k",), ("k", "v"), ("x",), ())
TEMPORALS = (
    "ts > now() - INTERVAL {n} MINUTES", "ts >= now() - INTERVAL {n} MINUTES", "now() - ts < INTERVAL {n} MINUTES",
    "ts BETWEEN now() - INTERVAL {n} MINUTES AND now()", "ts > now() - INTERVAL {n} MINUTES AND ts < now() + INTERVAL 1 MINUTE",
    "now() <= ts + INTERVAL {n} MINUTES",
)  # fmt: skip
ABSENCES = (
    "max(ts) < now() - INTERVAL {n} MINUTES", "max(ts) <= now() - INTERVAL {n} MINUTES", "max(ts) > now() - INTERVAL {n} MINUTES",
    "now() - max(ts) > INTERVAL {n} MINUTES AND count(*) >= 2", "min(ts) >= now() - INTERVAL {n} MINUTES OR count(*) > 3",
    "max(ts) < now()",
)  # fmt: skip
FINAL = {"emit": "final"}


@dataclass(frozen=True)
class Text:
    """A query, and the features it needs besides those of what it reads."""

    sql: str
    needs: frozenset[str] = frozenset()
    properties: Mapping[str, str] = field(default_factory=dict)


def _text(sql: str, *needs: str, properties: Mapping[str, str] = MappingProxyType({})) -> Text:
    return Text(sql, frozenset(needs), properties)


WINDOW_OF_VELOCITY = "FROM velocity GROUP BY window(ts, '4 minutes')"
WINDOW_OF_MINUTES = "FROM minutes GROUP BY window(w, '4 minutes')"
# By name of a view: its text, and texts that read it.
VIEWS: dict[str, tuple[Text, list[Text]]] = {
    "velocity": (
        _text(
            "SELECT k, v, count(*) OVER (PARTITION BY k ORDER BY ts "
            "RANGE BETWEEN INTERVAL 3 MINUTES PRECEDING AND CURRENT ROW) AS n, ts FROM s",
            "over",
        ),
        [
            _text("SELECT * FROM velocity WHERE n >= {n}"),
            _text("SELECT k, lag(n) OVER (PARTITION BY k ORDER BY ts) AS p, n FROM velocity QUALIFY n > p", "over"),
            _text("SELECT k, max(n) AS hi FROM velocity WHERE n >= 2 GROUP BY k", "running"),
            _text(f"SELECT window.start AS s, count(*) AS c {WINDOW_OF_VELOCITY}", "windows"),
            _text(f"SELECT window.start AS s, max(n) AS c {WINDOW_OF_VELOCITY}", "windows", "final", properties=FINAL),
        ],
    ),
    "large": (
        _text("SELECT k, v, ts FROM s WHERE v >= 1"),
        [
            _text("SELECT k, v FROM large WHERE v >= {n}"),
            _text("SELECT k, sum(v) AS total FROM large GROUP BY k", "running"),
            _text("SELECT k, window.start AS s, count(*) AS n FROM large GROUP BY k, window(ts, '4 minutes')", "windows"),
            _text("SELECT k, count(*) AS n FROM large GROUP BY k, session_window(ts, '1 minute')", "sessions"),
            _text("SELECT sum(v) OVER (ORDER BY ts ROWS BETWEEN {n} PRECEDING AND CURRENT ROW) AS o FROM large", "over"),
        ],
    ),
    "totals": (
        _text("SELECT k, count(*) AS n, sum(v) AS total FROM s GROUP BY k", "running"),
        [
            _text("SELECT k, total FROM totals WHERE n >= {n}"),
            _text("SELECT n, count(*) AS c FROM totals GROUP BY n", "running"),
            _text("SELECT max(n) AS hi, count(total) AS c FROM totals HAVING count(*) > {n}", "running"),
        ],
    ),
    "tens": (
        _text("SELECT k, window.start AS s, count(*) AS n FROM s GROUP BY k, window(ts, '5 minutes')", "windows"),
        [_text("SELECT k, s, n FROM tens WHERE n >= {n}"), _text("SELECT n FROM tens WHERE k = 'a'")],
    ),
    "visits": (
        _text("SELECT k, count(*) AS n FROM s GROUP BY k, session_window(ts, '1 minute')", "sessions"),
        [_text("SELECT k, n FROM visits WHERE n >= {n}")],
    ),
    "minutes": (
        _text(
            "SELECT k, window AS w, count(*) AS n, sum(v) AS total FROM s GROUP BY k, window(ts, '1 minute')",
            "windows", "final", properties=FINAL,
        ),
        [
            _text("SELECT k, n FROM minutes WHERE n >= {n}"),
            _text("SELECT k, sum(n) AS total FROM minutes GROUP BY k", "running"),
            _text(f"SELECT window.start AS s, sum(n) AS c {WINDOW_OF_MINUTES}", "windows"),
            _text(f"SELECT window.end AS e, max(n) AS c {WINDOW_OF_MINUTES}", "windows", "final", properties=FINAL),
        ],
    ),
    "recent": (
        _text("SELECT k, count(*) AS n FROM s WHERE ts > now() - INTERVAL 2 MINUTES GROUP BY k", "temporal", "running"),
        [
            _text("SELECT k, n FROM recent WHERE n >= {n}"),
            _text("SELECT n, count(*) AS c FROM recent GROUP BY n", "running"),
        ],
    ),
}  # fmt: skip
JOINS = (
    _text("SELECT s.k, s.v, t.k AS name, t.x FROM s JOIN t ON s.v = t.id WHERE t.v > 1 OR t.b"),
    _text("SELECT t.k AS name, count(*) AS n, sum(s.v) AS total FROM s JOIN t ON s.v = t.id GROUP BY t.k", "running"),
    _text("SELECT count(*) AS n, max(t.x) AS hi FROM s JOIN t ON s.v = t.id WHERE t.v > 1", "running"),
    _text(
        "SELECT s.k, window.start AS w, count(*) AS n FROM s JOIN t ON s.v = t.id WHERE t.b "
        "GROUP BY s.k, window(s.ts, '4 minutes')",
        "windows",
    ),
    _text("SELECT s.v, count(*) OVER (PARTITION BY t.k ORDER BY s.ts) AS n FROM s JOIN t ON s.v = t.id", "over"),
    _text("SELECT s.k, count(*) AS n, first(t.id) AS f, last(t.id) AS l FROM s JOIN t ON s.v = t.v GROUP BY s.k", "running"),
    _text(
        "SELECT s.v, t.id, count(*) OVER (PARTITION BY s.k ORDER BY s.ts) AS n, "
        "lag(t.id) OVER (PARTITION BY s.k ORDER BY s.ts) AS p FROM s JOIN t ON s.v = t.v",
        "over",
    ),
    _text("SELECT s.k, count(*) AS n, count(t.id) AS m, last(t.x) AS l FROM s LEFT JOIN t ON s.v = t.id GROUP BY s.k", "running"),
    _text(
        "SELECT window.start AS w, count(*) AS n, count(t.id) AS m FROM s LEFT JOIN t ON s.v = t.id "
        "GROUP BY window(s.ts, '4 minutes')",
        "windows", "final", properties=FINAL,
    ),
    _text(
        "SELECT t.k AS name, count(*) AS n FROM s JOIN t ON s.v = t.id GROUP BY t.k, session_window(s.ts, '3 minutes')",
        "sessions",
    ),
    _text(
        "SELECT t.k AS name, count(*) AS n, max(s.ts) AS hi FROM s JOIN t ON s.v = t.id "
        "WHERE s.ts > now() - INTERVAL {n} MINUTES GROUP BY t.k",
        "temporal", "running",
    ),
)  # fmt: skip
JOINS_OF_STREAMS = (
    _text("SELECT s.k, r.v FROM s JOIN r ON s.k = r.k AND s.ts BETWEEN r.ts AND r.ts + INTERVAL {n} MINUTES"),
    _text(
        "SELECT s.k, count(*) AS n, first(r.v) AS f, last(r.v) AS l FROM s JOIN r ON s.k = r.k "
        "AND s.ts BETWEEN r.ts AND r.ts + INTERVAL {n} MINUTES GROUP BY s.k",
        "running",
    ),
    _text(
        "SELECT count(*) AS n, sum(r.v) AS total, max_by(s.x, r.v) AS best FROM s JOIN r ON s.v = r.v "
        "AND r.ts BETWEEN s.ts - INTERVAL {n} MINUTES AND s.ts + INTERVAL 1 MINUTE HAVING count(*) > 1",
        "running",
    ),
    _text(
        "SELECT s.k, count(*) AS n, max(r.ts) AS hi FROM s JOIN r ON s.k = r.k "
        "AND s.ts BETWEEN r.ts AND r.ts + INTERVAL 3 MINUTES WHERE s.ts > now() - INTERVAL {n} MINUTES GROUP BY s.k",
        "temporal", "running",
    ),
)  # fmt: skip
JOINS_OF_TABLES = (
    _text("SELECT a.k, b.x FROM t a JOIN t b ON a.id = b.v WHERE b.b"),
    _text("SELECT a.k, count(*) AS n, sum(b.v) AS total FROM t a JOIN t b ON a.id = b.v GROUP BY a.k", "running", "tables"),
    _text("SELECT a.k, count(*) AS n, count(b.id) AS m FROM t a LEFT JOIN t b ON a.id = b.v GROUP BY a.k", "running", "tables"),
)  # fmt: skip
_MINUTES = "(SELECT k, window AS w, count(*) AS n FROM s GROUP BY k, window(ts, '1 minute'))"
NESTED = (
    _text("SELECT n, count(*) AS c FROM (SELECT k, count(*) AS n FROM s GROUP BY k) GROUP BY n", "running"),
    _text(
        "SELECT max(n) AS hi, sum(total) AS total FROM (SELECT k, v, count(*) AS n, sum(v) AS total FROM s GROUP BY k, v) "
        "HAVING count(*) > {n}",
        "running",
    ),
    _text(
        "SELECT m, count(*) AS c FROM (SELECT n, count(*) AS m FROM (SELECT k, count(*) AS n FROM s WHERE v > 0 GROUP BY k) "
        "GROUP BY n HAVING n >= {n}) GROUP BY m",
        "running",
    ),
    _text(
        f"SELECT k, n, lag(n) OVER (PARTITION BY k ORDER BY w) AS p FROM {_MINUTES} QUALIFY n >= {{n}}",
        "over", "windows", "final", properties=FINAL,
    ),
    _text(
        f"SELECT window.start AS s, sum(n) AS c FROM {_MINUTES} GROUP BY window(w, '4 minutes')",
        "windows", "final", properties=FINAL,
    ),
    _text(f"SELECT k, max(n) AS hi FROM {_MINUTES} GROUP BY k", "running", "windows", "final", properties=FINAL),
    _text(
        "SELECT k, max(n) AS hi FROM (SELECT k, ts, count(*) OVER (PARTITION BY k ORDER BY ts) AS n FROM s) "
        "WHERE n >= 2 GROUP BY k",
        "over", "running",
    ),
    _text(
        "SELECT n, count(*) AS c FROM (SELECT k, count(*) AS n FROM s WHERE ts > now() - INTERVAL {n} MINUTES GROUP BY k) "
        "GROUP BY n",
        "temporal", "running",
    ),
)  # fmt: skip
NESTED_OVER_TABLES = (
    _text("SELECT n, count(*) AS c FROM (SELECT k, count(*) AS n FROM t GROUP BY k) GROUP BY n", "running", "tables"),
)  # fmt: skip
