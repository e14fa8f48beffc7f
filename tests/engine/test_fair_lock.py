"""Locks are given in the order they are asked for, and threads that push get their turns whatever others do."""

from __future__ import annotations

import threading
import time
from collections import Counter

import pytest

import eddyline
from eddyline.engine.fair_lock import BURST, FairLock, _Waiter

N_THREADS, N_PUSHES, N_CHURNING = 14, 24, 4


def waits(lock: FairLock, n: int) -> None:
    """Until so many threads wait for a lock."""
    while len(lock._waiting) < n:
        time.sleep(0.001)


def test_whoever_asked_first_gets_it_first_and_the_one_who_lets_go_last() -> None:
    lock, served = FairLock(burst=0), []

    def take(name: int) -> None:
        with lock:
            served.append(name)

    threads = [threading.Thread(target=take, args=(name,)) for name in range(5)]
    with lock, lock:  # it may be held more than once
        for n, thread in enumerate(threads, 1):
            thread.start()
            waits(lock, n)
    take(99)  # at once, as a thread does that asks again in a loop
    for thread in threads:
        thread.join()
    assert served == [0, 1, 2, 3, 4, 99]
    assert lock.acquire(blocking=False)


def test_a_thread_in_a_loop_goes_before_one_that_waits_only_some_times() -> None:
    lock, is_served = FairLock(), threading.Event()

    def take() -> None:
        with lock:
            is_served.set()

    thread, n_turns = threading.Thread(target=take), 0
    with lock:
        thread.start()
        waits(lock, 1)
    while not is_served.is_set():
        with lock:
            n_turns += not is_served.is_set()
    thread.join()
    assert n_turns <= BURST


def test_whoever_has_the_turn_gets_the_lock_next() -> None:
    turn = FairLock()
    lock, served = FairLock(turn), []

    def take(name: str) -> None:
        with lock:
            served.append(name)

    def play() -> None:
        with turn:
            take("a round")

    threads = [threading.Thread(target=take, args=("a query",)), threading.Thread(target=play)]
    with lock:
        for n, thread in enumerate(threads, 1):
            thread.start()
            waits(lock, n)
    for thread in threads:
        thread.join()
    assert served == ["a round", "a query"]


def test_a_condition_lets_go_of_it_however_often_it_is_held() -> None:
    lock = FairLock()
    condition, heard = threading.Condition(lock), []  # type: ignore[arg-type]

    def listen() -> None:
        with lock, condition:
            condition.wait()
            heard.append(lock._depth)

    thread = threading.Thread(target=listen)
    thread.start()
    while not heard:
        with lock:
            condition.notify_all()
    thread.join()
    assert heard == [2]


@pytest.mark.parametrize("burst", [0, 8], ids=["handed on", "left to whoever is quicker"])
def test_a_thread_that_is_interrupted_while_it_waits_leaves_the_lock_to_others(burst: int) -> None:
    """A signal comes while the main thread of a process waits for it, or has just been given it."""
    lock = FairLock(burst=burst)
    waiter = _Waiter(-1)
    waiter.gate.acquire()
    with lock:
        lock._waiting.append(waiter)
    lock._give_up(waiter)
    assert lock.acquire(blocking=False)


@pytest.mark.thorough
def test_fourteen_threads_get_their_shares_of_turns_while_queries_come_and_go() -> None:
    pushed: list[int] = []
    n_churned, done = 0, threading.Event()
    with eddyline.open() as engine:
        engine.stream("trades", "sym STRING, price DOUBLE")
        engine.query("SELECT sym FROM trades WHERE price > 5", name="dear")
        engine.push("trades", [("a", 1.0)])

        def push(name: int) -> None:
            for _ in range(N_PUSHES):
                engine.push("trades", [("a", float(name))])
                pushed.append(name)

        def churn(name: str) -> None:
            nonlocal n_churned
            while not done.is_set():
                engine.query(f"SELECT sym FROM trades WHERE price > {n_churned}", name=name)
                engine.drop(name)
                n_churned += 1

        churning = [threading.Thread(target=churn, args=(f"c{k}",)) for k in range(N_CHURNING)]
        threads = [threading.Thread(target=push, args=(name,)) for name in range(N_THREADS)]
        for thread in (*churning, *threads):
            thread.start()
        for thread in threads:
            thread.join()
        done.set()
        for thread in churning:
            thread.join()
    assert n_churned > 0
    assert Counter(pushed) == dict.fromkeys(range(N_THREADS), N_PUSHES)
    half = Counter(pushed[: len(pushed) // 2])
    assert min(half[name] for name in range(N_THREADS)) > 0, half  # nobody had to wait for all others
