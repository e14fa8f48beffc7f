"""A version of the index as files: a base that stays, and an overlay per version.

The base is written once and serves every version until it is built anew. The overlay of a version is small: which queries of the
base have changed since, and the parts that came after it. Another process maps both and probes them as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import BinaryIO

import numpy as np
import pyarrow as pa

from eddyline.catalog import codec
from eddyline.filters.index_part import IndexPart
from eddyline.model import Shape
from eddyline.storage import map_arrays, write_arrays


def write_base(file: BinaryIO, part: IndexPart, stream: str, version: int) -> None:
    """The first part of an index, as of the version it was built from."""
    description, arrays = part.arrays()
    write_arrays(file, {"stream": stream, "version": version, "part": description}, arrays)


def write_overlay(
    file: BinaryIO, masked: np.ndarray, parts: tuple[IndexPart, ...], stream: str, version: int
) -> None:
    """What has become of the base by a version: queries that changed, and the parts that hold the new ones."""
    arrays = {"masked": masked}
    descriptions = []
    for k, part in enumerate(parts):
        description, own = part.arrays()
        descriptions.append(description)
        arrays |= {f"part{k}.{name}": array for name, array in own.items()}
    write_arrays(file, {"stream": stream, "version": version, "parts": descriptions}, arrays)


def read_parts(
    base: pa.Buffer, overlay: pa.Buffer | None, shape_of: Callable[[str], Shape] = codec.shape_from
) -> tuple[IndexPart, ...]:
    """The parts of a version. `shape_of` gives the shape the reader's plan has for a stored one."""
    description, arrays = map_arrays(base)
    first = IndexPart.from_arrays(description["part"], arrays, shape_of)
    if overlay is None:
        return (first,)
    newer, own = map_arrays(overlay)
    parts = [first.without(own["masked"])]
    for k, each in enumerate(newer["parts"]):
        prefix = f"part{k}."
        mine = {n.removeprefix(prefix): a for n, a in own.items() if n.startswith(prefix)}
        parts.append(IndexPart.from_arrays(each, mine, shape_of))
    return tuple(parts)
