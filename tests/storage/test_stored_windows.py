"""Rows that joins keep, and changes of tables, written and read back."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa

from eddyline.storage.stored_tables import TableBlock, read_table, write_table
from eddyline.storage.stored_windows import WindowBlock, read_windows, write_windows


def block(stream: str, rows: pa.RecordBatch, n_words: int, *inputs: tuple[str, int] | None) -> WindowBlock:
    n = np.arange(1, rows.num_rows + 1)
    wants = np.arange(rows.num_rows * n_words, dtype=np.uint64).reshape(-1, n_words)
    return WindowBlock(stream, rows, n, 10 * n, 100 * n, n + 1, n + 2, wants, inputs)


def again(*blocks: WindowBlock) -> list[WindowBlock]:
    file = io.BytesIO()
    write_windows(file, blocks)
    return list(read_windows(pa.py_buffer(file.getvalue())))


def assert_alike(found: WindowBlock, given: WindowBlock) -> None:
    assert (found.stream, found.inputs) == (given.stream, given.inputs)
    assert found.rows.equals(given.rows)
    assert found.rows.schema.metadata is None
    assert len(found) == found.rows.num_rows == len(given)
    for name in ("arrival", "position", "time_us", "version", "now_us", "wants"):
        assert np.array_equal(getattr(found, name), getattr(given, name)), name


def test_blocks_are_read_as_they_were_written():
    first = block("a", pa.record_batch({"k": [1, None, 3], "s": ["x", "", None]}), 1, ("a x b", 0), None)
    second = block("b", pa.record_batch({"k": [1.5]}), 3, *[None] * 130, ("a x b", 1))
    found = again(first, second)
    assert_alike(found[0], first)
    assert_alike(found[1], second)


def test_rows_without_a_column_keep_their_number():
    bare = pa.record_batch({"k": [1, 2]}).select([])
    found = again(block("a", bare, 1, ("a x b", 0)))
    assert found[0].rows.num_rows == len(found[0]) == 2
    assert found[0].rows.num_columns == 0


def test_a_column_may_be_called_like_a_mark():
    given = block("a", pa.record_batch({"_arrival": ["x"], "_wants:0": [True]}), 1, ("a x b", 0))
    assert_alike(again(given)[0], given)


def test_changes_of_tables_are_read_as_they_were_written():
    rows = pa.record_batch({"k": ["a", "b"], "v": [1, None]})
    file = io.BytesIO()
    marks = np.array([3, 5]), np.array([-7, 0]), np.array([False, True])
    versions = np.array([2, 4])
    write_table(
        file,
        [TableBlock("q", rows, *marks, versions), TableBlock("r", rows.slice(1), *(m[1:] for m in marks))],
    )
    first, second = read_table(pa.py_buffer(file.getvalue()))
    assert (first.stream, second.stream) == ("q", "r")
    assert first.rows.equals(rows)
    assert first.round_version is not None
    assert first.round_version.tolist() == [2, 4]
    assert second.round_version is None, "as in files of earlier releases"
    assert second.rows.to_pylist() == [{"k": "b", "v": None}]
    assert (first.arrival.tolist(), first.time_us.tolist(), first.is_delete.tolist()) == (
        [3, 5],
        [-7, 0],
        [False, True],
    )
