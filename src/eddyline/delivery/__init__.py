"""Who is told: results kept for whoever reads them.

Enters: matches of committed rounds. Leaves: `Result` rows by query, newest kept, what was dropped counted.
"""

from eddyline.delivery.result_log import Result, ResultLog, Results

__all__ = ["Result", "ResultLog", "Results"]
