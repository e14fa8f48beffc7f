"""Which structure of the index serves a query.

No one structure is best for all sets of queries (`benchmarks/filters/curves.py`). The rule, query by query:

1. *key lists*, if the query has an equality or an IN list on an attribute on which two queries taken at random seldom ask for
   the same key (a share of at most 1 / selective_keys); of several such attributes the one where that is rarest;
2. *leaf blocks*, if its box lets through at most narrow_share of the rows, judged on a sample of rows (before there are any, as
   if they came where the constants are);
3. *bitset blocks*, everything else: queries most rows satisfy, ORs, `!=`, IS NULL, and no condition at all.

Few queries with the same attributes (fewer than least_in_key_lists, least_in_leaf_blocks) are not worth a structure of their own:
a few bitset blocks are faster. These numbers are choices of the plan (`StructureChoices`).
The choice is made whenever a part of the index is built, so it follows the set of queries and the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eddyline.filters.boxes import KeyOption, QueryBoxes
from eddyline.filters.keys import HIGHEST, LOWEST, Keys, Mask
from eddyline.model import StructureChoices

KEYS_LOOKED_AT = 100_000  # of an attribute, to see how often two queries share a key
BOUNDS_LOOKED_AT = 10_000  # of an attribute, to stand for rows that have not come yet

BITSETS, LEAVES, KEYS = "bitset blocks", "leaf blocks", "key lists"


@dataclass(frozen=True, slots=True)
class Choice:
    """Where the lanes of one segment go: `kind[k]` and, where a key names the rows, by which option."""

    is_narrow: Mask
    option: KeyOption | None


def choose(
    queries: Sequence[QueryBoxes], sample: Callable[[int], Keys | None], choices: StructureChoices
) -> list[Choice]:
    """Choose for the queries of each segment. `sample` gives the sorted keys of an attribute on some rows, or None."""
    rarity = _key_rarity(queries)
    sorted_keys: dict[int, Keys] = {}
    chosen = []
    for block in queries:
        option = _best_option(block, rarity, choices.selective_keys)
        is_narrow = np.zeros(len(block), dtype=bool)
        if option is None and block.boxes:
            for attribute in block.boxes:
                if attribute not in sorted_keys:
                    sampled_keys = sample(attribute)
                    sorted_keys[attribute] = (
                        _sorted_bounds(queries, attribute) if sampled_keys is None else sampled_keys
                    )
            is_narrow = _share(block, sorted_keys) <= choices.narrow_share
        chosen.append(Choice(is_narrow, option))
    return chosen


def _key_rarity(queries: Sequence[QueryBoxes]) -> dict[int, float]:
    """For each attribute with keys: the chance that two of them are equal."""
    keys: dict[int, list[Keys]] = {}
    for block in queries:
        for option in block.options:
            keys.setdefault(option.attribute, []).append(option.keys)
    found = {}
    for attribute, parts in keys.items():
        together = np.concatenate(parts)
        if len(together) > KEYS_LOOKED_AT:
            together = together[:: len(together) // KEYS_LOOKED_AT + 1]
        counts = np.unique(together, return_counts=True)[1].astype(np.float64)
        found[attribute] = float((counts**2).sum() / counts.sum() ** 2) if len(counts) else 1.0
    return found


def _best_option(block: QueryBoxes, rarity: dict[int, float], selective_keys: float) -> KeyOption | None:
    best: KeyOption | None = None
    for option in block.options:
        if rarity[option.attribute] > 1 / selective_keys:
            continue
        if best is None or rarity[option.attribute] < rarity[best.attribute]:
            best = option
    return best


def _sorted_bounds(queries: Sequence[QueryBoxes], attribute: int) -> Keys:
    """Where the boxes begin and end on an attribute."""
    boxes = [block.boxes[attribute] for block in queries if attribute in block.boxes]
    bounds = np.concatenate([bound for box in boxes for bound in box])
    bounds = bounds[(bounds > LOWEST) & (bounds < HIGHEST)]
    return np.sort(bounds[:: len(bounds) // BOUNDS_LOOKED_AT + 1])


def _share(block: QueryBoxes, sorted_keys: dict[int, Keys]) -> npt.NDArray[np.float64]:
    """The share of rows each box lets through, attributes taken as independent."""
    share = np.ones(len(block))
    for attribute, (low, high) in block.boxes.items():
        rows = sorted_keys[attribute]
        if len(rows):
            inside = np.searchsorted(rows, high, side="right") - np.searchsorted(rows, low, side="left")
            share *= np.maximum(inside, 0.5) / len(rows)
    return share
