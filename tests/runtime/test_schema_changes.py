"""A source whose columns change while queries stand: the catalog follows, and whoever is not concerned goes on."""

from __future__ import annotations

import datetime
import json
import pickle
from pathlib import Path

import pyarrow as pa
import pytest

import eddyline
from eddyline.api import Commands, PipelineRunner
from eddyline.catalog import restore_version
from eddyline.cli import main
from eddyline.engine.tasks import run_task
from eddyline.events import ColumnAdded, ColumnIgnored, FileSetAside, QueriesSuspended
from eddyline.pipeline import read_pipeline
from eddyline.rules import plan
from eddyline.runtime import feeds
from eddyline.runtime.schema_changes import follow_change
from eddyline.sources import IngestedRows
from eddyline.sources.schema_changes import SchemaChange, SchemaChanged
from tests.written_files import write

pytestmark = pytest.mark.thorough  # every kind of file, read here and by workers

TYPED = ["parquet", "arrow", "avro"]


class Workers:
    """As workers of Spark would: what is sent and brought back can be pickled."""

    n_cores = 2
    n_jobs = 0

    def run(self, tasks):
        self.n_jobs += 1
        return [pickle.loads(pickle.dumps(run_task(pickle.loads(pickle.dumps(task))))) for task in tasks]


class Project:
    """A pipeline over folders of files, run once at a time; every run is another process, as far as the home can tell."""

    def __init__(self, folder: Path, is_shared: bool) -> None:
        self.folder, self.is_shared = folder, is_shared
        self.events: list = []
        self.n_jobs = 0
        self.streams: dict[str, tuple[str, str]] = {}
        self.rules = "CREATE OR REPLACE VIEW other AS SELECT sym FROM trades"

    def stream(self, name: str, schema: str, format: str) -> None:
        (self.folder / name).mkdir(exist_ok=True)
        self.streams[name] = schema, format

    def write(self, stream: str, name: str, *rows: dict, **types: str) -> None:
        write(self.folder / stream, f"{name}.{self.streams[stream][1]}", list(rows), **types)

    @property
    def pipeline(self):
        (self.folder / "rules.sql").write_text(self.rules)
        text = "[rules]\nfiles = ['rules.sql']\n[limits]\njob_from_bytes = 1\n"
        for name, (schema, format) in self.streams.items():
            source = f"{{ type = 'files', path = '{name}', format = '{format}', poll = 0 }}"
            text += f"[streams.{name}]\nschema = '{schema}'\nsource = {source}\n"
        return read_pipeline(text, self.folder / "eddyline.toml")

    def run(self, **options):
        workers = Workers() if self.is_shared else None
        with PipelineRunner(self.pipeline, on_event=self.events.append, workers=workers) as running:
            summary = running.run(once=True, **options)
        self.n_jobs += 0 if workers is None else workers.n_jobs
        return summary

    def open(self):
        return eddyline.open(self.folder / "home")

    def results(self, query: str) -> list:
        """The rows a query has given so far, in order of arrival."""
        with self.open() as engine:
            (found,) = [q for q in engine.queries(per_page=1000) if q.name == query]
            return [tuple(result.values()) for result in found.latest(1000)]

    def states(self) -> dict[str, str]:
        with self.open() as engine:
            return {query.name: query.state for query in engine.queries()}

    def seen(self, kind: type) -> list:
        return [event for event in self.events if isinstance(event, kind)]


@pytest.fixture(params=["here", "shared"])
def project(request, tmp_path) -> Project:
    made = Project(tmp_path, request.param == "shared")
    made.rules = """
        CREATE OR REPLACE VIEW syms AS SELECT sym FROM trades;
        CREATE OR REPLACE VIEW cheap TBLPROPERTIES (owner = 'ops') AS SELECT sym, price FROM trades WHERE price < 10;
        CREATE OR REPLACE VIEW odd TBLPROPERTIES (owner = 'ann') AS SELECT sym FROM trades WHERE price IS NULL;
    """
    return made


@pytest.fixture(params=TYPED)
def trades(request, project) -> Project:
    project.stream("trades", "sym STRING, price DOUBLE", request.param)
    return project


# --------------------------------------------------------------------------------------------- added


