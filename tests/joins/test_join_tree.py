"""Trees of probes on literal join graphs, and on random ones against what the equalities imply."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eddyline.joins.join_tree import NO_PARENT, JoinTree, can_drive, join_tree
from eddyline.model import Call, Column, Expression, JoinInput, JoinKey, Role, Signature

W, C, T, A = Role.WINDOW, Role.CURRENT, Role.TABLE, Role.AS_OF


def column(name: str) -> Column:
    return Column(pa.int64(), name)


def signature(n: int, *equalities: str) -> Signature:
    """Inputs a, b, c …; an equality is written a.x=b.y."""
    keys = []
    for text in equalities:
        (left, left_key), (right, right_key) = (side.split(".") for side in text.split("="))
        keys.append(JoinKey(ord(left) - 97, ord(right) - 97, column(left_key), column(right_key)))
    return Signature("j", tuple(JoinInput(f"s{k}") for k in range(n)), tuple(keys))


def written(tree: JoinTree) -> dict[str, str]:
    """For each input that is probed, with what."""
    return {
        chr(97 + child): ", ".join(
            f"{chr(97 + tree.parents[child])}.{theirs.name}={chr(97 + child)}.{own.name}"
            for theirs, own in zip(tree.parent_keys[child], tree.child_keys[child], strict=True)
        )
        for child in tree.others
    }


def residual(tree: JoinTree) -> list[str]:
    return [
        f"{chr(97 + key.left)}.{key.left_key.name}={chr(97 + key.right)}.{key.right_key.name}"
        for key in tree.residual
    ]


def test_two_inputs_probe_each_other():
    both = signature(2, "a.x=b.y")
    assert written(join_tree(both, 0)) == {"b": "a.x=b.y"}
    assert written(join_tree(both, 1)) == {"a": "b.y=a.x"}
    assert join_tree(both, 1).parents == (1, NO_PARENT)


def test_a_chain_is_probed_link_by_link():
    chain = signature(3, "a.x=b.x", "b.y=c.y")
    tree = join_tree(chain, 0)
    assert written(tree) == {"b": "a.x=b.x", "c": "b.y=c.y"}
    assert not tree.is_star
    assert tree.paths == ((), (1,), (1, 2))
    assert tree.children == ((1,), (2,), ())


def test_a_chain_is_a_star_from_its_middle():
    tree = join_tree(signature(3, "a.x=b.x", "b.y=c.y"), 1)
    assert tree.is_star
    assert written(tree) == {"a": "b.x=a.x", "c": "b.y=c.y"}


def test_a_join_of_all_on_one_attribute_is_a_star_from_everywhere():
    joined = signature(4, "a.x=b.x", "b.x=c.x", "c.x=d.x")
    for origin in range(4):
        tree = join_tree(joined, origin)
        assert tree.is_star
        assert tree.residual == ()
    assert written(join_tree(joined, 3)) == {"a": "d.x=a.x", "b": "d.x=b.x", "c": "d.x=c.x"}


def test_what_follows_from_an_expression_on_one_side_only_does_not_follow_from_another():
    tree = join_tree(signature(3, "a.x=b.x", "b.y=c.x"), 0)
    assert written(tree) == {"b": "a.x=b.x", "c": "b.y=c.x"}


def test_several_equalities_with_one_parent_are_one_probe():
    tree = join_tree(signature(2, "a.y=b.z", "b.w=a.x"), 0)
    assert written(tree) == {"b": "a.x=b.w, a.y=b.z"}


def test_how_equalities_were_written_does_not_matter():
    one = join_tree(signature(2, "a.y=b.z", "b.w=a.x"), 0)
    other = join_tree(signature(2, "a.x=b.w", "b.z=a.y", "a.y=b.z"), 0)
    assert one == other


def test_a_cycle_leaves_one_equality_to_be_checked_later():
    triangle = signature(3, "a.x=b.x", "b.y=c.y", "c.z=a.z")
    tree = join_tree(triangle, 0)
    assert written(tree) == {"b": "a.x=b.x", "c": "a.z=c.z"}
    assert residual(tree) == ["b.y=c.y"]


def test_a_cycle_on_one_attribute_leaves_nothing_to_be_checked():
    assert join_tree(signature(3, "a.x=b.x", "b.x=c.x", "c.x=a.x"), 1).residual == ()


def test_two_values_of_the_parent_for_one_of_the_child_are_one_probe_and_a_check():
    tree = join_tree(signature(2, "a.x=b.z", "a.y=b.z"), 0)
    assert written(tree) == {"b": "a.x=b.z"}
    assert residual(tree) == ["a.y=b.z"]
    assert written(join_tree(signature(2, "a.x=b.z", "a.y=b.z"), 1)) == {"a": "b.z=a.x, b.z=a.y"}


def test_the_parent_with_more_equalities_is_taken():
    tree = join_tree(signature(4, "a.x=b.x", "a.y=c.y", "b.u=d.u", "c.v=d.v", "c.w=d.w"), 0)
    assert written(tree)["d"] == "c.v=d.v, c.w=d.w"
    assert residual(tree) == ["b.u=d.u"]


def test_inputs_that_no_equality_reaches_hang_off_the_origin_without_a_key():
    tree = join_tree(signature(4, "b.x=c.x", "c.y=d.y"), 0)
    assert tree.parents == (NO_PARENT, 2, 0, 2)
    assert written(tree) == {"b": "c.x=b.x", "c": "", "d": "c.y=d.y"}
    assert join_tree(signature(3), 1).parents == (1, NO_PARENT, 1)


def test_the_first_order_is_that_of_the_signature_with_parents_first():
    tree = join_tree(signature(4, "a.x=d.x", "d.y=b.y", "a.z=c.z"), 0)
    assert tree.first_order == (3, 1, 2)
    assert tree.is_order((2, 3, 1))
    assert not tree.is_order((1, 3, 2))  # b needs a row of d
    assert not tree.is_order((3, 1))
    assert not tree.is_order((3, 1, 2, 2))


def test_keys_of_calls_are_told_apart_by_what_they_call():
    def lower(name: str) -> Expression:
        return Call(pa.string(), "lower", (Column(pa.string(), name),))

    keys = (JoinKey(0, 1, lower("x"), lower("y")), JoinKey(1, 2, lower("y"), column("x")))
    tree = join_tree(Signature("j", tuple(JoinInput(f"s{k}") for k in range(3)), keys), 0)
    assert tree.child_keys == ((), (lower("y"),), (column("x"),))
    assert tree.parent_keys[2] == (lower("x"),)


@pytest.mark.parametrize(
    ("roles", "drive"),
    [
        ((W, W), (True, True)),
        ((C, W), (True, False)),  # what is not kept cannot be found
        ((W, C, T), (False, True, False)),
        ((W, T), (True, False)),
        ((W, A), (True, False)),
        ((T, T), (True, True)),
        ((T, A), (True, False)),
    ],
)
def test_who_looks_for_partners(roles, drive):
    joined = Signature("j", tuple(JoinInput(f"s{k}", role) for k, role in enumerate(roles)))
    assert tuple(can_drive(joined, place) for place in range(len(roles))) == drive


@st.composite
def signatures(draw: st.DrawFn) -> Signature:
    n = draw(st.integers(2, 5))
    keys = []
    for _ in range(draw(st.integers(0, 6))):
        left, right = draw(st.permutations(range(n)))[:2]
        names = st.sampled_from("xyz")
        keys.append(JoinKey(left, right, column(draw(names)), column(draw(names))))
    return Signature("j", tuple(JoinInput(f"s{k}") for k in range(n)), tuple(keys))


def closure(pairs: list[tuple[tuple[int, str], tuple[int, str]]]) -> set[frozenset[tuple[int, str]]]:
    """All pairs of sides that are equal if these are, by trying until nothing is new."""
    found = {frozenset(pair) for pair in pairs}
    while True:
        new = {one ^ other for one in found for other in found if len(one & other) == 1} - found
        if not new:
            return found
        found |= new


@given(signatures(), st.data())
def test_a_tree_and_its_residual_imply_what_the_signature_implies(joined, data):
    origin = data.draw(st.integers(0, len(joined) - 1))
    tree = join_tree(joined, origin)
    tree.check()
    equalities = [((key.left, key.left_key.name), (key.right, key.right_key.name)) for key in joined.keys]
    probed = [
        ((tree.parents[place], theirs.name), (place, own.name))
        for place in tree.others
        for theirs, own in zip(tree.parent_keys[place], tree.child_keys[place], strict=True)
    ]
    later = [((key.left, key.left_key.name), (key.right, key.right_key.name)) for key in tree.residual]
    assert closure(probed + later) == closure(equalities)
    equal_to_origin = {
        place for pair in closure(equalities) for place, _ in pair if origin in {side[0] for side in pair}
    }
    for place in tree.others:
        assert (place in equal_to_origin) == (tree.parents[place] == origin and tree.child_keys[place] != ())


@given(signatures())
def test_the_order_of_the_equalities_does_not_change_the_tree(joined):
    turned = Signature(
        joined.name,
        joined.inputs,
        tuple(JoinKey(key.right, key.left, key.right_key, key.left_key) for key in reversed(joined.keys)),
    )
    one, other = join_tree(joined, 0), join_tree(turned, 0)
    assert (one.parents, one.parent_keys, one.child_keys) == (
        other.parents,
        other.parent_keys,
        other.child_keys,
    )
