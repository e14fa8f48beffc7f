from __future__ import annotations

from itertools import product
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eddyline.expressions import Frame, evaluate
from eddyline.model import AtomKind, Condition, Literal, Stream
from eddyline.sql import Shapes, normalise, render
from eddyline.sql.lexer import scan, text_of
from eddyline.sql.normalisation import MAX_CLAUSES
from tests.oracles.logic import ERROR, ERRS, FAILS, PASSES, And, Leaf, Not, Or, outcome, sql_of
from tests.scalars import scalar

SCHEMA = pa.schema(
    [("a", pa.int32()), ("b", pa.int32()), ("flag", pa.bool_()), ("t", pa.string()), ("x", pa.float64())]
)


def condition(text: str) -> Condition:
    return normalise(scalar(text, SCHEMA))


def clauses(text: str) -> list[list[str]]:
    return [[render(atom.condition) for atom in clause.atoms] for clause in condition(text).clauses]


def kinds(text: str) -> list[str]:
    return [atom.kind.name for clause in condition(text).clauses for atom in clause.atoms]


def never(text: str) -> bool:
    return any(isinstance(e, Literal) and e.value is True for e in condition(text).never)


# ------------------------------------------------------------------------------------------------ against the oracle


def _compare(column: str, operator: str, constant: int) -> Leaf:
    tests: dict[str, Any] = {
        "=": lambda v: v == constant,
        "!=": lambda v: v != constant,
        "<": lambda v: v < constant,
        "<=": lambda v: v <= constant,
        ">": lambda v: v > constant,
        ">=": lambda v: v >= constant,
    }
    test = tests[operator]
    return Leaf(
        f"{column} {operator} {constant}", lambda row: None if row[column] is None else test(row[column])
    )


def _leaves() -> st.SearchStrategy[Leaf]:
    compared = st.builds(
        _compare,
        st.sampled_from("ab"),
        st.sampled_from(["=", "!=", "<", "<=", ">", ">="]),
        st.integers(-1, 3),
    )
    others = [
        Leaf("a IS NULL", lambda row: row["a"] is None),
        Leaf("b IS NOT NULL", lambda row: row["b"] is not None),
        Leaf("flag", lambda row: row["flag"]),
        Leaf("a IN (0, 2)", lambda row: None if row["a"] is None else row["a"] in (0, 2)),
        Leaf("a IN (1, NULL)", lambda row: True if row["a"] == 1 else None),
        Leaf("a NOT IN (b, 1)", lambda row: _not_in(row["a"], [row["b"], 1])),
        Leaf("b BETWEEN 0 AND 1", lambda row: None if row["b"] is None else 0 <= row["b"] <= 1),
        Leaf("a <=> 1", lambda row: row["a"] == 1),
        Leaf("a <=> b", lambda row: row["a"] == row["b"]),
        Leaf("2 > b", lambda row: None if row["b"] is None else row["b"] < 2),
        Leaf("4 div a > 2", lambda row: _quotient_above(row["a"], 2)),
        Leaf(
            "4 div b = 4", lambda row: None if row["b"] is None else ERROR if row["b"] == 0 else row["b"] == 1
        ),
        Leaf("t LIKE 'x%'", lambda row: True),
        Leaf("startswith(t, 'y')", lambda row: False),
        Leaf("1 = 2", lambda row: False),
        Leaf("TRUE", lambda row: True),
        Leaf("NULL", lambda row: None),
    ]
    return st.one_of(compared, st.sampled_from(others))


def _not_in(value: int | None, options: list[int | None]) -> bool | None:
    if value is None:
        return None
    if value in options:
        return False
    return None if None in options else True


def _quotient_above(divisor: int | None, least: int) -> Any:
    if divisor is None:
        return None
    return ERROR if divisor == 0 else int(4 / divisor) > least


TREES = st.recursive(
    _leaves(),
    lambda parts: st.one_of(
        st.builds(Not, parts),
        st.builds(And, st.lists(parts, min_size=2, max_size=4).map(tuple)),
        st.builds(Or, st.lists(parts, min_size=2, max_size=4).map(tuple)),
    ),
    max_leaves=8,
)
ROWS = [
    {"a": a, "b": b, "flag": flag, "t": "x", "x": 1.0}
    for a, b, flag in product((None, -1, 0, 1, 2, 3), (None, 0, 1, 2), (None, True, False))
]


