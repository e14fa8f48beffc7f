"""Where rows come from.

Enters: data as users have it. Leaves: `Ingested`, a record batch in the schema of the stream, the arrival order if the data
gives one, and the rows that do not fit.
"""

from eddyline.sources.ingest import Ingested, Misfit, infer_schema, ingest

__all__ = ["Ingested", "Misfit", "infer_schema", "ingest"]
