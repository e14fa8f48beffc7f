"""Counting by query id, one by one."""

from __future__ import annotations

from collections import Counter


def counted(ids: list[int], before: dict[int, int]) -> dict[int, int]:
    """How often each id was there."""
    return dict(Counter(before) + Counter(ids))


def newest(ids: list[int], limit: int, before: dict[int, int]) -> list[bool]:
    """Which places are among the last `limit` of their id, where `before` says how many still newer ones there are."""
    return [before.get(one, 0) + ids[at + 1 :].count(one) < limit for at, one in enumerate(ids)]
