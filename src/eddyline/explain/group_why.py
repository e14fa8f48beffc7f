"""Why a group is in an answer or not: the conditions of queries with aggregates, on groups as they stand.

A row of the stream is asked WHERE first, then the groups or windows it is in are asked HAVING. Without a row all groups are
asked. Rows over frames have no groups: a row is asked QUALIFY with the values it would have, if it came now, over the rows
retained in memory. A row that would be late now is in no window and in no frame, nor are retained rows that were late.

What is kept is taken between two rounds, and judged outside of the engine's locks, since there may be a million groups.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.documents import ClauseVerdict, GroupVerdict, GroupWhy, GroupWhyNot, WhyNot, iso_time, plural
from eddyline.durations import duration_text
from eddyline.engine import NumberedClassRows, RoundEngine, event_times
from eddyline.errors import SchemaError
from eddyline.explain.explanations import condition_texts
from eddyline.explain.grouped_query import GroupedQuery, LiveGroups, Mask
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


@dataclass(frozen=True, slots=True)
class KeptGroups:
    """What there is of a query with aggregates between two rounds."""

    query: GroupedQuery
    context: Context
    watermark_us: int | None
    stream_rows: pa.RecordBatch  # retained in memory, or those of a table
    is_late: Mask  # of these
    entries: pa.RecordBatch | None  # its groups; None: no round has had it, or its rows are over frames

    @property
    def recent(self) -> NumberedClassRows:
        """The retained rows that take part, numbered by their places."""
        return self.query.class_rows(self.stream_rows, self.context, is_late=self.is_late)


def kept_groups(rounds: RoundEngine, query: GroupedQuery, live: LiveGroups) -> KeptGroups:
    """What `why` and `why not` ask. The locks are held."""
    context, progress = rounds.context(), rounds.progress.get(query.stream.name.lower())
    stream_rows, is_late = query.recent_rows(rounds, live.since_version)
    entries = None
    if not query.aggregation.is_over:
        entries = rounds.flow.entries_of(query.aggregation, live.id, context.now_us)
    watermark_us = None if progress is None else progress.watermark_us
    return KeptGroups(query, context, watermark_us, stream_rows, is_late, entries)


def why_grouped(kept: KeptGroups, row: Mapping[str, Any] | Any) -> GroupWhy:
    """What WHERE says about a row of the stream, and HAVING about its groups as they stand."""
    query, context, record = kept.query, kept.context, kept.query.record
    ingested = ingest(query.stream, [dict(row)] if isinstance(row, Mapping) else row, context.time_zone)
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
    if query.aggregation.is_over:
        found, notes = _over_verdict(kept, one)
    else:
        found, notes = _group_verdicts(kept, one)
    shown = clauses + (found[0].clauses if found else ())
    matches = any(group.is_result for group in found)
    error = next((group.error for group in found if group.error), "") if not matches else ""
    return GroupWhy(
        record.name, matches, shown, error, (*below.notes, *notes), noun=query.noun, groups=tuple(found)
    )


def _late_words(kept: KeptGroups, one: NumberedClassRows) -> str:
    """That a row would be late now, by how much, and what becomes of it; nothing if it would not be, or counts all the same."""
    query, watermark_us = kept.query, kept.watermark_us
    times = event_times(query.stream, one.stream_rows, kept.context.time_zone)
    time_us = None if times is None else times[0].as_py()
    if time_us is None or watermark_us is None or time_us >= watermark_us or not query.leaves_late_rows_out:
        return ""
    outcome = "in no frame and get no result" if query.aggregation.is_over else f"in no {query.noun}"
    return (
        f"it is late: {iso_time(time_us)} is {duration_text(watermark_us - time_us)} behind the watermark, "
        f"{iso_time(watermark_us)}, and late rows are {outcome}"
    )


def _group_verdicts(kept: KeptGroups, one: NumberedClassRows) -> tuple[list[GroupVerdict], list[str]]:
    """The groups that a row is in, those with fewest conditions against them first."""
    query, context, entries, recent = kept.query, kept.context, kept.entries, kept.recent
    notes: list[str] = []
    if entries is None:
        entries = query.entries_of(recent, context)
        notes += _replay_notes(len(recent))
    (time_us,) = query.window_times(one, context.time_zone)
    places, late = query.places_of(entries, one, time_us), _late_words(kept, one)
    if not places:
        return [], [*notes, _absence_words(kept, one, time_us)]
    if late:
        return [], [*notes, late]
    found = [_group_verdict(query, entries, at, recent, context) for at in places]
    found.sort(key=lambda each: (not each.is_result, sum(c.verdict != "true" for c in each.clauses)))
    return found, notes


def _absence_words(kept: KeptGroups, one: NumberedClassRows, time_us: int | None) -> str:
    """Why there is no group that a row which passes WHERE could be in."""
    query, watermark_us = kept.query, kept.watermark_us
    group = ", ".join(
        f"{query.names[name]} = {one.columns.column(name)[0].as_py()!r}" for name in query.aggregation.keys
    )
    of = f"of {group} " if group else ""
    if query.aggregation.window is None:
        return f"there is no group {of}yet: no row that takes part has come since the query was registered"
    if time_us is None:
        return "it has no time, so no window holds it"
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
    is_mine = query.has_key_of(one, rows.columns)
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


def _over_verdict(kept: KeptGroups, one: NumberedClassRows) -> tuple[list[GroupVerdict], list[str]]:
    """A row over its frame, as if it came now; none if it takes part in none."""
    query, context, recent = kept.query, kept.context, kept.recent
    if query.window_times(one, context.time_zone) == [None]:
        return [], ["it has no time, so it is in no frame and gets no result"]
    late = _late_words(kept, one)
    if late:
        return [], [late]
    both = NumberedClassRows(
        pa.concat_batches([recent.columns, one.columns]),
        pa.concat_batches([recent.stream_rows, one.stream_rows]),
        np.arange(len(recent) + 1),
        np.append(recent.is_late, False),
    )
    entries = query.entries_of(both, context)
    n = len(recent) - int(recent.is_late.sum())
    note = f"as if it came now, over {_retained(n)}"
    return [entry_verdict(query, entries.slice(entries.num_rows - 1, 1), context)], [note]


def _retained(n: int) -> str:
    return f"the {plural(n, 'row')} that {'is' if n == 1 else 'are'} retained in memory"


def _replay_notes(n: int) -> list[str]:
    """Of a query that no round has had yet: what its groups are made of."""
    return [f"as the {plural(n, 'row')} make them that are retained in memory"] if n else []


# --------------------------------------------------------------------------------------------- without a row


def why_not_grouped(kept: KeptGroups, last: int, since: str, notes: Sequence[str]) -> GroupWhyNot:
    """Which conditions keep groups out of the answer, and which come nearest; of OVER the last rows."""
    query, context, record, recent = kept.query, kept.context, kept.query.record, kept.recent
    first = max(0, kept.stream_rows.num_rows - last)
    newest = kept.stream_rows.slice(first)
    below = why_not(
        record.name, query.class_record.shape, query.class_conditions(), (), newest, context, since
    )
    found_notes = list(notes)
    if query.aggregation.bounds:
        below = _with_bounds(query, below, newest, context)
    if query.leaves_late_rows_out:
        below, late_notes = _without_late(query, below, recent, first, context)
        found_notes += late_notes
    if query.aggregation.is_over:
        entries = query.entries_of(recent, context)
        entries = entries.slice(max(0, entries.num_rows - below.n_matched))
        n = len(recent) - int(recent.is_late.sum())
        found_notes.append(f"frames are over {_retained(n)}")
    elif kept.entries is None:
        entries = query.entries_of(recent, context)
        found_notes += _replay_notes(len(recent))
    else:
        entries = kept.entries
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


def _without_late(
    query: GroupedQuery, below: WhyNot, recent: NumberedClassRows, first: int, context: Context
) -> tuple[WhyNot, list[str]]:
    """How the rows from a place on fared, where late ones are left out, as are those without a time."""
    times = query.window_times(recent, context.time_zone)
    is_newest = recent.arrivals >= first
    has_time = np.array([us is not None for us in times], dtype=bool)
    n_late = int((is_newest & recent.is_late).sum())
    notes = [late_note(query, n_late)] if n_late else []
    return replace(below, n_matched=int((is_newest & has_time & ~recent.is_late).sum())), notes


def late_note(query: GroupedQuery, n_late: int) -> str:
    """That so many rows which pass WHERE were late."""
    where = "frame" if query.aggregation.is_over else query.noun
    return f"{plural(n_late, 'row')} more would take part, but came late, and {'is' if n_late == 1 else 'are'} in no {where}"


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
