"""The alerts page: what is open, by rule; taking notice, silencing, looking back. The badge says what the page shows."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, expect

from tests.server.browser.people import Person, somebody, unanswered


@pytest.fixture
def alarmed(anna: Person) -> Person:
    """A grave rule with two open alerts, and another with one."""
    anna.add("deep", "price < 5", per="sym", resolve="1 hour", message="{sym} fell", severity="critical")
    anna.add("dear", "price > 90", per="sym", resolve="1 hour", severity="info")
    anna.push(("ACME", "TECH", 2.0, 1), ("BOLT", "TECH", 3.0, 1), ("CORE", "TECH", 95.0, 1))
    return anna


def group(person: Person, name: str) -> Locator:
    return person.page.locator(".alert-group", has=person.page.get_by_role("link", name=name, exact=True))


def alert(person: Person, words: str) -> Locator:
    return person.page.locator(".alert.listed", has_text=words)


def tile(person: Person, name: str) -> Locator:
    return person.page.locator(f".tile.alerts-{name}")


def badge(person: Person) -> Locator:
    return person.page.locator("nav a[href='#/alerts'] .tally")


def test_open_alerts_are_grouped_by_rule_the_gravest_first_and_the_badge_counts_them(alarmed):
    alarmed.go("alerts")
    expect(alarmed.page.locator(".alert-rule > a")).to_have_text(["deep", "dear"])
    expect(group(alarmed, "deep")).to_contain_text("critical")
    expect(group(alarmed, "deep")).to_contain_text("2 firing")
    expect(alarmed.page.locator(".alert.listed")).to_have_count(3)
    expect(tile(alarmed, "open").locator(".tile-count")).to_have_text("3")
    expect(badge(alarmed)).to_have_text("3")
    fold = group(alarmed, "deep").get_by_role("button", name="Fold the alerts of deep")
    fold.click()
    expect(alert(alarmed, "ACME fell")).to_be_hidden()


@pytest.mark.parametrize(
    ("view", "asked", "while_loading", "empty", "found"),
    [
        ("alerts", "alerts/groups", "Looking for open alerts…", "No alert is open", "ACME fell"),
        ("alerts", "messages", "Looking for open alerts…", "No message yet", "ACME fell"),
        ("rules/{}", "/results?", "Loading results…", "No result yet", "No result yet"),
        ("dead-letters", "dead_letters", "Loading dead letters…", "No dead letters", "No dead letters"),
        ("streams", "streams", "Loading the streams…", "No stream yet", "late rows"),
    ],
)
def test_loading_is_not_an_empty_list(alarmed, view, asked, while_loading, empty, found):
    number = alarmed.add("new", "price < 0")
    with unanswered(alarmed.page, re.compile(rf"/api/v1/.*{re.escape(asked)}")):
        alarmed.go(view.format(f"q{number}"))
        expect(alarmed.page.get_by_text(while_loading).first).to_be_visible()
        expect(alarmed.page.get_by_text(empty)).to_have_count(0)
    expect(alarmed.page.get_by_text(found).first).to_be_visible()


def test_alerts_are_searched_and_filtered(alarmed):
    alarmed.go("alerts")
    page = alarmed.page
    page.get_by_role("searchbox").fill("bolt")
    expect(page.locator(".alert.listed")).to_have_count(1)
    assert page.url.endswith("#/alerts?filter=bolt")
    page.reload()
    expect(page.get_by_role("searchbox")).to_have_value("bolt")
    expect(page.locator(".alert.listed")).to_have_count(1)
    page.get_by_role("searchbox").fill("nothing of this")
    expect(page.get_by_text("No open alert matches")).to_be_visible()
    page.get_by_role("button", name="Show all").click()
    page.get_by_label("Severity").select_option("info")
    expect(page.locator(".alert-rule > a")).to_have_text(["dear"])
    page.get_by_label("State").select_option("pending")
    expect(page.get_by_text("No open alert matches")).to_be_visible()


def test_an_alert_is_acknowledged_with_a_note(alarmed):
    alarmed.go("alerts")
    alert(alarmed, "ACME fell").get_by_role("button", name="Acknowledge ACME fell").click()
    alarmed.page.get_by_label("Note").fill("calling the desk")
    alarmed.page.get_by_role("dialog").get_by_role("button", name="Acknowledge").click()
    expect(alert(alarmed, "ACME fell")).to_contain_text(f"acknowledged by {alarmed.owner}: calling the desk")
    expect(tile(alarmed, "unacknowledged").locator(".tile-count")).to_have_text("2")
    tile(alarmed, "acknowledged").click()
    expect(alarmed.page.locator(".alert.listed")).to_have_count(1)
    tile(alarmed, "open").click()
    group(alarmed, "deep").get_by_role("button", name="Acknowledge all").click()
    alarmed.page.keyboard.press("Enter")
    expect(tile(alarmed, "unacknowledged").locator(".tile-count")).to_have_text("1")


def test_an_alert_is_silenced_until_a_time_and_heard_again(alarmed):
    alarmed.go("alerts")
    alert(alarmed, "ACME fell").get_by_role("button", name="Silence ACME fell").click()
    dialog = alarmed.page.get_by_role("dialog")
    expect(dialog.get_by_label("only sym ACME")).to_be_checked()
    dialog.get_by_label("30 min").check()
    dialog.get_by_label("Reason").fill("new prices")
    dialog.get_by_role("button", name="Silence", exact=True).click()
    expect(alert(alarmed, "ACME fell")).to_have_count(0)
    expect(tile(alarmed, "silenced").locator(".tile-count")).to_have_text("1")
    expect(badge(alarmed)).to_have_text("2")
    tile(alarmed, "silenced").click()
    expect(alert(alarmed, "ACME fell")).to_contain_text("silenced, ends in")
    listed = alarmed.page.get_by_role("region", name="Silences")
    expect(listed).to_contain_text("sym ACME")
    expect(listed).to_contain_text("new prices")
    (made,) = alarmed.server.call("GET", "/silences", token=alarmed.token)
    assert (made["key"], made["reason"], made["by"]) == ({"sym": "ACME"}, "new prices", alarmed.owner)
    listed.get_by_role("button", name="End the silence of deep").click()
    expect(listed).to_be_hidden()
    expect(badge(alarmed)).to_have_text("3")


def test_a_pattern_is_silenced_until_a_day_and_mistakes_are_told_in_the_window(alarmed):
    alarmed.go("alerts")
    alarmed.page.get_by_role("button", name="New silence").click()
    dialog = alarmed.page.get_by_role("dialog")
    dialog.get_by_label("Rules").fill("nobody")
    alarmed.watch.allow("status of 404", "status of 422")
    dialog.get_by_role("button", name="Silence", exact=True).click()
    expect(dialog.get_by_role("alert")).to_contain_text("There is no query 'nobody'")
    dialog.get_by_label("Rules").fill("d*")
    dialog.get_by_label("Severity").select_option("critical")
    dialog.get_by_label("until…").check()
    dialog.get_by_role("button", name="Silence", exact=True).click()
    expect(dialog.get_by_role("alert")).to_contain_text("A silence needs an end")
    tomorrow = (
        "new Date(Date.now() + 864e5 - new Date().getTimezoneOffset() * 6e4).toISOString().slice(0, 16)"
    )
    dialog.get_by_label("End of the silence").fill(alarmed.page.evaluate(tomorrow))
    dialog.get_by_role("button", name="Silence", exact=True).click()
    expect(alarmed.page.locator(".alert-rule > a")).to_have_text(["dear"])
    expect(alarmed.page.get_by_role("region", name="Silences")).to_contain_text("severity critical")


def test_the_history_of_an_alert_is_a_timeline(alarmed):
    call, token = alarmed.server.call, alarmed.token
    call("POST", "/alerts/acknowledge", {"query": "deep", "key": {"sym": "ACME"}, "note": "on it"}, token)
    made = call("POST", "/silences", {"query": "deep", "for": "1 hour", "reason": "deploy"}, token)
    call("DELETE", f"/silences/{made['id']}", token=token)
    alarmed.go("alerts")
    alert(alarmed, "ACME fell").get_by_role("button", name="ACME fell", exact=True).click()
    timeline = alarmed.page.get_by_role("dialog").locator(".timeline-what")
    by = alarmed.owner
    expect(timeline).to_have_text(
        [
            f"Silence ended by {by}",
            re.compile(f"Silenced by {by} until 2"),
            f"Acknowledged by {by}",
            "Fired",
        ]
    )
    alarmed.page.keyboard.press("Escape")
    expect(timeline).to_have_count(0)


def test_a_reader_sees_alerts_and_has_nothing_to_press(browser, server, alarmed):
    with somebody(browser, server, role="reader", like=alarmed, owner=alarmed.owner) as reader:
        reader.go("alerts")
        expect(reader.page.locator(".alert.listed")).to_have_count(3)
        for name in ("New silence", "Acknowledge all", "Silence rule"):
            expect(reader.page.get_by_role("button", name=name)).to_have_count(0)


@pytest.mark.parametrize("width", [1280, 360])
def test_nothing_is_cut_off_at_the_side(alarmed, width):
    alarmed.page.set_viewport_size({"width": width, "height": 780})
    alarmed.go("alerts")
    expect(alarmed.page.locator(".alert.listed")).to_have_count(3)
    assert alarmed.page.evaluate("document.documentElement.scrollWidth") <= width
