"""Rows of several streams that belong together: new rows of a round enter, combinations leave as rows of their signature.

`JoinStage` (stage.py) runs a round; what several signatures probe first is probed once (shared_probes.py). `StoredWindows`
(windows.py) holds a SteM for each stream, with the rows that later ones may meet (stem.py: found by key, or by a range:
ordered_index.py; stem_rows.py: stored; row_numbers.py: numbered). `KeyedTable` (table.py) holds a keyed stream: its columns
(table_rows.py), versions (version_chains.py) and indexes (table_look_ups.py); `ViewTable` (view_table.py) a view over tables.
net_changes.py says what remains of the changes of a round. Keys are compared by codes (keys.py).
"""

from eddyline.joins.join_tree import can_drive
from eddyline.joins.joined_rows import JoinedRows
from eddyline.joins.net_changes import NetChanges, net_changes
from eddyline.joins.outer import DECIDED_AT_ONCE, UndecidedRows, is_decided_at_once
from eddyline.joins.outer_tables import RowsAlone, appearing, row_states
from eddyline.joins.partners import TablePartner
from eddyline.joins.plan import (
    Drivers,
    JoinPlan,
    Need,
    SignaturePlan,
)
from eddyline.joins.probe_matches import Evaluate, Key, ProbeMatches
from eddyline.joins.probing import PartnerMarks, ProbeCounters
from eddyline.joins.ranges import RangeKey, range_keys, range_probe
from eddyline.joins.rules_index import RuleForm, Rules, rule_form
from eddyline.joins.stage import JoinStage
from eddyline.joins.stem_rows import StoredRows
from eddyline.joins.table import KeyedTable
from eddyline.joins.table_changes import Deltas, TableChanges
from eddyline.joins.version_chains import ALWAYS
from eddyline.joins.view_table import ViewTable

__all__ = [
    "ALWAYS",
    "DECIDED_AT_ONCE",
    "Deltas",
    "Drivers",
    "Evaluate",
    "JoinPlan",
    "JoinStage",
    "JoinedRows",
    "Key",
    "KeyedTable",
    "Need",
    "NetChanges",
    "PartnerMarks",
    "ProbeCounters",
    "ProbeMatches",
    "RangeKey",
    "RowsAlone",
    "RuleForm",
    "Rules",
    "SignaturePlan",
    "StoredRows",
    "TableChanges",
    "TablePartner",
    "UndecidedRows",
    "ViewTable",
    "appearing",
    "can_drive",
    "is_decided_at_once",
    "net_changes",
    "range_keys",
    "range_probe",
    "row_states",
    "rule_form",
]
