"""What routers do, as facts for people: the order of expensive filters, what each costs and lets through, and why it changed.

Enters: the stage of a stream and its plan; for a user who may not see everything, also their queries. Leaves: a document ready
for JSON. `documents/filter_explanations.py` says it in words, and the dashboard draws it.

What queries would have evaluated each for itself, without sharing, is estimated from sampled rows: every query in its own best
order, by drops per second, up to the first filter that drops the row. So it is about so many.
"""

from __future__ import annotations

import contextlib
import copy
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.catalog import QueryRecord
from eddyline.documents import change_words, latest_changes
from eddyline.engine import RoundEngine, filter_text
from eddyline.expressions import Context, literal_value
from eddyline.filters import FilterPool, FilterStage, filter_key, is_dear, with_constants
from eddyline.model import Segment, Signature, StreamPlan
from eddyline.routing import (
    BoolMatrix,
    FilterSet,
    FloatVector,
    InOrder,
    Learner,
    Profile,
    Router,
    Statistics,
    lower_bound,
    seconds_on,
)
from eddyline.sql import signature_text, signature_words

Ids = npt.NDArray[np.int32]

SHOWN_CHANGES = 60
SHOWN_PLACES = 24  # of the orders in the history
BOUND_ROWS = 500  # sampled rows a bound is made of
MOST_BOUND_CLASSES = 1_000
MOST_TREE_FILTERS = 100  # walking a tree by hand takes seconds above
GROWN = 1.1  # rows, since which a bound is no longer new


@dataclass(frozen=True)
class _StageView:
    """A router at one moment."""

    snapshot: dict[str, Any]
    keys: tuple[str, ...]
    sampled: Profile
    filters: FilterSet
    statistics: Statistics
    pairs: tuple[int, ...]
    generation: int


@dataclass(frozen=True)
class _Bound:
    """A bound that was made, and when."""

    generation: int
    n_rows: int
    facts: dict[str, Any]


@dataclass(frozen=True)
class _Needed:
    """How many queries need which filters of a stream, by key. `own` are those of the caller; None if it may see all."""

    n_queries: Mapping[str, int]
    n_with_filters: int  # queries
    own: frozenset[str] | None

    def may_see(self, key: str) -> bool:
        return self.own is None or key in self.own

    def text(self, key: str) -> str | None:
        """The filter as SQL, or None if the caller may not see it."""
        return filter_text(key) if self.may_see(key) else None


_guard = threading.Lock()
_pools: WeakKeyDictionary[FilterStage, FilterPool] = WeakKeyDictionary()
_needed_by_all: WeakKeyDictionary[FilterStage, tuple[int, _Needed]] = WeakKeyDictionary()  # and its version
_bounds: WeakKeyDictionary[Router, _Bound] = WeakKeyDictionary()


# --------------------------------------------------------------------------------------------- a stream


def filter_facts(
    rounds: RoundEngine, stream: str, *, own: Ids | None = None, with_bound: bool = False
) -> dict[str, Any]:
    """All about the filters of a stream.

    `own` are the queries of a user who may see no others: filters that none of them needs have no text and no numbers.
    `with_bound` asks also how far from the best possible the order is, which takes a moment.
    """
    with rounds.lock:
        rounds.check_open()
        signature = _signature(rounds, stream)
        name = rounds.catalog.relations.get(stream).name if signature is None else signature.name
        plan = rounds.catalog.plan(name)
        stage = dict(rounds.stages()).get(name.lower())
        last_round = rounds.last_round
    needed = _needed(rounds, stage, plan, own)
    facts: dict[str, Any] = {
        "stream": name,
        "policy": rounds.routing.policy,
        "options": rounds.routing.given,
        "is_strict": rounds.routing.is_strict,
        "last_round": last_round,
        "n_queries": needed.n_with_filters,
    }
    view = _look(stage, rounds.routing.policy)
    shown = _filters_in_use(view, needed)
    alone, is_at_least = _alone(view)
    facts |= _totals(view, alone, is_at_least)
    facts["filters"] = _filters(view, shown, needed, alone)
    facts["tree"] = _tree(view.snapshot["evidence"].get("tree"), lambda k: needed.text(view.keys[k]))
    facts["history"] = _history(view, frozenset(shown), needed)
    facts["bound"] = None
    if with_bound and stage is not None:
        facts["bound"] = _bound(stage, view)
    if signature is not None:
        facts["stream"] = signature_words(signature)
        for name in ("filters", "tree", "history"):
            facts[name] = _in_column_words(facts[name], signature)
    return facts


def has_filters(rounds: RoundEngine, signature: Signature) -> bool:
    """Whether a join has expensive conditions."""
    shapes = rounds.catalog.plan(signature.name).with_branches.by_shape
    return any(is_dear(clause) for shape in shapes for clause in shape.condition.clauses)


