"""Running a script on an engine and comparing what happens with what it says."""

from __future__ import annotations

import datetime
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from eddyline.api import Engine, Matches, Query, open_engine
from eddyline.documents import change_mark
from eddyline.errors import EddylineError
from eddyline.model import DeadLetter
from eddyline.scripts.text import Expected, ExpectedResult, Script, ScriptError, Step, read_script
from eddyline.scripts.values import is_same, plain, shown, typed

START_US = 1_767_225_600_000_000  # 2026-01-01 00:00:00 UTC: where a script's clock starts


@dataclass(frozen=True, slots=True)
class Difference:
    """Something the engine did that the script does not say, or the other way round."""

    path: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}"


def run_file(path: str | Path, make_engine: Callable[..., Engine] = open_engine) -> list[Difference]:
    """Run the script in a file; an empty list means that everything happened as it says."""
    return run_script(read_script(path), make_engine)


def run_script(script: Script, make_engine: Callable[..., Engine] = open_engine) -> list[Difference]:
    """Run a script on a new engine. `make_engine` takes the arguments `time_zone` and `clock` of `eddyline.open`.

    Differences in results do not stop the script. A command that is refused without `error` does: what follows would mean little.
    """
    runner = _Runner(script, make_engine)
    for step in script.steps:
        if not runner.run(step):
            break
    return runner.differences


