"""How the engine answers a query: the rooms its rows walk through, and what it shares with others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from eddyline.catalog import QueryRecord
from eddyline.documents import Explanation, IndexExplanation
from eddyline.engine import RoundEngine
from eddyline.errors import Span
from eddyline.explain.aggregate_state import Ids, query_aggregate_facts
from eddyline.explain.cuts import cut_facts
from eddyline.explain.filter_state import clause_filters
from eddyline.explain.join_state import query_join_facts
from eddyline.explain.lineage import lineage
from eddyline.explain.subquery_words import in_words
from eddyline.expressions import literal_value
from eddyline.model import (
    Aggregating,
    AtomKind,
    Clause,
    Column,
    Expression,
    Segment,
    Shape,
    Signature,
    iso_time,
)
from eddyline.sql import (
    atom_words,
    column_words,
    render,
    signature_text,
    signature_words,
    span_places,
    span_texts,
    spoken,
    stream_words,
    streams_of,
    with_aggregate_names,
)
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


def explain(
    rounds: RoundEngine, record: QueryRecord, warnings: list[str], *, own: Ids | None = None
) -> Explanation:
    """Explain a registered query, or a text. `own` are the queries of a user who may see no others. The lock is held."""
    shape = record.shape
    segments = _segments(rounds, shape)
    n_sharing = sum(segment.n_live for segment in segments if segment.shape is shape)
    results = rounds.results
    facts = {
        "id": record.id,
        "state": record.state.value,
        "suspended": suspended(record),
        "version": record.version_from,
        "generation": record.generation,
        "stream": stream_words(shape),
        "streams": list(streams_of(shape)),
        "lineage": lineage(rounds, record),
        "n_sharing": n_sharing,
        **_decided(rounds, record, record.id),
        "branches": [_branch(rounds, record, each) for each in shape.all_branches] if shape.branches else [],
        "columns": [{"name": f.name, "type": type_name(f.type)} for f in record.shape.output],
        "functions": [
            _function_facts(rounds, record.id, name, version) for name, version in record.shape.functions
        ],
        "n_counted": _n_counted(rounds, record),
        "subqueries": _subqueries(rounds, shape),
        "aggregates": query_aggregate_facts(rounds, shape, own=own),
        "shares_rounds": rounds.shares_rounds,
        "cuts": cut_facts(rounds.catalog, shape),
        "n_results": results.n_produced_by(record.id),
        "n_kept": results.n_retained_of(record.id),
        "n_dropped": 0 if rounds.durable is not None else results.n_dropped_of(record.id),
        "n_dead": rounds.dead_letters.by_query[record.id],
        "warnings": warnings,
    }
    return Explanation(record.name, record.text, facts)


def _n_counted(rounds: RoundEngine, record: QueryRecord) -> int | None:
    """How many results a query has now whose occurrences are counted, in all its parts; None if none are."""
    counted = [each for each in record.shape.all_branches if each.is_counted]
    ids = {record.id if branch.is_one_set else _own_id(rounds, record, branch) for branch in counted}
    return sum(map(rounds.flow.counts.n_results, ids)) if ids else None


def _subqueries(rounds: RoundEngine, shape: Shape) -> list[dict[str, Any]]:
    """The subqueries that are computed by themselves: how many queries contain each, and how many rows it has now, if they are
    counted; those of one with GROUP BY are groups, which its class tells of."""
    views, found = rounds.catalog.views, []
    classes = {each.aggregation.rows for each in _aggregating(shape)}
    inputs = {entry.stream: entry.label for entry in shape.unnamed_views() if entry.stream not in classes}
    for name, words in inputs.items():
        relation = views.relation(name)
        first = None if relation is None else relation.feeds[0].body_id
        n_queries = 0 if first is None else len(views.queries_of(first))
        is_grouped = relation is None or relation.feeds[0].shape.aggregating is not None
        n_counted = None if first is None or is_grouped else rounds.flow.counts.n_results(first)
        found.append({"name": words, "n_queries": n_queries, "n_counted": n_counted})
    return found


def _aggregating(shape: Shape) -> list[Aggregating]:
    return [each.aggregating for each in shape.plain_shapes() if each.aggregating is not None]


def _own_id(rounds: RoundEngine, record: QueryRecord, branch: Shape) -> int:
    """The id that a query has in one of its branches."""
    return rounds.catalog.plans.branch_id(branch, record.id) if branch.branch else record.id


def _branch(rounds: RoundEngine, record: QueryRecord, branch: Shape) -> dict[str, Any]:
    """One of the branches of a union."""
    read = replace(branch, branches=())
    decided = _decided(rounds, replace(record, shape=branch), _own_id(rounds, record, branch))
    return {"stream": stream_words(read), "streams": list(streams_of(read)), **decided}


def _decided(rounds: RoundEngine, record: QueryRecord, own_id: int) -> dict[str, Any]:
    """How rows are joined and decided for a query, or for one branch of it, which has this id."""
    shape = record.shape
    texts = condition_texts(record)
    placed = _rendered(rounds.placed(shape.stream, own_id), shape)
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
    return {"join": _join(rounds, record), "index": placed, "conditions": conditions}


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


def all_clauses(shape: Shape) -> tuple[Clause, ...]:
    """Its conditions; of an outer join first what makes a match, besides the keys."""
    matching = () if shape.join is None else shape.join.on.clauses
    return (*matching, *shape.condition.clauses)


def condition_texts(record: QueryRecord, clauses: Sequence[Clause] | None = None) -> list[str]:
    """Each clause, of the condition if none are given, in the user's words where it is one part of the text, else written out.

    Of a text in which views are written out also the view that has the clause.
    """
    clauses = record.shape.condition.clauses if clauses is None else clauses
    parts = [clause.tokens for clause in clauses]
    is_template = any(slot.name is not None for slot in record.shape.slots)
    spans = span_texts(record.text, [part for part in parts if part is not None])
    n_clauses = Counter(parts)
    values = [literal_value(c) if isinstance(c, pa.Scalar) else c for c in record.constants]
    texts = []
    for clause in clauses:
        if clause.tokens is None or is_template or n_clauses[clause.tokens] > 1:
            texts.append(" OR ".join(atom_words(atom, record.shape, values) for atom in clause.atoms))
        else:
            texts.append(spans[clause.tokens])
    if not record.view_texts:
        return texts
    return [named + text for named, text in zip(_views_of(record, clauses), texts, strict=True)]


def _views_of(record: QueryRecord, clauses: Sequence[Clause]) -> list[str]:
    """For each clause, what to say before it: the view it stands in; nothing for the query's own."""
    parts = [clause.tokens for clause in clauses if clause.tokens is not None]
    places = span_places(record.text, parts)
    return [
        "" if clause.tokens is None else view_words(record, [places[clause.tokens]]) for clause in clauses
    ]


