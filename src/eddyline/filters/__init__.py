"""Who still wants it: which queries each row satisfies.

Enters: a `TupleBatch` and the plan of its stream. Leaves: `FilterOutput`, the (row, query) pairs that match, as lists or bitmaps
of query ids, and the pairs that could not be decided. Nothing is projected or copied per query.
"""

from eddyline.documents import ClauseVerdict, Trial, TrialError, TrialInput, Why, WhyNot
from eddyline.filters.batch_evaluation import with_constants
from eddyline.filters.filter_pool import FilterPool, conditions_from, filter_key, is_dear, is_dear_by_calls
from eddyline.filters.index_part import IndexPart
from eddyline.filters.matching import DeadPairs, FilterOutput, merged_hits
from eddyline.filters.saved_index import read_parts, write_base, write_overlay
from eddyline.filters.selections import SelectedRows, selected_rows
from eddyline.filters.stage import FilterStage, StageCounters
from eddyline.filters.trials import trial
from eddyline.filters.verdicts import evaluated_expression, nearest_misses, truth, why, why_not

__all__ = [
    "ClauseVerdict",
    "DeadPairs",
    "FilterOutput",
    "FilterPool",
    "FilterStage",
    "IndexPart",
    "SelectedRows",
    "StageCounters",
    "Trial",
    "TrialError",
    "TrialInput",
    "Why",
    "WhyNot",
    "conditions_from",
    "evaluated_expression",
    "filter_key",
    "is_dear",
    "is_dear_by_calls",
    "merged_hits",
    "nearest_misses",
    "read_parts",
    "selected_rows",
    "trial",
    "truth",
    "why",
    "why_not",
    "with_constants",
    "write_base",
    "write_overlay",
]
