"""Versions of the rows of a table: which one was current when, and found by a key.

An *owner* is a primary key that has rows. Its versions hang in a chain, latest first by (time, arrival): `latest[owner]` is the
head and `older[row]` the next; -1 ends the chain. A time of `no_time` is none. Versions that became the head when they came did
so in the order of their arrival, so those of a chain that ever were current stand in that order, too.

A look-up index is a hash table with chained *entries*. An entry names a row; the row's owner may have a version with that row's
code. Entries are chained in the order they came, newest first, so that the newest can be taken out again.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from eddyline.kernels.lanes import kernel
from eddyline.kernels.layouts import NOTHING

Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_ODD = np.uint64(0x9E3779B97F4A7C15)


@kernel
def _bucket(code: int, shift: np.uint64) -> int:
    return int((np.uint64(code) * _ODD) >> shift)


# ----------------------------------------------------------------------------------------------- look-up


@kernel
def link_entries(codes: Numbers, rows: Numbers, first: int, buckets: Numbers, chain: Numbers) -> None:
    """Hang the entries from `first` on into their buckets, a power of two; entry k has the code of row rows[k]."""
    shift = np.uint64(64 - int(np.log2(len(buckets))))
    for entry in range(first, len(rows)):
        bucket = _bucket(codes[rows[entry]], shift)
        chain[entry] = buckets[bucket]
        buckets[bucket] = entry


@kernel
def unlink_entries(codes: Numbers, rows: Numbers, first: int, buckets: Numbers, chain: Numbers) -> None:
    """Take the entries from `first` on out again, newest first."""
    shift = np.uint64(64 - int(np.log2(len(buckets))))
    for entry in range(len(rows) - 1, first - 1, -1):
        buckets[_bucket(codes[rows[entry]], shift)] = chain[entry]


@kernel
def find_owners(
    probe_codes: Numbers,
    is_null: Mask,
    codes: Numbers,
    rows: Numbers,
    buckets: Numbers,
    chain: Numbers,
    owner: Numbers,
    probes: Numbers,
    found: Numbers,
) -> int:
    """Write pairs of a wanted code, by place and ascending, and an owner that may have it; returns how many there are.

    If that is more than there is room for, the rest is left out. An owner may be there more than once for a code.
    """
    shift = np.uint64(64 - int(np.log2(len(buckets))))
    n = 0
    for probe in range(len(probe_codes)):
        if is_null[probe]:
            continue
        code = probe_codes[probe]
        entry = buckets[_bucket(code, shift)]
        while entry >= 0:
            row = rows[entry]
            if codes[row] == code:
                if n < len(found):
                    probes[n] = probe
                    found[n] = owner[row]
                n += 1
            entry = chain[entry]
    return n


@kernel
def versions_at(
    owners: Numbers,
    arrival: Numbers,
    includes_own: bool,
    latest: Numbers,
    older: Numbers,
    came: Numbers,
    is_delete: Mask,
    was_current: Mask,
    versions: Numbers,
) -> None:
    """Write the version of each owner that was current just before an arrival number, or just after; -1 if there was no row."""
    for k in range(len(owners)):
        limit = arrival[k] if includes_own else arrival[k] - 1
        row = latest[owners[k]]
        while row >= 0 and (came[row] > limit or not was_current[row]):
            row = older[row]
        versions[k] = NOTHING if row >= 0 and is_delete[row] else row


@kernel
def versions_as_of(
    owners: Numbers,
    time_us: Numbers,
    arrival: Numbers,
    latest: Numbers,
    older: Numbers,
    came: Numbers,
    times: Numbers,
    is_delete: Mask,
    no_time: int,
    versions: Numbers,
) -> None:
    """Write the version of each owner that came before an arrival number and was the latest at an event time; -1: no row."""
    for k in range(len(owners)):
        row = latest[owners[k]]
        while row >= 0 and (times[row] > time_us[k] or came[row] >= arrival[k]):
            row = older[row]
        is_row = row >= 0 and times[row] != no_time and not is_delete[row]
        versions[k] = row if is_row else NOTHING


@kernel
def versions_known_from(
    rows: Numbers,
    time_us: Numbers,
    arrival: Numbers,
    owner: Numbers,
    latest: Numbers,
    older: Numbers,
    came: Numbers,
    times: Numbers,
    round_versions: Numbers,
    found: Numbers,
) -> None:
    """Lower `found` to the least round version of what came of each row's owner before an arrival number, and is after a time."""
    for k in range(len(rows)):
        row = latest[owner[rows[k]]]
        while row >= 0 and row != rows[k]:
            if times[row] > time_us[k] and came[row] < arrival[k]:
                found[k] = min(found[k], round_versions[row])
            row = older[row]


# ----------------------------------------------------------------------------------------------- change


