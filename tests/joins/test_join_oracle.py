"""Random joins over random streams give, round by round, what a twin finds that tries every combination of rows."""

from __future__ import annotations

import datetime
import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from tests.joins.lives import Lived, expected, lived, twin_results
from tests.joins.made_joins import COLUMNS, Case, Maker, RangeMaker, Row, Step
from tests.on_workers import opener
from tests.oracles.joins import (
    EPOCH,
    SECOND,
    Apply,
    Bound,
    Declared,
    Found,
    JoinQuery,
    Literal,
    Of,
    Source,
    Twin,
)
from tests.strategies import examples

sources_of_numbers = st.randoms(use_true_random=False)


def compare_with_twin(case: Case, **options: object) -> None:
    """Raises AssertionError at the first round in which the engine finds something else than the twin."""
    twin, life = Twin(case.streams), Lived(case, **options)
    with life.engine:
        for number, step in enumerate(case.steps):
            due, results = twin_results(twin, step), life.do(step)
            assert results == due, f"step {number} of\n{case}"


def stream(name: str, **declared: Any) -> Declared:
    return Declared(name, COLUMNS | {"ts": "TIMESTAMP"}, "ts", **declared)


def row(k: int, at_s: int | None) -> Row:
    ts = None if at_s is None else EPOCH + datetime.timedelta(seconds=at_s)
    return {"k": k, "m": k, "t": "a", "x": 1.5, "ts": ts}


@pytest.mark.parametrize(
    ("outer", "due"),
    [("", {((2, 0), (1,)): 1}), ("left", {((2, 0), (1,)): 1}), ("left anti", {})],
)
def test_a_row_without_a_time_meets_tables_whatever_window_its_stream_has(outer, due):
    """A window in time is how far rows of two streams may be apart; beside a table there is but one."""
    bids = stream("bids", window=Bound("older", 2 * SECOND))
    sources = (Source("p", "bids", bids.window, is_written=False), Source("q", "cars"))
    equal = (Apply("=", (Of(0, "k"), Of(1, "k"))),)
    outputs = (Of(0 if outer == "left anti" else 1, "m"),)
    query = JoinQuery(sources, () if outer else equal, outputs, outer=outer, on=equal if outer else ())
    came = Step("round", rows=(("cars", 1, row(1, 100)), ("bids", 2, row(1, None))))
    case = Case((bids, stream("cars", key=("k",))), (Step("add", "q", query), came))
    assert lived(case) == expected(case) == [{"q": due} if due else {}]


@pytest.mark.parametrize(
    "window", [None, Bound("rows", 6)], ids=["conditions alone", "conditions and a count"]
)
def test_a_row_that_is_not_late_meets_what_came_however_orderly_that_came(window):
    """Rows with rising numbers and times, until a stream of which none came begins a second before the latest of the other."""

    def apart(i: int, j: int, size_s: int) -> Apply:
        later = Apply("+", (Of(j, "ts"), Literal(datetime.timedelta(seconds=size_s))))
        return Apply("<", (Of(i, "ts"), later))

    where = (apart(1, 0, 5), apart(0, 1, 1), Apply("=", (Of(0, "k"), Of(1, "k"))))
    query = JoinQuery((Source("p", "bids", window), Source("q", "cars")), where, (Of(0, "ts"), Of(1, "ts")))
    came = [("bids", 14, row(1, 105)), ("bids", 35, row(1, 110)), ("cars", 47, row(1, 109))]
    rounds = tuple(Step("round", rows=(each,)) for each in came)
    streams = stream("bids", lateness_us=6 * SECOND), stream("cars")
    case = Case(streams, (Step("add", "q", query), *rounds))
    due: Found = Counter({((14, 47), (row(1, 105)["ts"], row(1, 109)["ts"])): 1})
    assert lived(case) == expected(case) == [{}, {}, {"q": due}]


