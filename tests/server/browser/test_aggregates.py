"""Aggregates in the browser: what is kept of a stream, the groups of a rule as they change, a value beside its threshold."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from playwright.sync_api import expect

import eddyline
from tests.server.browser.people import Person, Served, somebody
from tests.server.served import on_loopback

BUSY = "SELECT card, count(*) AS n FROM auths WHERE declined GROUP BY card HAVING n >= 3"


@dataclass
class Bank:
    """A stream of cards that rules aggregate, and a person who looks."""

    engine: eddyline.Engine
    anna: Person

    def decline(self, *cards: str, minute: int = 0) -> None:
        time = f"2026-01-05 09:{minute:02d}:00"
        self.engine.push("auths", [{"card": card, "declined": True, "ts": time} for card in cards])


@pytest.fixture
def bank(browser) -> Iterator[Bank]:
    with eddyline.open() as engine, on_loopback(engine) as serving:
        engine.stream("auths", "card STRING, declined BOOLEAN, ts TIMESTAMP", time="ts")
        served = Served(serving.url, str(serving.link), token=serving.token("admin"))
        with somebody(browser, served) as anna:
            yield Bank(engine, anna)


def test_the_page_of_a_stream_says_what_is_kept_and_for_which_rules(bank):
    anna, page = bank.anna, bank.anna.page
    anna.go("streams")
    page.get_by_role("link", name="Aggregates of auths").click()
    expect(page.get_by_role("heading", name="Aggregates of auths")).to_be_focused()
    expect(page.get_by_text("No rule on this stream has any.")).to_be_visible()

    bank.engine.query(BUSY, name="busy", owner=anna.owner)
    bank.engine.query(BUSY.replace(">= 3", ">= 9"), name="very busy", owner=anna.owner)
    bank.engine.query(
        "SELECT count(*) AS n FROM auths WHERE card > 'secret' GROUP BY card, window(ts, '10 minutes')",
        owner="another",
    )
    bank.decline("A", "B", "A")
    cards = page.locator("section", has=page.get_by_role("heading", name=re.compile("^Class ")))
    expect(cards).to_have_count(2)
    mine = cards.filter(has_text="FROM auths WHERE declined = TRUE")
    expect(mine.get_by_role("link")).to_have_text(["busy", "very busy"])
    cells = mine.get_by_role("table").locator("tbody td")
    expect(cells.nth(0)).to_have_text("groupsFor ever")
    expect(cells.nth(1)).to_have_text("2")
    expect(cells.nth(7)).to_have_text("2")
    theirs = cards.filter(has_text="rules of other owners")
    expect(theirs).to_contain_text("1 rule")
    expect(page.get_by_text("secret")).to_have_count(0)
    chart = page.get_by_role("img", name=re.compile("^Groups, last"))
    expect(chart).to_have_attribute("aria-label", re.compile(r"class \d+ 2"))
    mine.get_by_role("link", name="very busy").click()
    expect(page.get_by_role("heading", name="very busy")).to_be_visible()


def test_late_rows_and_the_next_deadline_are_told(bank):
    anna, page = bank.anna, bank.anna.page
    bank.engine.query(f"{BUSY}", name="kept", keep="1 day", owner=anna.owner)
    bank.decline("A", minute=30)
    bank.decline("A", "B", minute=10)  # behind the watermark
    anna.go("streams/auths/aggregates")
    numbers = page.locator("dl.numbers > div")
    expect(numbers.filter(has_text="late rows").locator("dd")).to_have_text("2")
    expect(numbers.filter(has_text="time changes it next").locator("dd")).to_have_text(re.compile("^in "))


def test_the_groups_of_a_rule_are_updated_in_place_and_those_that_leave_are_seen_to(bank):
    anna, page = bank.anna, bank.anna.page
    query = bank.engine.query(BUSY.replace("WHERE declined ", ""), name="busy", owner=anna.owner)
    windows = bank.engine.query(
        "SELECT card, count(*) AS n FROM auths GROUP BY card, window(ts, '10 minutes')", owner=anna.owner
    )
    anna.go(f"rules/q{query.id}")
    groups = page.get_by_role("table", name="Groups now")
    expect(page.get_by_text("No group in the answer", exact=True)).to_be_visible()
    bank.decline("A", "A", "A", "B")
    expect(groups.locator("tbody tr")).to_have_count(1)
    expect(groups.locator("tbody td")).to_have_text(["A", "3"])
    row = groups.locator("tbody tr").element_handle()
    bank.decline("A")
    expect(groups.locator("tbody td")).to_have_text(["A", "4"])
    assert row.is_visible()  # the same row, not another in its place
    page.get_by_role("button", name="All groups").click()
    expect(groups.locator("tbody td")).to_have_text(["A", "4", "B", "1"])
    expect(page.get_by_text("1 of 2 groups in the answer")).to_be_visible()

    anna.go(f"rules/q{windows.id}")
    expect(groups.locator("tbody tr")).to_have_count(2)
    expect(groups.locator("tbody td").nth(1)).to_have_text("2026-01-05 09:00 – 09:10")
    bank.decline("C", minute=30)
    expect(groups.locator("tbody tr.has-left")).to_have_count(2)
    expect(groups.locator("tbody tr.has-left").first).to_contain_text("closed")


def test_the_value_of_a_group_is_plotted_beside_the_threshold(bank):
    anna, page = bank.anna, bank.anna.page
    query = bank.engine.query(BUSY, name="busy", owner=anna.owner)
    bank.decline("A", "B")
    anna.go(f"rules/q{query.id}")
    page.get_by_role("button", name="All groups").click()
    key = page.get_by_role("button", name="A", exact=True)
    key.focus()
    key.press("Enter")
    expect(key).to_have_attribute("aria-pressed", "true")
    chart = page.get_by_role("img", name=re.compile("^n of card A"))
    expect(chart).to_have_attribute("aria-label", re.compile("latest: 1."))
    expect(chart.locator(".level-name")).to_have_text("n >= 3")
    for n in (2, 3, 4):
        bank.decline("A")
        expect(chart).to_have_attribute("aria-label", re.compile(f"latest: {n}."))
    expect(chart.locator("path.line")).to_have_count(1)
    key.press("Enter")
    expect(chart).to_have_count(0)
    key.press("Enter")  # begins with what results say: 3 and 4
    expect(chart).to_have_attribute("aria-label", re.compile("last 2 rounds. latest: 4."))
