"""The inputs of joins as they stand in a text, found without the parser of the engine."""

from __future__ import annotations

import pytest

from eddyline.errors import ProofError
from eddyline.proof.inputs import inputs_in, table_edits
from eddyline.proof.words import edited_text

STREAMS = ("trades", "news", "Odd Name", "ann.fast", "bob.so so")


def named(text: str) -> list[tuple[str, str]]:
    return [(entry.stream, entry.alias) for entry in inputs_in(text, STREAMS)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("SELECT 1 FROM trades t JOIN news n ON t.a = n.a", [("trades", "t"), ("news", "n")]),
        ("SELECT 1 FROM trades AS t, news WHERE t.a = news.a", [("trades", "t"), ("news", "news")]),
        (
            "select extract(YEAR FROM t.ts) from TRADES t left anti join recent(news, INTERVAL 5 MINUTES) as n on t.a=n.a",
            [("TRADES", "t"), ("news", "n")],
        ),
        (
            "SELECT 1 FROM STREAM trades JOIN STREAM news n ON coalesce(n.a, 1) = trades.a, `Odd Name` o WHERE 1 = 1",
            [("trades", "trades"), ("news", "n"), ("Odd Name", "o")],
        ),
        (
            "SELECT 1 FROM trades a ASOF JOIN trades b ON a.k = b.k -- JOIN news",
            [("trades", "a"), ("trades", "b")],
        ),
        ("SELECT 1 FROM trades CROSS JOIN news", [("trades", "trades"), ("news", "news")]),
        (
            "SELECT 1 FROM (SELECT a FROM trades u WHERE a IN (1, 2)) t, ((SELECT a FROM news)) n WHERE t.a = n.a",
            [("trades", "u"), ("news", "news")],
        ),
        (
            "WITH trades AS (SELECT a FROM trades), n(a) AS (SELECT a FROM news) SELECT 1 FROM trades t JOIN n ON t.a = n.a",
            [("trades", "trades"), ("news", "news")],
        ),
        (
            "SELECT 1 FROM trades t WHERE EXISTS (SELECT extract(YEAR FROM m.ts), 2 FROM news m WHERE t.a = m.a)",
            [("trades", "t"), ("news", "m")],
        ),
        (
            "SELECT 1 FROM ann.fast f, `bob`.`so so` WHERE f.a = 1",
            [("ann.fast", "f"), ("bob.so so", "bob.so so")],
        ),
        (
            "SELECT 1 FROM (WITH news AS (SELECT a FROM trades) SELECT a FROM news) x JOIN news n ON x.a = n.a",
            [("trades", "trades"), ("news", "n")],
        ),
    ],
)
def test_every_input_is_found_with_what_the_text_calls_it(text, found):
    assert named(text) == found


def test_the_window_of_an_input_and_the_place_of_its_name_are_known():
    text = "SELECT 1 FROM recent(ann.fast, INTERVAL 5 MINUTES) f JOIN recent(news, (5)) ON f.a = news.a"
    found = [(text[e.name_start : e.name_end], e.window, e.alias) for e in inputs_in(text, STREAMS)]
    assert found == [("ann.fast", "INTERVAL 5 MINUTES", "f"), ("news", "(5)", "news")]


def test_inputs_give_way_to_tables_and_all_else_stays():
    text = "SELECT t.a /* JOIN */ FROM trades t ASOF JOIN recent(news, 100) n ON t.a = n.a WHERE t.b = 'FROM news'"
    assert edited_text(text, table_edits(text, STREAMS, ["one", "two"])) == (
        "SELECT t.a /* JOIN */ FROM `one` AS `t` JOIN `two` AS `n` ON t.a = n.a WHERE t.b = 'FROM news'"
    )


def test_what_is_no_stream_and_other_numbers_of_rows_are_refused():
    with pytest.raises(ProofError) as error:
        inputs_in("SELECT 1 FROM (SELECT 2 FROM other) x", STREAMS)
    assert error.value.problem == "this text reads something else than streams"
    with pytest.raises(ProofError) as count:
        table_edits("SELECT 1 FROM trades", STREAMS, ["one", "two"])
    assert count.value.problem == "this text reads 1 streams, and the result is made of 2 rows"


@pytest.mark.parametrize(
    ("text", "n_reads"),
    [
        ("WITH a AS (SELECT k FROM trades) SELECT 1 FROM a x JOIN a y ON x.k = y.k", 2),
        ("WITH a AS (SELECT k FROM trades) SELECT 1 FROM news", 0),
    ],
)
def test_a_query_of_with_that_is_not_read_once_is_refused(text, n_reads):
    with pytest.raises(ProofError) as error:
        inputs_in(text, STREAMS)
    assert (
        error.value.problem
        == f"a, a query of WITH, is read {n_reads} times; a judge is given the rows of one reading"
    )
