"""What aggregates keep, as facts: for `engine.explain_aggregates()`, explain, metrics and the dashboard.

By class: everything below the aggregates (FROM, WHERE, GROUP BY or PARTITION BY), the queries that share its rows, and what each
structure over these rows keeps.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from eddyline.documents import AggregatesExplanation
from eddyline.durations import duration_text
from eddyline.engine import AggregateSizes, RoundEngine, form_of, stream_state
from eddyline.explain.join_state import key_words
from eddyline.explain.subquery_words import in_words
from eddyline.model import (
    FIRST_BODY,
    OVER,
    RUNNING,
    Aggregation,
    Clause,
    Expression,
    SessionWindow,
    Shape,
    TemporalBound,
    TimeWindow,
    ViewRelation,
    iso_time,
)
from eddyline.sql import aggregate_names, atom_words, render, spoken

SHOWN_QUERIES = 20  # of a class
MOST_EPOCHS = 64  # of groups that stay, without a warning: what is kept of a busy group grows with them
HISTORY_CLASSES = 50  # in a point of the history: those that take most

Ids = npt.NDArray[np.int32]
Sizes = dict[str, dict[str, AggregateSizes]]  # by class and kind of structure
_COMPUTED = re.compile(r"#[ke]\d+")  # columns of a class that are expressions
NO_IDS = np.empty(0, np.int32)
_NOTHING = AggregateSizes(0, None, None, 0, None)


def aggregate_facts(
    rounds: RoundEngine, stream: str | None = None, *, own: Ids | None = None
) -> AggregatesExplanation:
    """The classes of all aggregates, or of those over a stream; those that take most memory first. The lock is held.

    `own` are the queries of a user who may see no others: of classes that none of them has only the sizes are given.
    """
    catalog, sizes = rounds.catalog, _sizes(rounds)
    name = None if stream is None else catalog.stream(stream).name.lower()
    found: list[dict[str, Any]] = []
    streams = {} if name is None else {name: _stream_facts(rounds, name)}
    for rows, aggregations in _by_class(rounds).items():
        bases = sorted(catalog.views.base_streams(rows))
        if name is not None and name not in bases:
            continue
        streams |= {each: _stream_facts(rounds, each) for each in bases if each not in streams}
        facts = _class_facts(rounds, rows, aggregations, sizes.get(rows, {}), own)
        found.append(facts | {"streams": [streams[each]["name"] for each in bases]})
    found.sort(key=lambda facts: (-facts["nbytes"], facts["id"]))
    ids = None if own is None else set(own.tolist())
    by_name = {facts["name"]: facts for _, facts in sorted(streams.items())}
    return AggregatesExplanation(by_name, in_words(rounds, found, ids))


def query_aggregate_facts(
    rounds: RoundEngine, shape: Shape, *, own: Ids | None = None
) -> list[dict[str, Any]]:
    """The classes of a query, each with the structures it reads, and why tasks hand on its rows, if so. The lock is held.

    `own` are the queries of a user who may see no others: the others of a class are only counted.
    """
    sizes, classes, found = _sizes(rounds), _by_class(rounds), []
    for each in shape.plain_shapes():
        if each.aggregating is None:
            continue
        aggregation = each.aggregating.aggregation
        rows = aggregation.rows.lower()
        bodies = [entry.view.shape for entry in each.inputs if entry.view is not None]
        known, kept = classes.get(rows, []), sizes.get(rows, {})
        facts = _class_facts(rounds, rows, known or [aggregation], kept, own, bodies, of=aggregation)
        bases = rounds.catalog.views.base_streams(rows) if known else set()
        facts["n_late"] = sum(_stream_facts(rounds, base)["n_late"] for base in bases)
        facts["why_rows"] = rounds.flow.why_rows(rows, aggregation)
        names = aggregate_names(each)
        facts["estimates"] = [
            {"name": names[found.name], "relative_error": found.relative_error}
            for found in each.aggregating.calls
            if found.relative_error is not None
        ]
        found.append(facts)
    return found


def epoch_warnings(rounds: RoundEngine, shape: Shape) -> Iterator[str]:
    """That queries have joined the class of a query in many versions, each with groups of its own that no window takes away. The
    lock is held."""
    if shape.aggregating is None:
        return
    own = shape.aggregating.aggregation
    if own.is_over or own.window is not None or own.reads_table:
        return
    known = _by_class(rounds).get(own.rows.lower(), [])
    versions = [_versions(rounds, each) for each in known if each.kind == own.kind]
    n_epochs = len(np.unique(np.concatenate([np.empty(0, np.int64), *versions])))
    if n_epochs > MOST_EPOCHS:
        yield (
            f"shares its rows with queries of {n_epochs - 1} other versions, each of which has groups of its own: "
            "name a view, and let rules read it"
        )


def _by_class(rounds: RoundEngine) -> dict[str, list[Aggregation]]:
    found: dict[str, list[Aggregation]] = {}
    for each in rounds.catalog.plans.aggregations():
        found.setdefault(each.rows.lower(), []).append(each)
    return found


def _sizes(rounds: RoundEngine) -> Sizes:
    found: Sizes = {}
    for (rows, kind), sizes in rounds.flow.aggregate_sizes().items():
        found.setdefault(rows, {})[kind] = sizes
    return found


def _stream_facts(rounds: RoundEngine, name: str) -> dict[str, Any]:
    """How far a stream is whose rows are aggregated."""
    state = stream_state(rounds, rounds.catalog.stream(name))
    at = None if state.watermark_us is None else iso_time(state.watermark_us)
    return {"name": state.name, "n_rows": state.n_rows, "n_late": state.n_late, "watermark": at}


# --------------------------------------------------------------------------------------------- a class


def _class_facts(
    rounds: RoundEngine,
    rows: str,
    aggregations: Sequence[Aggregation],
    sizes: dict[str, AggregateSizes],
    own: Ids | None,
    bodies: Sequence[Shape] = (),
    of: Aggregation | None = None,
) -> dict[str, Any]:
    """A class with all structures, or with those that a query with the aggregation `of` reads: its text has these `bodies`."""
    relation = rounds.catalog.views.relation(rows)
    if relation is not None and of is None:
        bodies = [feed.shape for feed in relation.feeds]
    is_read = relation is not None
    by_aggregation = {each.name: _queries(rounds, each) if is_read else NO_IDS for each in aggregations}
    queries = np.unique(np.concatenate([NO_IDS, *by_aggregation.values()]))
    shown = queries if own is None else queries[np.isin(queries, own)]
    is_own = own is None or of is not None or len(shown) > 0
    worded = {
        each.name
        for each in aggregations
        if own is None or each == of or np.isin(by_aggregation[each.name], own).any()
    }
    only = None if of is None else _kinds(of, sizes)
    names = _computed(bodies[0]) if bodies and is_own else None
    structures = [
        _structure_facts(rounds, kind, mine, sizes.get(kind, _NOTHING), names, worded, is_read=is_read)
        | {"n_queries": len(np.unique(np.concatenate([by_aggregation[each.name] for each in mine])))}
        for kind, mine in sorted(_by_kind(aggregations, sizes).items())
        if only is None or kind in only
    ]
    return {
        "id": None if relation is None else _class_id(relation),
        "words": " UNION ALL ".join(_class_words(each, of is not None) for each in bodies)
        if is_own
        else None,
        "keys": [names[key] for key in aggregations[0].keys if key in names] if names else [],
        "is_own": is_own,
        "n_queries": len(queries),
        "queries": [
            {"id": i, "name": rounds.catalog.queries.name_of(i)} for i in shown[:SHOWN_QUERIES].tolist()
        ],
        "nbytes": sum(each["nbytes"] for each in structures),
        "structures": structures,
    }


def _class_id(relation: ViewRelation) -> int:
    """The number of a class, as long as some query has it."""
    return relation.feeds[0].body_id - FIRST_BODY + 1


def _queries(rounds: RoundEngine, aggregation: Aggregation) -> Ids:
    """The queries that read an aggregation, in one of their parts or in a view."""
    plan = rounds.catalog.plan(aggregation.name)
    found = [segment.query_ids[segment.is_live] for segment in plan.with_branches.segments]
    bodies = (own_id for segment in plan.bodies for own_id in segment.ids[segment.is_live].tolist())
    above = [i for own_id in bodies for i in rounds.catalog.views.queries_of(own_id)]
    return np.unique(np.concatenate([NO_IDS, *found, np.array(above, np.int32)]))


def _class_words(body: Shape, is_of_query: bool) -> str:
    """FROM and WHERE of a class; views without a name by where they stand in the query's text, else by their relation."""
    named = {entry.alias: entry.label if is_of_query else entry.stream for entry in body.inputs}
    conditions = [_clause_words(clause, body) for clause in body.condition.clauses]
    inputs = [body.inputs[place] for place in body.written_order]
    words = named[inputs[0].alias]
    if body.join is not None:
        matching = [_clause_words(clause, body) for clause in body.join.on.clauses]
        matching = [*key_words(body.join.signature, body.inputs, body.written_order), *matching]
        joined = [_with_alias(named[entry.alias], entry.alias) for entry in inputs]
        words = ", ".join(joined)
        if body.join.signature.outer:
            left, right = joined
            join = next(entry.join for entry in inputs if entry.join not in ("", "inner"))
            words = f"{left} {join.upper()} JOIN {right} ON {' AND '.join(matching)}"
        else:
            conditions = [*matching, *conditions]
    return f"FROM {words}" + (f" WHERE {' AND '.join(conditions)}" if conditions else "")


