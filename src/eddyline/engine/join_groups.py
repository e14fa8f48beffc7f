"""Which streams are joined with each other: a group is what joins connect, directly or over others.

What is kept of one stream depends on the watermarks of its partners, each of which is its own (event_time.py, and event_clock.py
where no rows come). That rows of all streams have come in order of time so far says nothing of those to come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from eddyline.model import Signature


def groups_of(
    signatures: Iterable[Signature], base_streams: Callable[[str], Iterable[str]] = lambda name: (name,)
) -> list[frozenset[str]]:
    """The streams that joins connect, by name in lower case, each in one group; `base_streams` are those of a view."""
    groups: list[set[str]] = []
    for signature in signatures:
        mine = {base.lower() for name in signature.streams for base in base_streams(name)}
        for other in [group for group in groups if group & mine]:
            mine |= other
            groups.remove(other)
        groups.append(mine)
    return [frozenset(group) for group in groups]
