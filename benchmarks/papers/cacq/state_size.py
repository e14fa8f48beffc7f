"""Does a row get slower the more queries there is room for?

Claim     reported, as ratios: rows a second with room for 100,000 queries by those with room for 100, five queries at work
Baseline  `bitmaps`: a bit per query and row for those that still want it, one table of bits per attribute, as in the paper
Control   `standing`: as many queries at work as there is room for, where each row has that many answers to give
Paper     fig. 4: from 15 to 3,000 bits of state a tuple, throughput falls by more than five times, at last as 1 / bits

Queries of the paper's random workload. `ours` has registered as many as there is room for and dropped all but five, so that ids
and columns are as long as they ever were. Bitmaps are those of all queries, of which five are alive. CPU seconds.
"""

from __future__ import annotations

import numpy as np

from benchmarks.filters._contenders import Answer, Standing
from benchmarks.filters._workloads import INTS, Workload, dense_int
from benchmarks.harness import Benchmark, main, warmed_up

SIZES = (100, 1_000, 10_000, 100_000)
N_LIVE = 5
ROWS = 4_096
REPETITIONS = 7


def bitmaps(workload: Workload, n_rows: int) -> Answer:
    """All rows with a bit for each query, by a table of bits for each value of each attribute; only the first five are live."""
    n = len(workload.queries)
    rows = workload.rows(n_rows)
    tables = []
    for number, name in enumerate(INTS):
        condition = workload.queries.conditions[number]
        assert condition.column == name, (condition.column, name)
        values = np.arange(100)[:, None]
        tables.append(np.packbits((values >= condition.low) & (values <= condition.high), axis=1))
    live = np.packbits(np.arange(n) < N_LIVE)
    columns = [rows.column(name).to_numpy() for name in INTS]

    def answer() -> int:
        state = np.broadcast_to(live, (n_rows, len(live))).copy()
        for table, column in zip(tables, columns, strict=True):
            state &= table[column]
        return int(np.bitwise_count(state).sum())

    return answer


def run(bench: Benchmark) -> None:
    n_rows = bench.size(full=ROWS, quick=1_024)
    rates: dict[tuple[str, int], float] = {}
    for n in SIZES[: bench.size(full=4, quick=2)]:
        workload = dense_int(n, bench.seed)
        all_at_work, few_at_work = Standing(workload), Standing(workload)
        few_at_work.engine.drop_ids(few_at_work.ids[N_LIVE:].tolist())
        few_at_work.settle()
        rows = workload.rows(n_rows)
        some = rows.slice(0, min(n_rows, workload.batch_rows))
        contenders = {
            "ours": (few_at_work.pushes([rows]), n_rows),
            "bitmaps": (bitmaps(workload, n_rows), n_rows),
            "standing": (all_at_work.pushes([some]), some.num_rows),
        }
        for answer, _ in contenders.values():
            warmed_up(answer, calls=20, at_most_s=1.0)
        found = bench.interleaved(
            {who: answer for who, (answer, _) in contenders.items()},
            repetitions=REPETITIONS,
            at_least_s=0.05,
        )
        assert found["ours"].result == found["bitmaps"].result, {who: t.result for who, t in found.items()}
        for who, (_, n_given) in contenders.items():
            rates[who, n] = n_given / found[who].median_s
            bench.row(
                who=who,
                room_for=n,
                at_work=n if who == "standing" else N_LIVE,
                rows_per_s=rates[who, n],
                by_first=rates[who, n] / rates[who, SIZES[0]],
                bits_a_row=n if who == "bitmaps" else None,
                spread=found[who].spread,
            )
        all_at_work.close()
        few_at_work.close()
    last = max(n for _, n in rates)
    for who in ("ours", "bitmaps", "standing"):
        bench.claim(
            f"{who}_fall_from_{SIZES[0]}_to_{last}", rates[who, SIZES[0]] / rates[who, last], "reported"
        )


if __name__ == "__main__":
    main(run, __file__, __doc__, seed=7)
