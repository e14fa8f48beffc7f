"""Ways to make the index choose one structure, whatever suits the queries, and to make it change all the time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from eddyline.filters import assembly, choice, predicate_index

NEVER = 1e18
EVERY_GROUP = {choice.KEYS: 1, choice.LEAVES: 1}

STRUCTURES = {
    "as chosen": [],
    "bitset blocks": [(choice, "SELECTIVE_KEYS", NEVER), (choice, "NARROW_SHARE", -1)],
    "leaf blocks": [
        (choice, "SELECTIVE_KEYS", NEVER),
        (choice, "NARROW_SHARE", 2),
        (assembly, "SMALL_GROUP", EVERY_GROUP),
    ],
    "key lists": [
        (choice, "SELECTIVE_KEYS", 0.5),
        (choice, "NARROW_SHARE", -1),
        (assembly, "SMALL_GROUP", EVERY_GROUP),
    ],
    "many parts": [
        (predicate_index, "SMALL", 0),
        (predicate_index, "SMALL_TAIL", 0),
        (predicate_index, "MOST_PARTS", 2),
        (predicate_index, "OVERLAY_SHARE", 0.5),
        (assembly, "SMALL_GROUP", EVERY_GROUP),
    ],
}


@contextmanager
def forced(structure: str) -> Iterator[None]:
    """Inside, every index is built this way."""
    with pytest.MonkeyPatch.context() as patched:
        for module, name, value in STRUCTURES[structure]:
            patched.setattr(module, name, value)
        yield
