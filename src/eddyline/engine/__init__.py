"""The rooms wired in one process, and the round protocol. Read `rounds.py` first.

Enters: rows of a round, in the schemas of their streams. Leaves: a committed round. With a home, `durable.py` writes what must
not be lost at the steps the protocol names.
"""

from eddyline.documents import size_text
from eddyline.engine.aggregate_replay import AggregateReplay, NumberedClassRows
from eddyline.engine.aggregate_sizes import AggregateSizes
from eddyline.engine.aggregate_structures import form_of
from eddyline.engine.alert_words import SEVERITY, AlertRule
from eddyline.engine.declaring import OpenEngine, checked_stream, declare, drop_queries, drop_stream
from eddyline.engine.durable import Durable, wall_clock_us
from eddyline.engine.event_time import event_times, is_idle_lane
from eddyline.engine.filter_events import filter_text
from eddyline.engine.identities import encoded
from eddyline.engine.join_replica import ProbeTask
from eddyline.engine.past_tables import PastTables
from eddyline.engine.retention import Retention
from eddyline.engine.round_inputs import ComponentRows, RoundInputs, change_of_key, home_of
from eddyline.engine.round_store import MemoryStore, RoundStore
from eddyline.engine.round_work import Limits, Outcome
from eddyline.engine.rounds import RoundEngine
from eddyline.engine.shared_work import SharedRounds
from eddyline.engine.stream_states import StreamState, stream_state, stream_states
from eddyline.engine.tables import fitted
from eddyline.engine.task_outcomes import ReferenceRefused, RowsNumbered
from eddyline.engine.tasks import Task, TaskResult, by_bytes, run_task

__all__ = [
    "SEVERITY",
    "AggregateReplay",
    "AggregateSizes",
    "AlertRule",
    "ComponentRows",
    "Durable",
    "Limits",
    "MemoryStore",
    "NumberedClassRows",
    "OpenEngine",
    "Outcome",
    "PastTables",
    "ProbeTask",
    "ReferenceRefused",
    "Retention",
    "RoundEngine",
    "RoundInputs",
    "RoundStore",
    "RowsNumbered",
    "SharedRounds",
    "StreamState",
    "Task",
    "TaskResult",
    "by_bytes",
    "change_of_key",
    "checked_stream",
    "declare",
    "drop_queries",
    "drop_stream",
    "encoded",
    "event_times",
    "filter_text",
    "fitted",
    "form_of",
    "home_of",
    "is_idle_lane",
    "run_task",
    "size_text",
    "stream_state",
    "stream_states",
    "wall_clock_us",
]
