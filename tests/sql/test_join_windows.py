"""What joins keep: roles and windows of inputs, and refusals of what would be kept for ever."""

from __future__ import annotations

import pytest

from eddyline.errors import SqlError, UnsupportedError
from eddyline.model import Join, Role, Window
from tests.sql.join_streams import STREAMS, shape_of, shown, stream

MINUTE = 60_000_000
ONE_WAY = "t.ts >= n.ts"
BOTH_WAYS = "t.ts BETWEEN n.ts AND n.ts + INTERVAL 10 MINUTES"


def join_of(text: str) -> Join:
    found = shape_of(text).join
    assert found is not None
    return found


def roles(text: str) -> dict[str, str]:
    return {entry.stream: entry.role.value for entry in join_of(text).signature.inputs}


def refusal(text: str) -> SqlError:
    with pytest.raises(UnsupportedError) as refused:
        shape_of(text)
    return refused.value


def pointed(error: SqlError) -> str:
    assert error.span is not None
    assert error.text is not None
    return error.text[error.span.start : error.span.end]


# ------------------------------------------------------------------------------------------------ roles


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            f"SELECT t.sym FROM trades t JOIN news n ON t.sym = n.sym AND {BOTH_WAYS}",
            {"news": "window", "trades": "window"},
        ),
        (
            "SELECT t.sym FROM trades t JOIN recent(news, 5) n ON t.sym = n.sym",
            {"news": "window", "trades": "current"},
        ),
        # a trade may come before its news, up to the watermark of these
        (
            f"SELECT t.sym FROM trades t JOIN recent(news, 5) n ON t.sym = n.sym AND {ONE_WAY}",
            {"news": "window", "trades": "window"},
        ),
        (
            "SELECT t.sym FROM trades t JOIN ticks k ON t.sym = k.sym",
            {"ticks": "window", "trades": "current"},
        ),
        (
            "SELECT t.sym FROM trades t JOIN pings p ON t.sym = p.sym",
            {"pings": "window", "trades": "current"},
        ),
        (
            "SELECT f.sym FROM fills f JOIN ticks k ON f.sym = k.sym",
            {"fills": "window", "ticks": "window"},
        ),
        (
            "SELECT t.sym FROM trades t JOIN quotes q ON t.sym = q.sym",
            {"quotes": "table", "trades": "current"},
        ),
        (  # whatever its window is: nothing but its own rows makes results
            "SELECT f.sym FROM fills f JOIN quotes q ON f.sym = q.sym",
            {"fills": "current", "quotes": "table"},
        ),
        (
            "SELECT w.sym FROM watches w JOIN quotes q ON w.sym = q.sym",
            {"quotes": "table", "watches": "table"},
        ),
        (
            "SELECT t.sym FROM trades t JOIN quotes q ON t.sym = q.sym JOIN watches w ON t.price > w.price",
            {"quotes": "table", "trades": "current", "watches": "table"},
        ),
        (
            "SELECT t.sym FROM trades t ASOF JOIN quotes q ON t.sym = q.sym AND t.ts >= q.ts JOIN watches w ON w.id = t.id",
            {"quotes": "as of", "trades": "current", "watches": "table"},
        ),
        (
            "SELECT t.sym FROM trades t LEFT JOIN quotes q ON t.sym = q.sym",
            {"quotes": "table", "trades": "current"},
        ),
    ],
)
def test_what_becomes_of_the_rows_of_each_input(text: str, expected: dict[str, str]) -> None:
    assert roles(text) == expected


# ------------------------------------------------------------------------------------------------ windows


@pytest.mark.parametrize(
    ("source", "clause", "window"),
    [
        ("recent(news, 5)", "`0.#behind` < 5", Window(n_rows=5)),
        ("recent(news, INTERVAL 10 MINUTES)", "`0.#age` < 600000000", Window(duration_us=10 * MINUTE)),
        ("ticks", "`0.#behind` < 5", Window(n_rows=5)),
        ("recent(ticks, 9)", "`0.#behind` < 9", Window(n_rows=9)),
        ("pings", "`0.#age` < 600000000", Window(duration_us=10 * MINUTE)),
    ],
)
def test_a_window_of_rows_or_of_arrival_is_a_condition_on_a_mark(
    source: str, clause: str, window: Window
) -> None:
    shape = shape_of(f"SELECT t.sym FROM trades t JOIN {source} AS n ON t.sym = n.sym")
    assert shape.join is not None
    assert shown(shape.condition.clauses) == [clause]
    assert [entry.window for entry in shape.inputs] == [window, None]
    assert shape.join.reach_us == ((0, None), (None, 0))
    (atom,) = shape.condition.clauses[0].atoms
    assert atom.kind.value == "compare"


