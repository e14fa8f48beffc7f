"""What users bring: registered Python functions.

Enters: a Python function with `@udf`. Leaves: `UserFunction` for the binder, and `Functions.call`, which runs one over
Arrow columns and says for each row it failed on why. Functions belong to the process; they are never sent with SQL.
"""

from eddyline.functions.registry import FunctionCounters, Functions, load_modules
from eddyline.functions.udf import UserFunction, from_pandas_udf, udf

__all__ = ["FunctionCounters", "Functions", "UserFunction", "from_pandas_udf", "load_modules", "udf"]
