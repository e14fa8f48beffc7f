"""Every operator in every place obeys the laws of `tests/operator_laws.py`. A new operator is a line of OPERATORS."""

from __future__ import annotations

import datetime
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests import operator_laws as laws
from tests.operator_laws import PLACES, Outcome, Row, Rows, Script

pytestmark = pytest.mark.thorough

START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
SIZES = (6, 3, 9)
DECLARATIONS = """
    CREATE TABLE a (k INT, x INT, ts TIMESTAMP) TBLPROPERTIES (time = 'ts');
    CREATE TABLE b (k INT, y INT, ts TIMESTAMP) TBLPROPERTIES (time = 'ts');
    CREATE TABLE q (id INT PRIMARY KEY, k INT, n INT);
    CREATE TABLE p (id INT PRIMARY KEY, k INT, m INT);
    CREATE TABLE rules (id INT PRIMARY KEY, k INT, low INT, high INT)
"""
TABLES = ("q", "p", "rules")
KEYS = range(1, 5)
NEAR = "BETWEEN {0}.ts AND {0}.ts + INTERVAL 4 SECONDS".format

VIEWS = {
    "va": "SELECT k, x, ts FROM a WHERE x % 3 > 0",
    "vb": "SELECT k, y, ts FROM b WHERE y % 4 > 0",
    "vva": "SELECT k, x, ts FROM va WHERE x % 2 = 0",
    "ab": f"SELECT a.k, a.x, b.y, b.ts FROM a JOIN b ON a.k = b.k AND a.ts {NEAR('b')}",
    "vq": "SELECT id, k, n FROM q WHERE n % 4 > 0",
    "vvq": "SELECT id, k, n FROM vq WHERE k < 3",
    "qp": "SELECT q.id AS qid, p.id AS pid, q.k, q.n, p.m FROM q JOIN p ON q.k = p.k",
    "vqp": "SELECT qid, pid, n, m FROM qp WHERE n % 3 > 0",
    "aq": "SELECT a.k, a.x, a.ts, q.n FROM a JOIN q ON a.k = q.k",
    "ar": "SELECT a.k, a.x, a.ts, r.id FROM a JOIN rules r ON a.k = r.k AND a.x BETWEEN r.low AND r.high",
    "known": "SELECT a.k, a.x, a.ts FROM a WHERE k IN (SELECT k FROM q)",
    "alone": f"SELECT a.k, a.x, b.y FROM a LEFT JOIN b ON a.k = b.k AND b.ts {NEAR('a')}",
    "either": (
        "SELECT k, x, ts FROM a WHERE x % 3 > 0 UNION ALL SELECT k, y, ts FROM b "
        "UNION ALL SELECT k, -x, ts FROM a WHERE k = 1"
    ),
    "qorp": "SELECT id, k, n FROM q WHERE n % 3 > 0 UNION ALL SELECT id, k, m FROM p",
    "dq": "SELECT DISTINCT k, n % 2 AS odd FROM q",
    "dqorp": "SELECT k, n % 2 AS odd FROM q WHERE n % 3 > 0 UNION SELECT k, m % 2 FROM p",
    "qk": "SELECT id, k, n FROM q WHERE k IN (SELECT k FROM p)",
    "vqvp": "SELECT v.k, v.n, p.m FROM vq v JOIN p ON v.k = p.k AND p.m <> v.n",
    "qlp": "SELECT q.id AS qid, p.id AS pid, q.k, q.n, p.m FROM q LEFT JOIN p ON q.k = p.k AND p.m % 2 = 0",
    "qnp": "SELECT id, k, n FROM q WHERE NOT EXISTS (SELECT 1 FROM p WHERE p.k = q.k)",
    "never": f"SELECT a.k, a.x FROM a LEFT ANTI JOIN b ON a.k = b.k AND b.ts {NEAR('a')}",
}


@dataclass(frozen=True)
class Operator:
    text: str
    is_of_tables: bool = (
        False  # its rows leave: a late query gets those that are there, and all of them can be retracted
    )
    reads_one: bool = False  # a single view: a late query gets what the view finds from then on
    cut_matters: str = ""  # why what remains depends on the cut into rounds


BEFORE = "a row meets the rows that a view over tables had before its round"

