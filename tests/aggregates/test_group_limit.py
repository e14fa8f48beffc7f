"""More groups than the limit: rows of the newest are refused and counted, and everything else goes on."""

from __future__ import annotations

import datetime
from collections import Counter

import pytest

import eddyline
from eddyline.api import open_pipeline
from eddyline.api.commands import Commands
from eddyline.errors import PropertyError
from eddyline.events import GroupsRefused
from eddyline.pipeline import PipelineError, read_pipeline
from eddyline.server.metrics import metrics_text
from tests.on_workers import through_tasks

AUTHS = "CREATE TABLE auths (card STRING, shop STRING, ts TIMESTAMP) TBLPROPERTIES (time='ts', lateness='1 minute')"
NOON = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
SECOND = 1_000_000
RUNNING = "SELECT card, count(*) AS n FROM auths GROUP BY card"


class Shop:
    """An engine with a clock that tests set. Rows are (card, minutes after noon) or (card, minutes, shop)."""

    def __init__(self, home=None, *, groups: int | None = 2, place: str = "here") -> None:
        self.seconds = int(NOON.timestamp())
        engine = eddyline.open(home, clock=lambda: self.seconds * SECOND, groups=groups)
        self.engine = through_tasks(engine) if place == "tasks" else engine

    def push(self, *rows: tuple) -> None:
        at = [
            (row[0], row[2] if len(row) > 2 else "s", NOON + datetime.timedelta(minutes=row[1]))
            for row in rows
        ]
        self.engine.push("auths", [{"card": card, "shop": shop, "ts": ts} for card, shop, ts in at])

    def answer(self, name: str) -> set[tuple]:
        """What its changes leave."""
        found: Counter[tuple] = Counter()
        for result in self.engine.get(name).results():
            found[tuple(result.values())] += -1 if result.change in ("delete", "update_preimage") else 1
        return {row for row, n in found.items() if n}

    def refused(self) -> int:
        return self.engine.counters().aggregates.n_refused

    def events(self) -> list[tuple]:
        found = (each for each in self.engine.events() if isinstance(each, GroupsRefused))
        return [(each.round_number, each.streams, each.n_rows, each.most_groups) for each in found]


@pytest.fixture(params=["memory", "home", "tasks"])
def shop(request, tmp_path):
    made = Shop(None if request.param == "memory" else tmp_path / "home", place=request.param)
    made.engine.sql(AUTHS)
    yield made
    made.engine.close()


def test_rows_of_the_newest_groups_are_refused_and_the_others_go_on(shop):
    shop.engine.query(RUNNING, name="cards")
    shop.push(("A", 1), ("B", 1), ("C", 1), ("A", 2), ("C", 2))
    assert shop.answer("cards") == {("A", 2), ("B", 1)}
    assert shop.refused() == 2
    shop.push(("C", 3), ("B", 3))
    assert shop.answer("cards") == {("A", 2), ("B", 2)}
    assert shop.refused() == 3


def test_it_is_announced_when_it_begins_and_again_after_a_round_without(shop):
    shop.engine.query(RUNNING, name="cards")
    shop.push(("A", 1), ("B", 1), ("C", 1))
    shop.push(("C", 1), ("D", 1))
    assert shop.events() == [(1, "auths", 1, 2)]
    shop.push(("A", 1))
    shop.push(("C", 1))
    assert shop.events() == [(1, "auths", 1, 2), (4, "auths", 1, 2)]


def test_which_groups_there_are_does_not_depend_on_the_cut():
    rows = [(card, 1) for card in "ABACBDAAC"]
    whole, single = Shop(), Shop()
    for each in (whole, single):
        each.engine.sql(AUTHS)
        each.engine.query(RUNNING, name="cards")
    whole.push(*rows)
    for row in rows:
        single.push(row)
    assert whole.answer("cards") == single.answer("cards") == {("A", 4), ("B", 2)}
    assert whole.refused() == single.refused() == 3


