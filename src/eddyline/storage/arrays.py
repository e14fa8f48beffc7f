"""A file of arrays: a description and named NumPy arrays that another process maps instead of reading.

Layout: a mark, the length of the header, the header as JSON, then every array at a multiple of 64 bytes, as memory has it
(little-endian).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.errors import StoreError

_MARK = b"eddyline arrays 1\n"
_ALIGNED = 64


def write_arrays(
    file: BinaryIO, description: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]
) -> None:
    """Write a description, which JSON can have, and arrays of plain numbers."""
    entries, offset = [], 0
    for name, array in arrays.items():
        assert array.dtype.kind in "iufb", f"array {name} is of {array.dtype}"
        entries.append([name, array.dtype.str, list(array.shape), offset])
        offset += -(-array.nbytes // _ALIGNED) * _ALIGNED
    header = json.dumps({"description": description, "arrays": entries}).encode()
    start = len(_MARK) + 8 + len(header)
    file.write(_MARK + len(header).to_bytes(8, "little") + header)
    file.write(b"\0" * (-start % _ALIGNED))
    for array in arrays.values():
        file.write(np.ascontiguousarray(array).data.cast("B") if array.nbytes else b"")
        file.write(b"\0" * (-array.nbytes % _ALIGNED))


def map_arrays(buffer: pa.Buffer) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """Description and arrays of a file; the arrays look into the buffer and cannot be written to."""
    view = memoryview(buffer)
    if bytes(view[: len(_MARK)]) != _MARK:
        raise StoreError(
            "this is not a file of arrays", hint="It was written by another version: let it be built anew."
        )
    at = len(_MARK)
    length = int.from_bytes(view[at : at + 8], "little")
    header = json.loads(bytes(view[at + 8 : at + 8 + length]))
    start = -(-(at + 8 + length) // _ALIGNED) * _ALIGNED
    arrays = {}
    for name, dtype, shape, offset in header["arrays"]:
        n = int(np.prod(shape, dtype=np.int64))
        found = (
            np.frombuffer(view, np.dtype(dtype), count=n, offset=start + offset) if n else np.empty(0, dtype)
        )
        arrays[name] = found.reshape(shape)
    return header["description"], arrays
