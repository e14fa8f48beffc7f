"""What an engine finds when it opens a home again: exactly what it left."""

from __future__ import annotations

import pyarrow as pa
import pytest

import eddyline
from eddyline.engine import Retention
from eddyline.errors import PropertyError
from tests.durability.time_passing import lived_until

DAY_US = 86_400_000_000


@pytest.fixture
def home(tmp_path):
    return tmp_path / "home"


def trades(engine: eddyline.Engine) -> None:
    engine.stream("trades", "sym STRING, price DOUBLE, ts TIMESTAMP", time="ts", lateness="5 seconds")


def test_nothing_is_parsed_when_a_home_is_opened(home):
    with eddyline.open(home) as engine:
        trades(engine)
        engine.query("SELECT sym FROM trades WHERE price < 10", name="cheap")
        engine.query_many("SELECT sym FROM trades WHERE sym = :s", params={"s": ["A", "B"]}, name="{s}")
    with eddyline.open(home) as engine:
        engine.push("trades", [("A", 5.0, None)])
        assert (engine.rounds.shapes.parsed, engine.rounds.shapes.bound) == (0, 0)
        assert [len(engine.get(name).latest()) for name in ("cheap", "A", "B")] == [1, 1, 0]


def test_the_same_text_again_changes_nothing_after_a_restart(home):
    text = "SELECT sym FROM trades WHERE price < 1.5 AND ts > now() - INTERVAL 1 HOUR"
    with eddyline.open(home) as engine:
        trades(engine)
        engine.query(
            "SELECT sym FROM trades WHERE price < 1000.25 AND ts > now() - INTERVAL 1 HOUR", name="first"
        )
        engine.query(text, name="cheap")
        version = engine.version
    with eddyline.open(home) as engine:
        trades(engine)
        assert engine.query(text, name="cheap").generation == 1
        assert engine.version == version
        assert engine.query(text.replace("1.5", "2.5"), name="cheap").generation == 2


def test_results_are_read_on_after_a_restart_from_where_a_reader_was(home):
    with eddyline.open(home) as engine:
        trades(engine)
        query = engine.query("SELECT price FROM trades", name="all")
        engine.push("trades", [("A", 1.0, None), ("B", 2.0, None)])
        cursor = query.results()[0].cursor
    with eddyline.open(home) as engine:
        engine.push("trades", [("C", 3.0, None)])
        assert [r["price"] for r in engine.get("all").results(after=cursor)] == [2.0, 3.0]


def test_results_keep_the_generation_and_text_they_came_from(home):
    with eddyline.open(home) as engine:
        trades(engine)
        query = engine.query("SELECT price FROM trades", name="q")
        engine.push("trades", [("A", 1.0, None)])
        query.replace("SELECT sym FROM trades")
        engine.push("trades", [("A", 2.0, None)])
        query.pause()
        engine.push("trades", [("A", 3.0, None)])
        query.resume()
        engine.push("trades", [("B", 4.0, None)])
        before = [(dict(r), r.generation, r.arrival, r.round_number) for r in query.latest()]
    assert before == [({"price": 1.0}, 1, 1, 1), ({"sym": "A"}, 2, 2, 2), ({"sym": "B"}, 3, 4, 4)]
    with eddyline.open(home) as engine:
        assert [
            (dict(r), r.generation, r.arrival, r.round_number) for r in engine.get("q").latest()
        ] == before


def test_watermarks_and_counts_go_on_where_they_were(home):
    with eddyline.open(home) as engine:
        trades(engine)
        engine.push("trades", [("A", 1.0, "2024-05-01 00:00:10"), ("A", 1.0, "2024-05-01 00:00:00")])
    with eddyline.open(home) as engine:
        (stream,) = engine.streams()
        assert (stream.n_rows, stream.n_late) == (2, 0)
        engine.push("trades", [("A", 1.0, "2024-05-01 00:00:04"), ("A", 1.0, "2024-05-01 00:00:05")])
        assert (stream.n_rows, stream.n_late) == (4, 1)


def test_a_stream_that_was_dropped_and_declared_again_starts_anew_also_after_a_restart(home):
    with eddyline.open(home) as engine:
        trades(engine)
        engine.push("trades", [("A", 1.0, "2024-05-01 00:00:10")])
        engine.drop_stream("trades")
        trades(engine)
    with eddyline.open(home) as engine:
        (stream,) = engine.streams()
        assert (stream.n_rows, stream.watermark_us) == (0, None)


def test_a_token_is_known_after_a_restart_with_what_came_of_it(home):
    with eddyline.open(home) as engine:
        trades(engine)
        engine.query("SELECT sym FROM trades", name="all")
        first = engine.push("trades", [("A", 1.0, None)], token="t")
        number = first.round_number
    with eddyline.open(home) as engine:
        again = engine.push("trades", [("A", 1.0, None)], token="t")
        assert (again.is_repeat, again.round_number, again.count) == (True, number, 1)
        assert len(engine.get("all").latest()) == 1


