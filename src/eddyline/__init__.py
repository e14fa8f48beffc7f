"""eddyline: thousands to a million standing SQL queries over shared live streams."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eddyline.api import Engine, Matches, Query, QuerySet
from eddyline.api import open_engine as open
from eddyline.delivery import Result
from eddyline.errors import EddylineError
from eddyline.functions import from_pandas_udf, udf

if TYPE_CHECKING:
    from eddyline.client import RemoteEngine

__version__ = "0.1.0"


def connect(url: str, token: str | None = None, **options: Any) -> RemoteEngine:
    """An engine that `eddyline serve` serves, at a URL such as http://127.0.0.1:8321 (docs/client.md)."""
    try:
        from eddyline.client import connect as connect_to
    except ModuleNotFoundError as error:
        if error.name != "httpx":
            raise
        from eddyline.errors import PropertyError

        raise PropertyError(
            "the client needs httpx, which is not installed", hint="Run: pip install 'eddyline[client]'"
        ) from None
    return connect_to(url, token, **options)


__all__ = [
    "EddylineError",
    "Engine",
    "Matches",
    "Query",
    "QuerySet",
    "Result",
    "__version__",
    "connect",
    "from_pandas_udf",
    "open",
    "udf",
]
