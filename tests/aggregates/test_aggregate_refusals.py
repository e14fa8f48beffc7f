"""What aggregates cannot be: refused with the place, the reason and a way out that works."""

from __future__ import annotations

from typing import Any

import pytest

from eddyline.errors import EddylineError
from eddyline.sql import properties
from tests.aggregates.aggregate_streams import STREAMS, VECTORS, declared, shape_of, with_view

FRAME = "OVER (PARTITION BY card ORDER BY ts)"


def refusal(text: str, **stated: Any) -> tuple[EddylineError, str]:
    """Why a text is refused, and the part of it that is marked."""
    with pytest.raises(EddylineError) as refused:
        shape_of(text, **stated)
    span = refused.value.span
    return refused.value, "" if span is None else text[span.start : span.end]


REFUSED = [
    # windows
    ("SELECT count(*) AS n FROM clicks GROUP BY window(page, '1 minute')", "window() needs the time of clicks, which has none",
     "window(page, '1 minute')"),
    ("SELECT count(*) AS n FROM auths GROUP BY window(CAST(card AS TIMESTAMP), '1 minute')",
     "window() takes the time of auths, ts", "CAST(card AS TIMESTAMP)"),
    ("SELECT count(*) AS n FROM auths GROUP BY window(ts, '5 minutes', '10 minutes')",
     "the slide of a window must be more than 0 and at most its size", "'10 minutes'"),
    ("SELECT count(*) AS n FROM auths GROUP BY window(ts, '10 minutes', '5 minutes', '-5 minutes')",
     "the offset of a window must be less than its slide", "'-5 minutes'"),
    ("SELECT count(*) AS n FROM auths GROUP BY window(ts, '0 seconds')", "the size of window must be more than 0", "'0 seconds'"),
    ("SELECT count(*) AS n FROM auths GROUP BY session_window(ts, '0 s')", "the gap of session_window must be more than 0",
     "'0 s'"),
    ("SELECT count(*) AS n FROM auths GROUP BY window(ts, '1 month')", "'1 month' is not a duration", "'1 month'"),
    ("SELECT count(*) AS n FROM auths GROUP BY window(ts, INTERVAL 1 MINUTE)", "expected a duration in quotes in window",
     "INTERVAL 1 MINUTE"),
    ("SELECT count(*) AS n FROM auths GROUP BY window(ts)", "window does not take 1 argument", "window(ts)"),
    ("SELECT count(*) AS n FROM auths GROUP BY window(ts, '1 minute'), session_window(ts, '1 minute')",
     "GROUP BY takes one window", "session_window(ts, '1 minute')"),
    ("SELECT count(*) AS n FROM stock GROUP BY session_window(due, '1 minute')", "session_window cannot stand over a table",
     "session_window(due, '1 minute')"),
    ("SELECT count(*) AS n FROM stock GROUP BY window(shelf, '1 minute')", "window takes a TIMESTAMP, found STRING", "shelf"),
    ("SELECT count(*) AS n FROM auths GROUP BY window(ts, '1 day', '1 second')",
     "a row would be in 86,400 windows; at most 1,440 are accepted", "window(ts, '1 day', '1 second')"),
    ("SELECT card FROM auths WHERE window(ts, '1 minute').start = ts", "window cannot stand in WHERE", "window(ts, '1 minute')"),
    ("SELECT window(ts, '1 minute') AS w FROM auths GROUP BY card", "window is not in GROUP BY", "window(ts, '1 minute')"),
    ("SELECT a.card FROM auths a JOIN logins l ON a.card = l.card AND l.at BETWEEN a.ts AND a.ts + INTERVAL 1 MINUTE"
     " GROUP BY a.card, window(a.ts, '1 minute')", "window() cannot stand over a join of several streams without a key",
     "window(a.ts, '1 minute')"),
    # OVER
    ("SELECT count(*) OVER (PARTITION BY card) AS n FROM auths", "OVER needs ORDER BY the time of the stream, and nothing else",
     "count(*) OVER (PARTITION BY card)"),
    ("SELECT count(*) OVER (ORDER BY ts, card) AS n FROM auths", "OVER needs ORDER BY the time of the stream, and nothing else",
     "count(*) OVER (ORDER BY ts, card)"),
    ("SELECT count(*) OVER (ORDER BY amount) AS n FROM auths", "ORDER BY in OVER takes the time of auths, ts", "amount"),
    ("SELECT count(*) OVER (ORDER BY ts DESC) AS n FROM auths", "ORDER BY … DESC is not supported", "DESC"),
    ("SELECT count(*) OVER (ORDER BY n) AS c FROM clicks", "ORDER BY in OVER needs the time of clicks, which has none",
     "count(*) OVER (ORDER BY n)"),
    ("SELECT count(*) OVER (ORDER BY ts ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS n FROM auths",
     "a frame cannot look forward", "1 FOLLOWING"),
    ("SELECT count(*) OVER (ORDER BY ts ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS n FROM auths",
     "a frame ends with CURRENT ROW", "1 PRECEDING"),
    ("SELECT count(*) OVER (ORDER BY ts RANGE BETWEEN 5 PRECEDING AND CURRENT ROW) AS n FROM auths",
     "RANGE takes an interval in units up to weeks", "5 PRECEDING"),
    ("SELECT count(*) OVER (ORDER BY ts RANGE BETWEEN INTERVAL 1 MONTH PRECEDING AND CURRENT ROW) AS n FROM auths",
     "RANGE takes an interval in units up to weeks", "INTERVAL 1 MONTH PRECEDING"),
    ("SELECT sum(price) OVER (ORDER BY id) AS s FROM stock", "OVER cannot stand over a table", "sum(price) OVER (ORDER BY id)"),
    (f"SELECT count(*) {FRAME} AS n FROM auths WHERE ts > now() - INTERVAL 1 HOUR", "now() cannot stand in what OVER reads",
     "ts > now() - INTERVAL 1 HOUR"),
    (f"SELECT card, count(*) AS n, count(*) {FRAME} AS m FROM auths GROUP BY card",
     "OVER and QUALIFY cannot stand together with GROUP BY, HAVING or aggregates", f"count(*) {FRAME}"),
    ("SELECT card FROM auths QUALIFY amount > 1", "QUALIFY needs OVER", "amount > 1"),
    (f"SELECT lead(amount) {FRAME} AS n FROM auths", "lead is not supported", "lead(amount)"),
    (f"SELECT lag(amount, -1) {FRAME} AS n FROM auths", "lag does not take a negative number of rows", "-1"),
    (f"SELECT lag(amount) IGNORE NULLS {FRAME} AS n FROM auths", "lag does not take IGNORE NULLS", "lag(amount) IGNORE NULLS"),
    (f"SELECT rank() {FRAME} AS n FROM auths", "rank is not supported", "rank()"),
    (f"SELECT lag(amount, 1, 'x') {FRAME} AS n FROM auths",
     "lag gives BIGINT where there is a row, and STRING where there is none", "'x'"),
    ("SELECT lag(amount) AS n FROM auths", "lag needs OVER", "lag(amount)"),
    # now()
    ("SELECT now() AS t, count(*) AS n FROM auths GROUP BY card", "now() cannot stand in SELECT of groups", "now()"),
    ("SELECT count(*) AS n FROM auths WHERE ts > now() OR declined", "now() can only be compared with a time below an aggregate,"
     " beside AND", "ts > now() OR declined"),
    ("SELECT count(*) AS n FROM auths WHERE ts > now() - INTERVAL 1 MONTH",
     "now() cannot be shifted by months, which are not equally long", "ts > now() - INTERVAL 1 MONTH"),
    ("SELECT count(*) AS n FROM auths WHERE ts <> now()", "now() cannot be compared with != below an aggregate", "ts <> now()"),
    ("SELECT count(*) AS n FROM auths WHERE CAST(ts AS DATE) = current_date()",
     "now() is compared with DATE, not with a TIMESTAMP", "CAST(ts AS DATE) = current_date()"),
    ("SELECT count(*) AS n FROM auths WHERE ts > now() - INTERVAL 1 HOUR GROUP BY window(ts, '1 minute')",
     "now() cannot stand together with windows in GROUP BY", "ts > now() - INTERVAL 1 HOUR"),
    ("SELECT count(*) AS n FROM auths GROUP BY ts - now()", "now() cannot stand in GROUP BY, in ON, or in an aggregate",
     "ts - now()"),
    ("SELECT count(*) AS n FROM auths a JOIN cards c ON a.card = c.card AND a.ts > now()",
     "now() cannot stand in GROUP BY, in ON, or in an aggregate", "a.card = c.card AND a.ts > now()"),
    ("SELECT n FROM (SELECT max(ts) AS t, count(*) AS n FROM auths GROUP BY window(ts, '1 minute')) WHERE t < now()",
     "now() cannot stand together with windows in GROUP BY", "t < now()"),
    ("SELECT n, now() AS t FROM (SELECT count(*) AS n FROM auths)", "now() cannot stand in SELECT of groups", "now()"),
    ("SELECT card FROM auths GROUP BY card HAVING max(ts) + INTERVAL 1 HOUR > now() + INTERVAL 1 MONTH",
     "now() cannot be shifted by months, which are not equally long",
     "max(ts) + INTERVAL 1 HOUR > now() + INTERVAL 1 MONTH"),
    ("SELECT ts FROM auths GROUP BY ts HAVING ts < now()",
     "now() can only be compared with a TIMESTAMP aggregate in HAVING", "ts < now()"),
    # aggregates and groups
    ("SELECT card FROM auths WHERE count(*) > 1 GROUP BY card", "count is an aggregate and cannot stand in WHERE", "count(*)"),
    ("SELECT max(count(*)) AS n FROM auths", "count is an aggregate and cannot stand in the aggregate max", "count(*)"),
    ("SELECT card, amount FROM auths GROUP BY card", "amount is neither grouped by nor aggregated", "amount"),
    ("SELECT card, count(*) AS n FROM auths GROUP BY card HAVING amount > 1",
     "amount is neither grouped by nor aggregated", "amount"),
    ("SELECT amount % 10 AS d FROM auths GROUP BY amount % 2", "amount is neither grouped by nor aggregated", "amount"),
    ("SELECT sum(DISTINCT amount) AS n FROM auths", "sum does not take DISTINCT", "sum(DISTINCT amount)"),
    ("SELECT sum(card) AS n FROM auths", "sum needs a number, found STRING", "card"),
    ("SELECT sum(ts - ts) AS n FROM auths", "sum needs a number, found INTERVAL DAY TO SECOND", "ts - ts"),
    ("SELECT bool_and(amount) AS n FROM auths", "bool_and needs a condition, found BIGINT", "amount"),
    ("SELECT min_by(card) AS n FROM auths", "min_by does not take 1 argument", "min_by(card)"),
    ("SELECT first(card, 1) AS n FROM auths", "the second argument of first is true or false", "1"),
    ("SELECT count(*) AS n FROM auths GROUP BY 1", "GROUP BY takes columns, not their numbers", "1"),
    ("SELECT count(*) AS n FROM auths GROUP BY n", "GROUP BY cannot take what is computed of groups", "n"),
    ("SELECT DISTINCT card FROM auths GROUP BY card", "SELECT DISTINCT cannot stand together with groups",
     "SELECT DISTINCT card"),
    ("SELECT card, count(*) AS n FROM auths GROUP BY ROLLUP (card)", "GROUP BY ROLLUP is not supported", "ROLLUP"),
    ("SELECT approx_count_distinct(price) AS n FROM stock", "approx_count_distinct cannot stand over a table",
     "approx_count_distinct(price)"),
    ("SELECT approx_count_distinct(amount) AS n FROM auths WHERE ts > now() - INTERVAL 1 HOUR",
     "approx_count_distinct cannot stand together with a condition on now() in WHERE", "approx_count_distinct(amount)"),
    ("SELECT approx_count_distinct(amount) OVER (ORDER BY ts) AS n FROM auths",
     "approx_count_distinct cannot stand before OVER", "approx_count_distinct(amount)"),
    ("SELECT approx_count_distinct(DISTINCT amount) AS n FROM auths", "approx_count_distinct does not take DISTINCT",
     "approx_count_distinct(DISTINCT amount)"),
    ("SELECT approx_count_distinct(array(amount)) AS n FROM auths",
     "approx_count_distinct needs values without parts, found ARRAY<BIGINT>", "array(amount)"),
    ("SELECT approx_count_distinct(amount, 0.4) AS n FROM auths",
     "the second argument of approx_count_distinct is a number from 0.001 to 0.39", "0.4"),
    ("SELECT approx_count_distinct(amount, amount) AS n FROM auths",
     "the second argument of approx_count_distinct is a number from 0.001 to 0.39", "amount"),
    ("SELECT approx_count_distinct(amount, 0.1, 2) AS n FROM auths", "approx_count_distinct does not take 3 arguments",
     "approx_count_distinct(amount, 0.1, 2)"),
    ("SELECT checked(amount, declined) AS n FROM auths", "there is no function checked", "checked(amount, declined)"),
    ("SELECT card FROM auths a WHERE EXISTS (SELECT count(*) FROM cards c WHERE c.card = a.card)",
     "a subquery with aggregates cannot name card of the query around it", "a.card"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "problem", "part"), REFUSED, ids=[text for text, _, _ in REFUSED])
