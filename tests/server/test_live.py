"""Results as they come: nothing is lost, nothing comes twice, and nobody waits for a slow client."""

from __future__ import annotations

import asyncio
import json
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import eddyline
from eddyline.runtime import KeptResults
from eddyline.server import live, stream_places
from eddyline.server.live import EventSubscription, Hub
from tests.conftest import SEED
from tests.server.served import Wire, client_of, events_in, house, on_loopback

TIMES_KILLED = 100


@pytest.fixture
def home(tmp_path):
    with house(tmp_path / "home") as found:
        yield found


def test_a_client_killed_and_resumed_a_hundred_times_gets_every_result_once(home):
    """Cut at random bytes while rows are pushed; of two queries of an owner, and with what was there before."""
    rng = random.Random(SEED)
    stop = threading.Event()

    def push() -> None:
        counted = home.engine.get("counted", owner="anna")
        while not stop.is_set():
            if counted.n_results > len(got) + 300:  # far enough ahead
                stop.wait(0.001)
                continue
            n = pushing.randrange(1, 100)
            home.engine.push(
                "trades", [{"sym": f"S{k}", "price": float(k % 25), "note": "7"} for k in range(n)]
            )
            stop.wait(pushing.random() * 0.01)

    pushing = random.Random(SEED + 1)
    got: list[str] = []
    last_id: str | None = "0"
    with on_loopback(home.engine) as serving:
        pusher = threading.Thread(target=push)
        pusher.start()
        try:
            for at in range(TIMES_KILLED):
                path = f"/api/v1/results/stream?policy={rng.choice(live.POLICIES[::2])}&queue={rng.choice([1, 20, 1000])}"
                wire = Wire(serving.url, home.tokens["reader"], path, last_id)
                n_bytes = rng.randrange(1, 5_000)
                wire.read(n_bytes)
                if at + 1 == TIMES_KILLED:
                    stop.set()
                    pusher.join()
                for kind, event_id, data in wire.cut(n_bytes + 200):
                    assert kind == "result", data
                    assert json.loads(data)["cursor"] == event_id
                    got.append(str(event_id))
                    last_id = event_id
        finally:
            stop.set()
            pusher.join()
        with client_of(serving, home.tokens["reader"]) as client:
            after = last_id
            while True:
                page = client.get("/api/v1/results", params={"after": after, "limit": 1000}).json()
                got += [result["cursor"] for result in page["results"]]
                after = page["next"]
                if page["is_end"]:
                    break
    kept = KeptResults(home.engine.rounds).after(
        lambda ids: ids[ids != 2], (0, 0, 0), until=1 << 40, limit=1 << 40
    )
    assert len(got) > TIMES_KILLED
    assert got == [result["cursor"] for result in kept.results]


@contextmanager
def reading(
    serving, token: str, query: str = "", **headers: str
) -> Iterator[Iterator[tuple[str, str | None, str]]]:
    path = f"/api/v1/results/stream{query}"
    with client_of(serving, token) as client, client.stream("GET", path, headers=headers) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")

        def events() -> Iterator[tuple[str, str | None, str]]:
            block = ""
            for line in answer.iter_lines():
                block += line + "\n"
                if not line:
                    yield from events_in(block)
                    block = ""

        yield events()


def test_a_stream_begins_with_what_comes_unless_told_where_to_go_on(home):
    with on_loopback(home.engine) as serving:
        with reading(serving, home.tokens["reader"], "?query=cheap&after=0") as events:
            assert next(events)[1] == "1-1-1"
            home.engine.push("trades", [{"sym": "D", "price": 1.0}])
            assert next(events)[1] == "2-4-1"
        with reading(serving, home.tokens["reader"], "?query=cheap", **{"Last-Event-ID": "1-1-1"}) as events:
            assert next(events)[1] == "2-4-1"
        with reading(serving, home.tokens["reader"], "?query=cheap") as events:
            while not serving.service.hub._subscriptions["results"]:
                home.engine.tick()
            home.engine.push("trades", [{"sym": "E", "price": 2.0}])
            kind, _, data = next(events)
            assert (kind, json.loads(data)["row"]) == ("result", {"sym": "E", "price": 2.0})


