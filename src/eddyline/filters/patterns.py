r"""Patterns as ranges: which texts can be LIKE a pattern, in order of their bytes.

The text before the first wildcard is a prefix, and all texts with a prefix stand side by side. Where nothing but % follows, that
range is the whole answer; else it says which rows are worth asking.

    pattern        low      high    is_point  is_exact
    'ab%'          ab       ac      no        yes
    'ab'           ab       NULL    yes       yes        only the text itself
    '%'            (empty)  NULL    no        yes        every text
    'ab_d%'        ab       ac      no        no         LIKE decides inside the range
    'a\_b%'        a_b      a_c     no        yes        the backslash is gone
    'ab\'          (empty)  NULL    no        no         no pattern: LIKE has to say so, for every text
    NULL           NULL     NULL    no        yes        no text
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.expressions import RowError, like_parts
from eddyline.filters.keys import HIGHEST, LOWEST, Domain, Keys, Mask
from eddyline.types import BINARY

_ESCAPE = "\\"


@dataclass(frozen=True, slots=True)
class PrefixBounds:
    """For each pattern, texts that may be like it: low <= text < high in order of bytes, or `low` alone where `is_point`.

    No `high` means no upper bound, no `low` that no text is like it. Where `is_exact`, every text in the range is.
    """

    low: pa.Array
    high: pa.Array
    is_point: Mask
    is_exact: Mask

    @property
    def constants(self) -> Sequence[pa.Array]:
        """What the domain of the attribute must know."""
        return self.low, self.high

    def intervals(self, domain: Domain) -> tuple[Keys, Keys]:
        """The first and the last key of each range. A range without ends still leaves out NULL; one of no text is empty."""
        low, high = domain.keys(self.low), domain.keys(self.high)
        for column in (low, high):
            known = column.keys if column.is_null is None else column.keys[~column.is_null]
            assert (known % 2 == 1).all(), "bounds that are not constants of the domain"
        is_open = (
            np.zeros(len(self.low), dtype=bool) if high.is_null is None else high.is_null & ~self.is_point
        )
        is_empty = pc.equal(pc.binary_length(self.low), 0).fill_null(False).to_numpy(zero_copy_only=False)
        first = np.where(is_open & is_empty, LOWEST, low.keys)
        last = np.where(self.is_point, low.keys, np.where(is_open, HIGHEST, high.keys - 1))
        if low.is_null is not None:
            first, last = np.where(low.is_null, HIGHEST, first), np.where(low.is_null, LOWEST, last)
        return first, last


def prefix_bounds(patterns: pa.Array, operator: str = "like") -> PrefixBounds:
    """The ranges of patterns; `operator` is that of their atom: what startswith takes is a prefix as it is."""
    offsets, data = _strings(patterns)
    begins, ends = offsets[:-1], offsets[1:]
    is_known = patterns.is_valid().to_numpy(zero_copy_only=False)
    if operator == "startswith":
        low = patterns.view(BINARY)
        is_point, is_exact = np.zeros(len(patterns), dtype=bool), np.ones(len(patterns), dtype=bool)
    else:
        assert operator == "like", operator
        stops = np.minimum(_next((data == ord("%")) | (data == ord("_")), begins), ends)
        is_point = is_known & (stops == ends)
        anything = np.flatnonzero(data == ord("%"))
        n_anything = np.searchsorted(anything, ends) - np.searchsorted(anything, stops)
        is_exact = ~is_known | (n_anything == ends - stops)
        low = _text_slices(patterns, begins, stops, data)
        escaped = np.flatnonzero(is_known & (_next(data == ord(_ESCAPE), begins) < ends))
        if len(escaped):
            prefixes = []
            for k, pattern in zip(escaped, patterns.take(pa.array(escaped)).to_pylist(), strict=True):
                prefix, is_point[k], is_exact[k] = _parsed_pattern(pattern)
                prefixes.append(prefix)
            is_replaced = np.zeros(len(patterns), dtype=bool)
            is_replaced[escaped] = True
            low = pc.replace_with_mask(low, pa.array(is_replaced), pa.array(prefixes, BINARY))
    return PrefixBounds(low, _above(low, is_point), is_point, is_exact)


def _parsed_pattern(pattern: str) -> tuple[bytes, bool, bool]:
    """Prefix, whether it is all, and whether it decides, of a pattern with escapes."""
    (anything,) = like_parts("%", _ESCAPE)
    try:
        parts = like_parts(pattern, _ESCAPE)
    except RowError:
        return b"", False, False
    prefix = parts[0] if parts and isinstance(parts[0], str) else ""
    rest = parts[1:] if prefix else parts
    return prefix.encode(), not rest, rest in ((), (anything,))


def _strings(texts: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """Offsets and bytes of a string or binary array."""
    _, offsets, data = texts.buffers()
    if not len(texts):
        return np.zeros(1, np.int64), np.empty(0, np.uint8)
    starts = np.frombuffer(offsets, np.int32, len(texts) + 1, 4 * texts.offset).astype(np.int64)
    return starts, np.frombuffer(data if data is not None else b"", np.uint8)[: starts[-1]]


def _next(is_wanted: Mask, begins: Keys) -> Keys:
    """For each place the first wanted one from there on, or the end of all."""
    wanted_places = np.append(np.flatnonzero(is_wanted), len(is_wanted))
    return wanted_places[np.searchsorted(wanted_places, begins)]


def _text_slices(texts: pa.Array, begins: Keys, stops: Keys, data: npt.NDArray[np.uint8]) -> pa.Array:
    """The bytes from `begins` to `stops`, NULL where the text is."""
    steps = np.zeros(len(data) + 1, np.int8)  # may wrap around where many texts are empty, and back again
    np.add.at(steps, begins, 1)
    np.subtract.at(steps, stops, 1)
    sliced_bytes = data[np.cumsum(steps[:-1], dtype=np.int8) > 0]
    offsets = np.append(0, np.cumsum(stops - begins)).astype(np.int32)
    cut = pa.Array.from_buffers(BINARY, len(texts), [None, pa.py_buffer(offsets), pa.py_buffer(sliced_bytes)])
    return pc.if_else(texts.is_valid(), cut, pa.scalar(None, BINARY)) if texts.null_count else cut


def _above(low: pa.Array, is_point: Mask) -> pa.Array:
    """The least bytes above all that begin like `low`: the last one raised. NULL where there are none, and for points."""
    offsets, data = _strings(low)
    lengths, last = np.diff(offsets), np.maximum(offsets[1:] - 1, 0)
    is_bounded = ~is_point & (lengths > 0) & low.is_valid().to_numpy(zero_copy_only=False)
    raised = data.copy()
    raised[last[is_bounded]] += 1  # 255 becomes 0: put right below
    buffers = [
        None,
        pa.py_buffer((offsets - offsets[0]).astype(np.int32)),
        pa.py_buffer(raised[offsets[0] :]),
    ]
    high = pa.Array.from_buffers(BINARY, len(low), buffers)
    high = pc.if_else(pa.array(is_bounded), high, pa.scalar(None, BINARY))
    is_highest = np.zeros(len(low), dtype=bool)
    is_highest[is_bounded] = data[last[is_bounded]] == 255
    if not is_highest.any():  # as in every text: UTF-8 has no such byte
        return high
    shorter = [value.rstrip(b"\xff") for value in low.filter(pa.array(is_highest)).to_pylist()]
    replaced = [value[:-1] + bytes([value[-1] + 1]) if value else None for value in shorter]
    return pc.replace_with_mask(high, pa.array(is_highest), pa.array(replaced, BINARY))
