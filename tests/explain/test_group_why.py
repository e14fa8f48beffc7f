"""Why and why not of queries with aggregates: conditions on groups, windows and rows over frames, as they stand."""

import datetime
import threading

import pytest

import eddyline
from eddyline.errors import NotBuiltError
from eddyline.explain import group_why

AUTHS = (
    "CREATE TABLE auths (card STRING, amount BIGINT, declined BOOLEAN, ts TIMESTAMP)"
    " TBLPROPERTIES (time='ts', lateness='1 minute')"
)


def at(minute, second=0):
    return datetime.datetime(2026, 1, 1, 12, minute, second, tzinfo=datetime.UTC)


def auth(card, amount, minute, declined=True):
    return {"card": card, "amount": amount, "declined": declined, "ts": at(minute)}


@pytest.fixture
def engine():
    now = [int(at(0).timestamp() * 1_000_000)]
    with eddyline.open(clock=lambda: now[0]) as opened:
        opened.sql(AUTHS)
        opened.now = now
        yield opened


def set_time(engine, minute):
    engine.now[0] = int(at(minute).timestamp() * 1_000_000)


def lines(found):
    return [line.strip() for line in str(found).splitlines()]


def test_a_row_is_asked_where_and_its_group_is_asked_having(engine):
    query = engine.query(
        "SELECT card FROM auths WHERE declined GROUP BY card HAVING count(*) >= 5 AND sum(amount) > 10",
        name="often",
        keep="30 days",
    )
    engine.push("auths", [auth("A", n, n) for n in (1, 2, 3, 4)] + [auth("B", 9, 4)])
    found = query.why(auth("A", 7, 5))
    assert not found
    assert lines(found) == [
        "the row is in a group that is no result of often",
        "yes      declined   (declined = True)",
        "card = 'A': count(*) = 4, sum(amount) = 10; no result",
        "no       count(*) >= 5   (count(*) = 4): needs 5",
        "no       sum(amount) > 10   (sum(amount) = 10): needs more than 10",
        "row      card = 'A', amount = 2, declined = True, ts = 2026-01-01T12:02:00Z",
        "row      card = 'A', amount = 3, declined = True, ts = 2026-01-01T12:03:00Z",
        "row      card = 'A', amount = 4, declined = True, ts = 2026-01-01T12:04:00Z",
    ]
    assert [clause.verdict for clause in found.clauses] == ["true", "false", "false"]


def test_a_row_that_where_stops_is_in_no_group(engine):
    query = engine.query("SELECT card FROM auths WHERE declined GROUP BY card", name="often", keep="1 day")
    engine.push("auths", [auth("A", 1, 1)])
    assert lines(query.why(auth("A", 1, 2, declined=False))) == [
        "the row is in no group of often",
        "no       declined   (declined = False)",
    ]


def test_a_group_that_has_had_no_row_is_not_there_yet(engine):
    query = engine.query("SELECT upper(card) AS c FROM auths GROUP BY upper(card)", name="c", keep="1 day")
    engine.push("auths", [auth("A", 1, 1)])
    assert lines(query.why(auth("z", 1, 2))) == [
        "the row is in no group of c",
        "there is no group of upper(card) = 'Z' yet: no row that takes part has come since the query was registered",
    ]


def test_a_group_that_meets_its_conditions_is_a_result(engine):
    query = engine.query(
        "SELECT card FROM auths GROUP BY card HAVING count(*) >= 2", name="two", keep="1 day"
    )
    engine.push("auths", [auth("A", 1, 1), auth("A", 1, 2)])
    found = query.why(auth("A", 1, 1))
    assert found
    assert lines(found)[0] == "the row is in a group that is a result of two"


def test_parameters_are_shown_with_their_values_in_the_words_of_the_text(engine):
    query = engine.query(
        "SELECT card FROM auths GROUP BY card HAVING count(DISTINCT amount) >= :low AND sum(amount) > 5",
        name="p",
        params={"low": 3},
        keep="1 day",
    )
    engine.push("auths", [auth("A", 1, 1)])
    assert [clause.condition for clause in query.why(auth("A", 1, 1)).clauses] == [
        "count(DISTINCT amount) >= 3",
        "sum(amount) > 5",
    ]


