"""Many queries of one template at once: which of them are registered as they should be, and new constants for the others.

What would take a walk through the catalog per query is done on columns here, so that a table of a million rows of which ten
changed costs a comparison and ten changes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.catalog.aged_shapes import without_age
from eddyline.catalog.catalog import Catalog
from eddyline.catalog.queries import Registration
from eddyline.model import Properties, QueryState, Shape

TELL_EVERY = 1_000
Ids = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


def is_same_shape(a: Shape, b: Shape) -> bool:
    """Whether two shapes mean the same, though one was bound now and the other read from the disk, or for another version."""
    a, b = without_age(a), without_age(b)
    return a is b or (
        a.inputs == b.inputs
        and a.condition == b.condition
        and a.slots == b.slots
        and a.projection == b.projection
        and a.functions == b.functions
        and a.aggregating == b.aggregating
        and len(a.branches) == len(b.branches)
        and all(map(is_same_shape, a.branches, b.branches))
    )


def identical_mask(
    catalog: Catalog,
    ids: Ids,
    is_text: Callable[[str], bool],
    shape: Shape,
    slots: Sequence[pa.Array],
    properties: Properties,
) -> Mask:
    """Which of the queries `ids` (0: none) have such a text, these properties and, in row k of `slots`, these constants."""
    is_same = np.zeros(len(ids), dtype=bool)
    has_text = _has_text(catalog, ids, is_text, properties)
    order = np.argsort(ids, kind="stable")
    ordered = ids[order]
    for known, family in catalog.plans.families.items():
        if known.stream.lower() != shape.stream.lower() or not is_same_shape(known, shape):
            continue
        for segment in family.segments():
            there = segment.ids[segment.is_live].astype(np.int64)
            at = np.searchsorted(ordered, there)
            found = at < len(ordered)
            found[found] = ordered[at[found]] == there[found]
            mine = order[at[found]]
            theirs = np.flatnonzero(segment.is_live)[found]
            is_same[mine] = equal_rows(slots, mine, segment.slots, theirs)
    for query_id, constants in catalog.queries.parked.items():
        place = int(np.searchsorted(ordered, query_id))
        if place < len(ordered) and ordered[place] == query_id:
            row = int(order[place])
            registration = catalog.queries.registration(query_id)
            is_same[row] = (
                is_same_shape(registration.shape, shape)
                and equal_rows(
                    slots, np.array([row]), [pa.array([c], c.type) for c in constants], np.array([0])
                ).all()
            )
    return is_same & has_text


def equal_rows(ours: Sequence[pa.Array], our_rows: Ids, theirs: Sequence[pa.Array], their_rows: Ids) -> Mask:
    """Whether constants are the same, row by row: NULL is NULL, NaN is NaN, and 0.0 is not -0.0."""
    is_equal = np.ones(len(our_rows), dtype=bool)
    for a, b in zip(ours, theirs, strict=True):
        mine, other = a.take(pa.array(our_rows)), b.take(pa.array(their_rows))
        if pa.types.is_nested(a.type):
            is_equal &= np.array(
                [x == y for x, y in zip(mine.to_pylist(), other.to_pylist(), strict=True)], dtype=bool
            )
            continue
        if pa.types.is_floating(a.type):
            bits = pa.int64() if a.type.bit_width == 64 else pa.int32()
            is_nan = pc.and_(pc.is_nan(mine), pc.is_nan(other)).fill_null(False)
            same = pc.or_(pc.equal(mine.view(bits), other.view(bits)).fill_null(False), is_nan)
        else:
            same = pc.equal(mine, other).fill_null(False)
        both_null = pc.and_(mine.is_null(), other.is_null())
        is_equal &= np.asarray(pc.or_(same, both_null).to_numpy(zero_copy_only=False))
    return is_equal


def _has_text(catalog: Catalog, ids: Ids, is_text: Callable[[str], bool], properties: Properties) -> Mask:
    has_text = np.zeros(len(ids), dtype=bool)
    for template in catalog.queries.templates:
        if is_text(template.text) and template.properties == properties:
            has_text |= (ids >= template.first_id) & (ids < template.first_id + template.n)
    single = np.isin(ids, np.fromiter(catalog.queries.singles, np.int64, len(catalog.queries.singles)))
    for row in np.flatnonzero(single):
        registration = catalog.queries.singles[int(ids[row])]
        has_text[row] = is_text(registration.text) and registration.properties == properties
    return has_text


def replace_many(
    catalog: Catalog,
    ids: Ids,
    text: str,
    shape: Shape,
    slots: Sequence[pa.Array],
    properties: Properties,
    now_us: int,
    *,
    tell: Callable[[int], None] = lambda done: None,
) -> None:
    """Another text or other constants for many queries, in one version. One that was paused by hand stays paused, one that
    was suspended is active again.

    `tell` is called now and then with the number done.
    """
    if not len(ids):
        return
    order = np.argsort(ids)
    ids = ids[order]
    slots = [column.take(pa.array(order)) for column in slots]
    with catalog.change(f"replace {len(ids)} queries") as version:
        shape = catalog.aged(shape, version)
        paused: list[int] = []
        leaving: dict[Shape, list[int]] = {}
        for query_id in map(int, ids):
            catalog.end_alert(query_id, version, "replaced")
            old = catalog.queries.registration(query_id)
            if catalog.queries.state(query_id) is QueryState.PAUSED and old.properties.is_enabled:
                paused.append(query_id)
            if catalog.queries.parked.pop(query_id, None) is None:
                leaving.setdefault(old.shape, []).append(query_id)
        for old_shape, members in leaving.items():
            catalog.plans.family(old_shape).remove(members)
            catalog.plans.touch(old_shape, members, version)
        rows = list(zip(*(column.to_pylist() for column in slots), strict=True)) if slots else [()] * len(ids)
        for done, (query_id, constants) in enumerate(zip(map(int, ids), rows, strict=True)):
            if done % TELL_EVERY == 0:
                tell(done)
            old, generation = catalog.queries.registration(query_id), catalog.queries.generation(query_id) + 1
            catalog.rows.end(query_id, version)
            catalog.names.remove(query_id, old)
            name = None if old.names is None else old.name(query_id)
            registration = Registration(query_id, 1, text, shape, properties, name, version, now_us)
            catalog.queries.singles[query_id] = registration
            catalog.alerts.note(registration)
            catalog.rows.write(registration, constants, QueryState.RUNNING, generation)
            catalog.names.add(name, properties.owner, query_id)
            catalog.queries.begin_generation(query_id, generation, version, now_us)
        catalog.plans.family(shape).add_many(ids.astype(np.int32), slots)
        catalog.plans.touch(shape, ids.astype(np.int32), version)
        for query_id in map(int, ids) if not properties.is_enabled else paused:
            catalog.set_paused(query_id, True, now_us)


def parameter_query_ids(
    catalog: Catalog,
    ids: Ids,
    is_text: Callable[[str], bool],
    owner: str,
    could_name: Callable[[str], object],
) -> Ids:
    """Those of `ids` that are queries with parameters of this owner and have this text, or a name that could be of its making."""
    found = []
    for query_id in map(int, ids):
        registration = catalog.queries.registration(query_id)
        if registration.properties.owner != owner or not any(slot.name for slot in registration.shape.slots):
            continue
        if is_text(registration.text) or could_name(registration.name(query_id)):
            found.append(query_id)
    return np.array(found, np.int64)


QueryColumns = tuple[Shape, npt.NDArray[Any], list[pa.Array]]  # a shape, queries of it, and their constants


def parameter_columns(catalog: Catalog) -> list[QueryColumns]:
    """Queries with named parameters and their constants, as the catalog has them: nothing is copied."""
    found: list[QueryColumns] = []
    for shape, family in catalog.plans.families.items():
        if any(slot.name for slot in shape.slots):
            found += [(shape, segment.ids, list(segment.slots)) for segment in family.segments()]
    for query_id, constants in catalog.queries.parked.items():
        shape = catalog.queries.registration(query_id).shape
        if any(slot.name for slot in shape.slots):
            found.append((shape, np.array([query_id]), [pa.array([c], c.type) for c in constants]))
    return found


def having_value(query_columns: Sequence[QueryColumns], pattern: str) -> Ids:
    """Queries with a parameter whose value contains a text, whatever its case; `NAME=TEXT` looks at that parameter alone.

    Some of them may have left since.
    """
    name, is_named, text = (part.strip() for part in pattern.partition("="))
    found: list[Ids] = [np.empty(0, np.int64)]
    for shape, ids, columns in query_columns:
        for slot, column in zip(shape.slots, columns, strict=True):
            if slot.name is None:
                continue
            words = _as_words(column)
            hits = pc.match_substring(words, pattern, ignore_case=True)
            if is_named and text and slot.name.lower() == name.lower():
                hits = pc.or_(hits, pc.match_substring(words, text, ignore_case=True))
            found.append(ids[hits.fill_null(False).to_numpy(zero_copy_only=False)].astype(np.int64))
    return np.unique(np.concatenate(found))


def _as_words(column: pa.Array) -> pa.Array:
    if pa.types.is_nested(column.type) or pa.types.is_binary(column.type):
        return pa.array([None if value is None else str(value) for value in column.to_pylist()], pa.string())
    return column.cast(pa.string())


@dataclass(slots=True)
class MemberGroup:
    """Queries with named parameters that have text, shape and properties in common; `slots` has a row for each."""

    text: str
    shape: Shape
    properties: Properties
    ids: list[int]
    names: list[str]
    slots: list[pa.Array]


def member_groups(catalog: Catalog) -> list[MemberGroup]:
    """All queries with named parameters, by template."""
    found: dict[tuple[str, int, Properties], list[tuple[Shape, Ids, list[pa.Array]]]] = {}

    def take(registration: Registration, ids: Ids, slots: Sequence[pa.Array]) -> None:
        key = registration.text, id(registration.shape), registration.properties
        found.setdefault(key, []).append((registration.shape, ids, list(slots)))

    for shape, family in catalog.plans.families.items():
        if not any(slot.name for slot in shape.slots):
            continue
        for segment in family.segments():
            single = np.isin(
                segment.ids, np.fromiter(catalog.queries.singles, np.int64, len(catalog.queries.singles))
            )
            for at in np.flatnonzero(single & segment.is_live):
                query_id = int(segment.ids[at])
                take(
                    catalog.queries.singles[query_id],
                    np.array([query_id]),
                    [s.slice(int(at), 1) for s in segment.slots],
                )
            for template in catalog.queries.templates:
                inside = (segment.ids >= template.first_id) & (segment.ids < template.first_id + template.n)
                places = np.flatnonzero(inside & segment.is_live & ~single)
                if len(places):
                    columns = [s.take(pa.array(places)) for s in segment.slots]
                    take(template, segment.ids[places].astype(np.int64), columns)
    for query_id, constants in catalog.queries.parked.items():
        parked = catalog.queries.registration(query_id)
        if any(slot.name for slot in parked.shape.slots):
            take(parked, np.array([query_id]), [pa.array([c], c.type) for c in constants])
    groups = []
    for (text, _, properties), parts in found.items():
        ids = np.concatenate([ids for _, ids, _ in parts])
        order = np.argsort(ids, kind="stable")
        columns = [
            pa.concat_arrays([slots[k] for _, _, slots in parts]).take(pa.array(order))
            for k in range(len(parts[0][2]))
        ]
        ordered = ids[order].tolist()
        names = [catalog.queries.name_of(query_id) for query_id in ordered]
        groups.append(MemberGroup(text, parts[0][0], properties, ordered, names, columns))
    return groups
