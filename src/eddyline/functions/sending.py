"""A function on its way to a process of its own: as bytes, or as the name of the module that declares it.

Bytes are made as for the workers of Spark, with cloudpickle: the copy that PySpark brings will do. They hold the function with
the values it uses, so they serve functions of a notebook or a script as well. Without them only a function whose module can be
imported there has a way to go.
"""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from typing import Any

from eddyline.errors import FunctionError
from eddyline.functions.declarations import UserFunction

PICKLERS = ("cloudpickle", "pyspark.cloudpickle")


@dataclass(frozen=True, slots=True)
class FunctionTransport:
    """How another process comes by a function."""

    pickled_function: bytes | None  # the function and its setup
    module: str = ""
    qualname: str = ""


def function_transport(function: UserFunction) -> FunctionTransport:
    """A way to send the function. Raises FunctionError if there is none."""
    pickler = _pickler()
    trouble = "There is no cloudpickle here, and no module it could be imported from."
    if pickler is not None:
        try:
            return FunctionTransport(pickler.dumps((function.function, function.setup)))
        except Exception as error:  # whatever it uses may refuse in its own way
            trouble = f"{type(error).__name__}: {error}"
    module, qualname = function.function.__module__, function.function.__qualname__
    if module != "__main__" and _at(module, qualname) is function:
        return FunctionTransport(None, module, qualname)
    raise FunctionError(
        f"function {function.name} cannot be sent to a process of its own",
        detail=trouble,
        hint="Declare it at the top of a module that can be imported, and let setup= make what it needs; or leave out isolated, "
        "timeout and memory." + ("" if pickler else " Installing cloudpickle helps too."),
    )


def _pickler() -> Any:
    for name in PICKLERS:
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    return None


def _at(module: str, qualname: str) -> Any:
    """The object under a name in a module, if there is one."""
    found: Any = sys.modules.get(module)
    for part in qualname.split("."):
        found = getattr(found, part, None)
    return found
