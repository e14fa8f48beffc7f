"""Inner loops, compiled with Numba: arrays in, arrays out. A kernel knows nothing of queries, SQL or Arrow, and allocates little;
what it means is said by the room that calls it, and a plain twin in `tests/oracles` says what it must give.

Kernels load with their first call, and Numba with them: an engine that was only opened has no use for either. `layouts` has the
numbers that arrays for kernels are laid out by, and loads at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from eddyline.kernels.deferred import Deferred
from eddyline.kernels.layouts import (
    ARRIVAL,
    ATTRIBUTE,
    BLOCK_LEAVES,
    BUCKETS,
    CLOSES,
    COLUMN,
    COUNT,
    EARLIEST,
    EPOCH,
    FEW_STEPS,
    FINITE,
    FIRST_FREE,
    GREATEST,
    HALF,
    HUGE_EXPONENT,
    IS_DIRECT,
    LANE_BITS,
    LANES,
    LATEST,
    LEAF_LANES,
    LEAST,
    LEFT,
    LINE_NUMBERS,
    LINE_WORDS,
    LONG_LIST,
    MAX_ATTRIBUTES,
    MAX_DEPTH,
    MINUS_INFINITE,
    MOST_EVER,
    N_CUTS,
    N_FREE,
    N_STEPS,
    NO_NODE,
    NO_PAIR,
    NOT_A_NUMBER,
    NOTHING,
    ONE_HELD,
    ONE_NEW,
    PADDING,
    PLUS_INFINITE,
    QUAD,
    RIGHT,
    RING_COLUMNS,
    SEGMENT_COLUMNS,
    SHIFT,
    TABLE,
    TERM_COLUMNS,
    THRESHOLDS,
    USES,
    WORD_RECORDS,
    Int32s,
    Int64s,
    TreeNodes,
    Words,
    read_only,
)

if TYPE_CHECKING:
    from eddyline.kernels.accumulators import (
        add_doubles,
        add_limbs,
        add_moments,
        add_signs,
        divided,
        divided_half_up,
        merge_doubles,
        merge_moments,
        replace_by_greater,
    )
    from eddyline.kernels.bitsets import (
        copy_rows_at,
        count_lanes,
        decode_rows,
        decode_rows_at,
        evaluate_blocks,
        fill_terms,
        global_ranks,
        measure_terms,
        put_bits,
    )
    from eddyline.kernels.byte_coding import byte_codes, gather_bytes, gathered_offsets, same_bytes
    from eddyline.kernels.counts import add_by_id, count_ids, mark_within
    from eddyline.kernels.join_index import (
        add_up,
        count_buckets,
        find_pairs,
        find_some_pairs,
        link_pairs,
        pair_up,
        place_pairs,
        push_pairs,
        renumber_pairs,
        unlink_pairs,
    )
    from eddyline.kernels.key_lists import (
        fill_reach,
        fill_table,
        find_dense_lists,
        find_lists,
        gather_rows,
        match_lists,
    )
    from eddyline.kernels.key_words import (
        add_keys,
        copy_runs,
        find_keys,
        hash_keys,
        place_keys,
        remove_keys,
    )
    from eddyline.kernels.leaves import find_records, put_ids
    from eddyline.kernels.ordered_sets import (
        find_ends,
        list_nodes,
        release_sets,
        share_sets,
        update_sets,
    )
    from eddyline.kernels.over_frames import (
        distinct_between,
        epoch_starts,
        find_specials,
        places_back,
        prefix_totals,
        range_starts,
        sums_between,
        winners_between,
    )
    from eddyline.kernels.over_rings import (
        append_rows,
        build_nodes,
        fold_rows,
        merge_rows,
        pin_distinct,
        pin_winners,
        purge_cuts,
    )
    from eddyline.kernels.places import (
        ascending,
        byte_places,
        float_places,
        wide_places,
        word_tree,
    )
    from eddyline.kernels.shared_levels import (
        are_open,
        close_where_dropped,
        count_open,
        mark_rows,
        needing_among,
        note,
        open_pairs,
        rows_needing,
    )
    from eddyline.kernels.slice_lists import link_slices, slices_within, unlink_slices
    from eddyline.kernels.table_versions import (
        cut_before,
        cut_superseded,
        find_owners,
        hang_versions,
        link_entries,
        mark_reachable,
        meet_changes,
        unhang_versions,
        unlink_entries,
        versions_as_of,
        versions_at,
        versions_known_from,
    )
    from eddyline.kernels.warm import compile_if_cold, warm_up
else:
    find_ends = Deferred("ordered_sets", "find_ends")
    list_nodes = Deferred("ordered_sets", "list_nodes")
    release_sets = Deferred("ordered_sets", "release_sets")
    share_sets = Deferred("ordered_sets", "share_sets")
    update_sets = Deferred("ordered_sets", "update_sets")
    distinct_between = Deferred("over_frames", "distinct_between")
    epoch_starts = Deferred("over_frames", "epoch_starts")
    find_specials = Deferred("over_frames", "find_specials")
    places_back = Deferred("over_frames", "places_back")
    prefix_totals = Deferred("over_frames", "prefix_totals")
    range_starts = Deferred("over_frames", "range_starts")
    sums_between = Deferred("over_frames", "sums_between")
    winners_between = Deferred("over_frames", "winners_between")
    append_rows = Deferred("over_rings", "append_rows")
    build_nodes = Deferred("over_rings", "build_nodes")
    fold_rows = Deferred("over_rings", "fold_rows")
    merge_rows = Deferred("over_rings", "merge_rows")
    pin_distinct = Deferred("over_rings", "pin_distinct")
    pin_winners = Deferred("over_rings", "pin_winners")
    purge_cuts = Deferred("over_rings", "purge_cuts")
    add_doubles = Deferred("accumulators", "add_doubles")
    add_limbs = Deferred("accumulators", "add_limbs")
    add_moments = Deferred("accumulators", "add_moments")
    add_signs = Deferred("accumulators", "add_signs")
    divided = Deferred("accumulators", "divided")
    divided_half_up = Deferred("accumulators", "divided_half_up")
    merge_doubles = Deferred("accumulators", "merge_doubles")
    merge_moments = Deferred("accumulators", "merge_moments")
    replace_by_greater = Deferred("accumulators", "replace_by_greater")
    copy_rows_at = Deferred("bitsets", "copy_rows_at")
    count_lanes = Deferred("bitsets", "count_lanes")
    decode_rows = Deferred("bitsets", "decode_rows")
    decode_rows_at = Deferred("bitsets", "decode_rows_at")
    evaluate_blocks = Deferred("bitsets", "evaluate_blocks")
    fill_terms = Deferred("bitsets", "fill_terms")
    global_ranks = Deferred("bitsets", "global_ranks")
    measure_terms = Deferred("bitsets", "measure_terms")
    put_bits = Deferred("bitsets", "put_bits")
    byte_codes = Deferred("byte_coding", "byte_codes")
    gather_bytes = Deferred("byte_coding", "gather_bytes")
    gathered_offsets = Deferred("byte_coding", "gathered_offsets")
    same_bytes = Deferred("byte_coding", "same_bytes")
    add_by_id = Deferred("counts", "add_by_id")
    count_ids = Deferred("counts", "count_ids")
    mark_within = Deferred("counts", "mark_within")
    add_up = Deferred("join_index", "add_up")
    count_buckets = Deferred("join_index", "count_buckets")
    find_pairs = Deferred("join_index", "find_pairs")
    find_some_pairs = Deferred("join_index", "find_some_pairs")
    link_pairs = Deferred("join_index", "link_pairs")
    pair_up = Deferred("join_index", "pair_up")
    place_pairs = Deferred("join_index", "place_pairs")
    push_pairs = Deferred("join_index", "push_pairs")
    renumber_pairs = Deferred("join_index", "renumber_pairs")
    unlink_pairs = Deferred("join_index", "unlink_pairs")
    fill_reach = Deferred("key_lists", "fill_reach")
    fill_table = Deferred("key_lists", "fill_table")
    find_dense_lists = Deferred("key_lists", "find_dense_lists")
    find_lists = Deferred("key_lists", "find_lists")
    gather_rows = Deferred("key_lists", "gather_rows")
    match_lists = Deferred("key_lists", "match_lists")
    add_keys = Deferred("key_words", "add_keys")
    copy_runs = Deferred("key_words", "copy_runs")
    find_keys = Deferred("key_words", "find_keys")
    hash_keys = Deferred("key_words", "hash_keys")
    place_keys = Deferred("key_words", "place_keys")
    remove_keys = Deferred("key_words", "remove_keys")
    find_records = Deferred("leaves", "find_records")
    put_ids = Deferred("leaves", "put_ids")
    ascending = Deferred("places", "ascending")
    byte_places = Deferred("places", "byte_places")
    float_places = Deferred("places", "float_places")
    wide_places = Deferred("places", "wide_places")
    word_tree = Deferred("places", "word_tree")
    are_open = Deferred("shared_levels", "are_open")
    close_where_dropped = Deferred("shared_levels", "close_where_dropped")
    count_open = Deferred("shared_levels", "count_open")
    mark_rows = Deferred("shared_levels", "mark_rows")
    needing_among = Deferred("shared_levels", "needing_among")
    note = Deferred("shared_levels", "note")
    open_pairs = Deferred("shared_levels", "open_pairs")
    rows_needing = Deferred("shared_levels", "rows_needing")
    link_slices = Deferred("slice_lists", "link_slices")
    slices_within = Deferred("slice_lists", "slices_within")
    unlink_slices = Deferred("slice_lists", "unlink_slices")
    cut_before = Deferred("table_versions", "cut_before")
    cut_superseded = Deferred("table_versions", "cut_superseded")
    find_owners = Deferred("table_versions", "find_owners")
    hang_versions = Deferred("table_versions", "hang_versions")
    link_entries = Deferred("table_versions", "link_entries")
    mark_reachable = Deferred("table_versions", "mark_reachable")
    meet_changes = Deferred("table_versions", "meet_changes")
    versions_known_from = Deferred("table_versions", "versions_known_from")
    unhang_versions = Deferred("table_versions", "unhang_versions")
    unlink_entries = Deferred("table_versions", "unlink_entries")
    versions_as_of = Deferred("table_versions", "versions_as_of")
    versions_at = Deferred("table_versions", "versions_at")
    compile_if_cold = Deferred("warm", "compile_if_cold")
    warm_up = Deferred("warm", "warm_up")

__all__ = [
    "ARRIVAL",
    "ATTRIBUTE",
    "BLOCK_LEAVES",
    "BUCKETS",
    "CLOSES",
    "COLUMN",
    "COUNT",
    "EARLIEST",
    "EPOCH",
    "FEW_STEPS",
    "FINITE",
    "FIRST_FREE",
    "GREATEST",
    "HALF",
    "HUGE_EXPONENT",
    "IS_DIRECT",
    "LANES",
    "LANE_BITS",
    "LATEST",
    "LEAF_LANES",
    "LEAST",
    "LEFT",
    "LINE_NUMBERS",
    "LINE_WORDS",
    "LONG_LIST",
    "MAX_ATTRIBUTES",
    "MAX_DEPTH",
    "MINUS_INFINITE",
    "MOST_EVER",
    "NOTHING",
    "NOT_A_NUMBER",
    "NO_NODE",
    "NO_PAIR",
    "N_CUTS",
    "N_FREE",
    "N_STEPS",
    "ONE_HELD",
    "ONE_NEW",
    "PADDING",
    "PLUS_INFINITE",
    "QUAD",
    "RIGHT",
    "RING_COLUMNS",
    "SEGMENT_COLUMNS",
    "SHIFT",
    "TABLE",
    "TERM_COLUMNS",
    "THRESHOLDS",
    "USES",
    "WORD_RECORDS",
    "Int32s",
    "Int64s",
    "TreeNodes",
    "Words",
    "add_by_id",
    "add_doubles",
    "add_keys",
    "add_limbs",
    "add_moments",
    "add_signs",
    "add_up",
    "append_rows",
    "are_open",
    "ascending",
    "build_nodes",
    "byte_codes",
    "byte_places",
    "close_where_dropped",
    "compile_if_cold",
    "copy_rows_at",
    "copy_runs",
    "count_buckets",
    "count_ids",
    "count_lanes",
    "count_open",
    "cut_before",
    "cut_superseded",
    "decode_rows",
    "decode_rows_at",
    "distinct_between",
    "divided",
    "divided_half_up",
    "epoch_starts",
    "evaluate_blocks",
    "fill_reach",
    "fill_table",
    "fill_terms",
    "find_dense_lists",
    "find_ends",
    "find_keys",
    "find_lists",
    "find_owners",
    "find_pairs",
    "find_records",
    "find_some_pairs",
    "find_specials",
    "float_places",
    "fold_rows",
    "gather_bytes",
    "gather_rows",
    "gathered_offsets",
    "global_ranks",
    "hang_versions",
    "hash_keys",
    "link_entries",
    "link_pairs",
    "link_slices",
    "list_nodes",
    "mark_reachable",
    "mark_rows",
    "mark_within",
    "match_lists",
    "measure_terms",
    "meet_changes",
    "merge_doubles",
    "merge_moments",
    "merge_rows",
    "needing_among",
    "note",
    "open_pairs",
    "pair_up",
    "pin_distinct",
    "pin_winners",
    "place_keys",
    "place_pairs",
    "places_back",
    "prefix_totals",
    "purge_cuts",
    "push_pairs",
    "put_bits",
    "put_ids",
    "range_starts",
    "read_only",
    "release_sets",
    "remove_keys",
    "renumber_pairs",
    "replace_by_greater",
    "rows_needing",
    "same_bytes",
    "share_sets",
    "slices_within",
    "sums_between",
    "unhang_versions",
    "unlink_entries",
    "unlink_pairs",
    "unlink_slices",
    "update_sets",
    "versions_as_of",
    "versions_at",
    "versions_known_from",
    "warm_up",
    "wide_places",
    "winners_between",
    "word_tree",
]
