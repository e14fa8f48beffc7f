"""What results claim, and how a claim is compared with what a judge finds.

A claim says: of these rows of a stream, this text gives exactly these results. A judge is given the rows and the text, never the
results. A receipt is the claim of one result over its one row, as JSON; the audit makes claims over all rows of a round. A claim
about a join is one result over the rows it is made of, a table of one row for each input.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.errors import ProofError
from eddyline.proof.values import (
    comparable,
    from_json,
    is_same,
    rows_from_json,
    rows_to_json,
    same_type,
    schema_from_text,
    type_from,
)
from eddyline.proof.words import words_of
from eddyline.types import FLOAT, type_name

# Functions whose last digits the mathematical libraries of Java and C choose differently (docs/sql.md), and by how much.
LAST_DIGITS = 3
# Sums of DOUBLE depend on the order in which they are added: engines may differ from the ninth digit on, as vectors of them do.
SUM_DIGITS = 1 << 22
_TRANSCENDENTAL = frozenset(
    [
        *["exp", "expm1", "ln", "log", "log10", "log2", "log1p", "pow", "power", "cbrt", "hypot"],
        *["sin", "cos", "tan", "cot", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh"],
    ]
)
_APPROXIMATE = frozenset(["approx_count_distinct", "approx_percentile", "percentile_approx"])
EXAMPLES = 3  # of differences that are reported


class JudgeStopped(Exception):
    """A judge stops with an error where eddyline decides: one bad row, and it has nothing to say about the others."""


@dataclass(frozen=True, slots=True)
class FunctionVersion:
    """A user's function that a text calls."""

    name: str
    version: str
    is_deterministic: bool = True


@dataclass(frozen=True, slots=True)
class RecordedValue:
    """What a function that is not deterministic gave: `call` counts the calls of such functions in the text, from 1."""

    function: str
    version: str
    call: int
    type: pa.DataType
    value: Any


@dataclass(frozen=True, slots=True)
class InputRows:
    """The row of one input of a join, as a table; without rows where an outer join found none, or another part of a union
    gave the result."""

    alias: str
    stream: str
    rows: pa.Table
    arrival: int | None
    is_of_other_part: bool = False


@dataclass(frozen=True, slots=True)
class GroupClaim:
    """What tells the result of a group or frame apart from others that a text gives of its rows."""

    arrivals: npt.NDArray[np.int64]  # of the rows
    row: int | None = None  # of OVER: the number of the row whose result it is
    sliding: tuple[int, int] | None = None  # start and size in microseconds, of a window that others overlap


@dataclass(frozen=True, slots=True)
class Claim:
    """Of `rows`, numbered by `arrivals`, `text` gives `results`, which come of the rows `matches`, in that order."""

    text: str
    params: Mapping[str, tuple[pa.DataType, Any]]  # by name: type and value; a list for the values of IN
    stream: str
    rows: pa.Table
    arrivals: npt.NDArray[np.int64]  # ascending
    now_us: int
    time_zone: str
    functions: tuple[FunctionVersion, ...]
    matches: npt.NDArray[np.int64]  # ascending
    results: pa.Table
    recorded_values: tuple[RecordedValue, ...] = ()  # on its one row
    inputs: tuple[
        InputRows, ...
    ] = ()  # a join: its inputs as they stand in the text; `rows` then has no columns
    group: GroupClaim | None = None  # the text has aggregates, and its one input all rows of a group

    @property
    def column_names(self) -> frozenset[str]:
        """Of all rows, in lower case."""
        tables = (self.rows, *(entry.rows for entry in self.inputs))
        return frozenset(name.lower() for table in tables for name in table.schema.names)

    def row_label(self, arrival: int) -> str:
        """What messages call a row; of a join, the rows it is made of; of a group, all of them."""
        if self.group is not None:
            return f"The {len(self.group.arrivals):,} rows of the group"
        numbers = [str(entry.arrival) for entry in self.inputs if entry.arrival is not None]
        return f"Rows {', '.join(numbers)}" if numbers else f"Row {arrival}"

    def without(self, arrivals: npt.NDArray[np.int64]) -> Claim:
        """The same claim about the other rows."""
        keeps = ~np.isin(self.arrivals, arrivals)
        kept_results = ~np.isin(self.matches, arrivals)
        return replace(
            self,
            rows=self.rows.filter(pa.array(keeps)),
            arrivals=self.arrivals[keeps],
            matches=self.matches[kept_results],
            results=self.results.filter(pa.array(kept_results)),
        )


