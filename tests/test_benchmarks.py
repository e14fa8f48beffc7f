"""The harness judges and keeps what benchmarks find, and the kept results are what they say."""

from __future__ import annotations

import ast
import io
import json
import re
import socket
import subprocess
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks import __main__ as runner
from benchmarks.harness import (
    ROOT,
    Benchmark,
    Unexplained,
    changed_files,
    commit,
    interleaved,
    is_held,
    machine,
    main,
    name_of,
    show,
)

FOLDER = ROOT / "benchmarks" / "results"
RESULTS = sorted(FOLDER.glob("*/**/*.json"))


@pytest.mark.parametrize(
    ("value", "bound", "holds"),
    [
        (5, "<= 5", True),
        (5.01, "<= 5", False),
        (25, ">= 25", True),
        (24.9, ">= 25", False),
        (2, "< 2", False),
        (2, "> 1.5", True),
        (20, "= 20", True),
        (19, "= 20", False),
        (4.18, "= 4.14 ± 0.05", True),
        (4.08, "= 4.14 ± 0.05", False),
        (float("nan"), "= 4.14 ± 0.05", False),
        (1_000_000, ">= 1_000_000", True),
        (-1, ">= -2", True),
        (float("nan"), "<= 5", False),
        (123, "reported", True),
        (123, "recomputed", True),
    ],
)
def test_a_claim_holds_if_its_value_keeps_the_bound(value, bound, holds):
    assert is_held(value, bound) is holds


def test_a_bound_that_says_nothing_is_refused():
    with pytest.raises(ValueError, match="'about 5' is not a bound"):
        is_held(5, "about 5")


@pytest.mark.thorough
def test_contenders_run_in_turn_and_their_medians_are_kept():
    ran, now = [], 0.0

    def contender(name, seconds):
        def run():
            nonlocal now
            ran.append(name)
            now += seconds.pop(0)
            return 42

        return run

    found = interleaved(
        {"a": contender("a", [1.0, 9.0, 2.0]), "b": contender("b", [5.0, 5.0, 6.0])},
        repetitions=3,
        clock=lambda: now,
        same=lambda result: result,
    )
    assert ran == ["a", "b", "a", "b", "a", "b"]
    assert (found["a"].median_s, found["b"].median_s) == (2.0, 5.0)
    assert found["b"].spread == 0.2


@pytest.mark.thorough
def test_contenders_that_answer_differently_are_not_compared():
    with pytest.raises(AssertionError, match=r"fast and slow differ in repetition 1:\n3\n4"):
        interleaved({"fast": lambda: 3, "slow": lambda: 4}, repetitions=2, same=lambda result: result)


def test_a_result_is_kept_as_claims_and_rows(tmp_path):
    bench = Benchmark("filters/keys", seed=7)
    bench.row(what="ours", cpu_s=0.5)
    bench.claim("calls", 3, "<= 4", why="not needed: it holds")
    bench.claim("ratio", 1.23456789, "reported")
    path = bench.write(tmp_path)
    kept = json.loads(path.read_text())
    assert path == tmp_path / "filters" / "keys.json"
    assert list(kept) == ["benchmark", "commit", "machine", "seed", "claims", "rows"]
    assert kept["claims"] == [
        {"name": "calls", "value": 3, "bound": "<= 4", "holds": True, "why": ""},
        {"name": "ratio", "value": 1.2346, "bound": "reported", "holds": True, "why": ""},
    ]
    assert kept["rows"] == [{"what": "ours", "cpu_s": 0.5}]
    assert (kept["benchmark"], kept["seed"]) == ("filters/keys", 7)


def test_a_missed_claim_is_kept_with_its_why(tmp_path):
    bench = Benchmark("filters/keys", seed=7, why={"late": "given by option"})
    bench.claim("slow", 9, "<= 4", why="one pass too many")
    bench.claim("late", 9, "<= 4")
    kept = json.loads(bench.write(tmp_path).read_text())
    assert [(claim["holds"], claim["why"]) for claim in kept["claims"]] == [
        (False, "one pass too many"),
        (False, "given by option"),
    ]


