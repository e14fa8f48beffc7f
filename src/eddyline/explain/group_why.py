"""Why a group is in an answer or not: the conditions of queries with aggregates, on groups as they stand.

A row of the stream is asked WHERE first, then the groups or windows it is in are asked HAVING. Without a row all groups are
asked. Rows over frames have no groups: a row is asked QUALIFY with the values it would have, if it came now, over the rows
retained in memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.documents import ClauseVerdict, GroupVerdict, GroupWhy, GroupWhyNot, WhyNot, iso_time, plural
from eddyline.durations import duration_text
from eddyline.engine import NumberedClassRows, RoundEngine
from eddyline.errors import SchemaError
from eddyline.explain.explanations import condition_texts
from eddyline.explain.grouped_query import GroupedQuery, LiveGroups
from eddyline.expressions import Context, Frame, evaluate
from eddyline.filters import nearest_misses, selected_rows, why, why_not
from eddyline.model import AtomKind, Clause, Column
from eddyline.sources import ingest
from eddyline.types import TIMESTAMP, python_rows

SHOWN_ROWS = 3  # of a group
NEAREST = 5  # groups

_NEEDS = {
    ">=": "needs {}",
    "=": "needs {}",
    ">": "needs more than {}",
    "<": "needs less than {}",
    "<=": "needs {} at most",
}


def why_grouped(
    rounds: RoundEngine, query: GroupedQuery, live: LiveGroups, row: Mapping[str, Any] | Any
) -> GroupWhy:
    """What WHERE says about a row of the stream, and HAVING about its groups as they stand. The lock is held."""
    context, record = rounds.context(), query.record
    ingested = ingest(query.stream, [dict(row)] if isinstance(row, Mapping) else row, rounds.time_zone)
    if ingested.misfits:
        raise SchemaError(
            f"the row does not fit stream {query.stream.name}", detail=ingested.misfits[0].message
        )
    if ingested.rows.num_rows != 1:
        raise SchemaError(
            f"why takes one row, not {ingested.rows.num_rows}", hint='Write why({"price": 9.5}).'
        )
    below = why(record.name, query.class_record.shape, query.class_conditions(), (), ingested.rows, context)
    clauses = (*below.clauses, *_bound_verdicts(query, ingested.rows, context))
    passes = below.matches and all(clause.verdict == "true" for clause in clauses)
    if not passes:
        return GroupWhy(record.name, False, clauses, below.error, below.notes, noun=query.noun)
    one = query.class_rows(ingested.rows, context)
    recent = query.class_rows(query.recent_rows(rounds, live.since_version), context)
    if query.aggregation.is_over:
        found, notes = _over_verdict(rounds, query, recent, one)
    else:
        found, notes = _group_verdicts(rounds, query, live, one, recent)
    shown = clauses + (found[0].clauses if found else ())
    matches = any(group.is_result for group in found)
    error = next((group.error for group in found if group.error), "") if not matches else ""
    return GroupWhy(
        record.name, matches, shown, error, (*below.notes, *notes), noun=query.noun, groups=tuple(found)
    )


def _group_verdicts(
    rounds: RoundEngine,
    query: GroupedQuery,
    live: LiveGroups,
    one: NumberedClassRows,
    recent: NumberedClassRows,
) -> tuple[list[GroupVerdict], list[str]]:
    """The groups that a row is in, those with fewest conditions against them first."""
    context = rounds.context()
    entries = rounds.flow.entries_of(query.aggregation, live.id, context.now_us)
    notes: list[str] = []
    if entries is None:
        entries = query.entries_of(recent, context)
        notes += _replay_notes(len(recent))
    (time_us,) = query.window_times(one, rounds.time_zone)
    places = query.places_of(entries, one, time_us)
    found = [_group_verdict(query, entries, at, recent, context) for at in places]
    if not found:
        notes.append(_absence_words(rounds, query, one, time_us))
    found.sort(key=lambda each: (not each.is_result, sum(c.verdict != "true" for c in each.clauses)))
    return found, notes


def _absence_words(
    rounds: RoundEngine, query: GroupedQuery, one: NumberedClassRows, time_us: int | None
) -> str:
    """Why there is no group that a row which passes WHERE could be in."""
    group = ", ".join(
        f"{query.names[name]} = {one.columns.column(name)[0].as_py()!r}" for name in query.aggregation.keys
    )
    of = f"of {group} " if group else ""
    if query.aggregation.window is None:
        return f"there is no group {of}yet: no row that takes part has come since the query was registered"
    if time_us is None:
        return "it has no time, so no window holds it"
    progress = rounds.progress.get(query.stream.name.lower())
    watermark_us = None if progress is None else progress.watermark_us
    if watermark_us is not None and time_us < watermark_us and not query.aggregation.reads_table:
        return f"its windows have closed: the watermark is at {iso_time(watermark_us)}, and later rows are in no window"
    return f"no open {query.noun} {of}holds {iso_time(time_us)}"


def _group_verdict(
    query: GroupedQuery, entries: pa.RecordBatch, at: int, recent: NumberedClassRows, context: Context
) -> GroupVerdict:
    """What conditions say of one group, with the newest of its rows."""
    one = entries.slice(at, 1)
    rows, notes = _rows_of_group(query, one, recent, context)
    verdict = entry_verdict(query, one, context)
    return replace(verdict, rows=rows, notes=(*_time_notes(query, one, context), *notes))


def entry_verdict(query: GroupedQuery, one: pa.RecordBatch, context: Context) -> GroupVerdict:
    """What conditions say of one group, or of one row over its frame, without its rows."""
    record = query.record
    found = why(record.name, record.shape, condition_texts(record), record.constants, one, context)
    clauses = tuple(
        replace(
            verdict,
            values=query.spoken_values(verdict.values),
            message=verdict.message or _needs(query, clause, verdict, context),
        )
        for clause, verdict in zip(record.shape.condition.clauses, found.clauses, strict=True)
    )
    (group,), (values,) = query.groups(one), query.values(one)
    return GroupVerdict(group, values, found.matches, clauses, found.error)


def _needs(query: GroupedQuery, clause: Clause, verdict: ClauseVerdict, context: Context) -> str:
    """What a comparison that is not true would need, such as: needs 5."""
    if verdict.verdict != "false" or len(clause.atoms) != 1:
        return ""
    atom = clause.atoms[0]
    if atom.kind is not AtomKind.COMPARE or atom.constant is None or atom.operator not in _NEEDS:
        return ""
    if any(isinstance(node, Column) for node in atom.constant.walk()):
        return ""
    frame = Frame(1, {}, list(query.record.constants), context)
    value = frame.array(evaluate(atom.constant, frame))[0].as_py()
    return "" if value is None else _NEEDS[atom.operator].format(value)


def _rows_of_group(
    query: GroupedQuery, one: pa.RecordBatch, recent: NumberedClassRows, context: Context
) -> tuple[tuple[dict[str, Any], ...], tuple[str, ...]]:
    """The newest rows of a group that are retained, oldest first, and a note if there are none."""
    places = members(query, one, recent, context)[-SHOWN_ROWS:]
    if not places:
        return (), ("its rows are not among those retained in memory",)
    return tuple(python_rows(recent.stream_rows.take(pa.array(places)))), ()


def members(query: GroupedQuery, one: pa.RecordBatch, rows: NumberedClassRows, context: Context) -> list[int]:
    """The places of the rows that a group, given as its entry, is made of."""
    (wanted,) = query.key_bytes(one)
    is_mine = np.array([key == wanted for key in query.key_bytes(rows.columns)], dtype=bool)
    if query.aggregation.window is not None:
        ((start, end),) = query.spans(one)
        times = query.window_times(rows, context.time_zone)
        is_mine &= ~rows.is_late & np.array(
            [us is not None and start <= us < end for us in times], dtype=bool
        )
    if query.aggregation.bounds:
        is_mine &= np.logical_and.reduce(
            [is_within for _, is_within in query.within_bounds(rows.columns, context.now_us)]
        )
    return [int(at) for at in np.flatnonzero(is_mine)]


def _bound_verdicts(query: GroupedQuery, row: pa.RecordBatch, context: Context) -> list[ClauseVerdict]:
    """The temporal filters of a query on one row, which stand in WHERE but are decided with the groups."""
    if not query.aggregation.bounds:
        return []
    columns = selected_rows(query.without_conditions, (), row, context).columns
    if not columns.num_rows:
        return []
    verdicts = []
    for (bound, is_within), text in zip(
        query.within_bounds(columns, context.now_us), query.bound_texts(), strict=True
    ):
        now = pa.scalar(context.now_us).cast(TIMESTAMP).as_py()
        values = {
            query.names.get(bound.column, bound.column): columns.column(bound.column)[0].as_py(),
            "now()": now,
        }
        verdicts.append(ClauseVerdict(text, "true" if is_within[0] else "false", values))
    return verdicts


def _time_notes(query: GroupedQuery, one: pa.RecordBatch, context: Context) -> list[str]:
    """When time alone changes what HAVING says of a group; when a window of emit = 'final' is a result."""
    notes = []
    for bound in query.aggregating.deadlines:
        (value,) = one.column(bound.column).cast(pa.int64()).to_pylist()
        if value is None:
            continue
        name = query.names[bound.column]
        distance_us = bound.enter_us if bound.enter_us is not None else bound.leave_us
        assert distance_us is not None
        at_us = value + distance_us
        waits = bound.enter_us is not None and context.now_us < at_us
        if waits:
            notes.append(
                f"{name} is {_span(context.now_us - value)} ago of {_span(distance_us)}: that comparison with now() holds from "
                f"{iso_time(at_us)} on, if no row changes it"
            )
        elif bound.leave_us is not None and context.now_us < at_us:
            notes.append(
                f"that comparison of {name} with now() holds until {iso_time(at_us)}, if no row changes it"
            )
    if query.aggregation.is_final:
        ((_, end_us),) = query.spans(one)
        reaches = "is past" if query.noun == "session" else "reaches"
        notes.append(f"it is a result only once, when the watermark {reaches} {iso_time(end_us)}")
    return notes


def _span(us: int) -> str:
    """A time that has passed, without microseconds that only say on which side of an instant."""
    return duration_text(round(us / 1_000) * 1_000) if abs(us) >= 1_000 else duration_text(us)


# --------------------------------------------------------------------------------------------- rows over frames


def _over_verdict(
    rounds: RoundEngine, query: GroupedQuery, recent: NumberedClassRows, one: NumberedClassRows
) -> tuple[list[GroupVerdict], list[str]]:
    """A row over its frame, as if it came now; none if it takes part in none."""
    both = NumberedClassRows(
        pa.concat_batches([recent.columns, one.columns]),
        pa.concat_batches([recent.stream_rows, one.stream_rows]),
        np.arange(len(recent) + 1),
        np.zeros(len(recent) + 1, dtype=bool),
    )
    if query.window_times(one, rounds.time_zone) == [None]:
        return [], ["it has no time, so it is in no frame and gets no result"]
    context = rounds.context()
    entries = query.entries_of(both, context)
    note = f"as if it came now, over the {plural(len(recent), 'row')} that are retained in memory"
    return [entry_verdict(query, entries.slice(entries.num_rows - 1, 1), context)], [note]


def _replay_notes(n: int) -> list[str]:
    """Of a query that no round has had yet: what its groups are made of."""
    return [f"as the {plural(n, 'row')} make them that are retained in memory"] if n else []


# --------------------------------------------------------------------------------------------- without a row


def why_not_grouped(
    rounds: RoundEngine,
    query: GroupedQuery,
    live: LiveGroups,
    last: int,
    since: str,
    notes: Sequence[str],
) -> GroupWhyNot:
    """Which conditions keep groups out of the answer, and which come nearest; of OVER the last rows. The lock is held."""
    context, record = rounds.context(), query.record
    stream_rows = query.recent_rows(rounds, live.since_version)
    recent = query.class_rows(stream_rows, context)
    newest = stream_rows.slice(max(0, stream_rows.num_rows - last))
    below = why_not(
        record.name, query.class_record.shape, query.class_conditions(), (), newest, context, since
    )
    found_notes = list(notes)
    if query.aggregation.bounds:
        below = _with_bounds(query, below, newest, context)
    if query.aggregation.is_over:
        entries = query.entries_of(recent, context)
        entries = entries.slice(max(0, entries.num_rows - below.n_matched))
        found_notes.append(f"frames are over the {plural(len(recent), 'row')} that are retained in memory")
    else:
        entries = rounds.flow.entries_of(query.aggregation, live.id, context.now_us)
        if entries is None:
            entries = query.entries_of(recent, context)
            found_notes += _replay_notes(len(recent))
    texts = condition_texts(record)
    found = why_not(record.name, record.shape, texts, record.constants, entries, context, since, found_notes)
    nearest = nearest_misses(record.shape, record.constants, entries, context, NEAREST).tolist()
    if query.aggregation.is_over:
        groups = [entry_verdict(query, entries.slice(at, 1), context) for at in nearest]
    else:
        groups = [_group_verdict(query, entries, at, recent, context) for at in nearest]
    same = {each.name: getattr(found, each.name) for each in fields(WhyNot)}
    if found.nearest is not None and groups:
        same["nearest"] = replace(found.nearest, clauses=groups[0].clauses)
        same["nearest_row"] = {**groups[0].group, **groups[0].values}
    return GroupWhyNot(**same, noun=query.noun, below=below, groups=tuple(groups))


def _with_bounds(query: GroupedQuery, below: WhyNot, rows: pa.RecordBatch, context: Context) -> WhyNot:
    """How rows fared with WHERE, its temporal filters too."""
    passed = selected_rows(query.without_conditions, (), rows, context)
    taken = query.class_rows(rows, context).columns
    stopped = [
        int((~is_within).sum()) for _, is_within in query.within_bounds(passed.columns, context.now_us)
    ]
    is_taken = np.logical_and.reduce([each for _, each in query.within_bounds(taken, context.now_us)])
    return replace(
        below,
        n_matched=int(is_taken.sum()),
        conditions=(*below.conditions, *query.bound_texts()),
        stopped=(*below.stopped, *stopped),
    )
