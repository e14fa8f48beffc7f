"""How expressions are evaluated: errors stay with their rows, branches with theirs, constants are computed once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

from eddyline.errors import TypeMismatchError
from eddyline.expressions import (
    Context,
    Frame,
    NeedsLiteral,
    call,
    cast,
    coerce,
    common_type,
    evaluate,
    fold,
    is_volatile,
)
from eddyline.model import Call, Column, Expression, Literal, Slot, UserCall
from eddyline.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    NULL,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
)
from tests.scalars import scalar

SCHEMA = pa.schema([("i", INT), ("zero", INT), ("b", BOOLEAN), ("s", STRING), ("d", DOUBLE)])


def frame(n: int | None = None, context: Context | None = None, **columns: list) -> Frame:
    n = len(next(iter(columns.values()))) if n is None else n
    arrays = {("", name): pa.array(values, SCHEMA.field(name).type) for name, values in columns.items()}
    return Frame(n, arrays, context=context or Context())


def results(text: str, rows: Frame) -> list:
    """Values, and error classes where there is none."""
    result = evaluate(scalar(text, SCHEMA), rows)
    values = rows.array(result).to_pylist()
    if result.errors is None:
        return values
    return [rows.failure(e).error if e else v for v, e in zip(values, result.errors, strict=True)]


# ------------------------------------------------------------------------------------------ errors


def test_null_decides_before_an_error_that_is_asked_for_later():
    rows = frame(i=[None, 4], zero=[0, 0])
    assert results("i + 7 DIV zero", rows) == [None, "DIVIDE_BY_ZERO"]
    assert results("7 DIV zero + i", rows) == ["DIVIDE_BY_ZERO", "DIVIDE_BY_ZERO"]
    assert results("(7 DIV zero) / i", rows) == [None, "DIVIDE_BY_ZERO"]  # the divisor comes first
    assert results("7 DIV zero = CAST(NULL AS INT)", rows) == [None, None]  # a constant before all


def test_a_bad_row_does_not_stop_the_others():
    assert results("10 / i", frame(i=[5, 0, None, 2])) == [2.0, "DIVIDE_BY_ZERO", None, 5.0]


def test_an_error_goes_through_the_functions_around_it():
    assert results("abs(10 / i) IS NULL", frame(i=[5, 0, None])) == [False, "DIVIDE_BY_ZERO", True]


def test_the_first_error_of_a_row_counts():
    assert results("10 / i + CAST(s AS INT)", frame(i=[0, 0, 1], s=["x", "1", "x"])) == [
        "DIVIDE_BY_ZERO",
        "DIVIDE_BY_ZERO",
        "CAST_INVALID_INPUT",
    ]


def test_an_error_names_the_value_that_caused_it():
    rows = frame(s=["12", "12,5"])
    result = evaluate(scalar("CAST(s AS INT)", SCHEMA), rows)
    assert result.errors is not None
    assert rows.failure(result.errors[1]).message == "'12,5' is no INT"


def test_a_thousand_bad_rows_share_messages_after_the_first_hundred():
    rows = frame(s=[f"x{n}" for n in range(1000)])
    result = evaluate(scalar("CAST(s AS INT)", SCHEMA), rows)
    assert result.errors is not None
    assert (result.errors != 0).all()
    assert len(rows.failures) == 100


def test_false_beats_error_and_true_does_not():
    assert results("b AND 1 / zero > 0", frame(b=[True, False, None], zero=[0, 0, 0])) == [
        "DIVIDE_BY_ZERO",
        False,
        "DIVIDE_BY_ZERO",
    ]


def test_the_order_of_conditions_does_not_matter():
    assert results("1 / zero > 0 AND b", frame(b=[True, False, None], zero=[0, 0, 0])) == [
        "DIVIDE_BY_ZERO",
        False,
        "DIVIDE_BY_ZERO",
    ]


def test_true_beats_error_in_or():
    assert results("1 / zero > 0 OR b", frame(b=[True, False, None], zero=[0, 0, 0])) == [
        True,
        "DIVIDE_BY_ZERO",
        "DIVIDE_BY_ZERO",
    ]


def test_an_equal_option_beats_one_in_error():
    assert results("i IN (10 / zero, 1)", frame(i=[1, 2, None], zero=[0, 0, 0])) == [
        True,
        "DIVIDE_BY_ZERO",
        None,
    ]


def test_a_constant_in_error_errs_on_every_row():
    assert results("i + CAST('x' AS INT)", frame(i=[1, 2])) == ["CAST_INVALID_INPUT", "CAST_INVALID_INPUT"]


# ------------------------------------------------------------------------------------------ branches


def test_errors_of_branches_not_taken_do_not_count():
    assert results("CASE WHEN zero = 0 THEN -1 ELSE 10 / zero END", frame(zero=[0, 5])) == [-1.0, 2.0]
    assert results("coalesce(i, CAST(s AS INT))", frame(i=[1, None, None], s=["x", "x", "7"])) == [
        1,
        "CAST_INVALID_INPUT",
        7,
    ]
    assert results("if(b, 1 / zero, 2)", frame(b=[False, None, True], zero=[0, 0, 0])) == [
        2.0,
        2.0,
        "DIVIDE_BY_ZERO",
    ]


def test_an_error_in_a_condition_takes_no_branch():
    assert results("CASE WHEN 1 / zero > 0 THEN 1 ELSE 2 END", frame(zero=[0, 1])) == ["DIVIDE_BY_ZERO", 1]


class Calls:
    """A user's function that remembers what it was called on."""

    def __init__(self) -> None:
        self.seen: list[list] = []

    def __call__(
        self, call: UserCall, columns: Sequence[pa.Array], n_rows: int
    ) -> tuple[pa.Array, list[tuple[int, str]]]:
        values = columns[0].to_pylist()
        self.seen.append(values)
        failed = [(at, "boom") for at, value in enumerate(values) if value == 13]
        return pa.array([None if v is None or v == 13 else v * 10 for v in values], BIGINT), failed


