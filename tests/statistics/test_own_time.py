"""A clock that stands still while another thread has the processor."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from eddyline.statistics import own_time, own_time_s


def test_waiting_for_an_answer_counts():
    began = own_time_s()
    time.sleep(0.05)
    assert own_time_s() - began > 0.04


def test_time_that_the_thread_was_ready_and_did_not_run_is_left_out(monkeypatch, tmp_path):
    schedstat = tmp_path / "schedstat"
    schedstat.write_text("7000000 0 3\n")
    monkeypatch.setattr(own_time, "_SCHEDSTAT", str(schedstat))
    monkeypatch.setattr(own_time, "_local", threading.local())
    monkeypatch.setattr(time, "perf_counter", lambda: 100.0)
    assert own_time_s() == 100.0
    schedstat.write_text("7000000 2500000000 4\n")
    assert own_time_s() == 97.5


def test_a_system_that_does_not_tell_has_the_clock_of_the_wall(monkeypatch, tmp_path):
    monkeypatch.setattr(own_time, "_SCHEDSTAT", str(tmp_path / "nothing"))
    monkeypatch.setattr(own_time, "_local", threading.local())
    monkeypatch.setattr(time, "perf_counter", lambda: 100.0)
    assert own_time_s() == 100.0


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="open files are listed on Linux")
def test_threads_that_end_leave_no_file_open():
    def count() -> int:
        return sum("schedstat" in os.path.realpath(each) for each in Path("/proc/self/fd").iterdir())

    own_time_s()
    before = count()
    threads = [threading.Thread(target=own_time_s) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert count() == before
