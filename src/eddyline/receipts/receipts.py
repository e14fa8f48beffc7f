"""Receipts: everything a result follows from, as one document that can be checked without this engine.

A receipt holds the query as it was in the round, its row, the round's facts and the result, with a checksum over all of it. An
independent engine judges it: Spark, or, where there is none and the text is plain enough, DuckDB. That of a join holds the row of
each input and the round it came in, and its place in its window. Of a query that reads views it also has the text in which they
are written out; the rows are those of declared streams. Of a union it has the rows of the part that gave the result, and the
streams that the other parts read, of which a judge is given no rows. Of a result with which a row leaves a table it has the row
that left, and the newer row of its key, or the delete.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.batch import change_names
from eddyline.catalog import CommittedRound, StoredQuery, query_at
from eddyline.delivery import Result
from eddyline.durations import duration_text
from eddyline.engine import ComponentRows, OpenEngine, RoundEngine, RoundInputs, home_of
from eddyline.errors import ProofError, PropertyError, ReceiptError, UnknownNameError
from eddyline.functions import UserFunction
from eddyline.model import Input, Round, UserCall, Window, iso_time
from eddyline.proof import (
    DuckDbJudge,
    FunctionVersion,
    JudgeStopped,
    Proof,
    checksum_of,
    claim_of,
    departure_proof,
    proof_of,
    rows_to_json,
    schema_to_text,
    to_json,
)
from eddyline.receipts.departures import departure
from eddyline.receipts.expansion import WrittenOut, params_of, written_out
from eddyline.receipts.group_receipts import GroupReceipts, aggregating_query, results_in
from eddyline.receipts.occurrences import Occurrences
from eddyline.receipts.readings import NO_ROW, BaseInput, ResultRow
from eddyline.receipts.recorded_calls import recorded_calls
from eddyline.receipts.seen_columns import columns_seen
from eddyline.spark import is_installed
from eddyline.spark import prove as prove_in_spark
from eddyline.sql import input_words, stated
from eddyline.storage import OUTBOX, StoredPart
from eddyline.types import type_name

FORMAT = 1  # of the document
JOIN_FORMAT = 2  # with several rows, each with the alias of its input
UNION_FORMAT = 3  # and with the inputs of other parts
_DAY_US = 86_400_000_000


class Receipt(dict[str, Any]):
    """A receipt: a JSON document, with a form for people."""

    @property
    def is_intact(self) -> bool:
        """Whether it says what was issued."""
        return bool(checksum_of(self) == self.get("checksum"))

    def as_dict(self) -> dict[str, Any]:
        return dict(self)

    def __str__(self) -> str:
        of = f" of {self['owner']}" if self["owner"] else ""
        lines = [
            f"result {self['id']}: {self['query']}{of}, generation {self['generation']}, version {self['version']}",
            f"  text      {' '.join(self['text'].split())}",
            *([f"  of        {self['part']}"] if "part" in self else []),
        ]
        params, written = self["params"], self.get("written_out")
        if written is not None:
            lines.append(f"  written   {' '.join(written['text'].split())}")
            params = params | written["params"]
        lines += [f"  :{name:<8} {json.dumps(p['value'])} ({p['type']})" for name, p in params.items()]
        lines += [f"  function  {f['name']}, version {f['version']}" for f in self["functions"]]
        lines += [
            f"  recorded  call {call['call']}, {call['function']}: {json.dumps(call['value'], ensure_ascii=False)}"
            for call in self.get("recorded", ())
        ]
        round_, group = self["round"], self.get("group")
        if group is not None:
            lines += _group_words(group)
        lines += [f"  row       {_row_words(row)}" for row in self["rows"]]
        lines += [f"  left by   {_change_words(change)}" for change in self.get("changes", ())]
        lines += [
            f"  round     {round_['number']}, now() {round_['now']}, version {round_['version']}, {round_['time_zone']}",
            f"  result    {json.dumps(self['result'], ensure_ascii=False)}",
            f"  {self['checksum']}",
        ]
        return "\n".join(lines)


def receipt(engine: OpenEngine, result: str | Result) -> Receipt:
    """The receipt of a result, or of the one with this id.

    Raises UnknownNameError if there is no such result, ReceiptError if its row is gone.
    """
    rounds = engine.rounds
    number, arrival, query_id = _place(result)
    committed, part = _result(rounds, number, arrival, query_id)
    round_ = committed.round
    with rounds.lock:
        rounds.check_open()
        query = query_at(home_of(rounds).database, query_id, round_.version)
    if query is None or query.generation != int(part.generations[0]):
        raise ReceiptError(
            f"what query {query_id} was in round {number} is no longer known",
            hint="[engine.retention] sets how long earlier versions are retained (docs/pipeline.md).",
        )
    with rounds.lock:
        written = written_out(rounds, query, round_.version)
    groups = None
    if aggregating_query(written) is not None:
        groups = GroupReceipts(rounds, written, committed, results_in(rounds, number))
    return receipt_of(rounds, query, written, committed, part, groups)


def receipt_of(
    rounds: RoundEngine,
    query: StoredQuery,
    written: WrittenOut,
    committed: CommittedRound,
    part: StoredPart,
    groups: GroupReceipts | None = None,
) -> Receipt:
    """The receipt of the one result of a part; `groups` if it is of aggregates. Raises ReceiptError if its rows are gone."""
    round_ = committed.round
    number, arrival = round_.number, int(part.arrivals[0])
    change = change_names(part.signs[:1])[0]
    body = {
        "format": FORMAT,
        "id": f"{number}-{arrival}-{query.id}",
        "query": query.name or f"q{query.id}",
        "query_id": query.id,
        "generation": query.generation,
        "version": query.version,
        "owner": query.properties.owner,
        "text": query.text,
        "params": _params(params_of(query)),
        "properties": {
            name: list(v) if isinstance(v, tuple) else v for name, v in stated(query.properties).items()
        },
        "functions": [
            {"name": f.name, "version": f.version, "is_deterministic": f.is_deterministic}
            for f in functions_of(written)
        ],
        "round": {
            "number": number,
            "now": iso_time(round_.now_us),
            "now_us": round_.now_us,
            "version": round_.version,
            "seed": round_.seed,
            "time_zone": rounds.time_zone,
        },
        "change": change,
        "is_late": bool(part.is_late[0]),
        "columns": schema_to_text(part.rows.schema),
        "result": rows_to_json(part.rows)[0],
    }
    if groups is None:
        body |= _rows_body(rounds, written, committed, part, arrival, str(body["id"]))
    else:
        body |= {"arrival": arrival} | groups.body(arrival, part, change)
    if written.view_texts:
        body["written_out"] = _written_out(written, query)
    if part.recorded is not None:
        body["recorded"] = recorded_calls(query.shape, part)
    return Receipt(body | {"checksum": checksum_of(body)})


def _rows_body(
    rounds: RoundEngine,
    written: WrittenOut,
    committed: CommittedRound,
    part: StoredPart,
    arrival: int,
    id_: str,
) -> dict[str, Any]:
    """What a receipt says of the rows of a result without aggregates."""
    round_ = committed.round
    found = Occurrences(rounds, written, committed)
    components = found.named(part.branch, _components(part), part.rows, int(part.signs[0]))
    rows = written.rows_of(part.branch, components)
    body: dict[str, Any] = {
        "format": UNION_FORMAT if written.is_union else JOIN_FORMAT if written.is_composed else FORMAT,
        "rows": joined_rows(rounds, written, round_, rows)
        if written.is_composed
        else [_own_row(rounds, written, round_, arrival)],
    }
    if written.is_composed:
        body["arrival"] = arrival
    if part.signs[0] < 0:
        body |= departure(rounds, round_, written, part.branch, components, found, id_)
    if written.is_union:
        body["part"] = written.part_words(part.branch, components)
        body["other_inputs"] = other_inputs(written, rows)
    return body


def _written_out(written: WrittenOut, query: StoredQuery) -> dict[str, Any]:
    """The text in which views are written out, the parameters of these, and where they stand in it."""
    own = params_of(query)
    return {
        "text": written.text,
        "params": _params({name: value for name, value in written.params.items() if name not in own}),
        "views": [{"name": view.name, "start": view.start, "end": view.end} for view in written.view_texts],
        **({"windows": list(written.windows)} if written.windows else {}),
    }


def _group_words(group: Mapping[str, Any]) -> list[str]:
    """The group of a receipt, and how many rows it had before the round and after it."""
    keys = json.dumps(group["keys"], ensure_ascii=False)
    lines = [f"  {'of row' if group['of'] == 'row' else group['of']:<9} {group.get('row', keys)}"]
    for name in ("before", "after"):
        moment = group[name]
        if moment is not None:
            n = len(moment["arrivals"])
            mark = "" if moment["watermark"] is None else f", watermark {moment['watermark']}"
            lines.append(f"  {name:<9} {n} row{'' if n == 1 else 's'}, now() {moment['now']}{mark}")
    return lines


def _row_words(row: Mapping[str, Any]) -> str:
    """A row of a receipt in a line."""
    name = row["stream"] if "alias" not in row else input_words(Input(row["alias"], row["stream"]))
    if row["row"] is None:
        return f"{name}: none that matches"
    text = f"{name} {row['arrival']}: {json.dumps(row['row'], ensure_ascii=False)}"
    return f"{text}, of round {row['round']}{_window_words(row)}" if "round" in row else text


def _change_words(change: Mapping[str, Any]) -> str:
    if change["is_delete"]:
        return f"{change['stream']} {change['arrival']}: a delete"
    return f"{change['stream']} {change['arrival']}: {json.dumps(change['row'], ensure_ascii=False)}"


def _window_words(row: Mapping[str, Any]) -> str:
    name = row["stream"]
    window = row.get("window")
    if window is None:
        return ""
    if "n_rows" in window:
        n, most = window["n_behind_at_most"], window["n_rows"]
        return f", at most {n:,} later row{'' if n == 1 else 's'} of {name}, among the newest {most:,}"
    return f", {duration_text(window['age_us'])} old, of less than {duration_text(window['duration_us'])}"


def _own_row(rounds: RoundEngine, written: WrittenOut, round_: Round, arrival: int) -> dict[str, Any]:
    stream, row, *_ = RoundInputs(rounds, round_).row(arrival)
    return {
        "stream": stream,
        "arrival": arrival,
        "columns": schema_to_text(row.schema),
        "seen": columns_seen(written.inputs[0], row.schema),
        "row": rows_to_json(row)[0],
    }


def _components(part: StoredPart) -> list[int]:
    """The numbers of the rows that a result is made of; without any its own, which is that of its row."""
    return [int(number) for number in (part.arrivals[:1] if part.components is None else part.components[0])]


def joined_rows(
    rounds: RoundEngine,
    written: WrittenOut,
    round_: Round,
    rows: Sequence[ResultRow],
    known: ComponentRows | None = None,
) -> list[dict[str, Any]]:
    """The rows a result of a join or table is made of, one for each stream in the order of the text: its row is None where an
    outer join found none. Raises ReceiptError if one is no longer kept."""
    known = known or ComponentRows(rounds)
    latest = max(each.arrival for each in rows)
    found: dict[int, dict[str, Any]] = {}
    for number, entry, arrival in ((each.number, each.entry, each.arrival) for each in rows):
        if arrival == NO_ROW:
            found[number] = _missing_row(entry)
            continue
        came, (_, row, *_) = known.row(arrival)
        facts: dict[str, Any] = {
            "alias": entry.alias,
            "stream": entry.stream.name,
            "arrival": arrival,
            "round": came.number,
            "columns": schema_to_text(row.schema),
            "seen": columns_seen(entry, row.schema),
            "row": rows_to_json(row)[0],
        }
        window = entry.window
        if window is not None and window.duration_us is not None:
            facts["window"] = {"duration_us": window.duration_us, "age_us": round_.now_us - came.now_us}
        elif window is not None:
            facts["window"] = {
                "n_rows": window.n_rows,
                "n_behind_at_most": known.n_between(entry.stream.name, arrival, latest),
            }
        found[number] = facts
    for numbers, window in written.view_windows:
        of_view = [found[number] for number in numbers if number in found]
        if of_view:
            _add_view_window(known, round_, of_view, window)
    return list(found.values())


def other_inputs(written: WrittenOut, rows: Sequence[ResultRow]) -> list[dict[str, Any]]:
    """The inputs that other parts of a union read, as a receipt has them, each with its number among all of the text."""
    numbers = {each.number for each in rows}
    others = [(number, entry) for number, entry in enumerate(written.inputs) if number not in numbers]
    return [{"number": number, **_missing_row(entry)} for number, entry in others]


def _add_view_window(
    known: ComponentRows, round_: Round, rows: Sequence[dict[str, Any]], window: Window
) -> None:
    """The window of recent(view, …): a row of a view is as old as the latest row it is made of."""
    latest = max(rows, key=lambda row: row["arrival"] or NO_ROW)
    if latest["arrival"] is not None and window.duration_us is not None:
        came, _ = known.row(latest["arrival"])
        latest["window"] = {"duration_us": window.duration_us, "age_us": round_.now_us - came.now_us}


def _missing_row(entry: BaseInput) -> dict[str, Any]:
    schema = entry.stream.schema
    return {
        "alias": entry.alias,
        "stream": entry.stream.name,
        "arrival": None,
        "columns": schema_to_text(schema),
        "seen": columns_seen(entry, schema),
        "row": None,
    }


def _place(result: str | Result) -> tuple[int, int, int]:
    if isinstance(result, Result):
        return result.round_number, result.arrival, result.query_id
    parts = result.split("-")
    if len(parts) != 3 or not all(p.isascii() and p.isdigit() and len(p) <= 18 for p in parts):
        raise PropertyError(
            f"{result[:60]!r} is not the id of a result",
            hint="It is the cursor that eddyline tail --json shows, such as 12-345-6: round, row, query.",
        )
    number, arrival, query_id = map(int, parts)
    return number, arrival, query_id


def _result(
    rounds: RoundEngine, number: int, arrival: int, query_id: int
) -> tuple[CommittedRound, StoredPart]:
    """The round, and the one result in it."""
    durable = home_of(rounds)
    with rounds.lock:
        rounds.check_open()
        committed = durable.rounds.get(number)
        files = durable.rounds.files.of_round(OUTBOX, number)
        last = rounds.last_round
    if number > last or number < 1:
        raise UnknownNameError(
            f"there is no result {number}-{arrival}-{query_id}", hint=f"The last round was {last}."
        )
    if committed is None or (committed.n_results and not files):
        age_us, nbytes = durable.retention.of(OUTBOX)
        raise UnknownNameError(
            f"the results of round {number} are past retention",
            detail=f"Results are retained for {age_us / _DAY_US:g} days, up to {nbytes / (1 << 30):g} GiB.",
            hint="Change it with [engine.retention] (docs/pipeline.md).",
        )
    for file in files:
        for part in durable.parts(file):
            found = np.flatnonzero((part.query_ids == query_id) & (part.arrivals == arrival))
            if len(found):
                return committed, part.narrow_copy(found[:1])
    damaged = [file.name for file in files if file.name in durable.damaged]
    raise UnknownNameError(
        f"round {number} has no result of query {query_id} for row {arrival}",
        detail=f"But {', '.join(damaged)} of the home cannot be read." if damaged else None,
        hint="eddyline tail --json shows ids of results as cursor.",
    )


def functions_of(written: WrittenOut) -> tuple[FunctionVersion, ...]:
    """The users' functions that a query and the views it reads call."""
    shapes = [branch for query in written.queries for branch in query.shape.all_branches]
    nodes = (node for shape in shapes for e in shape.expressions() for node in e.walk())
    unsteady = {
        (node.function, node.version)
        for node in nodes
        if isinstance(node, UserCall) and not node.is_deterministic
    }
    called = dict.fromkeys(each for shape in shapes for each in shape.functions)
    return tuple(FunctionVersion(name, version, (name, version) not in unsteady) for name, version in called)


