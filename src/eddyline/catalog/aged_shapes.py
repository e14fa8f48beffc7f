"""Views without a name over aggregates of streams: one for each version in which queries that contain them came.

    SELECT n, count(*) FROM (SELECT card, count(*) AS n FROM auths GROUP BY card) GROUP BY n

What the inner groups have, the outer ones aggregate. A query sees no row from before its registration, so queries of two versions
cannot share what stands on inner groups: the names of such views, and of what aggregates them, have the version in them
(docs/decisions/0031-unnamed-views.md). The rows of the inner groups themselves are shared, as those of every class are.
"""

from __future__ import annotations

import re

from eddyline.catalog import codec
from eddyline.model import Shape

_AGE = re.compile(r" of version \d+$")


def aged(shape: Shape, version: int) -> Shape:
    """The shape as queries that come in a version have it."""
    plain = without_age(shape)
    return _renamed(plain, {name: f"{name} of version {version}" for name in _stateful_names(plain)})


def without_age(shape: Shape) -> Shape:
    """The shape as it is bound."""
    names = {name: _AGE.sub("", name) for name in _stateful_names(shape)}
    return _renamed(shape, {name: plain for name, plain in names.items() if name != plain})


def has_age(shape: Shape) -> bool:
    """Whether there is one of it for each version."""
    return bool(_stateful_names(shape))


def begins_empty(shape: Shape) -> bool:
    """Whether a query of it that is registered now has less than one that was before: it aggregates rows of streams."""
    return _stands_on_streams(shape) or has_age(shape)


def _stateful_names(shape: Shape) -> set[str]:
    """The views without a name whose rows are made of aggregates of streams, and the aggregations of their rows."""
    found: set[str] = set()
    for plain in shape.plain_shapes():
        views = {e.stream for e in plain.inputs if e.view is not None and _stands_on_streams(e.view.shape)}
        found |= views
        if views and plain.aggregating is not None:
            found.add(plain.aggregating.aggregation.name)
    return found


def _stands_on_streams(shape: Shape) -> bool:
    aggregating = (plain.aggregating for plain in shape.plain_shapes())
    return any(each is not None and not each.aggregation.reads_table for each in aggregating)


def _renamed(shape: Shape, names: dict[str, str]) -> Shape:
    """The shape with other names for relations; they are digests, and nothing else in it is like them."""
    if not names:
        return shape
    pattern = re.compile("|".join(f"{re.escape(name)}(?! of version)" for name in sorted(names)))
    return codec.shape_from(pattern.sub(lambda found: names[found[0]], codec.shape_to(shape)))
