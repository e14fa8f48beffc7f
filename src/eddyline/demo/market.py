"""The trades of the demo. Trade n follows from the seed and n alone, so that it can be made again for a check."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.pipeline import GeneratorSource, read_pipeline

Mask = npt.NDArray[np.bool_]

STREAM = "trades"
LOWEST_PRICE, HIGHEST_PRICE = 1.0, 500.0
LARGEST_QTY = 10_000
PIPELINE = f"""
[streams.{STREAM}]
schema = "sym STRING, venue STRING, price DOUBLE, qty INT, ts TIMESTAMP"
time = "ts"

[streams.{STREAM}.source]
type = "generator"

[streams.{STREAM}.source.columns]
sym = {{ choice = [
  "ACME", "BYTE", "CORE", "DATA", "EDGE", "FLUX", "GRID", "HASH", "ALPN", "BRIG", "CITA", "DOVE", "ELMS", "FORT", "GILT", "HALO",
  "AMBR", "BARL", "COAL", "DRIL", "ETHR", "FRAC", "GUSH", "HYDR", "APPL", "BEAN", "CORN", "DILL", "EGGS", "FIGS", "GRPE", "HERB",
] }}
venue = {{ choice = ["north", "south", "dark-1", "dark-2", "retail"], weights = [8, 6, 2, 1, 3] }}
price = {{ uniform = [{LOWEST_PRICE}, {HIGHEST_PRICE}], decimals = 2 }}
qty = {{ uniform = [1, {LARGEST_QTY}] }}
ts = {{ time = "2026-01-05 09:30:00", step = "1 ms" }}
"""


class Market:
    """A stream of trades, as a source for the engine and as rows made here."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        (self._settings,) = read_pipeline(PIPELINE, Path("demo.toml")).streams
        self.stream = self._settings.stream

    def source(self, rows: int) -> dict[str, Any]:
        """The words of a source of `rows` trades in all; it goes on where the last committed round ended."""
        words: dict[str, Any] = tomllib.loads(PIPELINE)["streams"][STREAM]["source"]
        return words | {"seed": self.seed, "rows": rows}

    def trades(self, first: int, n: int) -> pa.RecordBatch:
        """Trades `first` to `first + n - 1`, in one piece and without any of the engine."""
        source = self._settings.source
        assert isinstance(source, GeneratorSource), source
        by_name = {column.column: column for column in source.columns}
        arrays = [by_name[f.name].make(self.seed, first, n, 0) for f in self.stream.schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self.stream.schema)


class Trades:
    """Columns of trades as NumPy arrays, for those who judge the engine."""

    def __init__(self, rows: pa.RecordBatch) -> None:
        self.price: npt.NDArray[np.float64] = rows.column("price").to_numpy()
        self.qty: npt.NDArray[np.int32] = rows.column("qty").to_numpy()
        self._sym = rows.column("sym").dictionary_encode()
        self._venue = rows.column("venue").dictionary_encode()

    def __len__(self) -> int:
        return len(self.price)

    @cached_property
    def by_price(self) -> npt.NDArray[np.int64]:
        """Row numbers, cheapest first."""
        return np.argsort(self.price)

    @cached_property
    def sorted_price(self) -> npt.NDArray[np.float64]:
        return self.price[self.by_price]

    def sym_is(self, holds: Callable[[str], object]) -> Mask:
        """Mask of the trades whose symbol the condition holds for."""
        return _where(self._sym, holds)

    def venue_is(self, holds: Callable[[str], object]) -> Mask:
        return _where(self._venue, holds)


def _where(column: pa.DictionaryArray, holds: Callable[[str], object]) -> Mask:
    by_code = np.array([bool(holds(text)) for text in column.dictionary.to_pylist()], dtype=bool)
    return by_code[column.indices.to_numpy()]


def looks_like(pattern: str) -> Callable[[str], object]:
    """Whether a regular expression is found in a text."""
    return re.compile(pattern).search
