"""The numbers of the rows that a round derives: the same in every place, whatever was found first.

While a round is walked, derived rows have provisional numbers. At the end they are put in order, and numbered:

  1. results of further branches of unions over rows that arrived, by these rows;
  2. rows of joins that workers may take on, by their latest component;
  3. other rows that rows of the round made, by their latest component;
  4. what the end of the round decided: changes of tables, first answers, rows without a partner.

Where that leaves a tie, by relation, then by branch, then by lineage, which is the order in which an operator derives rows of one
relation. A task has rows that follow each other, so what it derives comes before all that the next one does.

Results of further branches over derived rows are in the group of these rows. Rows of a view have the numbers of the rows they
were made of, and take none. Those of the further branches of a union that is read as a view are derived rows of group 3 or 4, and
so are results of further branches over rows of views.

A row that no query and no view takes has no number: how many combinations are looked at depends on what was learned so far, and
what is learned changes speed, never results.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from eddyline.batch import TupleBatch
from eddyline.engine.branches import BranchRows
from eddyline.engine.round_output import RoundOutput
from eddyline.filters import FilterOutput
from eddyline.operators import FIRST_PROVISIONAL, Numbers

NO_NUMBER = 0  # of a row that is in no result
OF_ARRIVALS, FOR_WORKERS, OTHERS, AT_END = range(4)  # the groups, in order


@dataclass(frozen=True, slots=True)
class _Entry:
    """Rows of one relation that get numbers, in order."""

    group: int
    origin: str  # their relation
    branch: int  # of a union, whose results they are; 0: they are rows of the relation
    provisional: Numbers  # ascending
    latest: Numbers


class DerivedOrder:
    """The derived rows of one walk."""

    def __init__(self) -> None:
        self._entries: list[_Entry] = []

    def add(self, origin: str, phase: int, output: FilterOutput, *, is_for_workers: bool) -> None:
        """Take the rows of a batch that a query or view takes, or is in error on; those of a relation and phase come in order."""
        is_taken = np.diff(output.offsets) > 0
        is_taken[output.dead_pairs.rows] = True
        rows, components = np.flatnonzero(is_taken), output.batch.components
        if not len(rows):
            return
        assert components is not None, f"rows of {origin} have no lineage"
        group = group_of(phase, is_for_workers=is_for_workers)
        self._add(group, origin, 0, output.batch.arrival[rows], [column[rows] for column in components.T])

    def add_branch(self, group: int, origin: str, made: BranchRows) -> None:
        """Take what queries match in a further branch of theirs, over rows of this origin."""
        self._add(group, origin, made.branch, made.provisional, list(made.components.T))

    def _add(
        self, group: int, origin: str, branch: int, provisional: Numbers, components: list[Numbers]
    ) -> None:
        latest = np.zeros(len(provisional), np.int64)
        if group != AT_END:  # column by column: of a few numbers each row, `max` takes several times as long
            latest = np.maximum.reduce(components)
        self._entries.append(_Entry(group, origin, branch, provisional, latest))

    def numbered(self, first: int) -> DerivedRows:
        """The numbers of all rows, from `first` on."""
        if not self._entries:
            return DerivedRows(np.empty(0, np.int64), np.empty(0, np.int64))
        entries = _merged(self._entries)
        provisional = np.concatenate([entry.provisional for entry in entries])
        numbers = np.empty(len(provisional), np.int64)
        end = 0
        for _, of_group in itertools.groupby(entries, key=lambda entry: entry.group):
            latest = np.concatenate([entry.latest for entry in of_group])
            begin, end = end, end + len(latest)
            # the rows of each relation are in order, and stable sorts merge what is
            numbers[begin + np.argsort(latest, kind="stable")] = np.arange(first + begin, first + end)
        as_derived = np.argsort(provisional, kind="stable")
        return DerivedRows(provisional[as_derived], numbers[as_derived])


def _merged(entries: Sequence[_Entry]) -> list[_Entry]:
    """One entry for each relation and branch, in order: a row may be taken once more when results have been counted."""
    found: list[_Entry] = []
    for _, several in itertools.groupby(sorted(entries, key=_place), key=_place):
        first, *others = several
        if others:
            provisional = np.concatenate([first.provisional, *(each.provisional for each in others)])
            latest = np.concatenate([first.latest, *(each.latest for each in others)])
            provisional, rows = np.unique(provisional, return_index=True)
            first = replace(first, provisional=provisional, latest=latest[rows])
        found.append(first)
    return found


def _place(entry: _Entry) -> tuple[int, str, int]:
    return entry.group, entry.origin, entry.branch


@dataclass(frozen=True, slots=True)
class DerivedRows:
    """The rows that have numbers: by provisional number, ascending, the one they keep."""

    provisional: Numbers
    numbers: Numbers

    def __len__(self) -> int:
        return len(self.numbers)

    def renumber(self, batches: Iterable[TupleBatch]) -> None:
        """Give the rows of batches their numbers, in place; those that have them keep them."""
        for batch in batches:
            arrival = batch.arrival
            rows = np.flatnonzero(arrival >= FIRST_PROVISIONAL)
            arrival[rows] = self._numbers_of(arrival[rows])

    def renumber_letters(self, output: RoundOutput) -> None:
        """Give dead letters the numbers of their rows."""
        for at, letter in enumerate(output.letters):
            if letter.arrival is not None and letter.arrival >= FIRST_PROVISIONAL:
                (number,) = self._numbers_of(np.array([letter.arrival])).tolist()
                output.letters[at] = replace(letter, arrival=number)

    def _numbers_of(self, provisional: Numbers) -> Numbers:
        if not len(self):
            return np.full(len(provisional), NO_NUMBER, np.int64)
        places = np.minimum(np.searchsorted(self.provisional, provisional), len(self) - 1)
        return np.where(self.provisional[places] == provisional, self.numbers[places], NO_NUMBER)


def group_of(phase: int, *, is_for_workers: bool) -> int:
    """In which group derived rows are, given their phase, and whether they are of a join that workers may take on."""
    if phase:
        return AT_END
    return FOR_WORKERS if is_for_workers else OTHERS


def is_provisional(batch: TupleBatch) -> bool:
    """Whether the rows of a batch are derived, and so wait for their numbers."""
    return len(batch) > 0 and int(batch.arrival[0]) >= FIRST_PROVISIONAL


def batches_of(output: FilterOutput) -> Sequence[TupleBatch]:
    """The batches whose rows an output is about, each once."""
    return list(
        {id(batch): batch for batch in (output.batch, *(part.batch for part in output.parts))}.values()
    )
