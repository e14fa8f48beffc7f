"""What is registered, and what has happened: streams, queries, versions, rounds and alerts, in one SQLite file.

Enters: declarations, bound queries, and rounds to commit. Leaves: records to look at; per stream a `StreamPlan`, the immutable
set of queries that one catalog version has; committed rounds with the files they list. Every change of streams or queries is one
version.

    Catalog      what is registered now, in memory: `queries`, `names`, `plans`, `alerts`; `members`, `suspensions` and `restore`
                 change many queries of it at once
    Database     the same on disk: `versions`, `streams`, `shapes`, `queries`; `connection`, `migrations`, `checksums` and
                 `snapshot` are about its file, `past` reads earlier versions
    VersionLog   versions that are kept, and forgetting the others
    RoundLog     committed rounds, what they read and how far streams have come; `files` they list, `cursors` of their readers
    AlertLog     open alerts and the messages they sent; `silences` that keep some back
    Access       tokens, and who did what

Two modules are for other rooms as they are: `codec` turns shapes, types and values into text and back; `names` completes words
in shells and is run as a file.
"""

from eddyline.catalog import codec, names
from eddyline.catalog.access import ROLES, Access, AccessToken, without_tokens
from eddyline.catalog.aged_shapes import begins_empty, has_age
from eddyline.catalog.alert_queries import AlertEnd
from eddyline.catalog.alerts import AlertChanges, AlertLog, StoredAlert
from eddyline.catalog.catalog import Catalog
from eddyline.catalog.cursors import ReaderCursors
from eddyline.catalog.database import Database
from eddyline.catalog.listed_files import ListedFile, ListedFiles
from eddyline.catalog.members import (
    MemberGroup,
    having_value,
    identical_mask,
    is_same_shape,
    member_groups,
    parameter_columns,
    parameter_query_ids,
    replace_many,
)
from eddyline.catalog.migrations import FORMAT
from eddyline.catalog.past import ids_changed_at, query_at, streams_changed_at, templates_added_at, view_at
from eddyline.catalog.past_alert_queries import PastQuery
from eddyline.catalog.queries import QueryRecord, Registration
from eddyline.catalog.restore import RestoreResult, restore_version
from eddyline.catalog.rounds import CommittedRound, ReadInput, RoundLog
from eddyline.catalog.silences import Acknowledgement, Silence, Withheld, has_values
from eddyline.catalog.snapshot import Snapshot, copy_catalog, verified_snapshot
from eddyline.catalog.stored_queries import StoredQuery
from eddyline.catalog.streams import evolved_stream
from eddyline.catalog.suspensions import suspend, suspend_callers, suspend_queries
from eddyline.catalog.versions import RemovedVersions, RetainedRange, VersionLog
from eddyline.catalog.view_relations import aggregation_stream, in_order, view_relation, watermark_us
from eddyline.catalog.views import ReadableRelations, owners_and_names, relation_name
from eddyline.documents import AlertCounts

__all__ = [
    "FORMAT",
    "ROLES",
    "Access",
    "AccessToken",
    "Acknowledgement",
    "AlertChanges",
    "AlertCounts",
    "AlertEnd",
    "AlertLog",
    "Catalog",
    "CommittedRound",
    "Database",
    "ListedFile",
    "ListedFiles",
    "MemberGroup",
    "PastQuery",
    "QueryRecord",
    "ReadInput",
    "ReadableRelations",
    "ReaderCursors",
    "Registration",
    "RemovedVersions",
    "RestoreResult",
    "RetainedRange",
    "RoundLog",
    "Silence",
    "Snapshot",
    "StoredAlert",
    "StoredQuery",
    "VersionLog",
    "Withheld",
    "aggregation_stream",
    "begins_empty",
    "codec",
    "copy_catalog",
    "evolved_stream",
    "has_age",
    "has_values",
    "having_value",
    "identical_mask",
    "ids_changed_at",
    "in_order",
    "is_same_shape",
    "member_groups",
    "names",
    "owners_and_names",
    "parameter_columns",
    "parameter_query_ids",
    "query_at",
    "relation_name",
    "replace_many",
    "restore_version",
    "streams_changed_at",
    "suspend",
    "suspend_callers",
    "suspend_queries",
    "templates_added_at",
    "verified_snapshot",
    "view_at",
    "view_relation",
    "watermark_us",
    "without_tokens",
]
