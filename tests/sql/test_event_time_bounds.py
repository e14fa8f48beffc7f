"""Event-time conditions: what they say, how they are rewritten, and how bounds add up over inputs."""

from __future__ import annotations

from datetime import timedelta
from itertools import product

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from eddyline import types
from eddyline.expressions import Context, Evaluation, Frame, evaluate
from eddyline.model import Clause, Stream
from eddyline.sql import Shapes, normalise, render
from eddyline.sql.event_time_bounds import EventTimes, Reach, TimeBound, TimeDifference, reach_of
from tests.scalars import scalar
from tests.sql.join_streams import STREAMS, keys_of, shape_of, shown

SECOND, MINUTE, HOUR, DAY = 1_000_000, 60_000_000, 3_600_000_000, 86_400_000_000


def times_of(t: pa.DataType, *, has_fixed_zone: bool = True) -> EventTimes:
    return EventTimes([("ts", t), ("ts", t)], has_fixed_zone=has_fixed_zone)


def clause_of(text: str, t: pa.DataType = types.TIMESTAMP) -> Clause:
    schema = pa.schema([("0.ts", t), ("1.ts", t), ("0.n", pa.int64())])
    (clause,) = normalise(
        scalar(text.replace("a.", "`0.").replace("b.", "`1.").replace("ts", "ts`"), schema)
    ).clauses
    return clause


# ------------------------------------------------------------------------------------------------ what a comparison says


@pytest.mark.parametrize(
    ("text", "operator", "low"),
    [
        ("a.ts >= b.ts", ">=", 0),
        ("b.ts >= a.ts", "<=", 0),
        ("a.ts < b.ts + INTERVAL 10 MINUTES", "<", 10 * MINUTE),
        ("a.ts + INTERVAL 10 MINUTES > b.ts", ">", -10 * MINUTE),
        ("b.ts - INTERVAL 1 SECOND <= a.ts", ">=", -SECOND),
        ("a.ts - b.ts <= INTERVAL 3 SECONDS", "<=", 3 * SECOND),
        ("INTERVAL 3 SECONDS >= b.ts - a.ts", ">=", -3 * SECOND),
        ("a.ts = b.ts", "=", 0),
        ("a.ts - INTERVAL 2 DAYS = b.ts", "=", 2 * DAY),
        ("a.ts + INTERVAL 1 HOUR - b.ts < INTERVAL 90 MINUTES - INTERVAL 10 MINUTES", "<", 20 * MINUTE),
        ("a.ts - b.ts < -INTERVAL 5 SECONDS", "<", -5 * SECOND),
        ("NOT a.ts >= b.ts", "<", 0),
    ],
)
def test_a_comparison_linear_in_two_times_is_a_bound_on_their_difference(
    text: str, operator: str, low: int
) -> None:
    assert times_of(types.TIMESTAMP).difference(clause_of(text)) == TimeDifference(0, 1, operator, low, low)


@pytest.mark.parametrize(
    "text",
    [
        "a.ts != b.ts",
        "a.ts <=> b.ts",
        "a.ts > now()",
        "a.ts < b.ts OR a.ts IS NULL",
        "a.ts - b.ts < b.ts - a.ts",
        "a.ts >= a.ts",
        "date_trunc('DAY', a.ts) = b.ts",
        "CAST(a.ts AS DATE) < b.ts",
    ],
)
def test_other_conditions_say_nothing_of_event_time(text: str) -> None:
    assert times_of(types.TIMESTAMP).difference(clause_of(text)) is None


def test_columns_that_are_not_the_time_of_their_stream_say_nothing() -> None:
    times = EventTimes([("at", types.TIMESTAMP), ("ts", types.TIMESTAMP)], has_fixed_zone=True)
    assert times.difference(clause_of("a.ts < b.ts")) is None


@pytest.mark.parametrize(
    ("operator", "bounds"),
    [
        ("<=", {(1, 0): 5}),
        ("<", {(1, 0): 4}),
        (">=", {(0, 1): -5}),
        (">", {(0, 1): -6}),
        ("=", {(1, 0): 5, (0, 1): -5}),
    ],
)
def test_what_a_difference_bounds(operator: str, bounds: dict[tuple[int, int], int]) -> None:
    found = TimeDifference(0, 1, operator, 5, 5).bounds
    assert {(bound.origin, bound.to): bound.most_us for bound in found} == bounds


