"""The cache of a function: bounded in entries and in bytes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from eddyline.functions.cache import ENTRY_BYTES, MISSING, ResultCache


def test_the_least_recently_used_leaves_first():
    cache = ResultCache(60, n_most=2)
    cache.put("a", 1, 0.0)
    cache.put("b", 2, 0.0)
    assert cache.get("a", 1.0) == 1
    cache.put("c", None, 1.0)
    assert (cache.get("a", 1.0), cache.get("b", 1.0), cache.get("c", 1.0)) == (1, MISSING, None)


def test_what_is_too_old_is_not_known():
    cache = ResultCache(10)
    cache.put("a", 1, 0.0)
    assert cache.get("a", 10.0) == 1
    assert cache.get("a", 10.5) is MISSING


def test_large_values_leave_when_bytes_run_out():
    cache = ResultCache(60, most_bytes=100_000)
    for k in range(10):
        cache.put(k, "x" * 40_000, 0.0)
    cache.check()
    assert len(cache) == 2
    assert cache.get(9, 0.0) is not MISSING
    cache.put(10, "x" * 200_000, 0.0)
    assert cache.get(10, 0.0) is MISSING
    assert cache.get(9, 0.0) is not MISSING


def test_what_lists_and_maps_hold_counts():
    cache = ResultCache(60, most_bytes=100_000)
    cache.put(1, [{"k": "x" * 90_000}], 0.0)
    assert cache.nbytes > 90_000 + ENTRY_BYTES
    cache.put(2, ["y" * 20_000], 0.0)
    assert cache.get(1, 0.0) is MISSING


@given(st.lists(st.tuples(st.integers(0, 8), st.text(max_size=200)), max_size=60))
def test_it_never_holds_more_than_it_may(puts):
    cache = ResultCache(60, n_most=5, most_bytes=2_000)
    for key, value in puts:
        cache.put(key, value, 0.0)
        cache.check()
        assert cache.get(key, 0.0) == value
