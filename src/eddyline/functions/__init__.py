"""What users bring: registered Python functions.

Enters: a Python function with `@udf`. Leaves: `UserFunction` for the binder, and `Functions.call`, which runs one over
Arrow columns and says for each row it failed on why. Functions belong to the process; they are never sent with SQL.

An isolated function runs in a process of its own, one that only fails is not called any more: `Breaker` says when.
"""

from eddyline.functions.breaker import Breaker, FunctionKey
from eddyline.functions.counters import FunctionActivity, FunctionCounters
from eddyline.functions.declarations import DECLARED, UserFunction, from_pandas_udf, udf
from eddyline.functions.registry import FunctionRegistry, load_modules, stopped_text

__all__ = [
    "DECLARED",
    "Breaker",
    "FunctionActivity",
    "FunctionCounters",
    "FunctionKey",
    "FunctionRegistry",
    "UserFunction",
    "from_pandas_udf",
    "load_modules",
    "stopped_text",
    "udf",
]