def test_the_window_of_a_stream_with_a_time_is_one_of_event_time() -> None:
    shape = shape_of("SELECT a.sym FROM fills a JOIN fills b ON a.sym = b.sym")
    assert shape.join is not None
    assert shown(shape.condition.clauses) == ["`0.#older` < 600000000", "`1.#older` < 600000000"]
    assert shape.join.reach_us == ((0, 10 * MINUTE - 1), (10 * MINUTE - 1, 0))
    assert [entry.window for entry in shape.inputs] == [None, None]


def test_beside_a_stream_without_a_time_a_window_of_minutes_is_one_of_arrival() -> None:
    shape = shape_of("SELECT f.sym FROM fills f JOIN untimed u ON f.sym = u.sym")
    assert shape.join is not None
    assert shown(shape.condition.clauses) == ["`0.#age` < 600000000"]
    assert shape.inputs[0].window == Window(duration_us=10 * MINUTE)
    assert shape.join.reach_us == ((0, None), (None, 0))
    assert [entry.role for entry in shape.join.signature.inputs] == [Role.WINDOW, Role.CURRENT]


def test_event_time_conditions_come_before_the_window_a_stream_was_declared_with() -> None:
    shape = shape_of(
        "SELECT f.sym FROM fills f JOIN trades t ON f.sym = t.sym"
        " AND t.ts BETWEEN f.ts - INTERVAL 1 HOUR AND f.ts + INTERVAL 1 HOUR"
    )
    assert shape.join is not None
    assert shape.join.reach_us == ((0, 60 * MINUTE), (60 * MINUTE, 0))
    assert not any("#" in text for text in shown(shape.condition.clauses))


def test_recent_comes_before_everything_and_does_not_undo_event_time_conditions() -> None:
    shape = shape_of(f"SELECT t.sym FROM trades t JOIN recent(news, 5) n ON t.sym = n.sym AND {BOTH_WAYS}")
    assert shape.join is not None
    assert shown(shape.condition.clauses)[-1] == "`0.#behind` < 5"
    assert shape.join.reach_us == ((0, 10 * MINUTE), (0, 0))


def test_a_window_in_event_time_adds_to_what_conditions_say() -> None:
    # a fill is at most ten minutes older than the latest row, and no trade is before its fill
    join = join_of("SELECT f.sym FROM fills f JOIN trades t ON f.sym = t.sym AND t.ts >= f.ts")
    assert join.reach_us == ((0, 10 * MINUTE - 1), (0, 0))
    assert [entry.role for entry in join.signature.inputs] == [Role.WINDOW, Role.WINDOW]


# ------------------------------------------------------------------------------------------------ for ever


