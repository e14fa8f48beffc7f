"""What is kept: dead letters and the last rows of each stream, both bounded."""

from eddyline.storage.dead_letters import DeadLetters
from eddyline.storage.recent_rows import RecentRows

__all__ = ["DeadLetters", "RecentRows"]