def user_call() -> UserCall:
    return UserCall(BIGINT, "slow", (Column(INT, "i"),))


def evaluated(expression: Expression, rows: Frame) -> list:
    return rows.array(evaluate(expression, rows)).to_pylist()


def test_a_user_function_in_a_branch_sees_only_the_rows_that_take_it():
    calls = Calls()
    rows = frame(i=[1, 2, 3, 4], b=[True, False, None, True], context=Context(call_function=calls))
    expression = call("case", [Column(BOOLEAN, "b"), user_call(), Literal(BIGINT, 0)])
    assert evaluated(expression, rows) == [10, 0, 0, 40]
    assert calls.seen == [[1, 4]]


def test_a_user_function_beside_and_sees_only_rows_that_are_still_open():
    calls = Calls()
    rows = frame(i=[1, 2, 3], b=[True, False, None], context=Context(call_function=calls))
    condition = call("and", [call(">", [user_call(), Literal(BIGINT, 5)]), Column(BOOLEAN, "b")])
    assert evaluated(condition, rows) == [True, False, None]
    assert calls.seen == [[1, 3]]


def test_a_user_function_no_row_needs_is_not_called():
    calls = Calls()
    rows = frame(i=[1, 2], context=Context(call_function=calls))
    assert evaluated(call("coalesce", [Column(INT, "i"), user_call()]), rows) == [1, 2]
    assert calls.seen == []


def test_a_user_function_is_called_once_for_equal_expressions():
    calls = Calls()
    rows = frame(i=[1, 2], context=Context(call_function=calls))
    assert evaluated(call("+", [user_call(), user_call()]), rows) == [20, 40]
    assert calls.seen == [[1, 2]]


def test_a_user_function_sees_no_row_twice():
    calls = Calls()
    rows = frame(i=[1, 2, 13], b=[True, False, True], context=Context(call_function=calls))
    in_branch = call("case", [Column(BOOLEAN, "b"), user_call(), Literal(BIGINT, 0)])
    assert evaluated(call("+", [in_branch, user_call()]), rows) == [20, 20, None]
    assert calls.seen == [[1, 13], [2]]


