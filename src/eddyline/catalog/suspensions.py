"""Queries that cannot be answered for now: paused by the engine, with the reason, until they are resumed or replaced."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from eddyline.catalog.catalog import Catalog
from eddyline.model import QueryState, Shape


def suspend(catalog: Catalog, stream: str, missing: Mapping[str, str], now_us: int) -> dict[str, list[int]]:
    """Suspend the running queries on a stream that need one of these columns, in one version; nothing happens if there is none.

    `missing` says of each column why it is not there. Returns the ids of the queries, by column.
    """
    name = stream.lower()
    shapes = [(shape, shape) for shape in catalog.plans.shapes_of.get(name, {})]
    shapes += [
        (branch, shape)
        for shape in catalog.plans.families
        for entry in shape.unnamed_views()
        for branch in (() if entry.view is None else entry.view.shape.all_branches)
        if branch.stream.lower() == name
    ]
    needs: dict[Shape, list[str]] = {}
    for branch, shape in (*shapes, *catalog.plans.unions_on(name).items()):
        lacking = [column for column in missing if column in branch.columns]
        needs[shape] = list(dict.fromkeys([*needs.get(shape, ()), *lacking]))
    whys = {
        shape: "; ".join(missing[column] for column in columns) for shape, columns in needs.items() if columns
    }
    found: dict[str, list[int]] = {}
    for shape, ids in _suspend(catalog, whys, f"on {stream}", now_us).items():
        for column in needs[shape]:
            found.setdefault(column, []).extend(ids)
    return found


def suspend_callers(catalog: Catalog, function: str, version: str, why: str, now_us: int) -> list[int]:
    """Suspend the running queries that call a function in this version, all in one version of the catalog; returns their ids."""
    whys = {
        shape: why
        for shapes in catalog.plans.shapes_of.values()
        for shape in shapes
        if (function, version) in shape.functions
    }
    suspended = _suspend(catalog, whys, f"that call {function}", now_us)
    return [query_id for ids in suspended.values() for query_id in ids]


def suspend_queries(
    catalog: Catalog, whys: Mapping[int, str], now_us: int, *, views: Collection[int] = ()
) -> list[int]:
    """Suspend those of these queries that run, each for its own reason, all in one version; returns their ids.

    Of `views` the bodies are at fault, which run also while the view is paused.
    """
    states = {each: catalog.queries.state(each) for each in whys}
    running = [
        each
        for each, state in states.items()
        if state is QueryState.RUNNING or (each in views and state is QueryState.PAUSED)
    ]
    if running:
        which = f"{len(running)} quer{'y' if len(running) == 1 else 'ies'}"
        with catalog.change(f"suspend {which} that cannot be indexed") as version:
            for query_id in running:
                shape = catalog.queries.registration(query_id).shape
                catalog.stop(shape, [query_id], QueryState.SUSPENDED, version, now_us, whys[query_id])
    return running


def _suspend(catalog: Catalog, whys: Mapping[Shape, str], which: str, now_us: int) -> dict[Shape, list[int]]:
    ids_of = {shape: list(catalog.plans.families[shape].ids()) for shape in whys}
    n = sum(map(len, ids_of.values()))
    if n:
        with catalog.change(f"suspend {n} quer{'y' if n == 1 else 'ies'} {which}") as version:
            for shape, ids in ids_of.items():
                catalog.stop(shape, ids, QueryState.SUSPENDED, version, now_us, whys[shape])
    return ids_of
