"""What joins keep and do, in words: of all joins, and of one query."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eddyline.documents.quantities import duration, percent, plural, size_text
from eddyline.documents.times import iso_time

_ROLES = {  # the values of eddyline.model.Role
    "window": "a window of its rows",
    "current": "new rows only",
    "table": "the latest row of each key",
    "as of": "the row of each key at a time",
    "view": "the rows of a view over tables",
}


class JoinsExplanation(dict[str, dict[str, Any]]):
    """What is kept for joins, by stream; `signatures` says what is done with it, `choices` how rounds are executed.

    `as_dict()` has all of it for programs.
    """

    def __init__(
        self,
        streams: Mapping[str, dict[str, Any]],
        signatures: list[dict[str, Any]],
        choices: Mapping[str, Any],
    ) -> None:
        super().__init__(streams)
        self.signatures = signatures
        self.choices = dict(choices)

    def as_dict(self) -> dict[str, Any]:
        return {"streams": dict(self), "signatures": self.signatures, "choices": self.choices}

    def __str__(self) -> str:
        if not self and not self.signatures:
            return "there are no joins"
        lines = [line for name, facts in self.items() for line in _stream_lines(name, facts)]
        lines += [line for facts in self.signatures for line in _signature_lines(facts)]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


def _stream_lines(name: str, facts: Mapping[str, Any]) -> Iterator[str]:
    what = "at its latest rows" if facts["kind"] == "table" else "window"
    yield (
        f"{name}: {what}, {plural(facts['rows'], 'row')}, {size_text(facts['nbytes'])}, shared by "
        f"{plural(facts['n_queries'], 'query')} of {plural(facts['n_signatures'], 'join')}"
    )
    if facts["found_by"]:
        yield f"  found by   {'; '.join(facts['found_by'])}"
    if facts["oldest"] is not None:
        yield f"  oldest     {facts['oldest']}"
    yield from partition_lines([Partition(**each) for each in facts["partitions"]])


def origin_line(facts: Mapping[str, Any]) -> str:
    """How rows of one input look for partners, in a line."""
    if facts["why"] is None:
        return f"no row of {facts['name']} has looked for partners yet"
    return (
        f"rows of {facts['name']} look in {facts['why']}; {plural(facts['n_drivers'], 'row')} looked, "
        f"{plural(facts['n_probes'], 'probe')}{_shared(facts)}, {plural(facts['n_matches'], 'partner')}, "
        f"{facts['n_combinations']:,} joined"
    )


def _origin_lines(origins: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for origin in origins:
        yield f"  probes     {origin_line(origin)}"
        if origin["conditions"] is not None:
            yield f"  asked      of {origin['name']}, {placement_words(origin['conditions'])}"


def placement_words(facts: Mapping[str, Any]) -> str:
    """Where expensive conditions on an input are asked, and by which figures."""
    side, other = ("before", "after") if facts["side"] == "before" else ("after", "before")
    return (
        f"expensive conditions {side} its rows look for partners: {duration(facts[f'{side}_s'])} a row, "
        f"{other} it {duration(facts[f'{other}_s'])}; asking takes {duration(facts['udf_s'])}, a probe "
        f"{duration(facts['probe_s'])}, {percent(facts['pass_rate'])} pass, {percent(facts['match_rate'])} are asked if after"
    )


def _shared(facts: Mapping[str, Any]) -> str:
    return f" and {facts['n_shared']:,} shared" if facts["n_shared"] else ""


def _input_words(entry: Mapping[str, Any]) -> str:
    return f"{entry['name']}: {_ROLES[entry['role']]}"


def _signature_lines(facts: Mapping[str, Any]) -> Iterator[str]:
    outer = f", {facts['outer']}" if facts["outer"] else ""
    yield f"{facts['words']}{outer}: {plural(facts['n_queries'], 'query')}, executed as one join"
    yield f"  inputs     {', '.join(_input_words(entry) for entry in facts['inputs'])}"
    yield f"  on         {' AND '.join(facts['keys']) or _no_equality(facts, 'every row is compared with every other')}"
    yield from _origin_lines(facts["origins"])


def _no_equality(facts: Mapping[str, Any], otherwise: str) -> str:
    if facts["ordered_by"]:
        return f"no equality: rows are looked up in the order of {', '.join(facts['ordered_by'])}"
    return f"no equality: {otherwise}"


def query_join_lines(facts: Mapping[str, Any]) -> Iterator[str]:
    """The same for people."""
    for entry in facts["inputs"]:
        yield f"  input      {entry['words']}: {entry['kept']}"
        if entry["held"] is not None:
            held = entry["held"]
            yield (
                f"    held     {plural(held['rows'], 'row')}, {size_text(held['nbytes'])}, "
                f"shared by {plural(held['n_queries'], 'query')}"
            )
    label = {"left": "left join", "right": "right join", "left anti": "left anti"}.get(facts["outer"], "join")
    conditions = [*facts["keys"], *facts["on"]]
    yield f"  {label:10s} {' AND '.join(conditions) or _no_equality(facts, 'every row with every other')}"
    if facts["n_queries"] > 1:
        yield f"  executed   as one join with {plural(facts['n_queries'] - 1, 'other query')}"
    yield from _origin_lines(facts["origins"])


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition by itself. One that is idle is not waited for; rows that were pushed are a partition without a name."""

    name: str
    watermark_us: int | None  # its largest event time, less the lateness of the stream
    last_row_us: int  # now() of its last round with rows
    is_idle: bool


def partition_lines(partitions: Sequence[Partition]) -> Iterator[str]:
    """For explain: those furthest behind, of several."""
    if len(partitions) > 1:
        shown = [
            f"{each.name or 'pushed'} at {'no time' if each.watermark_us is None else iso_time(each.watermark_us)}"
            + (" (idle)" if each.is_idle else "")
            for each in partitions[:3]
        ]
        more = len(partitions) - len(shown)
        yield f"  partitions {', '.join(shown)}{f' and {more} more, which are further' if more else ''}"
