"""How work that takes long reports how far it is."""

from __future__ import annotations

from collections.abc import Callable

Tell = Callable[[str, int, int], None]  # what, done, of how many (0: not known)
