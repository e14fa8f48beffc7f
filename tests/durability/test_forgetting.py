"""Versions and rounds past retention are forgotten, when a home is opened and while it works; what is kept stays whole."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import eddyline
from eddyline.catalog import VersionLog
from eddyline.control import check_home
from eddyline.engine import Retention
from eddyline.errors import HomeError, QueryStateError
from eddyline.rules import rollback
from eddyline.runtime import tail
from tests.durability.time_passing import lived_until

DAY_US = 86_400_000_000
OLD_HOME = Path(__file__).parent.parent / "homes" / "format-1"


@pytest.fixture
def home(tmp_path):
    return tmp_path / "home"


def opened(home: Path, day: int, **retention: int) -> eddyline.Engine:
    """The home on a day, to which its clock has come in small steps."""
    if (home / "catalog.db").exists():
        lived_until(home, day * DAY_US)
    given = Retention(**retention) if retention else None
    return eddyline.open(home, clock=lambda: day * DAY_US, retention=given)


def kept(engine: eddyline.Engine) -> list[int]:
    return [number for number, _, _ in engine.rounds.durable.database.versions.recent(1000)]


def facts(engine: eddyline.Engine) -> list[tuple[object, ...]]:
    return [(q.id, q.name, q.text, q.state, q.generation) for q in engine.queries()]


def grown(home: Path) -> None:
    """Versions 1 to 5 on days 1 to 5: a stream, then q as n > 2, n > 3, n > 4, n > 5."""
    for day in range(1, 6):
        with opened(home, day) as engine:
            engine.stream("s", "n INT")
            if day > 1:
                engine.query(f"SELECT n FROM s WHERE n > {day}", name="q")


# --------------------------------------------------------------------------------------------- versions


def test_a_kept_version_can_be_gone_back_to_and_a_forgotten_one_is_refused(home):
    grown(home)
    with opened(home, 34) as engine:  # 30 days after the fourth day
        assert kept(engine) == [5, 4, 3]
        rollback(engine, 3)
        assert (engine.get("q").text, engine.version) == ("SELECT n FROM s WHERE n > 3", 6)
        with pytest.raises(QueryStateError) as refused:
            rollback(engine, 2)
        assert str(refused.value) == (
            "version 2 is no longer kept\n"
            "detail: Kept are 3 to 6.\n"
            "hint: See them with eddyline versions. How long they are kept is set in [engine.retention]."
        )
        with pytest.raises(
            QueryStateError, match=r"there is no version 7 to go back to\ndetail: Kept are 3 to 6"
        ):
            rollback(engine, 7)


def test_what_stood_for_a_year_can_be_gone_back_to_after_a_change(home):
    grown(home)
    with opened(home, 400) as engine:
        assert kept(engine) == [5]
        engine.query("SELECT n FROM s WHERE n > 99", name="q")
    with opened(home, 401) as engine:
        assert kept(engine) == [6, 5]
        rollback(engine, 5)
        assert engine.get("q").text == "SELECT n FROM s WHERE n > 5"


def test_no_more_versions_are_kept_than_asked_for(home):
    grown(home)
    with opened(home, 5, version_count=2) as engine:
        assert kept(engine) == [5, 4, 3]
    with opened(home, 5, version_count=0) as engine:
        assert kept(engine) == [5]
        assert facts(engine) == [(1, "q", "SELECT n FROM s WHERE n > 5", "running", 4)]


def test_a_home_that_forgot_opens_with_the_same_queries(home):
    with opened(home, 1) as engine:
        engine.stream("s", "n INT")
        engine.query("SELECT n FROM s WHERE n > 1", name="a")
        engine.query_many("SELECT n FROM s WHERE n = :n", params={"n": [1, 2, 3]}, name="b-{n}")
        engine.query_many("SELECT n FROM s WHERE n < :n", params={"n": [1, 2]}, name="c-{n}")
        engine.get("b-2").pause()
        engine.get("b-1").drop()
        for name in ("c-1", "c-2"):
            engine.drop(name)
        engine.replace("a", "SELECT n FROM s WHERE n > 10")
        before = facts(engine)
    for _ in range(2):
        with opened(home, 100) as engine:
            assert facts(engine) == before
            assert len(kept(engine)) == 1
    with opened(home, 100) as engine:
        assert engine.push("s", [(1,), (2,), (3,), (11,)]).count == 2
        assert engine.query("SELECT n FROM s").id == 7


def test_versions_are_forgotten_while_rounds_run(home, monkeypatch):
    monkeypatch.setattr("eddyline.engine.after_commit.GC_EVERY", 2)
    with opened(home, 1, version_count=3) as engine:
        engine.stream("s", "n INT")
        for k in range(10):
            engine.query_many("SELECT n FROM s WHERE n = :n", params={"n": [k, k + 100]}, name="w-{n}")
            engine.drop_ids([engine.get(f"w-{k}").id, engine.get(f"w-{k + 100}").id])
            engine.tick()
        assert kept(engine) == [21, 20, 19, 18]
        assert (
            len(engine.rounds.catalog.queries.templates) <= 2
        )  # those of forgotten versions are not in memory either
        assert len(engine.rounds.catalog.queries.fates) <= 4
        assert engine.rounds.durable.collect_garbage() == {}


def test_a_home_on_a_full_disk_opens_and_forgets_later(home, monkeypatch):
    grown(home)

    def full(*arguments: Any, **options: Any) -> None:
        raise HomeError("cannot write to the catalog")

    monkeypatch.setattr(VersionLog, "forget", full)
    with opened(home, 100) as engine:
        assert (len(kept(engine)), engine.n_queries) == (5, 1)
        monkeypatch.undo()
        assert engine.rounds.durable.collect_garbage() == {"versions": 4}


def test_results_of_queries_that_were_dropped_keep_their_names_as_long_as_they_are_kept(home):
    with opened(home, 1, results_us=50 * DAY_US, version_count=1) as engine:
        engine.stream("s", "n INT")
        engine.query("SELECT n FROM s", name="single")
        engine.query_many("SELECT n FROM s WHERE n = :n", params={"n": [1]}, name="member")
        engine.push("s", [(1,)])
        engine.drop("single")
        engine.drop("member")
        engine.query("SELECT n FROM s WHERE n > 5", name="other")
    with opened(home, 45) as engine:
        assert kept(engine) == [6]
        found = tail(engine.rounds, engine.rounds.durable, frozenset(), newest=9, after=None, follow=False)
        assert [(result["query"], result["row"]) for result in found] == [
            ("single", {"n": 1}),
            ("member", {"n": 1}),
        ]
        assert engine.rounds.durable.database.queries.past(1) is not None
    with opened(home, 52) as engine:
        assert engine.rounds.durable.collect_garbage() == {"outbox": 1, "capture": 1}
        assert engine.rounds.durable.database.queries.past(1) is None
        assert engine.rounds.durable.database.queries.past(2) is None


# --------------------------------------------------------------------------------------------- rounds


def test_tokens_are_known_as_long_as_their_rounds_are_kept(home):
    with opened(home, 1) as engine:
        engine.stream("s", "n INT")
        assert engine.push("s", [(1,)], token="t").round_number == 1
        engine.tick()
    with opened(home, 31) as engine:
        engine.rounds.durable.collect_garbage()  # the captured rows go
        assert engine.push("s", [(1,)], token="t").is_repeat
    with opened(home, 32) as engine:
        again = engine.push("s", [(1,)], token="t")
        assert (again.is_repeat, again.round_number) == (False, 3)


def test_the_last_round_is_always_kept_and_the_next_one_follows_it(home):
    with opened(home, 1) as engine:
        engine.stream("s", "n INT")
        engine.push("s", [(1,), (2,)], token="t")
    with opened(home, 1000, captures_us=1) as engine:
        engine.rounds.durable.collect_garbage()
        assert [done.round.number for done in engine.rounds.durable.rounds.recent(9)] == [1]
        matches = engine.push("s", [(3,)])
        assert (matches.round_number, engine.streams()[0].n_rows, engine.rounds.last_arrival) == (2, 3, 3)


def test_all_dead_letters_are_counted_also_those_of_forgotten_rounds(home):
    with opened(home, 1, round_count=2, dead_letters_us=1, captures_us=1) as engine:
        engine.stream("s", "n INT")
        engine.query("SELECT n FROM s WHERE 1 / n > 0", name="q")
        for _ in range(5):
            engine.push("s", [(0,), (0,)])
    with opened(home, 2) as engine:
        assert engine.rounds.durable.collect_garbage() == {"dead": 5, "capture": 5, "rounds": 3}
        assert engine.dead_letters().total == 10
    with opened(home, 2) as engine:
        assert engine.dead_letters().total == 10
        engine.push("s", [(0,)])
        assert engine.dead_letters().total == 11


def test_rounds_that_brought_files_are_kept_with_them(home):
    with opened(home, 1, results_us=100 * DAY_US, captures_us=1, round_count=1) as engine:
        engine.stream("s", "n INT")
        query = engine.query("SELECT n FROM s", name="q")
        for n in (1, 2):
            engine.push("s", [(n,)])
            engine.tick()
        query.replace("SELECT n + 1 AS m FROM s")
    with opened(home, 50) as engine:
        engine.rounds.durable.collect_garbage()
        assert [done.round.number for done in engine.rounds.durable.rounds.recent(9)] == [4, 3, 1]
    with opened(home, 50) as engine:
        assert [(dict(r), r.round_number) for r in engine.get("q").latest()] == [({"n": 1}, 1), ({"n": 2}, 3)]


# --------------------------------------------------------------------------------------------- what a home was told


def test_a_home_keeps_what_it_was_told_until_it_is_told_otherwise(home):
    with opened(home, 1, versions_us=365 * DAY_US, round_count=7) as engine:
        assert engine.rounds.durable.retention == Retention(versions_us=365 * DAY_US, round_count=7)
    grown(home)
    with opened(home, 200) as engine:  # whoever only looks does not make it forget
        assert engine.rounds.durable.retention.round_count == 7
        assert len(kept(engine)) == 5
    with opened(home, 200, versions_us=30 * DAY_US) as engine:
        assert len(kept(engine)) == 1


def test_limits_this_version_does_not_know_are_left_out():
    assert Retention.stored('{"dreams_us": 5, "versions_us": 9}') == Retention(versions_us=9)
    assert Retention.stored(None) == Retention()
    assert Retention.stored(Retention(round_count=5).as_text()) == Retention(round_count=5)


def findings(engine: eddyline.Engine) -> dict[str, tuple[str, str]]:
    found = check_home(engine.rounds.durable, tell=lambda *progress: None)
    return {finding.subject: (finding.level, finding.message) for finding in found}


def test_doctor_shows_versions_and_rounds_and_their_limits(home):
    with opened(home, 1) as engine:
        told = findings(engine)
        assert told["versions"] == (
            "ok",
            "none yet; retained for 30 days after they were replaced and up to 10,000",
        )
        assert told["rounds"] == ("ok", "none yet; retained for 30 days and up to 1,000,000")
    grown(home)
    with opened(home, 6, versions_us=10 * DAY_US, version_count=4, round_count=10) as engine:
        engine.tick()
        told = findings(engine)
        assert told["versions"] == (
            "warning",
            "5 versions, the oldest is version 1, made 5 days ago; retained for 10 days after they were replaced and up to 4",
        )
        assert told["rounds"] == (
            "ok",
            "1 round, the oldest is round 1, made just now; retained for 30 days and up to 10",
        )


# --------------------------------------------------------------------------------------------- an old home


def test_a_home_of_the_first_format_forgets_like_any_other(tmp_path):
    home = tmp_path / "old"
    shutil.copytree(OLD_HOME, home)
    later_us = 60 * DAY_US
    with eddyline.open(home, clock=lambda: 0) as engine:
        before, results = facts(engine), [dict(r) for r in engine.get(6).latest()]
        assert len(kept(engine)) == 18
    lived_until(home, later_us)
    with eddyline.open(home, clock=lambda: later_us) as engine:
        assert facts(engine) == before
        assert kept(engine) == [18]
        assert [dict(r) for r in engine.get(6).latest()] == results
        assert engine.push("trades", [], token="t1").is_repeat  # results of its round are still listed
        assert engine.rounds.durable.database.queries.past(5)[0] == "dropped"
        removed = engine.rounds.durable.collect_garbage()
        assert {"outbox", "dead", "capture", "rounds"} <= set(removed)
        assert engine.rounds.durable.database.queries.past(5) is None
        assert engine.dead_letters().total == 3
    with eddyline.open(home, clock=lambda: later_us) as engine:
        assert facts(engine) == before
        assert engine.dead_letters().total == 3
        assert not engine.push("trades", [], token="t1").is_repeat