@dataclass(frozen=True, slots=True)
class JudgeFinding:
    """What a judge found: which rows match, and their results in that order."""

    matches: npt.NDArray[np.int64]
    results: pa.Table
    judge: str  # such as "Spark 4.3.0"
    text: str  # as it was run
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ClaimDifference:
    """Where a claim and a finding differ: rows by arrival number, and some of it in words."""

    n_pairs: int
    missing: tuple[int, ...] = ()  # the judge has them, the engine has not
    unexpected: tuple[int, ...] = ()  # the other way round, or the engine has them twice
    different: tuple[int, ...] = ()  # both have them, with other values
    examples: tuple[str, ...] = ()

    @property
    def n_differences(self) -> int:
        return len(self.missing) + len(self.unexpected) + len(self.different)


@dataclass(frozen=True, slots=True)
class Proof:
    """What became of proving one result. `expected` is the result as delivered, `found` what the judge makes of its row."""

    is_proven: bool
    expected: dict[str, Any]
    found: dict[str, Any] | None
    engine: str  # the judge
    seconds: float
    text: str  # as it was run
    note: str = ""
    result: str = field(default="", kw_only=True)  # its id

    def as_dict(self) -> dict[str, Any]:
        """The proof as JSON values."""
        return {
            "result": self.result,
            "is_proven": self.is_proven,
            "expected": self.expected,
            "found": self.found,
            "engine": self.engine,
            "seconds": round(self.seconds, 3),
            "text": self.text,
            "note": self.note,
        }

    def __str__(self) -> str:
        verdict = "proven" if self.is_proven else "NOT proven"
        lines = [f"{self.result}: {verdict} by {self.engine} in {self.seconds:.1f} s"]
        lines += [f"  run       {' '.join(self.text.split())}"]
        lines += [f"  result    {json.dumps(self.expected, ensure_ascii=False)}"]
        if not self.is_proven:
            found = "no result" if self.found is None else json.dumps(self.found, ensure_ascii=False)
            lines.append(f"  found     {found}")
        return "\n".join([*lines, *([f"  note      {self.note}"] if self.note else [])])


# --------------------------------------------------------------------------------------------- receipts


