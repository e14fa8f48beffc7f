"""Running users' functions: set up once, called in the sizes they asked for, every failure tied to its rows.

A call on arrays that raises, or gives back the wrong length or type, is taken apart by halving until the rows at fault stand
alone (halving.py), so one bad row never stops another and the answer does not depend on how rows were batched. A function of
plain values is called once for every row, whatever it does. An isolated one runs in a process of its own (isolation.py).

A function that does nothing but fail is not called any more (breaker.py) until the engine has asked what was
observed, and suspended the queries that need it.
"""

from __future__ import annotations

import importlib
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.errors import FunctionError
from eddyline.functions import breaker, calls
from eddyline.functions.breaker import FunctionKey
from eddyline.functions.cache import MISSING, ResultCache
from eddyline.functions.calls import WrongResult
from eddyline.functions.counters import FunctionActivity, FunctionCounters
from eddyline.functions.declarations import DECLARED, UserFunction
from eddyline.functions.halving import ANY_NUMBER, CallFailed, FunctionCaller, HalvingCall, SetupFailed
from eddyline.functions.isolation import IsolatedFunction
from eddyline.functions.sending import function_transport
from eddyline.model import UserCall
from eddyline.types import canonical, type_name

IDLE_S = 600.0  # after which the process of an unused function is ended when another is started


