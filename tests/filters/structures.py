"""Ways to make the index choose one structure, whatever suits the queries, and to make it change all the time."""

from __future__ import annotations

import eddyline
from eddyline.model import ExecutionChoices, StructureChoices

NEVER = 1e18

STRUCTURES = {
    "as chosen": StructureChoices(),
    "bitset blocks": StructureChoices(selective_keys=NEVER, narrow_share=-1),
    "leaf blocks": StructureChoices(
        selective_keys=NEVER, narrow_share=2, least_in_key_lists=1, least_in_leaf_blocks=1
    ),
    "key lists": StructureChoices(
        selective_keys=0.5, narrow_share=-1, least_in_key_lists=1, least_in_leaf_blocks=1
    ),
    "many parts": StructureChoices(
        small_index=0,
        small_part=0,
        most_parts=2,
        overlay_share=0.5,
        least_in_key_lists=1,
        least_in_leaf_blocks=1,
    ),
}


def with_structure(engine: eddyline.Engine, structure: str) -> eddyline.Engine:
    """From its next round on, the engine builds its indexes this way."""
    engine.rounds.choices = ExecutionChoices(structures=STRUCTURES[structure])
    return engine
