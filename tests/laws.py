"""Laws every way of running the same history must obey. Each takes a history, runs it in two ways, and compares what came out.

These are about queries over one stream; those of joins, tables and views, in every place, are in `operator_laws.py`.

What came out of an engine is its *outcome*: for every query the rows it was told, by arrival number, and the error of every
(row, query) pair that could not be decided.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

import eddyline
from eddyline.expressions import Context
from eddyline.filters import FilterStage
from tests.oracles.duckdb_oracle import comparable

Delta = tuple[int, str, tuple[Any, ...]]  # arrival number, insert or delete, values


@dataclass(frozen=True)
class History:
    """Queries over one stream `s`, and the rows that then arrive, in rounds."""

    schema: pa.Schema
    queries: Mapping[str, tuple[str, Mapping[str, Any]]]  # name -> text and parameters
    rounds: Sequence[pa.Table]

    def cut(self, sizes: Iterable[int]) -> History:
        """The same rows in rounds of these sizes; the last round takes what is left."""
        rows = pa.concat_tables([self.schema.empty_table(), *self.rounds]).combine_chunks()
        rounds, at = [], 0
        for size in sizes:
            rounds.append(rows.slice(at, size))
            at += size
        return replace(self, rounds=[*rounds, rows.slice(at)])

    @property
    def n_rows(self) -> int:
        return sum(len(round_) for round_ in self.rounds)


@dataclass(frozen=True)
class Outcome:
    deltas: dict[str, list[Delta]]
    dead: list[tuple[int, str, str]]  # arrival number, query, error


def open_engine(**options: Any) -> eddyline.Engine:
    return eddyline.open(results_per_query=1_000_000, clock=lambda: 1_767_225_600_000_000, **options)


def outcome(engine: eddyline.Engine) -> Outcome:
    """All an engine has told so far."""
    deltas = {
        query.name: sorted(
            (r.arrival, r.change, comparable(tuple(r.values()))) for r in query.latest(1_000_000)
        )
        for query in engine.queries(per_page=1_000_000)
    }
    dead = sorted((d.arrival or 0, d.query or "", d.error) for d in engine.dead_letters())
    return Outcome(deltas, dead)


def run(
    history: History,
    register: Callable[[eddyline.Engine, History], None] | None = None,
    between: Callable[[eddyline.Engine], None] = lambda engine: None,
    **options: Any,
) -> Outcome:
    """Run a history; `between` is called after every round."""
    engine = open_engine(**options)
    engine.stream("s", history.schema)
    (register or register_texts)(engine, history)
    for rows in history.rounds:
        engine.push("s", rows)
        check(engine)
        between(engine)
    return outcome(engine)


def check(engine: eddyline.Engine) -> None:
    """The invariants of every stage."""
    for _, stage in engine.rounds.stages():
        stage.check()


def register_texts(engine: eddyline.Engine, history: History) -> None:
    for name, (text, parameters) in history.queries.items():
        engine.query(text, name=name, params=parameters or None)


# --------------------------------------------------------------------------------------------- the laws


def replay_gives_the_same_deltas(history: History) -> None:
    assert run(history) == run(history)


def cutting_into_other_rounds_gives_the_same(history: History, sizes: Sequence[int]) -> None:
    assert run(history) == run(history.cut(sizes))


def a_restored_stage_goes_on_as_if_nothing_had_happened(history: History) -> None:
    """Saved and loaded after every round, and looked at in between."""

    def restore(engine: eddyline.Engine) -> None:
        for name, stage in list(engine.rounds.stages()):
            before = stage.snapshot()
            fresh = FilterStage(Context(0, engine.rounds.time_zone, engine.rounds.functions.call))
            fresh.load(stage.save())
            assert stage.snapshot() == before, "saving changed the stage"
            engine.rounds.flow.filters._of_relations[name] = fresh

    assert run(history) == run(history, between=restore)


def the_order_of_registration_does_not_matter(history: History, rng: random.Random) -> None:
    names = list(history.queries)
    rng.shuffle(names)
    shuffled = replace(history, queries={name: history.queries[name] for name in names})
    assert run(history) == run(shuffled)


def together_is_as_each_alone(history: History) -> None:
    together = run(history)
    for name, query in history.queries.items():
        alone = run(replace(history, queries={name: query}))
        assert alone.deltas[name] == together.deltas[name], name
        assert alone.dead == [letter for letter in together.dead if letter[1] == name], name


def seeds_do_not_matter(history: History) -> None:
    assert run(history, seed=0) == run(history, seed=12345)


def a_query_among_many_of_its_shape_answers_as_alone(history: History, n_others: int) -> None:
    """Others of the same shape stand beside it and leave again: what it is told stays the same."""

    def crowded(engine: eddyline.Engine, history: History) -> None:
        register_texts(engine, history)
        for name, (text, parameters) in history.queries.items():
            for n in range(n_others):
                engine.query(text, name=f"other {name} {n}", params=parameters or None)
        for name in history.queries:
            for n in range(0, n_others, 2):
                engine.drop(f"other {name} {n}")

    alone, beside = run(history), run(history, crowded)
    assert alone.deltas == {name: beside.deltas[name] for name in history.queries}
    for name in history.queries:
        for n in range(1, n_others, 2):
            assert beside.deltas[f"other {name} {n}"] == alone.deltas[name]


def a_template_is_as_its_texts(
    schema: pa.Schema,
    template: str,
    table: Sequence[Mapping[str, Any]],
    literals: Callable[[Mapping[str, Any]], str],
    rounds: Sequence[pa.Table],
) -> None:
    """A template with a table of parameters, one by one with parameters, or written out with `literals`."""

    def by_table(engine: eddyline.Engine, history: History) -> None:
        engine.query_many(template, params=list(table), name="q{n}")

    texts = {f"q{row['n']}": (literals(row), {}) for row in table}
    one_by_one = {f"q{row['n']}": (template, row) for row in table}
    expected = run(History(schema, texts, rounds))
    assert run(History(schema, one_by_one, rounds)) == expected
    assert run(History(schema, {}, rounds), by_table) == expected
