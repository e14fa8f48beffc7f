"""A market of trades and a thousand rules over it, in the terminal: `make demo`.

Rules of many shapes stand on one stream of trades. They fire while the trades come in, one is added and one dropped along
the way, and in the end the engine is asked why a rule fired and why another did not. It ends by itself within a minute.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from rich.columns import Columns
from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

import eddyline

SECTORS = {
    "TECH": ["ACME", "BYTE", "CORE", "DATA", "EDGE", "FLUX", "GRID", "HASH"],
    "BANK": ["ALPN", "BRIG", "CITA", "DOVE", "ELMS", "FORT", "GILT", "HALO"],
    "FUEL": ["AMBR", "BARL", "COAL", "DRIL", "ETHR", "FRAC", "GUSH", "HYDR"],
    "FOOD": ["APPL", "BEAN", "CORN", "DILL", "EGGS", "FIGS", "GRPE", "HERB"],
    "MOVE": ["AERO", "BUSS", "CARS", "DOCK", "ESCA", "FERY", "GEAR", "HULL"],
}
VENUES = ["north", "south", "dark-1", "dark-2", "retail"]
SCHEMA = (
    "sym STRING, sector STRING, venue STRING, price DOUBLE, qty INT, prev DOUBLE, note STRING, ts TIMESTAMP"
)
ROUNDS = 60
ROWS_PER_ROUND = 400


@eddyline.udf(returns="double", cost=1e-6)
def surprise(price: pa.Array, prev: pa.Array) -> pa.Array:
    """How many percent a trade is away from the one before."""
    before = prev.to_numpy(zero_copy_only=False)
    with np.errstate(invalid="ignore", divide="ignore"):
        moved = 100 * np.abs(price.to_numpy(zero_copy_only=False) - before) / before
    return pa.array(moved, from_pandas=True)


class Market:
    """Prices that walk at random."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self.symbols = np.array([symbol for symbols in SECTORS.values() for symbol in symbols])
        self._sector = np.array([sector for sector, symbols in SECTORS.items() for _ in symbols])
        self.price = np.round(self._rng.uniform(5, 120, len(self.symbols)), 2)
        self._now_us = 1_700_000_000_000_000

    def trades(self, n: int) -> pa.Table:
        """The next `n` trades."""
        rng = self._rng
        which = rng.integers(0, len(self.symbols), n)
        prev, price = np.empty(n), np.empty(n)
        for at, symbol in enumerate(which):
            prev[at] = self.price[symbol]
            step = rng.normal(0, 0.004) + (
                rng.choice([-1, 1]) * rng.uniform(0.03, 0.09) if rng.random() < 0.004 else 0
            )
            self.price[symbol] = max(0.5, round(self.price[symbol] * (1 + step), 2))
            price[at] = self.price[symbol]
        times = self._now_us + np.cumsum(rng.integers(50, 2_000, n))
        self._now_us = int(times[-1])
        notes = np.where(
            rng.random(n) < 0.02, "block trade, reported late", np.where(rng.random(n) < 0.1, "odd lot", "")
        )
        return pa.table(
            {
                "sym": self.symbols[which],
                "sector": self._sector[which],
                "venue": rng.choice(VENUES, n, p=[0.4, 0.3, 0.1, 0.05, 0.15]),
                "price": price,
                "qty": pa.array(np.maximum(1, rng.pareto(1.2, n) * 100).astype(np.int32)),
                "prev": prev,
                "note": notes,
                "ts": pa.array(times, pa.timestamp("us", tz="UTC")),
            }
        )


@dataclass
class Scene:
    """What the screen shows."""

    rounds: int = 0
    rows: int = 0
    matches: int = 0
    seconds: float = 0.0
    fired: Counter[str] = field(default_factory=Counter)
    lately: deque[str] = field(default_factory=lambda: deque(maxlen=7))
    news: deque[str] = field(default_factory=lambda: deque(maxlen=4))


