"""The kinds of files in the store: the folder each lies in, and the kind under which the catalog lists it.

Rounds list captures, outboxes, closed rows, dead letters, windows, tables and aggregates. Plans and indexes are written for
workers, are listed nowhere, and can be written again at any time.
"""

from __future__ import annotations

CAPTURE = "capture"  # rows as they were pushed
OUTBOX = "outbox"  # results
CLOSED_ROWS = "closed"  # of alert queries: rows of windows that closed
DEAD_LETTERS = "dead"  # rows and (row, query) pairs that could not be decided
WINDOWS = "window"  # rows in the windows of joins
TABLES = "table"  # rows of keyed streams
AGGREGATES = "aggregate"  # entries of aggregates
PLAN = "plan"  # the queries on a stream
INDEX = "index"  # the predicate index over them
JOIN_PLAN = "joins"  # the join queries of all signatures

KIND_WORDS = {  # for users
    OUTBOX: "results",
    CLOSED_ROWS: "rows of closed windows",
    DEAD_LETTERS: "dead letters",
    CAPTURE: "rows as they came",
}
