"""Functions in processes of their own: real processes that hang, die, leak and lie."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from decimal import Decimal
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import eddyline
from eddyline.errors import FunctionError
from eddyline.functions import FunctionRegistry, isolation, sending
from eddyline.functions.declarations import DECLARED
from eddyline.model import UserCall

pytestmark = pytest.mark.slow  # a process takes half a second to start


@pytest.fixture(autouse=True)
def no_functions_are_left_behind():
    before = dict(DECLARED)
    yield
    DECLARED.clear()
    DECLARED.update(before)


@pytest.fixture
def functions():
    functions = FunctionRegistry()
    yield functions
    functions.close()


def called(functions: FunctionRegistry, declared, *columns: pa.Array):
    call = UserCall(declared.returns, declared.name, (), version=declared.version)
    values, failed = functions.call(call, columns, len(columns[0]))
    return values.to_pylist(), dict(failed)


def ints(*values: int) -> pa.Array:
    return pa.array(values, pa.int32())


def is_running(pid: int) -> bool:
    """Whether there is such a process that has not ended; one whose parent has not waited for it has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until_gone(pid: int) -> None:
    for _ in range(200):
        if not is_running(pid):
            return
        time.sleep(0.05)
    raise AssertionError(f"process {pid} is still there")


# --------------------------------------------------------------------------------------------- what works


def test_functions_of_every_mode_run_in_another_process(functions):
    @eddyline.udf(returns="bigint", isolated=True)
    def of_arrays(a, b):
        return pc.add(pc.multiply(a, 1000), b)

    @eddyline.udf(returns="string", isolated=True)
    def of_values(a: int, b: int) -> str:
        return f"{a}/{b}"

    class Made:  # what pyspark's pandas_udf returns, as far as it is looked at
        @staticmethod
        def func(a, b):
            assert isinstance(a, pd.Series)
            return a / b

        class returnType:  # noqa: N801
            @staticmethod
            def simpleString() -> str:  # noqa: N802
                return "double"

    of_series = eddyline.from_pandas_udf(Made, name="of_series", timeout="20 seconds")
    columns = ints(1, 2), ints(4, 5)
    assert called(functions, of_arrays, *columns) == ([1004, 2005], {})
    assert called(functions, of_values, *columns) == (["1/4", "2/5"], {})
    assert called(functions, of_series, *columns) == ([0.25, 0.4], {})
    assert functions.counters["of_values"].n_calls == 2
    assert functions.counters["of_arrays"].n_lost == 0


def test_one_process_serves_all_calls_and_setup_runs_in_it_once(functions):
    def load():
        return {"setups": 0, "pid": os.getpid()}

    @eddyline.udf(returns="int", isolated=True, setup=load, scalar=True)
    def with_model(model, a):
        assert model["pid"] == os.getpid()
        model["setups"] += 1
        return model["setups"]

    assert called(functions, with_model, ints(7, 7)) == ([1, 2], {})
    assert called(functions, with_model, ints(7)) == ([3], {})

    @eddyline.udf(returns="int", isolated=True)
    def process(a: int) -> int:
        return os.getpid()

    assert called(functions, process, ints(1))[0] != [os.getpid()]


def test_it_has_none_of_the_engines_files_and_ends_with_the_engine(functions):
    @eddyline.udf(returns="string", isolated=True)
    def files(a: int) -> str:
        return " ".join(
            os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if int(fd) > 2
        )

    @eddyline.udf(returns="int", isolated=True)
    def process(a: int) -> int:
        return os.getpid()

    with tempfile.NamedTemporaryFile() as file:
        os.set_inheritable(file.fileno(), True)
        seen = called(functions, files, ints(1))[0][0]
    assert file.name not in seen
    pid = called(functions, process, ints(1))[0][0]
    assert is_running(pid)
    functions.close()
    assert not is_running(pid)


