"""Combinations as rows of their signature's stream.

They have the columns of all inputs, the marks that window conditions use, and the arrival numbers of the rows they consist of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.batch import TupleBatch, concatenated
from eddyline.joins.plan import Drivers, SignaturePlan
from eddyline.joins.probing import Combinations, Partner, PartnerMarks
from eddyline.joins.row_order import lineage_order
from eddyline.joins.version_chains import ALWAYS
from eddyline.model import AGE, BEHIND, IDENTITY, NO_TIME, OLDER, Role, Round, joined_name
from eddyline.operators import Mask, Numbers

NO_ROW = 0  # instead of the arrival number of an input that has no row

Counter = Callable[[Numbers], Numbers]  # by arrival number: how many rows of a stream have counted up to it


@dataclass(frozen=True, slots=True)
class JoinedRows:
    """Rows that a signature made, by their latest row, then by lineage.

    Queries that first see a later version than `version` do not see the row.
    """

    signature: str
    batch: TupleBatch
    version: Numbers
    driver: Numbers  # which of the rows that drove, from its origin, made it
    latest: Numbers  # the arrival number of that row
    at_end: Mask | None = None  # of rows that only the end of the round decided; None: there are none
    table_numbers: Numbers | None = None  # of a join of tables, by input: the number of the row in its table

    def __len__(self) -> int:
        return len(self.batch)

    @property
    def components(self) -> Numbers:
        assert self.batch.components is not None, self.signature
        return self.batch.components

    def take(self, rows: Numbers) -> JoinedRows:
        """The rows at these positions, in this order."""
        return JoinedRows(
            self.signature,
            self.batch.take(rows),
            self.version[rows],
            self.driver[rows],
            self.latest[rows],
            None if self.at_end is None else self.at_end[rows],
            None if self.table_numbers is None else self.table_numbers[rows],
        )

    def until(self, end: int) -> JoinedRows:
        """The rows before this position."""
        return self if end == len(self) else self.take(np.arange(end))

    def numbered(self, numbers: Numbers) -> JoinedRows:
        return replace(self, batch=replace(self.batch, arrival=numbers))


def in_order(origins: Sequence[Iterator[JoinedRows]]) -> Iterator[JoinedRows]:
    """What all origins of a signature make, by the latest row, then by lineage, given that of each in this order."""
    waiting = [(found, origin) for origin in origins if (found := next(origin, None)) is not None]
    while len(waiting) > 1:
        until = min(int(found.latest[-1]) for found, _ in waiting)
        ends = [int(np.searchsorted(found.latest, until, side="right")) for found, _ in waiting]
        yield _merged([found.until(end) for (found, _), end in zip(waiting, ends, strict=True) if end])
        rest: list[tuple[JoinedRows, Iterator[JoinedRows]]] = []
        for (found, origin), end in zip(waiting, ends, strict=True):
            left = found.take(np.arange(end, len(found))) if end < len(found) else next(origin, None)
            if left is not None:
                rest.append((left, origin))
        waiting = rest
    for found, origin in waiting:
        yield found
        yield from origin


def _merged(pieces: Sequence[JoinedRows]) -> JoinedRows:
    if len(pieces) == 1:
        return pieces[0]
    together = JoinedRows(
        pieces[0].signature,
        concatenated([piece.batch for piece in pieces]),
        np.concatenate([piece.version for piece in pieces]),
        np.concatenate([piece.driver for piece in pieces]),
        np.concatenate([piece.latest for piece in pieces]),
        _all_at_end(pieces),
        None
        if pieces[0].table_numbers is None
        else np.concatenate([piece.table_numbers for piece in pieces if piece.table_numbers is not None]),
    )
    order = lineage_order(together.latest, together.components)
    return together if order is None else together.take(order)


def _all_at_end(pieces: Sequence[JoinedRows]) -> Mask | None:
    if all(piece.at_end is None for piece in pieces):
        return None
    return np.concatenate(
        [np.zeros(len(piece), dtype=bool) if piece.at_end is None else piece.at_end for piece in pieces]
    )


def joined_rows(
    plan: SignaturePlan,
    origin: int,
    drivers: Drivers,
    partners: Mapping[int, Partner],
    found: Combinations,
    counters: Mapping[int, Counter],
    round_: Round,
) -> JoinedRows:
    """These combinations, in order; they have no numbers yet."""
    signature = plan.signature
    marks = _marks(plan, origin, drivers, partners, found, round_)
    components = _components(plan, origin, drivers, partners, found, marks)
    ranks = _set_ranks(plan, origin, partners, found, components)
    ordered_by = np.column_stack([components, *ranks]) if ranks else components
    order = lineage_order(drivers.arrival[found.rows[origin]], ordered_by)
    if order is not None:
        found = Combinations({place: rows[order] for place, rows in found.rows.items()})
        marks = {place: PartnerMarks(*(each[order] for each in mark)) for place, mark in marks.items()}
        components = components[order]
    driver = found.rows[origin]
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
    batch = joined_batch(
        plan.name, names, columns, np.zeros(len(driver), np.int64), drivers.sign[driver], components
    )
    version = np.minimum.reduce([mark.version for mark in marks.values()])
    at_end = drivers.at_end()
    return JoinedRows(
        plan.name,
        batch,
        np.minimum(version, round_.version),
        driver,
        drivers.arrival[driver],
        None if at_end is None else at_end[driver],
        _table_numbers(plan, marks) if signature.is_of_tables else None,
    )


def _marks(
    plan: SignaturePlan,
    origin: int,
    drivers: Drivers,
    partners: Mapping[int, Partner],
    found: Combinations,
    round_: Round,
) -> dict[int, PartnerMarks]:
    """What is known of the rows of combinations besides their columns, by input."""
    driver, inputs = found.rows[origin], plan.signature.inputs
    marks = {place: partner.marks(found.rows[place], drivers, driver) for place, partner in partners.items()}
    marks[origin] = _own_marks(drivers, driver, round_, is_table=inputs[origin].role.is_table)
    return marks


def _components(
    plan: SignaturePlan,
    origin: int,
    drivers: Drivers,
    partners: Mapping[int, Partner],
    found: Combinations,
    marks: Mapping[int, PartnerMarks],
) -> Numbers:
    """The lineage of combinations: arrival numbers of rows of declared streams, in the order of the inputs."""
    components: list[Numbers] = []
    for place, entry in enumerate(plan.signature.inputs):
        own_columns = list(entry.lineage_columns)
        if not own_columns:
            components.append(marks[place].arrival)
        elif place == origin:
            driver = pa.array(found.rows[origin])
            components += _numbers(drivers.rows.select(own_columns).take(driver).columns)
        else:
            components += _numbers(partners[place].take(found.rows[place], own_columns))
    return np.stack(components, axis=1)


def _set_ranks(
    plan: SignaturePlan,
    origin: int,
    partners: Mapping[int, Partner],
    found: Combinations,
    components: Numbers,
) -> list[Numbers]:
    """What orders rows of views that are sets, which name no rows: their identity."""
    ranks = []
    for place, entry in enumerate(plan.signature.inputs):
        if entry.role is Role.VIEW and place != origin:
            columns = plan.signature.component_columns(place)
            if (components[:, columns.start : columns.stop] == NO_ROW).any():
                (identity,) = partners[place].take(found.rows[place], [IDENTITY])
                ranks.append(pc.rank(identity, tiebreaker="dense").to_numpy().astype(np.int64))
    return ranks


def _table_numbers(plan: SignaturePlan, marks: Mapping[int, PartnerMarks]) -> Numbers:
    """For each input the number with which a row stands in its table: of a view its position among the view's changes."""
    inputs = plan.signature.inputs
    columns = [
        marks[place].position if entry.role is Role.VIEW else marks[place].arrival
        for place, entry in enumerate(inputs)
    ]
    return np.stack(columns, axis=1)


def unmatched_rows(plan: SignaturePlan, drivers: Drivers, schema: pa.Schema, numbers: Numbers) -> TupleBatch:
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
    return joined_batch(plan.name, names, columns, numbers, drivers.sign, components)


def _numbers(columns: list[pa.Array]) -> list[Numbers]:
    return [column.to_numpy(zero_copy_only=False) for column in columns]


def joined_batch(
    name: str,
    names: list[str],
    columns: list[pa.Array],
    numbers: Numbers,
    sign: npt.NDArray[np.int8],
    components: npt.NDArray[np.int64],
) -> TupleBatch:
    n = len(components)
    if not columns:  # an Arrow batch needs a column to have a length
        names, columns = ["_"], [pa.nulls(n)]
    return TupleBatch(
        name,
        pa.RecordBatch.from_arrays(columns, names=names),
        numbers,
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
