"""An engine in numbers, against what was done to it."""

from __future__ import annotations

import shutil
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

import eddyline
from eddyline.engine import Retention, after_commit
from eddyline.errors import ClosedError
from eddyline.events import RoundFailed, SinkFailed, SinkOvertaken, SinkRefused
from eddyline.explain.counting import BUCKETS_S, Histogram, busiest
from eddyline.functions.declarations import DECLARED

NOW_US = 1_700_000_000_000_000


@pytest.fixture(params=["memory", "home"])
def engine(request, tmp_path):
    folder = tmp_path / "home" if request.param == "home" else None
    with eddyline.open(folder, clock=lambda: NOW_US) as engine:
        engine.stream("trades", "sym STRING, price DOUBLE, ts TIMESTAMP", time="ts", lateness="5 seconds")
        yield engine


def at(seconds: float) -> str:
    """So many seconds before the clock."""
    return f"2023-11-14 22:13:{20 - seconds:06.3f}"


def test_an_engine_that_did_nothing_has_only_zeros(engine):
    found = engine.counters()
    assert (found.n_rounds, found.n_rows, found.n_results, found.n_dead, found.n_late) == (0, 0, 0, 0, 0)
    assert (found.last_round, found.round_seconds.n, found.events, found.sinks) == (0, 0, {}, ())
    assert found.alerts.n_open == {"pending": 0, "firing": 0, "held": 0}
    assert found.audit is None


def test_rounds_rows_results_dead_letters_and_late_rows_are_counted(engine):
    engine.query("SELECT sym FROM trades WHERE price < 10", name="cheap")
    engine.query("SELECT cast(sym AS INT) AS n FROM trades", name="numbers")
    engine.push("trades", [("1", 5.0, at(2)), ("x", 50.0, at(1))])  # cheap 1, numbers 1; x is no number
    engine.push("trades", [("3", 5.0, at(9))])  # behind the watermark
    engine.tick()
    found = engine.counters()
    assert (found.n_rounds, found.last_round) == (3, 3)
    assert (found.n_rows, found.n_results, found.n_dead, found.n_late) == (3, 4, 1, 1)
    assert found.events["RoundCommitted"] == 3
    assert found.round_seconds.n == 3
    assert found.round_seconds.total_s > 0
    (trades,) = found.streams
    assert (trades.name, trades.n_rows, trades.n_late, trades.n_queries) == ("trades", 3, 1, 2)
    assert trades.watermark_lag_s == 6.0  # the newest row is a second old, and five are allowed
    assert found.index_bytes == trades.index_bytes > 0


def test_queries_are_counted_by_state(engine):
    for name in ("a", "b", "c"):
        engine.query("SELECT sym FROM trades", name=name)
    engine.query_many("SELECT sym FROM trades WHERE price < :p", params={"p": [1.0, 2.0, 3.0]}, name="t{p}")
    engine.get("a").pause()
    engine.get("t1.0").pause()
    engine.get("b").drop()
    assert engine.counters().queries == {"running": 3, "paused": 2, "suspended": 0}
    engine.get("a").resume()
    assert engine.counters().queries == {"running": 4, "paused": 1, "suspended": 0}


def test_alerts_are_counted_as_they_fire_resolve_and_are_held_back(engine):
    engine.query("SELECT sym FROM trades WHERE price < 10", name="low", per="sym", resolve="1 minute")
    engine.query("SELECT sym FROM trades WHERE price < 10", name="once", cooldown="1 hour")
    engine.push("trades", [("A", 5.0, at(1)), ("B", 5.0, at(1)), ("A", 6.0, at(1))])
    found = engine.counters().alerts
    assert (found.n_fired, found.n_resolved, found.n_suppressed) == (3, 0, 2)
    assert found.n_open == {"pending": 0, "firing": 2, "held": 0}
    engine.tick(now=NOW_US + 61_000_000)
    found = engine.counters().alerts
    assert (found.n_fired, found.n_resolved, found.n_suppressed) == (3, 2, 2)
    assert found.n_open == {"pending": 0, "firing": 0, "held": 0}


