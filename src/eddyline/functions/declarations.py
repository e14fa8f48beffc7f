"""Declaring a function: what it takes, what it returns, and which version of its code it is."""

from __future__ import annotations

import datetime
import decimal
import hashlib
import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, overload

import pyarrow as pa

from eddyline.errors import FunctionError
from eddyline.types import parse_type

_NAME = re.compile(r"[A-Za-z_]\w*\Z")
_SCALARS = (bool, int, float, str, bytes, decimal.Decimal, datetime.date, datetime.datetime)
_DURATION = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ms|millisecond|s|sec|second|m|min|minute|h|hour|d|day)s?\s*\Z")
_SECONDS = {"ms": 1e-3, "millisecond": 1e-3, "s": 1, "sec": 1, "second": 1, "m": 60, "min": 60, "minute": 60}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([KMG])i?B\s*\Z", re.IGNORECASE)
_BYTES = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
DEFAULT_TIMEOUT_S = 30.0  # of a call of an isolated function
_SERIES_TO_SERIES = 200  # what Spark calls SQL_SCALAR_PANDAS_UDF
_SECONDS |= {"h": 3600, "hour": 3600, "d": 86400, "day": 86400}


@dataclass(frozen=True, slots=True)
class UserFunction:
    """A declared function. Calling it calls the Python function, so it stays testable by itself.

    `mode` says what the Python function is given: `arrow` arrays, `pandas` series, or plain values one row at a time
    (`scalar`). With `setup`, what `setup()` returned in this process comes first. An isolated one has a process of its own, a
    limit of time for a call, and perhaps one of memory.
    """

    name: str
    returns: pa.DataType
    function: Callable[..., Any] = field(repr=False)
    mode: str
    takes: tuple[pa.DataType, ...] | None
    cost_s: float | None
    is_deterministic: bool
    setup: Callable[[], Any] | None = field(repr=False)
    cache_s: float | None
    batch: int | None
    version: str
    is_isolated: bool = False
    timeout_s: float | None = None
    memory_bytes: int | None = None
    is_bare: bool = False  # given arrays only because its parameters say no types

    def hint(self, error: BaseException) -> str:
        """What may help if it fails like this, to stand behind the error."""
        if not (self.is_bare and isinstance(error, (TypeError, AttributeError))):
            return ""
        return (
            ". It was given Arrow arrays, since its parameters have no annotations: annotate them (x: float) or declare"
            " scalar=True to be given plain values"
        )

    @property
    def key(self) -> tuple[str, str]:
        """Its name and version."""
        return self.name, self.version

    @property
    def limits(self) -> tuple[float | None, int | None]:
        return self.timeout_s, self.memory_bytes

    def __call__(self, *arguments: Any) -> Any:
        return self.function(*arguments)


DECLARED: dict[str, UserFunction] = {}


@overload
def udf(function: Callable[..., Any], /) -> UserFunction: ...
@overload
def udf(
    *,
    returns: str | pa.DataType,
    name: str | None = None,
    takes: Sequence[str | pa.DataType] | None = None,
    cost: float | None = None,
    deterministic: bool = True,
    setup: Callable[[], Any] | None = None,
    cache: str | float | None = None,
    batch: int | None = None,
    scalar: bool | None = None,
    version: str | None = None,
    isolated: bool | None = None,
    timeout: str | float | None = None,
    memory: str | int | None = None,
) -> Callable[[Callable[..., Any]], UserFunction]: ...
def udf(
    function: Callable[..., Any] | None = None,
    /,
    *,
    returns: str | pa.DataType | None = None,
    name: str | None = None,
    takes: Sequence[str | pa.DataType] | None = None,
    cost: float | None = None,
    deterministic: bool = True,
    setup: Callable[[], Any] | None = None,
    cache: str | float | None = None,
    batch: int | None = None,
    scalar: bool | None = None,
    version: str | None = None,
    isolated: bool | None = None,
    timeout: str | float | None = None,
    memory: str | int | None = None,
) -> UserFunction | Callable[[Callable[..., Any]], UserFunction]:
    """Make a Python function callable from SQL.

    returns         its SQL type, such as "double"
    name            what SQL calls it; the function's own name if not given
    takes           SQL types of its arguments, which are then coerced and checked; any types if not given
    cost            expected seconds per row, a first guess until it is measured; with routing's cost_mode "declared" it stays
    deterministic   False: called once per row and place, never shared, never cached
    setup           called once per process; its result is passed as the first argument
    cache           remember results for this long, such as "10 minutes"
    batch           at most this many rows per call
    scalar          True: called with plain values, row by row. By default a function whose annotations are all plain
                    Python types is scalar; any other is given Arrow arrays and returns an array of the same length.
    version         stated version; by default a hash of the code
    isolated        True: runs in a process of its own, which may hang, crash or leak without harm to others
    timeout         of a call, such as "2 seconds": of all its rows, or of one if it is called row by row; isolates it. 30 seconds
                    for an isolated function if not given
    memory          what it may take, such as "500 MB", besides what it imports; isolates it
    """

    def declare(function: Callable[..., Any]) -> UserFunction:
        limits = _limits(isolated, timeout, memory, name or function.__name__)
        declared = _declare(
            function, returns, name, takes, cost, deterministic, setup, cache, batch, scalar, version, limits
        )
        DECLARED[declared.name.lower()] = declared
        return declared

    return declare if function is None else declare(function)


