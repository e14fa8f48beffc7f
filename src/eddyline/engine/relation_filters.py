"""The filters that a place keeps from round to round: of each relation, and of what is asked of an input of a join alone."""

from __future__ import annotations

from collections.abc import Callable, Container

from eddyline.filters import FilterStage


class RelationFilters:
    """A filter stage for each relation, and for each variant of the plan of a join; made when it is first needed."""

    def __init__(self, new_filters: Callable[[], FilterStage]) -> None:
        self._new_filters = new_filters
        self._of_relations: dict[str, FilterStage] = {}  # by name in lower case
        self._of_inputs: dict[tuple[str, str], FilterStage] = {}  # by signature and variant of its plan

    def of(self, relation: str) -> FilterStage:
        """The filters of a relation; the caller holds the round lock."""
        filters = self._of_relations.get(relation)
        if filters is None:
            filters = self._of_relations[relation] = self._new_filters()
        return filters

    def of_input(self, signature: str, variant: str) -> FilterStage:
        """Those that decide which rows an input wants, or what is a match."""
        filters = self._of_inputs.get((signature, variant))
        if filters is None:
            filters = self._of_inputs[signature, variant] = self._new_filters()
        return filters

    def find(self, relation: str) -> FilterStage | None:
        """The filters of a relation, or those of an input, if a round has needed them."""
        known = self._of_relations.get(relation)
        if known is None:
            of_inputs = (each for key, each in self._of_inputs.items() if "/".join(key).lower() == relation)
            known = next(of_inputs, None)
        return known

    def of_relations(self) -> list[tuple[str, FilterStage]]:
        """By relation; a round may add one meanwhile."""
        return list(self._of_relations.items())

    def of_inputs(self) -> list[FilterStage]:
        return list(self._of_inputs.values())

    def forget(self, relation: str, *, waits: bool = True) -> None:
        """Those of a relation that is no more; what is built for it beside the rounds ends first, if one `waits`."""
        unused = self._of_relations.pop(relation, None)
        if unused is not None and waits:
            unused.close()

    def keep_inputs(self, signatures: Container[str]) -> None:
        """Forget those of inputs of other signatures."""
        for unused in [key for key in self._of_inputs if key[0] not in signatures]:
            self._of_inputs.pop(unused).close()

    def close(self) -> None:
        for filters in (*self._of_relations.values(), *self._of_inputs.values()):
            filters.close()
