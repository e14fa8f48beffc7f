from __future__ import annotations

from pathlib import Path

import pytest

from eddyline.catalog.database import Database
from eddyline.catalog.rounds import CommittedRound, ListedFile, RoundLog
from eddyline.catalog.versions import RetainedRange
from eddyline.errors import HomeError
from eddyline.model import Round, StreamProgress

NOW_US = [0]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "catalog.db"


@pytest.fixture
def log(path):
    database = Database(path)
    yield RoundLog(database, 0, lambda: NOW_US[0])
    database.close()


def done(number: int, token: str | None = None) -> CommittedRound:
    round_ = Round(number, 3, 1000 + number, 42, 10 * number, {"trades": 5}, token)
    return CommittedRound(round_, last_arrival=10 * number + 4, n_results=2, n_dead=1, n_late=0)


def commit(
    log: RoundLog, number: int, *, token: str | None = None, files=(), positions=None, at_us: int = 0
) -> None:
    progress = {"trades": StreamProgress(5 * number, 100 * number, 90 * number, 0)}
    NOW_US[0] = at_us
    log.commit(done(number, token), progress, files, positions or {})


def file(name: str, round_number: int, kind: str = "outbox", nbytes: int = 10) -> ListedFile:
    return ListedFile(name, kind, round_number, nbytes, 123)


def test_a_committed_round_is_found_again_with_all_that_belongs_to_it(log, path):
    commit(log, 1, token="t1", files=[file("outbox/a", 1)], positions={"folder": {"file": "x", "line": 7}})
    other = RoundLog(Database(path), 0, lambda: 0)
    assert other.last() == done(1, "t1")
    assert other.by_token("t1") == done(1, "t1")
    assert other.by_token("t2") is None
    assert other.version_of(1) == 3
    assert other.progress() == {"trades": StreamProgress(5, 100, 90, 0)}
    assert other.position("folder") == {"file": "x", "line": 7}
    assert other.position("elsewhere") is None
    assert other.files.all() == [file("outbox/a", 1)]


def test_rounds_follow_one_another(log):
    commit(log, 1)
    for wrong in (1, 3):
        with pytest.raises(
            HomeError, match=f"round {wrong} cannot follow round 1\ndetail: This round has not happened"
        ):
            commit(log, wrong)
    commit(log, 2)
    assert [entry.round.number for entry in log.recent(10)] == [2, 1]
    assert [entry.round.number for entry in log.recent(1)] == [2]


def test_a_token_belongs_to_one_round_and_the_second_one_leaves_nothing(log):
    commit(log, 1, token="t")
    with pytest.raises(HomeError, match="Nothing was changed"):
        commit(log, 2, token="t", files=[file("outbox/b", 2)])
    assert log.last() == done(1, "t")
    assert log.files.all() == []
    assert log.progress()["trades"].n_rows == 5


def test_a_file_listed_twice_fails_the_round(log):
    commit(log, 1, files=[file("outbox/a", 1)])
    with pytest.raises(HomeError, match="Nothing was changed"):
        commit(log, 2, files=[file("outbox/a", 2)])
    assert log.last() == done(1)


def test_files_come_by_kind_and_oldest_round_first_and_can_be_unlisted(log):
    commit(log, 1, files=[file("outbox/z", 1), file("dead/a", 1, "dead")], at_us=100)
    commit(log, 2, files=[file("outbox/a", 2)], at_us=200)
    assert [f.name for f in log.files.all("outbox")] == ["outbox/z", "outbox/a"]
    assert [f.name for f in log.files.all()] == ["dead/a", "outbox/z", "outbox/a"]
    assert [f.name for f in log.files.listed_before("outbox", 200)] == ["outbox/z"]
    assert log.files.listed_before("outbox", 100) == []
    log.files.unlist(["outbox/z", "never listed"])
    assert [f.name for f in log.files.all()] == ["dead/a", "outbox/a"]


def test_a_cursor_is_kept_until_it_moves(log, path):
    assert log.cursors.get("mail") is None
    log.cursors.set("mail", 3, 1)
    log.cursors.set("mail", 4, 0)
    log.cursors.set("file", 1, 2)
    assert RoundLog(Database(path), 0, lambda: 0).cursors.all() == {
        "alerts": (0, 0),
        "mail": (4, 0),
        "file": (1, 2),
    }


def test_a_log_without_rounds_says_so(log):
    assert log.last() is None
    assert log.recent(5) == []
    assert log.version_of(1) == 0
    assert log.progress() == {}


# --------------------------------------------------------------------------------------------- forgetting


