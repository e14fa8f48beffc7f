"""A folder by reference: the same rows, in the same order and with the same positions, as when it is read here."""

from __future__ import annotations

import json
import os
import pickle

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eddyline.model import Stream
from eddyline.sources import FileFormat, FolderPosition, FolderSource
from eddyline.sources import file_references as by_reference
from eddyline.sources.reading import read
from eddyline.sources.references import UnreadableReference

STREAM = Stream("s", pa.schema([("a", pa.int64()), ("b", pa.string())]))
ENOUGH = 1 << 40


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def source(folder, clock, format="json", position=None) -> FolderSource:
    return FolderSource(
        folder, FileFormat(format), STREAM, "UTC", position=position, poll_s=0, retry_s=1, clock=clock
    )


def json_file(folder, name, *values) -> None:
    (folder / name).write_text("".join(json.dumps({"a": a, "b": str(a)}) + "\n" for a in values))


def parquet_file(folder, name, n, group_size) -> None:
    table = pa.table({"a": pa.array(range(n), pa.int64()), "b": [str(k) * 20 for k in range(n)]})
    pq.write_table(table, folder / name, row_group_size=group_size)


def rows_of(planned) -> list[int]:
    return [
        a
        for reference in planned.references
        for ingested in read(pickle.loads(pickle.dumps(reference)), STREAM, "UTC")
        for a in ingested.rows.column("a").to_pylist()
    ]


def taken_all(folder, clock, format="json") -> tuple[list[int], object]:
    reader, found, position = source(folder, clock, format), [], None
    while (taken := reader.take(7, 1 << 20)) is not None:
        found += taken.rows.rows.column("a").to_pylist()
        position = taken.position
    return found, position


def test_planning_moves_nothing_and_a_committed_plan_moves_behind_it(tmp_path, clock):
    json_file(tmp_path, "1.json", 1, 2)
    json_file(tmp_path, "2.json", 3)
    folder = source(tmp_path, clock)
    first, again = folder.plan(ENOUGH, ENOUGH), folder.plan(ENOUGH, ENOUGH)
    assert first.references == again.references
    assert rows_of(first) == [1, 2, 3]
    folder.move_to(first.position([]))
    assert folder.plan(ENOUGH, ENOUGH) is None
    assert folder.take(10, ENOUGH) is None
    json_file(tmp_path, "3.json", 4)
    assert rows_of(folder.plan(ENOUGH, ENOUGH)) == [4]


def test_the_position_is_the_one_reading_here_gives(tmp_path, clock):
    for k in range(5):
        json_file(tmp_path, f"{k}.json", 10 * k, 10 * k + 1)
    planned = source(tmp_path, clock).plan(ENOUGH, ENOUGH)
    expected, position = taken_all(tmp_path, clock)
    assert rows_of(planned) == expected
    assert planned.position([]) == position


def test_reading_here_and_by_reference_take_turns(tmp_path, clock):
    for k in range(6):
        json_file(tmp_path, f"{k}.json", *range(10 * k, 10 * k + 4))
    folder, found = source(tmp_path, clock), []
    found += folder.take(4, ENOUGH).rows.rows.column("a").to_pylist()
    planned = folder.plan(ENOUGH, 30)
    found += rows_of(planned)
    folder.move_to(planned.position([]))
    found += folder.take(6, ENOUGH).rows.rows.column("a").to_pylist()
    planned = folder.plan(ENOUGH, ENOUGH)
    found += rows_of(planned)
    folder.move_to(planned.position([]))
    assert found == taken_all(tmp_path, clock)[0]


