"""Errors say what is wrong, where, why, and what to do next."""

from __future__ import annotations

import pytest

from eddyline import EddylineError
from eddyline.errors import LimitError, Span, SqlError, did_you_mean, nearest


def test_a_message_has_problem_text_pointer_detail_and_hint():
    error = EddylineError(
        'query "outbid" would need unbounded memory',
        detail="Any bid may match an ask still to come.",
        hint="Give both streams a window.",
        span=Span(13, 25),
        text="SELECT a WHERE b.price > 1",
    )
    assert str(error) == (
        'query "outbid" would need unbounded memory\n'
        "  SELECT a WHERE b.price > 1\n"
        "               ^^^^^^^^^^^^\n"
        "detail: Any bid may match an ask still to come.\n"
        "hint: Give both streams a window."
    )
    assert error.position == (1, 14)


def test_a_text_of_several_lines_shows_the_line_and_its_number():
    error = SqlError("there is no column b", span=Span(14, 15)).located("SELECT a\nFROM b")
    assert str(error) == "there is no column b\n  line 2:\n  FROM b\n       ^"
    assert error.position == (2, 6)


def test_the_innermost_text_wins():
    error = SqlError("no", span=Span(0, 1), text="inner")
    assert error.located("outer").text == "inner"


def test_without_text_or_span_there_is_no_pointer():
    assert str(SqlError("no", span=Span(0, 1))) == "no"
    assert str(SqlError("no", text="abc")) == "no"
    assert SqlError("no").position is None


def test_a_long_line_is_cut_around_what_is_meant():
    text = "x" * 300 + "HERE" + "y" * 300
    _, line, pointer = str(SqlError("no", span=Span(300, 304), text=text)).splitlines()
    assert line.startswith("  …")
    assert line.endswith("…")
    assert len(line) <= 104
    assert line[pointer.index("^") : pointer.rindex("^") + 1] == "HERE"


def test_tabs_do_not_move_the_pointer():
    _, line, pointer = str(SqlError("no", span=Span(3, 4), text="\t\ta b")).splitlines()
    assert line == "    a b"
    assert pointer == "     ^"


def test_a_span_past_the_end_still_points():
    _, line, pointer = str(SqlError("no", span=Span(9, 9), text="abc")).splitlines()
    assert (line, pointer) == ("  abc", "     ^")


def test_spans_join_and_shift():
    assert Span(5, 7).to(Span(1, 6)) == Span(1, 7)
    assert Span(5, 7).to(None) == Span(5, 7)
    assert Span(5, 7).shifted(10) == Span(15, 17)


def test_every_error_can_be_caught_as_one_kind():
    with pytest.raises(EddylineError):
        raise LimitError("too long")


def test_the_nearest_name_is_offered_whatever_its_case():
    assert nearest("PRCE", ["sym", "price"]) == "price"
    assert nearest("zzz", ["sym", "price"]) is None


def test_a_hint_names_the_nearest_or_all_or_says_that_there_is_none():
    assert did_you_mean("prce", ["sym", "price"], noun="column") == "Did you mean price?"
    assert did_you_mean("zzz", ["sym", "price"], noun="column") == "Known: price, sym."
    assert did_you_mean("zzz", [], noun="stream") == "There is no stream yet."
    many = did_you_mean("zzz", [f"c{n:02d}" for n in range(15)], noun="column")
    assert many == "Known: c00, c01, c02, c03, c04, c05, c06, c07, c08, c09, c10, c11 and 3 more."
