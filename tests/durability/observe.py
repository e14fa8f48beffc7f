"""What a home holds, seen through the engine, compared with the model; and a sink that must get every result."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from eddyline import Engine
from eddyline.engine import Durable
from tests.durability.model import WATCH, Model

READER = "the sink of the kill tests"


def facts(engine: Engine) -> dict[str, Any]:
    """The same facts as `Model.facts`, from an open engine."""
    rounds, catalog = engine.rounds, engine.rounds.catalog
    assert rounds.durable is not None
    log = rounds.durable.rounds
    return {
        "version": engine.version,
        "next id": catalog.queries.next_id,
        "streams": {stream.name: len(stream.schema) for stream in engine.streams()},
        "queries": {
            record.name: (
                record.id,
                record.text,
                _constants(record),
                record.state.value,
                record.generation,
            )
            for record in catalog.records()
        },
        "round": rounds.last_round,
        "arrival": rounds.last_arrival,
        "progress": {name: (p.n_rows, p.n_late) for name, p in rounds.progress.items()},
        "dead": log.n_dead(),
    }


def _constants(record: Any) -> tuple[str, Any]:
    values = [constant.as_py() for constant in record.constants]
    if record.text == WATCH:
        by_name = {slot.name: value for slot, value in zip(record.shape.slots, values, strict=True)}
        return by_name["sym"], by_name["limit"]
    return "", values[-1]


def results(engine: Engine) -> list[tuple[Any, ...]]:
    """Every kept result: (round, query, generation, arrival, values)."""
    assert engine.rounds.durable is not None
    found = []
    for number, part in engine.rounds.durable.results():
        marks = zip(part.query_ids, part.generations, part.arrivals, part.rows.to_pylist(), strict=True)
        found += [(number, int(q), int(g), int(a), tuple(row.values())) for q, g, a, row in marks]
    return sorted(found, key=lambda result: result[:4])


def check(engine: Engine, model: Model) -> None:
    """Raise AssertionError unless the home holds exactly what the model says."""
    durable = engine.rounds.durable
    assert durable is not None
    found, expected = facts(engine), model.facts()
    for what, value in expected.items():
        assert found[what] == value, f"{what}: the home has {found[what]}, the model {value}"
    assert not durable.damaged, durable.damaged
    _check_past(durable, model)

    kept = results(engine)
    first_kept = kept[0][0] if kept else model.round_number + 1
    due = sorted((r for r in model.results if r[0] >= first_kept), key=lambda result: result[:4])
    assert kept == due, f"results from round {first_kept} on: the home has {kept}, the model {due}"
    n_files, nbytes = durable.file_counts()["outbox"]
    assert kept or not model.results or nbytes == 0
    lost = [r for r in model.results if r[0] < first_kept]
    assert not lost or n_files, "retention took everything"

    letters = [(d.round_number, d.stream, d.query_id, d.arrival) for d in engine.dead_letters()]
    n_kept = len(letters)
    assert sorted(letters, key=str) == sorted(model.dead[len(model.dead) - n_kept :], key=str), "dead letters"

    for name, standing in model.queries.items():
        mine = [
            (r.round_number, r.query_id, r.generation, r.arrival, tuple(r.values()))
            for r in engine.get(name).latest(100_000)
            if r.round_number >= first_kept  # those of this process may be in memory still
        ]
        assert sorted(mine, key=lambda r: r[:4]) == [r for r in due if r[1] == standing.id], (
            f"results of {name}"
        )

    listed = {file.name for file in durable.rounds.files.all()}
    there = set(durable.store.names()) - durable.in_use
    assert listed == there, f"listed but not there: {listed - there}; there but not listed: {there - listed}"


def _check_past(durable: Durable, model: Model) -> None:
    """The newest versions and rounds are there, as many as retention promises, and every version that is there can be read."""
    numbers = [number for number, _, _ in durable.database.versions.recent(1_000_000)]
    n_promised = min(model.version, durable.retention.version_count + 1)
    assert numbers == list(range(model.version, model.version - len(numbers), -1)), numbers
    assert len(numbers) >= n_promised, f"versions {numbers}, though {n_promised} should be kept"
    for number in numbers:
        _ = [*durable.database.queries.at(number), *durable.database.queries.templates_at(number)]

    rounds = {done.round.number: done.round.token for done in durable.rounds.recent(1_000_000)}
    n_promised = min(model.round_number, durable.retention.round_count)
    newest = set(range(model.round_number, model.round_number - n_promised, -1))
    assert newest <= set(rounds), f"rounds {sorted(rounds)}, though the last {n_promised} should be kept"
    assert {file.round_number for file in durable.rounds.files.all()} <= set(rounds), (
        "a round of a file is gone"
    )
    tokens = {token: number for number, token in rounds.items() if token}
    assert tokens == {token: n for token, n in model.tokens.items() if n in rounds}, "tokens"


class Sink:
    """Takes results in round order, keeps them by itself, and has its cursor in the home: at least once, with identity."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def take(self, engine: Engine) -> None:
        durable = engine.rounds.durable
        assert durable is not None
        after, _ = durable.rounds.cursors.get(READER) or (0, 0)
        found = [result for result in results(engine) if result[0] > after]
        if found:
            with open(self._path, "a", encoding="utf-8") as file:
                file.write("".join(json.dumps(result) + "\n" for result in found))
                file.flush()
                os.fsync(file.fileno())
            durable.rounds.cursors.set(READER, found[-1][0], 0)

    def taken(self) -> list[tuple[Any, ...]]:
        """Results as they came, some perhaps twice; the last line may be half written."""
        if not self._path.exists():
            return []
        found = []
        for line in self._path.read_text(encoding="utf-8").splitlines():
            try:
                *identity, values = json.loads(line)
            except json.JSONDecodeError:
                continue
            found.append((*identity, tuple(values)))
        return found


def check_sink(sink: Sink, engine: Engine, model: Model) -> None:
    """Up to its cursor the sink has every result, and of those it has twice both are the same."""
    durable = engine.rounds.durable
    assert durable is not None
    after, _ = durable.rounds.cursors.get(READER) or (0, 0)
    taken = set(sink.taken())
    identities = [result[:4] for result in taken]
    assert len(set(identities)) == len(identities), "one identity, two results"
    assert taken <= set(model.results), f"never produced: {taken - set(model.results)}"
    missing = {r for r in model.results if r[0] <= after} - taken
    assert not missing, f"the sink never got {missing}"
