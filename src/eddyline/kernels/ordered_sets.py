"""Ordered sets of lines with multiplicities, many in one pool of nodes; sets share the nodes they have in common.

A set is a treap: a search tree by line that is a heap by random priorities, so that its depth is logarithmic. A node has a count
of its uses, by parents and roots. One that is used more than once is copied before it changes; others are changed in place. So a
set is copied by using its root once more, and a change of the copy takes a logarithmic number of new nodes.

Sources: Seidel and Aragon, "Randomized search trees", 1996; Driscoll, Sarnak, Sleator and Tarjan, "Making data structures
persistent", 1989 (copying the path to a change).

The line that a set is to get is put at node 0, which is none. Lines are compared column by column. A column of texts holds their
places in a pool of bytes, which decide where places differ.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from eddyline.kernels.lanes import kernel
from eddyline.kernels.layouts import (
    CHANGE,
    FIRST_FREE,
    LEFT,
    MAX_DEPTH,
    N_FREE,
    NO_NODE,
    PRIORITY,
    RIGHT,
    SEED,
    USES,
    TreeNodes,
    read_only,
)

_Ints = npt.NDArray[np.int64]
_Links = npt.NDArray[np.int32]
_Int = int | np.int64


# ----------------------------------------------------------------------------------------------- nodes


@kernel
def _child(t: TreeNodes, node: _Int, side: _Int) -> _Int:
    return np.int64(t.links[node, side])


@kernel
def _new_node(t: TreeNodes) -> _Int:
    node = t.control[FIRST_FREE]
    t.control[FIRST_FREE] = t.links[node, LEFT]
    t.control[N_FREE] -= 1
    t.links[node, LEFT] = NO_NODE
    t.links[node, RIGHT] = NO_NODE
    t.links[node, USES] = 1
    return node


@kernel
def _free(t: TreeNodes, node: _Int) -> None:
    t.links[node, USES] = 0
    t.links[node, LEFT] = t.control[FIRST_FREE]
    t.control[FIRST_FREE] = node
    t.control[N_FREE] += 1


@kernel
def _own(t: TreeNodes, node: _Int) -> _Int:
    """A node like this one that has one use: itself, or a copy."""
    if t.links[node, USES] == 1:
        return node
    fresh = _new_node(t)
    for at in range(t.lines.shape[1]):
        t.lines[fresh, at] = t.lines[node, at]
    t.times[fresh] = t.times[node]
    t.links[fresh, PRIORITY] = t.links[node, PRIORITY]
    for side in (LEFT, RIGHT):
        child = _child(t, node, side)
        t.links[fresh, side] = child
        if child != NO_NODE:
            t.links[child, USES] += 1
    t.links[node, USES] -= 1
    return fresh


@kernel
def _text_order(t: TreeNodes, left: _Int, right: _Int) -> int:
    """Below 0 where the left text comes first, 0 where both are equal, above 0 else."""
    a, a_end, b, b_end = t.offsets[left], t.offsets[left + 1], t.offsets[right], t.offsets[right + 1]
    for at in range(min(a_end - a, b_end - b)):
        if t.data[a + at] != t.data[b + at]:
            return -1 if t.data[a + at] < t.data[b + at] else 1
    return (a_end - a) - (b_end - b)


@kernel
def _order(t: TreeNodes, node: _Int) -> int:
    """Below 0 where the line at hand comes before that of the node, 0 where both are equal, above 0 else."""
    for at in range(len(t.is_text)):
        a, b = t.lines[NO_NODE, at], t.lines[node, at]
        if a != b:
            if not t.is_text[at]:
                return -1 if a < b else 1
            order = _text_order(t, a, b)
            if order != 0:
                return order
    return 0


# ----------------------------------------------------------------------------------------------- changes of a set


@kernel
def _inserted(t: TreeNodes, root: _Int, step: _Int) -> _Int:
    """The root of the set with a line more: its node goes where priorities put it, and what was there is split around it."""
    fresh = _new_node(t)
    for at in range(t.lines.shape[1]):
        t.lines[fresh, at] = t.lines[NO_NODE, at]
    t.times[fresh] = step
    t.control[SEED] = (t.control[SEED] * 1103515245 + 12345) & 0x7FFFFFFFFFFF
    t.links[fresh, PRIORITY] = t.control[SEED] >> 16
    parent, side, node = NO_NODE, LEFT, root
    while node != NO_NODE and t.links[node, PRIORITY] >= t.links[fresh, PRIORITY]:
        node = _own(t, node)
        if parent == NO_NODE:
            root = node
        else:
            t.links[parent, side] = node
        parent, side = node, RIGHT if _order(t, node) > 0 else LEFT
        node = _child(t, node, side)
    if parent == NO_NODE:
        root = fresh
    else:
        t.links[parent, side] = fresh
    low, low_side, high, high_side = fresh, LEFT, fresh, RIGHT
    while node != NO_NODE:
        node = _own(t, node)
        if _order(t, node) > 0:
            t.links[low, low_side] = node
            low, low_side = node, RIGHT
            node = _child(t, node, RIGHT)
        else:
            t.links[high, high_side] = node
            high, high_side = node, LEFT
            node = _child(t, node, LEFT)
    t.links[low, low_side] = NO_NODE
    t.links[high, high_side] = NO_NODE
    return root


@kernel
def _joined(t: TreeNodes, low: _Int, high: _Int) -> _Int:
    """The root of two sets in one, every line of the first below those of the second."""
    root, parent, side = NO_NODE, NO_NODE, LEFT
    while low != NO_NODE or high != NO_NODE:
        is_end = low == NO_NODE or high == NO_NODE
        if high == NO_NODE or (low != NO_NODE and t.links[low, PRIORITY] >= t.links[high, PRIORITY]):
            node = low if is_end else _own(t, low)
            next_side, low = RIGHT, _child(t, node, RIGHT)
        else:
            node = high if is_end else _own(t, high)
            next_side, high = LEFT, _child(t, node, LEFT)
        if parent == NO_NODE:
            root = node
        else:
            t.links[parent, side] = node
        if is_end:
            break
        parent, side = node, next_side
    return root


@kernel
def _removed(t: TreeNodes, root: _Int) -> _Int:
    """The root of the set without a line that is in it."""
    parent, side, node = NO_NODE, LEFT, root
    order = _order(t, node)
    while order != 0:
        node = _own(t, node)
        if parent == NO_NODE:
            root = node
        else:
            t.links[parent, side] = node
        parent, side = node, RIGHT if order > 0 else LEFT
        node = _child(t, node, side)
        order = _order(t, node)
    low, high = _child(t, node, LEFT), _child(t, node, RIGHT)
    if t.links[node, USES] == 1:
        _free(t, node)
    else:
        t.links[node, USES] -= 1
        t.links[low, USES] += low != NO_NODE
        t.links[high, USES] += high != NO_NODE
    rest = _joined(t, low, high)
    if parent == NO_NODE:
        return rest
    t.links[parent, side] = rest
    return root


@kernel
def _updated(t: TreeNodes, root: _Int, step: _Int) -> _Int:
    """The root of the set with a line so many times more; a line that is there no times has no node."""
    node, is_shared, order = root, False, 1
    while node != NO_NODE:
        is_shared |= t.links[node, USES] > 1
        order = _order(t, node)
        if order == 0:
            break
        node = _child(t, node, RIGHT if order > 0 else LEFT)
    t.control[CHANGE] = 0
    if node == NO_NODE:
        t.control[CHANGE] = 1
        return _inserted(t, root, step)
    if t.times[node] + step == 0:
        t.control[CHANGE] = -1
        return _removed(t, root)
    if is_shared:
        root = _own(t, root)
        node = root
        order = _order(t, node)
        while order != 0:
            side = RIGHT if order > 0 else LEFT
            child = _own(t, _child(t, node, side))
            t.links[node, side] = child
            node = child
            order = _order(t, node)
    t.times[node] += step
    return root


# ----------------------------------------------------------------------------------------------- for callers


@kernel
def update_sets(
    t: TreeNodes, first: int, entries: _Ints, lines: _Ints, steps: _Ints, roots: _Ints, n_lines: _Ints
) -> int:
    """Put lines into the sets of entries so many times, or take them out, from row `first` on.

    `n_lines` is how many different lines a set has. Gives the row at which free nodes may not suffice.
    """
    for k in range(first, len(entries)):
        if t.control[N_FREE] < MAX_DEPTH:
            return k
        entry = entries[k]
        for at in range(lines.shape[1]):
            t.lines[NO_NODE, at] = lines[k, at]
        roots[entry] = _updated(t, roots[entry], steps[k])
        n_lines[entry] += t.control[CHANGE]
    return len(entries)


@kernel
def release_sets(t: TreeNodes, roots: _Ints) -> None:
    """Use these roots once less. Nodes without a use are free."""
    stack = np.zeros(MAX_DEPTH, np.int64)
    for k in range(len(roots)):
        stack[0], n = roots[k], 1
        while n:
            n -= 1
            node = stack[n]
            if node == NO_NODE:
                continue
            t.links[node, USES] -= 1
            if t.links[node, USES] == 0:
                stack[n], stack[n + 1] = _child(t, node, LEFT), _child(t, node, RIGHT)
                n += 2
                _free(t, node)


@kernel
def share_sets(t: TreeNodes, roots: _Ints) -> None:
    """Use these roots once more."""
    for k in range(len(roots)):
        if roots[k] != NO_NODE:
            t.links[roots[k], USES] += 1


@kernel
def find_ends(t: TreeNodes, roots: _Ints, side: int, nodes: _Ints) -> None:
    """Write the first node of each set, or with RIGHT its last one."""
    for k in range(len(roots)):
        node = roots[k]
        while node != NO_NODE and t.links[node, side] != NO_NODE:
            node = _child(t, node, side)
        nodes[k] = node


@kernel
def list_nodes(t: TreeNodes, roots: _Ints, nodes: _Ints) -> None:
    """Write the nodes of each set in the order of their lines, one set behind the other."""
    stack = np.zeros(MAX_DEPTH, np.int64)
    at = 0
    for k in range(len(roots)):
        node, n = roots[k], 0
        while node != NO_NODE or n:
            while node != NO_NODE:
                stack[n] = node
                n += 1
                node = _child(t, node, LEFT)
            n -= 1
            nodes[at] = stack[n]
            node = np.int64(t.links[stack[n], RIGHT])
            at += 1


def warm_up() -> None:
    """Compile the kernels, or fetch them from the cache."""
    n = MAX_DEPTH + 2
    t = TreeNodes(
        np.zeros((n, 1), np.int64),
        np.zeros((n, 4), np.int32),
        np.zeros(n, np.int64),
        np.array([1, n - 1, 0, 0]),
        np.zeros(1, np.bool_),
        np.zeros(1, np.int64),
        np.zeros(0, np.uint8),
    )
    t.links[:-1, LEFT] = np.arange(1, n)
    entries, roots = read_only(np.zeros(1, np.int64)), np.zeros(1, np.int64)
    lines, nodes = read_only(np.zeros((1, 1), np.int64)), np.zeros(1, np.int64)
    update_sets(t, 0, entries, lines, read_only(np.ones(1, np.int64)), roots, np.zeros(1, np.int64))
    share_sets(t, read_only(roots))
    find_ends(t, read_only(roots), LEFT, nodes)
    list_nodes(t, read_only(roots), nodes)
    release_sets(t, read_only(roots))