def test_a_new_column_is_declared_told_and_read(trades):
    trades.write("trades", "a", {"sym": "A", "price": 1.0})
    trades.write("trades", "b", {"sym": "B", "price": 2.0, "venue": "X"})
    summary = trades.run()
    assert (summary.n_rows, summary.n_dead) == (2, 0)
    (added,) = trades.seen(ColumnAdded)
    assert (added.stream, added.column, added.type) == ("trades", "venue", "STRING")
    assert trades.results("syms") == [("A",), ("B",)]
    with trades.open() as engine:
        engine.query("SELECT sym, venue FROM trades", name="venues")
        assert engine.streams()[0].schema.names == ["sym", "price", "venue"]
    trades.write("trades", "c", {"sym": "C", "price": 3.0, "venue": "Y"})
    trades.run()
    assert trades.results("venues") == [("C", "Y")]
    assert len(trades.seen(ColumnAdded)) == 1


def test_the_file_that_brought_it_has_its_values(trades):
    """Nobody can have asked for them before; what is kept of the rows has them all the same."""
    trades.write("trades", "a", {"sym": "A", "price": 1.0, "venue": "X"})
    trades.run()
    if not trades.is_shared:
        with trades.open() as engine:
            rows = engine.rounds.recent["trades"].last(10, engine.streams()[0].schema)
            assert rows.to_pylist() == [{"sym": "A", "price": 1.0, "venue": "X"}]


def test_a_column_that_came_by_itself_stays_though_the_pipeline_does_not_name_it(trades):
    trades.write("trades", "a", {"sym": "A", "price": 1.0, "venue": "X"})
    trades.run()
    with trades.open() as engine:
        engine.query("SELECT venue FROM trades", name="venues")
        version = engine.version
    trades.run()
    with trades.open() as engine:
        assert engine.version == version
        assert not [s for s in plan(engine, trades.pipeline).streams if s.kind != "unchanged"]
        handle = engine.stream("trades", "sym STRING, price DOUBLE, n INT")  # as does one from a script
        assert handle.schema.names == ["sym", "price", "venue", "n"]
        with pytest.raises(eddyline.EddylineError, match="cannot change like this while queries need it"):
            engine.stream("trades", "sym STRING, price DOUBLE, venue INT")


def test_a_column_sql_has_no_type_for_is_told_once(trades):
    noon = datetime.time(12)
    for name in "abc":
        trades.write("trades", name, {"sym": name, "price": 1.0, "at": noon}, at="TIME")
    summary = trades.run()
    assert (summary.n_rows, summary.n_dead) == (3, 0)
    (ignored,) = trades.seen(ColumnIgnored)
    assert (ignored.stream, ignored.column) == ("trades", "at")
    assert "which no column of a stream can be" in ignored.message
    assert not trades.seen(ColumnAdded)


# --------------------------------------------------------------------------------------------- missing


@pytest.mark.parametrize("row", [{"sym": "B"}, {"sym": "B", "price": True}])
def test_queries_that_need_a_column_that_is_gone_are_suspended_and_the_rest_go_on(trades, row):
    trades.write("trades", "a", {"sym": "A", "price": 1.0})
    trades.write("trades", "b", row)
    trades.write("trades", "c", {"sym": "C", "price": 3.0})
    summary = trades.run()
    assert (summary.n_rows, summary.n_dead, trades.n_jobs > 0) == (3, 0, trades.is_shared)
    assert trades.results("cheap") == [("A", 1.0)]  # what came before the change was still seen
    assert trades.results("odd") == []
    assert trades.results("syms") == [("A",), ("B",), ("C",)]
    assert trades.states() == {"syms": "running", "cheap": "suspended", "odd": "suspended"}
    (told,) = trades.seen(QueriesSuspended)
    file = f"file b.{trades.streams['trades'][1]}"
    how = f"gone from {file}" if len(row) == 1 else f"BOOLEAN in {file}, and was declared DOUBLE"
    assert told.message == f"trades.price is {how}"
    assert (told.stream, told.column, told.n_queries) == ("trades", "price", 2)
    assert (told.queries, told.owners) == ((("cheap", "ops"), ("odd", "ann")), ("ann", "ops"))


def test_all_of_them_are_suspended_in_one_version(trades):
    trades.write("trades", "a", {"sym": "A"})
    trades.run()
    with trades.open() as engine:
        newest = [what for _, _, what in engine.rounds.durable.database.versions.recent(2)]
        assert newest[0] == "suspend 2 queries on trades"
        assert newest[1].startswith("apply rules")
        assert len({engine.rounds.catalog.record(q.id).version_from for q in engine.queries("price")}) == 1