class _Runner:
    def __init__(self, script: Script, make_engine: Callable[..., Engine]) -> None:
        self.differences: list[Difference] = []
        self._script = script
        self._now_us = START_US
        self._engine = make_engine(time_zone=script.time_zone, clock=lambda: self._now_us)
        self._readers: dict[int, Query] = {}
        self._last_message = 0

    def run(self, step: Step) -> bool:
        """One step; False if the script cannot go on."""
        try:
            matches = getattr(self, f"_{step.command}")(step)
        except EddylineError as error:
            return self._refused(step, error)
        if step.expected.errors:
            self._differs(step.line, f"{step.command} was accepted, expected error {step.expected.errors[0]}")
        if isinstance(matches, Matches):
            self._compare(step, matches)
        return True

    def _refused(self, step: Step, error: EddylineError) -> bool:
        if not step.expected.errors:
            self._differs(step.line, f"{step.command} was refused\n{_indented(str(error))}")
            return False
        error_text = _one_line(str(error))
        for part in step.expected.errors:
            if _one_line(part) not in error_text:
                self._differs(step.line, f"the error does not say {part!r}\n{_indented(str(error))}")
        return True

    def _differs(self, line: int, message: str) -> None:
        self.differences.append(Difference(self._script.path, line, message))

    # ----------------------------------------------------------------------------------------- commands

    def _stream(self, step: Step) -> None:
        hit = re.fullmatch(r"(\(.*\))\s*(?:time\s+(\S+))?\s*(?:lateness\s+(.+))?", step.text, re.DOTALL)
        if hit is None:
            raise ScriptError(
                f"{self._script.path}:{step.line}: the columns of stream {step.name} cannot be read",
                hint="Write stream NAME (col type, …) [time COL] [lateness 5 seconds].",
            )
        columns, time, lateness = hit.groups()
        properties = [f"{k}='{v}'" for k, v in (("time", time), ("lateness", lateness)) if v]
        suffix = f" TBLPROPERTIES ({', '.join(properties)})" if properties else ""
        self._engine.sql(f"CREATE OR REPLACE TABLE {step.name} {columns}{suffix}")

    def _query(self, step: Step) -> None:
        self._engine.query(step.text, name=step.name, params=step.parameters or None)

    def _queries(self, step: Step) -> None:
        rows = [dict(zip(step.columns, map(plain, row), strict=True)) for row in step.table]
        self._engine.query_many(step.text, params=rows, name=step.name)

    def _replace(self, step: Step) -> None:
        self._engine.replace(step.name, step.text, params=step.parameters or None)

    def _pause(self, step: Step) -> None:
        self._engine.get(step.name).pause()

    def _resume(self, step: Step) -> None:
        self._engine.get(step.name).resume()

    def _drop(self, step: Step) -> None:
        self._engine.drop(step.name)

    def _sql(self, step: Step) -> None:
        self._engine.sql(step.text)

    def _now(self, step: Step) -> None:
        self._now_us = self._instant(step)

    def _tick(self, step: Step) -> Matches:
        if step.when is not None or step.later_us is not None:
            self._now_us = self._instant(step)
        return self._engine.tick()

    def _push(self, step: Step) -> Matches:
        streams = {stream.name.lower(): stream.schema for stream in self._engine.streams()}
        data: dict[str, list[dict[str, Any]]] = {}
        for pushed in step.pushed:
            schema = streams.get(pushed.stream.lower())
            rows: list[dict[str, Any]] = []
            for at, values in enumerate(pushed.rows):
                if schema is None or len(values) != len(schema):
                    n = "unknown" if schema is None else str(len(schema))
                    raise ScriptError(
                        f"{self._script.path}:{step.line}: a row of {pushed.stream} has {len(values)} values, columns: {n}"
                    )
                row = {
                    f.name: typed(v, f.type, self._script.time_zone)
                    for f, v in zip(schema, values, strict=True)
                }
                if pushed.arrival:
                    row["_arrival"] = pushed.arrival[at]
                rows.append(row)
            data[pushed.stream] = rows
        return self._engine.push(data, token=step.token)

    def _instant(self, step: Step) -> int:
        if step.later_us is not None:
            return self._now_us + step.later_us
        if step.when is None:
            raise ScriptError(f"{self._script.path}:{step.line}: now needs a time")
        at = datetime.datetime.fromisoformat(step.when)
        if at.tzinfo is None:
            at = at.replace(tzinfo=ZoneInfo(self._script.time_zone))
        return round(
            (at - datetime.datetime.fromtimestamp(0, datetime.UTC)) / datetime.timedelta(microseconds=1)
        )

    # ----------------------------------------------------------------------------------------- comparing

    def _compare(self, step: Step, matches: Matches) -> None:
        lines = self._result_lines(step.expected)
        dead = [] if matches.is_repeat else self._letters(matches.round_number)
        lines += _death_lines(step.expected, dead)
        if self._script.has_alerts:
            lines += self._alert_lines(step.expected)
        if step.expected.n_late is not None and step.expected.n_late != matches.n_late:
            lines.append(f"late      {matches.n_late} rows, expected {step.expected.n_late}")
        if lines:
            self._differs(step.line, f"{step.command} came out otherwise\n{_indented(chr(10).join(lines))}")

    def _result_lines(self, expected: Expected) -> list[str]:
        """Results that are missing and those not expected, of all queries."""
        by_name: dict[str, list[ExpectedResult]] = {}
        for result in expected.results:
            by_name.setdefault(result.query, []).append(result)
        lines: list[str] = []
        for handle in self._engine.queries(per_page=1_000_000_000):
            reader = self._readers.setdefault(handle.id, handle)
            name = reader.name
            actual = [(change_mark(r.change), tuple(r.values())) for r in reader.results()]
            lines += self._of_query(name, reader, by_name.pop(name, []), actual)
        for name, results in by_name.items():
            lines += [
                f"missing   {name} {r.sign}{shown(r.values)}   (line {r.line}; there is no query {name})"
                for r in results
            ]
        return lines

    def _alert_lines(self, expected: Expected) -> list[str]:
        """Messages of alerts that are missing and those not expected, since the last push or tick."""
        messages = self._engine.messages(after=self._last_message)
        self._last_message = max([self._last_message, *(message.id for message in messages)])
        sent = [(m.query, m.status, shown(list(m.key.values())), m.reason or "") for m in messages]
        lines = []
        for each in expected.alerts:
            found = each.query, each.status, shown(each.key), each.reason
            if found in sent:
                sent.remove(found)
            else:
                lines.append(f"missing   {_alert_words(*found)}   (line {each.line})")
        return lines + [f"not asked {_alert_words(*found)}" for found in sent]

    def _of_query(
        self,
        name: str,
        reader: Query,
        expected: Sequence[ExpectedResult],
        actual: list[tuple[str, tuple[Any, ...]]],
    ) -> list[str]:
        if not expected and not actual:
            return []
        types = [f.type for f in reader.schema]
        lines = []
        for result in expected:
            values = result.values
            if len(values) == len(types):
                values = tuple(
                    typed(v, t, self._script.time_zone) for v, t in zip(values, types, strict=True)
                )
            at = next(
                (k for k, (sign, row) in enumerate(actual) if sign == result.sign and is_same(values, row)),
                None,
            )
            if at is None:
                lines.append(f"missing   {name} {result.sign}{shown(result.values)}   (line {result.line})")
            else:
                del actual[at]
        return lines + [f"not asked {name} {sign}{shown(row)}" for sign, row in actual]

    def _letters(self, round_number: int) -> list[DeadLetter]:
        return [letter for letter in self._engine.dead_letters() if letter.round_number == round_number]


def _death_lines(expected: Expected, letters: list[DeadLetter]) -> list[str]:
    lines = []
    for death in expected.dead:
        found = [
            letter
            for letter in letters
            if letter.query == death.query and death.part in _one_line(f"{letter.error}: {letter.message}")
        ]
        if found:
            letters.remove(found[0])
        else:
            lines.append(f"missing   dead {death.query or ''} : {death.part}   (line {death.line})")
    counted = Counter((letter.query or "", f"{letter.error}: {letter.message}") for letter in letters)
    return lines + [
        f"not asked dead {query}: {_one_line(message)}" + (f" ({n} times)" if n > 1 else "")
        for (query, message), n in counted.items()
    ]


def _alert_words(query: str, status: str, key: str, reason: str) -> str:
    return f"alert {query} {status}" + (f" {key}" if key else "") + (f" : {reason}" if reason else "")


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
