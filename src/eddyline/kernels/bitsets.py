"""Bitsets over lanes: which of 512 lanes a row satisfies, one block of lanes after the other; and what to do with the result.

Per block and attribute there is a *term*: a table with one line of 512 bits for NULL and one for each rank. A row's rank is the
number of the term's cuts that are <= its key, so between two cuts all keys share a line. The terms of a clause are ORed, the
clauses of a block ANDed.

Ranks are found in two steps. Once per batch, `global_ranks` counts the cuts of all blocks; only here are keys looked at. Per
block, a rank among all cuts becomes one among the term's own: taken as it is where the term has most of the cuts, looked up where
it has few. Both look-ups begin at a bucket that says how many cuts are behind, and end with a binary search without branches.

What a term has besides its lines (the ranks where its buckets begin, then its thresholds: the ranks where its cuts begin) lies
behind them in the same memory, so that all of the next block can be brought near while the rows pass this one.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from eddyline.kernels.lanes import (
    PLACES_OF_ONES,
    compiles_for_avx2,
    count_line,
    count_ones,
    fetch_line,
    kernel,
    line_and,
    line_at,
    line_majority,
    line_or,
    line_parity,
    line_xor,
    lowest_one,
    no_lanes,
    put_chosen_ids,
    put_line,
)
from eddyline.kernels.layouts import (
    ATTRIBUTE,
    BUCKETS,
    CLOSES,
    COLUMN,
    FEW_STEPS,
    IS_DIRECT,
    LANE_BITS,
    LANES,
    LINE_WORDS,
    N_CUTS,
    N_STEPS,
    SHIFT,
    TABLE,
    TERM_COLUMNS,
    THRESHOLDS,
    Int32s,
    Int64s,
    Words,
)

Booleans = npt.NDArray[np.bool_]

DIRECT_CUTS = 1000  # with more, the tables of a block would not stay in the second cache
BUCKETS_PER_CUT = 2
CHUNK_ROWS = 1024  # rows whose ranks stay near while a block looks at them
MOST_FETCHED = 4  # lines of the next block brought near per row
NEVER = np.int32(2**31 - 1)  # a threshold that no rank reaches

_place = np.uint64  # of an element, known not to be negative: Numba need not look for places from the end
_ONE, _BYTE = np.uint64(1), np.uint64(255)


# ----------------------------------------------------------------------------------------------- ranks


@kernel
def global_ranks(
    keys: Int64s,
    is_null: Booleans,
    cuts: Int64s,
    buckets: Int32s,
    first: int,
    shift: int,
    n_steps: int,
    ranks: Int32s,
) -> None:
    """Write the number of cuts <= each key to `ranks`, and -1 where it is NULL (`is_null` may be empty: nowhere).

    Bucket b begins at the key first + (b << shift), where buckets[b] cuts are behind; fewer than 2**n_steps follow within it. No
    cut is <= `first`. `cuts` ends with 2**n_steps - 1 that are int64 max and do not count. `n_steps` is 0, or FEW_STEPS or more.
    """
    n_cuts = len(cuts) - (1 << n_steps) + 1
    origin, top, by = np.uint64(first), np.uint64(len(buckets) - 1), np.uint64(shift)
    for row in range(len(keys)):
        bucket = (np.uint64(max(keys[row], first)) - origin) >> by
        ranks[row] = buckets[min(bucket, top)]
    if n_steps == FEW_STEPS:
        for row in range(len(keys)):
            key, rank = keys[row], np.int64(ranks[row])
            rank += 4 * np.int64(cuts[_place(rank + 3)] <= key)
            rank += 2 * np.int64(cuts[_place(rank + 1)] <= key)
            rank += np.int64(cuts[_place(rank)] <= key)
            ranks[row] = rank if rank < n_cuts else n_cuts
    elif n_steps:
        for row in range(len(keys)):
            key, rank = keys[row], np.int64(ranks[row])
            for bit in range(n_steps - 1, -1, -1):
                rank += np.int64(cuts[_place(rank + (1 << bit) - 1)] <= key) << bit
            ranks[row] = rank if rank < n_cuts else n_cuts
    for row in range(len(is_null)):
        if is_null[row]:
            ranks[row] = -1


@kernel
def _local_ranks(
    terms: Int64s, term: int, numbers: Int32s, ranks: Int32s, source: int, target: int, begin: int, end: int
) -> None:
    """Of rows begin .. end - 1, turn ranks among all cuts, at `source`, into ranks among the term's own, at `target`."""
    shift, n_steps = terms[term, SHIFT], terms[term, N_STEPS]
    buckets, thresholds = terms[term, BUCKETS] + 1, terms[term, THRESHOLDS]
    if n_steps == FEW_STEPS:
        for row in range(begin, end):
            rank = ranks[_place(source + row)]
            local = np.int64(numbers[_place(buckets + (rank >> shift))])
            local += 4 * np.int64(numbers[_place(thresholds + local + 3)] <= rank)
            local += 2 * np.int64(numbers[_place(thresholds + local + 1)] <= rank)
            local += np.int64(numbers[_place(thresholds + local)] <= rank)
            ranks[_place(target + row)] = local
    else:
        for row in range(begin, end):
            rank = ranks[_place(source + row)]
            local = np.int64(numbers[_place(buckets + (rank >> shift))])
            for bit in range(n_steps - 1, -1, -1):
                local += np.int64(numbers[_place(thresholds + local + (1 << bit) - 1)] <= rank) << bit
            ranks[_place(target + row)] = local


