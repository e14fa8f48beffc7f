"""Tokens and the audit log on disk."""

from __future__ import annotations

import threading

import pytest

from eddyline.catalog import access as access_module
from eddyline.catalog.access import Access
from eddyline.catalog.database import Database
from eddyline.errors import PropertyError, UnknownNameError


@pytest.fixture
def database(tmp_path):
    found = Database(tmp_path / "catalog.db")
    yield found
    found.close()


@pytest.fixture
def access(database):
    return Access.of(database, threading.RLock())


def test_a_token_is_found_by_its_text_alone(access):
    token, text = access.tokens.add("reader", 1, owner="anna", note="for a script")
    assert (token.role, token.owner, token.note, token.created_us) == ("reader", "anna", "for a script", 1)
    assert access.tokens.find(text, 2) == token
    for other in (
        text[:-1],
        text + "a",
        text.upper(),
        f"edl_{token.id}_",
        token.id,
        "",
        "edl",
        "_",
        "\ud800",
    ):
        assert access.tokens.find(other, 2) is None


def test_no_two_tokens_are_alike(access):
    texts = {access.tokens.add("reader", 1)[1] for _ in range(100)}
    assert len(texts) == 100
    assert {len(text.split("_", 2)[2]) for text in texts} == {43}  # 32 bytes


def test_a_token_for_a_single_use_is_taken_by_whoever_comes_first(access):
    _, text = access.tokens.add("admin", 1, is_single_use=True)
    taken = []
    threads = [threading.Thread(target=lambda: taken.append(access.tokens.take(text, 2))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len([token for token in taken if token is not None]) == 1
    assert access.tokens.list() == []
    _, lasting = access.tokens.add("admin", 1)
    assert access.tokens.take(lasting, 2) is None


def test_use_is_noted_once_a_minute(access, database):
    token, text = access.tokens.add("reader", 0)
    minute = access_module.USED_EVERY_US
    assert access.tokens.is_use_due(token, 5)
    access.tokens.note_use(token.id, 5)
    used = access.tokens.find(text, 6)
    assert used.used_us == 5
    assert not access.tokens.is_use_due(used, 5 + minute - 1)
    assert access.tokens.is_use_due(used, 5 + minute)
    again = Access.of(database, threading.RLock())
    assert again.tokens.find(text, 6) == used


def test_what_cannot_be_a_token_is_refused(access):
    with pytest.raises(PropertyError, match="no role writer"):
        access.tokens.add("writer", 0)
    with pytest.raises(PropertyError, match="owner"):
        access.tokens.add("reader", 0, owner="a\nb")
    with pytest.raises(PropertyError, match="note"):
        access.tokens.add("reader", 0, note="x" * 201)
    with pytest.raises(UnknownNameError, match="no token 'abc'"):
        access.tokens.drop("abc")


def test_the_audit_log_is_read_newest_first_and_keeps_the_newest(access, monkeypatch):
    monkeypatch.setattr(access_module, "AUDIT_KEPT", 5)
    monkeypatch.setattr(access_module, "TRIMMED_EVERY", 10)
    for at in range(1, 21):
        access.audit.add(at, "token", "anna", "drop query", {"id": at})
    entries = access.audit.newest(100)
    assert [entry.detail["id"] for entry in entries] == [20, 19, 18, 17, 16]
    assert [entry.id for entry in access.audit.newest(2, before=18)] == [17, 16]
    access.audit.add(21, "token", "", "x", {"long": "y" * 10_000})
    (cut,) = access.audit.newest(1)
    assert len(cut.detail["cut"]) == access_module.LONGEST_DETAIL
