from __future__ import annotations

import pyarrow as pa
import pytest

from eddyline import types
from eddyline.model import Stream
from eddyline.sql import Shapes, render
from tests.scalars import scalar

SCHEMA = pa.schema(
    [
        ("a", pa.int32()),
        ("b", pa.int32()),
        ("t", pa.string()),
        ("flag", pa.bool_()),
        ("two words", pa.int32()),
        ("ts", types.TIMESTAMP),
        ("raw", pa.binary()),
        ("x", pa.float64()),
    ]
)


@pytest.mark.parametrize(
    "text",
    [
        "a + b * 2",
        "(a + b) * 2",
        "a - (b - 2)",
        "(a = 1 OR b = 2) AND NOT flag",
        "a IN (1, 2)",
        "a NOT IN (1, 2)",
        "a NOT IN (b, 2)",
        "(a IN (1, 2)) IN (flag, FALSE)",
        "(a IN (1, 2)) NOT IN (flag, FALSE)",
        "t NOT LIKE 'a%' ESCAPE '!'",
        "a IS NULL",
        "a = 1 IS NOT NULL",
        "a <=> b",
        "a IS DISTINCT FROM b",
        "`two words` > 1",
        "-a + b",
        "a & b | 3",
        "t = 'it\\'s'",
        "raw = X'1F'",
        "ts > TIMESTAMP '2024-01-01 00:00:00Z'",
        "CASE WHEN a > 1 THEN 'x' ELSE 'y' END",
        "TRY_CAST(t AS INT)",
        "x > 1.5",
        "CAST(a AS FLOAT) = 0.1F",
        "coalesce(a, b)",
    ],
)
def test_what_is_rendered_reads_as_the_same_expression(text: str) -> None:
    shown = render(scalar(text, SCHEMA))
    assert scalar(shown, SCHEMA) == scalar(text, SCHEMA)
    assert shown == text


def test_slots_show_their_number_or_their_value() -> None:
    shape, values = Shapes().shape_of(
        "SELECT a FROM s WHERE a > 5 AND t IN ('x', 'y')", {"s": Stream("s", SCHEMA)}
    )
    conditions = [clause.atoms[0].condition for clause in shape.condition.clauses]
    assert [render(c) for c in conditions] == ["a > ?1", "t IN ?2"]
    assert [render(c, values) for c in conditions] == ["a > 5", "t IN ('x', 'y')"]


def test_a_long_list_is_cut_short() -> None:
    assert render(scalar(f"a IN ({', '.join(map(str, range(100)))})", SCHEMA)) == (
        "a IN (0, 1, 2, 3, 4, 5, 6, 7, … 100 values)"
    )


def test_a_list_shows_its_values_also_where_it_is_cast_for_what_it_meets() -> None:
    text = "SELECT a FROM s WHERE :p IN (1, 2) OR a = 3"
    shape, values = Shapes().shape_of(text, {"s": Stream("s", SCHEMA)}, params={"p": pa.int64()})
    shown = [render(atom.condition, [7, *values[1:]]) for atom in shape.condition.clauses[0].atoms]
    assert shown == ["7 IN (1, 2)", "a = 3"]
