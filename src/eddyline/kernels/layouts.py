"""How the arrays of kernels are laid out: numbers that those who fill the arrays need before a kernel runs.

Compiled kernels have these numbers in them, and Numba's cache looks only at the file of a kernel: after a change here, touch the
files of the kernels.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
_Array = TypeVar("_Array", bound=npt.NDArray[Any])

# lines and blocks of lanes
LINE_WORDS = 8
LANES = 64 * LINE_WORDS  # of a block
LANE_BITS = 9
LINE_NUMBERS = 2 * LINE_WORDS  # int32 in the place of a line

# columns of `terms`
ATTRIBUTE = 0
COLUMN = 1  # of `ranks`: where the term finds its own
CLOSES = 2  # 1 where the term is the last of its clause
TABLE = 3  # its first line: the one for NULL, rank 0 is next
SHIFT = 4  # from a rank among all cuts to its bucket; IS_DIRECT where these ranks are the term's own
N_STEPS = 5  # of the search in a bucket
BUCKETS = 6  # place of the first; it is for NULL, the one of rank 0 is next
THRESHOLDS = 7  # place of the first; behind the last are 2**n_steps that no rank reaches
N_CUTS = 8
TERM_COLUMNS = 9

IS_DIRECT = -1
FEW_STEPS = 3  # searches of no more steps are written out

# counters of results: held in the low half, ever produced in the high half
ONE_HELD = 1
ONE_NEW = (1 << 32) + 1  # held, and there for the first time
HALF = (1 << 32) - 1
MOST_EVER = (1 << 31) - 1  # in the high half

# lists of keys and leaves
QUAD = 4  # boxes that `keys_within_4` compares
LONG_LIST = 256  # entries; a longer list is first cut by a search
LEAF_LANES = 64
BLOCK_LEAVES = 16
MAX_ATTRIBUTES = 8
WORD_RECORDS = 64 * BLOCK_LEAVES  # that the 64 rows of a word may make with a super-block

# columns of the table that tells `find_pairs` of segments
SEGMENT_OFFSETS = 0  # where they lie in memory
SEGMENT_PAIRS = 1
SEGMENT_SHIFT = 2  # a hash less so many bits is the bucket
SEGMENT_COLUMNS = 3

PADDING = 2  # integers behind the last pair of a segment, so that an empty bucket can be looked into
NO_PAIR = -1  # the end of a list of the ring

NOTHING = -1  # no row, no version

# columns of integers that every ring has
ARRIVAL = 0
EPOCH = 1
COUNT = 2  # how many rows there are up to this one
RING_COLUMNS = 3

LEAST, GREATEST, EARLIEST, LATEST = 0, 1, 2, 3  # what wins among rows of a ring


def read_only(array: _Array) -> _Array:
    """A view that cannot be written to. Kernels are compiled apart for arrays that can; what they read here never can."""
    view = array.view()
    view.flags.writeable = False
    return view


# of partial results of doubles: columns of `counts`
FINITE = 0
NOT_A_NUMBER = 1
PLUS_INFINITE = 2
MINUS_INFINITE = 3

HUGE = (
    2.0**960
)  # finite doubles from here on are added apart, divided by 2**HUGE_EXPONENT: their sum may leave the range and return
HUGE_EXPONENT = 128

# of ordered sets: columns of `links`, numbers in `control`
LEFT = 0
RIGHT = 1
USES = 2
PRIORITY = 3
FIRST_FREE = 0
N_FREE = 1
SEED = 2
CHANGE = 3  # of the number of lines by the last update
NO_NODE: int | np.int64 = 0
MAX_DEPTH = (
    512  # of a tree: one of 2**31 nodes is about 60 deep, and deeper than this with a chance below 1e-100
)


class TreeNodes(NamedTuple):
    """Nodes by number; number 0 is no node."""

    lines: Int64s
    links: (
        Int32s  # children, uses and priority; of free nodes the next free one in the place of the left child
    )
    times: Int64s  # how often a line is in the set
    control: Int64s
    is_text: npt.NDArray[np.bool_]  # by column that is compared; those behind are not
    offsets: Int64s  # of texts
    data: npt.NDArray[np.uint8]
