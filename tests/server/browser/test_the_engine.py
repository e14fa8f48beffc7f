"""What the engine does, seen in the browser: rounds, dead letters, streams, access, and the first start."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.server.browser.people import Watch, new_context, running, somebody


def test_rounds_latency_rows_and_matches_are_seen_live(anna):
    anna.add("cheap", "price < 10")
    done = anna.push(("A", "TECH", 1.0, 1), ("B", "TECH", 2.0, 1), ("C", "TECH", 30.0, 1))
    anna.go("rounds")
    page = anna.page
    rounds = page.get_by_role("table", name="The last rounds")
    newest = rounds.locator("tbody tr").first
    expect(newest).to_contain_text(f"#{done['round']}")
    assert newest.locator("td").all_inner_texts()[2:4] == ["3", "2"]
    chart = page.get_by_role("img", name=re.compile("^Matches per round"))
    expect(chart).to_have_attribute("aria-label", re.compile("latest: 2 matches"))
    later = anna.push(*[("A", "TECH", 1.0, 1)] * 5)
    expect(rounds.locator("tbody tr").first).to_contain_text(f"#{later['round']}")
    expect(chart).to_have_attribute("aria-label", re.compile("latest: 5 matches"))
    live = page.get_by_role("region", name="Live")
    expect(live.locator("[data-metric=rows] dd")).to_have_text(re.compile("[1-9]"))
    expect(live.locator("[data-metric=matches] dd")).to_have_text(re.compile("[1-9]"))
    expect(live.locator("[data-metric=latency] dd")).to_have_text(re.compile(r"\d / \d.*s\s*$"))
    expect(page.locator("#connection")).to_have_text("live")
    chart.focus()
    page.keyboard.press("ArrowLeft")  # the newest
    page.keyboard.press("ArrowLeft")
    expect(page.locator("figure", has=chart)).to_contain_text(re.compile(r"round \d+: 2 matches"))


def test_dead_letters_are_grouped_by_what_was_wrong_and_read_for_one_rule(anna):
    divides = anna.add("divides", "100 / qty > 1")
    anna.add("casts", "CAST(sym AS INT) > 1")
    anna.push(("ACME", "TECH", 1.0, 0), ("7", "TECH", 1.0, 5))
    anna.go("dead-letters")
    groups = anna.page.locator(".letters")
    expect(groups).to_have_count(2)
    expect(anna.page.locator("main")).to_contain_text("DIVIDE_BY_ZERO")
    anna.page.get_by_label("Only of one rule").select_option(f"q{divides}")
    expect(groups).to_have_count(1)
    letter = groups.locator(".letter")
    expect(letter).to_contain_text("divides")
    expect(letter).to_contain_text("ACME")
    letter.get_by_role("link", name="divides").click()
    expect(anna.page.get_by_role("heading", name="divides")).to_be_visible()
    anna.page.locator(".numbers a").click()
    expect(anna.page.get_by_role("heading", name="Dead letters")).to_be_visible()
    expect(groups).to_have_count(1)


def test_a_stream_shows_its_columns_rows_and_rules(admin):
    admin.add("cheap", "price < 10")
    admin.push(("A", "TECH", 1.0, 1), ("B", "TECH", 2.0, 1))
    admin.go("streams")
    stream = admin.page.get_by_role("region", name=f"Stream {admin.stream}")
    numbers = stream.locator(".numbers dd")
    for place, text in enumerate(["2", "0", "1"]):
        expect(numbers.nth(place)).to_have_text(text)
    expect(stream.locator(".chip")).to_have_count(5)
    stream.get_by_role("button", name="Send rows").click()
    window = admin.page.get_by_role("dialog")
    window.get_by_label("Rows, as a JSON list").fill('[{"sym": "C", "price": 3}]')
    window.get_by_role("button", name="Send rows").click()
    expect(window).to_contain_text("1 row, 1 match")
    admin.page.keyboard.press("Escape")
    expect(stream.locator(".numbers dd").first).to_have_text("3")


def test_an_admin_sees_rules_of_all_owners_and_chooses_one(browser, server, admin):
    with somebody(browser, server) as bea:
        bea.add("beas own", "price < 10")
        admin.add("my own", "price < 10")
        admin.go("rules?filter=own")
        admin.page.get_by_role("button", name=bea.owner).click()
        expect(admin.page.locator(".rule-link")).to_have_text(["beas own"])
        admin.page.get_by_role("button", name=re.compile("press for all owners")).click()
        expect(admin.page.locator(".rule-link").filter(has_text="my own")).to_have_count(1)


def test_a_token_is_made_used_and_made_worthless(server, admin, stranger):
    admin.go("access")
    page = admin.page
    page.get_by_role("button", name="New token").click()
    window = page.get_by_role("dialog")
    window.get_by_label("Role").select_option("reader")
    window.get_by_label("For owner").fill("carl")
    window.get_by_label("Note").fill("a test")
    window.get_by_role("button", name="Create token").click()
    token = window.locator(".token").inner_text()
    assert token.startswith("edl_")
    page.keyboard.press("Escape")
    row = page.get_by_role("table", name="Tokens").locator("tr", has_text="a test")
    expect(row).to_contain_text("carl")

    other, _ = stranger
    other.goto(f"{server.url}/#/rounds")
    expect(other.get_by_label("Token")).to_be_focused()
    other.get_by_label("Token").fill("edl_000000000000_nothing")
    other.keyboard.press("Enter")
    expect(other.get_by_role("alert")).to_contain_text("not a token")
    other.get_by_label("Token").fill(token)
    other.keyboard.press("Enter")
    expect(other.get_by_role("heading", name="Rounds", exact=True)).to_be_visible()

    row.get_by_role("button", name=re.compile("^Drop token")).click()
    page.get_by_role("dialog").get_by_role("button", name="Drop token").click()
    expect(row).to_have_count(0)
    expect(page.get_by_role("table", name="Changes, newest first")).to_contain_text("drop token")
    expect(other.get_by_label("Token")).to_be_visible()


def test_signing_out_ends_the_session(anna):
    anna.watch.allow("status of 401")
    anna.go("rules")
    anna.page.get_by_role("button", name="Sign out").click()
    expect(anna.page.get_by_label("Token")).to_be_visible()
    anna.page.reload()
    expect(anna.page.get_by_label("Token")).to_be_visible()


def test_a_fresh_engine_leads_from_the_link_to_the_first_result(browser, tmp_path):
    with running(tmp_path) as served:
        context = new_context(browser)
        page = context.new_page()
        watch = Watch(served.url)
        watch.on(page)
        page.goto(served.link)
        expect(page.get_by_text("No stream yet")).to_be_visible()
        assert "token" not in page.url

        page.get_by_role("link", name="Declare a stream").click()
        window = page.get_by_role("dialog")
        window.get_by_label("Stream name").fill("trades")
        window.get_by_label("Columns").fill("sym STRING, price DOUBLE")
        window.get_by_role("button", name="Declare", exact=True).click()
        expect(page.get_by_role("region", name="Stream trades")).to_be_visible()

        page.get_by_role("link", name="Rules", exact=True).click()
        expect(page.get_by_text("No rule yet")).to_be_visible()
        page.get_by_role("link", name="Begin with this").click()
        expect(page.locator("#findings")).to_contain_text("This can be deployed")
        page.get_by_role("button", name="Add rule").click()
        expect(page.get_by_role("heading", name="my_first_rule")).to_be_visible()
        expect(page.locator(".stream-state")).to_have_text("live")

        page.keyboard.press("4")
        page.get_by_role("button", name="Send rows").click()
        page.get_by_label("Rows, as a JSON list").fill('[{"sym": "ACME", "price": 250}]')
        page.get_by_role("dialog").get_by_role("button", name="Send rows").click()
        expect(page.get_by_role("dialog")).to_contain_text("1 match")
        page.keyboard.press("Escape")
        page.go_back()
        expect(page.get_by_role("table", name="Results, newest first")).to_contain_text("ACME")
        context.close()
        watch.check()


def test_a_stream_is_declared_with_the_unit_of_its_time(server, admin):
    page = admin.page
    admin.go("streams")
    page.get_by_role("button", name="Declare a stream").click()
    window = page.get_by_role("dialog")
    window.get_by_label("Stream name").fill("ticks_ms")
    window.get_by_label("Columns").fill("sym STRING, ts BIGINT")
    window.get_by_label("Time column").fill("ts")
    window.get_by_label("Time unit").select_option("ms")
    window.get_by_label("Idle").fill("1 minute")
    window.get_by_role("button", name="Declare").click()
    expect(page.get_by_role("region", name="Stream ticks_ms")).to_contain_text(
        "Time is ts in milliseconds since 1970"
    )
    page.get_by_role("button", name="Declare a stream").click()
    window.get_by_label("Stream name").fill("ticks_text")
    window.get_by_label("Columns").fill("sym STRING, ts STRING")
    window.get_by_label("Time column").fill("ts")
    window.get_by_label("Time format").fill("dd.MM.yyyy HH:mm")
    window.get_by_role("button", name="Declare").click()
    expect(page.get_by_role("region", name="Stream ticks_text")).to_contain_text("as dd.MM.yyyy HH:mm")
    declared = {stream["name"]: stream for stream in server.call("GET", "/streams")}
    assert declared["ticks_ms"]["time_unit"] == "ms"
    assert declared["ticks_text"]["time_format"] == "dd.MM.yyyy HH:mm"
