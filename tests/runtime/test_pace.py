"""Sources are read no faster than they are allowed to be, in this process and by workers; time is the test's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eddyline.api import PipelineRunner
from eddyline.events import RoundCommitted, RoundMeasured
from eddyline.pipeline import PipelineError, read_pipeline
from eddyline.runtime.pace import NO_LIMIT, Pace
from tests.on_workers import elsewhere

STREAM = """
[streams.trades]
schema = "n BIGINT, price DOUBLE"
source = { type = "files", path = "in", format = "json" }
"""


def test_without_a_limit_nothing_is_held_back():
    pace = Pace()
    pace.took(1_000_000, 1 << 30, 0.0)
    assert (pace.wait_s(0.0), pace.most_rows, pace.most_bytes) == (0.0, NO_LIMIT, NO_LIMIT)


def test_rows_are_paid_for_with_time_and_a_little_of_what_was_left_unused_counts():
    pace = Pace(100)
    assert (pace.most_rows, pace.wait_s(5.0)) == (100, 0.0)
    pace.took(100, 0, 5.0)
    assert pace.wait_s(5.0) == 1.0
    pace.took(50, 0, 6.05)  # 0.05 s after it might have been: made up for
    assert pace.wait_s(6.05) == pytest.approx(0.45)
    pace.took(100, 0, 60.0)  # idle for long: only a tenth of a second counts
    assert pace.wait_s(60.0) == pytest.approx(0.9)


def test_a_slow_source_gives_a_row_at_a_time():
    pace = Pace(0.1)
    assert pace.most_rows == 1
    pace.took(1, 10, 0.0)
    assert pace.wait_s(0.0) == 10.0


def test_how_much_the_rows_of_a_second_are_is_learned_best_from_where_they_lie():
    pace = Pace(10)
    assert pace.most_bytes == 0
    pace.took(2, 80, 0.0, in_memory=True)
    assert pace.most_bytes == 400
    pace.took(4, 40, 1.0)
    assert pace.most_bytes == 100
    pace.took(2, 80, 2.0, in_memory=True)
    assert pace.most_bytes == 100


@given(
    st.floats(0.1, 1e5),
    st.lists(st.tuples(st.floats(0, 3), st.integers(0, 300_000)), max_size=40),
)
def test_over_any_time_no_more_is_read_than_that_time_and_a_second_allow(rate, wishes):
    pace, now, reads = Pace(rate), 100.0, []
    for later, n_rows in wishes:
        now += max(later, pace.wait_s(now))
        n_rows = min(n_rows, pace.most_rows)
        pace.took(n_rows, 0, now)
        reads.append((now, n_rows))
    for first, (began, _) in enumerate(reads):
        for last, (ended, _) in enumerate(reads[first:], first):
            n_read = sum(n for _, n in reads[first : last + 1])
            assert n_read <= max(1, (ended - began + 1.1) * rate) * 1.000001 + 1


# --------------------------------------------------------------------------------------------- a run


class Here:
    """Workers of this process."""

    n_cores = 2
    run = staticmethod(elsewhere)


class Timed(PipelineRunner):
    """A runner whose waiting takes no time: its clock is put forward instead, unless workers are to be waited for."""

    def __init__(self, folder: Path, text: str, **options: Any) -> None:
        self.now = 1000.0
        self.reads: list[tuple[float, int]] = []  # seconds since the beginning, rows
        pipeline = read_pipeline(text, folder / "eddyline.toml")
        super().__init__(pipeline, clock=lambda: self.now, on_event=self._note, **options)

    def _note(self, event: object) -> None:
        if isinstance(event, RoundCommitted) and event.n_rows:
            self.reads.append((round(self.now - 1000.0, 6), event.n_rows))

    def _wait(self, seconds: float) -> None:
        if self._feeds.is_busy():
            super()._wait(seconds)
        else:
            self.now += seconds


def write_json(folder: Path, name: str, n_rows: int) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("".join(json.dumps({"n": n, "price": 1.0}) + "\n" for n in range(n_rows)))


def test_a_limit_spreads_what_lies_ready_over_time(tmp_path):
    write_json(tmp_path / "in", "a.json", 25)
    write_json(tmp_path / "in", "b.json", 10)
    with Timed(tmp_path, STREAM + "[limits]\nrows_per_second = 10\n") as runner:
        assert runner.run(once=True).n_rows == 35
    assert runner.reads == [(0.0, 10), (1.0, 10), (2.0, 10), (3.0, 5)]


def test_rounds_that_are_smaller_than_a_second_allows_come_more_often(tmp_path):
    write_json(tmp_path / "in", "a.json", 12)
    with Timed(tmp_path, STREAM + "[limits]\nrows_per_second = 10\nrows_per_round = 5\n") as runner:
        runner.run(once=True)
    assert runner.reads == [(0.0, 5), (0.5, 5), (1.0, 2)]


def test_each_source_has_its_own_pace_and_a_stream_may_have_another(tmp_path):
    write_json(tmp_path / "in", "a.json", 20)
    write_json(tmp_path / "more", "a.json", 20)
    write_json(tmp_path / "rest", "a.json", 20)
    more = STREAM.replace("trades", "more").replace('"in"', '"more"') + "rows_per_second = 40\n"
    rest = STREAM.replace("trades", "rest").replace('"in"', '"rest"')
    with Timed(tmp_path, STREAM + more + rest + "[limits]\nrows_per_second = 10\n") as runner:
        runner.run(once=True)
    assert runner.reads == [(0.0, 10), (0.0, 20), (0.0, 10), (1.0, 10), (1.0, 10)]


def test_rows_that_do_not_fit_were_read_too(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text('nonsense\n{"n": 1}\nnonsense\n{"n": 2}\n')
    with Timed(tmp_path, STREAM + "[limits]\nrows_per_second = 2\n") as runner:
        assert runner.run(once=True).n_dead == 2
    assert runner.reads == [(0.0, 1), (1.0, 1)]


def test_workers_read_no_faster_but_for_a_piece_they_read_whole(tmp_path):
    (tmp_path / "in").mkdir()
    for k in range(12):
        table = pa.table({"n": range(100 * k, 100 * k + 100), "price": [float(n) for n in range(100)]})
        pq.write_table(table, tmp_path / "in" / f"{k:02}.parquet")
    measured: list[RoundMeasured] = []
    text = STREAM.replace("json", "parquet") + "[limits]\nrows_per_second = 200\njob_from_bytes = 1\n"
    with Timed(tmp_path, text, workers=Here()) as runner:
        runner.engine.query("SELECT n FROM trades", name="all")
        runner.engine.on_event(lambda e: measured.append(e) if isinstance(e, RoundMeasured) else None)
        runner.run(once=True)
        numbers = [
            n for _, part in runner.engine.rounds.durable.results() for n in part.rows.column("n").to_pylist()
        ]
        assert numbers == list(range(1200))
    assert measured  # what they were, after a first look in the driver
    assert len(measured) < len(runner.reads)
    n_read = 0
    for seconds, n_rows in runner.reads:
        n_read += n_rows
        assert n_read <= (seconds + 1.1) * 200 + 100, runner.reads
    assert runner.reads[-1][0] >= 3.0


@pytest.mark.parametrize("given", ["0", "-1", "nan", "inf", "'fast'"])
def test_a_limit_that_is_none_is_a_mistake(tmp_path, given):
    for text in (STREAM + f"[limits]\nrows_per_second = {given}\n", STREAM + f"rows_per_second = {given}\n"):
        with pytest.raises(PipelineError, match="rows_per_second"):
            read_pipeline(text, tmp_path / "eddyline.toml")
