"""What tells the rows of a table apart, as bytes."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from eddyline.engine.identities import behind, encoded, in_branch, of_columns


def identities(*columns: list[Any], types: tuple[pa.DataType, ...]) -> list[bytes]:
    return encoded([pa.array(column, t) for column, t in zip(columns, types, strict=True)]).to_pylist()


@pytest.mark.parametrize(
    ("values", "t"),
    [
        ([1, -1, 11, None, 0], pa.int32()),
        (["", "1", "-", "1:", None, "äö"], pa.string()),
        ([b"", b"\xff", b"-", None], pa.binary()),
        ([0.5, -0.5, 1e300, float("inf"), None], pa.float64()),
        ([True, False, None], pa.bool_()),
        ([decimal.Decimal("1.10"), decimal.Decimal("11.00"), None], pa.decimal128(30, 2)),
        ([datetime.date(1, 1, 1), datetime.date(2026, 1, 1), None], pa.date32()),
        ([0, 1, -(1 << 62), None], pa.timestamp("us", "UTC")),
        ([[1], [1, 1], [None], [], None], pa.list_(pa.int32())),
        (
            [{"a": 1, "b": "x"}, {"a": None, "b": "x"}, None],
            pa.struct([("a", pa.int32()), ("b", pa.string())]),
        ),
    ],
    ids=str,
)
def test_values_that_differ_have_other_bytes_and_null_is_one_of_them(values, t):
    found = identities(values, types=(t,))
    assert len(set(found)) == len(values)
    assert None not in found
    assert identities(values[::-1], types=(t,)) == found[::-1]


def test_values_that_sql_groups_together_are_one():
    zeros = identities([0.0, -0.0], types=(pa.float64(),))
    assert zeros[0] == zeros[1]
    nans = encoded([pa.array(np.array([0x7FF8000000000001, -1], np.int64).view(np.float64))]).to_pylist()
    assert nans[0] == nans[1]
    nested = identities([[0.0, float("nan")], [-0.0, float("nan")]], types=(pa.list_(pa.float64()),))
    assert nested[0] == nested[1]


def test_columns_side_by_side_are_not_taken_for_one_another():
    rows = identities(["a", "ab", "", None], ["bc", "c", "abc", "abc"], types=(pa.string(), pa.string()))
    assert len(set(rows)) == 4


def test_rows_of_two_branches_differ_though_their_keys_are_equal():
    rows = pa.record_batch({"id": pa.array([7, 8]), "x": pa.array([1, 1])})
    identity, places = of_columns(rows, ["id"]), np.array([1, 0])
    branches = [in_branch(identity, branch)(places).to_pylist() for branch in (0, 1)]
    assert len({*branches[0], *branches[1]}) == 4


def test_rows_of_batches_behind_each_other_have_the_identities_of_their_batches():
    one = of_columns(pa.record_batch({"k": [1, 2]}), ["k"])
    two = of_columns(pa.record_batch({"k": ["a", "b", "c"]}), ["k"])
    found = behind([(2, one), (0, one), (3, two)])(np.array([3, 0, 4, 1, 2]))
    assert found.to_pylist() == [b"1:b", b"1:1", b"1:c", b"1:2", b"1:a"]
