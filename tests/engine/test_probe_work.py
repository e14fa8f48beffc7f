"""How much joins probe and list: what signatures have in common once, what is refuted early not at all. Counted, not timed."""

from __future__ import annotations

import pytest

from eddyline.joins import ProbeCounters
from tests.engine.join_lives import Life, at

STREAMS = """
    CREATE TABLE a (k INT, v INT);
    CREATE TABLE b (k INT, v INT);
    CREATE TABLE c (k INT, v INT);
    CREATE TABLE d (k INT, v INT)
"""


def work(life: Life, stream: str) -> ProbeCounters:
    """The work of all signatures, from the places at which they read a stream."""
    stage, total = life.engine.rounds.flow.joins.stage, ProbeCounters()
    for (name, place), origin in stage.origins.items():
        if stage.plan.by_name[name].signature.inputs[place].stream == stream:
            total.add(origin.counters)
    return total


@pytest.fixture
def life():
    made = Life(STREAMS)
    yield made
    made.check()
    made.engine.close()


# --------------------------------------------------------------------------------------------- shared first hops


def test_signatures_with_the_same_first_hop_probe_it_once(life):
    pair = "SELECT a.v, b.v AS w FROM recent(a, 9) a JOIN recent(b, 9) b ON a.k = b.k"
    life.query(pair, "two")
    life.query(f"{pair} JOIN recent(c, 9) c ON b.v = c.k", "with_c")
    life.query(f"{pair} JOIN recent(d, 9) d ON b.v = d.k", "with_d")
    life.push(b=[(1, 5)], c=[(5, 0)], d=[(5, 0)])
    life.push(a=[(1, 10), (2, 20), (3, 30)])
    assert life.told("two") == [(10, 5)]
    assert life.told("with_c") == [(10, 5)]
    assert life.told("with_d") == [(10, 5)]
    found = work(life, "a")
    # three rows to b, once for all three; the one that has a partner to c and to d
    assert (found.n_probes, found.n_shared) == (3 + 1 + 1, 2 * 3)


def test_a_signature_that_wants_other_rows_probes_with_those_alone(life):
    life.query("SELECT a.v FROM recent(a, 9) a JOIN recent(b, 9) b ON a.k = b.k WHERE a.v < 30", "low")
    life.query(
        "SELECT a.v FROM recent(a, 9) a JOIN recent(b, 9) b ON a.k = b.k JOIN recent(c, 9) c ON a.k = c.k WHERE a.v > 10",
        "high",
    )
    life.push(b=[(1, 0), (2, 0), (3, 0)], c=[(1, 0), (2, 0), (3, 0)])
    life.push(a=[(1, 10), (2, 20), (3, 30)])
    assert life.told("low") == [(10,), (20,)]
    assert life.told("high") == [(20,), (30,)]
    found = work(life, "a")
    # low: rows 10 and 20 to b; high: row 30 to b, and both of its rows to c
    assert (found.n_probes, found.n_shared) == (2 + 1 + 2, 1)


def test_both_places_of_a_self_join_share_their_probes(life):
    life.query("SELECT x.v, y.v AS w FROM recent(a, 9) x JOIN recent(a, 9) y ON x.k = y.k", "self")
    life.push(a=[(1, 10), (1, 20)])
    assert sorted(life.told("self")) == [(10, 10), (10, 20), (20, 10), (20, 20)]
    assert (work(life, "a").n_probes, work(life, "a").n_shared) == (2, 2)


def test_windows_of_signatures_that_share_a_hop_stay_their_own(life):
    life.query("SELECT a.v, b.v AS w FROM recent(a, 9) a JOIN recent(b, 1) b ON a.k = b.k", "newest")
    life.query(
        "SELECT a.v, b.v AS w FROM recent(a, 9) a JOIN recent(b, 9) b ON a.k = b.k JOIN recent(c, 9) c ON a.k = c.k",
        "all",
    )
    life.push(b=[(1, 5), (1, 6)], c=[(1, 0)])
    life.query(
        "SELECT a.v, b.v AS w FROM recent(a, 9) a JOIN recent(b, 9) b ON a.k = b.k JOIN recent(d, 9) d ON a.k = d.k",
        "later",
    )
    life.push(b=[(1, 7)], d=[(1, 0)])
    life.push(a=[(1, 10)])
    assert life.told("newest") == [(10, 7)]
    assert sorted(life.told("all")) == [(10, 5), (10, 6), (10, 7)]
    assert life.told("later") == [(10, 7)]  # it sees nothing of rounds before its own
    assert work(life, "a").n_shared > 0


