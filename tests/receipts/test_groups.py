"""Receipts of results of aggregates: the rows of the group that the query had seen, before the round and after it."""

import datetime

import pytest

import eddyline
from eddyline.errors import NotBuiltError, ReceiptError

AUTHS = (
    "CREATE TABLE auths (card STRING, amount BIGINT, declined BOOLEAN, ts TIMESTAMP)"
    " TBLPROPERTIES (time='ts', lateness='1 minute')"
)


def at(minute, second=0):
    return datetime.datetime(2026, 1, 1, 12, minute, second, tzinfo=datetime.UTC)


def auth(card, amount, minute, declined=True):
    return {"card": card, "amount": amount, "declined": declined, "ts": at(minute)}


@pytest.fixture
def engine(tmp_path):
    now = [int(at(0).timestamp() * 1_000_000)]
    with eddyline.open(tmp_path / "home", clock=lambda: now[0]) as opened:
        opened.sql(AUTHS)
        opened.now = now
        yield opened


def set_time(engine, minute):
    engine.now[0] = int(at(minute).timestamp() * 1_000_000)


def rows_of(receipt, moment):
    found = receipt["group"][moment]
    return None if found is None else found["arrivals"]


def test_a_receipt_of_a_group_has_its_rows_before_the_round_and_after_it(engine):
    query = engine.query(
        "SELECT card, count(*) AS n FROM auths WHERE declined GROUP BY card HAVING count(*) >= 2",
        name="often",
        keep="1 day",
    )
    engine.push("auths", [auth("A", 1, 1), auth("B", 2, 1), auth("A", 9, 1, declined=False)])
    engine.push("auths", [auth("A", 3, 2)])
    engine.push("auths", [auth("A", 4, 3)])
    inserted, before, after = query.results()
    receipt = engine.receipt(inserted)
    assert receipt["group"]["keys"] == {"card": "A"}
    assert [(row["arrival"], row["row"]["amount"]) for row in receipt["rows"]] == [(1, 1), (4, 3)]
    assert (rows_of(receipt, "before"), rows_of(receipt, "after")) == ([1], [1, 4])
    assert receipt["group"]["after"]["watermark"] == "2026-01-01T12:01:00Z"
    assert receipt.is_intact
    assert [each["change"] for each in map(engine.receipt, (before, after))] == [
        "update_preimage",
        "update_postimage",
    ]
    for each in map(engine.receipt, (before, after)):
        assert (rows_of(each, "before"), rows_of(each, "after")) == ([1, 4], [1, 4, 5])
    assert "  group     " in str(receipt)
    assert "  before    1 row, now() 2026-01-01T12:00:00Z, watermark 2026-01-01T12:00:00Z\n" in str(receipt)


def test_equal_results_of_several_groups_have_their_own_rows(engine):
    query = engine.query("SELECT count(*) AS n FROM auths GROUP BY card", name="sizes", keep="1 day")
    engine.push("auths", [auth("B", 1, 1), auth("A", 2, 1), auth("C", 3, 1)])
    results = query.results()
    assert [dict(result) for result in results] == [{"n": 1}] * 3
    assert [engine.receipt(result)["group"]["keys"]["card"] for result in results] == ["A", "B", "C"]


def test_a_query_has_no_rows_from_before_its_registration(engine):
    engine.push("auths", [auth("A", 1, 1)])
    query = engine.query("SELECT card, count(*) AS n FROM auths GROUP BY card", name="late", keep="1 day")
    engine.push("auths", [auth("A", 2, 2)])
    (result,) = query.results()
    receipt = engine.receipt(result)
    assert dict(result) == {"card": "A", "n": 1}
    assert [row["row"]["amount"] for row in receipt["rows"]] == [2]
    assert rows_of(receipt, "before") is None


def test_a_window_has_the_rows_that_it_holds_and_late_ones_are_in_none(engine):
    query = engine.query(
        "SELECT card, count(*) AS n FROM auths GROUP BY card, window(ts, '10 minutes', '5 minutes')",
        name="w",
        emit="final",
    )
    engine.push("auths", [auth("A", 1, 2), auth("A", 2, 7), auth("A", 3, 11)])
    engine.push("auths", [auth("A", 4, 3), auth("A", 5, 30)])
    shown = [
        (r["group"]["keys"]["window"]["start"][14:16], [row["row"]["amount"] for row in r["rows"]])
        for r in map(engine.receipt, query.results())
    ]
    assert shown == [("55", [1]), ("00", [1, 2]), ("05", [2, 3]), ("10", [3])]
    assert all(rows_of(engine.receipt(r), "before") is None for r in query.latest())


