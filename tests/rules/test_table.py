"""Rules tables: every row a query, found again by its key."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import eddyline
from eddyline.pipeline import load_pipeline
from eddyline.rules import Plan, TableChange, apply, apply_rules, plan

TEMPLATE = "SELECT sym, price FROM trades WHERE sym = :sym AND price < :limit"


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    folder = tmp_path / "rules"
    folder.mkdir()
    (folder / "streams.sql").write_text("CREATE TABLE trades (sym STRING, price DOUBLE, qty INT, day DATE);")
    state(folder)
    return folder


@pytest.fixture
def engine(tmp_path: Path):
    with eddyline.open(tmp_path / "home") as engine:
        yield engine


def state(folder: Path, text: str = TEMPLATE, name: str = "watch-{user}", table: str = "watches.csv") -> None:
    (folder / "watch.sql").write_text(
        f"CREATE OR REPLACE VIEW `{name}` TBLPROPERTIES (rules_table = '{table}') AS\n  {text};"
    )


def table_of(found: Plan) -> TableChange:
    assert [str(mistake) for mistake in found.mistakes] == []
    (table,) = found.tables
    return table


def counts(table: TableChange) -> tuple[int, int, int, int]:
    return table.n_added, table.n_changed, table.n_removed, table.n_unchanged


def refused(found: Plan) -> list[tuple[int, str | None, str]]:
    return [(row.row, row.name, row.reason) for row in found.refused]


def mistakes(found: Plan) -> list[str]:
    return [str(mistake) for mistake in found.mistakes]


# --------------------------------------------------------------------------------------------- by key


def test_every_row_is_a_query(rules, engine):
    (rules / "watches.csv").write_text("user,sym,limit\nann,ACME,10\nbob,BYTE,12.5\n")
    done = apply_rules(engine, rules)
    assert (done.added, done.version) == (2, 1)
    matches = engine.push("trades", [{"sym": "ACME", "price": 9.5}, {"sym": "BYTE", "price": 13.0}])
    assert [query.name for query in matches.queries()] == ["watch-ann"]


def test_a_changed_file_adds_replaces_and_drops_by_key_in_one_version(rules, engine):
    (rules / "watches.csv").write_text("user,sym,limit\nann,ACME,10\nbob,BYTE,12.5\ncid,CORE,1\n")
    apply_rules(engine, rules)
    ids = {query.name: query.id for query in engine.queries()}
    (rules / "watches.csv").write_text("user,sym,limit\ndan,DATA,7\nbob,BYTE,13.5\nann,ACME,10.0\n")
    found = plan(engine, rules)
    assert counts(table_of(found)) == (1, 1, 1, 1)
    apply(engine, found)
    assert engine.version == 2
    assert {query.name: query.generation for query in engine.queries()} == {
        "watch-ann": 1,
        "watch-bob": 2,
        "watch-dan": 1,
    }
    assert engine.get("watch-bob").id == ids["watch-bob"]
    assert engine.push("trades", [{"sym": "BYTE", "price": 13.0}, {"sym": "CORE", "price": 0.5}]).count == 1


def test_a_table_applied_twice_changes_nothing_also_after_a_restart(rules, engine, tmp_path):
    (rules / "watches.csv").write_text("user,sym,limit\nann,ACME,10\nbob,,NaN\n")
    apply_rules(engine, rules)
    assert counts(table_of(plan(engine, rules))) == (0, 0, 0, 2)
    engine.close()
    with eddyline.open(tmp_path / "home") as again:
        assert counts(table_of(plan(again, rules))) == (0, 0, 0, 2)


def test_another_template_replaces_all_and_drops_what_left_the_table(rules, engine):
    (rules / "watches.csv").write_text("user,sym,limit\nann,ACME,10\nbob,BYTE,12\n")
    apply_rules(engine, rules)
    state(rules, TEMPLATE.replace("<", "<="))
    (rules / "watches.csv").write_text("user,sym,limit\nann,ACME,10\n")
    assert counts(table_of(plan(engine, rules))) == (0, 1, 1, 0)
    apply_rules(engine, rules)
    assert [(query.name, query.generation) for query in engine.queries()] == [("watch-ann", 2)]
    assert engine.push("trades", [{"sym": "ACME", "price": 10.0}]).count == 1


def test_queries_of_others_are_not_dropped_with_a_table(rules, engine):
    (rules / "watches.csv").write_text("user,sym,limit\nann,ACME,10\n")
    apply_rules(engine, rules)
    engine.query("SELECT sym FROM trades", name="watch-me")
    engine.query_many("SELECT sym FROM trades WHERE qty = :n", params={"n": [1, 2]}, name="lot-{n}")
    (rules / "watches.csv").write_text("user,sym,limit\n")
    found = plan(engine, rules)
    assert counts(table_of(found)) == (0, 0, 1, 0)
    assert found.unlisted_names == ["watch-me", "lot-1", "lot-2"]


def test_a_row_paused_by_hand_stays_paused(rules, engine):
    (rules / "watches.csv").write_text("user,sym,limit\nann,ACME,10\nbob,BYTE,12\n")
    apply_rules(engine, rules)
    engine.get("watch-ann").pause()
    assert counts(table_of(plan(engine, rules))) == (0, 0, 0, 2)
    (rules / "watches.csv").write_text("user,sym,limit\nann,ACME,11\nbob,BYTE,13\n")
    apply_rules(engine, rules)
    assert (engine.get("watch-ann").state, engine.get("watch-bob").state) == ("paused", "running")


def test_a_removed_statement_leaves_its_queries_until_they_are_pruned(rules, engine):
    (rules / "watches.csv").write_text("user,sym,limit\nann,ACME,10\n")
    apply_rules(engine, rules)
    (rules / "watch.sql").unlink()
    found = plan(engine, rules)
    assert (found.tables, found.unlisted_names) == ([], ["watch-ann"])


# --------------------------------------------------------------------------------------------- bad rows


def test_a_bad_row_is_refused_and_named_and_the_rest_apply(rules, engine):
    (rules / "watches.csv").write_text(
        "user,sym,limit\n"
        "ann,ACME,10\n"
        "bob,BYTE,cheap\n"
        "cid,CORE\n"
        ",DATA,4\n"
        "ann,EDGE,5\n"
        "eve,FLUX,6,7\n"
        "fay,GRID,8\n"
    )
    found = plan(engine, rules)
    assert refused(found) == [
        (2, "watch-bob", "limit: 'cheap' is not DOUBLE"),
        (3, None, "2 values for 3 columns"),
        (4, None, "user is empty, and it is part of the key"),
        (5, "watch-ann", "the key already exists, in row 1"),
        (6, None, "4 values for 3 columns"),
    ]
    assert str(found.refused[0]) == f"{rules}/watches.csv: row 2 (watch-bob): limit: 'cheap' is not DOUBLE"
    done = apply(engine, found)
    assert (done.added, done.n_refused) == (2, 5)
    assert [query.name for query in engine.queries()] == ["watch-ann", "watch-fay"]


def test_a_row_that_turns_bad_leaves_its_query_as_it_was(rules, engine):
    (rules / "watches.csv").write_text("user,sym,limit\nann,ACME,10\nbob,BYTE,12\n")
    apply_rules(engine, rules)
    (rules / "watches.csv").write_text("user,sym,limit\nann,ACME,oops\nbob,BYTE,12\n")
    assert counts(table_of(plan(engine, rules))) == (0, 0, 0, 1)
    apply_rules(engine, rules)
    assert engine.push("trades", [{"sym": "ACME", "price": 9.0}]).count == 1


def test_a_row_whose_name_a_rule_has_is_refused(rules, engine):
    (rules / "a.sql").write_text("CREATE VIEW `watch-ann` AS SELECT sym FROM trades")
    (rules / "watches.csv").write_text("user,sym,limit\nann,ACME,10\n")
    assert refused(plan(engine, rules)) == [
        (1, "watch-ann", f"rule watch-ann already exists, at {rules}/a.sql:1:1")
    ]


def test_rows_that_can_never_match_are_counted(rules, engine):
    state(rules, "SELECT sym FROM trades WHERE qty BETWEEN :low AND :high")
    (rules / "watches.csv").write_text("user,low,high\nann,1,5\nbob,9,5\ncid,,5\n")
    assert table_of(plan(engine, rules)).warnings == ("2 of its 3 queries can never match",)


# --------------------------------------------------------------------------------------------- types and names


def test_texts_of_a_csv_file_become_what_they_are_compared_with(rules, engine):
    state(rules, "SELECT sym, :note AS note FROM trades WHERE sym = :sym AND qty < :qty AND day >= :day")
    (rules / "watches.csv").write_text(
        "user,sym,qty,day,note\n007,0123,5,2026-01-05,7\n8,ACME,9.5,2026-01-06,x y\n"
    )
    apply_rules(engine, rules)
    assert [query.name for query in engine.queries()] == ["watch-007", "watch-8"]
    rows = [
        {"sym": "0123", "qty": 4, "day": "2026-01-05"},
        {"sym": "ACME", "qty": 9, "day": "2026-01-06"},
    ]
    matches = engine.push("trades", rows)
    assert [query.latest(1)[0]["note"] for query in matches.queries()] == ["7", "x y"]


def test_parquet_brings_its_own_types_and_names_may_have_formats(rules, engine):
    state(rules, "SELECT sym FROM trades WHERE sym IN (:syms) AND price < :limit", "w-{n:03d}", "w.parquet")
    table = pa.table(
        {"n": [7, 8], "syms": [["A", "B"], ["C"]], "limit": pa.array([5, 6], pa.int8()), "extra": ["", ""]}
    )
    pq.write_table(table, rules / "w.parquet")
    apply_rules(engine, rules)
    matches = engine.push("trades", [{"sym": "B", "price": 4.5}, {"sym": "C", "price": 6.5}])
    assert [query.name for query in matches.queries()] == ["w-007"]
    assert counts(table_of(plan(engine, rules))) == (0, 0, 0, 2)


def test_a_column_named_name_says_what_each_query_is_called(rules, engine):
    state(rules, name="anything")
    (rules / "watches.csv").write_text("_name,sym,limit\nfirst,ACME,10\nsecond,BYTE,12\n")
    apply_rules(engine, rules)
    assert [query.name for query in engine.queries()] == ["first", "second"]


# --------------------------------------------------------------------------------------------- tables that cannot be used


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the rules table {file} cannot be read\n  detail: Empty CSV file"),
        (b"user,sym\nann,A\n", "watches.csv has no column limit\n  detail: It is the parameter :limit of the template.\n"
                               "  hint: Known: sym, user."),
        (b"usr,sym,limit\nann,A,1\n", "watches.csv has no column user\n  detail: It is part of the name of each query.\n"
                                      "  hint: Did you mean usr?"),
        (b"user,sym,sym,limit\n", "watches.csv has two columns sym\n  hint: Give every column its own name."),
        (b"user,sym,limit\n\xff,A,1\n", "the rules table {file} cannot be read"),
    ],
)  # fmt: skip
def test_a_table_that_cannot_be_read_is_a_mistake(rules, engine, content, message):
    (rules / "watches.csv").write_bytes(content)
    (told,) = mistakes(plan(engine, rules))
    place, _, rest = told.partition(": ")
    assert place == f"{rules}/watch.sql:1:1"
    lines = [line for line in rest.splitlines() if not line.lstrip().startswith(("CREATE", "^"))]
    assert "\n".join(lines).startswith(message.format(file=rules / "watches.csv"))


def test_a_table_that_is_not_there_is_a_mistake(rules, engine):
    (told,) = mistakes(plan(engine, rules))
    assert f"there is no rules table {rules}/watches.csv" in told
    assert "hint: Its path starts at the folder of the file that names it." in told


def test_a_file_that_is_no_table_is_a_mistake(rules, engine):
    state(rules, table="watches.xlsx")
    (told,) = mistakes(plan(engine, rules))
    assert "watches.xlsx is not a rules table" in told
    assert "hint: Write a .csv, .tsv or .parquet file." in told


def test_a_parquet_file_that_is_none_is_a_mistake(rules, engine):
    state(rules, table="w.parquet")
    (rules / "w.parquet").write_bytes(b"PAR?")
    (told,) = mistakes(plan(engine, rules))
    assert f"the rules table {rules}/w.parquet cannot be read" in told


def test_a_template_that_is_wrong_is_told_where_it_is_wrong(rules, engine):
    state(rules, TEMPLATE.replace("price <", "prize <"))
    (rules / "watches.csv").write_text("user,sym,limit\nann,ACME,10\n")
    (told,) = mistakes(plan(engine, rules))
    assert told.startswith(f"{rules}/watch.sql:2:54: there is no column prize in trades")


def test_a_name_without_a_column_is_refused(rules, engine):
    state(rules, name="watch")
    (rules / "watches.csv").write_text("user,sym,limit\nann,ACME,10\n")
    (told,) = mistakes(plan(engine, rules))
    assert "the name 'watch' would be that of every row" in told
    assert 'hint: Put a column that identifies the rows into it, such as "watch-{user}".' in told


def test_a_name_that_cannot_be_formatted_is_refused(rules, engine):
    state(rules, name="watch-{user")
    (rules / "watches.csv").write_text("user,sym,limit\nann,ACME,10\n")
    (told,) = mistakes(plan(engine, rules))
    assert "'watch-{user' cannot be the name of queries" in told


def test_a_number_of_a_text_column_is_refused_by_the_template(rules, engine):
    state(rules, table="w.parquet")
    pq.write_table(pa.table({"user": ["ann"], "sym": [1], "limit": [2.0]}), rules / "w.parquet")
    (told,) = mistakes(plan(engine, rules))
    assert f"{rules}/watch.sql:2:" in told


# --------------------------------------------------------------------------------------------- of a pipeline


def test_a_pipeline_may_state_a_table_with_its_template_in_a_file(tmp_path, engine):
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "watch.sql").write_text(f"-- a template\n{TEMPLATE};\n")
    (tmp_path / "rules" / "all.sql").write_text("SELECT sym FROM trades")
    (tmp_path / "watches.csv").write_text("user,sym,limit\nann,ACME,10\n")
    (tmp_path / "eddyline.toml").write_text(
        '[streams.trades]\nschema = "sym STRING, price DOUBLE"\n'
        '[rules]\nfiles = ["rules/*.sql"]\n'
        '[[rules.tables]]\nname = "watch-{user}"\ntemplate = "rules/watch.sql"\nfile = "watches.csv"\nkey = "user"\n'
        'properties = { owner = "desk" }\n'
    )
    pipeline = load_pipeline(tmp_path / "eddyline.toml")
    done = apply_rules(engine, pipeline)
    assert (done.added, done.version) == (2, 1)
    assert engine.get("watch-ann", owner="desk").text == TEMPLATE
    assert plan(engine, pipeline).is_empty(prune=True)
    (tmp_path / "rules" / "watch.sql").write_text(
        f"-- a template\n{TEMPLATE.replace('price <', 'prize <')};\n"
    )
    (told,) = mistakes(plan(engine, load_pipeline(tmp_path / "eddyline.toml")))
    assert told.startswith(f"{tmp_path}/rules/watch.sql:2:52: there is no column prize in trades")


def test_a_template_inside_the_pipeline_file_is_told_by_its_place_there(tmp_path, engine):
    (tmp_path / "watches.csv").write_text("user,sym,limit\nann,ACME,10\n")
    (tmp_path / "eddyline.toml").write_text(
        '[streams.trades]\nschema = "sym STRING, price DOUBLE"\n'
        '[[rules.tables]]\nname = "watch-{user}"\nsql = "SELECT sim FROM trades WHERE sym = :sym"\nfile = "watches.csv"\n'
    )
    (told,) = mistakes(plan(engine, load_pipeline(tmp_path / "eddyline.toml")))
    assert "there is no column sim in trades" in told
    assert "detail: At line 1, column 8 of the template." in told


def test_a_row_whose_constants_go_over_a_limit_is_refused_and_the_others_stand(rules, engine):
    state(rules, "SELECT sym FROM trades WHERE sym = repeat(:sym, cast(:n AS INT))")
    (rules / "watches.csv").write_text("user,sym,n\nann,A,3\nbob,B,3000000\n")
    found = apply_rules(engine, rules)
    why = "its constants go over a limit: repeat would make a text of 3,000,000 characters; at most 1,048,576 are made"
    assert refused(found) == [(2, "watch-bob", why)]
    assert engine.push("trades", [{"sym": "AAA"}]).count == 1
