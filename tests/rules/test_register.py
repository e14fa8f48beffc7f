"""Registering queries: names, parameters, templates, lists, pages; all or none, each call one version."""

from __future__ import annotations

import datetime
import decimal

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import eddyline
from eddyline.errors import (
    AmbiguousNameError,
    EddylineError,
    LimitError,
    NotBuiltError,
    ParseError,
    PropertyError,
    QueryStateError,
    SchemaError,
    SqlError,
    TypeMismatchError,
    UnknownNameError,
    UnsupportedError,
)


@pytest.fixture
def engine():
    engine = eddyline.open()
    engine.stream("trades", "sym STRING, price DOUBLE, n INT")
    return engine


def push(engine, *rows):
    return engine.push("trades", list(rows))


def refused(action, kind=EddylineError) -> str:
    with pytest.raises(kind) as error:
        action()
    return str(error.value)


# --------------------------------------------------------------------------------------------- names


def test_the_same_name_and_text_again_is_a_no_op(engine):
    first = engine.query("SELECT sym FROM trades WHERE price < 10", name="cheap")
    version = engine.version
    again = engine.query("SELECT sym FROM trades WHERE price < 10", name="cheap")
    assert (again.id, again.generation, engine.version, engine.n_queries) == (first.id, 1, version, 1)


def test_another_text_under_the_name_replaces_in_one_version(engine):
    first = engine.query("SELECT sym FROM trades WHERE price < 10", name="cheap")
    version = engine.version
    again = engine.query("SELECT sym FROM trades WHERE price < 11", name="cheap")
    assert (again.id, again.generation, engine.version, engine.n_queries) == (first.id, 2, version + 1, 1)


def test_the_same_text_with_other_parameters_replaces(engine):
    text = "SELECT sym FROM trades WHERE price < :limit"
    engine.query(text, name="q", params={"limit": 10.0})
    version = engine.version
    engine.query(text, name="q", params={"limit": 10.0})
    assert engine.version == version
    engine.query(text, name="q", params={"limit": 5.0})
    assert engine.version == version + 1
    push(engine, ("A", 7.0, 1), ("B", 3.0, 1))
    assert engine.get("q").results() == [{"sym": "B"}]


def test_owners_have_their_own_names(engine):
    mine = engine.query("SELECT sym FROM trades WHERE n = 1", name="q", owner="ann")
    yours = engine.query("SELECT sym FROM trades WHERE n = 2", name="q", owner="bob")
    assert mine.id != yours.id
    assert engine.get("q", owner="bob").id == yours.id
    assert "there is no query q" in refused(lambda: engine.get("q"))


def test_a_view_names_its_query(engine):
    query = engine.query("CREATE VIEW cheap AS SELECT sym FROM trades WHERE price < 10")
    assert (query.name, query.text) == ("cheap", "SELECT sym FROM trades WHERE price < 10")
    assert refused(lambda: engine.query("CREATE VIEW a AS SELECT sym FROM trades", name="b")) == (
        "the view is called a, name= says b\nhint: Leave out name=."
    )
    assert refused(lambda: engine.query("CREATE TABLE t (a INT)")) == (
        "query takes one SELECT or CREATE VIEW\nhint: Run other statements, or several, with engine.sql(…)."
    )


def test_a_query_registered_as_not_enabled_waits(engine):
    query = engine.query("SELECT sym FROM trades WHERE n = 1", name="q", enabled=False)
    assert query.state == "paused"
    push(engine, ("A", 1.0, 1))
    query.resume()
    push(engine, ("B", 1.0, 1))
    assert query.results() == [{"sym": "B"}]


