"""What aggregates keep, in words: of all classes, and of one query."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from eddyline.documents.quantities import plural, size_text


class AggregatesExplanation(list[dict[str, Any]]):
    """The classes of aggregates, those that take most memory first; `streams` says how far the streams below them are.

    `as_dict()` has all of it for programs.
    """

    def __init__(self, streams: Mapping[str, dict[str, Any]], classes: Sequence[dict[str, Any]]) -> None:
        super().__init__(classes)
        self.streams = dict(streams)

    def as_dict(self) -> dict[str, Any]:
        return {"streams": self.streams, "classes": list(self)}

    def __str__(self) -> str:
        if not self:
            return "there are no aggregates"
        lines = []
        for name, facts in self.streams.items():
            at = "" if facts["watermark"] is None else f", watermark {facts['watermark']}"
            lines.append(f"{name}: {plural(facts['n_rows'], 'row')}, {facts['n_late']:,} late{at}")
        return "\n".join([*lines, *(line for facts in self for line in _class_lines(facts))])

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


def _class_lines(facts: Mapping[str, Any]) -> Iterator[str]:
    yield f"{_heading(facts)}: {plural(facts['n_queries'], 'query')}, {size_text(facts['nbytes'])}"
    if facts["queries"]:
        n_more = facts["n_queries"] - len(facts["queries"])
        more = f" and {n_more:,} more" if n_more else ""
        yield f"  read by    {', '.join(each['name'] for each in facts['queries'])}{more}"
    for structure in facts["structures"]:
        yield f"  {'kept':10s} {structure_words(structure, facts['keys'])}"


def _heading(facts: Mapping[str, Any]) -> str:
    """A class: its rows, and its keys."""
    if facts["words"] is None:
        return "a class of other owners"
    return facts["words"] + (f", by {', '.join(facts['keys'])}" if facts["keys"] else "")


def structure_words(facts: Mapping[str, Any], keys: Sequence[str]) -> str:
    """What one structure keeps, in a line."""
    by = f"GROUP BY {', '.join(keys)}, " if keys and facts["kind"] != "over" else ""
    counted = [
        plural(facts[what], noun)
        for what, noun in (("groups", "group"), ("slices", "slice"), ("rows", "row"), ("epochs", "epoch"))
        if facts[what] is not None
    ]
    if facts["n_refused"]:
        counted.append(f"{plural(facts['n_refused'], 'row')} of further groups refused")
    due = "" if facts["deadline"] is None else f"; time changes it next at {facts['deadline']}"
    words = "; ".join(facts["words"]) or facts["kind"]
    return f"{by}{words}: {', '.join(counted)}, {size_text(facts['nbytes'])}{due}"


def query_aggregate_lines(classes: Sequence[Mapping[str, Any]], *, in_tasks: bool) -> Iterator[str]:
    """The classes of a query, for people; where rounds are worked on in tasks, also what these hand on."""
    for facts in classes:
        yield f"  aggregates {_heading(facts)}, rows shared by {plural(facts['n_queries'], 'query')}"
        for structure in facts["structures"]:
            yield f"    kept     {structure_words(structure, facts['keys'])}"
        for each in facts["estimates"]:
            error = f"{100 * each['relative_error']:g} %"
            yield f"    estimate {each['name']} is approximate, with a relative standard deviation of {error}"
        why = facts["why_rows"]
        if in_tasks:
            yield f"    tasks    hand on {'what rows come to' if why is None else f'rows: {why}'}"
        if facts["n_late"]:
            yield f"    late     {plural(facts['n_late'], 'row')} of its streams"