def test_a_user_function_in_two_branches_is_called_on_the_rows_of_each():
    calls = Calls()
    rows = frame(i=[1, 2, 3], b=[True, False, None], context=Context(call_function=calls))
    negative = call("negate", [user_call()])
    expression = call(
        "case", [Column(BOOLEAN, "b"), user_call(), call("not", [Column(BOOLEAN, "b")]), negative]
    )
    assert evaluated(expression, rows) == [10, -20, None]
    assert calls.seen == [[1], [2]]


def test_a_failing_user_function_fails_its_rows_only():
    rows = frame(i=[1, 13, 3], context=Context(call_function=Calls()))
    result = evaluate(call("+", [user_call(), Literal(BIGINT, 1)]), rows)
    assert rows.array(result).to_pylist() == [11, None, 31]
    assert result.errors is not None
    assert [rows.failure(e).message if e else "" for e in result.errors] == ["", "boom", ""]


def test_a_user_function_does_not_see_rows_whose_arguments_failed():
    calls = Calls()
    rows = frame(i=[1, 0, 2], context=Context(call_function=calls))
    quotient = call("div", [Literal(BIGINT, 10), cast(Column(INT, "i"), BIGINT)])
    result = evaluate(UserCall(BIGINT, "slow", (quotient,)), rows)
    assert rows.array(result).to_pylist() == [100, None, 50]
    assert calls.seen == [[10, 5]]


# ------------------------------------------------------------------------------------------ IN


def test_in_takes_a_list_of_100_000_values():
    options = Literal(pa.list_(BIGINT), tuple(range(0, 200_000, 2)))
    rows = Frame(4, {("", "x"): pa.array([2, 3, 199_998, None], BIGINT)})
    assert evaluated(call("in", [Column(BIGINT, "x"), options]), rows) == [True, False, True, None]


def test_in_takes_a_list_per_row():
    lists = pa.array([[1, 2], [3, None], [], None, [5]], pa.list_(INT))
    rows = Frame(5, {("", "x"): pa.array([2, 1, 1, 1, None], INT)}, slots=[lists])
    assert evaluated(call("in", [Column(INT, "x"), Slot(pa.list_(INT), 0)]), rows) == [
        True,
        None,
        False,
        None,
        None,
    ]


def test_in_takes_one_list_for_all_rows_from_a_slot():
    rows = Frame(3, {("", "x"): pa.array(["a", "b", None])}, slots=[pa.scalar(["a", None], pa.list_(STRING))])
    assert evaluated(call("in", [Column(STRING, "x"), Slot(pa.list_(STRING), 0)]), rows) == [True, None, None]


def test_in_finds_nan_and_both_zeros():
    nan = float("nan")
    rows = Frame(3, {("", "x"): pa.array([nan, -0.0, 1.0])})
    assert evaluated(call("in", [Column(DOUBLE, "x"), Literal(pa.list_(DOUBLE), (0.0, nan))]), rows) == [
        True,
        True,
        False,
    ]


# ------------------------------------------------------------------------------------------ folding


def test_calls_on_literals_become_literals():
    assert fold(call("+", [Literal(INT, 1), call("*", [Literal(INT, 2), Literal(INT, 3)])])) == Literal(
        INT, 7
    )
    assert fold(call("and", [Literal(BOOLEAN, True), Literal(BOOLEAN, False)])) == Literal(BOOLEAN, False)


def test_a_call_that_errs_stays_a_call():
    division = call("/", [Literal(INT, 1), Literal(INT, 0)])
    assert fold(division) == division


def test_only_the_constant_part_of_a_call_is_folded():
    sum_ = call("+", [Column(INT, "i"), call("+", [Literal(INT, 1), Literal(INT, 1)])])
    assert fold(sum_) == call("+", [Column(INT, "i"), Literal(INT, 2)])


def test_a_cast_that_needs_the_time_zone_waits_for_it():
    midnight = cast(Literal(STRING, "2024-07-01"), TIMESTAMP)
    assert isinstance(midnight, Call)
    folded = fold(midnight, time_zone="America/New_York")
    assert isinstance(folded, Literal)
    assert folded.value.isoformat() == "2024-07-01T04:00:00+00:00"