def test_a_missed_claim_without_a_why_is_not_written(tmp_path):
    bench = Benchmark("filters/keys", seed=7)
    bench.claim("slow", 9, "<= 4", why="  ")
    with pytest.raises(Unexplained) as refused:
        bench.write(tmp_path)
    assert str(refused.value) == (
        "slow is missed (9, bound <= 4) and nothing says why\n"
        'Say why in the script, or with --why "slow=…". Nothing was written.'
    )
    assert not list(tmp_path.iterdir())


@pytest.fixture
def folders(tmp_path, monkeypatch):
    monkeypatch.setattr("benchmarks.harness.RESULTS", tmp_path / "full")
    monkeypatch.setattr("benchmarks.harness.QUICK_RESULTS", tmp_path / "quick")
    monkeypatch.setattr("benchmarks.harness.changed_files", list)
    return tmp_path


def small(bench: Benchmark) -> None:
    bench.claim("n", bench.size(full=10, quick=1), ">= 5")


def test_a_script_writes_its_result_where_its_name_says(folders, capsys):
    main(small, "/anywhere/benchmarks/filters/keys.py", "Is it fast?", seed=3, arguments=[])
    assert json.loads((folders / "full/filters/keys.json").read_text())["seed"] == 3
    assert "holds     n: 10 (>= 5)" in capsys.readouterr().out


def test_a_script_of_a_paper_keeps_its_result_in_the_folder_of_the_paper(folders):
    main(small, "benchmarks/papers/orders/traps.py", "Is it right?", seed=3, arguments=[])
    assert (
        json.loads((folders / "full/papers/orders/traps.json").read_text())["benchmark"]
        == "papers/orders/traps"
    )


def test_a_quick_run_leaves_full_results_alone_and_needs_no_why(folders):
    main(small, "benchmarks/filters/keys.py", "Is it fast?", seed=3, arguments=["--quick", "--seed", "4"])
    assert not (folders / "full").exists()
    kept = json.loads((folders / "quick/filters/keys.json").read_text())
    assert (kept["seed"], kept["claims"][0]["holds"]) == (4, False)


def test_a_script_with_an_unexplained_miss_ends_with_an_error(folders):
    def missed(bench):
        bench.claim("n", 1, ">= 5")

    with pytest.raises(SystemExit, match="n is missed"):
        main(missed, "benchmarks/filters/keys.py", "Is it fast?", seed=3, arguments=[])
    assert not (folders / "full").exists()
    arguments = ["--why", "n=the machine = slow"]
    main(missed, "benchmarks/filters/keys.py", "Is it fast?", seed=3, arguments=arguments)
    kept = json.loads((folders / "full/filters/keys.json").read_text())
    assert kept["claims"][0]["why"] == "the machine = slow"


def test_a_tree_that_differs_from_its_commit_is_refused_before_anything_runs(folders, monkeypatch):
    monkeypatch.setattr("benchmarks.harness.changed_files", lambda: [f"src/{k}.py" for k in range(7)])
    ran = []
    with pytest.raises(SystemExit) as refused:
        main(ran.append, "benchmarks/filters/keys.py", "Is it fast?", seed=3, arguments=[])
    assert str(refused.value) == (
        "src/0.py, src/1.py, src/2.py, src/3.py, src/4.py and 2 more differ from the commit that the result would name."
        " Nothing was run.\nCommit them, or run with --quick, which changes no results."
    )
    main(small, "benchmarks/filters/keys.py", "Is it fast?", seed=3, arguments=["--quick"])
    assert not ran
    kept = json.loads((folders / "quick/filters/keys.json").read_text())
    assert kept["commit"].endswith("-dirty")
    assert not (folders / "full").exists()