def test_look_ups_of_a_table_are_shared_and_see_it_as_it_was_when_each_row_came():
    life = Life(
        "CREATE TABLE a (k INT, v INT); CREATE TABLE t (k INT PRIMARY KEY, v INT); CREATE TABLE c (k INT, v INT)"
    )
    life.query("SELECT a.v, t.v AS w FROM a JOIN t ON a.k = t.k", "plain")
    life.query("SELECT a.v, t.v AS w FROM a JOIN t ON a.k = t.k JOIN recent(c, 9) c ON t.v = c.k", "more")
    life.push(t=[(1, 5)], c=[(5, 0), (6, 0)])
    life.push(a=[(1, 10)], t=[(1, 6)])
    life.push(a=[(1, 20)])
    assert life.told("plain") == life.told("more") == [(10, 5), (20, 6)]
    assert (work(life, "a").n_probes, work(life, "a").n_shared) == (2 + 2, 2)
    life.engine.close()


def test_what_is_more_than_is_remembered_is_probed_again(life):
    life.choose(remembered_pairs=2)
    pair = "SELECT a.v, b.v AS w FROM recent(a, 9) a JOIN recent(b, 9) b ON a.k = b.k"
    life.query(f"{pair} WHERE a.v < 20", "low")
    life.query(f"{pair} JOIN recent(c, 9) c ON b.v = c.k", "with_c")
    life.push(b=[(1, 5), (1, 6), (2, 7), (2, 8)], c=[(5, 0), (6, 0), (7, 0), (8, 0)])
    life.push(a=[(1, 10), (2, 20)])
    assert sorted(life.told("low")) == [(10, 5), (10, 6)]
    assert sorted(life.told("with_c")) == [(10, 5), (10, 6), (20, 7), (20, 8)]
    assert (work(life, "a").n_probes, work(life, "a").n_shared) == (1 + 1 + 4, 1)


# --------------------------------------------------------------------------------------------- cycles


def test_a_cycle_lists_no_products_that_its_last_equality_refutes(life):
    life.query(
        "SELECT a.v, b.v AS bv, c.v AS cv FROM recent(a, 999) a JOIN recent(b, 999) b ON a.k = b.k "
        "JOIN recent(c, 999) c ON a.v = c.k AND b.v = c.v",
        "cycle",
    )
    life.push(b=[(1, n) for n in range(100)], c=[(7, 99 + n) for n in range(100)])
    life.push(a=[(1, 7)])
    assert life.told("cycle") == [(7, 99, 99)]
    found = work(life, "a")
    assert found.n_matches == 200
    assert found.n_partial == 100 + 1  # not 100 partners of b with 100 of c each
    assert found.n_combinations == 1


def test_drivers_that_a_cycle_refutes_do_not_probe_further_inputs(life):
    life.query(
        "SELECT a.v FROM recent(a, 999) a JOIN recent(b, 999) b ON a.k = b.k "
        "JOIN recent(c, 999) c ON a.v = c.k AND b.v = c.v JOIN recent(d, 999) d ON c.v = d.k",
        "cycle",
    )
    life.push(b=[(1, 1), (2, 2)], c=[(7, 1), (7, 3)], d=[(1, 0), (3, 0)])
    life.push(a=[(1, 7), (2, 7)])
    assert life.told("cycle") == [(7,)]
    # both rows to b and to c; then of the two partners in c the one that fits the row of b
    assert work(life, "a").n_probes == 2 + 2 + 1