@pytest.mark.parametrize("is_paused", [True, False], ids=["paused", "running"])
@pytest.mark.parametrize("enabled", [True, False], ids=["enabled", "not enabled"])
def test_replacing_a_query_changes_what_it_says_not_whether_it_runs(engine, is_paused, enabled):
    """However it was registered, and whatever was done to it by hand since."""
    query = engine.query("SELECT sym FROM trades WHERE n = 1", name="q", enabled=enabled)
    (query.pause if is_paused else query.resume)()
    ways = [
        lambda: engine.replace("q", "SELECT sym FROM trades WHERE n = 2"),
        lambda: engine.query("SELECT sym FROM trades WHERE n = 3", name="q"),
        lambda: engine.sql("CREATE OR REPLACE VIEW q AS SELECT sym FROM trades WHERE n = 4"),
        lambda: engine.sql("ALTER VIEW q AS SELECT sym FROM trades WHERE n = 5"),
        lambda: engine.query_many({"q": "SELECT sym FROM trades WHERE n = 6"}),
        lambda: engine.query_many(TEMPLATE, params={"sym": ["A"], "limit": [7.0]}, name="q"),
    ]
    for change in ways:
        version, generation = engine.version, query.generation
        change()
        assert query.state == ("paused" if is_paused else "running")
        assert (engine.version, query.generation) == (version + 1, generation + 1)
    change()
    assert query.generation == generation + 1  # the same again is no change, whoever paused or resumed it
    assert push(engine, ("A", 5.0, 1)).count == (0 if is_paused else 1)


@pytest.mark.parametrize("is_paused", [True, False], ids=["paused", "running"])
@pytest.mark.parametrize("enabled", [True, False], ids=["enabled", "not enabled"])
def test_whether_a_query_that_is_replaced_runs_is_decided_by_enabled_if_it_is_given(
    engine, is_paused, enabled
):
    query = engine.query("SELECT sym FROM trades WHERE n = 1", name="q")
    ways = [
        lambda: engine.query("SELECT sym FROM trades WHERE n = 2", name="q", enabled=enabled),
        lambda: engine.sql(
            f"CREATE OR REPLACE VIEW q TBLPROPERTIES (enabled = '{enabled}') AS SELECT sym FROM trades WHERE n = 3"
        ),
        lambda: engine.sql(f"ALTER VIEW q SET TBLPROPERTIES (enabled = '{enabled}')"),
        lambda: engine.query_many({"q": "SELECT sym FROM trades WHERE n = 4"}, enabled=enabled),
        lambda: engine.query_many(TEMPLATE, params={"sym": ["A"], "limit": [7.0]}, name="q", enabled=enabled),
    ]
    for change in ways:
        (query.pause if is_paused else query.resume)()
        change()
        assert query.state == ("running" if enabled else "paused")


def test_unsetting_enabled_lets_a_query_run(engine):
    engine.sql("CREATE VIEW v TBLPROPERTIES (enabled = 'false') AS SELECT sym FROM trades")
    engine.sql("ALTER VIEW v UNSET TBLPROPERTIES ('enabled')")
    assert engine.get("v").state == "running"


def test_another_owner_leaves_a_query_paused(engine):
    engine.query("SELECT sym FROM trades", name="q").pause()
    engine.sql("ALTER VIEW q SET TBLPROPERTIES (owner = 'ops')")
    assert engine.get("q", owner="ops").state == "paused"


def test_properties_that_are_not_built_are_refused_by_name(engine):
    for given in ({"emit": "request"}, {"within": "5 minutes"}, {"memory": "1 MB"}):
        (name,) = given
        assert name in refused(
            lambda given=given: engine.query("SELECT sym FROM trades", **given), NotBuiltError
        )


def test_a_property_nobody_knows_is_refused_with_the_nearest(engine):
    assert "cooldown" in refused(lambda: engine.query("SELECT sym FROM trades", cooldwn="5 minutes"))


# --------------------------------------------------------------------------------------------- parameters