def _signature(rounds: RoundEngine, name: str) -> Signature | None:
    """The join whose rows are called so."""
    return next(
        (each for each in rounds.catalog.plans.signatures() if each.name.lower() == name.lower()), None
    )


def _in_column_words(facts: Any, signature: Signature) -> Any:
    """Facts in which columns of a join's rows are named by their streams."""
    if isinstance(facts, dict):
        return {name: _in_column_words(value, signature) for name, value in facts.items()}
    if isinstance(facts, list):
        return [_in_column_words(value, signature) for value in facts]
    return signature_text(signature, facts) if isinstance(facts, str) else facts


def clause_filters(rounds: RoundEngine, record: QueryRecord) -> list[dict[str, Any] | None]:
    """For each clause of a query, registered or not, the filter it is, or None: how many other queries have it, its
    place in the order, what it costs and lets through. The lock is held."""
    clauses = record.shape.condition.clauses
    found: list[dict[str, Any] | None] = [None] * len(clauses)
    dear = [number for number, clause in enumerate(clauses) if is_dear(clause)]
    if not dear or rounds.routing.is_strict:
        return found
    if record.shape.join is not None and all(
        each.name != record.shape.stream for each in rounds.catalog.plans.signatures()
    ):
        return found  # the first of its join, which no registered query has yet
    if record.shape.join is None and rounds.catalog.relations.find(record.shape.stream) is None:
        return found  # of a view that no running query reads
    plan = rounds.catalog.plan(record.shape.stream)
    stage = dict(rounds.stages()).get(record.shape.stream.lower())
    needed = _needed(rounds, stage, plan, None)
    segment, is_live = _alone_in_a_segment(record), _is_live(plan, record)
    view = _look(stage, rounds.routing.policy)
    shown = _filters_in_use(view, needed)
    numbers = {view.keys[k]: k for k in shown}
    for number in dear:
        key = filter_key([with_constants(atom.condition, segment, 0) for atom in clauses[number].atoms])
        n_queries, k = needed.n_queries.get(key), numbers.get(key)
        if n_queries is None:
            continue
        facts = {"n_others": n_queries - is_live, "place": None, "n_filters": len(needed.n_queries)}
        if k is not None:
            facts |= {"place": shown.index(k) + 1, **_measured(view, k)}
        found[number] = facts
    return found


def _look(stage: FilterStage | None, policy: str) -> _StageView:
    """The router of a stage; of a stream without one, a router that has seen nothing."""
    router = Router(policy) if stage is None else stage.router
    with contextlib.nullcontext() if stage is None else stage.learning_lock:
        return _StageView(
            router.snapshot(),
            tuple(router.keys),
            router.sampled_rows(),
            router.filters,
            router.statistics,
            tuple(router.totals.pairs),
            router.routing().generation,
        )


def _filters_in_use(view: _StageView, needed: _Needed) -> list[int]:
    """Filters that some query needs, in the order in which they run."""
    return [k for k in view.snapshot["order"] if view.keys[k] in needed.n_queries]


def _is_live(plan: StreamPlan, record: QueryRecord) -> bool:
    segments = plan.with_branches.by_shape.get(record.shape, ())
    return any((segment.query_ids[segment.is_live] == record.id).any() for segment in segments)


def _alone_in_a_segment(record: QueryRecord) -> Segment:
    values = [literal_value(value) if isinstance(value, pa.Scalar) else value for value in record.constants]
    slots = tuple(
        pa.array([value], slot.type) for value, slot in zip(values, record.shape.slots, strict=True)
    )
    return Segment(record.shape, np.zeros(1, np.int32), slots, np.ones(1, bool))


# --------------------------------------------------------------------------------------------- who needs what


def _needed(rounds: RoundEngine, stage: FilterStage | None, plan: StreamPlan, own: Ids | None) -> _Needed:
    if rounds.routing.is_strict:
        return _Needed({}, 0, None if own is None else frozenset())
    with _guard:
        if stage is None or own is not None:
            return _counted(_pool(rounds, stage), plan, own)
        known = _needed_by_all.get(stage)
        if known is None or known[0] != plan.version:
            known = _needed_by_all[stage] = plan.version, _counted(_pool(rounds, stage), plan, None)
        return known[1]


