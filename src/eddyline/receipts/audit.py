"""The audit: a share of all rounds is evaluated a second time, by another engine, while the rounds go on.

Of a round that is chosen, all rows are put before up to `QUERIES` queries: half of them, if there are so many, had results in it,
the others were active and had none. Which rounds and which queries follows from the home's id and the round's number, so that
another run chooses the same. Of joins and tables, which need rows of other rounds too, some of the results are put before the
judge, each over the rows it is made of; those that should be there and are not go unnoticed, as do rows that leave a table. Of a
union each part is judged by itself (`round_claims`). Of aggregates some results are judged, each over the rows of its group. A
judge is given the user's text, in which the views it reads are written out, and the rows: Spark in the session this process runs
on, else DuckDB for texts it may judge. It must find the same rows, with the same values.
What differs is counted, announced, and an alert by itself: a message of `eddyline.audit`.

It works in a thread of its own. Rounds do not wait for it; if it falls behind, rounds that would have been looked at are passed
over, and counted.
"""

from __future__ import annotations

import hashlib
import logging
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.catalog import Catalog, CommittedRound, ListedFile, StoredQuery, query_at
from eddyline.engine import OpenEngine, RoundInputs, home_of
from eddyline.errors import EddylineError, NotBuiltError, ProofError, ReceiptError
from eddyline.events import AuditDifference, Event, RoundCommitted
from eddyline.model import QueryState, ViewRelation
from eddyline.proof import (
    AuditCounters,
    Claim,
    ClaimDifference,
    DuckDbJudge,
    JudgeFinding,
    JudgeStopped,
    claim_difference,
    claim_of,
    group_proof,
    proof_of,
)
from eddyline.receipts.expansion import WrittenOut, written_out
from eddyline.receipts.group_receipts import GroupReceipts, UnmadeResult, aggregating_query, results_in
from eddyline.receipts.receipts import functions_of, receipt_of
from eddyline.receipts.round_claims import JOINED, RoundClaims, RoundResult, round_results
from eddyline.runtime import home_id
from eddyline.spark import SparkJudge, running_session
from eddyline.storage import DEAD_LETTERS, OUTBOX, StoredPart

QUERIES = 20  # of a round: a query takes Spark about a tenth of a second, DuckDB some milliseconds
WAITING = 16  # rounds; more are passed over
MOST_REASONS = 50  # counted one by one
NAME = "eddyline.audit"  # logger of differences
CLOSE_S = 30.0  # the judge may be at work

_logger = logging.getLogger("eddyline")


class _Judge(Protocol):
    def finding(self, claim: Claim) -> JudgeFinding: ...


class _Skipped(EddylineError):
    """A round that is not judged, and why."""


@dataclass(slots=True)
class _Chosen:
    """A query of a round, its results there, and the rows it could not decide."""

    query: StoredQuery
    written: WrittenOut
    matches: npt.NDArray[np.int64]  # of one stream: the rows that are results
    results: pa.Table
    composed: list[RoundResult]  # of a join, table, union or aggregate instead of these
    undecided: npt.NDArray[np.int64]

    @property
    def is_of_rows(self) -> bool:
        """Whether a single row of one stream makes a result, so that all rows can be put before a judge."""
        return _is_of_rows(self.written)


