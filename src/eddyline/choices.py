"""Words that options and properties choose from: what the command line offers before anything that reads them is loaded."""

from __future__ import annotations

SEVERITIES = ("info", "warning", "error", "critical")  # of alerts, the least first

FILE_ENDINGS = {
    "json": (".json", ".jsonl", ".ndjson"),
    "csv": (".csv",),
    "parquet": (".parquet", ".pq"),
    "arrow": (".arrow", ".arrows", ".feather", ".ipc"),
    "avro": (".avro",),
}
FORMATS = tuple(FILE_ENDINGS)  # of files
