"""Rounds whose work is done in tasks give what rounds in this process give, whatever becomes of the tasks."""

from __future__ import annotations

import pickle
import random
from dataclasses import replace

import pyarrow as pa
import pytest

import eddyline
from eddyline.engine.shared_work import SharedRounds
from eddyline.engine.task_outcomes import ReferenceRefused, RowsNumbered
from eddyline.engine.tasks import by_bytes, run_task
from eddyline.errors import StreamChangedError
from eddyline.model import ExecutionChoices
from eddyline.sources.captures import capture_reference
from eddyline.sources.references import PlannedInput, Reference
from eddyline.storage import StoredFile, write_capture

SCHEMA = "sym STRING, price DOUBLE, n BIGINT, ts TIMESTAMP"


def elsewhere(tasks):
    """As a worker would: what is sent and brought back can be pickled."""
    return [pickle.loads(pickle.dumps(run_task(pickle.loads(pickle.dumps(task))))) for task in tasks]


@pytest.fixture
def engine(tmp_path):
    with eddyline.open(tmp_path / "home", clock=lambda: 1_000_000_000) as engine:
        engine.stream("trades", SCHEMA, time="ts", lateness="5 seconds")
        yield engine


def shared(engine, run=elsewhere, **options) -> SharedRounds:
    return SharedRounds(engine.rounds, run, pickle.dumps, choices=ExecutionChoices(**options))


