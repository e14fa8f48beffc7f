"""What routers do, in words: explanations, the lines of a log, the latest changes."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from eddyline.documents.join_explanations import placement_words
from eddyline.documents.quantities import duration, percent, plural, rounded
from eddyline.documents.times import iso_time
from eddyline.events import (
    ConditionsMoved,
    Event,
    FilterDrifted,
    FiltersReordered,
    PolicySwitched,
    ProbesReordered,
    RetentionRemoved,
)

OF_ANOTHER_OWNER = "another owner's filter"
SETTLING = frozenset({"shared_greedy"})  # policies that count queries settled, not rows dropped
SHOWN = 30  # filters of a stream
LATEST = 8  # changes


# --------------------------------------------------------------------------------------------- changes


def latest_changes(changes: Sequence[dict[str, Any]], most: int) -> list[dict[str, Any]]:
    """The last changes. Those of costs, which tell least, are a third of them at most and hide no others."""
    costs = [number for number, each in enumerate(changes) if each.get("what") == "cost"]
    hidden = set(costs[: -(most // 3)])
    return [each for number, each in enumerate(changes) if number not in hidden][-most:]


def change_words(entry: Mapping[str, Any], text: Callable[[int], str | None]) -> str:
    """A line of a router's history. `text` gives the SQL of a filter, None if it may not be shown."""

    def quoted(k: int) -> str:
        sql = text(k)
        return OF_ANOTHER_OWNER if sql is None else f"`{sql}`"

    if entry["kind"] == "reordered":
        first, second = quoted(entry["came"]), quoted(entry["left"])
        return _reordered(entry["policy"], first, second, entry["ratio_came"], entry["ratio_left"])
    if entry["kind"] == "switched":
        return _switched(entry["before"], entry["after"], entry["before_s"], entry["after_s"])
    if entry["kind"] == "drifted":
        return _drifted(quoted(entry["filter"]), entry["what"], entry["before"], entry["after"])
    n = entry["filters"]
    if not n:
        return "queries with another set of the same filters were added"
    return "a filter was added with a query" if n == 1 else f"{n} filters were added with queries"


def event_words(event: Event) -> str | None:
    """What an event of a router, of a join's probes, or of retention, says; None of any other event."""
    match event:
        case FiltersReordered():
            first, second = f"`{event.came}`", f"`{event.left}`"
            return f"{event.stream}: {_reordered(event.policy, first, second, event.came_per_s, event.left_per_s)}"
        case ProbesReordered():
            order = ", ".join(event.order)
            return f"{event.join}: rows of {event.input} look in {event.came} before {event.left} now: in {order}"
        case ConditionsMoved():
            return f"{event.join}: of {event.input}, {placement_words(asdict(event))}"
        case PolicySwitched():
            words = _switched(event.before, event.after, event.before_s, event.after_s)
            return f"{event.stream}: {words}"
        case FilterDrifted():
            return f"{event.stream}: {_drifted(f'`{event.filter}`', event.what, event.before, event.after)}"
        case RetentionRemoved():
            return _removed(event)
        case _:
            return None


def _removed(event: RetentionRemoved) -> str:
    most = ", ".join(f"{name} {n:,}" for name, n in event.names)
    more = ", …" if event.n_names > len(event.names) else ""
    until = "" if event.until_us is None else f", of rounds up to {iso_time(event.until_us)}"
    return f"{event.n:,} {event.what}{f' ({most}{more})' if most else ''}{until}"


def _reordered(policy: str, first: str, second: str, first_per_s: float, second_per_s: float) -> str:
    does, what = ("settles", "queries") if policy in SETTLING else ("drops", "rows")
    return (
        f"{first} now runs before {second}: it {does} {_many(first_per_s)} {what} a second of work, "
        f"the other {_many(second_per_s)}"
    )


def _switched(before: str, after: str, before_s: float, after_s: float) -> str:
    return f"{after} decides instead of {before}: {duration(after_s)} a row instead of {duration(before_s)}"


def _drifted(filter_: str, what: str, before: float, after: float) -> str:
    if what == "cost":
        return f"{filter_} takes {duration(after)} a row, it was {duration(before)}"
    return f"{filter_} passes {percent(after)} of rows, it was {percent(before)}"


def _many(n: float) -> str:
    if not math.isfinite(n):
        return "any number of"
    return rounded(round(n)) if n >= 10 else f"{n:.2g}"


# --------------------------------------------------------------------------------------------- explanations


def filter_words(facts: Mapping[str, Any]) -> str:
    """A condition of a query that is a filter, as `clause_filters` found it."""
    n = facts["n_others"]
    shared = f"shared with {n:,} other quer{'y' if n == 1 else 'ies'}" if n else "of this query alone"
    if facts["place"] is None:
        return f"a filter, {shared}; it has not run on any row yet"
    rate = "" if facts["pass_rate"] is None else f", passes {percent(facts['pass_rate'])}"
    return (
        f"filter {facts['place']} of {facts['n_filters']}, {shared}; {duration(facts['cost_s'])} a row{rate}"
    )


