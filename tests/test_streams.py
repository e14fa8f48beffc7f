"""Every script of tests/streams, and what the runner says about scripts that are wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

import eddyline
from eddyline.scripts import ScriptError, parse_script, run_file, run_script

FOLDER = Path(__file__).parent / "streams"
SCRIPTS = sorted(FOLDER.glob("*.stream"))


@pytest.fixture(autouse=True, scope="module")
def functions_of_the_scripts():
    @eddyline.udf(returns="double", name="half")
    def half(n: int) -> float | None:
        return None if n is None else n / 2

    @eddyline.udf(returns="int", name="picky")
    def picky(n: int) -> int | None:
        if n is not None and n < 0:
            raise ValueError(f"{n} is negative")
        return None if n is None else n % 2


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_script(path):
    differences = run_file(path)
    assert not differences, "\n".join(map(str, differences))


# --------------------------------------------------------------------------------------------- the runner itself


def told(text: str) -> list[str]:
    return [str(difference) for difference in run_script(parse_script(text, "a.stream"))]


def test_a_missing_result_and_one_nobody_asked_for_are_told_with_their_lines():
    text = """
stream s (n int, t string)
query q: SELECT n, t FROM s WHERE n > 1
push s (1, 'a'), (2, 'it''s'), (3, NULL)
  q +1, 'a'
  q +3, NULL
"""
    assert told(text) == [
        "a.stream:4: push came out otherwise\n"
        "  missing   q +1, 'a'   (line 5)\n"
        "  not asked q +2, 'it''s'"
    ]  # fmt: skip


def test_results_are_a_multiset():
    text = "stream s (n int)\nquery q: SELECT n FROM s\npush s (1), (1)\n  q +1\n  q +1\n  q +1\n"
    assert told(text) == ["a.stream:3: push came out otherwise\n  missing   q +1   (line 6)"]


def test_a_result_of_a_query_that_does_not_exist_is_missing():
    text = "stream s (n int)\npush s (1)\n  q +1\n"
    assert told(text) == [
        "a.stream:2: push came out otherwise\n  missing   q +1   (line 3; there is no query q)"
    ]


def test_dead_letters_are_complete_too():
    text = """
stream s (n int)
query q: SELECT 1 / n AS x FROM s
push s (0), (0), ('x')
  dead other
"""
    (difference,) = told(text)
    assert difference.startswith("a.stream:4: push came out otherwise\n  missing   dead other")
    assert "not asked dead q: DIVIDE_BY_ZERO" in difference
    assert "(2 times)" in difference
    assert "not asked dead : ROW_DOES_NOT_FIT: column n: 'x' is not INT" in difference


ALERTING = """
stream s (n int, t string)
sql CREATE VIEW q TBLPROPERTIES (per='t') AS SELECT n, t FROM s WHERE n > 1
"""


def test_messages_of_alerts_are_complete_once_a_script_names_one():
    rows = "push s (2, 'a'), (3, 'b')\n  q +2, 'a'\n  q +3, 'b'\n"
    assert told(ALERTING + rows) == []
    assert told(ALERTING + rows + "  alert q firing 'a'\n  alert q resolved 'b' : closed\n") == [
        "a.stream:4: push came out otherwise\n"
        "  missing   alert q resolved 'b' : closed   (line 8)\n"
        "  not asked alert q firing 'b'"
    ]  # fmt: skip


def test_a_tick_goes_on_from_where_the_clock_is():
    text = """
stream s (ts timestamp)
query q: SELECT ts, now() AS at FROM s
now '2026-01-01 00:05:00'
tick +10 minutes
now +1 hour 30 seconds
push s ('2026-01-01 00:00:00')
  q +'2026-01-01 00:00:00', '2026-01-01 01:15:30'
"""
    assert told(text) == []


def test_late_rows_are_counted():
    text = "stream s (ts timestamp) time ts\npush s ('2026-01-01 00:00:00')\n  late 1\n"
    assert told(text) == ["a.stream:2: push came out otherwise\n  late      0 rows, expected 1"]


def test_a_command_that_should_have_been_refused_is_told():
    assert told("stream s (n int)\n  error nope\n") == [
        "a.stream:1: stream was accepted, expected error nope"
    ]


def test_an_error_must_say_what_the_script_expects():
    (difference,) = told("stream s (n int)\nquery q: SELECT m FROM s\n  error something else\n")
    assert difference.startswith("a.stream:2: the error does not say 'something else'\n")
    assert "there is no column m" in difference


def test_a_refusal_nobody_expected_ends_the_script():
    (difference,) = told("stream s (n int)\nquery q: SELECT m FROM s\npush s (1)\n  q +1\n")
    assert difference.startswith("a.stream:2: query was refused\n  there is no column m")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("strem s (n int)", "a.stream:1: 'strem' is not a command\nhint: Did you mean stream?"),
        ("  push s (1)", "a.stream:1: an indented line with nothing above it"),
        ("stream s", "a.stream:1: a stream needs its columns in parentheses\nhint: Found the end."),
        ("query q SELECT", "a.stream:1: expected ':'\nhint: Found 'SELECT'."),
        ("push s (1", "a.stream:1: expected ')'\nhint: Found the end."),
        ("push s (one)", "a.stream:1: expected a value: NULL, true, 1, 2.5, 'text', [1, 2] or {a: 1}\nhint: Found 'one)'."),
        ("push s @1 (1), (2)", "a.stream:1: 2 rows of s have 1 arrival numbers\nhint: Found the end."),
        ("push s @x (1)", "a.stream:1: expected a value"),
        ("push s @1.5 (1)", "a.stream:1: expected an arrival number after @"),
        ("tick 5", "a.stream:1: expected a time in quotes, such as '2026-01-01 09:30:00'"),
        ("tick +10 monuts", "a.stream:1: '10 monuts' is not a duration\nhint: Write a duration such as '5 minutes'."),
        ("push s (1)\n  alert q firing 'a", "a.stream:2: expected a value"),
        ("drop", "a.stream:1: expected the name of a query\nhint: Found the end."),
        ("drop a b", "a.stream:1: expected nothing more\nhint: Found 'b'."),
        ("stream s (n int)\nzone UTC", "a.stream:2: zone must come before all other commands"),
        ("push s (1)\n  q +1 2", "a.stream:2: expected nothing more\nhint: Found '2'."),
    ],
)  # fmt: skip
def test_a_script_that_cannot_be_read_names_the_line(text, problem):
    with pytest.raises(ScriptError) as error:
        parse_script(text, "a.stream")
    assert str(error.value).startswith(problem)


def test_a_row_with_too_few_values_is_told():
    (difference,) = told("stream s (a int, b int)\npush s (1)\n")
    assert "a row of s has 1 values, columns: 2" in difference
