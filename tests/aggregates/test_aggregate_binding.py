"""Texts with aggregates, bound: the class of rows below, the aggregation, and the selection over it."""

from __future__ import annotations

import pyarrow as pa
import pytest

from eddyline.catalog import codec, is_same_shape
from eddyline.errors import EddylineError
from eddyline.model import AggregateCall, OverFrame, SessionWindow, Stream, TemporalBound, TimeWindow
from eddyline.sql import Shapes
from eddyline.types import BIGINT, BOOLEAN, DOUBLE, STRING, TIMESTAMP, decimal
from tests.aggregates.aggregate_streams import (
    STREAMS,
    VECTORS,
    aggregating,
    conditions,
    declared,
    results,
    rows_of,
    shape_of,
    view,
    view_of,
    with_view,
)

MINUTE = 60_000_000


def test_groups_are_a_selection_over_the_aggregation_of_a_class_of_rows() -> None:
    shape = shape_of(
        "SELECT card, count(*) AS n FROM auths WHERE declined GROUP BY card HAVING count(*) >= 5"
    )
    found = shape.aggregating
    assert found is not None
    (entry,) = shape.inputs
    assert (entry.stream, found.aggregation.keys, shape.stream) == (
        found.aggregation.rows,
        ("#k0",),
        found.aggregation.name,
    )
    assert found.calls == (AggregateCall("count", (), (), BIGINT),)
    assert (results(shape), conditions(shape, [5])) == (
        {"card": "`#k0`", "n": "`#count()`"},
        ["`#count()` >= 5"],
    )
    assert rows_of(shape) == {
        "#k0": "card",
        "card": "card",
        "amount": "amount",
        "declined": "declined",
        "ts": "ts",
    }
    assert entry.view is not None
    assert conditions(entry.view.shape) == ["declined = TRUE"]
    assert shape.streams == ("auths",)


def test_without_group_by_there_are_no_keys() -> None:
    shape = shape_of("SELECT count(*) AS n, sum(amount) AS total FROM auths HAVING n > 1")
    assert shape.aggregating is not None
    assert shape.aggregating.aggregation.keys == ()
    assert results(shape)["total"] == "checked(`#sum(amount)`, `#sum(amount)#overflow`)"
    assert conditions(shape, [1]) == ["`#count()` > 1"]


def test_expressions_of_groups_arguments_and_filters_are_columns_of_the_class() -> None:
    shape = shape_of(
        "SELECT amount % 10 AS digit, sum(100 / amount) FILTER (WHERE amount <> 0) AS s, max(ts) AS t"
        " FROM auths GROUP BY amount % 10"
    )
    rows = rows_of(shape)
    assert rows["#k0"] == "amount % 10"
    assert sorted(rows[name] for name in ("#e0", "#e1")) == [
        "CASE WHEN amount != 0 THEN 100.0 / CAST(amount AS DOUBLE) END",
        "amount != 0",
    ]
    assert shape.aggregating is not None
    by_function = {call.function: call for call in shape.aggregating.calls}
    assert rows[by_function["sum"].filter or ""] == "amount != 0"
    assert by_function["max"] == AggregateCall("max", ("ts",), (TIMESTAMP,), TIMESTAMP)
    assert results(shape)["digit"] == "`#k0`"


def test_a_class_does_not_depend_on_the_order_of_aggregates_or_on_what_is_selected() -> None:
    one = aggregating("SELECT card, sum(amount + 1) AS a, max(amount * 2) AS b FROM auths GROUP BY card")
    other = aggregating(
        "SELECT max(amount * 2) AS b, sum(amount + 1) + 1 AS a FROM auths AS x GROUP BY x.card HAVING b > 1"
    )
    assert one.aggregation == other.aggregation
    assert one.calls == other.calls


