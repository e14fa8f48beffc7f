"""Matches in the user's hands are the same, whether the filters gave lists, bitmaps or parts."""

from __future__ import annotations

import numpy as np
import pytest

import eddyline
from eddyline.events import ResultsDropped
from eddyline.filters import FilterOutput, FilterStage, matching
from tests.made_hits import bitmap_hits, list_hits


def _as_hits(output: FilterOutput, form: str) -> FilterOutput:
    """The same matches in another form; queries that compute what they show stay as they are."""
    computing = tuple(part for part in output.parts if part.computed_values)
    plain = FilterOutput(
        output.batch, output.plan, output.hits, tuple(p for p in output.parts if not p.computed_values)
    )
    offsets, ids = plain.pairs()
    pairs = [(row, int(i)) for row in range(len(output.batch)) for i in ids[offsets[row] : offsets[row + 1]]]
    n_rows, distinct = len(output.batch), sorted({i for _, i in pairs})
    if form == "a list":
        hits = (list_hits(n_rows, pairs),)
    elif form == "a bitmap":
        hits = (bitmap_hits(n_rows, distinct or [0], pairs),)
    else:
        odd, even = [p for p in pairs if p[1] % 2], [p for p in pairs if not p[1] % 2]
        hits = (list_hits(n_rows, odd), bitmap_hits(n_rows, distinct or [0], even))
    return FilterOutput(output.batch, output.plan, hits, computing, output.dead_pairs)


@pytest.fixture(params=["a list", "a bitmap", "both"])
def form(request, monkeypatch):
    """Whatever the filters find reaches the engine in this form."""
    push = FilterStage.push
    monkeypatch.setattr(
        FilterStage, "push", lambda stage, *arguments: _as_hits(push(stage, *arguments), request.param)
    )
    return request.param


@pytest.fixture
def engine(form):
    return _declared(eddyline.open())


def _declared(engine):
    engine.stream("s", "n INT, t STRING")
    return engine


def push(engine, *numbers: int):
    return engine.push("s", [(n, "x") for n in numbers])


def some_queries(engine):
    """Two of one shape, one of another, one that computes what it shows, one that never matches."""
    few = [
        engine.query("SELECT n, :limit AS top FROM s WHERE n < :limit", params={"limit": k}) for k in (3, 5)
    ]
    return [
        *few,
        engine.query("SELECT t, 'all' AS which FROM s"),
        engine.query("SELECT n * 10 AS tens FROM s WHERE n > 1"),
        engine.query("SELECT n FROM s WHERE n > 100"),
    ]


def test_what_a_push_returns(engine):
    three, five, everything, tens, none = some_queries(engine)
    matches = push(engine, 4, 2, 9)
    assert matches.count == 9
    offsets, ids = matches.pairs()
    by_row = [set(each.tolist()) for each in np.split(ids, offsets[1:-1])]
    assert by_row == [
        {five.id, everything.id, tens.id},
        {three.id, five.id, everything.id, tens.id},
        {everything.id, tens.id},
    ]
    assert matches.rows().tolist() == [0] * 3 + [1] * 4 + [2] * 2
    assert [query.id for query in matches.queries()] == [three.id, five.id, everything.id, tens.id]
    assert matches.to_arrow(three).to_pylist() == [{"n": 2, "top": 3}]
    assert matches.to_arrow(five).to_pylist() == [{"n": 4, "top": 5}, {"n": 2, "top": 5}]
    assert matches.to_arrow(everything).to_pylist() == [{"t": "x", "which": "all"}] * 3
    assert matches.to_arrow(tens).to_pylist() == [{"tens": 40}, {"tens": 20}, {"tens": 90}]
    assert matches.to_arrow(none).num_rows == 0
    assert matches.to_arrow(none).schema == none.schema


def test_results_are_read_later_even_if_the_query_was_replaced_meanwhile(engine):
    three, five, everything, tens, _ = some_queries(engine)
    push(engine, 4, 2)
    five.replace("SELECT t FROM s WHERE n = 4")
    push(engine, 4, 1)
    assert five.results() == [{"n": 4, "top": 5}, {"n": 2, "top": 5}, {"t": "x"}]
    assert [result.generation for result in five.latest()] == [1, 1, 2]
    assert [result.arrival for result in five.latest()] == [1, 2, 3]
    assert [query.n_results for query in (three, five, everything, tens)] == [2, 3, 4, 3]
    assert three.latest(1) == [{"n": 1, "top": 3}]


def test_callbacks_hear_of_their_own_query_alone_in_order_of_arrival(engine):
    heard = []
    _, five, _, tens, none = some_queries(engine)
    for query in (five, tens, none):
        query.on_result(heard.append)
    push(engine, 4, 2, 9)
    assert heard == [{"n": 4, "top": 5}, {"n": 2, "top": 5}, {"tens": 40}, {"tens": 20}, {"tens": 90}]
    assert [result.query_id for result in heard] == [five.id] * 2 + [tens.id] * 3


def test_a_callback_that_drops_another_query_silences_it(engine):
    heard = []
    three, five, *_ = some_queries(engine)
    three.on_result(lambda result: five.drop())
    five.on_result(heard.append)
    push(engine, 1)
    assert heard == []


def test_the_ring_says_how_many_results_left_it(form):
    engine = _declared(eddyline.open(results_per_query=10, result_bytes=20_000))
    common, rare = engine.query("SELECT n FROM s"), engine.query("SELECT n FROM s WHERE n = 0")
    push(engine, 0)
    for start in range(1, 1001, 100):
        push(engine, *range(start, start + 100))
    dropped = sum(event.n_results for event in engine.events() if isinstance(event, ResultsDropped))
    assert dropped == engine.rounds.results.n_dropped > 0
    assert (common.n_results, rare.n_results) == (1001, 1)
    assert [result["n"] for result in common.latest()] == list(range(991, 1001))
    assert common.n_dropped == 1001 - len(common.latest(1001)) > 0
    if form == "a list":
        assert rare.latest() == [{"n": 0}]


def test_a_home_keeps_all_results_projected(form, tmp_path):
    with eddyline.open(tmp_path / "home") as engine:
        _declared(engine)
        ids = [query.id for query in some_queries(engine)]
        push(engine, 4, 2)
        push(engine, 9)
        before = [engine.get(each).latest() for each in ids]
    with eddyline.open(tmp_path / "home") as engine:
        assert [engine.get(each).latest() for each in ids] == before
        assert before[:2] == [[{"n": 2, "top": 3}], [{"n": 4, "top": 5}, {"n": 2, "top": 5}]]
        assert before[3] == [{"tens": 40}, {"tens": 20}, {"tens": 90}]
        assert engine.get(ids[1]).results(after="1-1") == [{"n": 2, "top": 5}]
        assert [engine.get(each).n_results for each in ids] == [1, 2, 3, 3, 0]


def test_a_push_looks_nothing_up_unless_somebody_listens(engine, monkeypatch):
    def refuse(*arguments):
        raise AssertionError("looked up in a push")

    def push_then_refuse(stage, *arguments):
        output = filters_push(stage, *arguments)
        for name in ("decode_rows", "decode_rows_at", "copy_rows_at", "parts_by_segment"):
            during.setattr(matching, name, refuse)
        during.setattr(matching.HitMatches, "part_of", refuse)
        return output

    some_queries(engine)
    filters_push = FilterStage.push
    with monkeypatch.context() as during:
        during.setattr(FilterStage, "push", push_then_refuse)
        matches = push(engine, 4, 2, 9)
    assert matches.count == 9