def test_a_user_function_is_never_folded():
    slow = UserCall(BIGINT, "slow", (Literal(INT, 1),))
    assert fold(call("+", [slow, Literal(BIGINT, 1)])).children[0] == slow


def test_a_function_of_the_user_that_is_not_deterministic_is_volatile():
    assert is_volatile(call("abs", [UserCall(BIGINT, "dice", (), is_deterministic=False)]))
    assert not is_volatile(call("abs", [UserCall(BIGINT, "slow", ())]))
    assert not is_volatile(call("pi", []))


def test_literals_are_converted_when_they_are_coerced():
    assert coerce(Literal(TINYINT, 5), BIGINT) == Literal(BIGINT, 5)
    assert coerce(Literal(NULL, None), DATE) == Literal(DATE, None)


def test_a_scalar_expression_is_computed_once_for_all_rows():
    rows = frame(i=[1, 2, 3])
    assert isinstance(evaluate(call("abs", [Literal(INT, -5)]), rows).values, pa.Scalar)


# ------------------------------------------------------------------------------------------ types


@pytest.mark.parametrize(
    ("types", "common"),
    [
        ([TINYINT, BIGINT, INT], BIGINT),
        ([NULL, STRING], STRING),
        ([NULL], NULL),
        ([FLOAT, FLOAT], FLOAT),
        ([FLOAT, SMALLINT], DOUBLE),
        ([pa.decimal128(5, 2), DOUBLE], DOUBLE),
        ([pa.decimal128(5, 2), INT], pa.decimal128(12, 2)),
        ([pa.decimal128(38, 0), pa.decimal128(5, 2)], pa.decimal128(38, 0)),
        ([DATE, TIMESTAMP], TIMESTAMP),
        ([DATE, TIMESTAMP_NTZ], TIMESTAMP_NTZ),
        ([pa.list_(INT), pa.list_(BIGINT)], pa.list_(BIGINT)),
        ([STRING, INT], None),
        ([STRING, DATE], None),
        ([BOOLEAN, INT], None),
    ],
)
def test_the_common_type_is_the_least_that_holds_all(types, common):
    assert common_type(types) == common


def test_a_date_does_not_compare_with_text_and_the_hint_says_how():
    with pytest.raises(TypeMismatchError) as refused:
        call("<", [Column(DATE, "day"), Literal(STRING, "2024-01-01")])
    assert refused.value.problem == "< cannot take DATE and STRING"
    assert refused.value.hint == "Write DATE '2024-01-01'."


def test_a_cast_that_sql_does_not_have_is_refused():
    with pytest.raises(TypeMismatchError, match="cannot cast DATE to INT"):
        cast(Column(DATE, "day"), INT)


def test_a_cast_to_the_own_type_is_no_cast():
    column = Column(INT, "i")
    assert cast(column, INT) is column


def test_narrowing_is_not_implicit():
    with pytest.raises(TypeMismatchError, match="expected INT, found BIGINT"):
        coerce(Column(BIGINT, "l"), INT)


def test_an_integer_beside_a_decimal_counts_its_digits_so_it_stays_a_literal():
    assert call("+", [Column(pa.decimal128(5, 2), "m"), Literal(INT, 7)]).type == pa.decimal128(6, 2)
    with pytest.raises(NeedsLiteral):
        call("+", [Column(pa.decimal128(5, 2), "m"), Slot(INT, 3)])


def test_the_places_to_round_to_are_a_constant():
    with pytest.raises(NeedsLiteral):
        call("round", [Column(DOUBLE, "d"), Slot(INT, 1)])


# ------------------------------------------------------------------------------------------ frames


def test_failures_keep_their_numbers_in_a_frame_of_some_rows():
    rows = frame(i=[1, 0, 2])
    some = rows.take(np.array([1, 2]))
    result = evaluate(call("/", [Literal(INT, 1), Column(INT, "i")]), some)
    assert result.errors is not None
    assert rows.failure(result.errors[0]).error == "DIVIDE_BY_ZERO"
    assert rows.failures is some.failures
