"""Joins in the browser: what is kept of each stream, over time, and in which order new rows look for partners."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from playwright.sync_api import expect

import eddyline
from tests.server.browser.people import Person, Served, somebody
from tests.server.served import on_loopback


@dataclass
class Market:
    """Trades and news that rules join, and a person who looks."""

    engine: eddyline.Engine
    anna: Person


@pytest.fixture
def market(browser) -> Iterator[Market]:
    with eddyline.open() as engine, on_loopback(engine) as serving:
        engine.stream("trades", "sym STRING, price DOUBLE")
        engine.stream("news", "sym STRING, head STRING")
        served = Served(serving.url, str(serving.link), token=serving.token("admin"))
        with somebody(browser, served) as anna:
            yield Market(engine, anna)


def test_the_page_says_what_is_kept_and_how_it_is_found(market):
    engine, anna, page = market.engine, market.anna, market.anna.page
    anna.go("streams")
    page.get_by_role("link", name="Joins").click()
    expect(page.get_by_role("heading", name="Joins")).to_be_focused()
    expect(page.get_by_text("No rule joins streams yet.")).to_be_visible()

    text = "SELECT t.sym, n.head FROM trades t JOIN recent(news, 3) n ON t.sym = n.sym WHERE t.price > 5"
    query = engine.query(text, name="hot", owner=anna.owner)
    for k in range(5):
        engine.push("news", [("ACME", f"headline {k}")])
    engine.push("trades", [("ACME", 9.0), ("ACME", 1.0)])

    kept = page.get_by_role("table", name="Retained rows of each stream")
    expect(kept.locator("tbody tr")).to_have_count(1)  # trades are not kept: they meet what came before
    cells = kept.locator("tbody tr td")
    expect(cells.nth(0)).to_have_text("news")
    expect(cells.nth(2)).to_have_text("3")
    expect(cells.nth(4)).to_have_text("sym")
    joins = page.get_by_role("table", name="Joins, each executed once for all its rules")
    expect(joins).to_contain_text("news.sym = trades.sym")
    expect(joins).to_contain_text("trades in news: no other order is possible")
    chart = page.get_by_role("img", name=re.compile("^Retained rows"))
    expect(chart).to_have_attribute("aria-label", re.compile("news 3 rows"))

    anna.go(f"rules/q{query.id}")
    expect(page.get_by_role("definition").filter(has_text="the newest 3 rows")).to_contain_text("for 1 rule")
    expect(page.get_by_text("1 of the last 2 rows pass its own conditions.")).to_be_visible()


def test_somebody_else_sees_how_much_is_kept_but_not_what_is_joined(market):
    engine, anna, page = market.engine, market.anna, market.anna.page
    engine.query("SELECT n.head FROM trades t JOIN recent(news, 3) n ON t.sym = n.sym", owner="another")
    engine.push("news", [("ACME", "headline")])
    anna.go("joins")
    kept = page.get_by_role("table", name="Retained rows of each stream")
    expect(kept.locator("tbody tr")).to_have_count(1)
    expect(page.get_by_text("None of your own rules.")).to_be_visible()
    expect(page.get_by_text("news.sym")).to_have_count(0)