def rows(*values) -> pa.RecordBatch:
    """(sym, price, n, seconds) of each row."""
    schema = pa.schema(
        [("sym", "string"), ("price", "double"), ("n", "int64"), ("ts", pa.timestamp("us", "UTC"))]
    )
    columns = list(zip(*values, strict=True)) if values else [[], [], [], []]
    columns[3] = [None if t is None else t * 1_000_000 for t in columns[3]]
    return pa.RecordBatch.from_arrays(
        [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema
    )


def offered(engine, *batches, position="there") -> PlannedInput:
    """Batches as references: each is a file of the store."""
    store = engine.rounds.durable.store
    references = []
    for batch in batches:
        file = store.put("capture", lambda file, b=batch: write_capture(file, [("trades", b)]))
        references.append(capture_reference(store.folder, file))
    return PlannedInput(tuple(references), lambda counts: [position, [c.n_rows for c in counts]])


def results(query) -> list[tuple]:
    found = sorted(query.results(), key=lambda r: r.arrival)
    return [(r.arrival, tuple(r.values()), r.generation, r.is_late) for r in found]


def test_results_come_with_the_numbers_of_their_rows_whatever_task_had_them(engine):
    cheap = engine.query("SELECT sym, price FROM trades WHERE price < 10")
    one = offered(
        engine,
        rows(("A", 1.0, 1, 1), ("B", 20.0, 2, 2)),
        rows(("C", 3.0, 3, 3)),
        rows(),
        rows(("D", 4.0, 4, 4), ("E", 50.0, 5, 5)),
    )
    outcome = shared(engine, task_bytes=1).run_round({"trades": one})
    assert (outcome.round.number, outcome.round.n_rows, outcome.n_results) == (1, {"trades": 5}, 3)
    assert results(cheap) == [
        (1, ("A", 1.0), 1, False),
        (3, ("C", 3.0), 1, False),
        (4, ("D", 4.0), 1, False),
    ]
    engine.push("trades", rows(("F", 6.0, 6, 6)))
    assert results(cheap) == [(6, ("F", 6.0), 1, False)]


def test_the_position_is_committed_with_the_round_and_knows_the_counts(engine):
    one = offered(engine, rows(("A", 1.0, 1, 1)), rows(("B", 2.0, 2, 2), ("C", 2.0, 2, 2)), position="x")
    shared(engine, task_bytes=1).run_round({"trades": one}, position_of=lambda name, at: {"at": at})
    assert engine.rounds.durable.rounds.position("trades") == {"at": ["x", [1, 2]]}


def test_late_rows_are_judged_by_where_the_stream_stood_before_the_round(engine):
    everything = engine.query("SELECT n FROM trades")
    rounds = shared(engine, task_bytes=1)
    rounds.run_round({"trades": offered(engine, rows(("A", 1.0, 1, 100)), rows(("A", 1.0, 2, 1)))})
    rounds.run_round({"trades": offered(engine, rows(("A", 1.0, 3, 94)), rows(("A", 1.0, 4, 95)))})
    assert [(row[0], late) for _, row, _, late in results(everything)] == [
        (1, False),
        (2, False),
        (3, True),
        (4, False),
    ]
    progress = engine.rounds.progress["trades"]
    assert (progress.n_rows, progress.n_late, progress.watermark_us) == (4, 1, 95_000_000)


def test_a_home_opened_again_has_the_results_letters_and_numbers_of_shared_rounds(tmp_path):
    with eddyline.open(tmp_path / "home") as engine:
        engine.stream("trades", SCHEMA)
        engine.query("SELECT n, 10 / n AS share FROM trades WHERE 10 / n > 1", name="share")
        engine.push("trades", rows(("Z", 1.0, 100, 0)))
        one = offered(engine, rows(("A", 1.0, 2, 1)), rows(("B", 1.0, 0, 1), ("C", 1.0, 5, 1)))
        shared(engine, task_bytes=1).run_round({"trades": one})
        before = [(r.arrival, dict(r), r.cursor) for r in engine.get("share").latest()]
        (letter,) = engine.dead_letters()
        assert (letter.arrival, letter.round_number, letter.query, letter.row["sym"]) == (3, 2, "share", "B")
    with eddyline.open(tmp_path / "home") as engine:
        assert [(r.arrival, dict(r), r.cursor) for r in engine.get("share").latest()] == before
        assert [arrival for arrival, _, _ in before] == [2, 4]
        (again,) = engine.dead_letters()
        assert (again.arrival, again.round_number, again.query) == (3, 2, "share")


def test_a_reference_that_cannot_be_read_leaves_nothing_and_is_named(engine):
    engine.query("SELECT sym FROM trades")
    good = offered(engine, rows(("A", 1.0, 1, 1)))
    gone = Reference("capture", {**good.references[0].what, "name": "capture/00000001-no.arrow"}, 1)
    store = engine.rounds.durable.store
    with pytest.raises(ReferenceRefused) as raised:
        shared(engine, task_bytes=1).run_round(
            {"trades": PlannedInput((*good.references, gone), lambda counts: None)}
        )
    assert raised.value.reference == gone
    assert "cannot be read" in raised.value.why
    assert [name for name in store.names() if name.startswith("outbox")] == []
    assert engine.rounds.durable.rounds.last() is None


def test_rows_with_numbers_of_their_own_are_left_to_the_driver(engine):
    numbered = rows(("A", 1.0, 1, 1)).append_column("_arrival", pa.array([7]))
    with pytest.raises(RowsNumbered):
        shared(engine).run_round({"trades": offered(engine, numbered)})


def captured(engine, *batches) -> PlannedInput:
    """As `offered`, and the files are to become the round's own."""
    one = offered(engine, *batches)
    names = [reference.what["name"] for reference in one.references]
    sizes = [(reference.what["nbytes"], reference.what["checksum"]) for reference in one.references]
    files = tuple(("capture", StoredFile(name, *size)) for name, size in zip(names, sizes, strict=True))
    return replace(one, files=files)


def captures(engine) -> tuple[list[tuple], list[str]]:
    """Captures that rounds list, with round and first arrival number; and all that are there."""
    durable = engine.rounds.durable
    listed = [(f.name, f.round_number, f.first_arrival) for f in durable.rounds.files.all("capture")]
    return listed, [name for name in durable.store.names() if name.startswith("capture")]


def test_files_that_belong_to_the_input_are_listed_with_the_round_and_the_numbers_of_their_rows(engine):
    one = captured(engine, rows(("A", 1.0, 1, 1), ("B", 1.0, 2, 1)), rows(), rows(("C", 1.0, 3, 1)))
    shared(engine, task_bytes=1).run_round({"trades": one})
    listed, there = captures(engine)
    first, empty, last = (file.name for _, file in one.files)
    assert sorted(listed) == sorted([(first, 1, 1), (empty, 1, 3), (last, 1, 3)])
    assert sorted(there) == sorted([first, empty, last])


def test_files_that_belong_to_the_input_of_a_round_that_did_not_happen_are_removed(engine):
    def fails(tasks):
        raise RuntimeError("no worker")

    with pytest.raises(RuntimeError, match="no worker"):
        shared(engine, fails).run_round({"trades": captured(engine, rows(("A", 1.0, 1, 1)))})
    assert captures(engine) == ([], [])
    shared(engine).run_round({"trades": captured(engine, rows(("A", 1.0, 1, 1)))}, token="once")
    before = captures(engine)
    assert len(before[0]) == 1
    shared(engine).run_round({"trades": captured(engine, rows(("A", 1.0, 1, 1)))}, token="once")
    assert captures(engine) == before


def test_files_that_belong_to_the_input_outlive_a_round_that_is_overtaken(engine):
    pushed = []

    def slowly(tasks):
        if not pushed:
            pushed.append(engine.push("trades", rows(("A", 1.0, 1, 1))))
        return elsewhere(tasks)

    outcome = shared(engine, slowly).run_round({"trades": captured(engine, rows(("B", 1.0, 2, 1)))})
    assert (outcome.round.number, outcome.round.n_rows) == (2, {"trades": 1})
    assert [number for _, number, _ in captures(engine)[0]] == [1, 2]


def test_tasks_run_twice_or_outliving_their_round_change_nothing(engine):
    cheap = engine.query("SELECT sym FROM trades WHERE price < 10")
    left = []

    def twice(tasks):
        left.extend(tasks)
        elsewhere(tasks)
        return elsewhere(tasks)

    shared(engine, twice).run_round({"trades": offered(engine, rows(("A", 1.0, 1, 1)))})
    elsewhere(left)
    assert [row for _, row, _, _ in results(cheap)] == [("A",)]
    listed = {file.name for file in engine.rounds.durable.rounds.files.all()}
    outbox = [name for name in engine.rounds.durable.store.names() if name.startswith("outbox")]
    assert len(outbox) == 3
    assert len(listed & set(outbox)) == 1


def test_a_round_of_the_same_stream_that_comes_between_makes_it_plan_again(engine):
    everything = engine.query("SELECT n FROM trades")
    pushed = []

    def slowly(tasks):
        if not pushed:
            pushed.append(engine.push("trades", rows(("A", 1.0, 1, 1_000))))
        return elsewhere(tasks)

    shared(engine, slowly).run_round({"trades": offered(engine, rows(("B", 1.0, 2, 1)))})
    assert results(everything) == [(1, (1,), 1, False), (2, (2,), 1, True)]


def test_a_round_of_another_stream_may_come_between(engine):
    engine.stream("quotes", "sym STRING")
    everything = engine.query("SELECT n FROM trades")
    n_tries = []

    def slowly(tasks):
        n_tries.append(1)
        engine.push("quotes", [{"sym": "A"}])
        return elsewhere(tasks)

    outcome = shared(engine, slowly).run_round({"trades": offered(engine, rows(("B", 1.0, 2, 1)))})
    assert (len(n_tries), outcome.round.number) == (1, 2)
    assert results(everything) == [(2, (2,), 1, False)]


def test_a_token_known_already_gives_the_round_it_belonged_to(engine):
    rounds = shared(engine)
    first = rounds.run_round({"trades": offered(engine, rows(("A", 1.0, 1, 1)))}, token="query 1 batch 0")
    again = rounds.run_round({"trades": offered(engine, rows(("A", 1.0, 1, 1)))}, token="query 1 batch 0")
    assert (again.is_repeat, again.round.number) == (True, first.round.number)


def test_generations_and_functions_reach_the_tasks(engine):
    @eddyline.udf(returns="bigint", name="shared_twice")
    def twice(n: int) -> int:
        return 2 * n

    query = engine.query("SELECT shared_twice(n) AS m FROM trades WHERE n = 1", name="q")
    engine.replace(query, "SELECT shared_twice(n) AS m FROM trades WHERE n = 2")
    rounds = SharedRounds(engine.rounds, elsewhere, _pickled_by_value)
    rounds.run_round({"trades": offered(engine, rows(("A", 1.0, 1, 1), ("B", 1.0, 2, 1)))})
    assert results(query) == [(2, (4,), 2, False)]


def _pickled_by_value(functions) -> bytes:
    cloudpickle = pytest.importorskip("pyspark.cloudpickle")
    return cloudpickle.dumps(list(functions))


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(6))
def test_shared_rounds_and_rounds_here_agree_while_queries_come_and_go(tmp_path, seed):
    chance = random.Random(seed)
    here = eddyline.open(tmp_path / "here", clock=lambda: 1_000_000_000)
    there = eddyline.open(tmp_path / "there", clock=lambda: 1_000_000_000)
    both = (here, there)
    for engine in both:
        engine.stream("trades", SCHEMA, time="ts", lateness="5 seconds")
    rounds = shared(there, task_bytes=300)
    template = "SELECT sym, price FROM trades WHERE sym = :sym AND price < :limit"
    for step in range(12):
        for _ in range(chance.randrange(4)):
            what = chance.random()
            if what < 0.4:
                bound = chance.randrange(100)
                for engine in both:
                    engine.query(f"SELECT n FROM trades WHERE n > {bound}", name=f"q{step}-{bound}")
            elif what < 0.6:
                params = [{"sym": chance.choice("ABC"), "limit": chance.random() * 90} for _ in range(300)]
                for engine in both:
                    engine.query_many(template, params=params)
            else:
                ids = [query.id for query in here.queries(per_page=1000)]
                if ids:
                    one = chance.choice(ids)
                    if what < 0.8:
                        for engine in both:
                            engine.drop(one)
                    else:
                        for engine in both:
                            engine.get(one).pause()
                            engine.get(one).resume()
        batches = [
            rows(
                *[
                    (
                        chance.choice("ABC"),
                        chance.random() * 100,
                        chance.randrange(100),
                        10 * step - chance.randrange(20),
                    )
                    for _ in range(chance.randrange(30))
                ]
            )
            for _ in range(4)
        ]
        whole = pa.Table.from_batches(batches).combine_chunks().to_batches()
        here.push("trades", whole[0] if whole else rows())
        rounds.run_round({"trades": offered(there, *batches)})
    ours, theirs = (_everything(engine) for engine in both)
    assert ours == theirs
    assert len(ours) > 100
    for engine in both:
        engine.close()


