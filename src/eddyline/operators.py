"""What every operator is: rows of some relations in, rows of derived relations out, with state that belongs to rounds.

A relation has rows that queries are registered on: a stream, or a table whose changes have signs. Base relations are declared;
derived ones are made by operators: joins, tables of keyed streams, views that joins look up. One walk calls them all
(engine/dataflow.py), in the driver, in tasks and in workers that hold state.

  recounted  tables as they are before the round, for queries whose results are not counted yet
  partial    in a task, which holds no state: what is needed of the rows that are there
  merge      what tasks have made of rows in this way
  push       the rows of all inputs at once, and which of them are wanted
  current    answers of queries that are new to a table, as it is after the round's rows
  advance    what only time decides, given the progress of the streams after the round

What a round builds belongs to the round until it commits; after a rollback nothing of it is left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.batch import QueryIds, TupleBatch
from eddyline.events import Event
from eddyline.model import CLOSED, NO_TIME, DeadLetter, Round

Mask = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]
# derived rows are counted from here until the end of the walk, above every other number
FIRST_PROVISIONAL = 1 << 62
OperatorInput = tuple[str, int]  # a derived relation, and the place of one of its inputs
Identity = Callable[[Numbers], pa.Array]  # of a table: what tells rows apart, given their places in a batch
WantedMasks = Mapping[OperatorInput, Mask]  # which of the rows that arrived some query needs, by input


@dataclass(frozen=True, slots=True)
class ArrivedRows:
    """Rows of one relation in a round, as operators get them."""

    batch: TupleBatch
    time_us: Numbers  # NO_TIME where there is none
    position: Numbers  # how many rows of the stream have counted before it, and it; late rows do not count
    # where not all rows of the stream are here: its first arrival number, the one behind the last, and how many rows have counted
    # before the first and with the last
    span: tuple[int, int, int, int] | None = None
    is_delete: Mask | None = None  # rows of a keyed stream: which of them delete; None: none
    # rows of a view without a name: by row, the smallest version of its components; None: that of the round
    version: Numbers | None = None

    def n_counted(self, arrival: Numbers, n_before: int) -> Numbers:
        """How many rows of the stream have counted up to these arrival numbers of the round."""
        if self.span is None:
            counted = self.batch.arrival[~self.batch.is_late]
            return n_before + np.searchsorted(counted, arrival, side="right")
        first, end, before, after = self.span
        counts = np.where(arrival < first, before, after)
        inside = np.flatnonzero((arrival >= first) & (arrival < end))  # rows of the stream itself
        counts[inside] = self.position[np.searchsorted(self.batch.arrival, arrival[inside])]
        return np.asarray(counts)


def arrived_rows(batch: TupleBatch, times: pa.Array | None, n_before: int) -> ArrivedRows:
    """The rows of a batch; `times` are their event times in microseconds."""
    return ArrivedRows(batch, times_of(times, len(batch)), n_before + np.cumsum(~batch.is_late))


def times_of(times: pa.Array | None, n_rows: int) -> Numbers:
    """Event times in microseconds, NO_TIME where there is none."""
    if times is None:
        return np.full(n_rows, NO_TIME, np.int64)
    return np.asarray(times.fill_null(NO_TIME).to_numpy(zero_copy_only=False)).astype(np.int64)


@dataclass(frozen=True, slots=True)
class RoundProgress:
    """Progress of the streams of a round, by name in lower case."""

    n_before: Mapping[str, int]  # rows that counted, before this round
    watermarks_us: Mapping[str, int | None]  # after it


@dataclass(frozen=True, slots=True)
class Share:
    """What of the work of operators is done in one place: rows that follow each other, for some derived relations."""

    # of the rows that drive: the first, and the one behind the last; None: all
    arrivals: tuple[int, int] | None = None
    relations: frozenset[str] | None = None  # None: all
    without: frozenset[str] = frozenset()

    def has(self, relation: str) -> bool:
        is_meant = self.relations is None or relation in self.relations
        return is_meant and relation not in self.without

    def of(self, mask: Mask, arrival: Numbers) -> Mask:
        """Which of the wanted rows, with these arrival numbers in ascending order, belong to it."""
        if self.arrivals is None:
            return mask
        first, end = np.searchsorted(arrival, self.arrivals)
        mine = np.zeros(len(mask), dtype=bool)
        mine[first:end] = mask[first:end]
        return mine


WHOLE = Share()


@dataclass(slots=True)
class DerivedNumbers:
    """Numbers for the rows that a round derives.

    They are provisional, in the order in which rows are derived. At its end the walk puts rows in order (derived_order.py), and
    numbers them from `first` on.
    """

    first: int
    n_given: int = 0

    def take(self, n: int) -> Numbers:
        """So many provisional numbers."""
        first = FIRST_PROVISIONAL + self.n_given
        self.n_given += n
        return np.arange(first, first + n, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Derived:
    """Rows of a derived relation, for the filters of that relation and for the operators above it."""

    relation: str  # whose filters decide
    batch: TupleBatch
    phase: int = 0  # 1: what the end of the round decided, after all of its rows
    versions: Numbers | None = None  # by row, the smallest version of its components; None: all see it
    only: QueryIds | None = None  # the queries it is meant for; None: all
    among: QueryIds | None = None  # those that see it at their age, ascending; None: all
    without: QueryIds | None = None  # queries it is not meant for, since they get an answer instead
    preimages: Numbers | None = None  # of a table: rows that leave, each before the one that takes its place
    # as operators above the relation get them; None: as no operator reads it
    arrived: ArrivedRows | None = None
    unmatched: Unmatched | None = None  # of an outer join: what decides whether a row has no partner
    repeated: Repeated | None = None  # of a semi join: which rows are one result
    is_numbered: bool = False  # its rows are those of a view, and have the numbers of those they were made of
    path: str = ""  # of a view: from which relation its rows come, and through which branches of unions
    at_end: Mask | None = None  # rows that only the end of the round decided; None: there are none
    shown: ShownRows | None = None  # of a semi join of tables: whose matches are counted
    is_recount: bool = False  # the rows are there to be counted or kept, and are no results
    is_unchanged: bool = False  # only what they are made of is another row now: nothing of it is a result
    is_filtered: bool = False  # its queries have had the rows, which are for operators alone
    identity: Identity | None = None  # of a table
    # a change that a query does not see is no result, an error it had before no new dead letter
    is_net: bool = False

    @property
    def origin(self) -> str:
        """Its relation; of a view also from where the rows come: those of one origin are derived in one order."""
        return self.path or self.relation

    @property
    def is_answer(self) -> bool:
        """Whether the rows are not new, only some queries are."""
        return self.only is not None and not self.is_recount

    @property
    def gives_results(self) -> bool:
        return not self.is_recount and not self.is_unchanged and not self.is_closed

    @property
    def is_closed(self) -> bool:
        """Whether its rows were those of windows that close: their results stay, and only alerts resolve."""
        return self.batch.leave_reason == CLOSED


@dataclass(frozen=True, slots=True)
class Repeated:
    """Rows of which a query gets one for each group: that with the lowest rank among those it matches."""

    group: Numbers
    rank: Numbers


@dataclass(frozen=True, slots=True)
class ShownRows:
    """What a semi join of tables shows, by row: the keys of its rows, and whether one of them came in this round.

    Rows of one group have the same keys. They are one behind the other, those that leave first.
    """

    keys: pa.RecordBatch
    group: Numbers
    is_new: Mask


@dataclass(frozen=True, slots=True)
class Unmatched:
    """Combinations of rows of an outer join: a row for which none of them is a match for a query is a result of that query."""

    relation: str  # whose filters say what is a match
    partners: Iterable[PossiblePartners]
    reach_us: int | None = None  # the queries with this reach decide now; None: all
    # of tables, whose combinations are in the same batch: which rows have to be alone, while others have to match; None: all
    is_alone: Mask | None = None
    # of tables: rows that leave, each before itself as one that appears; for a query with both, nothing has changed
    unchanged: Numbers | None = None


@dataclass(frozen=True, slots=True)
class PossiblePartners:
    """Combinations, and the row of the unmatched batch that each is about."""

    batch: TupleBatch
    versions: Numbers
    about: Numbers


@dataclass(frozen=True, slots=True)
class Part:
    """What a task made of rows of a relation for one operator, in place of the rows."""

    relation: str  # in lower case
    kind: str  # which of its states it is for
    lines: pa.RecordBatch
    first_arrival: int  # of the rows of the task: in its lines they count from 0


class Operator(Protocol):
    """One operator in one place. The place lets it begin a round, and commits it or rolls it back."""

    # once it has derived its rows, those that so many joins and aggregations above each other make are there
    level: int
    order: tuple[int, int]  # operators are called in this order: by level, then by kind

    def inputs(self, relation: str) -> Sequence[OperatorInput]:
        """The inputs that read a relation."""

    def recounted(
        self, rows: Mapping[str, ArrivedRows], progress: RoundProgress, round_: Round
    ) -> Iterator[Derived]:
        """Its tables as they are before the round, for queries whose results are not counted yet, and for views that are not kept
        yet; `rows` are those of views as operators before this one have found them."""

    def partial(self, arrived: Mapping[str, ArrivedRows], wanted: WantedMasks) -> None:
        """In a task, instead of `push`: take of some rows what the place that holds the state needs."""

    def merge(self, parts: Sequence[Part]) -> None:
        """What tasks made of rows of its inputs, in their order, before `push`."""

    def push(
        self,
        arrived: Mapping[str, ArrivedRows],
        wanted: WantedMasks,
        progress: RoundProgress,
        round_: Round,
        share: Share,
    ) -> Iterator[Derived]:
        """What the rows of a round derive; all of it must be taken. `progress` is that before the round."""

    def current(self, progress: RoundProgress, round_: Round) -> Iterator[Derived]:
        """Answers of queries that are new to its tables, as these are after the `push` of the round."""

    def advance(self, progress: RoundProgress, round_: Round) -> Iterator[Derived]:
        """What only time decides, given the progress after the round."""

    def take_letters(self) -> list[DeadLetter]:
        """Dead letters of the running round; they are removed."""

    def events(self) -> list[Event]:
        """What happened since this was last asked."""


class StatelessOperator:
    """The obvious answers, for operators that need no more than `push`, or, in tasks, `partial`."""

    level = 0
    order = (0, 0)

    def inputs(self, relation: str) -> Sequence[OperatorInput]:
        return ()

    def recounted(
        self, rows: Mapping[str, ArrivedRows], progress: RoundProgress, round_: Round
    ) -> Iterator[Derived]:
        return iter(())

    def partial(self, arrived: Mapping[str, ArrivedRows], wanted: WantedMasks) -> None:
        """Rows that arrive are handed on as they are."""

    def merge(self, parts: Sequence[Part]) -> None:
        """Tasks hand on rows, which arrive."""

    def push(
        self,
        arrived: Mapping[str, ArrivedRows],
        wanted: WantedMasks,
        progress: RoundProgress,
        round_: Round,
        share: Share,
    ) -> Iterator[Derived]:
        return iter(())

    def current(self, progress: RoundProgress, round_: Round) -> Iterator[Derived]:
        return iter(())

    def advance(self, progress: RoundProgress, round_: Round) -> Iterator[Derived]:
        return iter(())

    def take_letters(self) -> list[DeadLetter]:
        return []

    def events(self) -> list[Event]:
        return []