def _outcomes(found: Condition, slots: list[pa.Scalar]) -> list[int]:
    """What each row does to a normalised condition: the least of its clauses, each the greatest of its atoms."""
    columns = {("", f.name): pa.array([row[f.name] for row in ROWS], f.type) for f in SCHEMA}
    frame = Frame(len(ROWS), columns, slots)
    least = [PASSES] * len(ROWS)
    for clause in found.clauses:
        greatest = [FAILS] * len(ROWS)
        for atom in clause.atoms:
            result = evaluate(atom.condition, frame)
            values = frame.array(result).to_pylist()
            for row, value in enumerate(values):
                is_error = result.errors is not None and result.errors[row]
                greatest[row] = max(greatest[row], ERRS if is_error else PASSES if value else FAILS)
        least = [min(pair) for pair in zip(least, greatest, strict=True)]
    return least


@given(TREES)
def test_the_normal_form_does_to_every_row_what_the_condition_does(tree: Any) -> None:
    found = normalise(scalar(sql_of(tree), SCHEMA))
    assert _outcomes(found, []) == [outcome(tree, row) for row in ROWS]


@given(TREES)
def test_with_its_literals_lifted_a_condition_still_does_the_same(tree: Any) -> None:
    shape, values = Shapes().shape_of(f"SELECT * FROM s WHERE {sql_of(tree)}", {"s": Stream("s", SCHEMA)})
    slots = [pa.scalar(v, s.type) for v, s in zip(values, shape.slots, strict=True)]
    assert _outcomes(shape.condition, slots) == [outcome(tree, row) for row in ROWS]


@given(TREES)
def test_what_is_said_never_to_match_fails_on_every_row(tree: Any) -> None:
    shape, values = Shapes().shape_of(f"SELECT * FROM s WHERE {sql_of(tree)}", {"s": Stream("s", SCHEMA)})
    slots = [pa.scalar(v, s.type) for v, s in zip(values, shape.slots, strict=True)]
    refuted = [evaluate(e, Frame(1, {}, slots)) for e in shape.condition.never]
    if any(r.errors is None and Frame(1, {}).array(r)[0].as_py() for r in refuted):
        assert {outcome(tree, row) for row in ROWS} == {FAILS}


# ------------------------------------------------------------------------------------------------ the form


def test_each_conjunct_is_a_clause_of_its_own() -> None:
    assert clauses("a > 1 AND b < 2 AND (a = 5 OR b = 6)") == [["a > 1"], ["b < 2"], ["a = 5", "b = 6"]]


def test_or_over_and_is_distributed() -> None:
    assert clauses("a = 1 OR (b > 2 AND b < 5)") == [["a = 1", "b > 2"], ["a = 1", "b < 5"]]


def test_not_is_pushed_down_to_the_comparisons() -> None:
    assert clauses("NOT (a < 1 OR b = 2)") == [["a >= 1"], ["b != 2"]]
    assert clauses("NOT (a IS NULL AND NOT flag)") == [["a IS NOT NULL", "flag = TRUE"]]


def test_a_negated_list_keeps_its_not() -> None:
    assert clauses("a NOT IN (1, 2)") == [["a NOT IN (1, 2)"]]
    assert kinds("a NOT IN (1, 2)") == ["RESIDUAL"]


def test_an_in_list_of_constant_expressions_is_one_comparison_per_option_and_with_a_column_stays_whole() -> (
    None
):
    assert clauses("a IN (length('x'), 5)") == [["a = 1", "a = 5"]]
    assert clauses("a IN (b, 5)") == [["a IN (b, 5)"]]
    assert clauses("a NOT IN (b, 5)") == [["a NOT IN (b, 5)"]]
    assert clauses("a IN (b)") == [["a = b"]]


