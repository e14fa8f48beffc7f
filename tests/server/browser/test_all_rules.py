"""My rules: which fire, are silent, fail or cost most; finding one; and seeing nobody else's."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.server.browser.people import Person, somebody, unanswered


def names(anna: Person) -> list[str]:
    return list(anna.page.locator(".rule-link").all_inner_texts())


def tile(anna: Person, name: str):
    return anna.page.locator(f".tile.{name}")


def test_rules_are_counted_and_filtered_by_how_they_fare(anna):
    anna.add("quiet", "price < -1")
    anna.add("lively", "price < 10")
    anna.add("alarm", "price < 5", resolve="1 hour", message="{sym} is cheap", severity="critical")
    anna.add("broken", "100 / qty > 1 AND price < 3")
    paused = anna.add("asleep", "price < 10")
    anna.server.call("POST", f"/queries/q{paused}/pause", token=anna.token)
    anna.push(("ACME", "TECH", 2.0, 0), ("BYTE", "TECH", 4.0, 3))
    anna.go("rules")
    for name in ("firing", "failing", "matching", "silent", "paused"):
        expect(tile(anna, name).locator(".tile-count")).to_have_text("1")
    expect(tile(anna, "all").locator(".tile-count")).to_have_text("5")
    for status, name in (
        ("firing", "alarm"),
        ("failing", "broken"),
        ("silent", "quiet"),
        ("paused", "asleep"),
    ):
        tile(anna, status).click()
        expect(anna.page.locator(".rule-link")).to_have_text([name])
        expect(tile(anna, status)).to_have_attribute("aria-pressed", "true")
    tile(anna, "all").click()
    expect(anna.page.locator(".rule")).to_have_count(5)
    expect(anna.page.locator(".rule", has_text="alarm")).to_contain_text("1 open")


def test_an_alert_is_read_with_its_message(anna):
    number = anna.add(
        "alarm", "price < 5", per="sym", resolve="1 hour", message="{sym} is cheap", severity="critical"
    )
    anna.push(("ACME", "TECH", 2.0, 1))
    anna.go("alerts")
    expect(anna.page.get_by_role("list", name="Open alerts by rule")).to_contain_text("ACME is cheap")
    said = anna.page.get_by_role("region", name="Recent messages")
    expect(said).to_contain_text("critical")
    said.get_by_role("link", name="alarm").click()
    expect(anna.page.get_by_role("region", name="Alerts")).to_contain_text("ACME is cheap")
    assert anna.page.url.endswith(f"#/rules/q{number}")


def test_the_rule_that_costs_most_is_found(anna):
    anna.add("cheap", "price < 10")
    anna.add("pattern", "sym RLIKE '^A.*Z$'")
    anna.add("everything", "")
    anna.push(("ACME", "TECH", 2.0, 1))
    anna.go("rules")
    anna.page.get_by_label("Sort by").select_option("cost")
    expect(anna.page.locator(".rule-link").first).to_have_text("everything")
    tile(anna, "costly").click()
    expect(anna.page.locator(".rule-link")).to_have_text(["everything"])
    anna.page.locator(".rule-link").click()
    expect(anna.page.get_by_role("region", name="Cost, and what it shares")).to_contain_text(
        "every row is a result"
    )


def test_a_rule_is_found_by_its_name_or_its_text(anna):
    anna.add("cheap", "price < 10")
    anna.add("large", "qty > 1000")
    anna.go("rules")
    expect(anna.page.locator(".rule")).to_have_count(2)
    anna.page.keyboard.press("/")
    search = anna.page.get_by_label("Search names, SQL and parameters")
    expect(search).to_be_focused()
    search.fill("qty >")
    expect(anna.page.locator(".rule-link")).to_have_text(["large"])
    search.fill("nothing like it")
    expect(anna.page.get_by_text("nothing like it")).to_be_visible()
    anna.page.get_by_role("button", name="Show all rules").click()
    expect(anna.page.locator(".rule")).to_have_count(2)


def test_the_list_follows_what_happens(anna):
    anna.add("cheap", "price < 10")
    anna.go("rules")
    rule = anna.page.locator(".rule")
    expect(rule).to_contain_text("no result yet")
    anna.push(*[("ACME", "TECH", 2.0, 1)] * 12)
    expect(rule.locator(".rule-results")).to_contain_text("12")
    expect(rule.locator("time")).to_have_attribute("title", re.compile(r"^20\d\d-"))


def test_many_rules_are_shown_a_page_at_a_time(anna):
    texts = {f"watch-S{n:03d}": f"SELECT * FROM {anna.stream} WHERE sym = 'S{n:03d}'" for n in range(120)}
    anna.server.call("POST", "/queries/bulk", {"queries": texts}, anna.token)
    anna.go("rules?sort=name")
    expect(anna.page.locator(".rule")).to_have_count(50)
    expect(anna.page.get_by_text("1–50 of 120")).to_be_visible()
    anna.page.get_by_role("button", name="Next").click()
    expect(anna.page.locator(".rule-link").first).to_have_text("watch-S050")


def watched(anna: Person, n: int) -> None:
    """A template of rules, one for each symbol."""
    body = {
        "template": f"SELECT sym, price FROM {anna.stream} WHERE sym = :sym AND price < :most",
        "params": [{"sym": f"S{k:03d}", "most": 10.0 + k} for k in range(n)],
        "name": "watch-{sym}",
    }
    anna.server.call("POST", "/queries/bulk", body, anna.token)


def test_rules_of_one_template_are_one_line_that_opens(anna):
    watched(anna, 30)
    anna.add("single", "price < 1")
    anna.push(("S003", "TECH", 5.0, 1))
    anna.go("rules")
    page = anna.page
    family = page.locator(".family")
    expect(family).to_have_count(1)
    expect(family).to_contain_text("30 rules")
    expect(family.locator(".family-statuses")).to_contain_text("1 matching")
    expect(page.locator(".rule-link")).to_have_text(["single"])
    toggle = page.get_by_role("button", name="watch-S0…")
    expect(toggle).to_have_attribute("aria-expanded", "false")
    toggle.focus()
    page.keyboard.press("Enter")
    expect(toggle).to_have_attribute("aria-expanded", "true")
    members = family.locator(".family-rules .rule")
    expect(members).to_have_count(20)
    expect(members.first).to_contain_text("watch-S003")
    expect(members.first.locator(".params")).to_have_text("sym S003most 13")
    family.get_by_role("button", name="Show more").click()
    expect(members).to_have_count(30)
    page.reload()
    expect(page.locator(".family .spark-line").first).to_be_attached()  # the trend is the server's
    page.get_by_role("button", name="watch-S0…").click()
    members.first.locator("a").click()
    expect(page.get_by_role("heading", name="watch-S003")).to_be_visible()


def test_a_rule_is_found_by_the_value_of_a_parameter(anna):
    watched(anna, 30)
    anna.go("rules")
    search = anna.page.get_by_label("Search names, SQL and parameters")
    search.fill("most=17")
    expect(anna.page.locator(".rule-link")).to_have_text(["watch-S007"])
    expect(anna.page.locator(".params")).to_contain_text("S007")
    search.fill("s02")
    expect(anna.page.locator(".family")).to_contain_text("10 of 30 rules")
    expect(anna.page.locator(".family-rules .rule")).to_have_count(10)  # few: they are shown at once


def test_loading_is_not_the_same_as_nothing(anna):
    number = anna.add("cheap", "price < 10")
    page = anna.page
    with unanswered(page, "**/api/v1/queries?*fold*"):
        page.goto(f"{anna.server.url}/#/rules")
        expect(page.locator("main")).to_contain_text("Loading the rules")
        expect(page.locator(".tile.all .tile-count")).to_have_text("–")
        expect(page.locator("main")).not_to_contain_text("No rule")
    expect(page.locator(".rule")).to_have_count(1)
    with unanswered(page, "**/results?*"):
        anna.go(f"rules/q{number}")
        expect(page.get_by_text("Loading results")).to_be_visible()
        expect(page.locator("main")).not_to_contain_text("No result yet")
    expect(page.get_by_text("No result yet")).to_be_visible()


def test_a_list_that_could_not_be_loaded_says_so_and_is_tried_again(anna):
    anna.add("cheap", "price < 10")
    anna.watch.allow("status of 500")
    page = anna.page
    page.route("**/api/v1/queries?*fold*", lambda route: route.fulfill(status=500, body="{}"))
    page.goto(f"{anna.server.url}/#/rules")
    expect(page.get_by_role("alert")).to_contain_text("500")
    page.unroute("**/api/v1/queries?*fold*")
    page.get_by_role("button", name="Try again").click()
    expect(page.locator(".rule")).to_have_count(1)


def test_another_owners_rules_are_not_there(browser, server, anna):
    number = anna.add("secret", "price < 10", message="whisper {sym}", resolve="1 hour")
    anna.push(("ACME", "TECH", 2.0, 1))
    with somebody(browser, server, like=anna) as bea:
        bea.add("own", "price < 3")
        bea.watch.allow("status of 404")
        bea.go("rules")
        expect(bea.page.locator(".rule-link")).to_have_text(["own"])
        for view in ("alerts", "dead-letters"):
            bea.go(view)
            expect(bea.page.locator("main .loading")).to_have_count(0)
            expect(bea.page.locator("main")).not_to_contain_text("secret")
            expect(bea.page.locator("main")).not_to_contain_text("whisper")
        bea.go(f"rules/q{number}")
        expect(bea.page.get_by_text("It was dropped, or belongs to another owner.")).to_be_visible()
        bea.go(f"rules/q{number}/change")
        expect(bea.page.get_by_role("alert")).to_be_visible()
        expect(bea.page.locator("nav a[title^=Access]")).to_have_count(0)


def test_a_reader_sees_rules_and_changes_none(browser, server, anna):
    with somebody(browser, server, role="reader", like=anna) as reader:
        reader.go("rules")
        expect(reader.page.get_by_text("This token reads only.")).to_be_visible()
        expect(reader.page.get_by_role("link", name="New rule")).to_have_count(0)
        reader.page.keyboard.press("n")
        expect(reader.page.get_by_role("heading", name="My rules")).to_be_visible()
