"""How a query is answered, and the predicate index of every stream, in words."""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import Any

from eddyline.documents.aggregate_explanations import query_aggregate_lines
from eddyline.documents.filter_explanations import filter_words
from eddyline.documents.join_explanations import query_join_lines
from eddyline.documents.quantities import duration

_MEANING = {
    "index": "decided for all queries at once",
    "pairs": "checked on the remaining pairs",
    "constant": "decided once, when the query was registered",
    "function": "called only on rows still undecided, once per row for all queries",
    "residual": "computed only on rows still undecided",
}


@dataclass(frozen=True, slots=True)
class Explanation:
    """What `explain` found; `as_dict()` has the same facts for programs."""

    name: str
    text: str
    facts: dict[str, Any]

    def as_dict(self) -> dict[str, Any]:
        return {"name": self.name, "text": self.text, **self.facts}

    def __str__(self) -> str:
        f = self.facts
        lines = [f"{self.name}: {f['state']} since version {f['version']}, generation {f['generation']}"]
        if f["suspended"] is not None:
            lines.append(f"  suspended  {suspended_text(f['suspended'])}")
        lines += [f"  {line}" for line in self.text.strip().splitlines()]
        branches = f.get("branches") or []
        lines += [] if branches else _input_lines_of(f)
        lines += _lineage_lines(f["lineage"])
        lines.append(f"  shape      shared by {f['n_sharing']} quer{'y' if f['n_sharing'] == 1 else 'ies'}")
        lines += [] if branches else _condition_lines(f)
        for number, branch in enumerate(branches, 1):
            lines.append(f"  part {number}")
            lines += [f"  {line}" for line in (*_input_lines_of(branch), *_condition_lines(branch))]
        lines.append("  gives      " + ", ".join(f"{c['name']} {c['type']}" for c in f["columns"]))
        lines += [f"  subquery   {_subquery_words(each)}" for each in f.get("subqueries", ())]
        lines += query_aggregate_lines(f.get("aggregates", ()), in_tasks=f.get("shares_rounds", False))
        if f.get("n_counted") is not None:
            lines.append(f"  counted    each result once, while it occurs: {f['n_counted']:,} now")
        lines += _cut_lines(f.get("cuts") or [])
        for function in f["functions"]:
            lines.append(
                f"  calls      {function['name']} version {function['version']}: {function['n_calls']} calls on "
                f"{function['n_rows']} rows, {function['seconds']:.3f} s, {function['n_failed']} failed"
                + (f", {function['n_lost']} calls lost" if function["n_lost"] else "")
            )
        lines.append(f"  results    {_results_words(f)}")
        if f["n_dead"]:
            lines.append(f"  dead       {f['n_dead']} rows could not be decided: see dead_letters()")
        lines += [f"  warning    {warning}" for warning in f["warnings"]]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


def _input_lines_of(facts: dict[str, Any]) -> list[str]:
    """What a query, or a part of a union, reads."""
    if facts["join"] is None:
        return [f"  stream     {facts['stream']}"]
    return list(query_join_lines(facts["join"]))


def _condition_lines(facts: dict[str, Any]) -> list[str]:
    """Who decides the conditions of a query, or of a part of a union."""
    lines = []
    for condition in facts["conditions"] or []:
        meaning = condition["structure"] or _MEANING[condition["served_by"]]
        if condition["filter"] is not None:
            meaning = filter_words(condition["filter"])
        lines.append(f"  {condition['served_by']:10s} {condition['text']}   ({meaning})")
    if not facts["conditions"]:
        lines.append(f"  filters    none: {_every(facts['join'])}")
    if facts["index"] is not None:
        lines.append(f"  served by  {structure_text(facts['index'])}")
    return lines


