"""Who takes part: a server in a process of its own, people with pages, and somebody who looks over their shoulder."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import httpx
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Playwright,
    Request,
    Route,
    expect,
)

WAIT_MS = 20_000  # until something that must come has come; nothing waits so long if it works
COLUMNS = "sym STRING, sector STRING, price DOUBLE, qty INT, ts TIMESTAMP"
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge")
_PLACES = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
)

expect.set_options(timeout=WAIT_MS)


def chromium(driver: Playwright) -> str | None:
    """A Chromium that is installed: the one EDDYLINE_CHROMIUM names, or one in the usual places."""
    named = os.environ.get("EDDYLINE_CHROMIUM")
    if named:
        return named
    found = next(filter(None, map(shutil.which, _NAMES)), None)
    places = (*_PLACES, driver.chromium.executable_path)
    return found or next((place for place in places if Path(place).exists()), None)


@contextlib.contextmanager
def unanswered(page: Page, asked: str | re.Pattern[str]) -> Iterator[None]:
    """Requests for what is asked are not answered before the end of the block, whenever they come."""
    held: list[Route] = []
    is_held = True

    def hold(route: Route) -> None:
        held.append(route) if is_held else route.continue_()

    page.route(asked, hold)
    yield
    is_held = False
    for route in held:
        route.continue_()


@dataclass
class Served:
    """A server, and what its tests may ask of it directly."""

    url: str
    link: str
    token: str = ""
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def call(self, method: str, path: str, body: Any = None, token: str | None = None) -> Any:
        """What the API answers, with the admin's token if no other is given."""
        headers = {"authorization": f"Bearer {token or self.token}"}
        answer = httpx.request(method, f"{self.url}/api/v1{path}", json=body, headers=headers, timeout=30)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json()


@contextlib.contextmanager
def running(folder: Path, pipeline: str | None = None) -> Iterator[Served]:
    """`eddyline serve` over an empty home, or a pipeline file of the folder, until the end of the block."""
    what = ["--home", str(folder / "home")] if pipeline is None else [pipeline]
    command = [sys.executable, "-m", "eddyline.cli", "serve", *what, "--port", "0"]
    with open(folder / "errors.txt", "w", encoding="utf-8") as errors:
        process = subprocess.Popen(
            [*command, "--rate", "1000", "--json"],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            cwd=folder,
        )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, (folder / "errors.txt").read_text(encoding="utf-8")
        said = json.loads(line)
        yield Served(said["url"], said["link"])
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()  # type: ignore[union-attr]


@dataclass
class Watch:
    """What a page must never do: complain, or ask anybody but its own server."""

    url: str
    mistakes: list[str] = field(default_factory=list)
    allowed: list[str] = field(default_factory=list)

    def on(self, page: Page) -> None:
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.mistakes.append(f"error: {error}"))
        page.on("request", self._asked)

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.mistakes.append(f"{message.type}: {message.text}")

    def _asked(self, request: Request) -> None:
        if not request.url.startswith(f"{self.url}/"):
            self.mistakes.append(f"request to {request.url}")

    def allow(self, *patterns: str) -> None:
        """Let these be, in this test: a browser logs every refusal, also one that is expected."""
        self.allowed += patterns

    def check(self) -> None:
        left = [m for m in self.mistakes if not any(re.search(pattern, m) for pattern in self.allowed)]
        assert not left, "\n".join(left)


@dataclass
class Person:
    """An owner with a token and a page, and a stream to write rules on."""

    page: Page
    server: Served
    owner: str
    token: str
    stream: str
    watch: Watch
    seconds: Iterator[int] = field(default_factory=lambda: itertools.count())

    def go(self, view: str) -> None:
        """Open a view, whether or not the page is open already."""
        address = f"{self.server.url}/#/{view}"
        if self.page.url.split("#")[0] == f"{self.server.url}/":
            self.page.evaluate("hash => { location.hash = hash }", f"#/{view}")
        else:
            self.page.goto(address)
        expect(self.page.locator("main h1").first).to_be_visible()

    def add(self, name: str, where: str, columns: str = "sym, price", **properties: str) -> int:
        """A rule of one's own, by the API; its number."""
        text = f"SELECT {columns} FROM {self.stream}{f' WHERE {where}' if where else ''}"
        body = {"text": text, "name": name, "properties": properties}
        return int(self.server.call("POST", "/queries", body, self.token)["id"])

    def push(self, *rows: tuple[str, str, float | None, int | None]) -> dict[str, Any]:
        """Rows of the stream: symbol, sector, price, quantity. One round."""
        told = [
            dict(zip(("sym", "sector", "price", "qty"), row, strict=True))
            | {"ts": f"2026-01-05 09:{next(self.seconds) % 60:02d}:00"}
            for row in rows
        ]
        return dict(self.server.call("POST", f"/streams/{self.stream}/rows", told))


def new_context(browser: Browser, **settings: Any) -> BrowserContext:
    """A window of its own, without animations."""
    context = browser.new_context(
        viewport={"width": 1280, "height": 900}, reduced_motion="reduce", locale="en-GB", **settings
    )
    context.set_default_timeout(WAIT_MS)
    return context


_idle: WeakKeyDictionary[Browser, dict[str, list[BrowserContext]]] = WeakKeyDictionary()  # by their settings


@contextlib.contextmanager
def new_page(browser: Browser, **settings: Any) -> Iterator[Page]:
    """A page in a window without cookies and storage: a new one, or one that a test before has left so.

    Such a window keeps an empty page, and with it the process that shows pages: starting one takes longer than most tests.
    """
    idle = _idle.setdefault(browser, {}).setdefault(repr(sorted(settings.items())), [])
    if idle:
        context = idle.pop()
    else:
        context = new_context(browser, **settings)
        context.new_page()
    is_clean = False
    try:
        page = context.new_page()
        yield page
        is_clean = page.url == "about:blank" or page.evaluate("localStorage.length") == 0
        page.close()
        context.clear_cookies()
        is_clean = is_clean and len(context.pages) == 1
    finally:
        if is_clean:
            idle.append(context)
        else:
            context.close()


@contextlib.contextmanager
def somebody(
    browser: Browser,
    server: Served,
    *,
    role: str = "author",
    like: Person | None = None,
    owner: str | None = None,
    **settings: Any,
) -> Iterator[Person]:
    """A person with a new stream or, with `like`, another one who looks at the same; with a new owner or the one named."""
    number = next(server.numbers)
    owner = owner or f"owner{number}"
    stream = f"trades{number}" if like is None else like.stream
    if like is None:
        server.call("POST", "/streams", {"name": stream, "schema": COLUMNS})
    token = server.call("POST", "/tokens", {"role": role, "owner": owner})["token"]
    with new_page(browser, **settings) as page:
        signed = page.context.request.post(
            f"{server.url}/api/v1/session", data={"token": token}, headers={"x-eddyline": "1"}
        )
        assert signed.ok, signed.text()
        watch = Watch(server.url)
        watch.on(page)
        yield Person(page, server, owner, token, stream, watch)
        watch.check()
