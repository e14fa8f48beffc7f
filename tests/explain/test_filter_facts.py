"""What is said about expensive filters: their order, who shares them, what that saves, and who may see which."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator

import numpy as np
import pytest

import eddyline
from eddyline.api import Engine
from eddyline.engine import Limits, MemoryStore, RoundEngine
from eddyline.errors import UnknownNameError
from eddyline.explain import filter_facts
from eddyline.functions.declarations import DECLARED
from eddyline.routing import Decision, RoutingOptions
from tests.on_workers import opener

A, B, C = "has_a(word)", "has_b(word)", "has_c(word)"


@pytest.fixture(autouse=True)
def calls() -> Iterator[dict[str, int]]:
    """Functions that say whether a letter is in a word, and how many rows each was asked about."""
    before, asked = dict(DECLARED), {"a": 0, "b": 0, "c": 0}
    for letter in asked:

        @eddyline.udf(returns="boolean", name=f"has_{letter}", version="1")
        def has(word: str, letter: str = letter) -> bool:
            asked[letter] += 1
            return letter in word

    @eddyline.udf(returns="int", version="1")
    def size_of(word: str) -> int:
        return len(word)

    @eddyline.udf(returns="boolean", version="1", deterministic=False)
    def lucky(word: str) -> bool:
        return True

    yield asked
    DECLARED.clear()
    DECLARED.update(before)


def opened(**options: object) -> Engine:
    engine = Engine(
        RoundEngine(
            store=MemoryStore("UTC"),
            limits=Limits(),
            clock=lambda: 0,
            seed=0,
            routing=RoutingOptions(**options),  # type: ignore[arg-type]
        )
    )
    engine.stream("words", "id INT, word STRING")
    return engine


@pytest.fixture
def engine() -> Iterator[Engine]:
    with opened() as found:
        yield found


def words(*of: str) -> list[dict[str, object]]:
    return [{"id": number, "word": word} for number, word in enumerate(of)]


def conditions(engine: Engine, name: str) -> list[str]:
    """What the explanation says about each condition."""
    shown = str(engine.get(name).explain())
    return re.findall(r"^  (?:function|residual|index) +.*\((.*)\)$", shown, re.MULTILINE)


def facts(engine: Engine, **how: object) -> dict[str, object]:
    return filter_facts(engine.rounds, "words", **how)  # type: ignore[arg-type]


# --------------------------------------------------------------------------------------------- one query


def test_a_condition_says_with_whom_it_is_shared_and_where_it_stands(engine):
    engine.query(f"SELECT id FROM words WHERE {A} AND {B}", name="ab")
    assert conditions(engine, "ab") == ["a filter, of this query alone; it has not run on any row yet"] * 2
    engine.query(f"SELECT id FROM words WHERE {A}", name="only a")
    engine.query(f"SELECT id, word FROM words WHERE {A} AND id > 3", name="a late")
    assert (
        conditions(engine, "ab")[0] == "a filter, shared with 2 other queries; it has not run on any row yet"
    )
    engine.push("words", words("a", "b", "ab", "c"))
    first, second = conditions(engine, "ab")
    assert re.fullmatch(r"filter [12] of 2, shared with 2 other queries; [\d.]+ [nµm]s a row", first)
    assert re.fullmatch(r"filter [12] of 2, of this query alone; [\d.]+ [nµm]s a row", second)
    engine.get("only a").pause()
    assert "shared with 1 other query" in conditions(engine, "ab")[0]
    engine.get("a late").drop()
    assert "of this query alone" in conditions(engine, "ab")[0]


def test_the_facts_of_a_condition_have_the_filter_or_none(engine):
    query = engine.query(f"SELECT id FROM words WHERE {A} AND id < 3 AND lucky(word)", name="q")
    engine.push("words", words("a", "b"))
    first, second, third = query.explain().as_dict()["conditions"]
    assert (first["text"], first["filter"]["place"], first["filter"]["n_others"]) == (A, 1, 0)
    assert second["filter"] is None
    assert third["filter"] is None  # each of its calls counts: it is never shared
    assert "called only on rows still undecided" in conditions(engine, "q")[2]


def test_a_text_that_is_not_registered_says_who_has_its_filters_already(engine):
    engine.query(f"SELECT id FROM words WHERE {A}", name="a")
    shown = str(engine.explain(f"SELECT word FROM words WHERE {A} AND {B}"))
    assert f"{A}   (a filter, shared with 1 other query; it has not run on any row yet)" in shown
    assert f"{B}   (called only on rows still undecided" in shown  # nobody has it


def test_queries_of_a_template_have_a_filter_for_each_constant(engine):
    many = engine.query_many("SELECT id FROM words WHERE size_of(word) > :least", params={"least": [1, 2, 1]})
    engine.push("words", words("a", "b"))
    found = [query.explain().as_dict()["conditions"][0]["filter"] for query in many]
    assert [(each["n_others"], each["n_filters"]) for each in found] == [(1, 2), (0, 2), (1, 2)]


def test_a_strict_engine_says_that_the_text_decides():
    with opened(is_strict=True) as engine:
        engine.query(f"SELECT id FROM words WHERE {A} AND {B}", name="ab")
        engine.push("words", words("a", "b"))
        assert conditions(engine, "ab") == ["in the order of the text, where all before it are true"] * 2
        assert str(engine.explain_filters()) == (
            "words: strict: conditions run in the order of each text, and none is a filter"
        )


# --------------------------------------------------------------------------------------------- a stream


def test_a_stream_without_filters_says_so(engine):
    engine.query("SELECT id FROM words WHERE id > 3")
    assert str(engine.explain_filters()) == (
        "words: no query has a condition that calls a function or a regular expression"
    )
    assert facts(engine)["filters"] == []


def test_filters_are_listed_before_rows_have_come(engine):
    engine.query(f"SELECT id FROM words WHERE {A} AND {B}")
    assert str(engine.explain_filters("words")) == (
        "words: 2 filters of 1 query, ordered by fixed, chosen by auto\n"
        "    –  has_a(word)   (1 query; it has not run on any row yet)\n"
        "    –  has_b(word)   (1 query; it has not run on any row yet)"
    )


def test_evaluations_are_those_that_were_made_and_those_without_sharing_are_counted_by_pairs(engine, calls):
    """Of queries with one filter each it is exact: every query would have asked for itself."""
    for number in range(3):
        engine.query(f"SELECT id, id + {number} AS n FROM words WHERE {A}", name=f"q{number}")
    engine.push("words", words("a", "b", "c", "d"))
    found = facts(engine)
    assert calls == {"a": 4, "b": 0, "c": 0}
    assert (found["n_rows"], found["n_evaluations"], found["n_sampled_evaluations"]) == (4, 4, 0)
    assert (found["n_alone"], found["is_at_least"], found["n_saved"]) == (12, False, 8)
    (only,) = found["filters"]
    assert (only["text"], only["place"], only["n_rows"], only["n_queries"]) == (A, 1, 4, 3)
    assert (
        "  shared     4 evaluations on 4 rows; each query for itself would make about 12, 3.0 times as many\n"
    ) in str(engine.explain_filters())


def test_without_sampled_rows_one_evaluation_of_a_pair_is_counted(calls):
    with opened(policy="fixed") as engine:
        engine.query(f"SELECT id FROM words WHERE {A} AND {B}")
        engine.query(f"SELECT id FROM words WHERE {B} AND {A} AND id < 100")
        engine.push("words", words("a", "b", "ab", "c"))
        found = facts(engine)
    assert found["n_evaluations"] == calls["a"] + calls["b"]
    assert (found["n_alone"], found["is_at_least"]) == (8, True)
    assert [each["pass_rate"] for each in found["filters"]] == [None, None]


def test_evaluations_without_sharing_are_those_of_each_query_in_its_own_best_order(calls):
    """Every row is sampled, so nothing is guessed."""
    texts = ["a", "b", "c", "ab", "ac", "bc", "abc", "x"] * 50
    queries = [(A, B), (B, C), (A, B, C)]
    with opened(policy="a_greedy", profile_rate=1.0) as engine:
        for number, clauses in enumerate(queries):
            engine.query(f"SELECT id, id + {number} AS n FROM words WHERE {' AND '.join(clauses)}")
        for _ in range(2):  # what is sampled is known after a batch
            engine.push("words", words(*texts))
        found = facts(engine)
    cost_s = {each["text"]: each["cost_s"] for each in found["filters"]}
    expected = 0
    for word in texts + texts:
        for clauses in queries:
            for clause in sorted(clauses, key=lambda clause: cost_s[clause]):  # all let half of the rows pass
                expected += 1
                if clause[4] not in word:
                    break
    assert found["n_sampled_rows"] >= len(texts)
    assert [each["pass_rate"] for each in found["filters"]] == [0.5, 0.5, 0.5]
    assert not found["is_at_least"]
    assert found["n_alone"] == expected
    assert found["n_evaluations"] + found["n_sampled_evaluations"] == sum(calls.values())


def test_how_far_the_order_is_from_the_best_possible_is_told_when_it_is_asked_for():
    with opened(policy="a_greedy", profile_rate=1.0) as engine:
        engine.query(f"SELECT id FROM words WHERE {A} AND {B}")
        for _ in range(3):
            engine.push("words", words(*["a", "b", "ab", "x"] * 100))
        assert facts(engine)["bound"] is None
        bound = facts(engine, with_bound=True)["bound"]
        assert bound["ratio"] == max(1.0, bound["policy_s"] / bound["least_s"])
        assert 1.0 <= bound["ratio"] < 4.0  # what the paper on A-Greedy promises
        assert bound["n_rows"] > 100
        assert re.search(r"^  bound      .* a row, 1\.\d\d times the ", str(engine.explain_filters()), re.M)


def test_only_filters_that_some_query_needs_are_shown(engine):
    engine.query(f"SELECT id FROM words WHERE {A} AND {B}", name="ab")
    engine.query(f"SELECT id FROM words WHERE {C}", name="c")
    engine.push("words", words("a", "b", "c"))
    assert {each["text"] for each in facts(engine)["filters"]} == {A, B, C}
    engine.get("ab").drop()
    found = facts(engine)
    assert [(each["text"], each["place"]) for each in found["filters"]] == [(C, 1)]
    shown = {each["id"] for each in found["filters"]}
    assert all(set(change["order"]) <= shown for change in found["history"])


def test_changes_of_costs_hide_no_other_change(engine):
    engine.query(f"SELECT id FROM words WHERE {A} AND {B}", name="ab")
    engine.push("words", words("a", "b", "c"))
    router = dict(engine.rounds.stages())["words"].router
    drifted = {"filter": 0, "before": 0.1, "after": 0.9}
    router.history.append(Decision(2, "drifted", "fixed", (0, 1), {**drifted, "what": "pass rate"}))
    for number in range(3, 103):
        router.history.append(Decision(number, "drifted", "fixed", (0, 1), {**drifted, "what": "cost"}))
    history = facts(engine)["history"]
    assert [(each["round"], each["kind"], each["what"]) for each in history] == [
        (1, "joined", None),
        (2, "drifted", "pass rate"),
        *((number, "drifted", "cost") for number in range(83, 103)),
    ]
    assert f"{A} passes 90 % of rows, it was 10 %" in str(engine.explain_filters()).replace("`", "")


@pytest.mark.parametrize("policy", ["auto", "fixed", "a_greedy", "shared_greedy", "phased", "tickets"])
def test_every_policy_can_be_explained(policy):
    with opened(policy=policy, profile_rate=None if policy == "fixed" else 1.0) as engine:
        engine.query(f"SELECT id FROM words WHERE {A} AND {B}")
        engine.query(f"SELECT id FROM words WHERE {B} AND {C}")
        for _ in range(3):
            engine.push("words", words(*["a", "b", "ab", "bc", "x"] * 60))
        found = facts(engine, with_bound=True)
        shown = str(engine.explain_filters())
    assert [each["place"] for each in found["filters"]] == [1, 2, 3]
    assert {each["text"] for each in found["filters"]} == {A, B, C}
    assert shown.startswith("words: 3 filters of 2 queries, ordered by ")
    assert (found["tree"] is not None) == (found["decides"] == "shared_greedy")
    if found["tree"] is not None:
        assert found["tree"]["share"] == 1.0
        assert "  tree       " in shown


def test_a_stream_that_is_not_there_is_refused(engine):
    with pytest.raises(UnknownNameError, match="there is no stream wrods"):
        engine.explain_filters("wrods")


def test_what_workers_did_is_explained_as_if_it_had_been_done_here(tmp_path):
    with opener(tmp_path)() as engine:
        engine.stream("words", "id INT, word STRING")
        for number in range(2):
            engine.query(f"SELECT id, id + {number} AS n FROM words WHERE word RLIKE '^a'", name=f"q{number}")
        engine.push("words", words("a", "b", "c", "d", "e", "f"))
        found = facts(engine)
        assert (found["n_rows"], found["n_evaluations"], found["n_alone"]) == (6, 6, 12)
        assert "filter 1 of 1, shared with 1 other query; " in conditions(engine, "q0")[0]


# --------------------------------------------------------------------------------------------- who may see what


def test_somebody_sees_filters_their_own_queries_need_and_where_others_stand():
    with opened(policy="a_greedy", profile_rate=1.0) as engine:
        mine = engine.query(f"SELECT id FROM words WHERE {A} AND {B}", owner="anna")
        engine.query(f"SELECT id FROM words WHERE {B} AND {C}", owner="bob")
        for rows in (["ab", "ac", "x"], ["c", "bc", "x"]):
            for _ in range(8):
                engine.push("words", words(*rows * 200))
        own = facts(engine, own=np.array([mine.id], np.int32), with_bound=True)
        nobodys = facts(engine, own=np.array([], np.int32))
    by_text = {each["text"]: each for each in own["filters"]}
    assert set(by_text) == {A, B, None}
    hidden = by_text[None]
    assert hidden["place"] in (1, 2, 3)
    numbers = ("cost_s", "pass_rate", "n_rows", "n_queries", "n_alone")
    assert [hidden[name] for name in numbers] == [None] * len(numbers)
    assert by_text[B]["n_queries"] == 2
    for found in (own, nobodys):
        assert "has_c" not in str(found)
    assert "has_" not in str(nobodys)


# --------------------------------------------------------------------------------------------- while rounds run


@pytest.mark.thorough
def test_explaining_while_rounds_run_and_queries_come_and_go_never_fails(engine):
    """What a router says of itself is taken between two batches."""
    engine.query(f"SELECT id FROM words WHERE {A} AND {B}", name="ab")
    engine.push("words", words("a", "b", "ab", "x"))
    trouble: list[BaseException] = []
    is_over = threading.Event()

    def ask() -> None:
        try:
            while not is_over.is_set():
                found = engine.explain_filters()
                assert str(found)
                assert [each["place"] for each in found.streams[0]["filters"] if each["place"]] == list(
                    range(1, 1 + sum(each["place"] is not None for each in found.streams[0]["filters"]))
                )
                str(engine.get("ab").explain())
                engine.explain_index()
                engine.counters()
        except BaseException as error:
            trouble.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        for step in range(60):
            engine.query(f"SELECT id FROM words WHERE {B} AND word RLIKE 'x{step}'", name=f"q{step}")
            if step > 5:
                engine.get(f"q{step - 5}").drop()
            engine.push("words", words(*["a", "b", "ab", "x"] * 50))
    finally:
        is_over.set()
        asking.join()
    assert not trouble, trouble
