"""An argument that is NULL beside one in error: which of them decides is judged by Spark, for every order of the two."""

from __future__ import annotations

import itertools

import pyarrow as pa

from eddyline.types import parse_type
from tests.expressions.judge import Cases, agree

_ERROR = "(7 DIV zero)"
TYPES = {  # a value, and one in error
    "INT": ("one", f"INT({_ERROR})"),
    "BIGINT": ("BIGINT(one)", _ERROR),
    "DOUBLE": ("1.5D", "(7 / zero)"),
    "DECIMAL(10,2)": ("CAST(one AS DECIMAL(10,2))", "CAST(s AS DECIMAL(10,2))"),
    "STRING": ("s", f"STRING({_ERROR})"),
    "BOOLEAN": ("(one = 1)", "CAST(s AS BOOLEAN)"),
    "DATE": ("DATE'2024-01-01'", "CAST(s AS DATE)"),
    "TIMESTAMP": ("TIMESTAMP'2024-01-01 00:00:00'", "CAST(s AS TIMESTAMP)"),
    "ARRAY<INT>": ("array(one)", f"array(INT({_ERROR}))"),
    "ARRAY<STRING>": ("array(s)", f"array(STRING({_ERROR}))"),
}
NULLS = {name: f"null{n}" for n, name in enumerate(TYPES)}  # a column of each type that is NULL
CALLS: list[tuple[str, str]] = [
    *[
        (f"{{}} {operator} {{}}", "INT INT")
        for operator in [
            "+",
            "-",
            "*",
            "/",
            "%",
            "DIV",
            "&",
            "|",
            "^",
            "=",
            "!=",
            "<",
            "<=",
            ">",
            ">=",
            "<=>",
        ]
    ],
    *[(f"{{}} {operator} {{}}", "DOUBLE DOUBLE") for operator in ["+", "-", "*", "/", "%"]],
    *[
        (f"{{}} {operator} {{}}", "DECIMAL(10,2) DECIMAL(10,2)")
        for operator in ["+", "-", "*", "/", "%", "DIV"]
    ],
    *[
        (f"{name}({{}}, {{}})", "INT INT")
        for name in ["pmod", "mod", "try_add", "try_subtract", "try_divide"]
    ],
    *[
        (f"{name}({{}}, {{}})", "INT INT")
        for name in ["nullif", "greatest", "least", "coalesce", "shiftleft", "pow"]
    ],
    *[
        (f"{name}({{}}, {{}})", "STRING STRING")
        for name in ["contains", "startswith", "instr", "concat", "btrim"]
    ],
    *[(f"{name}({{}}, {{}})", "STRING STRING") for name in ["find_in_set", "levenshtein", "ltrim", "locate"]],
    *[(f"{name}({{}}, {{}})", "STRING INT") for name in ["left", "right", "repeat", "sha2", "substring"]],
    *[(f"{name}({{}}, {{}})", "DATE INT") for name in ["date_add", "date_sub", "add_months"]],
    *[
        (f"{name}({{}}, {{}})", "ARRAY<INT> INT")
        for name in ["array_contains", "array_position", "element_at"]
    ],
    ("{} < {}", "STRING STRING"),
    ("{} = {}", "DATE TIMESTAMP"),
    ("{} - {}", "TIMESTAMP TIMESTAMP"),
    ("{} || {}", "STRING STRING"),
    ("{} LIKE {}", "STRING STRING"),
    ("{} IN ({}, {})", "INT INT INT"),
    ("nanvl({}, {})", "DOUBLE DOUBLE"),
    ("width_bucket({}, {}, {}, {})", "DOUBLE DOUBLE DOUBLE BIGINT"),
    ("substring({}, {}, {})", "STRING INT INT"),
    ("lpad({}, {}, {})", "STRING INT STRING"),
    ("locate({}, {}, {})", "STRING STRING INT"),
    ("replace({}, {}, {})", "STRING STRING STRING"),
    ("overlay({}, {}, {}, {})", "STRING STRING INT INT"),
    ("split_part({}, {}, {})", "STRING STRING INT"),
    ("trim(BOTH {} FROM {})", "STRING STRING"),
    ("concat_ws({}, {}, {})", "STRING STRING STRING"),
    ("datediff({}, {})", "DATE DATE"),
    ("next_day({}, {})", "DATE STRING"),
    ("make_date({}, {}, {})", "INT INT INT"),
    ("make_timestamp({}, {}, {}, {}, {}, {})", "INT INT INT INT INT DECIMAL(10,2)"),
    ("arrays_overlap({}, {})", "ARRAY<INT> ARRAY<INT>"),
    ("array_join({}, {}, {})", "ARRAY<STRING> STRING STRING"),
    ("{}[{}]", "ARRAY<INT> INT"),
    ("array({}, {})", "INT INT"),
    ("if({}, {}, {})", "BOOLEAN INT INT"),
    ("nvl2({}, {}, {})", "INT INT INT"),
]


def expressions() -> list[str]:
    """Each call with one argument NULL and another in error."""
    found = []
    for template, names in CALLS:
        types = names.split()
        for null, error in itertools.permutations(range(len(types)), 2):
            arguments = [TYPES[name][0] for name in types]
            arguments[null], arguments[error] = NULLS[types[null]], TYPES[types[error]][1]
            found.append(template.format(*arguments))
    return found


ROW = pa.table(
    {
        "one": pa.array([1], pa.int32()),
        "zero": pa.array([0], pa.int32()),
        "s": pa.array(["a"]),
        **{column: pa.array([None], parse_type(name)) for name, column in NULLS.items()},
    }
)
CASES = [
    Cases(
        ROW,
        expressions(),
        "7 DIV zero + CAST(NULL AS INT)",
        "CAST(NULL AS INT) / (7 DIV zero)",
        "STRING(7 DIV zero) LIKE CAST(NULL AS STRING)",
        "7 DIV zero > CAST(NULL AS INT)",
        "null0 BETWEEN INT(7 DIV zero) AND one",
        "null0 + 7 DIV zero > 5 AND s = 'a'",
        "length(left(null4, INT(7 DIV zero))) + null0",
    )
]


def test_null_beats_an_error_where_it_does_in_spark(spark):
    agree(spark, CASES)