# ----------------------------------------------------------------------------------------------- tables

# A *toggle* says: from this rank on, the lane's bit is the other way round. As one number, to be sorted,
# term << (rank_bits + LANE_BITS) | rank << LANE_BITS | lane.


@kernel
def measure_terms(toggles: Int64s, rank_bits: int, n_cuts_of: Int64s, terms: Int64s) -> None:
    """Fill SHIFT, N_STEPS and N_CUTS of every term; toggles ascending, `n_cuts_of` counts all cuts of each attribute."""
    at = 0
    for term in range(len(terms)):
        begin, previous, n_cuts = at, 0, 0
        while at < len(toggles) and toggles[at] >> (rank_bits + LANE_BITS) == term:
            rank = (toggles[at] >> LANE_BITS) & ((1 << rank_bits) - 1)
            n_cuts += rank != previous
            previous = rank
            at += 1
        n_all = n_cuts_of[terms[term, ATTRIBUTE]]
        terms[term, N_CUTS] = n_cuts
        if n_all <= DIRECT_CUTS and n_all <= 2 * n_cuts + 8:
            terms[term, SHIFT], terms[term, N_STEPS] = IS_DIRECT, 0
            continue
        shift = 0
        while n_all >> shift > BUCKETS_PER_CUT * n_cuts + 8:
            shift += 1
        fullest, n_here, bucket, previous = 0, 0, -1, 0
        for k in range(begin, at):
            rank = (toggles[k] >> LANE_BITS) & ((1 << rank_bits) - 1)
            if rank >> shift != bucket:
                bucket, n_here = rank >> shift, 0
            # a cut where a bucket begins is behind all of its ranks
            n_here += rank != previous and rank != bucket << shift
            fullest, previous = max(fullest, n_here), rank
        n_steps = FEW_STEPS
        while 1 << n_steps <= fullest:
            n_steps += 1
        terms[term, SHIFT], terms[term, N_STEPS] = shift, n_steps