def checksum_of(receipt: Mapping[str, Any]) -> str:
    """SHA-256 of a receipt but for its checksum: as JSON with sorted keys, without spaces, in UTF-8."""
    body = {name: value for name, value in receipt.items() if name != "checksum"}
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def claim_of(receipt: Mapping[str, Any]) -> Claim:
    """The claim of a receipt. Raises ProofError if it is not what was issued."""
    if checksum_of(receipt) != receipt.get("checksum"):
        raise ProofError(
            f"the receipt of {receipt.get('id')} is not what was issued",
            detail="Its checksum does not fit what it says.",
            hint="Ask for it again: eddyline receipt ID.",
        )
    inputs: tuple[InputRows, ...] = ()
    written = receipt.get("written_out", {})  # of a query that reads views
    try:
        params = {
            name: (type_from(parameter["type"]), from_json(parameter["value"], type_from(parameter["type"])))
            for name, parameter in (receipt["params"] | written.get("params", {})).items()
        }
        tables = [] if "group" in receipt else [table_of(row) for row in receipt["rows"]]
        results = rows_from_json([receipt["result"]], schema_from_text(receipt["columns"]))
        recorded = tuple(_recorded_value(entry) for entry in receipt.get("recorded", ()))
    except ValueError as error:
        raise ProofError(f"result {receipt['id']} cannot be proven", detail=f"{error}.") from None
    if "arrival" in receipt:  # a join, table or group, which numbers its results itself
        stream, rows, number = "", no_columns(1), receipt["arrival"]
        inputs = () if "group" in receipt else claim_inputs(receipt["rows"], receipt.get("other_inputs", ()))
    else:
        stream, rows, number = receipt["rows"][0]["stream"], tables[0], receipt["rows"][0]["arrival"]
    arrivals = np.array([number], np.int64)
    claim = Claim(
        text=written.get("text", receipt["text"]),
        params=params,
        stream=stream,
        rows=rows,
        arrivals=arrivals,
        now_us=receipt["round"]["now_us"],
        time_zone=receipt["round"]["time_zone"],
        functions=tuple(FunctionVersion(**called) for called in receipt["functions"]),
        matches=arrivals,
        results=results,
        recorded_values=recorded,
        inputs=inputs,
    )
    has_left = receipt["change"] in ("delete", "update_preimage")
    return claim_at(claim, receipt, "before" if has_left else "after") if "group" in receipt else claim


def claim_at(claim: Claim, receipt: Mapping[str, Any], moment: str) -> Claim:
    """The claim of a receipt of a group, over the rows that the group had before the round, or after it."""
    for word in words_of(claim.text):
        if word.is_name and word.name.lower() in _APPROXIMATE:
            raise ProofError(
                f"{word.name} is an estimate, which every engine makes in its own way", text=claim.text
            )
    group, at = receipt["group"], receipt["group"][moment]
    has_row = set(at["arrivals"])
    mine = [row for row in receipt["rows"] if row["arrival"] in has_row]
    table = rows_from_json([row["row"] for row in mine], schema_from_text(group["columns"])).select(
        group["seen"]
    )
    sliding = group.get("sliding")
    return replace(
        claim,
        now_us=at["now_us"],
        inputs=(InputRows(group["stream"], group["stream"], table, receipt["arrival"]),),
        group=GroupClaim(
            np.array([row["arrival"] for row in mine], np.int64),
            group.get("row"),
            None if sliding is None else (sliding["start_us"], sliding["size_us"]),
        ),
    )


def claim_inputs(
    rows: Sequence[Mapping[str, Any]], others: Sequence[Mapping[str, Any]] = ()
) -> tuple[InputRows, ...]:
    """The inputs of a text in its order, as a receipt has them: those with rows of the result, and those of other parts."""
    inputs = [InputRows(row["alias"], row["stream"], table_of(row), row["arrival"]) for row in rows]
    for row in others:
        other = InputRows(row["alias"], row["stream"], table_of(row), None, is_of_other_part=True)
        inputs.insert(row["number"], other)
    return tuple(inputs)


def table_of(row: Mapping[str, Any]) -> pa.Table:
    """The row of an entry of a receipt, or no row, in the columns that the query knows of."""
    rows = [] if row["row"] is None else [row["row"]]
    return rows_from_json(rows, schema_from_text(row["columns"])).select(row["seen"])


def no_columns(n_rows: int) -> pa.Table:
    """Rows that have no columns."""
    return pa.table({"": pa.nulls(n_rows)}).select([])


def _recorded_value(entry: Mapping[str, Any]) -> RecordedValue:
    t = type_from(entry["type"])
    return RecordedValue(entry["function"], entry["version"], entry["call"], t, from_json(entry["value"], t))