def _lineage_lines(lineage: dict[str, Any]) -> list[str]:
    """The views a query reads, down to streams, and which queries read it; nothing where there are none."""
    lines = []
    if any(each["kind"] == "view" for each in lineage["reads"]):
        lines += [f"  reads      {line}" for line in _input_lines(lineage["reads"], "")]
    if lineage["n_readers"]:
        names = [each["name"] for each in lineage["read_by"]]
        n_more = lineage["n_readers"] - len(names)
        others = [f"{n_more:,} other{'' if n_more == 1 else 's'}"] if n_more else []
        lines.append(f"  read by    {', '.join([*names, *others])}")
    return lines


def _cut_lines(cuts: list[dict[str, str]]) -> list[str]:
    """Where it matters how rows are cut into rounds."""
    affected = {"results": "results", "changes": "changes that are told", "order": "order of results"}
    return [f"  by rounds  {affected[each['affects']]}: {each['words']}" for each in cuts]


def _input_lines(inputs: list[dict[str, Any]], indent: str) -> list[str]:
    lines = []
    for each in inputs:
        text = f": {' '.join(each['text'].split())}" if each["text"] else ""
        lines += [f"{indent}{each['kind']} {each['name']}{text}", *_input_lines(each["reads"], indent + "  ")]
    return lines


def _subquery_words(facts: dict[str, Any]) -> str:
    """A subquery that is computed by itself, in a line."""
    if not facts["n_queries"]:
        return f"{facts['name']} is not computed while no query that contains it runs"
    n = facts["n_queries"]
    shared = f"once for {n:,} quer{'y' if n == 1 else 'ies'}"
    now = "" if facts["n_counted"] is None else f": {facts['n_counted']:,} rows now"
    return f"{facts['name']} is computed by itself, {shared}{now}"


def _results_words(facts: dict[str, Any]) -> str:
    if facts["n_dropped"]:
        return f"{facts['n_results']} so far, {facts['n_kept']} can be read, {facts['n_dropped']} dropped"
    return f"{facts['n_results']} so far, all can be read" if facts["n_results"] else "none so far"


def _every(join: dict[str, Any] | None) -> str:
    """What a query without conditions gives."""
    if join is None:
        return "every row matches"
    if join["outer"] == "left anti":
        return f"every row of {join['inputs'][0]['alias']} that finds no partner is a result"
    return "all that the join finds is a result"


def suspended_text(facts: dict[str, str]) -> str:
    """Why a query is suspended, and since when, in a line."""
    return f"{facts['why']}, since {facts['since']}"


def structure_text(facts: dict[str, Any]) -> str:
    """One structure of the index in a line."""
    on = f" on {', '.join(facts['attributes'])}" if facts["attributes"] else ""
    n = facts["n_queries"]
    text = f"{facts['kind']}{on}, {n:,} quer{'y' if n == 1 else 'ies'} in {facts['where']}"
    if facts["n_rows"]:
        text += f", {duration(facts['ns_per_row'] / 1e9)} and {facts['hits_per_row']:.3g} matches a row"
    return text


@dataclass(frozen=True, slots=True)
class IndexExplanation:
    """The predicate index of every stream that has rows: what `explain --all` shows."""

    streams: list[dict[str, Any]]

    def as_dict(self) -> dict[str, Any]:
        return {"streams": self.streams}

    def __str__(self) -> str:
        if not self.streams:
            return (
                "no stream has an index in this process: the one that runs rows builds it with the first of them, "
                "and can be asked while it runs"
            )
        lines = []
        for f in self.streams:
            n = f["n_queries"]
            per_query = f["nbytes"] / n if n else 0
            lines.append(
                f"{f['stream']}: {n:,} quer{'y' if n == 1 else 'ies'} as of version {f['version']}, "
                f"{f['nbytes']:,} bytes ({per_query:.0f} a query), {f['n_parts']} part{'s' if f['n_parts'] != 1 else ''}"
                + (", a new base is being built" if f["rebuilding"] else "")
            )
            lines += [f"  {structure_text(structure)}" for structure in f["structures"]]
            lines.append(
                f"  so far     {f['n_rows']:,} rows, {f['n_candidates']:,} pairs named by the index, "
                f"{f['n_waiting_pairs']:,} looked at one by one, {f['n_matches']:,} matches, {f['n_dead']:,} dead"
            )
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"
