"""What no alert can be made of is refused when the query is registered, and says what to write."""

from __future__ import annotations

import datetime
import decimal

import pyarrow as pa
import pytest

import eddyline
from eddyline.errors import EddylineError, PropertyError, UnknownNameError
from eddyline.sql.message_templates import LONGEST_VALUE, message_template
from eddyline.sql.view_properties import duration_text, duration_us, properties, stated

TEXT = "SELECT sym, price, ts, flag, tags FROM trades"
SCHEMA = "sym STRING, price DOUBLE, ts TIMESTAMP, flag BOOLEAN, tags ARRAY<STRING>"


@pytest.fixture
def engine():
    with eddyline.open() as engine:
        engine.stream("trades", SCHEMA)
        yield engine


LASTS = "An alert fires once its rows have gone on for that long; resolve says after how long without one they have stopped."
FORMATS = "Formats are those of Python: {price:.2f} for numbers, {ts:%H:%M} for times, {sym:>8} for texts."


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"for": "5 minutes"},
            f"property for needs the property resolve\ndetail: {LASTS}\nhint: Add resolve, such as resolve='5 minutes'.",
        ),
        (
            {"cooldown": "0 seconds"},
            "property cooldown is zero\nhint: Leave it out, or write a duration such as '5 minutes'.",
        ),
        (
            {"for": 0, "resolve": 1},
            "property for is zero\nhint: Leave it out, or write a duration such as '5 minutes'.",
        ),
        (
            {"resolve": 0},
            "property resolve is zero\nhint: Leave it out, or write a duration such as '5 minutes'.",
        ),
        (
            {"per": "symb"},
            "property per names symb, which is not a column of the result\nhint: Did you mean sym?",
        ),
        (
            {"per": "venue"},
            "property per names venue, which is not a column of the result\nhint: Known: flag, price, sym, tags, ts.",
        ),
        ({"per": "sym, SYM"}, "property per names sym twice\nhint: Name each column once."),
        (
            {"severity": "critcal"},
            "property severity: 'critcal' is not one of info, warning, error, critical\nhint: Did you mean critical?",
        ),
        (
            {"severity": "high"},
            "property severity: 'high' is not one of info, warning, error, critical\n"
            "hint: Known: critical, error, info, warning.",
        ),
        (
            {"message": " "},
            "property message is empty\nhint: Write a text such as 'price of {sym}', or leave it out.",
        ),
        (
            {"message": "x" * 2001},
            "property message has 2,001 characters\nhint: Up to 2,000 are taken; the row is sent along.",
        ),
        (
            {"message": "{sym fell"},
            "property message cannot be read: expected '}' before end of string\n"
            "hint: Fields stand in braces, as in '{sym}'; a brace itself is written twice.",
        ),
        (
            {"message": "{} fell"},
            "property message has a field without a name: {}\nhint: Name a column of the result, as in '{sym}'.",
        ),
        (
            {"message": "{0} fell"},
            "property message has a field without a name: {0}\nhint: Name a column of the result, as in '{sym}'.",
        ),
        (
            {"message": "{prise} fell"},
            "property message names prise, which is not a column of the result\nhint: Did you mean price?",
        ),
        (
            {"message": "{sym.upper}"},
            "property message looks into sym: {sym.upper}\n"
            "hint: Fields are names alone. Select what is meant as a column of its own: sym.upper AS …",
        ),
        (
            {"message": "{tags[0]}"},
            "property message looks into tags: {tags[0]}\n"
            "hint: Fields are names alone. Select what is meant as a column of its own: tags[0] AS …",
        ),
        (
            {"message": "{sym.__class__.__mro__}"},
            "property message looks into sym: {sym.__class__.__mro__}\n"
            "hint: Fields are names alone. Select what is meant as a column of its own: sym.__class__.__mro__ AS …",
        ),
        (
            {"message": "{sym!x}"},
            "property message has the conversion !x in {sym!x}\nhint: Leave it out.",
        ),
        (
            {"message": "{price:{sym}}"},
            "property message cannot show price like this: {price:{sym}}\n"
            "hint: Write a format such as {price:.2f} or {n:>8}, with numbers below 1000 and no field inside.",
        ),
        (
            {"message": "{price:.9999999f}"},
            "property message cannot show price like this: {price:.9999999f}\n"
            "hint: Write a format such as {price:.2f} or {n:>8}, with numbers below 1000 and no field inside.",
        ),
        (
            {"message": "{sym:.2f}"},
            "property message cannot show sym, which is STRING, like this: {sym:.2f}\n"
            f"detail: Unknown format code 'f' for object of type 'str'.\nhint: {FORMATS}",
        ),
    ],
    ids=lambda value: str(value)[:40] if isinstance(value, dict) else "",
)
def test_it_is_refused_and_says_what_to_write(engine, given, message):
    with pytest.raises(EddylineError) as refused:
        engine.query(TEXT, name="q", **given)
    assert isinstance(refused.value, (PropertyError, UnknownNameError))
    assert str(refused.value) == message
    assert engine.n_queries == 0