@dataclass(frozen=True, slots=True)
class FiltersExplanation:
    """The expensive filters of streams: what `explain --filters` shows; `as_dict()` has the same facts for programs."""

    streams: list[dict[str, Any]]

    def as_dict(self) -> dict[str, Any]:
        return {"streams": self.streams}

    def __str__(self) -> str:
        return "\n".join(line for facts in self.streams for line in _lines(facts)) or "there is no stream"

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


def _lines(facts: Mapping[str, Any]) -> Iterator[str]:
    name, filters = facts["stream"], facts["filters"]
    if facts["is_strict"]:
        yield f"{name}: strict: conditions run in the order of each text, and none is a filter"
        return
    if not filters:
        yield f"{name}: no query has a condition that calls a function or a regular expression"
        return
    policy = facts["decides"] + (
        f", chosen by {facts['policy']}" if facts["policy"] != facts["decides"] else ""
    )
    options = {name: value for name, value in facts["options"].items() if name != "cost_mode"}
    if options:
        policy += f" ({', '.join(f'{option} {value:g}' for option, value in options.items())})"
    if facts["options"].get("cost_mode") == "declared":
        policy += ", at declared costs"
    yield f"{name}: {plural(len(filters), 'filter')} of {plural(facts['n_queries'], 'query')}, ordered by {policy}"
    for each in filters[:SHOWN]:
        yield f"  {_place(each)}  {each['text'] or OF_ANOTHER_OWNER}   {_numbers(each)}".rstrip()
    if len(filters) > SHOWN:
        yield f"      … and {len(filters) - SHOWN} more"
    if facts["n_rows"]:
        yield from _work(facts)
    if facts["tree"] is not None:
        yield from _tree("tree", facts["tree"], "  ", 11)
    changes = [each for each in facts["history"] if each["words"] is not None]
    for each in latest_changes(changes, LATEST):
        yield f"  {'round ' + str(each['round']):<10s} {each['words']}"


def _place(each: Mapping[str, Any]) -> str:
    return f"{each['place']:>3}" if each["place"] is not None else "  –"


def _numbers(each: Mapping[str, Any]) -> str:
    if not each["is_own"]:
        return ""
    queries = plural(each["n_queries"], "query")
    if each["place"] is None:
        return f"({queries}; it has not run on any row yet)"
    rate = "" if each["pass_rate"] is None else f", passes {percent(each['pass_rate'])}"
    follow = (
        ""
        if each["follow_cost_s"] is None
        else f" ({duration(each['follow_cost_s'])} where another filter already made its call)"
    )
    return f"({duration(each['cost_s'])} a row{follow}{rate}, ran on {each['n_rows']:,} rows for {queries})"


def _work(facts: Mapping[str, Any]) -> Iterator[str]:
    n_evaluations, alone = facts["n_evaluations"], facts["n_alone"]
    about = "at least" if facts["is_at_least"] else "about"
    times = f", {alone / n_evaluations:.1f} times as many" if n_evaluations and alone > n_evaluations else ""
    yield (
        f"  shared     {n_evaluations:,} evaluations on {facts['n_rows']:,} rows; "
        f"each query for itself would make {about} {rounded(alone)}{times}"
    )
    if facts["n_sampled_rows"]:
        yield (
            f"  sampled    {facts['n_sampled_evaluations']:,} evaluations more, {duration(facts['sampled_s'])}; "
            f"{percent(facts['sample_rate'])} of rows now"
        )
    yield f"  took       {duration(facts['seconds'])} in filters, {duration(facts['overhead_s'])} to choose and to count"
    bound = facts["bound"]
    if bound is not None:
        yield (
            f"  bound      {duration(bound['policy_s'])} a row, {bound['ratio']:.2f} times the {duration(bound['least_s'])} "
            f"that no strategy can beat (on {bound['n_rows']} sampled rows)"
        )
    if len(facts["candidates"]) > 1:
        ranked = sorted(facts["candidates"].items(), key=lambda each: each[1])
        yield (
            "  competing  "
            + ", ".join(f"{policy} {duration(cost_s)}" for policy, cost_s in ranked)
            + " a row"
        )


def _tree(label: str, node: Mapping[str, Any], indent: str, width: int) -> Iterator[str]:
    yield f"{indent}{label:<{width}s}{node['text'] or OF_ANOTHER_OWNER}   ({percent(node['share'])} of rows)"
    for side in ("passes", "drops"):
        if node[side] is not None:
            yield from _tree(f"{side}:", node[side], indent + (" " * 11 if indent == "  " else "  "), 8)
