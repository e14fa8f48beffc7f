"""What do ten thousand thresholds on one sum cost, beside one?

Claim     ten_thousand_thresholds_over_one    CPU time of a push with 10,000 alert queries `HAVING sum(x) > c`, over that with
                                              one, while no group crosses a threshold: at most 1.3
Baseline  one of the queries
Control   `open`: one group in a hundred is above one threshold in a hundred, and stays there while its sum grows. Nothing fires
          and nothing resolves, but each of these pairs has a row before and a row after. Reported.
Control   `changes`: queries without alerts that select the sum, all below every group: each change of a group is an update of
          each of them. Reported, with the updates.

Rows are of groups at random; the filters read each changed group twice, as it was and as it is, however many queries there are.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle

import numpy as np
import pyarrow as pa

import eddyline
from benchmarks.harness import Benchmark, main

SELECT = "SELECT k, sum(x) AS total FROM payments GROUP BY k HAVING sum(x) > :c"
SELECT_KEY = "SELECT k FROM payments GROUP BY k HAVING sum(x) > :c"
OUT_OF_REACH = 1 << 50
PREFERRED = 1 << 40  # the sum that one group in a hundred begins with
BATCHES = 8
SHARE = 100


class Contender:
    """An engine with its rules, whose groups all have rows."""

    def __init__(
        self, thresholds: np.ndarray, batches: list[pa.Table], n_groups: int, *, is_alert: bool = True
    ) -> None:
        self.engine = eddyline.open(results_per_query=1)
        self.engine.stream("payments", "k BIGINT, x BIGINT")
        properties = {"per": "k", "severity": "warning"} if is_alert else {}
        text = SELECT_KEY if is_alert else SELECT
        self.engine.query_many(text, params={"c": thresholds}, keep="1000 days", **properties)
        groups = np.arange(n_groups)
        first = pa.table({"k": groups, "x": np.where(groups % SHARE == 0, PREFERRED, 1)})
        self.n_first = self.engine.push("payments", first).count
        self._batches = cycle(batches)
        self._n_of_turn = len(batches)

    def turn(self) -> Callable[[], int]:
        """Results of a push of each batch."""
        return lambda: sum(
            self.engine.push("payments", next(self._batches)).count for _ in range(self._n_of_turn)
        )


def run(bench: Benchmark) -> None:
    rng = np.random.default_rng(bench.seed)
    n_rules = bench.size(full=10_000, quick=1_000)
    n_groups = bench.size(full=10_000, quick=1_000)
    n_rows = bench.size(full=10_000, quick=1_000)
    n_updated = bench.size(full=100, quick=10)
    batches = [
        pa.table({"k": rng.integers(0, n_groups, n_rows), "x": rng.integers(1, 100, n_rows)})
        for _ in range(BATCHES)
    ]
    above = OUT_OF_REACH + np.arange(n_rules)
    some_open = np.where(np.arange(n_rules) % SHARE == 0, PREFERRED // 2 + np.arange(n_rules), above)
    contenders = {
        "one": Contender(above[:1], batches, n_groups),
        "ten thousand": Contender(above, batches, n_groups),
        "open": Contender(some_open, batches, n_groups),
        "changes of one": Contender(np.zeros(1, np.int64), batches, n_groups, is_alert=False),
        "changes": Contender(-np.arange(n_updated), batches, n_groups, is_alert=False),
    }
    assert contenders["ten thousand"].n_first == 0
    assert contenders["open"].n_first == (n_groups // SHARE) * (n_rules // SHARE)
    turns = {name: contender.turn() for name, contender in contenders.items()}
    for turn in turns.values():
        turn()
    taken = bench.interleaved(turns, repetitions=7)
    for name, found in taken.items():
        bench.row(
            rules=name,
            queries=contenders[name].engine.n_queries,
            results=found.result,
            us_per_row=1e6 * found.median_s / (BATCHES * n_rows),
            spread=found.spread,
        )
    assert [taken[name].result for name in ("one", "ten thousand", "open")] == [0, 0, 0]
    one, many = taken["one"].median_s, taken["ten thousand"].median_s
    bench.claim("ten_thousand_thresholds_over_one", many / one, "<= 1.3")
    bench.claim("open_thresholds_over_one", taken["open"].median_s / one, "reported")
    updates = taken["changes"].result
    assert updates == n_updated * taken["changes of one"].result
    bench.claim("updates_per_s", updates / taken["changes"].median_s, "reported")
    for contender in contenders.values():
        contender.engine.close()


if __name__ == "__main__":
    main(run, __file__, __doc__, seed=7)