def _with_alias(name: str, alias: str) -> str:
    return name if alias.lower() == name.lower() else f"{name} {alias}"


def _clause_words(clause: Clause, body: Shape) -> str:
    words = [atom_words(atom, body, ()) for atom in clause.atoms]
    return words[0] if len(words) == 1 else f"({' OR '.join(words)})"


def _computed(body: Shape) -> dict[str, str]:
    """The columns of a class that are expressions, as SQL."""

    def words(expression: Expression) -> str:
        return render(expression if body.join is None else spoken(expression, body.inputs))

    return {each.name: words(each.expression) for each in body.projection if _COMPUTED.fullmatch(each.name)}


# --------------------------------------------------------------------------------------------- its structures


def _kinds(aggregation: Aggregation, sizes: dict[str, AggregateSizes]) -> list[str]:
    """The structures an aggregation reads: of OVER one for each PARTITION BY, once there are any."""
    if not aggregation.is_over:
        return [form_of(aggregation)[1]]
    return [kind for kind in sizes if kind.startswith(OVER)] or [form_of(aggregation)[1]]


def _by_kind(
    aggregations: Sequence[Aggregation], sizes: dict[str, AggregateSizes]
) -> dict[str, list[Aggregation]]:
    found: dict[str, list[Aggregation]] = {}
    for each in aggregations:
        for kind in _kinds(each, sizes):
            found.setdefault(kind, []).append(each)
    return found


