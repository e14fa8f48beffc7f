"""What holds on every page: phone width, keyboard alone, light and dark, text that stays text, a server that goes away."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import pytest
from playwright.sync_api import Page, Route, expect

from eddyline import server as server_room
from tests.server.browser.people import Person, somebody

HOSTILE = "<img src=x onerror=alert(1)>"
OVERFLOW = """async () => {
  const moving = document.getAnimations().filter((a) => a.effect.getComputedTiming().iterations !== Infinity);
  await Promise.allSettled(moving.map((a) => a.finished));
  const wide = document.documentElement.clientWidth;
  const isCut = (e) => e !== null && (getComputedStyle(e).overflowX !== "visible" || isCut(e.parentElement));
  return [...document.querySelectorAll("body *")]
    .filter((e) => e.getBoundingClientRect().right > wide + 1 && e.getBoundingClientRect().width > 0)
    .filter((e) => !e.closest(".sr, .skip") && !isCut(e.parentElement))
    .map((e) => `${e.tagName}.${e.getAttribute("class")} ${Math.round(e.getBoundingClientRect().right)}`)
    .concat(document.documentElement.scrollWidth > wide ? [`page ${document.documentElement.scrollWidth}`] : []);
}"""
BROKEN = """() => [...document.querySelectorAll("main .table :is(td.number, td.short, td .number)")]
  .filter((e) => e.offsetParent !== null && e.childElementCount === 0 && e.textContent.trim())
  .filter((e) => {
    const range = document.createRange();
    range.selectNodeContents(e);
    return new Set([...range.getClientRects()].map((r) => Math.round(r.top))).size > 1;
  })
  .map((e) => e.textContent)"""
CUT_LABELS = """() => [...document.querySelectorAll("main svg.chart text")]
  .filter((e) => e.getBoundingClientRect().left < e.ownerSVGElement.getBoundingClientRect().left)
  .map((e) => e.textContent)"""
FOCUS = """() => {
  const e = document.activeElement;
  if (e === document.body) return null;
  const drawn = getComputedStyle(e).outlineStyle !== "none" || e.matches(".rule-link, .family-toggle, .editor-input");
  return [e.outerHTML.slice(0, 90), drawn && e.getClientRects().length > 0];
}"""
DASHBOARD = Path(server_room.__file__).parent / "dashboard"
OWN_REQUESTS = ["rules", "alerts", "streams", "joins", "pipeline", "dead-letters", "versions", "access"]
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


@pytest.mark.parametrize("width", [360, 768, 1440])
def test_nothing_is_wider_than_the_page(browser, server, width):
    with somebody(browser, server, role="admin") as admin:
        admin.page.set_viewport_size({"width": width, "height": 740})
        grouped = admin.add("grouped", "price < 10 GROUP BY sym HAVING n >= 1", "sym, count(*) AS n")
        number = lived_in(admin)
        views = ["rules", f"rules/q{number}", f"rules/q{number}/change", "new", "alerts", "rounds", "streams"]
        for view in [
            *views,
            f"rules/q{grouped}",
            f"streams/{admin.stream}/aggregates",
            "joins",
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
            assert admin.page.evaluate(BROKEN) == [], view
            assert admin.page.evaluate(CUT_LABELS) == [], view
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
        expect(page.locator("#findings")).to_contain_text("This can be deployed")
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
    expect(page.locator("#findings")).to_contain_text("This can be deployed")
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


def test_loading_is_not_nothing_there(browser, server):
    """Until the server has answered, no page says that there is nothing; once it has, none says that it is loading."""
    with somebody(browser, server, role="admin") as admin:
        number = lived_in(admin)
        page = admin.page
        admin.go("rounds")
        is_answered = threading.Event()
        held: list[Route] = []

        def hold(route: Route) -> None:
            if is_answered.is_set() or re.search(r"/api/v1/(status|rounds)\b", route.request.url):
                route.continue_()
            else:
                held.append(route)

        page.route("**/api/v1/**", hold)
        for view in [
            *OWN_REQUESTS,
            f"rules/q{number}",
            f"rules/q{number}/change",
            f"streams/{admin.stream}/filters",
        ]:
            is_answered.clear()
            page.evaluate("hash => { location.hash = hash }", f"#/{view}")
            expect(page.locator("main .loading").first).to_be_visible()
            expect(page.locator("main .empty")).to_have_count(0)
            assert not re.search(
                r"\bno \w+ yet\b|none yet|so far", page.locator("main").inner_text(), re.I
            ), view
            is_answered.set()
            for route in held:
                route.continue_()
            held.clear()
            expect(page.locator("main .loading")).to_have_count(0)


def test_every_time_has_one_format(browser, server):
    with somebody(browser, server, role="admin") as admin:
        number = lived_in(admin)
        for view in ("rules", f"rules/q{number}", "alerts", "rounds", "versions", "access"):
            admin.go(view)
            settle(admin.page)
            times = admin.page.locator("main time[datetime]")
            expect(times.first).to_be_visible()
            titles = times.evaluate_all("all => all.map((each) => each.title)")
            assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", title) for title in titles), titles
        admin.go("alerts")
        admin.page.locator(".alert-open").first.click()
        entry = admin.page.get_by_role("dialog").locator(".timeline li").first
        expect(entry).to_contain_text(re.compile(r" · \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"))


def test_escape_closes_every_dialog_and_gives_the_focus_back(browser, server):
    with somebody(browser, server, role="admin") as admin:
        number = lived_in(admin)
        page = admin.page
        buttons = [
            ("streams", "Declare a stream"),
            ("streams", "Send rows"),
            ("alerts", "New silence"),
            ("alerts", "Acknowledge S"),
            ("access", "New token"),
            (f"rules/q{number}", "Why did result"),
            (f"rules/q{number}", "Try a row"),
            (f"rules/q{number}", "Drop"),
        ]
        for view, name in buttons:
            admin.go(view)
            settle(page)
            button = page.get_by_role("button", name=name).first
            button.focus()
            page.keyboard.press("Enter")
            dialog = page.get_by_role("dialog")
            expect(dialog).to_be_visible()
            assert page.evaluate("() => document.activeElement.closest('dialog') !== null"), name
            assert page.evaluate(NAMELESS) == [], name
            page.keyboard.press("Escape")
            expect(dialog).to_have_count(0)
            expect(button).to_be_focused()


def test_the_focus_can_be_seen_wherever_tab_leads(browser, server):
    with somebody(browser, server, role="admin") as admin:
        number = lived_in(admin)
        page = admin.page
        for view in [
            "rules",
            f"rules/q{number}",
            "new",
            "alerts",
            "rounds",
            "streams",
            "pipeline",
            "versions",
            "plan",
        ]:
            admin.go(view)
            settle(page)
            for _ in range(25):
                page.keyboard.press("Tab")
                found = page.evaluate(FOCUS)
                assert found is None or found[1], (view, found[0])


def test_pages_are_written_in_the_words_of_the_field():
    odd = re.compile(r"\b(moods?|whoever|nobody|somebody|lately|said|told)\b|\.mood", re.I)
    found = [
        f"{path.name}:{number}: {line.strip()[:120]}"
        for path in sorted(DASHBOARD.glob("*.*s"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if odd.search(line)
    ]
    assert found == []
