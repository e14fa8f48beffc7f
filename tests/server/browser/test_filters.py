"""Filters in the browser: the data drifts, and the page shows that their order changes and why."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from playwright.sync_api import expect

import eddyline
from eddyline.functions.declarations import DECLARED
from tests.server.browser.people import Person, Served, somebody
from tests.server.served import on_loopback

ROWS = 2_000
MOST_ROUNDS = 300  # until something that must happen has happened: three or four are usual
POLITE, SHORT = "polite(text)", "short(text)"


@dataclass
class Newsroom:
    """Posts, of which two functions say something, and a person who looks."""

    engine: eddyline.Engine
    anna: Person

    def publish(self, *, polite: float, short: float) -> None:
        """A round of posts, such a share of which is polite, and short."""
        texts = [
            ("p" if k % 50 < 50 * polite else "r") + ("s" if (k + 25) % 50 < 50 * short else "l")
            for k in range(ROWS)
        ]
        self.engine.push("posts", {"id": list(range(ROWS)), "text": texts})

    def order(self) -> list[str]:
        (facts,) = self.engine.explain_filters("posts", bound=False).streams
        return [each["text"] or "" for each in facts["filters"]]


@pytest.fixture
def newsroom(browser) -> Iterator[Newsroom]:
    """At a server of this process, which knows the functions. Both take their time, so that sampling them pays."""
    before = dict(DECLARED)

    @eddyline.udf(returns="boolean", version="1")
    def polite(text: str) -> bool:
        return sum(range(300)) > 0 and text[0] == "p"

    @eddyline.udf(returns="boolean", version="1")
    def short(text: str) -> bool:
        return sum(range(300)) > 0 and text[1] == "s"

    with eddyline.open() as engine, on_loopback(engine) as serving:
        engine.stream("posts", "id INT, text STRING")
        served = Served(serving.url, str(serving.link), token=serving.token("admin"))
        with somebody(browser, served) as anna:
            yield Newsroom(engine, anna)
    DECLARED.clear()
    DECLARED.update(before)


def test_the_page_shows_that_the_order_changes_when_the_data_drifts(newsroom):
    anna, page = newsroom.anna, newsroom.anna.page
    newsroom.engine.query(f"SELECT id FROM posts WHERE {POLITE} AND {SHORT}", name="nice", owner=anna.owner)
    newsroom.engine.query(f"SELECT text FROM posts WHERE {SHORT} AND {POLITE}", name="too", owner=anna.owner)
    for _ in range(10):
        newsroom.publish(polite=0.02, short=0.98)
    assert newsroom.order() == [POLITE, SHORT]

    anna.go("streams")
    page.get_by_role("link", name="Filters of posts").click()
    expect(page.get_by_role("heading", name="Filters of posts")).to_be_focused()
    filters = page.get_by_role("table", name="Filters, in the order in which they run")
    expect(filters.locator("tbody tr").nth(0)).to_contain_text(POLITE)
    expect(filters.locator("tbody tr").nth(1)).to_contain_text(SHORT)
    assert filters.locator("tbody tr").nth(0).locator("td").all_inner_texts()[5] == "2"  # rules
    chart = page.get_by_role("img", name=re.compile("^Order over time"))
    expect(chart).to_have_attribute("aria-label", re.compile(re.escape(f"Now: {POLITE}, then {SHORT}")))

    for _ in range(MOST_ROUNDS):
        newsroom.publish(polite=0.98, short=0.02)
        if newsroom.order() == [SHORT, POLITE]:
            break
    expect(filters.locator("tbody tr").nth(0)).to_contain_text(SHORT)
    expect(filters.locator("tbody tr").nth(1)).to_contain_text(POLITE)
    expect(chart).to_have_attribute("aria-label", re.compile(re.escape(f"Now: {SHORT}, then {POLITE}")))
    changes = page.get_by_role("region", name="What changed")
    expect(changes).to_contain_text(f"{POLITE} passes 98 % of rows, it was 2 %")

    told = page.locator("figure", has=chart).locator(".chart-caption")
    expect(told).to_have_text("now: B, A")
    chart.focus()
    page.keyboard.press("ArrowLeft")  # now
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    expect(told).to_have_text(re.compile("^round 1: A, B"))
    page.keyboard.press("Escape")
    expect(page.get_by_role("heading", name="Streams")).to_be_visible()


def test_another_owners_filters_have_no_text_and_a_rule_leads_to_its_own(newsroom):
    anna, page = newsroom.anna, newsroom.anna.page
    nice = newsroom.engine.query(f"SELECT id FROM posts WHERE {POLITE}", name="nice", owner=anna.owner)
    newsroom.engine.query(f"SELECT id FROM posts WHERE {POLITE} AND {SHORT}", name="secret", owner="bob")
    newsroom.publish(polite=0.5, short=0.5)
    anna.go(f"rules/q{nice.id}")
    cost = page.get_by_role("region", name="Cost, and what it shares")
    expect(cost).to_contain_text("shared with 1 other rule")
    cost.get_by_role("link", name=re.compile(r"^filter [12] of 2$")).click()
    expect(page.get_by_role("heading", name="Filters of posts")).to_be_visible()
    expect(page.locator("main")).to_contain_text(POLITE)
    expect(page.locator("main")).to_contain_text("another owner's filter")
    assert "short" not in page.locator("main").inner_text()


def test_a_stream_without_filters_says_what_they_are(newsroom):
    newsroom.anna.go("streams/posts/filters")
    expect(newsroom.anna.page.get_by_text("No filters", exact=True)).to_be_visible()
    expect(newsroom.anna.page.get_by_role("table")).to_have_count(0)
    newsroom.anna.watch.allow("status of 404")
    newsroom.anna.go("streams/nothing/filters")
    expect(newsroom.anna.page.get_by_role("alert")).to_contain_text("There is no stream 'nothing'")