# ------------------------------------------------------------------------------------------------ rewriting


def truth(clause: Clause, a: np.ndarray, b: np.ndarray, t: pa.DataType, zone: str) -> list[bool | None]:
    columns = {("", "0.ts"): pa.array(a).cast(t), ("", "1.ts"): pa.array(b).cast(t)}
    frame = Frame(len(a), columns, context=Context(time_zone=zone))
    found: Evaluation = evaluate(clause.atoms[0].condition, frame)
    assert found.errors is None
    return frame.array(found).to_pylist()


# around the changes of clocks in Berlin in 2024, and elsewhere
AROUND = st.sampled_from([1_711_846_800, 1_729_990_800, 1_718_000_000]).flatmap(
    lambda second: st.integers((second - 200_000) * SECOND, (second + 200_000) * SECOND)
)
INTERVALS = st.sampled_from(
    [
        "0 SECONDS",
        "10 MINUTES",
        "1 MICROSECOND",
        "23 HOURS",
        "1 DAY",
        "2 DAYS",
        "-3 DAYS",
        "1 MONTH",
        "-2 MONTHS",
    ]
)
FORMS = st.sampled_from(
    [
        "a.ts {} b.ts + INTERVAL {}",
        "a.ts - INTERVAL {1} {0} b.ts",
        "a.ts - b.ts {} INTERVAL {}",
        "b.ts {} a.ts - INTERVAL {}",
    ]
)


@given(
    form=FORMS,
    operator=st.sampled_from(["<", "<=", ">", ">=", "="]),
    interval=INTERVALS,
    pairs=st.lists(st.tuples(AROUND, AROUND), min_size=1, max_size=20),
    t=st.sampled_from([types.TIMESTAMP, types.TIMESTAMP_NTZ]),
    zone=st.sampled_from(["UTC", "+02:00", "Europe/Berlin"]),
)
@example(  # a day in which clocks go forward has 23 hours
    "a.ts {} b.ts + INTERVAL {}",
    "<=",
    "1 DAY",
    [(1_711_800_000 * SECOND + 23 * HOUR, 1_711_800_000 * SECOND)],
    types.TIMESTAMP,
    "Europe/Berlin",
)
def test_rewriting_changes_no_outcome_and_no_match_is_beyond_its_bounds(
    form: str, operator: str, interval: str, pairs: list[tuple[int, int]], t: pa.DataType, zone: str
) -> None:
    if "MONTH" in interval and "a.ts - b.ts" in form:
        return  # differences are not compared with months
    clause = clause_of(form.format(operator, interval), t)
    times = times_of(t, has_fixed_zone=zone != "Europe/Berlin")
    said = times.difference(clause)
    assert said is not None
    rewritten = times.rewritten(clause, said)
    a, b = (np.array(side, dtype=np.int64) for side in zip(*pairs, strict=True))
    expected = truth(clause, a, b, t, zone)
    assert truth(rewritten, a, b, t, zone) == expected
    for x, y, is_match in zip(a.tolist(), b.tolist(), expected, strict=True):
        for bound in said.bounds if is_match else ():
            later, earlier = (x, y) if bound.to == 0 else (y, x)
            assert later - earlier <= bound.most_us


@pytest.mark.parametrize(
    ("text", "t", "is_fixed", "expected"),
    [
        ("a.ts < b.ts + INTERVAL 1 DAY", types.TIMESTAMP, True, "`0.ts` - `1.ts` < INTERVAL '86400' SECONDS"),
        ("b.ts <= a.ts", types.TIMESTAMP_NTZ, False, "`0.ts` - `1.ts` >= INTERVAL '0' SECONDS"),
        (
            "a.ts < b.ts + INTERVAL 1 HOUR",
            types.TIMESTAMP,
            False,
            "unix_micros(`0.ts`) - unix_micros(`1.ts`) < 3600000000",
        ),
        (
            "a.ts < b.ts + INTERVAL 1 DAY",
            types.TIMESTAMP,
            False,
            "`0.ts` < `1.ts` + INTERVAL '86400' SECONDS",
        ),
        (
            "a.ts - b.ts < INTERVAL 1 HOUR",
            types.TIMESTAMP,
            False,
            "`0.ts` - `1.ts` < INTERVAL '3600' SECONDS",
        ),
        ("a.ts - b.ts < 5", types.INT, True, "CAST(`0.ts` AS BIGINT) - CAST(`1.ts` AS BIGINT) < 5"),
    ],
)
def test_a_comparison_becomes_one_of_an_attribute_where_that_is_exact(
    text: str, t: pa.DataType, is_fixed: bool, expected: str
) -> None:
    clause, times = clause_of(text, t), times_of(t, has_fixed_zone=is_fixed)
    said = times.difference(clause)
    assert said is not None
    assert render(times.rewritten(clause, said).atoms[0].condition) == expected