@kernel
def meet_changes(
    group: Numbers,
    time_us: Numbers,
    is_delete: Mask,
    latest: Numbers,
    latest_us: Numbers,
    no_time: int,
    first: int,
    before: Numbers,
    is_latest: Mask,
) -> None:
    """Let changes come one after the other: write which version was the latest before each, and whether it is later than that.

    `latest` and `latest_us` say it per group as the changes begin, and afterwards as they end; change k is version first + k. A
    delete without a time gets the time of what it deletes.
    """
    for k in range(len(group)):
        g = group[k]
        is_known = latest[g] >= 0
        if is_delete[k] and is_known and time_us[k] == no_time:
            time_us[k] = latest_us[g]
        before[k] = latest[g]
        is_latest[k] = not is_known or time_us[k] >= latest_us[g]
        if is_latest[k]:
            latest[g] = first + k
            latest_us[g] = time_us[k]


@kernel
def hang_versions(
    first: int,
    owner: Numbers,
    times: Numbers,
    latest: Numbers,
    older: Numbers,
    was_current: Mask,
    behind: Numbers,
    above: Numbers,
) -> None:
    """Hang the rows from `first` on, in order of arrival, into the chains of their owners.

    Writes whether each became the head, and the versions it came to stand between, -1 for none.
    """
    for row in range(first, len(owner)):
        head = latest[owner[row]]
        newer = np.int64(NOTHING)
        if head < 0 or times[row] >= times[head]:
            older[row] = head
            latest[owner[row]] = row
        else:
            newer = head
            while older[newer] >= 0 and times[older[newer]] > times[row]:
                newer = older[newer]
            older[row] = older[newer]
            older[newer] = row
        was_current[row] = newer < 0
        behind[row - first] = older[row]
        above[row - first] = newer


@kernel
def unhang_versions(first: int, owners: Numbers, latest: Numbers, older: Numbers) -> None:
    """Take the rows from `first` on out of the chains of these owners."""
    for k in range(len(owners)):
        row = latest[owners[k]]
        while row >= first:
            row = older[row]
        latest[owners[k]] = row
        while row >= 0:
            below = older[row]
            while below >= first:
                below = older[below]
            older[row] = below
            row = below


@kernel
def cut_superseded(
    owners: Numbers, times: Numbers, is_delete: Mask, no_time: int, latest: Numbers, older: Numbers
) -> int:
    """Leave these owners only their latest version, and nothing of those whose latest is a delete without a time.

    Returns how many versions went.
    """
    n = 0
    for k in range(len(owners)):
        head = latest[owners[k]]
        if head < 0:
            continue
        row = older[head]
        while row >= 0:
            n += 1
            row = older[row]
        older[head] = NOTHING
        if is_delete[head] and times[head] == no_time:
            latest[owners[k]] = NOTHING
            n += 1
    return n


@kernel
def cut_before(horizon_us: int, times: Numbers, is_delete: Mask, latest: Numbers, older: Numbers) -> int:
    """Cut from all chains what no look-up at the horizon or later can find; all of it where the latest is a delete up to then.

    A delete further down stays, so that no older version that comes later is taken for the one at the horizon. Returns how many
    versions went.
    """
    n = 0
    for owner in range(len(latest)):
        head = latest[owner]
        row = head
        while row >= 0 and times[row] > horizon_us:
            row = older[row]
        if row < 0:
            continue
        if row == head and is_delete[row]:
            latest[owner] = NOTHING
            n += 1
        below = older[row]
        older[row] = NOTHING
        while below >= 0:
            n += 1
            below = older[below]
    return n


@kernel
def mark_reachable(latest: Numbers, older: Numbers, is_held: Mask) -> None:
    """Mark the rows that hang in a chain."""
    for owner in range(len(latest)):
        row = latest[owner]
        while row >= 0:
            is_held[row] = True
            row = older[row]


def warm_up() -> None:
    """Compile the kernels, or fetch them from the cache."""
    one, flag = np.zeros(1, np.int64), np.zeros(1, dtype=bool)
    buckets, chain = np.full(2, NOTHING, np.int64), np.zeros(1, np.int64)
    link_entries(one, one, 0, buckets, chain)
    find_owners(one, flag, one, one, buckets, chain, one, one.copy(), one.copy())
    unlink_entries(one, one, 0, buckets, chain)
    latest, older = np.full(1, NOTHING, np.int64), np.full(1, NOTHING, np.int64)
    meet_changes(one, one.copy(), flag, latest.copy(), one.copy(), -1, 0, one.copy(), flag.copy())
    hang_versions(0, one, one, latest, older, flag.copy(), one.copy(), one.copy())
    versions_at(one, one, True, latest, older, one, flag, flag, one.copy())
    versions_as_of(one, one, one, latest, older, one, one, flag, -1, one.copy())
    versions_known_from(one, one, one, one, latest, older, one, one, one, one.copy())
    mark_reachable(latest, older, flag.copy())
    cut_before(0, one, flag, latest, older)
    cut_superseded(one, one, flag, -1, latest, older)
    unhang_versions(0, one, latest, older)
