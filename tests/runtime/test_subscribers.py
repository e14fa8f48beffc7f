"""Callbacks with a queue and a thread of their own. Gates, not clocks, say when a slow one goes on."""

from __future__ import annotations

import threading

import pytest

import eddyline
from eddyline.errors import PropertyError
from eddyline.events import CallbackFailed, SubscriberOvertaken
from eddyline.runtime import subscribers

LONG_S = 60.0  # nobody waits so long unless something is wrong


@pytest.fixture
def engine():
    with eddyline.open(clock=lambda: 1_700_000_000_000_000) as engine:
        engine.stream("s", "n INT")
        yield engine


@pytest.fixture(autouse=True)
def _no_thread_stays():
    yield
    for thread in threading.enumerate():
        if thread.name == "eddyline-subscriber":
            thread.join(LONG_S)
            assert not thread.is_alive()


class Slow:
    """A callback that waits at a gate, and can be waited for."""

    def __init__(self) -> None:
        self.heard: list[int] = []
        self.gate = threading.Event()
        self._told = threading.Condition()

    def __call__(self, result) -> None:
        with self._told:
            self.heard.append(result["n"])
            self._told.notify_all()
        assert self.gate.wait(LONG_S)

    def wait_for(self, n: int) -> None:
        with self._told:
            assert self._told.wait_for(lambda: len(self.heard) >= n, LONG_S), self.heard


def push(engine, *values):
    return engine.push("s", [{"n": value} for value in values])


def events(engine, kind):
    return [event for event in engine.events() if isinstance(event, kind)]


def test_a_queued_callback_hears_everything_in_order_in_a_thread_of_its_own(engine):
    query = engine.query("SELECT n FROM s WHERE n > 0")
    heard, threads = [], set()

    def callback(result):
        heard.append((result["n"], result.round_number, result.arrival))
        threads.add(threading.current_thread())

    subscription = query.on_result(callback, queue=100)
    push(engine, 1, 0, 2)
    push(engine, 3)
    engine.close()
    assert heard == [(1, 1, 1), (2, 1, 3), (3, 2, 4)]
    assert len(threads) == 1
    assert threading.current_thread() not in threads
    assert (subscription.n_waiting, subscription.n_dropped) == (0, 0)


def test_a_dead_subscriber_slows_neither_rounds_nor_another(engine):
    query = engine.query("SELECT n FROM s")
    dead, lively, in_round = Slow(), Slow(), []
    lively.gate.set()
    query.on_result(dead, queue=2)
    query.on_result(lively, queue=1_000)
    query.on_result(in_round.append)
    for n in range(50):
        push(engine, n)
    lively.wait_for(50)
    assert lively.heard == list(range(50))
    assert [result["n"] for result in in_round] == list(range(50))
    assert len(dead.heard) <= 1
    dead.gate.set()


@pytest.mark.parametrize(
    ("when_full", "expected", "n_dropped"),
    [("drop_oldest", [0, 5, 6, 7], 4), ("drop_newest", [0, 1, 2, 3], 4)],
)
def test_a_full_queue_drops_as_was_declared(engine, when_full, expected, n_dropped):
    query = engine.query("SELECT n FROM s", name="q")
    slow = Slow()
    subscription = query.on_result(slow, queue=3, when_full=when_full)
    push(engine, 0)
    slow.wait_for(1)
    push(engine, 1, 2)
    assert (subscription.n_waiting, subscription.n_dropped) == (2, 0)
    push(engine, 3, 4, 5, 6, 7)
    assert (subscription.n_waiting, subscription.n_dropped) == (3, n_dropped)
    slow.gate.set()
    slow.wait_for(4)
    assert slow.heard == expected
    assert [result["n"] for result in query.results()] == list(range(8))


def test_a_round_larger_than_the_queue_makes_only_the_results_that_stay(engine):
    query = engine.query("SELECT n FROM s")
    oldest, newest = Slow(), Slow()
    query.on_result(oldest, queue=2, when_full="drop_newest")
    query.on_result(newest, queue=2)
    push(engine, 0)
    oldest.wait_for(1)
    newest.wait_for(1)
    push(engine, *range(1, 1_000))
    for each in (oldest, newest):
        each.gate.set()
        each.wait_for(3)
    assert oldest.heard == [0, 1, 2]
    assert newest.heard == [0, 998, 999]


