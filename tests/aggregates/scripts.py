"""Scripts of aggregates, as `vectors/aggregates.json` has them, run by an engine: streams, queries, pushes, ticks, churn.

`FEATURES` says what the engine has built. A script that needs more is not run.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import eddyline
from tests.aggregates.reference_sql import QueryText, has_now, read_stream
from tests.aggregates.written_values import differences, python_row, written, written_instant, written_row

ALL_FEATURES = frozenset(
    ("running", "windows", "final", "sessions", "over", "temporal", "absence", "tables", "views", "joins", "keep", "nested")
)  # fmt: skip
FEATURES = ALL_FEATURES  # that the engine has
REFUSES = True  # whether it refuses what has no meaning, whatever is built


def deadline_us(engine: eddyline.Engine) -> int | None:
    """The engine's next deadline in microseconds: it is compared with that of the script."""
    return engine.rounds.flow.next_deadline()


Case = Mapping[str, Any]
VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "aggregates.json").read_text())
MICROSECOND = datetime.timedelta(microseconds=1)
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def all_queries(case: Case) -> Iterator[Mapping[str, Any]]:
    yield from case["queries"]
    yield from (step["add"] for step in case["steps"] if "add" in step)


def features(case: Case) -> set[str]:
    """What an engine must have to run a case; nothing if all its queries are selections."""
    streams = {stream.name: stream for stream in map(read_stream, case["streams"])}
    texts = {q["name"]: QueryText(q["sql"], q.get("properties") or {}) for q in all_queries(case)}
    found = set()
    for text in (part for whole in texts.values() for part in whole.parts()):
        sources = list(text.sources.values())
        views = [texts[name] for name in sources if name not in streams]
        has = {
            "tables": text.is_grouped
            and not text.nested
            and all(name in streams and streams[name].key for name in sources),
            "views": bool(views) and bool(text.calls or any(view.calls for view in views)),
            "joins": bool(text.calls) and len(sources) > 1,
            "final": text.is_final,
            "keep": text.keep is not None,
            "nested": bool(text.nested),
            "sessions": text.window is not None and text.window.is_session,
            "windows": text.window is not None and not text.window.is_session,
            "over": bool(text.calls) and not text.is_grouped,
            "temporal": text.is_grouped and has_now(text.where),
            "absence": has_now(text.having),
            "running": text.is_grouped and text.window is None,
        }
        found |= {name for name, is_needed in has.items() if is_needed}
    return found


def is_built(case: Case) -> bool:
    return features(case) <= FEATURES


class ScriptRun:
    """One engine, and what it told in each step of a case."""

    def __init__(self, case: Case, make_engine: Callable[..., eddyline.Engine] = eddyline.open) -> None:
        self._case = case
        self._now_us = 0
        self.engine = make_engine(clock=lambda: self._now_us)
        self._streams = {stream.name: stream for stream in map(read_stream, case["streams"])}
        self._pushed: dict[str, list[tuple[int, dict[str, Any]]]] = {name: [] for name in self._streams}
        self.texts: dict[str, QueryText] = {}
        self._last_round = 0
        self._queries: dict[str, eddyline.Query] = {}
        for text in case["streams"]:
            self.engine.sql(text)
        for query in case["queries"]:
            self._add(query)

    def run(self) -> dict[str, Any]:
        """`expected`, `dead`, `late` and `deadlines` as the engine has them."""
        expected, dead, deadlines = [], [], []
        for step in self._case["steps"]:
            is_round = self._step(step)
            expected.append(dict(self._told()) if is_round else {})
            dead.append(self._letters())
            deadlines.append(deadline_us(self.engine) if is_round else None)
        late = {handle.name: handle.n_late for handle in self.engine.streams() if handle.n_late}
        return {"expected": expected, "dead": dead, "late": late, "deadlines": deadlines}

    def _step(self, step: Case) -> bool:
        """Does one step; whether it is a round."""
        if "add" in step:
            self._add(step["add"])
        elif "drop" in step:
            self.engine.drop(step["drop"])
            del self._queries[step["drop"]]
        elif "tick" in step:
            self._now_us = _micros(step["tick"])
            self.engine.tick()
        else:
            self._now_us = _micros(step["now"])
            self.engine.push({name: self._rows(name, rows) for name, rows in step["push"].items()})
        return "tick" in step or "push" in step

    def _add(self, query: Mapping[str, Any]) -> None:
        properties = query.get("properties") or {}
        self.texts[query["name"]] = QueryText(query["sql"], properties)
        self._queries[query["name"]] = self.engine.query(query["sql"], name=query["name"], **properties)

    def _rows(self, stream: str, rows: list[list[Any]]) -> list[dict[str, Any]]:
        columns = self._streams[stream].columns
        values = [dict(zip(columns, python_row(row[1:], columns), strict=True)) for row in rows]
        self._pushed[stream] += [(row[0], each) for row, each in zip(rows, values, strict=True)]
        return [{"_arrival": row[0], **each} for row, each in zip(rows, values, strict=True)]

    def _told(self) -> Iterator[tuple[str, list[Any]]]:
        for name, query in self._queries.items():
            changes = [[result.change, written_row(result.values())] for result in query.results()]
            if changes:
                yield name, changes

    def _letters(self) -> dict[str, list[Any]]:
        """Dead letters since the last step, by query: of a row its number, of a group its key and window."""
        letters = self.engine.dead_letters()
        new = [letter for letter in letters if letter.round_number > self._last_round]
        self._last_round = max((letter.round_number for letter in letters), default=0)
        found: dict[str, list[Any]] = {}
        for letter in new:
            found.setdefault(letter.query, []).append(self.letter(letter))
        return found

    def letter(self, letter: Any) -> dict[str, Any]:
        """A letter of a group names as many values as GROUP BY has, one of a row all columns of its input."""
        key = {name: written(value) for name, value in letter.row.items()}
        window = key.pop("window", None)
        text = self.texts[letter.query]
        if not any(part.is_grouped and len(key) == len(part.keys) for part in text.parts()):
            return {"arrival": self._arrival(letter)}
        return {"group": list(key.values())} | ({"window": list(window.values())} if window else {})

    def _arrival(self, letter: Any) -> int:
        """The number of a row; one of a table has another there, and is known by its values."""
        stream = self._streams.get(letter.stream)
        if stream is None or not stream.key:
            return letter.arrival
        return max(at for at, row in self._pushed[letter.stream] if row.items() >= letter.row.items())


def _micros(time: str) -> int:
    return (datetime.datetime.fromisoformat(time) - EPOCH) // MICROSECOND


def script_differences(case: Case, run: ScriptRun | None = None) -> list[str]:
    """Where an engine does not tell what a case expects."""
    run = run or ScriptRun(case)
    try:
        found = run.run()
    finally:
        run.engine.close()
    found_late = deadline_differences(case, found["deadlines"])
    return [*differences(case, found), *found_late]


def deadline_differences(case: Case, found: list[int | None]) -> Iterator[str]:
    """An engine may wake too early, never too late, and never at once."""
    limits = case.get("deadlines") or [None] * len(found)
    for number, (step, limit, deadline) in enumerate(zip(case["steps"], limits, found, strict=True)):
        now = step.get("tick") or step.get("now")
        if now is None:
            continue
        is_late = limit is not None and (deadline is None or deadline > _micros(limit))
        if is_late or (deadline is not None and deadline <= _micros(now)):
            at = deadline and written_instant(EPOCH + deadline * MICROSECOND)
            yield f"step {number}: the deadline is {at}, not between {now} and {limit}"
