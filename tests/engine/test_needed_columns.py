"""Workers read only the columns some query needs, and nobody can tell: results, dead letters and recent rows are the same."""

from __future__ import annotations

import os
import pickle
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import eddyline
from eddyline.engine import tasks
from eddyline.engine.shared_work import SharedRounds
from eddyline.model import ExecutionChoices, Stream
from eddyline.sources import FileFormat, file_references, infer_schema, ingest
from eddyline.sources.file_references import pieces, state_of
from eddyline.sources.positions import FilePlace
from eddyline.sources.reading import read
from eddyline.sources.references import PlannedInput, Reference
from tests.on_workers import elsewhere

SCHEMA = "n BIGINT, price DOUBLE, sym STRING, must BIGINT NOT NULL, small BIGINT, ts TIMESTAMP"


def table(*rows: tuple) -> pa.Table:
    """(n, price, sym, must, small, seconds) of each row; `small` is written as 32 bits."""
    names = ["n", "price", "sym", "must", "small", "ts"]
    types = [pa.int64(), pa.float64(), pa.string(), pa.int64(), pa.int32(), pa.timestamp("us", "UTC")]
    columns = list(zip(*rows, strict=True)) or [[]] * 6
    columns[5] = [None if t is None else t * 1_000_000 for t in columns[5]]
    return pa.table({name: pa.array(c, t) for name, c, t in zip(names, columns, types, strict=True)})


def written(path: Path, rows: pa.Table, kind: str = "parquet", group: int = 2) -> list[Reference]:
    """The references of a file with these rows, one for each two of them if it is Parquet."""
    if kind == "parquet":
        pq.write_table(rows, path, row_group_size=group)
    else:
        make = pa.ipc.new_file if kind == "arrow file" else pa.ipc.new_stream
        with make(str(path), rows.schema) as writer:
            writer.write_table(rows, max_chunksize=group)
    state = state_of(path)
    assert state is not None
    format_ = FileFormat(kind.split()[0])
    return [reference for reference, _ in pieces(path.parent, format_, state, FilePlace())]


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    """Every row group is a reference, and only the last one is kept to look back on."""
    monkeypatch.setattr(file_references, "PIECE_BYTES", 1)
    monkeypatch.setattr(tasks, "RECENT_BYTES", 1)


# --------------------------------------------------------------------------------------------- a file


@pytest.mark.parametrize("kind", ["parquet", "arrow file", "arrow stream"])
def test_columns_nobody_needs_are_left_out(tmp_path, kind):
    stream = Stream("s", infer_schema(SCHEMA))
    rows = table((1, 1.5, "A", 10, 5, 1), (2, 2.5, "B", 20, 6, 2), (3, 3.5, None, 30, 7, None))
    references = written(tmp_path / "f", rows, kind)
    found = [each for r in references for each in read(r, stream, "UTC", frozenset({"price"}))]
    # NULL is not allowed in one, and a value of the other might not fit: both cost rows, so both are looked at
    assert {each.left_out for each in found} == {frozenset({"n", "sym", "ts"})}
    got = pa.Table.from_batches([each.rows for each in found])
    assert got.column_names == stream.schema.names
    assert got.column("price").to_pylist() == [1.5, 2.5, 3.5]
    assert got.column("must").to_pylist() == [10, 20, 30]
    assert got.column("small").to_pylist() == [5, 6, 7]
    assert [got.column(name).null_count for name in ("n", "sym", "ts")] == [3, 3, 3]
    whole = pa.Table.from_batches([each.rows for r in references for each in read(r, stream, "UTC")])
    assert whole.column("sym").to_pylist() == ["A", "B", None]


def test_rows_are_counted_though_no_column_is_needed(tmp_path):
    stream = Stream("s", infer_schema("n BIGINT, sym STRING"))
    rows = pa.table({"n": [1, 2, 3], "sym": ["A", "B", "C"]})
    found = [each for r in written(tmp_path / "f", rows) for each in read(r, stream, "UTC", frozenset())]
    assert sum(each.rows.num_rows for each in found) == 3
    assert {len(each.left_out) for each in found} == {1}


def test_what_may_not_be_told_apart_or_is_there_for_another_reason_is_read(tmp_path):
    stream = Stream("s", infer_schema("n BIGINT, x STRUCT<y: BIGINT>, z BIGINT"))
    rows = pa.table({"n": [1], "x": pa.array([{"y": 2}]), "x.y": [3]})
    (reference,) = written(tmp_path / "dots", rows)
    with pytest.raises(Exception, match=r"x\.y"):  # a new column of the stream, whatever is needed
        list(read(reference, stream, "UTC", frozenset({"n"})))
    rows = pa.table({"n": [1], "z": [9], "_arrival": [7]})
    (reference,) = written(tmp_path / "numbered", rows)
    (found,) = read(reference, Stream("s", infer_schema("n BIGINT, z BIGINT")), "UTC", frozenset({"n"}))
    assert found.arrival.tolist() == [7]
    assert found.left_out == {"z"}


def test_fewer_bytes_are_read(tmp_path):
    """Counted where they are read: by the system, from the file."""
    stream = Stream("s", infer_schema(", ".join(f"c{k} DOUBLE" for k in range(30))))
    chance = random.Random(1)
    rows = pa.table({f"c{k}": [chance.random() for _ in range(5_000)] for k in range(30)})
    (reference,) = written(tmp_path / "wide", rows, group=5_000)

    def n_read(needed: frozenset[str] | None) -> int:
        counters = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
        before = int(counters["rchar"])
        assert sum(each.rows.num_rows for each in read(reference, stream, "UTC", needed)) == 5_000
        counters = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
        return int(counters["rchar"]) - before

    if not Path("/proc/self/io").exists():
        pytest.skip("this system does not count what a process reads")
    assert n_read(None) > os.path.getsize(tmp_path / "wide")
    assert n_read(frozenset({"c3", "c7"})) < os.path.getsize(tmp_path / "wide") / 5


