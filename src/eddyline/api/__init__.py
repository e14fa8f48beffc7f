"""The user's front door: what `eddyline.open` returns.

Enters: SQL and data as users have them. Leaves: handles to queries, matches and results. No algorithm lives here.
"""

from eddyline.api.alerts import Alert
from eddyline.api.engine import DeadLetterList, Engine, StreamHandle, open_engine
from eddyline.api.explain import Explanation
from eddyline.api.matches import Matches
from eddyline.api.query import Query, QueryPage, QuerySet

__all__ = [
    "Alert",
    "DeadLetterList",
    "Engine",
    "Explanation",
    "Matches",
    "Query",
    "QueryPage",
    "QuerySet",
    "StreamHandle",
    "open_engine",
]