def _counted(pool: FilterPool, plan: StreamPlan, own: Ids | None) -> _Needed:
    n_queries: dict[str, int] = {}
    n_with_filters = 0
    owned: set[str] = set()
    for segment in plan.with_branches.segments:
        columns = pool.of(segment).filters if segment.n_live else ()
        if not columns:
            continue
        live = segment.is_live
        n_with_filters += int(np.count_nonzero(live))
        mine = live if own is None else live & np.isin(segment.query_ids, own)
        stacked = np.sort(np.stack(columns), axis=0)
        is_new = np.ones(stacked.shape, bool)  # one query may have a filter twice
        is_new[1:] = stacked[1:] != stacked[:-1]
        for k, n in zip(*np.unique(stacked[is_new & live], return_counts=True), strict=True):
            key = pool.filters[k].key
            n_queries[key] = n_queries.get(key, 0) + int(n)
        owned |= {pool.filters[k].key for k in np.unique(stacked[:, mine])}
    return _Needed(n_queries, n_with_filters, None if own is None else frozenset(owned))


def _pool(rounds: RoundEngine, stage: FilterStage | None) -> FilterPool:
    """A pool of our own: that of the stage belongs to its rounds."""
    pool = None if stage is None else _pools.get(stage)
    if pool is None or pool.is_full:
        context = Context(0, rounds.time_zone, rounds.functions.call)
        pool = FilterPool(context, name="filters that are shown")
        if stage is not None:
            _pools[stage] = pool
    return pool


# --------------------------------------------------------------------------------------------- numbers


def _totals(view: _StageView, alone: FloatVector, is_at_least: bool) -> dict[str, Any]:
    snapshot = view.snapshot
    n_evaluations, extra = snapshot["n_asked"], snapshot["n_extra"]
    n_alone = round(float(alone.sum()))
    return {
        "decides": snapshot["decides"],
        "candidates": {name: cost_s for name, cost_s in snapshot["candidates"].items() if cost_s is not None},
        "n_rows": snapshot["n_rows"],
        "n_evaluations": n_evaluations,
        "n_sampled_evaluations": extra,
        "n_alone": n_alone,
        "is_at_least": is_at_least,  # of queries nothing is known of, one evaluation is counted
        "n_saved": n_alone - n_evaluations - extra,
        "seconds": snapshot["seconds"],
        "sampled_s": snapshot["extra_s"],
        "overhead_s": snapshot["overhead_s"],
        "sample_rate": snapshot["rate"],
        "n_sampled_rows": snapshot["sampled_rows"],
    }


def _filters(
    view: _StageView, shown: Sequence[int], needed: _Needed, alone: FloatVector
) -> list[dict[str, Any]]:
    """In the order in which they run; those no row has come to are last."""
    found = []
    for place, k in enumerate(shown, start=1):
        key = view.keys[k]
        entry = {"id": k, "place": place, "text": needed.text(key), "is_own": needed.may_see(key)}
        numbers = {
            "n_queries": needed.n_queries[key],
            **_measured(view, k),
            "n_alone": round(float(alone[k])),
        }
        found.append(entry | (numbers if entry["is_own"] else dict.fromkeys(numbers)))
    met = set(view.keys)
    for key, n in needed.n_queries.items():
        if key not in met:
            entry = {"id": None, "place": None, "text": needed.text(key), "is_own": needed.may_see(key)}
            unknown = dict.fromkeys(("cost_s", "follow_cost_s", "pass_rate", "n_alone"))
            found.append(entry | {"n_queries": n if entry["is_own"] else None, "n_rows": 0} | unknown)
    return found


def _measured(view: _StageView, k: int) -> dict[str, Any]:
    facts = view.snapshot["filters"][k]
    n_known = int(np.count_nonzero(view.sampled.known_mask[:, k]))
    n_dropped = int(np.count_nonzero(view.sampled.dropped_mask[:, k]))
    return {
        "cost_s": facts["cost_s"],
        "follow_cost_s": facts["follow_cost_s"] if _shares_its_core(view, k) else None,
        "pass_rate": (n_known - n_dropped) / n_known if n_known else None,
        "n_rows": facts["asked"],
    }


def _shares_its_core(view: _StageView, k: int) -> bool:
    return bool(view.filters.cores) and view.filters.cores.count(view.filters.cores[k]) > 1


def _alone(view: _StageView) -> tuple[FloatVector, bool]:
    """Evaluations by filter if queries shared none, and whether it may be more: for want of sampled rows one each is counted."""
    filters, sampled = view.filters, view.sampled
    n = filters.n_filters
    found: FloatVector = np.zeros(n)
    is_at_least = False
    n_known = sampled.known_mask.sum(axis=0)
    passing = (n_known - sampled.dropped_mask.sum(axis=0) + 1) / (n_known + 2)
    rank = (1 - passing) / view.statistics.cost_s
    let_through = np.where(sampled.known_mask, ~sampled.dropped_mask, passing)
    is_open = _bits(sampled.open_classes, len(filters.queries), len(sampled))
    for q, n_pairs in enumerate(view.pairs):
        chain = sorted(filters.queries[q], key=lambda k: (-rank[k], k))
        rows = np.flatnonzero(is_open[:, q])
        if len(chain) == 1 or not len(rows):
            found[chain[:1]] += n_pairs
            is_at_least |= len(chain) > 1 and n_pairs > 0
            continue
        alive = np.ones(len(rows))
        for k in chain:
            found[k] += n_pairs * float(alive.mean())
            alive *= let_through[rows, k]
    return found, is_at_least


