from __future__ import annotations

import datetime
import io
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pyarrow as pa

from eddyline.model import DeadLetter
from eddyline.storage.outbox import (
    StoredPart,
    read_capture,
    read_dead_letters,
    read_numbered_capture,
    read_parts,
    write_capture,
    write_dead_letters,
    write_parts,
)


def written(write, *arguments) -> pa.Buffer:
    file = io.BytesIO()
    write(file, *arguments)
    return pa.py_buffer(file.getvalue())


def part(ids: list[int], rows: pa.RecordBatch) -> StoredPart:
    n = len(ids)
    return StoredPart(
        np.array(ids, np.int32),
        np.array([1, 2, 3][:n], np.int32),
        np.array([10, 20, 30][:n], np.int64),
        np.array([1, -1, 1][:n], np.int8),
        np.array([False, True, False][:n]),
        rows,
    )


def test_parts_come_back_as_they_were_written():
    rows = pa.RecordBatch.from_pydict(
        {
            "sym": ["A", None, "Ω"],
            "price": pa.array([1.5, float("nan"), None]),
            "day": pa.array([datetime.date(2024, 5, 1), None, datetime.date(1, 1, 1)]),
            "amount": pa.array([Decimal("1.10"), None, Decimal("-0.01")], pa.decimal128(10, 2)),
            "tags": pa.array([["a", None], [], None]),
            "at": pa.array([1, None, -1], pa.timestamp("us", tz="UTC")),
        }
    )
    other = pa.RecordBatch.from_pydict({"n": pa.array([7], pa.int32())})
    first, second = read_parts(written(write_parts, [part([5, 6, 5], rows), part([9], other)]))
    assert first.query_ids.tolist() == [5, 6, 5]
    assert first.generations.tolist() == [1, 2, 3]
    assert first.arrivals.tolist() == [10, 20, 30]
    assert first.signs.tolist() == [1, -1, 1]
    assert first.is_late.tolist() == [False, True, False]
    assert first.rows.schema == rows.schema
    assert str(first.rows.to_pylist()) == str(rows.to_pylist())
    assert second.rows.to_pylist() == [{"n": 7}]


def test_results_may_have_columns_named_like_the_marks():
    rows = pa.RecordBatch.from_arrays([pa.array(["x"]), pa.array([1])], names=["_query", "_arrival"])
    (found,) = read_parts(written(write_parts, [part([5], rows)]))
    assert found.query_ids.tolist() == [5]
    assert found.rows.to_pylist() == [{"_query": "x", "_arrival": 1}]


def test_columns_of_one_name_stay_two_columns():
    rows = pa.RecordBatch.from_arrays([pa.array([1]), pa.array([2])], names=["n", "n"])
    (found,) = read_parts(written(write_parts, [part([5], rows)]))
    assert [column.to_pylist() for column in found.rows.columns] == [[1], [2]]


def test_a_stored_part_narrows_to_some_of_its_results():
    rows = pa.RecordBatch.from_pydict({"n": [1, 2, 3]})
    narrow = part([5, 6, 7], rows).narrow_copy(np.array([2, 0]))
    assert narrow.query_ids.tolist() == [7, 5]
    assert narrow.arrivals.tolist() == [30, 10]
    assert narrow.rows.to_pylist() == [{"n": 3}, {"n": 1}]


def test_what_calls_gave_comes_back_beside_the_results_and_not_in_them():
    rows = pa.RecordBatch.from_pydict({"n": [1, 2, 3], "ticket:1": ["a", "b", "c"]})
    names = ["ticket:1", "draw:2"]
    recorded = pa.RecordBatch.from_arrays(
        [pa.array([7, None, 9], pa.int32()), pa.array(["x", "y", None])], names
    )
    first = replace(part([5, 6, 7], rows), recorded=recorded)
    found, plain = read_parts(written(write_parts, [first, part([8, 9, 8], rows)]))
    assert found.rows == plain.rows == rows
    assert found.recorded == recorded
    assert plain.recorded is None
    assert found.rows.schema.metadata is None
    assert found.nbytes > plain.nbytes
    narrow = found.narrow_copy(np.array([2, 0]))
    assert narrow.recorded.to_pylist() == [{"ticket:1": 9, "draw:2": None}, {"ticket:1": 7, "draw:2": "x"}]


