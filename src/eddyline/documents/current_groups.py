"""The groups of a query as they are now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from eddyline.documents.quantities import plural
from eddyline.documents.verdicts import shown_value
from eddyline.notebook import html_table


@dataclass(frozen=True, slots=True)
class Threshold:
    """A comparison of HAVING with a constant: count(*) >= 5."""

    words: str  # what is compared
    operator: str
    value: Any


@dataclass(frozen=True, slots=True)
class CurrentGroup:
    """A group, or a group in a window."""

    key: dict[str, Any]  # by the expressions of GROUP BY; a window as {"start": …, "end": …}
    row: dict[str, Any] | None  # what SELECT gives of it; None: that fails, as `error` says
    is_result: bool  # HAVING is true, and SELECT does not fail
    compared: tuple[Any, ...]  # the values that thresholds are compared with
    error: str = ""


class CurrentGroups(list[CurrentGroup]):
    """Groups as of a round: `n_total` that `where` lets through, and for `n_results` of them HAVING is true."""

    def __init__(
        self,
        groups: Iterable[CurrentGroup],
        *,
        query: str,
        round_number: int,
        n_total: int,
        n_results: int,
        thresholds: Iterable[Threshold] = (),
        noun: str = "group",
    ) -> None:
        super().__init__(groups)
        self.query = query
        self.round_number = round_number
        self.n_total = n_total
        self.n_results = n_results
        self.thresholds = tuple(thresholds)
        self.noun = noun  # what is counted: group, window, session

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> CurrentGroups:
        """What `as_dict` gave, also after JSON."""
        groups = [
            CurrentGroup(**(each | {"compared": tuple(each["compared"])})) for each in document["groups"]
        ]
        thresholds = [Threshold(**each) for each in document["thresholds"]]
        return cls(groups, **{name: document[name] for name in _COUNTED}, thresholds=thresholds)

    def as_dict(self) -> dict[str, Any]:
        counted = {name: getattr(self, name) for name in _COUNTED}
        return {
            **counted,
            "thresholds": [asdict(each) for each in self.thresholds],
            "groups": [asdict(each) for each in self],
        }

    def __str__(self) -> str:
        lines = [self._caption()]
        lines += [
            f"  {'+' if each.is_result else ' '} {_values(each.key)}: {_row_words(each)}" for each in self
        ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        columns = list(dict.fromkeys(name for each in self for name in each.row or {}))
        cells = [[_cell((each.row or {}).get(name)) for name in columns] for each in self]
        return html_table(self._caption(), columns, cells, more=self.n_total - len(self))

    def _caption(self) -> str:
        counted = f"{plural(self.n_total, self.noun)}, {plural(self.n_results, 'result')}"
        return f"{self.query}: {counted}, after round {self.round_number}"


_COUNTED = ("query", "round_number", "n_total", "n_results", "noun")


def _row_words(group: CurrentGroup) -> str:
    """What SELECT adds to the key."""
    if group.row is None:
        return group.error
    return _values(
        {name: value for name, value in group.row.items() if (name, value) not in group.key.items()}
    )


def _cell(value: Any) -> str:
    return value if isinstance(value, str) else shown_value(value)


def _values(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={shown_value(value)}" for name, value in values.items())
