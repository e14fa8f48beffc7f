from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal

import pyarrow as pa
import pytest

from eddyline import types
from eddyline.errors import EddylineError, UnknownNameError, UnsupportedError
from eddyline.model import SlotInfo, Stream
from eddyline.sql import Shapes, render

TRADES = Stream(
    "trades",
    pa.schema(
        [
            ("sym", pa.string()),
            ("sector", pa.string()),
            ("price", pa.float64()),
            ("volume", pa.int32()),
            ("amount", pa.decimal128(10, 2)),
            ("day", pa.date32()),
        ]
    ),
)
STREAMS = {"trades": TRADES}


def test_texts_equal_but_for_constants_are_parsed_and_bound_once() -> None:
    shapes = Shapes()
    found = {
        id(shapes.shape_of(f"SELECT sym FROM trades WHERE sector = '{s}' AND price < {p}", STREAMS)[0])
        for s, p in [("TECH", 10), ("OIL", 10.5), ("", 3), ("it''s", 1000000.125)]
    }
    # an integer and a decimal are written differently, so there are two skeletons
    assert (len(found), shapes.parsed, shapes.bound) == (2, 2, 2)


def test_a_thousand_queries_of_one_shape_are_parsed_once() -> None:
    shapes = Shapes()
    for n in range(1000):
        shapes.shape_of(f"SELECT sym FROM trades WHERE volume > {n} AND price < {n}.5", STREAMS)
    assert (shapes.parsed, shapes.bound, len(shapes)) == (1, 1, 1)


def test_the_same_text_gives_the_identical_shape() -> None:
    shapes = Shapes()
    text = "SELECT sym FROM trades WHERE price < 10"
    assert shapes.shape_of(text, STREAMS)[0] is shapes.shape_of(text, STREAMS)[0]


@pytest.mark.parametrize(
    "where", ["price = 0.1F", "price IN (0.1F, 7)", "price BETWEEN 0.1F AND 7", "price + 0.1F > 7"]
)
def test_a_float_literal_is_rounded_before_it_meets_a_double(where: str) -> None:
    _, values = Shapes().shape_of(f"SELECT sym FROM trades WHERE {where}", STREAMS)
    first = values[0][0] if isinstance(values[0], tuple) else values[0]
    assert first == 0.10000000149011612


def test_values_come_in_the_order_and_type_of_the_slots() -> None:
    shape, values = Shapes().shape_of(
        "SELECT sym FROM trades WHERE sector = 'TECH' AND price < 10 AND volume > -3 AND amount >= 2.5 AND day = '2024-02-29'",
        STREAMS,
    )
    assert values == ["TECH", 10.0, -3, Decimal("2.5"), date(2024, 2, 29)]
    assert shape.slots == tuple(
        SlotInfo(n, t)
        for n, t in enumerate([types.STRING, types.DOUBLE, types.INT, pa.decimal128(10, 2), types.DATE])
    )


def test_a_constant_of_another_type_is_another_shape_only_where_the_bound_form_differs() -> None:
    shapes = Shapes()

    def shape(condition: str) -> object:
        return shapes.shape_of(f"SELECT sym FROM trades WHERE {condition}", STREAMS)[0]

    assert shape("price < 1") is shape("price < 3000000000")  # both DOUBLE beside a DOUBLE
    assert shape("amount < 1.5") is shape("amount < 99.25")  # both fit DECIMAL(10,2)
    assert shape("volume < 1") is shape("volume < 2147483647")
    assert shape("volume < 1") is not shape("volume < 3000000000")  # the column is widened
    assert shape("amount < 1.5") is not shape("amount < 1.505")  # three digits after the point
    assert shapes.parsed == shapes.bound == 5


def test_a_constant_in_arithmetic_is_double_beside_a_double() -> None:
    shapes = Shapes()
    for factor in ("1.1", "1.15", "2.0"):
        shape, values = shapes.shape_of(f"SELECT sym FROM trades WHERE price * {factor} > 5", STREAMS)
        assert (shape.slots[0].type, values[0]) == (types.DOUBLE, float(factor))
    assert shapes.bound == 1


