"""The groups of a query as they are now: results, and groups that HAVING leaves out, by key, in order, after each round."""

from __future__ import annotations

import datetime

import pytest

import eddyline
from eddyline.errors import NotBuiltError, PropertyError, UnknownNameError

DECLARED = """
    CREATE TABLE auths (card STRING, amount BIGINT, ts TIMESTAMP) TBLPROPERTIES (time = 'ts', lateness = '1 minute');
    CREATE TABLE stock (item STRING PRIMARY KEY, shelf STRING, n BIGINT)
"""
BUSY = "SELECT card AS c, sum(amount) AS total FROM auths GROUP BY card HAVING count(*) >= 2"
SILENT = "SELECT card, max(ts) AS seen FROM auths GROUP BY card HAVING max(ts) < now() - INTERVAL 10 MINUTES"


def at(minute: int) -> datetime.datetime:
    return datetime.datetime(2026, 1, 1, 12, minute, tzinfo=datetime.UTC)


def row(card: str | None, minute: int, amount: int = 10) -> dict[str, object]:
    return {"card": card, "amount": amount, "ts": at(minute)}


def us(minute: int) -> int:
    return int(at(minute).timestamp()) * 1_000_000


def rows(groups) -> list[dict[str, object] | None]:
    return [each.row for each in groups]


@pytest.fixture
def now():
    return [us(0)]


@pytest.fixture
def engine(tmp_path, now):
    with eddyline.open(tmp_path / "home", clock=lambda: now[0]) as opened:
        opened.sql(DECLARED)
        yield opened


def test_groups_are_the_results_or_also_those_that_having_leaves_out(engine):
    query = engine.query(BUSY, name="busy")
    assert query.groups() == []
    engine.push("auths", [row("A", 1), row("A", 2, 30), row("B", 3)])
    found = query.groups()
    assert rows(found) == [{"c": "A", "total": 40}]
    assert (found.n_total, found.n_results, found.round_number) == (1, 1, 1)
    found = query.groups(having=False)
    assert [(each.key, each.row, each.is_result, each.compared) for each in found] == [
        ({"card": "A"}, {"c": "A", "total": 40}, True, (2,)),
        ({"card": "B"}, {"c": "B", "total": 10}, False, (1,)),
    ]
    (threshold,) = found.thresholds
    assert (threshold.words, threshold.operator, threshold.value) == ("count(*)", ">=", 2)
    assert str(found).splitlines() == [
        "busy: 2 groups, 1 result, after round 1",
        "  + card='A': c='A', total=40",
        "    card='B': c='B', total=10",
    ]


def test_a_threshold_is_called_by_the_column_that_shows_it_and_has_the_rules_own_constant(engine):
    text = "SELECT card, count(*) AS n FROM auths GROUP BY card HAVING n > :least AND sum(amount) < 100"
    engine.query(text, name="some", params={"least": 3})
    query = engine.query(text, name="many", params={"least": 7})
    found = query.groups()
    assert [(each.words, each.operator, each.value) for each in found.thresholds] == [
        ("n", ">", 7),
        ("sum(amount)", "<", 100),
    ]


def test_the_text_of_groups_does_not_repeat_the_key(engine):
    query = engine.query("SELECT card, count(*) AS n FROM auths GROUP BY card", name="counts")
    engine.push("auths", [row("A", 1), row(None, 2)])
    assert str(query.groups()).splitlines()[1:] == ["  + card=NULL: n=1", "  + card='A': n=1"]


def test_groups_are_asked_for_by_key_in_order_and_with_a_limit(engine):
    query = engine.query(BUSY, name="busy")
    engine.push(
        "auths", [row(card, 1, amount) for card, amount in (("A", 5), ("B", 30), ("C", 20), (None, 1))]
    )
    every = query.groups(having=False, order="total DESC", limit=2)
    assert (rows(every), every.n_total) == ([{"c": "B", "total": 30}, {"c": "C", "total": 20}], 4)
    assert rows(query.groups(having=False, order="total")) == [
        {"c": None, "total": 1},
        {"c": "A", "total": 5},
        {"c": "C", "total": 20},
        {"c": "B", "total": 30},
    ]
    assert rows(query.groups(having=False, where={"card": "B"})) == [{"c": "B", "total": 30}]
    assert rows(query.groups(having=False, where={"card": None})) == [{"c": None, "total": 1}]
    assert rows(query.groups(having=False, where={"total": 20, "c": "C"})) == [{"c": "C", "total": 20}]
    assert query.groups(where={"card": "B"}) == []


