"""Ordered sets against counters, with copies that share nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from eddyline.aggregates.ordered_sets import OrderedRows
from eddyline.kernels.layouts import LEFT, NO_NODE, RIGHT
from tests.oracles.accumulators import PlainSets

N = 3
ENTRY = st.integers(0, N - 1)
LINE = st.tuples(st.integers(-4, 4), st.sampled_from([-(2**63), 0, 2**63 - 1]))
UPDATE = st.tuples(st.just("update"), ENTRY, LINE, st.sampled_from([-1, 1, 1, 2]))
SHARE = st.tuples(st.just("share"), ENTRY, ENTRY, st.none())


class Sets:
    """Sets of N entries in one storage."""

    def __init__(self) -> None:
        self.rows = OrderedRows([pa.int64(), pa.int64()])
        self.roots, self.n = np.zeros(N, np.int64), np.zeros(N, np.int64)

    def update(self, entry: int, line: tuple[int, int], step: int) -> None:
        self.rows.update(np.array([entry]), np.array([line]), np.array([step]), self.roots, self.n)

    def share(self, into: int, which: int) -> None:
        root = self.roots[which : which + 1].copy()
        self.rows.share(root)
        self.rows.release(self.roots[into : into + 1])
        self.roots[into], self.n[into] = root[0], self.n[which]

    def listed(self, entry: int) -> list[tuple[tuple[int, ...], int]]:
        nodes = self.rows.listed(self.roots[entry : entry + 1], int(self.n[entry]))
        lines = map(tuple, self.rows.lines_at(nodes).tolist())
        return list(zip(lines, self.rows.times(nodes).tolist(), strict=True))


@given(st.lists(st.one_of(UPDATE, UPDATE, SHARE), max_size=60))
def test_sets_that_share_nodes_change_apart(script: list[Any]) -> None:
    sets, plain = Sets(), PlainSets(N)
    for kind, at, given_, step in script:
        if kind == "update":
            sets.update(at, given_, step)
            plain.update(at, given_, step)
        else:
            sets.share(at, given_)
            plain.share(at, given_)
    for entry in range(N):
        expected = plain.listed(entry)
        assert sets.listed(entry) == expected
        for side, end in ((LEFT, 0), (RIGHT, -1)):
            node = sets.rows.ends(sets.roots[entry : entry + 1], side)
            assert (node[0] == NO_NODE) == (not expected)
            assert not expected or tuple(sets.rows.lines_at(node)[0].tolist()) == expected[end][0]
    sets.rows.release(sets.roots)
    assert sets.rows.n_nodes == 0, "every node is free again"


def test_many_lines_in_any_order_are_listed_in_theirs(rng: np.random.Generator) -> None:
    sets, lines = Sets(), np.stack((rng.permutation(20_000), np.zeros(20_000, np.int64)), axis=1)
    ones = np.ones(len(lines), np.int64)
    sets.rows.update(np.zeros(len(lines), np.int64), lines, ones, sets.roots, sets.n)
    sets.share(1, 0)
    odd = lines[lines[:, 0] % 2 == 1]
    sets.rows.update(np.ones(len(odd), np.int64), odd, -ones[: len(odd)], sets.roots, sets.n)
    assert [line[0] for line, _ in sets.listed(0)] == list(range(20_000))
    assert [line[0] for line, _ in sets.listed(1)] == list(range(0, 20_000, 2))
    assert sets.n.tolist() == [20_000, 10_000, 0]
