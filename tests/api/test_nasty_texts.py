"""No text breaks a door: it is refused with its place when it is registered, or answered right everywhere."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import eddyline
from eddyline.errors import EddylineError, LimitError, SqlError
from eddyline.rules import plan
from tests.nasty_texts import ACCEPTED, DIGITS, REFUSED, ROW, SCHEMA, nested

pytestmark = pytest.mark.thorough  # every text through every door

NOW_US = 1_767_225_600_000_000
DEEP = {f"{name}, 190": text for name, text in nested(190).items()}
DEEP |= {f"{name}, 195": text for name, text in nested(195).items() if "CASE" in name}


def an_engine() -> eddyline.Engine:
    engine = eddyline.open(clock=lambda: NOW_US)
    engine.stream("s", SCHEMA)
    return engine


@pytest.fixture(scope="module")
def shared() -> Iterator[eddyline.Engine]:
    """For what registers nothing."""
    with an_engine() as engine:
        yield engine


def inspected(engine: eddyline.Engine, query: Any) -> list[str]:
    """What all that can be asked about a query says."""
    why = query.why(ROW)
    said = [
        query.explain(),
        engine.explain_index(),
        engine.explain_filters(),
        why,
        query.why_not(),
        query.warnings,
    ]
    assert why.matches
    return [str(each) for each in said]


@pytest.mark.parametrize(
    "form", ["SELECT a FROM s WHERE {}", "SELECT {} AS v FROM s"], ids=["WHERE", "SELECT"]
)
@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_a_text_beyond_the_limits_is_refused_with_its_place(shared, text, form):
    for read in (shared.query, shared.explain, lambda each: shared.query_many([each])):
        with pytest.raises(SqlError) as refused:
            read(form.format(text))
        assert refused.value.span is not None
        assert len(refused.value.problem) <= 400
        assert refused.value.text == form.format(text)
    assert shared.n_queries == 0


@pytest.mark.parametrize("text", {**DEEP, **ACCEPTED}.values(), ids={**DEEP, **ACCEPTED})
def test_a_text_within_them_is_answered_right_by_every_door(text):
    with an_engine() as engine:
        query = engine.query(
            f"SELECT a, ({text}) AS v FROM s WHERE {text}"
            if len(text) < 20_000
            else f"SELECT a FROM s WHERE {text}"
        )
        matches = engine.push("s", [ROW])
        assert (matches.count, engine.dead_letters()) == (1, [])
        assert [r["a"] for r in query.results()] == [1]
        inspected(engine, query)
        assert query.replace(query.text).generation >= 1


def test_deep_queries_are_stored_proved_and_found_again(tmp_path):
    texts = [*DEEP.values(), "d < DATE '99999-12-31'"]
    with eddyline.open(tmp_path / "home", clock=lambda: NOW_US) as engine:
        engine.stream("s", SCHEMA)
        queries = [
            engine.query(f"SELECT a FROM s WHERE {text}", name=f"q{k}") for k, text in enumerate(texts)
        ]
        engine.push("s", [ROW])
        for query in queries:
            (result,) = query.results()
            assert "SELECT a FROM s" in str(engine.receipt(result))
    with eddyline.open(tmp_path / "home", clock=lambda: NOW_US) as engine:
        assert engine.push("s", [ROW]).count == len(texts)
        for k in range(len(texts)):
            inspected(engine, engine.get(f"q{k}"))


def deep_in_calls(n: int, do: Callable[[], Any]) -> Any:
    return do() if n == 0 else deep_in_calls(n - 1, do)


def test_a_caller_deep_in_calls_of_its_own_is_answered_too(shared):
    before = sys.getrecursionlimit()
    with an_engine() as engine:
        engine.push("s", [ROW])  # compiles

        def ask() -> None:
            for text in (DEEP["CASE in ELSE, 190"], DEEP["calls, 190"], DEEP["AND and OR, 190"]):
                query = engine.query(f"SELECT a FROM s WHERE {text}")
                engine.push("s", [ROW])
                inspected(engine, query)

        deep_in_calls(before - 450, ask)
    assert sys.getrecursionlimit() == before


def test_threads_with_small_stacks_share_the_room_and_leave_the_limit_as_it_was():
    before, size = sys.getrecursionlimit(), threading.stack_size(512 * 1024)
    failures: list[BaseException] = []

    def ask() -> None:
        try:
            with an_engine() as engine:
                for text in (DEEP["CASE of CASE, 190"], DEEP["calls, 190"], DEEP["AND and OR, 190"]):
                    query = engine.query(f"SELECT a FROM s WHERE {text}")
                    engine.push("s", [ROW])
                    inspected(engine, query)
        except BaseException as error:
            failures.append(error)

    try:
        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        threading.stack_size(size)
    assert failures == []
    assert sys.getrecursionlimit() == before


@pytest.mark.parametrize("depth", [51, 8_000])
def test_a_stream_is_not_declared_with_a_type_nested_too_deep(shared, depth):
    deep = "ARRAY<" * depth + "INT" + ">" * depth
    for declare in (
        lambda: shared.stream("deep", f"a {deep}"),
        lambda: shared.sql(f"CREATE TABLE deep (a {deep})"),
        lambda: shared.query("SELECT a FROM s", message="{a}" + "{" * depth),
    ):
        with pytest.raises(EddylineError):
            declare()


NASTY = [
    "calls, 201",
    "types",
    "a number",
    "years",
    "comments",
    "groups of patterns",
    "BETWEEN",
    "an interval compared",
]


def test_statements_and_rule_files_refuse_them_by_message(tmp_path):
    with eddyline.open(tmp_path / "home", clock=lambda: NOW_US) as engine:
        engine.stream("s", SCHEMA)
        for k, name in enumerate(NASTY):
            statement = f"CREATE VIEW v{k} AS SELECT a FROM s WHERE {REFUSED[name]};"
            with pytest.raises(SqlError):
                engine.sql(statement)
            folder = tmp_path / f"rules{k}"
            folder.mkdir()
            (folder / "rules.sql").write_text(statement)
            (folder / "more.toml").write_text(
                f'[queries.w{k}]\ntext = """SELECT a FROM s WHERE {REFUSED[name]}"""\n'
            )
            assert len(plan(engine, [folder]).mistakes) >= 1, name
        assert engine.n_queries == 0


# --------------------------------------------------------------------------------------------- any mixture

_LEAVES = st.sampled_from(
    [
        "a",
        "b",
        "x",
        "t",
        "flag",
        "d",
        "ts",
        "arr",
        "dec",
        "NULL",
        "1",
        "'x'",
        DIGITS,
        "1e400",
        "1e999999999BD",
        "'\\'",
    ]
    + [f"INTERVAL {n} {unit}" for n in ("1", "99999999999", DIGITS) for unit in ("DAYS", "YEARS")]
    + [
        "DATE '5881580-07-11'",
        "DATE '-5877641-06-23'",
        "TIMESTAMP '294247-01-10 04:00:54'",
        "X'0'",
        "`a",
        "/*",
        "٣",
        ":p",
    ]
)
_AROUND = st.sampled_from(
    [
        ("(", ")"), ("NOT ", ""), ("- ", ""), ("abs(", ")"), ("coalesce(", ", a)"), ("CASE WHEN flag THEN ", " END"),
        ("CASE ", " WHEN 1 THEN 2 END"), ("array(", ")"), ("a IN (b, ", ")"), ("", " BETWEEN a AND b"), ("", " + ts"),
        ("nullif(", ", 1)"), ("CAST(", " AS ARRAY<INT>)"), ("t RLIKE ", ""), ("", "[0]"), ("", " IS NULL"), ("date_add(d, ", ")"),
        ("named_struct('f', ", ")"), ("a OR (flag AND ", ")"), ("CAST(", " AS TIMESTAMP)"), ("repeat(t, ", ")"), ("/* ", ""),
    ]
)  # fmt: skip


@st.composite
def mixtures(draw: st.DrawFn) -> str:
    """A leaf in wrappings of many kinds, each up to hundreds of times."""
    text = draw(_LEAVES)
    for _ in range(draw(st.integers(0, 4))):
        before, after = draw(_AROUND)
        n = draw(st.sampled_from([1, 1, 2, 9, 60, 199, 300]))
        text = before * n + text + after * n
    return text


@settings(max_examples=40)
@given(mixtures(), st.booleans())
def test_whatever_is_mixed_only_our_own_errors_come_out(text: str, is_condition: bool) -> None:
    with an_engine() as engine:
        try:
            query = engine.query(
                f"SELECT a FROM s WHERE {text}" if is_condition else f"SELECT {text} AS v FROM s"
            )
        except EddylineError:
            return
        engine.push("s", [ROW])
        assert not any("INTERNAL" in letter.error for letter in engine.dead_letters())
        str(query.explain()), str(engine.explain_index()), str(query.why(ROW)), str(query.why_not())


def test_the_error_of_an_expression_that_grows_says_why(shared):
    with pytest.raises(LimitError) as refused:
        shared.query(f"SELECT a FROM s WHERE {REFUSED['BETWEEN']}")
    assert refused.value.problem == "the expression has more than 100,000 operations"
    assert "BETWEEN" in (refused.value.detail or "")
