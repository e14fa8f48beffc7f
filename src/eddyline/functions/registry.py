"""Running users' functions: set up once, called in the sizes they asked for, every failure tied to its rows.

A call on arrays that raises, or gives back the wrong length or type, is taken apart by halving until the rows at fault stand
alone, so one bad row never stops another and the answer does not depend on how rows were batched. A function of plain values is
called once for every row, whatever it does.
"""

from __future__ import annotations

import importlib
import time
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.errors import FunctionError
from eddyline.functions.udf import DECLARED, UserFunction
from eddyline.model import UserCall
from eddyline.types import type_name

CACHE_ENTRIES = 100_000  # per function; the least recently used leave first
MESSAGE_LENGTH = 300


@dataclass(slots=True)
class FunctionCounters:
    """What a function did so far in this process."""

    n_calls: int = 0
    n_rows: int = 0
    n_failed: int = 0
    n_cached: int = 0
    seconds: float = 0.0


class _WrongResult(Exception):
    """The function came back with something unusable."""


class Functions:
    """The functions of this process, as one engine uses them.

    A query keeps the version of a function it was registered with, also after the function was declared anew.
    """

    def __init__(self, clock: Any = time.monotonic) -> None:
        self._clock = clock
        self._versions: dict[tuple[str, str], UserFunction] = {}
        self._ready: dict[tuple[str, str], Any] = {}
        self._caches: dict[tuple[str, str], OrderedDict[Any, tuple[float, Any]]] = {}
        self.counters: dict[str, FunctionCounters] = {}

    def get(self, name: str) -> UserFunction | None:
        """The function as declared now, or None."""
        declared = DECLARED.get(name.lower())
        if declared is not None:
            self._versions[declared.name, declared.version] = declared
        return declared

    def find(self, name: str, version: str) -> UserFunction | None:
        """The function in the version a query was registered with, or None if this process does not have it."""
        found = self._versions.get((name, version))
        if found is None:
            now = self.get(name)
            found = now if now is not None and now.version == version else None
        return found

    def adopt(self, functions: Iterable[UserFunction]) -> None:
        """Functions that another process has declared."""
        for function in functions:
            self._versions[function.name, function.version] = function

    def names(self) -> list[str]:
        return sorted(f.name for f in DECLARED.values())

    def call(
        self, call: UserCall, columns: Sequence[pa.Array], n_rows: int
    ) -> tuple[pa.Array, list[tuple[int, str]]]:
        """Values for all rows (NULL where it failed), and (row, message) of every failure."""
        declared = self.find(call.function, call.version)
        if declared is None:
            return pa.nulls(n_rows, call.type), [(row, self._missing(call)) for row in range(n_rows)]
        counters = self.counters.setdefault(declared.name, FunctionCounters())
        if declared.cache_s is None:
            return self._call_in_batches(declared, counters, columns, n_rows)
        return self._call_through_cache(declared, counters, columns, n_rows)

    def _missing(self, call: UserCall) -> str:
        now = DECLARED.get(call.function.lower())
        if now is None:
            return f"function {call.function} is not declared in this process: import the module that declares it"
        return (
            f"function {call.function} has changed: the query was registered with version {call.version}, this process has "
            f"{now.version}; register the query again to use it"
        )

    def _call_in_batches(
        self, declared: UserFunction, counters: FunctionCounters, columns: Sequence[pa.Array], n_rows: int
    ) -> tuple[pa.Array, list[tuple[int, str]]]:
        if n_rows and (broken := self._setup_problem(declared)):
            counters.n_failed += n_rows
            return pa.nulls(n_rows, declared.returns), [(row, broken) for row in range(n_rows)]
        size = declared.batch or max(n_rows, 1)
        parts: list[pa.Array] = []
        failed: list[tuple[int, str]] = []
        for start in range(0, n_rows, size):
            stop = min(start + size, n_rows)
            call = self._call_each if declared.mode == "scalar" else self._call_rows
            call(declared, counters, columns, start, stop, parts, failed)
        values = pa.concat_arrays(parts) if parts else pa.array([], declared.returns)
        return values, failed

    def _call_rows(
        self,
        declared: UserFunction,
        counters: FunctionCounters,
        columns: Sequence[pa.Array],
        start: int,
        stop: int,
        parts: list[pa.Array],
        failed: list[tuple[int, str]],
    ) -> None:
        """Rows start to stop in one call, or in halves if that fails."""
        arguments = [column.slice(start, stop - start) for column in columns]
        began = self._clock()
        try:
            parts.append(_checked(self._run(declared, arguments), declared, stop - start))
        except Exception as error:  # whatever a user's function raises belongs to its rows
            if stop - start > 1:
                middle = (start + stop) // 2
                self._call_rows(declared, counters, columns, start, middle, parts, failed)
                self._call_rows(declared, counters, columns, middle, stop, parts, failed)
                return
            counters.n_failed += 1
            failed.append((start, _message(declared, error)))
            parts.append(pa.nulls(1, declared.returns))
        finally:
            counters.n_calls += 1
            counters.n_rows += stop - start
            counters.seconds += self._clock() - began

    def _call_each(
        self,
        declared: UserFunction,
        counters: FunctionCounters,
        columns: Sequence[pa.Array],
        start: int,
        stop: int,
        parts: list[pa.Array],
        failed: list[tuple[int, str]],
    ) -> None:
        """Rows start to stop one by one."""
        arguments = [column.slice(start, stop - start).to_pylist() for column in columns]
        began = self._clock()
        results: list[Any] = []
        wrong: dict[int, str] = {}
        for at, row in enumerate(zip(*arguments, strict=True) if arguments else [()] * (stop - start)):
            try:
                results.append(declared.function(*self._first(declared), *row))
            except Exception as error:  # whatever a user's function raises belongs to its row
                results.append(None)
                wrong[at] = _message(declared, error)
        counters.n_calls += stop - start
        counters.n_rows += stop - start
        counters.seconds += self._clock() - began
        try:
            parts.append(_checked(results, declared, len(results)))
        except _WrongResult:
            for at, result in enumerate(results):
                try:
                    parts.append(_checked([result], declared, 1))
                except _WrongResult as error:
                    parts.append(pa.nulls(1, declared.returns))
                    wrong[at] = _message(declared, error)
        counters.n_failed += len(wrong)
        failed += [(start + at, wrong[at]) for at in sorted(wrong)]

    def _run(self, declared: UserFunction, arguments: list[pa.Array]) -> Any:
        if declared.mode == "pandas":
            return declared.function(*self._first(declared), *(a.to_pandas() for a in arguments))
        return declared.function(*self._first(declared), *arguments)

    def _first(self, declared: UserFunction) -> tuple[Any, ...]:
        """What setup made, as the first argument."""
        return () if declared.setup is None else (self._ready[declared.name, declared.version],)

    def _setup_problem(self, declared: UserFunction) -> str | None:
        """Run `setup` if it has not run in this process yet; what is wrong if it failed (it is tried again next time)."""
        key = declared.name, declared.version
        if declared.setup is None or key in self._ready:
            return None
        try:
            self._ready[key] = declared.setup()
        except Exception as error:  # whatever a user's setup raises belongs to the rows that needed it
            return f"setup of {_message(declared, error)}"
        return None

    def _call_through_cache(
        self, declared: UserFunction, counters: FunctionCounters, columns: Sequence[pa.Array], n_rows: int
    ) -> tuple[pa.Array, list[tuple[int, str]]]:
        assert declared.cache_s is not None
        cache = self._caches.setdefault((declared.name, declared.version), OrderedDict())
        now = self._clock()
        keys = (
            list(zip(*(_hashable(c.to_pylist()) for c in columns), strict=True)) if columns else [()] * n_rows
        )
        missing: dict[Any, int] = {}
        for row, key in enumerate(keys):
            known = cache.get(key)
            if known is None or now - known[0] > declared.cache_s:
                missing.setdefault(key, row)
            else:
                cache.move_to_end(key)
                counters.n_cached += 1
        rows = np.fromiter(missing.values(), np.int64, len(missing))
        values, failed = self._call_in_batches(
            declared, counters, [c.take(pa.array(rows)) for c in columns], len(rows)
        )
        fresh = dict(zip(missing, values, strict=True))
        messages = {keys[rows[position]]: message for position, message in failed}
        for key, value in fresh.items():
            if key not in messages:
                cache[key] = now, value
        out = [
            None if key in messages else (fresh[key] if key in fresh else cache[key][1]).as_py()
            for key in keys
        ]
        while len(cache) > CACHE_ENTRIES:
            cache.popitem(last=False)
        return pa.array(out, declared.returns), [
            (row, messages[key]) for row, key in enumerate(keys) if key in messages
        ]


