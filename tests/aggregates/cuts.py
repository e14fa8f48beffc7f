"""Other ways to run a script that must come to the same: rows cut into other rounds (laws L1 and L2), more ticks (L3).

What is compared is the bag of rows that stands after a round, so the rounds in which rows were told may differ.
"""

from __future__ import annotations

import datetime
import itertools
import random
from collections.abc import Iterator, Mapping
from typing import Any

from tests.aggregates.reference_sql import QueryText, duration, has_now, read_stream
from tests.aggregates.scripts import Case, all_queries
from tests.aggregates.written_values import folded, python_row, without_equals, written_instant

EXTRA = "extra"  # marks a tick that the script does not have
Steps = list[dict[str, Any]]


def allows_cuts(case: Case) -> bool:
    """Whether no cut makes a row late, and no query depends on the times of rounds."""
    texts = [QueryText(query["sql"], query.get("properties") or {}) for query in all_queries(case)]
    if any(has_now(text.tree) or text.keep is not None for text in texts):
        return False
    return all(_stays_in_time(case, read_stream(text)) for text in case["streams"])


def _stays_in_time(case: Case, stream: Any) -> bool:
    time = stream.properties.get("time")
    if time is None or stream.key:
        return True
    lateness, at = duration(stream.properties.get("lateness", "0 seconds")), list(stream.columns).index(time)
    largest = None
    for step in case["steps"]:
        for row in step.get("push", {}).get(stream.name, []):
            ts = python_row(row[1:], stream.columns)[at]
            if ts is not None:
                if largest is not None and ts < largest - lateness:
                    return False
                largest = ts if largest is None else max(largest, ts)
    return True


def closed_segments(case: Case) -> dict[str, Any]:
    """The same script with a tick before and after each group of controls: all cuts have a boundary there."""
    steps = [step for segment in _segments(case) for step in (*segment, *_closing(segment))]
    return {**case, "steps": steps}


def recut(case: Case, rng: random.Random) -> dict[str, Any]:
    """The same rows in other rounds: cut anew between the places where queries come and go."""
    steps: Steps = []
    for segment in _segments(case):
        rows = sorted(_rows(segment), key=lambda row: row[1][0])
        if rows:
            now = next(step["now"] for step in segment if "push" in step)
            n_cuts = rng.randint(0, min(len(rows), 4))
            points = sorted(rng.randint(0, len(rows)) for _ in range(n_cuts))
            for start, end in itertools.pairwise([0, *points, len(rows)]):
                steps.append({"push": _by_stream(rows[start:end], segment), "now": now})
        else:
            steps += segment
        steps += _closing(segment)
    return {**case, "steps": steps}


def _segments(case: Case) -> Iterator[Steps]:
    """Controls stand alone, rounds between them together."""
    for is_control, steps in itertools.groupby(case["steps"], lambda step: "add" in step or "drop" in step):
        found = [dict(step) for step in steps]
        yield from ([step] for step in found) if is_control else [found]


def _closing(segment: Steps) -> Steps:
    now = segment[-1].get("tick") or segment[-1].get("now")
    return [{"tick": now, EXTRA: True}] if now else []


def _rows(segment: Steps) -> Iterator[tuple[str, list[Any]]]:
    for step in segment:
        for stream, rows in step.get("push", {}).items():
            yield from ((stream, row) for row in rows)


def _by_stream(rows: list[tuple[str, list[Any]]], segment: Steps) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {stream: [] for step in segment for stream in step.get("push", {})}
    for stream, row in rows:
        found[stream].append(row)
    return found


def with_ticks(case: Case, rng: random.Random) -> dict[str, Any]:
    """The same script with ticks between its rounds."""
    steps: Steps = []
    for step in case["steps"]:
        now, last = step.get("tick") or step.get("now"), _last_time(steps)
        while now and last and rng.random() < 0.5:
            last = _between(last, now, rng)
            steps.append({"tick": last, EXTRA: True})
        steps.append(dict(step))
    return {**case, "steps": steps}


def _last_time(steps: Steps) -> str | None:
    return next((t for step in reversed(steps) if (t := step.get("tick") or step.get("now"))), None)


def _between(first: str, last: str, rng: random.Random) -> str:
    start, end = datetime.datetime.fromisoformat(first), datetime.datetime.fromisoformat(last)
    return written_instant(start + (end - start) * rng.choice([0, 0.25, 0.5, 1]))


# --------------------------------------------------------------------------------------------- standing rows


def standing(case: Case, found: Mapping[str, Any], *, at_extra: bool) -> list[dict[str, list[Any]]]:
    """By query the rows that stand after the rounds both ways have: ticks that were added, or all that were not."""
    bags, told = [], {}
    for step, changes in zip(case["steps"], found["expected"], strict=True):
        if "drop" in step:
            told.pop(step["drop"], None)
        for query, rows in changes.items():
            told[query] = [["insert", row] for row in folded([told.get(query, []), rows])]
        if ("tick" in step or "push" in step) and bool(step.get(EXTRA)) is at_extra:
            bags.append({query: [row for _, row in rows] for query, rows in told.items()})
    return bags


def standing_differences(
    left: list[dict[str, list[Any]]], right: list[dict[str, list[Any]]]
) -> list[tuple[int, str, list[Any], list[Any]]]:
    """Boundary, query, and the rows that only one side has."""
    found = []
    for at, (one, other) in enumerate(zip(left, right, strict=True)):
        for query in sorted({*one, *other}):
            missing, extra = without_equals(one.get(query, []), other.get(query, []))
            if missing or extra:
                found.append((at, query, missing, extra))
    return found