def from_pandas_udf(
    function: Any,
    *,
    name: str | None = None,
    isolated: bool | None = None,
    timeout: str | float | None = None,
    memory: str | int | None = None,
) -> UserFunction:
    """Declare an existing pandas UDF of Spark (made with `pandas_udf`) under its own name or another; limits as for `udf`."""
    inner, returns = getattr(function, "func", None), getattr(function, "returnType", None)
    if inner is None or returns is None:
        raise FunctionError(
            f"{function!r} is not a pandas UDF",
            hint="Decorate a plain function with @eddyline.udf(returns=…) instead.",
        )
    if getattr(function, "evalType", _SERIES_TO_SERIES) != _SERIES_TO_SERIES:
        raise FunctionError(
            f"{inner.__name__} does not turn series into a series of the same length",
            detail="Functions of single rows, of groups and of iterators are called otherwise.",
            hint="Decorate the plain function with @eddyline.udf(returns=…) instead.",
        )
    is_isolated, timeout_s, memory_bytes = _limits(isolated, timeout, memory, name or inner.__name__)
    declared = UserFunction(
        name=_checked_name(name or inner.__name__),
        returns=_type(returns.simpleString(), inner.__name__),
        function=inner,
        mode="pandas",
        takes=None,
        cost_s=None,
        is_deterministic=bool(getattr(function, "deterministic", True)),
        setup=None,
        cache_s=None,
        batch=None,
        version=_code_version(inner),
        is_isolated=is_isolated,
        timeout_s=timeout_s,
        memory_bytes=memory_bytes,
    )
    DECLARED[declared.name.lower()] = declared
    return declared


def _declare(
    function: Callable[..., Any],
    returns: str | pa.DataType | None,
    name: str | None,
    takes: Sequence[str | pa.DataType] | None,
    cost: float | None,
    deterministic: bool,
    setup: Callable[[], Any] | None,
    cache: str | float | None,
    batch: int | None,
    scalar: bool | None,
    version: str | None,
    limits: tuple[bool, float | None, int | None],
) -> UserFunction:
    label = _checked_name(name or function.__name__)
    if returns is None:
        raise FunctionError(
            f"function {label} does not say what it returns", hint='Write @eddyline.udf(returns="double").'
        )
    if cache is not None and not deterministic:
        raise FunctionError(
            f"function {label} is not deterministic, so its results cannot be cached",
            hint="Leave out cache=, or declare deterministic=True.",
        )
    if batch is not None and batch < 1:
        raise FunctionError(
            f"function {label} has batch={batch}", hint="batch is the number of rows per call, at least 1."
        )
    if scalar is None:
        scalar = _looks_scalar(function, skip=1 if setup else 0)
        is_bare = _is_bare(function)
    else:
        is_bare = False
    return UserFunction(
        name=label,
        returns=_type(returns, label),
        function=function,
        mode="scalar" if scalar else "arrow",
        takes=None if takes is None else tuple(_type(t, label) for t in takes),
        cost_s=cost,
        is_deterministic=deterministic,
        setup=setup,
        cache_s=_seconds(cache, "cache", "10 minutes", label),
        batch=batch,
        version=version or _code_version(function, setup),
        is_isolated=limits[0],
        timeout_s=limits[1],
        memory_bytes=limits[2],
        is_bare=is_bare,
    )


