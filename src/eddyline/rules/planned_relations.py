"""What the rules of a plan may read: streams and views as they will be once the plan is applied."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from eddyline.catalog import Catalog, relation_name, view_relation
from eddyline.model import Shape, Stream, ViewRelation
from eddyline.rules.files import Rule
from eddyline.sql import StreamTable


class PlannedRelations:
    """Declared streams, rules as views, and deployed views that no rule replaces."""

    def __init__(self, catalog: Catalog, streams: StreamTable, rules: Iterable[Rule]) -> None:
        self._catalog = catalog
        self._streams = streams
        # rules that are not compared yet: whether they can be read is not known
        self._waiting = {relation_name(rule.name, rule.properties.owner).lower() for rule in rules}
        self._views: dict[str, ViewRelation] = {}
        self._replaced = set(self._waiting)

    def of(self, owner: str) -> ReadableRules:
        """As rules of an owner see them."""
        return ReadableRules(self, owner)

    def settle(self, rule: Rule, shape: Shape | None = None) -> None:
        """A rule is compared; without a shape it has a mistake, and cannot be read."""
        name = relation_name(rule.name, rule.properties.owner)
        self._waiting.discard(name.lower())
        if shape is not None:
            self._views[name.lower()] = view_relation(name, 0, shape, self._input)

    def streams(self) -> Sequence[Stream]:
        return [*self._streams.streams(), *(view.stream for view in self._views.values())]

    def find(self, relation: str) -> tuple[ViewRelation | None, bool]:
        """The view of this relation, and whether it is a rule that is not compared yet."""
        key = relation.lower()
        if key in self._replaced:
            return self._views.get(key), key in self._waiting
        return self._catalog.views.find(relation), False

    def declared(self, name: str) -> Stream | None:
        return self._streams.find_stream(name)

    def table_key(self, name: str) -> tuple[str, ...] | None:
        """The key of a relation that is a table, () if it is a view and has none; None: its rows never leave."""
        stream = self.declared(name)
        if stream is not None:
            return stream.key or None
        view, _ = self.find(name)
        return () if view is not None and view.is_table else None

    def _input(self, name: str) -> tuple[Stream, bool]:
        stream = self.declared(name)
        if stream is not None:
            return stream, stream.is_keyed
        view, _ = self.find(name)
        assert view is not None, f"no relation {name}"
        return view.stream, view.is_table


class ReadableRules:
    """The relations that rules of one owner may name. `n_waited_for` counts names that another rule may yet give."""

    def __init__(self, relations: PlannedRelations, owner: str) -> None:
        self._relations = relations
        self._owner = owner
        self.n_waited_for = 0

    def find_stream(self, name: str, /) -> Stream | None:
        stream = self._relations.declared(name)
        if stream is not None:
            return stream
        for relation in dict.fromkeys((relation_name(name, self._owner), name)):
            view, is_waiting = self._relations.find(relation)
            self.n_waited_for += is_waiting
            if view is not None or is_waiting:
                return None if view is None else view.stream
        return None

    def streams(self) -> Sequence[Stream]:
        return self._relations.streams()
