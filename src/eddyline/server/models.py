"""What requests take and answers have, for checking and for /openapi.json.

Requests name everything they take. Answers name what a program may rely on; more may come with later versions.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from eddyline.server.limits import SQL_CHARACTERS

Name = Annotated[str, Field(min_length=1, max_length=500)]
Sql = Annotated[str, Field(min_length=1, max_length=SQL_CHARACTERS)]
Status = Literal["suspended", "paused", "firing", "failing", "costly", "matching", "silent"]
Params = dict[str, Any]
Properties = Annotated[
    dict[str, Any],
    Field(description="per, cooldown, for, resolve, message, severity, deliver, emit, keep, owner, enabled"),
]


class Request(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Document(BaseModel):
    model_config = ConfigDict(extra="allow")


# --------------------------------------------------------------------------------------------- requests


class QueryBody(Request):
    """A query to register: a SELECT, or a CREATE VIEW that names it."""

    text: Sql
    name: Name | None = None
    params: Params | None = None
    properties: Properties | None = None
    replace: bool = Field(default=False, description="Also if the name is taken by another text.")


class ReplaceBody(Request):
    """Another text for a query; properties that are left out stay as they are."""

    text: Sql
    params: Params | None = None
    properties: Properties | None = None


Words = Annotated[str, Field(max_length=500)]
Key = Annotated[dict[str, Any], Field(description="Columns of `per` and their values; none: every key.")]


class AcknowledgeBody(Request):
    """Open alerts to acknowledge: all of a query, or those with this key."""

    query: Name
    key: Key | None = None
    note: Words = ""


class SilenceBody(Request):
    """Alerts whose messages are not sent, for so long or until a time."""

    query: Name = Field(description="A name, a number, or a pattern such as watch-*.")
    key: Key | None = None
    severity: Literal["info", "warning", "error", "critical"] | None = None
    duration: Annotated[str, Field(max_length=100)] | None = Field(
        default=None, alias="for", description="Such as 2 hours."
    )
    until: Annotated[str, Field(max_length=100)] | None = Field(
        default=None, description="ISO 8601, in UTC unless it has an offset."
    )
    reason: Words = ""


class CheckBody(Request):
    """A text to check, without registering it; with the name it is to have, that is checked as well."""

    text: Annotated[str, Field(max_length=SQL_CHARACTERS)]
    name: Annotated[str, Field(max_length=500)] | None = None
    params: Params | None = None
    properties: Properties | None = None


class TryBody(Request):
    """A text to try on recent rows, without registering it."""

    text: Sql
    params: Params | None = None
    properties: Properties | None = None
    last: Annotated[int, Field(ge=1, le=100_000)] = 10_000
    samples: Annotated[int, Field(ge=0, le=100)] = 5
    timeout: Annotated[float, Field(gt=0, le=2)] = Field(
        default=2.0, description="Seconds after which it answers with the rows judged by then."
    )


class BulkBody(Request):
    """Many queries in one version: a template and a row of parameters for each, or texts by name."""

    template: Sql | None = None
    params: list[Params] | dict[str, list[Any]] | None = None
    name: Name | None = Field(default=None, description='Formatted with each row, such as "watch-{sym}".')
    queries: dict[str, Sql] | None = None
    properties: Properties | None = None


class StreamBody(Request):
    """A stream to declare, or to add nullable columns to."""

    name: Name
    schema_: str = Field(alias="schema", max_length=SQL_CHARACTERS, examples=["sym STRING, price DOUBLE"])
    time: str | None = Field(
        default=None,
        description="The column with the event time, or an expression such as timestamp_millis(ts).",
    )
    time_unit: str | None = Field(default=None, description="What numbers in it count: s, ms, us, ns.")
    time_format: str | None = Field(
        default=None, description="The pattern of text in it: dd.MM.yyyy HH:mm, or iso."
    )
    lateness: str | float = 0
    key: str | list[str] | None = Field(
        default=None, description="Columns that identify a row: the stream is a table at its latest rows."
    )
    window: str | int | None = Field(
        default=None, description="The window of joins that have none of their own: 100 rows, 10 minutes."
    )
    idle: str | float | None = Field(
        default=None, description="After how long without rows joins no longer wait for it."
    )
    delete: str | None = Field(
        default=None, description="The column that is true in rows that delete the row of their key."
    )


class WhyBody(Request):
    """A row of the stream; columns that are left out are NULL. Of a join one row of each input, by its alias."""

    row: dict[str, Any]


class RulesBody(Request):
    """Rule files by name, as they would lie in a folder."""

    files: dict[str, Annotated[str, Field(max_length=64 << 20)]]
    prune: bool = Field(default=False, description="Drop queries that are in no file.")
    dry_run: bool = False


class RollbackBody(Request):
    dry_run: bool = False


class TokenBody(Request):
    role: Literal["reader", "author", "admin"]
    owner: Annotated[str, Field(max_length=200)] = ""
    note: Annotated[str, Field(max_length=200)] = ""
    expires: str | None = Field(
        default=None, description='From now on, such as "30 days"; never if not given.'
    )


class SessionBody(Request):
    token: Annotated[str, Field(max_length=200)]


# --------------------------------------------------------------------------------------------- answers


class Problem(Document):
    kind: str
    problem: str
    detail: str | None
    hint: str | None
    span: list[int] | None
    text: str | None


class FieldProblem(Problem):
    field: str = Field(description="text, name, params.NAME or properties.NAME")


class ErrorAnswer(Document):
    error: Problem


class ColumnAnswer(Document):
    name: str
    type: str


class PartitionAnswer(Document):
    name: str = Field(description="Empty for rows that were pushed, or whose source has no partitions.")
    watermark: str | None
    last_row: str | None
    is_idle: bool = Field(description="Silent for so long that event time does not wait for it.")


class StreamAnswer(Document):
    name: str
    columns: list[ColumnAnswer]
    time: str | None
    time_unit: str | None
    time_format: str | None
    lateness_us: int
    n_rows: int
    n_late: int
    n_queries: int
    watermark: str | None
    partitions: list[PartitionAnswer] = Field(description="The one furthest behind first.")


class FilterAnswer(Document):
    id: int | None = Field(
        description="Its number in the orders of `history`; None: it has not run on any row."
    )
    place: int | None
    text: str | None = Field(description="None: only queries of other owners need it.")
    cost_s: float | None
    pass_rate: float | None
    n_rows: int | None
    n_queries: int | None


class FiltersAnswer(Document):
    stream: str
    policy: str
    decides: str
    filters: list[FilterAnswer] = Field(description="In the order in which they run.")
    n_evaluations: int
    n_alone: int = Field(description="Evaluations if queries shared none, about.")
    bound: dict[str, Any] | None
    tree: dict[str, Any] | None
    history: list[dict[str, Any]]
    shown: str


class JoinsAnswer(Document):
    streams: dict[str, dict[str, Any]] = Field(
        description="By stream: the rows retained of it, once for all joins."
    )
    signatures: list[dict[str, Any]] = Field(
        description="Joins that several queries may share, each executed once."
    )
    choices: dict[str, float | str | dict[str, float]] = Field(
        description="How rounds are executed: sizes of tasks, from how many rows on workers join, which structures serve queries."
    )
    history: list[dict[str, Any]] = Field(
        description="Rows and bytes of every stream over time, the oldest first."
    )
    shown: str


class AggregatesAnswer(Document):
    streams: dict[str, dict[str, Any]] = Field(
        description="The streams below: their rows, late rows and watermark."
    )
    classes: list[dict[str, Any]] = Field(
        description="Classes of rows, each kept once for all its queries; those that take most memory first."
    )
    history: list[dict[str, Any]] = Field(
        description="Groups and bytes of the largest classes over time, by their id, the oldest first."
    )
    shown: str


class GroupAnswer(Document):
    key: dict[str, Any] = Field(description="By the expressions of GROUP BY.")
    row: dict[str, Any] | None = Field(description="What SELECT gives; null if that fails.")
    is_result: bool = Field(description="Whether HAVING is true.")
    compared: list[Any] = Field(description="The values that thresholds are compared with.")
    error: str


class GroupsAnswer(Document):
    query: str
    round_number: int
    n_total: int = Field(description="Groups that `where` lets through.")
    n_results: int = Field(description="Those of them for which HAVING is true.")
    noun: str = Field(description="What is counted: group, window or session.")
    thresholds: list[dict[str, Any]] = Field(description="Comparisons of HAVING with a constant number.")
    groups: list[GroupAnswer]
    next: str = Field(description="The cursor of results: those after it are the later changes.")
    shown: str


class Me(Document):
    id: str
    role: Literal["reader", "author", "admin"]
    owner: str


class RatesAnswer(Document):
    rounds: float
    rows: float
    results: float


class StatusAnswer(Document):
    version: int
    n_queries: int
    last_round: int
    time_zone: str
    streams: list[dict[str, Any]]
    rates: RatesAnswer
    uptime_s: float
    eddyline: str
    is_ready: bool
    n_open_alerts: int = Field(description="Of one's own, as GET /alerts/groups counts them: not silenced.")
    me: Me


class QueryAnswer(Document):
    id: int
    name: str
    owner: str
    state: Literal["running", "paused", "suspended"]
    suspended: dict[str, Any] | None
    generation: int
    version: int
    n_results: int
    text: str
    properties: dict[str, Any]
    warnings: list[str]
    status: Status
    mood: Status = Field(deprecated=True, description="Earlier name of status.")
    params: dict[str, Any] = Field(description="Values of its named parameters.")
    template: str | None = Field(description="The family it is folded into, if it is of a template.")
    trend: list[int | None] = Field(
        default=[], description="Results in each of the last minutes, the newest last; null: not known."
    )
    n_open_alerts: int
    n_dead: int
    last_result_at: str | None
    last_round: int | None
    cost: str
    cost_share: float | None


class FamilyAnswer(Document):
    """Rules of one template or rules table, as one entry of a folded list."""

    family: str
    name: str = Field(description="What their names have in common.")
    text: str
    parameters: list[str]
    n_rules: int = Field(description="How many of them fit.")
    n_all: int
    status: Status = Field(description="The one that needs most attention.")
    statuses: dict[str, int]
    n_results: int


class QueryPageAnswer(Document):
    total: int
    page: int
    n_pages: int
    statuses: dict[str, int] = Field(description="How many of all that fit are in each status.")
    moods: dict[str, int] = Field(deprecated=True, description="Earlier name of statuses.")
    queries: list[QueryAnswer]
    lines: list[FamilyAnswer | QueryAnswer] = Field(
        default=[], description="With fold: families, and queries without a family, in order."
    )
    n_lines: int = Field(description="How many entries all pages have.")


class BulkAnswer(Document):
    n: int
    ids: list[int] = Field(description="First and last of a template; of texts, each.")


class CheckAnswer(Document):
    ok: bool
    columns: list[ColumnAnswer] | None = None
    warnings: list[str] | None = None
    explain: dict[str, Any] | None = None
    error: Problem | None = Field(default=None, description="The first of `errors`.")
    errors: list[FieldProblem] = []


class TrialAnswer(Document):
    n_rows: int
    n_matched: int | None = Field(description="None: a join, which is not tried.")
    n_in_error: int
    samples: list[dict[str, Any]] = Field(description="Results, the newest first.")
    errors: list[dict[str, Any]] = Field(description="Rows that could not be decided, and why.")
    conditions: list[str]
    stopped: list[int]
    inputs: list[dict[str, Any]]
    notes: list[str]
    parts: list[dict[str, Any]] = Field(description="Of a query with UNION ALL: the same of each part.")
    shown: str


class PausedAnswer(Document):
    queries: list[dict[str, Any]]
    changed: list[str]
    version: int


class DroppedAnswer(Document):
    dropped: list[str]
    version: int


class ExplainAnswer(Document):
    name: str
    text: str
    shown: str


class ResultAnswer(Document):
    query: str
    query_id: int
    generation: int
    round: int
    arrival: int
    arrivals: list[int] = Field(
        default=[], description="Of a join: the arrival numbers of its input rows, in the order of FROM."
    )
    change: Literal["insert", "delete", "update_preimage", "update_postimage"]
    is_late: bool
    row: dict[str, Any]
    cursor: str
    at: str | None = Field(default=None, description="When its round was, as far as is known.")


class ResultsAnswer(Document):
    results: list[ResultAnswer]
    next: str = Field(description="The cursor for `after` of the next request.")
    is_end: bool = Field(description="Whether there were no more results at the time of the request.")


class WhyAnswer(Document):
    query: str
    matches: bool
    clauses: list[dict[str, Any]]
    error: str
    notes: list[str]
    part: str = Field(
        description="Of a query with UNION ALL: which part, such as part 2 of UNION ALL, line 3."
    )
    others: list[dict[str, Any]] = Field(description="What its other parts say, the nearest first.")
    shown: str


class WhyNotAnswer(Document):
    query: str
    n_rows: int
    n_matched: int
    n_in_error: int
    conditions: list[str]
    stopped: list[int]
    stopped_alone: list[int]
    part: str = Field(description="Of a query with UNION ALL: the part with the nearest miss.")
    others: list[dict[str, Any]] = Field(
        description="How rows fared with its other parts, the nearest first."
    )
    shown: str


class DeadLettersAnswer(Document):
    total: int
    kept: int
    letters: list[dict[str, Any]]


class PushAnswer(Document):
    round: int
    n_rows: int
    n_results: int
    n_dead: int
    is_repeat: bool


class RulesAnswer(Document):
    plan: dict[str, Any]


class VersionAnswer(Document):
    version: int
    at: str
    what: str


class VersionChangesAnswer(VersionAnswer):
    is_current: bool
    added: int
    changed: int
    removed: int
    streams: dict[str, list[str]]
    changes: dict[str, list[dict[str, Any]]] = Field(
        description="The first rules added, changed and removed."
    )


class RollbackAnswer(Document):
    from_: int = Field(alias="from")
    to: int
    version: int
    added: int
    changed: int
    removed: int
    dry_run: bool
    changes: dict[str, list[dict[str, Any]]]


class SourceAnswer(Document):
    stream: str
    type: str = Field(description="kafka, files, generator or stdin; push: it has no source here.")
    position: str
    n_behind: int | None = Field(description="What is known to be there and not read, in `unit`s.")
    unit: str
    rows_per_s: float | None = Field(description="Over the last minute.")
    lag_s: float | None = Field(description="How far event time is behind the clock.")
    is_failing: bool
    n_failures: int = Field(description="Since it last went well.")
    message: str = Field(description="The last failure, also of a source that has recovered.")
    failed_at: str | None
    retry_in_s: float | None


class SinkAnswer(Document):
    name: str
    type: str
    takes: str
    cursor: int
    n_behind: int
    unit: str
    per_s: float = Field(description="Delivered, over the last minute.")
    n_delivered: int
    is_failing: bool
    n_failures: int
    last_error: str
    failed_at: str | None
    retry_in_s: float | None


class RetryAnswer(Document):
    retried: str


class VocabularyAnswer(Document):
    functions: list[dict[str, Any]]
    properties: list[str]
    severities: list[str]
    sinks: list[str]


class TokenAnswer(Document):
    id: str
    role: str
    owner: str
    note: str
    created: str
    expires: str | None
    used: str | None


class NewTokenAnswer(TokenAnswer):
    token: str = Field(description="Shown once, not stored.")


class AuditAnswer(Document):
    id: int
    at: str
    who: str
    owner: str
    what: str
    detail: dict[str, Any]


class AlertAnswer(Document):
    query: str
    state: str


class AlertGroupAnswer(Document):
    """The open alerts of one rule."""

    query: str
    query_id: int
    severity: str
    n: int
    alerts: list[AlertAnswer]


class AlertGroupsAnswer(Document):
    n: int = Field(description="Alerts that fit.")
    n_groups: int
    counts: dict[str, int] = Field(
        description="open (those that are not silenced), unacknowledged, acknowledged, silenced."
    )
    states: dict[str, int]
    severities: dict[str, int]
    groups: list[AlertGroupAnswer]


class HistoryAnswer(Document):
    at: str
    event: str = Field(
        description="opened, firing, resolved, acknowledged, silenced, silence ended, or sent: after a silence."
    )


class SilenceAnswer(Document):
    id: int
    query: str
    query_id: int | None
    until: str
    reason: str
    by: str
    n_withheld: int | None


class MessageAnswer(Document):
    id: int
    status: str
    query: str
    message: str


class MessagesAnswer(Document):
    messages: list[MessageAnswer]
    next: int
    is_end: bool


class ReceiptAnswer(Document):
    """What a result is made of."""


class ProofAnswer(Document):
    is_proven: bool


class HealthAnswer(Document):
    ok: bool
