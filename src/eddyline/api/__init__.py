"""The user's front door: what `eddyline.open` returns.

Enters: SQL and data as users have them. Leaves: handles to queries, matches and results. No algorithm lives here.
"""

from eddyline.api.commands import Commands
from eddyline.api.engine import DeadLetterList, Engine, StreamHandle, open_engine, server_room
from eddyline.api.matches import Matches
from eddyline.api.pipeline_ends import sink_documents, source_documents
from eddyline.api.pipeline_runner import PipelineRunner, open_pipeline, run
from eddyline.api.query import Query, QueryPage, QuerySet
from eddyline.api.run_log import log_start
from eddyline.api.running import Running
from eddyline.api.token_commands import token_document
from eddyline.documents import Tell, as_pandas, as_polars

__all__ = [
    "Commands",
    "DeadLetterList",
    "Engine",
    "Matches",
    "PipelineRunner",
    "Query",
    "QueryPage",
    "QuerySet",
    "Running",
    "StreamHandle",
    "Tell",
    "as_pandas",
    "as_polars",
    "log_start",
    "open_engine",
    "open_pipeline",
    "run",
    "server_room",
    "sink_documents",
    "source_documents",
    "token_document",
]