def test_distribution_stops_where_the_clauses_would_hold_many_times_the_leaves_of_the_text() -> None:
    pairs = " OR ".join(f"(a = {k} AND b = {k})" for k in range(7))
    assert len(clauses(pairs)) == 2**7
    assert len(clauses(f"{pairs} OR {' OR '.join(f'a = {k}' for k in range(100, 150))}")) == 1
    many = clauses(
        " AND ".join(f"({pairs.replace('=', each)})" for each in ("=", "<", ">", "<=", ">=", "<>"))
    )
    assert sum(map(len, many)) <= 4_096


def test_the_constant_comes_to_the_right() -> None:
    found = condition("5 < a").clauses[0].atoms[0]
    assert (found.kind, found.operator, render(found.condition)) == (AtomKind.COMPARE, ">", "a > 5")
    assert found.attribute is not None
    assert found.constant is not None
    assert (render(found.attribute), render(found.constant)) == ("a", "5")


def test_atoms_are_told_apart_by_how_they_can_be_decided() -> None:
    assert kinds("a = 1 AND a IN (1, 2) AND a IS NULL AND a + b > 3 AND a > b") == [
        "COMPARE",
        "IN",
        "NULL_TEST",
        "COMPARE",
        "RESIDUAL",
    ]


@pytest.mark.parametrize(
    ("text", "attribute", "operator", "constant"),
    [
        ("t LIKE 'ab%'", "t", "like", "'ab%'"),
        ("upper(t) LIKE 'A_'", "upper(t)", "like", "'A_'"),
        ("CAST(a AS STRING) LIKE '1%'", "CAST(a AS STRING)", "like", "'1%'"),
        ("startswith(t, 'ab')", "t", "startswith", "'ab'"),
    ],
)
def test_a_column_like_a_constant_is_of_its_own_kind(text, attribute, operator, constant) -> None:
    found = condition(text).clauses[0].atoms[0]
    assert found.kind is AtomKind.LIKE
    assert found.attribute is not None
    assert found.constant is not None
    assert (render(found.attribute), found.operator, render(found.constant)) == (
        attribute,
        operator,
        constant,
    )


@pytest.mark.parametrize(
    "text",
    [
        "t NOT LIKE 'ab%'",
        "NOT startswith(t, 'ab')",
        "t LIKE 'ab!%' ESCAPE '!'",
        "t ILIKE 'ab%'",
        "'ab' LIKE t",
        "t LIKE t || '%'",
        "endswith(t, 'ab')",
    ],
)
def test_other_patterns_are_computed(text: str) -> None:
    assert kinds(text) == ["RESIDUAL"]


def test_texts_that_differ_in_their_pattern_have_one_shape() -> None:
    shapes, streams = Shapes(), {"s": Stream("s", SCHEMA)}
    found = [shapes.shape_of(f"SELECT a FROM s WHERE t LIKE '{p}'", streams) for p in ("a%", "_b", "c")]
    assert len({id(shape) for shape, _ in found}) == 1
    assert [values for _, values in found] == [["a%"], ["_b"], ["c"]]
    assert found[0][0].condition.clauses[0].atoms[0].kind is AtomKind.LIKE


def test_a_boolean_column_is_compared_with_true() -> None:
    assert clauses("flag AND a = 1") == [["flag = TRUE"], ["a = 1"]]
    assert clauses("NOT flag") == [["flag = FALSE"]]


def test_null_safe_equality_with_a_known_constant_is_equality() -> None:
    assert clauses("a <=> 3") == [["a = 3"]]
    assert kinds("a <=> b") == ["RESIDUAL"]


def test_constants_are_folded() -> None:
    assert clauses("a > 1 + 2") == [["a > 3"]]
    assert clauses("a > 1 OR 2 > 1") == []
    assert clauses("a > 1 AND 2 > 1") == [["a > 1"]]


def test_clauses_remember_the_text_they_came_from() -> None:
    text = "a BETWEEN 1 AND 5 AND (b = 1 OR flag)"
    tokens, _ = scan(text)
    found = normalise(scalar(text, SCHEMA), tokens=tokens).clauses
    said = [text_of(clause.tokens, text, tokens) for clause in found if clause.tokens]
    assert said == ["a BETWEEN 1 AND 5"] * 2 + ["b = 1 OR flag"]
    other = "a  BETWEEN 100 AND 5000 AND (b = 12 OR flag)"  # the same tokens at other places
    assert [text_of(clause.tokens, other, scan(other)[0]) for clause in found if clause.tokens] == [
        "a BETWEEN 100 AND 5000",
        "a BETWEEN 100 AND 5000",
        "b = 12 OR flag",
    ]


