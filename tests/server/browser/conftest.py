"""A browser for each module, a server for each test process; each test has a stream and an owner of its own.

The browser is whatever Chromium is installed: EDDYLINE_CHROMIUM names it, else it is looked for in the usual places.
"""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.server.browser.people import Person, Served, Watch, chromium, new_page, running, somebody

ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]
ARGUMENTS += ["--disable-background-networking", "--disable-component-update"]
# Pages live for seconds: no process in reserve for each of them, and no code compiled to run for long.
ARGUMENTS += ["--disable-site-isolation-trials", "--renderer-process-limit=1", "--js-flags=--no-opt"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser. It goes with its module: while its driver is there, an event loop runs in this thread, and no other can."""
    with sync_playwright() as driver:
        found = chromium(driver)
        if found is None:
            pytest.skip(
                "there is no Chromium: install one (apt install chromium, or playwright install chromium), "
                "or name it in EDDYLINE_CHROMIUM"
            )
        started = driver.chromium.launch(executable_path=found, args=ARGUMENTS)
        yield started
        started.close()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with running(tmp_path_factory.mktemp("server")) as served:
        with httpx.Client(base_url=served.url, headers={"x-eddyline": "1"}) as client:
            client.get(served.link)  # the cookie of the first admin
            made = client.post("/api/v1/tokens", json={"role": "admin", "note": "tests"})
        served.token = made.json()["token"]
        yield served


@pytest.fixture
def anna(browser: Browser, server: Served) -> Iterator[Person]:
    """An author."""
    with somebody(browser, server) as person:
        yield person


@pytest.fixture
def admin(browser: Browser, server: Served) -> Iterator[Person]:
    with somebody(browser, server, role="admin") as person:
        yield person


@pytest.fixture
def stranger(browser: Browser, server: Served) -> Iterator[tuple[Page, Watch]]:
    """A page nobody is signed in on."""
    watch = Watch(server.url)
    watch.allow("status of 401")
    with new_page(browser) as page:
        watch.on(page)
        yield page, watch
    watch.check()