def test_a_suspended_query_stays_so_through_restarts_until_it_is_resumed(trades):
    trades.write("trades", "a", {"sym": "A"})
    trades.run()
    trades.write("trades", "b", {"sym": "B", "price": 2.0})
    trades.run()
    assert trades.results("cheap") == []
    with trades.open() as engine:
        cheap = engine.get("cheap", owner="ops")
        assert (cheap.state, cheap.generation) == ("suspended", 1)
        assert cheap.suspended.startswith("trades.price is gone from file a.")
        cheap.resume()
        assert (cheap.state, cheap.suspended, cheap.generation) == ("running", None, 2)
    trades.write("trades", "c", {"sym": "C", "price": 3.0})
    trades.run()
    with trades.open() as engine:
        assert [r["sym"] for r in engine.get("cheap", owner="ops").latest()] == ["C"]
    assert len(trades.seen(QueriesSuspended)) == 1


def test_a_resumed_query_is_suspended_again_by_the_next_file_without_the_column(trades):
    trades.write("trades", "a", {"sym": "A"})
    trades.run()
    with trades.open() as engine:
        engine.get("cheap", owner="ops").resume()
    trades.write("trades", "b", {"sym": "B"})
    trades.run()
    first, second = trades.seen(QueriesSuspended)
    assert (first.n_queries, second.queries) == (2, (("cheap", "ops"),))
    assert second.message.startswith("trades.price is gone from file b.")
    with trades.open() as engine:
        engine.query("SELECT price FROM trades", name="late")
    trades.write("trades", "c", {"sym": "C"})
    trades.run()
    assert trades.seen(QueriesSuspended)[2].queries == (("late", ""),)


def test_a_crash_before_or_after_the_catalog_followed_neither_loses_nor_repeats_a_row(trades, monkeypatch):
    class Killed(Exception):
        pass

    def killed(*args):
        raise Killed

    trades.write("trades", "a", {"sym": "A", "price": 1.0})
    trades.write("trades", "b", {"sym": "B", "venue": "X"})
    with monkeypatch.context() as patched:
        patched.setattr(feeds, "follow_change", killed)
        with pytest.raises(Killed):
            trades.run()
    follow = feeds.follow_change
    with monkeypatch.context() as patched:
        patched.setattr(feeds, "follow_change", lambda *args: killed(follow(*args)))
        for _ in range(2):  # once the new column, once what is gone
            with pytest.raises(Killed):
                trades.run()
    trades.run()
    trades.run()
    assert trades.results("syms") == [("A",), ("B",)]
    assert trades.results("cheap") == [("A", 1.0)]
    assert trades.results("odd") == []
    assert len(trades.seen(ColumnAdded)) == len(trades.seen(QueriesSuspended)) == 1


def test_a_file_without_a_column_that_must_not_be_null_is_set_aside_and_nobody_is_suspended(project):
    project.stream("trades", "sym STRING, price DOUBLE NOT NULL", "parquet")
    project.write("trades", "a", {"sym": "A"})
    project.write("trades", "b", {"sym": "B", "price": 1.0})
    project.run()
    (aside,) = project.seen(FileSetAside)
    assert "column price is missing, and stream trades does not allow NULL there" in aside.message
    assert project.results("cheap") == [("B", 1.0)]
    assert not project.seen(QueriesSuspended)


def test_a_stream_whose_source_did_not_change_is_not_concerned(project):
    project.stream("trades", "sym STRING, price DOUBLE", "parquet")
    project.stream("quotes", "sym STRING, price DOUBLE", "csv")
    project.rules += "; CREATE OR REPLACE VIEW bids AS SELECT sym, price FROM quotes"
    for name in "abc":
        project.write("trades", name, {"sym": name})
        project.write("quotes", name, {"sym": name, "price": 1.0})
    assert project.run().n_rows == 6
    assert project.states() == {
        "syms": "running",
        "cheap": "suspended",
        "odd": "suspended",
        "bids": "running",
    }
    assert project.results("bids") == [("a", 1.0), ("b", 1.0), ("c", 1.0)]
    assert {event.stream for event in project.seen(QueriesSuspended)} == {"trades"}


