"""Pressing Prove: what plain Spark SQL says to a result, to one that is wrong, and what is said where there is no Spark."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, expect

import eddyline
from eddyline.api import engine as engine_module
from eddyline.receipts import receipts as receipts_module
from eddyline.receipts.receipts import Receipt, checksum_of
from tests.server.browser.people import Person, Served, somebody
from tests.server.served import on_loopback


@pytest.fixture
def bea(browser, tmp_path) -> Iterator[Person]:
    """An author at a server of this process, which has a session of Spark if a test asks for one."""
    with eddyline.open(tmp_path / "home") as engine, on_loopback(engine) as serving:
        served = Served(serving.url, str(serving.link), token=serving.token("admin"))
        with somebody(browser, served) as person:
            yield person


def proof_of(bea: Person, where: str) -> Locator:
    """What comes after Prove is pressed on a result of a rule."""
    number = bea.add("cheap", where)
    bea.push(("ACME", "TECH", 9.5, 100))
    bea.go(f"rules/q{number}")
    bea.page.get_by_role("button", name=re.compile("^Why did result")).click()
    window = bea.page.get_by_role("dialog")
    button = window.get_by_role("button", name="Prove it")
    button.click()
    expect(button).to_be_enabled(timeout=120_000)  # the first query of a session takes a while
    return window


def test_a_result_is_proven_by_spark(bea, spark):
    window = proof_of(bea, "price < 10 AND sym RLIKE '^A'")
    proof = window.locator(".proof.yes")
    expect(proof).to_contain_text("Proven")
    expect(proof).to_contain_text(f"Spark {spark.version} gave the same row")
    proof.get_by_text("what was run").click()
    expect(proof.locator("pre")).to_contain_text("price < 10 AND sym RLIKE '^A'")


def test_a_result_that_does_not_follow_is_not_proven_and_both_are_shown(bea, spark, monkeypatch):
    """As if the engine had a fault: it gives a result that the row does not have."""
    issued = engine_module.receipt

    def wrong(engine, result) -> Receipt:
        body = {**issued(engine, result), "result": {"sym": "ACME", "price": 8.5}}
        return Receipt(body | {"checksum": checksum_of(body)})

    monkeypatch.setattr(engine_module, "receipt", wrong)
    window = proof_of(bea, "price < 10")
    proof = window.locator(".proof.no")
    expect(proof).to_contain_text("Not proven")
    expect(proof).to_contain_text(f"Spark {spark.version} gave something else")
    expect(proof).to_contain_text('"price":8.5')
    expect(proof).to_contain_text('"price":9.5')


def test_without_spark_it_is_said_what_to_install(bea, monkeypatch):
    monkeypatch.setattr(receipts_module, "is_installed", lambda: False)
    bea.watch.allow("status of 422")
    window = proof_of(bea, "sym RLIKE '^A'")
    expect(window).to_contain_text("There is no Spark to prove it with")
    expect(window).to_contain_text("pip install 'eddyline[spark]'")
    expect(window.locator(".proof")).to_have_count(0)
