"""What holds on every page: phone width, keyboard alone, light and dark, text that stays text, a server that goes away."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.server.browser.people import Person, somebody

HOSTILE = "<img src=x onerror=alert(1)>"
OVERFLOW = """() => {
  const wide = document.documentElement.clientWidth;
  const isCut = (e) => e !== null && (getComputedStyle(e).overflowX !== "visible" || isCut(e.parentElement));
  return [...document.querySelectorAll("body *")]
    .filter((e) => e.getBoundingClientRect().right > wide + 1 && e.getBoundingClientRect().width > 0)
    .filter((e) => !e.closest(".sr, .skip") && !isCut(e.parentElement))
    .map((e) => `${e.tagName}.${e.getAttribute("class")} ${Math.round(e.getBoundingClientRect().right)}`)
    .concat(document.documentElement.scrollWidth > wide ? [`page ${document.documentElement.scrollWidth}`] : []);
}"""
NAMELESS = """() => [...document.querySelectorAll("button, a[href], input, select, textarea")]
  .filter((e) => e.offsetParent !== null)
  .filter((e) => !(e.getAttribute("aria-label") || e.textContent.trim() || e.labels?.length || e.title))
  .map((e) => e.outerHTML.slice(0, 120))"""


def lived_in(person: Person) -> int:
    """A rule with results, an open alert and dead letters, and long words in all of them."""
    long = "a_name_that_goes_on_and_on_without_any_place_where_it_could_be_broken_into_two_lines"
    where = f"price < 10 AND 100 / qty > 1 AND sym NOT IN ('{'X' * 90}', '{'Y' * 90}') AND sym RLIKE '{'[A-Z]' * 20}|.'"
    number = person.add(
        long, where, "*", resolve="1 hour", message="{sym} at {price}", severity="error", per="sym"
    )
    person.add("quiet", "price < -1")
    person.push(("S" * 80, "TECH", 9.123456789, 3), ("ACME", "TECH", 2.0, 0), ("BYTE", "TECH", 2.5, 7))
    return number


def settle(page: Page) -> None:
    expect(page.locator("main h1").first).to_be_visible()
    expect(page.locator("main .loading")).to_have_count(0)


@pytest.mark.parametrize("width", [360, 768])
def test_nothing_is_wider_than_the_page(browser, server, width):
    with somebody(browser, server, role="admin") as admin:
        admin.page.set_viewport_size({"width": width, "height": 740})
        number = lived_in(admin)
        views = ["rules", f"rules/q{number}", f"rules/q{number}/change", "new", "alerts", "rounds", "streams"]
        for view in [
            *views,
            f"streams/{admin.stream}/filters",
            "dead-letters",
            "pipeline",
            "versions",
            "plan",
            "access",
        ]:
            admin.go(view)
            settle(admin.page)
            assert admin.page.evaluate(OVERFLOW) == [], view
            assert admin.page.evaluate(NAMELESS) == [], view
        admin.go(f"rules/q{number}")
        admin.page.get_by_role("button", name="Why did result").first.click()
        expect(admin.page.locator(".verdict")).not_to_have_count(0)
        assert admin.page.evaluate(OVERFLOW) == []


def test_a_rule_is_written_watched_and_dropped_at_phone_width(browser, server):
    with somebody(browser, server, has_touch=True) as anna:
        page = anna.page
        page.set_viewport_size({"width": 360, "height": 740})
        anna.watch.allow("status of 404")
        anna.go("rules")
        page.get_by_role("link", name="New rule").tap()
        page.get_by_label("Name").fill("cheap")
        page.get_by_label("SQL of the rule").fill(f"SELECT sym, price FROM {anna.stream} WHERE price < 10")
        expect(page.locator("#told")).to_contain_text("This can be deployed")
        page.get_by_role("button", name="Add rule").tap()
        expect(page.locator(".stream-state")).to_have_text("live")
        anna.push(("ACME", "TECH", 9.5, 1))
        page.get_by_role("button", name="Why did result").tap()
        expect(page.get_by_role("dialog").locator(".verdict.true")).to_have_count(1)
        page.get_by_role("dialog").get_by_role("button", name="Close").tap()
        page.get_by_role("button", name="Drop").tap()
        page.get_by_role("dialog").get_by_role("button", name="Drop rule").tap()
        expect(page.get_by_text("No rule yet")).to_be_visible()
        page.get_by_role("link", name="Rounds").tap()
        expect(page.get_by_role("heading", name="Rounds", exact=True)).to_be_visible()


def test_a_rule_is_written_found_and_dropped_by_keyboard_alone(anna):
    anna.watch.allow("status of 404")
    anna.add("aardvark", "price < 1")
    anna.go("rules")
    page, keys = anna.page, anna.page.keyboard
    expect(page.locator(".rule")).to_have_count(1)
    keys.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    keys.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)

    keys.press("n")
    expect(page.get_by_label("Name")).to_be_focused()
    keys.type("zebra")
    keys.press("Tab")
    expect(page.get_by_label("SQL of the rule")).to_be_focused()
    keys.press("ControlOrMeta+a")
    keys.type(f"SELECT sym FROM {anna.stream} WHERE qty > 5")
    expect(page.locator("#told")).to_contain_text("This can be deployed")
    keys.press("ControlOrMeta+Enter")
    expect(page.get_by_role("heading", name="zebra")).to_be_focused()

    keys.press("p")
    expect(page.locator(".rule-title .status")).to_have_text("paused")
    keys.press("Escape")
    expect(page.get_by_role("heading", name="My rules")).to_be_visible()
    expect(page.locator(".rule")).to_have_count(2)
    keys.press("/")
    expect(page.get_by_label("Search names, SQL and parameters")).to_be_focused()
    keys.press("ArrowDown")
    first, second = page.locator(".rule-link").all()
    expect(first).to_be_focused()
    keys.press("ArrowDown")
    expect(second).to_be_focused()
    chosen = second.inner_text()
    keys.press("Enter")
    expect(page.get_by_role("heading", name=chosen)).to_be_focused()

    drop = page.get_by_role("button", name="Drop")
    for _ in range(12):
        if drop.evaluate("button => button === document.activeElement"):
            break
        keys.press("Tab")
    expect(drop).to_be_focused()
    assert drop.evaluate("button => getComputedStyle(button).outlineStyle") == "solid"
    keys.press("Enter")
    expect(page.get_by_role("button", name="Drop rule")).to_be_focused()
    keys.press("Enter")
    expect(page.locator(".rule")).to_have_count(1)
    keys.press("3")
    expect(page.get_by_role("heading", name="Rounds", exact=True)).to_be_visible()


def test_light_and_dark_follow_the_machine_until_one_is_chosen(browser, server):
    light, dark = "rgb(244, 246, 245)", "rgb(14, 20, 19)"
    with somebody(browser, server, color_scheme="dark") as anna:
        anna.go("rules")
        page = anna.page
        body = page.locator("body")
        expect(body).to_have_css("background-color", dark)
        page.emulate_media(color_scheme="light")
        expect(body).to_have_css("background-color", light)
        page.keyboard.press("t")
        page.keyboard.press("t")
        expect(page.get_by_role("button", name="Theme: dark")).to_be_visible()
        expect(body).to_have_css("background-color", dark)
        page.reload()
        expect(page.get_by_role("heading", name="My rules")).to_be_visible()
        expect(body).to_have_css("background-color", dark)


def test_markup_in_names_texts_rows_and_messages_is_shown_as_text(browser, server):
    with somebody(browser, server, role="admin") as admin:
        alerted: list[str] = []
        admin.page.on("dialog", lambda dialog: (alerted.append(dialog.message), dialog.dismiss()))
        number = admin.add(
            HOSTILE, f"sym = '{HOSTILE}' AND 100 / qty > 1", message=f"{HOSTILE} {{sym}}", resolve="1 hour"
        )
        admin.push((HOSTILE, HOSTILE, 1.0, 3), (HOSTILE, HOSTILE, 1.0, 0))
        for view in ("rules", "alerts", "dead-letters", "access", f"rules/q{number}/change"):
            admin.go(view)
            settle(admin.page)
            expect(admin.page.locator("body")).to_contain_text(HOSTILE)
        admin.go(f"rules/q{number}")
        expect(admin.page.get_by_role("heading", name=HOSTILE)).to_be_visible()
        admin.page.get_by_role("button", name="Why did result").first.click()
        expect(admin.page.locator(".verdict")).to_have_count(2)
        assert admin.page.locator("img").count() == 0
        assert not alerted


def test_a_server_that_goes_away_is_told_and_comes_back(anna):
    anna.add("cheap", "price < 10")
    anna.go("rules")
    page = anna.page
    expect(page.locator("#connection")).to_have_text("live")
    anna.watch.allow("ERR_INTERNET_DISCONNECTED", "ERR_NETWORK_CHANGED")
    page.context.set_offline(True)
    expect(page.locator("#connection")).to_contain_text("offline")
    expect(page.locator(".rule")).to_have_count(1)
    page.context.set_offline(False)
    expect(page.locator("#connection")).to_have_text("live")