def _everything(engine) -> list[tuple]:
    found = []
    for number, part in engine.rounds.durable.results():
        for at, row in enumerate(part.rows.to_pylist()):
            identity = int(part.query_ids[at]), int(part.generations[at]), int(part.arrivals[at])
            found.append((number, *identity, bool(part.is_late[at]), tuple(row.items())))
    return sorted(found)


def test_tasks_are_cut_by_bytes_and_no_more_than_allowed():
    references = [Reference("x", {"k": k}, 10) for k in range(10)]
    assert [len(task) for task in by_bytes(references, 30, 100)] == [3, 3, 3, 1]
    assert [len(task) for task in by_bytes(references, 1, 4)] == [3, 3, 3, 1]
    assert by_bytes([], 30, 4) == []
    assert [len(task) for task in by_bytes(references, 1000, 4)] == [10]


def test_a_stream_dropped_and_declared_again_while_its_rows_are_worked_on_gets_none_of_them(engine):
    def slowly(tasks):
        engine.drop_stream("trades")
        engine.stream("trades", SCHEMA, time="ts")
        return elsewhere(tasks)

    with pytest.raises(StreamChangedError):
        shared(engine, slowly).run_round({"trades": offered(engine, rows(("A", 1.0, 1, 1)))})
    assert "trades" not in engine.rounds.progress
    assert engine.rounds.durable.rounds.position("trades") is None
    assert engine.rounds.durable.rounds.last() is None