def test_sessions_that_join_leave_with_the_rows_they_had(engine):
    query = engine.query(
        "SELECT card, count(*) AS n FROM auths GROUP BY card, session_window(ts, '5 minutes')", name="s"
    )
    engine.push("auths", [auth("A", 1, 10), auth("A", 2, 18)])
    engine.push("auths", [auth("A", 3, 17)])
    changes = [(r.change, engine.receipt(r)) for r in query.results()]
    changes_shown = [(change, rows_of(r, "before"), rows_of(r, "after")) for change, r in changes]
    assert changes_shown == [
        ("insert", None, [1]),
        ("insert", None, [2]),
        ("insert", [], [2, 3]),
        ("delete", [2], []),
    ]
    engine.push("auths", [auth("A", 4, 19)])
    changes_shown = [
        (r.change, rows_of(engine.receipt(r), "before"), rows_of(engine.receipt(r), "after"))
        for r in query.results()
    ]
    assert changes_shown == [("update_preimage", [2, 3], [2, 3, 4]), ("update_postimage", [2, 3], [2, 3, 4])]


def test_rows_that_time_takes_are_in_the_receipt_of_the_result_that_leaves(engine):
    query = engine.query(
        "SELECT card FROM auths WHERE ts > now() - INTERVAL 10 MINUTES GROUP BY card HAVING count(*) >= 2",
        name="recent",
    )
    set_time(engine, 6)
    engine.push("auths", [auth("A", 1, 3), auth("A", 2, 5)])
    set_time(engine, 14)
    engine.tick()
    _, left = query.results()
    receipt = engine.receipt(left)
    assert receipt["change"] == "delete"
    assert (rows_of(receipt, "before"), rows_of(receipt, "after")) == ([1, 2], [2])
    assert receipt["group"]["before"]["now"] == "2026-01-01T12:06:00Z"
    assert receipt["group"]["after"]["now"] == "2026-01-01T12:14:00Z"


def test_a_group_that_keep_forgets_leaves_with_its_rows(engine):
    query = engine.query(
        "SELECT card, count(*) AS n FROM auths GROUP BY card", name="kept", keep="10 minutes"
    )
    engine.push("auths", [auth("A", 1, 1)])
    set_time(engine, 10)
    engine.push("auths", [auth("A", 2, 1)])
    results = query.results()
    assert [(r.change, dict(r)["n"]) for r in results] == [("insert", 1)]
    set_time(engine, 20)
    engine.tick()
    (left,) = query.results()
    assert (rows_of(engine.receipt(left), "before"), rows_of(engine.receipt(left), "after")) == ([2], [])


def test_a_row_over_its_frame_has_the_rows_of_the_frame_that_had_come(engine):
    query = engine.query(
        "SELECT amount, count(*) OVER (PARTITION BY card ORDER BY ts RANGE BETWEEN INTERVAL 5 MINUTES PRECEDING AND CURRENT ROW)"
        " AS n, lag(amount) OVER (PARTITION BY card ORDER BY ts) AS l FROM auths QUALIFY n >= 2",
        name="velocity",
    )
    engine.push(
        "auths", [auth("A", 1, 1), auth("B", 9, 2), auth("A", 2, 3), auth("A", 3, 3), auth("A", 4, 8)]
    )
    results = query.results()
    assert [dict(r) for r in results] == [
        {"amount": 2, "n": 2, "l": 1},
        {"amount": 3, "n": 3, "l": 2},
        {"amount": 4, "n": 3, "l": 3},
    ]
    assert [rows_of(engine.receipt(r), "after") for r in results] == [[1, 3], [1, 3, 4], [3, 4, 5]]


def test_groups_of_a_table_have_the_rows_that_it_had(engine):
    engine.stream("shops", "id INT, city STRING", key="id")
    query = engine.query("SELECT city, count(*) AS n FROM shops GROUP BY city", name="cities")
    engine.push("shops", [(1, "Ulm"), (2, "Ulm"), (3, "Bonn")])
    engine.push("shops", [(2, "Bonn")])
    shown = [
        (r["change"], r["group"]["keys"]["city"], rows_of(r, "before"), rows_of(r, "after"))
        for r in map(engine.receipt, query.results())
    ]
    assert shown == [
        ("insert", "Bonn", None, [3]),
        ("insert", "Ulm", None, [1, 2]),
        ("update_preimage", "Bonn", [3], [3, 4]),
        ("update_postimage", "Bonn", [3], [3, 4]),
        ("update_preimage", "Ulm", [1, 2], [1]),
        ("update_postimage", "Ulm", [1, 2], [1]),
    ]


