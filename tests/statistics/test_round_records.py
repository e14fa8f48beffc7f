"""What the last rounds took is kept beside the catalog and costs nothing if it is lost."""

from __future__ import annotations

import pytest

import eddyline
from eddyline.statistics import RoundRecord, RoundRecords, StageRecord, round_records


def record(number: int) -> RoundRecord:
    stage = StageRecord("filters", "trades", 10, 5, 0, 5, 80, 0.01)
    return RoundRecord(number, 1, 1_000, 0, 10, 5, 0, 0, 0.5, 0.1, 0.3, 0.0, 0.1, (stage,))


def test_records_are_found_again_in_the_folder(tmp_path):
    records = RoundRecords(tmp_path)
    for number in range(1, 4):
        records.add(record(number))
    records.close()
    assert RoundRecords(tmp_path).last(2) == [record(2), record(3)]


def test_a_full_file_begins_anew_and_the_one_before_it_stays(tmp_path, monkeypatch):
    monkeypatch.setattr(round_records, "MAX_RECORDS", 3)
    records = RoundRecords(tmp_path)
    for number in range(1, 9):
        records.add(record(number))
    records.close()
    assert [r.round_number for r in records.last(10)] == [6, 7, 8]
    assert [r.round_number for r in RoundRecords(tmp_path).last(10)] == [6, 7, 8]
    assert len(list(tmp_path.iterdir())) == 2
    again = RoundRecords(tmp_path)
    for number in range(9, 15):
        again.add(record(number))
    again.close()
    assert [r.round_number for r in RoundRecords(tmp_path).last(10)] == [12, 13, 14]


def test_lines_that_were_cut_short_are_left_out(tmp_path):
    records = RoundRecords(tmp_path)
    records.add(record(1))
    records.close()
    with open(tmp_path / "rounds.jsonl", "a") as file:
        file.write('{"round_number": 2, "ver')
    assert [r.round_number for r in RoundRecords(tmp_path).last(10)] == [1]


def test_a_folder_that_cannot_be_written_to_stops_nothing(tmp_path):
    records = RoundRecords(tmp_path / "nowhere")
    records.add(record(1))
    assert [r.round_number for r in records.last(10)] == [1]


@pytest.mark.parametrize("home", [None, "home"])
def test_a_round_says_what_each_stage_did(tmp_path, home):
    with eddyline.open(None if home is None else tmp_path / home) as engine:
        engine.stream("trades", "n INT")
        engine.query("SELECT n FROM trades WHERE n > 1")
        engine.push("trades", [{"n": 1}, {"n": 2}, {"n": 3}])
        engine.tick()
        first, second = engine.rounds.records.last(10)
    assert (first.round_number, first.n_rows, first.n_results, first.n_tasks) == (1, 3, 2, 0)
    (stage,) = first.stages
    assert (stage.stage, stage.stream, stage.n_rows, stage.n_candidates, stage.n_matches) == (
        "filters",
        "trades",
        3,
        2,
        2,
    )
    assert first.seconds == pytest.approx(first.plan_s + first.work_s + first.commit_s)
    assert (second.n_rows, second.stages) == (0, ())
