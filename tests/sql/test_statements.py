from __future__ import annotations

import pyarrow as pa
import pytest

from eddyline import types
from eddyline.errors import EddylineError, NotBuiltError, ParseError, PropertyError, UnknownNameError
from eddyline.model import Properties, Shape, Stream
from eddyline.sql import (
    AlterView,
    CreateStream,
    CreateView,
    Drop,
    Select,
    Shapes,
    parse_statements,
    properties,
    refuse_unbuilt,
)


def one(text: str):
    statements = parse_statements(text)
    assert len(statements) == 1
    return statements[0]


def refusal(text: str) -> EddylineError:
    with pytest.raises(EddylineError) as refused:
        parse_statements(text)
    return refused.value


def test_a_table_is_a_stream() -> None:
    text = """CREATE TABLE trades (sym STRING, price DOUBLE NOT NULL, tags array<string>, m DECIMAL(10, 2), ts TIMESTAMP)
      USING kafka OPTIONS (subscribe 'trades', startingOffsets = 'latest')
      TBLPROPERTIES (format='json', time='TS', lateness='5 seconds')"""
    found = one(text)
    assert isinstance(found, CreateStream)
    assert found.stream == Stream(
        "trades",
        pa.schema(
            [
                pa.field("sym", types.STRING),
                pa.field("price", types.DOUBLE, nullable=False),
                pa.field("tags", pa.list_(types.STRING)),
                pa.field("m", pa.decimal128(10, 2)),
                pa.field("ts", types.TIMESTAMP),
            ]
        ),
        time="ts",
        lateness_us=5_000_000,
        source="kafka",
        options=(("subscribe", "trades"), ("startingOffsets", "latest")),
        properties=(("format", "json"),),
    )
    assert (found.replace, found.if_not_exists, found.text) == (False, False, text)


def test_a_primary_key_may_stand_with_its_column_or_by_itself() -> None:
    inline = one("CREATE TABLE q (sym STRING PRIMARY KEY, bid DOUBLE)")
    apart = one("CREATE OR REPLACE TABLE q (a INT, b INT, PRIMARY KEY (B, a))")
    named = one("CREATE TABLE IF NOT EXISTS q (a INT NOT NULL, CONSTRAINT k PRIMARY KEY (a))")
    assert [s.stream.key for s in (inline, apart, named)] == [("sym",), ("b", "a"), ("a",)]
    assert (apart.replace, named.if_not_exists) == (True, True)


def test_a_view_is_a_query_with_a_name_and_properties() -> None:
    found = one(
        "CREATE OR REPLACE VIEW cheap TBLPROPERTIES (per='sym', 'cooldown'='5 minutes', enabled=true) AS\n"
        "  SELECT sym FROM trades  -- all\n WHERE price < 10 ;"
    )
    assert isinstance(found, CreateView)
    assert (found.name, found.replace, found.if_not_exists) == ("cheap", True, False)
    assert found.properties == (("per", "sym"), ("cooldown", "5 minutes"), ("enabled", "true"))
    assert found.text == "SELECT sym FROM trades  -- all\n WHERE price < 10"
    assert found.statement.startswith("CREATE OR REPLACE VIEW cheap")


def test_a_view_may_be_altered() -> None:
    assert one("ALTER VIEW cheap AS SELECT sym FROM trades").text == "SELECT sym FROM trades"
    assert one("ALTER VIEW cheap SET TBLPROPERTIES (owner = 'ops')").set_properties == (("owner", "ops"),)
    assert one("ALTER VIEW cheap UNSET TBLPROPERTIES IF EXISTS ('owner', per)").unset_properties == (
        "owner",
        "per",
    )


def test_views_and_tables_may_be_dropped() -> None:
    assert one("DROP VIEW IF EXISTS cheap") == Drop("DROP VIEW IF EXISTS cheap", "view", "cheap", True)
    assert one("DROP VIEW cheap CASCADE") == Drop("DROP VIEW cheap CASCADE", "view", "cheap", False, True)
    assert one("drop table `my trades`") == Drop("drop table `my trades`", "table", "my trades", False)


def test_statements_are_separated_by_semicolons_and_keep_their_text() -> None:
    text = "SELECT ';' AS x FROM a; -- ;\n\n;DROP VIEW b;\nSELECT c\n  FROM d"
    found = parse_statements(text)
    assert [type(s) for s in found] == [Select, Drop, Select]
    assert [s.text for s in found if not isinstance(s, AlterView)] == [
        "SELECT ';' AS x FROM a",
        "DROP VIEW b",
        "SELECT c\n  FROM d",
    ]
    assert parse_statements("  -- nothing\n") == []


