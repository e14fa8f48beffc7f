"""Rules as code: what files say, what would change, and the change in one version."""

from __future__ import annotations

from pathlib import Path

import pytest

import eddyline
from eddyline.errors import PropertyError, QueryStateError, SchemaError
from eddyline.functions.declarations import DECLARED
from eddyline.rules import Plan, RulesError, apply, apply_rules, desired, export, plan, rollback

STREAM = "CREATE TABLE trades (sym STRING, sector STRING, price DOUBLE, qty INT);\n"


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    folder = tmp_path / "rules"
    folder.mkdir()
    (folder / "streams.sql").write_text(STREAM)
    return folder


@pytest.fixture
def engine(tmp_path: Path):
    with eddyline.open(tmp_path / "home", clock=lambda: 1_767_225_600_000_000) as engine:
        yield engine


def changes(found: Plan) -> list[tuple[str, str]]:
    return [(change.kind, change.rule.name) for change in found.queries]


def told(found: Plan, folder: Path) -> list[str]:
    return [str(mistake).replace(f"{folder}/", "") for mistake in found.mistakes]


# --------------------------------------------------------------------------------------------- reading files


def test_a_file_holds_views_streams_or_one_select_named_after_it(rules):
    (rules / "cheap.sql").write_text("-- what we buy\nSELECT sym FROM trades WHERE price < 10;\n")
    (rules / "ops.sql").write_text(
        "CREATE OR REPLACE VIEW busy TBLPROPERTIES (owner = 'ops') AS SELECT sym FROM trades WHERE qty > 9;\n"
        "CREATE VIEW `a;b` AS\n  SELECT sym FROM trades WHERE sym = 'x;y' -- ; not the end\n;"
    )
    wanted = desired(rules)
    assert wanted.mistakes == []
    assert [(s.stream.name, s.place.line) for s in wanted.streams] == [("trades", 1)]
    assert [(r.name, r.properties.owner, r.text, r.origin.place.line) for r in wanted.rules] == [
        ("cheap", "", "SELECT sym FROM trades WHERE price < 10", 2),
        ("busy", "ops", "SELECT sym FROM trades WHERE qty > 9", 1),
        ("a;b", "", "SELECT sym FROM trades WHERE sym = 'x;y'", 2),
    ]


def test_every_mistake_of_every_file_is_told_with_its_place(rules, engine):
    (rules / "a.sql").write_text(
        "CREATE VIEW a AS SELECT symm FROM trades;\n"
        "CREATE VIEW b AS\n  SELEC sym FROM trades;\n"
        "DROP VIEW c;\n"
        "ALTER VIEW c AS SELECT sym FROM trades;\n"
        "CREATE VIEW d TBLPROPERTIES (ownr = 'x') AS SELECT sym FROM trades;\n"
    )
    (rules / "b.sql").write_text("SELECT sym FROM trades;\nSELECT qty FROM trades")
    (rules / "c.sql").write_text("CREATE VIEW a AS SELECT sym FROM trades")
    assert told(plan(engine, rules), rules) == [
        "a.sql:1:25: there is no column symm in trades\n"
        "  CREATE VIEW a AS SELECT symm FROM trades;\n"
        "                          ^^^^\n"
        "  hint: Did you mean sym?",
        "a.sql:3:3: expected SELECT, found SELEC\n"
        "    SELEC sym FROM trades;\n"
        "    ^^^^^\n"
        "  hint: A view is a query: … AS SELECT … FROM stream.",
        "a.sql:4:1: DROP VIEW is not accepted in a rule file\n"
        "  DROP VIEW c;\n"
        "  ^^^^^^^^^^^\n"
        "  detail: A rule file declares what should be deployed, not what to do.\n"
        "  hint: Change the CREATE VIEW itself; what is in no file is dropped by eddyline apply --prune.",
        "a.sql:5:1: ALTER VIEW is not accepted in a rule file\n"
        "  ALTER VIEW c AS SELECT sym FROM trades;\n"
        "  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "  detail: A rule file declares what should be deployed, not what to do.\n"
        "  hint: Change the CREATE VIEW itself; what is in no file is dropped by eddyline apply --prune.",
        "a.sql:6:1: there is no property ownr\n"
        "  CREATE VIEW d TBLPROPERTIES (ownr = 'x') AS SELECT sym FROM trades;\n"
        "  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "  hint: Did you mean owner?",
        "b.sql:1:1: a SELECT without a name must be alone in its file\n"
        "  SELECT sym FROM trades;\n"
        "  ^^^^^^^^^^^^^^^^^^^^^^\n"
        "  detail: It would be called b, and b.sql holds 2 statements.\n"
        "  hint: Name it: CREATE OR REPLACE VIEW name AS SELECT ….",
        "b.sql:2:1: a SELECT without a name must be alone in its file\n"
        "  SELECT qty FROM trades\n"
        "  ^^^^^^^^^^^^^^^^^^^^^^\n"
        "  detail: It would be called b, and b.sql holds 2 statements.\n"
        "  hint: Name it: CREATE OR REPLACE VIEW name AS SELECT ….",
        "c.sql:1:1: rule a already exists\n"
        "  CREATE VIEW a AS SELECT sym FROM trades\n"
        "  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "  detail: The first is at a.sql:1:1.\n"
        "  hint: Rename one of them, or leave one out.",
    ]