@kernel
def fill_terms(
    toggles: Int64s,
    rank_bits: int,
    n_cuts_of: Int64s,
    terms: Int64s,
    now: Words,
    bitsets: Words,
    numbers: Int32s,
) -> None:
    """Write lines, buckets and thresholds of every term; `numbers` is the memory of `bitsets`.

    `now` has each term's line before any toggle, which is also the one for NULL; it ends as the line after all of them.
    """
    at = 0
    for term in range(len(terms)):
        n_all, shift = n_cuts_of[terms[term, ATTRIBUTE]], terms[term, SHIFT]
        is_direct = shift == IS_DIRECT
        table, here = terms[term, TABLE] * LINE_WORDS, term * LINE_WORDS
        buckets, threshold = terms[term, BUCKETS] + 1, terms[term, THRESHOLDS]
        n_buckets, bucket = 0, 0
        put_line(bitsets, table, line_at(now, here))
        if not is_direct:
            n_buckets = (n_all >> shift) + 1
            numbers[buckets - 1] = -1
        rank, n_behind = 0, 0
        while rank <= n_all:
            while at < len(toggles) and toggles[at] >> LANE_BITS == (term << rank_bits | rank):
                lane = toggles[at] & (LANES - 1)
                now[here + (lane >> 6)] ^= _ONE << np.uint64(lane & 63)
                at += 1
            upto = n_all + 1  # the rank where the line changes again
            if at < len(toggles) and toggles[at] >> (rank_bits + LANE_BITS) == term:
                upto = (toggles[at] >> LANE_BITS) & ((1 << rank_bits) - 1)
            line = line_at(now, here)
            for _ in range(upto - rank if is_direct else 1):
                table += LINE_WORDS
                put_line(bitsets, table, line)
            while bucket < n_buckets and bucket << shift < upto:
                numbers[buckets + bucket] = n_behind
                bucket += 1
            if not is_direct and upto <= n_all:
                numbers[threshold] = upto
                threshold += 1
            rank, n_behind = upto, n_behind + 1
        if not is_direct:
            for _ in range(1 << terms[term, N_STEPS]):
                numbers[threshold] = NEVER
                threshold += 1


@kernel
def put_bits(words: Words, lines: Int64s, lanes: Int64s, bit: bool) -> None:
    """Set the bit of lane lanes[k] in line lines[k] to `bit`, for all k."""
    for k in range(len(lines)):
        at = lines[k] * LINE_WORDS + (lanes[k] >> 6)
        mask = _ONE << np.uint64(lanes[k] & 63)
        words[at] = words[at] | mask if bit else words[at] & ~mask


# ----------------------------------------------------------------------------------------------- rows


