"""What is registered: streams, queries and versions.

Enters: declarations and bound queries. Leaves: records to look at, and per stream a `StreamPlan`, the immutable set of
queries that one catalog version has. Every change is one version.
"""

from eddyline.catalog.catalog import Catalog
from eddyline.catalog.queries import QueryRecord, Registration
from eddyline.catalog.streams import evolved

__all__ = ["Catalog", "QueryRecord", "Registration", "evolved"]