@pytest.mark.parametrize(
    ("text", "part", "kept", "hint"),
    [
        (
            "SELECT t.sym FROM trades t JOIN news n ON t.sym = n.sym",
            "news n ON t.sym = n.sym",
            "news and trades",
            "Bound it: add AND t.ts BETWEEN n.ts AND n.ts + INTERVAL 10 MINUTES, or write recent(news, 100), or declare a key "
            "for news, so that only the latest row of each is kept.",
        ),
        (
            f"SELECT t.sym FROM trades t JOIN news n ON t.sym = n.sym AND {ONE_WAY}",
            f"news n ON t.sym = n.sym AND {ONE_WAY}",
            "news",
            "Bound it: add AND t.ts BETWEEN n.ts AND n.ts + INTERVAL 10 MINUTES, or write recent(news, 100), or declare a key "
            "for news, so that only the latest row of each is kept.",
        ),
        (
            "SELECT t.sym FROM trades t JOIN recent(news, 5) n ON t.sym = n.sym AND t.ts <= n.ts",
            "trades t",
            "trades",
            "Bound it: add AND n.ts BETWEEN t.ts AND t.ts + INTERVAL 10 MINUTES, or write recent(trades, 100), or declare a key "
            "for trades, so that only the latest row of each is kept.",
        ),
        (
            "SELECT u.sym FROM untimed u JOIN trades t ON t.sym = u.sym",
            "trades t ON t.sym = u.sym",
            "trades and untimed",
            "Bound it: write recent(trades, 100), or declare a key for trades, so that only the latest row of each is kept.",
        ),
        (  # the window of fills says nothing of how much later a fill may be than a trade
            "SELECT t.sym FROM trades t JOIN fills f ON t.sym = f.sym",
            "trades t",
            "trades",
            "Bound it: add AND f.ts BETWEEN t.ts AND t.ts + INTERVAL 10 MINUTES, or write recent(trades, 100), or declare a key "
            "for trades, so that only the latest row of each is kept.",
        ),
        (
            "SELECT t.sym FROM trades t JOIN recent(news, 5) n ON t.sym = n.sym JOIN asks a ON a.sym = t.sym",
            "asks a ON a.sym = t.sym",
            "asks and trades",
            "Bound it: add AND n.ts BETWEEN a.ts AND a.ts + INTERVAL 10 MINUTES, or write recent(asks, 100), or declare a key "
            "for asks, so that only the latest row of each is kept.",
        ),
        (
            "SELECT a.sym FROM trades a JOIN trades b ON a.sym = b.sym",
            "trades a",
            "trades",
            "Bound it: add AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 10 MINUTES, or write recent(trades, 100), or declare a key "
            "for trades, so that only the latest row of each is kept.",
        ),
    ],
)
def test_a_join_that_would_need_unbounded_memory_is_refused_with_the_way_out(
    text: str, part: str, kept: str, hint: str
) -> None:
    error = refusal(text)
    assert error.problem == "the query would need unbounded memory"
    assert (
        error.detail
        == f"Each row of {kept} may match a row still to come, so it would have to be kept for ever."
    )
    assert error.hint == hint
    assert pointed(error) == part


def test_the_whole_message_reads_well() -> None:
    assert str(refusal("SELECT t.sym FROM trades t JOIN news n ON t.sym = n.sym")) == (
        "the query would need unbounded memory\n"
        "  SELECT t.sym FROM trades t JOIN news n ON t.sym = n.sym\n"
        "                                  ^^^^^^^^^^^^^^^^^^^^^^^\n"
        "detail: Each row of news and trades may match a row still to come, so it would have to be kept for ever.\n"
        "hint: Bound it: add AND t.ts BETWEEN n.ts AND n.ts + INTERVAL 10 MINUTES, or write recent(news, 100), or declare a key "
        "for news, so that only the latest row of each is kept."
    )


def test_the_way_out_is_one() -> None:
    for way in (
        "trades t JOIN news n ON t.sym = n.sym AND t.ts BETWEEN n.ts AND n.ts + INTERVAL 10 MINUTES",
        "trades t JOIN recent(news, 100) n ON t.sym = n.sym",
    ):
        assert join_of(f"SELECT t.sym FROM {way}")
    keyed = STREAMS | {"news": stream("news", key=("sym",))}
    assert shape_of("SELECT t.sym FROM trades t JOIN news n ON t.sym = n.sym", streams=keyed).join


# ------------------------------------------------------------------------------------------------ tables


