"""Where it matters how rows are cut into rounds, explain says so; and it does matter there."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

import pytest

import eddyline
from tests.engine.test_operator_laws import DECLARATIONS, OPERATORS, VIEWS

START = datetime.datetime(2026, 1, 1, 9, tzinfo=datetime.UTC)
SECOND = 1_000_000
AT_END = "a row of alone that time decides finds {} as it is at the end of that round"
LATE = "rows of {} that are late by the rounds before theirs are not joined"


def at(seconds: float) -> datetime.datetime:
    return START + datetime.timedelta(seconds=seconds)


def opened() -> eddyline.Engine:
    """Every reading of the clock is a second later."""
    times = iter(range(10_000))
    engine = eddyline.open(clock=lambda: next(times) * SECOND)
    engine.sql("""
        CREATE TABLE a (k INT, x INT, ts TIMESTAMP) TBLPROPERTIES (time = 'ts');
        CREATE TABLE b (k INT, y INT, ts TIMESTAMP) TBLPROPERTIES (time = 'ts');
        CREATE TABLE plain (k INT, z INT);
        CREATE TABLE q (k INT PRIMARY KEY, n INT)
    """)
    engine.query(
        "SELECT a.k, a.x, b.y FROM a LEFT JOIN b ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 4 SECONDS",
        name="alone",
    )
    engine.query("SELECT k, n FROM q WHERE n > 2", name="high")
    return engine


def told(text: str, rounds: Sequence[dict[str, list[Any]]]) -> list[tuple[Any, ...]]:
    with opened() as engine:
        query = engine.query(text, name="asked")
        for rows in rounds:
            engine.push(rows)
        return [(row.change, *row.values()) for row in query.latest(1_000)]


def numbered(*rows: tuple[str, dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    return [(stream, row | {"_arrival": number}) for number, (stream, row) in enumerate(rows, 1)]


def in_one_round(rows: list[tuple[str, dict[str, Any]]]) -> list[dict[str, list[Any]]]:
    found: dict[str, list[Any]] = {}
    for stream, row in rows:
        found.setdefault(stream, []).append(row)
    return [found]


def one_by_one(rows: list[tuple[str, dict[str, Any]]]) -> list[dict[str, list[Any]]]:
    return [{stream: [row]} for stream, row in rows]


ALONE = [  # time decides that (1, 7) has no partner when the second row of b has come
    ("a", {"k": 1, "x": 7, "ts": at(0)}),
    ("b", {"k": 9, "y": 0, "ts": at(100)}),
    ("a", {"k": 9, "x": 9, "ts": at(101)}),
    ("q", {"k": 1, "n": 5}),
    ("plain", {"k": 1, "z": 3}),
]
CASES = {
    "SELECT v.x, q.n FROM alone v JOIN q ON v.k = q.k": (
        [("results", AT_END.format("q").replace("alone", "alone v"))],
        ALONE,
    ),
    "SELECT v.x, p.z FROM alone v JOIN recent(plain, 1) p ON v.k = p.k": (
        [("results", AT_END.format("plain p").replace("alone", "alone v"))],
        ALONE,
    ),
    "SELECT x FROM alone v WHERE k IN (SELECT k FROM q)": (
        [("results", AT_END.format("q").replace("alone", "alone v"))],
        ALONE,
    ),
    "SELECT l.z, r.z AS w FROM plain l JOIN recent(plain, INTERVAL 2 SECONDS) r ON l.k = r.k AND l.z > r.z": (
        [("results", "how old a row of plain r is goes by the times of rounds")],
        [("plain", {"k": 1, "z": n}) for n in range(4)],
    ),
    "SELECT a.x, p.z FROM a JOIN recent(plain, 9) p ON a.k = p.k": (
        [("results", LATE.format("a"))],
        [
            ("plain", {"k": 1, "z": 1}),
            ("a", {"k": 1, "x": 1, "ts": at(50)}),
            ("a", {"k": 1, "x": 2, "ts": at(0)}),
        ],
    ),
    "SELECT a.x, q.n FROM a JOIN q ON a.k = q.k": (
        [("results", LATE.format("a"))],
        [
            ("q", {"k": 1, "n": 1}),
            ("a", {"k": 1, "x": 1, "ts": at(50)}),
            ("a", {"k": 1, "x": 2, "ts": at(0)}),
        ],
    ),
    "SELECT k FROM plain WHERE timestamp_seconds(z) < now()": (
        [("results", "now() is the time of the round that a row comes in")],
        [("plain", {"k": n, "z": 5}) for n in range(9)],
    ),
    "SELECT p.z, v.n FROM plain p JOIN high v ON p.k = v.k": (
        [("results", "rows of a round find high v as it was before the round")],
        [("q", {"k": 1, "n": 5}), ("plain", {"k": 1, "z": 3})],
    ),
    "SELECT p.z, v.n FROM plain p JOIN (SELECT DISTINCT k, n FROM q) v ON p.k = v.k": (
        [("results", "rows of a round find the subquery at line 1 v as it was before the round")],
        [("q", {"k": 1, "n": 5}), ("plain", {"k": 1, "z": 3})],
    ),
    "SELECT n FROM (SELECT DISTINCT n FROM q)": (
        [("changes", "several changes of a row in one round are told as one")],
        [("q", {"k": 1, "n": 1}), ("q", {"k": 1, "n": 2})],
    ),
    "SELECT k, n FROM q": (
        [("changes", "several changes of a row in one round are told as one")],
        [("q", {"k": 1, "n": 1}), ("q", {"k": 1, "n": 2})],
    ),
    "SELECT q.n, o.n AS m FROM q JOIN q o ON q.k = o.k": (
        [("changes", "several changes of a row in one round are told as one")],
        [("q", {"k": 1, "n": 1}), ("q", {"k": 1, "n": 2})],
    ),
    "SELECT z FROM plain UNION ALL SELECT -z FROM plain": (
        [("order", "results of a round come part by part")],
        [("plain", {"k": 1, "z": 1}), ("plain", {"k": 1, "z": 2})],
    ),
    "SELECT p.z, q.n FROM plain p LEFT JOIN q ON p.k = q.k": (
        [("order", "rows without a partner come at the end of the round that decides them")],
        [("q", {"k": 1, "n": 1}), ("plain", {"k": 2, "z": 1}), ("plain", {"k": 1, "z": 2})],
    ),
}


def cuts(text: str) -> list[tuple[str, str]]:
    with opened() as engine:
        return [(each["affects"], each["words"]) for each in engine.explain(text).as_dict()["cuts"]]


@pytest.mark.parametrize("text", CASES)
def test_what_a_cut_changes_is_said(text):
    expected, _ = CASES[text]
    own = [each for each in cuts(text) if not each[1].startswith("view ")]
    assert own == expected


@pytest.mark.parametrize("text", CASES)
def test_a_cut_does_change_it(text):
    (said, *_), rows = CASES[text]
    together, apart = (told(text, cut(numbered(*rows))) for cut in (in_one_round, one_by_one))
    assert together != apart
    if said[0] == "order":
        assert sorted(map(str, together)) == sorted(map(str, apart))


@pytest.mark.parametrize(
    "text",
    [
        "SELECT z FROM plain WHERE z > 3",
        "SELECT x FROM a WHERE ts > TIMESTAMP '2026-01-01 09:00:00'",
        "SELECT p.z, q.n FROM plain p JOIN q ON p.k = q.k",
        "SELECT p.z FROM plain p WHERE EXISTS (SELECT 1 FROM q WHERE q.k = p.k)",
        "SELECT p.z FROM plain p LEFT ANTI JOIN q ON p.k = q.k",
        "SELECT l.z, r.z AS w FROM recent(plain, 5) l JOIN recent(plain, 3) r ON l.k = r.k",
    ],
)
def test_nothing_is_said_where_no_cut_changes_anything(text):
    assert cuts(text) == []


def test_what_a_view_says_is_said_of_its_readers_with_its_name():
    with opened() as engine:
        engine.query("SELECT v.k, v.x, q.n FROM alone v JOIN q ON v.k = q.k", name="found")
        explained = engine.query("SELECT x FROM found WHERE n > 1", name="reader").explain()
    lines = [line for line in str(explained).splitlines() if line.startswith("  by rounds")]
    assert lines == [
        "  by rounds  results: view found: a row of alone v that time decides finds q as it is at the end of that round",
        "  by rounds  order of results: view alone: rows without a partner come at the end of the round that decides them",
        f"  by rounds  results: view alone: {LATE.format('a')}",
        f"  by rounds  results: view alone: {LATE.format('b')}",
    ]


def test_of_all_operators_a_cut_is_said_to_change_results_where_the_law_of_cuts_excludes_them():
    """Rows that are late apart: the rows of the laws never are."""
    with eddyline.open() as engine:
        engine.sql(DECLARATIONS)
        for name, text in VIEWS.items():
            engine.query(text, name=name)
        said = {
            name: [
                each["words"]
                for each in engine.explain(operator.text).as_dict()["cuts"]
                if each["affects"] == "results" and "late" not in each["words"]
            ]
            for name, operator in OPERATORS.items()
        }
    assert {name for name, words in said.items() if words} == {
        name for name, operator in OPERATORS.items() if operator.cut_matters
    }


def test_a_text_that_would_be_the_first_to_read_a_view_can_be_explained():
    with opened() as engine:
        engine.query("SELECT k, z FROM plain WHERE z > 1", name="some")
        assert engine.explain("SELECT k FROM some WHERE z < 5").as_dict()["n_sharing"] == 0