@pytest.mark.parametrize(
    "other",
    [
        "SELECT card, count(*) AS n FROM auths WHERE amount > 2 GROUP BY card",
        "SELECT amount, count(*) AS n FROM auths WHERE amount > 1 GROUP BY amount",
        "SELECT card, sum(amount / 2) AS n FROM auths WHERE amount > 1 GROUP BY card",
        "SELECT card, count(*) AS n FROM readings JOIN auths ON card = device AND auths.ts BETWEEN readings.ts AND"
        " readings.ts + INTERVAL 1 MINUTE WHERE amount > 1 GROUP BY card",
    ],
)
def test_other_rows_keys_or_computed_arguments_are_another_class(other: str) -> None:
    one = aggregating("SELECT card, count(*) AS n FROM auths WHERE amount > 1 GROUP BY card")
    assert aggregating(other).aggregation.rows != one.aggregation.rows


@pytest.mark.parametrize(
    ("written", "call"),
    [
        ("count(amount, card)", AggregateCall("count", ("amount", "card"), (BIGINT, STRING), BIGINT)),
        ("count(1)", AggregateCall("count", (), (), BIGINT)),
        ("count(DISTINCT amount, card)",
         AggregateCall("count", ("amount", "card"), (BIGINT, STRING), BIGINT, is_distinct=True)),
        ("count_if(declined)", AggregateCall("count_if", ("declined",), (BOOLEAN,), BIGINT)),
        ("mean(amount)", AggregateCall("avg", ("amount",), (BIGINT,), DOUBLE)),
        ("every(declined)", AggregateCall("bool_and", ("declined",), (BOOLEAN,), BOOLEAN)),
        ("some(declined)", AggregateCall("bool_or", ("declined",), (BOOLEAN,), BOOLEAN)),
        ("stddev(amount)", AggregateCall("stddev_samp", ("amount",), (BIGINT,), DOUBLE)),
        ("variance(amount)", AggregateCall("var_samp", ("amount",), (BIGINT,), DOUBLE)),
        ("any_value(card)", AggregateCall("first", ("card",), (STRING,), STRING)),
        ("first_value(card)", AggregateCall("first", ("card",), (STRING,), STRING)),
        ("first(card, true)", AggregateCall("first", ("card",), (STRING,), STRING, ignores_nulls=True)),
        ("last(card) IGNORE NULLS", AggregateCall("last", ("card",), (STRING,), STRING, ignores_nulls=True)),
        ("last_value(card) RESPECT NULLS", AggregateCall("last", ("card",), (STRING,), STRING)),
        ("min_by(card, amount)", AggregateCall("min_by", ("card", "amount"), (STRING, BIGINT), STRING)),
        ("sum(amount) FILTER (WHERE declined)", AggregateCall("sum", ("amount",), (BIGINT,), BIGINT, "declined")),
    ],
)  # fmt: skip
def test_an_aggregate_is_this_call(written: str, call: AggregateCall) -> None:
    assert aggregating(f"SELECT {written} AS x FROM auths").calls == (call,)


@pytest.mark.parametrize(("written", "t"), [("sum(price)", decimal(20, 2)), ("avg(price)", decimal(14, 6))])
def test_values_of_decimals_have_sparks_types_and_are_checked(written: str, t: object) -> None:
    shape = shape_of(f"SELECT {written} AS x FROM clicks")
    assert shape.output.field("x").type == t
    assert results(shape)["x"].startswith("checked(")