def test_a_constant_the_bound_form_depends_on_is_part_of_the_shape() -> None:
    shapes = Shapes()
    one, values = shapes.shape_of("SELECT round(amount, 1) AS r FROM trades WHERE price > 1", STREAMS)
    same, _ = shapes.shape_of("SELECT round(amount, 1) AS r FROM trades WHERE price > 2", STREAMS)
    other, _ = shapes.shape_of("SELECT round(amount, 2) AS r FROM trades WHERE price > 2", STREAMS)
    assert one is same
    assert other is not one
    assert (values, shapes.bound) == ([1.0], 2)
    assert [render(s.projection[0].expression) for s in (one, other)] == [
        "round(amount, 1)",
        "round(amount, 2)",
    ]


def test_every_shape_has_a_key_of_its_own() -> None:
    shapes = Shapes()
    texts = [
        f"SELECT round(amount, {n}) AS r FROM trades WHERE volume < {v}"
        for n in (1, 2)
        for v in (1, 3000000000)
    ]
    assert len({shapes.shape_of(text, STREAMS)[0].key for text in texts}) == 4


def test_the_parameters_of_a_type_are_part_of_the_shape() -> None:
    shapes = Shapes()
    for text in ("DECIMAL(10, 2)", "DECIMAL(12, 3)", "DECIMAL(10,2)"):
        shapes.shape_of(f"SELECT CAST(price AS {text}) AS p FROM trades WHERE volume > 1", STREAMS)
    assert shapes.bound == 2


def test_a_column_named_by_its_text_keeps_the_constants_in_it() -> None:
    shapes = Shapes()
    two, values = shapes.shape_of("SELECT volume * 2 FROM trades", STREAMS)
    three, _ = shapes.shape_of("SELECT volume*3 FROM trades", STREAMS)
    assert (two.output.names, three.output.names, values) == (["volume * 2"], ["volume * 3"], [])


def test_in_lists_of_any_length_share_a_shape() -> None:
    shapes = Shapes()
    two, values = shapes.shape_of("SELECT sym FROM trades WHERE volume IN (1, 2)", STREAMS)
    many, long = shapes.shape_of(
        f"SELECT sym FROM trades WHERE volume IN ({','.join(map(str, range(100_000)))})", STREAMS
    )
    assert two is many
    assert values == [(1, 2)]
    assert long == [tuple(range(100_000))]
    assert two.slots == (SlotInfo(0, pa.list_(types.INT), None, is_list=True),)
    assert [len(clause.atoms) for clause in many.condition.clauses] == [1]


# ------------------------------------------------------------------------------------------------ parameters


def test_a_parameter_takes_the_type_it_is_compared_in() -> None:
    shape, values = Shapes().shape_of(
        "SELECT * FROM trades WHERE sym = :sym AND price < :limit",
        STREAMS,
        params={"sym": pa.string(), "limit": pa.int64()},
    )
    assert shape.slots == (SlotInfo(0, types.STRING, "sym"), SlotInfo(1, types.DOUBLE, "limit"))
    assert values == [None, None]


def test_a_parameter_compared_in_two_types_is_two_slots() -> None:
    shape, _ = Shapes().shape_of(
        "SELECT :p AS given FROM trades WHERE price < :p AND volume > :p AND 5 > volume",
        STREAMS,
        params={"p": pa.int32()},
    )
    assert [(slot.name, slot.type) for slot in shape.slots] == [
        ("p", types.INT),
        (None, types.INT),
        ("p", types.DOUBLE),
    ]
    assert [slot.index for slot in shape.slots] == [0, 1, 2]


