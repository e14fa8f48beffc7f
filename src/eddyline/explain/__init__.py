"""Facts about queries and about the engine: explanations, why and why not, trials, counters.

Enters: an engine's rounds, under their lock. Leaves: documents with a text form.
"""

from eddyline.documents import (
    AggregatesExplanation,
    Explanation,
    FiltersExplanation,
    IndexExplanation,
    InputWhyNot,
    JoinsExplanation,
    JoinWhy,
    JoinWhyNot,
    Partition,
    event_words,
    rounded,
    suspended_text,
    trial_document,
)
from eddyline.explain.aggregate_state import AggregateCounters, aggregate_facts, class_sizes, epoch_warnings
from eddyline.explain.counting import Counters, Histogram, Seconds, Tally, busiest, counters
from eddyline.explain.current_groups import MOST_GROUPS, current_groups
from eddyline.explain.explanations import condition_texts, explain, explain_index, suspended
from eddyline.explain.filter_state import filter_facts, has_filters
from eddyline.explain.group_why import (
    SHOWN_ROWS,
    entry_verdict,
    kept_groups,
    members,
    why_grouped,
    why_not_grouped,
)
from eddyline.explain.grouped_query import GroupedQuery, LiveGroups, grouped_query, live_groups
from eddyline.explain.join_state import held_sizes, join_facts
from eddyline.explain.partitions import partitions_of
from eddyline.explain.row_why import why_not_rows, why_row
from eddyline.explain.size_history import SizeHistory
from eddyline.explain.subquery_words import in_words
from eddyline.explain.trials import TRIAL_ROWS, TRIAL_S, try_record
from eddyline.explain.union_parts import branch_record

__all__ = [
    "MOST_GROUPS",
    "SHOWN_ROWS",
    "TRIAL_ROWS",
    "TRIAL_S",
    "AggregateCounters",
    "AggregatesExplanation",
    "Counters",
    "Explanation",
    "FiltersExplanation",
    "GroupedQuery",
    "Histogram",
    "IndexExplanation",
    "InputWhyNot",
    "JoinWhy",
    "JoinWhyNot",
    "JoinsExplanation",
    "LiveGroups",
    "Partition",
    "Seconds",
    "SizeHistory",
    "Tally",
    "aggregate_facts",
    "branch_record",
    "busiest",
    "class_sizes",
    "condition_texts",
    "counters",
    "current_groups",
    "entry_verdict",
    "epoch_warnings",
    "event_words",
    "explain",
    "explain_index",
    "filter_facts",
    "grouped_query",
    "has_filters",
    "held_sizes",
    "in_words",
    "join_facts",
    "kept_groups",
    "live_groups",
    "members",
    "partitions_of",
    "rounded",
    "suspended",
    "suspended_text",
    "trial_document",
    "try_record",
    "why_grouped",
    "why_not_grouped",
    "why_not_rows",
    "why_row",
]
