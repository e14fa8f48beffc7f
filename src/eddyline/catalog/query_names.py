"""The names of queries: unique for each owner, and free again once a query is dropped."""

from __future__ import annotations

from collections.abc import Iterable

from eddyline.catalog.queries import Registration


class QueryNames:
    """The id of each named query, by owner and name."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self._ids: dict[str, dict[str, int]] = {}  # owner -> name -> id
        self._folded: dict[
            str, dict[str, int]
        ] = {}  # owner -> name in lower case -> id, once it was asked for

    def find(self, name: str, owner: str = "") -> int | None:
        return self._ids.get(owner, {}).get(name)

    def find_folded(self, name: str, owner: str = "") -> int | None:
        """The query of this name, or else the first whose name differs in case alone."""
        owned = self._ids.get(owner, {})
        found = owned.get(name)
        if found is not None or not owned:
            return found
        folded = self._folded.get(owner)
        if folded is None:
            folded = self._folded[owner] = {}
            for each, query_id in owned.items():
                folded.setdefault(each.lower(), query_id)
        return folded.get(name.lower())

    def find_all(self, name: str) -> list[int]:
        """The queries of this name, of all owners."""
        return sorted(owned[name] for owned in self._ids.values() if name in owned)

    def of(self, owner: str = "") -> Iterable[str]:
        """The names an owner has given."""
        return self._ids.get(owner, {})

    def add(self, name: str | None, owner: str, query_id: int) -> None:
        if name is not None:
            self.add_many(owner, [(name, query_id)])

    def add_many(self, owner: str, ids: Iterable[tuple[str, int]]) -> None:
        """Add names of an owner, each with its query id."""
        ids = list(ids)
        self._ids.setdefault(owner, {}).update(ids)
        folded = self._folded.get(owner)
        if folded is not None:
            for name, query_id in ids:
                folded.setdefault(name.lower(), query_id)

    def remove(self, query_id: int, registration: Registration) -> None:
        """Free the name of a query, unless another query has it by now."""
        owned = self._ids.get(registration.properties.owner, {})
        if owned.get(registration.name(query_id)) == query_id:
            del owned[registration.name(query_id)]
            self._folded.pop(registration.properties.owner, None)
