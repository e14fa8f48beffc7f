"""eddyline: thousands to a million standing SQL queries over shared live streams."""

from eddyline.api import Engine, Matches, Query, QuerySet
from eddyline.api import open_engine as open
from eddyline.delivery import Result
from eddyline.errors import EddylineError
from eddyline.functions import from_pandas_udf, udf

__version__ = "0.1.0"

__all__ = [
    "EddylineError",
    "Engine",
    "Matches",
    "Query",
    "QuerySet",
    "Result",
    "__version__",
    "from_pandas_udf",
    "open",
    "udf",
]
