"""Functions of arrays that take a function, and patterns by the list: judged by Spark."""

from __future__ import annotations

import pyarrow as pa

from eddyline.types import INT, STRING
from tests.expressions import edge_values as edge
from tests.expressions.judge import Cases, agree, each

PERSON = pa.struct([("name", STRING), ("age", INT)])
ARRAYS = edge.columns(
    a=(pa.list_(INT), [[1, 2, None], [], [0, 5], [3, 0, None], None, [5, 5, 5], [None], [2**31 - 1], [2, 0]]),
    s=(pa.list_(STRING), [["apple", "bee"], [], [None, "a%"], ["x"], ["7", "x"], ["x", "7"], ["8"]]),
    n=(pa.list_(pa.list_(INT)), [[[1], [2, 3]], [], [None, [4]], [[], [0]], None]),
    p=(
        pa.list_(PERSON),
        [[{"name": "ann", "age": 31}, {"name": "bob", "age": None}], [], [None], [{"name": None, "age": 17}]],
    ),
    k=(INT, [2, 0, 5, 1, 7]),
    t=(STRING, ["apple", "bee", "", "a%b"]),
)
CASES = [
    Cases(
        ARRAYS,
        "transform(a, x -> x + k)",
        "transform(a, x -> x + 1)",  # out of range in one row
        "transform(a, (x, i) -> x * 10 + i)",
        "transform(a, x -> 10 / x)",
        "transform(a, x -> coalesce(x, k))",
        "transform(a, x -> CAST(NULL AS INT))",
        "transform(a, x -> k)",
        "transform(s, x -> upper(x))",
        "transform(s, x -> CAST(x AS INT))",
        "transform(n, x -> transform(x, y -> y + size(x)))",
        "transform(n, x -> transform(x, (x, i) -> x + i))",
        "transform(n, (x, i) -> exists(a, y -> array_contains(x, y) OR y = i))",
        "transform(n, x -> size(filter(x, y -> exists(a, z -> z = y + k))))",
        "transform(p, x -> x.age + 1)",
        "transform(array(1, k), x -> x * 2)",
        "transform(array(), x -> 1)",
        "transform(a, A -> a + 1)",
        each(
            "filter(a, {f})",
            f=["x -> x > 1", "(x, i) -> i > 0", "x -> 10 / x > 2", "x -> NULL", "x -> x = k"],
        ),
        "filter(s, x -> x LIKE 'a%')",
        "filter(p, x -> x.age > 18)",
        "filter(p, x -> x IS NOT NULL AND x.name IS NOT NULL)",
        "filter(n, x -> size(x) > 1)",
        each(
            "{f}(a, x -> {c})",
            f="exists forall",
            c=["x = 2", "x > 0", "10 / x > 2", "x IS NULL", "NULL", "x < k"],
        ),
        each("{f}(s, x -> CAST(x AS INT) > 7)", f="exists forall"),
        each("{f}(s, x -> CAST(x AS INT) < 8)", f="exists forall"),
        "exists(p, x -> x.name = 'ann' AND x.age > 30)",
        "NOT exists(a, x -> x = k)",
        "size(filter(a, x -> x = k)) > 0 AND forall(n, x -> size(x) > 0)",
        "array_max(transform(a, x -> abs(x - k)))",
        "exists(a, x -> x)",
        "exists(k, x -> x = 1)",
        "exists(a, (x, i) -> true)",
        "transform(a, (x, x) -> 1)",
        "transform(a, (x, i, j) -> 1)",
        "exists(a, 5)",
    ),
    Cases(
        ARRAYS,
        each(
            "t {not}{like} {many} ('a%', 'B%')",
            like="LIKE ILIKE",
            many="ANY SOME ALL",
            **{"not": ["", "NOT "]},
        ),
        each("t {not}LIKE {many} ('a%', NULL)", many="ANY ALL", **{"not": ["", "NOT "]}),
        each("t {not}LIKE {many} (t, s[0])", many="ANY ALL", **{"not": ["", "NOT "]}),
        each("t LIKE {many} ('apple')", many="ANY ALL"),
        r"t LIKE ANY ('a\\%b', 'b_e')",
        "t LIKE ALL ('a%', '%e') AND k = 2 OR t LIKE ANY ('%b')",
        "t LIKE ANY ('a', 'b') ESCAPE '/'",
        "t LIKE ANY ()",
    ),
]


def test_functions_of_elements_and_lists_of_patterns_are_spark_s(spark):
    agree(spark, CASES)