def _structure_facts(
    rounds: RoundEngine,
    kind: str,
    readers: Sequence[Aggregation],
    kept: AggregateSizes,
    names: dict[str, str] | None,
    worded: Container[str],
    *,
    is_read: bool,
) -> dict[str, Any]:
    """What is kept in one way; of the texts that need it those of `worded` aggregations are said, and none without `names`."""
    versions = [_versions(rounds, each) for each in readers] if is_read else []
    by = kind.removeprefix(f"{OVER} by").removeprefix(OVER).strip()
    words = (
        [f"PARTITION BY {by}" if by else "no PARTITION BY"]
        if readers[0].is_over
        else [_words(each) for each in readers if each.name in worded]
    )
    return {
        "kind": readers[0].kind,
        "words": [] if names is None else [_named(each, names) for each in dict.fromkeys(words)],
        "epochs": len(np.unique(np.concatenate([np.empty(0, np.int64), *versions]))),
        "groups": kept.groups,
        "slices": kept.slices,
        "rows": kept.rows,
        "nbytes": kept.nbytes,
        "n_refused": kept.n_refused,
        "deadline": None if kept.deadline_us is None else iso_time(kept.deadline_us),
    }


def _versions(rounds: RoundEngine, aggregation: Aggregation) -> npt.NDArray[np.int64]:
    """The versions from which on the queries and views over an aggregation see rows."""
    segments = [s for s in rounds.catalog.plan(aggregation.name).with_bodies.segments if s.n_live]
    versions = [rounds.catalog.queries.first_versions(each)[each.is_live] for each in segments]
    return np.concatenate([np.empty(0, np.int64), *versions])