def test_a_list_parameter_may_stand_with_or_without_parentheses() -> None:
    shapes = Shapes()
    for written in (":some", "(:some)"):
        shape, _ = shapes.shape_of(
            f"SELECT * FROM trades WHERE sym IN {written}", STREAMS, params={"some": pa.list_(pa.string())}
        )
        assert shape.slots == (SlotInfo(0, pa.list_(types.STRING), "some", is_list=True),)


def test_parameters_that_are_missing_or_left_over_are_refused() -> None:
    with pytest.raises(UnknownNameError) as missing:
        Shapes().shape_of("SELECT * FROM trades WHERE sym = :sim", STREAMS, params={"sym": pa.string()})
    assert (missing.value.problem, missing.value.hint) == ("there is no parameter sim", "Did you mean sym?")
    with pytest.raises(UnknownNameError) as unused:
        Shapes().shape_of(
            "SELECT * FROM trades WHERE sym = :sym", STREAMS, params={"sym": pa.string(), "limit": pa.int32()}
        )
    assert unused.value.problem == "the text does not use parameter limit"
    assert unused.value.hint == "Write :limit in the text, or leave it out."


def test_a_parameter_cannot_stand_where_the_bound_form_depends_on_it() -> None:
    with pytest.raises(UnsupportedError) as refused:
        Shapes().shape_of("SELECT round(amount, :n) AS r FROM trades", STREAMS, params={"n": pa.int32()})
    assert refused.value.problem == "parameter n is used where only a literal can be"
    assert refused.value.hint == "Write the value into the text."


def test_another_type_of_parameter_is_another_shape() -> None:
    shapes = Shapes()
    text = "SELECT * FROM trades WHERE volume > :n"
    small, _ = shapes.shape_of(text, STREAMS, params={"n": pa.int32()})
    large, _ = shapes.shape_of(text, STREAMS, params={"n": pa.int64()})
    assert (small.slots[0].type, large.slots[0].type) == (types.INT, types.BIGINT)


# ------------------------------------------------------------------------------------------------ change


def test_a_changed_stream_is_bound_anew() -> None:
    shapes = Shapes()
    text = "SELECT * FROM trades WHERE price < 10"
    before, _ = shapes.shape_of(text, STREAMS)
    wider = replace(TRADES, schema=TRADES.schema.append(pa.field("extra", pa.int32())))
    after, _ = shapes.shape_of(text, {"trades": wider})
    assert after is not before
    assert after.output.names[-1] == "extra"


def test_what_is_forgotten_is_bound_anew() -> None:
    shapes = Shapes()
    text = "SELECT sym FROM trades WHERE price < 10"
    before, _ = shapes.shape_of(text, STREAMS)
    shapes.forget("Trades")
    assert len(shapes) == 0
    assert shapes.shape_of(text, STREAMS)[0] is not before


@dataclass
class Declared:
    name: str
    returns: pa.DataType
    version: str
    is_deterministic: bool = True
    takes: tuple[pa.DataType, ...] | None = None


class OneFunction:
    def __init__(self, version: str) -> None:
        self._function = Declared("score", types.DOUBLE, version)

    def get(self, name: str) -> Declared | None:
        return self._function if name.lower() == "score" else None

    def names(self) -> list[str]:
        return ["score"]


def test_another_version_of_a_function_is_another_shape() -> None:
    shapes = Shapes()
    text = "SELECT sym FROM trades WHERE score(sym) > 0.5"
    first, _ = shapes.shape_of(text, STREAMS, OneFunction("a"))
    second, _ = shapes.shape_of(text, STREAMS, OneFunction("b"))
    assert shapes.shape_of(text, STREAMS, OneFunction("b"))[0] is second
    assert (first.functions, second.functions) == ((("score", "a"),), (("score", "b"),))


def test_a_refused_text_leaves_no_shape_behind() -> None:
    shapes = Shapes()
    for _ in range(2):
        with pytest.raises(EddylineError):
            shapes.shape_of("SELECT pricee FROM trades WHERE price < 10", STREAMS)
    assert len(shapes) == 0
