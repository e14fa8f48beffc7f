"""A standing query in the user's hands: reading, waiting, callbacks, pausing, replacing, dropping, the ring."""

from __future__ import annotations

import asyncio
import threading

import pyarrow as pa
import pytest

import eddyline
from eddyline.errors import (
    EddylineError,
    QueryStateError,
    ResultsDroppedWarning,
    SchemaError,
    UnknownNameError,
)
from eddyline.events import CallbackFailed, ResultsDropped


@pytest.fixture
def engine():
    engine = eddyline.open(clock=lambda: 1_767_225_600_000_000)
    engine.stream("s", "n INT, t STRING")
    return engine


def push(engine, *numbers: int, t: str = "x"):
    return engine.push("s", [(n, t) for n in numbers])


def numbers(results) -> list[int]:
    return [result["n"] for result in results]


# --------------------------------------------------------------------------------------------- what it is


def test_a_query_knows_its_name_text_columns_and_state(engine):
    text = "SELECT n,  t AS label\nFROM s WHERE n > 5"
    query = engine.query(text, name="big")
    assert (query.name, query.text, query.state, query.generation) == ("big", text, "running", 1)
    assert query.schema == pa.schema([("n", pa.int32()), ("label", pa.string())])
    assert repr(query) == "<query big (running): SELECT n, t AS label FROM s WHERE n > 5>"


def test_a_query_without_a_name_goes_by_its_number(engine):
    assert engine.query("SELECT n FROM s").name == "q1"
    assert engine.query("SELECT n FROM s").name == "q2"
    assert engine.get(2).name == "q2"


@pytest.mark.parametrize(
    ("condition", "warnings"),
    [
        ("n > 5", []),
        ("n > 5 AND n < 3", ["this query can never match: its conditions contradict each other"]),
        ("n = 5 AND n IN (6, 7)", ["this query can never match: its conditions contradict each other"]),
        ("t = 'a' AND t = 'b'", ["this query can never match: its conditions contradict each other"]),
        ("n = NULL", ["this query can never match"]),
        ("1 = 2", ["this query can never match: a condition on constants alone is not true"]),
    ],
)
def test_a_query_that_can_never_match_says_so(engine, condition, warnings):
    query = engine.query(f"SELECT n FROM s WHERE {condition}")
    assert [
        said[: len(expected)] for said, expected in zip(query.warnings, warnings, strict=True)
    ] == warnings
    for said in query.warnings:
        assert f"warning    {said}" in str(query.explain())


def test_a_query_without_conditions_says_that_it_matches_every_row(engine):
    assert engine.query("SELECT n FROM s").warnings == ["this query matches every row"]


# --------------------------------------------------------------------------------------------- results


def test_results_are_read_once_oldest_first_and_say_where_they_came_from(engine):
    query = engine.query("SELECT n FROM s WHERE n > 1", name="q")
    push(engine, 1, 2, 3)
    push(engine, 4)
    first, second, third = query.results()
    assert (first, second, third) == ({"n": 2}, {"n": 3}, {"n": 4})
    assert (third.query, third.query_id, third.generation) == ("q", query.id, 1)
    assert (third.round_number, third.arrival, third.change, third.is_late) == (2, 4, "insert", False)
    assert query.results() == []
    push(engine, 5)
    assert numbers(query.results()) == [5]


def test_every_handle_reads_for_itself(engine):
    engine.query("SELECT n FROM s", name="q")
    one, other = engine.get("q"), engine.get("q")
    push(engine, 1)
    assert numbers(one.results()) == numbers(other.results()) == [1]


def test_the_latest_may_be_read_again_and_again(engine):
    query = engine.query("SELECT n FROM s")
    push(engine, *range(20))
    assert numbers(query.latest()) == list(range(10, 20))
    assert numbers(query.latest(3)) == [17, 18, 19]
    assert numbers(query.latest(0)) == []
    assert numbers(query.results()) == list(range(20))


