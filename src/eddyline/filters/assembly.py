"""Queries put in their places: the lanes of many segments gathered into few structures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from eddyline.batch import Positions, QueryIds
from eddyline.filters.bitset_blocks import BitsetBlocks, Nulls, Ranges
from eddyline.filters.boxes import KeyOption, QueryBoxes
from eddyline.filters.choice import BITSETS, KEYS, LEAVES, Choice
from eddyline.filters.key_lists import KeyLists
from eddyline.filters.keys import HIGHEST, LOWEST, Keys, Mask
from eddyline.filters.leaf_blocks import LeafBlocks
from eddyline.filters.mixed_key_lists import MixedKeyLists
from eddyline.model import Shape, StructureChoices

Structure: TypeAlias = BitsetBlocks | LeafBlocks | KeyLists | MixedKeyLists

MOST_ATTRIBUTES = 8  # of a sparse structure


@dataclass(slots=True)
class Cost:
    """What probing a structure has taken so far."""

    n_rows: int = 0
    seconds: float = 0.0
    n_hits: int = 0

    @property
    def ns_per_row(self) -> float:
        return self.seconds * 1e9 / self.n_rows if self.n_rows else 0.0


@dataclass(frozen=True, slots=True)
class PlacedStructure:
    """A structure in its place: what it looks at, and what its hits mean."""

    kind: str
    structure: Structure
    attributes: tuple[int, ...]
    is_exact: bool  # a hit is a match
    serves_planes: bool  # whether ORs, IN lists and the like are decided too, not boxes only
    cost: Cost = field(default_factory=Cost, compare=False)


class _Place(NamedTuple):
    """What queries of one structure have in common."""

    kind: str
    key_attribute: int  # -1: none
    attributes: tuple[int, ...]
    is_exact: bool


class _Piece(NamedTuple):
    """Lanes of one segment that go to the same place."""

    block: QueryBoxes
    lanes: Positions
    is_plain: bool  # exact once boxes and planes are decided
    option: KeyOption | None

    @property
    def ids(self) -> QueryIds:
        return self.block.segment.ids[self.block.positions[self.lanes]]


class Assembly:
    """Collects lanes by place, then builds a structure for each place."""

    def __init__(self, n_attributes: int, choices: StructureChoices) -> None:
        self._n_attributes = n_attributes
        self._least = {KEYS: choices.least_in_key_lists, LEAVES: choices.least_in_leaf_blocks}
        self._places: dict[_Place, list[_Piece]] = {}
        self._open_groups: list[tuple[Shape, QueryIds]] = []

    def place(self, block: QueryBoxes, is_plain: Mask, choice: Choice) -> None:
        """Put the queries of one segment where they were chosen to go; those that can never match go nowhere."""
        for plain in (True, False):
            here = block.can_match & (is_plain == plain)
            void, lanes = np.flatnonzero(here & block.is_void), np.flatnonzero(here & ~block.is_void)
            if len(void):
                self._add(_Piece(block, void, plain, None), BITSETS)
            if not len(lanes):
                continue
            if choice.option is not None:
                self._add(_Piece(block, lanes, plain, choice.option), KEYS)
                continue
            narrow = choice.is_narrow[lanes]
            for kind, chosen in ((LEAVES, lanes[narrow]), (BITSETS, lanes[~narrow])):
                if len(chosen):
                    self._add(_Piece(block, chosen, plain, None), kind)

    def build(self) -> tuple[PlacedStructure, ...]:
        for place in list(self._places):
            if place.kind != BITSETS and _size(self._places[place]) < self._least[place.kind]:
                for piece in self._places.pop(place):
                    self._add(piece, BITSETS)
        self._mix_keys()
        return tuple(self._placed_structure(place, pieces) for place, pieces in self._places.items())

    def open_queries(self) -> tuple[tuple[Shape, ...], QueryIds, npt.NDArray[np.int32]]:
        """Shapes of queries in open structures, their ids ascending, and which shape each has."""
        numbers: dict[Shape, int] = {}
        ids, shapes = [np.empty(0, np.int32)], [np.empty(0, np.int32)]
        for shape, of_shape in self._open_groups:
            ids.append(of_shape)
            shapes.append(np.full(len(of_shape), numbers.setdefault(shape, len(numbers)), np.int32))
        together = np.concatenate(ids)
        order = np.argsort(together)
        return tuple(numbers), together[order], np.concatenate(shapes)[order]

    # ----------------------------------------------------------------------------------------- inside

    def _add(self, piece: _Piece, kind: str) -> None:
        block, option = piece.block, piece.option
        attributes = tuple(sorted(block.boxes))
        served = 0
        key = -1
        if kind == KEYS and option is not None:
            key = option.attribute
            served = 0 if option.plane is None else 1
            if option.plane is None:
                attributes = tuple(a for a in attributes if a != key)
        if kind == BITSETS or len(attributes) > MOST_ATTRIBUTES:
            place = _Place(BITSETS, -1, (), piece.is_plain)
        else:
            place = _Place(kind, key, attributes, piece.is_plain and len(block.planes) == served)
        self._places.setdefault(place, []).append(piece)

    def _mix_keys(self) -> None:
        """Queries found by the same key look it up together, whatever else they compare, if that is not too much."""
        together: dict[tuple[int, bool], list[_Place]] = {}
        for place in self._places:
            if place.kind == KEYS:
                together.setdefault((place.key_attribute, place.is_exact), []).append(place)
        for (key, is_exact), places in together.items():
            union = tuple(sorted({attribute for place in places for attribute in place.attributes}))
            if len(places) > 1 and len(union) <= MOST_ATTRIBUTES:
                pieces = [piece for place in places for piece in self._places.pop(place)]
                self._places[_Place(KEYS, key, union, is_exact)] = pieces

    def _placed_structure(self, place: _Place, pieces: list[_Piece]) -> PlacedStructure:
        if not place.is_exact:
            self._open_groups += [(piece.block.segment.shape, piece.ids) for piece in pieces]
        if place.kind == BITSETS:
            blocks, used = self._bitsets(pieces)
            return PlacedStructure(BITSETS, blocks, used, place.is_exact, serves_planes=True)
        ids, lows, highs, keys, asked_bits = _boxes(place, pieces)
        if place.kind == LEAVES:
            leaves = LeafBlocks.build(ids, place.attributes, lows, highs)
            return PlacedStructure(LEAVES, leaves, place.attributes, place.is_exact, serves_planes=False)
        lists: Structure
        if len(asked_bits) and asked_bits.min() != asked_bits.max():
            lists = MixedKeyLists.build(
                ids, place.key_attribute, keys, place.attributes, lows, highs, asked_bits
            )
        else:
            lists = KeyLists.build(ids, place.key_attribute, keys, place.attributes, lows, highs)
        looked_at = tuple(sorted({place.key_attribute, *place.attributes}))
        return PlacedStructure(KEYS, lists, looked_at, place.is_exact, serves_planes=False)

    def _bitsets(self, pieces: list[_Piece]) -> tuple[BitsetBlocks, tuple[int, ...]]:
        ranges, nulls = _Flat(), _Flat()
        offset = 0
        for piece in pieces:
            block, lanes = piece.block, piece.lanes
            here = np.arange(offset, offset + len(lanes), dtype=np.int32)
            offset += len(lanes)
            if block.is_void[lanes[0]]:  # then all of them are
                for attribute in block.attributes():
                    ranges.add(here, 0, attribute, np.full(len(here), LOWEST), np.full(len(here), HIGHEST))
                    nulls.add(here, 0, attribute)
                continue
            for attribute, (low, high) in block.boxes.items():
                for below, start, end in _forbidden(low[lanes], high[lanes]):
                    ranges.add(here[below], 0, attribute, start, end)
                nulls.add(here, 0, attribute)
            to_lane = np.full(len(block), -1, np.int32) if block.planes else here
            if block.planes:
                to_lane[lanes] = here
            for number, plane in enumerate(block.planes, start=1):
                pieces_of = zip(plane.attributes, plane.lanes, plane.lows, plane.highs, strict=True)
                for attribute, of_lanes, lows, highs in pieces_of:
                    is_placed = to_lane[of_lanes] >= 0
                    ranges.add(
                        to_lane[of_lanes][is_placed], number, attribute, lows[is_placed], highs[is_placed]
                    )
                for attribute, of_lanes in zip(plane.null_attributes, plane.null_lanes, strict=True):
                    nulls.add(to_lane[of_lanes][to_lane[of_lanes] >= 0], number, attribute)
        ids = np.concatenate([piece.ids for piece in pieces])
        used = tuple(sorted({*ranges.attributes(), *nulls.attributes()}))
        blocks = BitsetBlocks.build(
            ids,
            Ranges(ranges.lane, ranges.plane, ranges.attribute, ranges.low, ranges.high),
            Nulls(nulls.lane, nulls.plane, nulls.attribute),
            self._n_attributes,
        )
        return blocks, used


class _Flat:
    """Flat arrays that grow piece by piece."""

    def __init__(self) -> None:
        self._pieces: list[tuple[npt.NDArray[np.int32], int, int]] = []
        self._lows: list[Keys] = []
        self._highs: list[Keys] = []

    def add(
        self,
        lanes: npt.NDArray[np.int32],
        plane: int,
        attribute: int,
        low: Keys | None = None,
        high: Keys | None = None,
    ) -> None:
        if len(lanes):
            self._pieces.append((lanes, plane, attribute))
            if low is not None and high is not None:
                self._lows.append(low)
                self._highs.append(high)

    def attributes(self) -> set[int]:
        return {attribute for _, _, attribute in self._pieces}

    @property
    def lane(self) -> npt.NDArray[np.int32]:
        return np.concatenate([np.empty(0, np.int32), *(lanes for lanes, _, _ in self._pieces)])

    @property
    def plane(self) -> npt.NDArray[np.int16]:
        return self._spread([plane for _, plane, _ in self._pieces]).astype(np.int16)

    @property
    def attribute(self) -> npt.NDArray[np.int32]:
        return self._spread([attribute for _, _, attribute in self._pieces]).astype(np.int32)

    @property
    def low(self) -> Keys:
        return np.concatenate([np.empty(0, np.int64), *self._lows])

    @property
    def high(self) -> Keys:
        return np.concatenate([np.empty(0, np.int64), *self._highs])

    def _spread(self, values: list[int]) -> npt.NDArray[np.int64]:
        return np.repeat(np.array(values, np.int64), [len(lanes) for lanes, _, _ in self._pieces])


def _size(pieces: list[_Piece]) -> int:
    return sum(len(piece.lanes) for piece in pieces)


def _forbidden(low: Keys, high: Keys) -> Iterator[tuple[Positions, Keys, Keys]]:
    """The two intervals outside a box, where there are any: which queries, from, to."""
    below = np.flatnonzero(low > LOWEST)
    yield below, np.full(len(below), LOWEST), low[below] - 1
    above = np.flatnonzero(high < HIGHEST)
    yield above, high[above] + 1, np.full(len(above), HIGHEST)


def _boxes(place: _Place, pieces: list[_Piece]) -> tuple[QueryIds, Keys, Keys, Keys, npt.NDArray[np.uint8]]:
    """Ids, lows and highs by attribute, keys if the place has some, and which attributes are asked about, of all entries."""
    ids, keys, asked_bits = [np.empty(0, np.int32)], [np.empty(0, np.int64)], [np.empty(0, np.uint8)]
    lows: list[list[Keys]] = [[np.empty(0, np.int64)] for _ in place.attributes]
    highs: list[list[Keys]] = [[np.empty(0, np.int64)] for _ in place.attributes]
    for piece in pieces:
        block, lanes = piece.block, piece.lanes
        if place.kind == KEYS:
            assert piece.option is not None
            is_here = np.zeros(len(block), dtype=bool)
            is_here[lanes] = True
            entries = is_here[piece.option.lanes]
            lanes = piece.option.lanes[entries]
            keys.append(piece.option.keys[entries])
        ids.append(block.segment.ids[block.positions[lanes]])
        bits = 0
        for k, attribute in enumerate(place.attributes):
            if attribute in block.boxes and not _is_the_key(place, piece, attribute):
                low, high = block.boxes[attribute]
                lows[k].append(low[lanes])
                highs[k].append(high[lanes])
                bits |= 1 << k
            else:
                lows[k].append(np.full(len(lanes), LOWEST))
                highs[k].append(np.full(len(lanes), HIGHEST))
        asked_bits.append(np.full(len(lanes), bits, np.uint8))
    n = sum(len(part) for part in ids)
    stacked = [
        np.stack([np.concatenate(parts) for parts in side]) if side else np.empty((0, n), np.int64)
        for side in (lows, highs)
    ]
    return np.concatenate(ids), stacked[0], stacked[1], np.concatenate(keys), np.concatenate(asked_bits)


def _is_the_key(place: _Place, piece: _Piece, attribute: int) -> bool:
    """Whether the box is the equality by which the query is found."""
    return attribute == place.key_attribute and piece.option is not None and piece.option.plane is None