@pytest.mark.parametrize("is_other_there", [False, True], ids=["alone", "beside another"])
def test_as_of_a_query_knows_the_latest_rows_it_began_with_and_what_came_since(is_other_there):
    """It has no results as of times before the row that a key had by then, whatever others still know of them."""
    sources = Source("p", "bids", only_drives=True), Source("q", "cars", is_as_of=True)
    as_of = JoinQuery(sources, (Apply("=", (Of(0, "k"), Of(1, "k"))),), (Of(0, "ts"), Of(1, "ts")))
    came = [
        ("cars", 1, row(1, 103)),
        ("cars", 2, row(1, 105)),
        ("bids", 3, row(1, 104)),  # the query begins before this one
        ("bids", 4, row(1, 105)),
        ("cars", 5, row(1, 101)),
        ("bids", 6, row(1, 102)),
        ("cars", 7, row(1, 109)),
        ("bids", 8, row(1, 107)),
    ]
    rounds = [Step("round", rows=(each,)) for each in came]
    others = [Step("add", "other", as_of)] if is_other_there else []
    streams = stream("bids", lateness_us=60 * SECOND), stream("cars", key=("k",), lateness_us=60 * SECOND)
    case = Case(streams, (*others, *rounds[:2], Step("add", "q", as_of), *rounds[2:]))

    def one_result(at_s: int, of_s: int, arrival: int) -> Found:
        return Counter({((arrival, 0), (row(1, at_s)["ts"], row(1, of_s)["ts"])): 1})

    results = lived(case)
    assert results == expected(case)
    own_results = [each["q"] for each in results if "q" in each]
    assert own_results == [one_result(105, 105, 4), one_result(107, 105, 8)]
    if is_other_there:
        found = [
            one_result(104, 103, 3),
            one_result(105, 105, 4),
            one_result(102, 101, 6),
            one_result(107, 105, 8),
        ]
        assert [each["other"] for each in results if "other" in each] == found


@given(sources_of_numbers)
def test_joins_that_come_and_go_give_what_the_twin_finds(rng):
    case = Maker(rng).case(n_steps=8, most_rows=7)
    note(str(case))
    assert lived(case) == expected(case)


@examples(0.3)
@given(sources_of_numbers)
def test_rows_without_numbers_arrive_a_stream_after_the_other(rng):
    case = Maker(rng).case(n_steps=6, most_rows=7).unnumbered()
    note(str(case))
    assert lived(case, numbers_rows=False) == expected(case)


@pytest.mark.parametrize("seed", range(12))
def test_joins_on_ranges_give_what_the_twin_finds(seed):
    for more in range(3):
        compare_with_twin(RangeMaker(random.Random(100 * seed + more)).case(n_steps=8, most_rows=7))


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(20))
def test_joins_of_many_small_lives_give_what_the_twin_finds(seed):
    for more in range(10):
        compare_with_twin(Maker(random.Random(1_000 * seed + more)).case(n_steps=10, most_rows=8))


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(5))
def test_joins_of_rows_worked_on_in_tasks_give_what_the_twin_finds(seed, tmp_path):
    """Every engine has a home, and the rows of streams without a key go through tasks in three pieces."""
    for more in range(6):
        case = Maker(random.Random(500 + 10 * seed + more)).case(n_steps=10, most_rows=12)
        compare_with_twin(case.unnumbered(), numbers_rows=False, open_engine=opener(tmp_path))


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(5))
def test_joins_in_workers_give_what_the_twin_finds(seed, tmp_path):
    """Rows are joined by replicas of what the driver holds, however few they are."""
    for more in range(6):
        case = Maker(random.Random(700 + 10 * seed + more)).case(n_steps=10, most_rows=12)
        open_engine = opener(tmp_path, join_from_rows=1)
        compare_with_twin(case.with_tables_apart().unnumbered(), numbers_rows=False, open_engine=open_engine)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(12))
def test_joins_of_long_lives_give_what_the_twin_finds(seed):
    compare_with_twin(Maker(random.Random(seed)).case(n_steps=40, most_rows=25))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 140))
def test_joins_of_very_many_lives_give_what_the_twin_finds(seed):
    for more in range(50):
        compare_with_twin(Maker(random.Random(1_000 * seed + more)).case(n_steps=14, most_rows=12))