@kernel
def evaluate_blocks(
    live: Words,
    block_terms: Int64s,
    terms: Int64s,
    bitsets: Words,
    numbers: Int32s,
    ranks: Int32s,
    n_attributes: int,
    words: Words,
    counts: Int32s,
) -> None:
    """Write which live lanes each row satisfies to `words`, row after row, and add how many to `counts`.

    `ranks` holds a column of ranks among all cuts for each attribute, and behind them room for those of terms with their own.
    `numbers` is the memory of `bitsets`.
    """
    n_rows, n_blocks = len(counts), len(block_terms) - 1
    n_words = n_blocks * LINE_WORDS
    for block in range(n_blocks):
        begin, end = block_terms[block], block_terms[block + 1]
        is_conjunction = True
        for term in range(begin, end):
            is_conjunction &= terms[term, CLOSES] == 1
        behind = block_terms[min(block + 2, n_blocks)]
        ahead = terms[end, TABLE] if end < len(terms) else 0
        upto = terms[behind, TABLE] if behind < len(terms) else len(bitsets) // LINE_WORDS
        alive = line_at(live, block * LINE_WORDS)
        for chunk in range(0, n_rows, CHUNK_ROWS):
            chunk_end = min(chunk + CHUNK_ROWS, n_rows)
            for term in range(begin, end):
                if terms[term, SHIFT] != IS_DIRECT:
                    source = terms[term, ATTRIBUTE] * n_rows
                    _local_ranks(
                        terms, term, numbers, ranks, source, terms[term, COLUMN] * n_rows, chunk, chunk_end
                    )
            n_fetched = (
                min((upto - ahead) // (chunk_end - chunk) + 1, MOST_FETCHED) if ahead and chunk == 0 else 0
            )
            if is_conjunction:
                for row in range(chunk, chunk_end):
                    for _ in range(n_fetched):
                        fetch_line(bitsets, ahead * LINE_WORDS)
                        ahead += 1
                    matched = alive
                    for term in range(begin, end):
                        rank = ranks[_place(terms[_place(term), COLUMN] * n_rows + row)]
                        line = terms[_place(term), TABLE] + 1 + rank
                        matched = line_and(matched, line_at(bitsets, line * LINE_WORDS))
                    put_line(words, row * n_words + block * LINE_WORDS, matched)
                    counts[row] += count_line(matched)
            else:
                for row in range(chunk, chunk_end):
                    matched, either = alive, no_lanes()
                    for term in range(begin, end):
                        rank = ranks[_place(terms[_place(term), COLUMN] * n_rows + row)]
                        line = terms[_place(term), TABLE] + 1 + rank
                        either = line_or(either, line_at(bitsets, line * LINE_WORDS))
                        if terms[_place(term), CLOSES]:
                            matched, either = line_and(matched, either), no_lanes()
                    put_line(words, row * n_words + block * LINE_WORDS, matched)
                    counts[row] += count_line(matched)


# ----------------------------------------------------------------------------------------------- hits


@kernel
def put_by_bits(words: Words, row: int, ids: Int32s, out: Int32s, at: int, limit: int) -> int:
    """Write the ids of a row's set bits to `out` from `at` on; give the place behind the last."""
    for w in range(words.shape[1]):
        word = words[row, w]
        while word:
            out[_place(at)] = ids[_place(w * 64 + lowest_one(word))]
            at += 1
            word &= word - _ONE
    return at


@kernel
def put_by_bytes(words: Words, row: int, ids: Int32s, out: Int32s, at: int, limit: int) -> int:
    """The same, eight ids at a time; what is written behind the last one stays below `limit`. Needs AVX2."""
    for w in range(words.shape[1]):
        word = words[row, w]
        if word == 0:
            continue
        behind = at + count_ones(word)
        if behind + 8 <= limit:
            for k in range(8):
                byte = (word >> np.uint64(8 * k)) & _BYTE
                put_chosen_ids(ids, w * 64 + 8 * k, PLACES_OF_ONES, np.int64(byte), out, at)
                at += count_ones(byte)
        else:
            while word:
                out[_place(at)] = ids[_place(w * 64 + lowest_one(word))]
                at += 1
                word &= word - _ONE
        at = behind
    return at


_put_row = put_by_bytes if compiles_for_avx2() else put_by_bits


@kernel
def decode_rows(words: Words, ids: Int32s, out: Int32s) -> int:
    """Write the ids of each row's set bits to `out`, one row behind the other, and give their number.

    `out` may be just as long as that, and nothing is written behind it: parts of one array can be filled side by side.
    """
    at = 0
    for row in range(len(words)):
        at = _put_row(words, row, ids, out, at, len(out))
    return at


@kernel
def decode_rows_at(words: Words, counts: Int32s, ids: Int32s, starts: Int64s, out: Int32s) -> None:
    """Write the ids of row i's set bits, which are counts[i], to out[starts[i] :], and touch nothing else."""
    for row in range(len(words)):
        _put_row(words, row, ids, out, starts[row], starts[row] + counts[row])


@kernel
def copy_rows_at(offsets: Int64s, ids: Int32s, starts: Int64s, out: Int32s) -> None:
    """Copy ids[offsets[i] : offsets[i + 1]] to out[starts[i] :], for every i, and move starts[i] behind them."""
    for row in range(len(starts)):
        further = starts[row] - offsets[row]
        for k in range(offsets[row], offsets[row + 1]):
            out[_place(k + further)] = ids[_place(k)]
        starts[row] = further + offsets[row + 1]


def count_lanes(words: Words, counts: Int64s) -> None:
    """Add to counts[lane] the number of rows with the lane's bit set; rows are whole lines long."""
    n_levels = max(4, (len(words) + 7).bit_length())
    total, waiting = (np.zeros(n_levels * words.shape[1], np.uint64) for _ in range(2))
    _count_lanes(words.reshape(-1), words.shape[1], total, waiting, counts)


@kernel
def _count_lanes(words: Words, n_words: int, total: Words, waiting: Words, counts: Int64s) -> None:
    """Count lanes in binary, bit k of all numbers in lines of weight 2**k, so that one instruction adds to many lanes.

    Eight rows are summed to one line of weight 8; two of weight 2**k wait for each other to become one of weight 2**(k+1).
    """
    n_rows = len(words) // n_words if n_words else 0
    for group in range((n_rows + 7) // 8):
        for at in range(0, n_words, LINE_WORDS):
            ones, twos, fours = (
                line_at(total, at),
                line_at(total, at + n_words),
                line_at(total, at + 2 * n_words),
            )
            row = group * 8 * n_words + at
            if group * 8 + 8 <= n_rows:
                a, b = line_at(words, row), line_at(words, row + n_words)
                twos_1, ones = line_majority(ones, a, b), line_parity(ones, a, b)
                a, b = line_at(words, row + 2 * n_words), line_at(words, row + 3 * n_words)
                twos_2, ones = line_majority(ones, a, b), line_parity(ones, a, b)
                fours_1, twos = line_majority(twos, twos_1, twos_2), line_parity(twos, twos_1, twos_2)
                a, b = line_at(words, row + 4 * n_words), line_at(words, row + 5 * n_words)
                twos_1, ones = line_majority(ones, a, b), line_parity(ones, a, b)
                a, b = line_at(words, row + 6 * n_words), line_at(words, row + 7 * n_words)
                twos_2, ones = line_majority(ones, a, b), line_parity(ones, a, b)
                fours_2, twos = line_majority(twos, twos_1, twos_2), line_parity(twos, twos_1, twos_2)
                carry, fours = line_majority(fours, fours_1, fours_2), line_parity(fours, fours_1, fours_2)
            else:
                carry = no_lanes()  # of 7 rows at most, so a lane reaches 8 once
                while row < len(words):
                    a = line_at(words, row)
                    b, ones = line_and(ones, a), line_xor(ones, a)
                    a, twos = line_and(twos, b), line_xor(twos, b)
                    b, fours = line_and(fours, a), line_xor(fours, a)
                    carry = line_or(carry, b)
                    row += n_words
            put_line(total, at, ones)
            put_line(total, at + n_words, twos)
            put_line(total, at + 2 * n_words, fours)
            level, rest = at + 3 * n_words, group
            while rest & 1:
                a, b = line_at(total, level), line_at(waiting, level)
                put_line(total, level, line_parity(a, b, carry))
                put_line(waiting, level, no_lanes())
                carry = line_majority(a, b, carry)
                level, rest = level + n_words, rest >> 1
            put_line(waiting, level, carry)
    for w in range(n_words):
        for level in range(len(total) // n_words):
            here, there = total[level * n_words + w], waiting[level * n_words + w]
            for bit in range(64):
                n = ((here >> np.uint64(bit)) & _ONE) + ((there >> np.uint64(bit)) & _ONE)
                counts[w * 64 + bit] += np.int64(n << np.uint64(level))


def warm_up() -> None:
    """Compile every kernel, or fetch it from the cache."""
    no_keys, no_numbers, no_words = np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.uint64)
    no_terms, no_rows = np.empty((0, TERM_COLUMNS), np.int64), np.empty((0, LINE_WORDS), np.uint64)
    no_blocks = np.zeros(1, np.int64)
    global_ranks(no_keys, np.empty(0, np.bool_), no_keys, no_numbers, 0, 0, 0, no_numbers)
    measure_terms(no_keys, 1, no_keys, no_terms)
    fill_terms(no_keys, 1, no_keys, no_terms, no_words, no_words, no_numbers)
    put_bits(no_words, no_keys, no_keys, True)
    evaluate_blocks(no_words, no_blocks, no_terms, no_words, no_numbers, no_numbers, 0, no_words, no_numbers)
    decode_rows(no_rows, no_numbers, no_numbers)
    decode_rows_at(no_rows, no_numbers, no_numbers, no_keys, no_numbers)
    copy_rows_at(no_blocks, no_numbers, no_keys, no_numbers)
    count_lanes(no_rows, no_keys)