@pytest.mark.parametrize(
    ("condition", "value"),
    [
        ("price < :p", 10),
        ("price < :p", 10.0),
        ("price < :p", decimal.Decimal("10.5")),
        ("sym = :p", "A"),
        ("n = :p", 1),
        ("n IN (:p)", [1, 2]),
        ("n IN (:p)", (1, 2)),
        ("n IN (:p)", {1, 2}),
        ("sym IN (:p)", pa.scalar(["A"])),
        ("price > :p", float("-inf")),
        ("length(sym) = :p", 1),
    ],
)
def test_a_parameter_may_have_any_value_its_place_can_take(engine, condition, value):
    query = engine.query(f"SELECT sym FROM trades WHERE {condition}", params={"p": value})
    push(engine, ("A", 5.0, 1), ("BB", float("-inf"), 9))
    assert query.results() == [{"sym": "A"}] or condition == "price < :p"


def test_a_parameter_may_be_used_twice_and_projected(engine):
    query = engine.query(
        "SELECT sym, :limit AS most FROM trades WHERE price < :limit OR n > :limit", params={"limit": 10.0}
    )
    push(engine, ("A", 5.0, 1), ("B", 50.0, 50), ("C", 50.0, 1))
    assert query.results() == [{"sym": "A", "most": 10.0}, {"sym": "B", "most": 10.0}]


def test_parameters_that_do_not_match_the_text_are_refused(engine):
    text = "SELECT sym FROM trades WHERE price < :limit"
    assert "limit" in refused(lambda: engine.query(text))
    assert "limit" in refused(lambda: engine.query(text, params={"limmit": 1}))
    assert "other" in refused(lambda: engine.query(text, params={"limit": 1, "other": 2}))
    assert "STRING" in refused(lambda: engine.query(text, params={"limit": "ten"}), TypeMismatchError)
    assert refused(lambda: engine.query(text, params={"limit": object()})).startswith(
        "parameter limit has a value SQL cannot have"
    )
    assert refused(lambda: engine.query(text, params={"limit": pa.scalar(5, pa.time32("s"))})) == (
        "parameter limit has type time32[s], which SQL does not have"
    )


def test_a_hundred_thousand_values_are_one_predicate(engine):
    values = list(range(0, 200_000, 2))
    by_list = engine.query("SELECT n FROM trades WHERE n IN (:values)", params={"values": values})
    by_array = engine.query(
        "SELECT n FROM trades WHERE n IN (:values)", params={"values": pa.array(values).to_pylist()}
    )
    push(engine, ("A", 1.0, 2), ("A", 1.0, 3), ("A", 1.0, 199_998), ("A", 1.0, 200_000), ("A", 1.0, None))
    assert by_list.results() == by_array.results() == [{"n": 2}, {"n": 199_998}]
    facts = by_list.explain().as_dict()
    assert [condition["served_by"] for condition in facts["conditions"]] == ["index"]


def test_a_hundred_thousand_values_may_come_as_text(engine):
    values = ", ".join(str(2 * k) for k in range(100_000))
    query = engine.query(f"SELECT n FROM trades WHERE n IN ({values})")
    other = engine.query(f"SELECT n FROM trades WHERE n IN ({values}, 7)")
    push(engine, ("A", 1.0, 199_998), ("A", 1.0, 7), ("A", 1.0, 200_000))
    assert query.results() == [{"n": 199_998}]
    assert other.results() == [{"n": 199_998}, {"n": 7}]


@pytest.mark.parametrize(
    ("condition", "value"),
    [
        ("d = :p", "2024-02-29"),
        ("d IN (:p)", ["2024-02-29", "2024-03-01"]),
        ("ts >= :p", "2024-02-29 12:00:00"),  # a time without a zone is one of the session
        ("ts < :p", datetime.datetime(2024, 2, 29, 11, 0, 1, tzinfo=datetime.UTC)),
        ("ts = :p", datetime.datetime(2024, 2, 29, 12)),
    ],
)
def test_a_parameter_is_converted_as_the_literal_in_its_place_would_be(condition, value):
    engine = eddyline.open(time_zone="Europe/Berlin")
    engine.stream("s", "d DATE, ts TIMESTAMP")
    query = engine.query(f"SELECT d FROM s WHERE {condition}", params={"p": value})
    many = engine.query_many(f"SELECT d FROM s WHERE {condition}", params={"p": [value]})
    engine.push("s", [("2024-02-29", "2024-02-29 12:00:00"), ("2023-01-01", None)])
    assert query.results() == many[0].results() == [{"d": datetime.date(2024, 2, 29)}]


