"""What the registered joins need of the streams: which rows, which columns, for how long.

Windows differ from query to query and all queries of a signature share what is kept, so there is one *need* for each shape:
queries of one shape have the same window. A stored row stays as long as one need still covers it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.joins.ranges import RangeKey
from eddyline.model import END_OF_ARRIVALS, Role, Signature
from eddyline.operators import ArrivedRows, Mask, Numbers


@dataclass(frozen=True, slots=True)
class Need:
    """For how long the queries of one shape need a row of one input, from its arrival on. None: no bound of that kind."""

    first_version: (
        int  # of the oldest of these queries: what came in rounds of earlier versions none of them sees
    )
    n_rows: int | None = None  # it is among the newest of its stream
    age_us: int | None = None  # it came in a round not longer ago than this
    # by partner: a later row of it can be above this one's event time by no more than this, inclusive
    reach_us: tuple[tuple[int, int], ...] = ()
    # by partner: this one's event time can be above a later row of it by no more than this, inclusive
    back_us: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, eq=False)
class Needs:
    """Needs with the same kinds of bounds, as vectors: rows are compared with all of them at once."""

    first_version: Numbers
    n_rows: Numbers | None
    age_us: Numbers | None
    reach_us: dict[int, Numbers]  # by partner
    back_us: dict[int, Numbers]

    @classmethod
    def together(cls, needs: Sequence[Need]) -> Needs:
        """These needs, which have the same kinds of bounds."""
        first = needs[0]
        return cls(
            _numbers(need.first_version for need in needs),
            None if first.n_rows is None else _numbers(need.n_rows for need in needs),
            None if first.age_us is None else _numbers(need.age_us for need in needs),
            {
                partner: _numbers(need.reach_us[k][1] for need in needs)
                for k, (partner, _) in enumerate(first.reach_us)
            },
            {
                partner: _numbers(need.back_us[k][1] for need in needs)
                for k, (partner, _) in enumerate(first.back_us)
            },
        )


def needs_by_bounds(needs: Iterable[Need]) -> tuple[Needs, ...]:
    """Needs grouped by the kinds of bounds they have."""
    found: dict[tuple[object, ...], list[Need]] = {}
    for need in needs:
        partners = (
            tuple(partner for partner, _ in need.reach_us),
            tuple(partner for partner, _ in need.back_us),
        )
        found.setdefault((need.n_rows is None, need.age_us is None, *partners), []).append(need)
    return tuple(map(Needs.together, found.values()))


def _numbers(values: Iterable[int | None]) -> Numbers:
    return np.array(list(values), np.int64)


@dataclass(frozen=True, eq=False)
class SignaturePlan:
    """One signature and what its queries need."""

    signature: Signature
    columns: tuple[frozenset[str], ...]  # per input, of its own stream, for results and conditions
    marks: tuple[frozenset[str], ...]  # per input
    needs: tuple[tuple[Need, ...], ...]  # per input; () for those that are not kept
    ranges: tuple[RangeKey, ...] = ()  # comparisons of two inputs that all queries have
    # of outer joins: whichever row of input 1 has the key of a row of input 0, that row is not alone
    needs_one: bool = False

    @property
    def name(self) -> str:
        return self.signature.name

    @cached_property
    def first_version(self) -> int:
        """The first version of which some query sees rows."""
        return min((need.first_version for needs in self.needs for need in needs), default=0)

    @cached_property
    def grouped_needs(self) -> tuple[tuple[Needs, ...], ...]:
        """The needs of each input, grouped by the kinds of bounds they have."""
        return tuple(map(needs_by_bounds, self.needs))

    def stored_columns(self, place: int) -> frozenset[str]:
        """Columns of an input that are stored with its rows: also those its keys are computed from."""
        keys = [key.side(place) for key in self.signature.keys if place in (key.left, key.right)]
        names = {node.name for key in keys for node in key.walk() if hasattr(node, "name")}
        return self.columns[place].union(names, self.signature.inputs[place].lineage_columns)


@dataclass(frozen=True, eq=False)
class JoinPlan:
    """All joins as of one version."""

    version: int
    signatures: tuple[SignaturePlan, ...] = ()
    schemas: Mapping[str, pa.Schema] = field(default_factory=dict)  # by stream, in lower case

    @cached_property
    def by_name(self) -> Mapping[str, SignaturePlan]:
        return {plan.name: plan for plan in self.signatures}

    @cached_property
    def inputs(self) -> Mapping[str, list[tuple[SignaturePlan, int]]]:
        """By stream, in lower case: the inputs that it is."""
        found: dict[str, list[tuple[SignaturePlan, int]]] = {}
        for plan in self.signatures:
            for place, entry in enumerate(plan.signature.inputs):
                found.setdefault(entry.stream.lower(), []).append((plan, place))
        return found

    @cached_property
    def stored_inputs(self) -> Mapping[str, list[tuple[SignaturePlan, int]]]:
        """By stream, in lower case: the inputs for which its rows are stored; streams without any are left out."""
        found = {
            stream: [
                (plan, place) for plan, place in inputs if plan.signature.inputs[place].role is Role.WINDOW
            ]
            for stream, inputs in self.inputs.items()
        }
        return {stream: inputs for stream, inputs in found.items() if inputs}

    @cached_property
    def view_names(self) -> tuple[str, ...]:
        """The views over tables that some join looks up, in lower case."""
        inputs = (entry for plan in self.signatures for entry in plan.signature.inputs)
        return tuple(dict.fromkeys(entry.stream.lower() for entry in inputs if entry.role is Role.VIEW))

    def is_probed_as_of(self, stream: str) -> bool:
        """Whether a table is looked up at event times, so that its earlier rows are needed."""
        inputs = self.inputs.get(stream, ())
        return any(plan.signature.inputs[place].role is Role.AS_OF for plan, place in inputs)


def has_bit(words: npt.NDArray[np.uint64], bit: int, rows: Numbers | slice = slice(None)) -> Mask:
    """Of which of these rows a bit of `wants` is set; a bit assigned after they came is set of none."""
    if bit // 64 >= words.shape[1]:
        return np.zeros(len(words[rows]), dtype=bool)
    is_set: Mask = (words[rows, bit // 64] >> np.uint64(bit % 64) & np.uint64(1)) != 0
    return is_set


@dataclass(frozen=True, slots=True)
class Drivers:
    """New rows of the origin that look for partners, in order of arrival."""

    rows: pa.RecordBatch
    arrival: Numbers
    time_us: Numbers
    position: Numbers
    sign: npt.NDArray[np.int8]

    def __len__(self) -> int:
        return len(self.arrival)

    def at_end(self) -> Mask | None:
        """Which of them only the end of the round decided; None if there are none."""
        mask: Mask = self.arrival == END_OF_ARRIVALS
        return mask if mask.any() else None

    def take(self, places: Numbers) -> Drivers:
        return Drivers(
            self.rows.take(pa.array(places)),
            self.arrival[places],
            self.time_us[places],
            self.position[places],
            self.sign[places],
        )


def drivers_of(arrived: ArrivedRows, rows: Numbers) -> Drivers:
    """Some of the rows that arrived, to look for partners."""
    batch = arrived.batch
    return Drivers(
        batch.rows.take(pa.array(rows)),
        batch.arrival[rows],
        arrived.time_us[rows],
        arrived.position[rows],
        batch.sign[rows],
    )