def _named(text: str, names: dict[str, str]) -> str:
    """A text in which computed columns are called by what they are."""
    return _COMPUTED.sub(lambda found: names.get(found[0], "an expression"), text)


def _words(aggregation: Aggregation) -> str:
    """How rows are grouped in time."""
    window = aggregation.window
    if isinstance(window, TimeWindow):
        slide = f" every {duration_text(window.slide_us)}" if window.slide_us != window.size_us else ""
        return f"windows of {duration_text(window.size_us)}{slide}{_final(aggregation)}"
    if isinstance(window, SessionWindow):
        return f"sessions {duration_text(window.gap_us)} apart{_final(aggregation)}"
    if aggregation.bounds:
        return " AND ".join(map(_bound_words, aggregation.bounds))
    assert aggregation.kind == RUNNING, aggregation.kind
    return "for ever" if aggregation.keep_us is None else f"kept {duration_text(aggregation.keep_us)}"


def _final(aggregation: Aggregation) -> str:
    return ", told when they close" if aggregation.is_final else ""


def _bound_words(bound: TemporalBound) -> str:
    """A comparison with now(), as a condition on the column."""
    sides = []
    if bound.enter_us is not None:
        sides.append(f"{bound.column} <= {_now(-bound.enter_us)}")
    if bound.leave_us is not None:
        sides.append(f"{bound.column} > {_now(-bound.leave_us)}")
    return " AND ".join(sides)


def _now(shift_us: int) -> str:
    if not shift_us:
        return "now()"
    return f"now() {'-' if shift_us < 0 else '+'} {duration_text(abs(shift_us))}"


# --------------------------------------------------------------------------------------------- in numbers


@dataclass(frozen=True, slots=True)
class AggregateCounters:
    """All aggregates of registered queries, as of the last round."""

    n_classes: int = 0
    n_groups: int = 0
    n_slices: int = 0
    n_rows: int = 0  # that are kept as rows
    nbytes: int = 0
    n_refused: int = 0  # rows of groups above the limit


def aggregate_counters(rounds: RoundEngine) -> AggregateCounters:
    """The lock is held."""
    sizes = rounds.flow.aggregate_sizes().values()
    return AggregateCounters(
        n_classes=len({each.rows.lower() for each in rounds.catalog.plans.aggregations()}),
        n_groups=sum(each.groups for each in sizes),
        n_slices=sum(each.slices or 0 for each in sizes),
        n_rows=sum(each.rows or 0 for each in sizes),
        nbytes=sum(each.nbytes for each in sizes),
        n_refused=sum(each.n_refused for each in sizes),
    )


def class_sizes(rounds: RoundEngine) -> dict[int, dict[str, int]]:
    """Groups and bytes of the classes that take most, by their number. The lock is held."""
    found: dict[int, dict[str, int]] = {}
    for (rows, _), sizes in rounds.flow.aggregate_sizes().items():
        relation = rounds.catalog.views.relation(rows)
        if relation is not None:
            facts = found.setdefault(_class_id(relation), {"groups": 0, "nbytes": 0})
            facts["groups"] += sizes.groups
            facts["nbytes"] += sizes.nbytes
    largest = sorted(found, key=lambda number: (-found[number]["nbytes"], number))[:HISTORY_CLASSES]
    return {number: found[number] for number in largest}
