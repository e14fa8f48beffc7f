"""A folder as a source: order, limits, positions, and files that are not as they should be."""

from __future__ import annotations

import gzip
import json
import os
import random
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eddyline.events import FileChanged, FileSetAside
from eddyline.model import Stream
from eddyline.sources import FileFormat, FolderPosition, FolderSource, SourceError, infer_schema
from eddyline.sources.lines import LineQueue
from eddyline.sources.positions import REMEMBERED_FILES

NUMBERS = Stream("numbers", infer_schema("n INT"))
BYTES = 1 << 30


class Clock:
    """A clock that stands still until it is told."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Folder:
    """A folder and the source that reads it, through restarts."""

    def __init__(self, path: Path, format: str = "json", stream: Stream = NUMBERS, **options) -> None:
        self.path, self.stream, self.options = path, stream, options
        self.format = FileFormat(format, options.pop("columns", ()), options.pop("delimiter", ","))
        self.clock = Clock()
        self.position = None
        self.restart()

    def restart(self) -> None:
        """What a process does after a crash: begin at the last committed position."""
        self.source = FolderSource(
            self.path,
            self.format,
            self.stream,
            "UTC",
            position=FolderPosition.from_json(json.loads(json.dumps(self.position))),
            clock=self.clock,
            **self.options,
        )

    def take(self, max_rows: int = 1000, max_bytes: int = BYTES):
        self.clock.now += 10
        taken = self.source.take(max_rows, max_bytes)
        if taken is not None:
            self.position = taken.position
        return taken

    def numbers(self, max_rows: int = 1000, max_bytes: int = BYTES) -> list[int]:
        """The rows of one take."""
        taken = self.take(max_rows, max_bytes)
        return [] if taken is None else taken.rows.rows.column("n").to_pylist()

    def all(self, max_rows: int = 1000, max_bytes: int = BYTES) -> list[int]:
        """The rows of takes until there is nothing more."""
        found: list[int] = []
        while (taken := self.take(max_rows, max_bytes)) is not None:
            found += taken.rows.rows.column("n").to_pylist()
        return found

    def write(self, name: str, *numbers: int) -> None:
        table = pa.table({"n": pa.array(numbers, pa.int32())})
        path = self.path / name
        if self.format.name == "json":
            path.write_text("".join(f'{{"n": {n}}}\n' for n in numbers))
        elif self.format.name == "csv":
            path.write_text("n\n" + "".join(f"{n}\n" for n in numbers))
        elif self.format.name == "parquet":
            pq.write_table(table, path, row_group_size=3)
        else:
            with pa.ipc.new_file(path, table.schema) as writer:
                writer.write_table(table, max_chunksize=3)


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path)


# --------------------------------------------------------------------------------------------- order and limits


@pytest.mark.parametrize("format", ["json", "csv", "parquet", "arrow"])
def test_files_are_read_in_name_order_and_small_ones_share_a_round(tmp_path, format):
    folder = Folder(tmp_path, format)
    folder.write(f"b.{format}", 3, 4)
    folder.write(f"a.{format}", 1, 2)
    assert folder.numbers() == [1, 2, 3, 4]
    assert folder.numbers() == []
    folder.write(f"c.{format}", 5)
    assert folder.numbers() == [5]


@pytest.mark.parametrize("format", ["json", "csv", "parquet", "arrow"])
def test_a_large_file_is_cut_into_rounds_and_read_on_after_a_restart_at_any_place(tmp_path, format):
    folder = Folder(tmp_path, format)
    folder.write(f"a.{format}", *range(10))
    folder.write(f"b.{format}", *range(10, 14))
    rounds = []
    for size in (1, 4, 3, 2, 3, 5):
        rounds.append(folder.numbers(max_rows=size))
        folder.restart()
    assert rounds == [[0], [1, 2, 3, 4], [5, 6, 7], [8, 9], [10, 11, 12], [13]]
    assert folder.numbers() == []


@pytest.mark.parametrize("format", ["json", "csv", "parquet", "arrow"])
def test_a_round_is_bounded_by_bytes_too(tmp_path, format):
    folder = Folder(tmp_path, format)
    folder.write(f"a.{format}", *range(100))
    first = folder.numbers(max_bytes=40)
    assert 1 <= len(first) <= 40
    assert first + folder.all(max_bytes=40) == list(range(100))


@pytest.mark.parametrize("format", ["json", "csv", "parquet", "arrow"])
def test_no_row_is_lost_or_repeated_however_often_it_restarts(tmp_path, format):
    folder, dice = Folder(tmp_path, format), random.Random(5)
    expected, found, n = [], [], 0
    for number in range(40):
        if dice.random() < 0.4:
            values = list(range(n, n + dice.randrange(0, 9)))
            n += len(values)
            expected += values
            folder.write(f"{number:03d}.{format}", *values)
        if dice.random() < 0.5:
            folder.restart()
        taken = folder.take(max_rows=dice.randrange(1, 8))
        if taken is not None:
            found += taken.rows.rows.column("n").to_pylist()
    assert found + folder.all(max_rows=3) == expected


def test_a_take_whose_round_was_not_committed_comes_again_after_a_restart(folder):
    folder.write("a.json", 1, 2, 3)
    assert folder.numbers(max_rows=1) == [1]
    committed = folder.position
    assert folder.numbers(max_rows=1) == [2]
    folder.position = committed
    folder.restart()
    assert folder.all() == [2, 3]


def test_only_names_with_the_usual_endings_are_read_or_those_of_the_pattern(tmp_path):
    for name in ("a.json", "b.jsonl", "c.NDJSON", "d.txt", ".e.json", "_f.json", "g.log"):
        Folder(tmp_path).write(name, ord(name.lstrip("._")[0]))
    (tmp_path / "h.json").mkdir()
    assert [chr(n) for n in Folder(tmp_path).numbers()] == ["a", "b", "c"]
    assert [chr(n) for n in Folder(tmp_path, glob="*.log").numbers()] == ["g"]


def test_compressed_lines_are_read_and_read_on(tmp_path):
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(b"".join(b'{"n": %d}\n' % n for n in range(10))))
    folder = Folder(tmp_path)
    assert folder.numbers(max_rows=6) == [0, 1, 2, 3, 4, 5]
    folder.restart()
    assert folder.numbers() == [6, 7, 8, 9]


def test_a_json_array_is_read_element_by_element(folder):
    (folder.path / "a.json").write_text(' \n[ {"n": 1}, {"n": 2} , {"n": "x"}, 7, {"n": 3}]\n')
    assert folder.numbers(max_rows=2) == [1, 2]
    folder.restart()
    taken = folder.take()
    assert taken.rows.rows.column("n").to_pylist() == [3]
    assert [m.message for m in taken.rows.misfits] == [
        "the element is a number, not an object (a.json, element 4)",
        "column n: 'x' is not INT (a.json, element 3)",
    ]
    (folder.path / "b.json").write_text("[]")
    assert folder.numbers() == []


def test_a_json_array_larger_than_a_block_is_read_in_pieces(folder, monkeypatch):
    monkeypatch.setattr("eddyline.sources.readers.BLOCK_BYTES", 16)
    (folder.path / "a.json").write_text(json.dumps([{"n": n} for n in range(50)]))
    assert folder.all(max_rows=7) == list(range(50))


def test_a_mark_at_the_beginning_of_a_text_file_is_passed_over(tmp_path):
    (tmp_path / "a.json").write_bytes(b'\xef\xbb\xbf{"n": 1}\n')
    (tmp_path / "b.json").write_bytes(b'\xef\xbb\xbf[{"n": 2}]')
    assert Folder(tmp_path).numbers() == [1, 2]
    (tmp_path / "c.csv").write_bytes(b"\xef\xbb\xbfn\n3\n")
    assert Folder(tmp_path, "csv").numbers() == [3]


def test_csv_without_a_header_has_its_columns_given(tmp_path):
    (tmp_path / "a.csv").write_text("x;1\ny;2\n")
    folder = Folder(
        tmp_path, "csv", Stream("s", infer_schema("s STRING, n INT")), columns=("s", "n"), delimiter=";"
    )
    assert folder.numbers() == [1, 2]


def test_a_csv_row_over_several_lines_is_one_row_also_after_a_restart(tmp_path):
    (tmp_path / "a.csv").write_text('s,n\n"a\nb",1\n"c\n\nd",2\ne,x\n')
    folder = Folder(tmp_path, "csv", Stream("s", infer_schema("s STRING, n INT")))
    assert folder.numbers(max_rows=1) == [1]
    folder.restart()
    taken = folder.take()
    assert taken.rows.rows.to_pylist() == [{"s": "c\n\nd", "n": 2}]
    assert [m.message for m in taken.rows.misfits] == ["column n: 'x' is not INT (a.csv, line 7)"]


def test_columns_a_file_does_not_have_are_null(tmp_path):
    wide = Stream("s", infer_schema("n INT, later STRING"))
    for format in ("json", "csv", "parquet", "arrow"):
        Folder(tmp_path, format).write(f"a.{format}", 1)
        taken = Folder(tmp_path, format, wide).take()
        assert taken.rows.rows.to_pylist() == [{"n": 1, "later": None}]


def test_an_arrow_stream_is_read_as_well_as_an_arrow_file(tmp_path):
    table = pa.table({"n": pa.array(range(5), pa.int64())})
    with pa.ipc.new_stream(tmp_path / "a.arrows", table.schema) as writer:
        writer.write_table(table, max_chunksize=2)
    folder = Folder(tmp_path, "arrow")
    assert folder.numbers(max_rows=3) == [0, 1, 2]
    folder.restart()
    assert folder.all() == [3, 4]


def test_rows_with_their_own_arrival_numbers_make_rounds_of_their_own(folder):
    folder.write("a.json", 1)
    (folder.path / "b.json").write_text('{"n": 2, "_arrival": 50}\n')
    (folder.path / "c.json").write_text('{"n": 3, "_arrival": 40}\n')
    folder.write("d.json", 4)
    takes = []
    while (taken := folder.take()) is not None:
        arrival = taken.rows.arrival
        takes.append((taken.rows.rows.column("n").to_pylist(), None if arrival is None else arrival.tolist()))
    assert takes == [([1], None), ([2], [50]), ([3], [40]), ([4], None)]


def test_empty_files_are_finished_without_a_round(tmp_path):
    for format in ("json", "csv"):
        (tmp_path / f"a.{format}").write_text("")
        folder = Folder(tmp_path, format)
        assert folder.take() is None
        assert not folder.source.is_pending


# --------------------------------------------------------------------------------------------- names


def test_a_name_that_comes_out_of_order_is_read_all_the_same(folder):
    folder.write("b.json", 2)
    assert folder.numbers() == [2]
    folder.restart()
    folder.write("a.json", 1)
    assert folder.numbers() == [1]


def test_the_position_does_not_grow_with_the_folder(folder):
    for number in range(REMEMBERED_FILES + 50):
        folder.write(f"{number:04d}.json", number)
    assert len(folder.all(max_rows=7)) == REMEMBERED_FILES + 50
    folder.write("9999.json", 9999)
    assert folder.numbers() == [9999]
    assert len(folder.position["done"]) == REMEMBERED_FILES
    assert folder.position["floor"] == "0050.json"
    folder.restart()
    assert folder.all() == []


def test_a_name_that_comes_far_too_late_is_set_aside_and_said(folder):
    for number in range(REMEMBERED_FILES + 2):
        folder.write(f"m{number:04d}.json", number)
    folder.all()
    folder.write("a.json", 1)
    taken = folder.take()
    assert taken.rows.rows.num_rows == 0
    assert [type(event) for event in taken.events] == [FileSetAside]
    assert taken.rows.misfits[0].error == "FILE_CAME_LATE"
    assert taken.rows.misfits[0].row == {"_file": "a.json"}
    assert folder.take() is None


def test_a_name_that_cannot_be_written_down_is_set_aside(folder):
    folder.write("a.json", 1)
    with open(os.fsencode(folder.path) + b"/b\xff.json", "wb"):
        pass
    taken = folder.take()
    assert taken.rows.rows.num_rows == 1
    assert taken.events == [FileSetAside(0, "numbers", r"'b\udcff.json'", taken.events[0].message)]


def test_a_folder_is_listed_only_if_it_changed(folder, monkeypatch):
    folder.write("a.json", 1)
    os.utime(folder.path, (1, 1))
    assert folder.numbers() == [1]
    lists = []
    monkeypatch.setattr(os, "scandir", lambda path: lists.append(path))
    assert folder.numbers() == []
    assert lists == []
    monkeypatch.undo()
    folder.write("b.json", 2)
    assert folder.numbers() == [2]


def test_a_folder_is_not_looked_at_more_often_than_it_should_be(tmp_path):
    folder = Folder(tmp_path, poll_s=60.0)
    assert folder.take() is None
    assert folder.source.wait_s() == 60.0
    folder.write("a.json", 1)
    assert folder.take() is None
    folder.clock.now += 60
    assert folder.numbers() == [1]


def test_a_folder_that_is_gone_is_an_error_that_can_be_waited_out(tmp_path):
    folder = Folder(tmp_path / "in")
    with pytest.raises(SourceError) as failed:
        folder.take()
    assert failed.value.problem == "the folder of stream numbers cannot be read"
    assert str(tmp_path) not in str(failed.value)
    folder.path.mkdir()
    folder.write("a.json", 1)
    assert folder.numbers() == [1]


# --------------------------------------------------------------------------------------------- faults


@pytest.mark.parametrize(
    ("format", "content"), [("parquet", b"PAR1 nonsense"), ("arrow", b"ARROW1nonsense"), ("json", b"[{")]
)
def test_a_corrupt_file_is_tried_again_then_set_aside_and_reading_goes_on(tmp_path, format, content):
    folder = Folder(tmp_path, format)
    (tmp_path / f"a.{format}").write_bytes(content)
    folder.write(f"b.{format}", 2)
    assert folder.take() is None
    assert folder.source.is_pending
    assert folder.take() is None
    taken = folder.take()
    assert taken.rows.rows.column("n").to_pylist() == [2]
    [misfit] = taken.rows.misfits
    assert misfit.error == "FILE_CANNOT_BE_READ"
    assert misfit.row == {"_file": f"a.{format}"}
    assert misfit.message.startswith(f"file a.{format}: ")
    assert misfit.message.endswith("(tried 3 times)")
    assert [type(event) for event in taken.events] == [FileSetAside]
    folder.restart()
    assert folder.take() is None


def test_rows_that_were_read_before_the_folder_went_are_not_lost(folder, monkeypatch):
    folder.write("a.json", 1, 2)
    assert folder.numbers(max_rows=1) == [1]
    folder.restart()

    def gone(found):
        raise SourceError("the folder has gone")

    monkeypatch.setattr(folder.source, "_look", gone)
    assert folder.numbers() == [2]
    with pytest.raises(SourceError):
        folder.take()


def test_what_is_said_about_a_file_does_not_tell_its_folder(tmp_path, monkeypatch):
    folder = Folder(tmp_path, "parquet")
    folder.write("a.parquet", 1)

    def refuse(path):
        raise OSError(5, f"Failed to open local file '{path}'")

    monkeypatch.setattr("pyarrow.parquet.ParquetFile", refuse)
    assert (folder.take(), folder.take()) == (None, None)
    assert folder.take().rows.misfits[0].message == (
        "file a.parquet: Failed to open local file 'a.parquet' (tried 3 times)"
    )


def test_a_file_still_being_written_is_read_when_it_is_whole(tmp_path):
    folder = Folder(tmp_path, "parquet")
    folder.write("a.parquet", 1, 2, 3)
    whole = (tmp_path / "a.parquet").read_bytes()
    for part in (10, 100, 200, 300):
        (tmp_path / "a.parquet").write_bytes(whole[:part])
        assert folder.take() is None
    (tmp_path / "a.parquet").write_bytes(whole)
    assert folder.numbers() == [1, 2, 3]


def test_the_rest_of_a_file_that_breaks_off_is_set_aside(folder):
    (folder.path / "a.json").write_text('[{"n": 1}, {"n": 2}, {"n')
    assert folder.numbers(max_rows=2) == [1, 2]
    assert folder.take() is None
    assert folder.take() is None
    taken = folder.take()
    assert taken.rows.misfits[0].message.startswith(
        "file a.json: the rest of it, after 2 rows, is set aside: element 3 is not JSON"
    )


def test_a_file_whose_columns_can_never_fit_is_set_aside_at_once(tmp_path):
    strict = Stream("numbers", infer_schema("n INT NOT NULL"))
    folder = Folder(tmp_path, "parquet", strict)
    pq.write_table(pa.table({"m": [1]}), tmp_path / "a.parquet")
    folder.write("b.parquet", 2)
    taken = folder.take()
    assert taken.rows.rows.column("n").to_pylist() == [2]
    assert taken.rows.misfits[0].message == (
        "file a.parquet: column n is missing, and stream numbers does not allow NULL there. "
        "numbers.n is gone from file a.parquet. Mend the data, or declare the column without NOT NULL."
    )
    folder = Folder(tmp_path, "csv", strict)
    (tmp_path / "a.csv").write_text("m\n1\n")
    assert "column n is missing" in folder.take().rows.misfits[0].message


def test_rows_that_do_not_fit_are_set_apart_and_the_file_named(tmp_path):
    folder = Folder(tmp_path, "parquet")
    pq.write_table(pa.table({"n": [1, 2**40, 3]}), tmp_path / "a.parquet")
    taken = folder.take()
    assert taken.rows.rows.column("n").to_pylist() == [1, 3]
    assert [m.message for m in taken.rows.misfits] == [f"column n: {2**40} does not fit INT (a.parquet)"]


def test_a_finished_file_that_changes_is_noticed_once_and_not_read_again(folder):
    folder.write("a.json", 1, 2)
    folder.numbers()
    folder.restart()
    folder.write("a.json", 1)
    taken = folder.take()
    message = "file a.json shrank after it was read; its rows are not read again"
    assert taken.events == [FileChanged(0, "numbers", "a.json", message)]
    assert [(m.error, m.message) for m in taken.rows.misfits] == [("FILE_CHANGED", message)]
    folder.restart()
    assert folder.take() is None


def test_a_file_of_lines_that_grows_while_it_is_read_is_read_on(folder):
    folder.write("a.json", 1, 2, 3)
    assert folder.numbers(max_rows=2) == [1, 2]
    folder.write("a.json", 1, 2, 3, 4)
    folder.restart()
    taken = folder.take()
    assert taken.rows.rows.column("n").to_pylist() == [3, 4]
    assert taken.events == [FileChanged(0, "numbers", "a.json", "file a.json grew while it was read")]


def test_the_rest_of_a_file_that_shrinks_while_it_is_read_is_set_aside(folder):
    folder.write("a.json", 1, 2, 3)
    folder.write("b.json", 9)
    assert folder.numbers(max_rows=2) == [1, 2]
    folder.write("a.json", 1)
    taken = folder.take()
    assert taken.rows.rows.column("n").to_pylist() == [9]
    assert [type(event) for event in taken.events] == [FileChanged, FileSetAside]
    assert [m.error for m in taken.rows.misfits] == ["FILE_CHANGED"]


def test_a_file_that_vanishes_while_it_is_read_is_set_aside(folder):
    folder.write("a.json", 1, 2)
    folder.write("b.json", 9)
    assert folder.numbers(max_rows=1) == [1]
    (folder.path / "a.json").unlink()
    assert folder.take() is None
    assert folder.take() is None
    taken = folder.take()
    assert taken.rows.rows.column("n").to_pylist() == [9]
    assert (
        taken.rows.misfits[0].message
        == "file a.json: the rest of it, after 1 rows, is set aside: it is gone (tried 3 times)"
    )


def test_a_finished_file_may_be_removed(folder):
    folder.write("a.json", 1)
    folder.numbers()
    (folder.path / "a.json").unlink()
    folder.restart()
    assert folder.take() is None


def test_a_stream_that_gets_a_column_is_read_on_in_its_new_schema(folder):
    (folder.path / "a.json").write_text('{"n": 1}\n{"n": 2, "later": "x"}\n')
    assert folder.numbers(max_rows=1) == [1]
    folder.source.redeclare(Stream("numbers", infer_schema("n INT, later STRING")))
    assert folder.take().rows.rows.to_pylist() == [{"n": 2, "later": "x"}]


def test_a_file_of_lines_is_never_all_in_memory(folder, monkeypatch):
    monkeypatch.setattr("eddyline.sources.readers.BLOCK_BYTES", 64)
    folder.write("a.json", *range(1000))
    lengths, add = [], LineQueue.add

    def watched(queue, lines):
        add(queue, lines)
        lengths.append(len(queue))

    monkeypatch.setattr(LineQueue, "add", watched)
    assert folder.all(max_rows=10) == list(range(1000))
    assert max(lengths) < 20


WHOLE = {}


def whole(format: str) -> bytes:
    """A file as it should be."""
    if format not in WHOLE:
        with tempfile.TemporaryDirectory() as name:
            folder = Folder(Path(name), format)
            folder.write("a", *range(20))
            WHOLE[format] = (folder.path / "a").read_bytes()
    return WHOLE[format]


texts = st.text(st.sampled_from('{}[]",:\n\r n1\\é\x00-.e'), max_size=80).map(str.encode)
damages = st.lists(st.tuples(st.integers(0, 2000), st.binary(min_size=1, max_size=3)), max_size=4)


@pytest.mark.parametrize("format", ["json", "csv", "parquet", "arrow"])
@given(content=st.one_of(texts, st.binary(max_size=40), damages))
def test_whatever_is_in_a_file_the_next_one_is_read(format, content):
    if isinstance(content, list):
        damaged = bytearray(whole(format))
        for at, piece in content:
            damaged[at % len(damaged) : at % len(damaged) + len(piece)] = piece
        content = bytes(damaged)
    with tempfile.TemporaryDirectory() as name:
        folder = Folder(Path(name), format)
        (folder.path / f"a.{format}").write_bytes(content)
        folder.write(f"b.{format}", 4242)
        found: list[int] = []
        while True:
            taken = folder.take(max_rows=7)
            if taken is not None:
                found += taken.rows.rows.column("n").to_pylist()
            elif not folder.source.is_pending:
                break
        assert found[-1] == 4242