def test_files_differ_if_changed_or_new_but_not_if_benchmarks_wrote_them(tmp_path, monkeypatch):
    monkeypatch.setattr("benchmarks.harness.ROOT", tmp_path)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(tmp_path)]
    for name in ("src/a.py", "benchmarks/results/b.json", "docs/papers.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1")
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "one"]):
        subprocess.run([*git, *command], check=True)
    clean = commit()
    assert changed_files() == []
    for name in ("benchmarks/results/b.json", "benchmarks/results/c.json", "docs/papers.md"):
        (tmp_path / name).write_text("2")
    assert (changed_files(), commit()) == ([], clean)
    (tmp_path / "src/new.py").write_text("1")
    (tmp_path / "src/a.py").write_text("2")
    assert sorted(changed_files()) == ["src/a.py", "src/new.py"]
    assert commit() == f"{clean}-dirty"


def test_the_table_shows_every_column_any_row_has():
    bench = Benchmark("filters/keys", seed=7)
    bench.row(what="ours", cpu_s=0.123456)
    bench.row(what="memory", bytes_each=1_234_567)
    console = Console(width=80, record=True, file=io.StringIO())
    show(bench, console)
    text = console.export_text()
    assert all(word in text for word in ["what", "cpu_s", "bytes_each", "0.123", "1,234,567"])


def test_the_summary_counts_what_holds_and_puts_misses_last():
    claims = [
        {"name": "slow", "value": 9, "bound": "<= 4", "holds": False, "why": "one pass too many"},
        {"name": "calls", "value": 3, "bound": "<= 4", "holds": True, "why": ""},
    ]
    assert runner.summary([{"benchmark": "filters/keys", "claims": claims}]) == [
        "  holds     calls: 3 (<= 4)  [filters/keys]",
        "  MISSED    slow: 9 (<= 4)  one pass too many  [filters/keys]",
        "1 of 2 claims hold, 1 missed",
    ]


def test_a_room_without_benchmarks_is_refused_with_the_rooms_there_are(capsys):
    with pytest.raises(SystemExit):
        runner.main(["--room", "cellar"])
    assert "there are no benchmarks in cellar; rooms: aggregates, catalog, " in capsys.readouterr().err


def test_the_scripts_of_a_paper_have_a_folder_of_their_own(tmp_path):
    for name in (
        "filters/keys",
        "papers/one/gap",
        "papers/one/_walk",
        "papers/two/gap",
        "results/papers/one",
    ):
        path = tmp_path / "benchmarks" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()

    def found(room=None):
        return [name_of(path) for path in runner.scripts(room, tmp_path / "benchmarks")]

    assert found() == ["filters/keys", "papers/one/gap", "papers/two/gap"]
    assert found("papers") == ["papers/one/gap", "papers/two/gap"]
    assert found("papers/one") == ["papers/one/gap"]


def test_the_machine_is_described_without_saying_whose_it_is():
    text = machine()
    assert re.match(r"\d+ cores of .+, \d+ GB, \w+ \w+, Python 3\.", text), text
    assert socket.gethostname() not in text.split()
    assert str(Path.home()) not in text


# --------------------------------------------------------------------------------------------- what is kept in the repository


def kept_name(path: Path) -> str:
    return path.relative_to(FOLDER).with_suffix("").as_posix()


@pytest.mark.parametrize("path", runner.scripts(), ids=name_of)
def test_every_benchmark_says_what_it_claims(path: Path):
    document = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    assert document.partition("\n")[0].endswith("?"), "the first line asks the question"
    assert re.search(r"^Claim ", document, re.MULTILINE)


@pytest.mark.parametrize("path", RESULTS, ids=kept_name)
def test_every_kept_result_is_whole_and_judged_rightly(path: Path):
    kept = json.loads(path.read_text(encoding="utf-8"))
    assert list(kept) == ["benchmark", "commit", "machine", "seed", "claims", "rows"]
    assert kept["benchmark"] == kept_name(path)
    assert (ROOT / "benchmarks" / f"{kept['benchmark']}.py").exists(), "its script is gone"
    assert kept["claims"]
    for claim in kept["claims"]:
        assert list(claim) == ["name", "value", "bound", "holds", "why"]
        assert claim["holds"] is is_held(claim["value"], claim["bound"]), claim["name"]
        assert claim["holds"] or claim["why"], f"{claim['name']} is missed and nothing says why"
    assert not re.search(r"(/home|/root|/work|/tmp|/Users)/", path.read_text(encoding="utf-8"))