def proof_of(result_id: str, claim: Claim, found: JudgeFinding, seconds: float) -> Proof:
    """What a finding about the one row of a receipt means for its result."""
    outcome = claim_difference(claim, found)
    notes = [*found.notes, *outcome.examples]
    if outcome.n_differences:
        notes.append('What differs on purpose is listed in docs/sql.md, "Where it differs from Spark".')
    return Proof(
        is_proven=not outcome.n_differences,
        expected=rows_to_json(claim.results)[0],
        found=rows_to_json(_named_as(found.results, claim.results.schema))[0] if len(found.matches) else None,
        engine=found.judge,
        seconds=seconds,
        text=found.text,
        note=" ".join(notes),
        result=result_id,
    )


def _named_as(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows of a judge, which names columns its own way; what it names otherwise only in number stays as it is."""
    return rows.rename_columns(schema.names) if rows.num_columns == len(schema.names) else rows


# --------------------------------------------------------------------------------------------- comparing


def claim_difference(claim: Claim, found: JudgeFinding) -> ClaimDifference:
    """Where the two differ. Columns are compared by their place: engines call unnamed ones differently."""
    missing = np.setdiff1d(found.matches, claim.matches)
    twice = np.unique(claim.matches[1:][np.diff(claim.matches) == 0])
    unexpected = np.setdiff1d(claim.matches, found.matches)
    shared = np.intersect1d(claim.matches, found.matches)
    called = claim.row_label
    do, have = ("do", "have") if claim.inputs else ("does", "has")
    examples = [
        f"{called(arrival)} {'match' if claim.inputs else 'matches'} and {have} no result."
        for arrival in missing[:EXAMPLES].tolist()
    ]
    examples += [f"{called(arrival)} {do} not match." for arrival in unexpected[:EXAMPLES].tolist()]
    examples += [
        f"{called(arrival)} {have} a result more than once." for arrival in twice[:EXAMPLES].tolist()
    ]
    wrong_type = _type_difference(claim.results.schema, found.results.schema)
    if wrong_type is not None and len(shared):
        different = shared.tolist()
        examples.append(wrong_type)
    else:
        ours = claim.results.take(pa.array(np.searchsorted(claim.matches, shared)))
        theirs = found.results.take(pa.array(np.searchsorted(found.matches, shared)))
        differences = _value_differences(ours, theirs, _ulps(claim))
        different = [int(shared[at]) for at in differences]
        examples += [
            f"{called(int(shared[at]))}: {difference}."
            for at, difference in list(differences.items())[:EXAMPLES]
        ]
    return ClaimDifference(
        len(claim.arrivals),
        tuple(missing.tolist()),
        tuple(np.concatenate([unexpected, twice]).tolist()),
        tuple(different),
        tuple(examples),
    )


def _type_difference(ours: pa.Schema, theirs: pa.Schema) -> str | None:
    if len(ours) != len(theirs):
        return f"It has {len(theirs)} columns, the result has {len(ours)}."
    for mine, other in zip(ours, theirs, strict=True):
        if not same_type(mine.type, other.type):
            return f"Column {mine.name} is {type_name(other.type)}, in the result {type_name(mine.type)}."
    return None


def _value_differences(ours: pa.Table, theirs: pa.Table, ulps: int) -> dict[int, str]:
    """By row, what is not the same in its first column that differs."""
    differences: dict[int, str] = {}
    for k, name in enumerate(ours.schema.names):
        is_single = ours.schema.field(k).type == FLOAT
        pairs = zip(comparable(ours.column(k)), comparable(theirs.column(k)), strict=True)
        for at, (mine, other) in enumerate(pairs):
            if at not in differences and not is_same(mine, other, ulps=ulps, is_single=is_single):
                differences[at] = f"{name} is {other!r}, in the result {mine!r}"
    return dict(sorted(differences.items()))


def _ulps(claim: Claim) -> int:
    """By how many steps floating numbers may differ: those of functions that every library computes a little differently, and
    those of aggregates."""
    if claim.group is not None:
        return SUM_DIGITS
    words: Sequence[str] = [word.text.lower() for word in words_of(claim.text)]
    called = {word for word, after in itertools.pairwise(words) if after == "("}
    return LAST_DIGITS if called & _TRANSCENDENTAL else 0
