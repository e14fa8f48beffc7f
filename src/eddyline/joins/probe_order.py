"""In which order a new row looks for partners: the probe first that leaves most rows without any.

Papers: Babu, Motwani, Munagala, Nishizawa, Widom, "Adaptive Ordering of Pipelined Stream Filters", SIGMOD 2004: A-Greedy, and
drop probing of multiway joins. Madden, Shah, Hellerstein, Raman, "Continuously Adaptive Continuous Queries over Streams",
SIGMOD 2002: tickets, and their accounting for SteMs.

    paper              here               meaning
    filter F_k         path to input k    drops a row of the origin if nothing along the path matches it
    t_k                cost_s             mean seconds of the last probe of the path, on one row of the origin
    profile window     DroppedRows        which paths drop each sampled row that was dropped
    alpha              slack              how much worse a path may be than a later one before that one takes its place
    credit, debit      weight             join predicates of a probe; gained by a row that enters, lost by one that comes back

    policy             order
    a_greedy           the best dropper per second of what the earlier ones leave, on sampled rows
    tickets            drawn: chances are won by dropping rows
    random             drawn: all alike
    independent        sampled rows, the best dropper per second of all of them first (path_moves.py)
    local_swaps        sampled rows, neighbours that are in the wrong order are swapped
    sweep              sampled rows, one probe at a time is moved forward
    fixed              that of the signature

An input is behind its parent in every order. Whatever the order, the results are the same.

Differs from the papers: where paths have prefixes, one that may be next is worth the best path it begins, all probes to
the end of it paid for; picked for itself, a parent that drops nothing would keep a child that drops everything waiting. A
violation is mended while the order is gone through, so that orders within the slack stay as they are to the end. Tickets decay
by half in a thousand rows while a batch goes by, not behind it. Rows come back from a probe once, however many partners they
found there: partners are not listed before all probes are passed. Where the first sampled rows leave no doubt about the order,
sampling is sparse from then on: twenty joins that share their first probe would pay for a full window of each twenty times.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

from eddyline.joins.join_tree import JoinTree
from eddyline.joins.path_moves import moved_forward, swapped_neighbours
from eddyline.routing import (
    ADAPTIVE,
    DECAY,
    DECAY_ROWS,
    FLOOR,
    MIN_FILL,
    MIN_SUPPORT,
    SLACK,
    WINDOW_ROWS,
    Costs,
    DroppedRows,
    RoutingOptions,
    ratio,
)
from eddyline.statistics import (
    BatchObservation,
    ChangeDetector,
    MeasuredCosts,
    places_of,
    uniform_of,
)

A_GREEDY = "a_greedy"
SAMPLING = frozenset({A_GREEDY, "independent", "local_swaps", "sweep"})
# any other name of a routing policy means a_greedy here: auto, and what is only about filters that queries share
OWN_POLICIES = SAMPLING | {"fixed", "random", "tickets"}
CLEAR = 2.0  # times better than any other that may be next: beyond what a few hundred sampled rows get wrong
DENSE_ROWS = 300  # sampled at first and after a change: fewer leave doubt about probes that few rows reach
LEARNING_SLICE, LEAST_SLICE = 1 << 10, 1 << 12  # rows of a batch, at first and after a change, and else
RATE_ROWS = 10_000  # entered rows after which the share that passed counts a half

IntVector = npt.NDArray[np.int64]
FloatVector = npt.NDArray[np.float64]
BoolMatrix = npt.NDArray[np.bool_]


# --------------------------------------------------------------------------------------------- orders under precedence


def next_inputs(tree: JoinTree, unprobed: Sequence[int]) -> list[int]:
    """Which of the inputs still to be probed may be next: those whose parent is not among them."""
    return [place for place in unprobed if tree.parents[place] not in unprobed]


def has_choice(tree: JoinTree) -> bool:
    """Whether there is more than one order: some input, or the origin, is parent of two."""
    return any(len(children) > 1 for children in tree.children)


def drawn_order(tree: JoinTree, chances: Sequence[float], draws: Sequence[float]) -> tuple[int, ...]:
    """An order drawn input by input; `chances` are by input, `draws` numbers in [0, 1), one for each place of the order."""
    waiting, order = list(tree.others), list[int]()
    for draw in draws:
        offered = next_inputs(tree, waiting)
        upto = list(accumulate(chances[place] for place in offered))
        order.append(offered[min(bisect_right(upto, draw * upto[-1]), len(offered) - 1)])
        waiting.remove(order[-1])
    return tuple(order)


def likeliest_order(tree: JoinTree, chances: Sequence[float]) -> tuple[int, ...]:
    """The order in which each draw has the likeliest outcome."""
    waiting, order = list(tree.others), list[int]()
    while waiting:
        order.append(max(next_inputs(tree, waiting), key=chances.__getitem__))
        waiting.remove(order[-1])
    return tuple(order)


def greedy_path_order(
    tree: JoinTree,
    columns: Sequence[int],
    rows: int,
    cost_s: Costs,
    start: Sequence[int],
    *,
    slack: float = 1.0,
    min_support: int = 0,
    is_conditional: bool = True,
) -> tuple[int, ...]:
    """The order that greed picks, starting from a given one: an input gives way only to one clearly better.

    `columns` has the rows that the path to each input drops, as bits; `rows` are all rows. Slack 1 and no support asked for is
    plain greed, which leaves ties as they are in `start`. Not conditional: what earlier probes drop counts for later ones too.
    """
    assert tree.is_order(start), (start, tree.parents)
    waiting, order, alive = list(start), list[int](), rows
    while waiting:
        chosen, own = waiting[0], 0.0
        rivals: dict[int, float] = {}
        for place in waiting:
            path = [step for step in tree.paths[place] if step in waiting]
            drops = (alive & columns[place]).bit_count()  # a path drops whatever its prefixes drop
            value = ratio(drops, sum(cost_s[step] for step in path))
            if path[0] == chosen:
                own = max(own, value)
            elif drops >= min_support:
                rivals[path[0]] = max(rivals.get(path[0], 0.0), value)
        if rivals and own < slack * max(rivals.values()):
            chosen = max(rivals, key=rivals.__getitem__)  # the first of the best
        order.append(chosen)
        waiting.remove(chosen)
        if is_conditional:
            alive ^= alive & columns[chosen]
    return tuple(order)


# --------------------------------------------------------------------------------------------- the policies


class ProbeOrder:
    """The order of probes of one origin. Vectors are by input; the entry of the origin is not used.

    There is no clock, and chance comes of the seed alone: the same calls give the same orders. Where only one order is possible
    nothing is sampled or learned.
    """

    def __init__(
        self,
        tree: JoinTree,
        policy: str,
        seed: int,
        *,
        start: Sequence[int] | None = None,
        options: RoutingOptions = ADAPTIVE,
    ) -> None:
        """`policy` is a name of the routing options; `start` is the order to begin with, that of the signature if not given."""
        window_rows = WINDOW_ROWS if options.window is None else options.window
        self.slack = SLACK if options.slack is None else options.slack
        self._decay = DECAY if options.memory is None else options.memory
        self._min_fill = min(MIN_FILL, window_rows)
        self._profile_rate = options.profile_rate
        self.tree = tree
        self.policy = policy if policy in OWN_POLICIES else A_GREEDY
        self.seed = seed
        self.is_open = has_choice(tree)
        self.current_order = tree.first_order if start is None else tuple(start)
        assert tree.is_order(self.current_order), (self.current_order, tree.parents)
        self.n_reordered = 0
        self.n_drifted = 0
        self._others = np.array(tree.others, np.int64)
        self._weights = np.array([max(1, len(keys)) for keys in tree.child_keys], np.float64)
        self._n_drawn = self._n_sampled = 0
        self._entered_rows, self._passed_rows = np.zeros(len(tree)), np.zeros(len(tree))  # by input, decayed
        self._costs = MeasuredCosts(len(tree))
        self._tickets = np.full(len(tree), FLOOR)
        self._window = DroppedRows(len(tree), window_rows)
        self._detector = ChangeDetector(len(self._others), window_rows=window_rows, dense_rows=DENSE_ROWS)
        self._n_profiled = 0  # since the last batch was counted
        self._changes: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
        self._examined_place = 0  # that Sweep looked at last

    # ----------------------------------------------------------------------------------------- deciding

    def order(self, n_rows: int) -> tuple[int, ...]:
        """In which order the next rows probe the other inputs; parents come before children.

        Where orders are drawn, every call draws another: ask once for some hundred rows.
        """
        if not self.is_open or n_rows == 0 or self.policy not in ("random", "tickets"):
            return self.current_order
        self._n_drawn += 1
        chances = self._chances if self.policy == "tickets" else [1.0] * len(self.tree)
        draws = [uniform_of(self.seed, self._n_drawn, at) for at in range(len(self._others))]
        return drawn_order(self.tree, chances, draws)

    def slice_rows(self, n_before: int, n_rows: int) -> int:
        """How many of `n_rows` to probe with before the order follows them, where so many of the batch have been probed with.

        Few at first and after a change, when there is most to learn; then three times as many as before: a call has a price.
        """
        if not self.is_open or self.policy not in SAMPLING:
            return n_rows
        wanted = LEARNING_SLICE if self._detector.is_dense else max(LEAST_SLICE, 3 * n_before)
        return wanted if n_rows >= 2 * wanted else n_rows

    def sample(self, n_rows: int) -> int:
        """How many of the next rows are to take all paths, dropped or not. Which ones must not depend on their values."""
        if not self.is_open or self.policy not in SAMPLING:
            return 0
        self._n_sampled += 1
        rate = self._detector.rate_for(n_rows) if self._profile_rate is None else self._profile_rate
        n_wanted = rate * n_rows
        return min(n_rows, int(n_wanted + uniform_of(self.seed, -self._n_sampled)))

    # ----------------------------------------------------------------------------------------- learning

    def learn(
        self, order: Sequence[int], entered_rows: IntVector, passed_rows: IntVector, seconds: FloatVector
    ) -> None:
        """Take in what rows met that went by this order: how many came to each probe, how many had a partner, what it took.

        A sampled row counts until it is dropped, as any other does.
        """
        n_rows = int(entered_rows[order[0]]) if order else 0
        if not self.is_open or n_rows == 0:
            return
        retained_share = 0.5 ** (entered_rows / RATE_ROWS)
        self._entered_rows = retained_share * self._entered_rows + entered_rows
        self._passed_rows = retained_share * self._passed_rows + passed_rows
        for place in order:
            self._costs.add(place, int(entered_rows[place]), float(seconds[place]))
        if self.policy == "tickets":
            self._account(n_rows, entered_rows - passed_rows)
            self.current_order = likeliest_order(self.tree, self._chances)
        if self.policy in SAMPLING:
            self._watch(order, n_rows, entered_rows, passed_rows, seconds)
            self._reorder()

    def profile(self, matched_mask: BoolMatrix) -> None:
        """Take in sampled rows: for each whether every path had a match, all the way to the input at its end."""
        if not self.is_open or self.policy not in SAMPLING:
            return
        dropped = ~matched_mask
        dropped[:, self.tree.origin] = False
        self._n_profiled += self._window.append(dropped)
        self._reorder()

    @property
    def cost_s(self) -> FloatVector:
        """Seconds of each probe on one row of the origin; one that is not known takes what the others do."""
        return self._costs.cost_s

    @property
    def _chances(self) -> list[float]:
        chances: list[float] = (self._tickets / self.cost_s).tolist()
        return chances

    def _account(self, n_rows: int, n_dropped: IntVector) -> None:
        """Tickets come in while they decay; of a batch of many rows what its last thousands won is left."""
        retained_share = self._decay ** (n_rows / DECAY_ROWS)
        lasting = float(n_rows)  # rows whose tickets are left, counted whole
        if self._decay < 1:
            lasting = DECAY_ROWS * (1 - retained_share) / -np.log(self._decay)
        gained = self._weights * n_dropped / n_rows
        self._tickets = np.maximum(FLOOR, retained_share * self._tickets + lasting * gained)

    def _watch(
        self,
        order: Sequence[int],
        n_rows: int,
        entered_rows: IntVector,
        passed_rows: IntVector,
        seconds: FloatVector,
    ) -> None:
        """Compare shares with what they were; after a move earlier sampled rows are no longer evidence."""
        number_of = {place: number for number, place in enumerate(self._others.tolist())}
        useful_s = float(seconds[self._others].sum()) / n_rows
        advice = self._detector.observe(
            BatchObservation(
                places=places_of([number_of[place] for place in order]),
                asked_rows=entered_rows[self._others],
                passed_rows=passed_rows[self._others],
                cost_s=np.full(len(self._others), np.nan),  # costs decay by themselves
                n_rows=n_rows,
                n_profiled=self._n_profiled,
                extra_s=float(self.cost_s[self._others].sum()) if useful_s else 0.0,
                useful_s=useful_s,
                is_clear=not self._detector.is_sparse and self._is_clear(),
            )
        )
        self._n_profiled = 0
        if advice.forget:
            self.n_drifted += 1
            self._window.clear()

    def _reorder(self) -> None:
        if len(self._window) < self._min_fill:
            return
        before = self.current_order
        self.current_order = self._better_order(before)
        if before != self.current_order:
            self.n_reordered += 1
            self._changes.append((before, self.current_order))

    def _is_clear(self) -> bool:
        """Whether each probe of the order is so much better than those behind it that more sampled rows would not change it."""
        order = self.current_order
        known = self.tree, self._window.columns, self._window.all, self.cost_s.tolist(), order
        return greedy_path_order(*known, slack=CLEAR, min_support=MIN_SUPPORT) == order

    def _better_order(self, before: tuple[int, ...]) -> tuple[int, ...]:
        """What the policy makes of an order, given the sampled rows."""
        known = self.tree, self._window.columns, self._window.all, self.cost_s.tolist(), before
        if self.policy == "local_swaps":
            return swapped_neighbours(*known, slack=self.slack, min_support=MIN_SUPPORT)
        if self.policy == "sweep":
            self._examined_place = self._examined_place % (len(before) - 1) + 1
            return moved_forward(*known, self._examined_place, slack=self.slack, min_support=MIN_SUPPORT)
        return greedy_path_order(
            *known, slack=self.slack, min_support=MIN_SUPPORT, is_conditional=self.policy != "independent"
        )

    def take_changes(self) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
        """Changes of the order by what was learned, since this was last asked: before and after."""
        changes, self._changes = self._changes, []
        return changes

    # ----------------------------------------------------------------------------------------- to look at

    def snapshot(self) -> dict[str, Any]:
        """The order and the evidence for it, ready for JSON; figures are in that order.

        Drop rates are those of the rows that came to a probe, in the orders taken.
        """
        order, cost_s = self.current_order, self.cost_s.tolist()
        facts: dict[str, Any] = {
            "policy": self.policy,
            "origin": self.tree.origin,
            "order": list(order),
            "drop_rate": [self._drop_rate(place) for place in order],
            "cost_s": [cost_s[place] for place in order],
            "is_open": self.is_open,
        }
        if self.policy == "tickets":
            total = float(self._tickets[self._others].sum())
            facts["share"] = [float(self._tickets[place]) / total for place in order]
        if self.policy in SAMPLING:
            facts |= {
                "sampled_rows": len(self._window),
                "reordered": self.n_reordered,
                "drifted": self.n_drifted,
            }
        return facts

    def why(self, names: Sequence[str] = ()) -> str:
        """The order in words; `names` are what to call the inputs."""
        called = {place: names[place] if names else f"input {place}" for place in self.current_order}
        if not self.is_open:
            return f"{', '.join(called.values())}: no other order is possible"
        steps = [f"{name} ({self._evidence(place)})" for place, name in called.items()]
        reason = {
            "fixed": "as the query has it",
            "random": "drawn anew for every few rows",
            "tickets": "drawn anew for every few rows, by what dropped most lately",
        }.get(self.policy, f"most dropped per second first, {self._by_sample()}")
        return f"{', '.join(steps)}: {reason}"

    def _by_sample(self) -> str:
        named = "" if self.policy == A_GREEDY else f" ({self.policy})"
        n_times = "once" if self.n_reordered == 1 else f"{self.n_reordered:,} times"
        reordered = f", reordered {n_times}" if self.n_reordered else ""
        return f"by {len(self._window)} sampled rows{named}{reordered}"

    def check(self) -> None:
        assert self.tree.is_order(self.current_order), (self.current_order, self.tree.parents)
        assert self._tickets.min() >= FLOOR, self._tickets
        self._window.check()

    def _drop_rate(self, place: int) -> float | None:
        """None: no row came there yet."""
        n = float(self._entered_rows[place])
        return 1 - float(self._passed_rows[place]) / n if n else None

    def _evidence(self, place: int) -> str:
        rate = self._drop_rate(place)
        if rate is None:
            return "no row came there yet"
        return f"drops {rate:.0%}, {1e6 * float(self.cost_s[place]):.2g} us a row"
