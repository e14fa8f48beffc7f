"""A user in a notebook: `first_look.ipynb`, cell by cell as a kernel runs them, and what its outputs look like in a browser."""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from eddyline import EddylineError

NOTEBOOK = Path(__file__).parent / "first_look.ipynb"
MARKUP = '<script>document.title = "taken"</script><img src=x onerror="document.title = \'taken\'">'
TAGS = {"div", "b", "p", "pre", "table", "thead", "tbody", "tr", "th", "td", "style"}  # style: of pandas
SHOWN = {
    "engine": ["readings"],
    "hot": ["SELECT device, celsius", MARKUP],
    "matches": [MARKUP],
    "hot.results()": [MARKUP, "<b onclick=x>", "251.5"],
    "hot.why": ["celsius > 250", "note != '<i>'"],
    "hot.why_not()": ["celsius > 250"],
    "engine.dead_letters()": [MARKUP, "counted", "is no INT"],
    "engine.alerts()": [MARKUP, "firing"],
    "hot.explain()": ["celsius > 250"],
    "hot.to_pandas()": ["251.5", "<b onclick=x>"],
}  # what a cell begins with, and what its output says


class Cell:
    """A code cell, run as a kernel does: a loop runs, `await` stands at the top, the last expression is displayed."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.html: str | None = None
        self.text: str | None = None
        self.error: BaseException | None = None

    async def run(self, names: dict[str, Any]) -> None:
        tree = ast.parse(self.source)
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        try:
            await self._evaluated(tree, "exec", names)
            if isinstance(last, ast.Expr):
                self._display(await self._evaluated(ast.Expression(last.value), "eval", names))
        except EddylineError as error:
            self.error = error

    async def _evaluated(self, tree: ast.AST, mode: str, names: dict[str, Any]) -> Any:
        code = compile(tree, "<cell>", mode, flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)  # type: ignore[arg-type]
        value = eval(code, names)
        return await value if code.co_flags & inspect.CO_COROUTINE else value

    def _display(self, value: Any) -> None:
        self.text = repr(value)
        if hasattr(value, "_repr_html_"):
            self.html = value._repr_html_()


class Read(HTMLParser):
    """The tags and the attributes of a page, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def cells() -> list[Cell]:
    """The cells, run from the first to the last."""
    document = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    found = [Cell("".join(cell["source"])) for cell in document["cells"] if cell["cell_type"] == "code"]
    names: dict[str, Any] = {"__name__": "__main__"}

    async def run_all() -> None:
        for cell in found:
            await cell.run(names)

    asyncio.run(asyncio.wait_for(run_all(), 60))
    return found


def cell(cells: list[Cell], start: str) -> Cell:
    """The cell whose last line begins so."""
    return next(each for each in cells if each.source.splitlines()[-1].startswith(start))


@pytest.mark.parametrize("start", SHOWN)
def test_a_display_is_a_table_in_which_values_of_rows_are_text(cells: list[Cell], start: str) -> None:
    shown = cell(cells, start)
    assert shown.html is not None, shown.text
    read = Read(shown.html)
    assert read.tags <= TAGS
    assert not {name for name in read.attributes if name.startswith("on")}
    for words in SHOWN[start]:
        assert words in read.text


def test_results_are_awaited_and_an_engine_is_served_beside_the_loop_of_the_kernel(cells: list[Cell]) -> None:
    assert cell(cells, "heard").text == "[260.0, 301.0]"
    remote = cell(cells, "remote.get")
    assert "301.0" in str(remote.text)
    wrong = cell(cells, 'engine.query("SELECT devise')
    assert "Did you mean device?" in str(wrong.error)
    assert [each.error for each in cells if each is not wrong and each.error] == []


def test_no_script_of_a_row_runs_in_a_browser(cells: list[Cell], browser) -> None:
    page = browser.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    shown = "".join(each.html or "" for each in cells)
    page.set_content(f"<title>notebook</title><main>{shown}</main>")
    assert page.title() == "notebook"
    assert page.locator("main script, main img, main [onclick]").count() == 0
    assert page.locator("main table").count() >= 8
    assert page.get_by_text(MARKUP).count() >= 5
    assert asked == []
    page.close()
