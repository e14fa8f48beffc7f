"""What was chosen for the execution of rounds, as one value that a plan carries: driver and tasks read the same."""

from __future__ import annotations

from dataclasses import dataclass

BY_COST = "by cost"


@dataclass(frozen=True, slots=True)
class StructureChoices:
    """Which structure of the predicate index serves a query (filters/choice.py), and when parts of the index are built anew."""

    # key lists: of two queries taken at random, at most one pair in so many has the same key
    selective_keys: float = 16
    narrow_share: float = 1 / 64  # leaf blocks: a box lets through so much of the rows, at most
    least_in_key_lists: int = 256  # queries with the same attributes: fewer are in bitset blocks
    least_in_leaf_blocks: int = 1_024
    sampled_rows: int = 1_024  # by which it is judged how much a box lets through
    small_index: int = 512  # queries up to which the whole index is built anew at every change
    small_part: int = 128  # queries up to which new ones are built into one part with those just before them
    most_parts: int = 8
    overlay_share: float = 1 / 8  # of the base, from which on it is built anew
    masked_share: float = 1 / 2  # of a part, from which on it is built anew


@dataclass(frozen=True, slots=True)
class ExecutionChoices:
    """How large tasks are, what is joined where, when expensive conditions are asked, and which structures serve queries.

    None of it changes results.
    """

    task_bytes: int = 8 << 20  # of a task, at most, and until it was measured how long a byte takes
    least_task_bytes: int = 64 << 10  # a task has a price of its own, about ten milliseconds on Spark
    task_s: float = (
        0.06  # CPU seconds of a task: worth some of that price; a round is as slow as its longest task
    )
    most_tasks: int = 256
    join_from_rows: int = 50_000  # that joins want; fewer are joined sooner than a job is started
    placement: str = (
        BY_COST  # of expensive conditions on an input: before or after its rows look for partners
    )
    judged_by: int = 500  # rows of an input, before its conditions are moved
    rows_at_once: int = 1 << 17  # that a task filters as one batch, at most
    combinations_at_once: int = 1 << 17  # that joins make, about
    pairs_at_once: int = 1 << 22  # that filters leave open, and that joins compare where they have no key
    remembered_pairs: int = 1 << 22  # of a probe that joins share; what is found beyond them is probed again
    structures: StructureChoices = StructureChoices()


DEFAULT_CHOICES = ExecutionChoices()
