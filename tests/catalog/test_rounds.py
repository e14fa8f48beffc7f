from __future__ import annotations

from pathlib import Path

import pytest

from eddyline.catalog.database import Database
from eddyline.catalog.rounds import CommittedRound, ListedFile, RoundLog
from eddyline.errors import HomeError
from eddyline.model import Round, StreamProgress


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "catalog.db"


@pytest.fixture
def log(path):
    database = Database(path)
    yield RoundLog(database, epoch=0)
    database.close()


def done(number: int, token: str | None = None) -> CommittedRound:
    round_ = Round(number, 3, 1000 + number, 42, 10 * number, {"trades": 5}, token)
    return CommittedRound(round_, last_arrival=10 * number + 4, n_results=2, n_dead=1, n_late=0)


def commit(
    log: RoundLog, number: int, *, token: str | None = None, files=(), positions=None, at_us: int = 0
) -> None:
    progress = {"trades": StreamProgress(5 * number, 100 * number, 90 * number, 0)}
    log.commit(done(number, token), progress, files, positions or {}, at_us)


def file(name: str, round_number: int, kind: str = "outbox", nbytes: int = 10) -> ListedFile:
    return ListedFile(name, kind, round_number, nbytes, 123)


def test_a_committed_round_is_found_again_with_all_that_belongs_to_it(log, path):
    commit(log, 1, token="t1", files=[file("outbox/a", 1)], positions={"folder": {"file": "x", "line": 7}})
    other = RoundLog(Database(path), epoch=0)
    assert other.last() == done(1, "t1")
    assert other.by_token("t1") == done(1, "t1")
    assert other.by_token("t2") is None
    assert other.version_of(1) == 3
    assert other.progress() == {"trades": StreamProgress(5, 100, 90, 0)}
    assert other.position("folder") == {"file": "x", "line": 7}
    assert other.position("elsewhere") is None
    assert other.files() == [file("outbox/a", 1)]


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
    assert log.files() == []
    assert log.progress()["trades"].n_rows == 5


def test_a_file_listed_twice_fails_the_round(log):
    commit(log, 1, files=[file("outbox/a", 1)])
    with pytest.raises(HomeError, match="Nothing was changed"):
        commit(log, 2, files=[file("outbox/a", 2)])
    assert log.last() == done(1)


def test_files_come_by_kind_and_oldest_round_first_and_can_be_unlisted(log):
    commit(log, 1, files=[file("outbox/z", 1), file("dead/a", 1, "dead")], at_us=100)
    commit(log, 2, files=[file("outbox/a", 2)], at_us=200)
    assert [f.name for f in log.files("outbox")] == ["outbox/z", "outbox/a"]
    assert [f.name for f in log.files()] == ["dead/a", "outbox/z", "outbox/a"]
    assert [f.name for f in log.listed_before("outbox", 200)] == ["outbox/z"]
    assert log.listed_before("outbox", 100) == []
    log.unlist(["outbox/z", "never listed"])
    assert [f.name for f in log.files()] == ["dead/a", "outbox/a"]


def test_a_cursor_is_kept_until_it_moves(log, path):
    assert log.cursor("mail") is None
    log.set_cursor("mail", 3, 1)
    log.set_cursor("mail", 4, 0)
    log.set_cursor("file", 1, 2)
    assert RoundLog(Database(path), epoch=0).cursors() == {"mail": (4, 0), "file": (1, 2)}


def test_a_log_without_rounds_says_so(log):
    assert log.last() is None
    assert log.recent(5) == []
    assert log.version_of(1) == 0
    assert log.progress() == {}
