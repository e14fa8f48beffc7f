"""Sets inside queries: which are merged, which are views without a name, and which of those are the same."""

from __future__ import annotations

import pyarrow as pa
import pytest

from eddyline.model import Shape, Stream
from eddyline.sql import Shapes

SCHEMA = pa.schema([("k", pa.int32()), ("x", pa.int32())])
STREAMS = {name: Stream(name, SCHEMA, key=("k",)) for name in ("t", "u")} | {"s": Stream("s", SCHEMA)}
SET = "(SELECT DISTINCT k, x FROM t WHERE x > 5)"


def shape_of(text: str) -> Shape:
    return Shapes().shape_of(text, STREAMS)[0]


def relations(text: str) -> list[str]:
    """The views without a name that a query reads."""
    return [entry.stream for entry in shape_of(text).unnamed_views()]


def test_a_set_in_from_is_a_relation_whose_columns_the_query_reads() -> None:
    shape = shape_of(f"SELECT x + 1 AS y FROM {SET} d WHERE k < 3")
    (entry,) = shape.inputs
    assert entry.view is not None
    assert (entry.alias, entry.label, shape.relations) == ("d", "the subquery at line 1", (entry.stream,))
    assert (shape.streams, shape.is_distinct, len(shape.slots)) == (("t",), False, 2)
    assert (entry.view.shape.is_distinct, entry.view.shape.slots) == (True, ())


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT k FROM {SET} other",
        f"WITH d AS {SET} SELECT x FROM d WHERE x > 8",
        f"SELECT k FROM u UNION ALL SELECT k FROM {SET} d",
        "SELECT k FROM (SELECT DISTINCT o.k, x FROM t AS o WHERE o.x > 5) d",
        "SELECT k\nFROM\n(SELECT  DISTINCT k , x FROM T WHERE x > 5) d",
    ],
)
def test_equal_subqueries_are_one_relation_wherever_they_stand(text: str) -> None:
    assert set(relations(text)) == set(relations(f"SELECT k FROM {SET}"))


@pytest.mark.parametrize(
    "other", ["(SELECT DISTINCT k, x FROM t WHERE x > 6)", "(SELECT DISTINCT k, x FROM u WHERE x > 5)",
              "(SELECT DISTINCT k, x AS y FROM t WHERE x > 5)", "(SELECT DISTINCT k, x FROM t WHERE x >= 5)"]
)  # fmt: skip
def test_subqueries_that_differ_are_different_relations(other: str) -> None:
    assert relations(f"SELECT k FROM {other}") != relations(f"SELECT k FROM {SET}")


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT DISTINCT k FROM {SET} d",
        f"SELECT k FROM {SET} d UNION SELECT k FROM u",
        f"SELECT k FROM s WHERE k IN (SELECT k FROM {SET} d)",
        f"WITH d AS {SET} SELECT k FROM s WHERE k IN (SELECT k FROM d)",
        f"WITH d AS {SET} SELECT k FROM s WHERE EXISTS (SELECT 1 FROM d WHERE d.x = s.x)",
        f"WITH d AS {SET} SELECT k FROM u",
        "SELECT DISTINCT k FROM t UNION ALL SELECT k FROM u",
    ],
)
def test_where_equal_rows_are_one_anyway_or_nothing_reads_it_a_set_is_no_relation(text: str) -> None:
    assert relations(text) == []


def test_texts_that_differ_in_constants_around_a_set_share_a_shape() -> None:
    shapes = Shapes()
    one, other, third = (
        shapes.shape_of(
            f"SELECT k FROM (SELECT DISTINCT k FROM t WHERE x > {inner}) d WHERE k < {outer}", STREAMS
        )
        for inner, outer in ((5, 1), (5, 2), (6, 1))
    )
    assert one[0] is other[0]
    assert one[0] is not third[0]
    assert (one[1][-1], other[1][-1]) == (1, 2)


@pytest.mark.parametrize(
    ("text", "sets"),
    [
        ("SELECT k FROM t UNION SELECT k FROM u UNION ALL SELECT x FROM t", [[False, False], [True, True]]),
        ("SELECT k FROM t UNION ALL SELECT k FROM u UNION SELECT x FROM t", [[True, True, True]]),
        ("SELECT k FROM t UNION ALL (SELECT k FROM u UNION DISTINCT SELECT x FROM t)", [[False, False], [True, True]]),
        ("SELECT k FROM t UNION ALL SELECT DISTINCT k FROM (SELECT k FROM u UNION ALL SELECT x FROM t) i",
         [[False, False], [True, True]]),
    ],
)  # fmt: skip
def test_unions_are_read_from_left_to_right(text: str, sets: list[list[bool]]) -> None:
    shape = shape_of(text)
    views = [entry.view.shape for entry in shape.unnamed_views() if entry.view is not None]
    assert [[branch.is_one_set for branch in each.all_branches] for each in (shape, *views)] == sets
