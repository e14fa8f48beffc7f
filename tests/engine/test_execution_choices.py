"""What is chosen for the execution of rounds reaches every place that executes them, and changes no result."""

from __future__ import annotations

import itertools
import random
from dataclasses import fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import eddyline
from eddyline.engine import join_replica
from eddyline.model import ExecutionChoices, StructureChoices
from tests.engine.test_same_in_every_place import (
    CROSSED,
    QUERIES,
    UNIONS,
    letters,
    numbers,
    opened,
    rounds,
    with_quotes,
)
from tests.on_workers import through_tasks

# --------------------------------------------------------------------------------------------- no result changes

STRUCTURES: dict[str, list[Any]] = {
    "selective_keys": [0.5, 2, 16, 1e18],
    "narrow_share": [-1, 1 / 64, 0.3, 2],
    "least_in_key_lists": [1, 3, 256],
    "least_in_leaf_blocks": [1, 3, 1_024],
    "sampled_rows": [1, 4, 1_024],
    "small_index": [0, 4, 512],
    "small_part": [0, 2, 128],
    "most_parts": [1, 8],
    "overlay_share": [0, 1 / 8, 2],
    "masked_share": [0, 1 / 2, 2],
}
CHOICES: dict[str, list[Any]] = {
    "task_bytes": [1, 500, 8 << 20],
    "least_task_bytes": [1, 64 << 10],
    "task_s": [1e-6, 0.06],
    "most_tasks": [1, 2, 256],
    "join_from_rows": [1, 4, 1_000_000],
    "placement": ["by cost", "before", "after"],
    "judged_by": [1, 10, 1_000],
    "rows_at_once": [1, 3, 1 << 17],
    "combinations_at_once": [1, 3, 1 << 17],
    "pairs_at_once": [1, 5, 1 << 22],
    "remembered_pairs": [0, 2, 1 << 22],
}


def random_choices(rng: random.Random) -> ExecutionChoices:
    structures = {name: rng.choice(values) for name, values in STRUCTURES.items()}
    choices = {name: rng.choice(values) for name, values in CHOICES.items()}
    return ExecutionChoices(**choices, structures=StructureChoices(**structures))


def test_every_choice_is_drawn():
    names = {field.name for field in fields(ExecutionChoices)} - {"structures"}
    assert names == CHOICES.keys()
    assert {field.name for field in fields(StructureChoices)} == STRUCTURES.keys()


SETS = {"streams": QUERIES, "joins": CROSSED, "unions": UNIONS}
RENEWED_EVERY = 3  # rounds: then a query is dropped and another comes, so that indexes change


def lived(folder: Path, which: str, place: str, choices: list[ExecutionChoices]) -> Any:
    """What comes of a script whose rounds are executed by these choices in turn."""
    queries = SETS[which]
    first = next(iter(queries))
    with opened(folder, "in process", queries, results_per_query=10_000) as engine:
        if place == "in tasks":
            through_tasks(engine, n_pieces=3)
        script = zip(with_quotes(rounds(8)), itertools.cycle(choices), strict=False)
        for number, (rows, chosen) in enumerate(script):
            engine.rounds.choices = chosen
            if number % RENEWED_EVERY == 1:
                if number > 1:
                    engine.drop("renewed")
                engine.query(queries[first], name="renewed")
            engine.push(rows)
        return numbers(engine), letters(engine)


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    return {
        which: lived(tmp_path_factory.mktemp("expected"), which, "in process", [ExecutionChoices()])
        for which in SETS
    }


@pytest.mark.thorough
@pytest.mark.parametrize("place", ["in process", "in tasks"])
@pytest.mark.parametrize("which", SETS)
@pytest.mark.parametrize("seed", range(2))
def test_no_choice_changes_results_their_numbers_or_dead_letters(tmp_path, expected, which, place, seed):
    rng = random.Random(f"{which} {place} {seed}")
    choices = [random_choices(rng) for _ in range(rng.randint(1, 4))]
    found = lived(tmp_path, which, place, choices)
    (results, dead), errors = expected[which]
    assert len([name for name in results if len(results[name]) > 1]) >= len(results) - 2
    (found_results, found_dead), found_errors = found
    for name in results:
        assert found_results[name] == results[name], name
    assert (found_dead, found_errors) == (dead, errors)


