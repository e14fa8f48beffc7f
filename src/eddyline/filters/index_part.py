"""A part of the predicate index: some queries of a stream, each in the structure that serves it best.

Paper: Madden, Shah, Hellerstein, Raman, "Continuously Adaptive Continuous Queries over Streams", SIGMOD 2002: the grouped filter,
shared by all queries. There it is one per attribute; here queries of a part share structures over all attributes they compare.

A part is immutable. Dropping queries gives another part that shares everything but a mask. It holds ids and keys only: texts and
projections stay with the plan. Hits of an *exact* structure are matches. Hits of an *open* one are pairs that still have to be
looked at: the query has a residual condition or a computed projection, or the structure serves only its box.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from eddyline.batch import BitmapHits, ListHits, Positions, QueryIds
from eddyline.catalog import codec
from eddyline.expressions import Context
from eddyline.filters.assembly import Assembly, PlacedStructure
from eddyline.filters.batch_evaluation import BatchEvaluation
from eddyline.filters.bitset_blocks import BitsetBlocks
from eddyline.filters.boxes import Attributes, QueryBoxes, query_boxes
from eddyline.filters.choice import choose
from eddyline.filters.grouped_filters import GroupedFilter, grouped_filters
from eddyline.filters.key_lists import KeyLists
from eddyline.filters.keys import Domain, KeyColumn, Keys, Mask
from eddyline.filters.leaf_blocks import LeafBlocks
from eddyline.filters.mixed_key_lists import MixedKeyLists
from eddyline.model import (
    DEFAULT_CHOICES,
    Column,
    Expression,
    Literal,
    Segment,
    Shape,
    Slot,
    StructureChoices,
)
from eddyline.types import type_name

Hits: TypeAlias = ListHits | BitmapHits

FEW_ROWS = 64  # a smaller sample says too little
_NO_COLUMN = KeyColumn(np.empty(0, np.int64), None)
_CLASSES: dict[str, Any] = {
    each.__name__: each for each in (BitsetBlocks, LeafBlocks, KeyLists, MixedKeyLists)
}


@dataclass(frozen=True)
class IndexPart:
    """Queries of one or more shapes, ready to be probed."""

    attributes: tuple[Expression, ...]
    domains: tuple[Domain | None, ...]
    structures: tuple[PlacedStructure, ...]
    shapes: tuple[Shape, ...]  # of queries in open structures
    open_ids: QueryIds  # ascending
    open_shapes: npt.NDArray[np.int32]  # beside them: which of `shapes`
    members: tuple[tuple[Shape, QueryIds], ...]  # all it was built of, those that can never match included

    # ----------------------------------------------------------------------------------------- build

    @classmethod
    def build(
        cls,
        members: Sequence[tuple[Segment, Positions]],
        context: Context,
        sample: BatchEvaluation | None = None,
        choices: StructureChoices = DEFAULT_CHOICES.structures,
        *,
        columns_only: bool = False,
    ) -> IndexPart:
        """Index the queries at these positions of their segments.

        `sample` are rows like those to come, to judge how much a box lets through. With `columns_only`, conditions on computed
        attributes are left undecided, and so every hit is open.
        """
        attributes = Attributes()
        filters = grouped_filters((segment for segment, _ in members), context)
        for each in filters:
            attributes.meet((*each.grouped_clauses, *each.bounded_clauses))
        attributes.settle()
        blocks = [
            query_boxes(segment, positions, each, attributes, columns_only=columns_only)
            for (segment, positions), each in zip(members, filters, strict=True)
        ]
        exact = [
            np.zeros(len(block), dtype=bool) if columns_only else _is_exact(block, each)
            for block, each in zip(blocks, filters, strict=True)
        ]
        chosen = choose(blocks, _sampler(attributes, sample), choices)
        assembly = Assembly(len(attributes.expressions), choices)
        for block, is_exact, choice in zip(blocks, exact, chosen, strict=True):
            assembly.place(block, is_exact, choice)
        placed = assembly.build()
        shapes, ids, numbers = assembly.open_queries()
        return cls(
            tuple(attributes.expressions),
            tuple(attributes.domains),
            placed,
            shapes,
            ids,
            numbers,
            tuple((segment.shape, segment.ids[positions]) for segment, positions in members),
        )

    # ----------------------------------------------------------------------------------------- use

    @cached_property
    def _used_attributes(self) -> list[tuple[int, Expression, Domain | None]]:
        """The attributes that some structure looks at."""
        numbers = sorted({number for placed in self.structures for number in placed.attributes})
        return [(number, self.attributes[number], self.domains[number]) for number in numbers]

    def columns(self, evaluation: BatchEvaluation) -> list[KeyColumn]:
        """Keys of the attributes on all rows. A row in error counts as NULL: no comparison is true there."""
        columns = [_NO_COLUMN] * len(self.attributes)
        for number, attribute, domain in self._used_attributes:
            column, wrong = evaluation.keys(attribute, domain)
            if wrong is not None:
                is_null = wrong != 0 if column.is_null is None else column.is_null | (wrong != 0)
                column = KeyColumn(column.keys, is_null)
            columns[number] = column
        return columns

    def probe(self, columns: Sequence[KeyColumn], n_rows: int) -> list[tuple[PlacedStructure, Hits]]:
        """The hits of every structure."""
        found = []
        for placed in self.structures:
            began = time.perf_counter()
            hits = placed.structure.probe(columns, n_rows)
            placed.cost.seconds += time.perf_counter() - began
            placed.cost.n_rows += n_rows
            n_hits = len(hits)
            placed.cost.n_hits += n_hits
            if n_hits:
                found.append((placed, hits))
        return found

    def shape_numbers(self, ids: QueryIds) -> npt.NDArray[np.int32]:
        """Which of `shapes` each query of an open structure has."""
        return self.open_shapes[np.searchsorted(self.open_ids, ids)]

    def without(self, ids: QueryIds) -> IndexPart:
        """The part without these queries; those it does not have do not matter."""
        placed = []
        for each in self.structures:
            structure = each.structure.without(ids)
            if structure.n_queries:
                placed.append(each if structure is each.structure else replace(each, structure=structure))
        return replace(self, structures=tuple(placed))

    # ----------------------------------------------------------------------------------------- look

    @property
    def n_built(self) -> int:
        return sum(len(ids) for _, ids in self.members)

    @property
    def n_queries(self) -> int:
        return sum(placed.structure.n_queries for placed in self.structures)

    @property
    def nbytes(self) -> int:
        structures = sum(placed.structure.nbytes for placed in self.structures)
        domains = sum(domain.nbytes for domain in self.domains if domain is not None)
        return int(structures + domains + self.open_ids.nbytes + self.open_shapes.nbytes)

    def check(self) -> None:
        live_ids: list[QueryIds] = []
        for placed in self.structures:
            placed.structure.check()
            live_ids.append(placed.structure.live_ids())
        ids = np.concatenate(live_ids) if live_ids else np.empty(0, np.int32)
        assert len(np.unique(ids)) == len(ids), "a query is in two structures of one part"

    # ----------------------------------------------------------------------------------------- keep

    def arrays(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """Everything another process needs to probe it: a JSON-able description, and arrays by name."""
        arrays: dict[str, npt.NDArray[Any]] = {"open_ids": self.open_ids, "open_shapes": self.open_shapes}
        for k, domain in enumerate(self.domains):
            if domain is not None:
                arrays |= {f"domain{k}.{name}": array for name, array in domain.arrays().items()}
        for k, placed in enumerate(self.structures):
            arrays |= {f"placed{k}.{name}": array for name, array in placed.structure.arrays().items()}
        description = {
            "attributes": [codec.expression_to(attribute) for attribute in self.attributes],
            "domains": [None if d is None else type_name(d.type) for d in self.domains],
            "placed": [
                [
                    placed.kind,
                    type(placed.structure).__name__,
                    list(placed.attributes),
                    placed.is_exact,
                    placed.serves_planes,
                ]
                for placed in self.structures
            ],
            "shapes": [codec.shape_to(shape) for shape in self.shapes],
        }
        return description, arrays

    @classmethod
    def from_arrays(
        cls,
        description: dict[str, Any],
        arrays: dict[str, npt.NDArray[Any]],
        shape_of: Callable[[str], Shape],
    ) -> IndexPart:
        """The inverse of `arrays`; they may be memory maps. `shape_of` turns a stored shape into the one the plan has."""

        def under(prefix: str) -> dict[str, npt.NDArray[Any]]:
            return {n.removeprefix(prefix): a for n, a in arrays.items() if n.startswith(prefix)}

        domains = tuple(
            None if t is None else Domain.from_arrays(codec.type_from(t), under(f"domain{k}."))
            for k, t in enumerate(description["domains"])
        )
        placed = tuple(
            PlacedStructure(
                kind,
                _CLASSES[name].from_arrays(under(f"placed{k}.")),
                tuple(attributes),
                is_exact,
                serves_planes,
            )
            for k, (kind, name, attributes, is_exact, serves_planes) in enumerate(description["placed"])
        )
        return cls(
            tuple(codec.expression_from(body) for body in description["attributes"]),
            domains,
            placed,
            tuple(shape_of(body) for body in description["shapes"]),
            arrays["open_ids"],
            arrays["open_shapes"],
            (),  # what it was built of matters only when the next is built
        )


def structure_facts(number: int, part: IndexPart, placed_structure: PlacedStructure) -> dict[str, Any]:
    """What there is to say about a structure of a part, the first of which is the base."""
    structure = placed_structure.structure
    key = structure.key_attribute if isinstance(structure, KeyLists | MixedKeyLists) else None
    return {
        "where": "the base" if number == 0 else f"overlay {number}",
        "kind": placed_structure.kind,
        "key": None if key is None else part.attributes[key],
        "attributes": [part.attributes[attribute] for attribute in placed_structure.attributes],
        "is_exact": placed_structure.is_exact,
        "serves_planes": placed_structure.serves_planes,
        "n_queries": placed_structure.structure.n_queries,
        "nbytes": placed_structure.structure.nbytes,
        "n_rows": placed_structure.cost.n_rows,
        "ns_per_row": placed_structure.cost.ns_per_row,
        "hits_per_row": placed_structure.cost.n_hits / max(placed_structure.cost.n_rows, 1),
    }


def _is_exact(block: QueryBoxes, grouped: GroupedFilter) -> Mask:
    """Queries whose conditions are all boxes, planes and prefixes, and whose result rows are plain columns and constants."""
    shape = block.segment.shape
    is_plain = all(isinstance(p.expression, (Column, Slot, Literal)) for p in shape.projection)
    bounded = {clause.clause for clause in grouped.bounded_clauses}
    if not is_plain or any(clause not in bounded for clause in grouped.residual_clauses):
        return np.zeros(len(block), dtype=bool)
    exact = np.ones(len(block), dtype=bool)
    if block.is_inexact is not None:
        exact &= ~block.is_inexact
    if grouped.constant_errors is not None:
        exact &= grouped.constant_errors[block.positions] == 0
    return exact


def _sampler(attributes: Attributes, sample: BatchEvaluation | None) -> Callable[[int], Keys | None]:
    def sorted_keys(number: int) -> Keys | None:
        domain = attributes.domains[number]
        if sample is None or domain is None or len(sample.batch) < FEW_ROWS:
            return None
        column, _ = sample.keys(attributes.expressions[number], domain)
        return np.sort(column.keys if column.is_null is None else column.keys[~column.is_null])

    return sorted_keys