def register_rules(engine: eddyline.Engine, market: Market, n_rules: int, rng: np.random.Generator) -> None:
    """About `n_rules` rules of a dozen shapes, most of them from templates."""
    n = max(1, n_rules // 10)
    symbols = rng.choice(market.symbols, 4 * n)
    price = dict(zip(market.symbols, market.price, strict=True))
    engine.query_many(
        "SELECT sym, price, qty FROM trades WHERE sym = :sym AND price < :limit",
        params={
            "sym": symbols,
            "limit": [round(price[s] * rng.uniform(0.85, 0.99), 2) for s in symbols],
            "client": np.arange(len(symbols)),
        },
        name="client {client}: {sym} below {limit}",
    )
    engine.query_many(
        "SELECT sym, price FROM trades WHERE sym = :sym AND price BETWEEN :low AND :high",
        params={
            "sym": symbols[: 2 * n],
            "low": [round(price[s] * 1.02, 2) for s in symbols[: 2 * n]],
            "high": [round(price[s] * 1.04, 2) for s in symbols[: 2 * n]],
        },
    )
    engine.query_many(
        "SELECT sym, price * qty AS value FROM trades WHERE sector = :sector AND price * qty > :value",
        params={
            "sector": rng.choice(list(SECTORS), 2 * n),
            "value": np.round(rng.uniform(2e5, 5e6, 2 * n), -3),
        },
    )
    engine.query_many(
        "SELECT * FROM trades WHERE venue LIKE :venue AND qty >= :qty AND (sector = :a OR sector = :b)",
        params={
            "venue": rng.choice(["dark-%", "%th", "retail"], n),
            "qty": rng.integers(500, 20_000, n),
            "a": rng.choice(list(SECTORS), n),
            "b": rng.choice(list(SECTORS), n),
        },
    )
    engine.query_many(
        "SELECT sym, surprise(price, prev) AS percent FROM trades WHERE sector = :sector AND surprise(price, prev) > :percent",
        params={"sector": rng.choice(list(SECTORS), n), "percent": np.round(rng.uniform(2, 9, n), 1)},
    )
    engine.query_many(
        {
            "crash": "SELECT sym, prev, price FROM trades WHERE price < prev * 0.95",
            "late blocks": "SELECT sym, qty, note FROM trades WHERE note RLIKE 'block.*late' AND qty > 1000",
            "penny": "SELECT sym, price FROM trades WHERE price < 1.0",
            "fat finger": "SELECT sym, price, prev FROM trades WHERE NOT price BETWEEN prev * 0.93 AND prev * 1.07",
            "dark tech": "SELECT sym, qty FROM trades WHERE sector IN ('TECH', 'MOVE') AND venue LIKE 'dark%' AND qty > 5000",
            "whale": "SELECT sym, CASE WHEN qty > 50000 THEN 'huge' ELSE 'large' END AS size FROM trades WHERE qty > 20000",
        }
    )


def play(engine: eddyline.Engine, market: Market, scene: Scene, pause_s: float) -> Iterator[None]:
    """The rounds, with a rule added and one dropped on the way."""
    for number in range(1, ROUNDS + 1):
        if number == ROUNDS // 3:
            engine.query(
                "SELECT sym, price, qty FROM trades WHERE sector = 'TECH' AND qty > 3000 AND venue != 'retail'",
                name="tech size",
            )
            scene.news.append(f"round {number}: rule [bold]tech size[/] added, version {engine.version}")
        if number == 2 * ROUNDS // 3:
            engine.get("whale").drop()
            scene.news.append(f"round {number}: rule [bold]whale[/] dropped, version {engine.version}")
        trades = market.trades(ROWS_PER_ROUND)
        began = time.perf_counter()
        matches = engine.push("trades", trades)
        scene.seconds += time.perf_counter() - began
        scene.rounds, scene.rows, scene.matches = (
            number,
            scene.rows + len(trades),
            scene.matches + matches.count,
        )
        for query in matches.queries():
            found = matches.to_arrow(query)
            scene.fired[query.name] += len(found)
            if scene.fired[query.name] < 60 and not query.name.startswith("q"):  # the rare ones are news
                scene.lately.append(
                    f"[bold]{query.name:12s}[/] {_row_text(found.slice(0, 1).to_pylist()[0])}"
                )
        yield
        time.sleep(pause_s)


def _row_text(row: dict[str, object]) -> str:
    shown = (f"{k}={v:.2f}" if isinstance(v, float) else f"{k}={v}" for k, v in row.items() if k != "ts")
    return "  ".join(shown)


def draw(engine: eddyline.Engine, scene: Scene) -> Group:
    """The screen."""
    figures = Table.grid(padding=(0, 2))
    rate = scene.rows / scene.seconds if scene.seconds else 0.0
    figures.add_row(
        "rules standing", f"[bold]{engine.n_queries:,}[/]", "catalog version", f"{engine.version}"
    )
    figures.add_row("trades seen", f"[bold]{scene.rows:,}[/]", "round", f"{scene.rounds} of {ROUNDS}")
    figures.add_row("matches", f"[bold]{scene.matches:,}[/]", "trades per second of work", f"{rate:,.0f}")
    top = Table("rule", "fired", box=None, pad_edge=False)
    for name, n in scene.fired.most_common(7):
        top.add_row(name, f"{n:,}")
    return Group(
        Panel(figures, title="one pass over the trades serves every rule", border_style="cyan"),
        Columns(
            [Panel(top, title="busiest rules"), Panel("\n".join(scene.lately) or "…", title="firing now")]
        ),
        Panel(
            "\n".join(scene.news) or "rules stand, trades flow",
            title="changes while data flows",
            border_style="yellow",
        ),
    )


def ask(engine: eddyline.Engine, console: Console) -> None:
    """One why, one why_not, one explain."""
    fired = engine.get("fat finger")
    rows = fired.latest(1)
    if rows:
        row = dict(rows[0])
        console.rule("why did [bold]fat finger[/] fire?")
        console.print(Text(str(fired.why(row))))
    console.rule("why did [bold]penny[/] never fire?")
    console.print(Text(str(engine.get("penny").why_not(last=1000))))
    console.rule("how is [bold]tech size[/] answered?")
    console.print(Text(str(engine.get("tech size").explain())))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m eddyline.demo", description=__doc__.partition("\n")[0])
    parser.add_argument("--rules", type=int, default=1000, help="how many rules stand (default 1000)")
    parser.add_argument("--seed", type=int, default=7, help="of the market (default 7)")
    parser.add_argument(
        "--pause", type=float, default=None, help="seconds between rounds (default 0.3 on a terminal)"
    )
    options = parser.parse_args(arguments)
    if options.rules < 10:
        parser.error("--rules must be at least 10")
    console = Console()
    pause_s = options.pause if options.pause is not None else (0.3 if console.is_terminal else 0.0)
    market, scene = Market(options.seed), Scene()
    with eddyline.open(clock=lambda: 1_700_000_000_000_000) as engine:
        engine.stream("trades", SCHEMA, time="ts", lateness="5 seconds")
        register_rules(engine, market, options.rules, np.random.default_rng(options.seed))
        if console.is_terminal:
            with Live(draw(engine, scene), console=console, refresh_per_second=8) as live:
                for _ in play(engine, market, scene, pause_s):
                    live.update(draw(engine, scene))
        else:
            for _ in play(engine, market, scene, pause_s):
                if scene.rounds % 10 == 0:
                    console.print(
                        f"round {scene.rounds:3d}: {engine.n_queries:,} rules, {scene.rows:,} trades, {scene.matches:,} matches"
                    )
            console.print(draw(engine, scene))
        ask(engine, console)
        letters = engine.dead_letters()
        console.print(
            f"\n{scene.matches:,} matches of {scene.rows:,} trades with {engine.n_queries:,} rules; "
            f"{letters.total} dead letters."
        )
    console.print(
        "\nTry next:\n"
        "  make demo ARGS='--rules 20000'     the same market with twenty thousand rules\n"
        "  python -i -c 'import eddyline'     your own rules: README.md has ten lines to start from\n"
        "  docs/sql.md                        what a rule can say"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
