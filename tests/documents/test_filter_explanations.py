"""What is said about filters, to the letter."""

from __future__ import annotations

import math

import pytest

from eddyline.documents import FiltersExplanation, change_words, event_words
from eddyline.documents.quantities import duration, percent
from eddyline.events import ConditionsMoved, FilterDrifted, FiltersReordered, PolicySwitched, ResultsDropped

TEXTS = ["score(text) > 0.5", "lang(text) = 'de'"]


def reordered(policy: str = "a_greedy", came: float = 310.4, left: float = 120.0) -> dict[str, object]:
    return {
        "kind": "reordered",
        "policy": policy,
        "came": 0,
        "left": 1,
        "ratio_came": came,
        "ratio_left": left,
    }


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (
            reordered(),
            "`score(text) > 0.5` now runs before `lang(text) = 'de'`: it drops 310 rows a second of work, the other 120",
        ),
        (
            reordered("shared_greedy", came=1_654_321.0, left=0.123),
            "`score(text) > 0.5` now runs before `lang(text) = 'de'`: "
            "it settles 1,650,000 queries a second of work, the other 0.12",
        ),
        (
            reordered(came=math.inf, left=0.0),
            "`score(text) > 0.5` now runs before `lang(text) = 'de'`: "
            "it drops any number of rows a second of work, the other 0",
        ),
        (
            {"kind": "switched", "before": "fixed", "after": "sweep", "before_s": 4e-6, "after_s": 3.14e-6},
            "sweep decides instead of fixed: 3.14 µs a row instead of 4 µs",
        ),
        (
            {"kind": "drifted", "filter": 1, "what": "pass rate", "before": 0.48, "after": 0.12},
            "`lang(text) = 'de'` passes 12 % of rows, it was 48 %",
        ),
        (
            {"kind": "drifted", "filter": 0, "what": "cost", "before": 2e-3, "after": 1.5e-4},
            "`score(text) > 0.5` takes 150 µs a row, it was 2 ms",
        ),
        ({"kind": "joined", "filters": 1}, "a filter was added with a query"),
        ({"kind": "joined", "filters": 3}, "3 filters were added with queries"),
        ({"kind": "joined", "filters": 0}, "queries with another set of the same filters were added"),
    ],
)
def test_a_change_in_words(entry, words):
    assert change_words(entry, TEXTS.__getitem__) == words


def test_a_filter_that_may_not_be_shown_is_anothers():
    said = change_words(reordered(), lambda k: None if k == 0 else TEXTS[k])
    assert said.startswith("another owner's filter now runs before `lang(text) = 'de'`: ")


def test_events_in_words():
    order = (TEXTS[1], TEXTS[0])
    assert event_words(FiltersReordered(3, "posts", "sweep", order, TEXTS[1], TEXTS[0], 0, 310.0, 120.0)) == (
        "posts: `lang(text) = 'de'` now runs before `score(text) > 0.5`: it drops 310 rows a second of work, the other 120"
    )
    assert event_words(FilterDrifted(3, "posts", TEXTS[0], "pass rate", 0.5, 0.004)) == (
        "posts: `score(text) > 0.5` passes 0.4 % of rows, it was 50 %"
    )
    assert event_words(PolicySwitched(3, "posts", "fixed", "a_greedy", 1e-6, 5e-7)) == (
        "posts: a_greedy decides instead of fixed: 500 ns a row instead of 1 µs"
    )
    assert event_words(ResultsDropped(3, 1)) is None


def test_numbers_in_words():
    assert [duration(s) for s in (0.0, 3.5e-8, 9.999e-7, 1.2e-5, 0.12, 75.0)] == [
        "0 ns",
        "35 ns",
        "1 µs",
        "12 µs",
        "120 ms",
        "75 s",
    ]
    assert [percent(share) for share in (0.0, 0.0004, 0.034, 0.096, 0.5, 1.0)] == [
        "0 %",
        "0.04 %",
        "3.4 %",
        "10 %",
        "50 %",
        "100 %",
    ]