@pytest.mark.parametrize("value", ["x", "2024-02-30", "0001-01-01T00:00:00+10:00"])
def test_a_parameter_that_cannot_be_converted_is_refused(engine, value):
    engine.stream("times", "d DATE, ts TIMESTAMP")
    assert refused(
        lambda: engine.query("SELECT d FROM times WHERE ts > :p", params={"p": value}), SchemaError
    ).startswith("parameter p does not fit\ndetail: ")


def test_values_python_has_and_sql_does_not_are_refused(engine):
    for value in (2**70, "\ud800", pd.NaT, object()):
        said = refused(
            lambda value=value: engine.query("SELECT n FROM trades WHERE n = :p", params={"p": value})
        )
        assert said.startswith("parameter p has a value SQL cannot have\ndetail: ")
    assert refused(lambda: engine.query("SELECT n FROM trades", params=[1])) == (
        "params is list, not a dict\nhint: Write params={'limit': 10}; a table goes with query_many."
    )


def test_half_a_character_never_reaches_a_round(engine):
    for text in (r"SELECT '\ud800' AS x FROM trades", r"SELECT n FROM trades WHERE sym LIKE '\udc00%'"):
        assert refused(lambda text=text: engine.query(text)).startswith(
            "a string holds half of a surrogate pair"
        )
    smile = engine.query(r"SELECT n FROM trades WHERE sym = '\ud83d\ude00'")
    push(engine, ("\U0001f600", 1.0, 1))
    assert smile.results() == [{"n": 1}]


@pytest.mark.parametrize("name", ["", "  ", "a\nb"])
def test_a_name_nobody_can_read_is_refused(engine, name):
    said = f"{name!r} cannot be the name of a query"
    for register in (
        lambda: engine.query("SELECT n FROM trades", name=name),
        lambda: engine.query_many({"good": "SELECT n FROM trades", name: "SELECT n FROM trades"}),
        lambda: engine.query_many(
            "SELECT n FROM trades WHERE sym = :s", params={"s": ["good", name]}, name="{s}"
        ),
    ):
        message = refused(register)
        assert message.startswith(said)
        assert message.endswith("hint: Give a name that can be read.")
    assert engine.n_queries == 0


# --------------------------------------------------------------------------------------------- templates

TEMPLATE = "SELECT sym, price FROM trades WHERE sym = :sym AND price < :limit"
TABLE = {"sym": ["A", "B"], "limit": [10.0, 100.0]}


@pytest.mark.parametrize(
    "table",
    [
        TABLE,
        [{"sym": "A", "limit": 10.0}, {"sym": "B", "limit": 100.0}],
        pa.table(TABLE),
        pl.DataFrame(TABLE),
        pd.DataFrame(TABLE),
        pa.table({"sym": ["A", "B"], "limit": [10, 100]}),
        {"sym": pa.array(["A", "B"]).dictionary_encode(), "limit": pa.array([10.0, 100.0], pa.float32())},
    ],
    ids=["dict", "rows", "arrow", "polars", "pandas", "whole numbers", "other types"],
)
def test_every_row_of_a_parameter_table_is_a_query(engine, table):
    version = engine.version
    many = engine.query_many(TEMPLATE, params=table, name="watch-{sym}")
    assert (len(many), engine.n_queries, engine.version) == (2, 2, version + 1)
    assert [query.name for query in many] == ["watch-A", "watch-B"]
    assert many[1].text == TEMPLATE
    push(engine, ("A", 50.0, 1), ("A", 5.0, 1), ("B", 50.0, 1))
    assert many[0].results() == [{"sym": "A", "price": 5.0}]
    assert many[1].results() == [{"sym": "B", "price": 50.0}]
    assert repr(many) == "<2 queries>"


