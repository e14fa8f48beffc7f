"""Standing queries of the reference: what one round makes of them, and what it tells."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tests.aggregates.reference_groups import ERROR, final_rows, groups, over_rows
from tests.aggregates.reference_relations import Output, Round, Row, Told, joined
from tests.aggregates.reference_sql import QueryText
from tests.aggregates.reference_values import order
from tests.aggregates.reference_view import View

Answer = dict[Any, tuple[Any, ...]]


@dataclass
class State:
    """A query after a round."""

    first: int  # its first round
    output: Output
    answer: Answer = field(default_factory=dict)
    errors: frozenset[Any] = frozenset()  # groups that are in error
    hidden: frozenset[Any] = frozenset()  # entries of windows that were closed in the first round
    nested: dict[str, State] = field(default_factory=dict)  # of subqueries, by alias


class Query:
    """A standing query, from its text. `evaluated` changes nothing; the caller sets the state."""

    def __init__(self, name: str, text: QueryText, state: State | None = None) -> None:
        self.name = name
        self.text = text
        self.state = state

    def evaluated(self, outputs: Mapping[str, Output], round_: Round, told: Told) -> State:
        """The state after a round, and into `told` what it tells."""
        known = {} if self.state is None else self.state.nested
        nested = {
            alias: Query(self.name, text, known.get(alias)).evaluated(outputs, round_, told)
            for alias, text in self.text.nested.items()
        }
        told.changes.pop(self.name, None)  # what subqueries tell is not a result
        sources = {alias: outputs[name] for alias, name in self.text.sources.items()}
        sources |= {alias: state.output for alias, state in nested.items()}
        source = joined(sources, self.text.outer) if len(sources) > 1 else next(iter(sources.values()))
        old = self.state or State(round_.number, Output({}))
        view = View(self.text, source, round_, old.first)
        new = replace(self._new_state(view, old), nested=nested)
        changes = list(_changes(old, new, round_.number))
        if changes:
            told.changes[self.name] = changes
        if view.letters:
            told.dead.setdefault(self.name, []).extend(view.letters)
        return new

    def _new_state(self, view: View, old: State) -> State:
        if self.text.is_final:
            return _appended(view, old, final_rows(view))
        if self.text.is_grouped:
            return _grouped(view, old)
        if self.text.calls:
            return _appended(view, old, over_rows(view))
        if view.source.entries is None:
            return _appended(view, old, view.selected_rows())
        return _selected(view, old, is_first=self.state is None)


def _appended(view: View, old: State, rows: Iterator[Row]) -> State:
    """What came before, and the rows of this round."""
    return State(old.first, view.output(rows=[*old.output.rows, *rows]))


def _grouped(view: View, old: State) -> State:
    entries, errors = {}, set()
    for group in groups(view):
        values = group.row()
        if values is ERROR:
            errors.add(group.identity)
            if group.identity not in old.errors:
                view.letters.append(group.letter())
        elif values is not None:
            entries[group.identity] = group.entry(values)
    closes = view.query.window if view.source.entries is None else None
    return _table(view, old, entries, closes=closes, errors=frozenset(errors))


def _selected(view: View, old: State, *, is_first: bool) -> State:
    """A selection over a table; of a windowed view it never sees what was closed when it came."""
    hidden = frozenset(view.closed_entries()) if is_first else old.hidden
    entries = {identity: row for identity, row in view.selected_entries() if identity not in hidden}
    return _table(view, old, entries, closes=view.source.closes, hidden=hidden)


def _table(view: View, old: State, entries: dict[Any, Row], *, closes: Any, **more: Any) -> State:
    answer = {identity: tuple(row.values.values()) for identity, row in entries.items()}
    return State(old.first, view.output(entries=entries, closes=closes), answer, **more)


def _changes(old: State, new: State, number: int) -> Iterator[tuple[str, tuple[Any, ...]]]:
    if new.output.entries is None:
        yield from (("insert", tuple(row.values.values())) for row in new.output.rows if row.number == number)
        return
    for identity, row in old.answer.items():
        if identity not in new.answer:
            yield "delete", row
        elif list(map(order, row)) != list(map(order, new.answer[identity])):
            yield "update_preimage", row
            yield "update_postimage", new.answer[identity]
    yield from (("insert", row) for identity, row in new.answer.items() if identity not in old.answer)