def test_an_owner_hears_only_its_own_also_queries_registered_later(home):
    with on_loopback(home.engine) as serving, reading(serving, home.tokens["bob"], "?after=1") as events:
        home.engine.push("trades", [{"sym": "D", "price": 1.0, "note": "5"}])  # anna's alone
        home.engine.query("SELECT sym FROM trades WHERE sym = 'E'", name="e", owner="bob")
        home.engine.push("trades", [{"sym": "E", "price": 99.0, "note": "5"}])
        assert [json.loads(next(events)[2])["query"] for _ in range(2)] == ["dear", "e"]


def test_what_alerts_say_comes_as_events_too(home):
    with (
        on_loopback(home.engine) as serving,
        client_of(serving, home.tokens["bob"]) as client,
        client.stream("GET", "/api/v1/alerts/stream?after=0") as answer,
    ):
        lines = answer.iter_lines()
        first = [next(lines) for _ in range(7)]
        assert first[3:5] == ["id: 1", "event: alert"]
        assert json.loads(first[5].removeprefix("data: "))["message"] == "BOLT at 95.0"
        home.engine.push("trades", [{"sym": "ZINC", "price": 91.0}])
        second = [next(lines) for _ in range(4)]
        assert second[:2] == ["id: 2", "event: alert"]


def test_a_client_that_comes_back_after_retention_is_told_what_is_gone(tmp_path):
    kept_us = 1_000_000
    clock = [10 * kept_us]
    retention = eddyline.api.engine.Retention(results_us=kept_us)
    with eddyline.open(tmp_path / "home", retention=retention, clock=lambda: clock[0]) as engine:
        engine.stream("trades", "price DOUBLE")
        engine.query("SELECT price FROM trades", name="all")
        token = engine.access.tokens.add("admin", 0)[1]
        for at in range(3):
            engine.push("trades", [{"price": float(at)}, {"price": 9.0}])
        clock[0] += 10 * kept_us
        engine.push("trades", [{"price": 3.0}])
        engine.rounds.durable.collect_garbage()
        with on_loopback(engine) as serving, reading(serving, token, "?after=1") as events:
            assert next(events) == ("lost", None, '{"n": 4, "at_most": 4}')
            assert next(events)[1] == "4-7-1"


def test_streams_end_when_their_token_is_dropped(home, monkeypatch):
    monkeypatch.setattr(live, "KEEP_ALIVE_S", 0.05)
    monkeypatch.setattr(live, "ASK_EVERY_S", 0.0)
    with on_loopback(home.engine) as serving, reading(serving, home.tokens["reader"]) as events:
        home.engine.access.tokens.drop(home.tokens["reader"].split("_")[1])
        assert list(events) == []


def test_a_stream_that_is_never_silent_ends_with_its_token_too(home, monkeypatch):
    monkeypatch.setattr(live, "ASK_EVERY_S", 0.0)
    ended = threading.Event()

    def push() -> None:
        while not ended.is_set():
            home.engine.push("trades", [{"sym": "D", "price": 1.0}])

    with (
        on_loopback(home.engine) as serving,
        reading(serving, home.tokens["reader"], "?query=cheap&after=0") as events,
    ):
        pusher = threading.Thread(target=push)
        pusher.start()
        try:
            next(events)
            home.engine.access.tokens.drop(home.tokens["reader"].split("_")[1])
            assert all(kind == "result" for kind, _, _ in events)  # until the end, which comes
        finally:
            ended.set()
            pusher.join()


def test_no_more_streams_than_there_is_room_for(home, monkeypatch):
    monkeypatch.setattr(stream_places, "MOST_STREAMS", 1)
    with on_loopback(home.engine) as serving, reading(serving, home.tokens["reader"], "?after=0") as events:
        next(events)
        with client_of(serving, home.tokens["reader"]) as client:
            answer = client.get("/api/v1/results/stream")
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")


# --------------------------------------------------------------------------------------------- the hub


def run(work):
    return asyncio.run(asyncio.wait_for(work, 60))


def hub_of(engine) -> Hub:
    return Hub(engine, KeptResults(engine.rounds))


def subscription(**changes) -> EventSubscription:
    given = {"owner": None, "ids": None, "after": (0, 0, 0), "policy": "catch_up", "limit": 1_000} | changes
    return EventSubscription("results", **given)


async def read(stream, n: int) -> list[str]:
    """The ids of the next n events, and what was said about lost ones."""
    found: list[str] = []
    async for chunk in stream:
        for kind, event_id, data in events_in(chunk.decode()):
            found.append(str(event_id) if kind == "result" else f"lost {data}")
        if len(found) >= n:
            break
    return found