def _hashable(values: list[Any]) -> list[Any]:
    return [repr(v) if isinstance(v, (list, dict, float)) else v for v in values]


def _checked(result: Any, declared: UserFunction, n_rows: int) -> pa.Array:
    """The result as an array of the declared type and the right length."""
    if isinstance(result, pa.ChunkedArray):
        result = result.combine_chunks()
    if not isinstance(result, pa.Array):
        if not hasattr(result, "__len__") or isinstance(result, (str, bytes)):
            raise _WrongResult(f"returned {type(result).__name__}, expected an array of {n_rows} values")
        try:
            result = pa.array(result, declared.returns, from_pandas=declared.mode == "pandas" or None)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError) as error:
            raise _WrongResult(
                f"returned values that are not {type_name(declared.returns)}: {error}"
            ) from None
    if len(result) != n_rows:
        raise _WrongResult(f"returned {len(result)} values for {n_rows} row{'s' if n_rows != 1 else ''}")
    if result.type != declared.returns:
        try:
            result = result.cast(declared.returns)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            raise _WrongResult(
                f"returned {type_name(result.type)}, declared {type_name(declared.returns)}"
            ) from None
    return result


def _message(declared: UserFunction, error: Exception) -> str:
    if isinstance(error, _WrongResult):
        return f"function {declared.name} {error}"
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return f"function {declared.name} raised {text[:MESSAGE_LENGTH]}"


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
