"""How a stream says when its rows happened: units, formats, expressions, and what is said of a time that cannot be meant."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import eddyline
from eddyline.events import TimeImplausible
from eddyline.pipeline import PipelineError, read_pipeline
from eddyline.sources.sample import propose

MOMENT_S = 1_790_000_000  # 2026-09-21 14:13:20
NOW_US = MOMENT_S * 1_000_000


@pytest.fixture
def engine():
    with eddyline.open(clock=lambda: NOW_US) as opened:
        yield opened


@pytest.mark.parametrize(
    ("column", "declared", "value"),
    [
        ("TIMESTAMP", {"time": "ts"}, "2026-09-21 14:13:20"),
        ("BIGINT", {"time": "ts"}, MOMENT_S * 1_000_000),
        ("INT", {"time": "ts", "time_unit": "s"}, MOMENT_S),
        ("BIGINT", {"time": "TS", "time_unit": "Milliseconds"}, MOMENT_S * 1_000),
        ("BIGINT", {"time": "timestamp_millis(ts)"}, MOMENT_S * 1_000),
        ("BIGINT", {"time": "TIMESTAMP_SECONDS( `ts` )"}, MOMENT_S),
        ("BIGINT", {"time": "timestamp_micros(ts)"}, MOMENT_S * 1_000_000),
        ("BIGINT", {"time": "ts", "time_unit": "ns"}, MOMENT_S * 1_000_000_000 + 999),
        ("DOUBLE", {"time": "ts", "time_unit": "s"}, float(MOMENT_S)),
        ("DECIMAL(20,3)", {"time": "ts", "time_unit": "ms"}, MOMENT_S * 1_000),
        ("STRING", {"time": "ts", "time_format": "dd.MM.yyyy HH:mm:ss"}, "21.09.2026 14:13:20"),
        ("STRING", {"time": "to_timestamp(ts, 'yyyyMMdd HH:mm:ss')"}, "20260921 14:13:20"),
        ("STRING", {"time": "to_timestamp(ts)"}, "2026-09-21T16:13:20+02:00"),
        ("STRING", {"time": "ts", "time_format": "iso"}, "2026-09-21T14:13:20Z"),
    ],
)  # fmt: skip
def test_a_time_is_read_as_the_stream_says(engine, column, declared, value):
    stream = engine.stream("s", f"ts {column}", **declared)
    engine.push("s", [{"ts": value}])
    assert stream.watermark_us == NOW_US
    assert not [event for event in engine.rounds.announcements.events if isinstance(event, TimeImplausible)]


def test_the_declaration_survives_a_reopening(tmp_path):
    with eddyline.open(tmp_path / "home", clock=lambda: NOW_US) as engine:
        engine.stream("s", "ts STRING", time="to_timestamp(ts, 'dd.MM.yyyy')", lateness="1 day")
    with eddyline.open(tmp_path / "home", clock=lambda: NOW_US) as engine:
        (stream,) = engine.streams()
        assert (stream.time, stream.time_unit, stream.time_format) == ("ts", None, "dd.MM.yyyy")


@pytest.mark.parametrize(
    ("column", "declared", "problem"),
    [
        ("STRING", {"time": "ts"}, "column ts cannot be the time of stream s: it is STRING"),
        ("TIMESTAMP", {"time": "ts", "time_unit": "ms"}, "column ts cannot be the time of stream s with time_unit: it is"),
        ("BIGINT", {"time": "ts", "time_format": "iso"}, "column ts cannot be the time of stream s with time_format: it is"),
        ("BIGINT", {"time": "ts", "time_unit": "days"}, "stream s: property time_unit: 'days' is not a unit"),
        ("BIGINT", {"time": "ts", "time_unit": "ms", "time_format": "iso"}, "stream s has a time_unit and a time_format"),
        ("BIGINT", {"time_unit": "ms"}, "stream s has a time_unit but no time"),
        ("BIGINT", {"time": "timestamp_millis(ts)", "time_unit": "ms"}, "stream s says twice how its time is read"),
        ("BIGINT", {"time": "ts + 1 (x)"}, "the time of stream s cannot be ts + 1 (x)"),
        ("BIGINT", {"time": "timestamp_millis(tz)"}, "stream s has no column tz, which is given as its time"),
        ("STRING", {"time": "ts", "time_format": "YYYY"}, "stream s: property time_format: the datetime pattern 'YYYY' cannot"),
    ],
)  # fmt: skip
def test_a_time_that_cannot_be_read_so_is_refused(engine, column, declared, problem):
    with pytest.raises(eddyline.EddylineError) as refused:
        engine.stream("s", f"ts {column}", **declared)
    assert refused.value.problem.startswith(problem)


@pytest.mark.parametrize(
    ("unit", "value", "likely"),
    [(None, MOMENT_S, "s"), (None, MOMENT_S * 1_000, "ms"), ("ms", MOMENT_S, "s"),
     (None, MOMENT_S * 10**9, "ns"), ("s", MOMENT_S * 1_000, "ms")],
)  # fmt: skip
def test_an_implausible_number_warns_once_with_the_likely_unit(engine, unit, value, likely):
    engine.stream("s", "ts BIGINT", time="ts", time_unit=unit)
    with pytest.warns(UserWarning, match=f"declare time_unit = '{likely}'"):
        engine.push("s", [{"ts": value}])
    engine.push("s", [{"ts": value}])
    (told,) = [event for event in engine.rounds.announcements.events if isinstance(event, TimeImplausible)]
    assert (told.round_number, told.stream, told.column) == (1, "s", "ts")
    engine.stream("s", "ts BIGINT", time="ts", time_unit=likely)
    engine.push("s", [{"ts": value}])
    assert engine.streams()[0].watermark_us == NOW_US


def test_an_implausible_time_that_no_unit_explains_is_announced_alone(engine):
    engine.stream("s", "ts TIMESTAMP", time="ts")
    engine.push("s", [{"ts": "2026-09-21 00:00:00"}, {"ts": "1970-01-02 00:00:00"}])
    engine.push("s", [{"ts": "2030-01-01 00:00:00"}])
    (told,) = [event for event in engine.rounds.announcements.events if isinstance(event, TimeImplausible)]
    assert told.message == "a row of stream s has ts 1970-01-02T00:00:00Z, before 1990"


def test_a_pipeline_file_has_the_same_words():
    text = '[streams.s]\nschema = "ts BIGINT"\ntime = "ts"\ntime_unit = "millis"\n'
    (settings,) = read_pipeline(text, Path("eddyline.toml")).streams
    assert dict(settings.stream.properties) == {"time_unit": "ms"}
    text = '[streams.s]\nschema = "ts STRING"\ntime = "to_timestamp(ts, \'dd.MM.yyyy\')"\n'
    (settings,) = read_pipeline(text, Path("eddyline.toml")).streams
    assert (settings.stream.time, dict(settings.stream.properties)) == ("ts", {"time_format": "dd.MM.yyyy"})
    with pytest.raises(PipelineError) as refused:
        read_pipeline(
            '[streams.s]\nschema = "ts BIGINT"\ntime = "ts"\ntime_unit = "day"\n', Path("eddyline.toml")
        )
    (mistake,) = refused.value.mistakes
    assert (mistake.place.line, mistake.problem) == (4, "stream s: property time_unit: 'day' is not a unit")


@pytest.mark.parametrize(
    ("row", "options", "time", "said"),
    [
        ({"k": 1, "created_at": MOMENT_S}, {}, "created_at", (("time_unit", "s"),)),
        ({"k": 1, "ts": MOMENT_S * 1_000}, {}, "ts", (("time_unit", "ms"),)),
        ({"k": 1, "eventTime": MOMENT_S + 0.25}, {}, "eventTime", (("time_unit", "s"),)),
        ({"amount": MOMENT_S}, {}, None, ()),
        ({"amount": MOMENT_S}, {"time": "amount"}, "amount", (("time_unit", "s"),)),
        ({"ts": 17}, {"time": "ts"}, "ts", ()),
        ({"ts": 17}, {"time": "ts", "time_unit": "seconds"}, "ts", (("time_unit", "s"),)),
        ({"at": "21.09.2026"}, {"time": "at", "time_format": "dd.MM.yyyy"}, "at", (("time_format", "dd.MM.yyyy"),)),
    ],
)  # fmt: skip
def test_a_sample_proposes_the_unit(tmp_path, row, options, time, said):
    (tmp_path / "a.json").write_text(json.dumps(row))
    found = propose("s", tmp_path / "a.json", **options)
    assert (found.time, found.time_properties) == (time, said)
    with eddyline.open() as engine:
        engine.sql(found.to_sql())
        (stream,) = engine.streams()
        assert stream.time == time
    (settings,) = read_pipeline(found.to_toml(tmp_path), tmp_path / "eddyline.toml").streams
    assert dict(settings.stream.properties) == dict(said)