def test_results_keep_the_order_of_arrival_across_rounds_and_streams_of_pairs(engine):
    query = engine.query("SELECT n FROM s WHERE n > 0 OR t = 'y'")
    engine.push("s", pa.table({"n": pa.array([3, 1, 2], pa.int32()), "t": ["x"] * 3, "_arrival": [9, 5, 7]}))
    assert [(r["n"], r.arrival) for r in query.results()] == [(1, 5), (2, 7), (3, 9)]


def test_waiting_for_a_result_ends_when_one_comes(engine):
    query = engine.query("SELECT n FROM s WHERE n > 1")
    waiting = threading.Event()
    heard: list = []

    def read():
        waiting.set()
        heard.extend(query.results(timeout=30))

    reader = threading.Thread(target=read)
    reader.start()
    waiting.wait(30)
    push(engine, 1)  # a round without a result does not end the wait
    push(engine, 2)
    reader.join(30)
    assert numbers(heard) == [2]


def test_waiting_ends_without_results_when_the_time_is_over(engine):
    query = engine.query("SELECT n FROM s")
    assert query.results(timeout=0.01) == []
    assert query.results(timeout=0) == []


@pytest.mark.parametrize("end", ["close", "drop"])
def test_waiting_ends_when_there_is_nothing_to_wait_for_any_more(engine, end):
    query = engine.query("SELECT n FROM s", name="q")
    errors: list[str] = []
    waiting = threading.Event()

    def read():
        waiting.set()
        try:
            query.results(timeout=30)
        except EddylineError as error:
            errors.append(error.problem)

    reader = threading.Thread(target=read)
    reader.start()
    waiting.wait(30)
    engine.close() if end == "close" else engine.drop("q")
    reader.join(30)
    assert errors == ["this engine was closed" if end == "close" else f"query {query.id} was dropped"]


# --------------------------------------------------------------------------------------------- callbacks


def test_a_callback_hears_every_new_result_until_it_is_ended(engine):
    query = engine.query("SELECT n FROM s WHERE n > 1")
    push(engine, 2)
    heard: list = []
    stop = query.on_result(heard.append)
    push(engine, 1, 3, 4)
    push(engine, 0)
    push(engine, 5)
    assert numbers(heard) == [3, 4, 5]
    stop()
    stop()
    push(engine, 6)
    assert numbers(heard) == [3, 4, 5]
    assert numbers(query.results()) == [2, 3, 4, 5, 6]


def test_a_callback_hears_every_result_however_small_the_ring():
    engine = eddyline.open(results_per_query=3, result_bytes=1_000)
    engine.stream("s", "n INT, t STRING")
    query = engine.query("SELECT n FROM s WHERE n >= 0")
    heard: list = []
    query.on_result(heard.append)
    push(engine, *range(250))
    push(engine, *range(250, 500))
    assert numbers(heard) == list(range(500))
    assert [r.arrival for r in heard] == list(range(1, 501))


def test_a_callback_that_raises_is_told_and_stops_nobody(engine):
    query, other = engine.query("SELECT n FROM s", name="q"), engine.query("SELECT n FROM s", name="other")
    heard: list = []
    query.on_result(lambda result: 1 / 0)
    query.on_result(heard.append)
    other.on_result(heard.append)
    matches = push(engine, 1, 2)
    assert matches.count == 4
    assert sorted(numbers(heard)) == [1, 1, 2, 2]
    failed = [event for event in engine.events() if isinstance(event, CallbackFailed)]
    assert {(event.query, event.message) for event in failed} == {
        ("q", "ZeroDivisionError: division by zero")
    }
    assert numbers(query.results()) == [1, 2]


def test_a_callback_that_raises_on_one_result_still_hears_the_next(engine):
    query = engine.query("SELECT n FROM s")
    heard: list[int] = []

    def picky(result):
        if result["n"] == 1:
            raise ValueError("one")
        heard.append(result["n"])

    query.on_result(picky)
    push(engine, 1, 2)
    push(engine, 3)
    assert heard == [2, 3]


