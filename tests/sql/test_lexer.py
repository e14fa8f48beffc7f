from __future__ import annotations

import pytest

from eddyline.sql.lexer import Constant, lex, scan


def kinds(text: str) -> list[tuple[str, str]]:
    return [(c.kind, c.raw) for c in lex(text).constants]


def test_texts_equal_but_for_constants_have_one_skeleton() -> None:
    first = lex("SELECT sym FROM trades WHERE sector = 'TECH' AND price < 10.5")
    second = lex("SELECT sym\n  FROM trades -- all of them\n WHERE sector='OIL' /* and */ AND price<9.25;")
    assert (
        first.skeleton
        == second.skeleton
        == "SELECT sym FROM trades WHERE sector = ?string AND price < ?decimal"
    )


def test_numbers_are_told_apart_by_how_they_are_written() -> None:
    assert kinds("1 2L 3s 4Y 1.5 .5 5. 1.5BD 1e3 2.5E-3 1d 1.5F") == [
        ("int", "1"),
        ("long", "2L"),
        ("short", "3s"),
        ("byte", "4Y"),
        ("decimal", "1.5"),
        ("decimal", ".5"),
        ("decimal", "5."),
        ("decimal", "1.5BD"),
        ("double", "1e3"),
        ("double", "2.5E-3"),
        ("double", "1d"),
        ("float", "1.5F"),
    ]


def test_typed_literals_are_one_constant_each() -> None:
    assert kinds("DATE '2024-02-29' timestamp'2024-01-01' TIMESTAMP_NTZ  '2024-01-01' X'1F' r'a\\b'") == [
        ("date", "DATE '2024-02-29'"),
        ("timestamp", "timestamp'2024-01-01'"),
        ("timestamp_ntz", "TIMESTAMP_NTZ  '2024-01-01'"),
        ("binary", "X'1F'"),
        ("string", "r'a\\b'"),
    ]


def test_strings_may_hold_quotes_escapes_and_comments() -> None:
    assert kinds("""a = 'it''s' AND b = 'x\\'y' AND c = "d""e" AND e = '-- no' """) == [
        ("string", "'it''s'"),
        ("string", "'x\\'y'"),
        ("string", '"d""e"'),
        ("string", "'-- no'"),
    ]


def test_adjacent_strings_are_one_constant() -> None:
    assert kinds("'a' 'b'\n'c'") == [("string", "'a' 'b'\n'c'")]


def test_names_with_digits_and_comments_hold_no_constants() -> None:
    assert kinds("a1 + t2.b3 + `c 4` -- 5\n /* 6 */") == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("-5", ["-5"]),
        ("a = -5", ["-5"]),
        ("a - 5", ["5"]),
        ("a -5", ["5"]),
        ("5 -3", ["5", "3"]),
        ("f(x) -3", ["3"]),
        ("m[1] - 3", ["1", "3"]),
        ("BETWEEN -1 AND - 2", ["-1", "-2"]),
        ("a * -2", ["-2"]),
        ("(-1)", ["-1"]),
        ("a --5", []),
        ("`x` - 1", ["1"]),
        (":p - 1", ["p", "1"]),
        ("payload:x - 1", ["1"]),
    ],
)
def test_a_minus_belongs_to_the_number_only_where_no_operand_precedes_it(text: str, found: list[str]) -> None:
    assert [c.raw for c in lex(text).constants] == found


def test_an_in_list_of_literals_is_one_constant_whatever_its_length() -> None:
    two, five = lex("x IN (1, 2)"), lex("x in (10,-20 ,30, 40, 50)")
    assert two.skeleton == five.skeleton == "x IN ?int*"
    assert five.constants == [Constant("int", "in (10,-20 ,30, 40, 50)", is_list=True)]


def test_numbers_of_several_kinds_make_one_list_of_the_widest() -> None:
    assert lex("x IN (1, 2.5)").skeleton == "x IN ?decimal*"
    assert lex("x IN (1, 2.5, 1e3)").skeleton == "x IN ?double*"


def test_a_list_with_anything_else_in_it_is_no_constant() -> None:
    assert lex("x IN (1, y)").skeleton == "x IN ( ?int , y )"
    assert lex("x IN (1, NULL)").skeleton == "x IN ( ?int , NULL )"
    assert lex("x IN (1)").skeleton == "x IN ( ?int )"


def test_intervals_stay_in_the_skeleton() -> None:
    assert lex("ts > now() - INTERVAL 10 MINUTES").skeleton == "ts > now ( ) - INTERVAL 10 MINUTES"
    assert kinds("INTERVAL '1-2' YEAR TO MONTH") == [("interval", "INTERVAL '1-2' YEAR TO MONTH")]
    assert kinds("interval 1 day 2 hours") == [("interval", "interval 1 day 2 hours")]


def test_parameters_paths_and_casts_are_told_apart_by_what_precedes_the_colon() -> None:
    lexed = lex("a = :p AND payload:b.c[0] = b::int")
    assert lexed.constants == [Constant("parameter", "p")]
    assert lexed.skeleton == "a = ?:p AND payload :b.c[0] = b :: int"


def test_tokens_know_their_place() -> None:
    text = "a = -5 AND b IN (1, 2)"
    tokens, _ = scan(text)
    assert [t.text for t in tokens] == ["a", "=", "-5", "AND", "b", "IN (1, 2)"]
    assert all(text[t.span.start : t.span.end] == t.text for t in tokens)
    assert [t.constant for t in tokens] == [None, None, 0, None, None, 1]
