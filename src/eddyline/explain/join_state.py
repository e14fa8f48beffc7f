"""What joins keep and do, as facts: for `engine.joins()`, explain, metrics and the dashboard.

By stream: the rows that are kept of it, once for all joins that read it. By signature: the queries that are executed as one join,
what its inputs are found by, and in which order a new row looks for partners.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from eddyline.catalog import QueryRecord
from eddyline.documents import JoinsExplanation
from eddyline.engine import RoundEngine
from eddyline.explain.partitions import partitions_of
from eddyline.explain.subquery_words import in_words, is_of_others
from eddyline.joins import can_drive, range_probe
from eddyline.model import Expression, Input, Role, Signature, StreamPlan, iso_time
from eddyline.sql import (
    input_names,
    input_words,
    over_joined,
    render,
    retention_words,
    signature_words,
    spoken,
)

_STORED_ROLES = (Role.WINDOW, Role.TABLE, Role.AS_OF, Role.VIEW)
_COUNTED = ("n_drivers", "n_probes", "n_shared", "n_looked_at", "n_matches", "n_combinations")


Ids = npt.NDArray[np.int32]


def join_facts(rounds: RoundEngine, *, own: Ids | None = None) -> JoinsExplanation:
    """All joins. The lock is held.

    `own` are the queries of a user who may see no others: joins that none of them has are left out, and so is what those
    find rows by.
    """
    catalog = rounds.catalog
    joins = [
        each
        for each in catalog.plans.signatures()
        if own is None or _is_read_by(catalog.plan(each.name), own)
    ]
    signatures = [_signature_facts(rounds, signature) for signature in joins]
    held = held_facts(rounds)
    names = {entry.stream.lower() for each in catalog.plans.signatures() for entry in each.inputs}
    names = {name for name in names if _sharing(rounds, name)} | held.keys()
    ids = None if own is None else set(own.tolist())
    streams = {
        catalog.relations.get(name).name: _stream_facts(rounds, name, held.get(name))
        | ({} if own is None else {"found_by": _found_by(joins, name)})
        for name in sorted(names)
        if catalog.relations.find(name) is not None and (ids is None or not is_of_others(rounds, name, ids))
    }
    return JoinsExplanation(
        in_words(rounds, streams, ids), in_words(rounds, signatures, ids), dataclasses.asdict(rounds.choices)
    )


def _found_by(signatures: Iterable[Signature], name: str) -> list[str]:
    """By what these joins find rows of a stream."""
    found: dict[str, None] = {}
    for signature in signatures:
        for place in signature.places(name):
            sides = [key.side(place) for key in signature.keys if place in (key.left, key.right)]
            if sides and signature.inputs[place].role in _STORED_ROLES:
                found[", ".join(dict.fromkeys(render(side) for side in sides))] = None
    return list(found)


def _is_read_by(plan: StreamPlan, own: Ids) -> bool:
    segments = plan.with_branches.segments
    return any(np.isin(segment.query_ids[segment.is_live], own).any() for segment in segments)


# --------------------------------------------------------------------------------------------- streams


def held_facts(rounds: RoundEngine) -> dict[str, dict[str, Any]]:
    """Sizes of what is held, by stream in lower case. The lock is held."""
    stage = rounds.flow.joins.stage
    stems = {name: stem.snapshot() for name, stem in stage.stems.items()}
    return stems | {name: table.snapshot() for name, table in stage.tables.items()}


def _stream_facts(rounds: RoundEngine, name: str, held: Mapping[str, Any] | None) -> dict[str, Any]:
    sharing = _sharing(rounds, name)
    stage = rounds.flow.joins.stage
    stem, table = stage.stems.get(name), stage.tables.get(name)
    keys = stem.keys if stem is not None else table.keys if table is not None else ()
    facts: dict[str, Any] = {
        "rows": 0,
        "nbytes": 0,
        **(held or {}),
        "kind": "table" if table is not None or rounds.catalog.relations.get(name).is_keyed else "window",
        "keys": len(keys),
        "found_by": [", ".join(render(part) for part in key) for key in keys],
        "n_signatures": len(sharing),
        "n_queries": sum(rounds.catalog.plan(each.name).n_queries for each in sharing),
        "oldest": None,
        "oldest_age_s": None,
        "partitions": [dataclasses.asdict(each) for each in partitions_of(rounds, name)],
    }
    if stem is not None and stem.n_rows:
        oldest_us = int(stem.rows.now_us[stem.numbers.every_row()[0]])
        facts["oldest"] = iso_time(oldest_us)
        facts["oldest_age_s"] = max(0.0, (rounds.now_us() - oldest_us) / 1e6)
    return facts


def _sharing(rounds: RoundEngine, name: str) -> list[Signature]:
    """The signatures that look up rows that are kept of a stream."""
    return [
        signature
        for signature in rounds.catalog.plans.signatures()
        if any(signature.inputs[place].role in _STORED_ROLES for place in signature.places(name))
    ]


# --------------------------------------------------------------------------------------------- signatures


def _signature_facts(rounds: RoundEngine, signature: Signature) -> dict[str, Any]:
    plan = rounds.catalog.plan(signature.name)
    names = input_names(signature)
    live = [segment for segment in plan.with_branches.segments if segment.n_live]
    return {
        "name": signature.name,
        "words": signature_words(signature),
        "outer": signature.outer,
        "inputs": [
            {"stream": entry.stream, "name": name, "role": entry.role.value}
            for entry, name in zip(signature.inputs, names, strict=True)
        ],
        "keys": key_words(signature, [Input(name, name) for name in names]),
        "ordered_by": _order_words(rounds, signature, [Input(name, name) for name in names]),
        "n_queries": plan.n_queries,
        "n_shapes": len({segment.shape for segment in live}),
        "origins": origin_facts(rounds, signature, names),
    }


def key_words(signature: Signature, inputs: Sequence[Input], order: Sequence[int] = ()) -> list[str]:
    """The equalities, with what the inputs are called; the one that is earlier in `order` comes first."""
    found = []
    for key in signature.keys:
        sides = sorted((key.left, key.right), key=order.index) if order else (key.left, key.right)
        found.append(" = ".join(render(spoken(over_joined(key.side(at), at), inputs)) for at in sides))
    return found


def _order_words(rounds: RoundEngine, signature: Signature, inputs: Sequence[Input]) -> list[str]:
    """What rows are looked up by in order, where no equality leads from one input to another; as of the last round."""
    stage, orders = rounds.flow.joins.stage, dict[tuple[int, Expression], None]()
    plan = stage.plan.by_name.get(signature.name)
    if plan is None:
        return []
    trees = [origin.tree for (name, _), origin in stage.origins.items() if name == signature.name]
    for tree in trees:
        for place in tree.others:
            probe = range_probe(plan.ranges, tree, place)
            if probe is not None and signature.inputs[place].role is Role.WINDOW:
                orders[place, probe.key] = None
    return [
        render(spoken(over_joined(key, place), inputs))
        for place, key in sorted(orders, key=lambda each: each[0])
    ]


def origin_facts(rounds: RoundEngine, signature: Signature, names: Sequence[str]) -> list[dict[str, Any]]:
    """From each input whose new rows look for partners: in which order, why, and what came of it so far."""
    known = rounds.flow.joins.stage.origins
    found = []
    for place in range(len(signature)):
        if not can_drive(signature, place):
            continue
        facts: dict[str, Any] = {"input": place, "name": names[place], "order": None, "why": None}
        facts["n_reordered"] = 0
        facts["conditions"] = rounds.flow.placements.facts((signature.name, place), rounds.choices)
        facts |= dict.fromkeys(_COUNTED, 0)
        origin = known.get((signature.name, place))
        if origin is not None:
            facts |= {name: int(getattr(origin.counters, name)) for name in _COUNTED}
            facts["n_reordered"] = origin.order.n_reordered
            if origin.counters.n_drivers:
                facts["order"] = [names[other] for other in origin.order.current_order]
                facts["why"] = origin.order.why(names)
        found.append(facts)
    return found


@dataclass(frozen=True, slots=True)
class JoinCounters:
    """All joins of registered queries: since rows first came to them in this process."""

    n_signatures: int = 0
    n_drivers: int = 0  # rows that looked for partners
    n_probes: int = 0
    n_shared: int = 0  # probes that another join had made
    n_looked_at: int = 0  # rows that were compared
    n_matches: int = 0  # partners found, before further conditions
    n_combinations: int = 0  # rows that were joined
    n_reorders: int = 0  # changes of the order of probes


def join_counters(rounds: RoundEngine) -> JoinCounters:
    """The lock is held."""
    origins = list(rounds.flow.joins.stage.origins.values())
    counted = [origin.counters for origin in origins]
    totals = {name: sum(int(getattr(each, name)) for each in counted) for name in _COUNTED}
    n_reorders = sum(origin.order.n_reordered for origin in origins)
    return JoinCounters(len(rounds.catalog.plans.signatures()), **totals, n_reorders=n_reorders)


# --------------------------------------------------------------------------------------------- one query


def query_join_facts(rounds: RoundEngine, record: QueryRecord) -> dict[str, Any] | None:
    """A join query's inputs, keys and probe orders in its own words; None for any other query. The lock is held."""
    shape = record.shape
    if shape.join is None:
        return None
    signature, held = shape.join.signature, held_facts(rounds)
    aliases = [entry.alias for entry in shape.inputs]
    inputs = []
    for place in shape.written_order:
        entry, name = shape.inputs[place], shape.inputs[place].stream.lower()
        facts: dict[str, Any] = {
            "alias": entry.alias,
            "stream": entry.stream,
            "words": input_words(entry),
            "role": signature.inputs[place].role.value,
            "kept": retention_words(shape, place),
            "held": None,
        }
        if signature.inputs[place].role in _STORED_ROLES:
            known = held.get(name, {"rows": 0, "nbytes": 0})
            n_queries = sum(rounds.catalog.plan(each.name).n_queries for each in _sharing(rounds, name))
            facts["held"] = {"rows": known["rows"], "nbytes": known["nbytes"], "n_queries": n_queries}
        inputs.append(facts)
    is_known = any(each.name == signature.name for each in rounds.catalog.plans.signatures())
    return {
        "signature": signature.name,
        "outer": "right" if shape.inputs[0].join == "right" else signature.outer,
        "n_queries": rounds.catalog.plan(signature.name).n_queries if is_known else 0,
        "inputs": inputs,
        "keys": key_words(signature, shape.inputs, shape.written_order),
        "ordered_by": _order_words(rounds, signature, shape.inputs),
        "origins": origin_facts(rounds, signature, aliases),
    }


# --------------------------------------------------------------------------------------------- over time


def held_sizes(rounds: RoundEngine) -> dict[str, dict[str, int]]:
    """Rows and bytes that joins hold of each stream. The lock is held."""
    held, relations = held_facts(rounds), rounds.catalog.relations
    found = {stream.name: held[name] for name in sorted(held) if (stream := relations.find(name)) is not None}
    return {name: {"rows": facts["rows"], "nbytes": facts["nbytes"]} for name, facts in found.items()}