def test_a_callback_may_use_the_engine(engine):
    query = engine.query("SELECT n FROM s WHERE n > 1", name="q")

    def once(result):
        if engine.n_queries == 1:
            engine.query("SELECT n FROM s WHERE n > 2", name="born later")
        if result["n"] == 9:
            engine.drop("q")

    query.on_result(once)
    push(engine, 2, 3)
    push(engine, 9)
    assert query.state == "dropped"
    assert numbers(engine.get("born later").results()) == [9]


def test_a_callback_may_drop_its_query_and_raise(engine):
    query = engine.query("SELECT n FROM s", name="q")
    heard: list = []

    def last_words(result):
        engine.drop("q")
        raise RuntimeError("gone")

    query.on_result(last_words)
    query.on_result(heard.append)
    assert push(engine, 1, 2).count == 2
    assert heard == []
    failed = [event for event in engine.events() if isinstance(event, CallbackFailed)]
    assert (failed[0].query, failed[0].message) == ("q", "RuntimeError: gone")


def test_a_dropped_query_calls_nobody(engine):
    query = engine.query("SELECT n FROM s")
    heard: list = []
    stop = query.on_result(heard.append)
    query.drop()
    push(engine, 1)
    stop()
    assert heard == []


# --------------------------------------------------------------------------------------------- pausing and replacing


def test_a_paused_query_sees_nothing_and_resuming_is_a_new_generation(engine):
    query = engine.query("SELECT n FROM s")
    push(engine, 1)
    query.pause()
    assert query.state == "paused"
    push(engine, 2)
    query.resume()
    assert (query.state, query.generation) == ("running", 2)
    push(engine, 3)
    assert [(r["n"], r.generation) for r in query.results()] == [(1, 1), (3, 2)]


def test_pausing_twice_and_resuming_twice_changes_nothing(engine):
    query = engine.query("SELECT n FROM s")
    query.resume()
    assert query.generation == 1
    query.pause()
    version = engine.version
    query.pause()
    assert engine.version == version


def test_replacing_is_one_version_and_a_new_generation(engine):
    query = engine.query("SELECT n FROM s WHERE n < 10", name="q")
    push(engine, 1, 50)
    version = engine.version
    assert query.replace("SELECT t, n FROM s WHERE n > 10") is query
    assert engine.version == version + 1
    push(engine, 2, 60)
    told = [(dict(r), r.generation) for r in query.results()]
    assert told == [({"n": 1}, 1), ({"t": "x", "n": 60}, 2)]
    assert query.schema.names == ["t", "n"]


def test_a_replacement_that_is_refused_leaves_the_query_as_it_was(engine):
    query = engine.query("SELECT n FROM s WHERE n < 10", name="q")
    version = engine.version
    with pytest.raises(UnknownNameError):
        query.replace("SELECT nope FROM s")
    assert (engine.version, query.text, query.generation) == (version, "SELECT n FROM s WHERE n < 10", 1)


def test_replacing_by_the_same_text_changes_nothing(engine):
    query = engine.query("SELECT n FROM s WHERE n < 10", name="q")
    version = engine.version
    query.replace("SELECT n FROM s WHERE n < 10")
    assert (engine.version, query.generation) == (version, 1)


def test_a_query_may_be_replaced_by_one_on_another_stream(engine):
    engine.stream("other", "m DOUBLE")
    query = engine.query("SELECT n FROM s", name="q")
    query.replace("SELECT m FROM other")
    push(engine, 1)
    engine.push("other", [(0.5,)])
    assert query.results() == [{"m": 0.5}]


# --------------------------------------------------------------------------------------------- dropping


