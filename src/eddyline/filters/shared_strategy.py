"""Rows on their way through the expensive filters: each filter at most once per row, and only while an open query needs it.

Papers: "Optimization of Continuous Queries with Shared Expensive Filters", PODS 2007: strategies and decision trees; Madden,
Shah, Hellerstein, Raman, "Continuously Adaptive Continuous Queries over Streams", SIGMOD 2002: tuples that carry which queries
they still concern.

Level by level: one order for all rows. A filter runs on the rows on which a class that has it is open. By tree: rows with equal
results so far are a group, and each group asks the policy for its next filter; all groups that wait for one filter share its
call. Nodes of the tree are made when rows first get there, if enough of them do, and the most visited stay. Where groups have
become small, or the tree large, the rest goes level by level.

A row's sequence of filters is decided by its own results alone, so it is the same as if rows came one at a time.

Differs from the papers: an error lets a row pass, so that it is an error only if nothing else is false. Sampled rows run, apart
and afterwards, every filter a class that was open on them has; where one order serves one class and nothing competes with it,
only those its policy asks for.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from eddyline.batch import Positions
from eddyline.expressions import ErrorCodes
from eddyline.filters.filter_pool import FilterPool
from eddyline.kernels import (
    are_open,
    close_where_dropped,
    count_open,
    mark_rows,
    needing_among,
    note,
    open_pairs,
    rows_needing,
)
from eddyline.routing import FilterSet, InOrder, Learner, Routing, RowGroup, WalkRecord, after, settled_group
from eddyline.statistics import own_time_s, places_of

UNKNOWN, FALSE, TRUE, ERROR = 0, 1, 2, 3
SMALL_GROUP = 64  # rows; fewer are not worth a decision of their own, if a filter takes
SMALL_COST_S = 1e-6  # on a row; the dearer filters are, the fewer rows are worth one
MOST_NODES = 4_096  # of the tree, kept from batch to batch
MOST_ROOTS = 512  # distinct sets of open classes that start a tree
MOST_SAMPLED = 1_000  # rows of a batch
COUNTED_ROWS = 1_024

Mask = npt.NDArray[np.bool_]
Verdicts = npt.NDArray[np.int8]
Words = npt.NDArray[np.uint64]
Ask: TypeAlias = Callable[
    [int, Positions], tuple[Mask, ErrorCodes | None]
]  # filter, rows of the batch: true, errors


class DecisionNode:
    """A group of rows, the filter it runs next, and what follows. `yes` and `no` are None where nothing does."""

    __slots__ = ("filter", "group", "n_rows", "no", "yes")

    def __init__(self, group: RowGroup, filter_: int) -> None:
        self.group = group
        self.filter = filter_
        self.n_rows = 0.0
        self.yes: DecisionNode | bool | None = False  # False: no row has got there yet
        self.no: DecisionNode | bool | None = False


class DecisionTree:
    """What a policy decided for the groups that were met. Good for one generation of its decisions."""

    def __init__(self, policy: Learner, *, most_nodes: int = MOST_NODES) -> None:
        self.policy = policy
        self.filters: FilterSet = policy.filters
        self.n_nodes = 0
        self._most = most_nodes
        self._roots: dict[int, DecisionNode | None] = {}

    def root(self, open_classes: int, *, is_worth_it: bool = True) -> DecisionNode | bool | None:
        """Where rows begin; False if nothing is decided for them yet, and is not worth it."""
        if open_classes not in self._roots:
            if not is_worth_it:
                return False
            if len(self._roots) >= MOST_ROOTS:
                self._roots.clear()
                self.n_nodes = 0
            self._roots[open_classes] = self._new_node(
                settled_group(self.filters, RowGroup(0, 0, open_classes))
            )
        return self._roots[open_classes]

    def child(
        self, node: DecisionNode, *, passes: bool, is_worth_it: bool = True
    ) -> DecisionNode | bool | None:
        """What follows a node; False as above."""
        known = node.yes if passes else node.no
        if isinstance(known, bool) and is_worth_it:
            known = self._new_node(after(self.filters, node.group, node.filter, passes=passes))
            if passes:
                node.yes = known
            else:
                node.no = known
        return known

    def trim(self) -> None:
        """Keep the nodes most rows came to. A node's parent had as many rows at least, so it stays, too."""
        if self.n_nodes <= self._most:
            return
        nodes = list(self._all())
        least = sorted((node.n_rows for node in nodes), reverse=True)[self._most // 2]
        for node in nodes:
            for side in ("yes", "no"):
                child = getattr(node, side)
                if isinstance(child, DecisionNode) and child.n_rows <= least:
                    setattr(node, side, False)
        self._roots = {k: node for k, node in self._roots.items() if node is None or node.n_rows > least}
        remaining_nodes = list(self._all())
        for node in remaining_nodes:
            node.n_rows /= 2
        self.n_nodes = len(remaining_nodes)

    def _new_node(self, group: RowGroup) -> DecisionNode | None:
        if not self.filters.needed_filters(group):
            return None
        self.n_nodes += 1
        return DecisionNode(group, self.policy.next(group))

    def _all(self) -> list[DecisionNode]:
        found: list[DecisionNode] = []
        waiting = [node for node in self._roots.values() if node is not None]
        while waiting:
            node = waiting.pop()
            found.append(node)
            waiting += [child for child in (node.yes, node.no) if isinstance(child, DecisionNode)]
        return found


@dataclass(slots=True)
class _Tally:
    """Work done, by filter."""

    asked_rows: npt.NDArray[np.int64]
    passed_rows: npt.NDArray[np.int64]
    n_calls: npt.NDArray[np.int64]
    seconds: npt.NDArray[np.float64]
    follow_rows: npt.NDArray[np.int64]
    follow_seconds: npt.NDArray[np.float64]
    extra: npt.NDArray[np.int64]
    first: npt.NDArray[np.int64]  # of `asked`: rows on which nothing had run
    first_passed_rows: npt.NDArray[np.int64]
    extra_s: float = 0.0

    @classmethod
    def of(cls, n: int) -> _Tally:
        return cls(
            asked_rows=np.zeros(n, np.int64),
            passed_rows=np.zeros(n, np.int64),
            n_calls=np.zeros(n, np.int64),
            seconds=np.zeros(n),
            follow_rows=np.zeros(n, np.int64),
            follow_seconds=np.zeros(n),
            extra=np.zeros(n, np.int64),
            first=np.zeros(n, np.int64),
            first_passed_rows=np.zeros(n, np.int64),
        )


class SharedWalk:
    """The rows of one batch that have open classes."""

    def __init__(
        self,
        pool: FilterPool,
        n_batch_rows: int,
        pairs: Sequence[tuple[Positions, npt.NDArray[np.int64]]],
        ask: Ask,
        *,
        clock: Callable[[], float] = own_time_s,
    ) -> None:
        """`pairs` are rows of the batch with a class that is open on each."""
        self._pool = pool
        self._ask = ask
        self._clock = clock
        is_here = np.zeros(n_batch_rows, dtype=bool)
        for rows, _ in pairs:
            mark_rows(rows, is_here)
        self.rows: Positions = np.flatnonzero(is_here)
        self._is_whole = len(self.rows) == n_batch_rows
        self._local = np.cumsum(is_here) - 1  # place among `rows`
        self._members = pool.members()
        self._words: Words = np.zeros((self._members.shape[1], len(self.rows)), np.uint64)
        self._n_pairs = np.zeros(len(pool.classes), np.int64)
        for rows, classes in pairs:
            open_pairs(rows, classes, self._local, self._words, self._n_pairs)
        n = len(pool.filters)
        self._cores = pool.cores()
        self._is_shared = np.bincount(self._cores, minlength=n) > 1
        self._verdicts: dict[int, Verdicts] = {}
        self._codes: dict[int, ErrorCodes] = {}
        self._core_known: dict[int, Mask] = {}
        self._tally = _Tally.of(n)
        self._needing_rows = np.empty(len(self.rows), np.int64)
        self._noted_rows: Positions | None = None  # rows whose verdicts are kept; None: all
        self._is_tree = False
        self._firsts: dict[int, list[int]] = {}  # open classes of the roots that begin with a filter
        self._seconds = 0.0

    def _open_counts(self, first: int, end: int) -> npt.NDArray[np.float64]:
        """On how many of these rows each class is open, estimated from some."""
        step = max(1, (end - first) // COUNTED_ROWS)
        some = np.ascontiguousarray(self._words[:, first:end:step])
        counts = np.zeros(64 * len(self._words), np.int64)
        count_open(some, counts)
        return counts[: len(self._pool.classes)] * ((end - first) / max(1, some.shape[1]))

    # ----------------------------------------------------------------------------------------- walking

    def run(
        self,
        routing: Routing,
        tree: DecisionTree | None,
        sampled_mask: Mask | None,
        *,
        small_group: int = SMALL_GROUP,
        first: int = 0,
        end: int | None = None,
    ) -> WalkRecord:
        """Decide the open pairs of some of `rows`, all if not said; `sampled` says which rows of the batch to sample.

        Rows can be run a slice at a time, each by another routing: what a filter says of a row does not depend on that.
        """
        end = len(self.rows) if end is None else end
        self._tally, self._is_tree, self._firsts = _Tally.of(len(self._pool.filters)), False, {}
        n_open = self._open_counts(first, end)
        began = self._clock()
        some = (
            first + np.flatnonzero(sampled_mask[self.rows[first:end]])[:MOST_SAMPLED]
            if sampled_mask is not None
            else np.empty(0, np.int64)
        )
        among = None if end - first == len(self.rows) else np.arange(first, end)
        at_first = np.ascontiguousarray(self._words[:, some].T)
        order = routing.policy.current_order
        declared_s = [each.declared_s for each in self._pool.filters]
        rest = tuple(sorted(range(len(routing.keys), len(declared_s)), key=declared_s.__getitem__))
        places: Sequence[Hashable] = places_of((*order, *rest))
        if tree is None:  # a filter is met once, so only sampled rows are asked about again
            self._noted_rows = some
            self._by_levels((*order, *rest), among)
            self._noted_rows = None
        else:
            self._by_tree(tree, order, small_group, among)
            if self._is_tree:
                places = self._first_places()
            if rest or len(self._pool.classes) > len(routing.classes):
                self._by_levels((*order, *rest), among)
        self._seconds = self._clock() - began
        walked_s = float(self._tally.seconds.sum())
        wanted = None if routing.samples_all else self._asked_for(some, routing)
        dropped, known = self._sample(some, at_first, wanted)
        return WalkRecord(
            keys=self._pool.keys,
            cores=tuple(each.core for each in self._pool.filters),
            declared_s=tuple(declared_s),
            classes=tuple(self._pool.classes),
            n_rows=end - first,
            n_pairs=self._n_pairs * (end - first) // max(1, len(self.rows)),
            n_open=n_open,
            asked_rows=self._tally.asked_rows,
            passed_rows=self._tally.passed_rows,
            compared_rows=self._tally.first if self._is_tree else self._tally.asked_rows,
            compared_passed_rows=self._tally.first_passed_rows if self._is_tree else self._tally.passed_rows,
            n_calls=self._tally.n_calls,
            seconds=self._tally.seconds,
            follow_rows=self._tally.follow_rows,
            follow_seconds=self._tally.follow_seconds,
            extra=self._tally.extra,
            extra_s=self._tally.extra_s,
            overhead_s=max(0.0, self._seconds - walked_s),
            is_tree=self._is_tree,
            places=tuple(places),
            dropped_mask=dropped,
            known_mask=known,
            open_classes=tuple(int.from_bytes(words.tobytes(), "little") for words in at_first),
        )

    def _by_levels(self, order: Sequence[int], among: Positions | None) -> None:
        """One filter after the other, on the rows that need it."""
        words, needing = self._words, self._needing_rows
        for k in order:
            members = self._members[k]
            if among is None:
                n = rows_needing(words, members, needing)
            else:
                n = needing_among(words, members, among, needing)
            if n:
                self._settle(k, needing[:n])

    def _by_tree(
        self, tree: DecisionTree, order: Sequence[int], small_group: int, among: Positions | None
    ) -> None:
        """Groups of rows, each by what the policy says for it."""
        waiting: dict[int, dict[DecisionNode, list[Positions]]] = {}
        n_waiting: dict[int, int] = {}

        small: list[Positions] = []
        cost_s = max(SMALL_COST_S, *tree.policy.statistics.cost_s.tolist(), SMALL_COST_S)
        least = small_group * SMALL_COST_S / cost_s

        def join(node: DecisionNode | bool | None, rows: Positions) -> None:
            if isinstance(node, bool):
                small.append(rows)
            elif node is not None:
                node.n_rows += len(rows)
                waiting.setdefault(node.filter, {}).setdefault(node, []).append(rows)
                n_waiting[node.filter] = n_waiting.get(node.filter, 0) + len(rows)

        known_classes = (1 << len(tree.filters.queries)) - 1
        roots = _groups(self._words, among)
        if len(roots) > MOST_ROOTS:
            self._by_levels(order, among)
            return
        self._is_tree = True
        for open_classes, rows in roots:
            root = tree.root(open_classes & known_classes, is_worth_it=len(rows) >= least)
            join(root, rows)
            if isinstance(root, DecisionNode):
                self._firsts.setdefault(root.filter, []).append(open_classes & known_classes)
        most_nodes = tree.n_nodes + MOST_NODES
        while waiting:
            k = max(n_waiting, key=n_waiting.__getitem__)
            if n_waiting[k] < least or tree.n_nodes > most_nodes:
                small += [rows for nodes in waiting.values() for parts in nodes.values() for rows in parts]
                break
            nodes = waiting.pop(k)
            del n_waiting[k]
            together = [np.concatenate(parts) for parts in nodes.values()]
            local = together[0] if len(together) == 1 else np.concatenate(together)
            passes = self._settle(k, local)[local] >= TRUE
            first = 0
            for node, rows in zip(nodes, together, strict=True):
                mine = passes[first : first + len(rows)]
                first += len(rows)
                if not node.group.evaluated_filters:
                    self._tally.first[k] += len(rows)
                    self._tally.first_passed_rows[k] += int(np.count_nonzero(mine))
                for is_passing, part in ((True, rows[mine]), (False, rows[~mine])):
                    if len(part):
                        child = tree.child(node, passes=is_passing, is_worth_it=len(part) >= least)
                        join(child, part)
        if small:
            self._by_levels(order, np.concatenate(small))
        tree.trim()

    def _first_places(self) -> list[Hashable]:
        """In a tree a filter is compared on the rows it is first on: they are the same ones as long as the same roots have it.
        Deeper down they differ with every change of the tree."""
        return [tuple(sorted(self._firsts.get(k, ()))) for k in range(len(self._pool.filters))]

    # ----------------------------------------------------------------------------------------- asking

    def _settle(self, k: int, local: Positions) -> Verdicts:
        """Run the filter on those of these rows on which it has not run, and close what it drops; gives its verdicts."""
        verdicts = self._verdicts.get(k)
        if verdicts is None:
            verdicts = self._verdicts[k] = np.zeros(len(self.rows), np.int8)
            missing = local
        else:
            is_missing = verdicts[local] == UNKNOWN
            missing, known = local[is_missing], local[~is_missing]
            close_where_dropped(self._words, known, verdicts[known] >= TRUE, self._members[k])
        tally = self._tally
        for rows, is_followed in self._by_core(k, missing) if len(missing) else ():
            elapsed, n_passed = self._run(k, rows)
            tally.seconds[k] += elapsed
            tally.passed_rows[k] += n_passed
            tally.asked_rows[k] += len(rows)
            if is_followed:
                tally.follow_rows[k] += len(rows)
                tally.follow_seconds[k] += elapsed
            else:
                tally.n_calls[k] += 1
        return verdicts

    def _by_core(self, k: int, local: Positions) -> list[tuple[Positions, bool]]:
        """Rows on which the dear part of the filter is still to be computed, and those on which another filter had it."""
        core = self._cores[k]
        if not self._is_shared[core]:
            return [(local, False)]
        known = self._core_known.get(core)
        if known is None:
            known = self._core_known[core] = np.zeros(len(self.rows), dtype=bool)
        is_followed = known[local]
        known[local] = True
        parts = (local[~is_followed], False), (local[is_followed], True)
        return [(rows, followed) for rows, followed in parts if len(rows)]

    def _run(self, k: int, local: Positions) -> tuple[float, int]:
        """Ask the filter, and close what it drops; gives the seconds it took, and how many rows pass."""
        began = self._clock()
        true, errors = self._ask(k, local if self._is_whole else self.rows[local])
        elapsed = self._clock() - began
        if errors is None or not errors.any():
            self._note(k, local, true)
            return elapsed, close_where_dropped(self._words, local, true, self._members[k])
        codes = self._codes.get(k)
        if codes is None:
            codes = self._codes[k] = np.zeros(len(self.rows), np.int32)
        codes[local] = np.where(true, 0, errors)
        is_wrong = codes[local] != 0
        self._note(k, local, true | is_wrong)
        self._verdicts[k][local[is_wrong]] = ERROR
        return elapsed, close_where_dropped(self._words, local, true | is_wrong, self._members[k])

    def _note(self, k: int, local: Positions, passes: Mask) -> None:
        """Keep the verdicts that will be read: of these rows, ascending, or of sampled ones alone."""
        verdicts, some = self._verdicts[k], self._noted_rows
        if some is None:
            note(verdicts, local, passes)
        elif len(some):
            at = np.minimum(np.searchsorted(local, some), len(local) - 1)
            is_here = local[at] == some
            note(verdicts, some[is_here], passes[at[is_here]])

    def _asked_for(self, some: Positions, routing: Routing) -> Mask:
        """Which filters a policy with one order wants to know of each sampled row, by where the row was dropped."""
        policy, n_known = routing.policy, len(routing.keys)
        assert isinstance(policy, InOrder), policy.name
        wanted = np.zeros((len(some), len(self._pool.filters)), bool)
        wanted[:, n_known:] = True  # of which the policy does not know
        is_waiting = np.ones(len(some), bool)
        for place, k in enumerate(policy.order):
            verdicts = self._verdicts.get(k)
            if verdicts is None:
                continue
            is_dropped = is_waiting & (verdicts[some] == FALSE)
            wanted[np.ix_(is_dropped, policy.filters_to_sample(place))] = True
            is_waiting &= ~is_dropped
        return wanted

    def _sample(self, some: Positions, at_first: Words, wanted: Mask | None) -> tuple[Mask, Mask]:
        """What every filter, or those wanted, say of sampled rows that had a class open which has it: dropped, and known at
        all."""
        n = len(self._pool.filters)
        dropped, known = np.zeros((len(some), n), bool), np.zeros((len(some), n), bool)
        for k in range(n) if len(some) else ():
            is_needed = (at_first & self._members[k]).any(axis=1)
            verdicts = self._verdicts.setdefault(k, np.zeros(len(self.rows), np.int8))
            is_missing = is_needed & (verdicts[some] == UNKNOWN)
            missing = some[is_missing if wanted is None else is_missing & wanted[:, k]]
            if len(missing):
                self._tally.extra_s += sum(self._run(k, rows)[0] for rows, _ in self._by_core(k, missing))
                self._tally.extra[k] += len(missing)
            found = verdicts[some]
            known[:, k] = is_needed & (found != UNKNOWN)
            dropped[:, k] = is_needed & (found == FALSE)
        return dropped, known

    # ----------------------------------------------------------------------------------------- what came of it

    def survive(self, rows: Positions, classes: npt.NDArray[np.int64]) -> Mask:
        """Pairs that no filter refutes."""
        found = np.empty(len(rows), dtype=bool)
        are_open(self._words, self._local[rows], classes, found)
        return found

    def errors(self, filters: npt.NDArray[np.int64], rows: Positions) -> ErrorCodes | None:
        """The error of filter `filters[k]` on row `rows[k]`, 0 if there is none."""
        wrong = [k for k in self._codes if (filters == k).any()]
        if not wrong:
            return None
        found = np.zeros(len(rows), np.int32)
        local = self._local[rows]
        for k in wrong:
            mine = np.flatnonzero(filters == k)
            found[mine] = self._codes[k][local[mine]]
        return found


def _groups(words: Words, among: Positions | None) -> list[tuple[int, Positions]]:
    """Rows, of all or of some that follow each other, by the classes that are open on them, as bits."""
    first = 0
    if among is not None:
        first, words = int(among[0]), words[:, among[0] : among[-1] + 1]
    if len(words) == 1:
        distinct, of_row = np.unique(words[0], return_inverse=True)
        values = [int(each) for each in distinct]
    else:
        wide = np.ascontiguousarray(words.T).view(np.dtype((np.void, 8 * len(words))))[:, 0]
        found, of_row = np.unique(wide, return_inverse=True)
        values = [int.from_bytes(each.tobytes(), "little") for each in found]
    order = np.argsort(of_row, kind="stable")
    bounds = np.searchsorted(of_row[order], np.arange(len(values) + 1))
    return [(value, first + order[bounds[k] : bounds[k + 1]]) for k, value in enumerate(values)]
