"""The state of each key of an alert query, and the messages that alerts send."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from eddyline.documents import iso_time

AlertKey = tuple[int, int, str]  # query, generation, and the values of its `per` columns as JSON


class AlertState(NamedTuple):  # made anew for every matching row
    """The state of one key of an alert query: pending, firing or held if it is open, else cooling (delivery/alerts.py)."""

    state: str
    first_us: int  # when it opened
    last_us: int  # when its last matching row came
    fired_us: int | None  # when it last fired with a notice, also before it opened
    n_rows: int  # since it opened; over tables, that its key has, 0 if that is not known
    n_suppressed: int  # since its last firing notice
    # id of the row that opened it or, once it fired, of the one that made it fire; over tables, of the one that appeared last
    result: str


@dataclass(frozen=True, slots=True)
class Message:
    """What an alert said. Ids are dense and grow with the rounds."""

    id: int
    status: str  # firing or resolved
    query: str
    query_id: int  # 0: the engine itself
    generation: int
    owner: str
    key: dict[str, Any]  # the `per` columns
    severity: str
    message: str
    row: dict[str, Any]  # that made it fire, in what JSON has
    result: str  # id of that row
    round: int
    at_us: int
    since_us: int
    n_rows: int
    n_suppressed: int
    reason: str | None = (
        None  # why it resolved, if not by time or a row: dropped, paused, suspended, replaced, closed, forgotten
    )
    deliver: tuple[str, ...] = ()  # the sinks its query names; none: all that take alerts
    silence: int | None = None  # id of the silence that keeps it from being sent
    n_withheld: int = 0  # messages of its key that silences kept back, and after which this one is sent

    def as_dict(self) -> dict[str, Any]:
        """As it is sent: what JSON has, times in UTC."""
        return {
            "id": self.id,
            "status": self.status,
            "query": self.query,
            "query_id": self.query_id,
            "generation": self.generation,
            "owner": self.owner,
            "key": self.key,
            "severity": self.severity,
            "message": self.message,
            "row": self.row,
            "result": self.result,
            "round": self.round,
            "at": iso_time(self.at_us),
            "since": iso_time(self.since_us),
            "n_rows": self.n_rows,
            "n_suppressed": self.n_suppressed,
            "reason": self.reason,
            "silence": self.silence,
            "n_withheld": self.n_withheld,
        }