def test_a_file_written_before_values_were_recorded_is_read_as_it_was():
    """Byte by byte as earlier versions wrote it: the marks and the result, nothing said in the metadata."""
    schema = pa.schema(
        [
            ("_query", pa.int32()),
            ("_generation", pa.int32()),
            ("_arrival", pa.int64()),
            ("_sign", pa.int8()),
            ("_late", pa.bool_()),
            ("n", pa.int64()),
        ]
    )
    columns = [[5], [1], [10], [1], [False], [42]]
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))
    block = sink.getvalue().to_pybytes()
    (found,) = read_parts(pa.py_buffer(len(block).to_bytes(8, "little") + block))
    assert found.rows.to_pylist() == [{"n": 42}]
    assert found.recorded is None
    rows = pa.RecordBatch.from_pydict({"n": [42]})
    assert (
        written(write_parts, [part([5], rows)]).to_pybytes()[8:] == block
    )  # and so is a new one without them


def test_dead_letters_come_back_with_what_json_does_not_have_as_text():
    letters = [
        DeadLetter(3, "trades", {"sym": "Ω", "at": datetime.date(2024, 5, 1)}, "DIVIDE_BY_ZERO", "0", 7, "cheap", 12),
        DeadLetter(3, "trades", {"price": float("nan")}, "ROW_DOES_NOT_FIT", "two\nlines"),
    ]  # fmt: skip
    first, second = read_dead_letters(written(write_dead_letters, letters))
    assert first.row == {"sym": "Ω", "at": "2024-05-01"}
    assert (first.error, first.query_id, first.query, first.arrival) == ("DIVIDE_BY_ZERO", 7, "cheap", 12)
    assert second.message == "two\nlines"
    assert str(second.row) == "{'price': nan}"
    assert second.query_id is None


class Unspeakable:
    def __str__(self) -> str:
        raise RuntimeError("not even text")


def test_a_row_nobody_can_write_down_is_still_a_dead_letter():
    loop: list[object] = []
    loop.append(loop)
    rows = [{"sym": "\ud800"}, {"sym": {(1, 2): 3}}, {"sym": loop}, {"sym": Unspeakable()}]
    letters = [DeadLetter(1, "trades", row, "ROW_DOES_NOT_FIT", "") for row in rows]
    assert [letter.row for letter in read_dead_letters(written(write_dead_letters, letters))] == [
        {"sym": "\ud800"},
        {"sym": "{(1, 2): 3}"},
        {"sym": "[[...]]"},
        {"sym": "a Unspeakable that cannot be shown: RuntimeError"},
    ]


def test_a_capture_has_the_rows_of_every_stream():
    trades = pa.RecordBatch.from_pydict({"sym": ["A"], "price": [1.0]})
    news = pa.RecordBatch.from_pydict({"score": pa.array([1, 2], pa.int16())})
    found = list(read_capture(written(write_capture, [("trades", trades), ("news", news)])))
    assert found == [("trades", trades), ("news", news)]


def test_a_capture_says_which_rows_came_late():
    rows = pa.RecordBatch.from_pydict({"n": [1, 2, 3]})
    marks = {"a": np.array([False, True, False]), "b": np.zeros(3, dtype=bool)}
    numbers = {"a": np.array([5, 7, 9]), "b": np.array([6, 8, 10])}
    buffer = written(
        lambda file, _: write_capture(file, [("a", rows), ("b", rows)], numbers, None, marks), None
    )
    late, in_time = read_numbered_capture(buffer)
    assert (late.rows, in_time.rows) == (rows, rows)
    assert late.arrivals.tolist() == [5, 7, 9]
    assert late.is_late.tolist() == [False, True, False]
    assert in_time.is_late is None
