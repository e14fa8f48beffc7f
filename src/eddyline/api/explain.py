"""How the engine answers a query: the rooms its rows walk through, and what it shares with others."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from eddyline.api.filter_facts import clause_filters
from eddyline.api.filter_words import duration, filter_words
from eddyline.api.join_facts import query_join_facts, query_join_lines
from eddyline.api.join_words import (
    atom_words,
    column_words,
    signature_text,
    signature_words,
    spoken,
    stream_words,
    streams_of,
)
from eddyline.catalog import QueryRecord
from eddyline.engine import RoundEngine
from eddyline.expressions.fold import literal_value
from eddyline.model import AtomKind, Clause, Column, Expression, Segment, Shape, Signature, iso_time
from eddyline.sql import render, words
from eddyline.types import type_name

_SERVED_BY = {
    AtomKind.COMPARE: "index",
    AtomKind.IN: "index",
    AtomKind.NULL_TEST: "index",
    AtomKind.LIKE: "residual",
    AtomKind.CONSTANT: "constant",
    AtomKind.FUNCTION: "function",
    AtomKind.RESIDUAL: "residual",
}
_MEANING = {
    "index": "decided for all queries at once",
    "pairs": "checked on the pairs that are left",
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
        if f["join"] is None:
            lines.append(f"  stream     {f['stream']}")
        else:
            lines += query_join_lines(f["join"])
        lines.append(f"  shape      shared by {f['n_sharing']} quer{'y' if f['n_sharing'] == 1 else 'ies'}")
        for condition in f["conditions"] or []:
            meaning = condition["structure"] or _MEANING[condition["served_by"]]
            if condition["filter"] is not None:
                meaning = filter_words(condition["filter"])
            lines.append(f"  {condition['served_by']:10s} {condition['text']}   ({meaning})")
        if not f["conditions"]:
            lines.append(f"  filters    none: {_every(f['join'])}")
        if f["index"] is not None:
            lines.append(f"  served by  {structure_text(f['index'])}")
        lines.append("  gives      " + ", ".join(f"{c['name']} {c['type']}" for c in f["columns"]))
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


def explain(rounds: RoundEngine, record: QueryRecord, warnings: list[str]) -> Explanation:
    """Explain a registered query."""
    shape = record.shape
    segments = _segments(rounds, shape)
    n_sharing = sum(segment.n_live for segment in segments if segment.shape is shape)
    texts = condition_texts(record)
    placed = _rendered(rounds.placed(shape.stream, record.id), shape)
    filters = clause_filters(rounds, record)
    conditions: list[dict[str, Any]] = []
    for clause, text, filter_ in zip(record.shape.condition.clauses, texts, filters, strict=True):
        served, structure = _served(clause, placed, shape)
        if rounds.routing.is_strict and served in ("function", "residual"):
            structure = "in the order of the text, where all before it are true"
        columns = sorted(column_words(shape, name) for name in _column_names(clause))
        conditions.append(
            {
                "text": text,
                "served_by": served,
                "structure": structure,
                "columns": columns,
                "filter": filter_,
            }
        )
    results = rounds.results
    facts = {
        "id": record.id,
        "state": record.state.value,
        "suspended": suspended(record),
        "version": record.version_from,
        "generation": record.generation,
        "stream": stream_words(shape),
        "streams": list(streams_of(shape)),
        "join": _join(rounds, record),
        "n_sharing": n_sharing,
        "index": placed,
        "conditions": conditions,
        "columns": [{"name": f.name, "type": type_name(f.type)} for f in record.shape.output],
        "functions": [
            _function_facts(rounds, record.id, name, version) for name, version in record.shape.functions
        ],
        "n_results": results.produced(record.id),
        "n_kept": results.kept(record.id),
        "n_dropped": 0 if rounds.durable is not None else results.dropped(record.id),
        "n_dead": rounds.dead_letters.by_query[record.id],
        "warnings": warnings,
    }
    return Explanation(record.name, record.text, facts)


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


def _join(rounds: RoundEngine, record: QueryRecord) -> dict[str, Any] | None:
    facts = query_join_facts(rounds, record)
    if facts is None or record.shape.join is None:
        return None
    return facts | {"on": condition_texts(record, record.shape.join.on.clauses)}


def suspended(record: QueryRecord) -> dict[str, str] | None:
    """Why a query is suspended, and since when; None if it is not."""
    if not record.why:
        return None
    return {"why": record.why, "since": iso_time(record.registered_us, timespec="seconds")}


def suspended_text(facts: dict[str, str]) -> str:
    """The same in a line."""
    return f"{facts['why']}, since {facts['since']}"


def all_clauses(shape: Shape) -> tuple[Clause, ...]:
    """Its conditions; of an outer join first what makes a match, besides the keys."""
    matching = () if shape.join is None else shape.join.on.clauses
    return (*matching, *shape.condition.clauses)


def condition_texts(record: QueryRecord, clauses: Sequence[Clause] | None = None) -> list[str]:
    """Each clause, of the condition if none are given, in the user's words where it is one part of the text, else written out."""
    clauses = record.shape.condition.clauses if clauses is None else clauses
    parts = [clause.tokens for clause in clauses]
    is_template = any(slot.name is not None for slot in record.shape.slots)
    said = words(record.text, [part for part in parts if part is not None])
    n_clauses = Counter(parts)
    values = [literal_value(c) if isinstance(c, pa.Scalar) else c for c in record.constants]
    texts = []
    for clause in clauses:
        if clause.tokens is None or is_template or n_clauses[clause.tokens] > 1:
            texts.append(" OR ".join(atom_words(atom, record.shape, values) for atom in clause.atoms))
        else:
            texts.append(said[clause.tokens])
    return texts