@pytest.mark.parametrize(
    ("written", "window"),
    [
        ("window(ts, '10 minutes')", TimeWindow(10 * MINUTE, 10 * MINUTE)),
        ("window(ts, '1 week', '1 day')", TimeWindow(7 * 1440 * MINUTE, 1440 * MINUTE)),
        ("window(ts, '1 hour 30 minutes', '45 minutes', '-5 minutes')", TimeWindow(90 * MINUTE, 45 * MINUTE, -5 * MINUTE)),
        ("session_window(ts, '5 minutes')", SessionWindow(5 * MINUTE)),
    ],
)  # fmt: skip
def test_windows_are_written_as_in_spark_first_or_after_other_groups(written: str, window: object) -> None:
    name = written.partition("(")[0]
    for groups in (f"{written}, card", f"card, {written}"):
        shape = shape_of(
            f"SELECT {name}.start AS s, {name}.end AS e, count(*) AS n FROM auths GROUP BY {groups}"
        )
        assert shape.aggregating is not None
        assert (shape.aggregating.aggregation.window, shape.aggregating.aggregation.keys) == (
            window,
            ("#k0",),
        )
        assert results(shape) == {"s": "`window`.start", "e": "`window`.`end`", "n": "`#count()`"}


def test_a_window_may_be_named_or_written_again_in_select() -> None:
    found = [
        shape_of("SELECT window, count(*) AS n FROM auths GROUP BY window(ts, '1 minute')"),
        shape_of(
            "SELECT window(ts, '1 minute') AS window, count(*) AS n FROM auths GROUP BY window(ts, '1 minute')"
        ),
        shape_of("SELECT window(ts, '1 minute') AS window, count(*) AS n FROM auths GROUP BY window"),
    ]
    assert [results(shape)["window"] for shape in found] == ["`window`"] * 3
    assert len({shape.stream for shape in found}) == 1


def test_queries_of_one_class_differ_in_windows_emit_and_keep() -> None:
    text = "SELECT card, count(*) AS n FROM auths GROUP BY card"
    found = [
        aggregating(text),
        aggregating(text, keep="30 days"),
        aggregating(f"{text}, window(ts, '1 minute')"),
        aggregating(f"{text}, window(ts, '1 minute')", emit="final"),
        aggregating(f"{text}, session_window(ts, '1 minute')"),
        aggregating("SELECT card, count(*) AS n FROM auths WHERE ts > now() - INTERVAL 1 HOUR GROUP BY card"),
        aggregating("SELECT count(*) OVER (PARTITION BY card ORDER BY ts) AS n FROM auths"),
    ]
    assert len({each.aggregation.rows for each in found}) == 1
    assert len({each.aggregation.name for each in found}) == len(found)
    assert [each.aggregation.keep_us for each in found[:2]] == [None, 30 * 24 * 60 * MINUTE]
    assert [each.aggregation.is_table for each in found] == [True, True, True, False, True, True, False]


@pytest.mark.parametrize(
    ("written", "frame"),
    [
        ("", OverFrame()),
        ("RANGE BETWEEN INTERVAL 10 MINUTES PRECEDING AND CURRENT ROW", OverFrame("range", 10 * MINUTE)),
        ("RANGE INTERVAL 1 DAY PRECEDING", OverFrame("range", 1440 * MINUTE)),
        ("RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW", OverFrame()),
        ("ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW", OverFrame()),
        ("ROWS BETWEEN 2 PRECEDING AND CURRENT ROW", OverFrame("rows", 2)),
        ("ROWS BETWEEN CURRENT ROW AND CURRENT ROW", OverFrame("rows", 0)),
    ],
)
def test_frames_of_over(written: str, frame: OverFrame) -> None:
    shape = shape_of(
        f"SELECT amount + 1 AS a, sum(amount) OVER (PARTITION BY card ORDER BY ts {written}) AS s FROM auths QUALIFY s > 3"
    )
    assert shape.aggregating is not None
    assert shape.aggregating.aggregation.is_over
    assert shape.aggregating.calls == (AggregateCall("sum", ("amount",), (BIGINT,), BIGINT, frame=frame),)
    assert results(shape)["a"] == "amount + ?1"
    assert len(shape.slots) == 2