# --------------------------------------------------------------------------------------------- a round


@pytest.fixture
def engine(tmp_path):
    with eddyline.open(tmp_path / "home", clock=lambda: 1_000_000_000) as engine:
        engine.stream("s", SCHEMA, time="ts")
        yield engine


def run(engine: eddyline.Engine, *references: Reference, task_bytes: int = 1 << 30) -> None:
    rounds = SharedRounds(
        engine.rounds, elsewhere, pickle.dumps, choices=ExecutionChoices(task_bytes=task_bytes)
    )
    rounds.run_round({"s": PlannedInput(references, lambda counts: None)})


def letters(engine: eddyline.Engine) -> list[tuple]:
    return [(each.error, each.query, each.arrival, each.row) for each in engine.dead_letters()]


def test_dead_letters_have_their_whole_rows(engine, tmp_path):
    engine.query("SELECT n FROM s WHERE 10 / n > 0", name="share")
    rows = table(
        (0, 1.5, "first", 10, 5, 1),
        (1, 2.5, "good", 20, 6, 2),
        (2, 3.5, "unfit", None, 7, 3),
        (0, 4.5, "second", 40, 8, 4),
        (3, 5.5, "unfit too", None, 9, 5),
        (0, 6.5, "last", 60, 9, 6),
    )
    run(engine, *written(tmp_path / "f", rows, group=6), *written(tmp_path / "g", rows.slice(1, 1)))
    found = [
        (error, query, arrival, row["sym"], row["price"]) for error, query, arrival, row in letters(engine)
    ]
    assert sorted(found, key=lambda letter: letter[3]) == [
        ("DIVIDE_BY_ZERO", "share", 1, "first", 1.5),
        ("DIVIDE_BY_ZERO", "share", 4, "last", 6.5),
        ("DIVIDE_BY_ZERO", "share", 3, "second", 4.5),
        ("ROW_DOES_NOT_FIT", None, None, "unfit", 3.5),
        ("ROW_DOES_NOT_FIT", None, None, "unfit too", 5.5),
    ]


def test_rows_to_look_back_on_are_whole(engine, tmp_path):
    engine.query("SELECT n FROM s WHERE n > 1", name="some")
    rows = table(*[(k, k + 0.5, f"S{k}", k, k, k) for k in range(6)])
    run(engine, *written(tmp_path / "f", rows))
    recent = engine.rounds.recent["s"].last(10, engine.rounds.catalog.stream("s").schema)
    assert recent.column("sym").to_pylist() == ["S4", "S5"]
    assert recent.column("price").to_pylist() == [4.5, 5.5]


@pytest.mark.parametrize("seed", range(8))
def test_results_and_dead_letters_are_those_of_rows_that_are_pushed(tmp_path, seed):
    chance = random.Random(seed)
    conditions = [
        ("n", "n > 3"),
        ("price", "price < 5"),
        ("sym", "sym LIKE 'S1%'"),
        ("n, sym", "10 / n > 1"),
        ("ts", "ts > TIMESTAMP '1970-01-01 00:00:05Z'"),
        ("must", "small = 3 OR 1 / (n - 2) > 0"),
        ("*", "price > 7"),
    ]
    here, there = (eddyline.open(tmp_path / name, clock=lambda: 1_000_000_000) for name in ("here", "there"))
    for engine in (here, there):
        engine.stream("s", SCHEMA, time="ts", lateness="2 seconds")
    standing: list[str] = []
    for step in range(8):
        for _ in range(chance.randrange(3)):
            if standing and chance.random() < 0.4:
                name = standing.pop(chance.randrange(len(standing)))
                for engine in (here, there):
                    engine.drop(name)
            else:
                projection, condition = chance.choice(conditions)
                name = f"q{step}-{len(standing)}-{chance.randrange(1000)}"
                standing.append(name)
                for engine in (here, there):
                    engine.query(f"SELECT {projection} FROM s WHERE {condition}", name=name)
        rows = table(
            *[
                (
                    chance.choice([0, 1, 2, 5, None]),
                    chance.random() * 10,
                    chance.choice(["S1", "S12", "T", None]),
                    chance.choice([1, 2, 3, None]) if chance.random() < 0.3 else 1,
                    chance.randrange(5),
                    step + chance.randrange(10),
                )
                for _ in range(chance.randrange(1, 20))
            ]
        )
        references = written(tmp_path / f"f{step}", rows, group=chance.randrange(1, 8))
        stream = here.rounds.catalog.stream("s")
        here.rounds.run_round({"s": ingest(stream, rows, "UTC")})
        run(there, *references, task_bytes=chance.choice([1, 5_000]))
    assert _everything(here) == _everything(there)
    assert _letters(here) == _letters(there)
    for engine in (here, there):
        engine.close()


def _everything(engine: eddyline.Engine) -> list[tuple]:
    found = []
    for number, part in engine.rounds.durable.results():
        for at, row in enumerate(part.rows.to_pylist()):
            identity = int(part.query_ids[at]), int(part.generations[at]), int(part.arrivals[at])
            found.append((number, *identity, bool(part.is_late[at]), tuple(row.items())))
    return sorted(found, key=repr)


def _letters(engine: eddyline.Engine) -> list[tuple]:
    """Rows that do not fit are told with the file they were in, or without."""
    return sorted(
        (
            (each.round_number, *letter)
            for each, letter in zip(engine.dead_letters(), letters(engine), strict=True)
        ),
        key=repr,
    )
