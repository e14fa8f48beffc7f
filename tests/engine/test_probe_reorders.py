"""When joins probe in another order: what is announced, what explain says, and what the routing policies mean for joins."""

from __future__ import annotations

import pytest

import eddyline
from eddyline.events import ProbesReordered

STAR = """
    SELECT a.v FROM recent(a, 9) a JOIN recent(b, 9) b ON a.k = b.k JOIN recent(c, 9) c ON a.v = c.k
    JOIN recent(d, 9) d ON a.w = d.k"""


def opened(policy: str) -> eddyline.Engine:
    engine = eddyline.open(routing=policy, seed=3)
    engine.sql("CREATE TABLE a (k INT, v INT, w INT)")
    for name in "bcd":
        engine.sql(f"CREATE TABLE {name} (k INT)")
    return engine


def run_rounds(engine: eddyline.Engine) -> list[ProbesReordered]:
    """Every row of a has a partner in b, half of them in c, and one in ten in d, whether it has one in c or not."""
    heard: list[ProbesReordered] = []
    engine.on_event(lambda event: heard.append(event) if isinstance(event, ProbesReordered) else None)
    engine.query(STAR, name="star")
    engine.push({"b": [(0,)], "c": [(0,)], "d": [(0,)]})
    rows = [(0, n // 10 % 2, n % 10) for n in range(2000)]
    for _ in range(12):
        engine.push("a", rows)
    return heard


@pytest.mark.parametrize("policy", ["auto", "a_greedy", "sweep", "independent", "local_swaps"])
def test_policies_that_learn_probe_last_what_drops_nothing_and_announce_it(policy):
    with opened(policy) as engine:
        heard = run_rounds(engine)
        (facts,) = engine.joins().signatures
        origin = next(each for each in facts["origins"] if each["name"] == "a")
        assert origin["order"][-1] == "b"  # which drops nothing, whatever it costs
        assert list(heard[-1].order) == origin["order"]
        assert {event.policy for event in heard} == {"a_greedy" if policy == "auto" else policy}
        assert origin["n_reordered"] == len(heard) > 0
        assert f"reordered {'once' if len(heard) == 1 else f'{len(heard)} times'}" in str(engine.joins())
        assert "reordered" in str(engine.get("star").explain())


def test_a_fixed_order_stays_and_nothing_is_announced():
    with opened("fixed") as engine:
        assert run_rounds(engine) == []
        (facts,) = engine.joins().signatures
        assert next(each for each in facts["origins"] if each["name"] == "a")["order"] == ["b", "c", "d"]


def test_local_swaps_swap_neighbours_one_pair_at_a_time():
    with opened("local_swaps") as engine:
        before = ("b", "c", "d")
        for event in run_rounds(engine):
            moved = [at for at, (old, new) in enumerate(zip(before, event.order, strict=True)) if old != new]
            assert moved == [event.at, event.at + 1]
            before = event.order