def test_recent_rows_of_a_table_are_refused() -> None:
    error = refusal("SELECT t.sym FROM trades t JOIN recent(quotes, 10) q ON t.sym = q.sym")
    assert error.problem == "recent does not take quotes, which has a key"
    assert error.hint == "Write quotes alone."
    assert pointed(error) == "recent(quotes, 10) q ON t.sym = q.sym"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "SELECT t.sym FROM trades t ASOF JOIN news n ON t.sym = n.sym",
            "ASOF JOIN finds the row of a key that was the latest at a time; news has no key",
        ),
        (
            "SELECT t.sym FROM trades t ASOF JOIN watches w ON t.id = w.id",
            "ASOF JOIN finds the row of a key that was the latest at a time; watches has no time",
        ),
        (
            "SELECT t.sym FROM trades t ASOF JOIN untimed u ON t.id = u.id",
            "ASOF JOIN finds the row of a key that was the latest at a time; untimed has no key and no time",
        ),
        (
            "SELECT u.sym FROM untimed u ASOF JOIN quotes q ON u.sym = q.sym",
            "ASOF JOIN needs one stream without a key, and with a time at which quotes is looked up",
        ),
        (
            "SELECT w.sym FROM watches w ASOF JOIN quotes q ON w.sym = q.sym",
            "ASOF JOIN needs one stream without a key, and with a time at which quotes is looked up",
        ),
        (
            "SELECT t.sym FROM trades t JOIN recent(news, 3) n ON t.id = n.id ASOF JOIN quotes q ON t.sym = q.sym",
            "ASOF JOIN needs one stream without a key, and with a time at which quotes is looked up",
        ),
        (
            "SELECT t.sym FROM trades t ASOF JOIN quotes q ON t.id = q.id",
            "ASOF JOIN needs an equality for each column of the key of quotes; there is none for sym",
        ),
        (
            "SELECT t.sym FROM trades t ASOF JOIN quotes q ON t.sym = q.sym AND t.ts > q.ts",
            "ASOF JOIN takes the latest row of quotes at or before the time of trades t",
        ),
        (
            "SELECT t.sym FROM trades t ASOF JOIN quotes q ON t.sym = q.sym AND t.ts <= q.ts",
            "ASOF JOIN takes the latest row of quotes at or before the time of trades t",
        ),
    ],
)
def test_an_asof_join_needs_a_key_a_time_and_one_stream(text: str, problem: str) -> None:
    error = refusal(text)
    assert error.problem == problem
    assert error.hint
    start = text.index("ASOF JOIN ") + len("ASOF JOIN ")
    assert pointed(error) == text[start:]


def test_an_asof_join_may_say_how_old_the_latest_row_may_be() -> None:
    shape = shape_of(
        "SELECT t.sym FROM trades t ASOF JOIN quotes q ON t.sym = q.sym AND q.ts <= t.ts AND t.ts < q.ts + INTERVAL 5 MINUTES"
    )
    assert shape.join is not None
    assert shape.join.signature.inputs[0].role is Role.AS_OF
    assert shown(shape.condition.clauses) == [
        "`0.ts` - `1.ts` <= INTERVAL '0' SECONDS",
        "`0.ts` - `1.ts` > INTERVAL '-300' SECONDS",
    ]


# ------------------------------------------------------------------------------------------------ outer joins


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (
            "SELECT t.sym FROM trades t LEFT JOIN recent(news, 5) n ON t.sym = n.sym AND t.ts >= n.ts",
            None,  # no news is later than its trade
        ),
        (
            "SELECT t.sym FROM recent(trades, 3) t LEFT JOIN recent(news, 5) n ON t.sym = n.sym",
            "Say how much later: add AND n.ts <= t.ts + INTERVAL 10 MINUTES to ON.",
        ),
        (
            "SELECT k.sym FROM ticks k LEFT ANTI JOIN recent(untimed, 5) u ON k.sym = u.sym",
            "Declare a time for both, and bound it in ON.",
        ),
        (
            "SELECT f.sym FROM fills f LEFT JOIN recent(untimed, 5) u ON f.sym = u.sym",
            "Declare a time for both, and bound it in ON.",
        ),
        ("SELECT f.sym FROM fills f LEFT JOIN ticks k ON f.sym = k.sym", None),  # ten minutes later at most
        ("SELECT t.sym FROM trades t LEFT ANTI JOIN ticks k ON t.sym = k.sym", None),
        ("SELECT t.sym FROM recent(trades, 3) t LEFT JOIN quotes q ON t.sym = q.sym", None),
    ],
)
def test_it_must_become_known_that_a_row_has_no_match(text: str, hint: str | None) -> None:
    if hint is None:
        assert shape_of(text).join
        return
    error = refusal(text)
    assert "cannot tell that a row of" in error.problem
    assert error.hint == hint


def test_a_table_on_the_left_of_an_outer_join_needs_one_on_the_right() -> None:
    error = refusal("SELECT q.sym FROM quotes q LEFT JOIN trades t ON q.sym = t.sym")
    assert error.problem == "LEFT JOIN of quotes, which has a key, takes a right side that has one too"
    assert error.hint == "Put the stream first: FROM trades … LEFT JOIN quotes, or write JOIN."
    assert pointed(error) == "trades t ON q.sym = t.sym"