def test_no_call_has_more_rows_than_asked_for(functions):
    @eddyline.udf(returns="int", isolated=True, batch=3)
    def sizes(a):
        return [len(a)] * len(a)

    assert called(functions, sizes, ints(*range(7)))[0] == [3, 3, 3, 3, 3, 3, 1]


def test_results_are_cached_here(functions):
    @eddyline.udf(returns="int", isolated=True, cache="1 minute", setup=lambda: [0])
    def count(n, a: int) -> int:
        n[0] += 1
        return n[0]

    assert called(functions, count, ints(5, 5, 6)) == ([1, 1, 2], {})
    assert called(functions, count, ints(6, 5, 7)) == ([2, 1, 3], {})


# --------------------------------------------------------------------------------------------- what goes wrong


def test_what_raises_or_returns_something_else_says_the_same_as_in_process(functions):
    def raises(a):
        if 3 in a.to_pylist():
            raise ValueError("three")
        return a

    def exits(a: int) -> int:
        return sys.exit(4) if a == 3 else a

    def short(a):
        return a.slice(1) if 3 in a.to_pylist() else a

    def nothing(a):
        return None if 3 in a.to_pylist() else a

    def mixed(a: int):
        return {3: "three"}.get(a, a)

    def fractions(a):
        return pa.array([1.5 if n == 3 else 1.0 for n in a.to_pylist()])

    for function in (raises, exits, short, nothing, mixed, fractions):
        here = called(functions, eddyline.udf(returns="int", version="1")(function), ints(1, 2, 3, 4))
        there = called(
            functions, eddyline.udf(returns="int", isolated=True, version="2")(function), ints(1, 2, 3, 4)
        )
        assert here == there
        assert list(here[1]) == [2]
        assert here[1][2].startswith(f"function {function.__name__} r")
        assert functions.counters[function.__name__].n_lost == 0


@pytest.mark.parametrize("is_scalar", [False, True])
def test_a_row_that_takes_too_long_fails_alone(functions, is_scalar):
    @eddyline.udf(returns="int", timeout="2 seconds", scalar=is_scalar)
    def slow(a):
        if is_scalar:
            time.sleep(600 if a == 3 else 0)
            return a
        time.sleep(600 if 3 in a.to_pylist() else 0)
        return a

    values, failed = called(functions, slow, ints(1, 2, 3, 4))
    assert values == [1, 2, None, 4]
    assert failed == {2: "function slow took longer than 2 s"}


def test_a_regular_expression_that_never_ends_is_stopped(functions):
    @eddyline.udf(returns="boolean", timeout=1.5)
    def matches(text: str) -> bool:
        return re.match(r"(a+)+$", text) is not None

    values, failed = called(functions, matches, pa.array(["aaa", "a" * 60 + "b", "b"]))
    assert values == [True, None, False]
    assert failed == {1: "function matches took longer than 1.5 s"}


def test_of_a_function_called_row_by_row_every_row_has_the_time(functions):
    @eddyline.udf(returns="int", timeout=2.0)
    def steady(a: int) -> int:
        time.sleep(0.25)
        return a

    assert called(functions, steady, ints(*range(10))) == (list(range(10)), {})
    assert functions.counters["steady"].n_lost == 0


@pytest.mark.parametrize(
    ("end", "said", "is_scalar"),
    [
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "SIGKILL", False),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "SIGKILL", True),
        (lambda: os.abort(), "SIGABRT", True),
        (lambda: os._exit(3), "exit code 3", True),
        (lambda: os._exit(0), "exit code 0", True),
    ],
    ids=["kill, arrays", "kill", "abort", "exit", "no error"],
)
def test_a_row_that_ends_the_process_fails_alone(functions, end, said, is_scalar):
    @eddyline.udf(returns="int", isolated=True, scalar=is_scalar)
    def dies(a):
        if (a == 3) if is_scalar else (3 in a.to_pylist()):
            end()
        return a

    values, failed = called(functions, dies, ints(1, 2, 3, 4))
    assert values == [1, 2, None, 4]
    assert failed == {2: f"function dies ended its process ({said})"}