def test_other_partitions_of_the_same_query_are_said_by_the_call() -> None:
    found = aggregating(
        "SELECT count(*) OVER (ORDER BY ts) AS n, count(*) OVER (PARTITION BY card ORDER BY ts) AS c,"
        " count(*) OVER (PARTITION BY amount, card ORDER BY ts) AS b FROM auths"
    )
    keys = {None if call.keys is None else len(call.keys) for call in found.calls}
    assert (len(found.aggregation.keys), keys) == (2, {None, 0, 1})
    assert len({call.name for call in found.calls}) == 3


def test_partitions_do_not_depend_on_the_order_of_their_expressions() -> None:
    one = aggregating("SELECT count(*) OVER (PARTITION BY card, amount ORDER BY ts) AS n FROM auths")
    other = aggregating("SELECT count(*) OVER (PARTITION BY amount, card ORDER BY ts) AS n FROM auths")
    assert one.aggregation == other.aggregation


@pytest.mark.parametrize(
    ("written", "n_back", "default"),
    [("lag(amount)", 1, None), ("lag(amount, 2, -1)", 2, -1), ("lag(amount, 0, 0)", 0, 0)],
)
def test_lag_says_how_far_back_and_what_else(written: str, n_back: int, default: object) -> None:
    shape = shape_of(f"SELECT {written} OVER (PARTITION BY card ORDER BY ts) AS x FROM auths")
    assert shape.aggregating is not None
    (call,) = shape.aggregating.calls
    assert (call.function, call.arguments, call.n_back, call.default) == ("lag", ("amount",), n_back, default)
    stored = codec.shape_from(codec.shape_to(shape)).aggregating
    assert stored == shape.aggregating


@pytest.mark.parametrize(
    ("condition", "bounds"),
    [
        ("ts > now() - INTERVAL 10 MINUTES", [TemporalBound("ts", 10 * MINUTE)]),
        ("ts >= now() - INTERVAL 10 MINUTES", [TemporalBound("ts", 10 * MINUTE + 1)]),
        ("now() - ts < INTERVAL 10 MINUTES", [TemporalBound("ts", 10 * MINUTE)]),
        ("ts + INTERVAL 10 MINUTES > now()", [TemporalBound("ts", 10 * MINUTE)]),
        ("NOT ts <= now() - INTERVAL 10 MINUTES", [TemporalBound("ts", 10 * MINUTE)]),
        ("ts > now() - INTERVAL 2 DAYS", [TemporalBound("ts", 2 * 1440 * MINUTE)]),
        ("ts <= now() + INTERVAL 1 MINUTE", [TemporalBound("ts", None, -MINUTE)]),
        ("ts < now()", [TemporalBound("ts", None, 1)]),
        ("ts BETWEEN now() - INTERVAL 1 MINUTE AND now()",
         [TemporalBound("ts", None, 0), TemporalBound("ts", MINUTE + 1)]),
    ],
)  # fmt: skip
def test_conditions_on_now_below_are_bounds_and_no_part_of_the_class(
    condition: str, bounds: list[TemporalBound]
) -> None:
    plain = aggregating("SELECT card, count(*) AS n FROM auths WHERE declined GROUP BY card")
    found = aggregating(f"SELECT card, count(*) AS n FROM auths WHERE declined AND {condition} GROUP BY card")
    assert (found.aggregation.rows, list(found.aggregation.bounds)) == (plain.aggregation.rows, bounds)


def test_a_time_that_is_computed_is_a_column_of_the_class() -> None:
    text = "SELECT count(*) AS n FROM auths WHERE date_trunc('hour', ts) > now() - INTERVAL {} HOURS"
    shape, other = shape_of(text.format(1)), shape_of(text.format(2))
    assert rows_of(shape)["#t0"] == "date_trunc('hour', ts)"
    assert shape.aggregating is not None
    assert shape.aggregating.aggregation.bounds[0].column == "#t0"
    assert shape.inputs[0].stream == other.inputs[0].stream


