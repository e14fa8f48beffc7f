"""Answers as data with a text form: results, explanations, verdicts, trials, mistakes, errors.

Enters: facts that rooms above found, or the JSON a server sent. Leaves: documents that print themselves. Nothing here needs the
engine, so a client loads no more than this.
"""

from eddyline.documents.aggregate_explanations import AggregatesExplanation
from eddyline.documents.alert_counts import AlertCounts
from eddyline.documents.current_groups import CurrentGroup, CurrentGroups, Threshold
from eddyline.documents.error_documents import error_from, error_to
from eddyline.documents.explanations import Explanation, IndexExplanation, suspended_text
from eddyline.documents.filter_explanations import (
    FiltersExplanation,
    change_words,
    event_words,
    latest_changes,
)
from eddyline.documents.frames import as_pandas, as_polars
from eddyline.documents.group_verdicts import GroupVerdict, GroupWhy, GroupWhyNot
from eddyline.documents.join_explanations import JoinsExplanation, Partition
from eddyline.documents.json_values import jsonable
from eddyline.documents.mistakes import Mistake, PipelineError, Place, RulesError
from eddyline.documents.progress import Tell
from eddyline.documents.quantities import plural, rounded, size_text
from eddyline.documents.results import DeadLetter, Result, Results, change_mark
from eddyline.documents.times import iso_text, iso_time
from eddyline.documents.trials import Trial, TrialError, TrialInput, trial_document
from eddyline.documents.verdicts import (
    ClauseVerdict,
    InputWhyNot,
    JoinWhy,
    JoinWhyNot,
    Why,
    WhyNot,
    shown_value,
)

__all__ = [
    "AggregatesExplanation",
    "AlertCounts",
    "ClauseVerdict",
    "CurrentGroup",
    "CurrentGroups",
    "DeadLetter",
    "Explanation",
    "FiltersExplanation",
    "GroupVerdict",
    "GroupWhy",
    "GroupWhyNot",
    "IndexExplanation",
    "InputWhyNot",
    "JoinWhy",
    "JoinWhyNot",
    "JoinsExplanation",
    "Mistake",
    "Partition",
    "PipelineError",
    "Place",
    "Result",
    "Results",
    "RulesError",
    "Tell",
    "Threshold",
    "Trial",
    "TrialError",
    "TrialInput",
    "Why",
    "WhyNot",
    "as_pandas",
    "as_polars",
    "change_mark",
    "change_words",
    "error_from",
    "error_to",
    "event_words",
    "iso_text",
    "iso_time",
    "jsonable",
    "latest_changes",
    "plural",
    "rounded",
    "shown_value",
    "size_text",
    "suspended_text",
    "trial_document",
]
