"""Relations that queries make for other queries: a named view, whose rows are the results of its query."""

from __future__ import annotations

from dataclasses import dataclass

from eddyline.model.shapes import Shape
from eddyline.model.streams import Stream

VIEW, TABLE_VIEW = "view", "table view"  # the source of a stream that is one: its rows come, or come and go


@dataclass(frozen=True, slots=True)
class ViewText:
    """Where the text of a view stands in that of a query in which views are written out."""

    name: str
    start: int
    end: int


def branch_mark(branch: int) -> int:
    """What tells rows of one branch of a union from those of others; no row has it for a number."""
    return -1 - branch


def marked_branch(mark: int) -> int:
    """The branch that such a mark names."""
    return -1 - mark


@dataclass(frozen=True, slots=True, eq=False)
class ViewFeed:
    """A query whose results are rows of a view: its body. A union has one for each of its branches."""

    body_id: int
    query_id: int  # whose text it is, and who gets the dead letters of its rows; 0: of a view without a name
    shape: Shape

    @property
    def source(self) -> str:
        """The relation it is registered on, in lower case."""
        return self.shape.stream.lower()


@dataclass(frozen=True, slots=True, eq=False)
class ViewRelation:
    """A relation whose rows other queries read."""

    stream: Stream  # its name, columns and time, as those queries see them
    feeds: tuple[ViewFeed, ...]
    is_table: bool  # its rows come and go; otherwise they only come
    # what its watermark follows: relations in lower case, and by how much its times may lie below theirs
    time_bounds: tuple[tuple[str, int], ...] = ()

    @property
    def is_union(self) -> bool:
        """Whether its rows come from several branches; the last component of each says from which (`branch_mark`)."""
        return len(self.feeds) > 1

    @property
    def query_ids(self) -> tuple[int, ...]:
        """The queries whose results its rows are; none if it has no name."""
        return tuple(feed.query_id for feed in self.feeds if feed.query_id)

    @property
    def name(self) -> str:
        return self.stream.name.lower()
