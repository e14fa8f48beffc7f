"""A user who only has the dashboard: from the link that `serve` prints to a rule, an alert and a version taken back."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.server.browser.people import Served, Watch, new_context, running
from tests.webhook_receiver import Receiver, receiver

PIPELINE = """
[streams.trades]
schema = "sym STRING, price DOUBLE, qty INT"
source = {{ type = "files", path = "in", format = "json", poll = "50 ms" }}

[[sinks]]
name = "ops"
type = "webhook"
url = "{url}"
allow_private = true
"""


@pytest.fixture
def ops() -> Iterator[Receiver]:
    """A webhook of somebody who is on call."""
    with receiver() as found:
        yield found


@pytest.fixture
def served(tmp_path: Path, ops: Receiver) -> Iterator[Served]:
    (tmp_path / "in").mkdir()
    (tmp_path / "eddyline.toml").write_text(PIPELINE.format(url=ops.url))
    with running(tmp_path, "eddyline.toml") as found:
        yield found


@pytest.fixture
def page(browser: Browser, served: Served) -> Iterator[Page]:
    context = new_context(browser)
    page, watch = context.new_page(), Watch(served.url)
    watch.on(page)
    yield page
    context.close()
    watch.check()


def trade(folder: Path, file: str, *trades: tuple[str, float]) -> None:
    """A file comes."""
    lines = [json.dumps({"sym": sym, "price": price, "qty": 1}) + "\n" for sym, price in trades]
    (folder / f".{file}").write_text("".join(lines))
    (folder / f".{file}").rename(folder / file)


def try_once_rows_have_come(page: Page) -> None:
    """The first round on a machine waits until the inner loops are compiled; until then there are no rows to try a rule on."""
    tried, deadline = page.get_by_role("region", name="On recent rows"), time.monotonic() + 300
    while True:
        page.get_by_role("button", name="Try it").click()
        expect(tried).to_contain_text(re.compile("No recent rows|would have matched"))
        if "would have matched" in tried.inner_text():
            return
        assert time.monotonic() < deadline, tried.inner_text()
        page.wait_for_timeout(200)


def test_a_rule_from_the_first_letter_to_the_version_before(
    page: Page, served: Served, ops: Receiver, tmp_path: Path
) -> None:
    trade(tmp_path / "in", "1.json", ("ACME", 9.5), ("BOLT", 50.0))
    page.goto(served.link)
    expect(page.get_by_text("No rule yet")).to_be_visible()

    # write a rule; a mistake is marked in its own field, names are offered
    page.get_by_role("link", name="New rule").first.click()
    page.get_by_label("Name").fill("cheap")
    sql, answer = page.get_by_label("SQL of the rule"), page.locator("#findings")
    sql.fill("SELECT sym, price FROM trades WHERE prise < 10")
    expect(answer).to_contain_text("Did you mean price?")
    expect(page.locator(".editor-colours .wrong")).to_have_text("prise")
    sql.fill("SELECT sym, price FROM trades WHERE ")
    sql.press_sequentially("pri")
    expect(page.locator(".offers").get_by_role("option").first).to_contain_text("price")
    page.keyboard.press("Tab")
    sql.press_sequentially(" < 10")
    expect(sql).to_have_value("SELECT sym, price FROM trades WHERE price < 10")
    resolve = page.locator(".field", has=page.get_by_label("Resolve"))
    resolve.get_by_label("Resolve").fill("5 parsecs")
    expect(resolve.locator(".mistake")).to_contain_text("5 parsecs")
    resolve.get_by_label("Resolve").fill("1 hour")
    page.get_by_label("Per", exact=True).fill("sym")
    page.get_by_label("Message").fill("{sym} fell to {price}")
    expect(answer).to_contain_text("This can be deployed")
    expect(page.locator(".mistake:visible")).to_have_count(0)

    # try it, add it
    try_once_rows_have_come(page)
    expect(page.get_by_role("region", name="On recent rows")).to_contain_text(
        "1 of the last 2 rows would have matched"
    )
    page.get_by_role("button", name="Add rule").click()
    expect(page.get_by_role("heading", name="cheap")).to_be_visible()
    expect(page.get_by_text("No result yet")).to_be_visible()

    # rows come: a result, an alert, a message to whoever is on call
    trade(tmp_path / "in", "2.json", ("ACME", 8.5), ("CORE", 70.0))
    results = page.get_by_role("table", name="Results, newest first").locator("tbody tr")
    expect(results).to_have_count(1)
    expect(results.first).to_contain_text("ACME")
    (request,) = ops.wait_for(1)
    assert [message["message"] for message in request.document["messages"]] == ["ACME fell to 8.5"]
    page.locator("nav a[href='#/alerts']").click()
    expect(page.locator("nav a[href='#/alerts'] .tally")).to_have_text("1")
    alert = page.locator(".alert.listed", has_text="ACME fell to 8.5")

    # acknowledge it, silence it, look at its history
    alert.get_by_role("button", name="Acknowledge ACME").click()
    page.get_by_label("Note").fill("calling the desk")
    page.get_by_role("dialog").get_by_role("button", name="Acknowledge").click()
    expect(alert).to_contain_text("calling the desk")
    page.get_by_role("button", name="Silence rule").click()
    page.get_by_role("dialog").get_by_label("30 min").check()
    page.get_by_role("dialog").get_by_role("button", name="Silence", exact=True).click()
    expect(page.get_by_role("region", name="Silences")).to_contain_text("cheap")
    trade(tmp_path / "in", "3.json", ("DATA", 7.0))
    page.locator(".tile.alerts-silenced").click()
    expect(page.locator(".alert.listed")).to_have_count(2)
    page.get_by_role("button", name="End the silence of cheap").click()
    expect(page.get_by_role("region", name="Silences")).to_be_hidden()
    page.locator(".tile.alerts-open").click()
    alert.get_by_role("button", name="ACME fell to 8.5", exact=True).click()
    timeline = page.get_by_role("dialog").locator(".timeline-what")
    expect(timeline.first).to_contain_text("Silence ended")
    expect(timeline.last).to_have_text("Fired")
    expect(timeline.filter(has_text=re.compile("^Silenced"))).to_have_count(1)
    expect(timeline.filter(has_text=re.compile("^Acknowledged"))).to_have_count(1)
    page.keyboard.press("Escape")
    messages = [each["message"] for request in ops.wait_for(2) for each in request.document["messages"]]
    assert messages == ["ACME fell to 8.5", "DATA fell to 7.0"]  # the second when the silence was over

    # a change, and back
    page.locator("nav a[href='#/rules']").click()
    page.get_by_role("link", name="cheap", exact=True).first.click()
    page.get_by_role("link", name="Change").click()
    expect(sql).to_have_value("SELECT sym, price FROM trades WHERE price < 10")
    sql.fill("SELECT sym, price FROM trades WHERE price < 60")
    expect(page.get_by_role("region", name="What would change").locator(".comes")).to_contain_text("60")
    page.get_by_role("button", name="Save change").click()
    expect(page.get_by_role("region", name="SQL")).to_contain_text("price < 60")
    page.locator("nav a[title^=Versions]").click()
    versions = page.get_by_role("list", name="Versions, newest first").locator("details")
    expect(versions.first).to_contain_text("deployed")
    before = versions.count()
    versions.nth(1).locator("summary").click()
    page.get_by_role("button", name=re.compile("^Roll back to")).click()
    expect(page.get_by_role("dialog").locator(".comes")).to_contain_text("price < 10")
    page.get_by_role("dialog").get_by_role("button", name="Roll back", exact=True).click()
    expect(versions).to_have_count(before + 1)
    expect(versions.first).to_contain_text("roll back to version")
    page.locator("nav a[href='#/rules']").click()
    page.get_by_role("link", name="cheap", exact=True).first.click()
    expect(page.get_by_role("region", name="SQL")).to_contain_text("price < 10")

    # sources and sinks
    page.locator("nav a[title^=Sources]").click()
    source = page.get_by_role("region", name="Source trades")
    expect(source).to_contain_text("up to 3.json")
    expect(source).to_contain_text("up to date")
    sink = page.get_by_role("region", name="Sink ops")
    expect(sink).to_contain_text("webhook, takes alerts")
    expect(sink).to_contain_text("up to date")
