import numpy as np
import pyarrow as pa

from eddyline.batch import TupleBatch
from eddyline.storage import RecentRows

SCHEMA = pa.schema([("n", pa.int64())])


def batch(*values: int) -> TupleBatch:
    rows = pa.RecordBatch.from_arrays([pa.array(values, pa.int64())], schema=SCHEMA)
    n = len(values)
    return TupleBatch("s", rows, np.arange(n), np.ones(n, np.int8), np.zeros(n, bool))


def last(recent: RecentRows, n: int, **options) -> list[int]:
    return recent.last(n, SCHEMA, **options).column("n").to_pylist()


def test_as_few_batches_are_kept_as_hold_the_rows_promised():
    recent = RecentRows(3, 1 << 20)
    recent.append(1, batch(1, 2))
    recent.append(1, batch(3, 4))
    assert len(recent) == 4
    recent.append(1, batch(5))
    assert len(recent) == 3
    assert last(recent, 10) == [3, 4, 5]


def test_the_last_rows_come_oldest_first():
    recent = RecentRows(100, 1 << 20)
    recent.append(1, batch(1, 2))
    recent.append(1, batch(3))
    assert last(recent, 2) == [2, 3]
    assert last(recent, 0) == []
    assert last(RecentRows(5, 5), 3) == []


def test_only_rows_of_rounds_from_a_version_on_are_given():
    recent = RecentRows(100, 1 << 20)
    recent.append(1, batch(1))
    recent.append(2, batch(2))
    recent.append(3, batch(3))
    assert last(recent, 10, since_version=2) == [2, 3]
    assert last(recent, 10, since_version=9) == []


def test_bytes_are_bounded_but_the_newest_batch_stays():
    recent = RecentRows(1000, 20)
    recent.append(1, batch(1, 2))
    recent.append(1, batch(3, 4, 5, 6))
    assert last(recent, 10) == [3, 4, 5, 6]


def test_rows_from_before_a_column_was_added_have_null_there():
    recent = RecentRows(100, 1 << 20)
    recent.append(1, batch(1))
    wider = pa.schema([("n", pa.int64()), ("note", pa.string())])
    assert recent.last(5, wider).to_pylist() == [{"n": 1, "note": None}]
