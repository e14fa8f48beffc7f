"""Aggregates on disk: each round adds a file of the entries it has changed; when there are many, one of all takes their place.

work      the changed entries are one new file
commit    it is listed, and those it takes the place of are not
recover   the listed files, in order: of each entry the newest counts
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from eddyline.aggregates import OverRows, Structure
from eddyline.catalog import ListedFile
from eddyline.engine.durable import Durable
from eddyline.storage import AggregateBlock

MOST_FILES = 64  # of changes, before all entries are written
LEAST_BYTES = 1 << 20  # of those files, below which they are left as they are

Form = tuple[str, str]  # a class of rows, and the kind of structure that has them


class AggregateFiles:
    """Which files hold what the structures do."""

    def __init__(self, durable: Durable) -> None:
        self._durable = durable
        self._files: list[ListedFile] = []
        self._new: tuple[ListedFile, list[str]] | None = (
            None  # of the running round: a file, and those it replaces
        )

    def write(
        self,
        round_number: int,
        pushed: Mapping[Form, Structure | OverRows],
        structures: Mapping[Form, Structure | OverRows],
    ) -> tuple[list[ListedFile], list[str]]:
        """Step 3: a file of what the round has changed, if there is anything; and those listed no longer. Of all structures the
        round has `pushed` rows or time to some."""
        self._new = None
        changed = _blocks({form: structure.save() for form, structure in pushed.items()})
        if not structures and self._files:  # no query aggregates any more
            return [], [file.name for file in self._files]
        if not changed:
            return [], []
        nbytes = sum(file.nbytes for file in self._files)
        kept = sum(structure.nbytes for structure in structures.values())
        if len(self._files) >= MOST_FILES or nbytes > max(LEAST_BYTES, 2 * kept):
            gone = [file.name for file in self._files]
            changed = _blocks({form: structure.whole() for form, structure in structures.items()}) + changed
        else:
            gone = []
        listed = self._durable.write_aggregates(round_number, changed)
        self._new = listed, gone
        return [listed], gone

    def commit(self, *, is_empty: bool) -> None:
        """The round has committed; `is_empty` says that there are no structures."""
        if is_empty:
            self._files = []
        if self._new is not None:
            listed, gone = self._new
            self._files = [file for file in self._files if file.name not in gone] + [listed]
        self._new = None

    def rollback(self) -> None:
        self._new = None

    @property
    def has_any(self) -> bool:
        return bool(self._files)

    def restore(self) -> dict[Form, list[pa.RecordBatch]]:
        """What is kept, oldest first."""
        found: dict[Form, list[pa.RecordBatch]] = {}
        for listed in self._durable.aggregate_files():
            self._files.append(listed)
            for block in self._durable.aggregates(listed):
                found.setdefault((block.rows, block.kind), []).append(block.entries)
        return found


def _blocks(entries: Mapping[Form, pa.RecordBatch | None]) -> list[AggregateBlock]:
    return [AggregateBlock(*form, batch) for form, batch in entries.items() if batch is not None]
