"""The laws of `laws.py` over random histories, with errors in them."""

from __future__ import annotations

import random

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tests import laws
from tests.laws import History
from tests.strategies import (
    FALLIBLE_COLUMNS,
    FALLIBLE_VALUES,
    arrow_schema,
    cuts,
    examples,
    fallible_selections,
    schemas,
    selections,
    tables,
)


@st.composite
def histories(draw: st.DrawFn) -> History:
    if draw(st.booleans()):
        columns, queries, values = FALLIBLE_COLUMNS, fallible_selections(depth=2), {"values": FALLIBLE_VALUES}
    else:
        columns = draw(schemas())
        queries, values = selections(columns, depth=2), {}
    rows = draw(tables(columns, 12, **values))
    rounds = [rows.slice(start, stop - start) for start, stop in draw(cuts(len(rows), 2))]
    chosen = draw(st.lists(queries, min_size=1, max_size=4))
    texts = {f"q{n}": (query.text("s"), query.parameters()) for n, query in enumerate(chosen)}
    return History(arrow_schema(columns), texts, rounds)


@given(histories())
@examples(0.15)
def test_a_replay_gives_the_same_deltas(history):
    laws.replay_gives_the_same_deltas(history)


@given(histories(), st.lists(st.integers(0, 6), max_size=4))
@examples(0.3)
def test_cutting_a_batch_anywhere_gives_the_same_deltas(history, sizes):
    laws.cutting_into_other_rounds_gives_the_same(history, sizes)


@given(histories())
@examples(0.3)
def test_saving_loading_and_looking_change_nothing(history):
    laws.a_restored_stage_goes_on_as_if_nothing_had_happened(history)


@given(histories(), st.randoms(use_true_random=False))
@examples(0.3)
def test_the_order_of_registration_does_not_matter(history, rng):
    laws.the_order_of_registration_does_not_matter(history, rng)


@given(histories())
@examples(0.25)
def test_queries_together_answer_as_each_alone(history):
    laws.together_is_as_each_alone(history)


@given(histories())
@examples(0.15)
def test_another_seed_changes_no_result(history):
    laws.seeds_do_not_matter(history)


@given(histories(), st.integers(1, 6))
@examples(0.3)
def test_a_query_among_many_of_its_shape_answers_as_alone(history, n_others):
    laws.a_query_among_many_of_its_shape_answers_as_alone(history, n_others)


def test_a_template_is_as_its_texts():
    rng = random.Random(7)
    schema = pa.schema([("sym", pa.string()), ("price", pa.float64()), ("n", pa.int64())])
    rows = [
        {
            "sym": rng.choice(["A", "B", "C", None]),
            "price": rng.choice([1.0, 2.5, 9.0, float("nan"), None]),
            "n": rng.randrange(9),
        }
        for _ in range(60)
    ]
    rounds = [pa.Table.from_pylist(rows[:25], schema=schema), pa.Table.from_pylist(rows[25:], schema=schema)]
    table = [{"n": k, "sym": rng.choice("ABCD"), "high": rng.choice([0.5, 2.5, 100.0])} for k in range(40)]
    laws.a_template_is_as_its_texts(
        schema,
        "SELECT sym, price, :n AS k FROM s WHERE sym = :sym AND (price < :high OR n = :n)",
        table,
        lambda row: (
            f"SELECT sym, price, {row['n']}L AS k FROM s "
            f"WHERE sym = '{row['sym']}' AND (price < {row['high']}D OR n = {row['n']}L)"
        ),
        rounds,
    )