def test_a_template_is_bound_once_whatever_the_number_of_rows(engine):
    many = engine.query_many(
        TEMPLATE, params={"sym": [f"S{k}" for k in range(5_000)], "limit": [1.0] * 5_000}
    )
    assert many[0].explain().as_dict()["n_sharing"] == 5_000
    assert push(engine, ("S4999", 0.5, 1), ("S17", 0.5, 1), ("S17", 2.0, 1)).count == 2


def test_an_empty_table_registers_nothing(engine):
    version = engine.version
    assert (
        len(
            engine.query_many(
                TEMPLATE, params={"sym": pa.array([], pa.string()), "limit": pa.array([], pa.float64())}
            )
        )
        == 0
    )
    assert engine.version == version


def test_null_parameters_never_match(engine):
    engine.query_many(TEMPLATE, params={"sym": ["A", None], "limit": [None, 1.0]})
    assert push(engine, ("A", 0.5, 1), (None, 0.5, 1)).count == 0


def test_names_that_stand_already_are_replaced_in_the_same_version(engine):
    old = engine.query("SELECT sym FROM trades WHERE n = 1", name="watch-A")
    version = engine.version
    many = engine.query_many(TEMPLATE, params=TABLE, name="watch-{sym}")
    assert (engine.version, engine.n_queries) == (version + 1, 2)
    assert (many[0].id, many[0].generation, many[0].text) == (old.id, 2, TEMPLATE)
    again = engine.query_many(TEMPLATE, params=TABLE, name="watch-{sym}")
    assert [query.generation for query in again] == [2, 1]
    push(engine, ("A", 5.0, 1), ("B", 5.0, 1))
    assert [len(query.results()) for query in many] == [1, 1]


def test_single_queries_of_a_template_can_be_paused_replaced_and_dropped(engine):
    a, b = engine.query_many(TEMPLATE, params=TABLE, name="watch-{sym}")
    a.pause()
    b.drop()
    push(engine, ("A", 5.0, 1), ("B", 5.0, 1))
    a.resume()
    push(engine, ("A", 6.0, 1), ("B", 6.0, 1))
    assert a.results() == [{"sym": "A", "price": 6.0}]
    a.replace("SELECT n FROM trades WHERE n = 7")
    push(engine, ("A", 7.0, 7))
    assert a.results() == [{"n": 7}]
    assert [query.name for query in engine.queries()] == ["watch-A"]


def test_a_template_registered_as_not_enabled_waits(engine):
    many = engine.query_many(TEMPLATE, params=TABLE, enabled=False)
    push(engine, ("A", 5.0, 1))
    assert [query.state for query in many] == ["paused", "paused"]
    assert many[0].latest() == []


