"""Names that moved to another room stay importable where they were, with a warning, for one release."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from typing import Any


def moved_to(room: str, old: str) -> Callable[[str], Any]:
    """The `__getattr__` of a module `old` whose names are in `room` now."""

    def find(name: str) -> Any:
        found = importlib.import_module(room)
        if name.startswith("_") or not hasattr(found, name):
            raise AttributeError(f"module {old!r} has no attribute {name!r}")
        warnings.warn(
            f"{old}.{name} moved to {room}.{name}; the old place goes with the next release",
            DeprecationWarning,
            stacklevel=2,
        )
        return getattr(found, name)

    return find