def test_a_rule_over_a_view_of_groups_has_their_rows_since_the_view_began(engine):
    engine.query("SELECT card, count(*) AS n FROM auths GROUP BY card", name="counts", keep="1 day")
    engine.push("auths", [auth("A", 1, 1)])
    rule = engine.query("SELECT card FROM counts WHERE n >= 2", name="busy")
    engine.push("auths", [auth("A", 2, 2)])
    (result,) = rule.results()
    receipt = engine.receipt(result)
    assert [row["row"]["amount"] for row in receipt["rows"]] == [1, 2]
    assert "GROUP BY card" in receipt["written_out"]["text"]


def test_why_of_a_result_shows_its_group_as_it_was(engine):
    query = engine.query(
        "SELECT card FROM auths WHERE declined GROUP BY card HAVING count(*) >= 2", name="often", keep="1 day"
    )
    engine.push("auths", [auth("A", 1, 1), auth("A", 2, 2)])
    (result,) = query.results()
    engine.push("auths", [auth("A", 3, 3)])
    assert [line.strip() for line in str(query.why(result)).splitlines()] == [
        "the row is in a group that is a result of often",
        "as it was after round 1",
        "card = 'A': count(*) = 2; a result",
        "yes      count(*) >= 2   (count(*) = 2)",
        "row      card = 'A', amount = 1, declined = True, ts = 2026-01-01T12:01:00Z",
        "row      card = 'A', amount = 2, declined = True, ts = 2026-01-01T12:02:00Z",
    ]


def test_receipts_of_groups_outlive_a_restart(tmp_path):
    with eddyline.open(tmp_path / "home") as engine:
        engine.sql(AUTHS)
        engine.query("SELECT card, count(*) AS n FROM auths GROUP BY card", name="sizes", keep="1 day")
        engine.push("auths", [auth("A", 1, 1)])
    with eddyline.open(tmp_path / "home") as engine:
        engine.push("auths", [auth("A", 2, 2)])
        for result in engine.get("sizes").latest():
            assert engine.receipt(result)["group"]["keys"] == {"card": "A"}
        assert engine.get("sizes").why(engine.get("sizes").latest(1)[0]).groups[0].values == {"count(*)": 2}


def test_functions_that_are_not_deterministic_leave_no_receipt_of_a_group(engine):
    @eddyline.udf(returns="bigint", version="1", deterministic=False, scalar=True)
    def ticket_of(amount):
        return amount

    query = engine.query(
        "SELECT card, sum(ticket_of(amount)) AS n FROM auths GROUP BY card", name="odd", keep="1 day"
    )
    engine.push("auths", [auth("A", 1, 1)])
    with pytest.raises(ReceiptError, match="ticket_of is not deterministic"):
        engine.receipt(query.results()[0])


def test_receipts_of_unions_of_groups_are_refused_by_name(engine):
    query = engine.query(
        "SELECT card FROM auths GROUP BY card UNION ALL SELECT card FROM auths GROUP BY card, amount",
        name="u",
    )
    engine.push("auths", [auth("A", 1, 1)])
    with pytest.raises(NotBuiltError, match="why, trials, receipts and proofs of u are not built"):
        engine.receipt(query.results()[0])


@pytest.mark.parametrize(
    "text",
    [
        "SELECT c.region, count(*) AS n FROM auths a JOIN cards c ON a.card = c.card GROUP BY c.region",
        "SELECT n, count(*) AS k FROM (SELECT card, count(*) AS n FROM auths GROUP BY card) GROUP BY n",
        "SELECT x.card FROM (SELECT card, count(*) AS n FROM auths GROUP BY card) x JOIN cards c ON c.card = x.card",
    ],
)
def test_aggregates_of_joins_and_of_aggregates_and_joins_of_these_are_refused_by_name(engine, text):
    engine.sql("CREATE TABLE cards (card STRING PRIMARY KEY, region STRING)")
    query = engine.query(text, name="q")
    engine.push("cards", [("A", "south")])
    engine.push("auths", [auth("A", 1, 1)])
    (result,) = query.latest(1)
    for ask in (lambda: engine.receipt(result), lambda: query.why(auth("A", 1, 1)), query.why_not):
        with pytest.raises(NotBuiltError, match="why, trials, receipts and proofs of q are not built"):
            ask()