def test_the_groups_that_came_nearest_are_named_nearest_first(engine):
    query = engine.query(
        "SELECT card FROM auths WHERE declined GROUP BY card HAVING count(*) >= 5", name="often", keep="1 day"
    )
    rows = [auth("A", 1, 1), *[auth("B", 1, 1)] * 3, *[auth("C", 1, 1)] * 4, *[auth("D", 1, 1)] * 6]
    engine.push("auths", [*rows, auth("E", 1, 1, declined=False)])
    found = query.why_not(last=10)
    assert [(group.group, group.values) for group in found.groups] == [
        ({"card": "C"}, {"count(*)": 4}),
        ({"card": "B"}, {"count(*)": 3}),
        ({"card": "A"}, {"count(*)": 1}),
    ]
    assert (found.n_rows, found.n_matched, found.stopped) == (4, 1, (3,))
    assert (found.below.n_rows, found.below.n_matched) == (10, 9)
    assert lines(found)[1:5] == [
        "9 of the last 10 rows take part",
        "stopped      1   declined",
        "stopped      3, alone      3   count(*) >= 5",
        "nearest 3 groups:",
    ]
    assert str(found).startswith("often: 1 of 4 groups in the answer; deployed since version 2, ")
    assert found.nearest_row == {"card": "C", "count(*)": 4}


def test_a_row_is_in_every_open_window_that_holds_its_time(engine):
    query = engine.query(
        "SELECT card, window.start FROM auths GROUP BY card, window(ts, '10 minutes', '5 minutes') HAVING count(*) >= 2",
        name="w",
    )
    engine.push("auths", [auth("A", 1, 2), auth("A", 2, 7)])
    found = query.why(auth("A", 3, 8))
    assert lines(found)[0] == "the row is in 2 windows, of which 1 are results of w"
    assert [(group.group["window"]["start"], group.values, group.is_result) for group in found.groups] == [
        (at(0), {"count(*)": 2}, True),
        (at(5), {"count(*)": 1}, False),
    ]


def test_a_row_behind_the_watermark_finds_its_windows_closed(engine):
    query = engine.query(
        "SELECT card FROM auths GROUP BY card, window(ts, '10 minutes')", name="w", emit="final"
    )
    engine.push("auths", [auth("A", 1, 2), auth("A", 2, 25)])
    assert lines(query.why(auth("A", 3, 3))) == [
        "the row is in no window of w",
        "its windows have closed: the watermark is at 2026-01-01T12:24:00Z, and later rows are in no window",
    ]
    (open_window,) = query.why(auth("A", 3, 26)).groups
    assert open_window.notes == ("it is a result only once, when the watermark reaches 2026-01-01T12:30:00Z",)


def test_a_session_holds_rows_that_are_no_more_than_its_gap_away(engine):
    query = engine.query("SELECT card FROM auths GROUP BY card, session_window(ts, '5 minutes')", name="s")
    engine.push("auths", [auth("A", 1, 10), auth("A", 1, 12)])
    (session,) = query.why(auth("A", 1, 17)).groups
    assert session.group["window"] == {"start": at(10), "end": at(17)}
    assert lines(query.why(auth("A", 1, 18)))[1] == "no open session of card = 'A' holds 2026-01-01T12:18:00Z"


def test_rows_that_time_has_taken_are_in_no_group(engine):
    query = engine.query(
        "SELECT card FROM auths WHERE declined AND ts > now() - INTERVAL 10 MINUTES GROUP BY card HAVING count(*) >= 2",
        name="recent",
    )
    set_time(engine, 14)
    engine.push("auths", [auth("A", 1, 3), auth("A", 2, 5), auth("B", 2, 6)])
    assert lines(query.why(auth("A", 1, 3))) == [
        "the row is in no group of recent",
        "yes      declined   (declined = True)",
        "no       ts > now() - INTERVAL '10 minutes'   (ts = 2026-01-01T12:03:00Z, now() = 2026-01-01T12:14:00Z)",
    ]
    (group,) = query.why(auth("A", 2, 5)).groups
    assert group.values == {"count(*)": 1}
    assert [row["amount"] for row in group.rows] == [2]
    found = query.why_not()
    assert (found.below.n_rows, found.below.n_matched) == (3, 2)
    assert dict(zip(found.below.conditions, found.below.stopped, strict=True)) == {
        "declined": 0,
        "ts > now() - INTERVAL '10 minutes'": 1,
    }


