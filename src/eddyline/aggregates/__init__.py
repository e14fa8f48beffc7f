"""Aggregates: groups, windows, sessions, frames and absences, shared by all queries of a class.

Enter rows of a class in a round (`ClassRows`), leave entries as they were and as they are (`EntryChanges`), or rows with values
over their frames. What a round does is held apart until it commits.
"""

from eddyline.aggregates.absence import Absences
from eddyline.aggregates.calendar import Calendar
from eddyline.aggregates.changes import are_distinct
from eddyline.aggregates.keys import Keys
from eddyline.aggregates.over import OverRows, OverValues
from eddyline.aggregates.partials import PartialRows, joined_lines, stored_lines
from eddyline.aggregates.rows import ClassRows, EntryChanges
from eddyline.aggregates.running import RunningGroups
from eddyline.aggregates.sessions import Sessions
from eddyline.aggregates.states import States
from eddyline.aggregates.structure import GONE, MergingStructure, Reader, RoundTime, Structure
from eddyline.aggregates.temporal import TemporalGroups
from eddyline.aggregates.timed_groups import TimedGroups
from eddyline.aggregates.windows import SlicedWindows

__all__ = [
    "GONE",
    "Absences",
    "Calendar",
    "ClassRows",
    "EntryChanges",
    "Keys",
    "MergingStructure",
    "OverRows",
    "OverValues",
    "PartialRows",
    "Reader",
    "RoundTime",
    "RunningGroups",
    "Sessions",
    "SlicedWindows",
    "States",
    "Structure",
    "TemporalGroups",
    "TimedGroups",
    "are_distinct",
    "joined_lines",
    "stored_lines",
]