def test_a_dropped_stream_forgets_how_far_its_source_was_read(engine):
    shared(engine).run_round({"trades": offered(engine, rows(("A", 1.0, 1, 1)))})
    assert engine.rounds.durable.rounds.position("trades") is not None
    engine.drop_stream("trades")
    assert engine.rounds.durable.rounds.position("trades") is None


def test_a_rule_that_was_the_last_of_its_shape_can_be_dropped_between_rounds(engine):
    limits = {"limit": [float(n) for n in range(1000)]}
    watches = engine.query_many("SELECT n FROM trades WHERE price > :limit", params=limits)
    double = engine.query("SELECT n * 2 AS twice FROM trades WHERE n * 2 > 3")
    rounds = shared(engine)
    rounds.run_round({"trades": offered(engine, rows(("A", 1.5, 2, 1)))})
    assert [row for _, row, _, _ in results(double)] == [(4,)]
    double.drop()
    outcome = rounds.run_round({"trades": offered(engine, rows(("B", 1.5, 3, 2)))})
    assert outcome.n_results == 2
    assert [results(watches[k])[-1][1] for k in (0, 1)] == [(3,), (3,)]


def test_the_choices_of_execution_are_those_of_every_plan_and_can_be_looked_at(engine):
    assert engine.joins().choices["join_from_rows"] == 50_000
    shared(engine, join_from_rows=7, most_tasks=3)
    choices = engine.joins().as_dict()["choices"]
    assert (choices["join_from_rows"], choices["most_tasks"], choices["judged_by"]) == (7, 3, 500)
    planned = engine.rounds.plan([])
    assert (planned.choices.join_from_rows, planned.choices.most_tasks) == (7, 3)