@pytest.mark.parametrize(
    ("having", "deadline", "condition"),
    [
        ("max(ts) < now() - INTERVAL 10 MINUTES", TemporalBound("#max(ts)", None, 10 * MINUTE + 1),
         "`#max(ts)` < `#now` - INTERVAL '600' SECONDS"),
        ("now() - max(ts) > INTERVAL 7 MINUTES", TemporalBound("#max(ts)", None, 7 * MINUTE + 1),
         "`#max(ts)` < `#now` - INTERVAL '420' SECONDS"),
        ("min(ts) <= now()", TemporalBound("#min(ts)", None, 0), "`#min(ts)` <= `#now`"),
        ("max(ts) > now() - INTERVAL 1 DAY", TemporalBound("#max(ts)", 1440 * MINUTE),
         "`#max(ts)` > timestamp_micros(unix_micros(`#now`) + -86400000000)"),
    ],
)  # fmt: skip
def test_now_in_having_has_a_deadline_and_is_compared_with_a_column(
    having: str, deadline: TemporalBound, condition: str
) -> None:
    shape = shape_of(f"SELECT device, max(ts) AS seen FROM readings GROUP BY device HAVING {having}")
    assert shape.aggregating is not None
    assert shape.aggregating.deadlines == (deadline,)
    assert conditions(shape) == [condition]


def test_now_may_stand_in_an_or_of_having() -> None:
    shape = shape_of(
        "SELECT device FROM readings GROUP BY device HAVING max(ts) < now() - INTERVAL 1 MINUTE OR NOT (min(ts) < now())"
    )
    assert shape.aggregating is not None
    assert [each.column for each in shape.aggregating.deadlines] == ["#max(ts)", "#min(ts)"]


def test_over_a_table_windows_name_their_column() -> None:
    found = aggregating(
        "SELECT shelf, count(*) AS n FROM stock GROUP BY shelf, window(due, '1 hour')"
    ).aggregation
    assert (found.reads_table, found.window_time, found.is_table) == (True, "due", True)


def test_a_join_below_gives_the_needed_columns_and_the_time_of_its_stream() -> None:
    shape = shape_of(
        "SELECT c.country, sum(a.amount) AS s FROM auths a JOIN cards c ON a.card = c.card"
        " GROUP BY c.country, window(a.ts, '1 minute')"
    )
    assert set(rows_of(shape)) == {"#k0", "auths.amount", "auths.ts"}
    other = shape_of(
        "SELECT y.country, max(x.amount) AS s FROM auths x JOIN cards y ON x.card = y.card"
        " WHERE x.ts > now() - INTERVAL 1 MINUTE GROUP BY y.country"
    )
    assert shape.inputs[0].stream == other.inputs[0].stream


def test_a_union_below_is_one_class_of_rows() -> None:
    shape = shape_of(
        "SELECT card, count(*) AS n FROM (SELECT card, ts FROM auths UNION ALL SELECT card, at FROM logins) GROUP BY card"
    )
    assert (shape.branches, shape.streams) == ((), ("auths", "logins"))
    rows = shape.inputs[0].view
    assert rows is not None
    assert rows.shape.inputs[0].view is not None
    assert len(rows.shape.inputs[0].view.shape.all_branches) == 2


def test_a_selection_around_groups_is_a_condition_on_them() -> None:
    inner = "SELECT card, count(*) AS n FROM auths GROUP BY card"
    around = shape_of(f"SELECT card FROM ({inner} HAVING count(*) > 1) WHERE n < 9 AND card <> 'A'")
    direct = shape_of(f"{inner} HAVING count(*) > 1 AND count(*) < 9")
    assert around.stream == direct.stream
    assert conditions(around, [1, 9, "A"]) == ["`#count()` > 1", "`#count()` < 9", "`#k0` != 'A'"]


