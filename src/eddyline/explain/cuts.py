"""Where it matters how the rows of a query are cut into rounds, in words; nothing is said where it does not.

It may matter for

  results   which there are
  changes   which changes of a table are told; what remains of them is the same under every cut
  order     in which they are read
"""

from __future__ import annotations

from collections.abc import Iterator

from eddyline.catalog import Catalog
from eddyline.expressions import is_volatile
from eddyline.joins import is_decided_at_once
from eddyline.model import Call, Input, Role, Shape
from eddyline.sql import input_words

CutFact = tuple[str, str]  # what depends on the cut, and how


def cut_facts(catalog: Catalog, shape: Shape) -> list[dict[str, str]]:
    """What depends on the cut for a query, and for the views it reads."""
    found = dict.fromkeys(_of_query(catalog, shape))
    return [{"affects": affects, "words": words} for affects, words in found]


def _of_query(catalog: Catalog, shape: Shape) -> Iterator[CutFact]:
    if shape.branches:
        yield "order", "results of a round come part by part"
    for branch in shape.all_branches:
        yield from _of_branch(catalog, branch)
    for name in shape.streams:
        for below in _bodies(catalog, name):
            for affects, words in _of_query(catalog, below):
                if affects != "changes":  # a query over a table says so itself
                    yield affects, words if words.startswith("view ") else f"view {name}: {words}"
    for entry in shape.unnamed_views():
        for branch in entry.view.shape.all_branches if entry.view is not None else ():
            for affects, words in _of_branch(catalog, branch):
                if affects != "changes":
                    yield affects, f"{entry.label}: {words}"


def _of_branch(catalog: Catalog, shape: Shape) -> Iterator[CutFact]:
    nodes = (node for expression in shape.expressions() for node in expression.walk())
    if any(isinstance(node, Call) and not node.arguments and is_volatile(node) for node in nodes):
        yield "results", "now() is the time of the round that a row comes in"
    if shape.join is None:
        if _is_table(catalog, shape.inputs[0]):
            yield "changes", "several changes of a row in one round are told as one"
        return
    signature = shape.join.signature
    if signature.is_of_tables:
        yield "changes", "several changes of a row in one round are told as one"
        return
    if signature.outer == "left" or (signature.outer and not is_decided_at_once(signature)):
        yield "order", "rows without a partner come at the end of the round that decides them"
    yield from _of_windows(catalog, shape)
    yield from _of_rows_decided_by_time(catalog, shape)


def _is_table(catalog: Catalog, entry: Input) -> bool:
    """Whether rows of an input leave as well as appear."""
    if entry.view is None:
        return catalog.views.input(entry.stream)[1]
    return all(
        _is_table(catalog, branch.inputs[0]) if branch.join is None else branch.join.signature.is_of_tables
        for branch in entry.view.shape.all_branches
    )


def _of_windows(catalog: Catalog, shape: Shape) -> Iterator[CutFact]:
    """Inputs whose rows are joined by the times of their rounds, and those whose late rows are not joined."""
    assert shape.join is not None
    for place in shape.written_order:
        entry, role = shape.inputs[place], shape.join.signature.inputs[place].role
        if entry.window is not None and entry.window.duration_us is not None:
            yield "results", f"how old a row of {input_words(entry)} is goes by the times of rounds"
        if role is Role.VIEW:
            yield "results", f"rows of a round find {input_words(entry)} as it was before the round"
        if not role.is_table:
            for stream in _late_streams(catalog, entry.stream):
                yield "results", f"rows of {stream} that are late by the rounds before theirs are not joined"


def _late_streams(catalog: Catalog, relation: str) -> Iterator[str]:
    """The streams whose late rows are late as rows of a relation, too; joined rows never are."""
    stream = catalog.find_stream(relation)
    if stream is not None and stream.time is not None and not stream.is_keyed:
        yield stream.name
    for body in _bodies(catalog, relation):
        for branch in body.all_branches:
            if branch.join is None:
                yield from _late_streams(catalog, branch.stream)


def _of_rows_decided_by_time(catalog: Catalog, shape: Shape) -> Iterator[CutFact]:
    """Inputs with rows that only the end of a round decides: they find others as these are then."""
    assert shape.join is not None
    inputs = shape.join.signature.inputs
    for place in shape.written_order:
        if inputs[place].role.is_table or not _is_decided_by_time(catalog, shape.inputs[place].stream):
            continue
        for other in shape.written_order:
            if other != place and (inputs[other].role.is_table or shape.inputs[other].window is not None):
                asking, asked = shape.inputs[place], shape.inputs[other]
                yield "results", _found_at_end(asking, asked)


def _found_at_end(asking: Input, asked: Input) -> str:
    return f"a row of {input_words(asking)} that time decides finds {input_words(asked)} as it is at the end of that round"


def _is_decided_by_time(catalog: Catalog, relation: str) -> bool:
    """Whether a relation has rows that only time decides: those of outer joins, and all that is made of them."""
    return any(
        _is_outer(branch) or any(_is_decided_by_time(catalog, name) for name in branch.streams)
        for body in _bodies(catalog, relation)
        for branch in body.all_branches
    )


def _is_outer(shape: Shape) -> bool:
    """Whether it is an outer join that time decides."""
    signature = None if shape.join is None else shape.join.signature
    return signature is not None and bool(signature.outer) and not is_decided_at_once(signature)


def _bodies(catalog: Catalog, relation: str) -> list[Shape]:
    """The shape of a view; nothing if it is a declared stream."""
    if catalog.find_stream(relation) is not None:
        return []
    view = catalog.views.find(relation)
    return [] if view is None else [feed.shape for feed in view.feeds[:1]]