@pytest.mark.parametrize("is_scalar", [False, True])
def test_a_row_that_needs_too_much_memory_fails_alone(functions, is_scalar):
    @eddyline.udf(returns="int", memory="64 MB", scalar=is_scalar)
    def hungry(a):
        taken = bytearray((200 << 20) if ((a == 3) if is_scalar else (3 in a.to_pylist())) else 1)
        return a if taken is not None else None

    values, failed = called(functions, hungry, ints(1, 2, 3, 4))
    assert values == [1, 2, None, 4]
    assert failed == {2: "function hungry needed more than 64 MB of memory"}


def test_a_library_that_runs_out_of_memory_counts_too(functions):
    @eddyline.udf(returns="int", memory="64 MB")
    def in_arrow(a):
        try:
            return pa.nulls(200 << 20, pa.int32()).slice(0, len(a)) if 3 in a.to_pylist() else a
        except MemoryError as error:
            raise RuntimeError("the model failed") from error

    values, failed = called(functions, in_arrow, ints(1, 3))
    assert values == [1, None]
    assert failed == {1: "function in_arrow needed more than 64 MB of memory"}


def test_a_function_that_leaks_is_restarted_and_named_and_no_row_fails(functions):
    @eddyline.udf(returns="int", memory="64 MB", setup=list, scalar=True)
    def leaky(kept, a):
        kept.append(bytearray(4 << 20))
        return a

    for _ in range(5):
        assert called(functions, leaky, ints(*range(8))) == (list(range(8)), {})
    counters = functions.counters["leaky"]
    assert counters.n_lost == 4  # two batches of eight do not fit into one process
    assert counters.last_message == "function leaky needed more than 64 MB of memory"


def test_a_setup_that_fails_dies_or_needs_too_much_fails_the_rows(functions):
    def no_model():
        raise OSError("no model")

    raising = eddyline.udf(returns="int", name="raising", isolated=True, setup=no_model)(lambda m, a: a)
    dying = eddyline.udf(returns="int", name="dying", isolated=True, setup=lambda: os._exit(9))(
        lambda m, a: a
    )
    large = eddyline.udf(returns="int", name="large", memory="50 MB", setup=lambda: bytearray(1 << 30))(
        lambda m, a: a
    )
    for declared, said in (
        (raising, "setup of function raising raised OSError: no model"),
        (dying, "setup of function dying ended its process (exit code 9)"),
        (large, "setup of function large needed more than 50 MB of memory"),
    ):
        assert called(functions, declared, ints(1, 2)) == ([None, None], {0: said, 1: said})


def test_a_setup_that_never_ends_fails_the_rows(functions, monkeypatch):
    monkeypatch.setattr(isolation, "START_LIMIT_S", 2.0)

    @eddyline.udf(returns="int", isolated=True, setup=lambda: time.sleep(600))
    def stuck(nothing, a: int) -> int:
        return a

    assert called(functions, stuck, ints(1))[1] == {0: "setup of function stuck took longer than 2 s"}


def test_a_batch_of_poison_ends_and_the_function_is_not_called_any_more(functions):
    @eddyline.udf(returns="int", isolated=True)
    def dead(a: int) -> int:
        os._exit(1)

    _, failed = called(functions, dead, ints(1, 2, 3))
    assert set(failed.values()) == {"function dead ended its process (exit code 1)"}
    assert len(failed) == 3
    assert functions.counters["dead"].n_lost <= 2 * 2 + 8
    n_lost = functions.counters["dead"].n_lost
    _, failed = called(functions, dead, ints(1))
    assert failed == {
        0: "function dead is not called any more: 3 calls in a row were lost, the last because "
        "function dead ended its process (exit code 1)"
    }
    assert functions.counters["dead"].n_lost == n_lost
    functions.drain()
    assert called(functions, dead, ints(1))[1] == {0: "function dead ended its process (exit code 1)"}