def test_what_cannot_be_aggregated_is_refused_where_it_stands(text: str, problem: str, part: str) -> None:
    error, marked = refusal(text)
    assert (error.problem, marked) == (problem, part)


@pytest.mark.parametrize(
    ("text", "stated", "problem"),
    [
        ("SELECT card FROM auths", {"emit": "final"}, "property emit: the outermost SELECT has no groups"),
        ("SELECT card FROM auths", {"keep": "1 day"}, "property keep: the outermost SELECT has no groups"),
        ("SELECT card FROM auths GROUP BY card UNION ALL SELECT card FROM logins GROUP BY card", {"keep": "1 day"},
         "property keep: the outermost SELECT has no groups"),
        ("SELECT card, count(*) AS n FROM auths GROUP BY card", {"emit": "final"},
         "property emit: a group without a window is never final"),
        ("SELECT count(*) AS n FROM stock GROUP BY window(due, '1 day')", {"emit": "final"},
         "property emit: windows over a table never close, since its rows may change at any time"),
        (f"SELECT count(*) {FRAME} AS n FROM auths", {"emit": "final"},
         "property emit: results of OVER are final by themselves, and rows go by their frames"),
        (f"SELECT count(*) {FRAME} AS n FROM auths", {"keep": "1 day"},
         "property keep: results of OVER are final by themselves, and rows go by their frames"),
        ("SELECT count(*) AS n FROM auths GROUP BY window(ts, '1 day')", {"keep": "1 day"},
         "property keep: windows go by themselves when they close"),
        ("SELECT card FROM auths WHERE ts > now() - INTERVAL 1 DAY GROUP BY card", {"keep": "1 day"},
         "property keep: the rows of a condition on now() go by themselves"),
        ("SELECT shelf FROM stock GROUP BY shelf", {"keep": "1 day"}, "property keep: a table says itself which rows are gone"),
        ("SELECT count(*) AS n FROM auths", {"keep": "1 day"},
         "property keep: without GROUP BY there is one group, which always exists"),
    ],
)  # fmt: skip
def test_properties_of_groups_are_refused_where_they_mean_nothing(
    text: str, stated: dict[str, str], problem: str
) -> None:
    error, _ = refusal(text, **stated)
    assert error.problem == problem
    assert error.hint


