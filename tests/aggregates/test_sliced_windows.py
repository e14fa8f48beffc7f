"""Windows answer as if all rows were kept and every window recomputed each round, whatever slices they share."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pytest

from eddyline.aggregates import Reader, RoundTime, SlicedWindows
from eddyline.model import Aggregation, TimeWindow
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
MINUTE = 60_000_000


def aggregation(size, slide=None, offset=0, *, is_final=False, reads_table=False):
    window = TimeWindow(size, slide or size, offset)
    name = f"{window} {is_final}"
    return Aggregation(name, "rows", ("k",), window=window, is_final=is_final, reads_table=reads_table)


def built(*readers, reads_table=False):
    windows = SlicedWindows(KEYS, reads_table=reads_table)
    windows.build(readers)
    return windows


def told(windows, rows, before_us, after_us, calls=(COUNT,), *, commit=True):
    """By aggregation and epoch what a round tells: changes, and what closes."""
    found = {}
    for of, changes in windows.push(class_rows(rows), RoundTime(0, before_us, after_us)):
        place = found.setdefault((of, changes.epoch), {})
        assert changes.reason not in place, "told in two parts"
        place[changes.reason] = read_changes(changes, calls, 1)
    if commit:
        windows.commit()
        windows.check()
    return found


def test_a_row_is_told_in_every_window_that_holds_it():
    of = aggregation(10, 5)
    windows = built(Reader(of, (COUNT,), (0,)))
    assert told(windows, [Row(("a",), time=-1), Row(("a",), time=5)], None, None) == {
        (of, 0): {
            "": {
                ("a", (-10, 0)): (None, (1,)),
                ("a", (-5, 5)): (None, (1,)),
                ("a", (0, 10)): (None, (1,)),
                ("a", (5, 15)): (None, (1,)),
            }
        }
    }


def test_late_rows_and_rows_without_time_are_left_out():
    windows = built(Reader(aggregation(10), (COUNT,), (0,)))
    assert told(windows, [Row(("a",), time=3, is_late=True), Row(("a",))], 5, 5) == {}
    assert windows.snapshot()["groups"] == 0


def test_a_final_window_is_told_once_with_the_rows_of_the_round_that_closes_it():
    of = aggregation(10, is_final=True)
    windows = built(Reader(of, (SUM,), (0,)))
    assert told(windows, [Row(("a",), 1, time=3)], None, 9, (SUM,)) == {}
    assert told(windows, [Row(("a",), 2, time=9), Row(("a",), 4, time=10)], 9, 10, (SUM,)) == {
        (of, 0): {"": {("a", (0, 10)): (None, (3,))}}
    }
    assert told(windows, [], 10, 10, (SUM,)) == {}
    assert told(windows, [], 10, 100, (SUM,)) == {(of, 0): {"": {("a", (10, 20)): (None, (4,))}}}
    assert windows.snapshot()["slices"] == 0


def test_a_window_of_changes_that_closes_shows_its_last_row_and_leaves():
    of = aggregation(10)
    windows = built(Reader(of, (COUNT,), (0,)))
    assert told(windows, [Row(("a",), time=3)], None, 10) == {
        (of, 0): {"": {("a", (0, 10)): (None, (1,))}, "closed": {("a", (0, 10)): ((1,), None)}}
    }
    assert (windows.snapshot()["slices"], windows.snapshot()["groups"]) == (0, 0)


def test_a_first_answer_has_the_windows_that_were_open_before_the_round():
    of = aggregation(10)
    windows = built(Reader(of, (COUNT,), (0,)))
    told(windows, [Row(("a",), time=3), Row(("a",), time=13)], None, 5)
    told(windows, [Row(("b",), time=14)], 5, 12, commit=False)
    assert read_answer(windows.current(of, 0), (COUNT,), 1) == {
        ("a", (0, 10)): (1,), ("a", (10, 20)): (1,), ("b", (10, 20)): (1,),
    }  # fmt: skip
    windows.commit()
    told(windows, [], 12, 12, commit=False)
    assert list(read_answer(windows.current(of, 0), (COUNT,), 1)) == [("a", (10, 20)), ("b", (10, 20))]


def test_a_window_that_is_new_reads_no_older_slices():
    wide, narrow = aggregation(10), aggregation(4, offset=1)
    windows = built(Reader(wide, (COUNT,), (0,)))
    told(windows, [Row(("a",), time=2)], None, None)
    windows.build([Reader(wide, (COUNT,), (0,)), Reader(narrow, (COUNT,), (1,))])
    assert told(windows, [Row(("a",), time=2, epoch=1), Row(("a",), time=6, epoch=1)], None, None) == {
        (wide, 0): {"": {("a", (0, 10)): ((1,), (3,))}},
        (narrow, 1): {"": {("a", (1, 5)): (None, (1,)), ("a", (5, 9)): (None, (1,))}},
    }


def test_slices_that_only_a_dropped_window_held_open_leave_with_it():
    short, long = aggregation(10), aggregation(1_000)
    windows = built(Reader(short, (COUNT,), (0,)), Reader(long, (COUNT,), (0,)))
    told(windows, [Row(("a",), time=3)], None, 50)
    assert windows.snapshot()["slices"] == 1
    windows.build([Reader(short, (COUNT,), (0,))])
    windows.check()
    assert windows.snapshot()["slices"] == 0


def test_slices_that_only_older_queries_of_a_window_held_open_leave_with_them():
    short, long = aggregation(10), aggregation(1_000)
    windows = built(Reader(short, (COUNT,), (0,)), Reader(long, (COUNT,), (0, 1)))
    told(windows, [Row(("a",), time=3, epoch=0)], None, 50)
    windows.build([Reader(short, (COUNT,), (0,)), Reader(long, (COUNT,), (1,))])
    windows.check()
    assert windows.snapshot()["slices"] == 0


def test_a_round_that_failed_closes_nothing():
    of = aggregation(10)
    windows = built(Reader(of, (COUNT,), (0,)))
    told(windows, [Row(("a",), time=3)], None, None)
    told(windows, [], 0, 10, commit=False)
    windows.rollback()
    assert told(windows, [], None, 10) == {(of, 0): {"closed": {("a", (0, 10)): ((1,), None)}}}


def test_a_round_that_failed_counts_for_nothing():
    windows = built(Reader(aggregation(10, 5), (COUNT,), (0,)))
    told(windows, [Row(("a",), time=3), Row(("a",), time=7)], None, None)
    before = [windows.snapshot()[name] for name in ("rows", "updates", "combines")]
    told(windows, [Row(("a",), time=8)], None, None, commit=False)
    assert [windows.snapshot()[name] for name in ("rows", "updates", "combines")] > before
    windows.rollback()
    assert [windows.snapshot()[name] for name in ("rows", "updates", "combines")] == before


def test_slices_that_were_loaded_and_have_no_window_any_more_leave_with_the_next_round():
    short, long = aggregation(10), aggregation(1_000)
    windows = built(Reader(short, (COUNT,), (0,)), Reader(long, (COUNT,), (0,)))
    told(windows, [Row(("a",), time=3)], None, 50)
    again = built(Reader(short, (COUNT,), (0,)))
    again.load([windows.whole()])
    assert told(again, [], 50, 50) == {}
    assert again.snapshot()["slices"] == 0


def test_old_slices_are_not_kept_for_windows_that_came_later():
    short, long = aggregation(10), aggregation(1_000)
    windows = built(Reader(short, (COUNT,), (0,)))
    told(windows, [Row(("a",), time=3)], None, None)
    windows.build([Reader(short, (COUNT,), (0,)), Reader(long, (COUNT,), (1,))])
    told(windows, [Row(("a",), time=4, epoch=1)], None, 10)
    assert windows.snapshot()["slices"] == 1


def test_over_a_table_nothing_is_late_and_nothing_closes():
    of = aggregation(10, reads_table=True)
    windows = built(Reader(of, (COUNT,), (0, 2)), reads_table=True)
    appeared = {"": {("a", (0, 10)): (None, (1,))}}
    assert told(windows, [Row(("a",), time=3, is_late=True)], 500, 600) == {
        (of, 0): appeared,
        (of, 2): appeared,
    }
    assert told(windows, [Row(("a",), time=3, sign=-1)], 600, 700)[of, 0] == {
        "": {("a", (0, 10)): ((1,), None)}
    }
    assert (windows.snapshot()["slices"], windows.snapshot()["groups"]) == (0, 0)


# ----------------------------------------------------------------------------------------------- counts


def one_row_a_minute(specs, n_minutes, *, n_together=5):
    """Final windows after rows in order, some minutes a round."""
    windows = built(*[Reader(aggregation(*spec, is_final=True), (COUNT,), (0,)) for spec in specs])
    watermark = None
    for begin in range(0, n_minutes, n_together):
        rows = [Row(("a",), time=minute * MINUTE) for minute in range(begin, begin + n_together)]
        list(windows.push(class_rows(rows), RoundTime(0, watermark, rows[-1].time)))
        windows.commit()
        watermark = rows[-1].time
    windows.check()
    return windows


def minutes(*pairs):
    return [(size * MINUTE, slide * MINUTE) for size, slide in pairs]


@pytest.mark.parametrize(
    ("specs", "n_slices"),
    [
        (minutes((1, 1), (5, 1), (10, 2), (15, 5), (60, 10)), 60),
        (minutes((10, 2), (15, 5), (60, 10)), 36),
        (minutes((10, 3)), 40),
        ([(n * s * MINUTE, s * MINUTE) for s in (1, 2, 5, 10, 15, 30) for n in range(1, 13)], 60),
    ],
)
def test_slices_of_an_hour_are_as_many_as_there_are_edges_in_it(specs, n_slices):
    readers = [Reader(aggregation(*spec), (COUNT,), (0,)) for spec in specs]
    windows = built(*readers)
    rows = class_rows(
        [Row(("a",), time=10**15 + s * 1_000_000) for s in range(-(10**15) % MINUTE // 10**6, 7_200, 10)]
    )
    windows._feed(rows)
    starts = windows._order.start[windows._slices.new]
    first = starts.min() // (60 * MINUTE) * 60 * MINUTE + 60 * MINUTE
    assert ((starts >= first) & (starts < first + 60 * MINUTE)).sum() == n_slices
    assert windows.snapshot()["rows"] == len(rows)
    assert windows.snapshot()["updates"] == len(
        rows
    )  # a row goes into one slice, however many windows hold it
    windows.rollback()


@pytest.mark.parametrize(("size", "slide"), [(60, 10), (60, 1), (10, 2)])
def test_a_slice_is_combined_less_than_three_times_for_windows_that_close(size, slide):
    n_minutes = 300
    alone = one_row_a_minute(minutes((1, 1)), n_minutes).snapshot()["combines"]
    shared = one_row_a_minute(minutes((1, 1), (size, slide)), n_minutes).snapshot()["combines"]
    assert alone == 0
    assert 1.5 < shared / n_minutes < 3


def test_changes_of_windows_with_many_slices_are_combined_by_stacks():
    readers = [Reader(aggregation(600, 1), (COUNT,), (0,))]
    windows = built(*readers)
    told(windows, [Row(("a",), time=t) for t in range(600)], None, None)
    before = windows.snapshot()["combines"]
    changed = told(windows, [Row(("a",), time=300)], None, None)
    assert len(changed[readers[0].aggregation, 0][""]) == 600
    assert windows.snapshot()["combines"] - before < 2 * 3 * 1_200


# ----------------------------------------------------------------------------------------------- against brute force


def holding(window, time):
    """Windows that hold a time, by definition."""
    first = (time - window.offset_us - window.size_us) // window.slide_us
    starts = [
        window.offset_us + k * window.slide_us
        for k in range(first - 1, first + window.size_us // window.slide_us + 4)
    ]
    return [(start, start + window.size_us) for start in starts if start <= time < start + window.size_us]


@dataclass
class Recomputed:
    """What a query of one epoch has seen: all rows that took part."""

    of: Aggregation
    epoch: int
    rows: list = field(default_factory=list)

    def answer(self):
        by_window = {}
        for row in self.rows:
            for window in holding(self.of.window, row.time):
                by_window.setdefault((*row.key, window), []).append(row)
        return {entry: values_of(rows, ALL_CALLS) for entry, rows in by_window.items()}

    def push(self, rows, before_us, after_us):
        """What is told, and the answer of windows that were open before."""
        before = self.answer()
        for row in rows:
            takes_part = row.time is not None and row.epoch >= self.epoch and not row.is_late
            if takes_part and row.sign > 0:
                self.rows.append(row)
            elif takes_part:
                self.rows.remove(Row(**{**row.__dict__, "sign": 1}))
        after = self.answer()
        low = float("-inf") if before_us is None else before_us
        closing = {e: v for e, v in after.items() if after_us is not None and low < e[1][1] <= after_us}
        changed = {
            entry: (before.get(entry), after.get(entry))
            for entry in before.keys() | after.keys()
            if before.get(entry) != after.get(entry)
        }
        if self.of.is_final:
            found = {"": {e: (None, v) for e, v in closing.items()}}
        else:
            found = {"": changed, "closed": {e: (v, None) for e, v in closing.items()}}
        opened = {entry: values for entry, values in after.items() if entry[1][1] > low}
        return {reason: part for reason, part in found.items() if part}, opened


def random_window(chosen):
    slide = chosen.choice([1, 3, 4, 10])
    size = slide if chosen.random() < 0.3 else slide + chosen.randint(0, 3 * slide)
    return size, slide, chosen.randint(-slide + 1, slide - 1)


@pytest.mark.parametrize("seed", seeds(20))
def test_random_rounds_answer_as_if_every_window_were_recomputed(seed, monkeypatch):
    chosen = random.Random(seed)
    monkeypatch.setattr("eddyline.aggregates.slice_store.FEW_SLICES", chosen.choice([0, 2, 16]))
    alive, version, arrival, saved, watermark, largest = {}, 0, 0, [], None, chosen.randint(-50, 0)

    def add(n):
        for _ in range(n):
            old = chosen.choice([*alive.values(), None])
            is_final = chosen.random() < 0.5
            spec = random_window(chosen)
            if old is not None and chosen.random() < 0.5:
                spec = old.of.window.size_us, old.of.window.slide_us, old.of.window.offset_us
            of = aggregation(*spec, is_final=is_final)
            alive[of, version] = Recomputed(of, version)

    def readers():
        epochs = {}
        for of, epoch in alive:
            epochs.setdefault(of, []).append(epoch)
        return [Reader(of, ALL_CALLS, tuple(sorted(e))) for of, e in epochs.items()]

    add(2)
    windows = built(*readers())
    for _ in range(25):
        if chosen.random() < 0.25:
            version += 1
            for name in [name for name in alive if chosen.random() < 0.35]:
                del alive[name]
            add(chosen.randint(0, 2))
            windows.build(readers())
            windows.check()
        rows = []
        for _ in range(chosen.choice([0, 1, 6])):
            arrival += 1
            time = None if chosen.random() < 0.1 else largest + chosen.randint(-12, 6)
            is_late = time is not None and watermark is not None and time < watermark
            epoch = version if chosen.random() < 0.7 else chosen.randint(0, version)
            x, y = chosen.choice([None, 1, -2]), chosen.choice([None, 0.5, 1.5])
            rows.append(Row((chosen.choice(["a", "b", None]),), x, y, time, epoch, 1, arrival, is_late))
        if chosen.random() < 0.1:
            largest += 40
        largest = max([largest, *(row.time for row in rows if row.time is not None)])
        after = largest - 8 if watermark is not None or rows else None
        if after is not None and watermark is not None:
            after = max(after, watermark)
        if chosen.random() < 0.2:
            told(windows, rows, watermark, after, ALL_CALLS, commit=False)
            windows.rollback()
            windows.check()
        expected, answers = {}, {}
        for name, query in alive.items():
            found, answers[name] = query.push(rows, watermark, after)
            if found:
                expected[name] = found
        assert told(windows, rows, watermark, after, ALL_CALLS, commit=False) == expected
        for (of, epoch), found in answers.items():
            if not of.is_final:
                assert read_answer(windows.current(of, epoch), ALL_CALLS, 1) == found
        if (part := windows.save()) is not None:
            saved.append(part)
        windows.commit()
        windows.check()
        watermark = after
        if chosen.random() < 0.2:
            if chosen.random() < 0.3:
                saved = [] if (all_of_it := windows.whole()) is None else [all_of_it]
            windows = built(*readers())
            windows.load(saved)
            windows.check()


@pytest.mark.parametrize("seed", seeds(2))
def test_random_changes_of_a_table_answer_as_if_every_window_were_recomputed(seed, monkeypatch):
    chosen, held, saved = random.Random(seed), [], []
    monkeypatch.setattr("eddyline.aggregates.slice_store.FEW_SLICES", chosen.choice([0, 16]))
    alive = {
        of: Recomputed(of, 0)
        for of in (aggregation(*random_window(chosen), reads_table=True) for _ in range(2))
    }
    readers = [Reader(of, ALL_CALLS, (0,)) for of in alive]
    windows = built(*readers, reads_table=True)
    for number in range(20):
        rows = []
        for _ in range(chosen.choice([0, 1, 5])):
            if held and chosen.random() < 0.5:
                rows.append(replace(held.pop(chosen.randrange(len(held))), sign=-1))
            else:
                time = chosen.choice([None, *range(-15, 15)])
                row = Row(
                    (chosen.choice(["a", None]),),
                    chosen.choice([None, 1, -2]),
                    0.5,
                    time,
                    0,
                    1,
                    10 * number + len(rows),
                )
                held.append(row)
                rows.append(row)
        if chosen.random() < 0.2:
            told(windows, rows, 0, 99, ALL_CALLS, commit=False)
            windows.rollback()
            windows.check()
        expected = {}
        for of, query in alive.items():
            found, _ = query.push(rows, None, None)
            if found:
                expected[of, 0] = found
        assert told(windows, rows, 0, 99, ALL_CALLS, commit=False) == expected
        for of, query in alive.items():
            assert read_answer(windows.current(of, 0), ALL_CALLS, 1) == query.answer()
        if (part := windows.save()) is not None:
            saved.append(part)
        windows.commit()
        windows.check()
        if chosen.random() < 0.2:
            windows = built(*readers, reads_table=True)
            windows.load(saved)
            windows.check()
