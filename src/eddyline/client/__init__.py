"""The Python client of the server: the words of `eddyline.open`, for an engine somewhere else.

Enters: a URL and a token. Leaves: handles to queries, results, and the same errors. Values come as JSON has them: times and
decimals as text.
"""

from eddyline.client.engine import Pushed, RemoteEngine, RemoteStream, connect
from eddyline.client.query import ReceivedResult, RemoteQuery, RemoteQueryPage

__all__ = [
    "Pushed",
    "ReceivedResult",
    "RemoteEngine",
    "RemoteQuery",
    "RemoteQueryPage",
    "RemoteStream",
    "connect",
]
