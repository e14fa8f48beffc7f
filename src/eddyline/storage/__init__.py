"""What is kept beside the catalog: the home and its lock, the store of immutable files, and what is written to them.

Enters: rows, results, dead letters, windows and tables of a round. Leaves: a `StoredFile` for each, to be listed in the catalog
under its kind (`file_kinds`), and the same rows again when it is read. In memory, and bounded: `DeadLetters` and `RecentRows`.
"""

from eddyline.storage.arrays import map_arrays, write_arrays
from eddyline.storage.dead_letters import DeadLetters
from eddyline.storage.file_kinds import (
    AGGREGATES,
    CAPTURE,
    CLOSED_ROWS,
    DEAD_LETTERS,
    INDEX,
    JOIN_PLAN,
    KIND_WORDS,
    OUTBOX,
    PLAN,
    TABLES,
    WINDOWS,
)
from eddyline.storage.home import Home, holder_of, local_folder
from eddyline.storage.outbox import (
    NumberedRows,
    StoredPart,
    read_capture,
    read_dead_letters,
    read_numbered_capture,
    read_parts,
    stored_part,
    write_capture,
    write_dead_letters,
    write_parts,
)
from eddyline.storage.query_counts import QueryCounts, read_counts, write_counts
from eddyline.storage.recent_rows import RecentRows
from eddyline.storage.store import NewFile, Store, StoredFile, make_folder, sync_folder
from eddyline.storage.stored_aggregates import AggregateBlock, read_aggregates, write_aggregates
from eddyline.storage.stored_tables import TableBlock, read_table, write_table
from eddyline.storage.stored_windows import WindowBlock, read_windows, write_windows

__all__ = [
    "AGGREGATES",
    "CAPTURE",
    "CLOSED_ROWS",
    "DEAD_LETTERS",
    "INDEX",
    "JOIN_PLAN",
    "KIND_WORDS",
    "OUTBOX",
    "PLAN",
    "TABLES",
    "WINDOWS",
    "AggregateBlock",
    "DeadLetters",
    "Home",
    "NewFile",
    "NumberedRows",
    "QueryCounts",
    "RecentRows",
    "Store",
    "StoredFile",
    "StoredPart",
    "TableBlock",
    "WindowBlock",
    "holder_of",
    "local_folder",
    "make_folder",
    "map_arrays",
    "read_aggregates",
    "read_capture",
    "read_counts",
    "read_dead_letters",
    "read_numbered_capture",
    "read_parts",
    "read_table",
    "read_windows",
    "stored_part",
    "sync_folder",
    "write_aggregates",
    "write_arrays",
    "write_capture",
    "write_counts",
    "write_dead_letters",
    "write_parts",
    "write_table",
    "write_windows",
]
