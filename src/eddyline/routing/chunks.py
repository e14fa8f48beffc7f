"""Strategies that choose several filters at once: groups in the middle of such a chunk, and what of it is left to them."""

from __future__ import annotations

from collections.abc import Callable

from eddyline.routing.policy import FilterSet, RowGroup, after, settled_group

MOST_GROUPS = 1 << 15  # kept; then all are forgotten, and groups on their way begin a chunk anew


class Chunks:
    """Walks groups through chunks that `plan` makes, each at the group where the one before it ended.

    With `skips` a filter that no open class needs any more is left out; without, the whole chunk is evaluated. What is left of a
    chunk is remembered with the group: a group says what rows have in common, not where their chunk began. Rows can reach one
    group in the middle of different chunks; the first chunk that reached it holds for all of them until `forget`.
    """

    def __init__(
        self, filters: FilterSet, plan: Callable[[RowGroup], tuple[int, ...]], *, skips: bool = True
    ) -> None:
        self._filters = filters
        self._plan = plan
        self.skips = skips
        self._remaining_filters: dict[RowGroup, tuple[int, ...]] = {}

    def choice(self, group: RowGroup) -> int | None:
        """The filter a group runs next; None where it is at its end."""
        group = settled_group(self._filters, group)
        remaining = self._remaining_filters.get(group, ())
        if self.skips:
            remaining = self._needed_of(remaining, group)
        if not remaining:
            if not self._filters.needed_filters(group):
                return None
            remaining = self._needed_of(self._plan(group), group)
            assert remaining, f"nothing was planned for {group}"
        chosen, *rest = remaining
        if len(self._remaining_filters) >= MOST_GROUPS:
            self._remaining_filters.clear()
        self._remaining_filters[group] = remaining
        if rest:
            for passes in (True, False):
                reached = after(self._filters, group, chosen, passes=passes)
                self._remaining_filters.setdefault(reached, tuple(rest))
        return chosen

    def _needed_of(self, chunk: tuple[int, ...], group: RowGroup) -> tuple[int, ...]:
        needed = self._filters.needed_filters(group)
        return tuple(filter_ for filter_ in chunk if needed >> filter_ & 1)

    def forget(self) -> None:
        """Begin anew: chunks would be planned differently now."""
        self._remaining_filters.clear()

    def __len__(self) -> int:
        return len(self._remaining_filters)

    def check(self) -> None:
        for group, remaining in self._remaining_filters.items():
            assert len(set(remaining)) == len(remaining), remaining
            assert not any(group.evaluated_filters >> filter_ & 1 for filter_ in remaining), (
                group,
                remaining,
            )
