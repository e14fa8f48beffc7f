"""What queries are registered on: declared streams, and views that some query reads."""

from __future__ import annotations

from collections.abc import Callable

from eddyline.catalog.views import Views
from eddyline.model import Stream


class Relations:
    """Streams and views by name, in any case."""

    def __init__(
        self, stream: Callable[[str], Stream], find_stream: Callable[[str], Stream | None], views: Views
    ) -> None:
        """`stream` raises UnknownNameError where `find_stream` gives None."""
        self._stream = stream
        self._find_stream = find_stream
        self._views = views

    def find(self, name: str) -> Stream | None:
        """A declared stream, or a view that some query reads."""
        stream = self._find_stream(name)
        view = self._views.relation(name) if stream is None else None
        return stream if view is None else view.stream

    def get(self, name: str) -> Stream:
        """The same, also if the view is suspended, and has no rows. Raises UnknownNameError if there is none."""
        found = self.find(name)
        view = self._views.find(name) if found is None else None
        return found or (self._stream(name) if view is None else view.stream)

    def table_key(self, name: str) -> tuple[str, ...] | None:
        """The key of a relation that is a table, () if it is a view and has none; None: its rows never leave."""
        stream = self._find_stream(name)
        if stream is not None:
            return stream.key or None
        view = self._views.find(name)
        return () if view is not None and view.is_table else None
