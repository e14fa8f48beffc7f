"""Do twenty joins that begin with the same hop probe it twenty times?

Claim     twenty_signatures_shared_prefix_probes_per_row    rows probed for a row of a by twenty joins a-b-x, over those of one:
                                                            at most 1.2
Baseline  one of the twenty joins
Control   `nothing in common`: the same twenty joins, each with a column of its own in the first equality: about twenty times one

Every join looks for a row of a in b, by the same equality, and in a stream x of its own, where every row has a partner. One row
of a in two hundred and fifty has a partner in b, so nearly all work is in the first hop, as long as that comes first. Probes are
counted by the engine, through `engine.push`, those of sampled rows included. The claim is about all rounds, from the first.
`learning` is their first half, in which orders are sampled most: a sampled row probes every input, also the x that no other join
has, and sharing b cannot pay for that. `settled` is the second half.
"""

from __future__ import annotations

import numpy as np

import eddyline
from benchmarks.harness import Benchmark, main

N_JOINS = 20
MATCHING = 250  # one row in so many has a partner in b


def opened(n_joins: int, *, is_shared: bool, seed: int) -> eddyline.Engine:
    """An engine with joins that all begin with a-b, by one column of both or by a column for each join."""
    engine = eddyline.open(seed=seed)
    columns = ", ".join(f"k{n} BIGINT" for n in range(N_JOINS))
    engine.stream("a", f"{columns}, m BIGINT")
    engine.stream("b", columns)
    for n in range(n_joins):
        engine.stream(f"x{n}", "v BIGINT")
        key = "k0" if is_shared else f"k{n}"
        engine.query(
            f"SELECT a.k0 FROM recent(a, 100) a JOIN recent(b, 10000) b ON a.{key} = b.{key} "
            f"JOIN recent(x{n}, 10000) x ON a.m = x.v"
        )
    return engine


def probes_of_a(engine: eddyline.Engine) -> int:
    """Rows with which inputs were probed, for new rows of a."""
    return sum(
        origin["n_probes"]
        for facts in engine.joins().signatures
        for origin in facts["origins"]
        if facts["inputs"][origin["input"]]["stream"] == "a"
    )


def probes_per_row(n_joins: int, bench: Benchmark, *, is_shared: bool) -> list[float]:
    """Of all rounds, of their first half, and of the second."""
    rng = np.random.default_rng(bench.seed)
    n_rounds, n_rows = bench.size(full=60, quick=8), bench.size(full=2_000, quick=500)
    with opened(n_joins, is_shared=is_shared, seed=bench.seed) as engine:
        n_keys = 1_000
        keys = np.arange(n_keys)
        engine.push("b", {f"k{n}": keys for n in range(N_JOINS)})
        for n in range(n_joins):
            engine.push(f"x{n}", {"v": keys})
        counted = [probes_of_a(engine)]
        for _ in range(n_rounds):
            drawn = rng.integers(0, MATCHING * n_keys, n_rows)
            engine.push("a", {f"k{n}": drawn for n in range(N_JOINS)} | {"m": drawn % n_keys})
            counted.append(probes_of_a(engine))
    middle = n_rounds // 2
    spans = ((0, n_rounds), (0, middle), (middle, n_rounds))
    return [(counted[end] - counted[begin]) / ((end - begin) * n_rows) for begin, end in spans]


def run(bench: Benchmark) -> None:
    found = {
        "one": probes_per_row(1, bench, is_shared=True),
        "twenty": probes_per_row(N_JOINS, bench, is_shared=True),
        "nothing in common": probes_per_row(N_JOINS, bench, is_shared=False),
    }
    for name, (overall, learning, settled) in found.items():
        bench.row(
            joins=name,
            probes_per_row=overall,
            probes_per_row_learning=learning,
            probes_per_row_settled=settled,
        )
    overall, learning, settled = (many / one for many, one in zip(found["twenty"], found["one"], strict=True))
    bench.claim("twenty_signatures_shared_prefix_probes_per_row", overall, "<= 1.2")
    bench.claim("twenty_signatures_shared_prefix_probes_per_row_learning", learning, "reported")
    bench.claim("twenty_signatures_shared_prefix_probes_per_row_settled", settled, "<= 1.2")
    apart = found["nothing in common"][0] / found["one"][0]
    bench.claim("twenty_signatures_apart_probes_per_row", apart, "reported")


if __name__ == "__main__":
    main(run, __file__, __doc__, seed=11)