def test_two_columns_of_a_new_row_may_have_to_equal_one_of_its_partner(life):
    life.query("SELECT b.v FROM recent(a, 9) a JOIN recent(b, 9) b ON a.k = b.k AND a.v = b.k", "both")
    life.query(
        "SELECT b.v, c.v AS w FROM recent(a, 9) a JOIN recent(b, 9) b ON a.k = b.k AND a.v = b.k "
        "JOIN recent(c, 9) c ON b.v = c.k",
        "more",
    )
    life.push(b=[(1, 10), (2, 20)], c=[(10, 100), (20, 200)])
    life.push(a=[(1, 1), (1, 2), (2, 2), (2, None)])
    life.push(b=[(2, 30)])
    assert sorted(life.told("both")) == [(10,), (20,), (30,)]
    assert sorted(life.told("more")) == [(10, 100), (20, 200)]
    # rows of a whose columns differ probe nothing behind b
    assert work(life, "a").n_probes == 4 + 2


def test_nulls_and_long_texts_close_no_cycle_they_should_not():
    life = Life("".join(f"CREATE TABLE {name} (k INT, s STRING);" for name in "abc"))
    life.query(
        "SELECT b.s AS bs, c.s AS cs FROM recent(a, 99) a JOIN recent(b, 99) b ON a.k = b.k "
        "JOIN recent(c, 99) c ON a.s = c.s AND b.k = c.k AND b.s = c.s",
        "texts",
    )
    life.query(
        "SELECT b.s AS bs, c.s AS cs FROM recent(a, 99) a JOIN recent(b, 99) b ON a.k = b.k "
        "JOIN recent(c, 99) c ON length(a.s) = length(c.s) AND b.s = c.s",
        "nulls",
    )
    long, longer = "a long text of one", "a long text of two"
    life.push(b=[(1, long), (1, None), (1, longer)], c=[(1, longer), (1, None), (2, long)])
    life.push(a=[(1, longer), (1, None)])
    assert life.told("texts") == [(longer, longer)]
    assert sorted(life.told("nulls")) == [(long, long), (longer, longer)]
    life.engine.close()


# --------------------------------------------------------------------------------------------- where one partner is enough


def test_rows_of_a_left_anti_join_that_time_decides_stop_at_their_first_partner():
    life = Life("CREATE TABLE a (k INT, ts TIMESTAMP) TBLPROPERTIES (time='ts'); "
                "CREATE TABLE b (k INT, ts TIMESTAMP) TBLPROPERTIES (time='ts')")  # fmt: skip
    life.query(
        "SELECT a.k FROM a LEFT ANTI JOIN b ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 10 SECONDS",
        "alone",
    )
    life.push(b=[(1, at(5))] * 1000)
    life.push(a=[(1, at(4)), (2, at(4))])
    found = work(life, "a")
    assert (found.n_matches, found.n_matched_drivers) == (1, 1)
    assert found.n_looked_at <= 4
    life.push(a=[(9, at(60))], b=[(9, at(60))])
    assert life.told("alone") == [(2,)]
    life.engine.close()


def test_a_left_anti_join_with_a_table_by_its_key_alone_takes_one_row_of_it():
    life = Life("CREATE TABLE a (k INT, v INT); CREATE TABLE t (id INT PRIMARY KEY, k INT, v INT)")
    life.query("SELECT a.v FROM a LEFT ANTI JOIN t ON a.k = t.k", "alone")
    life.push(t=[(n, 1, n) for n in range(100)])
    life.push(a=[(1, 10), (2, 20)])
    assert life.told("alone") == [(20,)]
    assert work(life, "a").n_combinations == 1
    life.query("SELECT a.v FROM a LEFT ANTI JOIN t ON a.k = t.k AND t.v > 90", "above")
    life.push(a=[(1, 30)])
    assert (life.told("alone"), life.told("above")) == ([(20,)], [])
    assert work(life, "a").n_combinations == 1 + 100  # which of them are above 90 the filters decide
    life.engine.close()


def test_sampled_rows_stop_at_their_first_partner(life):
    life.query(
        "SELECT a.v FROM recent(a, 9) a JOIN recent(b, 999) b ON a.k = b.k JOIN recent(c, 999) c ON a.k = c.k",
        "star",
    )
    life.push(b=[(1, 0)] * 100, c=[(2, 0)] * 100)
    life.push(a=[(1, 0)] * 200)  # too few to learn another order from
    found = work(life, "a")
    n_sampled = (found.n_probes - 2 * 200) // 2  # of rows that all probe b and then c
    assert n_sampled > 0
    assert found.n_looked_at == 100 * 200 + 4 * n_sampled