def test_a_stream_that_falls_behind_before_it_wakes_goes_on(home):
    """The hub takes it in and hands it a round that is too large for it, before the stream itself has a turn."""
    hub = hub_of(home.engine)

    async def listen() -> list[str]:
        sub = subscription(limit=1, ids=frozenset({1}))
        joined = sub.joined

        def joined_and_full(at) -> None:
            sub.joined = joined
            joined(at)
            sub.push([(at, b""), (at, b"")])

        sub.joined = joined_and_full
        stream = hub.stream(sub)
        try:
            return await asyncio.wait_for(read(stream, 1), 30)
        finally:
            await stream.aclose()

    try:
        assert asyncio.run(listen()) == ["1-1-1"]
    finally:
        hub.close()


@pytest.mark.parametrize("in_memory", [False, True], ids=["home", "memory"])
@pytest.mark.parametrize("policy", live.POLICIES)
def test_a_full_queue_follows_its_policy(tmp_path, policy, in_memory):
    with house(None if in_memory else tmp_path / "home") as home:
        engine = home.engine
        hub = hub_of(engine)

        async def listen():
            sub = subscription(policy=policy, limit=3, ids=frozenset({1}), after=None)
            stream = hub.stream(sub)
            await anext(stream)  # the greeting
            reader = asyncio.ensure_future(anext(stream))
            while sub.joined_at is None:
                await asyncio.sleep(0.001)
            await asyncio.to_thread(engine.push, "trades", [{"sym": "A", "price": 1.0}])
            first = await reader  # from here on nobody reads
            assert events_in(first.decode())[0][1] == "2-4-1"
            for _ in range(5):
                await asyncio.to_thread(engine.push, "trades", [{"sym": "A", "price": 1.0}])
            is_full = {
                "catch_up": lambda: sub.is_behind,
                "drop": lambda: sub.n_lost == 2,
                "close": lambda: sub.is_over,
            }
            while hub._round < 7 or not is_full[policy]():
                await asyncio.sleep(0.001)
            return await read(stream, 5 if policy == "catch_up" else 4 if policy == "drop" else 1)

        try:
            found = run(listen())
        finally:
            hub.close()
        everything = ["3-5-1", "4-6-1", "5-7-1", "6-8-1", "7-9-1"]
        if policy == "catch_up":
            assert found == everything
        elif policy == "drop":
            assert found == ['lost {"n": 2, "at_most": 2}', *everything[2:]]
        else:
            assert found == []


def test_a_round_of_very_many_results_is_read_by_its_listeners_themselves(home, monkeypatch):
    monkeypatch.setattr(live, "MOST_RENDERED", 10)
    hub = hub_of(home.engine)

    async def listen():
        sub = subscription(ids=frozenset({1}), after=None)
        stream = hub.stream(sub)
        await anext(stream)
        reading_on = asyncio.ensure_future(read(stream, 30))
        while sub.joined_at is None:
            await asyncio.sleep(0.001)
        await asyncio.to_thread(home.engine.push, "trades", [{"sym": "A", "price": 1.0}] * 30)
        return await reading_on

    try:
        assert run(listen()) == [f"2-{at}-1" for at in range(4, 34)]
    finally:
        hub.close()


def test_a_slow_client_does_not_delay_another(home):
    """One never reads, with a socket that is full; the other gets everything."""
    with on_loopback(home.engine) as serving:
        stuck = Wire(serving.url, home.tokens["reader"], "/api/v1/results/stream?after=0&queue=10")
        stuck.read(10)
        with reading(serving, home.tokens["reader"], "?query=counted&after=1") as events:
            long = "7" + " " * 20_000
            for _ in range(100):
                home.engine.push("trades", [{"sym": long, "price": 50.0, "note": "1"}] * 5)
            got = [next(events)[1] for _ in range(500)]
        stuck.socket.close()
    assert got == [f"{2 + at // 5}-{4 + at}-3" for at in range(500)]


def test_closing_the_hub_ends_every_stream(home):
    hub = hub_of(home.engine)

    async def listen():
        subscriptions = [subscription(after=None) for _ in range(20)]
        streams = [hub.stream(each) for each in subscriptions]
        readers = [asyncio.ensure_future(read(stream, 1_000)) for stream in streams]
        while len(hub._subscriptions["results"]) < 20:
            await asyncio.sleep(0.001)
        await asyncio.to_thread(hub.close)
        got = await asyncio.gather(*readers)
        assert all(each.is_over for each in subscriptions)
        return got

    assert run(listen()) == [[]] * 20
