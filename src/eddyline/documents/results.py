"""What a query gave, and what could not be decided for it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from eddyline.notebook import html_rows


def change_mark(change: str) -> str:
    """A sign for a change: whether its row appeared or left."""
    return "+" if change in ("insert", "update_postimage") else "-"


class Result(dict[str, Any]):
    """A row of a query's answer: a dict of its columns, with where it came from as attributes.

    `change` is `insert` for a row that appeared and `delete` for one that left; where another row of the same key took its place
    in one round, and both are results, `update_preimage` and `update_postimage`. `arrival` is the arrival number of the input
    row, which together with query and generation identifies the result. A join has made its row itself: `arrival` then is the
    number of that, which no other has in the life of a home, and `arrivals` are those of the rows it is made of, in the order of
    FROM.
    """

    __slots__ = (
        "arrival",
        "arrivals",
        "change",
        "generation",
        "is_late",
        "query",
        "query_id",
        "round_number",
    )

    def __init__(
        self,
        row: dict[str, Any],
        *,
        query: str,
        query_id: int,
        generation: int,
        round_number: int,
        arrival: int,
        change: str,
        is_late: bool,
        arrivals: tuple[int, ...] = (),
    ) -> None:
        super().__init__(row)
        self.arrivals = arrivals or (arrival,)
        self.query = query
        self.query_id = query_id
        self.generation = generation
        self.round_number = round_number
        self.arrival = arrival
        self.change = change
        self.is_late = is_late

    @property
    def cursor(self) -> str:
        """Where to go on reading after this result: `query.results(after=cursor)`, also in another process."""
        return f"{self.round_number}-{self.arrival}"


class Results(list[Result]):
    """Results of one reading, oldest first.

    `n_dropped` is how many more there were that are no longer kept: since the last reading, or since the cursor that was given.
    None if some are gone and their number is not known.
    """

    def __init__(self, results: Iterable[Result] = (), n_dropped: int | None = 0) -> None:
        super().__init__(results)
        self.n_dropped = n_dropped

    def _repr_html_(self) -> str:
        dropped = {0: "", None: ", others are no longer kept"}.get(
            self.n_dropped, f", {self.n_dropped} dropped"
        )
        return html_rows(f"{len(self)} results{dropped}", self)


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A (row, query) pair that could not be decided, or a row that does not fit its stream (query is None)."""

    round_number: int
    stream: str
    row: dict[str, Any]
    error: str
    message: str
    query_id: int | None = None
    query: str | None = None
    arrival: int | None = None