def test_a_template_that_cannot_be_used_is_refused(engine):
    many = engine.query_many
    assert refused(lambda: many(TEMPLATE)) == (
        "a template needs params\nhint: Give a table with a column for each :parameter, or a list of texts."
    )
    assert "limit" in refused(lambda: many(TEMPLATE, params={"sym": ["A"]}))
    assert refused(lambda: many(TEMPLATE, params=TABLE, name="w-{symbol}"), UnknownNameError) == (
        "name 'w-{symbol}' uses {symbol}, which is not a parameter\nhint: Did you mean sym?"
    )
    assert refused(
        lambda: many(TEMPLATE, params={"sym": ["A", "A"], "limit": [1.0, 2.0]}, name="w-{sym}")
    ) == (
        "name 'w-{sym}' gives 'w-A' to more than one query\nhint: Use the parameters that identify the rows."
    )
    assert refused(lambda: many(TEMPLATE, params={"sym": ["A"], "limit": ["x"]}), TypeMismatchError)
    assert refused(
        lambda: many(TEMPLATE, params={"sym": ["A"], "limit": [1.0, 2.0]}), SchemaError
    ).startswith("the parameter table cannot be read")
    for params in (5, "abc", [5], {"sym": 5, "limit": 1}):
        said = refused(lambda params=params: many(TEMPLATE, params=params), SchemaError)
        assert said.startswith("the parameter table cannot be read\ndetail: ")
        assert said.endswith(
            "Give a table, a dict of columns, or a list of dicts, with a column for each :parameter."
        )
    nanoseconds = {"p": pa.array([1], pa.timestamp("ns"))}
    engine.stream("times", "ts TIMESTAMP_NTZ")
    assert refused(
        lambda: many("SELECT ts FROM times WHERE ts = :p", params=nanoseconds), SchemaError
    ).startswith("parameter p does not fit\ndetail: ")
    for name in ("x{", "x{sym:zz}"):
        assert refused(lambda name=name: many(TEMPLATE, params=TABLE, name=name), PropertyError).startswith(
            f"name {name!r} cannot be formatted\ndetail: "
        )
    assert refused(lambda: many(["SELECT sym FROM trades"], name="x"), PropertyError) == (
        "params and name go with a template\nhint: Give one SQL text, or put the names into a dict of texts."
    )
    assert engine.n_queries == 0


# --------------------------------------------------------------------------------------------- lists


def test_texts_are_registered_in_one_version(engine):
    version = engine.version
    many = engine.query_many([f"SELECT sym FROM trades WHERE n = {k}" for k in range(3)])
    assert (engine.version, engine.n_queries) == (version + 1, 3)
    push(engine, ("A", 1.0, 2))
    assert [len(query.results()) for query in many] == [0, 0, 1]
    named = engine.query_many(
        {"one": "SELECT sym FROM trades WHERE n = 1", "two": "SELECT sym FROM trades WHERE n = 2"}
    )
    assert [query.name for query in named] == ["one", "two"]
    version = engine.version
    engine.query_many(
        {"one": "SELECT sym FROM trades WHERE n = 1", "two": "SELECT sym FROM trades WHERE n = 22"}
    )
    assert (engine.version, engine.get("one").generation, engine.get("two").generation) == (version + 1, 1, 2)


def test_if_one_text_is_wrong_none_is_registered(engine):
    said = refused(
        lambda: engine.query_many({"good": "SELECT sym FROM trades", "bad": "SELECT smy FROM trades"}),
        UnknownNameError,
    )
    assert said.startswith("there is no column smy")
    assert "In query bad, so none was registered." in said
    said = refused(lambda: engine.query_many(["SELECT sym FROM trades", "SELEKT"]))
    assert "In query 1, so none was registered." in said
    assert refused(lambda: engine.query_many(["SELECT sym FROM trades", 5]), PropertyError) == (
        "entry 1 of the queries is int, not SQL text\nhint: Give a list of texts, or a dict from names to texts."
    )
    assert engine.n_queries == 0


def test_texts_equal_but_for_literals_share_one_shape(engine):
    many = engine.query_many(
        [f"SELECT sym FROM trades WHERE price < {k}.5 AND sym = 'S{k}'" for k in range(50)]
    )
    assert many[7].explain().as_dict()["n_sharing"] == 50


# --------------------------------------------------------------------------------------------- pages


