"""Shares of a whole, as users write them: in TOML, in Python and on the command line."""

from __future__ import annotations

import re

from eddyline.errors import PropertyError

_SHARE = re.compile(r"\s*(\d+(?:\.\d+)?(?:e-?\d+)?)\s*(%?)\s*")


def share_of(text: str | float) -> float:
    """The share of rounds that "0.1 %", "0.001" or 0.001 says. Raises PropertyError."""
    hit = _SHARE.fullmatch(str(text)) if not isinstance(text, bool) else None
    share = None if hit is None else float(hit[1]) / (100 if hit[2] else 1)
    if share is None or share > 1:
        raise PropertyError(
            f"audit is {text!r}, which is not a share of rounds",
            hint='Write audit = "0.1 %", or a number from 0 to 1.',
        )
    return share
