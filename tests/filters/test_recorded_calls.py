"""Functions that are not deterministic: called once for a pair and place in the text, and what they gave is stored."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import eddyline
from eddyline.expressions import Frame
from eddyline.expressions.frame import CallResult
from eddyline.filters import batch_evaluation
from eddyline.filters.recorded_calls import RecordedCalls
from eddyline.model import Condition, ExecutionChoices, Segment, Shape, UserCall
from eddyline.storage import OUTBOX


@pytest.fixture
def tickets():
    """Every value that ticket(n) has given, by order: 0, 1, 2, …; it fails where n is 13."""
    given = []

    @eddyline.udf(returns="int", name="ticket", deterministic=False, scalar=True)
    def ticket(n):
        given.append(n)
        if n == 13:
            raise ValueError("thirteen")
        return len(given) - 1

    return given


@pytest.fixture
def engine(tmp_path):
    with eddyline.open(tmp_path / "home") as engine:
        engine.stream("s", "n INT")
        yield engine


def stored(engine, number: int = 1) -> list[tuple[int, int, dict, dict | None]]:
    """Query, row, result and what was recorded with it, of every result of a round."""
    durable = engine.rounds.durable
    found = []
    for file in durable.rounds.files.of_round(OUTBOX, number):
        for part in durable.parts(file):
            none = [None] * len(part)
            recorded = none if part.recorded is None else part.recorded.to_pylist()
            rows = part.rows.to_pylist()
            found += zip(part.query_ids.tolist(), part.arrivals.tolist(), rows, recorded, strict=True)
    return sorted(found, key=lambda each: each[:2])


def test_what_calls_gave_is_stored_in_the_order_of_the_text_and_is_no_part_of_the_result(engine, tickets):
    query = engine.query("SELECT n, ticket(n) AS t FROM s WHERE ticket(n) >= 1 AND n > 0")
    engine.push("s", [(1,), (0,), (2,)])
    # the condition is asked about rows 1 and 3, the result about row 3 alone
    assert tickets == [1, 2, 2]
    assert stored(engine) == [(1, 3, {"n": 2, "t": 2}, {"ticket:1": 2, "ticket:2": 1})]
    assert query.results() == [{"n": 2, "t": 2}]
    assert query.results() == []


def test_queries_of_one_shape_each_have_values_of_their_own(engine, tickets):
    engine.query_many("SELECT n FROM s WHERE ticket(n) >= :least", params=[{"least": 0}, {"least": 2}])
    engine.push("s", [(7,), (8,)])
    assert len(tickets) == 4
    found = stored(engine)
    values = [recorded["ticket:1"] for _, _, _, recorded in found]
    assert len(values) == len(set(values)) >= 3
    assert all(value >= {1: 0, 2: 2}[query] for (query, *_), value in zip(found, values, strict=True))


@pytest.mark.parametrize(
    ("condition", "n_calls"),
    [
        ("ticket(n) BETWEEN 0 AND 100", 2),
        ("ticket(n) IN (0, 1)", 2),
        ("ticket(n) IN (1, n - n)", 2),  # two comparisons, since one option is computed
        (
            "(ticket(n) < 0 AND n > 0) OR (ticket(n) >= 0 AND n > 0)",
            4,
        ),  # the first place stands in two clauses
        ("NOT (ticket(n) < 0 OR ticket(n) > 100)", 4),
        ("CASE ticket(n) WHEN 5 THEN false WHEN 6 THEN false ELSE true END", 2),
        ("n > 0 OR ticket(n) > 100", 0),
    ],
)
@pytest.mark.parametrize("strict", [False, True])
def test_a_call_is_made_once_for_a_pair_however_often_its_place_is_asked(
    tmp_path, tickets, condition, n_calls, strict
):
    with eddyline.open(tmp_path / "home", strict=strict) as engine:
        engine.stream("s", "n INT")
        engine.query(f"SELECT n FROM s WHERE {condition}")
        engine.push("s", [(1,), (2,)])
        assert len(tickets) == n_calls
        found = stored(engine)
        assert [row for _, _, row, _ in found] == [{"n": 1}, {"n": 2}]
        made = [value for *_, recorded in found for value in recorded.values() if value is not None]
        assert sorted(made) == list(range(n_calls))


def test_a_call_that_was_not_made_or_failed_is_stored_as_null(engine, tickets):
    engine.query(
        "SELECT CASE WHEN n > 5 THEN ticket(n) ELSE -1 END AS t FROM s WHERE n > 2 OR ticket(n) < 100"
    )
    engine.push("s", [(1,), (13,), (7,)])
    assert tickets == [1, 13, 7]
    assert [(row["t"], recorded) for _, _, row, recorded in stored(engine)] == [
        (
            -1,
            {"ticket:1": None, "ticket:2": 0},
        ),  # n = 13 has a dead letter instead, since it is in the result
        (2, {"ticket:1": 2, "ticket:2": None}),
    ]
    (letter,) = engine.dead_letters()
    assert letter.row == {"n": 13}
    engine.get(1).replace("SELECT n FROM s WHERE ticket(n) < 100 OR n > 2")
    engine.push("s", [(13,)])
    assert stored(engine, 2) == [(1, 4, {"n": 13}, {"ticket:1": None})]


def test_calls_inside_of_calls_are_stored_too(engine, tickets):
    engine.query("SELECT ticket(ticket(n) + 100) AS t FROM s")
    engine.push("s", [(1,)])
    assert tickets == [1, 100]
    assert stored(engine) == [(1, 1, {"t": 1}, {"ticket:1": 1, "ticket:2": 0})]


def test_nothing_is_stored_with_results_of_functions_that_are_deterministic(engine):
    @eddyline.udf(returns="int", name="steady", scalar=True)
    def steady(n):
        return n

    engine.query("SELECT steady(n) AS t FROM s WHERE steady(n) > 0")
    engine.push("s", [(1,)])
    assert stored(engine) == [(1, 1, {"t": 1}, None)]


@pytest.mark.parametrize("strict", [False, True])
def test_pairs_decided_piece_by_piece_have_the_same_values_and_calls(tmp_path, tickets, monkeypatch, strict):
    monkeypatch.setattr(batch_evaluation, "PAIRS_AT_ONCE", 3)
    with eddyline.open(tmp_path / "home", strict=strict) as engine:
        engine.rounds.choices = ExecutionChoices(pairs_at_once=3)
        engine.stream("s", "n INT")
        for least in range(4):
            engine.query(
                f"SELECT ticket(n) AS t, n FROM s WHERE ticket(n) BETWEEN 0 AND 1000 AND n > {least}"
            )
        engine.push("s", [(n,) for n in range(6)])
        found = stored(engine)
        assert [(query, row["n"]) for query, _, row, _ in found] == [
            (query, n) for query in range(1, 5) for n in range(query, 6)
        ]
        assert all(row["t"] == recorded["ticket:1"] for _, _, row, recorded in found)
        drawn = [value for *_, recorded in found for value in recorded.values()]
        assert sorted(drawn) == list(range(len(tickets)))


# --------------------------------------------------------------------------------------------- kept by pair


def segment(n_queries: int) -> Segment:
    return Segment(
        Shape("", (), (), Condition(), ()),
        np.arange(1, n_queries + 1, dtype=np.int32),
        (),
        np.ones(n_queries, dtype=bool),
    )


def frame_of(call: UserCall, rows: np.ndarray, values: list[int | None], made: np.ndarray) -> Frame:
    called = CallResult(made, pa.array(values, pa.int32()), np.zeros(len(rows), np.int32))
    return Frame(len(rows), {}, call_results={call: called})


N_QUERIES = 3
PAIRS = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, N_QUERIES - 1), st.booleans()),
    unique_by=lambda pair: pair[:2],
    min_size=1,
)


@given(st.lists(PAIRS, max_size=6))
def test_the_first_value_of_a_pair_stays_its_value(frames):
    """Against a dict by row and query."""
    call = UserCall(pa.int32(), "ticket", (), is_deterministic=False, occurrence=1)
    mine, numbers = segment(N_QUERIES), itertools.count()
    recorded, expected = RecordedCalls(), {}
    for pairs in frames:
        rows, positions = (np.array(column, np.int64) for column in list(zip(*pairs, strict=True))[:2])
        asked = Frame(len(rows), {})
        recorded.fill(asked, [call], mine, rows, positions)
        known = asked.call_results.get(call)
        is_known = np.zeros(len(rows), dtype=bool) if known is None else known.rows
        assert is_known.tolist() == [pair[:2] in expected for pair in pairs]
        values = [
            expected.get((row, position), next(numbers)) if is_made else None
            for row, position, is_made in pairs
        ]
        made = np.array([is_made for *_, is_made in pairs])
        recorded.learn(frame_of(call, rows, values, made), [call, call], mine, rows, positions)
        for (row, position, is_made), value in zip(pairs, values, strict=True):
            if is_made:
                expected.setdefault((row, position), value)
        assert recorded.values(call, mine, rows, positions).to_pylist() == [
            expected.get(pair[:2]) for pair in pairs
        ]
        assert recorded.n == len(expected)
    recorded.forget()
    assert recorded.n == 0
    nothing = recorded.values(call, mine, np.array([0]), np.array([0]))
    assert nothing.to_pylist() == [None]