def test_what_cannot_be_asked_is_refused_with_a_way_out(engine):
    busy = engine.query(BUSY, name="busy")
    engine.push("auths", [row("A", 1)])
    with pytest.raises(UnknownNameError, match="there is no column crd in these groups"):
        busy.groups(where={"crd": "A"})
    with pytest.raises(PropertyError, match="total is BIGINT, and cannot equal 'many'"):
        busy.groups(where={"total": "many"})
    with pytest.raises(PropertyError, match="total is BIGINT, and cannot equal 1180591620717411303424"):
        busy.groups(where={"total": 1 << 70})
    with pytest.raises(PropertyError, match="limit is 0"):
        busy.groups(limit=0)
    over = engine.query(
        "SELECT lag(amount) OVER (PARTITION BY card ORDER BY ts) AS a FROM auths", name="over"
    )
    with pytest.raises(PropertyError, match="over has no groups: OVER gives a row for each row"):
        over.groups()
    with pytest.raises(PropertyError, match="plain has no groups: it has no GROUP BY"):
        engine.query("SELECT card FROM auths WHERE amount > 1", name="plain").groups()
    both = engine.query(f"{BUSY} UNION ALL {BUSY}", name="both")
    with pytest.raises(NotBuiltError, match="with UNION ALL"):
        both.groups()
    busy.pause()
    with pytest.raises(PropertyError, match="busy is paused, and no groups are kept for it"):
        busy.groups()


def test_a_younger_query_has_the_groups_of_the_rows_it_sees(engine):
    old = engine.query(BUSY, name="old")
    engine.push("auths", [row("A", 1), row("B", 1)])
    young = engine.query(BUSY.replace(">= 2", ">= 3"), name="young")
    assert young.groups(having=False) == []
    engine.push("auths", [row("A", 2)])
    assert [each.compared for each in old.groups(having=False)] == [(2,), (1,)]
    assert [each.compared for each in young.groups(having=False)] == [(1,)]


def test_windows_are_part_of_the_key_and_closed_ones_are_not_among_the_groups(engine):
    text = "SELECT card, count(*) AS n FROM auths GROUP BY card, window(ts, '10 minutes')"
    queries = [engine.query(text, emit="changes"), engine.query(text, emit="final")]
    engine.push("auths", [row("A", 1), row("A", 11)])
    for query in queries:
        (group,) = query.groups()  # the watermark is at 12:10
        assert group.key == {"card": "A", "window": {"start": at(10), "end": at(20)}}
        assert group.row == {"card": "A", "n": 1}
    engine.push("auths", [row("A", 25)])
    assert [[each.key["window"]["start"] for each in query.groups()] for query in queries] == [
        [at(20)],
        [at(20)],
    ]


def test_having_on_now_is_as_of_the_last_round(engine, now):
    query = engine.query(SILENT, name="silent")
    now[0] = us(2)
    engine.push("auths", [row("A", 1)])
    assert [each.is_result for each in query.groups(having=False)] == [False]
    now[0] = us(30)
    assert query.groups() == []  # no round yet
    engine.tick()
    assert rows(query.groups()) == [{"card": "A", "seen": at(1)}]


def test_a_table_has_its_groups_from_the_first_round_on(engine):
    engine.push("stock", [{"item": "a", "shelf": "top", "n": 3}, {"item": "b", "shelf": "top", "n": 4}])
    query = engine.query("SELECT shelf, sum(n) AS n FROM stock GROUP BY shelf", name="shelves")
    assert query.groups() == []
    engine.tick()
    assert rows(query.groups()) == [{"shelf": "top", "n": 7}]
    engine.push("stock", [{"item": "a", "shelf": "low", "n": 3}])
    assert rows(query.groups()) == [{"shelf": "low", "n": 3}, {"shelf": "top", "n": 4}]


def test_a_sum_that_does_not_fit_is_a_group_with_an_error(engine):
    query = engine.query("SELECT card, sum(amount) AS total FROM auths GROUP BY card", name="total")
    engine.push("auths", [row("A", 1, 2**62), row("A", 2, 2**62), row("B", 2)])
    broken, good = query.groups()
    assert (broken.key, broken.row, broken.is_result) == ({"card": "A"}, None, False)
    assert broken.error == "the value does not fit BIGINT"
    assert (good.row, good.is_result) == ({"card": "B", "total": 10}, True)


