"""Running groups answer as if all rows were kept and everything recomputed each round."""

from __future__ import annotations

import random
from copy import deepcopy
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pytest

from eddyline.aggregates import Reader, RoundTime, RunningGroups
from eddyline.model import Aggregation
from tests.aggregates.made_rows import (
    ALL_CALLS,
    COUNT,
    SUM,
    Row,
    class_rows,
    read_answer,
    read_changes,
    values_of,
)
from tests.aggregates.seeds import seeds

KEYS = pa.schema([("k", pa.string())])


def aggregation(keep_us: int | None = None, *, reads_table: bool = False, keys: tuple[str, ...] = ("k",)):
    return Aggregation(f"running {keep_us}", "rows", keys, keep_us=keep_us, reads_table=reads_table)


def at(now_us: int) -> RoundTime:
    return RoundTime(now_us, None, None)


def told(groups, rows, now_us, calls=(COUNT,), *, n_keys=1, commit=True):
    """By aggregation and epoch what a round tells, and why if it is not rows."""
    names = ("k",)[:n_keys]
    found = {}
    for of, changes in groups.push(class_rows(rows, names), at(now_us)):
        place = found.setdefault((of.keep_us, changes.epoch), {})
        read = read_changes(changes, calls, n_keys)
        assert not set(place) & set(read), "an entry is told twice"
        place.update({entry: (*change, changes.reason) for entry, change in read.items()})
    if commit:
        groups.commit()
        groups.check()
    return found


def built(*readers: Reader, keys: pa.Schema = KEYS, reads_table: bool = False) -> RunningGroups:
    groups = RunningGroups(keys, reads_table=reads_table)
    groups.build(readers)
    return groups


def test_a_group_appears_changes_and_is_silent_where_nothing_differs():
    groups = built(Reader(aggregation(), (SUM,), (0,)))
    assert told(groups, [Row(("a",), 1), Row((None,), 2)], 0, (SUM,)) == {
        (None, 0): {(None, None): (None, (2,), ""), ("a", None): (None, (1,), "")}
    }
    assert told(groups, [Row(("a",), 4), Row((None,), 0)], 0, (SUM,)) == {
        (None, 0): {("a", None): ((1,), (5,), "")}
    }
    assert told(groups, [], 0, (SUM,)) == {}


def test_late_rows_and_rows_without_time_count():
    groups = built(Reader(aggregation(), (COUNT,), (0,)))
    rows = [Row(("a",), is_late=True, time=0), Row(("a",), time=None)]
    assert told(groups, rows, 0) == {(None, 0): {("a", None): (None, (2,), "")}}


def test_a_young_query_sees_nothing_from_before_it():
    groups = built(Reader(aggregation(), (COUNT,), (0,)))
    told(groups, [Row(("a",)), Row(("b",))], 0)
    groups.build([Reader(aggregation(), (COUNT,), (0, 3))])
    assert told(groups, [Row(("a",), epoch=3)], 0) == {
        (None, 0): {("a", None): ((1,), (2,), "")},
        (None, 3): {("a", None): (None, (1,), "")},
    }


def test_the_rows_of_an_epoch_without_readers_go_to_the_older_queries():
    groups = built(Reader(aggregation(), (COUNT,), (0, 3)))
    told(groups, [Row(("a",), epoch=3)], 0)
    groups.build([Reader(aggregation(), (COUNT,), (0,))])
    groups.check()
    assert groups.snapshot()["entries"] == 1
    assert told(groups, [Row(("a",), epoch=3)], 0) == {(None, 0): {("a", None): ((1,), (2,), "")}}


def test_what_readers_changed_between_rounds_is_saved_with_the_next_round_and_no_more():
    groups = built(Reader(aggregation(), (COUNT,), (0, 3)))
    told(groups, [Row(("a",), epoch=3)], 0)
    groups.build([Reader(aggregation(), (COUNT,), (0,))])
    told(groups, [], 0, commit=False)
    saved = groups.save()
    assert saved.select(["k", "#epoch", "#gone"]).to_pylist() == [
        {"k": "a", "#epoch": 3, "#gone": True},
        {"k": "a", "#epoch": 0, "#gone": False},
    ]
    groups.commit()
    told(groups, [], 0, commit=False)
    assert groups.save() is None


