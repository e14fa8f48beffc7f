"""What was observed while rounds ran: numbers for people, the dashboard and, later, for planning.

Enters: what a round took, stage by stage. Leaves: the last rounds' records. Losing them loses no result.
"""

from eddyline.statistics.round_records import RoundRecord, RoundRecords, StageRecord

__all__ = ["RoundRecord", "RoundRecords", "StageRecord"]
