"""Mathematical functions, judged by Spark."""

from __future__ import annotations

from tests.expressions import edge_values as edge
from tests.expressions.judge import Cases, agree, each

OF_ONE = "sign signum sqrt cbrt exp expm1 ln log log10 log2 log1p sin cos tan cot asin acos atan sinh cosh tanh degrees radians"
OF_TWO = "pow power hypot atan2 log"

CASES = [
    Cases(
        edge.FLOATING,
        each("{f}({a})", f=OF_ONE, a="f d"),
        each("{f}({a})", f="abs ceil ceiling floor round bround", a="f d"),
        each("{f}({a}, {n})", f="round bround", a="f d", n="0 1 2 3 5 20 -1 -5 -40 400"),
        "round(d, NULL)",
        each("width_bucket(d, {low}, {high}, {n})", low="0 10 -1", high="10 0", n="5 0"),
        "shiftleft(d, 1)",
        "factorial(d)",
    ),
    Cases(
        edge.FLOATING_PAIRS,
        each("{f}({a}1, {b}2)", f=OF_TWO, a="f d", b="d"),
        "width_bucket(d1, d2, 10, 4)",
    ),
    Cases(
        edge.INTEGERS,
        each("{f}({a})", f="abs sign ceil floor round bround sqrt exp bit_count", a="t s i l"),
        each("{f}({a}, {n})", f="round bround", a="t s i l", n="0 2 -1 -2 -9 -10 -19 -20 -30"),
        each(
            "{f}({a}, {n})",
            f="shiftleft shiftright shiftrightunsigned",
            a="t s i l",
            n="0 1 5 31 32 33 63 64 -1",
        ),
        each("factorial({a})", a="t s i l"),
        each("log({n}, i)", n="2 10 0 1 0.5D"),
        "pi()",
        "e()",
        "factorial(20)",
        "factorial(21)",
        "abs(NULL)",
        "sqrt(NULL)",
        "round(NULL)",
        "floor(NULL)",
        "bit_count(i > 1)",
        "sqrt('4')",
    ),
    Cases(
        edge.DECIMAL,
        each("{f}({a})", f="abs sign ceil floor round bround sqrt exp", a="m n w x z"),
        each("{f}({a}, {n})", f="round bround", a="m n w x z", n="0 1 2 5 18 40 -1 -2 -19 -37 -38 -39"),
        each("{f}(-{a})", f="ceil floor", a="m n"),
        "floor(1.5)",
        "ceil(-1.5)",
        "round(2.5)",
        "round(1.005, 2)",
        "bround(2.5)",
    ),
]


def test_mathematics_is_spark_s(spark):
    agree(spark, CASES)