def test_what_no_query_reads_any_more_is_gone():
    groups = built(Reader(aggregation(), (COUNT,), (0,)), Reader(aggregation(10), (COUNT,), (3,)))
    told(groups, [Row(("a",), epoch=0), Row(("b",), epoch=3)], 0)
    groups.build([Reader(aggregation(10), (COUNT,), (3,))])
    assert groups.snapshot()["entries"] == 1
    groups.build([])
    groups.check()
    assert (groups.snapshot()["groups"], groups.whole()) == (0, None)


def test_a_call_that_is_new_counts_from_its_epoch_on():
    groups = built(Reader(aggregation(), (COUNT,), (0,)))
    told(groups, [Row(("a",), 5)], 0)
    groups.build([Reader(aggregation(), (COUNT, SUM), (0, 1))])
    found = told(groups, [Row(("a",), 7, epoch=1)], 0, (COUNT, SUM))
    assert found[None, 1] == {("a", None): (None, (1, 7), "")}
    assert found[None, 0][("a", None)][1][0] == 2


def test_a_thousand_queries_that_join_move_no_state():
    groups = built(Reader(aggregation(), (COUNT,), (0,)))
    told(groups, [Row((f"k{place}",)) for place in range(100)], 0)
    groups.build([Reader(aggregation(), (COUNT,), tuple(range(1_001)))])
    groups.check()
    assert groups.snapshot()["entries"] == 100
    rows = class_rows([Row(("k7",), epoch=1_000)])
    n_told = sum(1 for _ in groups.push(rows, at(0)))
    groups.commit()
    assert (n_told, groups.snapshot()["entries"]) == (1_001, 101)


# ----------------------------------------------------------------------------------------------- keep


def test_a_group_is_forgotten_at_the_instant_its_time_is_over():
    groups = built(Reader(aggregation(10), (COUNT,), (0,)))
    told(groups, [Row(("a",))], 100)
    assert groups.next_deadline() == 110
    assert told(groups, [Row(("b",))], 109) == {(10, 0): {("b", None): (None, (1,), "")}}
    assert told(groups, [], 110) == {(10, 0): {("a", None): ((1,), None, "forgotten")}}
    assert groups.next_deadline() == 119
    assert told(groups, [], 118) == {}


def test_a_group_that_is_due_starts_anew_from_the_rows_of_the_round():
    groups = built(Reader(aggregation(10), (SUM,), (0,)))
    told(groups, [Row(("a",), 1)], 100, (SUM,))
    assert told(groups, [Row(("a",), 5)], 200, (SUM,)) == {(10, 0): {("a", None): ((1,), (5,), "")}}
    assert groups.next_deadline() == 210


def test_queries_that_keep_groups_for_different_times_do_not_disturb_each_other():
    groups = built(*[Reader(aggregation(keep), (COUNT,), (0,)) for keep in (None, 10, 20)])
    told(groups, [Row(("a",))], 0)
    assert told(groups, [Row(("a",))], 15) == {
        (None, 0): {("a", None): ((1,), (2,), "")},
        (20, 0): {("a", None): ((1,), (2,), "")},
    }
    assert told(groups, [], 25) == {(10, 0): {("a", None): ((1,), None, "forgotten")}}


def test_a_log_of_what_was_seen_is_as_long_as_there_are_groups():
    groups = built(Reader(aggregation(10**12), (COUNT,), (0,)))
    rows = class_rows([Row((f"k{place}",)) for place in range(50)])
    for now in range(150):
        list(groups.push(rows, at(now)))
        groups.commit()
        if now == 60:
            n_bytes = groups.nbytes
    groups.check()
    assert groups.nbytes == n_bytes


# ----------------------------------------------------------------------------------------------- the global aggregate