def test_what_was_dropped_is_announced_now_and_then_and_adds_up(engine, monkeypatch):
    seconds = [0.0]
    monkeypatch.setattr(subscribers, "monotonic_s", lambda: seconds[0])
    monkeypatch.setattr(subscribers, "ANNOUNCE_EVERY_S", 10.0)
    query = engine.query("SELECT n FROM s", name="q")
    slow = Slow()
    subscription = query.on_result(slow, queue=1)
    push(engine, 0)
    slow.wait_for(1)
    push(engine, 1)
    for n in range(2, 8):  # one dropped in each round
        push(engine, n)
    assert events(engine, SubscriberOvertaken) == [SubscriberOvertaken(3, "q", 1)]
    seconds[0] = 10.0
    push(engine, 8)
    push(engine, 9)
    assert events(engine, SubscriberOvertaken)[1:] == [SubscriberOvertaken(9, "q", 6)]
    subscription()
    assert events(engine, SubscriberOvertaken)[2:] == [SubscriberOvertaken(10, "q", 1)]
    assert subscription.n_dropped == 8
    slow.gate.set()


def test_a_blocking_queue_makes_the_round_wait_and_loses_nothing(engine):
    query = engine.query("SELECT n FROM s", name="q")
    slow = Slow()
    subscription = query.on_result(slow, queue=2, when_full="block")
    producer = threading.Thread(target=push, args=(engine, *range(10)))
    producer.start()
    slow.wait_for(1)
    assert engine.query("SELECT n FROM s WHERE n > 5").state == "running"  # the lock is free meanwhile
    assert producer.is_alive()  # 10 results, of which at most 3 have left the round
    slow.gate.set()
    producer.join(LONG_S)
    slow.wait_for(10)
    assert slow.heard == list(range(10))
    assert subscription.n_dropped == 0
    assert events(engine, SubscriberOvertaken) == []


def test_ending_a_subscription_frees_the_round_that_waits_for_it(engine):
    query = engine.query("SELECT n FROM s")
    slow = Slow()
    subscription = query.on_result(slow, queue=1, when_full="block")
    producer = threading.Thread(target=push, args=(engine, *range(10)))
    producer.start()
    slow.wait_for(1)
    subscription()
    producer.join(LONG_S)
    assert not producer.is_alive()
    push(engine, 11)
    slow.gate.set()
    assert subscription.n_dropped == 0
    assert slow.heard == [0]


def test_a_callback_that_may_be_waited_for_cannot_push(engine):
    query = engine.query("SELECT n FROM s WHERE n < 10", name="q")
    subscription = query.on_result(lambda result: push(engine, 10), queue=1, when_full="block")
    push(engine, 1)
    engine.close()
    (failed,) = events(engine, CallbackFailed)
    assert failed.query == "q"
    assert "cannot run a round: that round may be waiting for it" in failed.message
    assert subscription.n_dropped == 0


def test_a_callback_whose_queue_drops_may_push(engine):
    query = engine.query("SELECT n FROM s WHERE n < 3")
    heard: list[int] = []
    done = threading.Event()

    def callback(result):
        heard.append(result["n"])
        push(engine, result["n"] + 1)
        if result["n"] == 2:
            done.set()

    query.on_result(callback, queue=10)
    push(engine, 0)
    assert done.wait(LONG_S)
    assert heard == [0, 1, 2]


def test_a_queued_callback_may_end_itself_and_then_hears_nothing_more(engine):
    query = engine.query("SELECT n FROM s")
    heard: list[int] = []
    ended = threading.Event()

    def once(result):
        heard.append(result["n"])
        subscription()
        ended.set()

    with engine.rounds.lock:  # it is not told before `subscription` has its name
        subscription = query.on_result(once, queue=10)
    push(engine, 1, 2, 3)
    assert ended.wait(LONG_S)
    push(engine, 4)
    assert heard == [1]
    assert subscription.n_dropped == 0
    assert not engine.rounds.callbacks


def test_a_queued_callback_may_drop_its_query_and_still_hears_what_waits(engine):
    query = engine.query("SELECT n FROM s", name="q")
    heard: list[int] = []
    done = threading.Event()

    def callback(result):
        heard.append(result["n"])
        if result["n"] == 1:
            engine.drop("q")
        if result["n"] == 3:
            done.set()

    query.on_result(callback, queue=10)
    push(engine, 1, 2, 3)
    assert done.wait(LONG_S)
    push(engine, 4)
    assert heard == [1, 2, 3]