@pytest.mark.parametrize(
    ("text", "problem", "part", "hint"),
    [
        (
            "INSERT INTO t VALUES (1)",
            "INSERT is not accepted here",
            "INSERT",
            "Accepted are SELECT, CREATE TABLE, CREATE VIEW, ALTER VIEW, DROP VIEW and DROP TABLE.",
        ),
        ("CRATE VIEW v AS SELECT 1", "expected a statement, found CRATE", "CRATE", "Did you mean CREATE?"),
        (
            "'x'",
            "expected a statement, found 'x'",
            "'x'",
            "Accepted are SELECT, CREATE TABLE, CREATE VIEW, ALTER VIEW, DROP VIEW and DROP TABLE.",
        ),
        ("CREATE VEIW v AS SELECT 1", "expected TABLE or VIEW, found VEIW", "VEIW", "Did you mean VIEW?"),
        (
            "CREATE TEMPORARY VIEW v AS SELECT 1",
            "CREATE TEMPORARY is not supported",
            "TEMPORARY",
            "Write CREATE TABLE for a stream, CREATE VIEW for a query.",
        ),
        (
            "CREATE STREAM s (a INT)",
            "CREATE STREAM is not supported",
            "STREAM",
            "Write CREATE TABLE for a stream, CREATE VIEW for a query.",
        ),
        (
            "CREATE OR REPLACE VIEW IF NOT EXISTS v AS SELECT 1",
            "OR REPLACE and IF NOT EXISTS exclude each other",
            "IF",
            None,
        ),
        ("CREATE VIEW v", "expected AS and the query of the view, found the end of the text", "", None),
        (
            "CREATE VIEW v TBLPROPRTIES (a='b') AS SELECT 1",
            "TBLPROPRTIES was not expected here",
            "TBLPROPRTIES",
            "Did you mean TBLPROPERTIES instead of TBLPROPRTIES?",
        ),
        (
            "CREATE VIEW v AS DELETE FROM t",
            "expected SELECT, found DELETE",
            "DELETE",
            "A view is a query: … AS SELECT … FROM stream.",
        ),
        (
            "CREATE VIEW v (a) AS SELECT 1",
            "a column list is not supported",
            "(",
            "Name the columns in the SELECT with AS.",
        ),
        (
            "CREATE VIEW a.v AS SELECT 1",
            "a name with a database is not supported",
            ".",
            "Streams and views have plain names.",
        ),
        ("CREATE VIEW v TBLPROPERTIES (a='b', A='c') AS SELECT 1", "A is given twice", "A", None),
        (
            "CREATE VIEW v TBLPROPERTIES (a=b) AS SELECT 1",
            "expected a value for a, found b",
            "b",
            "Write text in quotes.",
        ),
        ("CREATE VIEW v TBLPROPERTIES a='b' AS SELECT 1", "expected (, found a", "a", None),
        ("CREATE TABLE t", "expected ( and the columns of the stream, found the end of the text", "", None),
        ("CREATE TABLE t (a ITN)", "'ITN' is not a type of Spark SQL", "ITN", "Did you mean INT?"),
        ("CREATE TABLE t (a)", "expected a type after a, found )", ")", None),
        ("CREATE TABLE t (a INT, A STRING)", "two columns are called A", "A", None),
        (
            "CREATE TABLE t (a INT",
            "expected ) for the ( at line 1, column 16, found the end of the text",
            "",
            None,
        ),
        (
            "CREATE TABLE t (a INT DEFAULT 5)",
            "DEFAULT for a column of a stream is not supported",
            "DEFAULT",
            None,
        ),
        ("CREATE TABLE t (PRIMARY KEY (a))", "a stream needs at least one column", ")", None),
        (
            "CREATE TABLE t (a INT PRIMARY KEY, PRIMARY KEY (a))",
            "a stream has one PRIMARY KEY",
            ")",
            "Several columns: PRIMARY KEY (a, b).",
        ),
        (
            "CREATE TABLE t (price INT, PRIMARY KEY (pric))",
            "there is no column pric to be the key",
            "pric",
            "Did you mean price?",
        ),
        (
            "CREATE TABLE t (a INT) PARTITIONED BY (a)",
            "PARTITIONED for a stream is not supported",
            "PARTITIONED",
            None,
        ),
        (
            "CREATE TABLE t (a INT) USNG kafka",
            "USNG was not expected here",
            "USNG",
            "Did you mean USING instead of USNG?",
        ),
        (
            "ALTER TABLE t ADD COLUMN b INT",
            "ALTER TABLE is not supported",
            "TABLE",
            "Declare the stream again with CREATE OR REPLACE TABLE.",
        ),
        (
            "ALTER VIEW v RENAME TO w",
            "expected AS, SET TBLPROPERTIES or UNSET TBLPROPERTIES, found RENAME",
            "RENAME",
            None,
        ),
        ("DROP DATABASE d", "expected VIEW or TABLE, found DATABASE", "DATABASE", None),
        ("DROP TABLE t CASCADE", "CASCADE was not expected here", "CASCADE", None),
        ("CREATE TABLE t (a INT) COMMENT 5", "expected a comment in quotes, found 5", "5", None),
    ],
)
def test_a_statement_that_is_none_is_refused(text: str, problem: str, part: str, hint: str | None) -> None:
    error = refusal(text)
    assert (error.problem, error.hint) == (problem, hint)
    assert error.span is not None
    assert text[error.span.start : error.span.end] == part


