"""Decimal arithmetic is exact: judged by Python's decimals on random and adversarial values."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_EVEN, ROUND_HALF_UP, Context, Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eddyline.expressions import decimals

EXACT = Context(prec=400)
WHOLE = pa.decimal256(76, 0)
MODES = {
    decimals.HALF_UP: ROUND_HALF_UP,
    decimals.HALF_EVEN: ROUND_HALF_EVEN,
    decimals.TOWARDS_ZERO: ROUND_DOWN,
    decimals.UP: ROUND_CEILING,
    decimals.DOWN: ROUND_FLOOR,
}


def integers(digits: int) -> st.SearchStrategy[int]:
    """Whole numbers of up to so many digits, many of them all nines, halves, or powers of two: what divisions trip over."""
    special = st.integers(1, digits).flatmap(
        lambda n: st.sampled_from([10**n - 1, 10**n - 2, 10 ** (n - 1), 5 * 10 ** (n - 1), int("5" * n)])
    )
    binary = st.integers(0, int(digits * 3.3)).map(lambda bits: (1 << bits) - 1)
    size = special | binary | st.integers(0, 10**digits - 1)
    return st.tuples(st.sampled_from([1, -1]), size).map(lambda pair: pair[0] * pair[1])


@st.composite
def decimal_columns(draw: st.DrawFn) -> pa.Array:
    precision = draw(st.integers(1, 38))
    scale = draw(st.integers(0, precision))
    values = draw(st.lists(integers(precision), min_size=1, max_size=8))
    return pa.array([EXACT.scaleb(Decimal(v), -scale) for v in values], pa.decimal128(precision, scale))


def fitted(value: Decimal, to: pa.DataType) -> Decimal | None:
    rounded = value.quantize(Decimal((0, (1,), -to.scale)), ROUND_HALF_UP, EXACT)
    return None if rounded and rounded.adjusted() >= to.precision - to.scale else rounded


@given(st.lists(integers(76), min_size=1, max_size=8), st.integers(0, 75), st.sampled_from(sorted(MODES)))
def test_division_by_powers_of_ten_rounds_as_asked(values, drop, mode):
    divided = decimals.rounded_quotient(
        pa.array([Decimal(v) for v in values], WHOLE), pa.scalar(10**drop, WHOLE), mode
    )
    expected = [EXACT.scaleb(Decimal(v), -drop).quantize(Decimal(1), MODES[mode], EXACT) for v in values]
    assert divided.to_pylist() == expected


def test_a_quotient_arrow_gets_wrong_is_put_right():
    nines = pa.array([Decimal(10**52 - 1)], WHOLE)
    quotient, rest = decimals.quotient(nines, pa.scalar(10**14, WHOLE))
    assert quotient.to_pylist() == [Decimal(10**38 - 1)]
    assert rest.to_pylist() == [Decimal(10**14 - 1)]


@given(decimal_columns(), st.integers(1, 38).flatmap(lambda p: st.tuples(st.just(p), st.integers(0, p))))
def test_fitting_rounds_half_up_and_marks_what_is_too_large(column, target):
    to = pa.decimal128(*target)
    values, outside = decimals.fit(column, to)
    expected = [fitted(v, to) for v in column.to_pylist()]
    assert values.to_pylist() == expected
    assert [e is None for e in expected] == ([False] * len(column) if outside is None else outside.tolist())


@pytest.mark.parametrize("to", [pa.decimal128(38, 6), pa.decimal128(38, 20)], ids=str)
@given(data=st.data())
def test_arithmetic_is_exact_before_it_is_rounded(to, data):
    a = data.draw(decimal_columns())
    b = data.draw(decimal_columns())
    n = min(len(a), len(b))
    a, b = a.slice(0, n), b.slice(0, n)
    pairs = list(zip(a.to_pylist(), b.to_pylist(), strict=True))
    if a.type.precision + b.type.precision + 1 > 38:
        in_38_digits = Context(prec=38, rounding=ROUND_HALF_UP)
        products = [fitted(in_38_digits.plus(EXACT.multiply(x, y)), to) for x, y in pairs]
        assert decimals.multiply(a, b, to)[0].to_pylist() == products
    divisible = pa.array([x for x, y in pairs if y], a.type), pa.array([y for _, y in pairs if y], b.type)
    quotients = [
        fitted(EXACT.divide(x, y).quantize(Decimal((0, (1,), -38)), ROUND_HALF_UP, EXACT), to)
        for x, y in pairs
        if y
    ]
    assert decimals.divide(*divisible, to)[0].to_pylist() == quotients
    rest = pa.decimal128(38, max(a.type.scale, b.type.scale))
    assert decimals.remainder(*divisible, rest)[0].to_pylist() == [
        fitted(EXACT.remainder(x, y), rest) for x, y in pairs if y
    ]
