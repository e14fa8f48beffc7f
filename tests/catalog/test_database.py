from __future__ import annotations

import hashlib
import sqlite3
from pathlib import Path

import pytest

import eddyline
from eddyline.catalog import Catalog
from eddyline.catalog.connection import LONGEST_PATH
from eddyline.catalog.database import Database
from eddyline.catalog.migrations import FORMAT
from eddyline.errors import HomeError
from eddyline.functions import FunctionRegistry
from eddyline.model import Properties, QueryState, Shape, Stream
from eddyline.sources import infer_schema
from eddyline.sql import Shapes

TRADES = Stream("trades", infer_schema("sym STRING, price DOUBLE, at TIMESTAMP"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "catalog.db"


@pytest.fixture
def catalog(path: Path):
    database = Database(path)
    catalog = Catalog(database)
    catalog.declare(TRADES)
    yield catalog
    database.close()


def bound(catalog: Catalog, text: str) -> tuple[Shape, list[object]]:
    """The shape of a text, bound anew as another process would."""
    return Shapes(time_zone="UTC").shape_of(text, catalog, FunctionRegistry())


def register(catalog: Catalog, text: str, name: str | None = None, **properties: object) -> int:
    shape, constants = bound(catalog, text)
    return catalog.register(text, catalog.interned_shape(shape), constants, name, Properties(**properties), 5)


def reopened(catalog: Catalog) -> Catalog:
    """Another process's view of the same file."""
    return Catalog(Database(catalog._database.path))


def facts(catalog: Catalog) -> list[tuple[object, ...]]:
    return [
        (r.id, r.name, r.text, [c.as_py() for c in r.constants], r.state, r.generation, r.version_from, r.properties)
        for r in catalog.records()
    ]  # fmt: skip


def test_everything_registered_is_there_again(catalog):
    register(catalog, "SELECT sym FROM trades WHERE price < 10.5", "cheap", owner="ops")
    register(catalog, "SELECT sym FROM trades WHERE at > TIMESTAMP '2024-05-01 00:00:00'")
    paused = register(catalog, "SELECT sym FROM trades WHERE sym = 'A'", "a")
    catalog.set_paused(paused, True, 7)
    dropped = register(catalog, "SELECT * FROM trades", "all")
    catalog.drop([dropped])
    again = reopened(catalog)
    assert facts(again) == facts(catalog)
    assert again.version == catalog.version == 7
    assert again.queries.n_queries == 3
    assert again.names.find("cheap", "ops") == 1
    assert again.names.find("all") is None
    assert again.queries.state(paused) is QueryState.PAUSED


def test_an_id_is_never_used_again_even_after_the_newest_query_is_gone(catalog):
    last = register(catalog, "SELECT sym FROM trades WHERE price < 1")
    catalog.drop([last])
    again = reopened(catalog)
    assert register(again, "SELECT sym FROM trades WHERE price < 2") == last + 1


def test_an_earlier_version_can_be_read_back(catalog):
    register(catalog, "SELECT sym FROM trades WHERE price < 1.5", "q")
    before = catalog.version
    shape, constants = bound(catalog, "SELECT sym FROM trades WHERE price < 2.5")
    catalog.replace(1, "SELECT sym FROM trades WHERE price < 2.5", shape, constants, Properties(), 9)
    database = catalog._database
    assert [(q.text, q.generation) for q in database.queries.at(before)] == [
        ("SELECT sym FROM trades WHERE price < 1.5", 1)
    ]
    assert [(q.text, q.generation) for q in database.queries.at(catalog.version)] == [
        ("SELECT sym FROM trades WHERE price < 2.5", 2)
    ]
    assert list(database.queries.at(1)) == []
    assert [what for _, _, what in database.versions.recent(10)] == [
        "replace query q",
        "add query q",
        "declare stream trades",
    ]


def test_texts_that_differ_in_constants_share_one_stored_shape_also_after_a_restart(catalog):
    register(catalog, "SELECT sym FROM trades WHERE price < 1000.25")
    register(catalog, "SELECT sym FROM trades WHERE price < 1.5")
    again = reopened(catalog)
    register(again, "SELECT sym FROM trades WHERE price < 77.125")
    assert again._database.connection.execute("SELECT count(*) FROM shapes").fetchone() == (1,)
    assert len(again.plans.families) == 1


def test_a_shape_that_came_at_the_address_of_a_gone_one_is_not_taken_for_it(catalog):
    """Shapes are known by identity; one that is no longer referenced must not lend its number to the next."""
    for k in range(40):
        text = f"SELECT sym AS c{k % 7} FROM trades WHERE price < {k}.5"
        shape, constants = bound(catalog, text)
        query_id = catalog.register(text, shape, constants, None, Properties(), 0)
        stored = catalog._database.queries.at(catalog.version)
        assert [q.shape.output.names for q in stored if q.id == query_id] == [[f"c{k % 7}"]]
        catalog.drop([query_id])
        del shape


def test_a_change_that_fails_leaves_memory_and_file_as_they_were(catalog):
    register(catalog, "SELECT sym FROM trades WHERE price < 1", "kept")
    before = facts(catalog), catalog.version

    def fail() -> None:
        with catalog.change("two at once"):
            register(catalog, "SELECT upper(sym) AS u FROM trades WHERE price < 2", "first")
            raise RuntimeError("the second is wrong")

    with pytest.raises(RuntimeError, match="the second is wrong"):
        fail()
    assert (facts(catalog), catalog.version) == before
    assert (facts(reopened(catalog)), reopened(catalog).version) == before
    # the shape of the first was rolled back with it; it can be registered now
    again = register(catalog, "SELECT upper(sym) AS u FROM trades WHERE price < 2", "first")
    assert reopened(catalog).record(again).name == "first"


def test_a_file_that_is_full_refuses_a_change_and_takes_it_when_there_is_room(catalog):
    connection = catalog._database.connection
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {pages}")
    text = "SELECT sym FROM trades WHERE sym IN (" + ", ".join(f"'{k:0200}'" for k in range(50)) + ")"
    with pytest.raises(HomeError) as refused:
        register(catalog, text)
    assert str(refused.value) == (
        f"cannot write to {catalog._database.path}\n"
        "detail: database or disk is full. Nothing was changed.\n"
        "hint: Make room on the disk and do it again."
    )
    assert (catalog.version, catalog.queries.n_queries) == (1, 0)
    connection.execute("PRAGMA max_page_count = 1000000")
    assert register(catalog, text) == 1
    assert reopened(catalog).queries.n_queries == 1


def test_a_file_that_cannot_be_written_refuses_a_change(catalog):
    catalog._database.connection.execute("PRAGMA query_only = ON")
    with pytest.raises(HomeError) as refused:
        register(catalog, "SELECT * FROM trades")
    assert "detail: attempt to write a readonly database. Nothing was changed." in str(refused.value)
    assert "hint: Give the user who runs the engine the right to write there." in str(refused.value)


def test_only_the_process_that_opened_last_may_write(catalog):
    catalog._database.epoch = 0
    with catalog._database.transaction():
        catalog._database.set("epoch", "1")  # what opening does
    with pytest.raises(HomeError) as refused:
        register(catalog, "SELECT * FROM trades")
    assert str(refused.value) == (
        "another process has opened this home\n"
        "detail: This process no longer holds it, so nothing was changed.\n"
        "hint: End one of the two processes."
    )
    assert catalog.queries.n_queries == 0


def test_numbers_and_settings_are_kept(path):
    database = Database(path)
    with database.transaction():
        database.set("zone", "UTC")
        database.set("n", "5")
        database.set("n", "6")
    database.close()
    database = Database(path)
    assert (database.setting("zone"), database.number("n"), database.number("gone", 3)) == ("UTC", 6, 3)
    assert database.setting("gone") is None
    database.close()


def test_every_commit_is_flushed(path):
    database = Database(path)
    assert database.connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert database.connection.execute("PRAGMA synchronous").fetchone() == (2,)  # full
    database.close()


# --------------------------------------------------------------------------------------------- files that are no catalogs


def test_a_file_of_something_else_is_refused(path):
    path.write_text("These are notes, not a catalog. " * 100)
    with pytest.raises(HomeError) as refused:
        Database(path)
    assert str(refused.value) == (
        f"{path} is damaged, or is not a catalog\n"
        "detail: file is not a database\n"
        "hint: Restore it from a backup."
    )
    assert path.read_text().startswith("These are notes")


def big_catalog(catalog: Catalog) -> None:
    with catalog.change():
        for k in range(200):
            register(catalog, f"SELECT sym FROM trades WHERE sym = '{k:0300}'")
    catalog._database.close()


DAMAGED = "{} is damaged, or is not a catalog\ndetail: database disk image is malformed\nhint: Restore it from a backup."


def test_a_catalog_cut_in_half_is_refused(catalog, path):
    big_catalog(catalog)
    with open(path, "r+b") as file:
        file.truncate(path.stat().st_size // 2)
    with pytest.raises(HomeError) as refused:
        Database(path)
    assert str(refused.value) == DAMAGED.format(path)


def test_a_catalog_with_a_hole_is_refused(catalog, path):
    big_catalog(catalog)
    with open(path, "r+b") as file:
        file.seek(path.stat().st_size // 2)
        file.write(bytes(16384))
    with pytest.raises(HomeError, match="is damaged"):
        Database(path)


def test_a_folder_in_place_of_the_file_is_refused(path):
    path.mkdir()
    with pytest.raises(HomeError, match=r"cannot open .* for writing"):
        Database(path)


def test_a_file_from_a_newer_version_is_refused_and_not_touched(path):
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE tomorrow (n)")
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    with pytest.raises(HomeError) as refused:
        Database(path)
    assert str(refused.value) == (
        f"{path} was written by a newer version of eddyline\n"
        f"detail: It has format 99, this version knows {FORMAT}.\n"
        "hint: Upgrade eddyline, or restore a backup from before the upgrade."
    )
    assert hashlib.sha256(path.read_bytes()).hexdigest() == before
    assert [p.name for p in path.parent.iterdir()] == ["catalog.db"]


def test_a_path_too_long_for_sqlite_is_refused_before_anything_is_made(tmp_path):
    folder = tmp_path
    while len(str(folder)) < LONGEST_PATH:
        folder = folder / ("d" * 100)
    folder.mkdir(parents=True)
    with pytest.raises(HomeError) as refused:
        Database(folder / "catalog.db")
    assert refused.value.problem == "the path of the home is too long"
    assert f"up to {LONGEST_PATH} bytes" in str(refused.value.detail)
    assert list(folder.iterdir()) == []


def test_the_longest_path_that_is_not_refused_works(tmp_path):
    room = LONGEST_PATH - len(str(tmp_path)) - len("/catalog.db")
    folder = tmp_path.joinpath(*["d" * 99] * (room // 100))
    folder = folder / ("e" * (room % 100 - 1)) if room % 100 > 1 else folder
    folder.mkdir(parents=True)
    path = folder / "catalog.db"
    assert LONGEST_PATH - 1 <= len(str(path)) <= LONGEST_PATH
    database = Database(path)
    with database.transaction():
        database.set("a", "b")
    database.close()


def test_the_versions_of_functions_are_part_of_the_catalog(tmp_path):
    def declare(step: int) -> None:
        @eddyline.udf(returns="int", name="next_step", version=f"v{step}")
        def next_step(n: int) -> int:
            return n + step

    declare(1)
    with eddyline.open(tmp_path / "home") as engine:
        engine.stream("t", "n INT")
        engine.query("SELECT n FROM t WHERE next_step(n) > 5", name="far")
        declare(2)
        engine.query("SELECT n FROM t WHERE next_step(n) > 5", name="far")
        assert engine.rounds.durable.database.shapes.functions() == [
            ("next_step", "v1", 2),
            ("next_step", "v2", 3),
        ]
        assert engine.get("far").generation == 2
