"""Texts into the catalog: one query, a template with a table of parameters, or rules as code, each call one version.

    wanted = desired(pipeline)            # or a folder of .sql files
    changes = plan(engine, wanted)        # added, changed, removed, unchanged; costs, warnings, every mistake
    apply(engine, changes)                # one version; apply(…, prune=True) also drops what is in no file

Enters: SQL and properties as users write them. Leaves: catalog entries, or every mistake with its place.
"""

from eddyline.documents import RulesError
from eddyline.rules.applying import Applied, apply, apply_rules, rollback
from eddyline.rules.cost import cost_class, endless_groups
from eddyline.rules.exporting import export
from eddyline.rules.files import Desired, Source, StatedStream, desired, rule_files
from eddyline.rules.join_output import output_warnings
from eddyline.rules.plan_trials import try_plan
from eddyline.rules.plans import Change, Plan, StreamChange, TableChange, plan
from eddyline.rules.register import Registrar, find_query, stated_view
from eddyline.rules.table import RefusedRow
from eddyline.rules.text_mistakes import FieldMistake, query_mistakes
from eddyline.rules.version_diffs import rollback_changes, version_changes

__all__ = [
    "Applied",
    "Change",
    "Desired",
    "FieldMistake",
    "Plan",
    "RefusedRow",
    "Registrar",
    "RulesError",
    "Source",
    "StatedStream",
    "StreamChange",
    "TableChange",
    "apply",
    "apply_rules",
    "cost_class",
    "desired",
    "endless_groups",
    "export",
    "find_query",
    "output_warnings",
    "plan",
    "query_mistakes",
    "rollback",
    "rollback_changes",
    "rule_files",
    "stated_view",
    "try_plan",
    "version_changes",
]