@pytest.mark.parametrize("value", ["0 seconds", "soon", -1])
def test_keep_is_a_duration(value: object) -> None:
    with pytest.raises(EddylineError) as refused:
        properties({"keep": value})
    assert refused.value.problem.startswith("property keep: ")


def test_nothing_but_a_selection_stands_on_windows_that_change() -> None:
    text = "SELECT card, window AS w, count(*) AS n FROM auths GROUP BY card, window(ts, '1 minute')"
    streams = with_view("minutes", text)
    shape_of("SELECT card FROM minutes WHERE n > 3", streams)
    for reading in (
        "SELECT sum(n) AS n FROM minutes",
        "SELECT sum(n) AS n FROM (SELECT * FROM minutes WHERE n > 3)",
        f"SELECT sum(n) AS n FROM ({text})",
    ):
        with pytest.raises(EddylineError) as refused:
            shape_of(reading, streams)
        assert "has windows that change until they close; it cannot be aggregated" in refused.value.problem
        assert "emit = 'final'" in (refused.value.hint or "")
    with pytest.raises(EddylineError) as joined:
        shape_of("SELECT m.n FROM minutes m JOIN cards c ON m.card = c.card", streams)
    assert joined.value.problem == "minutes has windows that change until they close; it cannot be joined"


def test_every_refused_vector_is_refused() -> None:
    cases = VECTORS["refused"]
    assert cases
    for case in cases:
        streams, stated = declared(case["streams"]), case.get("properties") or {}
        with pytest.raises(EddylineError):
            shape_of(case["sql"], streams, **stated)