def _limits(
    isolated: bool | None, timeout: str | float | None, memory: str | int | None, name: str
) -> tuple[bool, float | None, int | None]:
    """Whether it is isolated, and its limits of seconds and bytes."""
    timeout_s = _seconds(timeout, "timeout", "2 seconds", name)
    memory_bytes = _bytes(memory, name)
    limit_names = [word for word, value in (("timeout", timeout), ("memory", memory)) if value is not None]
    if isolated is False and limit_names:
        raise FunctionError(
            f"function {name} has a limit of {limit_names[0]}, but isolated=False",
            detail="Only a function in a process of its own can be stopped.",
            hint=f"Leave out isolated=False, or {' and '.join(limit_names)}.",
        )
    for word, limit in (("timeout", timeout_s), ("memory", memory_bytes)):
        if limit is not None and limit <= 0:
            raise FunctionError(f"function {name}: {word} is {limit}", hint="Give a limit above 0.")
    if not isolated and not limit_names:
        return False, None, None
    return True, DEFAULT_TIMEOUT_S if timeout_s is None else timeout_s, memory_bytes


def _checked_name(name: str) -> str:
    if not _NAME.match(name):
        raise FunctionError(
            f"{name!r} cannot be the name of a function", hint="Give one with name=, letters and digits."
        )
    return name


def _type(t: str | pa.DataType, name: str) -> pa.DataType:
    if isinstance(t, pa.DataType):
        return t
    try:
        return parse_type(t)
    except ValueError as error:
        raise FunctionError(
            f"function {name}: {error}", hint='Name a SQL type, such as "double" or "string".'
        ) from None


def _seconds(value: str | float | None, word: str, example: str, name: str) -> float | None:
    if value is None or isinstance(value, (int, float)):
        return value
    hit = _DURATION.match(value)
    if hit is None:
        raise FunctionError(
            f"function {name}: {value!r} is not a duration", hint=f'Write {word}="{example}".'
        )
    return float(hit.group(1)) * _SECONDS[hit.group(2)]


def _bytes(value: str | int | None, name: str) -> int | None:
    if value is None or isinstance(value, int):
        return value
    hit = _SIZE.match(value)
    if hit is None:
        raise FunctionError(f"function {name}: {value!r} is not a size", hint='Write memory="500 MB".')
    return round(float(hit.group(1)) * _BYTES[hit.group(2).lower()])


def _looks_scalar(function: Callable[..., Any], skip: int) -> bool:
    """Whether every argument is annotated with a plain Python type."""
    try:
        parameters = list(inspect.signature(function, eval_str=True).parameters.values())[skip:]
    except (
        NameError,
        TypeError,
        ValueError,
    ):  # an annotation that cannot be resolved, or a builtin without a signature
        return False
    return bool(parameters) and all(p.annotation in _SCALARS for p in parameters)


def _is_bare(function: Callable[..., Any]) -> bool:
    """Whether no parameter says its type."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    return all(parameter.annotation is inspect.Parameter.empty for parameter in parameters)


def _code_version(function: Callable[..., Any], setup: Callable[[], Any] | None = None) -> str:
    """A hash of the code, its constants, defaults and the values it closes over, the same in every process. Another setup makes
    another function of it."""
    digest = hashlib.sha256()
    _hash_value(function, digest, set())
    if setup is not None:
        _hash_value(setup, digest, set())
    return digest.hexdigest()[:12]


def _hash_value(value: Any, digest: Any, hashed_code_ids: set[int]) -> None:
    code = value if inspect.iscode(value) else getattr(value, "__code__", None)
    if code is None:
        digest.update(_stable_repr(value).encode())
        return
    if id(code) in hashed_code_ids:  # a function that calls itself
        return
    hashed_code_ids.add(id(code))
    digest.update(code.co_code)
    digest.update(repr(code.co_names).encode())
    for constant in code.co_consts:
        _hash_value(constant, digest, hashed_code_ids)
    _hash_value(getattr(value, "__defaults__", None), digest, hashed_code_ids)
    for cell in getattr(value, "__closure__", None) or ():
        try:
            _hash_value(cell.cell_contents, digest, hashed_code_ids)
        except ValueError:  # empty: what it names is defined later
            digest.update(b"empty")


def _stable_repr(value: Any) -> str:
    """`repr` without what differs from process to process: the order of sets, and addresses."""
    if isinstance(value, (set, frozenset)):
        return f"{{{', '.join(sorted(map(_stable_repr, value)))}}}"
    if isinstance(value, (tuple, list)):
        return f"({', '.join(map(_stable_repr, value))})"
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))