def test_a_group_that_is_silent_says_since_when_and_when_it_will_be_a_result(engine):
    query = engine.query(
        "SELECT card FROM auths GROUP BY card HAVING max(ts) < now() - INTERVAL 10 MINUTES",
        name="silent",
        keep="1 day",
    )
    set_time(engine, 8)
    engine.push("auths", [auth("A", 1, 1)])
    (group,) = query.why_not().groups
    assert group.values == {"max(ts)": at(1)}
    assert group.notes == (
        "max(ts) is 7 minutes ago of 10 minutes: that comparison with now() holds from 2026-01-01T12:11:00.000001Z on,"
        " if no row changes it",
    )


def test_a_row_over_its_frame_has_the_values_it_would_have_now(engine):
    query = engine.query(
        "SELECT card, count(*) OVER (PARTITION BY card ORDER BY ts RANGE BETWEEN INTERVAL 10 MINUTES PRECEDING AND CURRENT ROW)"
        " AS n FROM auths WHERE declined QUALIFY n >= 3",
        name="velocity",
    )
    engine.push("auths", [auth("A", 1, 1), auth("A", 1, 5), auth("B", 1, 6)])
    assert query.why(auth("A", 2, 9))
    found = query.why(auth("A", 2, 14))
    assert lines(found)[:3] == [
        "the row does not match velocity",
        "as if it came now, over the 3 rows that are retained in memory",
        "yes      declined   (declined = True)",
    ]
    assert found.groups[0].values == {"count(*) OVER (RANGE INTERVAL '10 minutes' PRECEDING)": 2}
    assert [group.group["card"] for group in query.why_not().groups] == ["A", "A", "B"]
    assert str(query.why_not()).startswith("velocity: 0 of the last 3 rows matched; ")


def test_a_rule_over_a_view_of_groups_is_asked_about_the_groups_of_the_view(engine):
    engine.query(
        "SELECT card, count(*) AS n FROM auths GROUP BY card HAVING count(*) > 1", name="counts", keep="1 day"
    )
    engine.push("auths", [auth("A", 1, 1)])
    rule = engine.query("SELECT card FROM counts WHERE n >= 3", name="busy")
    engine.push("auths", [auth("A", 1, 2)])
    found = rule.why(auth("A", 1, 2))
    assert lines(found)[1:4] == [
        "card = 'A': count(*) = 2; no result",
        "yes      view counts: count(*) > 1   (count(*) = 2)",
        "no       n >= 3   (count(*) = 2): needs 3",
    ]


def test_groups_of_a_table_are_those_of_its_rows_now(engine):
    engine.stream("shops", "id INT, city STRING", key="id")
    query = engine.query("SELECT city FROM shops GROUP BY city HAVING count(*) >= 2", name="cities")
    engine.push("shops", [(1, "Ulm"), (2, "Ulm"), (3, "Bonn")])
    engine.push("shops", [(2, "Bonn")])
    found = query.why_not()
    assert [(group.group, group.rows) for group in found.groups] == [
        ({"city": "Ulm"}, ({"id": 1, "city": "Ulm"},))
    ]
    assert query.why({"id": 9, "city": "Bonn"})


def test_groups_and_their_rows_outlive_a_restart(tmp_path):
    with eddyline.open(tmp_path / "home") as engine:
        engine.sql(AUTHS)
        engine.query(
            "SELECT card FROM auths GROUP BY card HAVING count(*) >= 3", name="often", keep="30 days"
        )
        engine.push("auths", [auth("A", 1, 1), auth("A", 1, 2)])
    with eddyline.open(tmp_path / "home") as engine:
        (group,) = engine.get("often").why(auth("A", 1, 1)).groups
        assert group.values == {"count(*)": 2}
        assert [row["ts"] for row in group.rows] == [at(1), at(2)]