def test_queries_of_other_classes_and_without_groups_go_on(shop):
    shop.engine.query(RUNNING, name="cards")
    shop.engine.query("SELECT shop, count(*) AS n FROM auths GROUP BY shop", name="shops")
    shop.engine.query("SELECT count(*) AS n FROM auths", name="all")
    plain = shop.engine.query("SELECT card FROM auths", name="plain")
    shop.push(("A", 1), ("B", 1), ("C", 1))
    assert shop.answer("shops") == {("s", 3)}
    assert shop.answer("all") == {(3,)}
    assert [row["card"] for row in plain.latest(5)] == ["A", "B", "C"]


def test_a_group_that_keep_forgets_makes_room_for_the_next_round(shop):
    shop.engine.query(RUNNING, name="cards", keep="10 seconds")
    shop.push(("A", 1), ("B", 1))
    shop.seconds += 5
    shop.push(("B", 1))
    shop.seconds += 5
    shop.push(("C", 1))  # A leaves with this round
    assert shop.answer("cards") == {("B", 2)}
    shop.push(("C", 1))
    assert shop.answer("cards") == {("B", 2), ("C", 1)}


def test_a_window_that_closes_makes_room_and_late_rows_are_not_counted(shop):
    shop.engine.query(RUNNING + ", window(ts, '10 minutes')", name="windows")
    shop.push(("A", 1), ("B", 9), ("C", 1))
    assert shop.refused() == 1
    shop.push(("A", 12))  # the window closes, and B leaves
    shop.push(("C", 2), ("C", 13))  # one is late
    assert shop.refused() == 1
    assert shop.answer("windows") == {("A", 1), ("B", 1), ("C", 1)}


def test_sessions_and_conditions_on_now_have_the_limit_too(shop):
    shop.engine.query(RUNNING + ", session_window(ts, '5 minutes')", name="sessions")
    text = "SELECT card, count(*) AS n FROM auths WHERE ts > now() - INTERVAL 10 MINUTES GROUP BY card"
    shop.engine.query(text, name="recent")
    shop.push(("A", 1), ("B", 2), ("C", 3), ("A", 4))
    assert shop.answer("sessions") == shop.answer("recent") == {("A", 2), ("B", 1)}
    assert shop.refused() == 2
    shop.seconds += 720  # A's first row and B leave
    shop.push(("A", 11))
    shop.push(("C", 11))
    assert shop.answer("recent") == {("A", 2), ("C", 1)}


def test_a_group_that_rows_will_enter_later_has_its_place_from_its_first_row_on(shop):
    text = "SELECT card, count(*) AS n FROM auths WHERE ts > now() - INTERVAL 10 MINUTES AND ts <= now() GROUP BY card"
    shop.engine.query(text, name="recent")
    for minute, card in enumerate("ABCDE", start=1):
        shop.push((card, minute))
    shop.push(("B", 3))
    assert shop.refused() == 3
    shop.seconds += 360  # all that was kept has entered
    shop.push(("A", 5), ("F", 5))
    assert shop.answer("recent") == {("A", 2), ("B", 2)}
    assert shop.refused() == 4


def test_partitions_of_over_have_it_and_values_stand_side_by_side(shop):
    frame = "ORDER BY ts ROWS BETWEEN 9 PRECEDING AND CURRENT ROW"
    shop.engine.query(
        f"SELECT card, count(*) OVER (PARTITION BY card {frame}) AS n, count(*) OVER (PARTITION BY shop {frame}) AS m FROM auths",
        name="frames",
    )
    shop.push(("A", 1, "s"), ("B", 2, "t"), ("C", 3, "s"), ("A", 4, "u"), ("A", 5, "t"))
    assert [tuple(row.values()) for row in shop.engine.get("frames").latest(9)] == [
        ("A", 1, 1),
        ("B", 1, 1),
        ("A", 2, 2),
    ]
    assert shop.refused() == 2  # C, and u


