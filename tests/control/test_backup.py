"""A home as one file: taken while rounds go on, and a home again that has everything up to then."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
import threading
from pathlib import Path

import pytest

import eddyline
from eddyline.control import backup_of_folder, restore, verify
from eddyline.engine import Retention
from eddyline.errors import BackupError, EddylineError, HomeError


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def furnish(engine: eddyline.Engine) -> None:
    engine.stream("trades", "sym STRING, price DOUBLE")
    engine.query("SELECT sym, price FROM trades WHERE price < 10", name="cheap")
    engine.query("SELECT sym FROM trades WHERE price > 90", name="dear", per="sym", resolve="1 hour")
    engine.query("SELECT cast(sym AS INT) AS n FROM trades", name="numbers")


def push(engine: eddyline.Engine, number: int) -> None:
    """A round of one row: cheap has it, with the number of the round as its price."""
    engine.push("trades", [("x", -float(number))], token=f"round {number}")


def seen(engine: eddyline.Engine, query: str) -> list[tuple[int, dict]]:
    return [(r.round_number, dict(r)) for r in engine.get(query).results(after="0-0")]


def outside(folder: Path) -> list[str]:
    """What lies beside, for leftovers."""
    return sorted(path.name for path in folder.iterdir())


def test_a_restored_home_has_queries_results_alerts_dead_letters_and_tokens_and_goes_on(home, tmp_path):
    with eddyline.open(home) as engine:
        furnish(engine)
        engine.push("trades", [("1", 5.0), ("A", 95.0)])
        token, secret = engine.access.tokens.add("author", 0, owner="anna")
        made = engine.backup(tmp_path / "b.tar")
        engine.push("trades", [("2", 6.0)])  # after it
        engine.query("SELECT sym FROM trades", name="later")
    assert (made.last_round, made.n_rounds, made.n_files, dict(made.left_out)) == (1, 1, 3, {})
    found = restore(tmp_path / "b.tar", tmp_path / "again")
    assert (found.version, found.last_round) == (made.version, 1)
    with eddyline.open(tmp_path / "again") as engine:
        assert [query.name for query in engine.queries()] == ["cheap", "dear", "numbers"]
        assert seen(engine, "cheap") == [(1, {"sym": "1", "price": 5.0})]
        assert [(alert.query, alert.key) for alert in engine.alerts()] == [("dear", {"sym": "A"})]
        assert [letter.row["sym"] for letter in engine.dead_letters()] == ["A"]
        assert engine.access.tokens.find(secret, 1).id == token.id
        assert engine.push("trades", [("3", 7.0)]).round_number == 2
        assert seen(engine, "cheap")[-1] == (2, {"sym": "3", "price": 7.0})
        assert engine.rounds.durable.find_damaged() == {}
    assert outside(tmp_path) == ["again", "b.tar", "home"]


@pytest.mark.parametrize("name", ["b.tar", "b.tar.gz", "b.tgz"])
def test_a_backup_is_a_tar_of_the_catalog_its_files_and_a_manifest(home, tmp_path, name):
    with eddyline.open(home) as engine:
        furnish(engine)
        push(engine, 1)
        listed = {f"store/{file.name}" for file in engine.rounds.durable.rounds.files.all()}
        made = engine.backup(tmp_path / name)
    with tarfile.open(tmp_path / name) as tar:
        names = tar.getnames()
        manifest = json.load(tar.extractfile("manifest.json"))
    assert (names[0], names[-1], set(names[1:-1])) == ("catalog.db", "manifest.json", listed)
    assert {entry["name"] for entry in manifest["files"]} == {"catalog.db", *listed}
    assert (manifest["what"], manifest["format"]) == ("eddyline backup", made.format)
    assert (tmp_path / name).stat().st_mode & 0o777 == 0o600
    assert verify(tmp_path / name) == made


@pytest.mark.thorough
def test_backups_while_rounds_flow_and_old_files_go_hold_whole_prefixes(home, tmp_path):
    """Retention keeps little, so that files of the backup are removed from the home while it is written."""
    n_rounds, made = 400, []
    keeps_little = Retention(result_bytes=30_000, capture_bytes=10_000)
    with eddyline.open(home, retention=keeps_little, recent_rows=10) as engine:
        furnish(engine)
        push(engine, 1)
        ended = threading.Event()

        def flow() -> None:
            for number in range(2, n_rounds + 1):
                push(engine, number)
            ended.set()

        thread = threading.Thread(target=flow)
        thread.start()
        try:
            while not ended.is_set() and len(made) < 10:
                made.append(engine.backup(tmp_path / f"{len(made)}.tar"))
        finally:
            thread.join()
        n_files = len(list(engine.rounds.durable.store.names()))
        assert n_files == len(engine.rounds.durable.rounds.files.all())  # what was pinned is gone again
    assert len(made) > 1
    assert made[0].last_round < made[-1].last_round
    for number, backup in enumerate(made):
        assert not backup.left_out
        restore(Path(backup.file), tmp_path / f"home {number}")
        with eddyline.open(tmp_path / f"home {number}") as engine:
            last = engine.rounds.last_round
            assert last == backup.last_round
            results = seen(engine, "cheap")
            rounds = [round_number for round_number, _ in results]
            assert rounds == list(range(rounds[0], last + 1))  # those that were kept, without a gap
            assert all(row["price"] == -float(round_number) for round_number, row in results)
            assert engine.rounds.durable.find_damaged() == {}
            push(engine, last)  # its token is known: nothing happens
            assert engine.rounds.last_round == last
            push(engine, last + 1)
            assert seen(engine, "cheap")[-1] == (last + 1, {"sym": "x", "price": -float(last + 1)})


def test_files_past_retention_stay_until_the_backup_is_written_and_go_then(home):
    keeps_little = Retention(result_bytes=2_000, capture_bytes=500)
    with eddyline.open(home, retention=keeps_little) as engine:
        furnish(engine)
        durable = engine.rounds.durable
        push(engine, 1)
        first = {file.name for file in durable.rounds.files.all()}
        with engine.rounds.lock:
            durable.pin()
        for number in range(2, 130):
            push(engine, number)
        assert first - {file.name for file in durable.rounds.files.all()}  # retention has unlisted some
        assert first <= set(durable.store.names())
        with engine.rounds.lock:
            durable.unpin()
        assert set(durable.store.names()) == {file.name for file in durable.rounds.files.all()}


def test_a_home_nobody_holds_is_copied_as_it_is(tmp_path):
    """Of an earlier format too: a backup before an upgrade must not upgrade."""
    old = Path(__file__).parents[1] / "homes" / "format-2"
    home = tmp_path / "home"
    subprocess.run(["cp", "-r", str(old), str(home)], check=True)
    made = backup_of_folder(home, tmp_path / "b.tar")
    assert made.format == 2
    restore(tmp_path / "b.tar", tmp_path / "again")
    assert backup_of_folder(tmp_path / "again", tmp_path / "c.tar").format == 2
    with eddyline.open(home) as one, eddyline.open(tmp_path / "again") as other:
        assert [q.name for q in one.queries()] == [q.name for q in other.queries()]


def test_a_file_that_was_damaged_already_is_left_out_and_named(home, tmp_path):
    with eddyline.open(home) as engine:
        furnish(engine)
        push(engine, 1)
        push(engine, 2)
        (bad,) = [f.name for f in engine.rounds.durable.rounds.files.all("outbox") if f.round_number == 1]
        (home / "store" / bad).write_bytes(b"nonsense")
        made = engine.backup(tmp_path / "b.tar")
    assert list(made.left_out) == [bad]
    restore(tmp_path / "b.tar", tmp_path / "again")
    with eddyline.open(tmp_path / "again") as engine:
        assert list(engine.rounds.durable.find_damaged()) == [bad]
        assert seen(engine, "cheap") == [(2, {"sym": "x", "price": -2.0})]


# --------------------------------------------------------------------------------------------- refusals


@pytest.fixture
def backup(home, tmp_path) -> Path:
    with eddyline.open(home) as engine:
        furnish(engine)
        for number in range(1, 4):
            push(engine, number)
        engine.backup(tmp_path / "b.tar")
    return tmp_path / "b.tar"


def refused(file: Path, folder: Path) -> str:
    """What restoring says; there is no home then, and nothing is left."""
    before = outside(folder)
    with pytest.raises(EddylineError) as raised:
        restore(file, folder / "new")
    assert outside(folder) == before
    with pytest.raises(EddylineError):
        verify(file)
    return str(raised.value)


def test_a_flipped_byte_anywhere_in_a_member_is_found(backup, tmp_path):
    content = backup.read_bytes()
    with tarfile.open(backup) as tar:
        places = [(m.name, m.offset_data + m.size // 2) for m in tar.getmembers()]
    for name, place in places:
        changed = bytearray(content)
        changed[place] ^= 0x40
        backup.write_bytes(changed)
        assert "is damaged, or is not a backup" in refused(backup, tmp_path), name


def test_a_backup_cut_short_is_refused_wherever_it_is_cut(backup, tmp_path, rng):
    content = backup.read_bytes()
    with tarfile.open(backup) as tar:
        ends = [member.offset for member in tar.getmembers()]
    for length in [0, 1, 511, *ends, *rng.integers(0, ends[-1], 10).tolist()]:
        backup.write_bytes(content[:length])
        assert "b.tar is damaged, or is not a backup" in refused(backup, tmp_path)


def test_a_compressed_backup_that_is_damaged_is_refused(home, tmp_path, rng):
    with eddyline.open(home) as engine:
        furnish(engine)
        push(engine, 1)
        engine.backup(tmp_path / "b.tar.gz")
    content = (tmp_path / "b.tar.gz").read_bytes()
    for place in rng.integers(10, len(content) - 8, 10).tolist():
        changed = bytearray(content)
        changed[place] ^= 0xFF
        (tmp_path / "b.tar.gz").write_bytes(changed)
        refused(tmp_path / "b.tar.gz", tmp_path)


def repacked(backup: Path, change) -> None:
    """The same backup with members changed: `change` gets and gives a list of (TarInfo, bytes)."""
    with tarfile.open(backup) as tar:
        members = [(m, tar.extractfile(m).read()) for m in tar.getmembers()]
    with tarfile.open(backup, "w") as tar:
        for member, content in change(members):
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))


@pytest.mark.parametrize(
    "name",
    [
        "../evil",
        "/tmp/eddyline-evil",
        "store/../../evil",
        "store/outbox/../../../evil",
        "store/outbox/00000001-00000000000000000000000000000000.arrow/../x",
        "lock",
        "socket",
        "catalog.db-wal",
        "store\\outbox\\evil",
        "./catalog.db",
    ],
)
def test_names_that_lead_elsewhere_are_refused(backup, tmp_path, name):
    repacked(backup, lambda members: [*members[:1], (tarfile.TarInfo(name), b"evil"), *members[1:]])
    assert "does not belong there" in refused(backup, tmp_path)
    assert not list(tmp_path.rglob("*evil*"))
    assert not os.path.exists("/tmp/eddyline-evil")


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE]
)
def test_links_folders_and_devices_are_refused(backup, tmp_path, kind):
    member = tarfile.TarInfo("store/outbox/00000001-00000000000000000000000000000000.arrow")
    member.type, member.linkname = kind, "/etc/passwd"
    repacked(backup, lambda members: [*members[:1], (member, b""), *members[1:]])
    assert "does not belong there" in refused(backup, tmp_path)


def test_a_member_twice_or_after_the_manifest_is_refused(backup, tmp_path):
    original = backup.read_bytes()
    repacked(backup, lambda members: [members[0], *members])
    assert "does not belong there" in refused(backup, tmp_path)
    backup.write_bytes(original)
    repacked(backup, lambda members: [*members[1:], members[0]])
    assert "does not belong there" in refused(backup, tmp_path)


def test_a_manifest_that_agrees_with_files_the_catalog_does_not_list_is_refused(backup, tmp_path):
    def without_one(members):
        *others, (manifest, content) = members
        said = json.loads(content)
        gone = said["files"].pop()["name"]
        kept = [(member, body) for member, body in others if member.name != gone]
        return [*kept, (manifest, json.dumps(said).encode())]

    repacked(backup, without_one)
    assert "lists other files than it holds" in refused(backup, tmp_path)


@pytest.mark.parametrize(
    ("manifest", "said"),
    [
        (b"{}", "cannot be read"),
        (b"[", "cannot be read"),
        (b'{"what": "eddyline backup", "layout": 9, "files": []}', "layout 9"),
    ],
)
def test_a_manifest_that_is_none_or_of_another_layout_is_refused(backup, tmp_path, manifest, said):
    repacked(backup, lambda members: [*members[:-1], (members[-1][0], manifest)])
    assert said in refused(backup, tmp_path)


def test_a_home_that_is_there_is_not_replaced(backup, home, tmp_path):
    with pytest.raises(HomeError, match="already exists"):
        restore(backup, home)
    (tmp_path / "empty").mkdir()
    restore(backup, tmp_path / "empty")
    with pytest.raises(HomeError, match="already exists"):
        restore(backup, tmp_path / "empty")


def test_a_backup_replaces_no_file_and_says_how_it_must_be_called(home, tmp_path):
    with eddyline.open(home) as engine:
        furnish(engine)
        (tmp_path / "there.tar").write_text("mine")
        with pytest.raises(BackupError, match="already exists"):
            engine.backup(tmp_path / "there.tar")
        with pytest.raises(BackupError, match=r"\.tar"):
            engine.backup(tmp_path / "there.zip")
        with pytest.raises(BackupError, match="cannot write"):
            engine.backup(tmp_path / "no folder" / "b.tar")
    assert (tmp_path / "there.tar").read_text() == "mine"
    assert outside(tmp_path) == ["home", "there.tar"]


def test_an_engine_in_memory_and_a_folder_that_is_no_home_have_nothing_to_back_up(tmp_path):
    with eddyline.open() as engine, pytest.raises(HomeError, match="in memory"):
        engine.backup(tmp_path / "b.tar")
    with pytest.raises(HomeError, match="there is no home"):
        backup_of_folder(tmp_path / "nothing", tmp_path / "b.tar")
    assert outside(tmp_path) == []


def test_whoever_closes_the_engine_during_a_backup_gets_none(home, tmp_path):
    """Files are pinned only as long as the engine is open, so what was copied after that may have holes."""
    engine = eddyline.open(home)
    furnish(engine)
    push(engine, 1)

    def close(what: str, done: int, of: int) -> None:
        if what == "copying files":
            engine.close()

    with pytest.raises(EddylineError, match="closed before the backup was written"):
        engine.backup(tmp_path / "b.tar", on_progress=close)
    assert outside(tmp_path) == ["home"]


@pytest.mark.thorough
def test_a_restore_that_is_killed_leaves_no_home(backup, tmp_path):
    script = (
        "import os, sys; from pathlib import Path; from eddyline.control import backup\n"
        "backup.os.rename = lambda *names: os._exit(9)\n"  # the last moment before the home appears
        "backup.restore(Path(sys.argv[1]), Path(sys.argv[2]))"
    )
    done = subprocess.run([sys.executable, "-c", script, str(backup), str(tmp_path / "again")], check=False)
    assert done.returncode == 9
    assert not (tmp_path / "again").exists()
    restore(backup, tmp_path / "again")  # what was left is in nobody's way
    with eddyline.open(tmp_path / "again") as engine:
        assert engine.rounds.last_round == 3
