"""The rooms wired in one process, and the round protocol. Read `rounds.py` first.

Enters: rows of a round, in the schemas of their streams. Leaves: a committed round. With a home, `durable.py` writes what must
not be lost at the steps the protocol names.
"""

from eddyline.engine.durable import Durable
from eddyline.engine.retention import Retention
from eddyline.engine.rounds import Limits, Outcome, RoundEngine

__all__ = ["Durable", "Limits", "Outcome", "Retention", "RoundEngine"]
