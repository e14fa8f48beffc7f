"""What a task made, in files of the store: results, and dead letters."""

from __future__ import annotations

from dataclasses import replace

from eddyline.engine.dataflow import Relation
from eddyline.engine.round_output import RoundOutput
from eddyline.filters import FilterOutput
from eddyline.model import FIRST_ORDINAL
from eddyline.storage import (
    DEAD_LETTERS,
    OUTBOX,
    NewFile,
    Store,
    StoredFile,
    stored_part,
    write_dead_letters,
    write_parts,
)


class WrittenOutput:
    """What a task made, on its way to the store.

    Of rows that arrived (`is_of_arrivals`), results of further branches of unions are in a file of their own: they are numbered
    like derived rows, and their components count from FIRST_ORDINAL on.
    """

    def __init__(self, store: Store, *, is_of_arrivals: bool) -> None:
        self._store = store
        self._is_of_arrivals = is_of_arrivals
        self._outbox: NewFile | None = None
        self._derived: NewFile | None = None

    def keep(self, name: str, relation: Relation, output: FilterOutput) -> None:
        """Write what queries match."""
        generations_of = relation.generations_of
        if not output.n_matches:
            return
        assert generations_of is not None, name
        for part in output.all_parts():
            stored = stored_part(part, generations_of)
            if not self._is_of_arrivals or stored.components is None:
                self._outbox = self._outbox or self._store.create(OUTBOX)
                write_parts(self._outbox, [stored])  # type: ignore[arg-type]
            else:
                stored = replace(stored, components=stored.components + FIRST_ORDINAL)
                self._derived = self._derived or self._store.create(OUTBOX)
                write_parts(self._derived, [stored])  # type: ignore[arg-type]

    def finish(self, output: RoundOutput) -> list[tuple[str, StoredFile]]:
        """The files of it, by kind."""
        files = []
        if self._outbox is not None:
            outbox, self._outbox = self._outbox, None
            files.append((OUTBOX, outbox.finish()))
        if output.letters:
            letters = output.letters
            file = self._store.put(
                DEAD_LETTERS, lambda file: write_dead_letters(file, letters), suffix="jsonl"
            )
            files.append((DEAD_LETTERS, file))
        return files

    def finish_derived(self) -> StoredFile | None:
        """The file of results that are numbered like derived rows, if there are any."""
        derived, self._derived = self._derived, None
        return None if derived is None else derived.finish()

    def discard(self) -> None:
        for file in (self._outbox, self._derived):
            if file is not None:
                file.discard()