def _params(values: Mapping[str, pa.Scalar]) -> dict[str, dict[str, Any]]:
    return {name: {"type": type_name(value.type), "value": to_json(value)} for name, value in values.items()}


# --------------------------------------------------------------------------------------------- proving


def prove(
    receipt: Mapping[str, Any],
    *,
    spark: Any = None,
    find_function: Callable[[str, str], UserFunction | None] | None = None,
    on_wait: Callable[[str], None] | None = None,
) -> Proof:
    """Let Spark judge a receipt; without PySpark DuckDB, if it may. Raises ProofError if neither can, with what to install."""
    if spark is None and not is_installed():
        return _prove_plainly(receipt)
    return prove_in_spark(receipt, session=spark, find_function=find_function, on_wait=on_wait)


def _prove_plainly(receipt: Mapping[str, Any]) -> Proof:
    began = time.perf_counter()
    claim = claim_of(receipt)
    try:
        judge = DuckDbJudge()
        try:
            found = judge.finding(claim)
            proof = proof_of(str(receipt["id"]), claim, found, time.perf_counter() - began)
            return departure_proof(proof, receipt, judge)
        finally:
            judge.close()
    except (ProofError, JudgeStopped) as error:
        reason = error.problem if isinstance(error, ProofError) else str(error)
        raise ProofError(
            "there is no Spark to prove it with",
            detail=f"PySpark is not installed, and {reason}.",
            hint="pip install 'eddyline[spark]'",
        ) from None
