"""Homes that earlier versions wrote still open, with all their queries, results and positions, and go on from there."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path

import pytest

import eddyline
from eddyline.catalog.migrations import FORMAT
from tools.make_old_home import facts, fill

HERE = Path(__file__).parent
HOMES = sorted(path for path in HERE.glob("format-*") if path.is_dir())


@pytest.fixture(params=HOMES, ids=lambda path: path.name)
def home(request, tmp_path) -> Path:
    """A copy: opening a home writes to it."""
    return Path(shutil.copytree(request.param, tmp_path / request.param.name))


def held(home: Path) -> dict[str, object]:
    return json.loads((HERE / f"{home.name}.json").read_text(encoding="utf-8"))


def test_there_is_a_home_of_every_format():
    assert [path.name for path in HOMES] == [f"format-{number}" for number in range(1, FORMAT + 1)]


def test_an_old_home_opens_with_everything_it_held(home):
    with eddyline.open(home, clock=lambda: 0) as engine:
        found, expected = facts(engine), held(home)
        for what, value in expected.items():
            assert found[what] == value, what
        assert engine.rounds.shapes.parsed == 0


def test_an_old_home_that_was_opened_opens_again(home):
    eddyline.open(home, clock=lambda: 0).close()
    with eddyline.open(home, clock=lambda: 0) as engine:
        assert facts(engine) == held(home)


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


def test_alerts_of_an_old_home_go_on():
    """Homes before format 4 have none."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(shutil.copytree(HERE / "format-4", Path(folder) / "format-4"))
        with eddyline.open(home, clock=lambda: 0) as engine:
            last = engine.messages()[-1].id
            firing = {alert.key["sym"]: alert.n_rows for alert in engine.alerts("alert", state="firing")}
            assert firing == {"A": 3, "B": 1}
            engine.push("trades", [("A", 9.25, 7, "2024-05-01 01:00:00")])
            assert engine.get("alert").alerts()[0].n_rows == 4
            engine.tick(engine.rounds.context().now_us + 3_600_000_000)
            said = [(m.status, m.key["sym"], m.message) for m in engine.messages(last)]
            assert said == [("resolved", "B", "B at 11.0, 00:00"), ("resolved", "A", "A at 9.0, 00:00")]
