"""How many filters does a row enter before every query is decided?

Claim     routing_fixed      the best order, a to e: 1.1555 within 0.01
          routing_random     any filter not yet entered: 3.12 within 0.05
          routing_tickets    the lottery: at most 1.35
Baseline  random, which the paper compares with
Control   the exact figures of the same distribution beside every count
Paper     best 1.15, tickets 1.3, random about 3.2, worst 5 (fig. 8); its order of the four is ours

Five nested queries: a > 90; a > 90 and b > 70; and so on with c > 50, d > 30, e > 10. Values are any numbers in [0, 100) for the
claims; rows for whole numbers, which the paper has, are beside them. Random as in the paper enters filters that no open query
needs; `needed only` leaves those out, as the engine always does. The paper's words fit both ways of accounting for tickets:
`predicate` counts the predicates of queries still open, `tuple` all.
"""

from __future__ import annotations

import statistics

import numpy as np

from benchmarks.harness import Benchmark, main
from benchmarks.papers.cacq._eddy import (
    CountedTickets,
    Queries,
    any_filter,
    any_needed,
    entered_at_random,
    entered_one_by_one,
    expected,
    in_order,
    policy_of,
    statistics_of,
)
from eddyline.routing import FixedOrder, RandomChoice

NESTED = Queries.nested(90, 70, 50, 30, 10)


def run(bench: Benchmark) -> None:
    n_rows = bench.size(full=20_000, quick=4_000)
    seeds = range(bench.seed, bench.seed + bench.size(full=5, quick=2))
    filters = NESTED.filters
    for whole in (False, True):
        rates = NESTED.pass_rates(whole=whole)
        found: dict[str, list[float]] = {}
        for seed in seeds:
            rng = np.random.default_rng(seed)
            dropped = NESTED.drops(n_rows, rng, whole=whole)
            counted = {
                "fixed": entered_one_by_one(policy_of(FixedOrder, filters), filters, dropped),
                "random": entered_at_random(filters, dropped, rng),
                "random, needed only": entered_one_by_one(
                    policy_of(RandomChoice, filters, seed=seed), filters, dropped
                ),
            }
            for accounting in ("predicate", "tuple"):
                lottery = CountedTickets(
                    filters,
                    start=range(5),
                    statistics=statistics_of(filters),
                    accounting=accounting,
                    seed=seed,
                )
                counted[f"tickets, {accounting}"] = lottery.take(dropped)
                lottery.check()
            for who, n in counted.items():
                found.setdefault(who, []).append(n)
        exact = {
            "fixed": expected(filters, rates, in_order(filters)),
            "random": expected(filters, rates, any_filter(filters)),
            "random, needed only": expected(filters, rates, any_needed(filters)),
        }
        paper = {"fixed": 1.15, "random": 3.2, "tickets, predicate": 1.3}
        for who, counts in found.items():
            bench.row(
                values="whole" if whole else "any",
                policy=who,
                filters_per_row=statistics.mean(counts),
                least=min(counts),
                most=max(counts),
                exact=exact.get(who),
                paper=paper.get(who) if whole else None,
            )
        if not whole:
            bench.claim("routing_fixed", statistics.mean(found["fixed"]), "= 1.1555 ± 0.01")
            bench.claim("routing_random", statistics.mean(found["random"]), "= 3.12 ± 0.05")
            bench.claim("routing_tickets", max(found["tickets, predicate"]), "<= 1.35")


if __name__ == "__main__":
    main(run, __file__, __doc__, seed=7)
