"""Made-up rows: the same for the same seed and row, however they are cut, paced by a clock."""

from __future__ import annotations

import datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eddyline.model import Stream
from eddyline.sources import ColumnGenerator, Generator, infer_schema
from eddyline.sources.generators import default_generator

START_US = 1_767_225_600_000_000  # 2026-01-01
MANY = 1 << 30


def generator(ddl: str, *columns: ColumnGenerator, **options) -> Generator:
    stream = Stream("s", infer_schema(ddl))
    stated = {column.column: column for column in columns}
    made = [stated.get(f.name) or default_generator(f.name, f.type) for f in stream.schema]
    return Generator(stream, made, clock_us=lambda: START_US, **options)


def column(name: str, ddl: str, kind: str, **options) -> ColumnGenerator:
    return ColumnGenerator(name, infer_schema(f"x {ddl}").field(0).type, kind, **options)


def rows(source: Generator, n: int) -> list[dict]:
    return source.take(n, MANY).rows.rows.to_pylist()


ALL = "a INT, b DOUBLE, c STRING, d BOOLEAN, e TIMESTAMP, f DECIMAL(8,2), g DATE"


@given(st.lists(st.integers(1, 9), min_size=1, max_size=8), st.integers(0, 2**70))
def test_rows_are_the_same_however_they_are_cut_into_rounds_and_restarted(sizes, seed):
    whole = rows(generator(ALL, seed=seed), sum(sizes))
    found, position = [], None
    for size in sizes:
        taken = generator(ALL, seed=seed, position=position).take(size, MANY)
        found += taken.rows.rows.to_pylist()
        position = taken.position
    assert found == whole


def test_another_seed_makes_other_rows_and_columns_differ_from_each_other():
    assert rows(generator("a DOUBLE", seed=1), 20) != rows(generator("a DOUBLE", seed=2), 20)
    both = rows(generator("a DOUBLE, b DOUBLE", seed=1), 20)
    assert [r["a"] for r in both] != [r["b"] for r in both]
    assert [r["a"] for r in both] == [r["a"] for r in rows(generator("a DOUBLE", seed=1), 20)]


def test_the_first_rows_of_seed_7_are_these_for_ever():
    made = rows(generator("a INT, s STRING", column("a", "INT", "uniform", low=1, high=6), seed=7), 6)
    assert [r["a"] for r in made] == [2, 3, 1, 1, 4, 5]


def test_uniform_stays_within_its_bounds_and_reaches_both():
    made = rows(generator("a INT", column("a", "INT", "uniform", low=-1, high=2)), 200)
    assert {r["a"] for r in made} == {-1, 0, 1, 2}
    made = rows(generator("a DOUBLE", column("a", "DOUBLE", "uniform", low=5, high=6, decimals=1)), 200)
    assert {r["a"] for r in made} == {round(5 + k / 10, 1) for k in range(11)}


def test_normal_has_its_mean_and_deviation():
    made = rows(generator("a DOUBLE", column("a", "DOUBLE", "normal", low=100, high=5)), 20_000)
    values = np.array([r["a"] for r in made])
    assert abs(values.mean() - 100) < 0.2
    assert abs(values.std() - 5) < 0.2


def test_choice_follows_its_weights():
    choice = column("c", "STRING", "choice", values=("x", "y", "z"), weights=(3.0, 1.0, 0.0))
    made = [r["c"] for r in rows(generator("c STRING", choice), 10_000)]
    assert set(made) == {"x", "y"}
    assert 0.73 < made.count("x") / 10_000 < 0.77


def test_sequence_text_and_value():
    made = rows(
        generator(
            "n BIGINT, t STRING, v DECIMAL(5,2)",
            column("n", "BIGINT", "sequence", low=100, high=-2),
            column("t", "STRING", "text", template="card-{:03d}", count=2),
            column("v", "DECIMAL(5,2)", "value", values=(Decimal("1.50"),)),
        ),
        50,
    )
    assert [r["n"] for r in made[:3]] == [100, 98, 96]
    assert {r["t"] for r in made} == {"card-000", "card-001"}
    assert {r["v"] for r in made} == {Decimal("1.50")}


