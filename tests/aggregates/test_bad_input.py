"""What users get wrong about aggregates, through their door: what is accepted with a warning, refused with the reason, or an
error of one group alone."""

from __future__ import annotations

import datetime

import pytest

import eddyline
from eddyline.errors import EddylineError

NOON = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
MOST = 9_223_372_036_854_775_807


@pytest.fixture
def engine():
    with eddyline.open() as made:
        made.sql(
            "CREATE TABLE auths (card STRING, amount BIGINT, x DOUBLE, seen TIMESTAMP, ts TIMESTAMP) TBLPROPERTIES (time='ts')"
        )
        yield made


def push(engine: eddyline.Engine, *rows: tuple) -> None:
    """Rows are (card, amount, x); each a second after the one before."""
    second = datetime.timedelta(seconds=1)
    names = "card", "amount", "x"
    engine.push(
        "auths",
        [dict(zip(names, row, strict=True)) | {"ts": NOON + second * k} for k, row in enumerate(rows)],
    )


def test_groups_that_never_end_are_accepted_with_a_warning_that_names_keep(engine):
    query = engine.query("SELECT card, count(*) AS n FROM auths GROUP BY card")
    (warning,) = query.warnings
    assert "one state per card, for ever: keep = '30 days' forgets groups" in warning
    assert engine.query("SELECT card, count(*) AS n FROM auths GROUP BY card", keep="30 days").warnings == []


TIME = "Results of rows that have come would change in every round."
REFUSED = [
    ("SELECT count(*) AS n FROM auths GROUP BY window(seen, '1 minute')",
     "window() takes the time of auths, ts",
     "Only its time says when windows close and which rows are late.",
     "Write ts, or declare another time for auths."),
    ("SELECT count(*) AS n FROM auths GROUP BY window(ts, '5 minutes', '10 minutes')",
     "the slide of a window must be more than 0 and at most its size",
     "Otherwise there are rows between windows that are in none.",
     "Write a slide up to the size, or leave it out: one window begins where the one before ends."),
    ("SELECT count(*) OVER (ORDER BY ts ROWS BETWEEN CURRENT ROW AND 1 FOLLOWING) AS n FROM auths",
     "a frame cannot look forward",
     "The rows after a row have not come yet, and results are never revised.",
     "End the frame with CURRENT ROW."),
    ("SELECT count(*) OVER (ORDER BY ts RANGE BETWEEN CURRENT ROW AND INTERVAL 1 HOUR FOLLOWING) AS n FROM auths",
     "a frame cannot look forward",
     "The rows after a row have not come yet, and results are never revised.",
     "End the frame with CURRENT ROW."),
    ("SELECT card, now() AS t FROM auths GROUP BY card",
     "now() cannot stand in SELECT of groups",
     TIME,
     "Select max(ts), and compare it with now() in HAVING."),
    ("SELECT count(*) OVER (ORDER BY ts) AS n FROM auths WHERE ts > now() - INTERVAL 1 HOUR",
     "now() cannot stand in what OVER reads",
     TIME,
     "Frames go by the time of rows: RANGE BETWEEN INTERVAL 10 MINUTES PRECEDING AND CURRENT ROW."),
    ("SELECT count(*) AS n FROM auths WHERE ts > now() - INTERVAL 1 HOUR GROUP BY window(ts, '1 minute')",
     "now() cannot stand together with windows in GROUP BY",
     "Windows close as the watermark passes them, whatever the time is.",
     "Leave the window out, or the condition on now()."),
]  # fmt: skip


@pytest.mark.parametrize(("text", "problem", "detail", "hint"), REFUSED, ids=[text for text, *_ in REFUSED])
def test_what_cannot_be_is_refused_with_the_reason_and_a_way_out(engine, text, problem, detail, hint):
    with pytest.raises(EddylineError) as refused:
        engine.query(text)
    assert refused.value.problem == problem
    assert refused.value.detail == detail
    assert refused.value.hint == hint
    assert engine.queries() == []


def test_a_sum_that_does_not_fit_is_an_error_of_its_group_and_no_other(engine):
    sums = engine.query("SELECT card, sum(amount) AS total FROM auths GROUP BY card", name="sums")
    counts = engine.query("SELECT card, count(*) AS n FROM auths GROUP BY card", name="counts")
    push(engine, ("A", MOST, 0.0), ("B", 1, 0.0))
    push(engine, ("A", 1, 0.0), ("B", 1, 0.0))
    push(engine, ("A", 1, 0.0))  # it stays in error: no further letter
    push(engine, ("A", -5, 0.0))  # and fits again
    told = [(each.change, each["card"], each["total"]) for each in sums.results()]
    assert sorted(told[:2]) == [("insert", "A", MOST), ("insert", "B", 1)]
    assert sorted(told[2:5]) == [
        ("delete", "A", MOST),
        ("update_postimage", "B", 2),
        ("update_preimage", "B", 1),
    ]
    assert told[5:] == [("insert", "A", MOST - 3)]
    assert [letter.query for letter in engine.dead_letters()] == ["sums"]
    assert counts.latest(1) == [{"card": "A", "n": 4}]


def test_null_and_nan_are_keys_like_others_and_zero_has_no_sign(engine):
    query = engine.query("SELECT card, x, count(*) AS n FROM auths GROUP BY card, x")
    nan = float("nan")
    push(
        engine,
        (None, 1, nan),
        (None, 1, -nan),
        ("A", 1, None),
        ("A", 1, None),
        ("A", 1, 0.0),
        ("A", 1, -0.0),
        (None, 1, None),
    )
    found = {(row["card"], repr(row["x"])): row["n"] for row in query.latest(9)}
    assert found == {(None, "nan"): 2, ("A", "None"): 2, ("A", "0.0"): 2, (None, "None"): 1}