def test_a_large_parquet_file_is_cut_between_row_groups(tmp_path, clock, monkeypatch):
    monkeypatch.setattr(by_reference, "PIECE_BYTES", 1_000)
    parquet_file(tmp_path, "1.parquet", 1_000, 100)
    folder = source(tmp_path, clock, "parquet")
    planned = folder.plan(ENOUGH, 3_000)
    n = len(rows_of(planned))
    assert 100 <= n < 1_000
    assert n % 100 == 0
    stored = json.loads(json.dumps(planned.position([])))
    later = source(tmp_path, clock, "parquet", FolderPosition.from_json(stored))
    rest = later.plan(ENOUGH, ENOUGH)
    assert len(rest.references) > 1
    assert rows_of(planned) + rows_of(rest) == list(range(1_000))
    later.move_to(rest.position([]))
    assert later.plan(ENOUGH, ENOUGH) is None
    mixed = source(tmp_path, clock, "parquet", FolderPosition.from_json(stored))
    taken = []
    while (more := mixed.take(64, ENOUGH)) is not None:
        taken += more.rows.rows.column("a").to_pylist()
    assert taken == list(range(n, 1_000))


def test_a_file_that_changed_after_planning_is_refused_and_then_read_here(tmp_path, clock):
    json_file(tmp_path, "1.json", 1)
    folder = source(tmp_path, clock)
    planned = folder.plan(ENOUGH, ENOUGH)
    json_file(tmp_path, "1.json", 1, 2)
    with pytest.raises(UnreadableReference) as refused:
        rows_of(planned)
    folder.note_refusal(planned.references[0], str(refused.value))
    assert folder.plan(ENOUGH, ENOUGH) is None
    assert folder.take(10, ENOUGH).rows.rows.column("a").to_pylist() == [1, 2]


def test_a_corrupt_file_is_tried_three_times_then_set_aside_and_the_rest_is_read(tmp_path, clock):
    (tmp_path / "1.parquet").write_bytes(b"PAR1 not really")
    parquet_file(tmp_path, "2.parquet", 3, 10)
    folder = source(tmp_path, clock, "parquet")
    for _ in range(3):
        planned = folder.plan(ENOUGH, ENOUGH)
        with pytest.raises(UnreadableReference) as refused:
            rows_of(planned)
        folder.note_refusal(planned.references[0], str(refused.value))
        assert not folder.plan(ENOUGH, ENOUGH) or folder._aside
        clock.now += 2
    planned = folder.plan(ENOUGH, ENOUGH)
    assert rows_of(planned) == [0, 1, 2]
    (misfit,) = planned.misfits
    assert misfit.error == "FILE_CANNOT_BE_READ"
    assert misfit.message.startswith("file 1.parquet: ")
    assert misfit.message.endswith("(tried 3 times)")
    folder.move_to(planned.position([]))
    assert folder.plan(ENOUGH, ENOUGH) is None


def test_a_file_that_vanished_before_it_was_read_is_set_aside(tmp_path, clock):
    json_file(tmp_path, "1.json", 1)
    json_file(tmp_path, "2.json", 2)
    folder = source(tmp_path, clock)
    planned = folder.plan(ENOUGH, ENOUGH)
    os.unlink(tmp_path / "1.json")
    with pytest.raises(UnreadableReference, match="it is gone"):
        rows_of(planned)
    folder.note_refusal(planned.references[0], "it is gone")
    clock.now += 2
    planned = folder.plan(ENOUGH, ENOUGH)
    assert rows_of(planned) == [2]
    assert [m.row["_file"] for m in planned.misfits] == ["1.json"]


def test_a_file_that_changed_after_it_was_finished_is_told_once_with_a_round(tmp_path, clock):
    json_file(tmp_path, "1.json", 1)
    folder = source(tmp_path, clock)
    folder.move_to(folder.plan(ENOUGH, ENOUGH).position([]))
    json_file(tmp_path, "1.json", 1, 2, 3)
    folder.plan(ENOUGH, ENOUGH)
    planned = folder.plan(ENOUGH, ENOUGH)
    assert [m.error for m in planned.misfits] == ["FILE_CHANGED"]
    assert len(planned.events) == 1
    folder.move_to(planned.position([]))
    assert folder.plan(ENOUGH, ENOUGH) is None


def test_how_much_lies_ready_is_said_in_bytes(tmp_path, clock):
    folder = source(tmp_path, clock)
    assert folder.backlog_bytes() == 0
    json_file(tmp_path, "1.json", *range(10))
    clock.now += 1
    assert folder.backlog_bytes() == (tmp_path / "1.json").stat().st_size