def test_groups_of_groups_read_a_view_without_a_name() -> None:
    shape = shape_of(
        "SELECT n, count(*) AS cards FROM (SELECT card, count(*) AS n FROM auths GROUP BY card) GROUP BY n"
    )
    rows = shape.inputs[0].view
    assert shape.aggregating is not None
    assert rows is not None
    assert shape.aggregating.aggregation.reads_table
    assert rows.shape.inputs[0].view is not None
    assert rows.shape.inputs[0].view.shape.aggregating is not None


def test_parts_of_a_union_may_have_groups_of_their_own() -> None:
    shape = shape_of(
        "SELECT card, count(*) AS n FROM auths GROUP BY card UNION ALL SELECT card, count(*) FROM logins GROUP BY card"
    )
    assert [branch.aggregating is not None for branch in shape.all_branches] == [True, True]


@pytest.mark.parametrize(
    ("text", "stated", "source", "time", "is_windowed"),
    [
        ("SELECT card, count(*) OVER (PARTITION BY card ORDER BY ts) AS n, ts FROM auths", {}, "view", "ts", False),
        ("SELECT card, count(*) OVER (PARTITION BY card ORDER BY ts) AS n FROM auths", {}, "view", None, False),
        ("SELECT window AS w, count(*) AS n FROM auths GROUP BY window(ts, '1 minute')", {"emit": "final"}, "view", "w", False),
        ("SELECT window.start AS s, count(*) AS n FROM auths GROUP BY window(ts, '1 minute')", {"emit": "final"},
         "view", None, False),
        ("SELECT session_window AS w, count(*) AS n FROM auths GROUP BY session_window(ts, '1 minute')", {"emit": "final"},
         "view", None, False),
        ("SELECT window AS w, count(*) AS n FROM auths GROUP BY window(ts, '1 minute')", {}, "table view", None, True),
        ("SELECT card, count(*) AS n FROM auths GROUP BY card", {"keep": "1 day"}, "table view", None, False),
        ("SELECT count(*) AS n FROM auths WHERE ts > now() - INTERVAL 1 MINUTE", {}, "table view", None, False),
    ],
)  # fmt: skip
def test_a_view_is_this_to_those_that_read_it(
    text: str, stated: dict[str, str], source: str, time: str | None, is_windowed: bool
) -> None:
    stream = view("v", text, **stated)
    assert (stream.source, stream.time, stream.is_windowed) == (source, time, is_windowed)


def test_windows_over_final_windows_go_by_their_ends() -> None:
    streams = with_view(
        "minutes",
        "SELECT window AS w, count(*) AS n FROM auths GROUP BY window(ts, '1 minute')",
        emit="final",
    )
    shape = shape_of("SELECT sum(n) AS n FROM minutes GROUP BY window(w, '5 minutes')", streams, emit="final")
    assert shape.aggregating is not None
    assert shape.aggregating.aggregation.window == TimeWindow(5 * MINUTE, 5 * MINUTE)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT card, sum(amount) FILTER (WHERE declined) AS s FROM auths GROUP BY card HAVING s > 5",
        "SELECT card, window, avg(amount) AS a FROM auths GROUP BY card, window(ts, '5 minutes', '1 minute', '10 seconds')",
        "SELECT session_window.start AS s, first(card, true) AS f FROM auths GROUP BY session_window(ts, '5 minutes')",
        "SELECT shelf, min(price) AS lo FROM stock GROUP BY shelf, window(due, '5 minutes')",
        "SELECT card FROM auths WHERE ts > now() - INTERVAL 1 HOUR GROUP BY card HAVING max(ts) < now() - INTERVAL 1 MINUTE",
        "SELECT lag(ts, 2, TIMESTAMP '2026-01-01 00:00:00Z') OVER (ORDER BY ts) AS p,"
        " count(DISTINCT amount) OVER (PARTITION BY card ORDER BY ts ROWS 3 PRECEDING) AS d FROM auths QUALIFY d > 1",
    ],
)
def test_stored_shapes_are_read_as_they_were(text: str) -> None:
    shape = shape_of(text)
    stored = codec.shape_from(codec.shape_to(shape))
    assert is_same_shape(stored, shape)
    assert (stored.stream, codec.shape_to(stored)) == (shape.stream, codec.shape_to(shape))