def test_where_clocks_change_a_day_reaches_further_than_a_day() -> None:
    text = (
        "SELECT t.sym FROM trades t JOIN news n ON t.sym = n.sym AND t.ts BETWEEN n.ts AND n.ts + INTERVAL {}"
    )

    def reach(interval: str, zone: str) -> Reach:
        join = shape_of(text.format(interval), time_zone=zone).join
        assert join is not None
        return join.reach_us

    assert reach("1 DAY", "UTC") == ((0, DAY), (0, 0))
    assert reach("1 DAY", "Europe/Berlin") == ((0, 3 * DAY), (0, 0))
    assert reach("1 HOUR", "Europe/Berlin") == ((0, HOUR), (0, 0))
    assert reach("1 MONTH", "UTC") == ((0, 31 * DAY), (0, 0))


# ------------------------------------------------------------------------------------------------ whole queries


def reach_in(text: str) -> Reach:
    join = shape_of(text).join
    assert join is not None
    return join.reach_us


def test_bounds_over_a_chain_of_three_inputs_add_up() -> None:
    # asks, bids, trades: a bid follows its ask within 5 minutes, a trade its bid within 10
    assert reach_in(
        "SELECT t.sym FROM asks a JOIN bids b ON a.sym = b.sym AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 5 MINUTES"
        " JOIN trades t ON t.sym = b.sym AND t.ts BETWEEN b.ts AND b.ts + INTERVAL 10 MINUTES"
    ) == ((0, 5 * MINUTE, 15 * MINUTE), (0, 0, 10 * MINUTE), (0, 0, 0))


def test_bounds_over_a_chain_of_four_inputs_add_up() -> None:
    # asks < bids < news < trades < asks + 1 minute, each strictly
    assert reach_in(
        "SELECT t.sym FROM asks a, bids b, news n, trades t WHERE a.sym = b.sym AND b.sym = n.sym AND n.sym = t.sym"
        " AND a.ts < b.ts AND b.ts < n.ts AND n.ts < t.ts AND t.ts < a.ts + INTERVAL 1 MINUTE"
    ) == (
        (0, MINUTE - 3, MINUTE - 2, MINUTE - 1),
        (-1, 0, MINUTE - 3, MINUTE - 2),
        (-2, -1, 0, MINUTE - 3),
        (-3, -2, -1, 0),
    )


def test_conditions_between_a_stream_and_a_table_count_too() -> None:
    assert reach_in(
        "SELECT t.sym FROM trades t JOIN quotes q ON t.sym = q.sym AND t.ts < q.ts + INTERVAL 1 MINUTE"
    ) == ((0, MINUTE - 1), (None, 0))


def test_an_equality_of_times_is_a_key_and_a_bound() -> None:
    shape = shape_of(
        "SELECT t.sym FROM trades t JOIN news n ON t.sym = n.sym AND t.ts = n.ts + INTERVAL 1 SECOND"
    )
    assert keys_of(shape) == ["0:sym = 1:sym", "0:ts + INTERVAL '1' SECONDS = 1:ts"]
    assert shape.condition.clauses == ()
    assert shape.join is not None
    assert shape.join.reach_us == ((0, SECOND), (-SECOND, 0))


def test_times_that_cannot_be_make_a_query_that_never_matches() -> None:
    shape = shape_of(
        "SELECT t.sym FROM trades t JOIN news n ON t.sym = n.sym AND t.ts > n.ts AND t.ts <= n.ts"
    )
    assert [render(e) for e in shape.condition.never] == ["TRUE"]
    assert shape.join is not None
    assert shape.join.reach_us == ((0, 0), (0, 0))