def test_members_of_a_template_that_went_their_own_way_are_found_so_again(home):
    with eddyline.open(home) as engine:
        trades(engine)
        params = pa.table({"s": ["A", "B", "C", "D"]})
        engine.query_many("SELECT sym FROM trades WHERE sym = :s", params=params, name="w-{s}")
        engine.get("w-A").pause()
        engine.drop("w-B")
        engine.replace("w-C", "SELECT price FROM trades WHERE sym = 'C'")
    with eddyline.open(home) as engine:
        assert [(q.name, q.state, q.generation) for q in engine.queries()] == [
            ("w-A", "paused", 1),
            ("w-C", "running", 2),
            ("w-D", "running", 1),
        ]
        engine.push("trades", [(sym, 1.0, None) for sym in "ABCD"])
        assert [len(engine.get(f"w-{sym}").latest()) for sym in "ACD"] == [0, 1, 1]
        engine.get("w-A").resume()
        engine.push("trades", [("A", 1.0, None)])
        assert [r.generation for r in engine.get("w-A").latest()] == [2]


def test_all_dead_letters_are_counted_after_a_restart_also_those_no_longer_kept(home):
    with eddyline.open(home, dead_letters=2) as engine:
        engine.stream("s", "n INT")
        engine.query("SELECT n FROM s WHERE 1 / n > 0", name="q")
        engine.push("s", [(0,), (0,), (0,)])
        engine.push("s", [(0,)])
        assert (len(engine.dead_letters()), engine.dead_letters().total) == (2, 4)
    with eddyline.open(home, dead_letters=2) as engine:
        assert (len(engine.dead_letters()), engine.dead_letters().total) == (2, 4)
        engine.push("s", [(0,)])
        assert engine.dead_letters().total == 5


def test_the_time_zone_belongs_to_the_home(home):
    eddyline.open(home, time_zone="Europe/Berlin").close()
    with eddyline.open(home) as engine:
        assert engine.rounds.time_zone == "Europe/Berlin"
    with pytest.raises(PropertyError, match="has the time zone Europe/Berlin, not UTC"):
        eddyline.open(home, time_zone="UTC")
    eddyline.open(home, time_zone="Europe/Berlin").close()


def test_positions_of_sources_are_kept_with_the_round_that_read_them(home):
    with eddyline.open(home) as engine:
        engine.rounds.run_round({}, positions={"folder": {"file": "a.json", "row": 7}})
        engine.rounds.run_round({}, positions={"folder": {"file": "b.json", "row": 1}, "other": 3})
    with eddyline.open(home) as engine:
        log = engine.rounds.durable.rounds
        assert (log.position("folder"), log.position("other")) == ({"file": "b.json", "row": 1}, 3)


# --------------------------------------------------------------------------------------------- retention


def pushed(home, days, *, retention, rows=1) -> None:
    """A round on each of these days."""
    for day in days:
        if (home / "catalog.db").exists():
            lived_until(home, day * DAY_US)
        with eddyline.open(home, retention=retention, clock=lambda day=day: day * DAY_US) as engine:
            engine.stream("s", "n INT, filler STRING")
            engine.query("SELECT n, filler FROM s WHERE 10 / n > 0", name="q")
            engine.push("s", [(day, "x" * 1000)] * rows + [(0, "")])


def collected(home, day, *, retention) -> tuple[dict[str, int], list[int]]:
    lived_until(home, day * DAY_US)
    with eddyline.open(home, retention=retention, clock=lambda: day * DAY_US) as engine:
        removed = engine.rounds.durable.collect_garbage()
        left = engine.rounds.durable.file_counts()
        assert left["outbox"][0] == len(list((home / "store" / "outbox").iterdir()))
    with eddyline.open(home, retention=retention, clock=lambda: day * DAY_US) as engine:
        return removed, [r["n"] for r in engine.get("q").latest()]


def test_results_older_than_their_retention_go_and_the_others_stay(home):
    retention = Retention(results_us=3 * DAY_US, dead_letters_us=100 * DAY_US, captures_us=100 * DAY_US)
    pushed(home, [10, 11, 12], retention=retention)
    assert collected(home, 13, retention=retention) == ({}, [10, 11, 12])
    assert collected(home, 14, retention=retention) == ({"outbox": 1}, [11, 12])
    assert collected(home, 99, retention=retention) == ({"outbox": 2}, [])


def test_results_beyond_their_bytes_go_oldest_first(home):
    wide = Retention(captures_us=100 * DAY_US)
    pushed(home, [1, 2, 3, 4], retention=wide, rows=5)
    tight = Retention(result_bytes=15_000, captures_us=100 * DAY_US)
    removed, left = collected(home, 4, retention=tight)
    assert removed == {"outbox": 2}
    assert sorted(set(left)) == [3, 4]


def test_each_kind_has_a_retention_of_its_own(home):
    retention = Retention(results_us=100 * DAY_US, dead_letters_us=5 * DAY_US, captures_us=1 * DAY_US)
    pushed(home, [1, 4, 6], retention=retention)
    removed, left = collected(home, 7, retention=retention)
    assert removed == {"dead": 1, "capture": 2}
    assert left == [1, 4, 6]


def test_what_is_kept_is_shown_in_files_and_bytes(home):
    with eddyline.open(home) as engine:
        engine.stream("s", "n INT")
        engine.query("SELECT n FROM s WHERE n > 0", name="q")
        assert engine.rounds.durable.file_counts() == {"outbox": (0, 0), "dead": (0, 0), "capture": (0, 0)}
        engine.push("s", [(1,)])
        engine.push("s", [(-1,)])
        kept = engine.rounds.durable.file_counts()
        assert {kind: n for kind, (n, _) in kept.items()} == {"outbox": 1, "dead": 0, "capture": 2}
        on_disk = sum(path.stat().st_size for path in (home / "store").rglob("*") if path.is_file())
        assert sum(nbytes for _, nbytes in kept.values()) == on_disk