def test_the_global_aggregate_is_there_from_the_first_round_of_each_epoch_on():
    groups = RunningGroups(pa.schema([]))
    of = aggregation(keys=())
    groups.build([Reader(of, (COUNT, SUM), (0,))])
    assert told(groups, [], 0, (COUNT, SUM), n_keys=0) == {(None, 0): {(None,): (None, (0, None), "")}}
    assert told(groups, [], 0, (COUNT, SUM), n_keys=0) == {}
    assert told(groups, [Row((), 4)], 0, (COUNT, SUM), n_keys=0) == {
        (None, 0): {(None,): ((0, None), (1, 4), "")}
    }
    groups.build([Reader(of, (COUNT, SUM), (0, 2))])
    assert told(groups, [], 0, (COUNT, SUM), n_keys=0) == {(None, 2): {(None,): (None, (0, None), "")}}
    groups.build([Reader(of, (COUNT, SUM), (2,))])
    assert told(groups, [Row((), 4, epoch=2)], 0, (COUNT, SUM), n_keys=0) == {
        (None, 2): {(None,): ((0, None), (1, 4), "")}
    }


def test_a_round_that_failed_does_not_begin_the_global_aggregate():
    groups = RunningGroups(pa.schema([]))
    groups.build([Reader(aggregation(keys=()), (COUNT,), (0,))])
    told(groups, [Row((), 1)], 0, n_keys=0, commit=False)
    groups.rollback()
    assert told(groups, [], 0, n_keys=0) == {(None, 0): {(None,): (None, (0,), "")}}


# ----------------------------------------------------------------------------------------------- tables


def test_over_a_table_a_group_leaves_with_its_last_row():
    groups = built(Reader(aggregation(reads_table=True), (COUNT,), (0, 5)), reads_table=True)
    told(groups, [Row(("a",)), Row(("a",))], 0)
    change = {("a", None): ((2,), (1,), "")}
    assert told(groups, [Row(("a",), sign=-1)], 0) == {(None, 0): change, (None, 5): change}
    assert told(groups, [Row(("a",), sign=-1)], 0)[None, 0] == {("a", None): ((1,), None, "")}
    assert groups.snapshot()["groups"] == 0


def test_over_a_table_a_row_that_comes_and_goes_is_nothing():
    groups = built(Reader(aggregation(reads_table=True), (COUNT,), (0,)), reads_table=True)
    assert told(groups, [Row(("a",)), Row(("a",), sign=-1)], 0) == {}
    assert groups.snapshot()["groups"] == 0


# ----------------------------------------------------------------------------------------------- against brute force


@dataclass
class Recomputed:
    """The groups that a query of one epoch sees, with all their rows."""

    keep_us: int | None
    epoch: int
    rows: dict = field(default_factory=dict)
    seen: dict = field(default_factory=dict)

    def push(self, rows, now_us):
        """By group the rows before and after the round, and why it left."""
        before, why = deepcopy(self.rows), ""
        if self.keep_us is not None:
            why = "forgotten"
            for key in [key for key, seen in self.seen.items() if now_us >= seen + self.keep_us]:
                del self.rows[key], self.seen[key]
        for row in rows:
            if row.epoch >= self.epoch:
                self.rows.setdefault(row.key, []).append(row)
                self.seen[row.key] = now_us
        found = {}
        for key in before.keys() | self.rows.keys():
            sides = [values_of(g[key], ALL_CALLS) if key in g else None for g in (before, self.rows)]
            if sides[0] != sides[1]:
                found[key, None] = (*sides, why if sides[1] is None else "")
        return {(*key, window): change for (key, window), change in found.items()}

    def answer(self):
        return {(*key, None): values_of(rows, ALL_CALLS) for key, rows in self.rows.items()}