def test_what_the_function_started_ends_with_its_process(functions):
    @eddyline.udf(returns="int", timeout=2.0)
    def starts(a: int) -> int:
        child = subprocess.Popen(["sleep", "600"])
        Path(pid_file).write_text(str(child.pid))
        time.sleep(600)
        return a

    with tempfile.TemporaryDirectory() as folder:
        pid_file = f"{folder}/pid"
        assert called(functions, starts, ints(1))[1] == {0: "function starts took longer than 2 s"}
        wait_until_gone(int(Path(pid_file).read_text()))


# --------------------------------------------------------------------------------------------- getting there


def test_what_cannot_be_sent_is_refused_when_a_query_is_registered():
    lock = threading.Lock()

    @eddyline.udf(returns="int", isolated=True)
    def locked(a: int) -> int:
        with lock:
            return a

    with eddyline.open() as engine:
        engine.stream("s", "a INT")
        with pytest.raises(FunctionError) as error:
            engine.query("SELECT a FROM s WHERE locked(a) > 1")
    assert str(error.value) == (
        "function locked cannot be sent to a process of its own\n"
        "  SELECT a FROM s WHERE locked(a) > 1\n"
        "                        ^^^^^^^^^\n"
        "detail: TypeError: cannot pickle '_thread.lock' object\n"
        "hint: Declare it at the top of a module that can be imported, and let setup= make what it needs; or leave out "
        "isolated, timeout and memory."
    )


def test_without_cloudpickle_it_is_imported_from_its_module(functions, monkeypatch, tmp_path):
    monkeypatch.setattr(sending, "PICKLERS", ())
    (tmp_path / "isolated_rules.py").write_text(
        "import os, eddyline\nPID = os.getpid()\n"
        "@eddyline.udf(returns='int', isolated=True)\ndef pid_of_module(a: int) -> int:\n    return PID\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    declared = __import__("isolated_rules").pid_of_module
    assert functions.get("pid_of_module") is declared
    values, failed = called(functions, declared, ints(1))
    assert failed == {}
    assert values != [os.getpid()]

    @eddyline.udf(returns="int", isolated=True)
    def local(a: int) -> int:
        return a

    with pytest.raises(FunctionError, match="There is no cloudpickle here"):
        functions.get("local")


@pytest.mark.parametrize("work", ["re.match(r'(a+)+$', 'a' * 60 + 'b')", "a"], ids=["busy", "idle"])
def test_it_ends_when_the_engines_process_is_killed(tmp_path, work):
    """In the middle of a call that never lets go of the interpreter, and between calls."""
    script = textwrap.dedent(f"""
        import os, re, sys, threading, time
        import eddyline

        @eddyline.udf(returns="int", isolated=True)
        def function(a: int) -> int:
            with open({str(tmp_path / "pid")!r}, "w") as file:
                file.write(str(os.getpid()))
            os.rename({str(tmp_path / "pid")!r}, {str(tmp_path / "there")!r})
            {work}
            return a

        engine = eddyline.open()
        engine.stream("s", "a INT")
        engine.query("SELECT a FROM s WHERE function(a) > 0")
        engine.push("s", [{{"a": 1}}])
        time.sleep(600)
    """)
    with subprocess.Popen([sys.executable, "-c", script]) as engine:
        try:
            for _ in range(600):
                if (tmp_path / "there").exists():
                    break
                time.sleep(0.05)
            pid = int((tmp_path / "there").read_text())
            assert is_running(pid)
        finally:
            engine.kill()
    with contextlib.suppress(ProcessLookupError):
        wait_until_gone(pid)


def test_a_decimal_that_arrow_does_not_survive_fails_for_its_row(functions):
    @eddyline.udf(returns="decimal(10,2)", isolated=True)
    def far(x: int) -> Decimal:
        return Decimal("1e-1000000000") if x == 1 else Decimal(x)

    values, failed = called(functions, far, ints(1, 2))
    assert values == [None, Decimal("2.00")]
    assert failed == {
        0: "function far returned values that are not DECIMAL(10,2): 1E-1000000000 is not DECIMAL(10,2)"
    }