def test_a_group_whose_rows_are_no_longer_in_memory_says_so():
    with eddyline.open(recent_rows=1) as engine:
        engine.sql(AUTHS)
        query = engine.query(
            "SELECT card FROM auths GROUP BY card HAVING count(*) >= 3", name="often", keep="1 day"
        )
        engine.push("auths", [auth("A", 1, 1)])
        engine.push("auths", [auth("B", 1, 2)])
        (group,) = query.why(auth("A", 1, 1)).groups
        assert (group.values, group.rows) == ({"count(*)": 1}, ())
        assert group.notes == ("its rows are not among those retained in memory",)


def test_a_text_is_tried_on_the_groups_that_recent_rows_make(engine):
    engine.push("auths", [auth("A", 1, 1), auth("A", 2, 2), auth("B", 9, 3), auth("C", 9, 3, declined=False)])
    found = engine.try_query(
        "SELECT card, sum(amount) AS total FROM auths WHERE declined GROUP BY card HAVING count(*) >= 2"
    )
    assert found.headline == "1 of 2 groups of the last 4 rows would be in the answer"
    assert found.samples == ({"card": "A", "total": 3},)
    assert dict(zip(found.conditions, found.stopped, strict=True)) == {"declined": 1, "count(*) >= 2": 1}
    framed = engine.try_query(
        "SELECT card, count(*) OVER (PARTITION BY card ORDER BY ts) AS n FROM auths QUALIFY n >= 2"
    )
    assert framed.headline == "1 of the last 4 rows would have matched"


def test_a_group_whose_sum_does_not_fit_is_in_error(engine):
    query = engine.query(
        "SELECT card, sum(amount) AS total FROM auths GROUP BY card", name="totals", keep="1 day"
    )
    engine.push("auths", [auth("A", 2**63 - 1, 1), auth("A", 1, 2)])
    (group,) = query.why(auth("A", 1, 2)).groups
    assert group.values == {"sum(amount)": "does not fit its type"}
    assert group.error
    assert not group.is_result


def test_unions_of_groups_are_refused_by_name(engine):
    query = engine.query(
        "SELECT card FROM auths GROUP BY card UNION ALL SELECT card FROM auths GROUP BY card, amount",
        name="u",
    )
    with pytest.raises(NotBuiltError, match="why, trials, receipts and proofs of u are not built"):
        query.why(auth("A", 1, 1))


OVER = (
    "SELECT card, count(*) OVER (PARTITION BY card ORDER BY ts RANGE BETWEEN INTERVAL 10 MINUTES PRECEDING AND CURRENT ROW)"
    " AS n FROM auths QUALIFY n >= 3"
)
FRAME = "count(*) OVER (RANGE INTERVAL '10 minutes' PRECEDING)"


def test_a_row_that_came_late_is_in_no_later_frame(engine):
    query = engine.query(OVER, name="vel")
    engine.push("auths", [auth("A", 1, 20)])
    engine.push("auths", [auth("A", 2, 15)])  # behind 12:19, the watermark
    found = query.why(auth("A", 3, 21))
    assert not found
    assert found.groups[0].values == {FRAME: 2}
    assert found.notes == ("as if it came now, over the 1 row that is retained in memory",)
    engine.push("auths", [auth("A", 3, 21)])
    assert query.n_results == 0


def test_a_row_that_would_be_late_over_its_frame_gets_no_result(engine):
    query = engine.query(OVER.replace("3", "1"), name="vel")
    engine.push("auths", [auth("A", 1, 20)])
    assert lines(query.why(auth("A", 2, 15))) == [
        "the row does not match vel",
        "it is late: 2026-01-01T12:15:00Z is 4 minutes behind the watermark, 2026-01-01T12:19:00Z, "
        "and late rows are in no frame and get no result",
    ]
    assert query.why(auth("A", 2, 19))


