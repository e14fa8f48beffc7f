"""Running it: sources and sinks with what fails, versions, going back, and the plan of a change."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, expect

from tests.server.browser.people import Person, Served, Watch, new_context, running, somebody

RETRY_S = 60  # on a loaded machine; a moment otherwise
PIPELINE = """
[engine]
home = "home"

[streams.trades]
schema = "sym STRING, price DOUBLE"
source = { type = "files", path = "in", format = "json" }

[streams.quotes]
schema = "sym STRING, bid DOUBLE"

[rules]
files = ["rules/*.sql"]

[[sinks]]
name = "ops"
type = "webhook"
url = "http://127.0.0.1:9/hook"
allow_private = true
"""


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """`eddyline serve` over a pipeline with a source that reads, and a sink nobody answers."""
    folder: Path = tmp_path_factory.mktemp("pipeline")
    (folder / "rules").mkdir()
    (folder / "in").mkdir()
    (folder / "in" / "a.json").write_text('{"sym": "ACME", "price": 5}\n{"sym": "BOLT", "price": 50}\n')
    (folder / "rules" / "a.sql").write_text(
        "CREATE OR REPLACE VIEW alarm TBLPROPERTIES (message = '{sym} fell', severity = 'critical')"
        " AS SELECT sym, price FROM trades WHERE price < 10"
    )
    (folder / "eddyline.toml").write_text(PIPELINE)
    with running(folder, "eddyline.toml") as served:
        with httpx.Client(base_url=served.url, headers={"x-eddyline": "1"}) as client:
            client.get(served.link)
            made = client.post("/api/v1/tokens", json={"role": "admin", "note": "tests"})
        served.token = made.json()["token"]
        yield served


@pytest.fixture
def operator(browser: Browser, pipeline: Served) -> Iterator[Person]:
    context = new_context(browser)
    context.request.post(
        f"{pipeline.url}/api/v1/session", data={"token": pipeline.token}, headers={"x-eddyline": "1"}
    )
    page, watch = context.new_page(), Watch(pipeline.url)
    watch.on(page)
    yield Person(page, pipeline, "", pipeline.token, "trades", watch)
    context.close()
    watch.check()


def test_sources_and_sinks_say_how_far_they_are_and_what_fails_is_tried_again(operator):
    page = operator.page
    operator.go("pipeline")
    source = page.get_by_role("region", name="Source trades")
    expect(source).to_contain_text("up to a.json")
    expect(source).to_contain_text("0 files")
    expect(source).to_contain_text("up to date")
    expect(page.get_by_role("region", name="Source quotes")).to_contain_text("pushed")
    sink = page.get_by_role("region", name="Sink ops")
    expect(sink).to_contain_text("failing")
    expect(sink).to_contain_text("1 message")
    expect(sink).to_contain_text("refuses connections")
    before = operator.server.call("GET", "/sinks")[0]["n_failures"]
    sink.get_by_role("button", name="Retry sink ops now").click()
    expect(page.locator(".toast")).to_contain_text("ops is tried again now")
    expect(sink.locator(".numbers")).to_contain_text("failures")
    deadline = time.monotonic() + RETRY_S
    while operator.server.call("GET", "/sinks")[0]["n_failures"] == before:
        assert time.monotonic() < deadline, "the sink was not tried again"
        page.wait_for_timeout(50)


def test_a_plan_is_shown_before_it_is_applied_and_taken_back_by_a_rollback(operator):
    page = operator.page
    first = operator.server.call("GET", "/status")["version"]
    operator.go("plan")
    page.get_by_label("Or SQL").fill(
        "CREATE OR REPLACE VIEW alarm AS SELECT sym, price FROM trades WHERE price < 60;\n"
        "CREATE OR REPLACE VIEW fresh AS SELECT sym FROM quotes WHERE bid > 1"
    )
    page.get_by_role("button", name="Show the plan").click()
    plan = page.get_by_role("region", name="The plan")
    expect(plan).to_contain_text("1 added, 1 changed")
    expect(plan.locator(".goes")).to_contain_text("price < 10")
    expect(plan.locator(".comes")).to_contain_text("price < 60")
    expect(plan.locator(".tried")).to_contain_text("2 of the last 2 rows would have matched")
    assert operator.server.call("GET", "/status")["version"] == first
    page.get_by_role("button", name="Apply").click()

    versions = page.get_by_role("list", name="Versions, newest first")
    expect(versions.locator("details").first).to_contain_text("apply rules: 1 added, 1 changed")
    expect(versions.locator("details").first).to_contain_text("deployed")
    versions.locator("summary").first.click()
    expect(versions.locator("details").first.locator(".comes")).to_contain_text("price < 60")

    versions.locator("summary").nth(1).click()
    page.get_by_role("button", name=f"Roll back to {first}").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("1 changed, 1 removed")
    expect(dialog.locator(".comes")).to_contain_text("price < 10")
    dialog.get_by_role("button", name="Roll back", exact=True).click()
    expect(versions.locator("details").first).to_contain_text(f"roll back to version {first}")
    (alarm,) = operator.server.call("GET", "/queries")["queries"]
    assert "price < 10" in alarm["text"]


def test_what_operators_see_is_not_for_others(browser, server, anna):
    with somebody(browser, server, like=anna) as bea:
        for view in ("pipeline", "versions", "plan"):
            bea.go(view)
            expect(bea.page.get_by_text("Only admins see this")).to_be_visible()
        expect(bea.page.locator("nav a[title^=Sources]")).to_have_count(0)
