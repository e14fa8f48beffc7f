"""Forgetting versions: what is kept reads as before, what is not is gone, and looking costs nothing."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eddyline.catalog import Catalog
from eddyline.catalog import versions as versions_module
from eddyline.catalog.database import Database
from eddyline.catalog.versions import RemovedVersions, RetainedRange, VersionLog
from eddyline.errors import QueryStateError
from eddyline.functions import FunctionRegistry
from eddyline.model import Properties, QueryState, Shape, Stream
from eddyline.sources import infer_schema
from eddyline.sql import Shapes
from tests.strategies import examples

TRADES = Stream("trades", infer_schema("sym STRING, price DOUBLE"))
WATCH = "SELECT sym FROM trades WHERE sym = :sym AND price < 10"
TABLES = ("versions", "streams", "queries", "templates", "ended_members", "shapes")


class Life:
    """A catalog on disk whose versions are made at the numbers of `at`, one after the other, then at the last one."""

    def __init__(self, folder: Path, *at: int) -> None:
        self._times = list(at)
        self.database = Database(folder / "catalog.db")
        self.catalog = Catalog(self.database, self._clock)
        self.log = VersionLog(self.database)
        self.catalog.declare(TRADES)

    def _clock(self) -> int:
        return self._times.pop(0) if len(self._times) > 1 else (self._times or [0])[0]

    def bound(self, text: str, params: dict[str, pa.DataType] | None = None) -> tuple[Shape, list[object]]:
        shapes = Shapes(time_zone="UTC")
        shape, constants = shapes.shape_of(text, self.catalog, FunctionRegistry(), params=params)
        return self.catalog.interned_shape(shape), constants

    def register(self, text: str, name: str | None = None) -> int:
        shape, constants = self.bound(text)
        return self.catalog.register(text, shape, constants, name, Properties(), 5)

    def replace(self, query_id: int, text: str) -> None:
        shape, constants = self.bound(text)
        self.catalog.replace(query_id, text, shape, constants, Properties(), 6)

    def template(self, *syms: str) -> list[int]:
        shape, _ = self.bound(WATCH, {"sym": pa.string()})
        columns = [
            pa.array(syms, slot.type) if slot.name else pa.array([10.0] * len(syms), slot.type)
            for slot in shape.slots
        ]
        names = [f"watch-{sym}-{self.catalog.version}" for sym in syms]
        made = self.catalog.register_many(WATCH, shape, columns, len(syms), names, Properties(), 5)
        return list(range(made.first_id, made.first_id + made.n))

    def forget(self, before: int, results_from: int | None = None) -> list[RemovedVersions]:
        """All steps it takes, as an engine does them."""
        steps = []
        while step := self.log.forget(before, results_from=results_from):
            self.catalog.forget_templates(step.templates)
            steps.append(step)
        return steps

    def counts(self) -> dict[str, int]:
        query = self.database.connection.execute
        return {table: query(f"SELECT count(*) FROM {table}").fetchone()[0] for table in TABLES}

    def facts(self, catalog: Catalog | None = None) -> dict[str, object]:
        catalog = catalog or self.catalog
        return {
            "version": catalog.version,
            "n": catalog.queries.n_queries,
            "next": catalog.queries.next_id,
            "streams": catalog.streams(),
            "queries": [
                (r.id, r.name, r.text, [c.as_py() for c in r.constants], r.state, r.generation, r.version_from)
                for r in catalog.records()
            ],
        }  # fmt: skip

    def facts_again(self) -> dict[str, object]:
        """What another process finds."""
        database = Database(self.database.path)
        try:
            return self.facts(Catalog(database))
        finally:
            database.close()

    def at(self, version: int) -> tuple[object, ...]:
        """All that stood at a version, as the disk has it."""
        members = []
        for template in self.database.queries.templates_at(version):
            for k in range(template.n):
                if template.first_id + k not in template.ended_ids:
                    row = [column[k].as_py() for column in template.columns]
                    members.append((template.first_id + k, template.names[k], template.text, row))
        singles = [
            (q.id, q.name, q.text, list(q.constants), q.state, q.generation, q.shape.output)
            for q in self.database.queries.at(version)
        ]
        return self.database.streams.at(version), singles, members


@pytest.fixture
def life(tmp_path):
    life = Life(tmp_path)
    yield life
    life.database.close()


# --------------------------------------------------------------------------------------------- which


def test_a_version_is_as_old_as_the_change_that_took_its_place(tmp_path):
    life = Life(tmp_path, 10, 20, 30, 30, 99)
    for k in range(4):
        life.register(f"SELECT sym FROM trades WHERE price < {k}")
    assert [at for _, at, _ in reversed(life.database.versions.recent(9))] == [10, 20, 30, 30, 99]
    assert [life.log.first_to_keep(since, 100) for since in (5, 10, 11, 20, 21, 30, 31, 99, 100)] == [
        0,  # all of them
        0,
        1,  # it stood until 20
        1,
        2,
        2,
        4,  # 3 stood for no time at all
        4,
        5,  # the current version is never forgotten
    ]
    life.database.close()


def test_no_more_versions_are_kept_than_their_number_allows(life):
    for k in range(9):
        life.register(f"SELECT sym FROM trades WHERE price < {k}")
    assert [life.log.first_to_keep(-1, count) for count in (0, 1, 3, 9, 100)] == [10, 9, 7, 1, 0]


def test_a_clock_that_was_set_back_forgets_no_more_than_it_should(tmp_path):
    life = Life(tmp_path, 1000, 50, 60)
    life.register("SELECT sym FROM trades", "a")
    life.register("SELECT price FROM trades", "b")
    assert life.log.first_to_keep(900, 100) == 0  # until 1000 has passed for all that came after it
    assert life.log.first_to_keep(1001, 100) == 3
    life.database.close()


def test_a_catalog_without_versions_has_nothing_to_forget(tmp_path):
    log = VersionLog(Database(tmp_path / "catalog.db"))
    assert (log.retained_versions(), log.first_to_keep(5, 3), log.forget(0)) == (
        RetainedRange(0, 0, 0),
        0,
        RemovedVersions(),
    )


# --------------------------------------------------------------------------------------------- what goes


def test_what_only_forgotten_versions_had_goes_and_the_rest_is_found_again(life):
    kept = life.register("SELECT sym FROM trades WHERE price < 1.5", "kept")  # version 2
    dropped = life.register("SELECT upper(sym) AS u FROM trades", "dropped")  # 3
    life.replace(kept, "SELECT sym FROM trades WHERE price < 2.5")  # 4
    life.catalog.drop([dropped])  # 5
    life.catalog.declare(Stream("trades", infer_schema("sym STRING, price DOUBLE, qty INT")))  # 6
    before = life.facts()
    assert life.counts() == {
        "versions": 6, "streams": 2, "queries": 3, "templates": 0, "ended_members": 0, "shapes": 2,
    }  # fmt: skip
    assert life.forget(4) == [RemovedVersions(n_versions=3, n_queries=1)]
    assert life.forget(6) == [RemovedVersions(n_versions=2, n_queries=1, n_shapes=1)]
    assert life.forget(6) == []
    assert life.counts() == {
        "versions": 1, "streams": 1, "queries": 1, "templates": 0, "ended_members": 0, "shapes": 1,
    }  # fmt: skip
    assert life.facts() == life.facts_again() == before


def test_a_shape_that_was_forgotten_can_be_registered_again_at_once(life):
    text = "SELECT upper(sym) AS u FROM trades"
    life.catalog.drop([life.register(text)])
    life.forget(life.catalog.version)
    assert life.counts()["shapes"] == 0
    life.register("SELECT lower(sym) AS l FROM trades")  # may get the number the other had
    life.register(text)
    assert life.counts()["shapes"] == 2
    assert [r.shape.output.names for r in life.catalog.records()] == [["l"], ["u"]]
    assert [q.shape.output.names for q in life.database.queries.at(life.catalog.version)] == [["l"], ["u"]]
    assert life.facts() == life.facts_again()


def test_a_template_goes_when_its_last_member_has_ended_and_takes_their_marks_along(life):
    a, b = life.template("A", "B")  # version 2
    others = life.template("C", "D")  # 3
    life.catalog.drop([a, others[0]])  # 4
    life.catalog.drop([b])  # 5
    assert life.forget(4) == [RemovedVersions(n_versions=3)]
    assert life.counts()["ended_members"] == 3
    assert life.forget(5) == [RemovedVersions(n_versions=1, templates=(a,))]
    assert (life.counts()["templates"], life.counts()["ended_members"]) == (1, 1)
    assert life.facts() == life.facts_again()
    assert [record.id for record in life.catalog.records()] == [others[1]]
    with pytest.raises(QueryStateError, match=f"query {a} was dropped"):
        life.catalog.record(a)


def test_members_that_went_their_own_way_outlive_their_template(life):
    paused, resumed, replaced, dropped = life.template("A", "B", "C", "D")
    life.catalog.set_paused(paused, True, 7)
    life.catalog.set_paused(resumed, True, 7)
    life.catalog.set_paused(resumed, False, 8)
    life.replace(replaced, "SELECT price FROM trades")
    life.catalog.drop([dropped])
    before = life.facts()
    (step,) = life.forget(life.catalog.version)
    assert step.templates == (paused,)
    assert life.facts() == life.facts_again() == before
    life.catalog.set_paused(paused, False, 9)
    life.catalog.set_paused(resumed, True, 9)
    life.catalog.drop([replaced])
    assert life.catalog.queries.state(replaced) is QueryState.DROPPED
    assert life.catalog.queries.state(dropped) is QueryState.DROPPED
    assert life.counts()["ended_members"] == 0
    assert life.facts() == life.facts_again()
    assert [(r.id, r.state.value) for r in life.catalog.records()] == [
        (paused, "running"),
        (resumed, "paused"),
    ]


def test_ids_are_not_used_again_though_nothing_is_left_of_who_had_them(life):
    life.template("A", "B")
    last = life.register("SELECT sym FROM trades")
    life.catalog.drop([1, 2, last])
    life.forget(life.catalog.version)
    counts = life.counts()
    assert (counts["queries"], counts["templates"], counts["shapes"]) == (0, 0, 0)
    assert life.facts_again()["next"] == last + 1
    assert life.register("SELECT sym FROM trades") == last + 1


def test_queries_whose_results_are_kept_are_known_by_name_until_they_go(life):
    (member,) = life.template("A")  # version 2
    single = life.register("SELECT sym FROM trades", "all")  # 3
    life.catalog.drop([member, single])  # 4
    for k in range(5):
        life.register(f"SELECT sym FROM trades WHERE price < {k}")
    assert life.forget(9, results_from=3) == [RemovedVersions(n_versions=8)]
    assert life.log.retained_versions() == RetainedRange(1, 9, 0)
    assert [life.database.queries.past(i)[0] for i in (member, single)] == ["watch-A-1", "all"]
    assert life.forget(9, results_from=4) == [RemovedVersions(n_queries=1, templates=(member,), n_shapes=2)]
    assert [life.database.queries.past(i) for i in (member, single)] == [None, None]
    assert life.forget(9) == []


def test_many_rows_go_in_steps_each_complete_by_itself(life, monkeypatch):
    monkeypatch.setattr(versions_module, "AT_ONCE", 3)
    ids = [life.register(f"SELECT sym FROM trades WHERE price < {k}") for k in range(7)]  # versions 2 to 8
    life.catalog.drop(ids)  # 9
    life.register("SELECT sym FROM trades WHERE price < 99", "last")  # 10
    steps = life.forget(10)
    assert [(step.n_versions, step.n_queries) for step in steps] == [(3, 0), (3, 0), (3, 3), (0, 3), (0, 1)]
    assert life.counts()["queries"] == 1
    assert life.facts() == life.facts_again()


def test_forgetting_that_fails_leaves_everything_as_it_was(life):
    dropped = life.register("SELECT sym FROM trades", "gone")
    life.catalog.drop([dropped])
    before = life.counts()
    life.database.connection.execute(
        "CREATE TEMP TRIGGER fail BEFORE DELETE ON shapes BEGIN SELECT RAISE(ABORT, 'no'); END"
    )
    with pytest.raises(Exception, match="Nothing was changed"):
        life.forget(3)
    assert life.counts() == before
    life.database.connection.execute("DROP TRIGGER fail")
    assert life.forget(3) == [RemovedVersions(n_versions=2, n_queries=1, n_shapes=1)]


# --------------------------------------------------------------------------------------------- at what cost


def test_looking_for_something_to_forget_scans_no_table_of_queries(life):
    """As SQLite would run them, all statements search an index; only `versions` and `streams`, which are small, may be walked."""
    many = [life.register(f"SELECT sym FROM trades WHERE price < {k}") for k in range(3)]
    life.template("A", "B")
    life.catalog.drop(many)
    said: list[str] = []
    life.database.connection.set_trace_callback(said.append)
    life.forget(life.catalog.version)
    life.forget(life.catalog.version)
    life.database.connection.set_trace_callback(None)
    plans = {
        statement: [row[3] for row in life.database.connection.execute(f"EXPLAIN QUERY PLAN {statement}")]
        for statement in said
        if statement.split()[0] in ("SELECT", "DELETE", "UPDATE")
    }
    assert any("queries_ended" in step for plan in plans.values() for step in plan)
    assert any("ended_members_by_version" in step for plan in plans.values() for step in plan)
    for statement, plan in plans.items():
        for step in plan:
            if step.startswith("SCAN"):
                assert step.split()[1] in ("versions", "streams"), (statement, plan)
            assert "TEMP B-TREE" not in step, (statement, plan)


def test_nothing_is_written_when_there_is_nothing_to_forget(life):
    life.register("SELECT sym FROM trades")
    life.forget(2)
    said: list[str] = []
    life.database.connection.set_trace_callback(said.append)
    assert life.log.forget(2) == RemovedVersions()
    life.database.connection.set_trace_callback(None)
    assert {statement.split()[0] for statement in said} == {"SELECT"}


# --------------------------------------------------------------------------------------------- anything


OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["register", "template", "drop", "pause", "resume", "replace", "declare", "forget"]),
        st.integers(0, 30),
    ),
    max_size=25,
)


def apply(life: Life, operation: str, number: int) -> None:
    """One change of the catalog, or none if it cannot be."""
    standing = list(life.catalog.queries.ids())
    chosen = standing[number % len(standing)] if standing else None
    if operation == "register":
        column = f"sym AS c{number % 3}"
        life.register(
            f"SELECT {column} FROM trades WHERE price < {number}", f"q{number}-{life.catalog.version}"
        )
    elif operation == "template":
        life.template(*"ABCD"[: number % 4 + 1])
    elif operation == "declare":
        columns = "".join(f", extra{k} INT" for k in range(life.catalog.version))
        life.catalog.declare(Stream("trades", infer_schema(f"sym STRING, price DOUBLE{columns}")))
    elif chosen is None:
        return
    elif operation == "drop":
        life.catalog.drop(standing[:: number % 3 + 1])
    elif operation in ("pause", "resume"):
        life.catalog.set_paused(chosen, operation == "pause", 7)
    elif operation == "replace":
        life.replace(chosen, f"SELECT sym AS r{number % 2} FROM trades WHERE price >= {number}")


def check_forgetting(life: Life, number: int) -> None:
    """Forget up to a version, keep names from another on, and compare everything that is still there."""
    newest = life.catalog.version
    before = max(life.log.retained_versions().oldest, newest - number % 6)
    results_from = None if number % 2 else max(1, before - number % 4)
    kept = {version: life.at(version) for version in range(before, newest + 1)}
    unused = before if results_from is None else min(before, results_from)
    query = life.database.connection.execute
    named = {
        i: life.database.queries.past(i)[0]
        for i in range(1, life.catalog.queries.next_id)
        if any(i in {row[0] for rows in life.at(v)[1:] for row in rows} for v in range(unused, newest + 1))
    }
    life.forget(before, results_from)
    assert life.log.retained_versions().oldest == before
    assert {version: life.at(version) for version in kept} == kept
    assert {i: life.database.queries.past(i)[0] for i in named} == named
    assert query("SELECT count(*) FROM queries WHERE version_to <= ?", (unused,)).fetchone() == (0,)
    assert query("SELECT count(*) FROM streams WHERE version_to <= ?", (before,)).fetchone() == (0,)
    assert query(
        "SELECT count(*) FROM shapes WHERE id NOT IN (SELECT shape FROM queries UNION SELECT shape FROM templates)"
    ).fetchone() == (0,)
    for template in life.database.queries.templates_at(unused):
        assert len(template.ended_ids) < template.n
    assert life.facts() == life.facts_again()


@examples(0.6)
@given(OPERATIONS, st.sampled_from([1, 2, 10_000]))
def test_whatever_is_forgotten_every_kept_version_reads_as_before(operations, at_once):
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(versions_module, "AT_ONCE", at_once)
        life = Life(Path(folder))
        try:
            for operation, number in operations:
                if operation == "forget":
                    check_forgetting(life, number)
                else:
                    apply(life, operation, number)
            check_forgetting(life, len(operations))
        finally:
            life.database.close()
