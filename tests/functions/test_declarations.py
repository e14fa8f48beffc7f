"""Declaring functions: what they take, return and are called; which version they are."""

from __future__ import annotations

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import eddyline
from eddyline.errors import FunctionError
from eddyline.functions import load_modules
from eddyline.functions.declarations import DECLARED, _stable_repr


@pytest.fixture(autouse=True)
def no_functions_are_left_behind():
    before = dict(DECLARED)
    yield
    DECLARED.clear()
    DECLARED.update(before)


def test_a_declared_function_stays_callable():
    @eddyline.udf(returns="double")
    def doubled(x: float) -> float:
        return 2 * x

    assert doubled(1.5) == 3.0
    assert (doubled.name, doubled.returns, doubled.mode) == ("doubled", pa.float64(), "scalar")


def test_a_function_whose_arguments_are_all_plain_is_called_with_plain_values():
    @eddyline.udf(returns="int")
    def plain(a: int, b: str): ...

    @eddyline.udf(returns="int")
    def arrow(a: pa.Array, b): ...

    @eddyline.udf(returns="int")
    def unannotated(a): ...

    @eddyline.udf(returns="int")
    def nothing(): ...

    @eddyline.udf(returns="int", scalar=True)
    def said(a): ...

    @eddyline.udf(returns="int", setup=dict)
    def with_setup(model, a: int): ...

    modes = [f.mode for f in (plain, arrow, unannotated, nothing, said, with_setup)]
    assert modes == ["scalar", "arrow", "arrow", "arrow", "scalar", "scalar"]


def test_options_are_kept():
    @eddyline.udf(
        returns=pa.string(), name="label", takes=["int", pa.float64()], cost=0.001, deterministic=True,
        cache="10 minutes", batch=256, version="v7",
    )  # fmt: skip
    def anything(a, b): ...

    assert (anything.name, anything.takes, anything.cost_s) == ("label", (pa.int32(), pa.float64()), 0.001)
    assert (anything.cache_s, anything.batch, anything.version) == (600.0, 256, "v7")


@pytest.mark.parametrize(
    ("cache", "seconds"), [("500 ms", 0.5), ("2 s", 2), ("1.5 hours", 5400), ("1 day", 86400), (30, 30), (None, None)]
)  # fmt: skip
def test_how_long_results_are_remembered(cache, seconds):
    assert eddyline.udf(returns="int", cache=cache)(lambda_named()).cache_s == seconds


def lambda_named():
    def f(a): ...

    return f


def test_a_version_follows_code_constants_defaults_and_closure():
    def make(limit, default=1):
        @eddyline.udf(returns="int")
        def f(a: int, b: int = default) -> int:
            return a + b + limit

        return f

    def other(limit):
        @eddyline.udf(returns="int")
        def f(a: int, b: int = 1) -> int:
            return a - b + limit

        return f

    same = {make(1).version, make(1).version}
    assert len(same) == 1
    assert len({make(1).version, make(2).version, make(1, 2).version, other(1).version}) == 4


def test_a_version_does_not_depend_on_addresses_or_the_order_of_sets():
    def helper(a):
        return a in {"x", "y", "z", "w"}

    def make():
        class Model:
            """Shows its address, which no two processes share."""

        model, inner = Model(), helper

        @eddyline.udf(returns="int")
        def f(a):
            return (
                f(a) if model and inner(a) else later
            )  # itself, another function, and what is not there yet

        later = 1
        return f

    assert make().version == make().version
    assert _stable_repr({"b", "a", ("d", frozenset({2, 1}))}) == "{'a', 'b', ('d', {1, 2})}"
    assert " at 0x" not in _stable_repr(object())


def refused(**options) -> str:
    with pytest.raises(FunctionError) as error:
        eddyline.udf(**options)(lambda_named())
    return str(error.value)