def test_rules_with_a_mistake_change_nothing(rules, engine):
    (rules / "good.sql").write_text("SELECT sym FROM trades")
    (rules / "bad.sql").write_text("SELECT sim FROM trades")
    with pytest.raises(RulesError) as error:
        apply_rules(engine, rules)
    assert str(error.value).startswith("the rules have 1 mistake, so nothing was changed\n")
    assert "there is no column sim in trades" in str(error.value)
    assert engine.version == 0


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"SELECT '\xff'", "x.sql:1:1: the file is not UTF-8"),
        (b"CREATE TABLE trades (sym INT)", "x.sql:1:1: stream trades already exists"),
        (b"CREATE VIEW v AS SELECT mode(qty) AS n FROM trades", "x.sql:1:25: the aggregate mode is not built in this version"),
        (b"CREATE VIEW v TBLPROPERTIES (within = '1 minute') AS SELECT * FROM trades", "property within is not built"),
        (b"CREATE VIEW v TBLPROPERTIES (per = 'x') AS SELECT * FROM trades", "property per names x, which is not a column"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_taken_is_named(rules, engine, content, problem):
    (rules / "x.sql").write_bytes(content)
    (message,) = told(plan(engine, rules), rules)
    assert problem in message


def test_a_stream_that_files_declare_twice_alike_is_one(rules):
    (rules / "again.sql").write_text(STREAM)
    assert [s.stream.name for s in desired(rules).streams] == ["trades"]


def test_a_secret_in_the_options_of_a_stream_is_refused_and_not_shown(rules, engine):
    (rules / "streams.sql").write_text(
        "CREATE TABLE t (a INT) USING kafka OPTIONS (subscribe 't', 'sasl.password' = 'hunter2')"
    )
    (message,) = told(plan(engine, rules), rules)
    assert message == (
        "streams.sql:1:1: option sasl.password of stream t holds a secret in plain text\n"
        "  detail: Declarations are stored in the home and shown.\n"
        "  hint: Write sasl.password '${env:NAME}' or '${file:/path}'."
    )


def test_a_statement_with_a_secret_that_cannot_be_read_is_not_shown(rules, engine):
    (rules / "streams.sql").write_text(
        "CREATE TABLE t (a INT)\n  USING kafka OPTIONS (subscribe 't', 'sasl.password' 'hunter2')"
    )
    (message,) = told(plan(engine, rules), rules)
    assert message == (
        "streams.sql:2:64: the statement cannot be read\n"
        "  detail: Its text is not shown, as it seems to hold a secret.\n"
        "  hint: Write options as name = 'value', and secrets as '${env:NAME}' or '${file:/path}'."
    )


def test_folders_without_rules_and_paths_that_are_not_there_are_refused(tmp_path):
    with pytest.raises(PropertyError, match=r"there are no rules in .*\nhint: Rule files end in .sql"):
        desired(tmp_path)
    with pytest.raises(PropertyError, match=r"there is no file or folder nowhere\.sql"):
        desired("nowhere.sql")


def test_hidden_folders_are_passed_over(rules):
    (rules / ".old").mkdir()
    (rules / ".old" / "x.sql").write_text("nonsense")
    assert desired(rules).mistakes == []


# --------------------------------------------------------------------------------------------- plan and apply


def test_all_changes_are_one_version(rules, engine):
    (rules / "a.sql").write_text(
        "CREATE VIEW one AS SELECT sym FROM trades WHERE qty = 1; CREATE VIEW two AS SELECT sym FROM trades WHERE qty = 2"
    )
    done = apply_rules(engine, rules)
    assert (done.before, done.version, done.added, done.changed, done.removed) == (0, 1, 2, 0, 0)
    assert engine.push("trades", [{"sym": "A", "qty": 1}, {"sym": "B", "qty": 2}]).count == 2


def test_applying_twice_changes_nothing_also_after_a_restart(rules, engine, tmp_path):
    (rules / "a.sql").write_text(
        "SELECT sym FROM trades WHERE sector = 'TECH' AND price < 10 OR qty IN (1, 2)"
    )
    apply_rules(engine, rules)
    assert changes(plan(engine, rules)) == [("unchanged", "a")]
    engine.close()
    with eddyline.open(tmp_path / "home") as again:
        found = plan(again, rules)
        assert changes(found) == [("unchanged", "a")]
        assert found.is_empty()
        assert apply_rules(again, rules).version == 1


def test_another_text_or_property_is_a_change(rules, engine):
    rule = rules / "a.sql"
    rule.write_text("CREATE VIEW a AS SELECT sym FROM trades WHERE qty = 1")
    apply_rules(engine, rules)
    rule.write_text("CREATE VIEW a AS SELECT sym FROM trades WHERE qty = 2")
    (change,) = plan(engine, rules).queries
    assert (change.kind, change.reason, change.before) == (
        "changed",
        "text",
        "SELECT sym FROM trades WHERE qty = 1",
    )
    rule.write_text("CREATE VIEW a TBLPROPERTIES (enabled = 'false') AS SELECT sym FROM trades WHERE qty = 1")
    (change,) = plan(engine, rules).queries
    assert (change.kind, change.reason, change.properties) == (
        "changed",
        "properties",
        {"enabled": (True, False)},
    )
    apply_rules(engine, rules)
    assert engine.get("a").state == "paused"
    assert (engine.get("a").id, engine.get("a").generation) == (1, 2)


def test_a_new_column_changes_rules_that_select_all(rules, engine):
    (rules / "all.sql").write_text("SELECT * FROM trades")
    apply_rules(engine, rules)
    (rules / "streams.sql").write_text(STREAM.replace("qty INT", "qty INT, venue STRING"))
    found = plan(engine, rules)
    assert [(s.kind, s.columns) for s in found.streams] == [("changed", ("venue",))]
    assert found.queries[0].reason == "a function or a column it uses is another now"
    apply(engine, found)
    assert engine.get("all").schema.names == ["sym", "sector", "price", "qty", "venue"]


def test_a_function_with_other_code_changes_the_rules_that_call_it(rules, engine):
    before = dict(DECLARED)
    try:
        eddyline.udf(returns="int", name="twice", takes=["int"])(lambda n: n)
        (rules / "f.sql").write_text("SELECT sym FROM trades WHERE twice(qty) > 10")
        apply_rules(engine, rules)
        assert changes(plan(engine, rules)) == [("unchanged", "f")]
        eddyline.udf(returns="int", name="twice", takes=["int"])(lambda n: n + 0)
        assert changes(plan(engine, rules)) == [("changed", "f")]
    finally:
        DECLARED.clear()
        DECLARED.update(before)


def test_what_is_in_no_file_is_dropped_only_when_asked_for(rules, engine):
    (rules / "a.sql").write_text("SELECT sym FROM trades")
    apply_rules(engine, rules)
    engine.query("SELECT qty FROM trades", name="by_hand")
    found = plan(engine, rules)
    assert (found.unlisted_names, found.is_empty(), found.is_empty(prune=True)) == (["by_hand"], True, False)
    assert apply(engine, found).removed == 0
    assert apply(engine, found, prune=True).removed == 1
    assert [query.name for query in engine.queries()] == ["a"]


def test_a_dry_run_changes_nothing(rules, engine):
    (rules / "a.sql").write_text("SELECT sym FROM trades")
    done = apply_rules(engine, rules, dry_run=True)
    assert (done.added, done.before, done.version, engine.version) == (1, 0, 0, 0)


def test_a_plan_of_an_earlier_version_is_refused(rules, engine):
    (rules / "a.sql").write_text("SELECT sym FROM trades")
    found = plan(engine, rules)
    engine.stream("other", "n INT")
    with pytest.raises(QueryStateError, match="the plan is for version 0, and this is version 1"):
        apply(engine, found)


def test_a_rule_paused_by_hand_stays_paused_when_its_text_changes(rules, engine):
    (rules / "a.sql").write_text("SELECT sym FROM trades WHERE qty = 1")
    apply_rules(engine, rules)
    engine.get("a").pause()
    assert plan(engine, rules).is_empty()
    (rules / "a.sql").write_text("SELECT sym FROM trades WHERE qty = 2")
    (change,) = plan(engine, rules).queries
    assert change.warnings == ("it is paused and stays so",)
    apply_rules(engine, rules)
    assert (engine.get("a").state, engine.get("a").text) == ("paused", "SELECT sym FROM trades WHERE qty = 2")


@pytest.mark.parametrize("is_paused", [True, False])
def test_a_rule_runs_as_its_enabled_says_when_that_becomes_another(rules, engine, is_paused):
    rule = rules / "a.sql"
    rule.write_text("CREATE VIEW a TBLPROPERTIES (enabled = 'false') AS SELECT sym FROM trades WHERE qty = 1")
    apply_rules(engine, rules)
    query = engine.get("a")
    (query.pause if is_paused else query.resume)()
    rule.write_text("CREATE VIEW a AS SELECT sym FROM trades WHERE qty = 1")
    apply_rules(engine, rules)
    assert query.state == "running"
    (query.pause if is_paused else query.resume)()
    rule.write_text("CREATE VIEW a TBLPROPERTIES (enabled = 'false') AS SELECT sym FROM trades WHERE qty = 2")
    apply_rules(engine, rules)
    assert query.state == "paused"


def test_a_stream_that_would_break_a_query_is_a_mistake(rules, engine):
    (rules / "a.sql").write_text("SELECT sym FROM trades WHERE qty = 1")
    apply_rules(engine, rules)
    (rules / "streams.sql").write_text(STREAM.replace("qty INT", "qty STRING"))
    message = told(plan(engine, rules), rules)[0]
    assert message.startswith("streams.sql:1:1: stream trades cannot change like this while queries need it")
    assert "Used by a." in message


# --------------------------------------------------------------------------------------------- costs and warnings


@pytest.mark.parametrize(
    ("where", "cost", "warnings"),
    [
        ("WHERE sym = 'A' AND qty > 1", "index", ()),
        ("WHERE qty > 1 AND sym LIKE '%a%b%'", "residual", ()),
        ("", "matches everything", ("matches every row",)),
        ("WHERE qty > 10 AND qty < 5", "index", ("can never match",)),
        ("WHERE sym RLIKE 'a+b'", "residual",
         ("matches a regular expression on every row of trades: no condition narrows it first",)),
        ("WHERE sym RLIKE 'a+b' AND qty = 1", "residual", ()),
        ("WHERE score(qty) > 1", "function", ("calls score on every row of trades: no condition narrows it first",)),
        ("WHERE score(qty) > 1 AND sym = 'A'", "function", ()),
    ],
)  # fmt: skip
def test_a_rule_says_what_it_costs_and_what_is_odd(rules, engine, where, cost, warnings):
    before = dict(DECLARED)
    eddyline.udf(returns="int", name="score", takes=["int"])(lambda n: n)
    try:
        (rules / "a.sql").write_text(f"SELECT sym FROM trades {where}")
        (change,) = plan(engine, rules).queries
    finally:
        DECLARED.clear()
        DECLARED.update(before)
    assert (change.cost, change.warnings) == (cost, warnings)


def test_a_rule_that_does_the_same_as_another_is_told(rules, engine):
    (rules / "a.sql").write_text("SELECT sym FROM trades WHERE qty > 5")
    (rules / "b.sql").write_text("SELECT sym FROM trades WHERE qty > 5")
    (rules / "c.sql").write_text("SELECT sym FROM trades WHERE qty > 6")
    found = plan(engine, rules)
    assert [change.warnings for change in found.queries] == [
        (),
        (f"gives the same results as a ({rules}/a.sql:1:1)",),
        (),
    ]


# --------------------------------------------------------------------------------------------- export


def test_what_is_exported_changes_nothing_when_it_is_applied(engine, tmp_path):
    engine.sql(
        "CREATE TABLE trades (sym STRING, `a b` INT NOT NULL, ts TIMESTAMP, xs ARRAY<DECIMAL(10,2)>)"
        " TBLPROPERTIES (time = 'ts', lateness = '90 seconds')"
    )
    engine.query("  SELECT sym FROM trades WHERE `a b` > 1 -- why not\n;", name="spaced out")
    engine.query("SELECT * FROM trades WHERE sym = 'it\\'s'", name="from", owner="o'ps")
    engine.query("SELECT * FROM trades WHERE sym = 'n'")
    engine.query("SELECT sym FROM trades WHERE `a b` > :n", name="given", params={"n": 7})
    engine.query_many(
        "SELECT sym FROM trades WHERE sym = :s", params={"s": ["x", "y", "z"]}, name="watch {s}"
    )
    engine.get("watch y").pause()
    engine.get("spaced out").pause()
    done = export(engine, tmp_path / "out")
    assert [file.name for file in done.files] == [
        "streams.sql",
        "queries.sql",
        "given.sql",
        "given.parquet",
        "watch.sql",
        "watch.parquet",
    ]
    assert (done.n_streams, done.n_queries) == (1, 7)
    found = plan(engine, tmp_path / "out")
    assert found.mistakes == []
    assert found.is_empty(prune=True)
    assert found.count("unchanged") == 7
    with eddyline.open() as other:
        assert apply_rules(other, tmp_path / "out").added == 7
        assert other.get("watch y").state == "running"
        assert other.push("trades", [{"sym": "y", "a b": 8}]).count == 3


def test_an_export_never_writes_over_something(engine, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("mine")
    with pytest.raises(
        PropertyError, match=r"out already exists\nhint: Name a new folder, or an empty one\."
    ):
        export(engine, tmp_path / "out")


def test_an_exported_secret_becomes_the_name_of_a_variable(engine, tmp_path):
    engine.sql("CREATE TABLE t (a INT) USING kafka OPTIONS (subscribe 't', 'sasl.password' = 'hunter2')")
    export(engine, tmp_path / "out")
    text = (tmp_path / "out" / "streams.sql").read_text()
    assert "hunter2" not in text
    assert "'sasl.password' = '${env:T_SASL_PASSWORD}'" in text


# --------------------------------------------------------------------------------------------- rollback


def test_rolling_back_makes_the_queries_of_an_earlier_version_stand_again(rules, engine, tmp_path):
    (rules / "a.sql").write_text("SELECT sym FROM trades WHERE qty = 1")
    (rules / "b.sql").write_text("SELECT sym FROM trades WHERE qty = 2")
    apply_rules(engine, rules)
    watches = engine.query_many(
        "SELECT sym FROM trades WHERE qty = :n", params={"n": [5, 6, 7]}, name="watch-{n}"
    )
    engine.get("b").pause()
    then = engine.version
    engine.replace("a", "SELECT sym FROM trades WHERE qty = 10")
    engine.get("b").drop()
    engine.get("watch-5").drop()
    engine.replace("watch-6", "SELECT sym FROM trades WHERE qty = 60")
    engine.get("watch-7").pause()
    engine.query("SELECT sym FROM trades", name="new")
    before = engine.version
    assert rollback(engine, then, dry_run=True).dropped_ids == [engine.get("new").id]
    assert engine.version == before
    done = rollback(engine, then)
    assert engine.version == before + 1 == done.version
    assert sorted((q.name, q.state, q.text) for q in engine.queries()) == [
        ("a", "running", "SELECT sym FROM trades WHERE qty = 1"),
        ("b", "paused", "SELECT sym FROM trades WHERE qty = 2"),
        ("watch-5", "running", "SELECT sym FROM trades WHERE qty = :n"),
        ("watch-6", "running", "SELECT sym FROM trades WHERE qty = :n"),
        ("watch-7", "running", "SELECT sym FROM trades WHERE qty = :n"),
    ]
    assert engine.get("watch-6").id == watches.ids[1]
    assert engine.get("watch-5").id not in watches.ids
    rows = [{"sym": "A", "qty": n} for n in (1, 2, 5, 6, 7, 10, 60)]
    assert sorted(q.name for q in engine.push("trades", rows).queries()) == [
        "a",
        "watch-5",
        "watch-6",
        "watch-7",
    ]
    engine.close()
    with eddyline.open(tmp_path / "home") as again:
        assert sorted(q.name for q in again.queries()) == ["a", "b", "watch-5", "watch-6", "watch-7"]


def test_rolling_back_to_where_it_stands_does_nothing(rules, engine):
    (rules / "a.sql").write_text("SELECT sym FROM trades WHERE qty = 1")
    apply_rules(engine, rules)
    assert rollback(engine, 1).is_empty
    assert engine.version == 1


def test_a_query_that_came_back_under_its_name_takes_the_place_of_the_old_one(engine):
    engine.stream("s", "n INT")
    engine.query("SELECT n FROM s WHERE n = 1", name="q")
    engine.query_many("SELECT n FROM s WHERE n = :n", params={"n": [5, 6]}, name="w-{n}")
    engine.drop("q")
    engine.drop("w-5")
    engine.query("SELECT n FROM s WHERE n = 2", name="q")
    engine.query("SELECT n FROM s WHERE n = 50", name="w-5")
    ids = engine.get("q").id, engine.get("w-5").id
    done = rollback(engine, 3)
    assert (done.added_ids, done.changed_ids, done.dropped_ids) == ([], list(ids), [])
    assert (engine.get("q").id, engine.get("w-5").id) == ids
    assert engine.push("s", [{"n": n} for n in (1, 2, 5, 6, 50)]).count == 3
    assert rollback(engine, 3).is_empty


def test_a_change_that_was_taken_back_by_hand_needs_no_rollback(engine):
    engine.stream("s", "n INT")
    engine.query("SELECT n FROM s WHERE n = 1", name="q")
    engine.replace("q", "SELECT n FROM s WHERE n = 2")
    engine.replace("q", "SELECT n FROM s WHERE n = 1")
    assert rollback(engine, 2).is_empty


def test_a_dropped_stream_comes_back_with_its_queries(engine):
    engine.stream("s", "n INT")
    engine.query("SELECT n FROM s", name="q")
    engine.drop("q")
    engine.drop_stream("s")
    rollback(engine, 2)
    assert engine.push("s", [{"n": 1}]).count == 1


def test_a_version_whose_columns_are_gone_cannot_come_back(engine):
    engine.stream("s", "n INT, m INT")
    engine.query("SELECT n FROM s WHERE m = 1", name="q")
    engine.drop("q")
    engine.stream("s", "n INT, m STRING")
    with pytest.raises(SchemaError) as error:
        rollback(engine, 2)
    assert str(error.value) == (
        "version 2 cannot come back: stream s has changed since\n"
        "detail: Column m was INT and is STRING.\n"
        "hint: Declare the stream as it was, or register the queries anew."
    )


def test_versions_that_are_not_there_are_refused(engine):
    engine.stream("s", "n INT")
    with pytest.raises(
        QueryStateError, match=r"there is no version 9 to go back to\ndetail: Kept are 1 to 1."
    ):
        rollback(engine, 9)
    with pytest.raises(QueryStateError, match="an engine in memory keeps no earlier versions"):
        rollback(eddyline.open(), 1)


def test_constants_that_exhaust_memory_are_a_mistake_with_its_place(rules, engine):
    text = "SELECT sym FROM trades WHERE length(replace(repeat('a',1000000),'a',repeat('b',1000000))) > 0"
    (rules / "exploding.sql").write_text(f"CREATE VIEW exploding AS {text};")
    (mistake,) = told(plan(engine, rules), rules)
    assert mistake.startswith("exploding.sql:1:")
    assert "replace would make a text of 1,000,000,000,000 bytes; at most 16,777,216 are made" in mistake