def test_open_alerts_counted_as_they_come_are_those_that_are_open(tmp_path, rng):
    """Whatever comes, the numbers that are kept up to date are those one would count."""
    now_us = NOW_US
    with eddyline.open(tmp_path / "home", clock=lambda: now_us) as engine:
        engine.stream("trades", "sym STRING, price DOUBLE")
        timing = {"for": "10 seconds", "resolve": "30 seconds", "cooldown": "2 minutes"}
        query = engine.query("SELECT sym FROM trades WHERE price < 10", name="low", per="sym", **timing)
        engine.counters()  # from here on it is kept up to date
        states: set[str] = set()
        for step in range(60):
            now_us += int(rng.integers(1, 20)) * 1_000_000
            rows = [(str(rng.integers(3)), float(rng.integers(14))) for _ in range(int(rng.integers(4)))]
            engine.push("trades", rows)
            if step == 40:
                query.pause()
            if step == 45:
                query.resume()
            counted = dict.fromkeys(("pending", "firing", "held"), 0)
            for alert in engine.alerts():
                counted[alert.state] += 1
                states.add(alert.state)
            assert engine.counters().alerts.n_open == counted
        assert states == {"pending", "firing", "held"}


def test_what_is_open_is_found_again_after_a_restart(tmp_path):
    with eddyline.open(tmp_path / "home") as engine:
        engine.stream("trades", "sym STRING, price DOUBLE")
        engine.query("SELECT sym FROM trades WHERE price < 10", name="low", per="sym", resolve="1 hour")
        engine.push("trades", [("A", 5.0), ("B", 5.0)])
    with eddyline.open(tmp_path / "home") as engine:
        found = engine.counters()
        assert (found.alerts.n_open["firing"], found.alerts.n_fired, found.last_round) == (2, 0, 1)


def test_files_of_the_store_are_counted_as_they_come_and_go(tmp_path):
    keeps_little = Retention(result_bytes=4_000, capture_bytes=2_000)
    with eddyline.open(tmp_path / "home", retention=keeps_little) as engine:
        engine.stream("trades", "sym STRING, price DOUBLE")
        engine.query("SELECT sym FROM trades", name="all")
        assert engine.counters().store.kinds["outbox"] == (0, 0)
        for number in range(130):
            engine.push("trades", [("A", float(number))])
        counted = engine.counters().store
        files = engine.rounds.durable.rounds.files.all()
        for kind in ("outbox", "dead", "capture"):
            mine = [file.nbytes for file in files if file.kind == kind]
            assert counted.kinds[kind] == (len(mine), sum(mine))
        assert 0 < counted.kinds["outbox"][0] < 130
        assert counted.catalog_bytes >= (tmp_path / "home" / "catalog.db").stat().st_size
        assert counted.free_bytes > 0


def test_an_engine_in_memory_has_no_store():
    with eddyline.open() as engine:
        assert engine.counters().store is None


def test_functions_tell_their_calls_rows_errors_and_seconds(monkeypatch):
    monkeypatch.setitem(DECLARED, "counted_half", None)  # taken away again afterwards
    with eddyline.open() as engine:
        engine.stream("trades", "sym STRING, price DOUBLE")

        @eddyline.udf(returns="DOUBLE", takes=["DOUBLE"])
        def counted_half(price: float) -> float:
            if price == 13:
                raise ValueError("unlucky")
            return price / 2

        engine.query("SELECT sym FROM trades WHERE counted_half(price) < 5", name="half")
        engine.push("trades", [("A", 4.0), ("B", 13.0), ("C", 40.0)])
        found = engine.counters().functions["counted_half"]
        assert (found.n_rows, found.n_failed) == (3, 1)
        assert found.n_calls >= 1
        assert found.seconds >= 0


def test_events_of_sinks_are_counted_by_sink(engine):
    for event in (
        RoundFailed(1, "disk full"),
        SinkFailed(1, "ops", "no route"),
        SinkFailed(1, "ops", "no route"),
        SinkOvertaken(1, "ops", 40),
        SinkRefused(1, "mail", 2, "404"),
    ):
        engine.rounds.tell(event)
    found = engine.counters()
    assert found.n_rounds_failed == 1
    assert found.events == {"RoundFailed": 1, "SinkFailed": 2, "SinkOvertaken": 1, "SinkRefused": 1}


def fill(home) -> None:
    """Twenty rounds, of whose results memory holds few after a restart."""
    with eddyline.open(home, result_bytes=20_000) as engine:
        engine.stream("trades", "n INT, price DOUBLE, s STRING")
        engine.query("SELECT n FROM trades WHERE price < 10", name="cheap")
        engine.query("SELECT n FROM trades WHERE cast(s AS INT) > 1", name="odd")
        engine.query("SELECT n FROM trades", name="gone")
        for _ in range(20):
            engine.push(
                "trades", [{"n": k, "price": k, "s": "x" if k % 10 == 0 else "5"} for k in range(1_000)]
            )
        engine.drop("gone")
        shutil.copytree(home, home.with_name("killed"))