def test_why_not_of_rows_over_frames_leaves_out_those_that_came_late(engine):
    query = engine.query(OVER, name="vel")
    engine.push("auths", [auth("A", 1, 20)])
    engine.push("auths", [auth("A", 2, 15), auth("A", 3, 21)])
    found = query.why_not(last=2)
    assert (found.n_rows, found.below.n_rows, found.below.n_matched) == (1, 2, 1)
    assert [group.values for group in found.groups] == [{FRAME: 2}]
    assert "1 row more would take part, but came late, and is in no frame" in found.notes


def test_a_row_that_would_be_late_is_in_no_window_though_one_is_open(engine):
    query = engine.query(
        "SELECT card FROM auths GROUP BY card, window(ts, '10 minutes') HAVING count(*) >= 3", name="w"
    )
    engine.push("auths", [auth("A", 1, 20), auth("A", 2, 27)])
    engine.push("auths", [auth("A", 3, 22)])  # behind 12:26, the watermark
    assert lines(query.why(auth("A", 4, 23))) == [
        "the row is in no window of w",
        "it is late: 2026-01-01T12:23:00Z is 3 minutes behind the watermark, 2026-01-01T12:26:00Z, "
        "and late rows are in no window",
    ]
    (window,) = query.why(auth("A", 4, 28)).groups
    assert window.values == {"count(*)": 2}
    assert [row["amount"] for row in window.rows] == [1, 2]
    found = query.why_not()
    assert found.below.n_matched == 2
    assert found.notes == ("1 row more would take part, but came late, and is in no window",)


def test_a_late_row_is_in_its_group_all_the_same(engine):
    query = engine.query(
        "SELECT card FROM auths GROUP BY card HAVING count(*) >= 3", name="g", keep="30 days"
    )
    engine.push("auths", [auth("A", 1, 20)])
    engine.push("auths", [auth("A", 2, 15)])
    (group,) = query.why(auth("A", 3, 14)).groups
    assert group.values == {"count(*)": 2}
    assert [row["amount"] for row in group.rows] == [1, 2]


def test_a_trial_leaves_late_rows_out_of_windows_and_frames(engine):
    engine.push("auths", [auth("A", 1, 20)])
    engine.push("auths", [auth("A", 2, 15), auth("A", 3, 21)])
    found = engine.try_query(OVER)
    assert found.n_matched == 0
    assert "1 row more would take part, but came late, and is in no frame" in found.notes
    windows = engine.try_query("SELECT card FROM auths GROUP BY card, window(ts, '1 minute')")
    assert (windows.n_matched, windows.n_groups) == (2, 2)


def test_which_rows_came_late_outlives_a_restart(tmp_path):
    with eddyline.open(tmp_path) as opened:
        opened.sql(AUTHS)
        opened.query(OVER, name="vel")
        opened.push("auths", [auth("A", 1, 20)])
        opened.push("auths", [auth("A", 2, 15)])
    with eddyline.open(tmp_path) as opened:
        found = opened.get("vel").why(auth("A", 3, 21))
        assert found.groups[0].values == {FRAME: 2}


def test_rounds_go_on_while_groups_are_judged(engine, monkeypatch):
    query = engine.query(
        "SELECT card FROM auths GROUP BY card HAVING count(*) >= 3", name="g", keep="30 days"
    )
    engine.push("auths", [auth("A", 1, 1)])
    pushed = []

    def push_meanwhile(judge):
        def judged(*arguments):
            pushing = threading.Thread(target=engine.push, args=("auths", [auth("B", 1, 2)]), daemon=True)
            pushing.start()
            pushing.join(30)
            pushed.append(not pushing.is_alive())
            return judge(*arguments)

        return judged

    monkeypatch.setattr(group_why, "why", push_meanwhile(group_why.why))
    monkeypatch.setattr(group_why, "why_not", push_meanwhile(group_why.why_not))
    assert not query.why(auth("A", 1, 1))
    assert query.why_not().n_rows == 2
    assert len(pushed) >= 2
    assert all(pushed)
