"""What does it cost to register many queries?

Claim     100,000 texts of 20 shapes are parsed and bound 20 times, not 100,000 times
Claim     a simple query takes at most 2 KB of tracked memory, registered by text or from a template
Baseline  parsing and binding each text anew (measured on a sample of the same texts, with the shapes forgotten in between)
Control   20 texts of 20 shapes: nothing to share, so sharing must cost no more than the parse itself
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

import eddyline
from benchmarks.harness import Benchmark, main, timed

SCHEMA = (
    "sym STRING, sector STRING, venue STRING, price DOUBLE, qty BIGINT, ratio DOUBLE, day DATE, flag BOOLEAN"
)
SHAPES = [
    "SELECT sym, price FROM trades WHERE sym = '{s}' AND price < {f}",
    "SELECT sym, price FROM trades WHERE sym = '{s}' AND price > {f}",
    "SELECT * FROM trades WHERE sym = '{s}'",
    "SELECT * FROM trades WHERE price BETWEEN {f} AND {g}",
    "SELECT sym FROM trades WHERE qty > {i}",
    "SELECT sym FROM trades WHERE qty > {i} AND sector = '{t}'",
    "SELECT sym, qty FROM trades WHERE sector = '{t}' OR venue = '{s}'",
    "SELECT sym, price * qty AS value FROM trades WHERE price * qty > {f}",
    "SELECT sym FROM trades WHERE sym IN ('{s}', '{t}', 'ZZZ')",
    "SELECT sym FROM trades WHERE venue LIKE '{s}%' AND qty >= {i}",
    "SELECT sym FROM trades WHERE NOT (price < {f} AND qty < {i})",
    "SELECT sym, upper(venue) AS v FROM trades WHERE lower(venue) = '{s}'",
    "SELECT sym FROM trades WHERE ratio >= {f} AND ratio < {g} AND flag",
    "SELECT sym FROM trades WHERE day >= DATE '2024-01-{d}'",
    "SELECT sym FROM trades WHERE price IS NOT NULL AND qty <> {i}",
    "SELECT sym, CASE WHEN qty > {i} THEN 'big' ELSE 'small' END AS size FROM trades WHERE sector = '{t}'",
    "SELECT sym FROM trades WHERE coalesce(ratio, 0.0) > {f}",
    "SELECT sym FROM trades WHERE abs(price - {f}) < {g}",
    "SELECT sym FROM trades WHERE sym > '{s}' AND sym < '{t}'",
    "SELECT sym FROM trades WHERE (sector = '{t}' AND price < {f}) OR (sector = '{s}' AND price > {g})",
]


def texts(n: int, rng: np.random.Generator) -> list[str]:
    """n texts of 20 shapes, each with constants of its own."""
    made = []
    for at in range(n):
        made.append(
            SHAPES[at % len(SHAPES)].format(
                s=f"S{rng.integers(1_000_000)}",
                t=f"T{rng.integers(1_000)}",
                f=round(float(rng.uniform(1, 100)), 2),
                g=round(float(rng.uniform(100, 1000)), 2),
                i=int(rng.integers(1, 100_000)),
                d=f"{rng.integers(1, 29):02d}",
            )
        )
    return made


def simple_text(k: int) -> str:
    return f"SELECT sym, price FROM trades WHERE sym = 'S{k}' AND price < {k % 97}.5"


def fresh_engine() -> eddyline.Engine:
    engine = eddyline.open()
    engine.stream("trades", SCHEMA)
    return engine


def tracked_bytes(register: Callable[[eddyline.Engine], Any]) -> int:
    """Python and Arrow memory held after `register(engine)`, in bytes."""
    engine = fresh_engine()
    engine.query("SELECT sym FROM trades WHERE price < 1", name="warm up")
    gc.collect()
    arrow = pa.total_allocated_bytes()
    tracemalloc.start()
    register(engine)
    engine.push("trades", engine.streams()[0].schema.empty_table())  # make the plan, as the first round does
    gc.collect()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return held + pa.total_allocated_bytes() - arrow


def template_table(n: int, rng: np.random.Generator) -> pa.Table:
    return pa.table(
        {
            "sym": pa.array([f"S{k}" for k in rng.integers(0, 100_000, n)]),
            "limit": pa.array(np.round(rng.uniform(1, 100, n), 2)),
        }
    )


TEMPLATE = "SELECT sym, price FROM trades WHERE sym = :sym AND price < :limit"


def registered(texts: list[str], *, forgetting: bool = False) -> eddyline.Engine:
    """An engine with these queries; `forgetting` the shape of each before the next comes."""
    engine = fresh_engine()
    for text in texts:
        engine.query(text)
        if forgetting:
            engine.rounds.shapes.forget("trades")
    return engine


def run(bench: Benchmark) -> None:
    rng = np.random.default_rng(bench.seed)
    n_texts = bench.size(full=100_000, quick=10_000)
    n_template = bench.size(full=1_000_000, quick=100_000)
    n_memory = bench.size(full=20_000, quick=2_000)

    made = texts(n_texts, rng)
    us_each = {}
    parsed = bound = 0
    for what, given, forgetting in [
        (f"{n_texts:,} texts of {len(SHAPES)} shapes", made, False),
        ("baseline: each parsed anew", made[:1000], True),
        ("control: nothing to share", made[: len(SHAPES)], False),
    ]:
        seconds, engine = timed(
            lambda given=given, forgetting=forgetting: registered(given, forgetting=forgetting)
        )
        shapes = engine.rounds.shapes
        us_each[what] = 1e6 * seconds / len(given)
        bench.row(what=what, cpu_s=seconds, us_each=us_each[what], parsed=shapes.parsed, bound=shapes.bound)
        if len(given) == n_texts:
            parsed, bound = shapes.parsed, shapes.bound

    table = template_table(n_template, rng)
    engine = fresh_engine()
    seconds, _ = timed(lambda: engine.query_many(TEMPLATE, params=table))
    assert engine.n_queries == n_template
    bench.row(
        what=f"template, {n_template:,} parameter rows",
        cpu_s=seconds,
        us_each=1e6 * seconds / n_template,
        parsed=engine.rounds.shapes.parsed,
        bound=engine.rounds.shapes.bound,
    )

    registrations: dict[
        str, Callable[[eddyline.Engine], Any]
    ] = {  # what is registered is made while memory is tracked, so it counts
        "texts": lambda engine: [engine.query(simple_text(k)) for k in range(n_memory)],
        "named texts": lambda engine: engine.query_many(
            {f"rule-{k}": simple_text(k) for k in range(n_memory)}
        ),
        "template": lambda engine: engine.query_many(TEMPLATE, params=template_table(n_memory, rng)),
    }
    bytes_each = {what: tracked_bytes(register) / n_memory for what, register in registrations.items()}
    for what, nbytes in bytes_each.items():
        bench.row(what=f"memory, {n_memory:,} {what}", bytes_each=nbytes)

    shared, anew, _ = us_each.values()
    bench.claim("parsed_once_per_shape", parsed, f"= {len(SHAPES)}")
    bench.claim("bound_once_per_shape", bound, f"= {len(SHAPES)}")
    bench.claim("bytes_per_simple_query", round(max(bytes_each.values())), "<= 2048")
    bench.claim("shared_vs_parsed_anew", round(anew / shared, 1), "reported")


if __name__ == "__main__":
    main(run, __file__, __doc__, seed=20)
