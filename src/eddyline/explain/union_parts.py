"""Unions part by part: a branch is a plain query, so each is asked by itself, and the answers are put together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from eddyline.catalog import QueryRecord
from eddyline.documents import Trial, Why, WhyNot
from eddyline.model import Shape
from eddyline.sql import part_words

SAMPLED_ERRORS = 3


def branch_records(record: QueryRecord) -> list[QueryRecord]:
    """The plain queries that a query is the union of; itself alone, if it is one."""
    if not record.shape.branches:
        return [record]
    return [branch_record(record, branch) for branch in record.shape.all_branches]


def branch_record(record: QueryRecord, branch: Shape) -> QueryRecord:
    """A query as one of its branches."""
    return replace(record, shape=replace(branch, branches=()))


def part_of(record: QueryRecord) -> str:
    """Which part of UNION ALL a branch is, in words; nothing of a query without one."""
    return part_words(record.text, record.shape.parts, record.view_texts)


def nearest_why(found: Sequence[Why]) -> Why:
    """What parts say about a row: the one that matches, or fails in the fewest conditions, and the others after it."""
    first, *others = sorted(found, key=lambda why: (not why.matches, _n_failed(why)))
    return replace(first, others=tuple(others))


def nearest_why_not(found: Sequence[WhyNot]) -> WhyNot:
    """How rows fared with parts: the one with the nearest miss first; last those without one."""

    def distance(each: WhyNot) -> tuple[bool, int, float]:
        if each.nearest is None or each.distance is None:
            return True, 0, 0.0
        return False, _n_failed(each.nearest), each.distance

    first, *others = sorted(found, key=distance)
    return replace(first, others=tuple(others))


def _n_failed(why: Why) -> int:
    return sum(clause.verdict != "true" for clause in why.clauses)


def union_trial(tried: Sequence[Trial], n_rows: int, n_samples: int) -> Trial:
    """The trials of all parts together; `n_rows` different rows were tried. Parts that are joins have no matches to count."""
    matched = [each.n_matched for each in tried if each.n_matched is not None]
    samples = [row for each in tried for row in each.samples]
    errors = [error for each in tried for error in each.errors]
    return Trial(
        n_rows,
        sum(matched) if matched else None,
        sum(each.n_in_error for each in tried),
        tuple(samples[:n_samples]),
        tuple(errors[:SAMPLED_ERRORS]),
        parts=tuple(replace(each, samples=(), errors=()) for each in tried),
    )
