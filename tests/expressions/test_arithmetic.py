"""+ - * / div % and the bit operators, judged by Spark."""

from __future__ import annotations

from tests.expressions import edge_values as edge
from tests.expressions.judge import Cases, agree, each

SAME_TYPE = ["t1 {op} t2", "s1 {op} s2", "i1 {op} i2", "l1 {op} l2"]
MIXED = ["t1 {op} i2", "l1 {op} s2", "i1 {op} l2", "i1 {op} 2", "3 {op} l2", "i1 {op} NULL"]

CASES = [
    Cases(
        edge.INTEGER_PAIRS,
        *[each(e, op="+ - * / div % & | ^") for e in SAME_TYPE + MIXED],
        each(
            "{f}({a}1, {a}2)", f="mod pmod try_add try_subtract try_multiply try_divide try_mod", a="t s i l"
        ),
        each("-{a}", a="t1 s1 i1 l1"),
        each("~{a}", a="t1 s1 i1 l1"),
        each("{f}({a})", f="negative positive", a="t1 s1 i1 l1"),
    ),
    Cases(
        edge.FLOATING_PAIRS,
        *[
            each(e, op="+ - * / %")
            for e in ("f1 {op} f2", "d1 {op} d2", "f1 {op} d2", "f1 {op} 3", "d1 {op} 1.5")
        ],
        each("{f}({a}1, {a}2)", f="pmod try_add try_divide try_mod", a="f d"),
        each("-{a}", a="f1 d1"),
    ),
    Cases(
        edge.DECIMAL_PAIRS,
        each("{a}1 {op} {b}2", a="m n w x z", b="n w z", op="+ - * / div %"),
        each("x1 {op} {b}2", b="m x", op="+ * / %"),
        each("pmod({a}1, {b}2)", a="m x z", b="n w z"),
        each("{a}1 {op} 7", a="m n w x z", op="+ - * / div %"),
        each("{a}1 {op} -7", a="m x", op="+ *"),
        each("7 {op} {a}1", a="m n w x z", op="+ - * / div %"),
        each("{f}({a}1, {a}2)", f="try_add try_multiply try_divide", a="m w x"),
        each("-{a}1", a="m n w x z"),
        each("{a}1 {op} 1.5D", a="m n w x z", op="+ / %"),
    ),
]


def test_arithmetic_is_spark_s(spark):
    agree(spark, CASES)
