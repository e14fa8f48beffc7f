"""What functions gave on rows that joins keep, so that no row is shown to one twice, however many partners it meets.

A call over columns of one input says something of a row of that input alone. The first to make it, before the row is joined or
on one of the rows it became part of, leaves what it gave here, by arrival number. Only calls that gave a value are kept.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.batch import TupleBatch
from eddyline.expressions import Alike, CallResult
from eddyline.model import FIRST_ORDINAL, Column, Signature, UserCall, joined_name

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Given:
    """What one call gave, by arrival number, ascending."""

    arrival: Numbers
    values: pa.Array

    def at(self, arrival: Numbers) -> CallResult:
        """On these rows, as far as it is known."""
        places = np.minimum(np.searchsorted(self.arrival, arrival), len(self.arrival) - 1)
        is_known = self.arrival[places] == arrival
        values = self.values.take(pa.array(places, mask=~is_known))
        return CallResult(is_known, values, np.zeros(len(arrival), np.int32))

    def between(self, arrival: int, end: int) -> _Given:
        first, stop = np.searchsorted(self.arrival, [arrival, end]).tolist()
        if stop - first == len(self.arrival):
            return self
        return _Given(self.arrival[first:stop], self.values.slice(first, stop - first))


class JoinCalls:
    """What calls gave, by stream in lower case."""

    def __init__(self) -> None:
        self._given: dict[str, dict[UserCall, _Given]] = {}
        self.shared_numbers: frozenset[str] = (
            frozenset()
        )  # relations of which several rows may have one number

    def known(self, signature: Signature, batch: TupleBatch) -> dict[UserCall, CallResult]:
        """What is known of the rows of a signature, with columns named as they are there."""
        assert batch.components is not None
        found: dict[UserCall, CallResult] = {}
        for place, entry in enumerate(signature.inputs):
            for call, given in self._given.get(entry.stream.lower(), {}).items():
                here = given.at(batch.components[:, signature.component_columns(place)[0]])
                if here.rows.any():
                    found[_renamed(call, functools.partial(joined_name, place))] = here
        return found

    def alike(self, signature: Signature, batch: TupleBatch) -> Alike:
        """Numbers for the rows of a signature, equal where a call is about one row of one input that they have in common."""
        components = batch.components
        assert components is not None

        def numbers(call: UserCall) -> Numbers:
            apart = np.arange(-1, -1 - len(batch), -1)  # what has no number of its own is like no other
            place = _place(call)
            if place is None or signature.inputs[place].stream.lower() in self.shared_numbers:
                return apart
            arrival = components[:, signature.component_columns(place)[0]]
            return np.where(arrival > 0, arrival, apart)

        return numbers

    def of_rows(self, stream: str, batch: TupleBatch) -> dict[UserCall, CallResult]:
        """What is known of rows of a stream as they came."""
        return {call: given.at(batch.arrival) for call, given in self._given.get(stream, {}).items()}

    def keep_of_rows(self, stream: str, batch: TupleBatch, calls: Mapping[UserCall, CallResult]) -> None:
        """Keep what calls gave on rows of a stream as they came."""
        for call, called in calls.items():
            self._keep(stream, call, batch.arrival, called)

    def keep(
        self, signature: Signature, batch: TupleBatch, calls: Mapping[UserCall, CallResult]
    ) -> dict[int, int]:
        """Keep what calls gave on rows of a signature, if they are about one input alone.

        Gives for each input how many of its rows had not been shown to a function before; of several the one that has most.
        """
        assert batch.components is not None
        n_new: dict[int, int] = {}
        for call, called in calls.items():
            place = _place(call)
            if place is not None:
                own = _renamed(call, lambda name: name.partition(".")[2])
                stream = signature.inputs[place].stream.lower()
                numbers = batch.components[:, signature.component_columns(place)[0]]
                n_new[place] = max(n_new.get(place, 0), self._keep(stream, own, numbers, called))
        return n_new

    def forget(self, firsts: Mapping[str, int | None]) -> None:
        """Let go of rows that are kept no longer: by stream, the first that is, None if none is. Ordinals go, too."""
        for stream in list(self._given):
            first = firsts.get(stream)
            if first is None:
                del self._given[stream]
            else:
                kept = {
                    call: given.between(first, FIRST_ORDINAL) for call, given in self._given[stream].items()
                }
                self._given[stream] = {call: given for call, given in kept.items() if len(given.arrival)}

    def _keep(self, stream: str, call: UserCall, arrival: Numbers, called: CallResult) -> int:
        """Returns how many rows are new."""
        if stream in self.shared_numbers:
            return 0
        rows = np.flatnonzero(called.rows & (called.errors == 0) & (arrival > 0))
        known = self._given.setdefault(stream, {}).get(call)
        if known is not None and len(rows):
            rows = rows[~known.at(arrival[rows]).rows]
        if not len(rows):
            return 0
        distinct, first = np.unique(arrival[rows], return_index=True)
        n_new, values = len(distinct), called.values.take(pa.array(rows[first]))
        if known is not None:
            together = np.concatenate([known.arrival, distinct])
            order = np.argsort(together, kind="stable")
            distinct = together[order]
            values = pa.concat_arrays([known.values, values]).take(pa.array(order))
        self._given[stream][call] = _Given(distinct, values)
        return n_new


def _place(call: UserCall) -> int | None:
    """The input whose columns a call is about, None if that is not one."""
    places = {node.name.split(".", 1)[0] for node in call.walk() if isinstance(node, Column)}
    return int(places.pop()) if len(places) == 1 else None


def _renamed(call: UserCall, name: Callable[[str], str]) -> UserCall:
    found = call.with_leaves(
        lambda leaf: replace(leaf, name=name(leaf.name)) if isinstance(leaf, Column) else leaf
    )
    assert isinstance(found, UserCall), found
    return found