def test_a_declaration_that_cannot_work_is_refused():
    with pytest.raises(FunctionError) as error:
        eddyline.udf(lambda_named())
    assert (
        str(error.value)
        == 'function f does not say what it returns\nhint: Write @eddyline.udf(returns="double").'
    )
    assert refused(returns="number") == (
        'function f: \'number\' is not a type of Spark SQL\nhint: Name a SQL type, such as "double" or "string".'
    )
    assert refused(returns="int", takes=["nope"]).startswith("function f: 'nope' is not a type of Spark SQL")
    assert (
        refused(returns="int", cache="soon")
        == "function f: 'soon' is not a duration\nhint: Write cache=\"10 minutes\"."
    )
    assert refused(returns="int", cache="1 minute", deterministic=False) == (
        "function f is not deterministic, so its results cannot be cached\n"
        "hint: Leave out cache=, or declare deterministic=True."
    )
    assert refused(returns="int", batch=0) == (
        "function f has batch=0\nhint: batch is the number of rows per call, at least 1."
    )
    assert refused(returns="int", name="a b") == (
        "'a b' cannot be the name of a function\nhint: Give one with name=, letters and digits."
    )
    with pytest.raises(FunctionError, match="'<lambda>' cannot be the name of a function"):
        eddyline.udf(returns="int")(lambda a: a)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, (False, None, None)),
        ({"isolated": False}, (False, None, None)),
        ({"isolated": True}, (True, 30.0, None)),
        ({"timeout": "2 seconds"}, (True, 2.0, None)),
        ({"timeout": 0.5, "memory": 1000}, (True, 0.5, 1000)),
        ({"memory": "500 MB"}, (True, 30.0, 500 << 20)),
        ({"isolated": True, "memory": "1.5gib", "timeout": "1 minute"}, (True, 60.0, 3 << 29)),
    ],
    ids=str,
)
def test_a_limit_isolates(options, expected):
    declared = eddyline.udf(returns="int", **options)(lambda_named())
    assert (declared.is_isolated, declared.timeout_s, declared.memory_bytes) == expected


def test_limits_that_cannot_be_kept_are_refused():
    assert refused(returns="int", isolated=False, timeout="2 seconds", memory="1 GB") == (
        "function f has a limit of timeout, but isolated=False\n"
        "detail: Only a function in a process of its own can be stopped.\n"
        "hint: Leave out isolated=False, or timeout and memory."
    )
    assert refused(returns="int", timeout="soon") == (
        "function f: 'soon' is not a duration\nhint: Write timeout=\"2 seconds\"."
    )
    assert refused(returns="int", memory="much") == (
        "function f: 'much' is not a size\nhint: Write memory=\"500 MB\"."
    )
    assert refused(returns="int", timeout=0) == "function f: timeout is 0\nhint: Give a limit above 0."


def test_another_setup_is_another_version_and_limits_are_not():
    def make(**options):
        return eddyline.udf(returns="int", **options)(lambda_named()).version

    assert make(setup=lambda: "small") == make(setup=lambda: "small") != make(setup=lambda: "large")
    assert make(setup=lambda: "small") != make() == make(isolated=True, timeout=3)


def test_what_is_not_a_pandas_udf_is_refused():
    with pytest.raises(FunctionError) as error:
        eddyline.from_pandas_udf(len)
    assert (
        "is not a pandas UDF\nhint: Decorate a plain function with @eddyline.udf(returns=…) instead."
        in str(error.value)
    )


def test_an_existing_pandas_udf_can_be_declared():
    functions, types = pytest.importorskip("pyspark.sql.functions"), pytest.importorskip("pyspark.sql.types")

    def with_tax(price):
        return price * 1.25

    with_tax.__annotations__ = {"price": pd.Series, "return": pd.Series}
    made = functions.pandas_udf(with_tax, types.DoubleType())
    declared = eddyline.from_pandas_udf(made)
    assert (declared.name, declared.returns, declared.mode) == ("with_tax", pa.float64(), "pandas")
    assert eddyline.from_pandas_udf(made.asNondeterministic(), name="again").is_deterministic is False


def test_a_spark_function_that_is_not_over_whole_series_is_refused():
    functions, types = pytest.importorskip("pyspark.sql.functions"), pytest.importorskip("pyspark.sql.types")

    def total(price):
        return price.sum()

    total.__annotations__ = {"price": pd.Series, "return": float}
    for made in (functions.pandas_udf(total, types.DoubleType()), functions.udf(total, types.DoubleType())):
        with pytest.raises(FunctionError) as error:
            eddyline.from_pandas_udf(made)
        assert str(error.value) == (
            "total does not turn series into a series of the same length\n"
            "detail: Functions of single rows, of groups and of iterators are called otherwise.\n"
            "hint: Decorate the plain function with @eddyline.udf(returns=…) instead."
        )


def test_modules_that_declare_functions_are_loaded_by_name(tmp_path, monkeypatch):
    (tmp_path / "my_rules_functions.py").write_text(
        "import eddyline\n@eddyline.udf(returns='int')\ndef from_a_module(a: int) -> int:\n    return a\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert load_modules(["my_rules_functions"]) == ["from_a_module"]
    assert load_modules(["my_rules_functions"]) == []
    with pytest.raises(FunctionError) as error:
        load_modules(["no_such_rules"])
    assert str(error.value) == (
        "module no_such_rules with functions cannot be imported\n"
        "detail: No module named 'no_such_rules'\n"
        "hint: Install it, or start in the folder that holds it."
    )


def test_arrow_functions_take_and_give_arrays():
    @eddyline.udf(returns="bigint")
    def total(a, b):
        return pc.add(a, b)

    assert total(pa.array([1, 2]), pa.array([10, 20])).to_pylist() == [11, 22]
