"""The files of what joins keep: merged in tiers, dropped when nothing in them is kept, read back, and told when damaged."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eddyline.engine.window_files import SMALLEST, TIER, n_to_merge, stored_rows, tier_of
from eddyline.events import StoreFileDamaged
from eddyline.storage import WindowBlock
from tests.engine.join_lives import Life, at

STREAMS = """
    CREATE TABLE a (k INT, v INT, ts TIMESTAMP) TBLPROPERTIES (time = 'ts');
    CREATE TABLE b (k INT, v INT, ts TIMESTAMP) TBLPROPERTIES (time = 'ts')
"""
NEAR = "SELECT a.v, b.v AS w FROM a JOIN b ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 1 HOUR"
NEWEST = "SELECT a.v, b.v AS w FROM recent(a, 5) a JOIN recent(b, 5) b ON a.k = b.k"


@pytest.fixture
def life(tmp_path):
    made = Life(STREAMS, tmp_path / "home")
    yield made
    made.engine.close()


# --------------------------------------------------------------------------------------------- tiers


def test_small_files_are_all_of_one_tier():
    assert [tier_of(n) for n in (0, 1, SMALLEST, SMALLEST + 1, 8 * SMALLEST + 1, 64 * SMALLEST + 1)] == [
        0, 0, 0, 1, 2, 3
    ]  # fmt: skip


def test_a_full_tier_is_merged_and_with_it_the_next_if_that_is_full_too():
    assert n_to_merge([1] * (TIER - 2), 1) == 0
    assert n_to_merge([1] * (TIER - 1), 1) == TIER - 1
    larger = 2 * SMALLEST
    assert n_to_merge([larger] * 3 + [SMALLEST] * (TIER - 1), SMALLEST) == TIER - 1
    assert n_to_merge([larger] * (TIER - 1) + [SMALLEST] * (TIER - 1), SMALLEST) == 2 * (TIER - 1)


@given(st.lists(st.integers(1, 40 * SMALLEST), max_size=200))
def test_files_stay_few_and_each_row_is_written_few_times(new_sizes):
    files: list[int] = []
    n_written = 0
    for size in new_sizes:
        n = n_to_merge(files, size)
        merged = size + sum(files[len(files) - n :])
        files[len(files) - n :] = [merged]
        n_written += merged
    n_tiers = 1 + max((tier_of(size) for size in files), default=0)
    assert len(files) <= (TIER - 1) * n_tiers + 1
    assert n_written <= (n_tiers + 1) * sum(new_sizes)


# --------------------------------------------------------------------------------------------- rounds


def test_many_rounds_are_few_files_from_which_all_is_read_back(life):
    life.query(NEAR, "near")
    for second in range(20):
        life.push(a=[(second, second, at(second))])
    assert len(life.files("window")) < TIER + 2
    life.reopen()
    assert life.held() == {"a": 20, "b": 0}
    life.check()
    life.push(b=[(k, k, at(30)) for k in range(20)])
    assert sorted(life.told("near")) == [(k, k) for k in range(20)]


def test_a_file_of_which_nothing_is_kept_is_listed_no_longer(life):
    life.query(NEWEST, "newest")
    for second in range(5):
        life.push(a=[(second, second, at(second))])
    first = life.files("window")[0]
    for second in range(5, 11):
        life.push(a=[(second, second, at(second))])
    assert first not in life.files("window")
    life.reopen()
    assert life.held() == {"a": 5, "b": 0}


def test_when_all_joins_are_dropped_their_files_go_also_after_opening_again(life):
    life.query(NEAR, "near")
    life.push(a=[(1, 1, at(0))])
    life.engine.drop("near")
    assert len(life.files("window")) == 1
    life.reopen()
    life.push(b=[(1, 1, at(1))])
    assert life.files("window") == []


def test_a_round_that_fails_leaves_files_and_rows_as_they_were(life):
    life.query(NEAR, "near")
    for second in range(TIER - 1):
        life.push(a=[(1, second, at(second))])
    before = life.files("window")
    for _ in range(2):
        life.fail(a=[(1, 100, at(50))], b=[(1, 200, at(50))])  # which would merge them all
        assert life.files("window") == before
        assert life.held() == {"a": TIER - 1, "b": 0}
        life.check()
    life.push(a=[(1, 100, at(50))])
    assert len(life.files("window")) == 1
    life.reopen()
    life.push(b=[(1, 300, at(60))])
    assert sorted(life.told("near")) == [(v, 300) for v in (*range(TIER - 1), 100)]


def test_a_damaged_file_is_told_and_the_others_are_read(life, tmp_path):
    life.query(NEAR, "near")
    life.push(a=[(1, 1, at(0))])
    life.push(a=[(1, 2, at(1))])
    name = life.files("window")[0]
    path = life.engine.rounds.durable.store.folder / name
    path.write_bytes(path.read_bytes()[:-20] + b"x" * 20)
    life.reopen()
    assert [
        event.file for event in life.engine.rounds.announcements.events if isinstance(event, StoreFileDamaged)
    ] == [name]
    life.push(b=[(1, 9, at(2))])
    assert life.told("near") == [(2, 9)]


@pytest.mark.thorough
def test_lives_cut_short_anywhere_give_what_a_long_one_gives(life):
    whole = Life(STREAMS)
    for each in (life, whole):
        each.query(NEAR.replace("1 HOUR", "5 SECONDS"), "near")
        each.query(NEWEST, "newest")
    rng = random.Random(7)
    for second in range(40):
        rows = {
            name: [(rng.randrange(3), second, at(second - rng.randrange(2))) for _ in range(rng.randrange(3))]
            for name in "ab"
        }
        life.push(**rows)
        whole.push(**rows)
        if rng.randrange(4) == 0:
            life.reopen()
        assert life.held() == whole.held()
    life.check()
    for name in ("near", "newest"):
        assert sorted(life.told(name)) == sorted(whole.told(name)) != []


# --------------------------------------------------------------------------------------------- bits


def test_bits_are_read_back_as_they_are_given_now():
    n = np.arange(1, 4)
    wants = np.array([[0b011, 0], [0b100, 1], [0b110, 0]], np.uint64)
    inputs: list[tuple[str, int] | None] = [("s", 0), None, ("t", 1), *[None] * 61, ("u", 0)]
    block = WindowBlock("a", pa.record_batch({"k": [1, 2, 3]}), n, n, n, n, n, wants, tuple(inputs))
    found = stored_rows(block, {("t", 1): 0, ("u", 0): 1, ("new", 0): 70})
    assert found.wants.tolist() == [[0, 0], [0b11, 0], [0b01, 0]]