def test_time_begins_when_the_first_row_was_made_and_goes_on_from_there_after_a_restart():
    source = generator("ts TIMESTAMP", column("ts", "TIMESTAMP", "time", step_us=1_000_000))
    first = source.take(2, MANY)
    stream = Stream("s", infer_schema("ts TIMESTAMP"))
    later = Generator(
        stream,
        [column("ts", "TIMESTAMP", "time", step_us=1_000_000)],
        position=first.position,
        clock_us=lambda: START_US + 99_000_000,
    )
    second = [r["ts"].second for r in first.rows.rows.to_pylist() + rows(later, 2)]
    assert second == [0, 1, 2, 3]


def test_time_may_have_a_start_and_be_up_to_a_jitter_early():
    at = datetime.datetime(2024, 5, 1, tzinfo=datetime.UTC)
    time = column(
        "ts", "TIMESTAMP", "time", start_us=int(at.timestamp() * 1e6), step_us=0, jitter_us=2_000_000
    )
    made = [r["ts"] for r in rows(generator("ts TIMESTAMP", time), 500)]
    assert at - datetime.timedelta(seconds=2) <= min(made) < max(made) <= at
    assert rows(generator("d DATE", column("d", "DATE", "time", start_us=int(at.timestamp() * 1e6))), 1) == [
        {"d": at.date()}
    ]


def test_a_share_of_the_rows_may_be_null():
    made = [
        r["a"]
        for r in rows(generator("a INT", column("a", "INT", "uniform", low=1, high=9, nulls=0.25)), 10_000)
    ]
    assert 0.23 < made.count(None) / 10_000 < 0.27


def test_a_column_nobody_speaks_of_gets_values_of_its_type():
    assert default_generator("x", pa.list_(pa.int32())) is None
    made = rows(generator(ALL), 3)
    assert all(value is not None for row in made for value in row.values())


def test_rows_come_at_their_rate_and_end_at_their_number():
    now = [0.0]
    source = generator("a INT", rate=100.0, n_rows=250, clock=lambda: now[0])
    assert source.take(1000, MANY) is None
    now[0] = 1.0
    assert source.take(1000, MANY).rows.rows.num_rows == 100
    assert source.take(1000, MANY) is None
    assert 0 < source.wait_s() <= 0.05
    now[0] = 2.0
    assert [source.take(60, MANY).rows.rows.num_rows, source.take(60, MANY).rows.rows.num_rows] == [60, 40]
    now[0] = 60.0
    assert source.take(1000, MANY).rows.rows.num_rows == 50
    assert source.is_finished


def test_a_restart_does_not_make_up_for_the_time_it_was_down():
    now = [1000.0]
    source = generator("a INT", rate=10.0, position={"row": 40, "started_us": START_US}, clock=lambda: now[0])
    now[0] = 1001.0
    assert source.take(1000, MANY).position == {"row": 50, "started_us": START_US}


def test_without_pace_all_rows_are_there_at_once_and_one_round_where_there_is_no_end():
    source = generator("a INT", rate=1.0, n_rows=15, is_paced=False)
    assert source.is_pending
    assert [len(rows(source, 10)), len(rows(source, 10))] == [10, 5]
    assert not source.is_pending
    endless = generator("a INT", is_paced=False)
    assert len(rows(endless, 10)) == 10
    assert endless.take(10, MANY) is None
    assert not endless.is_pending


def test_a_round_is_bounded_by_bytes():
    source = generator("a BIGINT")
    source.take(100, MANY)
    assert source.take(100, 80).rows.rows.num_rows == 10


def test_rows_that_workers_will_make_are_weighed_by_their_types():
    source = generator("a INT, b DOUBLE, c STRING", n_rows=1000)
    assert source.backlog_bytes() == 1000 * (4 + 8 + 12)
    planned = source.plan(MANY, 100 * (4 + 8 + 12))
    assert [(reference.what["n"], reference.nbytes) for reference in planned.references] == [(100, 2400)]


def test_a_stream_that_gets_a_column_gets_values_there():
    source = generator("a INT")
    source.redeclare(Stream("s", infer_schema("a INT, b STRING, c ARRAY<INT>")))
    made = rows(source, 1)[0]
    assert made["b"] is not None
    assert made["c"] is None


@pytest.mark.parametrize("t", ["TINYINT", "SMALLINT", "FLOAT", "TIMESTAMP_NTZ"])
def test_every_plain_type_can_be_made(t):
    assert len(rows(generator(f"a {t}"), 10)) == 10