class FunctionRegistry:
    """The functions of this process, as one engine uses them.

    A query keeps the version of a function it was registered with, also after the function was declared anew.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._versions: dict[FunctionKey, UserFunction] = {}
        self._sendable: set[FunctionKey] = set()
        self._here: dict[FunctionKey, _Here] = {}
        self._isolated_functions: dict[FunctionKey, IsolatedFunction] = {}
        self._caches: dict[FunctionKey, ResultCache] = {}
        self._lock = threading.Lock()  # what is counted, and which callers there are
        self._activity: dict[FunctionKey, FunctionActivity] = {}
        self.counters: dict[str, FunctionCounters] = {}

    def get(self, name: str) -> UserFunction | None:
        """The function as declared now, or None. Raises FunctionError if it is to be isolated and cannot be."""
        declared = self._declaration(name)
        if declared is not None and declared.is_isolated and declared.key not in self._sendable:
            function_transport(declared)
            self._sendable.add(declared.key)
        return declared

    def _declaration(self, name: str) -> UserFunction | None:
        declared = DECLARED.get(name.lower())
        if declared is not None:
            self._versions[declared.key] = declared
        return declared

    def find(self, name: str, version: str) -> UserFunction | None:
        """The function in the version a query was registered with, or None if this process does not have it."""
        found = self._versions.get((name, version))
        if found is None:
            now = self._declaration(name)
            found = now if now is not None and now.version == version else None
        return found

    def adopt(self, functions: Iterable[UserFunction]) -> None:
        """Functions that another process has declared."""
        for function in functions:
            self._versions[function.key] = function

    def names(self) -> list[str]:
        return sorted(f.name for f in DECLARED.values())

    def call(
        self, call: UserCall, columns: Sequence[pa.Array], n_rows: int
    ) -> tuple[pa.Array, list[tuple[int, str]]]:
        """Values for all rows (NULL where it failed), and (row, message) of every failure."""
        declared = self.find(call.function, call.version)
        if declared is None:
            return pa.nulls(n_rows, call.type), [(row, self._missing_text(call)) for row in range(n_rows)]
        known = self._activity.get(declared.key)
        if known is not None and known.streaks.opening_reason:
            why = stopped_text(declared.name, known.streaks.opening_reason)
            return pa.nulls(n_rows, call.type), [(row, why) for row in range(n_rows)]
        observed = FunctionActivity()
        try:
            if declared.cache_s is None:
                return self._ask(declared, observed, columns, n_rows)
            return self._ask_through_cache(declared, observed, columns, n_rows)
        finally:
            with self._lock:
                self._add(declared.key, observed)
                so_far = self._activity.setdefault(declared.key, FunctionActivity())
                so_far.counters.add(observed.counters)
                so_far.streaks = so_far.streaks.then(observed.streaks)

    def drain(self) -> dict[FunctionKey, FunctionActivity]:
        """What functions did here since the last time this was asked. One that was not called any more is called again."""
        with self._lock:
            observed, self._activity = self._activity, {}
        return observed

    def add(self, elsewhere: Mapping[FunctionKey, FunctionActivity]) -> None:
        """Count what functions did in another process."""
        with self._lock:
            for key, observed in elsewhere.items():
                self._add(key, observed)

    def _add(self, key: FunctionKey, activity: FunctionActivity) -> None:
        self.counters.setdefault(key[0], FunctionCounters()).add(activity.counters)

    def rest(self, key: FunctionKey) -> None:
        """No query calls this function for now: its process may end."""
        with self._lock:
            isolated = self._isolated_functions.pop(key, None)
        if isolated is not None:
            isolated.close()

    def close(self) -> None:
        """End the processes of functions."""
        with self._lock:
            every, self._isolated_functions = list(self._isolated_functions.values()), {}
        for isolated in every:
            isolated.close()

    def _missing_text(self, call: UserCall) -> str:
        now = DECLARED.get(call.function.lower())
        if now is None:
            return f"function {call.function} is not declared in this process: import the module that declares it"
        return (
            f"function {call.function} has changed: the query was registered with version {call.version}, this process has "
            f"{now.version}; register the query again to use it"
        )

    def _ask(
        self, function: UserFunction, activity: FunctionActivity, columns: Sequence[pa.Array], n_rows: int
    ) -> tuple[pa.Array, list[tuple[int, str]]]:
        halving = HalvingCall(
            self._caller(function),
            columns,
            n_rows,
            function.returns,
            activity.counters,
            self._clock,
            is_by_row=function.mode == "scalar",
        )
        try:
            return halving.answer(function.batch)
        finally:
            activity.streaks = activity.streaks.then(halving.streaks)

    def _caller(self, function: UserFunction) -> FunctionCaller:
        key, idle = function.key, list[IsolatedFunction]()
        with self._lock:
            if not function.is_isolated:
                here = self._here.get(key)
                if here is None:
                    here = self._here[key] = _Here(function)
                here.function = function  # a worker is sent it anew with every version of its plan
                return here
            isolated = self._isolated_functions.get(key)
            if isolated is None or isolated.limits != function.limits:
                idle = [] if isolated is None else [isolated]
                idle += self._idle_processes()
                isolated = self._isolated_functions[key] = IsolatedFunction(function, fitted_values)
        for each in idle:
            each.close()
        return isolated

    def _idle_processes(self) -> list[IsolatedFunction]:
        """Of functions that were not called for long: earlier versions, above all."""
        before = time.monotonic() - IDLE_S
        idle = [key for key, each in self._isolated_functions.items() if each.used_at < before]
        return [self._isolated_functions.pop(key) for key in idle]

    def _ask_through_cache(
        self, function: UserFunction, activity: FunctionActivity, columns: Sequence[pa.Array], n_rows: int
    ) -> tuple[pa.Array, list[tuple[int, str]]]:
        assert function.cache_s is not None
        cache = self._caches.setdefault(function.key, ResultCache(function.cache_s))
        now = self._clock()
        keys = (
            list(zip(*(_hashable(c.to_pylist()) for c in columns), strict=True)) if columns else [()] * n_rows
        )
        known: dict[Any, Any] = {}
        missing: dict[Any, int] = {}
        for row, key in enumerate(keys):
            if key in missing:
                continue
            value = known[key] if key in known else cache.get(key, now)
            if value is MISSING:
                missing[key] = row
            else:
                known[key] = value
                activity.counters.n_cached += 1
        if known:
            activity.streaks = activity.streaks.then(breaker.failure_streaks(len(known), 0))
        rows = np.fromiter(missing.values(), np.int64, len(missing))
        values, failed = self._ask(function, activity, [c.take(pa.array(rows)) for c in columns], len(rows))
        messages = {keys[rows[position]]: message for position, message in failed}
        for key, value in zip(missing, values.to_pylist(), strict=True):
            known[key] = value
            if key not in messages:
                cache.put(key, value, now)
        return pa.array([known[key] for key in keys], function.returns), [
            (row, messages[key]) for row, key in enumerate(keys) if key in messages
        ]


class _Here:
    """A function called in this process."""

    def __init__(self, function: UserFunction) -> None:
        self.most_rows = ANY_NUMBER
        self.function = function
        self._first: tuple[Any, ...] | None = () if function.setup is None else None
        self._lock = threading.RLock()  # setup runs once, for the first caller

    def prepare(self) -> None:
        """Run `setup` if it has not run in this process yet; one that failed is tried again next time."""
        if self._first is not None:
            return
        with self._lock:
            if self._first is None:
                assert self.function.setup is not None
                try:
                    self._first = (self.function.setup(),)
                except KeyboardInterrupt:
                    raise
                except (
                    BaseException
                ) as error:  # whatever a user's setup raises belongs to the rows that needed it
                    raise SetupFailed(f"setup of {calls.message_of(self.function.name, error)}") from None

    def call(self, columns: Sequence[pa.Array], n_rows: int) -> tuple[pa.Array, dict[int, str]]:
        declared, first = self.function, self._first
        assert first is not None, f"{declared.name} was not set up"
        returns, name = type_name(declared.returns), declared.name
        if declared.mode == "scalar":
            results, wrong = calls.call_with_rows(declared.function, first, name, columns, n_rows)
            return calls.rows_as_array(results, wrong, declared.returns, returns, name), wrong
        is_pandas = declared.mode == "pandas"
        try:
            result = calls.call_with_arrays(declared.function, first, declared.mode, columns)
            values = calls.as_array(result, declared.returns, returns, n_rows, is_pandas=is_pandas)
            return fitted_values(values, declared, n_rows), {}
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # whatever a user's function raises belongs to its rows
            raise CallFailed(calls.message_of(name, error) + self.function.hint(error)) from None


def stopped_text(name: str, why: str) -> str:
    """What is said of a function whose breaker is open."""
    return f"function {name} is not called any more: {why}"


def _hashable(values: list[Any]) -> list[Any]:
    return [repr(v) if isinstance(v, (list, dict, float)) else v for v in values]


def fitted_values(values: pa.Array, function: UserFunction, n_rows: int) -> pa.Array:
    """The values in the declared type. Raises WrongResult if they cannot be, or are too many or too few."""
    if len(values) != n_rows:
        raise WrongResult(f"returned {len(values)} values for {n_rows} row{'s' if n_rows != 1 else ''}")
    if values.type == function.returns:
        return values
    known = canonical(values.type)
    try:
        if known is not None:
            return values.cast(known).cast(function.returns)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        known = None
    raise WrongResult(f"returned {type_name(values.type)}, declared {type_name(function.returns)}")


def load_modules(names: Iterable[str]) -> list[str]:
    """Import the modules that declare functions, so that the command line and workers find them; returns new names."""
    before = set(DECLARED)
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise FunctionError(
                f"module {name} with functions cannot be imported",
                detail=str(error),
                hint="Install it, or start in the folder that holds it.",
            ) from error
    return sorted(set(DECLARED) - before)