def test_properties_of_groups_are_stored_with_the_shape() -> None:
    text = "SELECT card, count(*) AS n FROM auths GROUP BY card, window(ts, '5 minutes')"
    shape = shape_of(text, emit="final")
    stored = codec.shape_from(codec.shape_to(shape)).aggregating
    assert stored is not None
    assert stored.aggregation.is_final
    assert not is_same_shape(shape, shape_of(text))


def test_every_query_of_the_vectors_binds_and_is_stored_as_it_is() -> None:
    for case in VECTORS["cases"]:
        streams = declared(case["streams"])
        added = [step["add"] for step in case["steps"] if "add" in step]
        for query in (*case["queries"], *added):
            stated = query.get("properties") or {}
            shape = shape_of(query["sql"], streams, **stated)
            assert is_same_shape(codec.shape_from(codec.shape_to(shape)), shape), query
            streams[query["name"].lower()] = view_of(query["name"], shape, streams)


def test_a_selection_around_groups_may_ask_for_the_time_as_having_does() -> None:
    text = "SELECT device, max(ts) AS seen FROM readings GROUP BY device"
    for interval in ("10 MINUTES", "3 DAYS"):
        having = shape_of(f"{text} HAVING max(ts) < now() - INTERVAL {interval}")
        around = shape_of(f"SELECT device FROM ({text}) WHERE now() - seen > INTERVAL {interval}")
        twice = shape_of(
            f"SELECT device FROM ({text} HAVING max(ts) < now() - INTERVAL {interval}) WHERE device <> 'a'"
        )
        assert having.aggregating == around.aggregating == twice.aggregating
        assert conditions(having) == conditions(around) == conditions(twice)[:1]


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("SELECT card, sum(amount) % 7 AS amount FROM auths GROUP BY card HAVING amount > 5",
         "checked(`#sum(amount)`, `#sum(amount)#overflow`) % ?1 > ?2"),
        ("SELECT max(card) AS amount, amount AS x FROM auths GROUP BY amount HAVING amount > 5", "`#k0` > ?1"),
        ("SELECT upper(card) AS card, count(*) AS n FROM auths GROUP BY card HAVING card = 'a'", "`#k0` = ?1"),
        ("SELECT min(amount) AS amount FROM auths GROUP BY card HAVING max(amount) > 5", "`#max(amount)` > ?1"),
    ],
)  # fmt: skip
def test_a_name_in_having_is_a_grouped_column_before_one_of_select(text: str, condition: str) -> None:
    assert conditions(shape_of(text)) == [condition]


def test_times_that_are_counted_may_be_named_as_they_are_or_as_sql_computes_them() -> None:
    schema = pa.schema([("k", STRING), ("ms", BIGINT)])
    streams = {"t": Stream("t", schema, time="ms", properties=(("time_unit", "ms"),))}
    for time in ("ms", "timestamp_millis(ms)"):
        shape = shape_of(f"SELECT count(*) AS n FROM t GROUP BY window({time}, '1 minute')", streams)
        assert shape.aggregating is not None
        assert shape.aggregating.aggregation.window == TimeWindow(MINUTE, MINUTE)


def test_a_named_parameter_may_stand_above_aggregates_and_not_below() -> None:
    params = {"least": BIGINT}
    text = "SELECT card, count(*) AS n FROM auths GROUP BY card HAVING n >= :least"
    shape = Shapes().shape_of(text, STREAMS, params=params)[0]
    assert [slot.name for slot in shape.slots] == ["least"]
    with pytest.raises(EddylineError) as refused:
        Shapes().shape_of("SELECT count(*) AS n FROM auths WHERE amount > :least", STREAMS, params=params)
    assert refused.value.problem == "parameter least is used where only a literal can be"