def _segments(rounds: RoundEngine, shape: Shape) -> tuple[Segment, ...]:
    """Those of its stream; none of a join that does not stand yet."""
    signatures = rounds.catalog.signatures()
    if shape.join is not None and all(each.name != shape.stream for each in signatures):
        return ()
    return rounds.catalog.plan(shape.stream).segments


def _served(clause: Clause, placed: dict[str, Any] | None, shape: Shape) -> tuple[str, str | None]:
    """Who decides the clause, and in which structure of the index, if it is one and is built."""
    kinds = {_SERVED_BY[atom.kind] for atom in clause.atoms}
    served = next(kind for kind in ("function", "residual", "index", "constant") if kind in kinds)
    if served == "residual" and len(clause.atoms) == 1 and clause.atoms[0].kind is AtomKind.LIKE:
        return served, "its prefix is looked up in the index; checked where the pattern says more"
    if served != "index" or placed is None:
        return served, None
    is_interval = len(clause.atoms) == 1 and clause.atoms[0].operator not in ("in", "!=", "is null")
    attributes = [_attribute_text(a.attribute, shape) for a in clause.atoms if a.attribute is not None]
    if (
        placed["key"] is not None
        and attributes == [placed["key"]]
        and clause.atoms[0].operator in ("=", "in")
    ):
        return served, f"{placed['kind']}: names the queries of a row"
    if not placed["serves_planes"] and not is_interval:
        return "pairs", None
    return served, placed["kind"]


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


def explain_index(rounds: RoundEngine) -> IndexExplanation:
    """The index of every stream."""
    signatures = {each.name.lower(): each for each in rounds.catalog.signatures()}
    found = []
    for name, stage in rounds.stages():
        facts = stage.snapshot()
        del facts["filters"]  # `explain_filters` shows them
        structures = [_rendered(each) for each in facts["structures"]]
        signature = signatures.get(name)
        if signature is not None:
            structures = [_of_streams(each, signature) for each in structures]
        elif rounds.catalog.find_stream(name) is None:
            continue  # of a join that no longer stands
        stream = rounds.catalog.plan(name).stream if signature is None else signature_words(signature)
        found.append({"stream": stream, **facts, "structures": structures})
    return IndexExplanation(found)


def _rendered(facts: dict[str, Any] | None, shape: Shape | None = None) -> dict[str, Any] | None:
    """The facts of a structure with its attributes as SQL, of a join in the words of one of its queries."""
    if facts is None:
        return None
    key = None if facts["key"] is None else _attribute_text(facts["key"], shape)
    attributes = [_attribute_text(attribute, shape) for attribute in facts["attributes"]]
    return facts | {"key": key, "attributes": attributes}


def _attribute_text(attribute: Expression, shape: Shape | None) -> str:
    if shape is None or shape.join is None:
        return render(attribute)
    if isinstance(attribute, Column):
        return column_words(shape, attribute.name)
    return render(spoken(attribute, shape.inputs))


def _of_streams(facts: dict[str, Any] | None, signature: Signature) -> dict[str, Any]:
    """A structure over rows of a join that several queries share, with the names of streams."""
    assert facts is not None
    key = None if facts["key"] is None else signature_text(signature, facts["key"])
    return facts | {"key": key, "attributes": [signature_text(signature, a) for a in facts["attributes"]]}


def _column_names(clause: Clause) -> set[str]:
    return {node.name for atom in clause.atoms for node in atom.condition.walk() if isinstance(node, Column)}


def _function_facts(rounds: RoundEngine, query_id: int, name: str, version: str) -> dict[str, Any]:
    """What a function did so far, for all queries; its last error only on a row of this query: others belong to their owners."""
    said = [
        letter.message
        for letter in rounds.dead_letters.find(query_id=query_id)
        if f"function {name} " in letter.message
    ]
    counters = rounds.functions.counters.get(name)
    return {
        "name": name,
        "version": version,
        "n_calls": counters.n_calls if counters else 0,
        "n_rows": counters.n_rows if counters else 0,
        "n_failed": counters.n_failed if counters else 0,
        "seconds": counters.seconds if counters else 0.0,
        "n_lost": counters.n_lost if counters else 0,
        "last_message": said[-1] if said else "",
    }