def _bits(sets: Sequence[int], n_classes: int, n_rows: int) -> BoolMatrix:
    """Sets of classes as rows of a matrix."""
    if not sets:
        return np.ones((n_rows, n_classes), bool)
    width = max(1, -(-n_classes // 8))
    packed = np.frombuffer(b"".join(each.to_bytes(width, "little") for each in sets), np.uint8)
    unpacked = np.unpackbits(packed.reshape(len(sets), width), axis=1, bitorder="little")
    return unpacked[:, :n_classes].astype(bool)


# --------------------------------------------------------------------------------------------- the bound


def _bound(stage: FilterStage, view: _StageView) -> dict[str, Any] | None:
    """What the order that decides costs a row, by how much that is more than any strategy needs; None if it is unknown."""
    known = _bounds.get(stage.router)
    n_rows = view.snapshot["n_rows"]
    if known is not None and known.generation == view.generation and n_rows <= GROWN * known.n_rows:
        return known.facts
    with stage.learning_lock:
        policy = copy.deepcopy(stage.router.incumbent)  # `next` remembers, and its rounds go on
        sampled, statistics = stage.router.sampled_rows(), stage.router.statistics
        is_partial = not stage.router.samples_all  # rows on which all is known would be no fair sample
    if is_partial or not len(sampled) or len(policy.filters.queries) > MOST_BOUND_CLASSES:
        return None
    rows = _whole_rows(policy.filters, sampled)[-_rows_for(policy) :]
    if not len(rows):
        return None
    some = Profile(
        sampled.dropped_mask[rows], sampled.known_mask[rows], tuple(sampled.open_classes[row] for row in rows)
    )
    least_s = lower_bound(policy.filters, statistics, some)
    spent_s = float(seconds_on(policy, some, statistics).mean())
    if not least_s:
        return None
    facts = {
        "policy_s": spent_s,
        "least_s": least_s,
        "ratio": max(1.0, spent_s / least_s),
        "n_rows": len(rows),
    }
    _bounds[stage.router] = _Bound(view.generation, n_rows, facts)
    return facts


def _rows_for(policy: Learner) -> int:
    n = policy.filters.n_filters
    if isinstance(policy, InOrder) or n <= 30:
        return BOUND_ROWS
    return 0 if n > MOST_TREE_FILTERS else math.ceil(BOUND_ROWS * (30 / n) ** 2)


def _whole_rows(filters: FilterSet, sampled: Profile) -> npt.NDArray[np.int64]:
    """Sampled rows on which all is known that a query open on them needs."""
    is_open = _bits(sampled.open_classes, len(filters.queries), len(sampled))
    row_mask = np.zeros_like(sampled.known_mask)
    for q, query in enumerate(filters.queries):
        row_mask[:, sorted(query)] |= is_open[:, q, None]
    return np.flatnonzero(~(row_mask & ~sampled.known_mask).any(axis=1) & is_open.any(axis=1))


# --------------------------------------------------------------------------------------------- order and tree


def _tree(node: Mapping[str, Any] | None, text: Callable[[int], str | None]) -> dict[str, Any] | None:
    """The first levels of a decision tree."""
    if node is None:
        return None
    return {
        "filter": node["filter"],
        "text": text(node["filter"]),
        "share": node["share"],
        "passes": _tree(node["yes"], text),
        "drops": _tree(node["no"], text),
    }


def _history(view: _StageView, shown: frozenset[int], needed: _Needed) -> list[dict[str, Any]]:
    """Changes, the oldest first, with the order after each: of the filters in use, the first places.

    Those that are about filters of others alone have no words.
    """
    found = []
    for entry in latest_changes(view.snapshot["history"], SHOWN_CHANGES):
        named = {"reordered": ("came", "left"), "drifted": ("filter",)}.get(entry["kind"], ())
        keys = [view.keys[entry[word]] for word in named]
        is_theirs = not keys or any(needed.may_see(key) for key in keys)
        found.append(
            {
                "round": entry["round"],
                "kind": entry["kind"],
                "what": entry.get("what"),
                "policy": entry["policy"],
                "order": [k for k in entry["order"] if k in shown][:SHOWN_PLACES],
                "words": change_words(entry, lambda k: needed.text(view.keys[k])) if is_theirs else None,
            }
        )
    return found
