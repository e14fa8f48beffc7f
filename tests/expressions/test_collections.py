"""Arrays, maps and structs, judged by Spark."""

from __future__ import annotations

import pyarrow as pa
import pytest

from eddyline.errors import EddylineError
from eddyline.types import BIGINT, BOOLEAN, DOUBLE, INT, STRING
from tests.expressions import edge_values as edge
from tests.expressions.judge import Cases, agree, each
from tests.scalars import scalar

NAN = float("nan")
INTS = [[], [1], [1, 2, 3], [None], [None, 2], [2, None, 2], [3, 1, 2, 1], [2147483647, -2147483648], None]
TABLE = edge.columns(
    a=(pa.list_(INT), INTS),
    l=(pa.list_(BIGINT), INTS),
    s=(
        pa.list_(STRING),
        [[], ["a"], ["b", "a", "c", "a"], [None], ["", None, "é", "😀", "Z"], ["a,b", "c"], None],
    ),
    d=(
        pa.list_(DOUBLE),
        [[], [0.0, -0.0], [-0.0, 0.0], [NAN, 1.0, NAN], [None, NAN], [1.5, -1.5, float("inf")], None],
    ),
    b=(pa.list_(BOOLEAN), [[True], [False, True, None], [], None]),
    n=(pa.list_(pa.list_(INT)), [[[1, 2], [3]], [], [None, []], None]),
    m=(
        pa.map_(STRING, INT),
        [{"a": 1}, {}, {"b": None, "a": 2}, {"": 0, "é": 5}, None, {"a": 1, "b": 2, "c": 3}],
    ),
    k=(pa.map_(INT, STRING), [{1: "x"}, {}, {2: None, 1: "y"}, None]),
    t=(
        pa.struct([("x", INT), ("y", pa.struct([("z", STRING)]))]),
        [{"x": 1, "y": {"z": "q"}}, {"x": None, "y": None}, None, {"x": 2, "y": {"z": None}}],
    ),
    i=(INT, [0, 1, -1, 2, 3, -3, 4, 2147483647, -2147483648, None]),
    j=(BIGINT, [0, 1, -1, 2]),
    x=(DOUBLE, [0.0, -0.0, NAN, 1.5, 1.0]),
    w=(STRING, ["a", "b", "", "é", ",", "c"]),
)
PAIRS = edge.pairs(
    a=(pa.list_(INT), INTS), s=(pa.list_(STRING), [[], ["a"], ["a", None], [None], ["b", "c"]])
)

CASES = [
    Cases(
        TABLE,
        each("{f}({c})", f="size cardinality", c="a s d n m k"),
        each("array_size({c})", c="a s n m"),
        each("{f}({c})", f="array_min array_max sort_array array_distinct reverse", c="a l s d b"),
        each("sort_array({c}, false)", c="a l s d b"),
        each("array_contains({c})", c=["a, i", "a, 2", "a, j", "l, i", "s, w", "s, 'a'", "d, x", "b, true",
            "a, NULL", "a, '1'"]),
        each("array_position({c})", c=["a, i", "a, 2", "l, i", "s, w", "d, x", "a, CAST(NULL AS INT)"]),
        each("{f}({c})", f="element_at try_element_at", c=["a, i", "a, 1", "a, -1", "s, i", "n, 1", "m, w",
            "m, 'a'", "k, i", "a, 0"]),
        ["element_at(a, j)", "element_at(k, 1L)", "element_at(a, NULL)", "element_at(m, 1)"],
        ["a[i]", "a[0]", "a[-1]", "a[j]", "s[1]", "n[0][1]", "m['a']", "m[w]", "k[1]", "k[i]", "k[1L]", "a['0']"],
        ["t.x", "t.y", "t.y.z", "named_struct('p', i, 'q', w)", "named_struct('p', i).p", "struct(i, w)",
            "struct(i + 1, w, t.x)"],
        ["array(i, 1, NULL)", "array(i, j)", "array(w, 'x')", "array(a, array(1))", "array(1, 2)",
            "array(i)[0]", "array(1, true)"],
        ["map('a', i, w || 'b', 2)", "map(w, i)", "map(i, w, 1, 'z')", "map('k', NULL, 'l', 1)",
            "map_keys(map('a', 1))", "map('a', i)['a']"],
        ["map_keys(m)", "map_values(m)", "map_keys(k)", "map_values(k)", "map_contains_key(m, w)",
            "map_contains_key(k, i)"],
        ["map_contains_key(m, 'a')", "map_contains_key(k, 1L)", "map_contains_key(m, NULL)"],
        ["array_join(s, ',')", "array_join(s, w)", "array_join(s, ',', '-')", "array_join(s, ',', w)",
            "array_join(a, '-')"],
        ["array_join(s, NULL)", "array_join(s, ',', NULL)", "array_join(d, ' ')", "array_join(array('x', w), '')"],
        ["concat(a, a)", "concat(a, l)", "a || array(9)", "concat(s, NULL)", "concat_ws('-', s, w)",
            "concat_ws(w, s, s)"],
        ["size(split(w, 'a'))", "array_distinct(concat(s, s))", "size(t)", "size(w)", "array_min(n)"],
    ),
    Cases(PAIRS, each("arrays_overlap({c}1, {c}2)", c="a s"), "arrays_overlap(a1, array(2L))",
        "arrays_overlap(a1, array(NULL))"),
]  # fmt: skip


def test_collection_functions_are_spark_s(spark):
    agree(spark, CASES)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("size(i)", "expected an array or a map, found INT"),
        ("array_contains(a, 'x')", "ARRAY<INT> has no STRING in it"),
        ("map('a')", "map takes pairs of a key and a value"),
        ("map()", "map() has no entries, so the types of its keys and values are not known"),
        ("named_struct('p', 1, 'p', 2)", "the field p is there twice"),
        ("named_struct(w, 1)", "the name of a field must be a constant text"),
        ("array_min(n)", "expected an array of plain values, found ARRAY<ARRAY<INT>>"),
    ],
)
def test_a_refusal_says_what_does_not_fit(text, problem):
    with pytest.raises(EddylineError) as refused:
        scalar(text, TABLE.schema)
    assert refused.value.problem == problem