def test_a_hint_that_names_a_text_leads_to_one_that_binds() -> None:
    for text in (
        "SELECT card, max(amount) AS m, any_value(amount) AS a FROM auths GROUP BY card",
        "SELECT card FROM auths WHERE ts > now() - INTERVAL 10 MINUTES AND declined GROUP BY card",
        "SELECT card FROM auths GROUP BY card HAVING max(ts) < now() - INTERVAL 10 MINUTES",
        "SELECT count(*) OVER (PARTITION BY card ORDER BY ts ROWS BETWEEN 10 PRECEDING AND CURRENT ROW) AS n FROM auths",
        "SELECT lag(amount, 1, 0) OVER (ORDER BY ts) AS n FROM auths",
    ):
        assert shape_of(text, STREAMS).aggregating is not None


def test_a_table_view_that_changes_with_the_clock_alone_is_not_aggregated() -> None:
    streams = with_view("due", "SELECT id, shelf FROM stock WHERE due < now()")
    with pytest.raises(EddylineError) as refused:
        shape_of("SELECT count(*) AS n FROM due", streams)
    assert refused.value.problem.startswith("due cannot be aggregated: it asks for now()")
    absent = with_view(
        "absent", "SELECT device FROM readings GROUP BY device HAVING max(ts) < now() - INTERVAL 1 MINUTE"
    )
    assert shape_of("SELECT count(*) AS n FROM absent", absent).aggregating is not None
