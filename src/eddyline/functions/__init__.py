"""What users bring: registered Python functions.

Enters: a Python function with `@udf`. Leaves: `UserFunction` for the binder, and `Functions.call`, which runs one over
Arrow columns and says for each row it failed on why. Functions belong to the process; they are never sent with SQL.

An isolated function runs in a process of its own, one that only fails is not called any more: `Breaker` says when.
"""

from eddyline.functions.breaker import Breaker, FunctionKey
from eddyline.functions.counters import FunctionCounters, Observed
from eddyline.functions.registry import Functions, load_modules, stopped_text
from eddyline.functions.udf import UserFunction, from_pandas_udf, udf

__all__ = [
    "Breaker",
    "FunctionCounters",
    "FunctionKey",
    "Functions",
    "Observed",
    "UserFunction",
    "from_pandas_udf",
    "load_modules",
    "stopped_text",
    "udf",
]