def test_many_queries_templates_and_statements_are_checked_alike(engine):
    ways = [
        lambda: engine.query_many([TEXT], per="nothing"),
        lambda: engine.query_many("SELECT sym FROM trades WHERE sym = :s", params={"s": ["a"]}, per="price"),
        lambda: engine.sql(f"CREATE VIEW v TBLPROPERTIES (per = 'nothing') AS {TEXT}"),
        lambda: engine.sql(f"CREATE VIEW v TBLPROPERTIES ('for' = '1 minute') AS {TEXT}"),
    ]
    for way in ways:
        with pytest.raises(EddylineError):
            way()
    assert engine.n_queries == 0


def test_another_text_must_have_the_columns_too(engine):
    query = engine.query(TEXT, name="q", per="SYM", message="{Price}")
    with pytest.raises(UnknownNameError, match="property message names Price"):
        query.replace("SELECT sym FROM trades")
    with pytest.raises(UnknownNameError, match="property per names SYM"):
        query.replace("SELECT price FROM trades")
    query.replace("SELECT price, sym FROM trades WHERE price > 1")


def test_properties_of_alerts_can_be_altered(engine):
    engine.sql(
        f"CREATE VIEW q TBLPROPERTIES (per = 'sym', cooldown = '5 minutes', deliver = 'ops') AS {TEXT}"
    )
    engine.sql("ALTER VIEW q SET TBLPROPERTIES ('resolve' = '1 hour', 'severity' = 'ERROR')")
    engine.sql("ALTER VIEW q UNSET TBLPROPERTIES ('cooldown')")
    record = engine.rounds.catalog.record(engine.get("q").id)
    assert stated(record.properties) == {
        "per": ("sym",),
        "resolve": "1 hour",
        "deliver": ("ops",),
        "severity": "error",
    }
    with pytest.raises(UnknownNameError, match="property per names x"):
        engine.sql("ALTER VIEW q SET TBLPROPERTIES ('per' = 'x')")


@pytest.mark.parametrize(
    "text", ["5 minutes", "90 seconds", "1 day", "1 millisecond", "1 microsecond", "0 days", "3 hours"]
)
def test_durations_are_said_as_they_are_read(text):
    assert duration_text(duration_us(text)) == text


def test_properties_are_stated_as_they_are_given():
    given = {"per": ("a", "b"), "cooldown": "5 minutes", "for": "1 second", "resolve": "2 hours", "message": "{a}",
             "severity": "info", "deliver": ("ops",), "owner": "anna", "enabled": False, "memory": "5 bytes"}  # fmt: skip
    assert stated(properties(given)) == given


# --------------------------------------------------------------------------------------------- templates

COLUMNS = pa.schema(
    [("s", pa.string()), ("f", pa.float64()), ("i", pa.int32()), ("d", pa.decimal128(9, 2)), ("ts", pa.timestamp("us", "UTC")),
     ("day", pa.date32()), ("list", pa.list_(pa.int32())), ("raw", pa.binary()), ("query", pa.string())]
)  # fmt: skip
ROW = {
    "s": "x", "f": 1.5, "i": 7, "d": decimal.Decimal("2.50"), "ts": datetime.datetime(2024, 5, 1, 12, tzinfo=datetime.UTC),
    "day": datetime.date(2024, 5, 1), "list": [1, None], "raw": b"\x00", "query": "mine",
}  # fmt: skip
EXTRAS = {"query": "theirs", "key": "s=x", "severity": "info", "n_rows": 3, "since": "1970-01-01T00:00:00Z"}
ZONE = datetime.timezone(datetime.timedelta(hours=2))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain {{text}}", "plain {text}"),
        ("{s:>3}|{F:.3f}|{i:03d}|{d:.1f}", "  x|1.500|007|2.5"),
        ("{ts} {ts:%H:%M} {day:%d.%m.}", "2024-05-01 14:00:00 14:00 01.05."),
        ("{list} {raw} {s!r}", "[1, None] b'\\x00' 'x'"),
        ("{query} {key} {severity} {n_rows:>2} {since}", "mine s=x info  3 1970-01-01T00:00:00Z"),
    ],
)
def test_a_template_is_filled_with_the_row_of_the_result(text, shown):
    assert message_template(text, COLUMNS).format(ROW, EXTRAS, ZONE) == shown


def test_null_is_shown_as_such_whatever_the_format():
    template = message_template("{f:.2f} {ts:%H} {s:>9} {i!r}", COLUMNS)
    assert template.format(dict.fromkeys(ROW), EXTRAS, ZONE) == "NULL NULL NULL NULL"


def test_a_value_is_not_shown_longer_than_anybody_reads():
    shown = message_template("{s}{list}", COLUMNS).format(
        ROW | {"s": "x" * 5000, "list": [1] * 5000}, EXTRAS, ZONE
    )
    assert shown is not None
    assert len(shown) == 2 * (LONGEST_VALUE + 1)