def test_a_queued_callback_that_raises_is_told_once_a_round_and_hears_the_rest(engine):
    query = engine.query("SELECT n FROM s", name="q")
    heard: list[int] = []

    def picky(result):
        heard.append(result["n"])
        if result["n"] == 4:
            raise SystemExit("four")
        if result["n"] % 2:
            raise ValueError(result["n"])

    query.on_result(picky, queue=10)
    push(engine, 1, 2, 3)
    push(engine, 4, 5)
    engine.close()
    assert heard == [1, 2, 3, 4, 5]
    assert events(engine, CallbackFailed) == [
        CallbackFailed(1, "q", "ValueError: 1"),
        CallbackFailed(2, "q", "SystemExit: four"),
    ]


def test_closing_waits_for_a_slow_callback_but_not_for_a_dead_one(engine, monkeypatch):
    monkeypatch.setattr(subscribers, "LONGEST_DRAIN_S", 0.05)
    query = engine.query("SELECT n FROM s", name="q")
    dead = Slow()
    subscription = query.on_result(dead, queue=10)
    push(engine, 1, 2, 3)
    dead.wait_for(1)
    engine.close()
    assert subscription.n_dropped == 2
    assert events(engine, SubscriberOvertaken) == [SubscriberOvertaken(1, "q", 2)]
    dead.gate.set()


def test_closing_frees_a_round_that_waits_for_a_dead_callback(engine, monkeypatch):
    monkeypatch.setattr(subscribers, "LONGEST_DRAIN_S", 0.05)
    query = engine.query("SELECT n FROM s", name="q")
    dead = Slow()
    subscription = query.on_result(dead, queue=1, when_full="block")
    counted: list[int] = []
    producer = threading.Thread(target=lambda: counted.append(push(engine, *range(10)).count))
    producer.start()
    dead.wait_for(1)
    engine.close()
    producer.join(LONG_S)
    assert counted == [10]
    assert subscription.n_dropped == 9
    assert sum(event.n_dropped for event in events(engine, SubscriberOvertaken)) == 9
    dead.gate.set()


def test_a_queued_callback_may_close_the_engine(engine):
    query = engine.query("SELECT n FROM s")
    closed = threading.Event()

    def callback(result):
        engine.close()
        closed.set()

    query.on_result(callback, queue=10)
    push(engine, 1)
    assert closed.wait(LONG_S)
    with pytest.raises(eddyline.EddylineError, match="closed"):
        push(engine, 2)


def test_messages_of_alerts_can_be_queued_too(engine):
    engine.query("SELECT n FROM s WHERE n > 0", name="up", per="n", resolve="1 hour")
    gate, first, heard = threading.Event(), threading.Event(), []

    def callback(message):
        heard.append(message.key["n"])
        first.set()
        assert gate.wait(LONG_S)

    subscription = engine.on_message(callback, queue=2)
    push(engine, 1)
    assert first.wait(LONG_S)
    push(engine, 2, 3, 4)
    assert (subscription.n_waiting, subscription.n_dropped) == (2, 1)
    assert events(engine, SubscriberOvertaken) == [SubscriberOvertaken(2, "", 1)]
    gate.set()
    engine.close()
    assert heard == [1, 3, 4]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"queue": 0}, "queue is 0"),
        ({"queue": True}, "queue is True"),
        ({"queue": 1.5}, "queue is 1.5"),
        ({"queue": 1, "when_full": "drop"}, "when_full is 'drop'"),
        ({"when_full": "block"}, "when_full is 'block', but there is no queue"),
    ],
)
def test_queues_that_make_no_sense_are_refused(engine, options, problem):
    query = engine.query("SELECT n FROM s")
    for subscribe in (query.on_result, engine.on_message):
        with pytest.raises(PropertyError) as caught:
            subscribe(print, **options)
        assert caught.value.problem == problem
        assert caught.value.hint


def test_in_the_round_a_callback_hears_everything_before_push_returns(engine):
    query = engine.query("SELECT n FROM s")
    heard: list[int] = []
    subscription = query.on_result(lambda result: heard.append(result["n"]))
    push(engine, 1, 2)
    assert heard == [1, 2]
    assert repr(subscription) == "<subscription: 0 waiting, 0 dropped>"