def test_the_time_of_a_stream_must_be_one_of_its_columns() -> None:
    error = refusal("CREATE TABLE t (ts TIMESTAMP) TBLPROPERTIES (time = 'tss')")
    assert isinstance(error, UnknownNameError)
    assert (error.problem, error.hint) == ("there is no column tss to be the time", "Did you mean ts?")


def test_lateness_must_be_a_duration() -> None:
    error = refusal("CREATE TABLE t (ts TIMESTAMP) TBLPROPERTIES (lateness = 'soon')")
    assert isinstance(error, PropertyError)
    assert error.problem == "property lateness: 'soon' is not a duration"


def test_an_error_in_the_second_statement_points_into_the_whole_text() -> None:
    error = refusal("DROP VIEW a;\nDROP b")
    assert isinstance(error, ParseError)
    assert error.position == (2, 6)


# ------------------------------------------------------------------------------------------------ not built yet

TRADES = Stream("trades", pa.schema([("sym", pa.string()), ("price", pa.float64()), ("ts", types.TIMESTAMP)]))
NEWS = Stream("news", pa.schema([("sym", pa.string()), ("head", pa.string())]))


def shape(text: str) -> Shape:
    return Shapes().shape_of(text, {"trades": TRADES, "news": NEWS})[0]


@pytest.mark.parametrize(
    ("text", "problem", "part"),
    [
        (
            "SELECT sym FROM recent(trades, 10)",
            "windows (recent) are not built in this version",
            "recent(trades, 10)",
        ),
    ],
)
def test_what_binds_but_is_not_built_is_refused_by_name(text: str, problem: str, part: str) -> None:
    with pytest.raises(NotBuiltError) as refused:
        refuse_unbuilt(shape=shape(text), text=text)
    assert refused.value.problem == problem
    assert refused.value.span is not None
    assert text[refused.value.span.start : refused.value.span.end] == part


def test_a_wrong_column_in_a_join_is_reported_as_such() -> None:
    with pytest.raises(UnknownNameError) as refused:
        shape("SELECT t.sym FROM trades t JOIN news n ON t.sym = n.smy")
    assert (refused.value.problem, refused.value.hint) == (
        "there is no column smy in news",
        "Did you mean sym?",
    )


def test_keyed_streams_and_joins_are_not_refused() -> None:
    text = "SELECT t.sym FROM trades t JOIN recent(news, 5) n ON t.sym = n.sym"
    refuse_unbuilt(shape=shape(text), text=text)
    refuse_unbuilt(stream=Stream("quotes", TRADES.schema, key=("sym",)))


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("within", "1 s"),
        ("since", "now"),
        ("memory", "64 MB"),
    ],
)
def test_delivery_properties_are_read_and_refused(word: str, value: str) -> None:
    with pytest.raises(NotBuiltError) as refused:
        refuse_unbuilt(properties=properties({word: value}))
    assert refused.value.problem == f"property {word} is not built in this version"
    assert refused.value.hint == (
        "Built are owner, enabled, per, cooldown, for, resolve, emit, keep, deliver, message, severity."
    )


def test_owner_and_enabled_are_built() -> None:
    refuse_unbuilt(
        shape=shape("SELECT sym FROM trades"),
        properties=Properties(owner="ops", is_enabled=False),
        stream=TRADES,
    )
