"""What was observed while rounds ran: numbers for people, the dashboard and the choice of what to do next.

Enters: what a round took, stage by stage; sampled rows with the answers of expensive filters, and what those took. Leaves: the
last rounds' records; selectivities, costs, and how many rows to sample. Losing them loses no result.
"""

from eddyline.statistics.change_detection import Advice, ChangeDetector, Drift, Observed, places_of
from eddyline.statistics.decayed import DecayedCosts
from eddyline.statistics.profile_window import ProfiledRows, ProfileWindow
from eddyline.statistics.round_records import RoundRecord, RoundRecords, StageRecord
from eddyline.statistics.sampling import sampled

__all__ = [
    "Advice",
    "ChangeDetector",
    "DecayedCosts",
    "Drift",
    "Observed",
    "ProfileWindow",
    "ProfiledRows",
    "RoundRecord",
    "RoundRecords",
    "StageRecord",
    "places_of",
    "sampled",
]
