"""eddyline: thousands to a million standing SQL queries over shared live streams."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from eddyline.version import VERSION

if TYPE_CHECKING:
    from eddyline.api import Engine, Matches, Query, QuerySet
    from eddyline.api import open_engine as open
    from eddyline.client import RemoteEngine
    from eddyline.documents import Result
    from eddyline.errors import EddylineError
    from eddyline.functions import from_pandas_udf, udf

__version__ = VERSION

# The engine loads when one of its names is first used: `eddyline --help` and `eddyline.connect` need none of it.
_ROOMS = {
    "EddylineError": "eddyline.errors",
    "Engine": "eddyline.api",
    "Matches": "eddyline.api",
    "Query": "eddyline.api",
    "QuerySet": "eddyline.api",
    "Result": "eddyline.documents",
    "from_pandas_udf": "eddyline.functions",
    "open": "eddyline.api",
    "udf": "eddyline.functions",
}


def __getattr__(name: str) -> Any:
    if name not in _ROOMS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    room = importlib.import_module(_ROOMS[name])
    value = getattr(room, "open_engine" if name == "open" else name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


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
