"""How the engine answers a query: the rooms its rows walk through, and what it shares with others."""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from eddyline.catalog import QueryRecord
from eddyline.engine import RoundEngine
from eddyline.model import Atom, AtomKind, Clause, Column
from eddyline.sql import render, words
from eddyline.types import type_name

_SERVED_BY = {
    AtomKind.COMPARE: "index",
    AtomKind.IN: "index",
    AtomKind.NULL_TEST: "index",
    AtomKind.CONSTANT: "constant",
    AtomKind.FUNCTION: "function",
    AtomKind.RESIDUAL: "residual",
}
_MEANING = {
    "index": "decided for all queries of the shape at once",
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
        lines += [f"  {line}" for line in self.text.strip().splitlines()]
        lines.append(f"  stream     {f['stream']}")
        lines.append(f"  shape      shared by {f['n_sharing']} quer{'y' if f['n_sharing'] == 1 else 'ies'}")
        for condition in f["conditions"] or []:
            lines.append(
                f"  {condition['served_by']:10s} {condition['text']}   ({_MEANING[condition['served_by']]})"
            )
        if not f["conditions"]:
            lines.append("  filters    none: every row matches")
        lines.append("  gives      " + ", ".join(f"{c['name']} {c['type']}" for c in f["columns"]))
        for function in f["functions"]:
            lines.append(
                f"  calls      {function['name']} version {function['version']}: {function['n_calls']} calls on "
                f"{function['n_rows']} rows, {function['seconds']:.3f} s, {function['n_failed']} failed"
            )
        lines.append(
            f"  results    {f['n_results']} so far, {f['n_kept']} can be read, {f['n_dropped']} dropped"
        )
        if f["n_dead"]:
            lines.append(f"  dead       {f['n_dead']} rows could not be decided: see dead_letters()")
        lines += [f"  warning    {warning}" for warning in f["warnings"]]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


def explain(rounds: RoundEngine, record: QueryRecord, warnings: list[str]) -> Explanation:
    """Explain a registered query."""
    plan = rounds.catalog.plan(record.shape.stream)
    n_sharing = sum(segment.n_live for segment in plan.segments if segment.shape is record.shape)
    texts = condition_texts(record)
    conditions = [
        {"text": text, "served_by": _served_by(clause), "columns": sorted(_column_names(clause))}
        for clause, text in zip(record.shape.condition.clauses, texts, strict=True)
    ]
    results = rounds.results
    facts = {
        "id": record.id,
        "state": record.state.value,
        "version": record.version_from,
        "generation": record.generation,
        "stream": record.shape.stream,
        "n_sharing": n_sharing,
        "conditions": conditions,
        "columns": [{"name": f.name, "type": type_name(f.type)} for f in record.shape.output],
        "functions": [_function_facts(rounds, name, version) for name, version in record.shape.functions],
        "n_results": results.produced(record.id),
        "n_kept": results.kept(record.id),
        "n_dropped": results.dropped(record.id),
        "n_dead": rounds.dead_letters.by_query[record.id],
        "warnings": warnings,
    }
    return Explanation(record.name, record.text, facts)


def condition_texts(record: QueryRecord) -> list[str]:
    """Each clause in the user's words where it is one part of the text, else written out."""
    clauses = record.shape.condition.clauses
    parts = [clause.tokens for clause in clauses]
    is_template = any(slot.name is not None for slot in record.shape.slots)
    said = words(record.text, [part for part in parts if part is not None])
    texts = []
    for clause in clauses:
        if clause.tokens is None or is_template or parts.count(clause.tokens) > 1:
            texts.append(" OR ".join(_atom_text(atom, record) for atom in clause.atoms))
        else:
            texts.append(said[clause.tokens])
    return texts


def _atom_text(atom: Atom, record: QueryRecord) -> str:
    values = [c.as_py() if isinstance(c, pa.Scalar) else c for c in record.constants]
    return render(atom.condition, values=values)


def _served_by(clause: Clause) -> str:
    kinds = {_SERVED_BY[atom.kind] for atom in clause.atoms}
    return next(kind for kind in ("function", "residual", "index", "constant") if kind in kinds)


def _column_names(clause: Clause) -> set[str]:
    return {node.name for atom in clause.atoms for node in atom.condition.walk() if isinstance(node, Column)}


def _function_facts(rounds: RoundEngine, name: str, version: str) -> dict[str, Any]:
    counters = rounds.functions.counters.get(name)
    return {
        "name": name,
        "version": version,
        "n_calls": counters.n_calls if counters else 0,
        "n_rows": counters.n_rows if counters else 0,
        "n_failed": counters.n_failed if counters else 0,
        "seconds": counters.seconds if counters else 0.0,
    }