class Audit:
    """Judges a share of the rounds of an engine with a home, until it is closed."""

    def __init__(self, engine: OpenEngine, share: float) -> None:
        self._rounds = engine.rounds
        self._durable = home_of(engine.rounds)
        self._home = home_id(engine.rounds)
        self._counters = AuditCounters(share)
        self._waiting: deque[int] = deque()
        self._changed = threading.Condition()
        self._is_busy = False
        self._is_closed = False
        self._duckdb: DuckDbJudge | None = None
        engine.rounds.listen(self._on_event)
        self._thread = threading.Thread(target=self._run, name="eddyline-audit", daemon=True)
        self._thread.start()

    @property
    def counters(self) -> AuditCounters:
        """A copy of what was counted so far."""
        with self._changed:
            return replace(self._counters, skipped=dict(self._counters.skipped))

    def chooses(self, round_number: int) -> bool:
        """Whether a round is to be judged."""
        return self._number(round_number) / (1 << 64) < self._counters.share

    def drain(self, timeout_s: float | None = None) -> bool:
        """Wait until every round that was chosen has been judged; False if that takes longer."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting and not self._is_busy, timeout_s)

    def close(self) -> None:
        """End after the round that is being judged."""
        with self._changed:
            self._is_closed = True
            self._waiting.clear()
            self._changed.notify_all()
        if self._thread is not threading.current_thread():
            self._thread.join(CLOSE_S)

    def _number(self, round_number: int) -> int:
        digest = hashlib.sha256(f"{self._home} {round_number}".encode()).digest()
        return int.from_bytes(digest[:8], "big")

    def _on_event(self, event: Event) -> None:
        """Queue a chosen round for the audit. Called while the engine's lock is held."""
        if isinstance(event, RoundCommitted) and event.n_rows and self.chooses(event.round_number):
            with self._changed:
                if self._is_closed:
                    return
                if len(self._waiting) >= WAITING:
                    self._skip("the audit is behind")
                    return
                self._waiting.append(event.round_number)
                self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._is_busy = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: bool(self._waiting) or self._is_closed)
                if self._is_closed:
                    break
                number = self._waiting.popleft()
                self._is_busy = True
            try:
                self.judge(number)
            except EddylineError as error:
                self._skip(error.problem)
            except (
                Exception
            ) as error:  # the audit must not end because of one round: it is counted and logged
                self._skip(f"the audit failed: {type(error).__name__}")
                _logger.warning("eddyline: the audit of round %d failed", number, exc_info=True)
        if self._duckdb is not None:
            self._duckdb.close()

    # ----------------------------------------------------------------------------------------- one round

    def judge(self, number: int) -> None:
        """Judge a round now, chosen or not, and count what comes of it. Raises EddylineError if its rows are gone."""
        with self._rounds.lock:
            self._rounds.check_open()
            log = self._durable.rounds
            committed = log.get(number)
            outbox, dead = log.files.of_round(OUTBOX, number), log.files.of_round(DEAD_LETTERS, number)
        if committed is None:
            raise _Skipped("the round is forgotten")
        judge = self._new_judge()
        letters = self._undecided(committed, dead)
        chosen = list(self._chosen(committed, outbox, letters))
        outcomes: dict[int, list[ClaimDifference]] = {each.query.id: [] for each in chosen}
        refused = self._unsteady(chosen)
        for each in chosen:
            is_judged = each.is_of_rows or each.query.id in refused
            if not is_judged and not self._judge_composed(judge, committed, each, outcomes[each.query.id]):
                refused.add(each.query.id)
        for batch in RoundInputs(self._rounds, committed.round):
            for each in chosen:
                same_stream = each.written.inputs[0].stream.name.lower() == batch.stream.lower()
                if each.is_of_rows and same_stream and each.query.id not in refused:
                    claims = RoundClaims(self._rounds, committed, each.written)
                    try:
                        claim = claims.of_rows(batch, each.matches, each.results, each.undecided)
                        outcomes[each.query.id].append(claim_difference(claim, judge.finding(claim)))
                    except (ProofError, JudgeStopped) as error:
                        refused.add(each.query.id)
                        self._skip(_reason(judge, error))
        for each in chosen:
            if each.query.id not in refused and outcomes[each.query.id]:
                self._count(committed, each.query, outcomes[each.query.id])
        with self._changed:
            self._counters = replace(self._counters, n_rounds=self._counters.n_rounds + 1)

    def _new_judge(self) -> _Judge:
        session = running_session()
        if session is not None:
            return SparkJudge(session, self._rounds.functions.find)
        if self._duckdb is None:
            try:
                self._duckdb = DuckDbJudge()
            except ProofError:
                raise _Skipped("there is no Spark session, and DuckDB is not installed") from None
        return self._duckdb

    def _judge_composed(
        self, judge: _Judge, committed: CommittedRound, each: _Chosen, outcomes: list[ClaimDifference]
    ) -> bool:
        """Results that are made of several rows, or of one of several parts; False if they cannot be judged."""
        rng = np.random.default_rng([self._number(committed.round.number), each.query.id])
        claims = RoundClaims(self._rounds, committed, each.written)
        if aggregating_query(each.written) is not None:
            return self._judge_groups(judge, committed, each, outcomes, rng)
        try:
            made = (
                claims.of_union(each.composed, each.undecided, rng)
                if each.written.is_union
                else claims.of_results(each.composed, rng)
            )
            outcomes += [claim_difference(claim, judge.finding(claim)) for claim in made]
        except ReceiptError as error:
            self._skip(f"a join or table whose rows were removed: {error.problem}")
            return False
        except (ProofError, JudgeStopped) as error:
            self._skip(_reason(judge, error))
            return False
        return True

    def _judge_groups(
        self,
        judge: _Judge,
        committed: CommittedRound,
        each: _Chosen,
        outcomes: list[ClaimDifference],
        rng: np.random.Generator,
    ) -> bool:
        """Some results of aggregates, each over the rows of its group; False if they cannot be judged."""
        n = len(each.composed)
        try:
            groups = GroupReceipts(
                self._rounds, each.written, committed, results_in(self._rounds, committed.round.number)
            )
            for at in np.sort(rng.choice(n, min(n, JOINED), replace=False)).tolist():
                result = each.composed[at]
                part = result.part.narrow_copy(np.array([result.at]))
                try:
                    receipt = receipt_of(self._rounds, each.query, each.written, committed, part, groups)
                except UnmadeResult as error:
                    outcomes.append(
                        ClaimDifference(1, unexpected=(result.number,), examples=(f"{error.problem}.",))
                    )
                    continue
                try:
                    claim = claim_of(receipt)
                except ProofError as error:  # no judge can
                    self._skip(error.problem)
                    return False
                proof = group_proof(proof_of(receipt["id"], claim, judge.finding(claim), 0.0), receipt, judge)
                wrong = () if proof.is_proven else (result.number,)
                outcomes.append(ClaimDifference(1, different=wrong, examples=(proof.note,) if wrong else ()))
        except ReceiptError:
            self._skip("an aggregate whose rows are not all retained")
            return False
        except NotBuiltError as error:
            self._skip(error.problem)
            return False
        except (ProofError, JudgeStopped) as error:
            self._skip(_reason(judge, error))
            return False
        return True

    def _unsteady(self, chosen: Iterable[_Chosen]) -> set[int]:
        """Queries that cannot be judged on all rows, because they call functions that are not deterministic."""
        found = set()
        for each in chosen:
            names = [called.name for called in functions_of(each.written) if not called.is_deterministic]
            if names:
                found.add(each.query.id)
                self._skip(
                    f"function {names[0]} is not deterministic, and what it gave is stored with results only"
                )
        return found

    def _undecided(
        self, committed: CommittedRound, files: Iterable[ListedFile]
    ) -> dict[int, npt.NDArray[np.int64]]:
        """Rows that are dead letters, by query."""
        letters = [letter for file in files for letter in self._durable.dead_letters(file)]
        if len(letters) < committed.n_dead:
            raise _Skipped("not all dead letters of the round are stored")
        found: dict[int, list[int]] = {}
        for letter in letters:
            if letter.query_id is not None and letter.arrival is not None:
                found.setdefault(letter.query_id, []).append(letter.arrival)
        return {query_id: np.array(sorted(rows), np.int64) for query_id, rows in found.items()}

    def _chosen(
        self,
        committed: CommittedRound,
        outbox: Iterable[ListedFile],
        letters: Mapping[int, npt.NDArray[np.int64]],
    ) -> Iterator[_Chosen]:
        """Queries to be judged: half of them with results in the round, if there are so many, and others that were active."""
        parts = [part for file in outbox for part in self._durable.parts(file)]
        matched = np.unique(np.concatenate([np.empty(0, np.int32), *(part.query_ids for part in parts)]))
        rng = np.random.default_rng(self._number(committed.round.number))
        with self._rounds.lock:
            self._rounds.check_open()
            catalog = self._rounds.catalog
            streams = [name for name, n in committed.round.n_rows.items() if n and catalog.find_stream(name)]
            views = [view.name for view in catalog.views.relations if _has_rows_of(catalog, view, streams)]
            plans = [catalog.plan(name).with_branches for name in (*streams, *views)]
            live_ids = [s.query_ids[s.is_live] for plan in plans for s in plan.segments]
            others = np.setdiff1d(np.concatenate([np.empty(0, np.int32), *live_ids]), matched)
            n_others = min(len(others), max(QUERIES // 2, QUERIES - len(matched)))
            ids = np.concatenate(
                [
                    rng.permutation(matched)[: QUERIES - n_others],
                    rng.choice(others, n_others, replace=False) if n_others else others,
                ]
            )
            queries = [
                query_at(self._durable.database, int(i), committed.round.version) for i in np.sort(ids)
            ]
        for query in queries:
            if query is None or query.state is not QueryState.RUNNING:
                continue  # one that has come since, say
            try:
                with self._rounds.lock:
                    written = written_out(self._rounds, query, committed.round.version)
            except (NotBuiltError, ProofError, ReceiptError) as error:
                self._skip(error.problem)
                continue
            if any(view.state is QueryState.SUSPENDED for view in written.views):
                self._skip("a query that reads a suspended view")
                continue
            undecided = [letters.get(each.id, np.empty(0, np.int64)) for each in written.queries]
            is_of_rows = _is_of_rows(written)
            composed = [] if is_of_rows else round_results(parts, query)
            matches, results = _results_of(parts if is_of_rows else [], query)
            yield _Chosen(query, written, matches, results, composed, np.concatenate(undecided))

    # ----------------------------------------------------------------------------------------- what came of it

    def _count(self, committed: CommittedRound, query: StoredQuery, outcomes: list[ClaimDifference]) -> None:
        n_differences = sum(outcome.n_differences for outcome in outcomes)
        with self._changed:
            counters = self._counters
            self._counters = replace(
                counters,
                n_queries=counters.n_queries + 1,
                n_pairs=counters.n_pairs + sum(outcome.n_pairs for outcome in outcomes),
                n_differences=counters.n_differences + n_differences,
            )
        if n_differences:
            self._tell(committed.round.number, query, outcomes)

    def _tell(self, number: int, query: StoredQuery, outcomes: list[ClaimDifference]) -> None:
        examples = [example for outcome in outcomes for example in outcome.examples]
        event = AuditDifference(
            number,
            query=query.name or f"q{query.id}",
            query_id=query.id,
            generation=query.generation,
            n_missing=sum(len(outcome.missing) for outcome in outcomes),
            n_unexpected=sum(len(outcome.unexpected) for outcome in outcomes),
            n_different=sum(len(outcome.different) for outcome in outcomes),
            example=examples[0] if examples else "",
        )
        n = event.n_missing + event.n_unexpected + event.n_different
        text = (
            f"round {number}: {n} results of {event.query} are not what another engine finds. {event.example}"
        )
        row: dict[str, Any] = {
            "round": number,
            "query": event.query,
            "query_id": query.id,
            "n_missing": event.n_missing,
            "n_unexpected": event.n_unexpected,
            "n_different": event.n_different,
        }
        self._rounds.tell(event)
        self._rounds.say(NAME, text.strip(), row=row, severity="critical")

    def _skip(self, reason: str) -> None:
        with self._changed:
            skipped = dict(self._counters.skipped)
            if reason not in skipped and len(skipped) >= MOST_REASONS:
                reason = "other reasons"
            skipped[reason] = skipped.get(reason, 0) + 1
            self._counters = replace(self._counters, skipped=skipped)


def _is_of_rows(written: WrittenOut) -> bool:
    return not written.is_composed and aggregating_query(written) is None


def _has_rows_of(catalog: Catalog, view: ViewRelation, streams: Iterable[str]) -> bool:
    """Whether a row of a view may be made of one row of these streams."""
    is_plain = not view.is_table and _may_be_of_one_row(catalog, view)
    return is_plain and not catalog.views.base_streams(view.name).isdisjoint(map(str.lower, streams))


def _may_be_of_one_row(catalog: Catalog, view: ViewRelation) -> bool:
    """Whether some part of a view joins nothing, nor does a view it reads."""
    inputs = (feed.shape.inputs[0].stream for feed in view.feeds if feed.shape.join is None)
    below = (catalog.views.find(name) for name in inputs)
    return any(each is None or _may_be_of_one_row(catalog, each) for each in below)


def _results_of(parts: Iterable[StoredPart], query: StoredQuery) -> tuple[npt.NDArray[np.int64], pa.Table]:
    """Rows that match a query over one stream in a round, ascending, and its results."""
    arrivals, rows = [np.empty(0, np.int64)], []
    for part in parts:
        pairs = np.flatnonzero(part.query_ids == query.id)
        if len(pairs):
            arrivals.append(part.arrivals[pairs])
            rows.append(part.project(pairs))
    together = np.concatenate(arrivals)
    table = pa.Table.from_batches(rows, query.shape.output if not rows else None)
    order = np.argsort(together, kind="stable")
    return together[order], table.take(pa.array(order))


def _reason(judge: _Judge, error: ProofError | JudgeStopped) -> str:
    if isinstance(error, JudgeStopped):
        return "the judge stops at an error"
    return "DuckDB may not judge the text" if isinstance(judge, DuckDbJudge) else error.problem