def test_a_dropped_query_used_again_is_refused(engine):
    query = engine.query("SELECT n FROM s", name="q")
    query.drop()
    assert query.state == "dropped"
    assert repr(query) == f"<query {query.id} (dropped)>"
    for use in (
        query.results,
        query.latest,
        query.pause,
        query.resume,
        query.drop,
        query.explain,
        query.why_not,
        lambda: query.name,
        lambda: query.text,
        lambda: query.on_result(print),
        lambda: query.why({"n": 1}),
        lambda: query.replace("SELECT n FROM s"),
        lambda: engine.get(query.id),
        lambda: engine.drop(query),
    ):
        with pytest.raises(QueryStateError) as error:
            use()
        assert str(error.value) == (
            f"query {query.id} was dropped\nhint: Register it again: a dropped query sees nothing of later rounds."
        )
    with pytest.raises(UnknownNameError) as missing:
        engine.get("q")
    assert str(missing.value) == "there is no query q\nhint: There is no named query yet."


def test_a_query_that_never_was_is_refused(engine):
    with pytest.raises(QueryStateError) as error:
        engine.get(99)
    assert error.value.problem == "there is no query 99"
    engine.query("SELECT n FROM s", name="cheap")
    with pytest.raises(UnknownNameError) as unknown:
        engine.drop("chaep")
    assert str(unknown.value) == "there is no query chaep\nhint: Did you mean cheap?"


def test_a_name_is_free_again_after_a_drop(engine):
    old = engine.query("SELECT n FROM s", name="q")
    push(engine, 1)
    old.drop()
    new = engine.query("SELECT n FROM s", name="q")
    push(engine, 2)
    assert new.id != old.id
    assert numbers(new.latest()) == [2]


def test_dropping_a_set_passes_over_those_already_dropped(engine):
    many = engine.query_many([f"SELECT n FROM s WHERE n > {k}" for k in range(5)])
    many[2].drop()
    version = engine.version
    assert many.drop() == 4
    assert engine.version == version + 1
    assert many.drop() == 0
    assert engine.n_queries == 0


# --------------------------------------------------------------------------------------------- the ring


def overflowing() -> tuple[eddyline.Engine, eddyline.Query]:
    """A query with 5,000 results in fifty rounds, of which memory keeps some."""
    engine = eddyline.open(results_per_query=5, result_bytes=50_000)
    engine.stream("s", "n INT, t STRING")
    query = engine.query("SELECT n FROM s", name="q")
    for start in range(0, 5000, 100):
        push(engine, *range(start, start + 100))
    return engine, query


def test_every_result_can_be_read_while_there_is_room():
    engine = eddyline.open()
    engine.stream("s", "n INT, t STRING")
    query = engine.query("SELECT n FROM s")
    push(engine, *range(10_000))
    assert numbers(query.latest(20_000)) == list(range(10_000))
    found = query.results()
    assert (numbers(found), found.n_dropped) == (list(range(10_000)), 0)
    assert (query.n_results, query.n_dropped) == (10_000, 0)
    assert "results    10000 so far, all can be read" in str(query.explain())


def test_results_dropped_for_want_of_room_are_counted_and_warned_of_once():
    engine, query = overflowing()
    with pytest.warns(ResultsDroppedWarning, match="results of query q were dropped") as heard:
        found = query.results()
    assert len(heard) == 1
    assert heard[0].filename == __file__  # the line of the reader
    assert numbers(found) == list(range(5000))[-len(found) :]
    assert 5 <= len(found) < 5000
    assert len(found) + found.n_dropped == query.n_results == 5000
    assert query.n_dropped == found.n_dropped
    assert f"5000 so far, {len(found)} can be read, {found.n_dropped} dropped" in str(query.explain())
    again = query.results()
    assert (again, again.n_dropped) == ([], 0)
    for start in range(0, 5000, 100):
        push(engine, *range(start, start + 100))
    more = query.results()  # a second time it is counted only
    assert len(more) + more.n_dropped == 5000


