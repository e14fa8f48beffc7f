"""My rules: which fire, are silent, fail or cost most; finding one; and seeing nobody else's."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.server.browser.people import Person, somebody


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
    for mood, name in (("firing", "alarm"), ("failing", "broken"), ("silent", "quiet"), ("paused", "asleep")):
        tile(anna, mood).click()
        expect(anna.page.locator(".rule-link")).to_have_text([name])
        expect(tile(anna, mood)).to_have_attribute("aria-pressed", "true")
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
    search = anna.page.get_by_label("Search names and SQL")
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
    body = {
        "template": f"SELECT * FROM {anna.stream} WHERE sym = :sym",
        "params": [{"sym": f"S{n:03d}"} for n in range(120)],
        "name": "watch-{sym}",
    }
    anna.server.call("POST", "/queries/bulk", body, anna.token)
    anna.go("rules?sort=name")
    expect(anna.page.locator(".rule")).to_have_count(50)
    expect(anna.page.get_by_text("1–50 of 120")).to_be_visible()
    anna.page.get_by_role("button", name="Next").click()
    expect(anna.page.locator(".rule-link").first).to_have_text("watch-S050")


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
        expect(bea.page.get_by_text("It was dropped, or belongs to somebody else.")).to_be_visible()
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