def test_equal_clauses_are_kept_once() -> None:
    assert clauses("a = 1 AND b = 2 AND a = 1") == [["a = 1"], ["b = 2"]]


def test_an_or_that_would_explode_stays_whole() -> None:
    many = " OR ".join(f"(a = {n} AND b = {n})" for n in range(9))  # 2 ** 9 clauses if distributed
    found = condition(f"flag AND ({many})").clauses
    assert [len(clause.atoms) for clause in found] == [1, 1]
    assert found[1].atoms[0].kind is AtomKind.RESIDUAL
    assert len(condition(" OR ".join(f"(a = {n} AND b = {n})" for n in range(8))).clauses) == MAX_CLAUSES


def test_a_thousand_conjuncts_need_no_stack() -> None:
    assert len(condition(" AND ".join(f"a != {n}" for n in range(1000))).clauses) == 1000


# ------------------------------------------------------------------------------------------------ never and always


@pytest.mark.parametrize(
    "text",
    [
        "a = 1 AND a = 2",
        "a = 1 AND a > 1",
        "a = 1 AND a != 1",
        "a = 3 AND a IN (1, 2)",
        "a > 5 AND a < 3",
        "a >= 5 AND a < 5",
        "a > 7 AND a < 8",
        "a IS NULL AND a = 1",
        "a IS NULL AND a IS NOT NULL",
        "a IS NULL AND a IN (1, 2)",
        "x > 1.5 AND x <= 1.5",
        "t = 'a' AND t = 'b'",
        "a = NULL",
        "FALSE",
        "1 = 2",
        "a = 1 AND NULL",
        "flag AND NOT flag",
    ],
)
def test_a_contradiction_is_recognised(text: str) -> None:
    assert never(text)


@pytest.mark.parametrize(
    "text",
    [
        "a = 1 AND b = 2",
        "a > 5 AND a < 7",
        "a >= 5 AND a <= 5",
        "x > 7 AND x < 8",
        "a = 1 AND a IN (1, 2)",
        "a != 1 AND a != 2",
        "a = 1 OR a = 2",
        "t LIKE 'a%' AND t = 'b' AND t LIKE 'b%'",
        "t IS NULL AND t LIKE 'a%'",
        "t LIKE NULL",
        "4 div a = 1 AND 4 div a = 2",  # where a is 0 the row belongs to the dead letters
    ],
)
def test_what_may_match_is_not_called_a_contradiction(text: str) -> None:
    assert condition(text).never == ()


@pytest.mark.parametrize(
    "text",
    ["TRUE", "a IS NULL OR a IS NOT NULL", "a < 5 OR a >= 5 OR a IS NULL", "a = 1 OR 1 = 1", "NOT FALSE"],
)
def test_a_tautology_leaves_no_clause(text: str) -> None:
    assert condition(text) == Condition()


def test_a_comparison_or_its_opposite_is_no_tautology_because_of_null() -> None:
    assert clauses("a < 5 OR a >= 5") == [["a < 5", "a >= 5"]]


def test_for_lifted_constants_it_depends_on_their_values() -> None:
    streams = {"s": Stream("s", SCHEMA)}
    shapes = Shapes()
    found = []
    for low, high in ((7, 3), (3, 7), (7, 8)):
        shape, values = shapes.shape_of(f"SELECT a FROM s WHERE a > {low} AND a < {high}", streams)
        frame = Frame(1, {}, [pa.scalar(v, s.type) for v, s in zip(values, shape.slots, strict=True)])
        found.append(any(frame.array(evaluate(e, frame))[0].as_py() for e in shape.condition.never))
    assert (found, shapes.bound) == ([True, False, True], 1)


def test_a_parameter_that_is_null_never_matches() -> None:
    shape, _ = Shapes().shape_of(
        "SELECT a FROM s WHERE a = :p", {"s": Stream("s", SCHEMA)}, params={"p": pa.int32()}
    )
    assert [render(e) for e in shape.condition.never] == ["?1 IS NULL"]