def view_words(record: QueryRecord, places: Sequence[Span]) -> str:
    """The innermost view that has all these places of a written-out text, before what is said of it; nothing if none has."""
    around = [
        view
        for view in record.view_texts
        if all(view.start <= place.start and place.end <= view.end for place in places)
    ]
    return f"view {min(around, key=lambda view: view.end - view.start).name}: " if around else ""


def _segments(rounds: RoundEngine, shape: Shape) -> tuple[Segment, ...]:
    """Those of its stream; none of a join, aggregation or view that no running query has or reads."""
    catalog = rounds.catalog
    if shape.aggregating is not None or shape.join is not None:
        derived = {each.name for each in catalog.plans.signatures()}
        derived |= {each.name for each in catalog.plans.aggregations()}
        is_known = shape.stream in derived
    else:
        is_known = catalog.relations.find(shape.stream) is not None
    return catalog.plan(shape.stream).segments if is_known else ()


def _served(clause: Clause, placed: dict[str, Any] | None, shape: Shape) -> tuple[str, str | None]:
    """Who decides the clause, and in which structure of the index, if it is one and is built."""
    kinds = {_SERVED_BY[atom.kind] for atom in clause.atoms}
    served = next(kind for kind in ("function", "residual", "index", "constant") if kind in kinds)
    if served == "residual" and len(clause.atoms) == 1 and clause.atoms[0].kind is AtomKind.LIKE:
        return served, "its prefix is looked up in the index; the rest of the pattern is checked"
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


def explain_index(rounds: RoundEngine) -> IndexExplanation:
    """The index of every stream."""
    signatures = {each.name.lower(): each for each in rounds.catalog.plans.signatures()}
    found = []
    for name, stage in rounds.stages():
        facts = stage.snapshot()
        del facts["filters"]  # `explain_filters` shows them
        structures = [_rendered(each) for each in facts["structures"]]
        signature = signatures.get(name)
        if signature is not None:
            structures = [_of_streams(each, signature) for each in structures]
        elif rounds.catalog.relations.find(name) is None:
            continue  # of a join or view that no query has any more
        stream = rounds.catalog.plan(name).stream if signature is None else signature_words(signature)
        found.append({"stream": stream, **facts, "structures": structures})
    return IndexExplanation(in_words(rounds, found))


def _rendered(facts: dict[str, Any] | None, shape: Shape | None = None) -> dict[str, Any] | None:
    """The facts of a structure with its attributes as SQL, of a join in the words of one of its queries."""
    if facts is None:
        return None
    key = None if facts["key"] is None else _attribute_text(facts["key"], shape)
    attributes = [_attribute_text(attribute, shape) for attribute in facts["attributes"]]
    return facts | {"key": key, "attributes": attributes}


def _attribute_text(attribute: Expression, shape: Shape | None) -> str:
    if shape is not None and shape.aggregating is not None:
        return with_aggregate_names(render(attribute), shape)
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
    call_lines = [
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
        "last_message": call_lines[-1] if call_lines else "",
    }
