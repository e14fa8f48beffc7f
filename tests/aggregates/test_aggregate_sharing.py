"""Texts that differ in constants above the aggregates are one shape; those below are part of it."""

from __future__ import annotations

import pytest

import eddyline
from eddyline.model import Shape
from eddyline.sql import Shapes, properties
from tests.aggregates.aggregate_streams import STREAMS

VELOCITY = (
    "SELECT card, {} AS rule, count(*) OVER (PARTITION BY card ORDER BY ts RANGE BETWEEN INTERVAL {} PRECEDING"
    " AND CURRENT ROW) AS n FROM auths WHERE amount > {} QUALIFY n >= {}"
)


def shapes_of(shapes: Shapes, *texts: str) -> list[Shape]:
    return [shapes.shape_of(text, STREAMS)[0] for text in texts]


def test_thresholds_of_having_are_slots_of_one_shape() -> None:
    shapes = Shapes()
    text = (
        "SELECT card, sum(amount) * {} AS s FROM auths GROUP BY card HAVING sum(amount) > {} AND card = '{}'"
    )
    one, other = shapes_of(shapes, text.format(2, 10, "A"), text.format(3, 99, "B"))
    assert one is other
    assert shapes.shape_of(text.format(3, 99, "B"), STREAMS)[1] == [3, 99, "B"]
    assert shapes.bound == 1


def test_thresholds_of_qualify_are_slots_of_one_shape() -> None:
    one, other = shapes_of(
        Shapes(), VELOCITY.format(1, "10 MINUTES", 5, 3), VELOCITY.format(2, "10 MINUTES", 5, 4)
    )
    assert one is other


@pytest.mark.parametrize(
    ("other", "is_same_class"),
    [(VELOCITY.format(1, "5 MINUTES", 5, 3), True), (VELOCITY.format(1, "10 MINUTES", 6, 3), False)],
)
def test_constants_below_and_frames_are_part_of_the_shape(other: str, is_same_class: bool) -> None:
    one, two = shapes_of(Shapes(), VELOCITY.format(1, "10 MINUTES", 5, 3), other)
    assert one is not two
    assert (one.stream == two.stream) is is_same_class


def test_a_constant_of_a_group_is_the_same_in_select() -> None:
    shapes = Shapes()
    text = "SELECT amount % {} AS digit, count(*) AS n FROM auths GROUP BY amount % {}"
    ten, two = shapes_of(shapes, text.format(10, 10), text.format(2, 2))
    assert ten.stream != two.stream
    assert ten.slots == ()


def test_constants_of_windows_are_part_of_the_shape() -> None:
    text = "SELECT count(*) AS n FROM auths GROUP BY window(ts, '{}') HAVING n > {}"
    one, same, other = shapes_of(
        Shapes(), text.format("1 minute", 1), text.format("1 minute", 2), text.format("2 minutes", 1)
    )
    assert one is same
    assert one.stream != other.stream
    assert one.inputs[0].stream == other.inputs[0].stream


def test_properties_that_say_how_groups_are_told_are_part_of_the_shape() -> None:
    shapes = Shapes()
    text = "SELECT card, count(*) AS n FROM auths GROUP BY card"
    found = [
        shapes.shape_of(text, STREAMS, properties=properties(stated))[0]
        for stated in ({}, {"keep": "1 day"}, {"keep": "24 hours", "owner": "ops"}, {"keep": "2 days"}, {"emit": "changes"})
    ]  # fmt: skip
    assert found[1] is found[2]
    assert found[0] is found[4]
    assert len({each.key for each in found}) == len({each.stream for each in found}) == 3


def test_a_shape_is_bound_anew_when_its_stream_gets_another_time() -> None:
    shapes = Shapes()
    text = "SELECT count(*) AS n FROM auths GROUP BY window(ts, '1 minute')"
    one = shapes.shape_of(text, STREAMS)[0]
    keyed = {**STREAMS, "auths": STREAMS["auths"].__class__("auths", STREAMS["auths"].schema, key=("card",))}
    other = shapes.shape_of(text, keyed)[0]
    assert one.aggregating is not None
    assert other.aggregating is not None
    assert (one.aggregating.aggregation.reads_table, other.aggregating.aggregation.reads_table) == (
        False,
        True,
    )


def test_a_query_that_joins_a_class_in_the_65th_version_is_warned_of() -> None:
    text = "SELECT card, count(*) AS n FROM auths GROUP BY card HAVING count(*) > {}"
    with eddyline.open() as engine:
        engine.sql("CREATE TABLE auths (card STRING, ts TIMESTAMP) TBLPROPERTIES (time = 'ts')")
        for n in range(63):
            engine.query(text.format(n), name=f"rule_{n}", keep="30 days")
        engine.query("SELECT card FROM auths GROUP BY card, window(ts, '1 minute')", name="in_windows")
        assert engine.query(text.format(63), name="rule_63", keep="30 days").warnings == []
        late = engine.query(text.format(64), name="rule_64", keep="30 days")
        assert late.warnings == [
            "this query shares its rows with queries of 64 other versions, each of which has groups of its own: "
            "name a view, and let rules read it"
        ]
        assert engine.get("in_windows").warnings == []
        engine.drop("rule_0")
        assert late.warnings == []
        engine.query("SELECT card, count(*) AS n FROM auths GROUP BY card", name="counts", keep="30 days")
        assert engine.query("SELECT card FROM counts WHERE n > 70", name="busy").warnings == []
