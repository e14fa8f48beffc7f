"""Rules that read other rules as views: planned in whatever order they are written, applied in one version."""

from __future__ import annotations

from pathlib import Path

import pytest

import eddyline
from eddyline.errors import SchemaError
from eddyline.rules import apply_rules, export, plan, rollback

STREAM = "CREATE TABLE trades (sym STRING, price DOUBLE, qty INT);\n"
READER_FIRST = (
    "CREATE VIEW rich AS SELECT sym FROM dear WHERE value > 100;\n"
    "CREATE VIEW dear AS SELECT sym, price * qty AS value FROM trades WHERE price > 10;\n"
)


def written(folder: Path, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "rules.sql").write_text(STREAM + text)
    return folder


def results(engine: eddyline.Engine, name: str) -> list[dict[str, object]]:
    return [dict(result) for result in engine.get(name).latest(100)]


def test_a_rule_may_read_one_that_is_written_after_it(tmp_path):
    with eddyline.open() as engine:
        applied = apply_rules(engine, written(tmp_path / "rules", READER_FIRST))
        assert (applied.added, engine.version) == (2, applied.version)
        engine.push("trades", [{"sym": "A", "price": 20.0, "qty": 10}, {"sym": "B", "price": 20.0, "qty": 1}])
        assert results(engine, "rich") == [{"sym": "A"}]


def test_rules_that_read_each_other_are_a_mistake_of_both(tmp_path):
    circle = "CREATE VIEW a AS SELECT sym FROM b;\nCREATE VIEW b AS SELECT sym FROM a;\n"
    with eddyline.open() as engine:
        found = plan(engine, written(tmp_path / "rules", circle))
        assert [mistake.problem for mistake in found.mistakes] == [
            "there is no stream b",
            "there is no stream a",
        ]


def test_a_changed_view_gives_its_readers_a_new_generation_in_the_same_version(tmp_path):
    with eddyline.open() as engine:
        apply_rules(engine, written(tmp_path / "rules", READER_FIRST))
        engine.query("SELECT sym, value FROM dear", name="other")
        version = engine.version
        apply_rules(engine, written(tmp_path / "rules", READER_FIRST.replace("price > 10", "price > 50")))
        assert engine.version == version + 1
        assert [engine.get(name).generation for name in ("dear", "rich", "other")] == [2, 2, 2]
        engine.push("trades", [{"sym": "A", "price": 20.0, "qty": 10}, {"sym": "B", "price": 60.0, "qty": 2}])
        assert results(engine, "rich") == [{"sym": "B"}]


def test_a_view_and_its_reader_may_change_together_so_that_neither_could_alone(tmp_path):
    with eddyline.open() as engine:
        apply_rules(engine, written(tmp_path / "rules", READER_FIRST))
        apply_rules(engine, written(tmp_path / "rules", READER_FIRST.replace("value", "worth")))
        engine.push("trades", [{"sym": "A", "price": 20.0, "qty": 10}])
        assert results(engine, "rich") == [{"sym": "A"}]


def test_a_plan_that_breaks_a_reader_which_no_file_has_changes_nothing(tmp_path):
    with eddyline.open() as engine:
        apply_rules(engine, written(tmp_path / "rules", READER_FIRST))
        engine.query("SELECT value FROM dear", name="other")
        version = engine.version
        with pytest.raises(SchemaError) as caught:
            apply_rules(engine, written(tmp_path / "rules", READER_FIRST.replace("value", "worth")))
        assert "cannot change like this while queries read it" in caught.value.problem
        assert caught.value.detail == "other could not: there is no column value in dear."
        assert engine.version == version
        engine.push("trades", [{"sym": "A", "price": 20.0, "qty": 10}])
        assert results(engine, "other") == [{"value": 200.0}]


def test_rolling_back_brings_views_and_readers_back(tmp_path):
    with eddyline.open(tmp_path / "home") as engine:
        apply_rules(engine, written(tmp_path / "rules", READER_FIRST))
        version = engine.version
        engine.sql("DROP VIEW dear CASCADE")
        assert engine.queries().total == 0
        rollback(engine, version)
        engine.push("trades", [{"sym": "A", "price": 20.0, "qty": 10}])
        assert results(engine, "rich") == [{"sym": "A"}]


def test_rolling_back_brings_joins_back(tmp_path):
    join = (
        "CREATE VIEW pairs AS SELECT a.sym, b.qty FROM trades a JOIN recent(trades, 5) b ON a.sym = b.sym;\n"
    )
    with eddyline.open(tmp_path / "home") as engine:
        apply_rules(engine, written(tmp_path / "rules", join))
        version = engine.version
        engine.sql("DROP VIEW pairs")
        rollback(engine, version)
        engine.push("trades", [{"sym": "A", "price": 20.0, "qty": 10}])
        assert results(engine, "pairs") == [{"sym": "A", "qty": 10}]


SETS = """
    CREATE TABLE shops (id INT PRIMARY KEY, city STRING, size INT);
    CREATE VIEW large AS SELECT city, size FROM shops WHERE size > 10;
    CREATE VIEW towns AS SELECT city FROM (SELECT DISTINCT city FROM large) d WHERE city > 'C';
    CREATE VIEW all_towns AS WITH d AS (SELECT DISTINCT city FROM large) SELECT city FROM d;
"""


def test_a_set_inside_rules_is_no_rule_and_survives_plans_exports_and_rollbacks(tmp_path):
    with eddyline.open(tmp_path / "home") as engine:
        folder = written(tmp_path / "rules", SETS)
        assert apply_rules(engine, folder).added == 3
        assert plan(engine, folder).is_empty()
        engine.push("shops", [(1, "Ulm", 20), (2, "Ulm", 30), (3, "Bonn", 40)])
        assert results(engine, "towns") == [{"city": "Ulm"}]
        first = engine.version
        apply_rules(engine, written(tmp_path / "rules", SETS.replace("size > 10", "size > 35")))
        assert [engine.get(name).generation for name in ("large", "towns", "all_towns")] == [2, 2, 2]
        engine.push("shops", [(4, "Rom", 50), (5, "Rom", 60)])
        assert results(engine, "towns")[1:] == [{"city": "Rom"}]
        export(engine, tmp_path / "out")
        assert plan(engine, tmp_path / "out").is_empty()
        rollback(engine, first)
        engine.push("shops", [(6, "Wien", 20), (7, "Wien", 20)])
        assert results(engine, "towns")[2:] == [{"city": "Wien"}]
        assert sorted(query.name for query in engine.queries()) == ["all_towns", "large", "towns"]