OPERATORS = {
    "selection": Operator("SELECT k, x FROM a WHERE x % 3 > 0", reads_one=True),
    "window join": Operator(f"SELECT a.x, b.y FROM a JOIN b ON a.k = b.k AND a.ts {NEAR('b')}"),
    "window join of three": Operator(
        f"SELECT a.x, b.y, c.x AS z FROM a JOIN b ON a.k = b.k AND a.ts {NEAR('b')} JOIN a c ON c.k = b.k AND b.ts {NEAR('c')}"
    ),
    "count window": Operator("SELECT a.x, b.y FROM recent(a, 3) a JOIN recent(b, 3) b ON a.k = b.k"),
    "band join": Operator(f"SELECT a.x, b.y FROM a JOIN b ON a.x - b.y BETWEEN -5 AND 5 AND a.ts {NEAR('b')}"),
    "table join": Operator("SELECT a.x, q.n FROM a JOIN q ON a.k = q.k"),
    "table join by key": Operator("SELECT a.x, q.n FROM a JOIN q ON a.k = q.id WHERE q.n % 5 > 0"),
    "rules table": Operator(
        "SELECT a.x, r.id FROM a JOIN rules r ON a.k = r.k AND a.x BETWEEN r.low AND r.high"
    ),
    "left join": Operator(f"SELECT a.x, b.y FROM a LEFT JOIN b ON a.k = b.k AND b.ts {NEAR('a')}"),
    "left join of a table": Operator("SELECT a.x, q.n FROM a LEFT JOIN q ON a.k = q.k"),
    "anti join": Operator(f"SELECT a.x FROM a LEFT ANTI JOIN b ON a.k = b.k AND b.ts {NEAR('a')}"),
    "anti join of a table": Operator("SELECT a.x FROM a LEFT ANTI JOIN q ON a.k = q.k AND q.n > a.x"),
    "semi join": Operator("SELECT x FROM a WHERE k IN (SELECT k FROM q)"),
    "semi join of a pair": Operator(
        f"SELECT a.x, b.y FROM a JOIN b ON a.k = b.k AND a.ts {NEAR('b')} "
        "WHERE EXISTS (SELECT 1 FROM q WHERE q.k = a.k AND q.n < a.x)"
    ),
    "table": Operator("SELECT id, k, n FROM q WHERE n % 4 > 0", is_of_tables=True),
    "join of tables": Operator("SELECT q.id, p.id AS pid, q.n, p.m FROM q JOIN p ON q.k = p.k", is_of_tables=True),
    "join of a table with itself": Operator("SELECT q.id, o.id AS oid, q.n FROM q JOIN q o ON q.k = o.k", is_of_tables=True),
    "distinct": Operator("SELECT DISTINCT k, n % 3 AS r FROM q WHERE n % 4 > 0", is_of_tables=True),
    "distinct of a join of tables": Operator("SELECT DISTINCT q.k, p.m % 3 AS r FROM q JOIN p ON q.k = p.k", is_of_tables=True),
    "semi join of tables": Operator("SELECT id, n FROM q WHERE k IN (SELECT k FROM p)", is_of_tables=True),
    "semi join of tables by a condition": Operator(
        "SELECT id, n FROM q WHERE EXISTS (SELECT 1 FROM p WHERE p.k = q.k AND p.m > q.n)", is_of_tables=True
    ),
    "left join of tables": Operator("SELECT q.id, p.id AS pid, q.n, p.m FROM q LEFT JOIN p ON q.k = p.k", is_of_tables=True),
    "left join of tables by a condition": Operator(
        "SELECT q.id, p.id AS pid, p.m FROM q LEFT JOIN p ON q.k = p.k AND p.m > q.n WHERE q.n % 4 > 0", is_of_tables=True
    ),
    "anti join of tables": Operator("SELECT q.id, q.n FROM q LEFT ANTI JOIN p ON q.k = p.k", is_of_tables=True),
    "anti join of a table with itself": Operator(
        "SELECT q.id, q.n FROM q WHERE NOT EXISTS (SELECT 1 FROM q o WHERE o.k = q.k AND o.n > q.n)", is_of_tables=True
    ),
    "distinct of a left join of tables": Operator(
        "SELECT DISTINCT q.k, p.m % 3 AS r FROM q LEFT JOIN p ON q.k = p.k", is_of_tables=True
    ),
    "view over a left join of tables": Operator("SELECT qid, n, m FROM qlp WHERE k < 3", is_of_tables=True),
    "view over an anti join of tables": Operator("SELECT id, n FROM qnp WHERE n % 3 > 0", is_of_tables=True),
    "view over distinct": Operator("SELECT k FROM dq WHERE odd = 0", is_of_tables=True),
    "distinct over a view": Operator("SELECT DISTINCT k FROM vq WHERE n % 3 > 0", is_of_tables=True),
    "distinct over a union": Operator(
        "SELECT DISTINCT k FROM (SELECT k, n FROM q UNION ALL SELECT q.k, p.m FROM q JOIN p ON q.k = p.k) u WHERE n % 3 > 0",
        is_of_tables=True,
    ),
    "distinct over a view that is a union": Operator("SELECT DISTINCT k FROM qorp WHERE n % 4 > 0", is_of_tables=True),
    "view over a distinct union": Operator("SELECT k FROM dqorp WHERE odd = 0", is_of_tables=True),
    "set in FROM": Operator("SELECT k FROM (SELECT DISTINCT k, n % 2 AS odd FROM q) d WHERE odd = 0", is_of_tables=True),
    "set in WITH, read twice": Operator(
        "WITH d AS (SELECT k, n % 2 AS odd FROM q WHERE n % 3 > 0 UNION SELECT k, m % 2 FROM p) "
        "SELECT k FROM d WHERE odd = 0 UNION ALL SELECT k + 10 FROM d",
        is_of_tables=True,
    ),
    "view over a semi join of tables": Operator("SELECT id, n FROM qk WHERE n % 3 > 0", is_of_tables=True),
    "union": Operator("SELECT x FROM a WHERE x % 3 > 0 UNION ALL SELECT y FROM b UNION ALL SELECT -x FROM a WHERE k = 1"),
    "union with a join": Operator(
        f"SELECT x FROM a WHERE x % 3 > 0 UNION ALL SELECT a.x + b.y FROM a JOIN b ON a.k = b.k AND a.ts {NEAR('b')}"
    ),
    "union of tables": Operator(
        "SELECT id, n FROM q WHERE n % 3 > 0 UNION ALL SELECT id, m FROM p", is_of_tables=True
    ),
    "view over a union": Operator("SELECT x FROM either WHERE k < 3", reads_one=True),
    "view over a union of tables": Operator("SELECT id, n FROM qorp WHERE k < 3", is_of_tables=True),
    "join over a union": Operator(f"SELECT v.x, b.y FROM either v JOIN b ON v.k = b.k AND b.ts {NEAR('v')}"),
    "view": Operator("SELECT x FROM va WHERE k < 3", reads_one=True),
    "view over a view": Operator("SELECT x FROM vva WHERE k < 3", reads_one=True),
    "view over a join": Operator("SELECT x, y FROM ab WHERE x % 2 = 0", reads_one=True),
    "view over a table": Operator("SELECT id, n FROM vq WHERE k < 3", is_of_tables=True),
    "view over a view over a table": Operator("SELECT id, n FROM vvq WHERE n % 3 > 0", is_of_tables=True),
    "view over a join of tables": Operator("SELECT qid, pid, n, m FROM qp WHERE m % 3 > 0", is_of_tables=True),
    "view over a view over a join of tables": Operator("SELECT qid, m FROM vqp WHERE m % 5 > 0", is_of_tables=True),
    "view over a left join": Operator("SELECT x, y FROM alone WHERE k < 3", reads_one=True),
    "view over an anti join": Operator("SELECT x FROM never WHERE k < 3", reads_one=True),
    "view over a semi join": Operator("SELECT x FROM known WHERE k < 3", reads_one=True),
    "view over a table join": Operator("SELECT x, n FROM aq WHERE k < 3", reads_one=True),
    "diamond": Operator(f"SELECT v.x, v.y, b.y AS z FROM ab v JOIN b ON v.k = b.k AND b.ts {NEAR('v')}"),
    "self-join of a view": Operator(f"SELECT o.x, v.x AS z FROM va o JOIN va v ON o.k = v.k AND v.ts {NEAR('o')}"),
    "self-join of a view over a join": Operator(
        f"SELECT o.x, o.y, v.x AS z, v.y AS w FROM ab o JOIN ab v ON o.k = v.k AND v.ts {NEAR('o')}"
    ),
    "band join over a view": Operator(
        f"SELECT v.x, v.y, b.y AS z FROM ab v JOIN b ON v.x - b.y BETWEEN -8 AND 8 AND b.ts {NEAR('v')}"
    ),
    "left join over views": Operator(f"SELECT v.x, w.y FROM va v LEFT JOIN vb w ON v.k = w.k AND w.ts {NEAR('v')}"),
    "left join over a view over a join": Operator(
        f"SELECT v.x, v.y, b.y AS z FROM ab v LEFT JOIN b ON v.k = b.k AND b.ts {NEAR('v')} AND b.y % 2 = 0"
    ),
    "left join with a view over a join": Operator(
        f"SELECT v.x, v.y, b.y AS z FROM b LEFT JOIN ab v ON v.k = b.k AND v.ts {NEAR('b')} AND v.y % 2 = 0"
    ),
    "anti join over views": Operator(f"SELECT v.x FROM va v LEFT ANTI JOIN vb w ON v.k = w.k AND w.ts {NEAR('v')}"),
    "anti join over a view over a join": Operator(
        f"SELECT v.x, v.y FROM ab v LEFT ANTI JOIN ab w ON v.k = w.k AND w.ts {NEAR('v')} AND w.y % 2 = 0"
    ),
    "left join of a table over a view": Operator("SELECT v.x, v.y, q.n FROM ab v LEFT JOIN q ON q.k = v.k AND q.n > v.y"),
    "semi join over a view": Operator("SELECT v.x FROM va v WHERE v.k IN (SELECT k FROM q)"),
    "semi join over a view over a join": Operator(
        "SELECT v.x, v.y FROM ab v WHERE EXISTS (SELECT 1 FROM q WHERE q.k = v.k AND q.n < v.x)"
    ),
    "table join over a view over a join": Operator("SELECT v.x, v.y, q.n FROM ab v JOIN q ON q.id = v.y % 4 + 1"),
    "rules table over a view": Operator(
        "SELECT v.x, v.y, r.id FROM ab v JOIN rules r ON v.k = r.k AND v.x BETWEEN r.low AND r.high"
    ),
    "join over a view over a semi join": Operator(f"SELECT v.x, b.y FROM known v JOIN b ON v.k = b.k AND b.ts {NEAR('v')}"),
    "join over a view over a table join": Operator(
        f"SELECT v.x, v.n, b.y FROM aq v JOIN b ON v.k = b.k AND b.ts {NEAR('v')}"
    ),
    "self-join of a view over a rules table": Operator(
        f"SELECT v.x, v.id, w.x AS z, w.id AS wid FROM ar v JOIN ar w ON v.k = w.k AND w.ts {NEAR('v')}"
    ),
    "table join over a view over a left join": Operator(
        "SELECT v.x, v.y, q.n FROM alone v JOIN q ON q.k = v.k",
        cut_matters="a row that time decides finds the table as it is at the end of that round",
    ),
    "join of a table with a view": Operator("SELECT v.id, v.n, p.m FROM vq v JOIN p ON v.k = p.k", is_of_tables=True),
    "join of a table with a view over it": Operator("SELECT v.id, q.id AS qid FROM vq v JOIN q ON v.k = q.k", is_of_tables=True),
    "self-join of a view over a table": Operator(
        "SELECT v.id, w.id AS wid FROM vq v JOIN vq w ON v.k = w.k", is_of_tables=True
    ),
    "join of views over tables": Operator("SELECT v.id, w.pid, w.n FROM vvq v JOIN qp w ON v.k = w.k", is_of_tables=True),
    "join of a table with a view over distinct": Operator("SELECT d.odd, p.m FROM dq d JOIN p ON d.k = p.k", is_of_tables=True),
    "join of a table with a view over a semi join": Operator("SELECT v.id, p.m FROM qk v JOIN p ON v.k = p.k", is_of_tables=True),
    "join of a table with a union of tables": Operator("SELECT v.n, p.id FROM qorp v JOIN p ON v.k = p.k", is_of_tables=True),
    "semi join of a table with a view": Operator(
        "SELECT id, m FROM p WHERE EXISTS (SELECT 1 FROM vq WHERE vq.k = p.k)", is_of_tables=True
    ),
    "semi join of a view with a view": Operator(
        "SELECT v.id, v.n FROM qk v WHERE EXISTS (SELECT 1 FROM qorp w WHERE w.k = v.k AND w.n > v.n)", is_of_tables=True
    ),
    "distinct of a join with views": Operator(
        "SELECT DISTINCT v.k, w.n % 3 AS r FROM vq v JOIN qorp w ON v.k = w.k", is_of_tables=True
    ),
    "view over a join with a view": Operator("SELECT n, m FROM vqvp WHERE m % 3 > 0", is_of_tables=True),
    "join over a join with a view": Operator("SELECT v.n, v.m, q.id FROM vqvp v JOIN q ON v.k = q.k", is_of_tables=True),
    "groups of a window join": Operator(
        f"SELECT a.k, count(*) AS n, sum(b.y) AS total, first(a.x) AS oldest FROM a JOIN b ON a.k = b.k AND a.ts {NEAR('b')} "
        "GROUP BY a.k"
    ),
    "groups of a table join": Operator("SELECT q.k, count(*) AS n, max(q.n) AS hi FROM a JOIN q ON a.k = q.k GROUP BY q.k"),
    "groups of a left join of a table": Operator(
        "SELECT a.k, count(*) AS n, count(q.id) AS m, last(a.x) AS newest FROM a LEFT JOIN q ON a.k = q.id GROUP BY a.k"
    ),
    "windows of a table join": Operator(
        "SELECT window.start AS s, count(*) AS n, sum(q.n) AS total FROM a JOIN q ON a.k = q.k GROUP BY window(a.ts, '4 seconds')"
    ),
    "sessions of a table join": Operator(
        "SELECT q.id, session_window.start AS s, count(*) AS n FROM a JOIN q ON a.k = q.k "
        "GROUP BY q.id, session_window(a.ts, '1 second')"
    ),
    "frames of a table join": Operator(
        "SELECT a.x, q.id, count(*) OVER (PARTITION BY q.id ORDER BY a.ts) AS n FROM a JOIN q ON a.k = q.k"
    ),
    "groups of groups": Operator(
        "SELECT n, count(*) AS c FROM (SELECT k, count(*) AS n FROM a WHERE x % 3 > 0 GROUP BY k) GROUP BY n"
    ),
    "groups of groups of a table": Operator(
        "SELECT n, count(*) AS c FROM (SELECT k, count(*) AS n FROM q GROUP BY k) GROUP BY n", is_of_tables=True
    ),
    "groups of frames": Operator(
        "SELECT k, max(n) AS hi FROM (SELECT k, count(*) OVER (PARTITION BY k ORDER BY ts) AS n FROM a) GROUP BY k"
    ),
    "groups of a join of tables": Operator(
        "SELECT q.k, count(*) AS n, sum(p.m) AS total FROM q JOIN p ON q.k = p.k GROUP BY q.k", is_of_tables=True
    ),
    "groups of a left join of tables": Operator(
        "SELECT q.k, count(*) AS n, count(p.id) AS m FROM q LEFT JOIN p ON q.k = p.k GROUP BY q.k", is_of_tables=True
    ),
    "groups of a semi join of tables": Operator(
        "SELECT k, sum(n) AS total FROM q WHERE k IN (SELECT k FROM p) GROUP BY k", is_of_tables=True
    ),
    "groups of a join of a table with a view": Operator(
        "SELECT v.k, count(*) AS n FROM vq v JOIN p ON v.k = p.k GROUP BY v.k", is_of_tables=True
    ),
    "join of a stream with a view over a table": Operator("SELECT a.x, v.n FROM a JOIN vq v ON a.k = v.k", cut_matters=BEFORE),
    "join of a stream with a view over distinct": Operator("SELECT a.x, d.odd FROM a JOIN dq d ON a.k = d.k", cut_matters=BEFORE),
    "join of a stream with a union of tables": Operator("SELECT a.x, v.n FROM a JOIN qorp v ON a.k = v.k", cut_matters=BEFORE),
    "join of a stream with a view and a table": Operator(
        "SELECT a.x, v.m, q.n FROM a JOIN vqvp v ON a.k = v.k JOIN q ON q.k = a.k", cut_matters=BEFORE
    ),
    "left join of a view over tables": Operator(
        "SELECT a.x, v.m FROM a LEFT JOIN qp v ON a.k = v.k AND v.n < a.x", cut_matters=BEFORE
    ),
    "anti join of a view over tables": Operator("SELECT a.x FROM a LEFT ANTI JOIN qk v ON a.k = v.k", cut_matters=BEFORE),
    "semi join of a view over tables": Operator(
        "SELECT x FROM a WHERE k IN (SELECT k FROM dq WHERE odd = 0)", cut_matters=BEFORE
    ),
    "window join with a view over a table": Operator(
        f"SELECT a.x, b.y, v.id FROM a JOIN b ON a.k = b.k AND a.ts {NEAR('b')} JOIN vq v ON v.k = b.k", cut_matters=BEFORE
    ),
    "join of views over streams and tables": Operator("SELECT o.x, v.n FROM ab o JOIN vq v ON o.k = v.k", cut_matters=BEFORE),
    "join of a view over a left join with one over a table": Operator(
        "SELECT o.x, v.n FROM alone o JOIN vq v ON o.k = v.k", cut_matters=BEFORE
    ),
    "groups": Operator(
        "SELECT k, count(*) AS n, sum(x) AS s, last(x) AS l, count(DISTINCT x % 4) AS d FROM a WHERE x % 3 > 0 GROUP BY k"
    ),
    "windows": Operator(
        "SELECT k, window.start AS at, count(*) AS n, min_by(x, -x) AS m FROM a GROUP BY k, window(ts, '6 seconds', '2 seconds')"
    ),
    "sessions": Operator(
        "SELECT k, session_window.start AS at, count(*) AS n, max(x) AS m FROM a GROUP BY k, session_window(ts, '2 seconds')"
    ),
    "rows over frames": Operator(
        "SELECT k, x, sum(x) OVER (PARTITION BY k ORDER BY ts ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS s FROM a QUALIFY s > 9"
    ),
    "groups over a view": Operator("SELECT k, count(*) AS n, min(x) AS m FROM va GROUP BY k"),
    "groups of a table": Operator("SELECT k, count(*) AS n, min(n) AS m FROM q GROUP BY k", is_of_tables=True),
    "groups over a view over tables": Operator(
        "SELECT k, sum(m) AS s, count(*) AS n FROM qp GROUP BY k", is_of_tables=True
    ),
}  # fmt: skip


