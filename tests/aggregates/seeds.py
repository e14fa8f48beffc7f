"""Seeds of random lives: the first one is lived in every run, the others in that of the whole suite."""

from __future__ import annotations

from typing import Any

import pytest


def seeds(n: int) -> list[Any]:
    """So many of them, as parameters."""
    return [pytest.param(seed, marks=[pytest.mark.thorough] * (seed > 0)) for seed in range(n)]