def test_queries_come_in_pages_and_by_filter(engine):
    engine.query_many({f"rule {k}": f"SELECT sym FROM trades WHERE n = {k}" for k in range(25)})
    engine.query("SELECT price FROM trades", name="other")
    first = engine.queries(per_page=10)
    assert (len(first), first.total, first.page, first.n_pages) == (10, 26, 1, 3)
    assert [query.name for query in engine.queries(page=3, per_page=10)] == [
        f"rule {k}" for k in range(20, 25)
    ] + ["other"]
    assert engine.queries(page=9, per_page=10) == []
    assert engine.queries("rule 1").total == 11
    assert [query.name for query in engine.queries("SELECT price")] == ["other"]
    assert [query.name for query in engine.queries(lambda query: query.name.endswith("4"))] == [
        "rule 4", "rule 14", "rule 24",
    ]  # fmt: skip
    engine.drop("rule 4")
    assert engine.queries().total == 25
    assert refused(lambda: engine.queries(page=0)) == "page 0 of 100 queries each\nhint: Both count from 1."


# --------------------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("text", "kind", "parts"),
    [
        ("SELEC sym FROM trades", ParseError, ["SELEC"]),
        ("SELECT sym FROM trades WHERE", ParseError, []),
        ("", SqlError, []),
        (
            "SELECT sym FROM trade",
            UnknownNameError,
            ["there is no stream trade", "^^^^^", "Did you mean trades?"],
        ),
        ("SELECT smy FROM trades", UnknownNameError, ["there is no column smy", "^^^", "Did you mean sym?"]),
        ("SELECT t.sym FROM trades u", UnknownNameError, ["t"]),
        (
            "SELECT lenght(sym) FROM trades",
            UnknownNameError,
            ["there is no function lenght", "Did you mean length?"],
        ),
        ("SELECT sym FROM trades WHERE sym > 5", TypeMismatchError, ["STRING"]),
        ("SELECT sym FROM trades WHERE price = 'x'", TypeMismatchError, ["DOUBLE", "STRING"]),
        ("SELECT sym FROM trades WHERE price", TypeMismatchError, ["DOUBLE"]),
        ("SELECT sym FROM trades a, trades b WHERE sym = 'A'", AmbiguousNameError, ["sym"]),
        ("SELECT mode(n) AS often FROM trades", NotBuiltError, ["mode"]),
        (
            "SELECT a.sym FROM trades a JOIN trades b ON a.sym = b.sym",
            UnsupportedError,
            ["kept for ever", "recent(trades, 100)"],
        ),
        ("SELECT sym FROM trades ORDER BY sym", SqlError, ["ORDER BY"]),
        ("SELECT sym FROM trades LIMIT 5", SqlError, ["LIMIT"]),
        ("SELECT sym FROM trades" + " " * 65_536, LimitError, ["65,536"]),
        ("SELECT sym FROM trades WHERE " + "(" * 201 + "n = 1" + ")" * 201, LimitError, ["200"]),
        ("SELECT sym FROM trades WHERE " + " OR ".join(f"n={k}" for k in range(1001)), LimitError, ["1,000"]),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_text_that_cannot_be_accepted_is_refused_at_registration(engine, text, kind, parts):
    said = refused(lambda: engine.query(text), kind)
    for part in parts:
        assert part in said
    assert engine.n_queries == 0
    assert said == refused(lambda: engine.explain(text), kind)


def test_a_thousand_predicates_are_still_accepted(engine):
    query = engine.query("SELECT n FROM trades WHERE " + " OR ".join(f"n={2 * k}" for k in range(1000)))
    push(engine, ("A", 1.0, 1998), ("A", 1.0, 1999))
    assert query.results() == [{"n": 1998}]


def test_a_query_state_error_is_an_eddyline_error():
    assert issubclass(QueryStateError, EddylineError)


def test_dates_as_parameters(engine):
    engine.stream("days", "d DATE")
    query = engine.query("SELECT d FROM days WHERE d >= :since", params={"since": datetime.date(2024, 2, 29)})
    engine.push("days", [("2024-02-28",), ("2024-02-29",)])
    assert query.results() == [{"d": datetime.date(2024, 2, 29)}]