def numbers(engine) -> tuple:
    total = engine.counters().total
    found = {
        each["name"]: (each["n_results"], each["n_dead"]) for each in busiest(engine.rounds, 10)["results"]
    }
    return (total.n_rounds, total.n_rows, total.n_results, total.n_dead), found


@pytest.mark.parametrize("name", ["home", "killed"])
def test_counts_of_a_home_and_its_queries_are_right_after_a_restart(tmp_path, name):
    fill(tmp_path / "home")
    with eddyline.open(tmp_path / name, result_bytes=20_000) as engine:
        assert numbers(engine) == ((20, 20_000, 38_200, 2_000), {"odd": (18_000, 2_000), "cheap": (200, 0)})
        assert engine.counters().n_rows == 0  # of this process
        engine.push("trades", [{"n": 1, "price": 1.0, "s": "x"}])
        assert numbers(engine) == ((21, 20_001, 38_201, 2_001), {"odd": (18_000, 2_001), "cheap": (201, 0)})
    with eddyline.open(tmp_path / name, result_bytes=20_000) as engine:
        assert numbers(engine) == ((21, 20_001, 38_201, 2_001), {"odd": (18_000, 2_001), "cheap": (201, 0)})


def test_counts_that_were_saved_hold_for_rounds_that_came_after_them(tmp_path, monkeypatch):
    monkeypatch.setattr(after_commit, "COUNTS_EVERY", 7)  # saved at round 14, then killed behind round 20
    fill(tmp_path / "home")
    with eddyline.open(tmp_path / "killed", result_bytes=20_000) as engine:
        assert numbers(engine)[1] == {"odd": (18_000, 2_000), "cheap": (200, 0)}


def test_results_of_rounds_that_retention_removed_stay_counted(tmp_path):
    fill(tmp_path / "home")
    with eddyline.open(tmp_path / "home", retention=Retention(round_count=1)) as engine:
        durable = engine.rounds.durable
        durable.rounds.files.unlist(
            [file.name for kind in ("outbox", "capture", "dead") for file in durable.rounds.files.all(kind)]
        )
        durable.collect_garbage()
        assert len(durable.rounds.recent(99)) == 1
    with eddyline.open(tmp_path / "home") as engine:
        assert numbers(engine) == ((20, 20_000, 38_200, 2_000), {"odd": (18_000, 2_000), "cheap": (200, 0)})


@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04 and no more"])
def test_a_home_whose_counts_are_damaged_counts_what_it_keeps(tmp_path, damage):
    fill(tmp_path / "home")
    (tmp_path / "home" / "query-counts.npz").write_bytes(damage)
    with eddyline.open(tmp_path / "home", result_bytes=20_000) as engine:
        assert numbers(engine)[1] == {"odd": (18_000, 2_000), "cheap": (200, 0)}


def test_a_closed_engine_has_no_numbers():
    with eddyline.open() as engine:
        pass
    with pytest.raises(ClosedError):
        engine.counters()


def test_numbers_are_read_while_rounds_run():
    with eddyline.open() as engine:
        engine.stream("trades", "sym STRING, price DOUBLE")
        engine.query("SELECT sym FROM trades WHERE price < 10", name="low", per="sym", resolve="1 hour")
        ended = threading.Event()

        def push() -> None:
            for number in range(100):
                engine.push("trades", [(str(number % 7), 5.0)])
            ended.set()

        thread = threading.Thread(target=push)
        thread.start()
        last = 0
        while not ended.is_set():
            found = engine.counters()
            assert last <= found.n_rounds == found.n_rows == found.round_seconds.n
            last = found.n_rounds
        thread.join()
        assert engine.counters().n_rounds == 100


@given(st.lists(st.floats(0, 200, allow_nan=False), max_size=50))
def test_a_histogram_has_every_value_in_the_bucket_it_belongs_to(values):
    histogram = Histogram()
    for value in values:
        histogram.add(value)
    found = histogram.frozen()
    for place, bound in enumerate(BUCKETS_S):
        assert sum(found.counts[: place + 1]) == sum(value <= bound for value in values)
    assert found.n == len(values)
    assert found.total_s == pytest.approx(sum(values))
