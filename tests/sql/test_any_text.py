"""Whatever is typed is read, or refused with a place in the text."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from eddyline import types
from eddyline.errors import EddylineError, SqlError
from eddyline.model import Stream
from eddyline.sql import Shapes, parse_statements
from eddyline.sql.lexer import lex, scan

STREAMS = {
    "s": Stream(
        "s", pa.schema([("a", pa.int32()), ("t", pa.string()), ("x", pa.float64()), ("d", types.DATE)])
    ),
    "u": Stream("u", pa.schema([("a", pa.int32()), ("flag", pa.bool_())])),
}
_PIECES = """
    SELECT FROM WHERE AND OR NOT IN LIKE BETWEEN IS NULL CASE WHEN THEN ELSE END CAST AS GROUP BY HAVING QUALIFY JOIN ON
    USING OVER PARTITION ORDER ROWS PRECEDING CURRENT ROW DISTINCT EXCEPT INTERVAL EXTRACT TRIM TRUE CREATE TABLE VIEW
    TBLPROPERTIES DROP ALTER SET PRIMARY KEY s u a t x d flag count max upper abs recent STRING INT DECIMAL ( ) ( ) [ ] ,
    . ; * + - / % = == < <= <=> <> | & ^ ~ ! :: : :p t:a.b @ ? 1 2.5 1e3 -3 'x' "y" 'x 'it''s' X'1F' r'a' `a` `b
    DATE'2024-01-01' (1,2) ('a','b') -- /* */ 1abc DAYS
"""
_LONGER = [
    "INTERVAL 10 MINUTES",
    "IN (1, 2)",
    "IN ('a', 2)",
    "DATE '2024-13-01'",
    "\n",
    "SELECT a FROM s WHERE",
]
WORDS = st.sampled_from([*_PIECES.split(), *_LONGER])
TEXTS = st.one_of(
    st.lists(WORDS, max_size=14).map(" ".join),
    st.lists(WORDS, max_size=10).map(lambda words: "SELECT a FROM s WHERE " + " ".join(words)),
    st.lists(WORDS, max_size=10).map(lambda words: "SELECT " + " ".join(words) + " FROM s"),
    st.text(max_size=40),
)


def refusal(read: Callable[[], object]) -> EddylineError | None:
    """What the reader refuses the text with; any other exception is a fault of ours."""
    try:
        read()
    except EddylineError as error:
        return error
    return None


@given(TEXTS)
def test_a_query_is_read_or_refused_with_its_place(text: str) -> None:
    error = refusal(lambda: Shapes().shape_of(text, STREAMS))
    if error is not None:
        assert isinstance(error, SqlError)
        assert error.text == text
        assert error.span is not None
        assert 0 <= error.span.start <= len(text)


@given(TEXTS)
def test_a_text_that_is_read_gives_the_same_shape_again(text: str) -> None:
    shapes = Shapes()
    if refusal(lambda: shapes.shape_of(text, STREAMS)) is None:
        shape, values = shapes.shape_of(text, STREAMS)
        assert len(values) == len(shape.slots)
        assert (shapes.bound, shapes.shape_of(text, STREAMS)[0] is shape) == (1, True)


@given(TEXTS)
def test_statements_are_read_or_refused(text: str) -> None:
    error = refusal(lambda: parse_statements(text))
    assert error is None or error.text == text


@given(TEXTS)
def test_tokens_are_pieces_of_the_text_in_order(text: str) -> None:
    try:
        tokens, constants = scan(text)
    except SqlError:
        return
    assert all(text[t.span.start : t.span.end] == t.text for t in tokens)
    assert [t.span.start for t in tokens] == sorted(t.span.start for t in tokens)
    assert [t.constant for t in tokens if t.constant is not None] == list(range(len(constants)))


@given(TEXTS, st.sampled_from([" ", "\n", "\t\t", " /* x */ ", " -- y\n"]))
def test_the_space_between_tokens_does_not_matter(text: str, gap: str) -> None:
    try:
        tokens, _ = scan(text)
    except SqlError:
        return
    spread = gap.join(t.text for t in tokens if t.text[0] != ":")  # a path must touch what stands before it
    if all(t.text[0] != ":" for t in tokens):
        assert lex(spread).skeleton == lex(text).skeleton
