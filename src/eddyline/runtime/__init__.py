"""The loop that runs sources, rounds and sinks, and what reads the rounds it leaves: subscribers, kept results, tail.

Enters: a pipeline and the rounds of an open engine. Leaves: committed rounds, delivered results, how far each end is.
"""

from eddyline.runtime.deliveries import SinkStatus
from eddyline.runtime.endpoints import home_id
from eddyline.runtime.kept_results import (
    END,
    Ids,
    KeptResults,
    Owners,
    Place,
    place_of,
    read_place,
    results_of,
    written,
)
from eddyline.runtime.progress import RunProgress, RunSummary
from eddyline.runtime.rate import RateMeter
from eddyline.runtime.runner import Runner
from eddyline.runtime.source_statuses import SourceStatus, WatchedPipeline
from eddyline.runtime.static_tables import StaticTables
from eddyline.runtime.subscribers import Subscribers, Subscription, WhenFull, call_each
from eddyline.runtime.tailing import tail

__all__ = [
    "END",
    "Ids",
    "KeptResults",
    "Owners",
    "Place",
    "RateMeter",
    "RunProgress",
    "RunSummary",
    "Runner",
    "SinkStatus",
    "SourceStatus",
    "StaticTables",
    "Subscribers",
    "Subscription",
    "WatchedPipeline",
    "WhenFull",
    "call_each",
    "home_id",
    "place_of",
    "read_place",
    "results_of",
    "tail",
    "written",
]
