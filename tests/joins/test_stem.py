"""A stem finds the rows that are there, whatever was built, rolled back, purged and added to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from eddyline.joins import key_index, row_numbers, stem_indexes
from eddyline.joins.keys import codes_of
from eddyline.joins.probe_matches import ProbeMatches
from eddyline.joins.stem import Stem
from eddyline.joins.stem_rows import StoredRows
from eddyline.model import Call, Column, Expression
from tests.oracles.stem import ListStem, Row

K = Column(type=pa.int64(), name="k")
T = Column(type=pa.string(), name="t")
D = Column(type=pa.float64(), name="d")
UPPER_T = Call(type=pa.string(), function="upper", arguments=(T,))
SCHEMA = pa.schema([("k", pa.int64()), ("t", pa.string()), ("d", pa.float64()), ("l", pa.list_(pa.int32()))])


def evaluated(expression: Expression, rows: pa.RecordBatch) -> pa.Array:
    assert expression == UPPER_T
    return pc.utf8_upper(rows.column("t"))


def stored(
    values: dict[str, Sequence[Any]], first: int, *, schema: pa.Schema = SCHEMA, wants: Sequence[int] = ()
) -> StoredRows:
    """Rows whose marks all follow from their arrival number."""
    n = len(next(iter(values.values())))
    columns = [pa.array(values.get(f.name, [None] * n), f.type) for f in schema]
    arrival = np.arange(first, first + n)
    n_words = max((want.bit_length() + 63) // 64 for want in [*wants, 1])
    words = [[(want >> 64 * w) & (2**64 - 1) for w in range(n_words)] for want in wants or [0] * n]
    return StoredRows(
        pa.RecordBatch.from_arrays(columns, schema=schema),
        arrival,
        arrival + 1,
        arrival * 10,
        arrival // 5,
        arrival * 100,
        np.array(words, np.uint64).reshape(n, n_words),
    )


def pairs(matches: ProbeMatches, s: Stem) -> list[tuple[int, int]]:
    """Pairs of the place in the keys asked for and the arrival number, sorted."""
    assert (np.diff(matches.probes) >= 0).all(), "matches are ordered by probe"
    arrival = s.rows.arrival[matches.rows]
    return sorted(zip(matches.probes.tolist(), arrival.tolist(), strict=True))


def keyed(*keys: tuple[Expression, ...], schema: pa.Schema = SCHEMA) -> Stem:
    s = Stem(schema, evaluated)
    s.set_keys(keys)
    return s


def test_rows_are_found_by_their_key_as_soon_as_they_are_built():
    s = keyed((K,))
    s.build(stored({"k": [7, 8, None, 7]}, first=100))
    assert pairs(s.probe((K,), [pa.array([7, None, 9, 8])]), s) == [(0, 100), (0, 103), (3, 101)]
    assert s.n_rows == 4
    s.check()


def test_texts_of_any_length_are_found_by_all_their_bytes():
    s = Stem(SCHEMA, evaluated, bucket_bits=1)
    s.set_keys([(T,)])
    long = "so long that it is hashed"
    s.build(stored({"t": ["a", "", None, long, "seven77", "eight888", long + "!"]}, first=0))
    asked_keys = pa.array(["", long, "seven77", "eight888", "eight889", None, "A"])
    assert pairs(s.probe((T,), [asked_keys]), s) == [(0, 1), (1, 3), (2, 4), (3, 5)]
    assert pairs(s.probe((T,), [asked_keys.slice(3, 2)]), s) == [(0, 5)]


def test_a_key_of_several_columns_is_compared_in_all_of_them():
    s = keyed((K, T))
    s.build(stored({"k": [1, 1, 2, None], "t": ["x", "y", "x", "x"]}, first=0))
    asked_keys = [pa.array([1, 2, 1, None]), pa.array(["x", "x", None, "x"])]
    assert pairs(s.probe((K, T), asked_keys), s) == [(0, 0), (1, 2)]


def test_keys_with_the_same_code_are_distinguished():
    other = Column(type=pa.int64(), name="j")
    schema = pa.schema([("k", pa.int64()), ("j", pa.int64())])
    j = 5 ^ (0x9E3779B97F4A7C15 - (1 << 64))
    s = keyed((K, other), schema=schema)
    s.build(stored({"k": [0, 1, 0], "j": [5, j, 6]}, 0, schema=schema))
    assert len(set(codes_of([pa.array([0, 1]), pa.array([5, j])]).codes)) == 1, "no longer a collision"
    assert pairs(s.probe((K, other), [pa.array([1, 0]), pa.array([j, 5])]), s) == [(0, 1), (1, 0)]


def test_a_key_may_be_computed():
    s = keyed((UPPER_T,))
    s.build(stored({"t": ["a long text with a hash", "b", None]}, first=0))
    assert pairs(s.probe((UPPER_T,), [pa.array(["B", "A LONG TEXT WITH A HASH", "b"])]), s) == [
        (0, 1),
        (1, 0),
    ]


def test_what_a_round_built_is_gone_when_it_is_rolled_back():
    s = keyed((K,))
    s.build(stored({"k": [1, 2], "t": ["a", "b"], "l": [[1], None]}, first=0))
    s.commit()
    s.build(stored({"k": [1, 1], "t": ["lost", None], "l": [[7], [8]]}, first=2))
    s.rollback()
    assert pairs(s.probe((K,), [pa.array([1])]), s) == [(0, 0)]
    s.build(stored({"k": [1], "t": ["kept"], "l": [[]]}, first=2))
    s.commit()
    found = s.probe((K,), [pa.array([1])])
    assert pairs(found, s) == [(0, 0), (0, 2)]
    assert [column.to_pylist() for column in s.rows.take(np.array([2, 0]), ["t", "l"])] == [
        ["kept", "a"],
        [[], [1]],
    ]
    s.check()


def test_purged_rows_are_never_found_again_and_numbers_follow():
    s = keyed((K,))
    s.build(stored({"k": [1, 2, 1, 2]}, first=0))
    s.commit()
    assert s.purge(np.array([True, True, False, True])) == 1
    assert s.rows.arrival.tolist() == [0, 1, 3]
    assert s.drop_oldest(1) == 1
    assert pairs(s.probe((K,), [pa.array([1, 2])]), s) == [(1, 1), (1, 3)]
    assert (s.n_rows, s.rows.position.tolist(), s.numbers.every_row().tolist()) == (2, [2, 4], [0, 1])
    assert s.drop_oldest(10) == 2
    assert s.n_rows == 0
    s.check()


def test_rows_are_not_purged_while_their_round_may_fail():
    s = keyed((K,))
    s.build(stored({"k": [1]}, first=0))
    with pytest.raises(AssertionError, match="rows are purged while 1 rows are uncommitted"):
        s.purge(np.array([False]))
    s.commit()
    with pytest.raises(AssertionError, match="1 rows, and 2 words on them"):
        s.purge(np.array([False, True]))


def test_a_large_stem_keeps_its_numbers_until_a_quarter_of_it_is_holes():
    n = 10_000
    s = keyed((K,))
    s.build(stored({"k": list(range(n))}, first=0))
    s.commit()
    assert s.purge(np.arange(n) % 5 != 1) == n // 5
    assert (s.n_rows, len(s.rows.arrival)) == (n * 4 // 5, n)
    assert pairs(s.probe((K,), [pa.array([5, 6, 7])]), s) == [(0, 5), (2, 7)]
    assert s.numbers.every_row()[:5].tolist() == [0, 2, 3, 4, 5]
    s.check()
    assert s.drop_oldest(100) == 80
    s.check()
    assert s.purge(s.rows.arrival % 2 == 0) == 3_960
    assert s.n_rows == len(s.rows.arrival) == 3_960
    assert pairs(s.probe((K,), [pa.array([200, 201, 202])]), s) == [(0, 200), (2, 202)]
    s.check()


def test_holes_stay_where_they_are_while_rows_come_and_go():
    n, window = 8_000, 8_500
    s = keyed((K,))
    s.build(stored({"k": list(range(n))}, first=0))
    s.commit()
    s.purge(np.arange(n) % 7 != 3)
    for first in range(n, 2 * n, 500):
        s.build(stored({"k": list(range(first, first + 500))}, first=first))
        s.commit()
        s.drop_oldest(max(0, len(s.rows.arrival) - window))
        s.check()
        expected = [g for g in range(first + 500 - window, first + 500) if g >= n or (g >= 0 and g % 7 != 3)]
        assert s.rows.arrival[s.numbers.every_row()].tolist() == expected
        assert pairs(s.probe((K,), [pa.array(range(2 * n))]), s) == [(g, g) for g in expected]
    assert len(s.rows.arrival) > s.n_rows, "holes were closed, which is another test"


def test_an_index_added_later_covers_the_rows_held_and_one_dropped_is_not_asked():
    s = keyed((K,))
    s.build(stored({"k": [1, 2], "t": ["a text to be hashed", "b"]}, first=0))
    s.commit()
    s.set_keys([(T,), (UPPER_T,)])
    assert pairs(s.probe((T,), [pa.array(["b", "a text to be hashed"])]), s) == [(0, 1), (1, 0)]
    assert pairs(s.probe((UPPER_T,), [pa.array(["A TEXT TO BE HASHED"])]), s) == [(0, 0)]
    assert s.keys == ((T,), (UPPER_T,))
    with pytest.raises(KeyError):
        s.probe((K,), [pa.array([1])])
    s.check()


def test_a_column_added_later_is_null_on_rows_already_held():
    narrow = pa.schema([("k", pa.int64()), ("v", pa.int16())])
    s = keyed((K,), schema=narrow)
    s.build(stored({"k": [1, 2], "v": [5, 6]}, 0, schema=narrow))
    s.commit()
    wide = pa.schema([("k", pa.int64()), ("t", pa.string()), ("v", pa.int32()), ("b", pa.bool_())])
    s.reshape(wide)
    s.build(stored({"k": [3], "t": ["new"], "v": [7], "b": [True]}, 2, schema=wide))
    found = s.rows.take(np.array([2, 1, 0]), ["t", "v", "b"])
    assert [column.to_pylist() for column in found] == [["new", None, None], [7, 6, 5], [True, None, None]]
    assert [column.type for column in found] == [pa.string(), pa.int32(), pa.bool_()]
    s.check()


def test_a_column_that_leaves_is_kept_while_a_key_needs_it():
    s = keyed((T,))
    s.build(stored({"k": [1], "t": ["a text to be hashed"]}, first=0))
    s.commit()
    s.reshape(pa.schema([("k", pa.int64())]))
    assert pairs(s.probe((T,), [pa.array(["a text to be hashed"])]), s) == [(0, 0)]
    s.set_keys([(K,)])
    assert pairs(s.probe((K,), [pa.array([1])]), s) == [(0, 0)]
    assert s.snapshot()["columns"] == 1


def test_wanted_bits_grow_by_words_and_older_rows_have_none_there():
    s = keyed((K,))
    s.build(stored({"k": [1, 2]}, first=0, wants=[1, 2]))
    s.build(stored({"k": [3]}, first=2, wants=[1 << 70]))
    s.build(stored({"k": [4]}, first=3, wants=[8]))
    assert s.rows.wants.tolist() == [[1, 0], [2, 0], [0, 64], [8, 0]]


def test_values_of_every_type_come_back_as_they_were():
    decimal = pa.decimal128(38, 4)
    values = {
        "i8": pa.array([1, None, -3], pa.int8()),
        "i16": pa.array([1, None, -3], pa.int16()),
        "f": pa.array([1.5, None, float("nan")], pa.float32()),
        "dec": pa.array([12345678901234567890, None, -3], pa.decimal128(38, 0)).cast(decimal),
        "bool": pa.array([True, None, False]),
        "date": pa.array([1, None, -3], pa.int32()).cast(pa.date32()),
        "ts": pa.array([1, None, -3], pa.timestamp("us", tz="UTC")),
        "span": pa.array([1, None, -3], pa.duration("us")),
        "bin": pa.array([b"\x00\xff", None, b""], pa.binary()),
        "text": pa.array(["", None, "ä"]),
        "nothing": pa.nulls(3),
        "struct": pa.array([{"a": 1}, None, {"a": None}], pa.struct([("a", pa.int32())])),
        "list": pa.array([[1, 2], None, []], pa.list_(pa.int64())),
        "map": pa.array([[("a", 1)], None, []], pa.map_(pa.string(), pa.int64())),
    }
    rows = pa.RecordBatch.from_pydict(values)
    s = Stem(rows.schema, evaluated)
    for first in range(0, 900, 3):
        marks = np.arange(first, first + 3)
        s.build(StoredRows(rows, marks, marks, marks, marks, marks, np.ones((3, 1), np.uint64)))
        s.commit()
        if first > 300:
            s.drop_oldest(3)
    at = np.array([2, 0, 1, 2, 9])
    for name, column in values.items():
        (found,) = s.rows.take(at, [name])
        found.validate(full=True)
        assert found.equals(column.take(pa.array([2, 0, 1, 2, 0]))) or name == "f", name
        assert str(found.to_pylist()) == str(column.take(pa.array([2, 0, 1, 2, 0])).to_pylist()), name
    assert s.n_rows == 303
    assert s.rows.take(np.empty(0, np.int64), ["text"])[0].to_pylist() == []


def test_memory_follows_the_rows():
    s = keyed((K,), (T,))
    s.build(stored({"k": list(range(50_000)), "t": ["some text"] * 50_000}, first=0))
    s.commit()
    full = s.nbytes
    assert full > 50_000 * (8 + 9 + 8 * 5 + 2 * 16)
    s.drop_oldest(49_990)
    assert s.nbytes < full / 20
    s.check()


@pytest.mark.parametrize("n_batch", [1_000, 40_000])
def test_a_window_that_slides_far_stays_in_few_segments_and_finds_what_it_holds(n_batch):
    schema, window, rng = pa.schema([("k", pa.int64())]), 100_000, np.random.default_rng(3)
    s = keyed((K,), schema=schema)
    values = rng.integers(0, 50_000, 240_000)
    for first in range(0, len(values), n_batch):
        s.build(stored({"k": values[first : first + n_batch]}, first, schema=schema))
        s.commit()
        s.drop_oldest(max(0, s.n_rows - window))
        assert s.snapshot()["segments"] <= 4
    asked_keys = rng.integers(0, 60_000, 500)
    window_keys = values[-window:]
    expected = [
        (place, len(values) - window + at)
        for place, key in enumerate(asked_keys)
        for at in np.flatnonzero(window_keys == key)
    ]
    assert pairs(s.probe((K,), [pa.array(asked_keys)]), s) == expected
    s.check()


# --------------------------------------------------------------------------------------------- against a list of rows

LONG = "a text that is long enough to be hashed"
some_keys = st.sampled_from([None, 0, 1, 2, -1, 2**40])
some_texts = st.sampled_from([None, "", "a", "b", "A", LONG, LONG.upper(), LONG + "!"])
some_doubles = st.sampled_from([None, 0.0, -0.0, 1.5, float("nan"), float("inf")])
some_rows = st.lists(st.tuples(some_keys, some_texts, some_doubles), max_size=8)
KEYS: dict[tuple[Expression, ...], Any] = {
    (K,): lambda row: (row.values["k"],),
    (T,): lambda row: (row.values["t"],),
    (D,): lambda row: (row.values["d"],),
    (K, T): lambda row: (row.values["k"], row.values["t"]),
    (UPPER_T, D): lambda row: (row.values["t"] and row.values["t"].upper(), row.values["d"]),
}
some_sets = st.sets(st.sampled_from(list(KEYS)), min_size=1)
COLUMNS = {"k": pa.int64(), "t": pa.string(), "d": pa.float64(), "l": pa.list_(pa.int64()), "b": pa.bool_()}
ASKED_KEYS = [
    (0, "", -0.0),
    (1, "A", float("nan")),
    (2**40, LONG, 1.5),
    (None, LONG.upper(), float("inf")),
    (0, None, None),
    (1, LONG, float("nan")),
]


class AgainstAList(RuleBasedStateMachine):
    """Any sequence of what can be done to a stem leaves it as it leaves a list of rows."""

    @initialize(keys=some_sets, is_tight=st.booleans())
    def begin(self, keys, is_tight):
        self.names = ["k", "t", "d"]
        self.next_arrival = 0
        self.stem = Stem(self._schema(), evaluated, bucket_bits=1 if is_tight else None)
        self.stem.set_keys(keys)
        self.list = ListStem()

    def _schema(self):
        return pa.schema([(name, COLUMNS[name]) for name in self.names])

    @property
    def is_settled(self):
        return self.list.n_committed == len(self.list.rows)

    @rule(rows=some_rows, is_repeated=st.booleans(), word=st.integers(0, 2))
    def build(self, rows, is_repeated, word):
        rows = rows * 5 if is_repeated else rows
        rows_built = []
        for offset, (key, text, number) in enumerate(rows):
            arrival = self.next_arrival + offset
            values = {"k": key, "t": text, "d": number, "l": [arrival], "b": arrival % 2 == 0}
            marks = (arrival, arrival + 1, arrival * 10, arrival // 5, arrival * 100)
            rows_built.append(
                Row({name: values[name] for name in self.names}, marks, 1 << (64 * word + arrival % 7))
            )
        if rows_built:
            columns = {name: [row.values[name] for row in rows_built] for name in self.names}
            wants = [row.wants for row in rows_built]
            self.stem.build(stored(columns, self.next_arrival, schema=self._schema(), wants=wants))
        self.list.build(rows_built)
        self.next_arrival += len(rows_built)

    @rule()
    def commit(self):
        self.stem.commit()
        self.list.commit()

    @rule()
    def rollback(self):
        self.stem.rollback()
        self.list.rollback()

    @precondition(lambda self: self.is_settled)
    @rule(modulus=st.integers(2, 7), is_few=st.booleans())
    def purge(self, modulus, is_few):
        is_kept = self.stem.rows.arrival % modulus != 0 if is_few else self.stem.rows.arrival % modulus == 0
        n_left = self.list.purge(lambda row: (row.marks[0] % modulus != 0) is is_few)
        assert self.stem.purge(is_kept) == n_left

    @precondition(lambda self: self.is_settled)
    @rule(share=st.sampled_from([0.0, 0.3, 1.0]))
    def drop_oldest(self, share):
        n = int(share * len(self.stem.rows.arrival))
        bound = self.stem.rows.arrival[n] if n < len(self.stem.rows.arrival) else self.next_arrival
        n_left = self.list.purge(lambda row: row.marks[0] >= bound)
        assert self.stem.drop_oldest(n) == n_left

    @precondition(lambda self: self.is_settled)
    @rule(keys=some_sets)
    def set_keys(self, keys):
        self.stem.set_keys(keys)

    @precondition(lambda self: self.is_settled)
    @rule(more=st.sets(st.sampled_from(["l", "b"])))
    def reshape(self, more):
        self.names = ["t", "k", "d", *sorted(more)]
        self.stem.reshape(self._schema())
        self.list.reshape(self.names)

    @invariant()
    def finds_the_same(self):
        self.stem.check()
        for key in self.stem.keys:
            asked_keys = [
                (text and text.upper() if UPPER_T in key else text, k, d) for k, text, d in ASKED_KEYS
            ]
            by_name = {T: 0, UPPER_T: 0, K: 1, D: 2}
            probe_keys = [tuple(line[by_name[part]] for part in key) for line in asked_keys]
            arrays = [pa.array([line[at] for line in probe_keys], part.type) for at, part in enumerate(key)]
            found = pairs(self.stem.probe(key, arrays), self.stem)
            assert len(found) == len(set(found))
            assert set(found) == self.list.probe(KEYS[key], probe_keys), key

    @invariant()
    def holds_the_same(self):
        rows, s = self.stem.numbers.every_row(), self.stem.rows
        assert self.stem.n_rows == len(rows) == len(self.list.rows)
        marks = zip(s.arrival, s.position, s.time_us, s.version, s.now_us, strict=True)
        stem_marks = [tuple(int(mark) for mark in line) for line in marks]
        assert [stem_marks[row] for row in rows] == [row.marks for row in self.list.rows]
        wants = [sum(int(word) << 64 * at for at, word in enumerate(s.wants[row])) for row in rows]
        assert wants == [row.wants for row in self.list.rows]
        columns = s.take(rows, self.names)
        for name, column in zip(self.names, columns, strict=True):
            column.validate(full=True)
            assert str(column.to_pylist()) == str([row.values[name] for row in self.list.rows]), name


class InSmallParts(AgainstAList):
    """The same with a ring, a room and a margin so small that most steps seal, merge, move and keep holes."""

    def __init__(self):
        super().__init__()
        self._small = pytest.MonkeyPatch()
        self._small.setattr(key_index, "RING_PAIRS", 8)
        self._small.setattr(key_index, "LEAST_PAIRS", 2)
        self._small.setattr(row_numbers, "SMALL_ROWS", 3)
        self._small.setattr(row_numbers, "LEAST_ROOM", 4)
        self._small.setattr(stem_indexes, "INDEXED_AT_ONCE", 16)

    def teardown(self):
        self._small.undo()


TestAgainstAList = AgainstAList.TestCase
TestInSmallParts = InSmallParts.TestCase
TestAgainstAList.settings = TestInSmallParts.settings = settings(stateful_step_count=12)


@given(st.lists(st.integers(0, 3), max_size=30), st.lists(st.integers(0, 3), max_size=10))
def test_matches_of_many_probes_are_all_there(stored_keys, asked_keys):
    s = keyed((K,))
    if stored_keys:
        s.build(stored({"k": stored_keys * 20}, first=0))
    expected = [
        (p, g) for p, key in enumerate(asked_keys) for g, other in enumerate(stored_keys * 20) if key == other
    ]
    assert pairs(s.probe((K,), [pa.array(asked_keys, pa.int64())]), s) == expected