def test_rounds_are_kept_by_when_they_were_committed_and_by_their_number(log):
    for number, at_us in enumerate([10, 20, 30, 30, 40], start=1):
        commit(log, number, at_us=at_us)
    assert [log.first_to_keep(since, 100) for since in (5, 10, 11, 30, 31, 40, 41)] == [1, 1, 2, 3, 5, 5, 5]
    assert [log.first_to_keep(0, count) for count in (0, 1, 2, 5, 9)] == [5, 5, 4, 1, 1]
    assert log.retained_rounds() == RetainedRange(5, 1, 10)


def test_a_log_without_rounds_has_none_to_forget(log):
    assert (log.first_to_keep(5, 1), log.forget(0), log.retained_rounds()) == (0, 0, RetainedRange(0, 0, 0))
    assert log.oldest_version("outbox", "dead") is None


def test_rounds_go_with_their_tokens_unless_a_file_of_theirs_is_listed(log):
    commit(log, 1, token="t1")
    commit(log, 2, token="t2", files=[file("capture/a", 2, "capture")])
    commit(log, 3, token="t3")
    commit(log, 4, token="t4")
    assert log.forget(4) == 2
    assert [entry.round.number for entry in log.recent(10)] == [4, 2]
    assert [log.by_token(f"t{k}") is not None for k in (1, 2, 3, 4)] == [False, True, False, True]
    assert (log.forget(4), log.version_of(2), log.version_of(1)) == (0, 3, 0)
    log.files.unlist(["capture/a"])
    assert log.forget(4) == 1
    commit(log, 5, token="t1")  # its first round is forgotten, so it is a new one
    assert log.by_token("t1") == done(5, "t1")


def test_dead_letters_of_forgotten_rounds_are_still_counted(log, path):
    for number in range(1, 8):
        commit(log, number)
    assert log.n_dead() == 7
    assert (log.forget(3), log.n_dead()) == (2, 7)
    assert (log.forget(7), log.n_dead()) == (4, 7)
    commit(log, 8)
    assert RoundLog(Database(path), 0, lambda: 0).n_dead() == 8


def test_many_rounds_go_in_steps_the_oldest_first(log, monkeypatch):
    monkeypatch.setattr("eddyline.catalog.rounds.AT_ONCE", 2)
    for number in range(1, 7):
        commit(log, number)
    assert [(log.forget(6), log.retained_rounds().oldest) for _ in range(4)] == [
        (2, 3),
        (2, 5),
        (1, 6),
        (0, 6),
    ]


def test_the_oldest_version_results_came_from_is_that_of_the_oldest_file(log):
    for number, kind in enumerate(["capture", "dead", "outbox"], start=1):
        round_ = Round(number, 10 * number, 0, 0, 1, {}, None)
        log.commit(CommittedRound(round_, 0, 0, 0, 0), {}, [file(f"{kind}/a", number, kind)], {})
    assert log.oldest_version("outbox", "dead") == 20
    assert log.oldest_version("outbox") == 30
    log.files.unlist(["outbox/a", "dead/a"])
    assert log.oldest_version("outbox", "dead") is None


def test_looking_for_rounds_to_forget_walks_no_further_than_the_first_that_stays(log):
    for number in range(1, 50):
        commit(log, number, at_us=number)
    connection = log._connection
    (plan,) = connection.execute(
        "EXPLAIN QUERY PLAN SELECT number FROM rounds WHERE at_us >= 5 ORDER BY number LIMIT 1"
    ).fetchall()
    assert plan[3] == "SCAN rounds"  # in the order of its key, until the first hit
    steps = [
        row[3]
        for row in connection.execute(
            "EXPLAIN QUERY PLAN SELECT number, n_dead FROM rounds WHERE number < 5"
            " AND number NOT IN (SELECT round FROM files) ORDER BY number LIMIT 3"
        )
    ]
    assert steps[0] == "SEARCH rounds USING INTEGER PRIMARY KEY (rowid<?)"


def test_files_of_a_round_are_in_the_order_of_their_rows_and_that_of_the_driver_is_last(log):
    files = [
        ListedFile("by the driver", "outbox", 1, 1, 1),
        ListedFile("a", "outbox", 1, 1, 1, first_arrival=5_000, first_row=3),
        ListedFile("b", "outbox", 1, 1, 1, first_arrival=3),
    ]
    commit(log, 1, files=files)
    found = log.files.of_round("outbox", 1)
    assert [(file.name, file.first_arrival, file.first_row) for file in found] == [
        ("b", 3, 0),
        ("a", 5_000, 3),
        ("by the driver", 0, 0),
    ]
