"""What it meets: rows of several streams that belong together.

A stem keeps the rows of one stream that a later row may meet (stem.py), and finds them by the codes of their keys (keys.py).
"""

from eddyline.joins.join_tree import can_drive
from eddyline.joins.joined_rows import JoinedRows
from eddyline.joins.outer import UndecidedRows
from eddyline.joins.partners import TablePartner
from eddyline.joins.plan import (
    WHOLE,
    ArrivedRows,
    Drivers,
    JoinPlan,
    Need,
    Numbers,
    RoundProgress,
    Share,
    SignaturePlan,
    arrived_rows,
    times_of,
)
from eddyline.joins.probing import PartnerMarks
from eddyline.joins.rules_index import RuleForm, Rules, rule_form
from eddyline.joins.stage import JoinStage
from eddyline.joins.stem import Evaluate, Key, ProbeMatches
from eddyline.joins.stem_rows import StoredRows
from eddyline.joins.table import KeyedTable
from eddyline.joins.table_changes import Deltas, TableChanges
from eddyline.joins.version_chains import ALWAYS

__all__ = [
    "ALWAYS",
    "WHOLE",
    "ArrivedRows",
    "Deltas",
    "Drivers",
    "Evaluate",
    "JoinPlan",
    "JoinStage",
    "JoinedRows",
    "Key",
    "KeyedTable",
    "Need",
    "Numbers",
    "PartnerMarks",
    "ProbeMatches",
    "RoundProgress",
    "RuleForm",
    "Rules",
    "Share",
    "SignaturePlan",
    "StoredRows",
    "TableChanges",
    "TablePartner",
    "UndecidedRows",
    "arrived_rows",
    "can_drive",
    "rule_form",
    "times_of",
]