def test_a_cursor_says_that_results_after_it_are_gone_and_not_how_many():
    _, query = overflowing()
    first = query.results(after="0-0")
    assert first.n_dropped is None
    last = query.results(after=first[0].cursor)
    assert (len(last), last.n_dropped) == (len(first) - 1, 0)


def test_a_loop_over_a_query_takes_what_is_unread_and_leaves_what_it_did_not_take(engine):
    query = engine.query("SELECT n FROM s")
    push(engine, 1, 2, 3)
    for result in query:
        assert result == {"n": 1}
        break
    push(engine, 4)
    assert numbers(query) == [2, 3, 4]
    assert numbers(query) == []
    push(engine, 5, 6)
    assert next(iter(query)) == {"n": 5}
    assert numbers(query.results()) == [6]


def test_an_async_loop_hears_results_as_they_come_and_ends_with_the_query(engine):
    query = engine.query("SELECT n FROM s")
    push(engine, 1, 2)

    async def listen() -> list[int]:
        heard = []
        async for result in query:
            heard.append(result["n"])
            if result["n"] == 2:
                await asyncio.to_thread(push, engine, 3)
            if result["n"] == 3:
                await asyncio.to_thread(query.drop)
        return heard

    assert asyncio.run(asyncio.wait_for(listen(), 60)) == [1, 2, 3]
    assert not engine.rounds.callbacks


def test_an_async_loop_that_is_left_leaves_the_rest_unread(engine):
    query = engine.query("SELECT n FROM s")
    push(engine, 1, 2, 3)

    async def first() -> int:
        results = aiter(query)
        found = await anext(results)
        await results.aclose()
        return found["n"]

    assert asyncio.run(first()) == 1
    assert not engine.rounds.callbacks
    assert numbers(query.results()) == [2, 3]


def test_results_are_given_as_tables_of_three_libraries(engine):
    query = engine.query("SELECT n, t FROM s WHERE n > 1")
    push(engine, 1, 2, t="a")
    push(engine, 3, t="b")
    table = query.to_arrow()
    assert table.schema == query.schema
    assert table.to_pydict() == {"n": [2, 3], "t": ["a", "b"]}
    assert query.to_arrow(newest=1).to_pydict() == {"n": [3], "t": ["b"]}
    assert query.to_arrow(after=query.latest(2)[0].cursor).to_pydict() == {"n": [3], "t": ["b"]}
    marked = query.to_arrow(marks=True).to_pylist()
    assert marked[0] == {
        "_generation": 1,
        "_round": 1,
        "_arrival": 2,
        "_change": "insert",
        "_late": False,
        "n": 2,
        "t": "a",
    }
    assert query.to_pandas()["n"].tolist() == [2, 3]
    assert query.to_polars()["t"].to_list() == ["a", "b"]
    assert numbers(query.results()) == [2, 3]  # nothing of it counts as read


def test_a_table_of_results_holds_those_of_earlier_texts_too(engine):
    query = engine.query("SELECT n FROM s")
    assert query.to_arrow().num_rows == 0
    push(engine, 1)
    query.replace("SELECT n, t FROM s")
    push(engine, 2, t="b")
    assert query.to_arrow().to_pydict() == {"n": [1, 2], "t": [None, "b"]}
    query.replace("SELECT t AS n FROM s")
    push(engine, 3, t="c")
    with pytest.raises(SchemaError, match="columns of other types"):
        query.to_arrow()
    assert query.to_arrow(after=query.latest(2)[0].cursor)["n"].to_pylist() == ["c"]


