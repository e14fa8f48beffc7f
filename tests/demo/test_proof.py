"""The judge of the demo: it agrees with the engine, and it notices what is lost, twice or wrong."""

from __future__ import annotations

import numpy as np
import pytest

import eddyline
from eddyline.demo.market import STREAM, Market, Trades
from eddyline.demo.proof import ActiveRule, DemoProof, compared, expected_pairs, n_within, stored_pairs
from eddyline.demo.rules import ADDED, CLIENT_NAME, HAND_WRITTEN, TEMPLATE, Bands, client_bands

RULES = (*HAND_WRITTEN, ADDED)


def test_trades_are_the_same_however_they_are_cut():
    market = Market(seed=5)
    whole, part = market.trades(0, 100), market.trades(60, 40)
    assert whole.slice(60).equals(part)
    assert not whole.equals(Market(seed=6).trades(0, 100))


def test_numpy_and_the_engine_find_the_same_alerts(tmp_path):
    market, bands = Market(seed=11), client_bands(400, seed=11)
    with eddyline.open(tmp_path / "home") as engine:
        engine.stream(STREAM, market.stream.schema, time=market.stream.time)
        clients = engine.query_many(TEMPLATE, params=bands.table(), name=CLIENT_NAME)
        by_hand = {rule.name: engine.query(rule.text, name=rule.name) for rule in RULES}
        for first in range(0, 60_000, 20_000):
            engine.push(STREAM, market.trades(first, 20_000))
        stood = [ActiveRule(by_hand[rule.name].id, rule, 0, 60_000) for rule in RULES]
        expected = expected_pairs(market, 60_000, bands, clients.ids, stood)
        proof = compared(stored_pairs(engine), expected)
    assert proof.holds
    assert proof.n_alerts == proof.n_expected > 200


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_every_rule_by_hand_has_alerts_but_few(rule):
    n = np.count_nonzero(rule.holds(Trades(Market(seed=7).trades(0, 500_000))))
    assert 5 <= n <= 500, n


def test_a_rule_is_expected_to_see_only_the_trades_it_stood_over():
    market, nobody = Market(seed=7), client_bands(0, seed=7)
    always = expected_pairs(market, 300_000, nobody, [], [ActiveRule(4, ADDED, 0, 300_000)])
    late = expected_pairs(market, 300_000, nobody, [], [ActiveRule(4, ADDED, 100_000, 200_000)])
    assert 0 < len(late) == n_within(always, 100_000, 100_000) < len(always)


def test_what_is_lost_twice_or_wrong_is_counted():
    expected = np.array([10, 11, 12, 13])
    assert compared(np.array([13, 10, 12, 11]), expected).holds
    proof = compared(np.array([10, 11, 11, 11, 13, 99]), expected)
    assert proof == DemoProof(n_alerts=6, n_expected=4, n_lost=1, n_twice=2, n_wrong=1)
    assert not proof.holds


def test_a_band_holds_its_ends():
    trades = Trades(Market(seed=7).trades(0, 1_000))
    price, qty = trades.price[17], trades.qty[17]
    here = Bands(np.array([price]), np.array([price]), np.array([qty]), np.array([qty]))
    assert 17 in here.matches(trades, 0)
    above = Bands(np.array([price]), np.array([price]), np.array([qty + 1]), np.array([qty + 9]))
    assert 17 not in above.matches(trades, 0)
