"""What tasks hand on of classes of rows: as much as there are keys and slices, whatever happens between plan and commit."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import eddyline
from eddyline.engine.aggregate_parts import PARTS
from eddyline.engine.join_tasks import WANTED
from tests.on_workers import elsewhere, through_tasks

STREAM = "CREATE TABLE s (k INT, v BIGINT, note STRING, ts TIMESTAMP) TBLPROPERTIES (time = 'ts', lateness = '1 day')"
MINUTE = 60_000_000
N_KEYS, N_MINUTES = 100, 6
FORMS = {
    "groups": "SELECT k, count(*) AS n, sum(v) AS total, avg(v * 0.5) AS a, var_pop(v) AS w FROM s GROUP BY k",
    "extremes": "SELECT k, min(v) AS low, max_by(v, ts) AS newest, last(v) AS l FROM s GROUP BY k",
    "windows": "SELECT k, window.start AS at, count(*) AS n FROM s GROUP BY k, window(ts, '3 minutes', '1 minute')",
    "sessions": "SELECT k, session_window.start AS at, count(*) AS n FROM s GROUP BY k, session_window(ts, '30 seconds')",
}


def rows(n: int) -> pa.RecordBatch:
    """All keys at the beginning of each minute, again and again."""
    at = np.arange(n)
    return pa.record_batch(
        {
            "k": pa.array(at % N_KEYS, pa.int32()),
            "v": pa.array(at % 7),
            "note": pa.array(np.char.add("row ", at.astype(str))),
            "ts": pa.array(at // N_KEYS % N_MINUTES * MINUTE).cast(pa.timestamp("us", "UTC")),
        }
    )


def standing(query: Any) -> list[tuple[Any, ...]]:
    """The rows that a query has after all changes."""
    found: Counter[tuple[Any, ...]] = Counter()
    for each in query.latest(100_000):
        found[tuple(each.values())] += -1 if each.change in ("delete", "update_preimage") else 1
    assert set(found.values()) <= {0, 1}, found
    return sorted(+found)


class WatchedTasks:
    """Runs tasks, and measures what each hands on."""

    def __init__(self) -> None:
        self.nbytes: dict[str, list[int]] = {PARTS: [], WANTED: []}

    def __call__(self, tasks: Any) -> Any:
        results = elsewhere(tasks)
        for each in results:
            for kind, file in ((PARTS, each.parts), (WANTED, each.view_rows)):
                self.nbytes[kind].append(0 if file is None else file.nbytes)
        return results


def handed_on(home: Path, text: str, n_rows: int, n_tasks: int) -> tuple[dict[str, list[int]], Any]:
    """Bytes by task, and what a query has in the end."""
    watched = WatchedTasks()
    with through_tasks(eddyline.open(home), watched, n_pieces=n_tasks) as engine:
        engine.sql(STREAM)
        query = engine.query(text, name="q")
        engine.push("s", rows(n_rows))
        return watched.nbytes, standing(query)


@pytest.mark.thorough
@pytest.mark.parametrize("form", FORMS)
def test_ten_times_the_rows_over_the_same_keys_and_slices_are_the_same_bytes(form, tmp_path):
    few, _ = handed_on(tmp_path / "few", FORMS[form], 100_000, 1)
    many, _ = handed_on(tmp_path / "many", FORMS[form], 1_000_000, 1)
    assert few[WANTED] == many[WANTED] == [0]
    assert 0 < many[PARTS][0] <= few[PARTS][0] + N_KEYS
    n_lines = N_KEYS * (N_MINUTES if form in ("windows", "sessions") else 1)
    assert many[PARTS][0] < 200 * n_lines


def test_parts_are_merged_to_what_the_rows_come_to(tmp_path):
    n_rows = 6 * N_KEYS * N_MINUTES
    nbytes, found = handed_on(tmp_path / "home", FORMS["windows"], n_rows, 4)
    assert len([n for n in nbytes[PARTS] if n]) == 4
    # a window of three minutes holds 1, 2 or 3 of the 6 minutes; each minute has a key six times
    counts = [6, 12, 18, 18, 18, 18, 12, 6]
    assert [n for k, _, n in found if k == 0] == counts
    assert len(found) == N_KEYS * len(counts)


def test_a_class_that_is_also_read_by_a_frame_hands_on_its_rows_once(tmp_path):
    watched = WatchedTasks()
    with through_tasks(eddyline.open(tmp_path / "home"), watched, n_pieces=1) as engine:
        engine.sql(STREAM)
        groups = engine.query("SELECT k, count(*) AS n FROM s GROUP BY k", name="groups")
        engine.push("s", rows(200))
        over = engine.query(
            "SELECT k, count(*) OVER (PARTITION BY k ORDER BY ts ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS n FROM s",
            name="over",
        )
        engine.push("s", rows(200))
        assert [n > 0 for n in watched.nbytes[PARTS]] == [True, False]
        assert [n > 0 for n in watched.nbytes[WANTED]] == [False, True]
        assert (
            "    tasks    hand on rows: another query of the class has OVER"
            in str(groups.explain()).splitlines()
        )
        assert "    tasks    hand on rows: OVER needs each of them" in str(over.explain()).splitlines()
        assert standing(groups) == [(k, 4) for k in range(N_KEYS)]
        assert len(over.latest(1_000)) == 200


def test_a_query_that_comes_while_tasks_work_sees_none_of_their_rows(tmp_path):
    """It brings another window, another aggregate and sessions to the class, which tasks know nothing of."""
    late = {
        "narrow": "SELECT k, window.start AS at, sum(v) AS n FROM s GROUP BY k, window(ts, '20 seconds')",
        "highest": "SELECT k, max(v) AS n FROM s GROUP BY k",
        "visits": "SELECT k, session_window.start AS at, count(*) AS n FROM s GROUP BY k, session_window(ts, '10 seconds')",
    }
    comes = [True]

    def run(tasks: Any) -> Any:
        results = elsewhere(tasks)
        for name, text in late.items() if comes else ():
            engine.query(text, name=name)
        comes.clear()
        return results

    with through_tasks(eddyline.open(tmp_path / "home"), run, n_pieces=2) as engine:
        engine.sql(STREAM)
        wide = engine.query(FORMS["windows"], name="wide")
        engine.push("s", rows(N_KEYS))
        assert not any(engine.get(name).latest(1) for name in late)
        engine.push("s", rows(N_KEYS))
        assert {n for _, _, n in standing(wide)} == {2}
        found = {name: standing(engine.get(name)) for name in late}
        assert {(each[0], each[-1]) for each in found["narrow"]} == {(k, k % 7) for k in range(N_KEYS)}
        assert {(each[0], each[-1]) for each in found["highest"]} == {(k, k % 7) for k in range(N_KEYS)}
        assert {each[-1] for each in found["visits"]} == {1}


@pytest.mark.parametrize("form", ["groups", "windows", "sessions"])
def test_a_limit_of_groups_keeps_those_that_begin_first_and_counts_rows_not_lines(form, tmp_path):
    found = []
    for place in ("here", "tasks"):
        engine = eddyline.open(tmp_path / place, groups=7)
        with through_tasks(engine, n_pieces=3) if place == "tasks" else engine:
            engine.sql(STREAM)
            query = engine.query(FORMS[form], name="q")
            for first in (0, 5):
                engine.push("s", rows(300).slice(first, 4))
            engine.push("s", rows(300))
            (facts,) = engine.explain_aggregates()
            found.append((standing(query), [each["n_refused"] for each in facts["structures"]]))
    assert found[0] == found[1]
    assert {each[0] for each in found[0][0]} == {0, 1, 2, 3, 5, 6, 7}
    assert found[0][1] == [1 + 3 * (N_KEYS - 7)]  # key 8 in the second round


def test_no_file_of_parts_is_left_behind_by_rounds_that_commit_or_fail(tmp_path):
    class Stop(Exception):
        pass

    def stop(step: str) -> None:
        if step == "4 commit":
            raise Stop

    with through_tasks(eddyline.open(tmp_path / "home"), n_pieces=3) as engine:
        engine.sql(STREAM)
        query = engine.query(FORMS["groups"], name="q")
        engine.push("s", rows(300))
        engine.rounds.at_step = stop
        with pytest.raises(Stop):
            engine.push("s", rows(300))
        engine.rounds.at_step = lambda step: None
        assert not list((tmp_path / "home" / "store" / PARTS).iterdir())
        engine.push("s", rows(300))
        assert {each[1] for each in standing(query)} == {6}
