"""What a function may make and do on one row: more is an error of the row, whether its arguments are columns or constants."""

from __future__ import annotations

import pyarrow as pa
import pytest

from eddyline.errors import LimitError
from eddyline.expressions import Context, Evaluation, Frame, evaluate, fold, limits
from eddyline.expressions.folding import constants_within
from eddyline.expressions.frame import Budget
from eddyline.expressions.lowerings import searching
from eddyline.model import Call, Column, Literal, UserCall
from tests.scalars import scalar

pytestmark = pytest.mark.thorough

LONG = "a" * 1_000_000
MEGABYTES = ", ".join(["s"] * 20)


def evaluated(text: str, table: pa.Table) -> tuple[Evaluation, Frame]:
    columns = {("", name): table[name].combine_chunks() for name in table.column_names}
    over = Frame(table.num_rows, columns)
    return evaluate(scalar(text, table.schema), over), over


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("replace(s, 'a', p)", "replace would make a text of 1,000,000,000,000 bytes; at most 16,777,216 are made"),
        ("replace(s, 'a', 'bbbbbbbbbbbbbbbbbbbb')", "replace would make a text of 20,000,000 bytes"),
        ("regexp_replace(s, 'a', 'bbbbbbbbbbbbbbbbbbbb')", "regexp_replace would make a text of 20,000,000 bytes"),
        (f"concat({MEGABYTES})", "concat would make a text of 20,000,000 bytes"),
        (f"concat_ws('', {MEGABYTES})", "concat_ws would make a text of 20,000,000 bytes"),
        (f"concat_ws(p, {MEGABYTES})", "concat_ws would make a text of "),
        (f"array_join(array({MEGABYTES}), '')", "array_join would make a text of 20,000,000 bytes"),
        ("array_join(split(substring(s, 1, 100), ''), p)", "array_join would make a text of 100,000,100 bytes"),
        ("concat(split(s, ''), split(s, ''))", "concat would make an array of 2,000,000 elements"),
        ("split(s || s, 'a')", "split would make an array of 2,000,001 elements; at most 1,048,576 are made"),
        ("split(s || s, '')", "split would make an array of 2,000,000 elements"),
        ("split_part(s || s, 'a', 2)", "split_part would make an array of 2,000,001 elements"),
        ("find_in_set('a', replace(s || s, 'a', ','))", "find_in_set would make an array of 2,000,001 elements"),
        ("repeat(s, 2)", "repeat would make a text of 2,000,000 characters; at most 1,048,576 are made"),
        ("lpad('x', 2000000, s)", "lpad would make a text of 2,000,000 characters"),
        ("hex(hex(hex(hex(hex(s)))))", "hex would make a text of 32,000,000 bytes"),
        ("levenshtein(s, p)", "levenshtein would compare 1,000,000,000,000 pairs of characters on one row"),
        ("substring_index(s, substring(s, 1, 500000), 100000)", "substring_index would compare "),
        ("s LIKE concat(s, '_')", "the pattern of LIKE has 1,000,001 characters; at most 65,536 are read"),
    ],
)  # fmt: skip
def test_what_would_explode_is_an_error_of_its_row(text, said):
    rows = pa.table({"s": ["ab", LONG, None], "p": ["b", LONG, "b"]})
    result, over = evaluated(text, rows)
    assert result.errors is not None, text
    assert over.failure(result.errors[1]).message.startswith(said), over.failure(result.errors[1])
    assert over.failure(result.errors[1]).error in limits.OVER_A_LIMIT
    assert result.errors[2] == 0
    assert over.array(result)[1].as_py() is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("replace(s, 'a', 'bb')", "bb" * 1000),
        ("length(replace(s, 'a', repeat('b', 1000)))", 1_000_000),
        ("levenshtein(s, 'x')", 1000),
        ("levenshtein(repeat(s, 1000), 'x', 5)", -1),
        ("substring_index('a,b,c', ',', -2)", "b,c"),
        ("substring_index('aaaa', 'aa', -2)", "a"),
        ("size(split(s, 'a'))", 1001),
    ],
)
def test_what_stays_below_is_as_before(text, value):
    result, over = evaluated(text, pa.table({"s": ["a" * 1000]}))
    assert result.errors is None
    assert over.array(result)[0].as_py() == value


def test_levenshtein_takes_one_step_for_each_character_of_the_shorter_text(monkeypatch):
    steps = []
    monkeypatch.setattr(searching, "check_steps", lambda function, n: steps.append(n))
    assert searching._distance("abcd" * 1000, "ab") == searching._distance("ab", "abcd" * 1000) == 3998
    assert steps == [8000, 8000]


@pytest.mark.parametrize(
    "text",
    [
        "length(repeat(s, 1000000))",
        "length(concat(s, repeat('x', 999999)))",
        "length(replace(s, s, repeat('x', 1000000)))",
        "length(element_at(array(repeat('x', 1000000), s), 1))",
    ],
)
def test_rows_that_make_too_much_together_are_taken_in_halves(monkeypatch, text):
    pieces = []
    whole = Frame.take

    def take(self, rows, columns=None):
        pieces.append(len(rows))
        return whole(self, rows, columns)

    monkeypatch.setattr(Frame, "take", take)
    result, over = evaluated(text, pa.table({"s": [f"{k % 7}" for k in range(300)]}))
    assert over.array(result).to_pylist() == [1_000_000] * 300
    assert pieces == [150, 150]


def test_a_function_of_the_user_is_not_called_again_for_halves():
    calls = []

    def call(function, columns, n_rows):
        calls.append(n_rows)
        return columns[0], []

    call_of = UserCall(pa.string(), "f", (Column(pa.string(), "s"),))
    length = Call(
        pa.int32(), "length", (Call(pa.string(), "repeat", (call_of, Literal(pa.int32(), 1_000_000))),)
    )
    over = Frame(300, {("", "s"): pa.array(["x"] * 300)}, context=Context(0, "UTC", call))
    assert over.array(evaluate(length, over)).to_pylist() == [1_000_000] * 300
    assert calls == [300]


def test_a_budget_counts_what_calls_on_constants_are_given_and_make():
    text = scalar("concat(repeat('a', 4000), repeat('b', 4000))", pa.schema([]))
    assert fold(text).value == "a" * 4000 + "b" * 4000
    with constants_within(Budget(10_000)), pytest.raises(LimitError) as refused:
        fold(text)
    assert refused.value.problem == "the constants of this text take too much to compute"
    assert refused.value.span == text.span
