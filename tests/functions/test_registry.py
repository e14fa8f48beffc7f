"""Running users' functions: every failure belongs to its rows."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import eddyline
from eddyline.functions import FunctionRegistry
from eddyline.functions.declarations import DECLARED
from eddyline.model import UserCall


@pytest.fixture(autouse=True)
def no_functions_are_left_behind():
    before = dict(DECLARED)
    yield
    DECLARED.clear()
    DECLARED.update(before)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def called(functions: FunctionRegistry, name: str, *columns: pa.Array, n_rows: int | None = None):
    declared = functions.get(name)
    assert declared is not None
    call = UserCall(declared.returns, declared.name, (), version=declared.version)
    n = len(columns[0]) if n_rows is None else n_rows
    values, failed = functions.call(call, columns, n)
    return values.to_pylist(), failed


def test_names_are_found_whatever_their_case():
    @eddyline.udf(returns="int", name="Half")
    def half(a: int): ...

    functions = FunctionRegistry()
    assert functions.get("HALF") is half
    assert functions.get("quarter") is None
    assert "Half" in functions.names()


def test_rows_that_raise_fail_alone():
    @eddyline.udf(returns="double")
    def inverse(x: float) -> float:
        return 1 / x

    functions = FunctionRegistry()
    values, failed = called(functions, "inverse", pa.array([2.0, 0.0, 4.0, 0.0]))
    assert values == [0.5, None, 0.25, None]
    assert failed == [
        (1, "function inverse raised ZeroDivisionError: float division by zero"),
        (3, "function inverse raised ZeroDivisionError: float division by zero"),
    ]
    assert functions.counters["inverse"].n_failed == 2


def test_a_function_of_plain_values_is_called_once_for_every_row_whatever_it_does():
    seen: list[int] = []

    @eddyline.udf(returns="int")
    def picky(n: int):
        seen.append(n)
        if n == 3:
            raise ZeroDivisionError("three")
        return {1: 10, 2: "two", 4: 2**40}.get(n, n)

    functions = FunctionRegistry()
    values, failed = called(functions, "picky", pa.array([1, 2, 3, 4, 5]))
    assert values == [10, None, None, None, 5]
    assert [row for row, _ in failed] == [1, 2, 3]
    assert [message[:40] for _, message in failed] == [
        "function picky returned values that are ",
        "function picky raised ZeroDivisionError:",
        "function picky returned values that are ",
    ]
    assert seen == [1, 2, 3, 4, 5]
    counters = functions.counters["picky"]
    assert (counters.n_calls, counters.n_rows, counters.n_failed) == (5, 5, 3)


def test_rows_an_array_function_raises_on_are_found_by_halving():
    seen = []

    @eddyline.udf(returns="int")
    def picky(a):
        seen.append(len(a))
        if 13 in a.to_pylist():
            raise ValueError("unlucky")
        return a

    values, failed = called(FunctionRegistry(), "picky", pa.array([1, 2, 13, 4], pa.int32()))
    assert values == [1, 2, None, 4]
    assert failed == [(2, "function picky raised ValueError: unlucky")]
    assert seen == [4, 2, 2, 1, 1]


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (lambda a: a.slice(1), "function f returned 0 values for 1 row"),
        (lambda a: [*a.to_pylist(), 1], "function f returned 2 values for 1 row"),
        (lambda a: 5, "function f returned int, expected an array of 1 values"),
        (lambda a: "x", "function f returned str, expected an array of 1 values"),
        (lambda a: None, "function f returned NoneType, expected an array of 1 values"),
        (lambda a: ["x"] * len(a), "function f returned values that are not INT: "),
        (lambda a: [2**40] * len(a), "function f returned values that are not INT: "),
        (lambda a: pa.array([[1]] * len(a)), "function f returned ARRAY<BIGINT>, declared INT"),
        (lambda a: pa.array(["x"] * len(a)), "function f returned STRING, declared INT"),
        (lambda a: pa.array([1.5] * len(a)), "function f returned DOUBLE, declared INT"),
    ],
    ids=[
        "short",
        "long",
        "scalar",
        "text",
        "nothing",
        "wrong type",
        "too large",
        "arrays",
        "strings",
        "fractions",
    ],
)
def test_a_result_of_the_wrong_length_or_type_is_an_error_of_the_rows(result, message):
    @eddyline.udf(returns="int")
    def f(a):
        return result(a)

    values, failed = called(FunctionRegistry(), "f", pa.array([7], pa.int32()))
    assert values == [None]
    assert [(row, text[: len(message)]) for row, text in failed] == [(0, message)]


def test_results_that_fit_the_declared_type_are_taken():
    @eddyline.udf(returns="double")
    def whole(a):
        return pa.array([1] * len(a))

    @eddyline.udf(returns="string")
    def chunked(a):
        return pa.chunked_array([["x"], ["y"]])

    functions = FunctionRegistry()
    assert called(functions, "whole", pa.array([1, 2])) == ([1.0, 1.0], [])
    assert called(functions, "chunked", pa.array([1, 2])) == (["x", "y"], [])


def test_setup_runs_once_and_comes_first():
    made = []

    @eddyline.udf(returns="int", setup=lambda: made.append(1) or 100)
    def with_model(model, a: int) -> int:
        return model + a

    functions = FunctionRegistry()
    assert called(functions, "with_model", pa.array([1])) == ([101], [])
    assert called(functions, "with_model", pa.array([2])) == ([102], [])
    assert made == [1]


def test_a_setup_that_fails_fails_the_rows_and_is_tried_again():
    tries = []

    def setup():
        tries.append(1)
        if len(tries) == 1:
            raise OSError("no model yet")
        return 1

    @eddyline.udf(returns="int", setup=setup)
    def with_model(model, a: int) -> int:
        return model + a

    functions = FunctionRegistry()
    assert called(functions, "with_model", pa.array([1, 2])) == (
        [None, None],
        [
            (0, "setup of function with_model raised OSError: no model yet"),
            (1, "setup of function with_model raised OSError: no model yet"),
        ],
    )
    assert functions.counters["with_model"].n_failed == 2
    assert called(functions, "with_model", pa.array([1])) == ([2], [])


def test_rows_come_in_batches_of_the_size_asked_for():
    sizes = []

    @eddyline.udf(returns="bigint", batch=2)
    def f(a):
        sizes.append(len(a))
        return pc.add(a, 1)

    functions = FunctionRegistry()
    assert called(functions, "f", pa.array([1, 2, 3, 4, 5])) == ([2, 3, 4, 5, 6], [])
    assert sizes == [2, 2, 1]
    counters = functions.counters["f"]
    assert (counters.n_calls, counters.n_rows, counters.n_failed) == (3, 5, 0)


def test_no_rows_are_no_call():
    @eddyline.udf(returns="int")
    def f(a):
        raise AssertionError("called")

    assert called(FunctionRegistry(), "f", pa.array([], pa.int32())) == ([], [])


def test_a_function_without_arguments_is_told_nothing():
    @eddyline.udf(returns="int", scalar=True)
    def seven():
        return 7

    assert called(FunctionRegistry(), "seven", n_rows=3) == ([7, 7, 7], [])


def test_the_cache_remembers_results_for_as_long_as_said():
    seen = []

    @eddyline.udf(returns="int", cache="10 seconds")
    def slow(a: int) -> int:
        seen.append(a)
        return a * 10

    clock = Clock()
    functions = FunctionRegistry(clock)
    assert called(functions, "slow", pa.array([1, 1, 2, None, None], pa.int32()))[0][:3] == [10, 10, 20]
    assert seen[:2] == [1, 2]
    clock.now = 9.0
    seen.clear()
    assert called(functions, "slow", pa.array([2, 3], pa.int32())) == ([20, 30], [])
    assert seen == [3]
    assert functions.counters["slow"].n_cached == 1
    clock.now = 10.5
    seen.clear()
    assert called(functions, "slow", pa.array([2, 3], pa.int32())) == ([20, 30], [])
    assert seen == [2]


def test_the_cache_keeps_no_failures_and_tells_numbers_apart():
    @eddyline.udf(returns="double", cache=60)
    def inverse(x: float) -> float:
        seen.append(x)
        return 1 / x

    seen: list[float] = []
    functions = FunctionRegistry(Clock())
    for _ in range(2):
        values, failed = called(functions, "inverse", pa.array([0.0, 4.0, 0.0]))
        assert values == [None, 0.25, None]
        assert [row for row, _ in failed] == [0, 2]
    assert seen.count(4.0) == 1
    values, _ = called(functions, "inverse", pa.array([float("inf"), float("-inf")]))
    assert [repr(v) for v in values] == ["0.0", "-0.0"]


def test_a_query_keeps_the_version_it_was_registered_with():
    @eddyline.udf(returns="int", name="f")
    def first(a: int) -> int:
        return a

    functions = FunctionRegistry()
    old = functions.get("f")

    @eddyline.udf(returns="int", name="f")
    def second(a: int) -> int:
        return a + 1

    new = functions.get("f")
    column = pa.array([1], pa.int32())
    assert None not in (old, new)
    calls = [UserCall(f.returns, f.name, (), version=f.version) for f in (old, new)]
    assert [functions.call(call, [column], 1)[0].to_pylist() for call in calls] == [[1], [2]]


def test_a_function_this_process_does_not_have_fails_its_rows():
    gone = UserCall(pa.int32(), "gone", (), version="v1")
    values, failed = FunctionRegistry().call(gone, [], 1)
    assert values.to_pylist() == [None]
    assert failed == [
        (0, "function gone is not declared in this process: import the module that declares it")
    ]

    @eddyline.udf(returns="int", version="v2")
    def changed(a: int): ...

    old = UserCall(pa.int32(), "changed", (), version="v1")
    assert FunctionRegistry().call(old, [], 1)[1] == [
        (0, "function changed has changed: the query was registered with version v1, this process has v2; "
            "register the query again to use it")
    ]  # fmt: skip


def test_a_pandas_function_is_given_series():
    import pandas as pd

    class Made:  # what pyspark's pandas_udf returns, as far as it is looked at
        @staticmethod
        def func(price: pd.Series, n: pd.Series) -> pd.Series:
            assert isinstance(price, pd.Series)
            return price * n

        class returnType:  # noqa: N801
            @staticmethod
            def simpleString() -> str:  # noqa: N802
                return "double"

    eddyline.from_pandas_udf(Made, name="value")
    values, failed = called(FunctionRegistry(), "value", pa.array([1.5, None]), pa.array([2, 3], pa.int32()))
    assert values == [3.0, None]
    assert failed == []


def test_a_long_message_is_cut():
    @eddyline.udf(returns="int")
    def loud(a: int) -> int:
        raise ValueError("x" * 1000)

    _, failed = called(FunctionRegistry(), "loud", pa.array([1], pa.int32()))
    assert len(failed[0][1]) < 350


def test_rows_of_a_function_that_is_not_called_any_more_do_not_quote_other_rows():
    @eddyline.udf(returns="int")
    def strict(word: str) -> int:
        raise ValueError(f"no number: {word}")

    functions = FunctionRegistry()
    for _ in range(3):
        _, failed = called(functions, "strict", pa.array(["secret"] * 400))
        assert failed[0][1] == "function strict raised ValueError: no number: secret"
    _, failed = called(functions, "strict", pa.array(["mine"]))
    assert failed == [
        (
            0,
            "function strict is not called any more: it failed on each of the last 1,200 rows, the last time: "
            "function strict raised ValueError",
        )
    ]
