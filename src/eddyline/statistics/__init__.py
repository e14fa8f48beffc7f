"""What was observed while rounds ran: numbers for people, the dashboard and the choice of what to do next.

Enters: what a round took, stage by stage; sampled rows with the answers of expensive filters, and what those took. Leaves: the
last rounds' records; selectivities, costs, and how many rows to sample. Losing them loses no result.
"""

from eddyline.statistics.change_detection import Advice, BatchObservation, ChangeDetector, Drift, places_of
from eddyline.statistics.measured_costs import LEAST_COST_S, MeasuredCosts
from eddyline.statistics.own_time import own_time_s
from eddyline.statistics.profile_window import ProfiledRows, ProfileWindow
from eddyline.statistics.round_records import RoundRecord, RoundRecords, StageRecord
from eddyline.statistics.sampling import sampled_mask, uniform_of

__all__ = [
    "LEAST_COST_S",
    "Advice",
    "BatchObservation",
    "ChangeDetector",
    "Drift",
    "MeasuredCosts",
    "ProfileWindow",
    "ProfiledRows",
    "RoundRecord",
    "RoundRecords",
    "StageRecord",
    "own_time_s",
    "places_of",
    "sampled_mask",
    "uniform_of",
]