def test_members_of_templates_are_suspended_too(trades):
    trades.write("trades", "a", {"sym": "A", "price": 1.0})
    trades.run()
    with trades.open() as engine:
        watches = engine.query_many(
            "SELECT sym FROM trades WHERE price < :limit",
            params=[{"limit": float(k)} for k in range(300)],
            name="below-{limit}",
            owner="bo",
        )
        watches[5].pause()
        engine.query_many("SELECT sym FROM trades WHERE sym = :sym", params=[{"sym": "B"}], name="is-{sym}")
    trades.write("trades", "b", {"sym": "B"})
    trades.run()
    (told,) = trades.seen(QueriesSuspended)
    assert (told.n_queries, len(told.queries), told.owners) == (301, 100, ("ann", "bo", "ops"))
    with trades.open() as engine:
        assert engine.get("below-5.0", owner="bo").state == "paused"
        below = engine.get("below-7.0", owner="bo")
        assert below.state == "suspended"
        below.resume()
        engine.push("trades", [{"sym": "Z", "price": 6.5}])
        assert [dict(row) for row in below.latest()] == [{"sym": "Z"}]
    assert trades.results("is-B") == [("B",)]


# --------------------------------------------------------------------------------------------- text


def test_a_header_without_a_column_suspends_and_one_with_more_is_told(project):
    project.stream("trades", "sym STRING, price DOUBLE", "csv")
    project.write("trades", "a", {"sym": "A", "price": 1.0, "venue": "X"})
    project.write("trades", "b", {"sym": "B", "venue": "X"})
    summary = project.run()
    assert (summary.n_rows, summary.n_dead) == (2, 0)
    assert project.results("cheap") == [("A", 1.0)]
    assert project.results("syms") == [("A",), ("B",)]
    assert project.states()["cheap"] == "suspended"
    (ignored,) = project.seen(ColumnIgnored)
    assert (ignored.column, ignored.message) == (
        "venue",
        "there is no such column in stream trades. Declare it to use it.",
    )


def test_json_has_no_columns_that_could_go_and_names_that_are_none_are_told_once(project):
    project.stream("trades", "sym STRING, price DOUBLE", "json")
    project.write("trades", "a", {"sym": "A", "prise": 1.0})
    project.write("trades", "b", {"sym": "B", "prise": 1.0, "price": "x"}, {"sym": "C", "price": 3})
    summary = project.run()
    assert (summary.n_rows, summary.n_dead) == (2, 1)
    assert project.results("odd") == [("A",)]
    assert project.results("cheap") == [("C", 3.0)]
    (ignored,) = project.seen(ColumnIgnored)
    assert ignored.message == "there is no such column in stream trades. Did you mean price?"
    assert not project.seen(QueriesSuspended)
    with project.open() as engine:
        assert "column price: 'x' is not DOUBLE" in engine.dead_letters()[0].message


# --------------------------------------------------------------------------------------------- suspended


@pytest.fixture
def engine(tmp_path):
    with eddyline.open(tmp_path / "home", clock=lambda: 1_700_000_000_000_000) as engine:
        engine.stream("trades", "sym STRING, price DOUBLE")
        yield engine


def without_price(engine, *syms: str) -> IngestedRows:
    rows = pa.RecordBatch.from_pylist([{"sym": s} for s in syms], schema=engine.streams()[0].schema)
    return IngestedRows(
        rows, change=SchemaChange(missing={"price": "trades.price is gone from file x.parquet"})
    )


def suspended(engine, name: str = "cheap"):
    """A query that was suspended."""
    query = engine.query("SELECT sym FROM trades WHERE price < 10", name=name, owner="ops")
    with pytest.raises(SchemaChanged) as raised:
        engine.rounds.run_round({"trades": without_price(engine, "A")})
    follow_change(engine.rounds, "trades", raised.value.change, 0)
    return query


def test_a_round_is_refused_only_as_long_as_a_query_needs_what_its_rows_lack(engine):
    engine.rounds.run_round({"trades": without_price(engine, "A")})
    query = suspended(engine)
    assert engine.rounds.run_round({"trades": without_price(engine, "B")}).round.number == 2
    query.resume()
    with pytest.raises(SchemaChanged, match="have changed at its source: price"):
        engine.rounds.run_round({"trades": without_price(engine, "C")})
    engine.rounds.run_round({"trades": without_price(engine)})  # there is nothing to see in no rows
    assert engine.rounds.durable.rounds.last().round.number == 3


