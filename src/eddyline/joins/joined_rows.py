"""Combinations as rows of their signature's stream.

They have the columns of all inputs, the marks that window conditions use, and the arrival numbers of the rows they consist of.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.batch import TupleBatch
from eddyline.joins.plan import Drivers, SignaturePlan
from eddyline.joins.probing import Combinations, Partner, PartnerMarks
from eddyline.joins.version_chains import ALWAYS
from eddyline.model import AGE, BEHIND, NO_TIME, OLDER, Role, Round, joined_name
from eddyline.operators import Numbers

NO_ROW = 0  # instead of the arrival number of an input that has no row

Counter = Callable[[Numbers], Numbers]  # by arrival number: how many rows of a stream have counted up to it


@dataclass(frozen=True, slots=True)
class JoinedRows:
    """Rows that a signature made. Queries that first see a later version than `version` do not see the row."""

    signature: str
    batch: TupleBatch
    version: Numbers
    driver: Numbers  # which of the rows that drove made it


def joined_rows(
    plan: SignaturePlan,
    origin: int,
    drivers: Drivers,
    partners: Mapping[int, Partner],
    found: Combinations,
    counters: Mapping[int, Counter],
    round_: Round,
    first: int,
) -> JoinedRows:
    """These combinations; their numbers begin with `first`."""
    signature = plan.signature
    driver = found.rows[origin]
    marks = {place: partner.marks(found.rows[place], drivers, driver) for place, partner in partners.items()}
    marks[origin] = _own_marks(drivers, driver, round_, is_table=signature.inputs[origin].role is Role.TABLE)
    names: list[str] = []
    columns: list[pa.Array] = []
    for place in range(len(signature)):
        column_names = sorted(plan.columns[place])
        names += [joined_name(place, name) for name in column_names]
        if place == origin:
            columns += drivers.rows.select(column_names).take(pa.array(driver)).columns
        else:
            columns += partners[place].take(found.rows[place], column_names)
    times = [mark.time_us for at, mark in marks.items() if not signature.inputs[at].role.is_table]
    times = times or [mark.time_us for mark in marks.values()]
    latest, earliest = np.maximum.reduce(times), np.minimum.reduce(times)
    for place, mark_names in enumerate(plan.marks):
        mark = marks[place]
        for name in sorted(mark_names):
            if name == BEHIND:
                values = pa.array(counters[place](drivers.arrival[driver]) - mark.position)
            elif name == AGE:
                values = pa.array(round_.now_us - mark.now_us)
            else:
                assert name == OLDER, name
                # where a row has no time, nothing is known of how it lies to the others
                values = pa.array(latest - mark.time_us, mask=earliest == NO_TIME)
            names.append(joined_name(place, name))
            columns.append(values)
    components = []
    for place, entry in enumerate(signature.inputs):
        own_columns = list(entry.lineage_columns)
        if not own_columns:
            components.append(marks[place].arrival)
        elif place == origin:
            components += _numbers(drivers.rows.select(own_columns).take(pa.array(driver)).columns)
        else:
            components += _numbers(partners[place].take(found.rows[place], own_columns))
    batch = joined_batch(plan.name, names, columns, first, drivers.sign[driver], np.stack(components, axis=1))
    version = np.minimum.reduce([mark.version for mark in marks.values()])
    return JoinedRows(plan.name, batch, np.minimum(version, round_.version), driver)


def unmatched_rows(plan: SignaturePlan, drivers: Drivers, schema: pa.Schema, first: int) -> TupleBatch:
    """Rows of input 0 as rows of the signature's stream, with nothing of input 1, whose columns are NULL."""
    n = len(drivers)
    names = [joined_name(0, name) for name in sorted(plan.columns[0])]
    columns = list(drivers.rows.select(sorted(plan.columns[0])).columns)
    for name in sorted(plan.columns[1]):
        names.append(joined_name(1, name))
        columns.append(pa.nulls(n, schema.field(name).type))
    for place, mark_names in enumerate(plan.marks):
        for name in sorted(mark_names):
            names.append(joined_name(place, name))
            columns.append(pa.array(np.zeros(n, np.int64)) if place == 0 else pa.nulls(n, pa.int64()))
    left, right = plan.signature.inputs
    lineage = _numbers(drivers.rows.select(list(left.lineage_columns)).columns) or [drivers.arrival]
    absent = [np.full(n, NO_ROW, np.int64)] * right.n_components
    components = np.stack([*lineage, *absent], axis=1)
    return joined_batch(plan.name, names, columns, first, drivers.sign, components)


def _numbers(columns: list[pa.Array]) -> list[Numbers]:
    return [column.to_numpy(zero_copy_only=False) for column in columns]


def joined_batch(
    name: str,
    names: list[str],
    columns: list[pa.Array],
    first: int,
    sign: npt.NDArray[np.int8],
    components: npt.NDArray[np.int64],
) -> TupleBatch:
    n = len(components)
    if not columns:  # an Arrow batch needs a column to have a length
        names, columns = ["_"], [pa.nulls(n)]
    return TupleBatch(
        name,
        pa.RecordBatch.from_arrays(columns, names=names),
        np.arange(first, first + n, dtype=np.int64),
        sign,
        np.zeros(n, dtype=bool),
        components,
    )


def _own_marks(drivers: Drivers, driver: Numbers, round_: Round, *, is_table: bool) -> PartnerMarks:
    n = len(driver)
    version = ALWAYS if is_table else round_.version
    return PartnerMarks(
        drivers.arrival[driver],
        drivers.time_us[driver],
        np.full(n, version, np.int64),
        drivers.position[driver],
        np.full(n, round_.now_us, np.int64),
    )
