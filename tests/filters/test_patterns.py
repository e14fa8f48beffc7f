"""Patterns as ranges, judged by LIKE itself."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from eddyline.expressions import Frame, call, evaluate
from eddyline.filters.keys import Domain
from eddyline.filters.patterns import PrefixBounds, prefix_bounds
from eddyline.model import Column
from eddyline.types import BINARY, STRING


def told(bounds: PrefixBounds) -> list[tuple[bytes | None, bytes | None, bool, bool]]:
    return list(
        zip(
            bounds.low.to_pylist(),
            bounds.high.to_pylist(),
            bounds.is_point.tolist(),
            bounds.is_exact.tolist(),
            strict=True,
        )
    )


def truth(
    operator: str, value: bytes | str | None, pattern: bytes | str | None, t: pa.DataType
) -> bool | str:
    """What the expression says: true, or not, or an error."""
    test = call(operator, [Column(t, "value"), Column(t, "pattern")])
    columns = {("", "value"): pa.array([value], t), ("", "pattern"): pa.array([pattern], t)}
    frame = Frame(1, columns, [])
    result = evaluate(test, frame)
    if result.errors is not None and result.errors[0]:
        return "error"
    return frame.array(result)[0].as_py() is True


# ------------------------------------------------------------------------------------------------ what a range is


@pytest.mark.parametrize(
    ("pattern", "low", "high", "is_point", "is_exact"),
    [
        ("ab%", b"ab", b"ac", False, True),
        ("ab%%", b"ab", b"ac", False, True),
        ("ab", b"ab", None, True, True),
        ("", b"", None, True, True),
        ("%", b"", None, False, True),
        ("%ab", b"", None, False, False),
        ("_", b"", None, False, False),
        ("ab_", b"ab", b"ac", False, False),
        ("ab%c%", b"ab", b"ac", False, False),
        ("ab%_", b"ab", b"ac", False, False),
        ("é%", "é".encode(), "ê".encode(), False, True),
        ("\x7f%", b"\x7f", b"\x80", False, True),
        (r"a\_b%", b"a_b", b"a_c", False, True),
        (r"a\%", b"a%", None, True, True),
        (r"\\%", b"\\", b"]", False, True),
        (r"a\%%b", b"a%", b"a&", False, False),
        (r"%\_", b"", None, False, False),
        ("ab\\", b"", None, False, False),
        (r"a\b%", b"", None, False, False),
        ("ab%\\", b"", None, False, False),
        (None, None, None, False, True),
    ],
)
def test_the_text_before_the_first_wildcard_is_a_range(pattern, low, high, is_point, is_exact):
    assert told(prefix_bounds(pa.array([pattern], STRING))) == [(low, high, is_point, is_exact)]


def test_patterns_are_read_where_they_lie():
    patterns = pa.array(["no%", "ab%", None, "", r"a\_%", "x"]).slice(1, 4)
    assert told(prefix_bounds(patterns)) == [
        (b"ab", b"ac", False, True),
        (None, None, False, True),
        (b"", None, True, True),
        (b"a_", b"a`", False, True),
    ]
    assert told(prefix_bounds(pa.array([], STRING))) == []


@pytest.mark.parametrize(
    ("prefix", "high"),
    [(b"a%", b"a&"), (b"", None), (b"a\\", b"a]"), (b"a\xff\xff", b"b"), (b"\xff", None), (b"\xfe", b"\xff")],
)
def test_a_prefix_is_taken_as_it_is(prefix, high):
    found = prefix_bounds(pa.array([b"x", prefix], BINARY).slice(1), "startswith")
    assert told(found) == [(prefix, high, False, True)]


def test_ranges_become_keys():
    bounds = prefix_bounds(pa.array(["b%", "b", "%", None, "b_", "\\"]))
    domain = Domain.over([pa.array(["ba"]), *bounds.constants])  # '' b ba c \ ]
    low, high = bounds.intervals(domain)
    rows = domain.keys(pa.array(["", "a", "b", "ba", "bz", "c"])).keys
    inside = [[bool(first <= row <= last) for row in rows] for first, last in zip(low, high, strict=True)]
    assert inside == [
        [False, False, True, True, True, False],
        [False, False, True, False, False, False],
        [True] * 6,
        [False] * 6,
        [False, False, True, True, True, False],
        [True] * 6,
    ]
    assert (low[1] == high[1], low[2], high[2]) == (True, np.iinfo(np.int64).min, np.iinfo(np.int64).max)


def test_bounds_the_domain_does_not_know_are_a_fault():
    with pytest.raises(AssertionError, match="not constants of the domain"):
        prefix_bounds(pa.array(["b%"])).intervals(Domain(pa.array(["b"])))


# ------------------------------------------------------------------------------------------------ against LIKE

LETTERS = "ab%_\\\0éz\U0001f600"
PATTERNS = st.one_of(
    st.text(LETTERS, max_size=6),
    st.builds(
        lambda text, end: text + end, st.text("abé", max_size=3), st.sampled_from(["%", "%%", "_%", "%_", ""])
    ),
    st.none(),
)
TEXTS = st.one_of(st.text(LETTERS, max_size=6), st.text(max_size=6), st.none())


def judged(patterns, values, operator, t):
    bounds = prefix_bounds(pa.array(patterns, t), operator)
    domain = Domain.over([*bounds.constants, pa.array(values[::2], t)])
    low, high = bounds.intervals(domain)
    rows = domain.keys(pa.array(values, t))
    for k, pattern in enumerate(patterns):
        for row, value in enumerate(values):
            expected = truth(operator, value, pattern, t)
            is_null = rows.is_null is not None and bool(rows.is_null[row])
            inside = not is_null and bool(low[k] <= rows.keys[row] <= high[k])
            if expected is not False:
                assert inside, (pattern, value, expected)
            if bounds.is_exact[k]:
                assert inside == expected, (pattern, value)


@given(st.lists(PATTERNS, min_size=1, max_size=5), st.lists(TEXTS, min_size=1, max_size=8))
@example(["a%"], ["a", "a\U0010ffff", "b", "`", "", None])
@example(["\U0010ffff%", "é%"], ["\U0010ffff\U0010ffff", "é", "ê", "é\0"])
def test_a_text_that_is_like_the_pattern_or_in_error_is_in_its_range_and_no_other_if_exact(patterns, values):
    values = values + [pattern.replace("%", "b").replace("\\", "") for pattern in patterns if pattern]
    judged(patterns, values, "like", STRING)


@given(st.lists(TEXTS, min_size=1, max_size=5), st.lists(TEXTS, min_size=1, max_size=8))
def test_a_text_that_starts_with_the_prefix_is_in_its_range_and_no_other(prefixes, values):
    values = values + [prefix + "x" for prefix in prefixes if prefix]
    judged(prefixes, values, "startswith", STRING)


@given(
    st.lists(st.binary(max_size=3), min_size=1, max_size=5),
    st.lists(st.one_of(st.binary(max_size=4), st.none()), min_size=1, max_size=8),
)
@example([b"\xff\xff", b"a\xff", b""], [b"\xff", b"\xff\xff\xff", b"a\xff\0", b"b", b"a"])
def test_bytes_that_start_with_the_prefix_are_in_its_range_and_no_others(prefixes, values):
    judged(prefixes, values + [prefix + b"\xff" for prefix in prefixes], "startswith", BINARY)