def test_tables_have_no_limit(shop):
    shop.engine.stream("places", "id STRING, city STRING", key="id")
    shop.engine.query("SELECT city, count(*) AS n FROM places GROUP BY city", name="cities")
    shop.engine.push("places", [("1", "a"), ("2", "b"), ("3", "c")])
    assert shop.answer("cities") == {("a", 1), ("b", 1), ("c", 1)}
    assert shop.refused() == 0


def test_null_and_nan_are_groups_that_count(shop):
    shop.engine.stream("prices", "x DOUBLE")
    shop.engine.query("SELECT x, count(*) AS n FROM prices GROUP BY x", name="xs")
    shop.engine.push("prices", [(None,), (float("nan"),), (1.0,), (None,), (-float("nan"),)])
    assert [row["n"] for row in shop.engine.get("xs").latest(9)] == [2, 2]
    assert shop.refused() == 1


def test_a_round_that_fails_refuses_nothing(shop, monkeypatch):
    shop.engine.query(RUNNING, name="cards")
    shop.push(("A", 1))

    def fail(*arguments, **options):
        raise RuntimeError("no commit")

    with monkeypatch.context() as patch:
        patch.setattr(shop.engine.rounds.store, "commit", fail)
        with pytest.raises(RuntimeError, match="no commit"):
            shop.push(("B", 1), ("C", 1))
    assert shop.refused() == 0
    shop.push(("C", 1), ("B", 1))
    assert shop.answer("cards") == {("A", 1), ("C", 1)}
    assert shop.refused() == 1


def test_after_a_restart_the_same_groups_are_there(tmp_path):
    shop = Shop(tmp_path / "home")
    shop.engine.sql(AUTHS)
    shop.engine.query(RUNNING, name="cards")
    shop.push(("A", 1), ("B", 1), ("C", 1))
    shop.engine.close()
    shop = Shop(tmp_path / "home")
    shop.push(("C", 1), ("A", 1))
    assert shop.answer("cards") == {("A", 2), ("B", 1)}
    shop.engine.close()
    shop = Shop(tmp_path / "home", groups=1)  # a lower limit refuses new groups and takes none away
    shop.push(("C", 1), ("B", 1))
    assert shop.answer("cards") == {("A", 2), ("B", 2)}
    shop.engine.close()


def test_doctor_metrics_and_explain_say_what_was_refused(tmp_path):
    shop = Shop(tmp_path / "home")
    shop.engine.sql(AUTHS)
    shop.engine.query(RUNNING, name="cards")

    def finding() -> tuple:
        found = Commands(shop.engine).doctor(tell=lambda *progress: None)
        return next((each["level"], each["message"]) for each in found if each["subject"] == "groups")

    shop.push(("A", 1))
    assert finding() == ("ok", "1 of at most 2 in the largest class of aggregates")
    shop.push(("B", 1), ("C", 1))
    refused = "2 of at most 2 in the largest class of aggregates; 1 rows of further ones were refused since the engine was opened"
    assert finding() == ("warning", refused)
    assert b"\neddyline_aggregate_refused_rows_total 1.0\n" in metrics_text(shop.engine)
    assert "1 row of further groups refused" in str(shop.engine.explain_aggregates())
    shop.engine.close()


def test_a_pipeline_file_sets_it(tmp_path):
    pipeline = read_pipeline("[limits]\ngroups = 1\n", tmp_path / "eddyline.toml")
    with open_pipeline(pipeline) as engine:
        assert engine.rounds.limits.groups == 1
    with pytest.raises(PipelineError) as refused:
        read_pipeline("[limits]\ngroups = 0\n", tmp_path / "eddyline.toml")
    assert "groups is 0" in str(refused.value)


def test_a_limit_below_one_is_refused():
    with pytest.raises(PropertyError, match="groups is 0"):
        eddyline.open(groups=0)