@pytest.mark.thorough
def test_rows_of_a_view_that_have_one_number_are_joined_in_one_order_however_few_at_once(tmp_path, expected):
    """A row of trades is several rows of the view, which look for partners one by one here."""
    assert (
        lived(tmp_path, "joins", "in process", [ExecutionChoices(combinations_at_once=1)])
        == expected["joins"]
    )


# --------------------------------------------------------------------------------------------- every place hears of them


@eddyline.udf(returns="BIGINT")
def as_it_is(value: pa.Array) -> pa.Array:
    return pc.add(value, 0)


def n_calls(query: eddyline.Query) -> int:
    (function,) = query.explain().as_dict()["functions"]
    return int(function["n_calls"])


@pytest.fixture
def engine(tmp_path):
    with eddyline.open(tmp_path / "home") as engine:
        engine.stream("a", "k BIGINT, v BIGINT")
        engine.stream("b", "k BIGINT, v BIGINT")
        engine.stream("limits", "k BIGINT, low BIGINT, high BIGINT", key="k")
        yield engine


@pytest.mark.parametrize(("rows_at_once", "n_batches"), [(2, 5), (4, 3), (1 << 17, 1)])
def test_a_task_filters_as_many_rows_at_once_as_the_driver_chose(engine, rows_at_once, n_batches):
    query = engine.query("SELECT v FROM a WHERE as_it_is(v) >= 0", name="called")
    through_tasks(engine, n_pieces=1, rows_at_once=rows_at_once)
    engine.push("a", {"k": [1] * 10, "v": list(range(10))})
    assert len(query.latest(100)) == 10
    assert n_calls(query) == n_batches


@pytest.mark.parametrize(("combinations_at_once", "n_batches"), [(2, 3), (1 << 17, 1)])
def test_a_worker_joins_as_many_rows_at_once_as_the_driver_chose(engine, combinations_at_once, n_batches):
    query = engine.query(
        "SELECT a.v, b.v AS w FROM recent(a, 99) a JOIN recent(b, 99) b ON a.k = b.k WHERE as_it_is(a.v + b.v) >= 0",
        name="called",
    )
    through_tasks(
        engine, n_pieces=1, most_tasks=1, join_from_rows=1, combinations_at_once=combinations_at_once
    )
    engine.push("b", {"k": [1], "v": [0]})
    engine.push("a", {"k": [1] * 6, "v": list(range(6))})
    assert len(query.latest(100)) == 6
    assert n_calls(query) == n_batches


@pytest.mark.parametrize(
    ("structures", "kind"),
    [
        (StructureChoices(), "bitset blocks"),
        (StructureChoices(selective_keys=1e18, narrow_share=2, least_in_leaf_blocks=1), "leaf blocks"),
    ],
)
def test_an_index_that_is_built_in_a_worker_has_the_structures_the_driver_chose(engine, structures, kind):
    query = engine.query(
        "SELECT a.v, l.k FROM a JOIN limits l ON a.v BETWEEN l.low AND l.high", name="within"
    )
    engine.push("limits", {"k": [1, 2], "low": [0, 5], "high": [3, 9]})
    through_tasks(engine, n_pieces=1, join_from_rows=1, structures=structures)
    engine.push("a", {"k": [1, 0], "v": [2, 5]})
    assert [tuple(each.values()) for each in query.latest(10)] == [(2, 1), (5, 2)]
    (replica,) = join_replica._replicas.values()
    (rules,) = replica.joins.rules.filters()
    assert [each["kind"] for each in rules.structures()] == [kind]


def test_a_choice_that_changes_reaches_tasks_with_the_next_round(engine):
    query = engine.query("SELECT v FROM a WHERE as_it_is(v) >= 0", name="called")
    through_tasks(engine, n_pieces=1, rows_at_once=1)
    engine.push("a", {"k": [1] * 3, "v": [1, 2, 3]})
    assert n_calls(query) == 3
    engine.rounds.choices = ExecutionChoices()
    engine.push("a", {"k": [1] * 3, "v": [1, 2, 3]})
    assert n_calls(query) == 3 + 1
