"""Times as text: one form, wherever people or programs read them."""

from __future__ import annotations

import datetime
import io
import json
import re
from zoneinfo import ZoneInfo

import pytest

import eddyline
from eddyline.api import Commands, run
from eddyline.model import iso_text, iso_time
from eddyline.pipeline import load_pipeline
from eddyline.storage import holder_of

ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
AT = datetime.datetime(2026, 1, 5, 9, 30, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("microseconds", "timespec", "text"),
    [
        (0, "auto", "1970-01-01T00:00:00Z"),
        (1_500_000, "auto", "1970-01-01T00:00:01.500000Z"),
        (1_500_000, "seconds", "1970-01-01T00:00:01Z"),
        (1_500_000, "milliseconds", "1970-01-01T00:00:01.500Z"),
        (10**18, "auto", "1000000000000000000 microseconds since 1970"),
    ],
)
def test_a_time_since_1970_is_iso_with_z(microseconds, timespec, text):
    assert iso_time(microseconds, timespec=timespec) == text


def test_a_time_with_a_zone_is_in_utc_and_one_without_has_no_z():
    assert iso_text(AT) == "2026-01-05T09:30:00Z"
    assert iso_text(AT.astimezone(ZoneInfo("Asia/Tokyo"))) == "2026-01-05T09:30:00Z"
    assert iso_text(AT.replace(tzinfo=None)) == "2026-01-05T09:30:00"


def test_commands_write_times_in_that_form(tmp_path):
    with eddyline.open(tmp_path / "home", create=True) as engine:
        engine.stream("trades", "n INT, ts TIMESTAMP, local TIMESTAMP_NTZ")
        engine.query("SELECT n, ts, local FROM trades", name="every")
        engine.push("trades", [{"n": 1, "ts": AT, "local": AT.replace(tzinfo=None)}])
        commands = Commands(engine)
        (page,) = commands.call("tail", {"queries": ["every"], "newest": 5}, lambda *far: None)
        times = [
            commands.query_show(query="every")["registered"],
            commands.rounds()[0]["at"],
            commands.versions()[0]["at"],
            holder_of(tmp_path / "home")["since"],
        ]
        assert all(ISO.fullmatch(each) for each in times), times
    assert page["row"] == {"n": 1, "ts": "2026-01-05T09:30:00Z", "local": "2026-01-05T09:30:00"}


def test_sinks_write_times_in_that_form(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text('{"ts": "2026-01-05 10:30:00"}\n')
    (tmp_path / "a.sql").write_text("CREATE VIEW every AS SELECT ts FROM trades")
    (tmp_path / "eddyline.toml").write_text(
        '[engine]\nhome = "home"\ntime_zone = "Europe/Berlin"\n[streams.trades]\nschema = "ts TIMESTAMP"\n'
        'source = { type = "files", path = "in", format = "json" }\n[rules]\nfiles = ["*.sql"]\n'
        '[[sinks]]\ntype = "stdout"\nformat = "jsonl"\n'
    )
    screen = io.StringIO()
    run(load_pipeline(tmp_path / "eddyline.toml"), once=True, stdout=screen)
    assert json.loads(screen.getvalue())["ts"] == "2026-01-05T09:30:00Z"
