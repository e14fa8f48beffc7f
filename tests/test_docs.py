"""Every code block in README.md and docs/ runs: Python is executed and its output compared, SQL is accepted, chores exist."""

from __future__ import annotations

import ast
import contextlib
import io
import pkgutil
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import eddyline
from eddyline.functions.declarations import DECLARED

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
STARTS_SOMETHING = {"client.md", "functions.md"}  # a server; processes for functions
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    language: str
    code: str
    line: int


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [Block(m.group(1), m.group(2), text.count("\n", 0, m.start()) + 2) for m in FENCE.finditer(text)]


@pytest.fixture(autouse=True)
def _only_the_functions_of_one_page():
    before = dict(DECLARED)
    yield
    DECLARED.clear()
    DECLARED.update(before)


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=[pytest.mark.thorough] * (page.name in STARTS_SOMETHING)) for page in PAGES],
    ids=lambda page: page.name,
)
def test_python_blocks_run_and_print_what_the_page_shows(page, no_session):
    """The blocks of a page run one after the other in one namespace; a `text` block right behind is their output.

    Three dots stand for what differs from run to run.
    """
    namespace: dict[str, object] = {"__name__": "docs"}
    found = blocks(page)
    for at, block in enumerate(found):
        if block.language != "python":
            continue
        printed = io.StringIO()
        code = compile("\n" * (block.line - 1) + block.code, str(page), "exec")
        with contextlib.redirect_stdout(printed):
            exec(code, namespace)
        shown = found[at + 1] if at + 1 < len(found) and found[at + 1].language == "text" else None
        if shown is not None:
            pattern = ".*".join(re.escape(part) for part in shown.code.rstrip().split("…"))
            said = printed.getvalue().rstrip()
            assert re.fullmatch(pattern, said), f"{page.name}:{shown.line}\n{said}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_sql_blocks_are_accepted(page):
    """The SQL of a page is one script."""
    engine = eddyline.open()
    for block in blocks(page):
        if block.language == "sql":
            engine.sql(block.code)


def test_every_make_target_a_page_names_exists():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in PAGES:
        for target in re.findall(
            r"(?:^ {4}|`)make ([a-z-]+)", page.read_text(encoding="utf-8"), re.MULTILINE
        ):
            assert target in targets, f"{page.name} names make {target}"


def test_every_link_between_pages_leads_somewhere():
    for page in [*PAGES, *(ROOT / "docs" / "decisions").glob("*.md")]:
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / link).exists(), f"{page.name} links to {link}"


LAST_DECISION_NOT_CHECKED = 19  # older decisions name files as they were then
NO_MODULE = {"eddyline.toml", "eddyline.audit"}  # the pipeline file; the name of a query


def described_modules() -> list[tuple[str, str, list[Path]]]:
    """Name and text of each page and each package docstring, and the folders that a path in it may start from."""
    package = ROOT / "src" / "eddyline"
    decisions = [
        page
        for page in sorted((ROOT / "docs" / "decisions").glob("0*.md"))
        if int(page.name[:4]) > LAST_DECISION_NOT_CHECKED
    ]
    texts = [
        (page.name, page.read_text(encoding="utf-8"), [ROOT, package])
        for page in [*PAGES, ROOT / "CONTRIBUTING.md", *decisions]
    ]
    for init in sorted(package.rglob("__init__.py")):
        docstring = ast.get_docstring(ast.parse(init.read_text(encoding="utf-8"))) or ""
        texts.append((str(init.relative_to(ROOT)), docstring, [ROOT, package, init.parent]))
    return texts


@pytest.mark.parametrize(
    ("text", "folders"),
    [pytest.param(text, folders, id=name) for name, text, folders in described_modules()],
)
def test_every_module_that_a_text_names_exists(text, folders):
    package = folders[1]
    rooms = {path.stem for path in package.iterdir()}
    for path in re.findall(r"(?<![\w./:-])[\w-]+(?:/[\w-]+)*/(?:[\w-]+\.(?:py|js|css|html))?", text):
        if path.startswith("src/eddyline") or path.split("/")[0] in rooms:
            assert any((folder / path).exists() for folder in folders), f"no file {path}"
    if len(folders) == 3:  # a package's docstring names files of its own
        for name in re.findall(r"(?<![\w/])\w+\.py\b", text):
            assert (folders[2] / name).exists(), f"no file {name}"
    for name in re.findall(r"(?<![\w./:@-])eddyline(?:\.[A-Za-z_]\w*)+", text):
        if name not in NO_MODULE:
            pkgutil.resolve_name(name)


def test_the_table_of_rooms_lists_every_room():
    page = (ROOT / "docs" / "life-of-a-row.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.*?) \|", page.partition("## The rooms")[2], re.MULTILINE)
    rooms = {
        path.stem
        for path in (ROOT / "src" / "eddyline").iterdir()
        if (path.is_dir() or path.suffix == ".py") and not path.name.startswith("_")
    }
    assert {room for row in rows for room in re.findall(r"`(\w+)`", row)} == rooms


def test_the_function_tables_of_the_sql_page_are_what_the_allow_list_says():
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "sql_reference.py", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
