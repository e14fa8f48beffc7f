"""What a home must hold, in plain Python: the judge of the kill tests. It shares no code with the engine.

The model knows two streams and a few kinds of queries, small enough to be seen through:

    cheap   SELECT sym, price FROM trades WHERE price < LIMIT
    share   SELECT sym FROM trades WHERE 100 / qty > LIMIT           a dead letter where qty is 0
    watch   SELECT sym, price FROM trades WHERE sym = SYM AND price < LIMIT
    score   SELECT sym, score FROM news WHERE score >= LIMIT
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field, replace
from typing import Any

LATENESS = datetime.timedelta(seconds=5)
MISFIT = {"sym": "ODD", "price": "not a number"}

TRADES = (
    "CREATE TABLE trades (sym STRING, price DOUBLE, qty INT, ts TIMESTAMP) "
    "TBLPROPERTIES (time = 'ts', lateness = '5 seconds')"
)
NEWS = "CREATE TABLE news (sym STRING, score INT)"
WATCH = "SELECT sym, price FROM trades WHERE sym = :sym AND price < :limit"


@dataclass(frozen=True)
class Rule:
    """A query's condition, known by what it means rather than by its text."""

    kind: str
    limit: float
    sym: str = ""

    @property
    def stream(self) -> str:
        return "news" if self.kind == "score" else "trades"

    @property
    def text(self) -> str:
        return {
            "cheap": f"SELECT sym, price FROM trades WHERE price < {self.limit}",
            "share": f"SELECT sym FROM trades WHERE 100 / qty > {self.limit}",
            "watch": WATCH,
            "score": f"SELECT sym, score FROM news WHERE score >= {self.limit}",
        }[self.kind]

    def meets(self, row: dict[str, Any]) -> dict[str, Any] | ZeroDivisionError | None:
        """The result for a row, None if it does not match, or the error."""
        if self.kind == "cheap":
            is_match = row["price"] is not None and row["price"] < self.limit
            return {"sym": row["sym"], "price": row["price"]} if is_match else None
        if self.kind == "share":
            if row.get("qty") is None:
                return None
            if row["qty"] == 0:
                return ZeroDivisionError()
            return {"sym": row["sym"]} if 100 / row["qty"] > self.limit else None
        if self.kind == "watch":
            is_match = row["sym"] == self.sym and row["price"] is not None and row["price"] < self.limit
            return {"sym": row["sym"], "price": row["price"]} if is_match else None
        return {"sym": row["sym"], "score": row["score"]} if row["score"] >= self.limit else None


@dataclass
class Standing:
    """A registered query."""

    id: int
    rule: Rule
    generation: int = 1
    is_paused: bool = False


@dataclass
class Model:
    """All a home holds after some steps."""

    version: int = 0
    next_id: int = 1
    streams: dict[str, int] = field(default_factory=dict)  # name -> number of columns
    queries: dict[str, Standing] = field(default_factory=dict)
    round_number: int = 0
    arrival: int = 0
    tokens: dict[str, int] = field(default_factory=dict)
    n_rows: dict[str, int] = field(default_factory=dict)
    n_late: dict[str, int] = field(default_factory=dict)
    newest: datetime.datetime | None = None  # of trades
    results: list[tuple[Any, ...]] = field(
        default_factory=list
    )  # (round, query, generation, arrival, values)
    dead: list[tuple[Any, ...]] = field(default_factory=list)  # (round, stream, query, arrival)

    def copied(self) -> Model:
        """A model that goes its own way from here."""
        return replace(
            self,
            streams=dict(self.streams),
            queries={name: replace(standing) for name, standing in self.queries.items()},
            tokens=dict(self.tokens),
            n_rows=dict(self.n_rows),
            n_late=dict(self.n_late),
            results=list(self.results),
            dead=list(self.dead),
        )

    # ----------------------------------------------------------------------------------------- catalog

    def declare(self, name: str, n_columns: int) -> None:
        self.version += 1
        self.streams[name] = n_columns

    def drop_stream(self, name: str) -> None:
        self.version += 1
        del self.streams[name]
        self.n_rows.pop(name, None)
        self.n_late.pop(name, None)

    def register(self, rules: dict[str, Rule]) -> None:
        """One query or many, in one version."""
        self.version += 1
        for name, rule in rules.items():
            self.queries[name] = Standing(self.next_id, rule)
            self.next_id += 1

    def replace(self, name: str, rule: Rule) -> None:
        self.version += 1
        standing = self.queries[name]
        standing.rule, standing.generation = rule, standing.generation + 1

    def pause(self, name: str) -> None:
        self.version += 1
        self.queries[name].is_paused = True

    def resume(self, name: str) -> None:
        self.version += 1
        self.queries[name].is_paused = False
        self.queries[name].generation += 1

    def drop(self, names: list[str]) -> None:
        self.version += 1
        for name in names:
            del self.queries[name]

    # ----------------------------------------------------------------------------------------- rounds

    def push(self, token: str | None, rows: dict[str, list[dict[str, Any]]]) -> None:
        self.round_number += 1
        if token is not None:
            self.tokens[token] = self.round_number
        watermark = None if self.newest is None else self.newest - LATENESS
        for stream, given in rows.items():
            self.n_rows.setdefault(stream, 0)
            self.n_late.setdefault(stream, 0)
            for row in given:
                if row == MISFIT:
                    self.dead.append((self.round_number, stream, None, None))
                    continue
                self.arrival += 1
                self.n_rows[stream] += 1
                if stream == "trades" and row.get("ts") is not None:
                    self.n_late[stream] += watermark is not None and row["ts"] < watermark
                    self.newest = max(self.newest or row["ts"], row["ts"])
                self._meet(stream, row)

    def _meet(self, stream: str, row: dict[str, Any]) -> None:
        for standing in self.queries.values():
            if standing.rule.stream == stream and not standing.is_paused:
                answer = standing.rule.meets(row)
                if isinstance(answer, ZeroDivisionError):
                    self.dead.append((self.round_number, stream, standing.id, self.arrival))
                elif answer is not None:
                    identity = (self.round_number, standing.id, standing.generation, self.arrival)
                    self.results.append((*identity, tuple(answer.values())))

    # ----------------------------------------------------------------------------------------- looking

    def facts(self) -> dict[str, Any]:
        """What a home must show, but for what retention may have taken."""
        return {
            "version": self.version,
            "next id": self.next_id,
            "streams": dict(self.streams),
            "queries": {
                name: (
                    q.id,
                    q.rule.text,
                    (q.rule.sym, q.rule.limit),
                    "paused" if q.is_paused else "running",
                    q.generation,
                )
                for name, q in self.queries.items()
            },
            "round": self.round_number,
            "arrival": self.arrival,
            "progress": {name: (n, self.n_late[name]) for name, n in self.n_rows.items()},
            "dead": len(self.dead),
        }
