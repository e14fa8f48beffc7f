"""A rule's life in the browser: written, watched, questioned, changed, dropped."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.server.browser.people import Person


def write(anna: Person, text: str) -> None:
    anna.page.get_by_label("SQL of the rule").fill(text)


def test_mistakes_are_shown_as_one_types_and_the_rule_is_added_once_it_is_right(anna):
    page = anna.page
    anna.go("rules")
    page.get_by_role("link", name="New rule").click()
    page.get_by_label("Name").fill("cheap")
    told = page.locator("#findings")

    write(anna, f"SELECT sym, price FROM {anna.stream} WHERE prise < 10")
    expect(told).to_contain_text("prise")
    expect(told).to_contain_text("Did you mean price?")
    expect(page.locator(".editor-colours .wrong")).to_have_text("prise")
    expect(page.get_by_label("SQL of the rule")).to_have_attribute("aria-invalid", "true")

    write(anna, f"SELECT sym, price FROM {anna.stream} WHERE")
    expect(page.locator(".editor-colours .wrong")).to_have_count(1)
    write(anna, f"SELECT sym, price FROM {anna.stream} WHERE price < 'ten'")
    expect(page.locator(".editor-colours .wrong")).not_to_have_count(0)

    write(anna, f"SELECT sym, price FROM {anna.stream} WHERE price < 10")
    expect(told).to_contain_text("This can be deployed")
    expect(page.locator(".editor-colours .wrong")).to_have_count(0)
    expect(page.get_by_role("region", name="What it would do")).to_contain_text("price")

    page.get_by_label("Cooldown").fill("5 parsecs")
    cooldown = page.locator(".field", has=page.get_by_label("Cooldown"))
    expect(cooldown.locator(".mistake")).to_contain_text("5 parsecs")
    expect(page.get_by_label("Cooldown")).to_have_attribute("aria-invalid", "true")
    expect(page.locator(".editor-colours .wrong")).to_have_count(0)
    page.get_by_label("Cooldown").fill("5 minutes")
    page.get_by_label("Message").fill("{sym} at {price}")
    expect(told).to_contain_text("This can be deployed")

    page.get_by_role("button", name="Add rule").click()
    expect(page.get_by_role("heading", name="cheap")).to_be_visible()
    expect(page.get_by_text("5 minutes")).to_be_visible()
    made = anna.server.call("GET", "/queries", token=anna.token)["queries"]
    assert [(rule["name"], rule["owner"]) for rule in made] == [("cheap", anna.owner)]


def test_a_column_is_put_into_the_text_where_the_cursor_is(anna):
    anna.go("new")
    write(anna, f"SELECT sym FROM {anna.stream} WHERE ")
    anna.page.get_by_role("button", name=re.compile("^qty")).click()
    expect(anna.page.get_by_label("SQL of the rule")).to_have_value(
        f"SELECT sym FROM {anna.stream} WHERE qty"
    )
    anna.page.get_by_label("SQL of the rule").press_sequentially(" > 3")
    expect(anna.page.locator("#findings")).to_contain_text("This can be deployed")


def test_a_name_that_is_taken_is_refused_in_the_engines_words(anna):
    anna.add("cheap", "price < 10")
    anna.go("new")
    anna.page.get_by_label("Name").fill("cheap")
    write(anna, f"SELECT sym FROM {anna.stream} WHERE price < 3")
    named = anna.page.locator(".field", has=anna.page.get_by_label("Name"))
    expect(named.locator(".mistake")).to_contain_text("already exists")
    anna.page.get_by_role("button", name="Add rule").click()
    expect(anna.page.get_by_label("Name")).to_be_focused()
    assert anna.server.call("GET", "/queries", token=anna.token)["total"] == 1


def test_every_mistake_is_marked_in_its_own_field(anna):
    page = anna.page
    anna.go("new")
    write(anna, f"SELECT sym FROM {anna.stream} WHERE price < :most")
    page.get_by_label("Name").fill("12")
    page.get_by_label(":most").fill("cheap")
    page.get_by_label("Per").fill("sector")
    page.get_by_label("For", exact=True).fill("2 minutes")

    def mistake(label: str):
        return page.locator(".field", has=page.get_by_label(label, exact=True)).locator(".mistake")

    expect(mistake("Name")).to_contain_text("numbers are written so")
    expect(page.locator("#findings")).to_contain_text("STRING")  # price < 'cheap' is a mistake of the text
    page.get_by_label(":most").fill("10")
    expect(mistake("Per")).to_contain_text("sector")
    expect(mistake("For")).to_contain_text("needs the property resolve")
    expect(page.get_by_label("SQL of the rule")).to_have_attribute("aria-invalid", "false")


def test_names_are_offered_while_one_types(anna):
    page = anna.page
    anna.go("new")
    sql = page.get_by_label("SQL of the rule")
    sql.fill("")
    sql.press_sequentially(f"SELECT s.pr FROM {anna.stream} s")
    sql.fill(f"SELECT sym FROM {anna.stream} WHERE ")
    sql.press_sequentially("pri")
    options = page.locator(".offers").get_by_role("option")
    expect(options.first).to_contain_text("price")
    page.keyboard.press("Tab")
    expect(sql).to_have_value(f"SELECT sym FROM {anna.stream} WHERE price")
    sql.press_sequentially(" < ab")
    expect(options.first).to_contain_text("abs(")
    page.keyboard.press("ArrowDown")
    expect(options.first).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Enter")
    expect(sql).to_have_value(f"SELECT sym FROM {anna.stream} WHERE price < abs(")
    sql.fill("")
    sql.press_sequentially("SELECT * FROM trad")
    expect(options.first).to_contain_text(re.compile(r"^trades\d+stream$"))
    page.keyboard.press("Escape")
    expect(page.locator(".offers:visible")).to_have_count(0)
    expect(sql).to_be_focused()
    sql.fill(f"SELECT sym, price FROM {anna.stream} WHERE price < 10")
    expect(page.locator("#findings")).to_contain_text("This can be deployed")
    page.get_by_label("Message").press_sequentially("{sy")
    page.keyboard.press("Tab")
    expect(page.get_by_label("Message")).to_have_value("{sym}")


def test_a_rule_is_tried_on_recent_rows_before_it_is_added(anna):
    page = anna.page
    anna.push(("A", "TECH", 5.0, 1), ("B", "TECH", 15.0, 2), ("C", "FOOD", 4.0, 0))
    anna.go("new")
    write(anna, f"SELECT sym, 10 / qty AS share FROM {anna.stream} WHERE price < 10")
    expect(page.locator("#findings")).to_contain_text("This can be deployed")
    page.get_by_role("button", name="Try it").click()
    part = page.get_by_role("region", name="On recent rows")
    expect(part).to_contain_text("1 of the last 3 rows would have matched")
    expect(part).to_contain_text("1 row could not be decided")
    expect(part.get_by_role("table", name="Newest matches")).to_contain_text("A")
    assert anna.server.call("GET", "/queries", token=anna.token)["total"] == 0


def test_a_change_is_shown_beside_what_it_changes(anna):
    number = anna.add("cheap", "price < 10", cooldown="5 minutes")
    anna.go(f"rules/q{number}/change")
    part = anna.page.get_by_role("region", name="What would change")
    expect(part).to_contain_text("Nothing so far")
    write(anna, f"SELECT sym, price FROM {anna.stream} WHERE price < 8")
    anna.page.get_by_label("Cooldown").fill("1 hour")
    expect(part.locator(".goes")).to_contain_text("price < 10")
    expect(part.locator(".comes")).to_contain_text("price < 8")
    expect(part.locator(".changed-pairs")).to_contain_text("1 hour")


def test_a_rule_is_watched_while_it_fires(anna):
    number = anna.add("cheap", "price < 10", "sym, price, qty")
    anna.go(f"rules/q{number}")
    page = anna.page
    results = page.get_by_role("table", name="Results, newest first")
    expect(page.get_by_text("No result yet")).to_be_visible()
    expect(page.locator(".stream-state")).to_have_text("live")

    anna.push(("ACME", "TECH", 9.5, 100), ("BYTE", "TECH", 12.0, 5))
    expect(results.locator("tbody tr")).to_have_count(1)
    expect(results.locator("tbody tr").first).to_contain_text("ACME")
    expect(results.locator("tbody tr").first).to_contain_text("9.5")

    anna.push(("CORN", "FOOD", 4.25, 7), ("DATA", "TECH", 1.0, 8))
    expect(results.locator("tbody tr")).to_have_count(3)
    assert [row.split()[-2] for row in results.locator("tbody tr").all_inner_texts()] == ["8", "7", "100"]
    expect(page.locator(".numbers").first).to_contain_text("3")


def test_results_that_came_while_the_connection_was_gone_are_shown_once(anna):
    number = anna.add("cheap", "price < 10")
    anna.go(f"rules/q{number}")
    page = anna.page
    rows = page.get_by_role("table", name="Results, newest first").locator("tbody tr")
    expect(page.locator(".stream-state")).to_have_text("live")
    anna.push(("A", "TECH", 1.0, 1))
    expect(rows).to_have_count(1)

    anna.watch.allow("ERR_INTERNET_DISCONNECTED", "ERR_NETWORK_CHANGED")
    page.context.set_offline(True)
    page.evaluate("document.querySelector('.back').focus()")
    anna.push(("B", "TECH", 2.0, 1))
    anna.push(("C", "TECH", 3.0, 1))
    expect(page.locator("#connection")).to_contain_text("offline")
    page.context.set_offline(False)

    expect(rows).to_have_count(3)
    anna.push(("D", "TECH", 4.0, 1))
    expect(rows).to_have_count(4)
    shown = [row.get_attribute("data-cursor") for row in rows.all()]
    assert len(set(shown)) == 4
    expect(page.locator("#connection")).to_contain_text("live")


def test_held_results_wait_and_are_shown_when_one_follows_again(anna):
    number = anna.add("cheap", "price < 10")
    anna.go(f"rules/q{number}")
    page = anna.page
    rows = page.get_by_role("table", name="Results, newest first").locator("tbody tr")
    expect(page.locator(".stream-state")).to_have_text("live")
    page.get_by_role("button", name="Hold").click()
    anna.push(("A", "TECH", 1.0, 1), ("B", "TECH", 2.0, 1))
    button = page.get_by_role("button", name="2 waiting")
    expect(button).to_be_visible()
    expect(rows).to_have_count(0)
    button.click()
    expect(rows).to_have_count(2)


def test_a_result_says_why_it_matched_and_has_a_receipt(anna):
    number = anna.add("cheap", "price < 10 AND sector = 'TECH'")
    anna.push(("ACME", "TECH", 9.5, 100))
    anna.go(f"rules/q{number}")
    page = anna.page
    page.get_by_role("button", name=re.compile("^Why did result")).click()
    window = page.get_by_role("dialog")
    verdicts = window.locator(".verdict.true")
    expect(verdicts).to_have_count(2)
    expect(verdicts.nth(0)).to_contain_text("price < 10")
    expect(verdicts.nth(0)).to_contain_text("price = 9.5")
    expect(verdicts.nth(1)).to_contain_text("sector = TECH")
    expect(window.get_by_text("sha256:")).to_be_visible()
    expect(window.get_by_role("button", name="Prove it")).to_be_enabled()
    page.keyboard.press("Escape")
    expect(window).to_have_count(0)
    expect(page.get_by_role("button", name=re.compile("^Why did result"))).to_be_focused()


def test_a_rule_says_why_the_last_rows_did_not_match(anna):
    number = anna.add("cheap", "price < 10 AND sector = 'TECH'")
    anna.push(("A", "TECH", 10.5, 1), ("B", "FOOD", 20.0, 1), ("C", "FOOD", 5.0, 1), ("D", "TECH", 50.0, 1))
    anna.go(f"rules/q{number}")
    part = anna.page.get_by_role("region", name="Why rows did not match")
    expect(part).to_contain_text("0 of the last 4 rows matched")
    stops = part.locator(".stop")
    expect(stops).to_have_count(2)
    expect(stops.nth(0)).to_contain_text("price < 10")
    expect(stops.nth(0)).to_contain_text("stopped 3, 75 %")
    expect(stops.nth(0)).to_contain_text("2 by this alone")
    expect(stops.nth(1)).to_contain_text("stopped 2, 50 %")
    nearest = part.locator(".nearest")
    expect(nearest).to_contain_text("price = 10.5")
    expect(nearest.locator(".verdict.false")).to_have_count(1)


def test_a_rule_is_asked_about_a_row_one_makes_up(anna):
    number = anna.add("cheap", "price < 10")
    anna.go(f"rules/q{number}")
    anna.page.get_by_role("button", name="Try a row").click()
    row = anna.page.get_by_label("A row, as JSON")
    row.fill('{"price": 3}')
    anna.page.get_by_role("button", name="Evaluate").click()
    expect(anna.page.get_by_role("dialog")).to_contain_text("It would match.")
    row.fill('{"price": ')
    anna.page.get_by_role("button", name="Evaluate").click()
    expect(anna.page.get_by_role("dialog")).to_contain_text("This is not JSON")


def test_a_union_is_tried_and_explained_part_by_part(anna):
    page = anna.page
    anna.push(("A", "TECH", 5.0, 1), ("B", "TECH", 15.0, 2))
    anna.go("new")
    union = f"SELECT sym FROM {anna.stream} WHERE price < 10 UNION ALL SELECT sym FROM {anna.stream} WHERE qty > 100"
    write(anna, union)
    expect(page.locator("#findings")).to_contain_text("This can be deployed")
    page.get_by_role("button", name="Try it").click()
    part = page.get_by_role("region", name="On recent rows")
    expect(part).to_contain_text("1 result would have come of the last 2 rows")
    expect(part.get_by_role("heading", name="Part 2 of UNION ALL, line 1")).to_be_visible()
    made = anna.server.call("POST", "/queries", {"text": union, "name": "either"}, token=anna.token)
    anna.push(("A", "TECH", 5.0, 1), ("B", "TECH", 15.0, 2))
    anna.go(f"rules/q{made['id']}")
    why_not = page.get_by_role("region", name="Why rows did not match")
    expect(why_not.get_by_role("heading", name=re.compile("Part . of UNION ALL"))).to_have_count(2)
    page.get_by_role("button", name="Try a row").click()
    page.get_by_label("A row, as JSON").fill('{"price": 3, "qty": 1}')
    page.get_by_role("button", name="Evaluate").click()
    expect(page.get_by_role("dialog")).to_contain_text("It would match.")
    expect(
        page.get_by_role("dialog").get_by_role("heading", name=re.compile("Part . of UNION ALL"))
    ).to_have_count(2)


def test_a_rule_says_what_it_costs_and_shares(anna):
    first = anna.add("one", "price < 1")
    anna.add("two", "price < 2")
    anna.add("three", "price < 3")
    anna.push(("A", "TECH", 2.5, 1))
    anna.go(f"rules/q{first}")
    cost = anna.page.get_by_role("region", name="Cost, and what it shares")
    expect(cost).to_contain_text("decided by the index, for all rules at once")
    expect(cost).to_contain_text("2 other rules: parsed, bound and stored once")
    expect(cost.locator(".served")).to_contain_text("price < 1")


def test_a_rule_is_paused_and_resumed_and_that_is_taken_back(anna):
    number = anna.add("cheap", "price < 10")
    anna.go(f"rules/q{number}")
    page = anna.page
    page.get_by_role("button", name="Pause", exact=True).click()
    expect(page.locator(".rule-title .status")).to_have_text("paused")
    expect(page.get_by_text("it is not evaluated until it is resumed").first).to_be_visible()
    anna.push(("A", "TECH", 1.0, 1))

    page.get_by_role("button", name="Resume", exact=True).click()
    expect(page.locator(".rule-title .status")).not_to_have_text("paused")
    anna.push(("B", "TECH", 2.0, 1))
    rows = page.get_by_role("table", name="Results, newest first").locator("tbody tr")
    expect(rows).to_have_count(1)
    expect(rows.first).to_contain_text("B")

    page.locator(".toast").last.get_by_role("button", name="Undo").click()
    expect(page.locator(".rule-title .status")).to_have_text("paused")


def test_a_rule_is_changed_and_the_change_is_taken_back(anna):
    number = anna.add("cheap", "price < 10", cooldown="5 minutes")
    anna.go(f"rules/q{number}")
    page = anna.page
    page.get_by_role("link", name="Change").click()
    expect(page.get_by_role("heading", name="Change cheap")).to_be_visible()
    expect(page.get_by_label("Cooldown")).to_have_value("5 minutes")
    page.get_by_label("Cooldown").fill("")
    write(anna, f"SELECT sym, qty FROM {anna.stream} WHERE qty > 7")
    page.get_by_role("button", name="Save change").click()
    expect(page.get_by_role("region", name="SQL")).to_contain_text("qty > 7")
    shown = anna.server.call("GET", f"/queries/q{number}", token=anna.token)
    assert (shown["generation"], "cooldown" in shown["properties"]) == (2, False)
    anna.push(("A", "TECH", 100.0, 8))
    expect(page.get_by_role("table", name="Results, newest first")).to_contain_text("8")

    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_role("region", name="SQL")).to_contain_text("price < 10")
    expect(page.get_by_text("5 minutes")).to_be_visible()


def test_a_rule_is_dropped_after_asking_and_registered_again(anna):
    number = anna.add("cheap", "price < 10", severity="warning")
    anna.watch.allow("status of 404")  # what the page asks about the rule while it goes
    anna.go(f"rules/q{number}")
    page = anna.page
    page.get_by_role("button", name="Drop").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert anna.server.call("GET", "/queries", token=anna.token)["total"] == 1

    page.get_by_role("button", name="Drop").click()
    page.get_by_role("dialog").get_by_role("button", name="Drop rule").click()
    expect(page.get_by_text("No rule yet")).to_be_visible()
    assert anna.server.call("GET", "/queries", token=anna.token)["total"] == 0

    page.get_by_role("button", name="Register it again").click()
    expect(page.get_by_role("heading", name="cheap")).to_be_visible()
    (again,) = anna.server.call("GET", "/queries", token=anna.token)["queries"]
    assert again["id"] != number
    assert again["properties"]["severity"] == "warning"


def test_one_rule_of_a_template_is_changed_with_its_parameters(anna):
    body = {
        "template": f"SELECT sym, price FROM {anna.stream} WHERE sym = :sym AND price < :most",
        "params": [{"sym": "A", "most": 10.0}, {"sym": "B", "most": 20.0}],
        "name": "watch-{sym}",
    }
    first, _ = anna.server.call("POST", "/queries/bulk", body, anna.token)["ids"]
    anna.go(f"rules/q{first}/change")
    page = anna.page
    expect(page.get_by_label(":sym")).to_have_value("A")
    page.get_by_label(":most").fill("12.5")
    expect(page.locator("#findings")).to_contain_text("This can be deployed")
    page.get_by_role("button", name="Save change").click()
    expect(page.get_by_role("heading", name="watch-A")).to_be_visible()
    anna.push(("A", "TECH", 12.0, 1))
    expect(page.get_by_role("table", name="Results, newest first")).to_contain_text("12")