def test_an_explanation_to_the_letter():
    def filter_(place: int, text: str | None, **numbers: object) -> dict[str, object]:
        known = {"cost_s": 4e-6, "follow_cost_s": None, "pass_rate": 0.25, "n_rows": 40_000, "n_queries": 2}
        return {"id": place, "place": place, "text": text, "is_own": text is not None} | known | numbers

    leaf = {"share": 0.25, "passes": None, "drops": None}
    facts = {
        "stream": "posts",
        "policy": "auto",
        "options": {},
        "decides": "shared_greedy",
        "is_strict": False,
        "n_queries": 3,
        "filters": [
            filter_(1, TEXTS[0], follow_cost_s=2e-8),
            filter_(2, None, cost_s=None),
            filter_(3, TEXTS[1], pass_rate=None, n_queries=1),
        ],
        "n_rows": 40_000,
        "n_evaluations": 90_000,
        "n_alone": 123_456,
        "is_at_least": False,
        "n_sampled_evaluations": 1_200,
        "n_sampled_rows": 500,
        "sampled_s": 0.004,
        "sample_rate": 0.01,
        "seconds": 0.4,
        "overhead_s": 0.03,
        "bound": {"policy_s": 1.4e-5, "least_s": 1.25e-5, "ratio": 1.12, "n_rows": 480},
        "candidates": {"fixed": 2e-5, "shared_greedy": 1.4e-5},
        "tree": {
            "text": TEXTS[0],
            "share": 1.0,
            "passes": {**leaf, "text": TEXTS[1]},
            "drops": {**leaf, "text": None, "share": 0.75, "drops": {**leaf, "text": TEXTS[1]}},
        },
        "history": [{"round": 2, "words": "3 filters were added with queries"}, {"round": 5, "words": None}],
    }
    assert str(FiltersExplanation([facts])) == (
        "posts: 3 filters of 3 queries, ordered by shared_greedy, chosen by auto\n"
        "    1  score(text) > 0.5   (4 µs a row (20 ns where another filter already made its call), passes 25 %, "
        "ran on 40,000 rows for 2 queries)\n"
        "    2  another owner's filter\n"
        "    3  lang(text) = 'de'   (4 µs a row, ran on 40,000 rows for 1 query)\n"
        "  shared     90,000 evaluations on 40,000 rows; each query for itself would make about 123,000, 1.4 times as many\n"
        "  sampled    1,200 evaluations more, 4 ms; 1 % of rows now\n"
        "  took       400 ms in filters, 30 ms to choose and to count\n"
        "  bound      14 µs a row, 1.12 times the 12.5 µs that no strategy can beat (on 480 sampled rows)\n"
        "  competing  shared_greedy 14 µs, fixed 20 µs a row\n"
        "  tree       score(text) > 0.5   (100 % of rows)\n"
        "             passes: lang(text) = 'de'   (25 % of rows)\n"
        "             drops:  another owner's filter   (75 % of rows)\n"
        "               drops:  lang(text) = 'de'   (25 % of rows)\n"
        "  round 2    3 filters were added with queries"
    )
    assert str(FiltersExplanation([])) == "there is no stream"
    assert "another owner&#x27;s filter" in FiltersExplanation([facts])._repr_html_()


def test_conditions_that_moved_say_what_a_row_costs_either_way():
    event = ConditionsMoved(7, "stocks ⋈ news", "stocks", "after", 2.1e-5, 3e-6, 2e-5, 1e-6, 0.5, 0.05)
    assert event_words(event) == (
        "stocks ⋈ news: of stocks, expensive conditions after its rows look for partners: 3 µs a row, before it 21 µs; "
        "asking takes 20 µs, a probe 1 µs, 50 % pass, 5 % are asked if after"
    )