def test_pushes_see_no_suspension_but_the_paused_query(engine):
    query = suspended(engine)
    engine.push("trades", [{"sym": "A", "price": 1.0}])
    assert query.results() == []
    query.resume()
    engine.push("trades", [{"sym": "B"}, {"sym": "C", "price": 1.0}])
    assert [dict(row) for row in query.results()] == [{"sym": "C"}]


def test_whoever_asks_is_told_why(engine):
    query = suspended(engine)
    why = "trades.price is gone from file x.parquet"
    assert str(query.explain()).splitlines()[:2] == [
        "cheap: suspended since version 3, generation 1",
        f"  suspended  {why}, since 2023-11-14T22:13:20Z",
    ]
    assert query.explain().as_dict()["suspended"] == {"why": why, "since": "2023-11-14T22:13:20Z"}
    assert f"it is suspended, so it sees no rows: {why}" in str(query.why_not())
    assert "(suspended)" in repr(query)
    commands = Commands(engine)
    (listed,) = commands.query_list(state="suspended")["queries"]
    assert (listed["name"], listed["state"], listed["suspended"]["why"]) == ("cheap", "suspended", why)
    assert commands.query_list(state="paused")["queries"] == []
    assert commands.query_resume(queries=["cheap"], owner="ops")["changed"] == ["cheap"]
    assert commands.query_show(query="cheap", owner="ops")["suspended"] is None


def test_the_shell_says_which_queries_are_suspended_and_why(engine, tmp_path, capsys):
    suspended(engine)
    engine.query("SELECT sym FROM trades", name="syms")
    engine.close()
    home = f"--home={tmp_path / 'home'}"
    assert main(["query", "list", home]) == 0
    said = capsys.readouterr()
    assert [line.split()[:4] for line in said.out.splitlines()][1:] == [
        ["1", "cheap", "ops", "suspended"],
        ["2", "syms", "running", "0"],
    ]
    why = "trades.price is gone from file x.parquet, since 2023-11-14T22:13:20Z"
    assert said.err == f"cheap is suspended: {why}\n"
    assert main(["query", "list", "--state", "suspended", "--json", home]) == 0
    assert [q["name"] for q in json.loads(capsys.readouterr().out)["queries"]] == ["cheap"]
    assert main(["query", "show", "cheap", "--owner", "ops", home]) == 0
    assert f"  suspended  {why}\n" in capsys.readouterr().out
    assert main(["query", "resume", "cheap", "--owner", "ops", home]) == 0
    assert capsys.readouterr().out == "cheap: running\n"


def test_a_suspended_query_can_be_paused_dropped_or_replaced(engine):
    query = suspended(engine)
    query.pause()
    assert (query.state, query.suspended) == ("paused", None)
    query.resume()
    assert (query.state, query.generation) == ("running", 2)
    query = suspended(engine, "second")
    query.replace("SELECT sym FROM trades WHERE sym = 'A'")
    assert (query.state, query.suspended) == ("running", None)
    query = suspended(engine, "third")
    query.drop()
    assert query.state == "dropped"


def test_going_back_to_an_earlier_version_lets_it_stand_again(engine):
    query = engine.query("SELECT sym FROM trades WHERE price < 10", name="cheap", owner="ops")
    before = engine.version
    suspended(engine)
    restore_version(engine.rounds.catalog, before, 1)
    assert query.state == "running"


def test_rules_that_are_applied_again_leave_it_suspended_unless_they_change_it(project):
    project.stream("trades", "sym STRING, price DOUBLE", "csv")
    project.write("trades", "a", {"sym": "A"})
    project.run()
    project.run()
    assert project.states()["cheap"] == "suspended"
    project.rules = project.rules.replace(
        "SELECT sym, price FROM trades WHERE price < 10", "SELECT sym FROM trades"
    )
    with project.open() as engine:
        (change,) = [c for c in plan(engine, project.pipeline).queries if c.kind == "changed"]
        assert (
            "it is suspended and will be active again: trades.price is gone from file a.csv"
            in change.warnings
        )
    project.run()
    assert project.states() == {"syms": "running", "cheap": "running", "odd": "suspended"}