AB = f"a JOIN b ON a.k = b.k AND a.ts {NEAR('b')}"
# what operators over views give, as queries that read no view
WRITTEN_OUT = {
    "view": "SELECT x FROM a WHERE x % 3 > 0 AND k < 3",
    "view over a view": "SELECT x FROM a WHERE x % 3 > 0 AND x % 2 = 0 AND k < 3",
    "view over a join": f"SELECT a.x, b.y FROM {AB} WHERE a.x % 2 = 0",
    "view over a table": "SELECT id, n FROM q WHERE n % 4 > 0 AND k < 3",
    "view over a view over a table": "SELECT id, n FROM q WHERE n % 4 > 0 AND k < 3 AND n % 3 > 0",
    "view over a join of tables": "SELECT q.id, p.id AS pid, q.n, p.m FROM q JOIN p ON q.k = p.k WHERE p.m % 3 > 0",
    "view over a view over a join of tables": (
        "SELECT q.id, p.m FROM q JOIN p ON q.k = p.k WHERE q.n % 3 > 0 AND p.m % 5 > 0"
    ),
    "view over a left join": f"SELECT a.x, b.y FROM a LEFT JOIN b ON a.k = b.k AND b.ts {NEAR('a')} WHERE a.k < 3",
    "view over an anti join": f"SELECT a.x FROM a LEFT ANTI JOIN b ON a.k = b.k AND b.ts {NEAR('a')} WHERE a.k < 3",
    "view over a semi join": "SELECT x FROM a WHERE k < 3 AND k IN (SELECT k FROM q)",
    "view over a table join": "SELECT a.x, q.n FROM a JOIN q ON a.k = q.k WHERE a.k < 3",
    "view over a union": (
        "SELECT x FROM a WHERE x % 3 > 0 AND k < 3 UNION ALL SELECT y FROM b WHERE k < 3 UNION ALL SELECT -x FROM a WHERE k = 1"
    ),
    "view over a union of tables": (
        "SELECT id, n FROM q WHERE n % 3 > 0 AND k < 3 UNION ALL SELECT id, m FROM p WHERE k < 3"
    ),
    "distinct over a view": "SELECT DISTINCT k FROM q WHERE n % 4 > 0 AND n % 3 > 0",
    "view over distinct": "SELECT k FROM (SELECT DISTINCT k, n % 2 AS odd FROM q) d WHERE odd = 0",
    "distinct over a view that is a union": (
        "SELECT DISTINCT k FROM (SELECT k, n FROM q WHERE n % 3 > 0 UNION ALL SELECT k, m FROM p) u WHERE n % 4 > 0"
    ),
    "view over a distinct union": (
        "SELECT k FROM (SELECT k, n % 2 AS odd FROM q WHERE n % 3 > 0 UNION SELECT k, m % 2 FROM p) d WHERE odd = 0"
    ),
    "view over a semi join of tables": "SELECT id, n FROM q WHERE k IN (SELECT k FROM p) AND n % 3 > 0",
    "view over a left join of tables": (
        "SELECT q.id, q.n, p.m FROM q LEFT JOIN p ON q.k = p.k AND p.m % 2 = 0 WHERE q.k < 3"
    ),
    "view over an anti join of tables": "SELECT q.id, q.n FROM q LEFT ANTI JOIN p ON q.k = p.k WHERE q.n % 3 > 0",
    "diamond": f"SELECT a.x, b.y, c.y AS z FROM {AB} JOIN b c ON c.k = b.k AND c.ts {NEAR('b')}",
    "self-join of a view": (
        f"SELECT o.x, v.x AS z FROM a o JOIN a v ON o.k = v.k AND v.ts {NEAR('o')} WHERE o.x % 3 > 0 AND v.x % 3 > 0"
    ),
    "self-join of a view over a join": (
        f"SELECT a.x, b.y, c.x AS z, d.y AS w FROM {AB} JOIN b d ON d.k = b.k AND d.ts {NEAR('b')} "
        f"JOIN a c ON c.k = d.k AND c.ts {NEAR('d')}"
    ),
    "band join over a view": (
        f"SELECT a.x, b.y, c.y AS z FROM {AB} JOIN b c ON a.x - c.y BETWEEN -8 AND 8 AND c.ts {NEAR('b')}"
    ),
    "left join over views": (
        "SELECT v.x, w.y FROM (SELECT * FROM a WHERE x % 3 > 0) v LEFT JOIN (SELECT * FROM b WHERE y % 4 > 0) w "
        f"ON v.k = w.k AND w.ts {NEAR('v')}"
    ),
    "anti join over views": (
        "SELECT v.x FROM (SELECT * FROM a WHERE x % 3 > 0) v LEFT ANTI JOIN (SELECT * FROM b WHERE y % 4 > 0) w "
        f"ON v.k = w.k AND w.ts {NEAR('v')}"
    ),
    "semi join over a view": "SELECT x FROM a WHERE x % 3 > 0 AND k IN (SELECT k FROM q)",
    "join of a table with a view": "SELECT q.id, q.n, p.m FROM q JOIN p ON q.k = p.k WHERE q.n % 4 > 0",
    "join of a table with a view over it": "SELECT o.id, q.id AS qid FROM q o JOIN q ON o.k = q.k WHERE o.n % 4 > 0",
    "self-join of a view over a table": (
        "SELECT v.id, w.id AS wid FROM q v JOIN q w ON v.k = w.k WHERE v.n % 4 > 0 AND w.n % 4 > 0"
    ),
    "join of views over tables": (
        "SELECT v.id, p.id AS pid, q.n FROM q v JOIN q ON v.k = q.k JOIN p ON q.k = p.k WHERE v.n % 4 > 0 AND v.k < 3"
    ),
    "semi join of a table with a view": "SELECT id, m FROM p WHERE k IN (SELECT k FROM q WHERE n % 4 > 0)",
    "join over a join with a view": (
        "SELECT v.n, p.m, q.id FROM q v JOIN p ON v.k = p.k AND p.m <> v.n JOIN q ON v.k = q.k WHERE v.n % 4 > 0"
    ),
    "join of a stream with a view over a table": "SELECT a.x, q.n FROM a JOIN q ON a.k = q.k WHERE q.n % 4 > 0",
    "anti join of a view over tables": "SELECT a.x FROM a LEFT ANTI JOIN qp v ON a.k = v.k",
    "window join with a view over a table": (
        f"SELECT a.x, b.y, q.id FROM {AB} JOIN q ON q.k = b.k WHERE q.n % 4 > 0"
    ),
    "semi join over a view over a join": (
        f"SELECT a.x, b.y FROM {AB} WHERE EXISTS (SELECT 1 FROM q WHERE q.k = a.k AND q.n < a.x)"
    ),
    "table join over a view over a join": f"SELECT a.x, b.y, q.n FROM {AB} JOIN q ON q.id = b.y % 4 + 1",
    "rules table over a view": (
        f"SELECT a.x, b.y, r.id FROM {AB} JOIN rules r ON a.k = r.k AND a.x BETWEEN r.low AND r.high"
    ),
}  # fmt: skip