@pytest.mark.parametrize("seed", seeds(20))
def test_random_rounds_answer_as_if_everything_were_recomputed(seed):
    chosen = random.Random(seed)
    keeps = chosen.sample([None, 3, 10], chosen.randint(1, 3))
    alive = {(keep, 0): Recomputed(keep, 0) for keep in keeps}
    version, now, arrival, saved = 0, 100, 0, []

    def readers():
        epochs = {keep: sorted(e for k, e in alive if k == keep) for keep in {k for k, _ in alive}}
        return [Reader(aggregation(keep), ALL_CALLS, tuple(e)) for keep, e in epochs.items()]

    groups = built(*readers())
    for _ in range(25):
        if chosen.random() < 0.25:
            version += 1
            for name in [name for name in alive if chosen.random() < 0.35]:
                del alive[name]
            for keep in chosen.sample(keeps, chosen.randint(0, len(keeps))):
                alive[keep, version] = Recomputed(keep, version)
            groups.build(readers())
            groups.check()
        now += chosen.choice([0, 1, 2, 5])
        rows = []
        for _ in range(chosen.choice([0, 1, 5])):
            arrival += 1
            epoch = version if chosen.random() < 0.7 else chosen.randint(0, version)
            x, y = chosen.choice([None, 1, -2]), chosen.choice([None, 0.5, 1.5])
            rows.append(Row((chosen.choice(["a", "b", "c", None]),), x, y, None, epoch, 1, arrival))
        if chosen.random() < 0.2:
            told(groups, rows, now, ALL_CALLS, commit=False)
            groups.rollback()
            groups.check()
        expected = {name: found for name, query in alive.items() if (found := query.push(rows, now))}
        assert told(groups, rows, now, ALL_CALLS, commit=False) == expected
        for (keep, epoch), query in alive.items():
            current = groups.current(aggregation(keep), epoch)
            assert read_answer(current, ALL_CALLS, 1) == query.answer()
        if (part := groups.save()) is not None:
            saved.append(part)
        groups.commit()
        groups.check()
        if chosen.random() < 0.2:
            if chosen.random() < 0.3:
                saved = [] if (all_of_it := groups.whole()) is None else [all_of_it]
            groups = built(*readers())
            groups.load(saved)
            groups.check()


def changed_table(chosen, held, arrival):
    """Rows that come to a table and rows that leave it, some of both in one round."""
    rows = []
    for _ in range(chosen.choice([0, 1, 5])):
        if held and chosen.random() < 0.5:
            row = held.pop(chosen.randrange(len(held)))
            rows.append(replace(row, sign=-1))
        else:
            x, y = chosen.choice([None, 1, -2]), chosen.choice([None, 0.5, 1.5])
            row = Row(
                (chosen.choice(["a", "b", None]),), x, y, chosen.randint(-9, 9), 0, 1, arrival + len(rows)
            )
            held.append(row)
            rows.append(row)
    return rows


@pytest.mark.parametrize("n_keys", [1, 0])
@pytest.mark.parametrize("seed", seeds(2))
def test_random_changes_of_a_table_answer_as_if_its_rows_were_recomputed(seed, n_keys):
    chosen, held, saved, before = random.Random(seed), [], [], {}
    keys = KEYS if n_keys else pa.schema([])
    reader = Reader(aggregation(reads_table=True), ALL_CALLS, (0, 4))
    groups = built(reader, keys=keys, reads_table=True)
    for number in range(25):
        rows = changed_table(chosen, held, 10 * number)
        if chosen.random() < 0.2:
            told(groups, rows, 0, ALL_CALLS, n_keys=n_keys, commit=False)
            groups.rollback()
            groups.check()
        by_key = {} if n_keys else {(None,): []}
        for row in held:
            by_key.setdefault((*row.key[:n_keys], None), []).append(row)
        after = {key: values_of(of_key, ALL_CALLS) for key, of_key in by_key.items()}
        expected = {
            key: (before.get(key), after.get(key), "")
            for key in before.keys() | after.keys()
            if before.get(key) != after.get(key)
        }
        found = told(groups, rows, 0, ALL_CALLS, n_keys=n_keys, commit=False)
        assert found == ({(None, 0): expected, (None, 4): expected} if expected else {})
        assert read_answer(groups.current(reader.aggregation, 4), ALL_CALLS, n_keys) == after
        if (part := groups.save()) is not None:
            saved.append(part)
        groups.commit()
        groups.check()
        before = after
        if chosen.random() < 0.2:
            groups = built(reader, keys=keys, reads_table=True)
            groups.load(saved)
            groups.check()