def test_groups_are_known_again_after_a_restart(engine, tmp_path):
    engine.query(BUSY, name="busy")
    engine.push("auths", [row("A", 1), row("A", 2)])
    engine.close()
    with eddyline.open(tmp_path / "home") as again:
        assert rows(again.get("busy").groups()) == [{"c": "A", "total": 20}]


def test_a_rule_over_a_view_has_the_groups_of_the_view(engine):
    engine.query("SELECT card, count(*) AS n FROM auths GROUP BY card", name="counts")
    rule = engine.query("SELECT card, n FROM counts WHERE n >= 2", name="rule")
    engine.push("auths", [row("A", 1), row("A", 2), row("B", 3)])
    found = rule.groups(having=False)
    assert [(each.row, each.is_result, each.compared) for each in found] == [
        ({"card": "A", "n": 2}, True, (2,)),
        ({"card": "B", "n": 1}, False, (1,)),
    ]
    assert [(each.words, each.operator, each.value) for each in found.thresholds] == [("n", ">=", 2)]


PER_WINDOW = "SELECT card, count(*) AS n FROM auths GROUP BY card, window(ts, '10 minutes')"


def test_windows_are_ordered_and_asked_for_by_their_start_and_their_end(engine):
    engine.sql(
        "CREATE TABLE taps (card STRING, ts TIMESTAMP) TBLPROPERTIES (time = 'ts', lateness = '1 hour')"
    )
    query = engine.query(PER_WINDOW.replace("auths", "taps"), name="per_window")
    rows_of = (("A", 21), ("B", 1), ("C", 11), ("D", 12))
    engine.push("taps", [{"card": card, "ts": at(minute)} for card, minute in rows_of])
    first = {"start": at(0), "end": at(10)}
    assert [each.row["card"] for each in query.groups(order="window DESC")] == ["A", "C", "D", "B"]
    assert [each.row["card"] for each in query.groups(order="window.end", limit=1)] == ["B"]
    assert [each.row["card"] for each in query.groups(where={"window.start": at(10)})] == ["C", "D"]
    assert [each.row["card"] for each in query.groups(where={"window.start": "2026-01-01T12:20:00Z"})] == [
        "A"
    ]
    assert [each.key for each in query.groups(where={"window": first})] == [{"card": "B", "window": first}]
    assert query.groups(where={"window": first | {"end": at(30)}}) == []


def test_a_window_that_cannot_be_asked_for_is_refused_with_what_can(engine):
    query = engine.query(PER_WINDOW, name="per_window")
    engine.push("auths", [row("A", 1)])
    with pytest.raises(UnknownNameError) as refused:
        query.groups(where={"window": {"begin": at(0)}})
    assert (refused.value.problem, refused.value.hint) == (
        "there is no field begin in window",
        "Known: end, start.",
    )
    with pytest.raises(PropertyError) as refused:
        query.groups(where={"window": at(0)})
    assert refused.value.hint == "Ask for a field of it: window.start."
    with pytest.raises(UnknownNameError) as refused:
        query.groups(where={"windw.start": at(0)})
    assert refused.value.hint == "Did you mean window.start?"
    with pytest.raises(UnknownNameError) as refused:
        query.groups(where={"zzzzzzzz": 1})
    assert refused.value.hint.count("card") == 1


def test_windows_are_shown_as_windows_with_times_as_people_read_them(engine):
    query = engine.query(PER_WINDOW, name="per_window")
    sessions = engine.query(
        "SELECT card, count(*) AS n FROM auths GROUP BY card, session_window(ts, '5 minutes')", name="visits"
    )
    engine.push("auths", [row(None, 1)])
    assert str(query.groups()).splitlines() == [
        "per_window: 1 window, 1 result, after round 1",
        "  + card=NULL, window={start: 2026-01-01T12:00:00Z, end: 2026-01-01T12:10:00Z}: n=1",
    ]
    assert str(sessions.groups()).splitlines()[0] == "visits: 1 session, 1 result, after round 1"
    shown = str(
        engine.try_query(
            "SELECT card, window, count(*) AS n FROM auths GROUP BY card, window(ts, '10 minutes')"
        )
    )
    assert shown.splitlines()[1:] == [
        "  card=NULL, window={start: 2026-01-01T12:00:00Z, end: 2026-01-01T12:10:00Z}, n=1"
    ]