def test_results_of_a_rare_query_survive_a_flood():
    engine = eddyline.open(result_bytes=200_000)
    engine.stream("s", "n INT, t STRING")
    rare = engine.query("SELECT n, t FROM s WHERE n = 7")
    flood = engine.query("SELECT n, t FROM s")
    push(engine, 7, t="precious")
    for round_ in range(60):
        push(engine, *range(1000, 1500), t=f"round {round_} " + "x" * 50)
        assert engine.rounds.results.nbytes <= 200_000
    assert rare.latest() == [{"n": 7, "t": "precious"}]
    assert (rare.n_results, rare.n_dropped) == (1, 0)
    assert flood.n_results == 60 * 500 + 1
    assert len(flood.latest(100)) == 100
    assert flood.n_dropped == flood.n_results - len(flood.latest(100_000)) > 20_000
    dropped = sum(event.n_results for event in engine.events() if isinstance(event, ResultsDropped))
    assert dropped > 20_000


# --------------------------------------------------------------------------------------------- notebooks


def test_a_notebook_shows_the_text_and_the_latest_results(engine):
    query = engine.query("SELECT n, t FROM s WHERE n < 5", name="<small>")
    push(engine, *range(8), t="<b>")
    html = query._repr_html_()
    assert "<b>&lt;small&gt; (running), 5 results, 0 dropped</b>" in html
    assert "<pre>SELECT n, t FROM s WHERE n &lt; 5</pre>" in html
    assert html.count("<tr><td>") == 5
    assert "<td>4</td><td>&lt;b&gt;</td>" in html


def test_a_notebook_shows_reasons_matches_results_and_dead_letters_as_tables(engine):
    query = engine.query("SELECT n, t FROM s WHERE n < 5 AND 10 / n > 1", name="q", per="n", resolve="1 hour")
    matches = push(engine, 0, 1, 9, t="<i>")
    assert "<tr><td>q</td><td>1</td></tr>" in matches._repr_html_()
    assert "<td>1</td><td>&lt;i&gt;</td>" in query.results()._repr_html_()
    assert "<td>false</td><td>n &lt; 5</td><td>n = 9</td>" in query.why({"n": 9})._repr_html_()
    assert "<td>n &lt; 5</td><td>1</td>" in query.why_not()._repr_html_()
    assert "<td>s</td><td>q</td>" in engine.dead_letters()._repr_html_()
    assert "<b>1 open alerts</b>" in engine.alerts()._repr_html_()
    push(engine, *[1] * 60)
    assert "<p>and 10 more</p>" in query.results()._repr_html_()


def test_what_cannot_be_called_is_refused_as_a_callback(engine):
    query = engine.query("SELECT n FROM s")
    with pytest.raises(EddylineError) as error:
        query.on_result(5)
    assert (
        str(error.value) == "5 cannot be called\nhint: Give a function of one result: query.on_result(print)."
    )


def test_conditions_are_told_in_the_words_of_their_own_query():
    engine = eddyline.open()
    engine.stream("trades", "sym STRING, price DOUBLE")
    engine.query("SELECT sym FROM trades WHERE sym = 'A' AND price < 1")
    other = engine.query(
        "SELECT  sym FROM trades WHERE sym = 'A LONGER NAME' AND price < 12345"
    )  # the same shape
    assert [c.condition for c in other.why({"sym": "B"}).clauses] == [
        "sym = 'A LONGER NAME'",
        "price < 12345",
    ]
    assert engine.rounds.shapes.parsed == 1


def test_times_beyond_pythons_calendar_are_read_as_their_numbers(tmp_path):
    with eddyline.open(tmp_path / "home") as engine:
        engine.stream("s", "n BIGINT, t TIMESTAMP")
        query = engine.query("SELECT n, t, timestamp_micros(n) AS m FROM s", name="q")
        engine.push("s", [{"n": 300_000_000_000_000_000, "t": "0001-01-01T00:00:00+23:00"}, {"n": 0}])
        far, near = query.results()
        assert (far["m"], far["t"]) == ("300000000000000000", "-62135679600000000")
        assert near["m"].year == 1970
        assert [r["m"] for r in query.latest(2)] == [far["m"], near["m"]]
        assert query.why_not().n_rows == 2
