"""The nouns: values that rooms pass to each other, all frozen, comparable, free of SQL text and of Spark.

    expressions   typed expression trees: literals, columns, slots, calls, aggregates
    aggregations  classes of rows, windows and aggregates that queries share
    conditions    what a WHERE says: clauses of atoms, and how each atom can be decided
    joins         signatures: inputs and equalities that join queries share
    shapes        what queries that differ only in their constants have in common: inputs, projection, condition, slots
    queries       the properties of a query, and its states
    streams       declared streams, and how far each has come
    views         relations that queries make for other queries
    plans         the queries that are active on a stream at one version, in columns
    rounds        committed rounds, and the numbers of their rows
    alerts        the state of each key of an alert query, and the messages it sends

Dead letters and times as ISO 8601 text are those of `eddyline.documents`. Every public name is exported here; other rooms import
from `eddyline.model`, not from its files.
"""

from eddyline.documents import DeadLetter, iso_text, iso_time
from eddyline.model.aggregations import (
    CLOSED,
    FORGOTTEN,
    NOW,
    OVER,
    OVERFLOW,
    RUNNING,
    SESSIONS,
    TEMPORAL,
    WINDOW,
    WINDOW_TYPE,
    WINDOWS,
    AggregateCall,
    Aggregating,
    Aggregation,
    OverFrame,
    SessionWindow,
    TemporalBound,
    TimeWindow,
)
from eddyline.model.alerts import AlertKey, AlertState, Message
from eddyline.model.conditions import Atom, AtomKind, Clause, Condition, pattern_atom
from eddyline.model.execution import BY_COST, DEFAULT_CHOICES, ExecutionChoices, StructureChoices
from eddyline.model.expressions import (
    LAMBDA,
    Aggregate,
    Call,
    Column,
    Expression,
    Facts,
    GroupWindow,
    Literal,
    Over,
    Slot,
    UserCall,
    Variable,
)
from eddyline.model.joins import (
    AGE,
    BEHIND,
    IDENTITY,
    OLDER,
    ROW,
    Join,
    JoinInput,
    JoinKey,
    Role,
    Signature,
    joined_name,
)
from eddyline.model.plans import FIRST_BODY, FIRST_BRANCH, PlanChanges, Segment, StreamPlan, ascending
from eddyline.model.queries import Properties, QueryState, is_alert
from eddyline.model.rounds import END_OF_ARRIVALS, FIRST_DERIVED, FIRST_ORDINAL, NO_TIME, Round
from eddyline.model.shapes import Input, ProjectedColumn, Shape, SlotInfo, UnionPart, UnnamedView, Window
from eddyline.model.streams import LaneProgress, Stream, StreamProgress
from eddyline.model.views import (
    TABLE_VIEW,
    VIEW,
    ViewFeed,
    ViewRelation,
    ViewText,
    branch_mark,
    marked_branch,
)

__all__ = [
    "AGE",
    "BEHIND",
    "BY_COST",
    "CLOSED",
    "DEFAULT_CHOICES",
    "END_OF_ARRIVALS",
    "FIRST_BODY",
    "FIRST_BRANCH",
    "FIRST_DERIVED",
    "FIRST_ORDINAL",
    "FORGOTTEN",
    "IDENTITY",
    "LAMBDA",
    "NOW",
    "NO_TIME",
    "OLDER",
    "OVER",
    "OVERFLOW",
    "ROW",
    "RUNNING",
    "SESSIONS",
    "TABLE_VIEW",
    "TEMPORAL",
    "VIEW",
    "WINDOW",
    "WINDOWS",
    "WINDOW_TYPE",
    "Aggregate",
    "AggregateCall",
    "Aggregating",
    "Aggregation",
    "AlertKey",
    "AlertState",
    "Atom",
    "AtomKind",
    "Call",
    "Clause",
    "Column",
    "Condition",
    "DeadLetter",
    "ExecutionChoices",
    "Expression",
    "Facts",
    "GroupWindow",
    "Input",
    "Join",
    "JoinInput",
    "JoinKey",
    "LaneProgress",
    "Literal",
    "Message",
    "Over",
    "OverFrame",
    "PlanChanges",
    "ProjectedColumn",
    "Properties",
    "QueryState",
    "Role",
    "Round",
    "Segment",
    "SessionWindow",
    "Shape",
    "Signature",
    "Slot",
    "SlotInfo",
    "Stream",
    "StreamPlan",
    "StreamProgress",
    "StructureChoices",
    "TemporalBound",
    "TimeWindow",
    "UnionPart",
    "UnnamedView",
    "UserCall",
    "Variable",
    "ViewFeed",
    "ViewRelation",
    "ViewText",
    "Window",
    "ascending",
    "branch_mark",
    "is_alert",
    "iso_text",
    "iso_time",
    "joined_name",
    "marked_branch",
    "pattern_atom",
]
