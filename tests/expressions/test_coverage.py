"""What holds for every function and every judged expression at once; none of this needs Spark."""

from __future__ import annotations

import importlib
import re
from functools import cache
from pathlib import Path

import pytest

from eddyline.errors import EddylineError
from eddyline.expressions import FUNCTIONS
from eddyline.model import Call
from tests.expressions.edge_values import numbered
from tests.expressions.judge import Cases, outcome, same
from tests.expressions.known_differences import KNOWN, NOT_JUDGED
from tests.scalars import scalar

FAMILIES = sorted(
    path.stem
    for path in Path(__file__).parent.glob("test_*.py")
    if "Cases(" in path.read_text() and path != Path(__file__)
)


@cache
def cases(family: str) -> list[Cases]:
    """All tables of expressions at the top of a test file."""
    module = importlib.import_module(f"tests.expressions.{family}")
    lists = [value for value in vars(module).values() if isinstance(value, list)]
    return [case for found in lists for case in found if isinstance(case, Cases)]


@cache
def judged_names() -> frozenset[str]:
    """Every name a judged expression is written with or bound to."""
    names: set[str] = set()
    for family in FAMILIES:
        for case in cases(family):
            for expression in case.expressions:
                names |= {word.lower() for word in re.findall(r"\w+(?=\s*\()", expression)}
                try:
                    bound = scalar(expression, numbered(case.table).schema)
                except EddylineError:
                    continue
                names |= {node.function for node in bound.walk() if isinstance(node, Call)}
    return frozenset(names)


@pytest.mark.parametrize("name", sorted(FUNCTIONS.keys() - NOT_JUDGED.keys()))
def test_every_function_is_judged_by_spark(name):
    entry = FUNCTIONS[name]
    is_written_as_call = re.fullmatch(r"\w+", name) and not (entry.is_operator and entry.name != name)
    assert (name if is_written_as_call else entry.name) in judged_names()


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_every_function_says_how_it_is_written_and_what_it_gives(name):
    entry = FUNCTIONS[name]
    assert entry.signature
    assert entry.summary.endswith("."), entry.summary


@pytest.mark.thorough
@pytest.mark.parametrize("family", FAMILIES)
def test_a_slice_of_a_table_gives_the_slice_of_the_results(family):
    """Arrow arrays may begin in the middle of their buffers, and batches may be empty."""
    for case in cases(family):
        start, length = len(case.table) // 3, len(case.table) // 2
        for expression in case.expressions:
            whole = outcome(case.table, expression, "UTC")
            if whole.refusal is not None:
                continue
            part = outcome(case.table.slice(start, length), expression, "UTC")
            assert same(part.values, whole.values[start : start + length]), expression
            inside = {row - start: e for row, e in whole.errors.items() if start <= row < start + length}
            assert part.errors == inside, expression
            assert outcome(case.table.slice(0, 0), expression, "UTC").values == [], expression


def test_every_known_difference_is_judged():
    texts = [e for family in FAMILIES for case in cases(family) for e in case.expressions]
    for pattern, reason in KNOWN:
        assert any(re.fullmatch(pattern, text) for text in texts), reason