def test_times_that_are_whole_numbers_are_compared_with_literals_of_the_shape() -> None:
    shapes = Shapes()
    text = "SELECT c.sym FROM counts c JOIN sums s ON c.sym = s.sym AND c.num - s.num BETWEEN 0 AND {} AND c.id > 3"
    found, values = shapes.shape_of(text.format(250), STREAMS)
    other, _ = shapes.shape_of(text.format(300), STREAMS)
    assert found.join is not None
    assert other.join is not None
    assert found.join.reach_us == ((0, 0), (250, 0))
    assert other.join.reach_us == ((0, 0), (300, 0))
    assert values == [3]
    assert shown(found.condition.clauses)[:2] == ["`0.num` - `1.num` >= 0", "`0.num` - `1.num` <= 250"]


def test_a_parameter_bounds_nothing() -> None:
    text = "SELECT c.sym FROM recent(counts, 5) c JOIN recent(sums, 5) s ON c.sym = s.sym AND c.num - s.num < :most"
    found, _ = Shapes().shape_of(text, STREAMS, params={"most": types.BIGINT})
    assert found.join is not None
    assert found.join.reach_us == ((0, None), (None, 0))


def test_times_of_different_kinds_are_not_compared() -> None:
    local = Stream("local", pa.schema([("sym", types.STRING), ("ts", types.TIMESTAMP_NTZ)]), time="ts")
    text = "SELECT t.sym FROM recent(trades, 5) t JOIN recent(local, 5) l ON t.sym = l.sym AND t.ts = l.ts"
    join = shape_of(text, streams=STREAMS | {"local": local}).join
    assert join is not None
    assert join.reach_us == ((0, None), (None, 0))


# ------------------------------------------------------------------------------------------------ shortest paths

LARGEST = 12


@st.composite
def bound_lists(draw: st.DrawFn) -> tuple[int, list[TimeBound]]:
    n_inputs = draw(st.integers(2, 4))
    place = st.integers(0, n_inputs - 1)
    pair = st.tuples(place, place).filter(lambda pair: pair[0] != pair[1])
    drawn = draw(st.lists(st.tuples(pair, st.integers(-2, 3)), max_size=6))
    return n_inputs, [TimeBound(origin, to, most) for (origin, to), most in drawn]


@given(bound_lists())
def test_reach_is_the_tightest_bound_that_holds_for_all_times(case: tuple[int, list[TimeBound]]) -> None:
    n_inputs, bounds = case
    span = range(-LARGEST // 2, LARGEST // 2 + 1) if n_inputs < 4 else range(-4, 5)
    # one time may stay where it is: only differences matter
    allowed = [
        times
        for rest in product(span, repeat=n_inputs - 1)
        for times in [(0, *rest)]
        if all(times[bound.to] - times[bound.origin] <= bound.most_us for bound in bounds)
    ]
    reach = reach_of(n_inputs, bounds)
    if reach is None:
        assert not allowed
        return
    for i, j in product(range(n_inputs), repeat=2):
        most, found = reach[i][j], [times[j] - times[i] for times in allowed]
        if most is None:
            continue
        assert all(gap <= most for gap in found)
        assert_reached(n_inputs, bounds, i, j, most)


def assert_reached(n_inputs: int, bounds: list[TimeBound], i: int, j: int, most: int) -> None:
    """Some times fulfil all bounds and are that far apart: those that lie as far above i as they may."""
    far = 1_000
    times = [0 if place == i else far for place in range(n_inputs)]
    for _ in range(n_inputs):
        for bound in bounds:
            times[bound.to] = min(times[bound.to], times[bound.origin] + bound.most_us)
    assert times[i] == 0
    assert times[j] == most
    assert all(times[bound.to] - times[bound.origin] <= bound.most_us for bound in bounds)


def test_bounds_that_exclude_each_other_have_no_reach() -> None:
    assert reach_of(2, [TimeBound(0, 1, -1), TimeBound(1, 0, 0)]) is None
    assert reach_of(3, [TimeBound(0, 1, 5), TimeBound(1, 2, -3), TimeBound(2, 0, -3)]) is None
    assert reach_of(2, []) == ((0, None), (None, 0))


def test_intervals_are_counted_in_microseconds() -> None:
    said = times_of(types.TIMESTAMP).difference(clause_of("a.ts < b.ts + INTERVAL 1 MICROSECOND"))
    assert said is not None
    assert said.low == timedelta(microseconds=1) // timedelta(microseconds=1)
