"""Homes that earlier versions wrote still open, with all their queries, results and positions, and go on from there."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path

import pytest

import eddyline
from eddyline.catalog import FORMAT, checksums
from eddyline.control import check_home
from tools.make_old_home import facts, fill

HERE = Path(__file__).parent
HOMES = sorted(path for path in HERE.glob("format-*") if path.is_dir())


@pytest.fixture(params=HOMES, ids=lambda path: path.name)
def home(request, tmp_path) -> Path:
    """A copy: opening a home writes to it."""
    return Path(shutil.copytree(request.param, tmp_path / request.param.name))


def held(home: Path) -> dict[str, object]:
    return json.loads((HERE / f"{home.name}.json").read_text(encoding="utf-8"))


def known(found: object, expected: object) -> object:
    """What was found without the words that later formats have brought."""
    if isinstance(found, dict) and isinstance(expected, dict):
        return {name: known(found[name], value) for name, value in expected.items()}
    if isinstance(found, list) and isinstance(expected, list) and len(found) == len(expected):
        return [known(*each) for each in zip(found, expected, strict=True)]
    return found


def test_there_is_a_home_of_every_format():
    assert [path.name for path in HOMES] == [f"format-{number}" for number in range(1, FORMAT + 1)]


def test_an_old_home_opens_with_everything_it_held(home):
    with eddyline.open(home, clock=lambda: 0) as engine:
        found, expected = facts(engine), held(home)
        for what, value in expected.items():
            assert known(found[what], value) == value, what
        assert engine.rounds.shapes.parsed == 0


def test_an_old_home_that_was_opened_opens_again(home):
    eddyline.open(home, clock=lambda: 0).close()
    with eddyline.open(home, clock=lambda: 0) as engine:
        expected = held(home)
        assert known(facts(engine), expected) == expected


def test_an_old_home_goes_on(home):
    with eddyline.open(home, clock=lambda: 0) as engine:
        assert engine.push("trades", [], token="t1").is_repeat
        row = {"sym": "A", "price": 9.25, "qty": 7, "ts": "2024-05-01 01:00:00"}
        matches = engine.push("trades", [row])
        met = {engine.get(int(query_id)).name for query_id in matches.pairs()[1]}
        assert met - {"alert"} == {"cheap", "share", "q6", "watch-A"}
        last = max(entry["id"] for entry in held(home)["queries"])
        assert engine.query("SELECT sym FROM trades WHERE price < 99.5").id > last
        assert engine.query("SELECT sym FROM trades WHERE 100 / qty > 5", name="share").generation == 1
        engine.get("paused").resume()
        engine.drop("watch-B")


def test_a_text_with_a_pattern_finds_its_old_shape_again(home):
    text = "SELECT s FROM everything WHERE s LIKE 'a%'"
    with eddyline.open(home, clock=lambda: 0) as engine:
        known = next(entry["id"] for entry in held(home)["queries"] if entry["text"] == text)
        (old,) = engine.rounds.catalog.record(known).shape.condition.clauses
        assert [atom.kind.value for atom in old.atoms] == ["like"]
        new = engine.query(text.replace("a%", "b%"))
        assert engine.rounds.catalog.record(new.id).shape is engine.rounds.catalog.record(known).shape


def test_the_script_makes_the_home_of_this_format(tmp_path):
    fill(tmp_path / "home")
    with eddyline.open(tmp_path / "home", clock=lambda: 0) as engine:
        made, kept = json.loads(json.dumps(facts(engine))), held(Path(f"format-{FORMAT}"))
        assert set(made) == set(kept)
        assert made["queries"] == kept["queries"]
        assert made["rounds"] == kept["rounds"]


@pytest.mark.parametrize("home", [path for path in HOMES if path.name >= "format-4"], ids=str, indirect=True)
def test_alerts_of_an_old_home_go_on(home):
    """Homes before format 4 have none."""
    with eddyline.open(home, clock=lambda: 0) as engine:
        last = engine.messages()[-1].id
        firing = {alert.key["sym"]: alert.n_rows for alert in engine.alerts("alert", state="firing")}
        assert firing.items() >= {"A": 3, "B": 1}.items()
        engine.push("trades", [("A", 9.25, 7, "2024-05-01 01:00:00")])
        assert engine.get("alert").alerts()[0].n_rows == 4
        engine.tick(engine.rounds.context().now_us + 3_600_000_000)
        said = [(m.status, m.key["sym"], m.message) for m in engine.messages(last) if m.silence is None]
        assert said == [("resolved", "B", "B at 11.0, 00:00"), ("resolved", "A", "A at 9.0, 00:00")]


def test_the_history_of_an_alert_has_what_was_said_before_format_5(tmp_path):
    home = Path(shutil.copytree(HERE / "format-4", tmp_path / "home"))
    with eddyline.open(home, clock=lambda: 0) as engine:
        assert [entry["event"] for entry in engine.alert_history("alert", {"sym": "A"})] == ["firing"]


def test_silences_of_an_old_home_hold_and_end(tmp_path):
    home = Path(shutil.copytree(HERE / "format-5", tmp_path / "home"))
    with eddyline.open(home, clock=lambda: 0) as engine:
        now_us = engine.rounds.next_now_us()
        (noted,) = engine.alerts("alert", acknowledged=True)
        assert (noted.key, noted.acknowledgement.by) == ({"sym": "A"}, "kim")
        (silenced,) = engine.alerts("alert", silenced=True)
        assert (silenced.key, silenced.silence.reason) == ({"sym": "D"}, "maintenance")
        engine.end_silence(silenced.silence)
        engine.tick(now_us)
        assert [(m.status, m.key, m.n_withheld) for m in engine.messages(newest=1)] == [
            ("firing", {"sym": "D"}, 1)
        ]


def to_format_6(home: Path) -> None:
    """Take from a home what format 7 brought: alerts over tables counted the rows that appeared, and had to have `resolve`."""
    connection = sqlite3.connect(home / "catalog.db", isolation_level=None)
    checksums.register(connection)
    for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        connection.execute(f"DROP TRIGGER {name}")
    connection.execute("ALTER TABLE files DROP COLUMN first_row")
    connection.execute("UPDATE alerts SET n_rows = 5")
    for table in ("queries", "templates"):
        connection.execute(
            f"UPDATE {table} SET properties = json_set(properties, '$.resolve_us', 3600000000)"
            " WHERE json_extract(properties, '$.severity') IS NOT NULL"
        )
    connection.execute("PRAGMA user_version = 6")
    checksums.protect(connection)
    connection.close()


def test_alerts_over_tables_of_format_6_resolve_when_their_rows_leave(tmp_path):
    home, now_us = tmp_path / "home", 0
    with eddyline.open(home, clock=lambda: now_us) as engine:
        engine.sql("CREATE TABLE quotes (sym STRING PRIMARY KEY, bid INT); CREATE TABLE trades (sym STRING)")
        engine.query("SELECT sym, bid FROM quotes WHERE bid < 10", name="low", severity="error")
        engine.query_many(
            "SELECT sym, bid FROM quotes WHERE bid > :over",
            params=[{"over": 50}],
            name="over-{over}",
            severity="error",
        )
        engine.query("SELECT sym FROM trades", name="traded", per="sym", resolve="1 hour", severity="error")
        engine.push("quotes", [("A", 1), ("B", 2), ("C", 60), ("D", 70)])
        engine.push("trades", [("A",)])
    to_format_6(home)
    with eddyline.open(home, clock=lambda: now_us) as engine:
        found = {(alert.query, alert.key["sym"]): alert.n_rows for alert in engine.alerts()}
        over = {("low", "A"), ("low", "B"), ("over-50", "C"), ("over-50", "D")}
        assert found == dict.fromkeys(over, 0) | {("traded", "A"): 5}
        findings = check_home(engine.rounds.durable, tell=lambda what, done, total: None)
        assert [finding for finding in findings if finding.level == "error"] == []
        engine.push("quotes", [("A", 3), ("B", 20), ("C", 61), ("D", 5)])  # A and C are updated
        found = {(alert.query, alert.key["sym"]): alert.n_rows for alert in engine.alerts()}
        assert found == {("low", "A"): 1, ("low", "D"): 1, ("over-50", "C"): 1, ("traded", "A"): 5}
        now_us = 7_200_000_000
        engine.tick()  # those of which the rows are known stay
        assert [(alert.query, alert.key["sym"]) for alert in engine.alerts()] == [
            ("low", "A"),
            ("low", "D"),
            ("over-50", "C"),
        ]
