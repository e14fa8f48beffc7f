"""What a router decided stays readable when filters that nobody has are forgotten."""

from __future__ import annotations

from eddyline.routing.decisions import Decision


def test_a_decision_is_told_by_the_new_numbers_of_its_filters():
    why = {"at": 0, "came": 3, "left": 1, "ratio_came": 2.0, "ratio_left": 1.0, "before": [1, 0, 3]}
    made = Decision(7, "reordered", "sweep", (3, 1, 0), why)
    moved = made.with_numbers({1: 0, 3: 1})
    assert moved is not None
    assert moved.order == (1, 0)
    assert moved.why == {**why, "came": 1, "left": 0, "before": [0, 1]}


def test_a_decision_about_a_filter_that_is_gone_is_gone_too():
    drifted = Decision(
        7, "drifted", "sweep", (1, 0), {"filter": 1, "what": "cost", "before": 1.0, "after": 2.0}
    )
    assert drifted.with_numbers({0: 0}) is None
    moved = drifted.with_numbers({1: 0})
    assert moved is not None
    assert moved.why == {"filter": 0, "what": "cost", "before": 1.0, "after": 2.0}


def test_a_decision_that_names_no_filter_keeps_its_words():
    why = {"before": "fixed", "after": "sweep", "before_s": 2.0, "after_s": 1.0}
    assert Decision(7, "switched", "sweep", (1, 0), why).with_numbers({1: 0}) == Decision(
        7, "switched", "sweep", (0,), why
    )
