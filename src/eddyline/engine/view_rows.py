"""Rows of views: what the body of a view matches, projected.

A row of a view has the number of the row it was made of: an arrival number, or, of joins and tables, one of its own. Operators
above the view get it at the arrival number of its latest component; a row that only the end of the round decides, such as one
without a partner, after all rows of the round.

A row of a union has the branch it comes from as its last component. Rows of all branches but the first get numbers of their own
from the walk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from eddyline.batch import PartMatches, TupleBatch
from eddyline.engine.event_time import event_times
from eddyline.engine.identities import at_rows, in_branch, of_columns
from eddyline.engine.view_tables import kept_rows
from eddyline.filters import FilterOutput
from eddyline.model import END_OF_ARRIVALS, ROW, ViewFeed, ViewRelation, branch_mark
from eddyline.operators import ArrivedRows, Derived, Identity, Mask, Numbers, times_of


@dataclass(frozen=True, slots=True)
class ViewRows:
    """Rows of one branch of a view, for the filters of its readers and, if operators read it, for them."""

    view: ViewRelation
    feed: ViewFeed
    batch: TupleBatch
    arrived: ArrivedRows | None
    at_end: Mask | None  # of `batch`: which rows the end of the round decided; None: none
    identity: Identity | None = None  # of a table
    # of a view without a name: by row, the smallest version of its components; None: all that run see it
    versions: Numbers | None = None

    @property
    def has_own_numbers(self) -> bool:
        """Whether the rows get numbers of their own, since another branch has those of the rows below."""
        return self.feed.shape.branch > 0


def view_rows(
    bodies: FilterOutput,
    views: Mapping[int, ViewRelation],
    is_operator_input: Callable[[str], bool],
    lasting: Mapping[int, Mask],
    time_zone: str,
    below: Derived | None,
) -> Iterator[ViewRows]:
    """What bodies matched; `below` says what rows they matched, if these did not arrive.

    Views and `lasting`, which says which components of rows last as long as these do, are by the ids of bodies.
    """
    for body_id, batch in body_batches(
        bodies, {body_id: view.stream.name for body_id, view in views.items()}
    ):
        view = views[body_id]
        feed = next(each for each in view.feeds if each.body_id == body_id)
        at_end, identity, versions = None, None, None
        if below is not None:
            rows = np.searchsorted(bodies.batch.arrival, batch.arrival)
            at_end = None if below.at_end is None else below.at_end[rows]
            identity = _identity(view, feed, batch, rows, below) if view.is_table else None
            if below.versions is not None and not view.query_ids and not view.is_table:
                versions = below.versions[rows]
        batch = with_branch(batch, view, feed.shape.branch)
        arrived = None
        if is_operator_input(view.name) and (below is None or not (below.is_answer or below.is_closed)):
            if identity is None:
                arrived = arrived_view_rows(view, batch, time_zone, at_end, versions)
            else:
                arrived = kept_rows(batch, identity(np.arange(len(batch))), lasting[body_id])
        yield ViewRows(view, feed, batch, arrived, at_end, identity, versions)


def _identity(
    view: ViewRelation, feed: ViewFeed, batch: TupleBatch, rows: Numbers, below: Derived
) -> Identity:
    """What tells apart the rows of a view over tables, made of these rows of the batch below."""
    if feed.shape.is_distinct:
        found = of_columns(batch.rows, batch.rows.schema.names)
    else:
        assert below.identity is not None, f"rows of {below.relation} have no identity"
        found = at_rows(below.identity, rows)
    return in_branch(found, feed.shape.branch) if view.is_union and not feed.shape.is_one_set else found


def body_batches(bodies: FilterOutput, names: Mapping[int, str]) -> Iterator[tuple[int, TupleBatch]]:
    """What each body matched, as rows of its view, whose name is given."""
    for part in bodies.all_parts():
        ids = part.query_ids
        for body_id in np.unique(ids).tolist():
            if body_id in names:  # else no query reads the view any more
                pairs = np.flatnonzero(ids == body_id)
                pairs = pairs[np.argsort(part.rows[pairs], kind="stable")]
                yield body_id, _batch(names[body_id], part, pairs)


def _batch(name: str, part: PartMatches, pairs: Numbers) -> TupleBatch:
    rows, source = part.rows[pairs], part.batch
    components = part.components
    return TupleBatch(
        name,
        part.project(pairs),
        source.arrival[rows],
        source.sign[rows],
        source.is_late[rows],
        None if components is None else components[pairs],
        source.leave_reason,
    )


def with_branch(batch: TupleBatch, view: ViewRelation, branch: int) -> TupleBatch:
    """Rows of a branch; of a union with all its components: those of branches that have fewer than others are no row."""
    if not view.is_union:
        return batch
    own = batch.arrival[:, None] if batch.components is None else batch.components
    components = np.zeros((len(batch), view.stream.n_components), np.int64)
    components[:, : own.shape[1]] = own
    components[:, -1] = branch_mark(branch)
    return replace(batch, components=components)


def arrived_view_rows(
    view: ViewRelation,
    batch: TupleBatch,
    time_zone: str,
    at_end: Mask | None = None,
    versions: Numbers | None = None,
) -> ArrivedRows:
    """The rows as operators get them, in order of arrival; those of `at_end` after all others."""
    arrival = batch.arrival if batch.components is None else batch.components.max(axis=1)
    if at_end is not None:
        arrival = np.where(at_end, END_OF_ARRIVALS, arrival)
    order = np.argsort(arrival, kind="stable")
    rows = batch.take(order)
    times = event_times(view.stream, rows.rows, time_zone)
    values = rows.rows
    if view.stream.n_components > 1:
        assert rows.components is not None, view.name
        for k in range(view.stream.n_components):
            values = values.append_column(f"{ROW}{k}", pa.array(rows.components[:, k]))
    numbered = TupleBatch(rows.stream, values, arrival[order], rows.sign, rows.is_late)
    position = np.zeros(len(rows), np.int64)
    version = None if versions is None else versions[order]
    return ArrivedRows(numbered, times_of(times, len(rows)), position, version=version)


def together(pieces: Sequence[ArrivedRows]) -> ArrivedRows:
    """Rows of one relation that came in several pieces, in order of arrival."""
    if len(pieces) == 1:
        return pieces[0]
    arrival = np.concatenate([each.batch.arrival for each in pieces])
    order = np.argsort(arrival, kind="stable")
    batch = TupleBatch(
        pieces[0].batch.stream,
        pa.concat_batches([each.batch.rows for each in pieces]).take(pa.array(order)),
        arrival[order],
        np.concatenate([each.batch.sign for each in pieces])[order],
        np.concatenate([each.batch.is_late for each in pieces])[order],
    )
    return ArrivedRows(
        batch,
        np.concatenate([each.time_us for each in pieces])[order],
        np.concatenate([each.position for each in pieces])[order],
        version=None if all(each.version is None for each in pieces) else _versions(pieces)[order],
    )


def _versions(pieces: Sequence[ArrivedRows]) -> Numbers:
    newest = np.iinfo(np.int64).max  # that of the round is none that is older
    return np.concatenate([np.full(len(e.batch), newest) if e.version is None else e.version for e in pieces])
