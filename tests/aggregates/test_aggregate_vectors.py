"""The worked examples of aggregates, run by the engine: as they stand, cut into other rounds, with more ticks, and refused."""

from __future__ import annotations

import datetime
import random
from typing import Any

import pytest

import eddyline
from eddyline.errors import EddylineError, NotBuiltError, PropertyError, SqlError
from eddyline.model import DeadLetter
from tests.aggregates.cuts import (
    allows_cuts,
    closed_segments,
    recut,
    standing,
    standing_differences,
    with_ticks,
)
from tests.aggregates.reference import run_case
from tests.aggregates.reference_sql import QueryText
from tests.aggregates.scripts import (
    REFUSES,
    VECTORS,
    Case,
    ScriptRun,
    deadline_differences,
    is_built,
    script_differences,
)
from tests.conftest import SEED

pytestmark = pytest.mark.vectors

# Selections need no aggregates: they show that scripts are run and read as they should be.
SELECTIONS: list[Case] = [
    {
        "name": "selection",
        "streams": ["CREATE TABLE s (k STRING, v BIGINT, x DOUBLE, ts TIMESTAMP) TBLPROPERTIES (time='ts')"],
        "queries": [{"name": "q", "sql": "SELECT k, x, ts FROM s WHERE 10 / v > 1"}],
        "steps": [
            {"push": {"s": [[1, "A", 2, "NaN", "2026-01-01T00:01:00Z"], [2, None, 0, 0.5, None]]}, "now": "2026-01-01T00:01:00Z"},
            {"add": {"name": "r", "sql": "SELECT v FROM s"}},
            {"tick": "2026-01-01T00:02:00Z"},
            {"push": {"s": [[7, "B", 3, 1, "2026-01-01T00:00:59.999999Z"]]}, "now": "2026-01-01T00:02:00Z"},
            {"drop": "q"},
            {"push": {"s": [[9, "B", 3, 1, "2026-01-01T00:01:00Z"]]}, "now": "2026-01-01T00:02:00Z"},
        ],
        "expected": [
            {"q": [["insert", ["A", "NaN", "2026-01-01T00:01:00Z"]]]},
            {},
            {},
            {"q": [["insert", ["B", 1.0, "2026-01-01T00:00:59.999999Z"]]], "r": [["insert", [3]]]},
            {},
            {"r": [["insert", [3]]]},
        ],
        "dead": [{"q": [{"arrival": 2}]}, {}, {}, {}, {}, {}],
        "late": {"s": 1},
    },
    {
        "name": "selection_of_a_table",
        "streams": ["CREATE TABLE t (id INT PRIMARY KEY, d DECIMAL(6,2), gone BOOLEAN) TBLPROPERTIES (delete='gone')"],
        "queries": [{"name": "q", "sql": "SELECT id, d FROM t WHERE d > 1"}],
        "steps": [
            {"push": {"t": [[1, 1, "1.50", None], [2, 2, "0.50", False]]}, "now": "2026-01-01T00:01:00Z"},
            {"add": {"name": "r", "sql": "SELECT d FROM q WHERE d < 3"}},
            {"tick": "2026-01-01T00:01:00Z"},
            {"push": {"t": [[3, 1, "2.50", False], [4, 2, "1.75", False]]}, "now": "2026-01-01T00:02:00Z"},
            {"push": {"t": [[5, 1, "9.00", True]]}, "now": "2026-01-01T00:03:00Z"},
        ],
        "expected": [
            {"q": [["insert", [1, "1.50"]]]},
            {},
            {"r": [["insert", ["1.50"]]]},
            {
                "q": [["insert", [2, "1.75"]], ["update_preimage", [1, "1.50"]], ["update_postimage", [1, "2.50"]]],
                "r": [["update_preimage", ["1.50"]], ["update_postimage", ["2.50"]], ["insert", ["1.75"]]],
            },
            {"q": [["delete", [1, "2.50"]]], "r": [["delete", ["2.50"]]]},
        ],
    },
]  # fmt: skip
CASES = [*SELECTIONS, *(case for case in VECTORS["cases"] if is_built(case))]
REFUSED = VECTORS["refused"] if REFUSES else []
CUT = [case for case in CASES if allows_cuts(case)]


