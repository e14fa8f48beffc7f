from __future__ import annotations

import sys

import pyarrow as pa
import pytest

from eddyline.errors import LimitError
from eddyline.model import Stream
from eddyline.sql import Shapes
from tests.scalars import scalar

STREAMS = {"s": Stream("s", pa.schema([("a", pa.int32()), ("t", pa.string())]))}


def refused(text: str) -> LimitError:
    with pytest.raises(LimitError) as error:
        Shapes().shape_of(text, STREAMS)
    return error.value


def test_a_text_over_64_kib_is_refused() -> None:
    text = "SELECT a FROM s WHERE t = '" + "x" * 65_536 + "'"
    assert refused(text).problem == "the text has 65,564 bytes; at most 65,536 are read"


def test_bytes_are_counted_not_characters() -> None:
    assert refused("SELECT a FROM s WHERE t = '" + "é" * 33_000 + "'").problem.startswith(
        "the text has 66,028 bytes"
    )


def test_long_lists_do_not_count_up_to_16_mib() -> None:
    values = ", ".join(f"'{n:07}'" for n in range(20_000))
    shape, found = Shapes().shape_of(f"SELECT a FROM s WHERE t IN ({values})", STREAMS)
    assert (len(shape.slots), len(found[0])) == (1, 20_000)
    too_long = "SELECT a FROM s WHERE t IN ('" + "x" * 17_000_000 + "', 'y')"
    assert (
        refused(too_long).problem == "the text has 17,000,036 characters; at most 16,777,216 bytes are read"
    )


def test_a_known_shape_does_not_let_a_longer_text_through() -> None:
    shapes = Shapes()
    shapes.shape_of("SELECT a FROM s WHERE t = 'short'", STREAMS)
    with pytest.raises(LimitError):
        shapes.shape_of("SELECT a FROM s WHERE t = '" + "x" * 65_536 + "'", STREAMS)


def nested(n: int) -> str:
    return "(" * n + "a = 1" + ")" * n


def test_two_hundred_levels_are_read_and_one_more_is_refused() -> None:
    assert Shapes().shape_of(f"SELECT a FROM s WHERE {nested(200)}", STREAMS)[1] == [1]
    assert (
        refused(f"SELECT a FROM s WHERE {nested(201)}").problem == "the text is nested deeper than 200 levels"
    )


def test_levels_of_every_kind_count() -> None:
    schema = STREAMS["s"].schema
    scalar("NOT " * 200 + "a = 1", schema)
    scalar("abs(" * 200 + "a" + ")" * 200, schema)
    for deep in (
        "NOT " * 201 + "a = 1",
        "- " * 201 + "a",
        "abs(" * 201 + "a" + ")" * 201,
        "CASE WHEN true THEN " * 201 + "a" + " END" * 201,
    ):
        with pytest.raises(LimitError) as error:
            scalar(deep, schema)
        assert error.value.problem == "the text is nested deeper than 200 levels"


def test_a_chain_of_operators_is_nested_too() -> None:
    with pytest.raises(LimitError) as error:
        scalar(" + ".join(["a"] * 300), STREAMS["s"].schema)
    assert error.value.problem == "the expression is nested deeper than 200 levels"


@pytest.mark.thorough
def test_a_thousand_predicates_are_read_and_one_more_is_refused() -> None:
    def many(n: int, word: str) -> str:
        return f"SELECT a FROM s WHERE {f' {word} '.join(f'a != {k}' for k in range(n))}"

    for word in ("AND", "OR"):
        assert len(Shapes().shape_of(many(1000, word), STREAMS)[1]) == 1000
        error = refused(many(1001, word))
        assert error.problem == "the query has 1,001 predicates; at most 1,000 are accepted"
        assert error.hint == "Many values of one column belong in an IN list, which is one predicate."


def test_reading_deep_text_leaves_the_recursion_limit_as_it_was() -> None:
    before = sys.getrecursionlimit()
    Shapes().shape_of(f"SELECT a FROM s WHERE {nested(200)}", STREAMS)
    assert sys.getrecursionlimit() == before