def random_rows(seed: int, n_rows: int) -> list[tuple[str, Row]]:
    """Rows of all relations; those of a and b are never late. The last ones let time decide all rows before them."""
    rng, clock_s = random.Random(seed), 0
    rows: list[tuple[str, Row]] = []
    for number in range(n_rows):
        clock_s += rng.choice([0, 0, 1, 1, 2])
        if not rows or rng.random() < 0.6:  # else one more of the same
            stream = rng.choice(["a", "a", "a", "b", "b", "b", "q", "q", "p", "rules"])
        k = rng.randint(1, 3)
        if stream in TABLES:
            rows.append((stream, _table_row(rng, stream, k, number, n_rows)))
        else:
            rows.append((stream, {"k": k, "x" if stream == "a" else "y": number, "ts": _at(clock_s)}))
    return [
        *rows,
        ("a", {"k": -1, "x": 10_000, "ts": _at(clock_s + 100)}),
        ("b", {"k": -2, "y": 10_001, "ts": _at(clock_s + 100)}),
    ]


def _table_row(rng: random.Random, table: str, k: int, number: int, most: int) -> Row:
    key = rng.choice(KEYS)
    if rng.random() < 0.25:
        return {"id": key, "_change_type": "delete"}
    if table == "rules":
        low = rng.randrange(most // 2)
        return {"id": key, "k": k, "low": low, "high": low + most // 2}
    return {"id": key, "k": k, "n" if table == "q" else "m": rng.choice([number, 14])}


def _at(seconds: int) -> datetime.datetime:
    return START + datetime.timedelta(seconds=seconds)


OPERATOR_TEXTS = {name: operator.text for name, operator in OPERATORS.items()}
QUERIES = VIEWS | OPERATOR_TEXTS | {f"{name}, written out": text for name, text in WRITTEN_OUT.items()}
SCRIPT = Script(DECLARATIONS, QUERIES, random_rows(seed=9, n_rows=80), frozenset(TABLES))
ROUNDS = SCRIPT.rounds(*SIZES)
UNDER_CUTS = [*VIEWS, *(name for name, operator in OPERATORS.items() if not operator.cut_matters)]
OF_TABLES = [name for name, operator in OPERATORS.items() if operator.is_of_tables]


@pytest.fixture(scope="module")
def one(tmp_path_factory: Any) -> Outcome:
    """What comes of the script in one place, from beginning to end."""
    return laws.lived(SCRIPT, tmp_path_factory.mktemp("one") / "home", ROUNDS)


def test_every_operator_has_results(one: Outcome) -> None:
    assert [name for name in QUERIES if len(one.results[name]) < 2] == []
    assert len(ROUNDS) > 12


NAMES_ITS_ROWS = ("semi", "anti", "self-join", "diamond", "window", "band")


@pytest.mark.parametrize(
    "name",
    [
        name
        for name, operator in OPERATORS.items()
        if any(word in name for word in NAMES_ITS_ROWS) and not operator.is_of_tables
    ],
)
def test_a_combination_is_a_result_once(name: str, one: Outcome) -> None:
    """Results of these have a number of each row that they are made of, and none of rows that were only looked for."""
    assert set(one.folded()[name].values()) == {1}


@pytest.mark.parametrize("name", WRITTEN_OUT)
def test_a_view_gives_what_its_text_gives_in_its_place(name: str, one: Outcome) -> None:
    found = one.folded()
    assert found[name] == found[f"{name}, written out"]


@pytest.mark.parametrize("place", PLACES)
def test_every_place_gives_the_same(tmp_path: Path, place: str, one: Outcome) -> None:
    """In process that is a replay."""
    laws.every_place_gives_the_same(SCRIPT, tmp_path / "home", ROUNDS, place, one)


@pytest.mark.parametrize("place", PLACES)
def test_a_restart_changes_nothing(tmp_path: Path, place: str, one: Outcome) -> None:
    laws.a_restart_changes_nothing(SCRIPT, tmp_path / "home", ROUNDS, place, one)


@pytest.mark.parametrize("place", PLACES)
def test_a_round_that_failed_leaves_nothing(tmp_path: Path, place: str, one: Outcome) -> None:
    laws.a_round_that_failed_leaves_nothing(SCRIPT, tmp_path / "home", ROUNDS, place, one)


@pytest.mark.parametrize("place", PLACES[1:])
def test_a_task_that_is_run_twice_counts_once(tmp_path: Path, place: str, one: Outcome) -> None:
    laws.a_task_that_is_run_twice_counts_once(SCRIPT, tmp_path / "home", ROUNDS, place, one)


@pytest.mark.parametrize(
    ("place", "rounds"),
    [
        (PLACES[0], SCRIPT.numbered_rounds(1_000)),
        (PLACES[0], SCRIPT.numbered_rounds(5, 1, 17)),
        (PLACES[1], SCRIPT.rounds(1_000)),
        (PLACES[2], SCRIPT.rounds(2, 4, 1)),
    ],
    ids=["one round", "some rounds", "in tasks", "workers join"],
)
def test_a_cut_changes_nothing_that_remains(
    tmp_path: Path, place: str, rounds: list[Rows], one: Outcome
) -> None:
    laws.a_cut_changes_nothing_that_remains(SCRIPT, tmp_path / "home", rounds, place, one, UNDER_CUTS)


def test_what_all_rows_left_folds_to_nothing(tmp_path: Path) -> None:
    deletes = {table: [{"id": key, "_change_type": "delete"} for key in KEYS] for table in TABLES}
    laws.what_all_rows_left_folds_to_nothing(SCRIPT, tmp_path / "home", ROUNDS, deletes, OF_TABLES)


@pytest.mark.parametrize("is_reopened", [False, True], ids=["running", "reopened"])
def test_a_late_reader_gets_what_is_there_and_what_comes(
    tmp_path: Path, one: Outcome, is_reopened: bool
) -> None:
    late = {
        name: each.is_of_tables for name, each in OPERATORS.items() if each.is_of_tables or each.reads_one
    }
    laws.a_late_reader_gets_what_is_there_and_what_comes(
        SCRIPT, tmp_path / "home", ROUNDS, len(ROUNDS) // 2, late, one, is_reopened=is_reopened
    )


@pytest.mark.parametrize("name", OPERATORS)
def test_alone_is_as_together(tmp_path: Path, name: str, one: Outcome) -> None:
    laws.alone_is_as_together(SCRIPT, tmp_path / "home", ROUNDS, name, one)