def replayed(cases: list[Case]) -> list[Any]:
    """Cases as parameters; those that were made at random, a hundred of them, can wait for the whole suite."""
    return [
        pytest.param(case, marks=[pytest.mark.thorough] * case["name"].startswith("random"), id=case["name"])
        for case in cases
    ]


def told(case: Case) -> dict:
    run = ScriptRun(case)
    with run.engine:
        return run.run()


def seeded(case: Case) -> random.Random:
    return random.Random(f"{SEED} {case['name']}")


@pytest.mark.parametrize("case", replayed(CASES))
def test_the_engine_tells_what_the_vectors_say(case):
    assert script_differences(case) == []


@pytest.mark.parametrize("case", replayed(CUT))
def test_the_same_rows_stand_however_rows_are_cut_into_rounds(case):
    whole, cut = closed_segments(case), recut(case, seeded(case))
    expected = standing(whole, run_case(whole, has_deadlines=False), at_extra=True)
    assert standing_differences(expected, standing(cut, told(cut), at_extra=True)) == []


@pytest.mark.parametrize("case", replayed(CASES))
def test_more_ticks_leave_the_same_rows_after_every_round(case):
    ticked = with_ticks(case, seeded(case))
    found = standing(ticked, told(ticked), at_extra=False)
    assert standing_differences(standing(case, case, at_extra=False), found) == []


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case["name"])
def test_what_has_no_meaning_is_refused_with_a_position_and_a_way_out(case):
    with eddyline.open() as engine:
        for text in case["streams"]:
            engine.sql(text)
        with pytest.raises(EddylineError) as caught:
            engine.query(case["sql"], **case.get("properties", {}))
    error = caught.value
    assert isinstance(error, (SqlError, PropertyError))
    assert not isinstance(error, NotBuiltError)
    assert error.hint
    assert error.position or isinstance(error, PropertyError)


# --------------------------------------------------------------------------------------------- how scripts are read


def test_letters_of_groups_are_told_from_letters_of_rows():
    at = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    window = {"start": at, "end": at + datetime.timedelta(minutes=1)}
    sql = "SELECT k, count(*) AS n FROM s GROUP BY k, window(ts, '1 minute')"
    case = {**SELECTIONS[0], "queries": [], "steps": []}
    run = ScriptRun(case)
    with run.engine:
        run.texts["q"] = QueryText(sql, {})
        of_row = {"k": "A", "v": 1, "x": 0.5, "ts": at}
        letters = [
            DeadLetter(1, "s", row, "", "", 1, "q", 7) for row in ({"k": "A", "window": window}, of_row)
        ]
        found = [run.letter(letter) for letter in letters]
    times = ["2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"]
    assert found == [{"group": ["A"], "window": times}, {"arrival": 7}]


@pytest.mark.parametrize(
    ("deadline_s", "limit", "is_right"),
    [
        (60, "00:01:00", True),
        (30, "00:01:00", True),
        (61, "00:01:00", False),
        (0, "00:01:00", False),
        (None, "00:01:00", False),
        (60, None, True),
        (None, None, True),
    ],
)
def test_a_deadline_may_come_early_but_neither_late_nor_at_once(deadline_s, limit, is_right):
    case = {
        "steps": [{"tick": "1970-01-01T00:00:00Z"}, {"drop": "q"}],
        "deadlines": [limit and f"1970-01-01T{limit}Z", None],
    }
    found = [None if deadline_s is None else deadline_s * 1_000_000, None]
    assert (list(deadline_differences(case, found)) == []) is is_right
