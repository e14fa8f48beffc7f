"""A keyed stream as a table: its latest rows, what they were before, and what changes changed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eddyline.expressions import Frame, call, evaluate
from eddyline.joins import table as table_module
from eddyline.joins import table_index as index_module
from eddyline.joins import table_look_ups as look_ups_module
from eddyline.joins.keys import Codes, codes_of
from eddyline.joins.table import KeyedTable
from eddyline.joins.table_changes import Deltas, TableChanges, is_identical
from eddyline.model import NO_TIME, Column, Expression
from eddyline.types import BIGINT, STRING
from tests.oracles.tables import PlainTable

SCHEMA = pa.schema([("sym", STRING), ("sector", STRING), ("bid", BIGINT), ("ts", BIGINT)])
SYM, SECTOR, BID = Column(STRING, "sym"), Column(STRING, "sector"), Column(BIGINT, "bid")


def computed(expression: Expression, batch: pa.RecordBatch) -> pa.Array:
    columns = {("", name): batch.column(name) for name in batch.schema.names}
    frame = Frame(batch.num_rows, columns)
    return frame.array(evaluate(expression, frame))


def quotes(**options: Any) -> KeyedTable:
    return KeyedTable(SCHEMA, ("sym",), computed, **options)


def changes(*rows: tuple[Any, ...], first: int = 1) -> TableChanges:
    """Rows (sym, sector, bid, ts) or, for deletes, (sym, ts); numbered from `first`."""
    full = [row if len(row) == 4 else (row[0], None, None, row[1]) for row in rows]
    columns = [pa.array([row[k] for row in full], f.type) for k, f in enumerate(SCHEMA)]
    return TableChanges(
        pa.RecordBatch.from_arrays(columns, schema=SCHEMA),
        np.arange(first, first + len(rows)),
        np.array([NO_TIME if row[3] is None else row[3] for row in full], np.int64),
        np.array([len(row) == 2 for row in rows], dtype=bool),
    )


def signed_rows(deltas: Deltas) -> list[tuple[Any, ...]]:
    rows = [tuple(row.values()) for row in deltas.rows.to_pylist()]
    return list(zip(deltas.arrival.tolist(), deltas.sign.tolist(), rows, strict=True))


def rows_of(table: KeyedTable, rows: Any, column: str = "bid") -> list[Any]:
    return table.take(np.asarray(rows, np.int64), [column])[0].to_pylist()


def texts(*values: str | None) -> list[pa.Array]:
    return [pa.array(values, STRING)]


def numbers(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


# --------------------------------------------------------------------------------------------- the latest row


def test_an_update_is_the_old_row_leaving_and_the_new_one_coming_at_the_same_number():
    table = quotes()
    assert signed_rows(table.apply(changes(("A", "tech", 10, None), ("B", "tech", 20, None)))) == [
        (1, 1, ("A", "tech", 10, None)),
        (2, 1, ("B", "tech", 20, None)),
    ]
    assert signed_rows(table.apply(changes(("A", "tech", 11, None), ("B", None), first=3))) == [
        (3, -1, ("A", "tech", 10, None)),
        (3, 1, ("A", "tech", 11, None)),
        (4, -1, ("B", "tech", 20, None)),
    ]
    assert rows_of(table, table.current()) == [11]
    assert len(table.current()) == 1


def test_an_older_row_that_comes_late_does_not_replace_a_newer_one():
    table = quotes()
    table.apply(changes(("A", "tech", 10, 500)))
    assert signed_rows(table.apply(changes(("A", "tech", 9, 400), ("A", "tech", 12, 500), first=2))) == [
        (3, -1, ("A", "tech", 10, 500)),
        (3, 1, ("A", "tech", 12, 500)),
    ]


def test_a_row_older_than_the_delete_of_its_key_does_not_come_back():
    table = quotes()
    table.apply(changes(("A", "tech", 10, 500), ("A", 600)))
    table.commit()
    assert signed_rows(table.apply(changes(("A", "tech", 9, 550), first=3))) == []
    assert signed_rows(table.apply(changes(("A", "tech", 9, 650), first=4))) == [
        (4, 1, ("A", "tech", 9, 650))
    ]


def test_a_delete_of_a_key_that_never_was_keeps_older_rows_out():
    table = quotes()
    assert signed_rows(table.apply(changes(("A", 600), ("A", "tech", 9, 550)))) == []
    assert len(table.current()) == 0


def test_a_delete_without_a_time_deletes_what_is_there():
    table = quotes()
    assert signed_rows(table.apply(changes(("A", "tech", 10, 500), ("A", None))))[1:] == [
        (2, -1, ("A", "tech", 10, 500))
    ]
    assert signed_rows(table.apply(changes(("A", "tech", 9, 400), first=3))) == []


def test_a_row_equal_to_the_current_one_changes_nothing():
    table = quotes()
    table.apply(changes(("A", "tech", 10, 500)))
    assert signed_rows(table.apply(changes(("A", "tech", 10, 500), ("A", "tech", 10, 500), first=2))) == []
    assert table.arrival[table.current()].tolist() == [1]
    assert [d[1] for d in signed_rows(table.apply(changes(("A", "tech", 10, 501), first=4)))] == [-1, 1]


def test_changes_without_a_key_are_handed_back_and_change_nothing():
    table = quotes()
    deltas = table.apply(changes((None, "tech", 1, None), ("A", "tech", 2, None), (None, None)))
    assert deltas.misfits.tolist() == [0, 2]
    assert signed_rows(deltas) == [(2, 1, ("A", "tech", 2, None))]


def test_a_delete_of_nothing_leaves_nothing_behind():
    table = quotes()
    deltas = table.apply(changes(*[(f"key {k}", None) for k in range(100)]))
    assert len(deltas) == 0
    assert table.versions.n_reachable == 0


def test_a_key_of_several_columns_is_equal_where_all_are():
    schema = pa.schema([("a", BIGINT), ("x", pa.float64()), ("v", BIGINT)])
    table = KeyedTable(schema, ("a", "x"), computed)
    columns = [[1, 1, 2, 1], [0.0, -0.0, float("nan"), float("nan")], [1, 2, 3, 4]]
    arrays = [pa.array(values, f.type) for values, f in zip(columns, schema, strict=True)]
    rows = pa.RecordBatch.from_arrays(arrays, schema=schema)
    table.apply(TableChanges(rows, numbers(1, 2, 3, 4), np.full(4, NO_TIME), np.zeros(4, dtype=bool)))
    assert rows_of(table, table.current(), "v") == [2, 3, 4]
    key = (Column(pa.float64(), "x"), Column(BIGINT, "a"))  # in another order
    asked_keys = [pa.array([float("nan"), 0.0], pa.float64()), pa.array([2, 1], BIGINT)]
    found = table.probe_at(key, asked_keys, numbers(9, 9))
    assert (found.probes.tolist(), rows_of(table, found.rows, "v")) == ([0, 1], [3, 2])


# --------------------------------------------------------------------------------------------- look-ups


def test_a_row_sees_the_table_as_it_was_when_it_came():
    table = quotes()
    table.apply(changes(("A", "tech", 10, None), first=10))
    table.commit()
    table.apply(changes(("A", "tech", 11, None), ("A", None), ("A", "tech", 13, None), first=20))
    found = table.probe_at((SYM,), texts(*"AAAAA"), numbers(15, 20, 21, 22, 23))
    assert list(zip(found.probes.tolist(), rows_of(table, found.rows), strict=True)) == [
        (0, 10),
        (1, 10),
        (2, 11),
        (4, 13),
    ]
    found = table.probe_at((SYM,), texts(*"AAA"), numbers(20, 21, 22), includes_own=True)
    assert list(zip(found.probes.tolist(), rows_of(table, found.rows), strict=True)) == [(0, 11), (2, 13)]


def test_the_row_as_of_a_time_is_the_latest_of_those_that_had_come():
    table = quotes(keeps_history_us=0)
    table.apply(
        changes(("A", "t", 10, 1000), ("A", "t", 11, 1005), ("A", "t", 12, 1002), ("A", "t", 13, 1003))
    )
    table.apply(changes(("A", 1007), first=5))
    asked_times = [(1004, 4), (1004, 5), (1004, 9), (1005, 9), (1006, 9), (1007, 9), (999, 9), (1000, 9)]
    found = table.probe_as_of(
        (SYM,),
        texts(*"A" * len(asked_times)),
        numbers(*[t for t, _ in asked_times]),
        numbers(*[g for _, g in asked_times]),
    )
    assert dict(zip(found.probes.tolist(), rows_of(table, found.rows), strict=True)) == {
        0: 12,
        1: 13,
        2: 13,
        3: 11,
        4: 11,
        7: 10,
    }


def test_rows_and_look_ups_without_a_time_meet_nothing_as_of():
    table = quotes(keeps_history_us=0)
    table.apply(changes(("A", "tech", 10, None), ("B", "tech", 20, 5)))
    found = table.probe_as_of((SYM,), texts("A", "B", "B"), numbers(9, NO_TIME, 9), numbers(9, 9, 9))
    assert found.probes.tolist() == [2]


def test_other_keys_find_rows_as_they_were_and_no_row_twice():
    table = quotes()
    table.set_keys([(SECTOR,), (call("+", [BID, BID]),)])
    table.apply(
        changes(
            ("A", "tech", 1, None), ("B", "tech", 2, None), ("A", "food", 3, None), ("A", "tech", 4, None)
        )
    )
    found = table.probe_at((SECTOR,), texts("tech", "food", "tech", None), numbers(9, 9, 3, 9))
    assert list(zip(found.probes.tolist(), rows_of(table, found.rows), strict=True)) == [
        (0, 2),
        (0, 4),
        (2, 1),
        (2, 2),
    ]
    found = table.probe_at((call("+", [BID, BID]),), [pa.array([8, 6, 4], BIGINT)], numbers(9, 9, 9))
    assert rows_of(table, found.rows, "sym") == ["A", "B"]


def test_an_empty_key_asks_for_all_rows():
    table = quotes()
    table.apply(changes(("A", "tech", 1, None), ("B", "tech", 2, None), ("A", None)))
    found = table.probe_at((), [], numbers(2, 3, 4))
    assert list(zip(found.probes.tolist(), rows_of(table, found.rows), strict=True)) == [
        (0, 1),
        (1, 1),
        (1, 2),
        (2, 2),
    ]


def test_an_index_that_is_asked_for_later_knows_what_is_there():
    table = quotes()
    table.apply(changes(("A", "tech", 1, None), ("B", "food", 2, None), ("C", "tech", 3, None)))
    table.commit()
    table.set_keys([(SECTOR,)])
    assert rows_of(table, table.probe_at((SECTOR,), texts("tech"), numbers(9)).rows) == [1, 3]
    table.set_keys([])
    assert table.keys == ()


def test_a_new_column_is_null_on_rows_already_there():
    table = quotes()
    table.apply(changes(("A", "tech", 1, None)))
    table.commit()
    table.reshape(SCHEMA.append(pa.field("venue", STRING)))
    assert rows_of(table, table.current(), "venue") == [None]


# --------------------------------------------------------------------------------------------- what stays


def test_superseded_rows_go_with_the_commit():
    table = quotes()
    table.apply(changes(*[("A", "tech", k, None) for k in range(100)]))
    assert table.versions.n_reachable == 100
    table.commit()
    assert table.versions.n_reachable == 1
    table.check()


def test_history_is_kept_as_long_as_it_may_be_asked_for():
    table = quotes(keeps_history_us=100)
    table.apply(changes(*[("A", "tech", k, 10 * k) for k in range(30)]))
    table.commit()
    table.forget(250)  # look-ups may still ask for times from 150 on
    assert table.versions.n_reachable == 15
    found = table.probe_as_of((SYM,), texts("A", "A"), numbers(150, 159), numbers(99, 99))
    assert rows_of(table, found.rows) == [15, 15]
    table.keep_history(None)
    assert table.versions.n_reachable == 1


def test_a_delete_is_forgotten_with_its_time():
    table = quotes()
    table.apply(changes(("A", "tech", 1, 100), ("A", 200), ("B", "tech", 2, 100)))
    table.commit()
    table.forget(199)
    assert table.versions.n_reachable == 2
    table.forget(200)
    assert table.versions.n_reachable == 1


def test_a_rolled_back_round_has_not_happened():
    table = quotes()
    table.set_keys([(SECTOR,)])
    table.apply(changes(("A", "tech", 1, None), ("B", "tech", 2, None)))
    table.commit()
    table.apply(changes(("A", None), ("B", "food", 5, None), ("C", "tech", 6, None), first=3))
    table.rollback()
    table.check()
    assert rows_of(table, table.current()) == [1, 2]
    assert rows_of(table, table.probe_at((SECTOR,), texts("tech"), numbers(9)).rows) == [1, 2]
    table.apply(changes(("C", "tech", 7, None), first=3))
    assert rows_of(table, table.probe_at((SECTOR,), texts("tech"), numbers(9)).rows) == [1, 2, 7]


def test_what_was_saved_makes_the_same_table():
    table = quotes(keeps_history_us=50)
    table.apply(
        changes(("A", "t", 1, 100), ("A", "t", 2, 90), ("B", "t", 3, 100), ("B", 120), ("A", "t", 4, 110))
    )
    table.commit()
    again = quotes(keeps_history_us=50)
    again.apply(table.stored_changes())
    again.commit()
    again.check()
    for each in (table, again):
        found = each.probe_as_of((SYM,), texts(*"AAABB"), numbers(95, 105, 115, 110, 130), numbers(*[9] * 5))
        assert list(zip(found.probes.tolist(), rows_of(each, found.rows), strict=True)) == [
            (0, 2),
            (1, 1),
            (2, 4),
            (3, 3),
        ]
    assert again.snapshot()["versions"] == table.snapshot()["versions"] == 5


def test_what_is_saved_before_a_round_commits_is_the_table_after_it():
    table = quotes()
    table.apply(changes(("A", "t", 1, 100), ("B", "t", 2, 100)))
    table.commit()
    table.apply(changes(("A", "t", 3, 110), ("A", "t", 4, 120), ("B", 130), first=3))
    again = quotes()
    again.apply(table.stored_changes())
    for each in (table, again):
        each.commit()
        assert (rows_of(each, each.current()), each.arrival[each.current()].tolist()) == ([4], [4])


def test_a_row_that_leaves_is_told_by_the_number_it_came_with():
    table = quotes()
    table.apply(changes(("A", "t", 1, None), ("B", "t", 2, None)))
    deltas = table.apply(
        changes(
            ("A", "t", 1, None), ("A", "t", 1, None), ("A", "t", 3, None), ("A", None), ("B", None), first=3
        )
    )
    assert deltas.arrival.tolist() == [5, 5, 6, 7]
    assert deltas.row_arrival.tolist() == [1, 5, 5, 2]
    assert table.versions.rows_by_arrival(deltas.row_arrival).tolist() == [0, 2, 2, 1]


def test_a_row_is_current_from_behind_its_own_number_to_that_of_the_next():
    table = quotes()
    table.apply(changes(("A", "t", 1, None), ("A", "t", 2, None), ("A", None)))
    rows = numbers(0, 0, 0, 1, 1, 1)
    at = numbers(1, 2, 3, 2, 3, 4)
    assert table.versions.is_current_at(rows, at).tolist() == [False, True, False, False, True, False]
    assert table.versions.is_current_at(rows, at, includes_own=True).tolist() == [
        True,
        False,
        False,
        True,
        False,
        False,
    ]


def test_rows_are_compared_value_by_value_in_every_type():
    nan = float("nan")
    left = {
        "x": pa.array([0.0, nan, None, 1.0]),
        "l": pa.array([[1, 2], [nan], None, [1.0]], pa.list_(pa.float64())),
        "s": pa.array([{"a": 1, "b": ["x"]}, None, {"a": None, "b": []}, {"a": 1, "b": None}]),
        "m": pa.array([[("k", 1)], [("k", None)], None, []], pa.map_(STRING, BIGINT)),
        "n": pa.nulls(4),
    }
    batch = pa.record_batch(left)
    assert is_identical(batch, batch).all()
    for name, value in (("x", -0.0), ("l", [1.0, 3.0]), ("s", {"a": 1, "b": ["y"]}), ("m", [("k", 2)])):
        other = pa.record_batch({**left, name: pa.array([value] * 4, left[name].type)})
        assert not is_identical(batch, other).any(), name
        assert is_identical(other, other).all(), name
        assert (
            is_identical(other.slice(1, 2), other.slice(2, 2)).sum()
            == is_identical(
                pa.record_batch({name: other.column(name)}), pa.record_batch({name: other.column(name)})
            ).sum()
            - 4
            + is_identical(batch.slice(1, 2), batch.slice(2, 2)).sum()
        ), name


# --------------------------------------------------------------------------------------------- against the slow twin

KEYS = ["A", "B", "a key longer than seven bytes", "another key of more than seven"]
SECTORS = ["tech", "food", "a sector with a long name", None]
TIMES = [None, *range(8)]

one_change = st.tuples(
    st.sampled_from(KEYS),
    st.sampled_from(SECTORS),
    st.integers(0, 2),
    st.sampled_from(TIMES),
    st.booleans() | st.just(False),
)
one_round = st.tuples(
    st.lists(st.lists(one_change, max_size=6), max_size=3),
    st.sampled_from(["commit", "commit", "rollback"]),
    st.none() | st.integers(0, 4),
)


@pytest.fixture(params=["as they are", "few codes"])
def few_codes(request, monkeypatch):
    """Tables that clear away at once; and, in a second run, keys that nearly all have the same code."""
    monkeypatch.setattr(table_module, "FEW", 2)
    monkeypatch.setattr(index_module, "LEAST_BUCKETS", 2)
    if request.param == "few codes":

        def colliding(arrays):
            codes = codes_of(arrays)
            return Codes(codes.codes % 2, codes.is_null, is_exact=False)

        monkeypatch.setattr(look_ups_module, "codes_of", colliding)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("has_history", "n_examples"),
    [(False, 25), (True, 25), pytest.param(True, 200, marks=pytest.mark.thorough)],
)
def test_a_table_is_what_its_slow_twin_is(few_codes, has_history, n_examples):
    @settings(max_examples=n_examples, deadline=None)
    @given(st.lists(one_round, max_size=6), st.integers(0, 3), st.booleans())
    def is_the_same(rounds, key_from, is_timed):
        _compare_lives(has_history, rounds, key_from, is_timed)

    is_the_same()


def _compare_lives(has_history: bool, rounds: Any, key_from: int, is_timed: bool) -> None:
    """Let a table and its twin live through the same rounds."""
    table = quotes(keeps_history_us=0 if has_history else None)
    twin = PlainTable()
    arrival, horizon = 0, 0
    for number, (pushes, outcome, step) in enumerate(rounds):
        if number == key_from:
            table.set_keys([(SECTOR,), (SECTOR, SYM)])
        first, begin = arrival + 1, arrival
        for push in pushes:
            rows = [(*row[:3], row[3] if is_timed else None, row[4]) for row in push]
            came = _as_changes(rows, arrival + 1)
            expected = []
            for sym, sector, bid, ts, is_delete in rows:
                arrival += 1
                row = (sym, sector, bid, ts)
                expected += [(arrival, *delta) for delta in twin.apply(sym, arrival, ts, row, is_delete)]
            assert signed_rows(table.apply(came)) == expected
            table.check()
        asked_at = sorted({first, (begin + arrival) // 2 + 1, arrival, arrival + 1} - set(range(first)))
        _compare(table, twin, asked_at, range(horizon, 9) if has_history else (), has_keys=number >= key_from)
        if outcome == "commit":
            table.commit()
            twin.commit()
            if step is not None:
                horizon += step
                table.forget(horizon)
                twin.forget(horizon)
        else:
            table.rollback()
            twin.rollback()
            arrival = begin
        table.check()
        after = arrival + 1
        times = range(horizon, 9) if has_history else ()
        _compare(table, twin, [after], times, has_keys=number >= key_from)
        again = quotes(keeps_history_us=0 if has_history else None)
        again.apply(table.stored_changes())
        again.commit()
        _compare(again, twin, [after], times, has_keys=False)


def _as_changes(rows: list[tuple[Any, ...]], first: int) -> TableChanges:
    columns = [pa.array([row[k] for row in rows], f.type) for k, f in enumerate(SCHEMA)]
    return TableChanges(
        pa.RecordBatch.from_arrays(columns, schema=SCHEMA),
        np.arange(first, first + len(rows)),
        np.array([NO_TIME if row[3] is None else row[3] for row in rows], np.int64),
        np.array([row[4] for row in rows], dtype=bool),
    )


def _compare(table: KeyedTable, twin: PlainTable, arrivals: Any, times: Any, *, has_keys: bool) -> None:
    """Ask both for everything there is to know."""
    asked_arrivals = numbers(*arrivals)
    before = [twin.at(g, includes_own=False) for g in arrivals]
    _compare_look_ups(table, before, has_keys, lambda k, a, at: table.probe_at(k, a, asked_arrivals[at]))
    after = [twin.at(g, includes_own=True) for g in arrivals]
    _compare_look_ups(
        table, after, has_keys, lambda k, a, at: table.probe_at(k, a, asked_arrivals[at], includes_own=True)
    )
    both = [(t, g) for t in times for g in arrivals]
    time_us, arrival = numbers(*[t for t, _ in both]), numbers(*[g for _, g in both])
    known = [twin.as_of(t, g) for t, g in both]
    _compare_look_ups(
        table, known, has_keys, lambda k, a, at: table.probe_as_of(k, a, time_us[at], arrival[at])
    )


def _compare_look_ups(table: KeyedTable, known: list[Any], has_keys: bool, probe: Any) -> None:
    """Every value of every key, asked for at every place of which it is known what is there."""
    pairs = [(sector, sym) for sym in [*KEYS[1:3], None] for sector in SECTORS[1:]]
    every: dict[Any, list[Any]] = {(): [()], (SYM,): [(sym,) for sym in [*KEYS, None, "absent"]]}
    if has_keys:
        every |= {(SECTOR,): [(sector,) for sector in SECTORS], (SECTOR, SYM): pairs}
    for key, values in every.items():
        places = [SCHEMA.names.index(part.name) for part in key]
        asked_keys = [(at, value) for at in range(len(known)) for value in values]
        arrays = [pa.array([value[k] for _, value in asked_keys], STRING) for k in range(len(key))]
        found = probe(key, arrays, numbers(*[at for at, _ in asked_keys]))
        columns = table.take(found.rows, SCHEMA.names)
        rows = zip(*(column.to_pylist() for column in columns), strict=True)
        got = list(zip(found.probes.tolist(), table.arrival[found.rows].tolist(), rows, strict=True))
        expected = [
            (k, g, row)
            for k, (at, value) in enumerate(asked_keys)
            for g, row in known[at]
            if all(v is not None and row[place] == v for place, v in zip(places, value, strict=True))
        ]
        assert got == expected, (key, got, expected)
