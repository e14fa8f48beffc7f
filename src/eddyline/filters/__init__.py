"""Who still wants it: which queries each row satisfies.

Enters: a `TupleBatch` and the plan of its stream. Leaves: `FilterOutput`, the (row, query) pairs that match, as lists or bitmaps
of query ids, and the pairs that could not be decided. Nothing is projected or copied per query.
"""

from eddyline.filters.matching import DeadPairs, FilterOutput
from eddyline.filters.stage import FilterStage
from eddyline.filters.trial import Trial, TrialError, TrialInput, trial
from eddyline.filters.why import ClauseVerdict, Why, WhyNot, why, why_not

__all__ = [
    "ClauseVerdict",
    "DeadPairs",
    "FilterOutput",
    "FilterStage",
    "Trial",
    "TrialError",
    "TrialInput",
    "Why",
    "WhyNot",
    "trial",
    "why",
    "why_not",
]
