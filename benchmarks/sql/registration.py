"""What does it cost to register many queries?

Claim     100,000 texts of 20 shapes are parsed and bound 20 times, not 100,000 times
Claim     a simple query takes at most 2 KB of tracked memory, registered by text or from a template
Baseline  parsing and binding each text anew (measured on a sample of the same texts, with the shapes forgotten in between)
Control   20 texts of 20 shapes: nothing to share, so sharing must cost no more than the parse itself
"""

from __future__ import annotations

import argparse
import gc
import json
import platform
import subprocess
import time
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import eddyline

SEED = 20
SCHEMA = "sym STRING, sector STRING, venue STRING, price DOUBLE, qty BIGINT, ratio DOUBLE, day DATE, flag BOOLEAN"
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


def fresh_engine() -> eddyline.Engine:
    engine = eddyline.open()
    engine.stream("trades", SCHEMA)
    return engine


def tracked_bytes(register: Any) -> int:
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


def run(n_texts: int, n_template: int, n_memory: int) -> dict[str, Any]:
    rng = np.random.default_rng(SEED)
    rows: list[dict[str, Any]] = []

    made = texts(n_texts, rng)
    engine = fresh_engine()
    began = time.process_time()
    for text in made:
        engine.query(text)
    shared_s = time.process_time() - began
    parsed, bound = engine.rounds.shapes.parsed, engine.rounds.shapes.bound
    rows.append({"what": f"{n_texts} texts of {len(SHAPES)} shapes", "cpu_s": shared_s, "us_each": 1e6 * shared_s / n_texts,
                 "parsed": parsed, "bound": bound})  # fmt: skip

    sample = made[: min(1000, n_texts)]
    engine = fresh_engine()
    began = time.process_time()
    for text in sample:
        engine.query(text)
        engine.rounds.shapes.forget("trades")
    anew_s = time.process_time() - began
    rows.append({"what": "baseline: each parsed anew", "cpu_s": anew_s, "us_each": 1e6 * anew_s / len(sample),
                 "parsed": engine.rounds.shapes.parsed, "bound": engine.rounds.shapes.bound})  # fmt: skip

    engine = fresh_engine()
    began = time.process_time()
    for text in made[: len(SHAPES)]:
        engine.query(text)
    control_s = time.process_time() - began
    rows.append({"what": "control: nothing to share", "cpu_s": control_s, "us_each": 1e6 * control_s / len(SHAPES),
                 "parsed": engine.rounds.shapes.parsed, "bound": engine.rounds.shapes.bound})  # fmt: skip

    table = template_table(n_template, rng)
    engine = fresh_engine()
    began = time.process_time()
    engine.query_many(TEMPLATE, params=table)
    template_s = time.process_time() - began
    rows.append({"what": f"template, {n_template} parameter rows", "cpu_s": template_s,
                 "us_each": 1e6 * template_s / n_template, "parsed": engine.rounds.shapes.parsed,
                 "bound": engine.rounds.shapes.bound})  # fmt: skip
    assert engine.n_queries == n_template

    simple = [f"SELECT sym, price FROM trades WHERE sym = 'S{k}' AND price < {k % 97}.5" for k in range(n_memory)]
    text_bytes = tracked_bytes(lambda engine: [engine.query(text) for text in simple]) / n_memory
    names = {f"rule-{k}": text for k, text in enumerate(simple)}
    named_bytes = tracked_bytes(lambda engine: engine.query_many(names)) / n_memory
    small = template_table(n_memory, rng)
    template_bytes = tracked_bytes(lambda engine: engine.query_many(TEMPLATE, params=small)) / n_memory
    for what, per_query in [("texts", text_bytes), ("named texts", named_bytes), ("template", template_bytes)]:
        rows.append({"what": f"memory, {n_memory} {what}", "bytes_each": per_query})

    claims = [
        {"name": "parsed_once_per_shape", "value": parsed, "bound": f"= {len(SHAPES)}", "holds": parsed == len(SHAPES), "why": ""},
        {"name": "bound_once_per_shape", "value": bound, "bound": f"= {len(SHAPES)}", "holds": bound == len(SHAPES), "why": ""},
        {"name": "bytes_per_simple_query", "value": round(max(text_bytes, named_bytes, template_bytes)), "bound": "<= 2048",
         "holds": max(text_bytes, named_bytes, template_bytes) <= 2048, "why": ""},
        {"name": "shared_vs_parsed_anew", "value": round((anew_s / len(sample)) / (shared_s / n_texts), 1), "bound": "reported",
         "holds": True, "why": ""},
    ]  # fmt: skip
    return {"benchmark": "sql/registration", "commit": commit(), "machine": machine(), "seed": SEED, "claims": claims, "rows": rows}


def commit() -> str:
    found = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return found.stdout.strip() or "unknown"


def machine() -> str:
    return f"{platform.system()} {platform.machine()}, Python {platform.python_version()}, pyarrow {pa.__version__}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the size, and no results are kept")
    options = parser.parse_args()
    found = run(10_000, 100_000, 2_000) if options.quick else run(100_000, 1_000_000, 20_000)
    for row in found["rows"]:
        print("  ".join(f"{k} {v:,.1f}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items()))
    for claim in found["claims"]:
        print(f"{'holds' if claim['holds'] else 'MISSED':7s} {claim['name']}: {claim['value']} ({claim['bound']}) {claim['why']}")
    if not options.quick:
        path = Path(__file__).parent.parent / "results" / "sql" / "registration.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
